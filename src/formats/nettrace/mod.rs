//! .NET traces of this library's events: see [`write`](mod@write). The crate `nettrace` has the format itself.

pub mod write;
