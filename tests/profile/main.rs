//! Cost centres: the centres to which objects are charged, and profiles that begin at the same time.

mod charges;
mod races;
