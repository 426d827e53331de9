//! What the check of the promise costs: `cargo bench --bench promise`.
//!
//! Each figure is measured in turns with and without the check, and printed as medians: an allocation of a block of 64 bytes, from the system's
//! allocator and from the checked one; an allocation of an object of 16 bytes, in a world without and with the check; and the pause of a
//! collection of an empty heap in both worlds, with 256 MiB of live blocks to search. `-- --quick` makes fewer rounds.

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::time::Instant;

use stopworld::check::{Allocator, CheckPromise};
use stopworld::{Mutator, World};

#[global_allocator]
static GLOBAL: Allocator = Allocator::new();

const BLOCKS: u32 = 20_000;
const OBJECTS: u32 = 200_000;
/// The memory that is searched, in MiB.
const SEARCHED: usize = 256;

fn blocks(allocator: &impl GlobalAlloc) -> f64 {
    let layout = Layout::new::<[u64; 8]>();
    let begin = Instant::now();
    for _ in 0..BLOCKS {
        // SAFETY: a layout that is not empty; the block is freed once, with the same layout.
        unsafe { allocator.dealloc(black_box(allocator.alloc(layout)), layout) };
    }
    begin.elapsed().as_nanos() as f64 / f64::from(BLOCKS)
}

fn objects(world: &World) -> f64 {
    in_world(world, |m| {
        let begin = Instant::now();
        for number in 0..OBJECTS {
            black_box(m.alloc(u64::from(number)).expect("room"));
        }
        begin.elapsed().as_nanos() as f64 / f64::from(OBJECTS)
    })
}

fn pause(world: &World) -> f64 {
    in_world(world, |m| m.collect().expect("a collection").pause_ns as f64 / 1e6)
}

fn in_world<T>(world: &World, work: impl FnOnce(&Mutator) -> T) -> T {
    // SAFETY: no `Gc` is used again after it was made.
    let m = unsafe { world.attach("bench") }.expect("attached");
    work(&m)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

fn compare(what: &str, unit: &str, rounds: u32, mut without: impl FnMut() -> f64, mut with: impl FnMut() -> f64) {
    let (mut all_without, mut all_with) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        all_without.push(without());
        all_with.push(with());
    }
    let (without, with) = (median(all_without), median(all_with));
    println!("{what:40} {without:10.2} {unit} without, {with:10.2} {unit} with the check");
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rounds = if std::env::args().any(|argument| argument == "--quick") { 3 } else { 21 };
    let plain = World::builder().heap_limit(256 << 20).build()?;
    let checked = World::builder().heap_limit(256 << 20).check_promise(CheckPromise::report()).build()?;
    compare("allocate and free a block of 64 bytes", "ns", rounds, || blocks(&System), || blocks(&GLOBAL));
    compare("allocate an object of 16 bytes", "ns", rounds, || objects(&plain), || objects(&checked));
    let searched: Vec<Vec<u64>> = (0..SEARCHED).map(|_| vec![1; (1 << 20) / 8]).collect();
    compare("pause with 256 MiB to search", "ms", rounds, || pause(&plain), || pause(&checked));
    drop(searched);
    Ok(())
}
