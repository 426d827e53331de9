//! A telemetry stream: its filter, the worlds that it introduces, and the state that it shares with its writer.
//!
//! ```text
//!   Trace ── shared state ────► Writer ──► file        written immediately
//!     │                            ▲
//!     └─ flight recorder ── dump ──┘                    or the last n bytes kept in memory, and written on request
//! ```

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use super::blocks::Held;
use super::shared_state::{Facts, SharedState};
use super::writer::{CLASSES, History, Writer};
use crate::format::{Format, Joining};
use crate::progress::Progress;
use crate::sync::{AtomicU64, Ordering};
use crate::target::Target;
use crate::worlds::Worlds;
use stopworld::events::clock::Clock;
use stopworld::events::record::{Consumer, Policy, RecordError, Recorder, Recording};
use stopworld::events::{Categories, Category, EventId, EventSet, Labels, Selection};
use stopworld::{HeldBlock, Since, World};

/// The telemetry format of the Memory Pool System.
#[derive(Debug)]
pub struct Telemetry {
    shared_state: Arc<SharedState>,
    policy: Policy,
}

/// Options of a stream.
pub type Options = crate::Options<Telemetry>;

/// A stream that is being written.
pub type Trace = crate::Trace<Telemetry>;

impl Options {
    /// Creates the options of a stream of these categories, which is written to this file.
    pub fn new(path: impl Into<PathBuf>, categories: Categories) -> Options {
        Options::with_file(path.into(), categories)
    }
}

/// Returns the default categories: all except those with an event for each reference or object.
pub fn usual() -> Categories {
    Categories::of(&[Category::Arena, Category::Pool, Category::Trace, Category::Seg, Category::User])
}

