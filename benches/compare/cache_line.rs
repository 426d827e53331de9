//! The time in which a cache line moves from one processor to another.
//!
//! The host of a virtual machine may run its processors beside each other, with a common cache, or far apart, and may change that at any time.
//! Rows with two threads or two markers depend on it: the same program can take twice as long.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use crate::line::quantile;

/// Round trips in a measurement, which takes a few milliseconds.
const TRIPS: u32 = 10_000;

/// The value of the line if a thread cannot go on.
const GIVEN_UP: u32 = u32::MAX;

/// How long the line took at several moments, in nanoseconds.
#[derive(Default)]
pub struct Moves {
    times: Vec<f64>,
}

impl Moves {
    /// Measures once, unless this process may use only one processor.
    pub fn measure(&mut self) {
        self.times.extend(moves_in_ns());
    }

    pub fn show(&self) {
        if self.times.is_empty() {
            return;
        }
        let [least, middle, most] = [0.0, 0.5, 1.0].map(|share| quantile(&self.times, share));
        println!(
            "a cache line took {middle:.0} ns from one processor to another ({least:.0} to {most:.0} ns, measured before each group of rows)"
        );
    }
}

/// Lets two threads answer each other, each on its own processor.
fn moves_in_ns() -> Option<f64> {
    let this_thread = Pid::from_raw(0);
    let allowed = sched_getaffinity(this_thread).ok()?;
    let mut processors = (0..CpuSet::count()).filter(|&number| allowed.is_set(number) == Ok(true));
    let (first, second) = (processors.next()?, processors.next()?);
    let line = AtomicU32::new(0);
    let answer = |processor: usize, parity: u32| {
        let mut only = CpuSet::new();
        if only.set(processor).and_then(|()| sched_setaffinity(this_thread, &only)).is_err() {
            line.store(GIVEN_UP, Ordering::Relaxed);
            return None;
        }
        for number in (parity..2 * TRIPS).step_by(2) {
            loop {
                match line.load(Ordering::Relaxed) {
                    seen if seen == number => break,
                    GIVEN_UP => return None,
                    _ => std::hint::spin_loop(),
                }
            }
            // Fails if the other thread has given up meanwhile.
            _ = line.compare_exchange(number, number + 1, Ordering::Relaxed, Ordering::Relaxed);
        }
        Some(Instant::now())
    };
    std::thread::scope(|scope| {
        let begun = Instant::now();
        let threads =
            [(first, 0), (second, 1)].map(|(processor, parity)| scope.spawn(move || answer(processor, parity)));
        let [one, other] = threads.map(|thread| thread.join().ok().flatten());
        Some((one?.max(other?) - begun).as_nanos() as f64 / f64::from(2 * TRIPS))
    })
}
