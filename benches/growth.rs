//! How a pause grows with what the collector must look at: `cargo bench --bench growth`.
//!
//! Each row grows one quantity fourfold from one world to the next, and keeps the rest small. The pause is the shortest of some collections.
//! The exponent is the slope of a straight line through the logarithms of the largest three sizes: 1 means that twice as much takes twice as
//! long, 2 that it takes four times as long. The small sizes are left out because constant costs hide growth there, and because they fit into a
//! processor's cache. The second exponent is that of the processor time of all threads: it grows as the pause does, but counts no time in
//! which other processes ran.
//!
//! The limit is 1, and a tenth more for noise. `-- --quick` runs the two smallest sizes only, as a smoke test: exponents are
//! not checked. `-- weak finalizers` selects the rows whose names contain a word. Exits with a failure if a limit is exceeded.

use std::process::ExitCode;
use std::sync::mpsc;

use stopworld::{CollectionReport, Gc, GcCell, Mutator, Root, WeakMap, World, keep_alive, traced};

type Failure = Box<dyn std::error::Error>;

/// The largest exponent: linear growth, with some noise.
const LIMIT: f64 = 1.1;
/// Enough for the largest world.
const HEAP_BYTES: usize = 8 << 30;
/// Collections of each world of a row whose quantity survives a collection, and worlds of each size of the other rows.
const ROUNDS: usize = 5;

traced! {
    struct Node { left: GcCell<Option<Gc<Node>>>, right: GcCell<Option<Gc<Node>>>, key: u64 }
}

/// What a collection took, in nanoseconds.
#[derive(Clone, Copy)]
struct Cost {
    pause: u64,
    processor: u64,
}

struct Row {
    name: &'static str,
    /// What the sizes count.
    unit: &'static str,
    sizes: [usize; 5],
    /// Measures collections of a world of this size, or of several.
    measure: fn(usize) -> Result<Vec<Cost>, Failure>,
}

const fn fourfold(first: usize) -> [usize; 5] {
    [first, 4 * first, 16 * first, 64 * first, 256 * first]
}

const ROWS: &[Row] = &[
    Row { name: "live objects, in a tree", unit: "objects", sizes: fourfold(1 << 17), measure: tree },
    Row { name: "live objects, in a list", unit: "objects", sizes: fourfold(1 << 17), measure: list },
    Row { name: "live objects, in a random graph", unit: "objects", sizes: fourfold(1 << 17), measure: graph },
    Row { name: "dead objects", unit: "objects", sizes: fourfold(1 << 17), measure: dead },
    Row { name: "live large objects of 64 KiB", unit: "objects", sizes: fourfold(1 << 8), measure: large },
    Row { name: "elements of one array", unit: "elements", sizes: fourfold(1 << 18), measure: array },
    Row { name: "threads in blocking regions", unit: "threads", sizes: fourfold(16), measure: blocking_threads },
    Row { name: "threads that sleep", unit: "threads", sizes: fourfold(16), measure: sleeping_threads },
    Row { name: "stack of one thread", unit: "KiB", sizes: fourfold(1 << 10), measure: stack },
    Row { name: "root handles", unit: "handles", sizes: fourfold(1 << 13), measure: roots },
    Row { name: "root ranges of a page", unit: "ranges", sizes: fourfold(1 << 7), measure: ranges },
    Row { name: "weak references to live objects", unit: "references", sizes: fourfold(1 << 15), measure: live_weak },
    Row { name: "weak references that are cleared", unit: "references", sizes: fourfold(1 << 15), measure: dead_weak },
    Row { name: "finalizers of live objects", unit: "finalizers", sizes: fourfold(40_000), measure: finalizers },
    Row { name: "finalizers that fall due", unit: "finalizers", sizes: fourfold(40_000), measure: due_finalizers },
    Row { name: "entries of a weak map", unit: "entries", sizes: fourfold(1 << 13), measure: weak_map },
    Row { name: "entries of a weak map, in a chain", unit: "entries", sizes: fourfold(1 << 13), measure: weak_chain },
];

