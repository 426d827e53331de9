//! What a thread does itself so that it can be stopped: safepoints, blocking regions, and publishing its own stack.
//!
//! Here no signal interrupts the thread, so no signal frame holds its registers. Therefore each of these functions pushes the
//! callee-saved registers and publishes the stack pointer below them (`.stop.registers`, `.stop.own-stack`).
//!
//! A **blocking region** is the cheapest way to be stopped. The thread declares beforehand, with one compare-exchange, that it
//! touches no collected memory. A stop in the meantime neither signals the thread nor waits for it. The thread may run on in the
//! region, but it cannot leave the region until the world runs again. At a **safepoint** a thread checks whether it is held: one relaxed load.

use std::ffi::c_void;
use std::mem::ManuallyDrop;

use crate::os::{clock, registers, thread};
use crate::sync::{Lock, LockGuard, Ordering, compiler_fence};

use super::handshake::{Handshake, HandshakeState};
use super::stop_info::ThreadStopInfo;

/// Pushes the callee-saved registers and calls `f`, deeper on the stack, with their lowest address.
///
/// A panic of `f` passes through all frames here, and so does the unwinding of a thread that is cancelled
/// (`pthread_cancel`, `pthread_exit`). Nothing here catches it: catching a forced unwinding would end the process.
pub(crate) fn with_stack_shown<R>(f: impl FnOnce(usize) -> R) -> R {
    struct Call<F, R> {
        // The bits of the closure's captures stay here, above the address that `f` gets, even after `f` has been moved out to run. So
        // the collector finds a reference into a collected object that a blocking region has borrowed (`.root.derived`).
        f: ManuallyDrop<F>,
        result: Option<R>,
    }

    /// # Safety
    /// `call` is the address of a `Call<F, R>` that has not run, exclusively borrowed.
    unsafe extern "C-unwind" fn run<F: FnOnce(usize) -> R, R>(sp: *mut c_void, call: *mut c_void) {
        // SAFETY: the caller's promise.
        let call = unsafe { &mut *call.cast::<Call<F, R>>() };
        // SAFETY: called once, and no other code runs or drops it: a bitwise copy is moved out, and the bits stay here.
        let f = unsafe { std::ptr::read(&*call.f) };
        call.result = Some(f(sp as usize));
    }

    fn shim<F: FnOnce(usize) -> R, R>(call: &mut Call<F, R>) {
        // SAFETY: a `Call` of these types, which is not accessed otherwise meanwhile; `run` is called with it only once.
        unsafe { registers::with_registers_pushed(run::<F, R>, std::ptr::from_mut(call).cast()) };
    }

    let mut call = Call { f: ManuallyDrop::new(f), result: None };
    shim(&mut call);
    match call.result {
        Some(result) => result,
        None => unreachable!("the shim calls its argument"),
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

/// These functions are for the record's own thread, while it is attached.
impl ThreadStopInfo {
    /// Checks whether the thread is held, and parks it here if it is.
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

    /// Enters a blocking region. If a stop is waiting for the thread, this is the moment at which the thread has stopped.
    fn enter_blocking(&self, handshake: &Handshake, sp: usize) {
        self.state.enter_blocking(handshake, || {
            self.publish(sp);
            if self.state.is_held() {
                self.stopped_at.store(clock::now_ns(), Ordering::Relaxed);
            }
        });
    }

    /// Runs `f`, which touches no collected memory, as a blocking region. In a nested region this just calls `f`.
    pub(crate) fn blocking<R>(&self, f: impl FnOnce() -> R) -> R {
        if self.state.handshake_state() == HandshakeState::Blocking {
            return f();
        }
        with_stack_shown(|sp| {
            // SAFETY: the record's own thread, attached.
            let handshake = unsafe { &self.threads().handshake };
            self.enter_blocking(handshake, sp);
            let _leave = Leave(self);
            f()
        })
    }

    /// Enters a blocking region that ends when the thread detaches. What is on the stack below the caller's frame is not in the view of the
    /// collector.
    pub(crate) fn begin_blocking(&self) {
        with_stack_shown(|sp| {
            // SAFETY: the record's own thread, attached.
            let handshake = unsafe { &self.threads().handshake };
            self.enter_blocking(handshake, sp);
        });
    }

    /// Leaves the blocking region that the thread is in, runs `f`, and enters the region again with the stack pointer that it had
    /// published. Outside a region this just calls `f`.
    pub(crate) fn unblocked<R>(&self, f: impl FnOnce() -> R) -> R {
        if self.state.handshake_state() != HandshakeState::Blocking {
            return f();
        }
        struct Enter<'a>(&'a ThreadStopInfo, usize);

        impl Drop for Enter<'_> {
            fn drop(&mut self) {
                let Enter(info, sp) = *self;
                // SAFETY: the record's own thread, attached.
                let handshake = unsafe { &info.threads().handshake };
                info.enter_blocking(handshake, sp);
            }
        }

        // Relaxed: only this thread stores it, before it enters a region.
        let sp = self.saved_sp.load(Ordering::Relaxed);
        let _ = self.state.leave_blocking();
        let _enter = Enter(self, sp);
        f()
    }

    /// Calls `take`, which waits, in a blocking region, and returns its result, usually a lock's guard. If the thread is held when
    /// `take` returns, the thread drops the result in the region, parks without it, and calls `take` again (`.debug.frozen-waiter`).
    pub(crate) fn blocking_until<R>(&self, mut take: impl FnMut() -> R) -> R {
        if self.state.handshake_state() == HandshakeState::Blocking {
            // The thread is in a blocking region already, for which no stop waits, and it does not leave that region here.
            return take();
        }
        loop {
            let taken = with_stack_shown(|sp| {
                // SAFETY: the record's own thread, attached.
                let handshake = unsafe { &self.threads().handshake };
                self.enter_blocking(handshake, sp);
                let leave = Leave(self);
                let taken = take();
                if self.state.try_leave_blocking() {
                    std::mem::forget(leave);
                    return Some(taken);
                }
                // The result is dropped first, because the thread parks when it leaves the region.
                drop(taken);
                drop(leave);
                None
            });
            if let Some(taken) = taken {
                return taken;
            }
        }
    }

    /// Takes a lock that a thread may hold while it stops the world.
    pub(crate) fn lock<'a>(&self, lock: &'a Lock) -> LockGuard<'a> {
        self.blocking_until(|| lock.lock())
    }

    /// Calls `give_up`, in which the thread tries to free its record, in a blocking region that does not end if this succeeds. If it
    /// returns `None`, because a user has suspended the thread, the thread parks and tries again.
    pub(super) fn blocking_to_the_end<R>(&self, mut give_up: impl FnMut() -> Option<R>) -> R {
        loop {
            let given_up = with_stack_shown(|sp| {
                // SAFETY: the record's own thread, attached.
                let handshake = unsafe { &self.threads().handshake };
                if self.state.handshake_state() == HandshakeState::Running {
                    self.enter_blocking(handshake, sp);
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

    /// Runs `f`, which is short, as a section in which the built-in stoppers do not stop the thread: the handler of the suspend
    /// signal returns at once, and the thread parks at the end of the section if it is held. In a blocking region inside `f` the thread
    /// can be stopped as usual. A debugger can stop a thread inside the section; code for which that matters checks
    /// [`is_undisturbed`](Self::is_undisturbed).
    pub(crate) fn undisturbed<R>(&self, f: impl FnOnce() -> R) -> R {
        // Relaxed, here and in `End`: the handler runs on this same thread, and `compiler_fence` keeps the order for it.
        self.undisturbed.store(1, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        let _end = End(self);
        f()
    }

    /// Returns whether the thread, which is stopped, was stopped inside an [`undisturbed`](Self::undisturbed) section.
    pub(crate) fn is_undisturbed(&self) -> bool {
        self.undisturbed.load(Ordering::Relaxed) != 0
    }

    /// Runs `f` with the thread's registers pushed: this is how the collecting thread publishes its own roots (`.stop.own-stack`).
    pub(crate) fn with_own_stack<R>(&'static self, f: impl FnOnce(&OwnStack) -> R) -> R {
        with_stack_shown(|sp| {
            self.note_alternate(sp);
            f(&OwnStack { record: self, stack_ptr: sp })
        })
    }

    /// Stores the values that a stop reads. Relaxed: the exchange of the state word that follows is the Release.
    fn publish(&self, sp: usize) {
        self.note_alternate(sp);
        self.saved_sp.store(sp, Ordering::Relaxed);
    }

    /// Stores the bounds of the alternate signal stack if the thread is not on its own stack: it may block or collect in a handler of the
    /// program, which runs on the alternate stack.
    fn note_alternate(&self, sp: usize) {
        if !self.stack_bounds().contains(sp) {
            self.set_alternate(thread::sigaltstack_bounds());
        }
    }
}

/// Ends an undisturbed section, also on a panic.
struct End<'a>(&'a ThreadStopInfo);

impl Drop for End<'_> {
    fn drop(&mut self) {
        compiler_fence(Ordering::SeqCst);
        self.0.undisturbed.store(0, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        // If the signal arrived before this store, its handler has returned without parking. The sender holds this thread, so the
        // safepoint parks it. If the signal arrives after the store, the handler parks it.
        self.0.safepoint();
    }
}

/// Leaves a blocking region, also on a panic.
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
    fn a_panic_passes_through_the_pushed_registers() {
        let caught = catch_unwind(|| with_stack_shown(|_| panic!("from below"))).unwrap_err();
        assert_eq!(caught.downcast_ref::<&str>(), Some(&"from below"));
    }

    #[test]
    fn the_published_address_is_below_the_callers_locals() {
        let local = 0u8;
        let address = std::ptr::from_ref(&local) as usize;
        assert!(with_stack_shown(|sp| sp) < address);
    }

    /// `.root.derived`: a blocking region may have captured the only reference into a collected object.
    #[test]
    fn the_captures_of_the_closure_are_above_the_published_address() {
        #[inline(never)]
        fn is_seen(disguised: usize, high: usize) -> bool {
            // SAFETY: the address of the leaked byte that is allocated below.
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
