//! A trace that is streamed to a client while it is recorded.
//!
//! The trace is written on the sender's own thread, from records that a consumer of the sender has queued, so the destination may block.
//!
//! The sender selects the events one by one, and can add events of its own to those of the collector.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::output::TraceOutput;
use super::sequencer::{Head, opener};
use super::shared_state::SharedState;
use super::writer::{Writer, WriterSettings};
use super::{Container, Destination, Providers};
use nettrace::EventType;
use stopworld::World;
use stopworld::events::EventSet;
use stopworld::events::record::{Consumer, Lost, Policy, Recorded, RecordingThread, WorldNumber};

/// How often the list of a world's threads is tried.
const THREAD_LIST_TRIES: u32 = 100;
const BETWEEN_TRIES: Duration = Duration::from_millis(1);

/// The facts about the worlds of a trace that their events do not have: their heap limits, whether they sample their allocations, and the
/// names of the threads that attached before.
#[derive(Clone, Debug)]
pub struct WorldFacts(Arc<SharedState>);

impl Default for WorldFacts {
    fn default() -> WorldFacts {
        WorldFacts(Arc::new(SharedState::new()))
    }
}

impl WorldFacts {
    /// Stores the facts about a world of the trace. Call it before the world's first record is written.
    ///
    /// # Panics
    /// If there is no world with this number.
    pub fn note(&self, number: WorldNumber, world: &World) {
        self.0.note(number, world);
    }

    /// Stores the names of the threads that have attached. Call it after the world's events have been selected, on one thread at a time.
    ///
    /// Waits no longer than a usual collection: a debugger can keep a world stopped, and its list of threads locked, for any time. The
    /// trace then has no names of these threads.
    pub fn note_threads(&self, world: &World) {
        for _ in 0..THREAD_LIST_TRIES {
            if world.try_with_threads(|threads| self.0.note_threads(threads)).is_some() {
                return;
            }
            std::thread::sleep(BETWEEN_TRIES);
        }
    }
}

/// See the module documentation. Use it only on the thread that created it.
#[derive(Debug)]
pub struct Live {
    writer: Writer,
    /// The thread of the sender's own events.
    sender: RecordingThread,
}

impl Live {
    /// Returns the events that must be recorded for a trace with these providers, of any world.
    pub fn needs(providers: &Providers) -> EventSet {
        providers.selection()
    }

    /// Returns the events of this world that must be recorded for a trace with these providers.
    pub fn needs_of(providers: &Providers, world: &World) -> EventSet {
        providers.selection_of(world)
    }

    /// Starts a trace of those events of these providers for which `wants` returns true. The arguments of `wants` are an event's
    /// provider, number, keywords and level. The head of the trace is sent with the first flush.
    ///
    /// # Errors
    /// The system refused memory.
    pub fn new(
        providers: &Providers,
        wants: impl Fn(&str, u32, u64, u8) -> bool,
        facts: WorldFacts,
        destination: Box<dyn Destination>,
    ) -> io::Result<Live> {
        let sender = opener();
        let head = Head::now();
        let settings = WriterSettings {
            container: Container::V4,
            providers,
            policy: Policy::Dropping,
            head,
            opener: sender,
            noted: 0,
        };
        let mut writer = Writer::without_head(&settings, facts.0, TraceOutput::to(destination))?;
        writer.keep_only(wants);
        writer.begin()?;
        Ok(Live { writer, sender })
    }

    /// Writes a record.
    ///
    /// # Errors
    /// The first error of the destination; later calls write nothing.
    pub fn record(&mut self, record: &Recorded) -> io::Result<()> {
        self.writer.record(record)
    }

    /// Accounts for lost records, so that a reader finds a gap in the sequence numbers of their thread.
    ///
    /// # Errors
    /// As for [`record`](Self::record).
    pub fn lost(&mut self, lost: &Lost) -> io::Result<()> {
        self.writer.lost(lost)
    }

    /// Writes an event of the sender. `kind` must always be the same for the same `number`, which is below 64.
    ///
    /// # Errors
    /// As for [`record`](Self::record).
    pub fn own_event(&mut self, number: u32, kind: &EventType, ticks: u64, payload: &[u8]) -> io::Result<()> {
        self.writer.foreign(number, kind, ticks, self.sender, payload)
    }

    /// Sends everything. All records up to the time `ticks` must have been taken.
    ///
    /// # Errors
    /// As for [`record`](Self::record).
    pub fn flush(&mut self, ticks: u64) -> io::Result<()> {
        self.writer.flush_up_to(ticks)
    }

    /// Sends everything, the names of the functions on call stacks, and the end of the trace. Takes the lock of the dynamic loader if there are
    /// call stacks, so no thread that may hold it must wait for the calling thread.
    ///
    /// # Errors
    /// As for [`record`](Self::record).
    pub fn end(&mut self, ticks: u64) -> io::Result<()> {
        self.writer.close_at(ticks)?;
        self.writer.closed()
    }
}
