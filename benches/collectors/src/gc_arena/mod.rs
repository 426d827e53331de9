//! `gc-arena`: references have the lifetime of one callback; the collector works between two of them, in small steps.

pub mod cache;
pub mod graph;
pub mod script;

/// The collector works when the debt is larger than this. Debt is counted in `Gc`s, whatever their size. A map that changes while the collector
/// marks is traced again as a whole in the next step: with a step for each allocation, the large maps of *cache* and *graph* would be traced
/// again each time.
const DEBT_GCS: f64 = 256.0;