fn world() -> Result<World, Failure> {
    // No collection begins by itself.
    Ok(World::builder().initial_heap(HEAP_BYTES).heap_limit(HEAP_BYTES).build()?)
}

/// Attaches the calling thread.
fn attach(world: &World) -> Result<Mutator, Failure> {
    // SAFETY: the functions of this file keep references in locals, in objects, and in registered memory.
    Ok(unsafe { world.attach("main") }?)
}

fn collect(m: &Mutator) -> Result<(Cost, CollectionReport), Failure> {
    let before = processor_ns();
    let report = m.collect()?;
    Ok((Cost { pause: report.pause_ns, processor: processor_ns() - before }, report))
}

/// The processor time of this process.
fn processor_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for the call.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn collections(m: &Mutator) -> Result<Vec<Cost>, Failure> {
    m.collect()?;
    (0..ROUNDS).map(|_| Ok(collect(m)?.0)).collect()
}

/// Measures the first collections of several worlds that `fill` has filled.
fn first_collections(fill: impl Fn(&Mutator) -> Result<(), Failure>) -> Result<Vec<Cost>, Failure> {
    let first = |_| {
        let world = world()?;
        let m = attach(&world)?;
        m.collect()?;
        fill(&m)?;
        Ok(collect(&m)?.0)
    };
    (0..ROUNDS).map(first).collect()
}

fn node(m: &Mutator, key: usize) -> Result<Gc<Node>, Failure> {
    Ok(m.alloc(Node { left: GcCell::new(None), right: GcCell::new(None), key: key as u64 })?)
}

/// A list of at least one node, linked by `left`.
fn nodes(m: &Mutator, count: usize) -> Result<Gc<Node>, Failure> {
    let mut first = node(m, 0)?;
    for key in 1..count {
        let node = node(m, key)?;
        node.left.set(Some(first));
        first = node;
    }
    Ok(first)
}

fn each(first: Gc<Node>) -> impl Iterator<Item = Gc<Node>> {
    std::iter::successors(Some(first), |node| node.left.get())
}

fn tree(count: usize) -> Result<Vec<Cost>, Failure> {
    fn grow(m: &Mutator, height: u32) -> Result<Gc<Node>, Failure> {
        let top = node(m, height as usize)?;
        if height > 1 {
            top.left.set(Some(grow(m, height - 1)?));
            top.right.set(Some(grow(m, height - 1)?));
        }
        Ok(top)
    }
    let world = world()?;
    let m = attach(&world)?;
    let top = grow(&m, count.ilog2())?;
    let times = collections(&m);
    keep_alive(top);
    times
}

fn list(count: usize) -> Result<Vec<Cost>, Failure> {
    let world = world()?;
    let m = attach(&world)?;
    let first = nodes(&m, count)?;
    let times = collections(&m);
    keep_alive(first);
    times
}

fn graph(count: usize) -> Result<Vec<Cost>, Failure> {
    let world = world()?;
    let m = attach(&world)?;
    let all = m.alloc_array(count, |_| GcCell::new(None::<Gc<Node>>))?;
    for (key, cell) in all.iter().enumerate() {
        cell.set(Some(node(&m, key)?));
    }
    let mut state = 1_u64;
    let mut any = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        all[(state >> 33) as usize % count].get()
    };
    for node in all.iter().filter_map(GcCell::get) {
        node.left.set(any());
        node.right.set(any());
    }
    let times = collections(&m);
    keep_alive(all);
    times
}

fn dead(count: usize) -> Result<Vec<Cost>, Failure> {
    first_collections(|m| (0..count).try_for_each(|key| node(m, key).map(drop)))
}

fn large(count: usize) -> Result<Vec<Cost>, Failure> {
    let world = world()?;
    let m = attach(&world)?;
    let all = m.alloc_array(count, |_| GcCell::new(None))?;
    for cell in all.iter() {
        cell.set(Some(m.alloc_array(64 << 10, |_| 0_u8)?));
    }
    let times = collections(&m);
    keep_alive(all);
    times
}

