//! Runs a model under random schedules.

use std::time::Instant;

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, FailurePersistence, Runner};

/// The environment variable with the seed: a number, or `random`. The default is 1, so that each run makes the same schedules.
const SEED: &str = "SHUTTLE_TESTS_SEED";
/// The environment variable with a factor for the number of schedules.
const TIMES: &str = "SHUTTLE_TESTS_TIMES";

fn seed() -> u64 {
    match std::env::var(SEED).as_deref() {
        Err(_) => 1,
        Ok("random") => std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(1, |now| now.as_nanos() as u64),
        Ok(number) => number.parse().unwrap_or_else(|_| panic!("{SEED}={number} is neither a number nor `random`")),
    }
}

/// Runs `schedules` random schedules, and the same number with at most `depth` preemptions chosen by PCT. Prints the seed; if a
/// schedule fails, shuttle also prints the schedule, for `shuttle::replay`.
pub(crate) fn explore(name: &str, schedules: usize, depth: usize, model: fn()) {
    let times = std::env::var(TIMES).ok().map_or(1, |times| times.parse().expect("a number of times"));
    let (seed, schedules) = (seed(), schedules * times);
    let mut config = Config::new();
    config.failure_persistence = FailurePersistence::Print;
    config.silence_warnings = true;
    config.stack_size = 0x10_0000;
    let begin = Instant::now();
    println!("{name}: {SEED}={seed}");
    let random = Runner::new(RandomScheduler::new_from_seed(seed, schedules), config.clone()).run(model);
    let pct = Runner::new(PctScheduler::new_from_seed(seed, depth, schedules), config).run(model);
    println!(
        "{name}: {random} random schedules, {pct} with {depth} preemptions, in {:.1} s",
        begin.elapsed().as_secs_f64()
    );
}
