//! Runs the cases with the drivers and prints the table.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::cases::{CASES, Case, Session};
use crate::driver::Which;
use crate::skipped::skipped;

/// The result of a case with a driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Held,
    Failed(String),
    /// The driver could not be run: the case is undecided.
    Skipped(String),
    /// The case cannot exist for this driver.
    None(String),
    /// The case is known not to hold yet, and is therefore not run.
    Open(&'static str),
}

impl Verdict {
    fn cell(&self) -> &'static str {
        match self {
            Self::Held => "holds",
            Self::Failed(_) => "FAILED",
            Self::Skipped(_) => "skipped",
            Self::None(_) => "-",
            Self::Open(_) => "OPEN",
        }
    }
}

/// The cases that are known not to hold yet.
const OPEN: &[(Which, &str, &str)] = &[
    (Which::Lldb, "births and ends during stops", DETACH),
    (Which::Lldb, "many worlds at once", DETACH),
    (Which::Lldb, "a mutator collects", "a thread that was thawed does not always run again"),
    (Which::Lldb, "registers of a frozen thread", "lldb 14 shows no zmm registers, and two more objects died"),
    (Which::Lldb, "cooperation: lisp", UNSERVED),
    (Which::Lldb, "cooperation: churn", UNSERVED),
    (Which::Lldb, "cooperation: binary-trees", UNSERVED),
];
const DETACH: &str = "lldb does not always return from its detach";
const UNSERVED: &str = "after a user's stop lldb misses notifications";

/// What the command line requests.
#[derive(Debug, Default)]
pub struct SuiteArguments {
    pub filters: Vec<String>,
    pub ignored: bool,
    pub list: bool,
}

struct Outcome {
    case: usize,
    which: Which,
    verdict: Verdict,
    took: Duration,
}

/// Runs the requested cases. Returns whether none failed.
pub fn run(asked: &SuiteArguments) -> bool {
    let is_wanted = |case: &Case, which: Which| {
        let name = format!("{}::{}", which.name(), case.name);
        asked.ignored == case.long && (asked.filters.is_empty() || asked.filters.iter().any(|f| name.contains(f)))
    };
    let jobs: Vec<(usize, Which)> = Which::ALL
        .into_iter()
        .flat_map(|which| CASES.iter().enumerate().map(move |(index, case)| (index, case, which)))
        .filter(|(_, case, which)| is_wanted(case, *which))
        .map(|(index, _, which)| (index, which))
        .collect();
    if asked.list {
        jobs.iter().for_each(|(case, which)| println!("{}::{}: test", which.name(), CASES[*case].name));
        return true;
    }
    let begun = Instant::now();
    let outcomes = Mutex::new(Vec::new());
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        // A case mostly waits for a process.
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(&(case, which)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let begun = Instant::now();
                    let verdict = one(&CASES[case], which);
                    let took = begun.elapsed();
                    println!("{}::{} ... {} ({took:.1?})", which.name(), CASES[case].name, verdict.cell());
                    if let Verdict::Failed(why) = &verdict {
                        println!("    {why}");
                    }
                    outcomes.lock().unwrap().push(Outcome { case, which, verdict, took });
                }
            });
        }
    });
    let outcomes = outcomes.into_inner().unwrap();
    print_table(&outcomes);
    print_notes(&outcomes);
    let of = |is: fn(&Verdict) -> bool| outcomes.iter().filter(|outcome| is(&outcome.verdict)).count();
    let failed = of(|verdict| matches!(verdict, Verdict::Failed(_)));
    println!(
        "test result: {}. {} passed; {failed} failed; {} ignored; {} open; {} not applicable; finished in {:.2?}",
        if failed == 0 { "ok" } else { "FAILED" },
        of(|verdict| matches!(verdict, Verdict::Held)),
        of(|verdict| matches!(verdict, Verdict::Skipped(_))),
        of(|verdict| matches!(verdict, Verdict::Open(_))),
        of(|verdict| matches!(verdict, Verdict::None(_))),
        begun.elapsed()
    );
    failed == 0
}

fn one(case: &Case, which: Which) -> Verdict {
    if let Some(why) = which.is_missing() {
        return Verdict::Skipped(why);
    }
    let driver = which.build();
    if let Some((_, _, why)) = OPEN.iter().find(|(whose, name, _)| *whose == which && *name == case.name) {
        return Verdict::Open(why);
    }
    if let Some(lack) = case.needs.iter().find_map(|ability| driver.lacks(*ability)) {
        return Verdict::None(lack.into());
    }
    let run = || (case.run)(&mut Session::new(which, driver)?);
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)) {
        Ok(Ok(())) => Verdict::Held,
        Ok(Err(error)) => error
            .strip_prefix("needs ")
            .map_or_else(|| Verdict::Failed(error.clone()), |what| Verdict::Skipped(format!("needs {what}"))),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            Verdict::Failed(text.unwrap_or_else(|| "the case panicked".into()))
        }
    }
}

fn print_table(outcomes: &[Outcome]) {
    let columns: Vec<Which> =
        Which::ALL.into_iter().filter(|which| outcomes.iter().any(|o| o.which == *which)).collect();
    let width = CASES.iter().map(|case| case.name.len()).max().unwrap_or(0);
    let head: Vec<String> = columns.iter().map(|which| format!("{:>17}", which.name())).collect();
    println!("\n{:width$}{}", "", head.concat());
    for (index, case) in CASES.iter().enumerate() {
        let cell = |which: &Which| {
            let outcome = outcomes.iter().find(|outcome| outcome.case == index && outcome.which == *which);
            format!("{:>17}", outcome.map_or("", |outcome| outcome.verdict.cell()))
        };
        if outcomes.iter().any(|outcome| outcome.case == index) {
            println!("{:width$}{}", case.name, columns.iter().map(cell).collect::<String>());
        }
    }
    println!();
}

/// Reports each driver that could not be run as a skipped test, once for each missing tool.
fn report_skipped(outcomes: &[Outcome]) {
    let mut reported = Vec::new();
    for outcome in outcomes {
        let Verdict::Skipped(why) = &outcome.verdict else { continue };
        if !reported.contains(&(outcome.which, why)) {
            reported.push((outcome.which, why));
            skipped(why.strip_prefix("needs ").unwrap_or(why));
        }
    }
}

/// Prints the reason for each case that does not hold.
fn print_notes(outcomes: &[Outcome]) {
    report_skipped(outcomes);
    let mut notes: Vec<(String, Vec<String>)> = Vec::new();
    for outcome in outcomes {
        let (which, case) = (outcome.which.name(), CASES[outcome.case].name);
        let (note, who) = match &outcome.verdict {
            Verdict::Held => continue,
            Verdict::Failed(why) => (format!("FAILED after {:.1?}: {why}", outcome.took), format!("{which}::{case}")),
            Verdict::Skipped(why) => (format!("skipped: {why}"), which),
            Verdict::None(why) => (format!("-: {why}"), format!("{which}::{case}")),
            Verdict::Open(why) => (format!("OPEN: {why}"), format!("{which}::{case}")),
        };
        match notes.iter_mut().find(|(known, _)| *known == note) {
            Some((_, whose)) if whose.contains(&who) => {}
            Some((_, whose)) => whose.push(who),
            None => notes.push((note, vec![who])),
        }
    }
    for (note, whose) in notes {
        println!("{}: {note}", whose.join(", "));
    }
}
