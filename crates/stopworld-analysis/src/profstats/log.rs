//! Reads profiles from an eventlog.
//!
//! The log is read once, in file order. Samples are distinguished by their position, since all of them may have the same number and,
//! if they were counted at the end of the program, nearly the same time. A biography sample carries the time it describes; the
//! time of other samples is that of their record.

use std::collections::HashMap;
use std::io::{self, Read};

use super::centres::{Centre, Centres, Stacks};
use super::heap::{Band, Breakdown, HeapProfile, Mark, Sample, SampleForwarder};
use super::time::TimeProfile;
use ghc_eventlog::events::Record;
use ghc_eventlog::format::FILTERS;
use ghc_eventlog::read::{Event, Summary, Visitor, in_file_order};

/// Maximum number of info tables kept, for profiles by info table.
const MOST_TABLES: usize = 128 << 10;
/// Texts are cut to this many bytes, which is more than any name that programs write.
const LONGEST_TEXT: usize = 512;
/// The kinds of a profile's filters, in the order of the format.
const FILTER_KINDS: [&str; FILTERS] = ["module", "description", "type", "centre", "stack", "retainer", "biography"];
/// Maximum number of capabilities whose collections are distinguished.
const MOST_CAPABILITIES: usize = 4096;

/// The profiles in a log.
#[derive(Clone, Debug, Default)]
pub struct Profiles {
    /// Whether the log has a heap profile.
    pub has_heap: bool,
    /// Whether the log has a time profile.
    pub has_time: bool,
    /// The heap profile.
    pub heap: HeapProfile,
    /// The time profile.
    pub time: TimeProfile,
    /// The cost centres of both.
    pub centres: Centres,
    /// The stacks of these cost centres.
    pub stacks: Stacks,
    /// The runtime that wrote the log.
    pub runtime: String,
    /// The latest time in the log.
    pub end_ns: u64,
    tables: HashMap<u64, String>,
    collecting: HashMap<u16, u64>,
}

/// Converts a text, truncated to [`LONGEST_TEXT`] bytes.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(LONGEST_TEXT)]).into_owned()
}

/// Formats a Unix time as a date.
fn date(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Count years from March, so that a leap day is the last day of a year; any 400 years have the same number of days.
    let from_march = days + 719_468;
    let (era, day) = (from_march / 146_097, from_march % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, year) = if month < 10 { (month + 3, year) } else { (month - 9, year + 1) };
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC", era * 400 + year)
}

impl Profiles {
    /// Reads a log to its end, or to the first place from which it cannot be read further.
    pub fn read(log: impl Read) -> (Profiles, Summary) {
        let mut profiles = Profiles::default();
        let summary = in_file_order(log, &mut profiles);
        profiles.finish();
        (profiles, summary)
    }

    /// Reads a log again, if more samples [were read](Self::read) than are kept. Calls `forward` with each sample, in file order. The
    /// bands have the same numbers as in the first pass. Returns the summary of this reading, which differs if the log has changed.
    ///
    /// # Errors
    ///
    /// The error of `forward`, which ends the reading.
    pub fn each_sample(log: impl Read, forward: impl FnMut(&Sample) -> io::Result<()>) -> io::Result<Summary> {
        let profiles = Profiles { heap: HeapProfile::handing_out(), ..Profiles::default() };
        let mut visitor = SampleVisitor { profiles, forwarder: SampleForwarder::new(forward) };
        let summary = in_file_order(log, &mut visitor);
        visitor.forwarder.finish(&mut visitor.profiles.heap)?;
        Ok(summary)
    }

