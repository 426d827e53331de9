//! Stopping by asking: what the signal stopper and the safepoint stopper have in common.
//!
//! Each thread is held (one compare-exchange on its state word), told in the stopper's own way unless it stands already, and waited for.
//! They differ only in how a thread is told: by a signal, or not at all, since it looks by itself.
//!
//! A stop that can't be completed takes every hold back (`.stop.lost`): who had parked is woken, who had not heard
//! finds no hold when it does hear (`.stop.late`). Only then is the error made.

use crate::sabotage::{Guard, removed};
use crate::sync::Ordering;

use super::error::StopError;
use super::handshake::{Abandoned, Held, Holder};
use super::inside;
use super::stop_info::ThreadStopInfo;
use super::vtable::StopRequest;

/// What telling a thread came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// It will hear, or may: ask again later.
    Maybe,
    /// There is no such thread any more.
    Gone,
}

/// A way of telling a thread that it is held.
pub(super) trait Teller {
    /// What errors call the stopper.
    const NAME: &'static str;
    /// The signal, for the diagnosis; 0 for none.
    fn signal(&self) -> i32;
    /// Tells the thread.
    fn tell(&self, thread: &ThreadStopInfo) -> Told;
}

/// How long after the last telling a silent thread is told again.
const TELL_AGAIN_NS: u64 = 50_000_000;

/// Holds all threads of the request and waits until they stand.
pub(super) fn stop(teller: &impl Teller, stop: &StopRequest<'_>) -> Result<(), StopError> {
    let epoch = stop.handshake.begin(Holder::Collection, stop.live.len() as u32);
    let mut asked = 0;
    let mut satisfied = 0;
    for thread in stop.threads() {
        asked += 1;
        match thread.state.hold(Holder::Collection, epoch) {
            Held::Already => satisfied += 1,
            Held::MustPark => {
                if teller.tell(thread) == Told::Gone {
                    satisfied += mark_gone(thread);
                }
            }
        }
    }
    // Also those that `begin` counted but the request does not have: the collecting thread and the gone ones.
    stop.handshake.satisfied(Holder::Collection, epoch, satisfied + stop.live.len() as u32 - asked);
    let mut told_at = stop.spent();
    loop {
        let outstanding = match stop.wait_slice(u64::MAX, |ns| stop.handshake.wait_slice(Holder::Collection, ns)) {
            Some(outstanding) => outstanding,
            // The last may have answered in the meantime: then this is no failure.
            None => break give_up(teller, stop)?,
        };
        if outstanding == 0 {
            break;
        }
        if (stop.spent() - told_at).as_nanos() as u64 >= TELL_AGAIN_NS {
            told_at = stop.spent();
            let gone = tell_again(teller, stop);
            stop.handshake.satisfied(Holder::Collection, epoch, gone);
        }
    }
    // Wherever a thread stands, what it published last is in `saved_sp`; the slot is not to be believed: a handler that
    // was slow to answer an abandoned stop may have stored an address there after it was zeroed, and the thread have gone
    // on and entered a blocking region since (`.stop.late`). Acquire by `hold` and `wait_slice`: it is there.
    for thread in stop.threads() {
        thread.stack_ptr.store(thread.saved_sp.load(Ordering::Relaxed), Ordering::Relaxed);
    }
    Ok(())
}

/// Tells all who have not answered once more; says how many turned out to be gone.
fn tell_again(teller: &impl Teller, stop: &StopRequest<'_>) -> u32 {
    let mut gone = 0;
    for thread in stop.threads() {
        if !thread.state.has_answered() && teller.tell(thread) == Told::Gone {
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
fn give_up(teller: &impl Teller, stop: &StopRequest<'_>) -> Result<(), StopError> {
    stop.handshake.close(Holder::Collection);
    let mut all_stand = true;
    for thread in stop.threads() {
        let unanswered = thread.state.take_back(Holder::Collection) == Abandoned::Unanswered;
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
    Err(stop.unanswered_of(teller, &silent))
}

impl StopRequest<'_> {
    fn unanswered_of<T: Teller>(&self, teller: &T, silent: &[&'static ThreadStopInfo]) -> StopError {
        self.unanswered(T::NAME, teller.signal(), silent)
    }
}

/// Lets all threads of the request go.
pub(super) fn start(stop: &StopRequest<'_>) {
    for thread in stop.threads() {
        thread.state.release(Holder::Collection);
    }
}
