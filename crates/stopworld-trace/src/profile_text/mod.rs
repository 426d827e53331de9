//! Text profiles like those that GHC programs write in addition to their eventlogs.
//!
//! | file | contents | readers |
//! |---|---|---|
//! | `.hp` | a heap profile: samples, each with its bands | hp2ps and other tools for GHC heap profiles |
//! | `.prof` | a time profile: ticks by cost centre, and by stack | people |
//!
//! A `.hp` file grows with each census and is complete after each one, however the run ends. A `.prof` file is written when the
//! profile is finished, because its sums are known only then.

mod hp;
mod prof;
mod trace;
mod writer_settings;

pub use trace::{Kind, Options, Profile, Trace};