    fn finish(&mut self) {
        self.heap.finish();
        for band in &mut self.heap.bands {
            if let Band::Label(label) = band
                && let Some(address) = label.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok())
                && let Some(table) = self.tables.get(&address)
            {
                label.clone_from(table);
            }
        }
    }

    fn collection(&mut self, event: &Event<'_>, begins: bool) {
        // The collections of more capabilities at the same time are left out.
        let cap = event.cap.unwrap_or(u16::MAX);
        if begins {
            if self.collecting.len() < MOST_CAPABILITIES {
                self.collecting.insert(cap, event.time);
            }
        } else if let Some(began) = self.collecting.remove(&cap) {
            // GHC may write an end time that is earlier than the begin time.
            self.heap.collections.push((began, event.time.max(began)));
        }
    }

    fn record(&mut self, event: &Event<'_>, record: Record<'_>) {
        match record {
            Record::GcStart(_) => self.collection(event, true),
            Record::GcEnd(_) => self.collection(event, false),
            Record::HeapSize(heap) => self.heap.figures[0].push((event.time, heap.bytes)),
            Record::HeapLive(heap) => self.heap.figures[1].push((event.time, heap.bytes)),
            Record::BlocksSize(heap) => self.heap.figures[2].push((event.time, heap.bytes)),
            Record::RtsIdentifier(rts) => self.runtime = text(&rts.name),
            Record::ProgramArgs(program) => {
                self.heap.program = String::from_utf8_lossy(&program.args).trim_end_matches('\0').replace('\0', " ")
            }
            Record::WallClockTime(clock) => self.heap.date = date(clock.seconds),
            Record::UserMarker(mark) => self.heap.marks.push(Mark { time_ns: event.time, text: text(&mark.name) }),
            Record::HeapProfCostCentre(centre) => {
                let [label, module, place] = [centre.label, centre.module, centre.place].map(|part| text(&part));
                self.centres.insert(centre.id, Centre { label, module, place, is_caf: centre.flags.is_caf() });
            }
            Record::Ipe(table) if self.tables.len() < MOST_TABLES => {
                self.tables.insert(table.info, format!("{} {}", text(&table.label), text(&table.place)));
            }
            Record::ProfBegin(profile) => {
                self.has_time = true;
                self.time.interval_ns = profile.interval;
            }
            Record::ProfSampleCostCentre(sample) => {
                self.has_time = true;
                let stack = self.stacks.intern(sample.stack.centres().rev());
                self.time.add(sample.cap, stack);
            }
            _ => self.sample(event, record),
        }
    }

    fn sample(&mut self, event: &Event<'_>, record: Record<'_>) {
        match record {
            Record::HeapProfBegin(profile) => {
                self.has_heap = true;
                self.heap.breakdown = Breakdown::of(profile.breakdown);
                self.heap.period_ns = profile.period;
                let filters = FILTER_KINDS.iter().zip(profile.filters.0).filter(|(_, filter)| !filter.is_empty());
                self.heap.filters = filters.map(|(kind, filter)| format!("{kind} {}", text(&filter))).collect();
            }
            Record::HeapProfSampleBegin(_) => self.begin(event.time),
            Record::HeapBioProfSampleBegin(sample) => self.begin(sample.time),
            Record::HeapProfSampleCostCentre(band) => {
                let stack = self.stacks.intern(band.stack.centres().rev());
                self.heap.add_stack(stack, band.residency);
            }
            Record::HeapProfSampleString(band) => {
                self.heap.add_label(&String::from_utf8_lossy(&band.label), band.residency);
            }
            Record::HeapProfSampleObjects(band) => self.heap.add_objects(band.objects),
            Record::HeapProfSampleEnd(_) => self.heap.end_sample(),
            _ => {}
        }
    }

    fn begin(&mut self, time: u64) {
        self.has_heap = true;
        self.heap.begin_sample(time);
    }
}

impl Visitor for Profiles {
    fn event(&mut self, event: &Event<'_>) {
        self.end_ns = self.end_ns.max(event.time);
        if let Some(record) = Record::of(event) {
            self.record(event, record);
        }
    }
}

/// Passes samples to a callback while the log is read.
struct SampleVisitor<F> {
    profiles: Profiles,
    forwarder: SampleForwarder<F>,
}

impl<F: FnMut(&Sample) -> io::Result<()>> Visitor for SampleVisitor<F> {
    fn event(&mut self, event: &Event<'_>) {
        self.profiles.event(event);
        self.forwarder.forward_complete(&mut self.profiles.heap);
    }

    fn is_done(&self) -> bool {
        self.forwarder.has_failed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(0, "1970-01-01 00:00:00 UTC")]
    #[case(951_782_400, "2000-02-29 00:00:00 UTC")]
    #[case(1_587_578_331, "2020-04-22 17:58:51 UTC")]
    #[case(4_107_542_399, "2100-02-28 23:59:59 UTC")]
    fn times_are_dates(#[case] seconds: u64, #[case] expected: &str) {
        assert_eq!(date(seconds), expected);
    }

    #[test]
    fn any_time_is_a_date() {
        assert!(date(u64::MAX).ends_with("UTC"));
    }
}
