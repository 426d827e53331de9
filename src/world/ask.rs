//! Stopping by asking: what the signal stopper and the safepoint stopper have in common.
//!
//! Each thread is held (one compare-exchange on its state word), told in the stopper's own way unless it stands already, and waited for.
//! They differ only in how a thread is told: by a signal, or not at all, since it looks by itself.
//!
//! A stop that can't be completed takes every hold back (`.stop.lost`): who had parked is woken, who had not heard
//! finds no hold when it does hear (`.stop.late`). Only then is the error made.

use crate::os::thread;
use crate::sabotage::{Guard, removed};
use crate::sync::Ordering;

use super::error::{DebuggerPart, StopAttempts, StopError};
use super::handshake::{Abandoned, Epoch, Held, Holder};
use super::inside;
use super::stop_info::ThreadStopInfo;
use super::vtable::StopRequest;

/// What telling a thread came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// It will hear, or may: ask again later.
    Maybe,
    /// There is no such thread any more.
    Gone,
}

/// A way of telling a thread that it is held.
pub(crate) trait Teller {
    /// What errors call the stopper.
    fn name(&self) -> &'static str;
    /// The signal, for the diagnosis; 0 for none.
    fn signal(&self) -> i32;
    /// Tells the thread.
    fn tell(&self, thread: &ThreadStopInfo) -> Told;

    /// How long after the last telling a silent thread is told again, in nanoseconds.
    fn asks_again_after_ns(&self) -> u64 {
        TELL_AGAIN_NS
    }

    /// Whether waiting has become useless: the stop is given up as if its time were over.
    fn is_in_vain(&self) -> bool {
        false
    }

    /// Whether all stand, when so many are outstanding by the count.
    fn all_stand(&self, stop: &StopRequest<'_>, outstanding: u32) -> bool {
        let _ = stop;
        outstanding == 0
    }

    /// Whether the thread stands, or somebody who holds it has answered for it.
    fn stands(&self, thread: &ThreadStopInfo) -> bool {
        thread.state.has_answered()
    }

    /// What a debugger had to do with a stop that has failed. Called when the world runs again: may allocate.
    fn debuggers_part(&self) -> Option<DebuggerPart> {
        None
    }

    /// Everybody has been told: if there is somebody who answers for others, he is asked. Says for how many more he has answered.
    fn ask_for_answers(&self, stop: &StopRequest<'_>) -> u32 {
        let _ = stop;
        0
    }
}

/// How long after the last telling a silent thread is told again.
pub(crate) const TELL_AGAIN_NS: u64 = 50_000_000;
/// How long between two looks at threads that nobody counts any more.
const GLANCE_NS: u64 = 200_000;

/// Holds all threads of the request and waits until they stand.
pub(super) fn stop(teller: &impl Teller, stop: &StopRequest<'_>) -> Result<(), StopError> {
    let epoch = hold(stop, |thread| teller.tell(thread));
    wait(teller, stop, epoch)
}

/// Holds all threads of the request; `tell` is called with each that runs.
pub(crate) fn hold(stop: &StopRequest<'_>, tell: impl Fn(&ThreadStopInfo) -> Told) -> Epoch {
    let epoch = stop.handshake.begin(Holder::Collection, stop.live.len() as u32);
    let mut asked = 0;
    let mut satisfied = 0;
    for thread in stop.threads() {
        asked += 1;
        match thread.state.hold(Holder::Collection, epoch) {
            Held::Already => satisfied += 1,
            Held::MustPark => {
                if tell(thread) == Told::Gone {
                    satisfied += mark_gone(thread);
                }
            }
        }
    }
    // Also those that `begin` counted but the request does not have: the collecting thread and the gone ones.
    stop.handshake.satisfied(Holder::Collection, epoch, satisfied + stop.live.len() as u32 - asked);
    epoch
}

