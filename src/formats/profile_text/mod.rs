//! Profiles as text, as GHC's programs write them beside their eventlogs.
//!
//! | file | what it is | who reads it |
//! |---|---|---|
//! | `.hp` | a heap profile: samples, each with its bands | hp2ps, and whatever else reads GHC's |
//! | `.prof` | a time profile: ticks by cost centre, and by stack | people |
//!
//! A `.hp` grows with each census and is whole after each, however its run ends. A `.prof` is written when its log is finished, since its
//! sums are known then.

mod date;
mod hp;
mod prof;
mod trace;

pub use trace::{Kind, Options, Trace};

pub use crate::formats::Finished;
