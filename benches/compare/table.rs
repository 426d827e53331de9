//! Prints the results of the comparison.

use crate::contest::Outcome;
use crate::line::{Sample, median, quantile};
use crate::options::Options;
use crate::peers::Programs;
use crate::rows::{Contest, Limit, Role, Row, Side};

/// The result of a row.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Holds,
    FallsShort,
    /// The row has no limit: shown for information.
    Shown,
    /// A side that the limit refers to can't run here.
    Skipped,
    Failed,
}

#[derive(Default)]
pub struct Tally {
    holds: usize,
    falls_short: usize,
    skipped: usize,
    failed: usize,
}

impl Tally {
    pub fn count(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Holds => self.holds += 1,
            Verdict::FallsShort => self.falls_short += 1,
            Verdict::Skipped => self.skipped += 1,
            Verdict::Failed => self.failed += 1,
            Verdict::Shown => {}
        }
    }

    pub fn fell_short(&self) -> bool {
        self.falls_short + self.failed > 0
    }

    pub fn show(&self) {
        let Tally { holds, falls_short, skipped, failed } = self;
        println!("\n{holds} hold, {falls_short} fall short, {skipped} skipped, {failed} failed");
    }
}

pub fn list(contests: &[Contest]) {
    for row in contests.iter().flat_map(|contest| &contest.rows) {
        println!("{:9} {:42} {}", row.group, row.name, must_hold(row));
    }
}

pub fn heading(options: &Options, programs: &Programs) {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    println!("{} interleaved rounds, {processors} processors; medians, ratios per round", options.rounds);
    println!("peer: bdwgc (libgc); base: the bare limit, unless given in brackets");
    if let Some(reason) = programs.no_peers {
        println!("peer skipped: {reason}");
    }
    println!(
        "\n{:42} {:>11} {:>11} {:>11} {:>8} {:>8}  {:22} ",
        "", "us", "peer", "base", "us/peer", "us/base", "must hold"
    );
}

pub fn show(row: &Row, sides: &[Side], outcomes: &[Outcome], options: &Options) -> Verdict {
    let found = |role| sides.iter().zip(outcomes).find(|(side, _)| side.role == role);
    let samples = |role| match found(role) {
        Some((_, Outcome::Samples(samples))) => values(samples, row.key),
        _ => Vec::new(),
    };
    let (us, peer, base) = (samples(Role::Us), samples(Role::Peer), samples(Role::Base));
    let (to_peer, to_base) = (ratios(&us, &peer), ratios(&us, &base));
    let verdict = if outcomes.iter().any(|outcome| matches!(outcome, Outcome::Failed(_))) {
        Verdict::Failed
    } else {
        judge(row, &us, &to_peer, &to_base)
    };
    println!(
        "{:42} {:>11} {:>11} {:>11} {:>8} {:>8}  {:22} {}{}",
        row.name,
        with_unit(&us, row.unit),
        with_unit(&peer, row.unit),
        with_unit(&base, row.unit),
        ratio(&to_peer),
        ratio(&to_base),
        must_hold(row),
        word(verdict),
        found(Role::Base)
            .filter(|(side, _)| !side.note.is_empty())
            .map_or(String::new(), |(side, _)| format!("  (base: {})", side.note)),
    );
    if options.spread {
        spread("us/peer", &to_peer);
        spread("us/base", &to_base);
    }
    for outcome in outcomes {
        match outcome {
            Outcome::Failed(reason) => println!("    failed: {reason}"),
            Outcome::Skipped(reason) => println!("    skipped: {reason}"),
            Outcome::Samples(_) => {}
        }
    }
    verdict
}

fn values(samples: &[Sample], key: &str) -> Vec<f64> {
    samples.iter().filter_map(|sample| sample.get(key).copied()).collect()
}

/// Returns the ratio of each round. The result is empty if a side has no samples.
fn ratios(ours: &[f64], theirs: &[f64]) -> Vec<f64> {
    ours.iter().zip(theirs).map(|(us, them)| us / them).filter(|ratio| ratio.is_finite()).collect()
}

fn judge(row: &Row, us: &[f64], to_peer: &[f64], to_base: &[f64]) -> Verdict {
    let mut verdict = Verdict::Shown;
    for limit in &row.limits {
        let (measured, bound, at_most) = match *limit {
            Limit::PeerAtMost(bound) => (to_peer, bound, true),
            Limit::PeerAtLeast(bound) => (to_peer, bound, false),
            Limit::BaseAtMost(bound) => (to_base, bound, true),
            Limit::BaseAtLeast(bound) => (to_base, bound, false),
            Limit::AtMost(bound) => (us, bound, true),
        };
        if measured.is_empty() {
            return Verdict::Skipped;
        }
        let measured = median(measured);
        if if at_most { measured > bound } else { measured < bound } {
            return Verdict::FallsShort;
        }
        verdict = Verdict::Holds;
    }
    verdict
}

fn must_hold(row: &Row) -> String {
    let one = |limit: &Limit| match *limit {
        Limit::PeerAtMost(bound) => format!("≤ {} peer", number(bound)),
        Limit::PeerAtLeast(bound) => format!("≥ {} peer", number(bound)),
        Limit::BaseAtMost(bound) => format!("≤ {} base", number(bound)),
        Limit::BaseAtLeast(bound) => format!("≥ {} base", number(bound)),
        Limit::AtMost(bound) => format!("≤ {} {}", number(bound), row.unit),
    };
    row.limits.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Holds => "HOLDS",
        Verdict::FallsShort => "FALLS SHORT",
        Verdict::Shown => "",
        Verdict::Skipped => "skipped",
        Verdict::Failed => "FAILED",
    }
}

fn with_unit(samples: &[f64], unit: &str) -> String {
    if samples.is_empty() { "-".into() } else { format!("{} {unit}", number(median(samples))) }
}

fn ratio(ratios: &[f64]) -> String {
    if ratios.is_empty() { "-".into() } else { number(median(ratios)) }
}

fn spread(name: &str, ratios: &[f64]) {
    if !ratios.is_empty() {
        println!("    {name} middle half {} to {}", number(quantile(ratios, 0.25)), number(quantile(ratios, 0.75)));
    }
}

/// Formats a number with three significant digits; from 100 up as a whole number.
fn number(value: f64) -> String {
    let decimals = match value.abs() {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 1.0 || v == 0.0 => 2,
        v if v >= 0.1 => 3,
        _ => 4,
    };
    let text = format!("{value:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}
