//! Traces that a test writes event by event.

use std::collections::BTreeMap;

use nettrace::clr::Encode;
use nettrace::encode::{Encoder, Header};
use nettrace::{Container, TraceInfo, Utc};

/// A trace of version 4 that is being written. Its times are in microseconds.
pub struct Written {
    encoder: Encoder<Vec<u8>, ()>,
    is_sorted: bool,
    kinds: Vec<u32>,
    /// The last sequence number of each thread.
    sequences: BTreeMap<u64, u32>,
}

impl Written {
    /// Begins a trace. If its events are written in the order of their times, readers deliver each at once; otherwise at the end.
    pub fn new(is_sorted: bool) -> Written {
        let info = TraceInfo {
            container: Container::V4,
            start: Utc::default(),
            start_ticks: 0,
            ticks_per_second: 1_000_000,
            pointer_bytes: 8,
            process_id: 1,
            processors: 1,
            sampling_period_ns: 0,
            pairs: Vec::new(),
        };
        let mut encoder = Encoder::new(Vec::new(), Container::V4);
        let _ = encoder.trace(&info).expect("memory");
        Written { encoder, is_sorted, kinds: Vec::new(), sequences: BTreeMap::new() }
    }

    /// Writes an event of this thread and world.
    pub fn event<E: Encode>(&mut self, us: i64, thread: u64, world: u16, event: &E) -> &mut Written {
        let kind = E::DEFINITION.event;
        if !self.kinds.contains(&kind) {
            let _ = self.encoder.event_type(kind, &E::DEFINITION.event_type()).expect("memory");
            self.kinds.push(kind);
        }
        let mut payload = Vec::new();
        event.encode(world, &mut payload);
        self.lose(thread, 1);
        let header = Header {
            kind,
            sequence: self.sequences[&thread],
            thread,
            capture: thread,
            processor: None,
            time: us,
            sorted: self.is_sorted,
            context: (),
        };
        let _ = self.encoder.event(&header, &payload).expect("memory");
        self
    }

    /// Leaves out events of this thread.
    pub fn lose(&mut self, thread: u64, count: u32) -> &mut Written {
        *self.sequences.entry(thread).or_default() += count;
        self
    }

    /// Returns the whole trace.
    pub fn end(self) -> Vec<u8> {
        self.encoder.end().expect("memory")
    }
}
