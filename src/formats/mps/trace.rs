//! A stream that is being written: which worlds it is of, what it takes, and how it ends.
//!
//! ```text
//!   Trace ──── switchboard ────► Writer ──► file        written as it happens
//!     │                            ▲
//!     └─ flight recorder ── dump ──┘                    or kept in memory, the last so many bytes, and written on demand
//! ```
//!
//! A process may have several, each with its own filter and file. A trace outlives its worlds: one that is built later
//! can join it, and its end is said by who started it.

use std::ffi::CString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::blocks::Held;
use super::switchboard::{Facts, Switchboard};
use super::writer::{CLASSES, History, Writer};
use crate::events::clock::Clock;
use crate::events::record::{Consumer, ConsumerTotals, FlightRecorder, RecordError, Recorder, Recording, WorldNumber};
use crate::events::{Categories, Category, EventId, EventSet, Labels, Selection};
use crate::formats::Finished;
use crate::formats::complaint::Complaint;
use crate::formats::trace_error::{TraceError, c_path};
use crate::formats::worlds::{Worlds, flush_until};
use crate::heap::layout::{BLOCK_BYTES, CHUNK_BYTES, Space};
use crate::runtime::Inner;
use crate::sync::{AtomicU64, Ordering};
use crate::{World, WorldBuilder};

/// How a trace is to be.
#[derive(Clone, Debug)]
pub struct Options {
    path: PathBuf,
    categories: Categories,
    flight_bytes: Option<usize>,
    complaint: Complaint,
}

/// A stream that is being written. Cheap to clone; clones are the same stream.
#[derive(Clone)]
pub struct Trace(Arc<Parts>);

struct Parts {
    recording: Recording<Owned>,
    board: Arc<Switchboard>,
    path: PathBuf,
    c_path: CString,
    complaint: Complaint,
    keeps: Keeps,
}

/// Where records go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keeps {
    File,
    Memory,
}

struct Owned {
    filter: Categories,
    worlds: Worlds,
}

impl Options {
    /// A stream of these categories, into this file: made when there is something to write, emptied if it is there.
    pub fn new(path: impl Into<PathBuf>, categories: Categories) -> Options {
        Options { path: path.into(), categories, flight_bytes: None, complaint: Complaint::Returned }
    }

    /// Keeps the last so many bytes of records in memory; [`Trace::write_flight`] writes them.
    #[must_use]
    pub fn flight_recorder(mut self, bytes: usize) -> Options {
        self.flight_bytes = Some(bytes);
        self
    }

    /// Tells on standard error, in one line and at once, when the file fails. `another` says what names another file.
    #[must_use]
    pub fn tell_failures(mut self, another: &'static str) -> Options {
        self.complaint = Complaint::Told(another);
        self
    }

    /// Starts the stream. It has no world yet.
    ///
    /// # Errors
    /// The path is none, or recording is not possible here.
    pub fn start(self) -> Result<Trace, TraceError> {
        let c_path = c_path(&self.path)?;
        name_ourselves();
        let board = Arc::new(Switchboard::new(self.categories.0));
        let consumer: Box<dyn Consumer> = match self.flight_bytes {
            Some(bytes) => Box::new(FlightRecorder::with_capacity(bytes)?),
            None => {
                let (board, path) = (Arc::clone(&board), c_path.clone());
                Box::new(Writer::new(board, path, self.complaint.clone(), History::Followed)?)
            }
        };
        let owned = Owned { filter: self.categories, worlds: Worlds::default() };
        Ok(Trace(Arc::new(Parts {
            recording: Recording::start(consumer, owned)?,
            board,
            path: self.path,
            c_path,
            complaint: self.complaint,
            keeps: if self.flight_bytes.is_some() { Keeps::Memory } else { Keeps::File },
        })))
    }
}

/// The events that these categories are made of, and those that tell the writer what it must know for that.
fn selection(filter: Categories) -> Selection {
    let is_on = |event: EventId| event.descriptor().mps.iter().any(|record| filter.contains(record.category));
    let mut events: EventSet = EventId::all().filter(|event| is_on(*event)).collect();
    if events != EventSet::NONE {
        let frame = [EventId::WorldCreated, EventId::WorldClosed, EventId::PoolCreated, EventId::PoolClosed];
        frame.into_iter().for_each(|event| events.insert(event));
    }
    if needs_blocks(filter) {
        // An object's record names its pool, which is that of its block.
        events.insert(EventId::BlockAcquired);
        events.insert(EventId::BlockReleased);
    }
    if filter.contains(Category::Trace) {
        events.insert(EventId::HeapStats);
    }
    Selection::of(events)
}

