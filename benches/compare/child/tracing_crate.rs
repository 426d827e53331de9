//! The same measurement as `recording`, with the `tracing` crate, set up as its documentation recommends: a subscriber that formats
//! lines, and a thread that writes them, without loss.
//!
//! `tracing FILE [MILLIONS]`

use std::hint::black_box;
use std::time::Instant;

use super::{Failure, Rounds, number, recording, thread_cpu};

pub fn run(arguments: &[&str], mut rounds: Rounds) -> Result<(), Failure> {
    let path = *arguments.first().ok_or("FILE is missing")?;
    let millions: u64 = if arguments.len() > 1 { number(arguments, 1, "MILLIONS")? } else { 1 };
    let (writer, _guard) =
        tracing_appender::non_blocking::NonBlockingBuilder::default().lossy(false).finish(recording::open(path)?);
    tracing_subscriber::fmt().with_writer(writer).with_ansi(false).init();
    while rounds.next() {
        let (start, cpu) = (Instant::now(), thread_cpu());
        fire(millions * 1_000_000);
        let (wall, cpu) = (start.elapsed(), thread_cpu() - cpu);
        let events = millions as f64 * 1e6;
        println!(
            "program=tracing on_ns={:.2} on_cpu_ns={:.2}",
            wall.as_secs_f64() * 1e9 / events,
            cpu.as_secs_f64() * 1e9 / events,
        );
    }
    Ok(())
}

#[inline(never)]
fn fire(steps: u64) {
    for step in 0..steps {
        tracing::info!(addr = step, bytes = 32_u64, "object_allocated");
        black_box(step);
    }
}
