//! Stopping by request: the common part of the signal stopper and the safepoint stopper.
//!
//! The collecting thread holds each thread (one compare-exchange on its state word), notifies it in the stopper's own way unless
//! it is stopped already, and waits for it. The stoppers differ only in the notification: a signal, or none, because the thread
//! polls.
//!
//! A stop that cannot be completed removes every hold (`.stop.lost`). It wakes the threads that have parked. A thread whose
//! notification arrives later finds no hold (`.stop.late`). Only after that is the error made.

use crate::os::thread;
use crate::sabotage::{Guard, removed};
use crate::sync::Ordering;

use super::error::{DebuggerPart, StopAttempts, StopError};
use super::handshake::{Abandoned, Epoch, HoldOutcome, Holder};
use super::inside;
use super::stop_info::ThreadStopInfo;
use super::stop_request::StopRequest;

/// The result of notifying a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotifyOutcome {
    /// The notification was sent, or may have been: repeat it later if the thread does not acknowledge.
    Maybe,
    /// The thread does not exist any more.
    Gone,
}

/// A way to notify a thread that it is held.
pub(crate) trait Notifier {
    /// Returns the stopper's name in errors.
    fn name(&self) -> &'static str;
    /// Returns the signal, for the diagnosis; 0 for none.
    fn signal(&self) -> i32;
    /// Notifies the thread.
    fn notify(&self, thread: &ThreadStopInfo) -> NotifyOutcome;

    /// Returns the nanoseconds after which a thread that has not acknowledged is notified again.
    fn notify_again_after_ns(&self) -> u64 {
        NOTIFY_AGAIN_NS
    }

    /// Returns whether further waiting is useless: the stop is then abandoned as if its time were over.
    fn should_give_up(&self) -> bool {
        false
    }

    /// Returns whether all threads are stopped, given that `outstanding` acknowledgements are missing by the count.
    fn all_stopped(&self, stop: &StopRequest<'_>, outstanding: u32) -> bool {
        let _ = stop;
        outstanding == 0
    }

    /// Returns whether the thread is stopped, or a debugger that holds it has acknowledged for it.
    fn is_stopped(&self, thread: &ThreadStopInfo) -> bool {
        thread.state.has_answered()
    }

    /// Returns what a debugger did in a failed stop. Called when the world runs again, so it may allocate.
    fn debuggers_part(&self) -> Option<DebuggerPart> {
        None
    }

    /// Called once all threads are notified. Requests a debugger, if there is one, to acknowledge for the threads that it holds;
    /// returns how many it newly acknowledged.
    fn request_answers(&self, stop: &StopRequest<'_>) -> u32 {
        let _ = stop;
        0
    }
}

/// The default time after which a thread that has not acknowledged is notified again, in nanoseconds.
pub(crate) const NOTIFY_AGAIN_NS: u64 = 50_000_000;
/// The interval between two checks of the threads, used when the count of acknowledgements does not show any more whether all are
/// stopped.
const CHECK_NS: u64 = 200_000;

/// Holds all threads of the request and waits until they are stopped.
pub(super) fn stop(notifier: &impl Notifier, stop: &StopRequest<'_>) -> Result<(), StopError> {
    let epoch = hold(stop, |thread| notifier.notify(thread));
    wait(notifier, stop, epoch)
}

/// Holds all threads of the request; calls `notify` with each that is running.
pub(crate) fn hold(stop: &StopRequest<'_>, notify: impl Fn(&ThreadStopInfo) -> NotifyOutcome) -> Epoch {
    let epoch = stop.handshake.begin(Holder::Collection, stop.live.len() as u32);
    let mut asked = 0;
    let mut satisfied = 0;
    for thread in stop.threads() {
        asked += 1;
        match thread.state.hold(Holder::Collection, epoch) {
            HoldOutcome::Already => satisfied += 1,
            HoldOutcome::MustPark => {
                if notify(thread) == NotifyOutcome::Gone {
                    satisfied += mark_gone(thread);
                }
            }
        }
    }
    // This also subtracts the threads that `begin` counted but the request excludes: the collecting thread, and threads that do not
    // exist any more.
    stop.handshake.satisfied(Holder::Collection, epoch, satisfied + stop.live.len() as u32 - asked);
    epoch
}

