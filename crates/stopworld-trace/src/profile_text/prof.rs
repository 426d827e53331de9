//! Time profiles in the GHC `.prof` format: ticks by cost centre, then by stack. The layout of the file is [`ghc_eventlog::prof`].
//!
//! The writer only counts ticks, one counter per stack; names and sums are computed at the end.

use std::collections::BTreeMap;
use std::io;

use super::writer_settings::WriterSettings;
use crate::trace_output::TraceOutput;
use ghc_eventlog::date::Date;
use ghc_eventlog::prof::{Centre, Profile, Stack};
use stopworld::events::clock::Relation;
use stopworld::events::record::{Consumer, Policy, Recorded};
use stopworld::events::{EventId, EventSet};
use stopworld::profile::{CentreId, StackId};

/// Number of stacks that can be distinguished: the capacity of the store of stacks.
const STACKS: usize = 1 << 21;
/// The number of bytes copied to the output buffer at once.
const PIECE_BYTES: usize = 64 << 10;

/// Returns the events to record.
pub(super) fn events() -> EventSet {
    [EventId::TickerBegin, EventId::Tick, EventId::WorldClosed].into_iter().collect()
}

/// Counts ticks and writes the time profile when it is closed.
#[derive(Debug)]
pub(super) struct Writer {
    out: TraceOutput,
    settings: WriterSettings,
    interval_ns: u64,
    ticks: Box<[u32]>,
    records: u64,
}

impl Writer {
    pub(super) fn new(settings: WriterSettings, out: TraceOutput) -> Writer {
        Writer { out, settings, interval_ns: 0, ticks: vec![0; STACKS].into(), records: 0 }
    }
}

/// The ticks of a stack: its own, and the sum with the ticks of all stacks pushed on it.
#[derive(Clone, Copy, Default)]
struct Ticks {
    individual: u64,
    inherited: u64,
}

/// A profile's sums.
struct Sums {
    stacks: BTreeMap<StackId, Ticks>,
    centres: BTreeMap<CentreId, u64>,
    /// All ticks except those of idle threads.
    total: u64,
    idle: u64,
}

impl Sums {
    fn of(ticks: &[u32]) -> Sums {
        let mut sums = Sums { stacks: BTreeMap::new(), centres: BTreeMap::new(), total: 0, idle: 0 };
        for (stack, ticks) in (0..).map(StackId::from_raw).zip(ticks.iter().map(|ticks| u64::from(*ticks))) {
            if ticks == 0 {
                continue;
            }
            if stack == StackId::IDLE {
                sums.idle = ticks;
                continue;
            }
            sums.total += ticks;
            *sums.centres.entry(stack.centre()).or_default() += ticks;
            sums.stacks.entry(stack).or_default().individual += ticks;
            let mut at = Some(stack);
            while let Some(stack) = at {
                sums.stacks.entry(stack).or_default().inherited += ticks;
                at = stack.parent();
            }
        }
        sums
    }

    /// Returns the cost centres with their ticks, those with the most ticks first.
    fn centres(&self) -> Vec<(Centre<'static>, u64)> {
        let mut centres: Vec<_> = self.centres.iter().map(|(centre, ticks)| (*centre, *ticks)).collect();
        centres.sort_by_key(|(centre, ticks)| (std::cmp::Reverse(*ticks), *centre));
        centres.into_iter().map(|(centre, ticks)| (names(centre), ticks)).collect()
    }

    /// Appends the stacks pushed on `parent`, each followed by those pushed on it. No stack is deeper than the number of centres.
    fn stacks_on(&self, parent: Option<StackId>, depth: usize, to: &mut Vec<Stack<'static>>) {
        for (stack, ticks) in self.stacks.iter().filter(|(stack, _)| stack.parent() == parent) {
            let Ticks { individual, inherited } = *ticks;
            to.push(Stack { centre: names(stack.centre()), depth, individual, inherited });
            self.stacks_on(Some(*stack), depth + 1, to);
        }
    }
}

fn names(centre: CentreId) -> Centre<'static> {
    Centre { label: centre.label(), module: centre.module(), place: centre.place() }
}

impl Writer {
    fn report(&self, now: &Relation) -> String {
        let sums = Sums::of(&self.ticks);
        let mut stacks = Vec::with_capacity(sums.stacks.len());
        sums.stacks_on(None, 0, &mut stacks);
        let profile = Profile {
            date: Date::now(),
            job: &self.settings.job,
            ticks: sums.total,
            idle: sums.idle,
            interval_ns: self.interval_ns,
            lasted_ns: now.ns.saturating_sub(self.settings.began_ns),
            centres: sums.centres(),
            stacks,
        };
        profile.to_string()
    }
}

impl Consumer for Writer {
    fn record(&mut self, record: &Recorded) -> io::Result<()> {
        match record.id {
            EventId::TickerBegin => self.interval_ns = record.field::<0>(),
            EventId::Tick => {
                self.records += 1;
                if let Some(ticks) = self.ticks.get_mut(record.field::<2>() as usize) {
                    *ticks = ticks.saturating_add(1);
                }
            }
            EventId::WorldClosed => self.settings.progress.count_ended_world(),
            _ => {}
        }
        self.out.count_records(1);
        Ok(())
    }

    fn close(&mut self, now: &Relation) -> io::Result<()> {
        let text = self.report(now);
        for piece in text.as_bytes().chunks(PIECE_BYTES) {
            if self.out.is_full() {
                self.out.write_out(&[], false)?;
            }
            self.out.bytes().put(piece);
        }
        let closed = self.out.write_out(&[], true);
        self.settings.progress.publish(self.records, self.out.written);
        closed
    }

    fn unwritten(&self) -> u64 {
        self.out.lost()
    }

    fn policy(&self) -> Policy {
        self.settings.policy
    }
}
