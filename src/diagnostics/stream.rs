//! What a session's client gets: a .nettrace stream of version 4.
//!
//! The encoder is that of trace files. Of each event it is asked once (`.live.exact`) whether the session's providers want it, by keywords, level
//! and the filter of event numbers; who wants none of an event's provider gets nothing of it. The process itself is told of
//! (ProcessInfo) in each stream, its version and settings if the client asked for a rundown.

use std::io;
use std::time::Duration;

use super::counters::{Counter, definitions};
use super::request::Collect;
use crate::events::record::{Lost, Recorded};
use crate::events::{EventId, EventSet};
use crate::formats::nettrace::write::live::{Limits, Live};
use crate::formats::nettrace::write::{Destination, ProviderRequest, Providers};

/// The provider by which the process tells of itself, and the one of what was there before the session.
const EVENT_PIPE: &str = "Microsoft-DotNETCore-EventPipe";
const RUNDOWN: &str = "Microsoft-Windows-DotNETRuntimeRundown";

/// See the module's text.
#[derive(Debug)]
pub(super) struct Stream {
    live: Live,
    definitions: [Vec<u8>; 2],
}

fn providers(collect: &Collect) -> Providers {
    let request = |wanted: &super::request::Wanted| ProviderRequest {
        name: wanted.name.clone(),
        keywords: wanted.keywords,
        level: wanted.level,
    };
    Providers { requests: collect.providers.iter().map(request).collect(), rundown: true }
}

impl Stream {
    /// The rows of the table that must be recorded for it.
    pub(super) fn needs(collect: &Collect) -> EventSet {
        let needs = Live::needs(&providers(collect));
        // The end of a world alone tells nothing.
        if needs == EventSet::from_iter([EventId::WorldClosed]) { EventSet::NONE } else { needs }
    }

    /// Nothing goes out yet.
    pub(super) fn new(collect: &Collect, limits: Limits, destination: Box<dyn Destination>) -> io::Result<Stream> {
        let wants = |provider: &str, event, keywords, level| match provider {
            EVENT_PIPE => true,
            RUNDOWN => collect.rundown || collect.wants(provider, event, keywords, level),
            _ => collect.wants(provider, event, keywords, level),
        };
        Ok(Stream { live: Live::new(&providers(collect), wants, limits, destination)?, definitions: definitions() })
    }

    /// Sends the head.
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

    /// Sends everything that has come up to this moment.
    pub(super) fn flush(&mut self, ticks: u64) -> io::Result<()> {
        self.live.flush(ticks)
    }

    /// The last that is sent: what came up to this moment, and the end.
    pub(super) fn end(&mut self, ticks: u64) -> io::Result<()> {
        self.live.end(ticks)
    }
}