/// Returns the events from which the records of these categories are made, and the events that the writer needs besides.
fn selection(filter: Categories) -> Selection {
    let is_on = |event: EventId| event.descriptor().mps.iter().any(|record| filter.contains(record.category));
    let mut events: EventSet = EventId::all().filter(|event| is_on(*event)).collect();
    if events != EventSet::NONE {
        let frame = [EventId::WorldCreated, EventId::WorldClosed, EventId::PoolCreated, EventId::PoolClosed];
        frame.into_iter().for_each(|event| events.insert(event));
    }
    if needs_blocks(filter) {
        // An object's record contains its pool, and that is the pool of its block.
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

/// The beginning of the text that states the frequency of a stream's clock; the number of ticks per second follows. No reader of the Memory
/// Pool System needs this text; the readers of stopworld do.
pub const CLOCK_TEXT: &str = "ticks a second: ";

/// Interns the texts that every stream has. The version is the first, as in a stream of the MPS.
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

impl Format for Telemetry {
    type Settings = Categories;

    fn begin(categories: Categories, policy: Policy) -> Telemetry {
        name_ourselves();
        Telemetry { shared_state: Arc::new(SharedState::new(categories.0)), policy }
    }

    fn progress(&self) -> &Arc<Progress> {
        &self.shared_state.progress
    }

    fn writer(&self, target: Target) -> io::Result<Box<dyn Consumer>> {
        self.write_to(target, History::Followed)
    }

    fn replayer(&self, target: Target, _: &Recording<Worlds>) -> io::Result<Box<dyn Consumer>> {
        self.write_to(target, History::Ignored)
    }

    fn selection(&self) -> Selection {
        selection(self.filter())
    }

    /// If the world exists already, the stream reports its present state first.
    fn join(&self, joining: &Joining<'_>) -> Result<(), RecordError> {
        self.introduce(joining, next_serial(), self.filter())
    }

    /// Returns whether events are selected: a world with no selected events emits no end record.
    fn has_ends(&self) -> bool {
        self.filter() != Categories::NONE
    }
}

impl Telemetry {
    fn write_to(&self, target: Target, history: History) -> io::Result<Box<dyn Consumer>> {
        match target {
            Target::File(file) => {
                Ok(Box::new(Writer::new(Arc::clone(&self.shared_state), file, self.policy, history)?))
            }
            // A stream is written block by block, at positions of a file.
            Target::Destination(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Publishes a world's description (its settings and the blocks that it holds) to the writer, and selects the world's events. Meanwhile
    /// the heap acquires and releases no block. The caller must hold the lock of the trace's worlds.
    fn introduce(&self, joining: &Joining<'_>, serial: u64, filter: Categories) -> Result<(), RecordError> {
        let Joining { world, number, since, .. } = *joining;
        let known = world.facts();
        world.with_held_blocks(|blocks| {
            let held = blocks.iter().map(|HeldBlock { address, bytes, space }| Held {
                address: *address as u64,
                bytes: *bytes as u64,
                space: *space,
                reported: 0,
            });
            let facts = Facts {
                world: known.address as u64,
                heap: known.heap_base as u64,
                reserved: known.reserved_bytes as u64,
                chunk: World::CHUNK_BYTES as u64,
                block: World::BLOCK_BYTES as u64,
                limit: known.limit_bytes,
                pools: known.pools.map(|pool| pool as u64),
                late: u64::from(since == Since::Now),
                serial,
                ..Facts::default()
            };
            let replaced = self.shared_state.introduce(usize::from(number.0), facts, held.collect());
            let selected = joining.select(selection(filter));
            // `select` took the recorder's lock, even if it failed: the writer does not read these blocks any more.
            drop(replaced);
            selected
        })
    }

    /// Returns the current filter. A change is made under the lock of the trace's worlds.
    fn filter(&self) -> Categories {
        Categories(self.shared_state.newest_filter())
    }
}

/// The functions for the filter, like those that a program has with the Memory Pool System.
impl Trace {
    /// Returns the filter.
    pub fn telemetry_get(&self) -> Categories {
        self.recording().with(|_| self.format().filter())
    }

    /// Adds categories and returns the old filter. The state that readers need for the new categories (the existing arenas, pools and
    /// segments, and all names) is written first.
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

    fn change(&self, edit: impl FnOnce(&mut Categories) -> Categories + Send) -> Categories {
        let (format, consumer) = (self.format(), self.recording().consumer());
        let (old, living) = self.recording().with(|worlds| {
            let mut filter = format.filter();
            let old = edit(&mut filter);
            if filter == old {
                return (old, Vec::new());
            }
            let clock = Recorder::of_process().clock();
            // While only some threads have seen the change, the records of both filters are written.
            self.begin_segment(clock.now(), old.0 | filter.0);
            let living = worlds.living();
            for world in &living {
                let Some(number) = world.events().world_number() else { continue };
                let joining = Joining { world, number, since: Since::Now, consumer };
                // The result is ignored: if the trace has ended, its filter has no effect.
                let _ = match needs_blocks(filter) && !needs_blocks(old) {
                    true => format.introduce(&joining, 0, filter),
                    false => joining.select(selection(filter)),
                };
            }
            self.begin_segment(clock.now() + 1, filter.0);
            (old, living)
        });
        // A world whose last other handle was dropped meanwhile is closed here, after the release of a lock that this may take.
        drop(living);
        old
    }

    fn begin_segment(&self, from: u64, filter: u64) {
        let shared_state = &self.format().shared_state;
        if !shared_state.has_room() {
            // `finish` reports an error.
            let _ = Recorder::of_process().flush();
        }
        if !shared_state.has_room() || self.is_flight_recorder() {
            // If a flush makes no room, or if the trace is a flight recorder, no writer reads the segments.
            shared_state.pass(shared_state.newest());
        }
        shared_state.begin(from, filter);
    }
}

/// Returns a new serial number, which distinguishes worlds that had the same world number.
fn next_serial() -> u64 {
    static SERIAL: AtomicU64 = AtomicU64::new(0);
    SERIAL.fetch_add(1, Ordering::Relaxed) + 1
}
