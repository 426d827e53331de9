//! Our side of the comparison: the programs of `benches/peers` with this collector, with the same arguments and output.

mod alloc;
mod events;
mod measure;
mod pause;
mod programs;
mod recording;
mod steps;
mod stw;
mod stwproto;
mod threads;
mod tracing_crate;
mod volume;

use std::io::BufRead;
use std::process::ExitCode;
use std::time::{Duration, Instant};

pub use events::show_machine_code;
use measure::{Failure, clock, cpu_s, number, peak_rss_mb};
use stopworld::WorldBuilder;

/// Runs `compare --child PROGRAM ARGUMENTS…`.
pub fn run(arguments: &[String]) -> ExitCode {
    let mut words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let rounds = Rounds { serving: words.pop_if(|word| *word == "serve").is_some(), begun: 0 };
    let outcome = match words.as_slice() {
        ["gcbench", rest @ ..] => programs::gcbench(rest),
        ["bintrees", rest @ ..] => programs::bintrees(rest),
        ["alloc", rest @ ..] => alloc::run(rest, rounds),
        ["pause", rest @ ..] => pause::run(rest, rounds),
        ["steps", rest @ ..] => steps::run(rest, rounds),
        ["stw", rest @ ..] => stw::run(rest, rounds),
        ["stwproto", rest @ ..] => stwproto::run(rest, rounds),
        ["events"] => events::run(rounds),
        ["recording", rest @ ..] => recording::run(rest, rounds),
        ["tracing", rest @ ..] => tracing_crate::run(rest, rounds),
        ["volume", rest @ ..] => volume::run(rest, rounds),
        _ => {
            Err("usage: compare --child gcbench|bintrees|alloc|pause|steps|stw|stwproto|events|recording|tracing|volume ARGUMENTS… [serve]"
                .into())
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("compare --child {}: {failure}", arguments.join(" "));
            ExitCode::FAILURE
        }
    }
}

/// The rounds that the comparison requests, one per line of standard input; without `serve` a single round.
struct Rounds {
    serving: bool,
    begun: usize,
}

impl Rounds {
    /// Waits for the request to begin a round. Returns false if there are no more rounds.
    fn next(&mut self) -> bool {
        self.begun += 1;
        if !self.serving {
            return self.begun == 1;
        }
        if self.begun == 1 {
            println!("ready");
        }
        let mut line = String::new();
        std::io::stdin().lock().read_line(&mut line).is_ok_and(|bytes| bytes > 0)
    }
}

/// Sets the number of markers, if the environment variable of libgc does.
fn with_markers(builder: WorldBuilder) -> Result<WorldBuilder, Failure> {
    match std::env::var("GC_MARKERS") {
        Ok(markers) => Ok(builder.markers(number(&[&markers], 0, "GC_MARKERS")?)),
        Err(_) => Ok(builder),
    }
}

/// Returns the median of the samples, or zero if there are none.
fn median(samples: &mut [u64]) -> f64 {
    percentile(samples, 0.5)
}

fn percentile(samples: &mut [u64], p: f64) -> f64 {
    samples.sort_unstable();
    let last = samples.len().saturating_sub(1);
    samples.get((p * last as f64 + 0.5) as usize).map_or(0.0, |&sample| sample as f64)
}

fn nanoseconds(since: Instant) -> u64 {
    since.elapsed().as_nanos() as u64
}

/// Returns the CPU time of the calling thread.
fn thread_cpu() -> Duration {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}
