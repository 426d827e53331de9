//! Whole programs: gcbench and binary-trees, the same work in the same order as `benches/peers/{gcbench,bintrees}.c`. With `HEAP_BYTES` as
//! the last argument the heap has a fixed size.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use stopworld::{Gc, GcCell, Mutator, OutOfMemory, World, keep_alive, traced};

use super::measure::{Failure, cpu_s, milliseconds, number, peak_rss_mb};

traced! {
    /// A node of binary-trees: two words.
    pub struct Pair {
        left: GcCell<Option<Gc<Pair>>>,
        right: GcCell<Option<Gc<Pair>>>,
    }
}

traced! {
    /// A node of gcbench: two references and two integers.
    pub struct Node {
        left: GcCell<Option<Gc<Node>>>,
        right: GcCell<Option<Gc<Node>>>,
        i: i32,
        j: i32,
    }
}

/// A world that measures its longest pause.
struct Measured {
    world: World,
    worst_pause_ns: Arc<AtomicU64>,
    start: Instant,
}

impl Measured {
    /// The argument at `position`, if there is one, is the size of the heap.
    fn new(arguments: &[&str], position: usize) -> Result<Measured, Failure> {
        let worst_pause_ns = Arc::new(AtomicU64::new(0));
        let worst = Arc::clone(&worst_pause_ns);
        let builder = World::builder().on_collection(move |report| _ = worst.fetch_max(report.pause_ns, Relaxed));
        let world = if arguments.len() > position {
            let bytes: usize = number(arguments, position, "HEAP_BYTES")?;
            let world = builder.heap_limit(bytes).build()?;
            world.set_minimum_heap(bytes);
            world
        } else {
            builder.build()?
        };
        Ok(Measured { world, worst_pause_ns, start: Instant::now() })
    }

    /// Prints the line of a program that has ended.
    fn print(&self, program: &str, result: &str) {
        println!(
            "program={program} wall_ms={:.2} cpu_s={:.3} peak_rss_mb={:.1} collections={} worst_pause_ms={:.3} {result}",
            milliseconds(self.start.elapsed()),
            cpu_s(),
            peak_rss_mb(),
            self.world.totals().collections,
            self.worst_pause_ns.load(Relaxed) as f64 / 1e6,
        );
    }
}

pub fn bintrees(arguments: &[&str]) -> Result<(), Failure> {
    let depth: u32 = number(arguments, 0, "depth")?;
    let threads: usize = number(arguments, 1, "threads")?;
    let measured = Measured::new(arguments, 2)?;
    // SAFETY: this thread keeps its references on its stack only.
    let main = unsafe { measured.world.attach("main") }?;
    let mut sum = stretch(&main, depth + 1)?;
    let long_lived = build(&main, depth)?;
    sum += on_each_thread(&main, threads, move |m, id| short_lived_pairs(m, depth, id, threads))?.iter().sum::<u64>();
    sum += count(long_lived);
    measured.print("bintrees", &format!("depth={depth} threads={threads} check={sum}"));
    Ok(())
}

/// Builds and counts a tree that is dead afterwards.
fn stretch(m: &Mutator, depth: u32) -> Result<u64, OutOfMemory> {
    below_later_frames(|| Ok(count(build(m, depth)?)))
}

/// Calls `body` with a stack pointer that the rest of the program never reaches. Otherwise a later frame would lie where a frame of `body` was. A
/// word that it has not yet written may be an old reference to a tree, which a conservative collector then keeps. libgc clears such words.
#[inline(never)]
fn below_later_frames<R>(body: impl FnOnce() -> R) -> R {
    let unused = black_box([0_u64; 4096]);
    let result = body();
    black_box(&unused);
    result
}

fn build(m: &Mutator, depth: u32) -> Result<Gc<Pair>, OutOfMemory> {
    let pair = m.alloc(Pair { left: GcCell::new(None), right: GcCell::new(None) })?;
    if depth > 0 {
        pair.left.set(Some(build(m, depth - 1)?));
        pair.right.set(Some(build(m, depth - 1)?));
    }
    Ok(pair)
}

fn count(pair: Gc<Pair>) -> u64 {
    match (pair.left.get(), pair.right.get()) {
        (Some(left), Some(right)) => 1 + count(left) + count(right),
        _ => 1,
    }
}

