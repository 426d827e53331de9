//! A stream that is being written: its options, its worlds, its filter, and its end.
//!
//! ```text
//!   Trace ──── switchboard ────► Writer ──► file        written immediately
//!     │                            ▲
//!     └─ flight recorder ── dump ──┘                    or the last n bytes kept in memory, and written on request
//! ```
//!
//! A process may write several streams at once, each with its own filter and file. A stream outlives its worlds: a world built later
//! can join it. It ends when its owner calls [`Trace::finish`].

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
use crate::{RecordWorld, Since, World};

/// Options of a stream.
#[derive(Clone, Debug)]
pub struct Options {
    path: PathBuf,
    categories: Categories,
    manner: Manner,
}

methods_of_options!();

/// A stream that is being written. Cheap to clone; clones share one stream.
#[derive(Clone)]
pub struct Trace(Arc<Parts>);

struct Parts {
    ongoing: Ongoing,
    board: Arc<Switchboard>,
    place: Place,
}

methods_of_trace!();

impl Options {
    /// A stream of these categories, written to this file. The file is created, or truncated, at the first write.
    pub fn new(path: impl Into<PathBuf>, categories: Categories) -> Options {
        Options { path: path.into(), categories, manner: Manner::default() }
    }

    /// Starts the stream, with no world yet.
    ///
    /// # Errors
    /// The path is invalid, or the process cannot record events.
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

/// Returns the events that these categories are written from, and those that the writer needs to write them.
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

/// Interns the names that every stream has: the version first, as in a stream of the MPS.
fn name_ourselves() {
    static NAMED: OnceLock<()> = OnceLock::new();
    NAMED.get_or_init(|| {
        let labels = Labels::of_the_process();
        // If there is no room for the labels, the stream does without them.
        let _ = labels.intern(concat!("stopworld ", env!("CARGO_PKG_VERSION"), ", stop-the-world mark-sweep"));
        // The format has no field for the frequency.
        let _ = labels.intern(&format!("{CLOCK_TEXT}{}", Clock::of_process().hz()));
        for (class, name) in CLASSES.iter().zip(["Reservation", "MarkSweep"]) {
            if let Ok(label) = labels.intern(name) {
                let _ = labels.bind(std::ptr::from_ref(class) as usize, label);
            }
        }
    });
}

impl Trace {
    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        self.0.place.path()
    }

    /// Publishes a world's facts to the writer and selects its events. No block is acquired or released meanwhile. Call it only in
    /// [`Ongoing::with`].
    fn introduce(
        &self,
        inner: &Arc<Inner>,
        number: WorldNumber,
        since: Since,
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
            late: u64::from(since == Since::Now),
            serial,
            ..Facts::default()
        };
        let replaced = self.0.board.introduce(usize::from(number.0), facts, held.into());
        let selected = self.0.ongoing.select(inner, selection(filter));
        // `select` took the recorder's lock, even if it failed: the writer does not read these blocks any more.
        drop(replaced);
        selected
    }

    // ---- The filter ----------------------------------------------------------------------------------------------------

    /// Returns the filter.
    pub fn telemetry_get(&self) -> Categories {
        self.0.ongoing.with(|_| self.filter())
    }

    /// Adds categories and returns the old filter. The state that readers need for them (the existing arenas, pools and segments,
    /// and all names) is written first.
    pub fn telemetry_set(&self, mask: Categories) -> Categories {
        self.change(|filter| filter.telemetry_set(mask))
    }

    /// Removes categories and returns the old filter. No record of these categories has a time after this call returns.
    pub fn telemetry_reset(&self, mask: Categories) -> Categories {
        self.change(|filter| filter.telemetry_reset(mask))
    }

    /// The function `telemetry_control(reset, flip)` of the MPS: removes `reset`, then inverts `flip`. Returns the old filter.
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
            // While only some threads have seen the change, the records of both filters are written.
            self.begin_segment(clock.now(), old.0 | filter.0);
            let living = worlds.living();
            for inner in &living {
                // The result is ignored: if the trace has ended, its filter has no effect.
                let events = &inner.collector.events;
                let _ = match events.world_number() {
                    Some(number) if needs_blocks(filter) && !needs_blocks(old) => {
                        self.introduce(inner, number, Since::Now, 0, filter)
                    }
                    _ => self.0.ongoing.select(inner, selection(filter)),
                };
            }
            self.begin_segment(clock.now() + 1, filter.0);
            (old, living)
        });
        // A world whose last other handle was dropped meanwhile is closed here, after the release of a lock that this may take.
        drop(living);
        old
    }

    /// Returns the current filter. Call it only in [`Ongoing::with`].
    fn filter(&self) -> Categories {
        Categories(self.0.board.newest_filter())
    }

    /// Sets whether to expect the ends of worlds: a world with no selected events emits no end record.
    fn expect_ends(&self, worlds: &mut Worlds, filter: Categories) {
        if !self.0.ongoing.keeps() {
            worlds.set_ends(if filter == Categories::NONE { Ends::DoNotCome } else { Ends::Come });
        }
    }

    fn begin_segment(&self, from: u64, filter: u64) {
        let board = &self.0.board;
        if !board.has_room() {
            // `finish` reports an error.
            let _ = Recorder::of_process().flush();
        }
        if !board.has_room() || self.0.ongoing.keeps() {
            // No writer reads the segments.
            board.pass(board.newest());
        }
        board.begin(from, filter);
    }

    // ---- Flight recorder -----------------------------------------------------------------------------------------------

    /// Writes the flight recorder's events to the file, replacing its contents. Returns the number of events.
    ///
    /// # Errors
    /// There is no flight recorder, or the file failed.
    pub fn write_flight(&self) -> io::Result<u64> {
        let Parts { ongoing, board, place } = &*self.0;
        ongoing.replay_to_end(writer(board, place, History::Ignored)?)
    }
}

/// Returns a new serial number, which distinguishes worlds that had the same world number.
fn next_serial() -> u64 {
    static SERIAL: AtomicU64 = AtomicU64::new(0);
    SERIAL.fetch_add(1, Ordering::Relaxed) + 1
}

impl RecordWorld for Trace {
    /// Adds the world to the stream. If the world exists already, the stream first reports its present state.
    fn record_world(&self, world: &World, since: Since) -> Result<(), RecordError> {
        let inner = world.inner();
        self.0.ongoing.join(inner, |number| self.introduce(inner, number, since, next_serial(), self.filter()))
    }
}