fn needs_blocks(filter: Categories) -> bool {
    [Category::Arena, Category::Seg, Category::Object].into_iter().any(|category| filter.contains(category))
}

/// The text that says how fast a stream's clock goes, before the number of its ticks in a second. No reader of the Memory
/// Pool System's needs it; ours does.
pub(crate) const CLOCK_TEXT: &str = "ticks a second: ";

/// The names of what every stream has: the version first, as in the MPS's own.
fn name_ourselves() {
    static NAMED: OnceLock<()> = OnceLock::new();
    NAMED.get_or_init(|| {
        let labels = Labels::of_the_process();
        // Without room for names there are none.
        let _ = labels.intern(concat!("stopworld ", env!("CARGO_PKG_VERSION"), ", stop-the-world mark-sweep"));
        // The format has no place for it.
        let _ = labels.intern(&format!("{CLOCK_TEXT}{}", Clock::of_process().hz()));
        for (class, name) in CLASSES.iter().zip(["Reservation", "MarkSweep"]) {
            if let Ok(label) = labels.intern(name) {
                let _ = labels.bind(std::ptr::from_ref(class) as usize, label);
            }
        }
    });
}

impl Trace {
    /// The file.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// From now on the world's events are in the stream. Who builds a world and wants all of its events says
    /// [`WorldBuilder::traced_by`]. What of the world is there already is told first.
    ///
    /// # Errors
    /// The trace has ended, or too many worlds are recorded.
    pub fn record(&self, world: &World) -> Result<(), RecordError> {
        self.join(world, Moment::Late)
    }

    fn join(&self, world: &World, moment: Moment) -> Result<(), RecordError> {
        let inner = world.inner();
        self.0.recording.join(&inner.collector.events, |owned, number| {
            owned.worlds.add(inner);
            self.introduce(inner, number, moment, next_serial(), owned.filter)
        })
    }

    /// Lets the writer know a world, and selects. No block changes hands meanwhile. Only in
    /// [`Recording::with`].
    fn introduce(
        &self,
        inner: &Arc<Inner>,
        number: WorldNumber,
        moment: Moment,
        serial: u64,
        filter: Categories,
    ) -> Result<(), RecordError> {
        let collector = &inner.collector;
        let (heap, threads) = (&collector.heap, &collector.threads);
        let _allocation = threads.lock(&threads.locks().allocation);
        let mut held = Vec::new();
        heap.for_each_held(|address, bytes, space| {
            held.push(Held { address: address as u64, bytes: bytes as u64, space, told: 0 });
        });
        let facts = Facts {
            world: Arc::as_ptr(inner) as u64,
            heap: heap.blocks.base() as u64,
            reserved: heap.blocks.reserved_bytes() as u64,
            chunk: CHUNK_BYTES as u64,
            block: BLOCK_BYTES as u64,
            limit: heap.limit_bytes(),
            pools: [Space::Small, Space::Pinned, Space::Large].map(|space| heap.pool(space) as u64),
            late: u64::from(moment == Moment::Late),
            serial,
            ..Facts::default()
        };
        let replaced = self.0.board.introduce(usize::from(number.0), facts, held.into());
        let selected = collector.events.select_recorded(self.0.recording.consumer(), selection(filter));
        // That took the recorder's lock, whatever came of it: the writer reads these no more.
        drop(replaced);
        selected
    }

    // ---- The filter ----------------------------------------------------------------------------------------------------

    /// The filter.
    pub fn telemetry_get(&self) -> Categories {
        self.0.recording.with(|owned| owned.filter)
    }

    /// Adds categories; returns the old filter. What readers must know of these (which arenas, pools, segments there are, and
    /// all names) is written first.
    pub fn telemetry_set(&self, mask: Categories) -> Categories {
        self.change(|filter| filter.telemetry_set(mask))
    }

    /// Takes categories out; returns the old filter. When this returns, no record of theirs has a later clock.
    pub fn telemetry_reset(&self, mask: Categories) -> Categories {
        self.change(|filter| filter.telemetry_reset(mask))
    }

