//! Heap profiles in the GHC `.hp` format.
//!
//! ```text
//!   JOB "gcbench --depth 18"
//!   DATE "Sat Nov 21 00:56 2026"
//!   SAMPLE_UNIT "seconds"
//!   VALUE_UNIT "bytes"
//!   BEGIN_SAMPLE 0.000000
//!   END_SAMPLE 0.000000
//!   BEGIN_SAMPLE 0.011064
//!   (12)nodes/tree<TAB>1970792
//!   END_SAMPLE 0.011064
//! ```
//!
//! hp2ps ends a label at its first blank and parses a label that begins with a digit as a number. So blanks become underscores,
//! and an underscore is put before a label that does not begin with a letter or with the `(` of a stack number. A sample is
//! written completely or not at all.

use std::fmt::Write;
use std::io;

use super::date::Date;
use super::plan::Plan;
use crate::trace_output::TraceOutput;
use stopworld::events::clock::Relation;
use stopworld::events::record::{Consumer, MAX_WORLDS, Policy, Recorded};
use stopworld::events::{EventId, EventSet, Label, Labels};
use stopworld::profile::StackId;
use stopworld::profile::census::Breakdown;
use trace_io::bytes::Bytes;

/// Room for the bands of a sample.
const SAMPLE_BYTES: usize = 1 << 20;
/// A label is cut to this many bytes.
const MOST_LABEL: usize = 120;
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
    plan: Plan,
    /// The bands of the current sample.
    sample: Bytes,
    label: Bytes,
    /// The world that is profiled.
    owner: Option<usize>,
    breakdown: u32,
    /// The time of the last sample, in microseconds.
    time_us: u64,
    samples: u64,
}

impl Writer {
    pub(super) fn new(plan: Plan, out: TraceOutput) -> Writer {
        let job = plan.job.clone();
        let mut writer = Writer {
            out,
            plan,
            sample: Bytes::with_capacity(SAMPLE_BYTES),
            label: Bytes::with_capacity(MOST_LABEL + 8),
            owner: None,
            breakdown: 0,
            time_us: 0,
            samples: 0,
        };
        let quoted = |text: &str| text.replace(['"', '\n', '\\'], "_");
        let date = Date::now().to_string();
        let head = [("JOB", &*job), ("DATE", &date), ("SAMPLE_UNIT", "seconds"), ("VALUE_UNIT", "bytes")];
        for (name, value) in head {
            // Writing to the buffer does not fail: it leaves out a piece that does not fit.
            let _ = writeln!(writer.out.bytes(), "{name} \"{}\"", quoted(value));
        }
        writer.mark("BEGIN_SAMPLE");
        writer.mark("END_SAMPLE");
        writer
    }

    fn mark(&mut self, what: &str) {
        let (seconds, us) = (self.time_us / 1_000_000, self.time_us % 1_000_000);
        // As above.
        let _ = writeln!(self.out.bytes(), "{what} {seconds}.{us:06}");
    }

    /// Sets the time of the sample. Times never decrease.
    fn set_time(&mut self, ns: u64) {
        self.time_us = self.time_us.max(ns.saturating_sub(self.plan.began_ns) / 1_000);
    }

    fn band(&mut self, label: u64, bytes: u64, stack: u32) {
        if bytes == 0 {
            return;
        }
        let (line, room) = (&mut self.label, self.sample.room());
        line.clear();
        if self.breakdown == Breakdown::CostCentre as u32 || stack != 0 {
            name_of(StackId::from_raw(stack), line);
        } else {
            let label = Label::from_raw(label).and_then(|label| Labels::of_the_process().text(label));
            name(label.unwrap_or("?"), line);
        }
        if line.len() + 32 < room {
            self.sample.put(line.as_slice());
            // The buffer has room.
            let _ = writeln!(self.sample, "\t{bytes}");
        }
    }

    fn end_sample(&mut self) -> io::Result<()> {
        self.mark("BEGIN_SAMPLE");
        for piece in self.sample.as_slice().chunks(PIECE_BYTES) {
            if self.out.is_full() {
                self.out.write_out(&[], false)?;
            }
            self.out.bytes().put(piece);
        }
        self.sample.clear();
        self.mark("END_SAMPLE");
        self.samples += 1;
        Ok(())
    }

    fn publish_progress(&self) {
        self.plan.progress.publish(self.samples, self.out.written);
    }
}

/// Appends a stack's name: its number, and its cost centres, innermost first.
fn name_of(stack: StackId, to: &mut Bytes) {
    if stack == StackId::MAIN {
        return to.put(b"MAIN");
    }
    // As above: the buffer has room.
    let _ = write!(to, "({})", stack.get());
    for (index, centre) in stack.centres().enumerate() {
        let left = MOST_LABEL.saturating_sub(to.len() + 1);
        if left == 0 {
            break;
        }
        if index > 0 {
            to.put(b"/");
        }
        letters(centre.label(), left, to);
    }
}

fn name(label: &str, to: &mut Bytes) {
    if !label.starts_with(|first: char| first.is_alphabetic() || first == '(') {
        to.put(b"_");
    }
    letters(label, MOST_LABEL, to);
}

/// Appends at most `most` bytes of a text, with blanks and control characters replaced by underscores.
fn letters(text: &str, most: usize, to: &mut Bytes) {
    for letter in text[..text.floor_char_boundary(most)].chars() {
        let is_blank = letter.is_whitespace() || letter.is_control();
        to.put(if is_blank { '_' } else { letter }.encode_utf8(&mut [0; 4]).as_bytes());
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
                self.plan.progress.count_ended_world();
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
        self.mark("BEGIN_SAMPLE");
        self.mark("END_SAMPLE");
        let closed = self.out.write_out(&[], true);
        self.publish_progress();
        closed
    }

    fn unwritten(&self) -> u64 {
        self.publish_progress();
        self.out.lost()
    }

    fn policy(&self) -> Policy {
        self.plan.policy
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("Tree", "Tree")]
    #[case("(12)a,b", "(12)a,b")]
    #[case("[u8; 4]", "_[u8;_4]")]
    #[case("42", "_42")]
    #[case("a\tb\n", "a_b_")]
    fn labels_contain_no_blanks_and_do_not_begin_like_numbers(#[case] label: &str, #[case] expected: &str) {
        let mut bytes = Bytes::with_capacity(200);
        name(label, &mut bytes);
        assert_eq!(std::str::from_utf8(bytes.as_slice()), Ok(expected));
    }
}
