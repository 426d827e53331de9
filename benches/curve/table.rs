//! Prints the table.

use crate::points::{Kind, Program};
use crate::run::Measured;

const MIB: f64 = (1 << 20) as f64;

pub fn print(program: &Program, rounds: usize, results: &[Measured]) {
    println!(
        "{}: {:.1} MiB are alive at most; medians of {rounds} rounds\n",
        program.name,
        program.live_bytes as f64 / MIB
    );
    println!(
        "| collector | heap | time, ms | CPU time, ms | peak memory, MiB | worst pause, ms | collections | time / stopworld |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|---:|");
    for result in results {
        let heap = heap(result);
        let name = result.point.collector;
        if let Err(reason) = &result.outcome {
            println!("| {name} | {heap} | {reason} | | | | | |");
            continue;
        }
        println!(
            "| {name} | {heap} | {} | {} | {} | {} | {} | {} |",
            number(result.median("wall_ms"), 0),
            number(result.median("cpu_s").map(|seconds| seconds * 1e3), 0),
            number(result.median("peak_rss_mb"), 1),
            number(pause_ms(result), 1),
            number(result.median("collections"), 0),
            number(ours(result, results).and_then(|ours| ratio(result, ours, "wall_ms")), 2),
        );
    }
    println!();
    for ours in results.iter().filter(|result| result.point.kind == Kind::Ours) {
        println!("{}: {}", heap(ours), verdict(ours, results));
    }
}

/// The worst pause; nothing for a program that does not measure it, or has none.
pub fn pause_ms(result: &Measured) -> Option<f64> {
    result.median("worst_pause_ms").filter(|pause| *pause > 0.0)
}

fn heap(result: &Measured) -> String {
    result.point.multiple.map_or("-".into(), |multiple| format!("{multiple}x"))
}

fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or("-".into(), |value| format!("{value:.digits$}"))
}

/// Our collector with the same heap.
fn ours<'a>(result: &Measured, results: &'a [Measured]) -> Option<&'a Measured> {
    let mut same = results.iter().filter(|other| other.point.multiple == result.point.multiple);
    same.find(|other| other.point.kind == Kind::Ours)
}

/// The median of a number relative to ours in the same round.
fn ratio(result: &Measured, ours: &Measured, key: &str) -> Option<f64> {
    let (theirs, ours) = (result.outcome.as_ref().ok()?, ours.outcome.as_ref().ok()?);
    let rounds = theirs.iter().zip(ours);
    let ratios: Vec<f64> = rounds.filter_map(|(theirs, ours)| Some(theirs.get(key)? / ours.get(key)?)).collect();
    (!ratios.is_empty()).then(|| crate::line::median(&ratios))
}

/// Compares our time and CPU time with those of the other mark-sweep collectors that have the same heap.
fn verdict(ours: &Measured, results: &[Measured]) -> String {
    let peers: Vec<&Measured> = results
        .iter()
        .filter(|other| other.point.kind == Kind::MarkSweep && other.point.multiple == ours.point.multiple)
        .filter(|other| other.outcome.is_ok())
        .collect();
    if peers.is_empty() {
        return "not compared: no other mark-sweep collector has run".into();
    }
    if let Err(reason) = &ours.outcome {
        return format!("FALLS SHORT: {reason}");
    }
    let faster: Vec<String> = peers
        .iter()
        .flat_map(|peer| [(peer, "wall_ms", "time"), (peer, "cpu_s", "CPU time")])
        .filter_map(|(peer, key, what)| Some((peer, what, ratio(peer, ours, key).filter(|ratio| *ratio < 1.0)?)))
        .map(|(peer, what, ratio)| format!("{} needs {ratio:.2} of our {what}", peer.point.collector))
        .collect();
    match faster.as_slice() {
        [] => "HOLDS: no mark-sweep collector is faster".into(),
        faster => format!("FALLS SHORT: {}", faster.join("; ")),
    }
}
