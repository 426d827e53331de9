//! The mock's assisted contract: the collector stops the threads, the debugger answers for those that its user has frozen.
//!
//! It works as an external debugger does (`docs/debugger-contract.md`): it freezes and thaws single threads at any moment, also during a
//! collection, and gets requests. For a thread that it holds and that has not acknowledged by itself, it writes the registers into the
//! record's save area. They cannot be on the stack, where the full contract pushes them: a thread that is thawed during a collection takes
//! its pending suspend signal, whose frame would overwrite them.
//!
//! The debugger's thread lock is not held during a collection. But a thread that freezes another one holds the lock until that thread is
//! stopped, perhaps until the end of a collection in which the freezing thread itself is parked. So the collector, when it requests
//! answers, only tries to take the lock, and repeats the request later.

use super::{ASSISTED, MockDebugger, MockEvent, Mode};
use crate::debugger::protocol::{self, AckState, Member};
use crate::os::{Errno, signals, thread};
use crate::world::handshake::{HandshakeState, Holder};
use crate::world::handshake_stop::{self, Notifier, NotifyOutcome};
use crate::world::{SetupError, StopError, StopRequest, ThreadStopInfo, handler};

impl MockDebugger {
    /// Creates a debugger that answers for the threads that it holds, and leaves stopping to the collector's signals.
    pub fn assisted() -> Result<std::sync::Arc<Self>, SetupError> {
        handler::install(handler::installed().unwrap_or(signals::DEFAULT))?;
        Self::by(super::DEFAULT_SIGNAL, Mode::Assisted)
    }

    pub(super) fn stop_assisted(&self, stop: &StopRequest<'_>) -> Result<(), StopError> {
        stop.threads().for_each(|record| member(record).forget());
        let requester = StopRequester { mock: self, epoch: stop.epoch() };
        let epoch = handshake_stop::hold(stop, |record| requester.notify(record));
        handshake_stop::wait(&requester, stop, epoch)
    }

    /// Returns whether each thread that the debugger has answered for is still frozen, or has parked by now.
    pub(super) fn holds_assisted(&self, stop: &StopRequest<'_>) -> bool {
        // A thread that is thawed between the two checks has the suspend signal pending.
        stop.threads().all(|record| {
            let still_stopped = || {
                record.stop_state().has_answered()
                    || self.thread_lock.try_lock().is_ok_and(|_held| self.is_frozen(record))
            };
            member(record).ack_state(stop.epoch()) != AckState::Frozen
                || (0..10_000).any(|_| {
                    still_stopped() || {
                        thread::sleep_ns(100_000);
                        false
                    }
                })
        })
    }

    /// Whether a user has frozen the thread. Panics in [`with`](Self::with) without the thread lock.
    fn is_frozen(&self, record: &ThreadStopInfo) -> bool {
        self.find(record.tid())
            .is_some_and(|d| d.state.is_held_by(Holder::User) && d.state.handshake_state() == HandshakeState::Parked)
    }

    /// Answers for every thread that is frozen and that the collector considers running. Panics in [`with`](Self::with) without the thread
    /// lock.
    fn answer(&self, stop: &StopRequest<'_>) {
        for record in stop.threads() {
            let is_answered = member(record).ack_state(stop.epoch()) != AckState::No;
            if is_answered || !self.is_frozen(record) {
                continue;
            }
            let Some(debuggee) = self.find(record.tid()) else { continue };
            let stack_ptr = debuggee.write_stack_ptr();
            member(record).freeze(stop.epoch());
            self.with(|inner| inner.log.note(MockEvent::Answered { tid: record.tid(), stack_ptr }));
        }
    }
}

fn member(record: &ThreadStopInfo) -> Member<'_> {
    Member {
        state: record.stop_state(),
        frozen: record.frozen_word(),
        counted: record.counted_word(),
        undisturbed: record.undisturbed_word(),
    }
}

struct StopRequester<'a> {
    mock: &'a MockDebugger,
    epoch: u64,
}

impl Notifier for StopRequester<'_> {
    fn name(&self) -> &'static str {
        ASSISTED
    }

    fn signal(&self) -> i32 {
        handler::installed().unwrap_or(0)
    }

    fn notify(&self, record: &ThreadStopInfo) -> NotifyOutcome {
        match handler::send(record, self.signal()) {
            Err(Errno::ESRCH) => NotifyOutcome::Gone,
            _ => NotifyOutcome::Maybe,
        }
    }

    fn notify_again_after_ns(&self) -> u64 {
        20_000_000
    }

    fn all_stopped(&self, stop: &StopRequest<'_>, outstanding: u32) -> bool {
        protocol::all_stopped(stop.threads().map(member), self.epoch, outstanding)
    }

    fn is_stopped(&self, record: &ThreadStopInfo) -> bool {
        member(record).ack_state(self.epoch) != AckState::No
    }

    fn request_answers(&self, stop: &StopRequest<'_>) -> u32 {
        if let Ok(_held) = self.mock.thread_lock.try_lock() {
            self.mock.answer(stop);
        }
        protocol::newly_frozen(stop.threads().map(member), self.epoch)
    }
}