/// Builds and counts this thread's share of the trees of every depth.
fn short_lived_pairs(m: &Mutator, max_depth: u32, id: usize, threads: usize) -> Result<u64, OutOfMemory> {
    let mut sum = 0;
    for depth in (4..=max_depth).step_by(4) {
        for _ in (id..1 << (max_depth - depth + 4)).step_by(threads) {
            sum += count(build(m, depth)?);
        }
    }
    Ok(sum)
}

const STRETCH_DEPTH: u32 = 18;
const LONG_LIVED_DEPTH: u32 = 16;
const ARRAY_LENGTH: usize = 500_000;

pub fn gcbench(arguments: &[&str]) -> Result<(), Failure> {
    let threads: usize = number(arguments, 0, "threads")?;
    let measured = Measured::new(arguments, 1)?;
    // SAFETY: this thread keeps its references on its stack only.
    let main = unsafe { measured.world.attach("main") }?;
    on_each_thread(&main, threads, |m, _| benchmark(m))?;
    measured.print("gcbench", &format!("threads={threads}"));
    Ok(())
}

fn benchmark(m: &Mutator) -> Result<(), OutOfMemory> {
    below_later_frames(|| make_tree(m, STRETCH_DEPTH).map(black_box).map(drop))?;
    let long_lived = new_node(m, None, None)?;
    populate(m, LONG_LIVED_DEPTH, long_lived)?;
    let array =
        m.alloc_array::<f64>(ARRAY_LENGTH, |i| if i < ARRAY_LENGTH / 2 { 1.0 / (i + 1) as f64 } else { 0.0 })?;
    for depth in (4..=16).step_by(2) {
        short_lived_nodes(m, depth)?;
    }
    assert!(long_lived.left.get().is_some(), "the long-lived tree was lost");
    assert_eq!(array[1000], 1.0 / 1001.0, "the long-lived array was lost");
    keep_alive(long_lived);
    keep_alive(array);
    Ok(())
}

fn new_node(m: &Mutator, left: Option<Gc<Node>>, right: Option<Gc<Node>>) -> Result<Gc<Node>, OutOfMemory> {
    m.alloc(Node { left: GcCell::new(left), right: GcCell::new(right), i: 0, j: 0 })
}

/// Builds a tree top down: the parent is older than its children.
fn populate(m: &Mutator, depth: u32, node: Gc<Node>) -> Result<(), OutOfMemory> {
    if depth == 0 {
        return Ok(());
    }
    let (left, right) = (new_node(m, None, None)?, new_node(m, None, None)?);
    node.left.set(Some(left));
    node.right.set(Some(right));
    populate(m, depth - 1, left)?;
    populate(m, depth - 1, right)
}

/// Builds a tree bottom up: the children are older than their parent.
fn make_tree(m: &Mutator, depth: u32) -> Result<Gc<Node>, OutOfMemory> {
    if depth == 0 {
        return new_node(m, None, None);
    }
    let left = make_tree(m, depth - 1)?;
    let right = make_tree(m, depth - 1)?;
    new_node(m, Some(left), Some(right))
}

fn short_lived_nodes(m: &Mutator, depth: u32) -> Result<(), OutOfMemory> {
    let tree_size = |depth: u32| (1usize << (depth + 1)) - 1;
    let trees = 2 * tree_size(STRETCH_DEPTH) / tree_size(depth);
    for _ in 0..trees {
        let tree = new_node(m, None, None)?;
        populate(m, depth, tree)?;
        keep_alive(tree);
    }
    for _ in 0..trees {
        black_box(make_tree(m, depth)?);
    }
    Ok(())
}

/// Runs `body` on each of `threads` threads. For one thread the caller runs it itself, as the peers do; otherwise threads are spawned,
/// and the caller waits in a blocking region.
pub fn on_each_thread<R, F>(main: &Mutator, threads: usize, body: F) -> Result<Vec<R>, Failure>
where
    R: Send + 'static,
    F: Fn(&Mutator, usize) -> Result<R, OutOfMemory> + Copy + Send + 'static,
{
    if threads == 1 {
        return Ok(vec![body(main, 0)?]);
    }
    let mut handles = Vec::new();
    for id in 0..threads {
        // SAFETY: the bodies keep their references on the stack only.
        handles.push(unsafe { main.world().spawn(&format!("worker {id}"), move |m| body(m, id)) }?);
    }
    let mut results = Vec::new();
    for handle in handles {
        let result = main.blocking(|| handle.join()).map_err(|_| "a worker panicked")?;
        results.push(result?);
    }
    Ok(results)
}
