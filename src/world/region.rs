//! What a thread itself does about being stopped: safepoints, blocking regions, and showing its own stack.
//!
//! None of these is interrupted by a signal, so no signal frame holds the registers: each pushes the callee-saved ones
//! and publishes the stack pointer below them (`.stop.registers`, `.stop.own-stack`).
//!
//! A **blocking region** is the cheapest way to be stopped: the thread says beforehand that it touches no collected
//! memory, by one compare-exchange, and a stop that comes meanwhile neither signals it nor waits for it. It only can't leave
//! until the world runs again. In a **safepoint** a thread looks whether it is held: one relaxed load.

use std::ffi::c_void;
use std::mem::ManuallyDrop;

use crate::os::{clock, registers, thread};
use crate::sync::{Lock, LockGuard, Ordering, compiler_fence};

use super::handshake::Place;
use super::stop_info::ThreadStopInfo;

/// Runs `f` below the pushed callee-saved registers and tells it their lowest address.
///
/// A panic of `f` passes through all frames here, and so does the unwinding of a thread that is cancelled
/// (`pthread_cancel`, `pthread_exit`). Nothing catches: a forced unwinding that is caught ends the process.
pub(crate) fn with_stack_shown<R>(f: impl FnOnce(usize) -> R) -> R {
    struct Call<F, R> {
        // What `f` has captured stays here, above the address that it is told, also when it has been moved out to run:
        // a reference into a collected object that a blocking region has borrowed is seen by the collector
        // (`.root.derived`).
        f: ManuallyDrop<F>,
        result: Option<R>,
    }

    /// # Safety
    /// `call` is the address of a `Call<F, R>` that has not run, exclusively borrowed.
    unsafe extern "C-unwind" fn run<F: FnOnce(usize) -> R, R>(sp: *mut c_void, call: *mut c_void) {
        // SAFETY: by the caller's promise.
        let call = unsafe { &mut *call.cast::<Call<F, R>>() };
        // SAFETY: called once, and nobody else runs or drops it: a bitwise copy moves out, the bits stay.
        let f = unsafe { std::ptr::read(&*call.f) };
        call.result = Some(f(sp as usize));
    }

    fn shim<F: FnOnce(usize) -> R, R>(call: &mut Call<F, R>) {
        // SAFETY: a `Call` of these types, which is not touched otherwise meanwhile; the only call of `run` with it.
        unsafe { registers::with_registers_pushed(run::<F, R>, std::ptr::from_mut(call).cast()) };
    }

    let mut call = Call { f: ManuallyDrop::new(f), result: None };
    shim(&mut call);
    match call.result {
        Some(result) => result,
        None => unreachable!("the shim calls what it is given"),
    }
}

/// Proof that the calling thread's registers are on its stack, above [`stack_ptr`](OwnStack::stack_ptr).
pub(crate) struct OwnStack {
    record: &'static ThreadStopInfo,
    stack_ptr: usize,
}

impl OwnStack {
    pub(crate) fn record(&self) -> &'static ThreadStopInfo {
        self.record
    }

    pub(crate) fn stack_ptr(&self) -> usize {
        self.stack_ptr
    }
}

/// All of these are for the record's own thread, while attached.
impl ThreadStopInfo {
    /// Parks here if somebody holds the thread.
    #[inline(always)]
    pub(crate) fn safepoint(&self) {
        if self.state.is_held() {
            self.park();
        }
    }

    #[cold]
    #[inline(never)]
    fn park(&self) {
        with_stack_shown(|sp| {
            // SAFETY: the record's own thread, attached.
            let handshake = unsafe { &self.threads().handshake };
            let _ = self.state.park_if_held(handshake, || {
                self.stopped_at.store(clock::now_ns(), Ordering::Relaxed);
                self.publish(sp);
                self.stack_ptr.store(sp, Ordering::Relaxed);
            });
        });
    }

    /// Runs `f`, which touches no collected memory, as a blocking region. Regions may nest; the outermost counts.
    pub(crate) fn blocking<R>(&self, f: impl FnOnce() -> R) -> R {
        if self.state.place() == Place::Blocking {
            return f();
        }
        with_stack_shown(|sp| {
            // SAFETY: the record's own thread, attached.
            let handshake = unsafe { &self.threads().handshake };
            self.state.enter_blocking(handshake, || self.publish(sp));
            let _leave = Leave(self);
            f()
        })
    }

    /// Waits by `take` in a blocking region, and comes out of it with what that has got: a lock, usually. If somebody holds the
    /// thread by then, it is dropped in the region, the thread stands without it, and takes it anew
    /// (`.debug.frozen-waiter`).
    pub(crate) fn blocking_until<R>(&self, mut take: impl FnMut() -> R) -> R {
        if self.state.place() == Place::Blocking {
            // Nobody waits for a thread in its own region, and it does not leave that here.
            return take();
        }
        loop {
            let taken = with_stack_shown(|sp| {
                // SAFETY: the record's own thread, attached.
                let handshake = unsafe { &self.threads().handshake };
                self.state.enter_blocking(handshake, || self.publish(sp));
                let leave = Leave(self);
                let taken = take();
                if self.state.try_leave_blocking() {
                    std::mem::forget(leave);
                    return Some(taken);
                }
                // In this order: the thread stands when it leaves.
                drop(taken);
                drop(leave);
                None
            });
            if let Some(taken) = taken {
                return taken;
            }
        }
    }

