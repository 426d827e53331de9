//! Writes single events, if they are selected.

use std::io;

use trace_io::bytes::Bytes;

use super::encoder::Encoder;
use super::schema::{Kind, Net};
use stopworld::events::record::RecordingThread;

/// A serializer for single events: the encoder, the payload buffer, and the selection.
#[derive(Debug)]
pub(super) struct Pen {
    pub(super) encoder: Encoder,
    pub(super) payload: Bytes,
    /// A bit for each selected [`Net`] event.
    pub(super) wanted: u64,
    /// `ClrInstanceID`: the ordinal of the event's world in the trace, from 0.
    pub(super) world: u16,
}

const _: () = assert!(Net::COUNT <= 64);

impl Pen {
    #[inline(always)]
    pub(super) fn wants(&self, net: Net) -> bool {
        self.wanted & (1 << net as u64) != 0
    }

    /// Writes an event, if it is selected. Returns its time in the trace.
    #[inline]
    pub(super) fn write(
        &mut self,
        kind: Kind,
        ticks: u64,
        thread: RecordingThread,
        fill: impl FnOnce(&mut Bytes),
    ) -> io::Result<u64> {
        if let Kind::Net(net) = kind
            && !self.wants(net)
        {
            return Ok(self.encoder.time(ticks));
        }
        self.payload.clear();
        fill(&mut self.payload);
        self.encoder.event(kind, ticks, thread, self.payload.as_slice())
    }
}
