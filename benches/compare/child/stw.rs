//! Measures the time to stop and restart threads. The peer's program is `benches/peers/stw.c`.

use std::sync::Arc;
use std::time::Duration;

use stopworld::{World, traced};

use super::threads::{Mode, ThreadGroup};
use super::{Failure, Rounds, median, number, percentile};

traced! {
    /// The object type of the allocating threads.
    pub struct Object { words: [u64; 4] }
}

pub fn run(arguments: &[&str], mut rounds: Rounds) -> Result<(), Failure> {
    let threads: usize = number(arguments, 0, "threads")?;
    let name = *arguments.get(1).ok_or("the mode is missing")?;
    let collections: usize = number(arguments, 2, "collections")?;
    let mode = Mode::parse(name)?;
    let world = World::builder().build()?;
    // SAFETY: this thread holds no references.
    let main = unsafe { world.attach("main") }?;
    let crew = Arc::new(ThreadGroup::new(threads, mode)?);
    for index in 0..threads {
        let crew = crew.clone();
        // SAFETY: the threads hold references only during an allocation.
        unsafe {
            world.spawn::<()>(&format!("{name} {index}"), move |m| match mode {
                Mode::Alloc => crew.run_in_rounds(index, || _ = m.alloc(Object { words: [0; 4] })),
                Mode::Blocking => m.blocking(|| crew.wait_in_read()),
                _ => crew.live(index),
            })
        }?;
    }
    main.blocking(|| crew.wait_until_settled());
    while rounds.next() {
        let (mut stop, mut restart, mut pause) = (Vec::new(), Vec::new(), Vec::new());
        crew.let_them_run();
        for number in 0..=collections {
            let report = main.collect()?;
            // the first one warms up
            if number > 0 {
                stop.push(report.stop_ns);
                restart.push(report.restart_ns);
                pause.push(report.pause_ns);
            }
            std::thread::sleep(Duration::from_millis(2));
            crew.wait_until_all_ran();
        }
        crew.make_them_rest();
        println!(
            "program=stw threads={threads} mode={name} n={} stop_us={:.2} stop_p99_us={:.2} restart_us={:.2} \
             restart_p99_us={:.2} pause_us={:.2} pause_p99_us={:.2} per_thread_ns={:.2}",
            stop.len(),
            median(&mut stop) / 1e3,
            percentile(&mut stop, 0.99) / 1e3,
            median(&mut restart) / 1e3,
            percentile(&mut restart, 0.99) / 1e3,
            median(&mut pause) / 1e3,
            percentile(&mut pause, 0.99) / 1e3,
            (median(&mut stop) + median(&mut restart)) / threads.max(1) as f64,
        );
    }
    // the threads never end by themselves
    std::process::exit(0)
}
