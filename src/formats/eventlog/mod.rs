//! GHC eventlogs of this library's events: see [`write`](mod@write). The crate `ghc-eventlog` has the format itself.

pub mod write;
