//! GHC's eventlogs of our events: see [`write`](mod@write). The format itself is the crate `ghc-eventlog`.

pub mod write;