    /// `telemetry_control(reset, flip)` of the MPS: takes `reset` out, then inverts `flip`; returns the old filter.
    pub fn telemetry_control(&self, reset: Categories, flip: Categories) -> Categories {
        self.change(|filter| filter.control(reset, flip))
    }

    fn change(&self, edit: impl FnOnce(&mut Categories) -> Categories) -> Categories {
        let (old, worlds) = self.0.recording.with(|owned| {
            let mut filter = owned.filter;
            let old = edit(&mut filter);
            if filter == old {
                return (old, Vec::new());
            }
            owned.filter = filter;
            let clock = Recorder::of_process().clock();
            // While some threads have seen the change and others have not, what either says is written.
            self.begin_segment(clock.now(), old.0 | filter.0);
            let worlds = owned.worlds.living();
            for inner in &worlds {
                // A trace that has ended has no filter to obey.
                let events = &inner.collector.events;
                let _ = match events.world_number() {
                    Some(number) if needs_blocks(filter) && !needs_blocks(old) => {
                        self.introduce(inner, number, Moment::Late, 0, filter)
                    }
                    _ => events.select_recorded(self.0.recording.consumer(), selection(filter)),
                };
            }
            self.begin_segment(clock.now() + 1, filter.0);
            (old, worlds)
        });
        // A world whose last handle went meanwhile ends here, with the lock that it may want free.
        drop(worlds);
        old
    }

    fn begin_segment(&self, from: u64, filter: u64) {
        let board = &self.0.board;
        if !board.has_room() {
            // An error is told where the trace ends.
            let _ = Recorder::of_process().flush();
        }
        if !board.has_room() || self.0.keeps == Keeps::Memory {
            // Nobody follows.
            board.pass(board.newest());
        }
        board.begin(from, filter);
    }

    // ---- Out of memory, and the end ------------------------------------------------------------------------------------

    /// Brings everything that was fired before to the file.
    ///
    /// # Errors
    /// The first error of the file, once.
    pub fn flush(&self) -> io::Result<()> {
        Recorder::of_process().flush()
    }

    /// Writes what the flight recorder has into the file, in place of what is there. Says how many events those were.
    ///
    /// # Errors
    /// There is no flight recorder, or the file failed.
    pub fn write_flight(&self) -> io::Result<u64> {
        let Parts { board, c_path, complaint, recording, .. } = &*self.0;
        let mut writer = Writer::new(Arc::clone(board), c_path.clone(), complaint.clone(), History::Ignored)?;
        Recorder::of_process().replay(recording.consumer(), &mut writer)
    }

    /// The numbers so far.
    ///
    /// # Errors
    /// It has ended.
    pub fn totals(&self) -> Result<ConsumerTotals, RecordError> {
        self.0.recording.totals()
    }

    /// Waits until the ends of all its worlds are in the stream, those whose last handle has gone.
    pub fn wait_for_worlds(&self, within: Duration) {
        flush_until(within, || self.has_seen_all_ends());
    }

    fn has_seen_all_ends(&self) -> bool {
        self.0.recording.with(|Owned { filter, worlds }| {
            let is_followed = self.0.keeps == Keeps::File && *filter != Categories::NONE;
            worlds.have_gone() && (!is_followed || self.0.board.ended.load(Ordering::Relaxed) >= worlds.joined())
        })
    }

    /// Ends the stream: everything is in the file, or counted.
    ///
    /// # Errors
    /// It has ended already.
    pub fn finish(&self) -> Result<Finished, RecordError> {
        let ended = self.0.recording.end()?;
        Ok(Finished {
            totals: ended.totals,
            records: self.0.board.records.load(Ordering::Relaxed),
            bytes: self.0.board.bytes.load(Ordering::Relaxed),
            error: ended.error,
        })
    }
}

/// When a trace meets a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    BeforeItsFirstEvent,
    Late,
}

/// Distinguishes worlds that had the same number.
fn next_serial() -> u64 {
    static SERIAL: AtomicU64 = AtomicU64::new(0);
    SERIAL.fetch_add(1, Ordering::Relaxed) + 1
}

impl WorldBuilder {
    /// Lets all events of the world, from its first on, go to this stream.
    #[must_use]
    pub fn traced_by(self, trace: &Trace) -> Self {
        let trace = trace.clone();
        self.before_first_event(move |world| Ok(trace.join(world, Moment::BeforeItsFirstEvent)?))
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trace").field("path", &self.0.path).field("keeps", &self.0.keeps).finish_non_exhaustive()
    }
}
