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
pub(crate) mod bytes;
mod collection;
mod dump;
mod encoder;
pub(crate) mod live;
pub(crate) mod output;
mod process;
mod providers;
mod schema;
mod threads;
mod trace;
pub(crate) mod types;
mod writer;

use std::{fmt, io};

pub use super::Container;
pub use providers::{ProviderRequest, Providers, ProvidersError};
pub use trace::{Options, Trace, TraceError};

pub use crate::formats::Finished;

/// Where the bytes of a trace go that are not for a file.
///
/// It is called in a drain: the rules of [`Consumer`](crate::events::record::Consumer) hold for it. A place that makes the
/// writer wait makes everybody wait; who sends a trace to somebody else takes the bytes here and sends them elsewhere.
pub trait Destination: fmt::Debug + Send {
    /// Takes all of them, or fails for good.
    ///
    /// # Errors
    /// They have no place to go any more: the trace ends.
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()>;
}
