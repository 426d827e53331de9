//! Measures the steps of a collection beside marking, each with a heap or with roots in which that step has the most to do.

use std::hint::black_box;

use stopworld::{CollectionReport, Gc, GcCell, Mutator, Root, World, keep_alive, traced};

use super::{Failure, Rounds, number, with_markers};

/// Enough for the heaps that are measured, so that no collection begins by itself.
const HEAP_BYTES: usize = 2 << 30;

traced! {
    struct Node { next: GcCell<Option<Gc<Node>>>, key: u64 }
}

pub fn run(arguments: &[&str], mut rounds: Rounds) -> Result<(), Failure> {
    let step = (*arguments.first().ok_or("the step is missing")?).to_owned();
    let count: usize = number(arguments, 1, "count")?;
    if step != "stack" {
        return measure(&step, count, 0, &mut rounds);
    }
    // Twice the memory that the frames need, and room for the collection.
    let thread = std::thread::Builder::new().stack_size((count << 11) + (1 << 20));
    let deep = move || measure(&step, count, count, &mut rounds).map_err(|error| error.to_string());
    Ok(thread.spawn(deep)?.join().map_err(|_| "the deep thread panicked")??)
}

fn measure(step: &str, count: usize, stack_kib: usize, rounds: &mut Rounds) -> Result<(), Failure> {
    let builder = World::builder().initial_heap(HEAP_BYTES).heap_limit(HEAP_BYTES);
    let world = with_markers(builder)?.build()?;
    // SAFETY: this thread keeps its references on its stack and in objects only.
    let m = unsafe { world.attach("main") }?;
    deeper(stack_kib, &mut || collect(&m, step, count, rounds))
}

/// Calls `then` with a stack of this size.
fn deeper(kib: usize, then: &mut dyn FnMut() -> Result<(), Failure>) -> Result<(), Failure> {
    let frame = black_box([0_u64; 128]);
    let result = if kib == 0 { then() } else { deeper(kib - 1, then) };
    black_box(&frame);
    result
}

fn collect(m: &Mutator, step: &str, count: usize, rounds: &mut Rounds) -> Result<(), Failure> {
    let first = if step == "finalizers" { Some(with_finalizers(m, count)?) } else { None };
    let handles = if step == "handles" { handles(m, count)? } else { Vec::new() };
    m.collect()?;
    while rounds.next() {
        let report = match step {
            "sweep" => leave_dead(m, count)?,
            "weak" => leave_weak(m, count)?,
            "finalizers" | "handles" | "stack" => m.collect()?,
            _ => return Err("the step must be sweep, finalizers, weak, handles or stack".into()),
        };
        println!(
            "program=steps step={step} count={count} sweep_ms={:.3} weak_ms={:.3} pause_ms={:.3} live_objects={} cleared={}",
            report.sweep_ns as f64 / 1e6,
            report.weak_ns as f64 / 1e6,
            report.pause_ns as f64 / 1e6,
            report.live_objects,
            report.weak_cleared,
        );
    }
    drop(handles);
    if let Some(first) = first {
        keep_alive(first);
    }
    Ok(())
}

fn handles(m: &Mutator, count: usize) -> Result<Vec<Root<Node>>, Failure> {
    (0..count).map(|key| Ok(m.root(node(m, key, None)?))).collect()
}

fn node(m: &Mutator, key: usize, next: Option<Gc<Node>>) -> Result<Gc<Node>, Failure> {
    Ok(m.alloc(Node { next: GcCell::new(next), key: key as u64 })?)
}

/// A list of objects with finalizers.
fn with_finalizers(m: &Mutator, count: usize) -> Result<Gc<Node>, Failure> {
    let mut first = node(m, 0, None)?;
    for key in 1..count {
        first = node(m, key, Some(first))?;
        m.set_finalizer(first, |_, _| {})?;
    }
    Ok(first)
}

/// Collects this number of dead objects.
fn leave_dead(m: &Mutator, count: usize) -> Result<CollectionReport, Failure> {
    (0..count).try_for_each(|key| node(m, key, None).map(drop))?;
    Ok(m.collect()?)
}

/// Collects this number of dead objects with weak references to them.
fn leave_weak(m: &Mutator, count: usize) -> Result<CollectionReport, Failure> {
    let weak = m.alloc_array(count, |_| GcCell::new(None))?;
    for (key, cell) in weak.iter().enumerate() {
        cell.set(Some(m.alloc_weak(node(m, key, None)?)?));
    }
    let report = m.collect()?;
    keep_alive(weak);
    Ok(report)
}
