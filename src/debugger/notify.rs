//! Notifies a debugger, in a way that has no effect on the process if there is no debugger.
//!
//! The thread that sends a notification puts a [`Request`] on its own stack and makes itself stop:
//!
//! * **By a signal.** It sends itself a real-time signal whose handler does nothing, with the request's address as its value. A tracer gets
//!   a signal-delivery stop, reads the value from siginfo, acts, and continues the thread without the signal. Without a tracer, or when a
//!   tracer dies in that stop, the empty handler runs and returns. Nothing in the process is changed for a debugger, so a debugger that
//!   dies leaves nothing to clean up. The signal is not ignored instead, because an ignored signal stays ignored in every process that the
//!   program spawns.
//! * **By a breakpoint**, for debuggers that handle breakpoints better. The thread calls [`stopworld_debugger_notify`], `nop; ret`, at whose
//!   first byte the debugger has put an `int3`. If the debugger dies, the `int3` stays in the text. A SIGTRAP handler, installed before the
//!   first such call, finds the thread at the `nop` or just past it and makes it continue at the `ret`. Other SIGTRAPs are passed to the
//!   previous action.
//!
//! In both cases the debugger acknowledges by writing the request's own sequence number to `acknowledged`. If it has not done so when the
//! thread continues, then there is no debugger, whatever the control word contains.
//!
//! Everything here may run inside the stopped world: it uses only system calls and the calling thread's stack.

use super::descriptor::stopworld_debugger;
use super::protocol::{Answer, Control};
use super::request::Notification;
pub use super::request::{
    Notice, REQUEST_MAGIC, REQUEST_OFFSETS, Request, RequestOffsets, stopworld_debugger_notify,
    stopworld_debugger_return,
};
use crate::os::signals::{self, HandlerStack, Previous};
use crate::os::thread;
use crate::sync::{AtomicU32, Ordering, UnsafeCell};

/// Notifies the debugger that is in control by `control`, and waits: this thread is stopped for as long as the debugger wants.
pub(super) fn send(control: Control, notification: &Notification<'_>) -> Answer {
    let request = Request::of(notification);
    if control.by_breakpoint() {
        make_breakpoints_harmless();
        // A masked trap would kill the process, so SIGTRAP is unblocked.
        let was_blocked = signals::unblock(signals::TRAP);
        // SAFETY: the function does nothing by itself.
        unsafe { stopworld_debugger_notify(&raw const request) };
        if was_blocked {
            std::mem::forget(signals::block(signals::TRAP));
        }
    } else {
        let signal = stopworld_debugger.notify_signal.load(Ordering::Relaxed) as i32;
        // SAFETY: the request lives until this returns.
        unsafe { signals::queue_to_myself(signal, &raw const request as usize) };
    }
    request.answer()
}

