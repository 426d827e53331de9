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

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::blocks::Held;
use super::switchboard::{Facts, Switchboard};
use super::writer::{CLASSES, History, Writer};
use crate::events::clock::Clock;
use crate::events::record::{RecordError, Recorder, WorldNumber};
use crate::events::{Categories, Category, EventId, EventSet, Labels, Selection};
use crate::formats::TraceError;
use crate::formats::ongoing::{Manner, Ongoing, Place, methods_of_options, methods_of_trace};
use crate::formats::worlds::{Ends, Worlds};
use crate::heap::layout::{BLOCK_BYTES, CHUNK_BYTES, Space};
use crate::runtime::Inner;
use crate::sync::{AtomicU64, Ordering};
use crate::{World, WorldBuilder};

/// How a trace is to be.
#[derive(Clone, Debug)]
pub struct Options {
    path: PathBuf,
    categories: Categories,
    manner: Manner,
}

methods_of_options!();

/// A stream that is being written. Cheap to clone; clones are the same stream.
#[derive(Clone)]
pub struct Trace(Arc<Parts>);

struct Parts {
    ongoing: Ongoing,
    board: Arc<Switchboard>,
    place: Place,
}

methods_of_trace!();

impl Options {
    /// A stream of these categories, into this file: made when there is something to write, emptied if it is there.
    pub fn new(path: impl Into<PathBuf>, categories: Categories) -> Options {
        Options { path: path.into(), categories, manner: Manner::default() }
    }

    /// Starts the stream. It has no world yet.
    ///
    /// # Errors
    /// The path is none, or recording is not possible here.
    pub fn start(self) -> Result<Trace, TraceError> {
        let Options { path, categories, manner } = self;
        let place = Place::new(path, manner.complaint.clone())?;
        name_ourselves();
        let board = Arc::new(Switchboard::new(categories.0));
        let ongoing = Ongoing::start(&manner, &board.progress, || writer(&board, &place, History::Followed))?;
        let trace = Trace(Arc::new(Parts { ongoing, board, place }));
        trace.0.ongoing.with(|worlds| trace.expect_ends(worlds, categories));
        Ok(trace)
    }
}

fn writer(board: &Arc<Switchboard>, place: &Place, history: History) -> io::Result<Writer> {
    Writer::new(Arc::clone(board), place.c_path.clone(), place.complaint.clone(), history)
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
pub const CLOCK_TEXT: &str = "ticks a second: ";

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
        self.0.place.path()
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
        self.0.ongoing.join(inner, |number| self.introduce(inner, number, moment, next_serial(), self.filter()))
    }

    /// Lets the writer know a world, and selects. No block changes hands meanwhile. Only in [`Ongoing::with`].
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
        let allocation = threads.lock(&threads.locks().allocation);
        let mut held = Vec::new();
        heap.for_each_held(&allocation, |address, bytes, space| {
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
        let selected = self.0.ongoing.select(inner, selection(filter));
        // That took the recorder's lock, whatever came of it: the writer reads these no more.
        drop(replaced);
        selected
    }

    // ---- The filter ----------------------------------------------------------------------------------------------------

    /// The filter.
    pub fn telemetry_get(&self) -> Categories {
        self.0.ongoing.with(|_| self.filter())
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
        let (old, living) = self.0.ongoing.with(|worlds| {
            let mut filter = self.filter();
            let old = edit(&mut filter);
            if filter == old {
                return (old, Vec::new());
            }
            self.expect_ends(worlds, filter);
            let clock = Recorder::of_process().clock();
            // While some threads have seen the change and others have not, what either says is written.
            self.begin_segment(clock.now(), old.0 | filter.0);
            let living = worlds.living();
            for inner in &living {
                // A trace that has ended has no filter to obey.
                let events = &inner.collector.events;
                let _ = match events.world_number() {
                    Some(number) if needs_blocks(filter) && !needs_blocks(old) => {
                        self.introduce(inner, number, Moment::Late, 0, filter)
                    }
                    _ => self.0.ongoing.select(inner, selection(filter)),
                };
            }
            self.begin_segment(clock.now() + 1, filter.0);
            (old, living)
        });
        // A world whose last handle went meanwhile ends here, with the lock that it may want free.
        drop(living);
        old
    }

    /// As it is now. Only in [`Ongoing::with`].
    fn filter(&self) -> Categories {
        Categories(self.0.board.newest_filter())
    }

    /// Of a world of which nothing is asked no end comes.
    fn expect_ends(&self, worlds: &mut Worlds, filter: Categories) {
        if !self.0.ongoing.keeps() {
            worlds.set_ends(if filter == Categories::NONE { Ends::DoNotCome } else { Ends::Come });
        }
    }

    fn begin_segment(&self, from: u64, filter: u64) {
        let board = &self.0.board;
        if !board.has_room() {
            // An error is told where the trace ends.
            let _ = Recorder::of_process().flush();
        }
        if !board.has_room() || self.0.ongoing.keeps() {
            // Nobody follows.
            board.pass(board.newest());
        }
        board.begin(from, filter);
    }

    // ---- Out of memory -------------------------------------------------------------------------------------------------

    /// Writes what the flight recorder has into the file, in place of what is there. Says how many events those were.
    ///
    /// # Errors
    /// There is no flight recorder, or the file failed.
    pub fn write_flight(&self) -> io::Result<u64> {
        let Parts { ongoing, board, place } = &*self.0;
        ongoing.replay_to_end(writer(board, place, History::Ignored)?)
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
