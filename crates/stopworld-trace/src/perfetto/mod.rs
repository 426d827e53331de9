//! Timelines for Perfetto and Chrome: a trace as JSON in the Trace Event Format.
//!
//! ```text
//!   main      ├── collection 7 ─────────────────────────────────────┤
//!             ├ suspend ┼ roots ┼ mark ───────┼ weak ┼ sweep ┼ restart ┤        ▽ SegmentCreated
//!   finalizer                                                          ├ finalizers ┤
//!   heap      ▁▂▃▄▅▆▇▂▂▃▄▅
//! ```
//!
//! <https://ui.perfetto.dev> and `chrome://tracing` open such a file. It is one JSON array with one object per line:
//!
//! | `ph` | here |
//! |---|---|
//! | `M` | names of the process and the threads |
//! | `B`, `E` | begin and end of a slice: a collection, and in it its phases; a batch of finalizers; a marker at work. The slices of a thread nest |
//! | `i` | an instant: every other event, with its fields |
//! | `C` | the heap's sizes |
//! | `b`, `e` | activity that is independent of threads (a .NET background collection) |
//!
//! `ts` is in microseconds since the trace began, with three decimals (nanoseconds). `tid` is the kernel's thread id. A thread that
//! reuses the id of an ended thread is on the same track, under the newer name.
//!
//! **The end.** The file ends with `]` after each write, and the next write overwrites it. So the file is valid JSON even if the
//! process is killed (except in the middle of a write in the kernel). A pipe gets its `]` only at the end; readers of the format
//! accept a file without it. Slices that are open when the trace is finished are ended there. If the process is killed they stay
//! open, and readers show them as open.
//!
//! To write a timeline, call `perfetto::Options::new(path).start()` and build the worlds with `.record_to(&trace)`.
//!
//! | file | part |
//! |---|---|
//! | `phases` | how each event of the collector appears on a timeline, which the crate `trace-event` writes |
//! | `selection` | the default events, and a selection as text |
//! | `writer`, `trace` | a timeline that is written while a world runs: the consumer of the records, and the handle of its owner |

pub mod phases;
mod selection;
mod trace;
mod writer;

pub use selection::{groups, usual};
#[cfg(feature = "fuzzing")]
pub use trace::consumer;
pub use trace::{Options, Timeline, Trace};