/// Chooses a real-time signal for notifications and gives it an empty handler, once per process: one of the highest
/// signals that have their default action, because programs use these least.
///
/// If there is none, `notify_signal` stays 0 and notifications by signal are not acknowledged: a debugger sees the 0 and uses the
/// breakpoint.
pub(super) fn choose_signal() {
    let chosen = &stopworld_debugger.notify_signal;
    if chosen.load(Ordering::Relaxed) != 0 {
        return;
    }
    let (lowest, highest) = signals::real_time();
    let reserved = [super::mock::DEFAULT_SIGNAL, crate::world::handler::installed().unwrap_or(0)];
    let is_free = |signal: &i32| !reserved.contains(signal) && signals::is_default(*signal);
    if let Some(signal) = (lowest..=highest - 4).rev().find(is_free)
        // SAFETY: a real-time signal with its default action, which no code depends on.
        && unsafe { signals::make_harmless(signal) }.is_ok()
    {
        // Two threads that build the first worlds at once may have chosen two signals: both have the handler, one is used.
        let _ = chosen.compare_exchange(0, signal as u32, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// The SIGTRAP action that this module replaced.
static TRAPS: Traps = Traps::new();

/// The maximum number of threads that can be installing the handler at once before one of them has published the replaced action.
const PLACES: usize = 8;

/// The SIGTRAP handler's state: the action that it replaced.
///
/// The handler may run on any thread as soon as it is installed, and the action that it reads must be complete. So the replaced action is
/// written and published *before* the installation, in a slot that is never written again. Two threads may install at the same time;
/// a lock cannot exclude that, because its holder may be stopped by the same stop of which the other thread notifies the debugger.
struct Traps {
    places: [UnsafeCell<Previous>; PLACES],
    claimed: AtomicU32,
    /// 1 + the index of the published slot; 0 before there is one.
    published: AtomicU32,
    /// 1: the handler is in place.
    live: AtomicU32,
}

// SAFETY: a slot is written only by the thread that has claimed it, before its index is published, and read only after that.
unsafe impl Sync for Traps {}

impl Traps {
    const fn new() -> Traps {
        Traps {
            places: [const { UnsafeCell::new(Previous::NONE) }; PLACES],
            claimed: AtomicU32::new(0),
            published: AtomicU32::new(0),
            live: AtomicU32::new(0),
        }
    }

    /// Publishes the replaced action, then calls `install` to install the handler; once. Async-signal-safe.
    fn go_live(&self, replaced: impl FnOnce() -> std::io::Result<Previous>, install: impl FnOnce() -> bool) {
        if self.live.load(Ordering::Relaxed) != 0 {
            return;
        }
        let Ok(replaced) = replaced() else { return };
        // If the present action is our own handler, the thread that installed the handler has published the action before it.
        if (replaced.is(trapped) || self.publish(replaced)) && install() {
            self.live.store(1, Ordering::Relaxed);
        }
    }

    /// Publishes an action. Returns false if all slots are taken and none is published yet.
    fn publish(&self, replaced: Previous) -> bool {
        if self.published.load(Ordering::Relaxed) != 0 {
            return true;
        }
        let place = self.claimed.fetch_add(1, Ordering::Relaxed);
        let Some(mine) = self.places.get(place as usize) else { return false };
        // SAFETY: claimed by this thread alone, and not published.
        mine.with_mut(|mine| unsafe { *mine = replaced });
        // Release: pairs with the Acquire in `previous`. The first published slot is used; a second thread found the same action.
        let _ = self.published.compare_exchange(0, place + 1, Ordering::Release, Ordering::Relaxed);
        true
    }

    /// Returns the replaced action, which is always complete. Called by the handler.
    fn previous(&self) -> Previous {
        // Acquire: pairs with the Release in `publish`.
        let published = self.published.load(Ordering::Acquire).checked_sub(1);
        let place = published.and_then(|place| self.places.get(place as usize));
        // SAFETY: published, so it is complete and never written again.
        place.map_or(Previous::NONE, |place| place.with(|place| unsafe { *place }))
    }
}

/// Makes breakpoints at the notification function harmless once their debugger is gone. Async-signal-safe.
fn make_breakpoints_harmless() {
    // SAFETY: `trapped` calls only async-signal-safe functions, and passes on each trap that is not ours.
    let install = || unsafe { signals::install(signals::TRAP, trapped, HandlerStack::Own) }.is_ok();
    TRAPS.go_live(|| signals::current(signals::TRAP), install);
}

/// The SIGTRAP handler.
unsafe extern "C" fn trapped(signal: i32, info: *mut signals::SigInfo, context: *mut std::ffi::c_void) {
    let place = stopworld_debugger_notify as *const () as usize;
    // SAFETY: the kernel's own argument.
    let at = unsafe { signals::context(context) }.instruction_pointer();
    // The thread is just past the `int3`, or at it, if the debugger had already moved the thread back when it died.
    if at == place || at == place + 1 {
        // SAFETY: the kernel's own argument; the byte after the `nop` is the `ret`.
        unsafe { signals::continue_at(context, place + 1) };
        return;
    }
    let previous = TRAPS.previous();
    if previous.is_function() {
        // SAFETY: the kernel's own arguments.
        unsafe { previous.call(signal, info, context) };
    } else {
        crate::os::preserving_errno(|| {
            // SAFETY: the signal's action before ours.
            unsafe { signals::put_back(signal, &previous) };
            // SAFETY: raises the trap again, for that action.
            let _ = unsafe { thread::tgkill(thread::gettid(), signal) };
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::Tid;
    use crate::os::signals::Handler;

    fn notification() -> Notification<'static> {
        Notification { notice: Notice::StopWorld, detail: 0, tid: Tid(1), world: None, thread: None, epoch: 1 }
    }

    #[test]
    fn without_a_debugger_a_notification_by_signal_vanishes() {
        choose_signal();
        assert_ne!(stopworld_debugger.notify_signal.load(Ordering::Relaxed), 0);
        assert_eq!(send(Control(Control::ASSISTED), &notification()), Answer::Nobody);
        // The same happens in a thread that masks SIGTRAP.
        let signal = stopworld_debugger.notify_signal.load(Ordering::Relaxed) as i32;
        let _blocked = signals::block(signal);
        assert_eq!(send(Control(Control::FULL), &notification()), Answer::Nobody);
        assert!(signals::is_blocked(signal));
    }

    /// Not inlined, so that it has one address: the compiler may copy a small function to each of its codegen units.
    #[inline(never)]
    extern "C" fn programs_own(_: i32) {}

    fn is_programs_own(previous: &Previous) -> bool {
        let handler: Handler =
            // SAFETY: only compared, never called.
            unsafe { std::mem::transmute::<*const (), Handler>(programs_own as *const ()) };
        previous.is(handler)
    }

    /// A SIGTRAP may arrive as soon as the handler is installed.
    #[test]
    fn what_the_handler_replaces_is_there_before_the_handler_is() {
        let traps = Traps::new();
        let was_there = std::cell::Cell::new(false);
        let install = || {
            was_there.set(is_programs_own(&traps.previous()));
            true
        };
        traps.go_live(|| Ok(Previous::of(programs_own)), install);
        assert!(was_there.get());
        traps.go_live(|| unreachable!("it is there"), || unreachable!("it is there"));
    }

    #[test]
    fn a_thread_that_installs_while_another_is_in_the_middle_of_it_changes_nothing() {
        let traps = Traps::new();
        // A second thread installs while the first one is between publishing and installing.
        let first_install = || {
            traps.go_live(|| Ok(Previous::of(programs_own)), || true);
            true
        };
        traps.go_live(|| Ok(Previous::of(programs_own)), first_install);
        let last = Traps::new();
        last.claimed.store(PLACES as u32, Ordering::Relaxed);
        last.go_live(|| Ok(Previous::of(programs_own)), || unreachable!("nothing could be published"));
        assert!(is_programs_own(&traps.previous()));
        assert!(!last.previous().is_function());
    }

    /// `.debug.dies`
    #[test]
    fn a_breakpoint_that_a_dead_debugger_left_is_healed_also_where_traps_are_masked() {
        use std::os::unix::fs::FileExt;

        make_breakpoints_harmless();
        let memory = std::fs::File::options().write(true).open("/proc/self/mem").unwrap();
        let put = |byte: u8| memory.write_all_at(&[byte], stopworld_debugger_notify as *const () as u64).unwrap();
        put(0xcc);
        let answer = send(Control(Control::ASSISTED | Control::BREAKPOINT), &notification());
        let blocked = signals::block(signals::TRAP);
        let answer_masked = send(Control(Control::ASSISTED | Control::BREAKPOINT), &notification());
        let is_blocked = signals::is_blocked(signals::TRAP);
        drop(blocked);
        put(0x90);
        assert_eq!((answer, answer_masked, is_blocked), (Answer::Nobody, Answer::Nobody, true));
    }

    #[test]
    fn a_signal_that_has_not_the_empty_handler_is_not_sent() {
        // The signal would end the process.
        let signal = signals::real_time().0 + 3;
        assert!(signals::is_default(signal));
        // SAFETY: no address.
        unsafe { signals::queue_to_myself(signal, 0) };
    }

    #[test]
    fn without_a_debugger_a_notification_by_breakpoint_does_nothing() {
        assert_eq!(send(Control(Control::ASSISTED | Control::BREAKPOINT), &notification()), Answer::Nobody);
        assert!(signals::is_installed(signals::TRAP, trapped));
    }
}
