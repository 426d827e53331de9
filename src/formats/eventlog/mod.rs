//! GHC's eventlog: what ghc-events, ThreadScope and eventlog2html read, and what Haskell's runtime writes.
//!
//! | file | part |
//! |---|---|
//! | `format` | the layout as data: marks, types of events with their sizes |
//! | `write` | our events as an eventlog |

pub mod format;
pub mod write;
