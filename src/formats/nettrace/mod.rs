//! .NET's traces of our events: see [`write`](mod@write). The format itself is the crate `nettrace`.

pub mod write;
