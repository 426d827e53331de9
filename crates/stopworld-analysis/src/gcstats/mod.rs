//! The collections of a trace and their figures: the report that PerfView calls GCStats.
//!
//! ```text
//!   events ─► Traced ──► Machine ──────► Store ─────────► Walk ───────► Rollup, exports, tables
//!             by process  by world:       final ones,      figures that
//!                         collections     bounded memory   need neighbours
//!                         take shape
//! ```
//!
//! [`Analysis`] is a [`Visitor`]: it requests only the types of events that are needed here and keeps no events, so a trace may be of any
//! length. The figures agree with those of PerfView to the last digit (`machine` and `figures` have the rules), except where PerfView is
//! wrong. With [`Rules::LikePerfView`] the figures have the same errors, so that the two outputs can be compared:
//!
//! | | here | in PerfView |
//! |---|---|---|
//! | a collection shorter than a tick of the clock | is counted | never ends |
//! | pinned objects from allocation ticks (no histories) | are counted | the large ones are counted a second time instead |
//! | column `Peak/After Ratio` | the ratio | always `2` |
//! | allocated MB per ms of pause, of a generation | uses its own allocation | uses that of all generations |
//! | suspension without an end | ends when the collection begins | ends when some other suspension ended |
//! | the collections of several worlds | are distinguished | are ignored if the number is that of the collection before; pauses that overlap are mixed up |
//! | a program's name in quotes | without the quotes | with one of the quotes |
//!
//! One defect cannot be reproduced: for a `HeapStats` that is shorter than its version requires, PerfView reads the bytes that
//! follow it in memory. Here the missing fields are zero.
//!
//! | file | part |
//! |---|---|
//! | `process` | the handlers of a process's events; the process with its results |
//! | `machine` | from events to collections |
//! | `worlds` | a machine for each world of a process |
//! | `collection` | a collection as its events describe it |
//! | `server` | whether a process has the server or the workstation collector |
//! | `store`, `pack` | many collections in memory of a fixed size |
//! | `figures`, `rollup` | figures that need neighbouring collections; sums and extremes |
//! | `csv`, `pergen`, `xml`, `number` | the files that PerfView exports, and its number formats |

pub mod collection;
mod csv;
pub mod figures;
mod machine;
pub mod number;
mod pack;
mod pergen;
mod process;
mod rollup;
mod rules;
mod server;
mod store;
mod worlds;
mod xml;

use std::collections::BTreeMap;
use std::io::{self, Read};

pub use collection::{Collection, HeapStats};
pub use figures::Figures;
pub use process::{Identity, Process, Settings};
pub use rollup::Rollup;
pub use rules::Rules;

use nettrace::clr::{Payload, Provider, gc, history, private, runtime};
use nettrace::{Container, EventType, Interest, NetEvent, Reader, Summary, TraceInfo, Visitor};
use process::{Event, Handler, Traced};
use store::Shared;

/// Maximum number of processes that are distinguished.
const MOST_PROCESSES: usize = 1024;
/// Number of event types whose handlers are cached.
const REMEMBERED: usize = 256;

/// Reads a trace to its end and returns the processes with a .NET runtime, ordered by their ids.
///
/// # Errors
///
/// A temporary file could not be read back. Damage of the trace is no error: it is reported in the summary, and the collections
/// before it are returned.
pub fn analyse<R: Read>(input: Reader<R>, rules: Rules) -> io::Result<(Vec<Process>, Summary)> {
    let mut analysis = Analysis::new(rules);
    let summary = input.read(&mut analysis);
    Ok((analysis.finish()?, summary))
}

/// Gathers the collections of a trace while it is read.
pub struct Analysis {
    rules: Rules,
    container: Container,
    start_ticks: i64,
    ticks_per_second: i64,
    pointer_bytes: u8,
    processes: BTreeMap<u64, Traced>,
    shared: Shared,
    /// A cache of the handlers of event types. The index of an entry is the number of the type modulo the size of the cache.
    handlers: Box<[(u32, Option<Handler>); REMEMBERED]>,
}

impl Analysis {
    /// Creates an analysis.
    pub fn new(rules: Rules) -> Analysis {
        Analysis {
            rules,
            container: Container::V4,
            start_ticks: 0,
            ticks_per_second: 1,
            pointer_bytes: 8,
            processes: BTreeMap::new(),
            shared: Shared::default(),
            handlers: Box::new([(u32::MAX, None); REMEMBERED]),
        }
    }

    /// Returns the processes with a .NET runtime, ordered by their ids.
    ///
    /// # Errors
    ///
    /// A temporary file could not be read back.
    pub fn finish(self) -> io::Result<Vec<Process>> {
        let processes = self.processes.into_values().map(Traced::finish);
        processes.filter_map(io::Result::transpose).collect()
    }

