//! `gc-arena`: references have the lifetime of one callback; the collector works between two of them, in small steps.

pub mod cache;
pub mod graph;
pub mod script;

/// The collector works when the program owes it this many bytes. A map that is changed while the collector marks is traced again as a whole in
/// the next step, so more steps would be slower.
const DEBT_BYTES: f64 = 65536.0;
