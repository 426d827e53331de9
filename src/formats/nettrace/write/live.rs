//! A trace that is sent to somebody while it is made.
//!
//! It is written on the sender's own thread, from records that a consumer of the sender's has put aside, so the destination may
//! make it wait. What it has is decided event by event by the sender, and beside the collector's events it takes
//! such as the sender makes itself.

use std::io;
use std::sync::Arc;

use super::board::Board;
use super::encoder::{Head, opener};
use super::output::Outlet;
use super::writer::{Plan, Writer};
use super::{Container, Destination, Providers};
use crate::events::EventSet;
use crate::events::record::{Consumer, Lost, Policy, Recorded, RecordingThread, WorldNumber};

/// The heap limits of the worlds of a trace, which its settings tell of.
#[derive(Clone, Debug)]
pub(crate) struct Limits(Arc<Board>);

impl Limits {
    pub(crate) fn new() -> Limits {
        Limits(Arc::new(Board::new()))
    }

    /// A world that the trace is to have. Before its first record.
    pub(crate) fn note(&self, world: WorldNumber, bytes: u64) {
        self.0.note_limit(usize::from(world.0), bytes);
    }
}

/// See the module's text. To be used on the thread that has made it.
#[derive(Debug)]
pub(crate) struct Live {
    writer: Writer,
    /// Its thread, as the events that it makes itself name it.
    sender: RecordingThread,
}

impl Live {
    /// What must be recorded for a trace of these providers.
    pub(crate) fn needs(providers: &Providers) -> EventSet {
        providers.selection()
    }

    /// A trace of what these providers have, as far as `wants` says so: of an event's provider, number, keywords and level. Its
    /// head goes out with the first flush.
    pub(crate) fn new(
        providers: &Providers,
        wants: impl Fn(&str, u32, u64, u8) -> bool,
        limits: Limits,
        destination: Box<dyn Destination>,
    ) -> io::Result<Live> {
        let sender = opener();
        let head = Head::now();
        let plan = Plan { container: Container::V4, providers, policy: Policy::Dropping, head, opener: sender };
        let mut writer = Writer::without_head(&plan, limits.0, Outlet::to(destination))?;
        writer.keep_only(wants);
        writer.begin()?;
        Ok(Live { writer, sender })
    }

    /// Takes a record.
    pub(crate) fn record(&mut self, record: &Recorded) -> io::Result<()> {
        self.writer.record(record)
    }

    /// Records were lost.
    pub(crate) fn lost(&mut self, lost: &Lost) -> io::Result<()> {
        self.writer.lost(lost)
    }

    /// Writes an event of the sender's own. `definition` is what a metadata blob of version 4 has behind the id, always the same
    /// for the same `number`.
    pub(crate) fn own_event(&mut self, number: u32, definition: &[u8], ticks: u64, payload: &[u8]) -> io::Result<()> {
        self.writer.foreign(number, definition, ticks, self.sender, payload)
    }

    /// Sends everything. Everything up to `ticks` has come.
    pub(crate) fn flush(&mut self, ticks: u64) -> io::Result<()> {
        self.writer.flush_up_to(ticks)
    }

    /// Sends everything, and the end.
    pub(crate) fn end(&mut self, ticks: u64) -> io::Result<()> {
        self.writer.close_at(ticks)
    }
}
