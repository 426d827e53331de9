//! Hosts: programs that a collector tells what happens, as a runtime is told by its standalone collector.
//!
//! The design is .NET's. What is enabled is kept *inside* the collector, where the check is one load; the host sets it from
//! outside ([`HostConnection::set_event_keyword_state`], [`HostConnection::set_event_level_state`]), and gets, in
//! return, each event as a number and the bytes of its payload ([`Host::fire_event`]).
//!
//! ```text
//!   fire ──► ring ──► drain ──► queue ──► thread "stopworld-host" ──► Host::fire_event(id, payload)
//!   ────────────────────────              ─────────────────────────────────────────────────────────
//!   as for a file                         may allocate, lock, wait, and call the collector
//! ```
//!
//! **A host may do what it likes** (`.host.own-thread`), so nobody calls it who must not wait for it: neither the thread that fires,
//! which may stand in the stopped world or in a signal handler, nor the drain, which holds the recorder's lock. The drain
//! copies records into a queue, and a thread that is no mutator takes them out and calls the host. If the host wants malloc's
//! lock, and who has it was stopped by a collection, the host waits for the restart and nobody waits for the host. So
//! firing costs the same with a host as with a file: it is the same road.
//!
//! **Nobody waits for ever** (`.host.bounded`). While the host takes events, the drain waits for room in a full queue, and those who
//! fire wait for the drain: nothing is lost, and everybody goes at the host's speed. A host that has taken nothing for a
//! second may be waiting for a thread that waits for *it*. Then events are dropped until it goes on; it is told how many
//! ([`Host::events_lost`]) at the place where they are missing.
//!
//! **Numbers.** `event_id` is the event's number in the [table](super::table), not its number in .NET's manifest: there two
//! phases share one number, and half of our events have none. Numbers change when the table grows; names do not, and
//! [`EventId::descriptor`] has the name, the numbers in other formats, and where each field lies in the payload.
//! A [template](super::templates) reads it.

mod options;
mod queue;

use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

pub use self::options::{HostOptions, HostTotals};
use self::queue::{Entry, Queue, State};
use super::Events;
use super::clock::{Clock, Relation};
use super::record::{
    Consumer, ConsumerId, Lost, RecordError, Recorded, Recorder, RecordingThread, WorldNumber, as_blocking,
};
use super::state::{Categories, Keywords, Level, Provider, Selection, Switch};
use super::table::{EventId, MAX_PAYLOAD_BYTES};
use crate::os::clock::now_ns;
use crate::os::spawn::spawn;
use crate::os::{Tid, signals, thread};
use crate::sabotage::{Guard, removed};
use crate::sync::Ordering;

/// What is known about an event beside its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// When it happened, by CLOCK_MONOTONIC, in nanoseconds.
    pub ns: u64,
    /// On which thread.
    pub thread: RecordingThread,
    /// In which world.
    pub world: WorldNumber,
    /// The version of the payload.
    pub version: u8,
}

/// Who is told. One thread calls it, one call at a time, events in order of time (as [`Consumer`] says).
///
/// It may allocate, take locks, wait, and change what it wants; but it must not wait for what only comes after it has
/// returned: [`HostConnection::flush`] and [`HostConnection::end`] fail or return at once when it calls them. A panic ends it.
pub trait Host: Send + Sync + 'static {
    /// Something happened: the number of the event in the table, and its payload, in order, little-endian, without padding.
    fn fire_event(&self, event_id: u32, payload: &[u8]);

    /// The same with the time, the thread and the world. This is what is called; by default it calls
    /// [`fire_event`](Self::fire_event).
    fn fire_stamped_event(&self, event_id: u32, payload: &[u8], stamp: &Stamp) {
        let _ = stamp;
        self.fire_event(event_id, payload);
    }

    /// So many events are missing here.
    fn events_lost(&self, count: u64) {
        let _ = count;
    }
}

