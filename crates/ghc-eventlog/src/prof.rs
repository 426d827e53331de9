//! Time profiles as text: tables like those of the `.prof` files that GHC writes, for people to read.
//!
//! ```text
//!     Sat Nov 21 00:56 2026 Time Profiling Report
//!
//!        gcbench --depth 18
//!
//!     total time  =        0.03 secs   (3 ticks @ 10000 us)
//!     idle        =           1 ticks
//!     lasted      =        0.05 secs
//!
//! COST CENTRE   MODULE       SRC          %time  ticks
//!
//! build         main         main.rs:7     66.7      2
//! …
//! ```
//!
//! The second table has a line for each cost centre stack, indented by its depth, with its own ticks and the sum with those of all stacks
//! pushed on it. GHC also writes counts of entries and of allocated bytes; these tables do not have them.

use std::fmt::{self, Display, Formatter};

use crate::date::Date;

/// A time profile, which formats itself as a file.
#[derive(Clone, Debug)]
pub struct Profile<'a> {
    /// When the profile ended.
    pub date: Date,
    /// The program and its arguments.
    pub job: &'a str,
    /// All ticks except those of idle threads.
    pub ticks: u64,
    /// The ticks of idle threads.
    pub idle: u64,
    /// The time between two ticks, in nanoseconds.
    pub interval_ns: u64,
    /// The duration of the profile, in nanoseconds.
    pub lasted_ns: u64,
    /// The cost centres with their ticks, in the order of the first table.
    pub centres: Vec<(Centre<'a>, u64)>,
    /// The cost centre stacks in the order of the second table: each followed by those pushed on it.
    pub stacks: Vec<Stack<'a>>,
}

/// The names of a cost centre.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Centre<'a> {
    /// Its label.
    pub label: &'a str,
    /// The module in which it is.
    pub module: &'a str,
    /// Its place in the source.
    pub place: &'a str,
}

/// A cost centre stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stack<'a> {
    /// The cost centre on top.
    pub centre: Centre<'a>,
    /// The number of cost centres below it.
    pub depth: usize,
    /// Its own ticks.
    pub individual: u64,
    /// Its own ticks and those of all stacks pushed on it.
    pub inherited: u64,
}

/// The widths of the columns with names.
#[derive(Clone, Copy)]
struct Widths {
    label: usize,
    module: usize,
    place: usize,
}

impl Profile<'_> {
    fn widths(&self) -> Widths {
        let widest = |width: fn(&Stack<'_>) -> usize| self.stacks.iter().map(width).max().unwrap_or(0).max(12);
        Widths {
            label: widest(|stack| stack.depth + stack.centre.label.chars().count()) + 1,
            module: widest(|stack| stack.centre.module.chars().count() + 1),
            place: widest(|stack| stack.centre.place.chars().count() + 1),
        }
    }

    fn percent(&self, ticks: u64) -> f64 {
        100.0 * ticks as f64 / self.ticks.max(1) as f64
    }
}

impl Widths {
    /// Writes the columns with names.
    fn names(self, centre: Centre<'_>, depth: usize, f: &mut Formatter<'_>) -> fmt::Result {
        let (Widths { label, module, place }, Centre { label: name, .. }) = (self, centre);
        let rest = label.saturating_sub(depth);
        write!(f, "{:depth$}{name:rest$} {:module$} {:place$}", "", centre.module, centre.place)
    }
}

const TITLES: Centre<'static> = Centre { label: "COST CENTRE", module: "MODULE", place: "SRC" };
const NO_TITLES: Centre<'static> = Centre { label: "", module: "", place: "" };

impl Display for Profile<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Profile { date, job, ticks, idle, interval_ns, lasted_ns, .. } = self;
        let seconds = |ns: u64| ns as f64 / 1e9;
        let (time, lasted, interval_us) = (seconds(ticks * interval_ns), seconds(*lasted_ns), interval_ns / 1_000);
        writeln!(f, "\t{date} Time Profiling Report\n\n\t   {job}\n")?;
        writeln!(f, "\ttotal time  = {time:11.2} secs   ({ticks} ticks @ {interval_us} us)")?;
        writeln!(f, "\tidle        = {idle:11} ticks\n\tlasted      = {lasted:11.2} secs\n")?;
        let widths = self.widths();
        widths.names(TITLES, 0, f)?;
        writeln!(f, " %time  ticks\n")?;
        for (centre, ticks) in &self.centres {
            widths.names(*centre, 0, f)?;
            writeln!(f, " {:5.1} {ticks:6}", self.percent(*ticks))?;
        }
        writeln!(f)?;
        widths.names(NO_TITLES, 0, f)?;
        writeln!(f, "  individual      inherited")?;
        widths.names(TITLES, 0, f)?;
        writeln!(f, " %time  ticks   %time  ticks\n")?;
        for Stack { centre, depth, individual, inherited } in &self.stacks {
            widths.names(*centre, *depth, f)?;
            let (own, all) = (self.percent(*individual), self.percent(*inherited));
            writeln!(f, " {own:5.1} {individual:6}   {all:5.1} {inherited:6}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_has_both_tables() {
        let centre = |label| Centre { label, module: "main", place: "main.rs:7" };
        let stack = |label, depth, individual, inherited| Stack { centre: centre(label), depth, individual, inherited };
        let profile = Profile {
            date: Date::at(1_795_222_569),
            job: "gcbench",
            ticks: 3,
            idle: 1,
            interval_ns: 10_000_000,
            lasted_ns: 45_000_000,
            centres: vec![(centre("build"), 2), (centre("MAIN"), 1)],
            stacks: vec![stack("MAIN", 0, 1, 3), stack("build", 1, 2, 2)],
        };
        let expected = "\tSat Nov 21 00:56 2026 Time Profiling Report

\t   gcbench

\ttotal time  =        0.03 secs   (3 ticks @ 10000 us)
\tidle        =           1 ticks
\tlasted      =        0.04 secs

COST CENTRE   MODULE       SRC          %time  ticks

build         main         main.rs:7     66.7      2
MAIN          main         main.rs:7     33.3      1

                                         individual      inherited
COST CENTRE   MODULE       SRC          %time  ticks   %time  ticks

MAIN          main         main.rs:7     33.3      1   100.0      3
 build        main         main.rs:7     66.7      2    66.7      2
";
        assert_eq!(profile.to_string(), expected);
    }
}
