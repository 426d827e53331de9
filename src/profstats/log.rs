//! Profiles out of an eventlog.
//!
//! The log is gone through once in the order of the file: samples are told from each other by their place, since all of them may have the
//! same number and, if they were counted when the program was over, nearly the same time. A sample of a biography says of which time it
//! speaks; of others it is the time of their record.

use std::collections::HashMap;
use std::io::Read;

use super::centres::{Centre, Centres, Stacks};
use super::heap::{Band, Breakdown, HeapProfile, Mark};
use super::time::TimeProfile;
use crate::formats::eventlog::read::record::Record;
use crate::formats::eventlog::read::{Event, Summary, Visitor, in_file_order};

/// The most info tables that are kept, for profiles that count by them.
const MOST_TABLES: usize = 128 << 10;
/// The most capabilities whose collections are told apart.
const MOST_CAPABILITIES: usize = 4096;

/// What a log says of the heap and of time.
#[derive(Clone, Debug, Default)]
pub struct Profiles {
    /// Whether it has a heap profile.
    pub has_heap: bool,
    /// Whether it has a time profile.
    pub has_time: bool,
    /// The heap.
    pub heap: HeapProfile,
    /// Time.
    pub time: TimeProfile,
    /// The cost centres that both refer to.
    pub centres: Centres,
    /// Their stacks.
    pub stacks: Stacks,
    /// What made the log.
    pub runtime: String,
    /// The last time in it.
    pub end_ns: u64,
    tables: HashMap<u64, String>,
    collecting: HashMap<u16, u64>,
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl Profiles {
    /// Reads a log to its end, or to where it can't be read on.
    pub fn read(log: impl Read) -> (Profiles, Summary) {
        let mut profiles = Profiles::default();
        let summary = in_file_order(log, &mut profiles);
        profiles.finish();
        (profiles, summary)
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
        // Which capability it is does not matter if there are too many.
        let cap = event.cap.unwrap_or(u16::MAX);
        if begins {
            if self.collecting.len() < MOST_CAPABILITIES {
                self.collecting.insert(cap, event.time);
            }
        } else if let Some(began) = self.collecting.remove(&cap) {
            // GHC writes an end that is earlier than what it wrote before.
            self.heap.collections.push((began, event.time.max(began)));
        }
    }

    fn record(&mut self, event: &Event<'_>, record: Record<'_>) {
        match record {
            Record::GcStart => self.collection(event, true),
            Record::GcEnd => self.collection(event, false),
            Record::HeapSize(bytes) => self.heap.figures[0].push((event.time, bytes)),
            Record::HeapLive(bytes) => self.heap.figures[1].push((event.time, bytes)),
            Record::BlocksSize(bytes) => self.heap.figures[2].push((event.time, bytes)),
            Record::RtsIdentifier(name) => self.runtime = text(name),
            Record::ProgramArgs(words) => self.heap.program = text(words).trim_end_matches('\0').replace('\0', " "),
            Record::WallClock(seconds, _) => self.heap.date = format!("{seconds} s after 1970"),
            Record::UserMarker(mark) => self.heap.marks.push(Mark { time_ns: event.time, text: text(mark) }),
            Record::CostCentre(centre) => {
                let [label, module, place] = [centre.label, centre.module, centre.place].map(text);
                self.centres.insert(centre.id, Centre { label, module, place, is_caf: centre.is_caf });
            }
            Record::InfoTable { address, label, place, .. } if self.tables.len() < MOST_TABLES => {
                self.tables.insert(address, format!("{} {}", text(label), text(place)));
            }
            Record::TimeProfile(interval) => {
                self.has_time = true;
                self.time.interval_ns = interval;
            }
            Record::Tick { cap, stack, .. } => {
                self.has_time = true;
                let stack = self.stacks.intern(stack.centres().rev());
                self.time.add(cap, stack);
            }
            _ => self.sample(event, record),
        }
    }

    fn sample(&mut self, event: &Event<'_>, record: Record<'_>) {
        match record {
            Record::HeapProfile(profile) => {
                self.has_heap = true;
                self.heap.breakdown = Breakdown::of(profile.breakdown);
                self.heap.period_ns = profile.period;
                let filters = profile.filters.iter().filter(|filter| !filter.is_empty());
                self.heap.filters = filters.map(|filter| text(filter)).collect();
            }
            Record::SampleBegin(_) => self.begin(event.time),
            Record::BiographySampleBegin(_, time) => self.begin(time),
            Record::SampleStack(bytes, stack) => {
                let stack = self.stacks.intern(stack.centres().rev());
                self.heap.add_stack(stack, bytes);
            }
            Record::SampleLabel(bytes, label) => self.heap.add_label(&String::from_utf8_lossy(label), bytes),
            Record::SampleEnd(_) => self.heap.end_sample(),
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