    /// Takes a lock that whoever stops the world may hold.
    pub(crate) fn lock<'a>(&self, lock: &'a Lock) -> LockGuard<'a> {
        self.blocking_until(|| lock.lock())
    }

    /// A blocking region in which the thread tries to give its record up. If it could not, for a user holds it, it stands and
    /// tries again.
    pub(super) fn blocking_to_the_end<R>(&self, mut give_up: impl FnMut() -> Option<R>) -> R {
        loop {
            let given_up = with_stack_shown(|sp| {
                // SAFETY: the record's own thread, attached.
                let handshake = unsafe { &self.threads().handshake };
                if self.state.place() == Place::Running {
                    self.state.enter_blocking(handshake, || self.publish(sp));
                }
                let given_up = give_up();
                if given_up.is_none() {
                    drop(Leave(self));
                }
                given_up
            });
            if let Some(result) = given_up {
                return result;
            }
        }
    }

    /// Runs `f`, which is short, without being stopped in the middle by the built-in stoppers: the suspend signal's handler
    /// goes away again, and who is held at the end parks there. A blocking region inside `f` can be stopped in, as ever;
    /// and a debugger stops a thread wherever it is: who must know asks [`is_undisturbed`](Self::is_undisturbed).
    pub(crate) fn undisturbed<R>(&self, f: impl FnOnce() -> R) -> R {
        // Relaxed, here and in `End`: the handler runs on this very thread; `compiler_fence` keeps the order for it.
        self.undisturbed.store(1, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        let _end = End(self);
        f()
    }

    /// Whether the thread, which stands, was stopped in the middle of what it wanted to do undisturbed.
    pub(crate) fn is_undisturbed(&self) -> bool {
        self.undisturbed.load(Ordering::Relaxed) != 0
    }

    /// Runs `f` with the thread's registers pushed: how the collecting thread shows its own roots (`.stop.own-stack`).
    pub(crate) fn with_own_stack<R>(&'static self, f: impl FnOnce(&OwnStack) -> R) -> R {
        with_stack_shown(|sp| {
            self.note_alternate(sp);
            f(&OwnStack { record: self, stack_ptr: sp })
        })
    }

    /// Stores what a stop reads. Relaxed: the state word's exchange that follows is the Release.
    fn publish(&self, sp: usize) {
        self.note_alternate(sp);
        self.saved_sp.store(sp, Ordering::Relaxed);
    }

    /// A thread may block or collect on its alternate stack, in a handler of its own.
    fn note_alternate(&self, sp: usize) {
        if !self.stack_bounds().contains(sp) {
            self.set_alternate(thread::sigaltstack_bounds());
        }
    }
}

/// Ends what was done undisturbed, also when it panics.
struct End<'a>(&'a ThreadStopInfo);

impl Drop for End<'_> {
    fn drop(&mut self) {
        compiler_fence(Ordering::SeqCst);
        self.0.undisturbed.store(0, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        // A signal that came before this store went away, and whoever sent it holds us; one that comes after it stops us.
        self.0.safepoint();
    }
}

/// Leaves a blocking region, also when it panics.
struct Leave<'a>(&'a ThreadStopInfo);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        let _ = self.0.state.leave_blocking();
    }
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;
    use crate::os::memory::conservative_word;

    #[test]
    fn a_panic_passes_through_and_leaves_everything_in_order() {
        let caught = catch_unwind(|| with_stack_shown(|_| panic!("from below"))).unwrap_err();
        assert_eq!(caught.downcast_ref::<&str>(), Some(&"from below"));
    }

    #[test]
    fn the_shown_address_is_below_the_callers_locals() {
        let local = 0u8;
        let address = std::ptr::from_ref(&local) as usize;
        assert!(with_stack_shown(|sp| sp) < address);
    }

    /// `.root.derived`: a blocking region may have captured a reference into a collected object, and nothing else has it.
    #[test]
    fn what_the_closure_has_captured_lies_above_the_shown_address() {
        #[inline(never)]
        fn is_seen(disguised: usize, high: usize) -> bool {
            // SAFETY: the leaked byte below.
            let captured: &'static u8 = unsafe { &*((!disguised) as *const u8) };
            with_stack_shown(move |sp| {
                // SAFETY: this thread's own stack, from a pushed register up to its base.
                (sp..high).step_by(8).any(|word| unsafe { conservative_word(word) } == captured as *const u8 as usize)
            })
        }
        let high = thread::current_stack().unwrap().high;
        let disguised =
            std::thread::spawn(|| !(std::ptr::from_ref::<u8>(Box::leak(Box::new(1))) as usize)).join().unwrap();
        assert!(is_seen(std::hint::black_box(disguised), high));
    }
}
