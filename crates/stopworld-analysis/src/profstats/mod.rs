//! Heap and time profiles, read from eventlogs and `.hp` files of any writer.
//!
//! ```text
//!   eventlog ─► Collector ─┬─► HeapProfile: samples of bands, collections, heap figures, markers
//!   .hp ──────► hp ────────┘
//!                          └─► TimeProfile: stacks with their ticks ─► folded stacks, speedscope, a table
//! ```
//!
//! A [`HeapProfile`] is a series of *samples*. Each sample gives the live bytes of each *band*: a cost centre stack, a module, a
//! type, a set of retainers, a stage of life. A [`TimeProfile`] gives the number of clock ticks at which each stack was sampled.
//!
//! | file | part |
//! |---|---|
//! | `centres` | cost centres and stacks of them |
//! | `heap` | a heap profile in memory |
//! | `time`, `folded`, `speedscope` | a time profile, and its exports for other tools |
//! | `log`, `text` | read an eventlog, read a `.hp` file |
//! | `thinned` | long series in memory of a fixed size |

pub mod centres;
pub mod folded;
pub mod heap;
pub mod log;
pub mod speedscope;
pub mod text;
pub mod thinned;
pub mod time;

pub use centres::{Centre, Centres, StackId, Stacks};
pub use heap::{Band, Breakdown, HeapProfile, Sample};
pub use log::Profiles;
pub use time::TimeProfile;