    /// Returns the state of a process, unless there are too many processes.
    fn process(&mut self, process: u64) -> Option<&mut Traced> {
        if self.processes.len() >= MOST_PROCESSES && !self.processes.contains_key(&process) {
            return None;
        }
        Some(self.processes.entry(process).or_insert_with(|| Traced::new(process, self.rules, &self.shared)))
    }

    fn handler(&mut self, kind: &EventType) -> Option<Handler> {
        let remembered = &mut self.handlers[kind.index as usize % REMEMBERED];
        if remembered.0 != kind.index {
            *remembered = (kind.index, handler_of(kind));
        }
        remembered.1
    }

    /// Returns milliseconds since the start of the trace, computed as PerfView does; earlier times count as the start.
    fn milliseconds(&self, ticks: i64) -> f64 {
        let since = ticks.saturating_sub(self.start_ticks).max(0);
        since as f64 * 1000.0 / self.ticks_per_second as f64
    }
}

impl Visitor for Analysis {
    fn trace(&mut self, trace: &TraceInfo) {
        self.container = trace.container;
        self.start_ticks = trace.start_ticks;
        self.ticks_per_second = trace.ticks_per_second;
        self.pointer_bytes = trace.pointer_bytes;
        if self.container == Container::V4 {
            self.process(trace.process_id.into());
        }
    }

    fn event_type(&mut self, kind: &EventType) -> Interest {
        // Any event of the runtime shows that its process is a .NET process. If the trace has only one process, a declared event type of
        // the runtime shows it too.
        let of_runtime = matches!(Provider::named(&kind.provider), Some(Provider::Runtime | Provider::Private));
        if self.container == Container::V4 {
            self.processes.values_mut().filter(|_| of_runtime).for_each(Traced::is_managed);
        }
        let wanted = handler_of(kind).is_some() || (of_runtime && self.container != Container::V4);
        if wanted { Interest::Deliver } else { Interest::Skip }
    }

    fn event(&mut self, event: &NetEvent<'_>) {
        let now = self.milliseconds(event.time);
        let payload = Payload::new(event.payload, self.pointer_bytes);
        let handler = self.handler(event.kind);
        let is_of_pipe = Provider::named(&event.kind.provider) == Some(Provider::EventPipe);
        let Some(process) = self.process(event.process) else { return };
        if !is_of_pipe {
            process.is_managed();
        }
        if let Some(handler) = handler {
            handler(process, &Event { now, thread: event.thread, version: event.version(), payload });
        }
    }
}

/// Returns the handler for events of a type.
fn handler_of(kind: &EventType) -> Option<Handler> {
    Some(match (Provider::named(&kind.provider)?, kind.event) {
        (Provider::Runtime, gc::Start::EVENT) => Traced::start,
        (Provider::Runtime, gc::End::EVENT) => Traced::end,
        (Provider::Runtime, gc::RestartEnd::EVENT) => Traced::restart_end,
        (Provider::Runtime, gc::HeapStats::EVENT) => Traced::heap_stats,
        (Provider::Runtime, gc::SuspendEnd::EVENT) => Traced::suspend_end,
        (Provider::Runtime, gc::SuspendBegin::EVENT) => Traced::suspend_begin,
        (Provider::Runtime, gc::AllocationTick::EVENT) => Traced::allocation,
        (Provider::Runtime, gc::PinObject::EVENT) => Traced::pinned,
        (Provider::Runtime, gc::Dynamic::EVENT) => Traced::dynamic,
        (Provider::Runtime, history::MarkWithType::EVENT) => Traced::mark,
        (Provider::Runtime, history::PerHeapHistory::EVENT) => Traced::heap_history,
        (Provider::Runtime, history::GlobalHeapHistory::EVENT) => Traced::global_history,
        (Provider::Runtime, history::LohCompact::EVENT) => Traced::loh_compact,
        (Provider::Runtime, history::FitBucketInfo::EVENT) => Traced::fit_buckets,
        (Provider::Private, private::PrivateMarkStackRoots::EVENT) => Traced::mark_stack,
        (Provider::Private, private::PrivateMarkFinalizeQueueRoots::EVENT) => Traced::mark_finalize_queue,
        (Provider::Private, private::PrivateMarkHandles::EVENT) => Traced::mark_handles,
        (Provider::Private, private::PrivateMarkCards::EVENT) => Traced::mark_cards,
        (Provider::Private, private::PinPlug::EVENT) => Traced::plug,
        (Provider::Rundown, runtime::GcSettings::EVENT) => Traced::settings,
        (Provider::Rundown | Provider::Runtime, runtime::RuntimeStart::EVENT) => Traced::runtime_start,
        (Provider::EventPipe, runtime::ProcessInfo::EVENT) => Traced::process_info,
        _ => return None,
    })
}
