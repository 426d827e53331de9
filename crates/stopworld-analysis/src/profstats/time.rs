//! A time profile in memory.
//!
//! At each tick of a clock, the log has the cost centre stack of every capability. The centre of an idle capability is IDLE, that of a
//! collecting capability is GC, and that of a capability that does other work of the runtime is SYSTEM. Ticks of these centres are counted
//! separately from the program's own ticks. Percentages refer to the program's own ticks, as in the `.prof` files of GHC.

use std::collections::{BTreeMap, HashMap};

use super::centres::{Centres, StackId, Stacks};

/// Maximum number of runs (consecutive ticks in one stack) that are kept in order: 16 bytes each.
const MOST_RUNS: usize = 4 << 20;
const MOST_CAPABILITIES: usize = 4096;

/// A time profile.
#[derive(Clone, Debug, Default)]
pub struct TimeProfile {
    /// Nanoseconds between two ticks; 0 if the log does not specify it.
    pub interval_ns: u64,
    /// The ticks of each stack, by its index in the table of stacks.
    pub ticks: Vec<u64>,
    /// The number of all ticks.
    pub samples: u64,
    /// The consecutive stacks of each capability, with the ticks in each.
    pub runs: BTreeMap<u32, Vec<(StackId, u64)>>,
    /// Whether `runs` is incomplete because there were too many runs or capabilities.
    pub is_order_lost: bool,
    kept: usize,
}

impl TimeProfile {
    /// Counts a tick of a capability in this stack.
    pub fn add(&mut self, cap: u32, stack: StackId) {
        self.samples += 1;
        if stack.index() >= self.ticks.len() {
            self.ticks.resize(stack.index() + 1, 0);
        }
        self.ticks[stack.index()] += 1;
        if !self.runs.contains_key(&cap) && self.runs.len() >= MOST_CAPABILITIES {
            self.is_order_lost = true;
            return;
        }
        let runs = self.runs.entry(cap).or_default();
        match runs.last_mut() {
            Some((last, count)) if *last == stack => *count += 1,
            _ if self.kept < MOST_RUNS => {
                self.kept += 1;
                runs.push((stack, 1));
            }
            _ => self.is_order_lost = true,
        }
    }

    /// Returns the stacks with ticks, and their ticks.
    pub fn stacks<'a>(&'a self, stacks: &'a Stacks) -> impl Iterator<Item = (StackId, u64)> + 'a {
        stacks.iter().zip(&self.ticks).map(|(stack, &ticks)| (stack, ticks)).filter(|&(_, ticks)| ticks > 0)
    }

    /// Returns the activity outside the program to which this stack belongs; `None` if it is a stack of the program.
    pub fn outside_activity<'c>(stack: StackId, stacks: &Stacks, centres: &'c Centres) -> Option<&'c str> {
        let (innermost, _) = stacks.top(stack)?;
        let centre = centres.get(innermost).filter(|centre| centre.is_built_in())?;
        (centre.label != "MAIN").then_some(centre.label.as_str())
    }

    /// Returns the ticks of the program itself.
    pub fn program_ticks(&self, stacks: &Stacks, centres: &Centres) -> u64 {
        self.stacks(stacks)
            .filter(|&(stack, _)| Self::outside_activity(stack, stacks, centres).is_none())
            .map(|(_, ticks)| ticks)
            .sum()
    }

    /// Returns the ticks of the activities outside the program, most first.
    pub fn outside_activities(&self, stacks: &Stacks, centres: &Centres) -> Vec<(String, u64)> {
        let mut all: BTreeMap<&str, u64> = BTreeMap::new();
        for (stack, ticks) in self.stacks(stacks) {
            if let Some(name) = Self::outside_activity(stack, stacks, centres) {
                *all.entry(name).or_default() += ticks;
            }
        }
        let mut all: Vec<_> = all.into_iter().map(|(name, ticks)| (name.to_owned(), ticks)).collect();
        all.sort_by_key(|(_, ticks)| std::cmp::Reverse(*ticks));
        all
    }

    /// Returns the times of the program's cost centres, sorted by own ticks. The row without a centre has the ticks of the program outside of all
    /// centres.
    pub fn centres(&self, stacks: &Stacks, centres: &Centres) -> Vec<CentreTime> {
        let mut rows: HashMap<Option<u32>, CentreTime> = HashMap::new();
        let mut seen = Vec::new();
        for (stack, ticks) in self.stacks(stacks) {
            if Self::outside_activity(stack, stacks, centres).is_some() {
                continue;
            }
            seen.clear();
            let innermost = stacks.top(stack).map(|(centre, _)| centre);
            row(&mut rows, innermost).own += ticks;
            for centre in stacks.centres(stack).map(Some).chain([None]) {
                // If a centre occurs more than once on a stack, the stack's ticks are added to it only once.
                if !seen.contains(&centre) {
                    seen.push(centre);
                    row(&mut rows, centre).inherited += ticks;
                }
            }
        }
        let mut rows: Vec<_> = rows.into_values().collect();
        rows.sort_by_key(|row| (std::cmp::Reverse(row.own), std::cmp::Reverse(row.inherited), row.centre));
        rows
    }

    /// Returns the ticks of each stack including all stacks inside it, by the stack's index.
    pub fn inherited(&self, stacks: &Stacks) -> Vec<u64> {
        let mut sums = self.ticks.clone();
        sums.resize(stacks.len(), 0);
        // A stack comes after its outer stack.
        for stack in stacks.iter().collect::<Vec<_>>().into_iter().rev() {
            if let Some((_, around)) = stacks.top(stack) {
                sums[around.index()] += sums[stack.index()];
            }
        }
        sums
    }
}

fn row(rows: &mut HashMap<Option<u32>, CentreTime>, centre: Option<u32>) -> &mut CentreTime {
    rows.entry(centre).or_insert(CentreTime { centre, own: 0, inherited: 0 })
}

/// The ticks of a cost centre.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CentreTime {
    /// Its number; `None` for the program outside of all centres.
    pub centre: Option<u32>,
    /// The number of ticks while it was the innermost centre.
    pub own: u64,
    /// The number of ticks while it was anywhere on the stack.
    pub inherited: u64,
}
