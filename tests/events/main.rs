//! Events as listeners, sinks and reports get them.

#[path = "../event_support/mod.rs"]
mod event_support;
mod figures;
mod objects;
mod payloads;
mod sinks;
mod state;
mod worlds;
