//! Heap profiles in the GHC `.hp` format: a sample for each census. The layout of the file is [`ghc_eventlog::hp`].
//!
//! A sample is written completely or not at all.

use std::fmt::Write;
use std::io;

use super::writer_settings::WriterSettings;
use crate::trace_output::TraceOutput;
use ghc_eventlog::date::Date;
use ghc_eventlog::hp::{self, Line};
use stopworld::events::clock::Relation;
use stopworld::events::record::{Consumer, MAX_WORLDS, Policy, Recorded};
use stopworld::events::{EventId, EventSet, Label, Labels};
use stopworld::profile::census::Breakdown;
use stopworld::profile::{CentreId, StackId};
use trace_io::bytes::Bytes;

/// Room for the bands of a sample.
const SAMPLE_BYTES: usize = 1 << 20;
/// The number of bytes copied to the output buffer at once.
const PIECE_BYTES: usize = 64 << 10;

/// Returns the events to record.
pub(super) fn events() -> EventSet {
    let censuses = [EventId::CensusProfileBegin, EventId::CensusBegin, EventId::CensusBand, EventId::CensusEnd];
    censuses.into_iter().chain([EventId::WorldClosed]).collect()
}

/// Writes a heap profile.
#[derive(Debug)]
pub(super) struct Writer {
    out: TraceOutput,
    settings: WriterSettings,
    /// The bands of the current sample.
    sample: Bytes,
    label: hp::Label,
    /// The world that is profiled.
    owner: Option<usize>,
    breakdown: u32,
    /// The time of the last sample, in nanoseconds since the profile began.
    time: u64,
    samples: u64,
}

impl Writer {
    pub(super) fn new(settings: WriterSettings, out: TraceOutput) -> Writer {
        let job = settings.job.clone();
        let mut writer = Writer {
            out,
            settings,
            sample: Bytes::with_capacity(SAMPLE_BYTES),
            label: hp::Label::default(),
            owner: None,
            breakdown: 0,
            time: 0,
            samples: 0,
        };
        let date = Date::now().to_string();
        hp::head(&job, &date).into_iter().for_each(|line| writer.put(line));
        writer.mark_sample();
        writer
    }

    fn put(&mut self, line: Line<'_>) {
        // Writing to the buffer does not fail: it leaves out a piece that does not fit.
        let _ = writeln!(self.out.bytes(), "{line}");
    }

    /// Writes a sample without bands, which extends the time of the profile to this point.
    fn mark_sample(&mut self) {
        self.put(Line::Begin(self.time));
        self.put(Line::End(self.time));
    }

    /// Sets the time of the sample. Times never decrease.
    fn set_time(&mut self, ns: u64) {
        self.time = self.time.max(ns.saturating_sub(self.settings.began_ns));
    }

    fn band(&mut self, label: u64, bytes: u64, stack: u32) {
        if bytes == 0 {
            return;
        }
        let is_stack = self.breakdown == Breakdown::CostCentre as u32 || stack != 0;
        let label = match StackId::from_raw(stack) {
            StackId::MAIN if is_stack => self.label.name("MAIN"),
            stack if is_stack => self.label.stack(stack.get(), stack.centres().map(CentreId::label)),
            _ => {
                let label = Label::from_raw(label).and_then(|label| Labels::of_the_process().text(label));
                self.label.name(label.unwrap_or("?"))
            }
        };
        if label.len() + 32 < self.sample.room() {
            // The buffer has room.
            let _ = writeln!(self.sample, "{}", Line::Band(label, bytes));
        }
    }

    fn end_sample(&mut self) -> io::Result<()> {
        self.put(Line::Begin(self.time));
        for piece in self.sample.as_slice().chunks(PIECE_BYTES) {
            if self.out.is_full() {
                self.out.write_out(&[], false)?;
            }
            self.out.bytes().put(piece);
        }
        self.sample.clear();
        self.put(Line::End(self.time));
        self.samples += 1;
        Ok(())
    }

    fn publish_progress(&self) {
        self.settings.progress.publish(self.samples, self.out.written);
    }
}

impl Consumer for Writer {
    fn record(&mut self, record: &Recorded) -> io::Result<()> {
        let world = usize::from(record.world.0) % MAX_WORLDS;
        let [first, second, fourth] = [record.field::<0>(), record.field::<1>(), record.field::<3>()];
        let is_ours = self.owner.is_none_or(|owner| owner == world);
        match record.id {
            EventId::CensusProfileBegin if is_ours => (self.owner, self.breakdown) = (Some(world), second as u32),
            EventId::CensusBegin if is_ours => {
                self.sample.clear();
                self.set_time(second);
            }
            EventId::CensusBand if is_ours => self.band(first, second, fourth as u32),
            EventId::CensusEnd if is_ours => self.end_sample()?,
            EventId::WorldClosed => {
                self.settings.progress.count_ended_world();
                self.owner = self.owner.filter(|owner| *owner != world);
            }
            _ => {}
        }
        self.out.count_records(1);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.out.write_out(&[], false);
        self.publish_progress();
        flushed
    }

    fn close(&mut self, now: &Relation) -> io::Result<()> {
        self.set_time(now.ns);
        self.mark_sample();
        let closed = self.out.write_out(&[], true);
        self.publish_progress();
        closed
    }

    fn unwritten(&self) -> u64 {
        self.publish_progress();
        self.out.lost()
    }

    fn policy(&self) -> Policy {
        self.settings.policy
    }
}