/// Why a host was not served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// The recorder does not know it, or can't have it.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The host has not taken everything in time.
    #[error("the host has not taken its events within {0:?}: it is stuck, or too slow")]
    TimedOut(Duration),
    /// It waits for itself.
    #[error("the host asks for this inside `fire_event`, and would wait for its own return: do it on another thread")]
    InFireEvent,
    /// It has panicked.
    #[error("the host has panicked in `fire_event`, and gets no more events")]
    Panicked,
}

/// A host's side of the interface: what it wants, and when it has had enough. A clone is the same connection.
#[derive(Clone, Debug)]
pub struct HostConnection {
    consumer: ConsumerId,
    queue: Arc<Queue>,
}

/// The queue's filling end.
#[derive(Debug)]
struct Filler {
    queue: Arc<Queue>,
    /// Only for the known-bad variant.
    host: Arc<dyn Host>,
}

impl Consumer for Filler {
    #[inline]
    fn record(&mut self, record: &Recorded) -> io::Result<()> {
        if removed(Guard::HostOwnThread) {
            self.host.fire_event(record.id as u32, record.event().serialize(&mut [0; MAX_PAYLOAD_BYTES]));
            return Ok(());
        }
        // SAFETY: the drain is one at a time, and this is the only filler.
        unsafe { self.queue.put(record.ticks, record.thread, record.world, Some(record.id), record.fields()) };
        if self.queue.state() == State::Failed { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(()) }
    }

    fn lost(&mut self, lost: &Lost) -> io::Result<()> {
        // SAFETY: as above.
        unsafe { self.queue.put(lost.ticks, lost.thread, WorldNumber(0), None, &[lost.count]) };
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        // SAFETY: as above.
        unsafe { self.queue.tell_of_loss() };
        self.queue.wake();
        Ok(())
    }

    fn close(&mut self, _: &Relation) -> io::Result<()> {
        // SAFETY: as above.
        unsafe { self.queue.tell_of_loss() };
        self.queue.close();
        Ok(())
    }
}

impl Drop for Filler {
    fn drop(&mut self) {
        self.queue.close();
    }
}

/// The thread that calls the host.
struct Server {
    queue: Arc<Queue>,
    host: Arc<dyn Host>,
    last: (u64, u64),
}

impl Server {
    fn run(mut self) {
        self.queue.server.store(thread::gettid().0 as u32, Ordering::Relaxed);
        loop {
            self.queue.sleep();
            // Before the last look, so that what was put before the end is delivered.
            let is_closed = self.queue.state() != State::Open;
            let delivered = catch_unwind(AssertUnwindSafe(|| self.deliver()));
            if delivered.is_err() {
                self.queue.fail();
            }
            if is_closed || delivered.is_err() {
                break self.queue.over();
            }
        }
    }

    fn deliver(&mut self) {
        let relation = Clock::of_process().relation();
        let mut buffer = [0; MAX_PAYLOAD_BYTES];
        let queue = Arc::clone(&self.queue);
        // SAFETY: this is the only thread that takes.
        while let Some((entry, next)) = unsafe { queue.first() } {
            match entry {
                Entry::Event(record) => {
                    let stamp = Stamp {
                        ns: self.ns_of(&relation, record.ticks),
                        thread: record.thread,
                        world: record.world,
                        version: record.id.descriptor().version,
                    };
                    let payload = record.event().serialize(&mut buffer);
                    self.host.fire_stamped_event(record.id as u32, payload, &stamp);
                    queue.count_delivered();
                }
                Entry::Lost(count) => self.host.events_lost(count),
            }
            queue.advance(next);
        }
    }

    /// Each batch reads how the clocks relate, which may be a few nanoseconds off the last one's: what was not earlier stays so.
    fn ns_of(&mut self, relation: &Relation, ticks: u64) -> u64 {
        let (last_ticks, last_ns) = self.last;
        let ns = relation.ns_of(ticks);
        let ns = if ticks >= last_ticks { ns.max(last_ns) } else { ns };
        self.last = (ticks, ns);
        ns
    }
}

