//! Measures the speed of allocating small objects, including the collections that this causes. The peer's program is
//! `benches/peers/alloc.c`.

use std::sync::Barrier;
use std::time::Instant;

use stopworld::{Array, Gc, GcCell, Mutator, OutOfMemory, Trace, World, keep_alive, traced};

use super::programs::on_each_thread;
use super::{Failure, Rounds, number, peak_rss_mb, thread_cpu};

/// The number of slots that keep the latest objects of a thread alive.
const RING: usize = 1024;

traced! {
    /// 16 bytes.
    #[repr(C)]
    pub struct Small { a: GcCell<Option<Gc<Small>>>, b: GcCell<Option<Gc<Small>>> }
}

traced! {
    /// 32 bytes.
    #[repr(C)]
    pub struct Medium { a: GcCell<Option<Gc<Medium>>>, b: GcCell<Option<Gc<Medium>>>, rest: [u64; 2] }
}

traced! {
    /// 64 bytes.
    #[repr(C)]
    pub struct Large { a: GcCell<Option<Gc<Large>>>, b: GcCell<Option<Gc<Large>>>, rest: [u64; 6] }
}

pub fn run(arguments: &[&str], mut rounds: Rounds) -> Result<(), Failure> {
    let size: usize = number(arguments, 0, "size")?;
    let threads: usize = number(arguments, 1, "threads")?;
    let objects = number::<usize>(arguments, 2, "thousands")? * 1000;
    let world = World::builder().build()?;
    // SAFETY: this thread keeps its references on its stack only.
    let main = unsafe { world.attach("main") }?;
    while rounds.next() {
        let collections = world.totals().collections;
        let times = match size {
            16 => allocate(&main, threads, objects, || Small { a: GcCell::new(None), b: GcCell::new(None) }),
            32 => allocate(&main, threads, objects, || Medium {
                a: GcCell::new(None),
                b: GcCell::new(None),
                rest: [0; 2],
            }),
            64 => {
                allocate(&main, threads, objects, || Large { a: GcCell::new(None), b: GcCell::new(None), rest: [0; 6] })
            }
            _ => Err("size: one of 16, 32, 64".into()),
        }?;
        let slowest = |pick: fn(&Times) -> f64| times.iter().map(pick).fold(0.0, f64::max) / objects as f64;
        println!(
            "program=alloc size={size} threads={threads} ns={:.3} cpu_ns={:.3} collections={} peak_rss_mb={:.1}",
            slowest(|times| times.wall_ns),
            slowest(|times| times.cpu_ns),
            world.totals().collections - collections,
            peak_rss_mb(),
        );
    }
    Ok(())
}

/// The times of one thread's allocations.
struct Times {
    wall_ns: f64,
    cpu_ns: f64,
}

fn allocate<T: Trace>(main: &Mutator, threads: usize, objects: usize, new: fn() -> T) -> Result<Vec<Times>, Failure> {
    // leaked (32 bytes per round), so that the closure is Copy
    let barrier: &'static Barrier = Box::leak(Box::new(Barrier::new(threads)));
    on_each_thread(main, threads, move |m, _| {
        let ring: Gc<Array<GcCell<Option<Gc<T>>>>> = m.alloc_array(RING, |_| GcCell::new(None))?;
        m.blocking(|| barrier.wait());
        fill(m, ring, objects, new)
    })
}

fn fill<T: Trace>(
    m: &Mutator,
    ring: Gc<Array<GcCell<Option<Gc<T>>>>>,
    objects: usize,
    new: fn() -> T,
) -> Result<Times, OutOfMemory> {
    let (start, cpu_start) = (Instant::now(), thread_cpu());
    for i in 0..objects {
        ring[i % RING].set(Some(m.alloc(new())?));
    }
    let times =
        Times { wall_ns: start.elapsed().as_nanos() as f64, cpu_ns: (thread_cpu() - cpu_start).as_nanos() as f64 };
    keep_alive(ring);
    Ok(times)
}
