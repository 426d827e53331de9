//! The timeline of Perfetto and Chrome: a trace as JSON, in the Trace Event Format.
//!
//! ```text
//!   main      ├── collection 7 ─────────────────────────────────────┤
//!             ├ suspend ┼ roots ┼ mark ───────┼ weak ┼ sweep ┼ restart ┤        ▽ SegmentCreated
//!   finalizer                                                          ├ finalizers ┤
//!   heap      ▁▂▃▄▅▆▇▂▂▃▄▅
//! ```
//!
//! <https://ui.perfetto.dev> and `chrome://tracing` open such a file. It is one array of objects, a line each:
//!
//! | `ph` | here |
//! |---|---|
//! | `M` | what the process and the threads are called |
//! | `B`, `E` | a collection, and in it its phases; a batch of finalizers; a marker at work. The ends of a thread come in the reverse order of its beginnings, each in its place |
//! | `i` | what happens at a moment: every other event, with its fields |
//! | `C` | the heap's sizes |
//! | `b`, `e` | what goes on while threads run (a background collection of .NET's) |
//!
//! `ts` is in microseconds since the trace began, with three decimals: nanoseconds. `tid` is the kernel's id of a thread; a thread that got
//! the id of one that had ended is on the same track, under the newer name.
//!
//! **The end.** A file ends with `]` after each write, and the next write begins over it, so it is JSON also when the run is killed
//! (unless the kernel was killed in the middle of a write). A pipe gets its `]` at the end; readers of the format do
//! without. What is open at the end in order is ended there; of a run that is killed it stays open, which readers show.
//!
//! Who writes says `perfetto::Options::new(path).start()` and builds its worlds `.drawn_by(&trace)`.
//!
//! | file | part |
//! |---|---|
//! | `phases` | which of our events is which on a timeline, which the crate `trace-event` writes |
//! | `writer`, `trace` | a timeline that is written while a world runs: the records' consumer, and its owner |

pub mod phases;
mod trace;
mod writer;

#[cfg(feature = "fuzzing")]
pub use trace::consumer;
pub use trace::{Options, Trace};

pub use crate::formats::TraceError;

pub use super::Finished;