impl Events {
    /// From now on, what `selection` selects of this world's events is told to `host`.
    ///
    /// # Errors
    /// Too many record, or the system does not give what that needs.
    pub fn serve(
        &self,
        host: Arc<dyn Host>,
        selection: Selection,
        options: HostOptions,
    ) -> Result<HostConnection, HostError> {
        let queue = Arc::new(Queue::new(options).map_err(RecordError::System)?);
        // Before the thread: it reads the clock, which must have been chosen.
        let _ = Clock::of_process();
        let server = Server { queue: Arc::clone(&queue), host: Arc::clone(&host), last: (0, 0) };
        {
            // Signals are the program's own threads' affair.
            let _blocked = signals::block_all();
            spawn("stopworld-host", move || server.run()).map_err(RecordError::System)?;
        }
        // If this fails the filler is dropped, which ends the thread.
        let consumer = self.record_to(Box::new(Filler { queue: Arc::clone(&queue), host }), selection)?;
        Ok(HostConnection { consumer, queue })
    }
}

/// What a host tells the collector. Each of the first five is in force when it returns: nothing that it disabled is *fired* with
/// a later time. What was fired before may still come; after a [`flush`](Self::flush) it has come.
///
/// # Errors
/// In each case: the connection has ended, or was not made for this world.
impl HostConnection {
    /// Turns keywords of a provider on or off; levels stay.
    pub fn set_event_keyword_state(
        &self,
        events: &Events,
        provider: Provider,
        keywords: Keywords,
        enabled: impl Into<Switch>,
    ) -> Result<(), HostError> {
        Ok(events.change_recorded(self.consumer, |wants| wants.set_event_keyword_state(provider, keywords, enabled))?)
    }

    /// Turns this one level of a provider on or off; keywords and the other levels stay.
    pub fn set_event_level_state(
        &self,
        events: &Events,
        provider: Provider,
        level: Level,
        enabled: impl Into<Switch>,
    ) -> Result<(), HostError> {
        Ok(events.change_recorded(self.consumer, |wants| wants.set_event_level_state(provider, level, enabled))?)
    }

    /// Of this provider these keywords, and every level up to this one; `None` is no level at all.
    pub fn set(
        &self,
        events: &Events,
        provider: Provider,
        keywords: Keywords,
        up_to: Option<Level>,
    ) -> Result<(), HostError> {
        Ok(events.change_recorded(self.consumer, |wants| wants.set(provider, keywords, up_to))?)
    }

    /// `telemetry_control(reset, flip)` of the MPS: takes `reset` out, then inverts `flip`. Returns the old filter.
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

    /// Replaces what the host wants of a world's events.
    pub fn select(&self, events: &Events, selection: Selection) -> Result<(), HostError> {
        Ok(events.select_recorded(self.consumer, selection)?)
    }

    /// The recorder's name for it.
    pub fn consumer(&self) -> ConsumerId {
        self.consumer
    }

    /// Waits until the host has been told of everything that was fired before; a mutator counts as blocking meanwhile.
    pub fn flush(&self, within: Duration) -> Result<(), HostError> {
        self.must_not_be_served()?;
        // Another consumer's error is that one's.
        let _ = Recorder::of_process().flush();
        Recorder::of_process().totals_of(self.consumer)?;
        let target = self.queue.written();
        self.wait(within, || self.queue.read() >= target || self.queue.state() == State::Failed)?;
        if self.queue.state() == State::Failed { Err(HostError::Panicked) } else { Ok(()) }
    }

    /// Ends the connection: the host is told of everything that was fired before, and then of nothing. Inside `fire_event` it
    /// returns at once, and the rest comes all the same.
    pub fn end(&self, events: &Events, within: Duration) -> Result<HostTotals, HostError> {
        events.end_recording(self.consumer)?;
        if self.must_not_be_served().is_ok() {
            self.wait(within, || matches!(self.queue.state(), State::Over | State::Failed))?;
        }
        Ok(self.totals())
    }

    /// The host's numbers so far.
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

impl fmt::Debug for dyn Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Host")
    }
}

/// The event of a number that a host got.
impl TryFrom<u32> for EventId {
    type Error = u32;

    fn try_from(number: u32) -> Result<EventId, u32> {
        EventId::from_index(number as usize).ok_or(number)
    }
}
