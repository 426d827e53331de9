//! Cost centres: the centres to which objects are charged, and profiles that begin at the same time; sampled allocations.

mod allocations;
mod charges;
#[path = "../hazard/mod.rs"]
mod hazard;
mod races;
mod samples;
