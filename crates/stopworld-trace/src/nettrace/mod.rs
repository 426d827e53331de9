//! Writes .NET traces of the collector's events for PerfView, dotnet-trace and the TraceEvent library.
//!
//! ```text
//!   recorder ──► Writer ──────────► Sequencer ────────► nettrace::Encoder ──► TraceOutput ──► file, or the
//!                maps to .NET       times, sequence     headers, blocks       complete after  caller's
//!                events, writes     numbers, sequence                         each write      `Destination`
//!                their payloads     points
//! ```
//!
//! The samples of allocations have call stacks. The end of a trace has the names of the functions on them (`rundown`).
//!
//! A trace is started with [`Options`] and records the worlds that join it ([`Trace`]). It contains the events requested by its
//! [`Providers`]. `docs/nettrace.md` lists for each event what each field means here, which fields are 0, and why.
//!
//! There are two containers with the same events. *Version 4* is the one that .NET itself still writes; every reader knows it.
//! *Version 6* is newer and identifies threads by an index instead of the kernel's thread id.

mod collection;
mod dump;
mod event_writer;
pub mod live;
mod process;
mod providers;
mod rundown;
mod schema;
mod sequencer;
mod shared_state;
mod stacks;
mod threads;
mod trace;
pub(crate) mod types;
mod writer;

pub use providers::{ProviderRequest, Providers, ProvidersError};
#[cfg(feature = "fuzzing")]
pub use trace::consumer;
pub use trace::{Nettrace, Options, Settings, Trace};

use crate::trace_output as output;
pub use crate::trace_output::Destination;
pub use nettrace::Container;
