//! MPS telemetry streams: the crate `mps-telemetry`, and stopworld's own writer.

#[path = "../command_support/mod.rs"]
mod command_support;
mod damage;
mod decode;
mod faults;
#[path = "../mps_stream/mod.rs"]
mod mps_stream;
#[path = "../mps_support/mod.rs"]
mod mps_support;
#[path = "../../../../tests/skipped/mod.rs"]
mod skipped;
#[path = "../../../../tests/tools/mod.rs"]
mod tools;
mod write;
#[path = "../writer_support/mod.rs"]
mod writer_support;