fn array(count: usize) -> Result<Vec<Cost>, Failure> {
    let world = world()?;
    let m = attach(&world)?;
    let node = node(&m, 0)?;
    let all = m.alloc_array(count, |_| Some(node))?;
    let times = collections(&m);
    keep_alive(all);
    times
}

/// Measures while `count` threads do `wait`, which returns when the sender of its channel is dropped.
fn threads(count: usize, wait: fn(&Mutator, mpsc::Receiver<()>)) -> Result<Vec<Cost>, Failure> {
    let world = world()?;
    let m = attach(&world)?;
    let (mut ends, mut threads) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let (end, ended) = mpsc::channel();
        // SAFETY: the thread has no references.
        threads.push(unsafe { world.spawn("waiter", move |m| wait(m, ended)) }?);
        ends.push(end);
    }
    let times = collections(&m);
    drop(ends);
    threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a thread panicked"))?;
    times
}

fn blocking_threads(count: usize) -> Result<Vec<Cost>, Failure> {
    threads(count, |m, ended| {
        _ = m.blocking(move || ended.recv());
    })
}

fn sleeping_threads(count: usize) -> Result<Vec<Cost>, Failure> {
    threads(count, |_, ended| {
        _ = ended.recv();
    })
}

fn stack(kib: usize) -> Result<Vec<Cost>, Failure> {
    fn descend(m: &Mutator, kib: usize) -> Result<Vec<Cost>, Failure> {
        let frame = std::hint::black_box([0_u64; 128]);
        let times = if kib == 0 { collections(m) } else { descend(m, kib - 1) };
        std::hint::black_box(&frame);
        times
    }
    let deep = move || -> Result<Vec<Cost>, String> {
        let measure = || descend(&attach(&world()?)?, kib);
        measure().map_err(|error: Failure| error.to_string())
    };
    let thread = std::thread::Builder::new().stack_size((kib << 10) * 2 + (1 << 20)).spawn(deep)?;
    Ok(thread.join().map_err(|_| "the deep thread panicked")??)
}

fn roots(count: usize) -> Result<Vec<Cost>, Failure> {
    let world = world()?;
    let m = attach(&world)?;
    let roots: Vec<Root<Node>> = (0..count).map(|key| Ok(m.root(node(&m, key)?))).collect::<Result<_, Failure>>()?;
    let times = collections(&m);
    drop(roots);
    times
}

fn ranges(count: usize) -> Result<Vec<Cost>, Failure> {
    let memory = vec![0_u64; count * 512];
    let world = world()?;
    let m = attach(&world)?;
    let guards: Vec<_> = memory
        .chunks(512)
        // SAFETY: `memory` is dropped after the guards, and no code writes to it.
        .map(|page| unsafe { world.register_range(page.as_ptr().cast(), size_of_val(page)) })
        .collect::<Option<_>>()
        .ok_or("too many ranges")?;
    let times = collections(&m);
    drop(guards);
    times
}

fn live_weak(count: usize) -> Result<Vec<Cost>, Failure> {
    let world = world()?;
    let m = attach(&world)?;
    let first = nodes(&m, count)?;
    let weak = m.alloc_array(count, |_| GcCell::new(None))?;
    for (cell, node) in weak.iter().zip(each(first)) {
        cell.set(Some(m.alloc_weak(node)?));
    }
    let times = collections(&m);
    keep_alive(first);
    keep_alive(weak);
    times
}

fn dead_weak(count: usize) -> Result<Vec<Cost>, Failure> {
    let first = |_| {
        let world = world()?;
        let m = attach(&world)?;
        let weak = m.alloc_array(count, |_| GcCell::new(None))?;
        let root = m.root(weak);
        for (key, cell) in weak.iter().enumerate() {
            cell.set(Some(m.alloc_weak(node(&m, key)?)?));
        }
        let (cost, report) = collect(&m)?;
        drop(root);
        if (report.weak_cleared as usize) < count / 10 * 9 {
            return Err(format!("{} of {count} weak references were cleared", report.weak_cleared).into());
        }
        Ok(cost)
    };
    (0..ROUNDS).map(first).collect()
}

