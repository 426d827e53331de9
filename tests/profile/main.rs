//! Cost centres: what is charged to which, and profiles that begin at the same time.

mod charges;
mod races;
