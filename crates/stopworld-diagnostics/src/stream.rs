//! The stream that a session sends to its client: .nettrace version 4.
//!
//! The encoder is that of trace files. For each event type it checks once (`.live.exact`) whether the session requests it: by
//! provider, keywords, level and the filter of event ids. Events of providers that the session does not request are omitted.
//! Each stream contains an event about the process (ProcessInfo). If the client requested a rundown, it also has the version and settings of the
//! process, and at the end the names of the functions on call stacks.

use std::io;
use std::time::Duration;

use super::counters::{Counter, definitions};
use super::request::Collect;
use nettrace::EventType;
use stopworld::events::record::{Lost, Recorded};
use stopworld::events::{EventId, EventSet};
use stopworld_trace::nettrace::live::{Live, WorldFacts};
use stopworld_trace::nettrace::{Destination, ProviderRequest, Providers};

/// The provider of the events about the process itself, and the provider of the rundown.
const EVENT_PIPE: &str = "Microsoft-DotNETCore-EventPipe";
const RUNDOWN: &str = "Microsoft-Windows-DotNETRuntimeRundown";

/// A stream; see the module documentation.
#[derive(Debug)]
pub(super) struct Stream {
    live: Live,
    definitions: [EventType; 2],
}

pub(super) fn providers(collect: &Collect) -> Providers {
    let request = |requested: &super::request::RequestedProvider| ProviderRequest {
        name: requested.name.clone(),
        keywords: requested.keywords,
        level: requested.level,
    };
    Providers { requests: collect.providers.iter().map(request).collect(), rundown: true }
}

impl Stream {
    /// Returns the rows of the event table that must be recorded for the session.
    pub(super) fn needs(collect: &Collect) -> EventSet {
        let needs = Live::needs(&providers(collect));
        // The end of a world alone is not worth recording.
        if needs == EventSet::from_iter([EventId::WorldClosed]) { EventSet::NONE } else { needs }
    }

    /// Creates a stream. Sends nothing yet.
    pub(super) fn new(collect: &Collect, facts: WorldFacts, destination: Box<dyn Destination>) -> io::Result<Stream> {
        let wants = |provider: &str, event, keywords, level| match provider {
            EVENT_PIPE => true,
            RUNDOWN => collect.rundown || collect.wants(provider, event, keywords, level),
            _ => collect.wants(provider, event, keywords, level),
        };
        Ok(Stream { live: Live::new(&providers(collect), wants, facts, destination)?, definitions: definitions() })
    }

    /// Sends the header.
    pub(super) fn begin(&mut self) -> io::Result<()> {
        self.live.flush(0)
    }

    pub(super) fn record(&mut self, record: &Recorded) -> io::Result<()> {
        self.live.record(record)
    }

    pub(super) fn lost(&mut self, lost: &Lost) -> io::Result<()> {
        self.live.lost(lost)
    }

    pub(super) fn counter(&mut self, counter: &Counter, elapsed: Duration, series: &str, ticks: u64) -> io::Result<()> {
        let layout = counter.layout();
        self.live.own_event(layout as u32, &self.definitions[layout], ticks, &counter.payload(elapsed, series))
    }

    /// Sends everything up to this time.
    pub(super) fn flush(&mut self, ticks: u64) -> io::Result<()> {
        self.live.flush(ticks)
    }

    /// Sends everything up to this time, and the end of the stream.
    pub(super) fn end(&mut self, ticks: u64) -> io::Result<()> {
        self.live.end(ticks)
    }
}
