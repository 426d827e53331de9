//! A host's connection: how it begins and ends, and what the host selects by it.

use std::sync::Arc;
use std::time::Duration;

use super::interface::{Host, HostError};
use super::options::{HostOptions, HostTotals};
use super::queue::{Queue, State};
use super::serving::{Filler, Server};
use crate::events::Events;
use crate::events::clock::Clock;
use crate::events::record::{ConsumerId, RecordError, Recorder, as_blocking};
use crate::events::state::{Categories, Keywords, Level, Provider, Selection, Switch};
use crate::os::clock::now_ns;
use crate::os::spawn::spawn;
use crate::os::{Tid, signals, thread};
use crate::sync::Ordering;

/// The host's side of the connection: changes its selection, flushes and ends it. A clone is the same connection.
#[derive(Clone, Debug)]
pub struct HostConnection {
    consumer: ConsumerId,
    queue: Arc<Queue>,
}

impl Events {
    /// Connects a host: from now on, it receives the events of this world that `selection` selects.
    ///
    /// # Errors
    /// There are too many consumers, or the system refuses a resource that recording needs.
    pub fn serve(
        &self,
        host: Arc<dyn Host>,
        selection: Selection,
        options: HostOptions,
    ) -> Result<HostConnection, HostError> {
        let queue = Arc::new(Queue::new(options).map_err(RecordError::System)?);
        // Choose the clock before the thread starts, because the thread reads it.
        let _ = Clock::of_process();
        let server = Server { queue: Arc::clone(&queue), host: Arc::clone(&host), last: (0, 0) };
        {
            // Signals are handled by the program's own threads.
            let _blocked = signals::block_all();
            spawn("stopworld-host", move || server.run()).map_err(RecordError::System)?;
        }
        // If this fails the filler is dropped, which ends the thread.
        let consumer = self.record_to(Box::new(Filler { queue: Arc::clone(&queue), host }), selection)?;
        Ok(HostConnection { consumer, queue })
    }
}

/// The calls of a host. The first five change its selection, and the change is in force when the call returns: no event that it
/// disabled is *fired* with a later time. Events that were fired before may still arrive; after a [`flush`](Self::flush) they have arrived.
///
/// # Errors
/// For every function: the connection has ended, or was not made for this world.
impl HostConnection {
    /// Turns keywords of a provider on or off; the levels are unchanged.
    pub fn set_event_keyword_state(
        &self,
        events: &Events,
        provider: Provider,
        keywords: Keywords,
        enabled: impl Into<Switch>,
    ) -> Result<(), HostError> {
        // The conversion, which may be code of the program, is made here: `edit` runs in a blocking region, where such code may not
        // use the heap.
        let enabled: Switch = enabled.into();
        Ok(events.change_recorded(self.consumer, |wants| wants.set_event_keyword_state(provider, keywords, enabled))?)
    }

    /// Turns this one level of a provider on or off; the keywords and the other levels are unchanged.
    pub fn set_event_level_state(
        &self,
        events: &Events,
        provider: Provider,
        level: Level,
        enabled: impl Into<Switch>,
    ) -> Result<(), HostError> {
        let enabled: Switch = enabled.into();
        Ok(events.change_recorded(self.consumer, |wants| wants.set_event_level_state(provider, level, enabled))?)
    }

    /// Selects these keywords of the provider, and every level up to `up_to`; `None` selects no level.
    pub fn set(
        &self,
        events: &Events,
        provider: Provider,
        keywords: Keywords,
        up_to: Option<Level>,
    ) -> Result<(), HostError> {
        Ok(events.change_recorded(self.consumer, |wants| wants.set(provider, keywords, up_to))?)
    }

    /// `telemetry_control(reset, flip)` of the MPS: clears `reset`, then inverts `flip`. Returns the old filter.
    pub fn telemetry_control(
        &self,
        events: &Events,
        reset: Categories,
        flip: Categories,
    ) -> Result<Categories, HostError> {
        let mut old = Categories::NONE;
        events.change_recorded(self.consumer, |wants| old = wants.categories.control(reset, flip))?;
        Ok(old)
    }

    /// Replaces the host's selection of a world's events.
    pub fn select(&self, events: &Events, selection: Selection) -> Result<(), HostError> {
        Ok(events.select_recorded(self.consumer, selection)?)
    }

    /// Returns the recorder's id of the connection.
    pub fn consumer(&self) -> ConsumerId {
        self.consumer
    }

    /// Waits until the host has received everything that was fired before the call. A mutator waits in a blocking region.
    pub fn flush(&self, within: Duration) -> Result<(), HostError> {
        self.must_not_be_served()?;
        // Ignore the errors of other consumers.
        let _ = Recorder::of_process().flush();
        Recorder::of_process().totals_of(self.consumer)?;
        let target = self.queue.written();
        self.wait(within, || self.queue.read() >= target || self.queue.state() == State::Failed)?;
        if self.queue.state() == State::Failed { Err(HostError::Panicked) } else { Ok(()) }
    }

    /// Ends the connection: the host receives everything that was fired before, and then nothing more. If the host calls this inside
    /// `fire_event`, it returns at once, and the remaining events are still delivered.
    pub fn end(&self, events: &Events, within: Duration) -> Result<HostTotals, HostError> {
        events.end_recording(self.consumer)?;
        if self.must_not_be_served().is_ok() {
            self.wait(within, || matches!(self.queue.state(), State::Over | State::Failed))?;
        }
        Ok(self.totals())
    }

    /// Returns the host's numbers so far.
    pub fn totals(&self) -> HostTotals {
        self.queue.totals()
    }

    fn must_not_be_served(&self) -> Result<(), HostError> {
        let server = Tid(self.queue.server.load(Ordering::Relaxed) as i32);
        if server == thread::gettid() { Err(HostError::InFireEvent) } else { Ok(()) }
    }

    fn wait(&self, within: Duration, done: impl Fn() -> bool) -> Result<(), HostError> {
        const LOOK_NS: u64 = 100_000;
        let deadline = now_ns().saturating_add(within.as_nanos().min(u128::from(u64::MAX)) as u64);
        as_blocking(|| {
            while !done() {
                if now_ns() >= deadline {
                    return Err(HostError::TimedOut(within));
                }
                thread::sleep_ns(LOOK_NS);
            }
            Ok(())
        })
    }
}
