//! Writes single events, if they are selected.

use std::io;

use trace_io::bytes::Bytes;

use super::schema::{Kind, Net, Written};
use super::sequencer::Sequencer;
use stopworld::events::EventId;
use stopworld::events::record::RecordingThread;
use stopworld::profile::allocations::CallStack;

/// A serializer for single events: the sequencer, the payload buffer, and the selection.
#[derive(Debug)]
pub(super) struct EventWriter {
    pub(super) sequencer: Sequencer,
    pub(super) payload: Bytes,
    /// A bit for each selected [`Net`] event.
    pub(super) wanted: u64,
    /// `ClrInstanceID`: the ordinal of the event's world in the trace, from 0.
    pub(super) world: u16,
}

const _: () = assert!(Net::COUNT <= 64);

impl EventWriter {
    #[inline(always)]
    pub(super) fn wants(&self, net: Net) -> bool {
        self.wanted & (1 << net as u64) != 0
    }

    /// Writes a .NET event, if it is selected. Returns its time in the trace.
    #[inline]
    pub(super) fn write<E: Written>(&mut self, event: &E, ticks: u64, thread: RecordingThread) -> io::Result<u64> {
        self.write_for(self.world, event, ticks, thread)
    }

    /// Like [`write`](Self::write), for the world with this ordinal.
    #[inline]
    pub(super) fn write_for<E: Written>(
        &mut self,
        world: u16,
        event: &E,
        ticks: u64,
        thread: RecordingThread,
    ) -> io::Result<u64> {
        if !self.wants(E::NET) {
            return Ok(self.sequencer.time(ticks));
        }
        self.payload.clear();
        event.encode(world, &mut self.payload);
        self.sequencer.event(Kind::Net(E::NET), ticks, thread, self.payload.as_slice())
    }

    /// Like [`write`](Self::write), for an event with a call stack.
    #[cold]
    pub(super) fn write_on<E: Written>(
        &mut self,
        stack: Option<CallStack>,
        event: &E,
        ticks: u64,
        thread: RecordingThread,
    ) -> io::Result<()> {
        if !self.wants(E::NET) {
            return Ok(());
        }
        self.payload.clear();
        event.encode(self.world, &mut self.payload);
        self.sequencer.event_on(stack, Kind::Net(E::NET), ticks, thread, self.payload.as_slice()).map(drop)
    }

    /// Writes an own event, whose payload `fill` appends.
    #[inline]
    pub(super) fn own(
        &mut self,
        id: EventId,
        ticks: u64,
        thread: RecordingThread,
        fill: impl FnOnce(&mut Bytes),
    ) -> io::Result<u64> {
        self.payload.clear();
        fill(&mut self.payload);
        self.sequencer.event(Kind::Own(id), ticks, thread, self.payload.as_slice())
    }
}
