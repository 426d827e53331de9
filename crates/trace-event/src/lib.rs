//! Writes timelines in the Trace Event Format: JSON that Perfetto (<https://ui.perfetto.dev>) and Chrome (`chrome://tracing`) open.
//!
//! ```
//! use trace_event::{Timeline, Track};
//!
//! # fn main() -> std::io::Result<()> {
//! // Times are ticks of a clock of 1 MHz that was at 500 when the trace began.
//! let mut timeline: Timeline<Vec<u8>, char> = Timeline::new(Vec::new(), 500, 1_000_000);
//! let main = Track { process: 1, thread: 7 };
//! timeline.begin_file()?;
//! timeline.name_thread(main, "main")?;
//! timeline.begin(main, 'p', 1_500, ("gc", "pause".into()), |args| args.number("collection", 1))?;
//! timeline.end(main, 'p', 1_750, |_| {})?;
//! timeline.output_mut().extend_from_slice(trace_event::END);
//! let text = String::from_utf8(timeline.output().clone()).unwrap();
//! assert!(text.contains(r#"{"ph":"E","pid":1,"tid":7,"ts":1250.000,"args":{}}"#));
//! # Ok(())
//! # }
//! ```
//!
//! Nothing is allocated after [`Timeline::new`], so rows can be written where the allocator must not be called. The format is described at
//! <https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU>.
//!
//! | file | part |
//! |---|---|
//! | `json` | rows of JSON, written without allocating |
//! | `timeline` | tracks, slices that nest, instants, counters |

mod json;
mod timeline;

pub use json::{Args, Output};
pub use timeline::{BEGIN, END, Name, Timeline, Track};

/// Runs the examples of the README as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