/// Waits until all threads that are held since `epoch` are stopped.
pub(crate) fn wait(notifier: &impl Notifier, stop: &StopRequest<'_>, epoch: Epoch) -> Result<(), StopError> {
    let answered = notifier.request_answers(stop);
    stop.handshake.satisfied(Holder::Collection, epoch, answered);
    let mut notified_at = stop.spent();
    let mut requests = 1;
    loop {
        let slice = || stop.wait_slice(u64::MAX, |ns| stop.handshake.wait_slice(Holder::Collection, ns));
        let outstanding = match if notifier.should_give_up() { None } else { slice() } {
            Some(outstanding) => outstanding,
            // If the last thread has acknowledged in the meantime, `give_up` returns no error.
            None => break give_up(notifier, stop, requests)?,
        };
        if notifier.all_stopped(stop, outstanding) {
            break;
        }
        if outstanding == 0 {
            // A debugger acknowledged for a thread that then acknowledged itself: the count no longer wakes this thread.
            stop.wait_slice(CHECK_NS, thread::sleep_ns);
        }
        if (stop.spent() - notified_at).as_nanos() as u64 >= notifier.notify_again_after_ns() {
            notified_at = stop.spent();
            requests += 1;
            let answered = notify_again(notifier, stop) + notifier.request_answers(stop);
            stop.handshake.satisfied(Holder::Collection, epoch, answered);
        }
    }
    // For a stopped thread, `saved_sp` is the stack pointer that it published last. The slot is not reliable: a slow handler
    // of an abandoned stop may have stored an address there after it was zeroed, and the thread may have continued and
    // entered a blocking region since (`.stop.late`). `hold` and `wait_slice` have acquired `saved_sp`. A thread for
    // which a debugger has acknowledged is left out: the debugger has written its slot.
    for thread in stop.threads() {
        if thread.state.has_answered() {
            thread.use_saved_sp();
        }
    }
    Ok(())
}

/// Notifies again all threads that have not acknowledged. Returns the number of acknowledgements that will never come, because
/// their threads do not exist any more.
pub(crate) fn notify_again(notifier: &impl Notifier, stop: &StopRequest<'_>) -> u32 {
    let mut gone = 0;
    for thread in stop.threads() {
        if !notifier.is_stopped(thread) && notifier.notify(thread) == NotifyOutcome::Gone {
            gone += mark_gone(thread);
        }
    }
    gone
}

/// Notes that the thread ended without detaching: its record is freed after the stop. Returns the number of acknowledgements that will
/// never come: 1, or 0 if the thread had acknowledged the stop by entering a blocking region and ended there.
fn mark_gone(thread: &ThreadStopInfo) -> u32 {
    thread.gone.store(1, Ordering::Relaxed);
    u32::from(thread.state.abandon(Holder::Collection) == Abandoned::Unanswered)
}

/// Called when the time is over: removes the hold from threads that have not acknowledged, releases the others, and returns an
/// error that names the former. If there are none, all threads are stopped and the stop succeeds: every error names a thread.
fn give_up(notifier: &impl Notifier, stop: &StopRequest<'_>, requests: u32) -> Result<(), StopError> {
    stop.handshake.close(Holder::Collection);
    let mut all_stopped = true;
    for thread in stop.threads() {
        let unanswered =
            !notifier.is_stopped(thread) && thread.state.take_back(Holder::Collection) == Abandoned::Unanswered;
        thread.silent.store(u32::from(unanswered), Ordering::Relaxed);
        all_stopped &= !unanswered;
    }
    if all_stopped {
        return Ok(());
    }
    start(stop);
    // From here the world runs: /proc may be read and memory allocated.
    inside::leave();
    let silent: Vec<_> =
        stop.threads().filter(|t| t.silent.load(Ordering::Relaxed) != 0 && !removed(Guard::StopLost)).collect();
    Err(stop.unanswered_by(notifier, &silent, requests))
}

impl StopRequest<'_> {
    fn unanswered_by<T: Notifier>(&self, notifier: &T, silent: &[&'static ThreadStopInfo], requests: u32) -> StopError {
        let mut error = self.unanswered(notifier.name(), notifier.signal(), silent);
        if let StopError::Unanswered { attempts, .. } = &mut error {
            *attempts = StopAttempts { requests, debugger: notifier.debuggers_part() };
        }
        error
    }
}

/// Releases all threads of the request.
pub(crate) fn start(stop: &StopRequest<'_>) {
    for thread in stop.threads() {
        thread.state.release(Holder::Collection);
    }
}
