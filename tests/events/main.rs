//! Events as listeners, sinks and reports receive them.

#[path = "../event_support/mod.rs"]
mod event_support;
mod figures;
mod objects;
mod payloads;
mod sinks;
mod state;
mod worlds;
