//! What an event costs while nobody listens: a loop with it, over the same loop without it.
//!
//! Half a nanosecond is two cycles, so both loops run in short batches, turn and turn about, and the medians of the
//! batches are subtracted. The loop's counter goes through `black_box`, which keeps each step a step; the event's
//! fields are computed from it, as they would be in the allocator.

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
