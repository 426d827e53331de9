//! Time profiles as text, like the GHC `.prof` format: ticks by cost centre, then by stack.
//!
//! The writer only counts ticks, one counter per stack; names and sums are computed at the end. A GHC profile also has counts of entries
//! and of allocated bytes, which are not available here.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io;

use super::date::Date;
use super::plan::Plan;
use crate::trace_output::TraceOutput;
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
    plan: Plan,
    interval_ns: u64,
    ticks: Box<[u32]>,
    records: u64,
}

impl Writer {
    pub(super) fn new(plan: Plan, out: TraceOutput) -> Writer {
        Writer { out, plan, interval_ns: 0, ticks: vec![0; STACKS].into(), records: 0 }
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

    fn percent(&self, ticks: u64) -> f64 {
        100.0 * ticks as f64 / self.total.max(1) as f64
    }

    /// Returns the text without its header.
    fn render(&self) -> String {
        let mut centres: Vec<_> = self.centres.iter().collect();
        centres.sort_by_key(|(centre, ticks)| (std::cmp::Reverse(**ticks), **centre));
        let names = self.stacks.keys().map(|stack| stack.centre());
        let widest = |text: fn(CentreId) -> &'static str| {
            names.clone().map(|centre| text(centre).chars().count() + 1).max().unwrap_or(0).max(12)
        };
        let (of_module, of_place) = (widest(CentreId::module), widest(CentreId::place));
        let deepest = self.stacks.keys().map(|stack| stack.depth() + stack.centre().label().chars().count());
        let of_label = deepest.max().unwrap_or(0).max(12) + 1;
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ =
            writeln!(text, "{:of_label$} {:of_module$} {:of_place$} %time  ticks\n", "COST CENTRE", "MODULE", "SRC");
        for (centre, ticks) in centres {
            let (label, module, place) = (centre.label(), centre.module(), centre.place());
            let percent = self.percent(*ticks);
            let _ = writeln!(text, "{label:of_label$} {module:of_module$} {place:of_place$} {percent:5.1} {ticks:6}");
        }
        let _ = writeln!(text, "\n{:of_label$} {:of_module$} {:of_place$}  individual      inherited", "", "", "");
        let (label, module, place) = ("COST CENTRE", "MODULE", "SRC");
        let _ = writeln!(text, "{label:of_label$} {module:of_module$} {place:of_place$} %time  ticks   %time  ticks\n");
        self.render_below(None, 0, &mut |depth, stack, ticks| {
            let centre = stack.centre();
            let label = format!("{:depth$}{}", "", centre.label());
            let (module, place) = (centre.module(), centre.place());
            let Ticks { individual, inherited } = ticks;
            let (of_individual, of_inherited) = (self.percent(individual), self.percent(inherited));
            let _ = writeln!(
                text,
                "{label:of_label$} {module:of_module$} {place:of_place$} {of_individual:5.1} {individual:6}   \
                 {of_inherited:5.1} {inherited:6}"
            );
        });
        text
    }

    /// Shows each stack below its parent. No stack is deeper than the number of centres.
    fn render_below(&self, parent: Option<StackId>, depth: usize, show: &mut impl FnMut(usize, StackId, Ticks)) {
        for (stack, ticks) in self.stacks.iter().filter(|(stack, _)| stack.parent() == parent) {
            show(depth, *stack, *ticks);
            self.render_below(Some(*stack), depth + 1, show);
        }
    }
}

impl Writer {
    fn report(&self, now: &Relation) -> String {
        let sums = Sums::of(&self.ticks);
        let seconds = |ns: u64| ns as f64 / 1e9;
        let (date, job, interval_us) = (Date::now(), &self.plan.job, self.interval_ns / 1_000);
        let time = seconds(sums.total * self.interval_ns);
        let lasted = seconds(now.ns.saturating_sub(self.plan.began_ns));
        let Sums { total, idle, .. } = sums;
        format!(
            "\t{date} Time Profiling Report\n\n\t   {job}\n\n\ttotal time  = {time:11.2} secs   ({total} ticks @ \
             {interval_us} us)\n\tidle        = {idle:11} ticks\n\tlasted      = {lasted:11.2} secs\n\n{}",
            sums.render()
        )
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
            EventId::WorldClosed => self.plan.progress.count_ended_world(),
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
        self.plan.progress.publish(self.records, self.out.written);
        closed
    }

    fn unwritten(&self) -> u64 {
        self.out.lost()
    }

    fn policy(&self) -> Policy {
        self.plan.policy
    }
}
