//! Heap and time profiles, out of eventlogs and `.hp` files: GHC's, ours, anybody's.
//!
//! ```text
//!   eventlog ─► Collector ─┬─► HeapProfile: samples of bands, collections, the heap's figures, marks
//!   .hp ──────► hp ────────┘
//!                          └─► TimeProfile: stacks with their ticks ─► folded stacks, speedscope, a table
//! ```
//!
//! A [`HeapProfile`] is a series of *samples*, each of which says how many bytes live under each *band*: a cost-centre stack, a module, a
//! type, a set of retainers, a phase of life. A [`TimeProfile`] says at how many ticks of a clock each stack was found.
//!
//! | file | part |
//! |---|---|
//! | `centres` | cost centres and stacks of them |
//! | `heap` | what is known of a heap profile |
//! | `time`, `folded`, `speedscope` | a time profile, and the files that other tools read |
//! | `log`, `text` | from an eventlog, from a `.hp` file |
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
