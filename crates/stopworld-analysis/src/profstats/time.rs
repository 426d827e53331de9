//! What is known of a time profile.
//!
//! At each tick of a clock the log has where every capability was: a stack of cost centres. A capability that did nothing
//! was in a centre of its own, IDLE; one that collected garbage in GC, one that did the runtime's work in SYSTEM. These and
//! their like are told apart from the program's own time, of which percentages are, as in GHC's `.prof` files.

use std::collections::{BTreeMap, HashMap};

use super::centres::{Centres, StackId, Stacks};

/// The most runs (ticks one after the other at the same place) that are kept in their order: 16 bytes each.
const MOST_RUNS: usize = 4 << 20;
const MOST_CAPABILITIES: usize = 4096;

/// A time profile.
#[derive(Clone, Debug, Default)]
pub struct TimeProfile {
    /// Nanoseconds between two ticks, 0 if the log does not say.
    pub interval_ns: u64,
    /// At how many ticks a capability was there, by the stack's place in the table of stacks.
    pub ticks: Vec<u64>,
    /// All of them.
    pub samples: u64,
    /// Where each capability was one after the other, and for how many ticks.
    pub runs: BTreeMap<u32, Vec<(StackId, u64)>>,
    /// Whether the order of some is not kept, since there were too many.
    pub is_order_lost: bool,
    kept: usize,
}

impl TimeProfile {
    /// A capability was there at a tick.
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

    /// The stacks that were seen, with their ticks.
    pub fn stacks<'a>(&'a self, stacks: &'a Stacks) -> impl Iterator<Item = (StackId, u64)> + 'a {
        stacks.iter().zip(&self.ticks).map(|(stack, &ticks)| (stack, ticks)).filter(|&(_, ticks)| ticks > 0)
    }

    /// What was done besides the program, if this stack is not the program's.
    pub fn beside<'c>(stack: StackId, stacks: &Stacks, centres: &'c Centres) -> Option<&'c str> {
        let (innermost, _) = stacks.top(stack)?;
        let centre = centres.get(innermost).filter(|centre| centre.is_built_in())?;
        (centre.label != "MAIN").then_some(centre.label.as_str())
    }

    /// The ticks of the program itself.
    pub fn program_ticks(&self, stacks: &Stacks, centres: &Centres) -> u64 {
        self.stacks(stacks)
            .filter(|&(stack, _)| Self::beside(stack, stacks, centres).is_none())
            .map(|(_, ticks)| ticks)
            .sum()
    }

    /// What was done besides the program, most first.
    pub fn besides(&self, stacks: &Stacks, centres: &Centres) -> Vec<(String, u64)> {
        let mut all: BTreeMap<&str, u64> = BTreeMap::new();
        for (stack, ticks) in self.stacks(stacks) {
            if let Some(name) = Self::beside(stack, stacks, centres) {
                *all.entry(name).or_default() += ticks;
            }
        }
        let mut all: Vec<_> = all.into_iter().map(|(name, ticks)| (name.to_owned(), ticks)).collect();
        all.sort_by_key(|(_, ticks)| std::cmp::Reverse(*ticks));
        all
    }

    /// The cost centres of the program, those with most ticks of their own first. None is the program outside of any.
    pub fn centres(&self, stacks: &Stacks, centres: &Centres) -> Vec<CentreTime> {
        let mut rows: HashMap<Option<u32>, CentreTime> = HashMap::new();
        let mut seen = Vec::new();
        for (stack, ticks) in self.stacks(stacks) {
            if Self::beside(stack, stacks, centres).is_some() {
                continue;
            }
            seen.clear();
            let innermost = stacks.top(stack).map(|(centre, _)| centre);
            row(&mut rows, innermost).own += ticks;
            for centre in stacks.centres(stack).map(Some).chain([None]) {
                // A centre that is twice on a stack, has its ticks once.
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

    /// The ticks of each stack together with those of all stacks inside of it, by the stack's place.
    pub fn inherited(&self, stacks: &Stacks) -> Vec<u64> {
        let mut sums = self.ticks.clone();
        sums.resize(stacks.len(), 0);
        // A stack is behind the one around it.
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
    /// Its number; none for the program outside of any.
    pub centre: Option<u32>,
    /// While it was the innermost.
    pub own: u64,
    /// While it was anywhere on the stack.
    pub inherited: u64,
}