/// Waits until all threads that are held since `epoch` stand.
pub(crate) fn wait(teller: &impl Teller, stop: &StopRequest<'_>, epoch: Epoch) -> Result<(), StopError> {
    let answered = teller.ask_for_answers(stop);
    stop.handshake.satisfied(Holder::Collection, epoch, answered);
    let mut told_at = stop.spent();
    let mut requests = 1;
    loop {
        let slice = || stop.wait_slice(u64::MAX, |ns| stop.handshake.wait_slice(Holder::Collection, ns));
        let outstanding = match if teller.is_in_vain() { None } else { slice() } {
            Some(outstanding) => outstanding,
            // The last may have answered in the meantime: then this is no failure.
            None => break give_up(teller, stop, requests)?,
        };
        if teller.all_stand(stop, outstanding) {
            break;
        }
        if outstanding == 0 {
            // Somebody answered for a thread that then answered itself: the count wakes nobody any more.
            stop.wait_slice(GLANCE_NS, thread::sleep_ns);
        }
        if (stop.spent() - told_at).as_nanos() as u64 >= teller.asks_again_after_ns() {
            told_at = stop.spent();
            requests += 1;
            let answered = tell_again(teller, stop) + teller.ask_for_answers(stop);
            stop.handshake.satisfied(Holder::Collection, epoch, answered);
        }
    }
    // Wherever a thread stands, what it published last is in `saved_sp`; the slot is not to be believed: a handler that
    // was slow to answer an abandoned stop may have stored an address there after it was zeroed, and the thread have gone
    // on and entered a blocking region since (`.stop.late`). Acquire by `hold` and `wait_slice`: it is there. For one that has
    // not answered itself, whoever did has written the slot.
    for thread in stop.threads() {
        if thread.state.has_answered() {
            thread.use_saved_sp();
        }
    }
    Ok(())
}

/// Tells all who have not answered once more; says how many turned out to be gone.
pub(crate) fn tell_again(teller: &impl Teller, stop: &StopRequest<'_>) -> u32 {
    let mut gone = 0;
    for thread in stop.threads() {
        if !teller.stands(thread) && teller.tell(thread) == Told::Gone {
            gone += mark_gone(thread);
        }
    }
    gone
}

/// The thread ended without a word: its record is buried after the stop. Says how many acknowledgements it still owed:
/// none if it had answered, by entering a blocking region, before it ended in there.
fn mark_gone(thread: &ThreadStopInfo) -> u32 {
    thread.gone.store(1, Ordering::Relaxed);
    u32::from(thread.state.abandon(Holder::Collection) == Abandoned::Unanswered)
}

/// The time is over: takes the hold from those who have not answered, lets the others go, and says who was silent. If
/// nobody was, all stand, and nothing is undone: no error is without a name.
fn give_up(teller: &impl Teller, stop: &StopRequest<'_>, requests: u32) -> Result<(), StopError> {
    stop.handshake.close(Holder::Collection);
    let mut all_stand = true;
    for thread in stop.threads() {
        let unanswered = !teller.stands(thread) && thread.state.take_back(Holder::Collection) == Abandoned::Unanswered;
        thread.silent.store(u32::from(unanswered), Ordering::Relaxed);
        all_stand &= !unanswered;
    }
    if all_stand {
        return Ok(());
    }
    start(stop);
    // From here the world runs: /proc may be read and memory allocated.
    inside::leave();
    let silent: Vec<_> =
        stop.threads().filter(|t| t.silent.load(Ordering::Relaxed) != 0 && !removed(Guard::StopLost)).collect();
    Err(stop.unanswered_of(teller, &silent, requests))
}

impl StopRequest<'_> {
    fn unanswered_of<T: Teller>(&self, teller: &T, silent: &[&'static ThreadStopInfo], requests: u32) -> StopError {
        let mut error = self.unanswered(teller.name(), teller.signal(), silent);
        if let StopError::Unanswered { attempts, .. } = &mut error {
            *attempts = StopAttempts { requests, debugger: teller.debuggers_part() };
        }
        error
    }
}

/// Lets all threads of the request go.
pub(crate) fn start(stop: &StopRequest<'_>) {
    for thread in stop.threads() {
        thread.state.release(Holder::Collection);
    }
}
