//! The cost of a disabled event: a loop with the event, compared with the same loop without it.
//!
//! Half a nanosecond is two cycles, so both loops run in short, alternating batches, and the medians of the batches are
//! subtracted. The loop counter goes through `black_box`, so that the compiler cannot remove or merge steps; the event's fields
//! are computed from it, as they would be in the allocator.

use std::hint::black_box;
use std::time::Instant;

use stopworld::events::Events;

use super::{Failure, Rounds, median, nanoseconds};

const STEPS: u64 = 20_000;
const BATCHES: usize = 201;

static EVENTS: Events = Events::new();

pub fn run(mut rounds: Rounds) -> Result<(), Failure> {
    while rounds.next() {
        let (mut empty, mut firing) = (Vec::new(), Vec::new());
        for _ in 0..BATCHES {
            empty.push(empty_loop());
            firing.push(firing_loop(black_box(&EVENTS)));
        }
        let (empty, firing) = (median(&mut empty) / STEPS as f64, median(&mut firing) / STEPS as f64);
        println!("program=events empty_ns={empty:.4} check_ns={firing:.4} extra_ns={:.4}", firing - empty);
    }
    Ok(())
}

/// A function with a single event check, used to show its machine code.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn stopworld_bench_one_check(events: &Events, addr: usize, bytes: usize) {
    events.fire_object_allocated(addr, bytes);
}

/// Prints the machine code of a disabled event.
pub fn show_machine_code() {
    black_box::<extern "C" fn(&Events, usize, usize)>(stopworld_bench_one_check);
    let this = std::env::current_exe().unwrap_or_default();
    let arguments = ["--no-show-raw-insn", "--disassemble=stopworld_bench_one_check"];
    let Ok(output) = std::process::Command::new("objdump").args(arguments).arg(this).output() else {
        println!("machine code of a disabled event: skipped, needs objdump");
        return;
    };
    println!("machine code of a disabled event (fire_object_allocated in a separate function):");
    let text = String::from_utf8_lossy(&output.stdout);
    let code = text.lines().skip_while(|line| !line.contains("<stopworld_bench_one_check>:"));
    for line in code.skip(1).take_while(|line| !line.is_empty()) {
        println!("  {}", line.split_once(':').map_or(line, |(_, instruction)| instruction.trim()));
    }
}

#[inline(never)]
fn empty_loop() -> u64 {
    let start = Instant::now();
    for step in 0..STEPS {
        black_box(step);
    }
    nanoseconds(start)
}

#[inline(never)]
fn firing_loop(events: &Events) -> u64 {
    let start = Instant::now();
    for step in 0..STEPS {
        events.fire_object_allocated(step as usize, 32);
        black_box(step);
    }
    nanoseconds(start)
}