fn finalizers(count: usize) -> Result<Vec<Cost>, Failure> {
    let world = world()?;
    let m = attach(&world)?;
    let first = nodes(&m, count)?;
    each(first).try_for_each(|node| m.set_finalizer(node, |_, _| {}))?;
    let times = collections(&m);
    keep_alive(first);
    times
}

fn due_finalizers(count: usize) -> Result<Vec<Cost>, Failure> {
    first_collections(|m| (0..count).try_for_each(|key| Ok(m.set_finalizer(node(m, key)?, |_, _| {})?)))
}

fn weak_map(count: usize) -> Result<Vec<Cost>, Failure> {
    let world = world()?;
    let m = attach(&world)?;
    let keys = nodes(&m, count)?;
    let mut map = WeakMap::with_capacity(&m, count)?;
    for key in each(keys) {
        map.insert(&m, key, node(&m, 0)?)?;
    }
    let map = m.root(m.alloc(map)?);
    let times = collections(&m);
    keep_alive(keys);
    drop(map);
    times
}

/// Each entry's value is the next entry's key, and only the first key is reachable otherwise.
fn weak_chain(count: usize) -> Result<Vec<Cost>, Failure> {
    let world = world()?;
    let m = attach(&world)?;
    let mut map = WeakMap::with_capacity(&m, count)?;
    let first = node(&m, 0)?;
    let mut key = first;
    for _ in 0..count {
        let value = node(&m, 0)?;
        map.insert(&m, key, value)?;
        key = value;
    }
    let map = m.root(m.alloc(map)?);
    let times = collections(&m);
    keep_alive(first);
    drop(map);
    times
}

/// The shortest of each time.
fn shortest(costs: &[Cost]) -> Cost {
    let least = |time: fn(&Cost) -> u64| costs.iter().map(time).min().unwrap_or_default();
    Cost { pause: least(|cost| cost.pause), processor: least(|cost| cost.processor) }
}

/// The slope of the straight line that is nearest to the logarithms of the largest three sizes and their times.
fn exponent(sizes: &[usize], costs: &[Cost], time: fn(&Cost) -> u64) -> f64 {
    let points: Vec<(f64, f64)> = sizes
        .iter()
        .zip(costs)
        .rev()
        .take(3)
        .map(|(size, cost)| ((*size as f64).ln(), (time(cost) as f64).ln()))
        .collect();
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / points.len() as f64;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let (mut above, mut below) = (0.0, 0.0);
    for point in &points {
        above += (point.0 - x) * (point.1 - y);
        below += (point.0 - x) * (point.0 - x);
    }
    above / below
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let quick = arguments.iter().any(|argument| argument == "--quick");
    let words: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with("--")).collect();
    let mut failed = false;
    println!(
        "pause in ms (shortest of {ROUNDS}), and exponents of pause and processor time for the largest three sizes; limit {LIMIT}\n"
    );
    for row in ROWS.iter().filter(|row| words.is_empty() || words.iter().any(|word| row.name.contains(word.as_str()))) {
        let sizes = if quick { &row.sizes[..2] } else { &row.sizes[..] };
        let mut costs = Vec::new();
        for size in sizes {
            match (row.measure)(*size) {
                Ok(of_size) => costs.push(shortest(&of_size)),
                Err(error) => {
                    println!("{}, {size} {}: failed: {error}", row.name, row.unit);
                    failed = true;
                    break;
                }
            }
        }
        let largest = sizes[costs.len().saturating_sub(1)];
        let times: Vec<String> = costs.iter().map(|cost| format!("{:9.3}", cost.pause as f64 / 1e6)).collect();
        let verdict = if costs.len() < row.sizes.len() {
            String::new()
        } else {
            let of = |time: fn(&Cost) -> u64| exponent(&row.sizes, &costs, time);
            let (pause, processor) = (of(|cost| cost.pause), of(|cost| cost.processor));
            failed |= pause > LIMIT;
            format!("{pause:5.2} {processor:5.2}  {}", if pause > LIMIT { "FALLS SHORT" } else { "HOLDS" })
        };
        println!("{:36} up to {largest:>10} {:10} {}  {verdict}", row.name, row.unit, times.join(" "));
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
