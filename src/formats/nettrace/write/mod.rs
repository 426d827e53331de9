//! Writing the traces of .NET: what PerfView, dotnet-trace and their library read, from the events of our collector.
//!
//! ```text
//!   recorder ──► Writer ──────────► Encoder ─────────────► Outlet ──► file, or a place of somebody's own
//!                which event of     blobs, blocks,         whole after
//!                .NET's it is,      sequence numbers,      each write
//!                and its payload    sequence points
//! ```
//!
//! A trace is started with [`Options`], takes the events of the worlds that join it ([`Trace`]), and has what its
//! [`Providers`] ask for. `docs/nettrace.md` says event by event what each field means here, which are 0, and why.
//!
//! Two containers. *Version 4* is what .NET itself writes, to this day, and every reader knows it. *Version 6* is newer
//! and has threads with an index of their own. They hold the same events.

mod board;
mod collection;
mod dump;
mod encoder;
pub(crate) mod live;
mod pen;
mod process;
mod providers;
mod schema;
mod threads;
mod trace;
pub(crate) mod types;
mod writer;

pub use providers::{ProviderRequest, Providers, ProvidersError};
#[cfg(feature = "fuzzing")]
pub use trace::consumer;
pub use trace::{Options, Trace};

use crate::formats::outlet as output;
pub use crate::formats::outlet::Destination;
pub use crate::formats::{Finished, TraceError};
pub use nettrace::Container;
