//! Measures the steps of a collection after marking, each with a heap in which that step has the most to do.

use stopworld::{CollectionReport, Gc, GcCell, Mutator, World, keep_alive, traced};

use super::{Failure, Rounds, number, with_markers};

/// Enough for the heaps that are measured, so that no collection begins by itself.
const HEAP_BYTES: usize = 2 << 30;

traced! {
    struct Node { next: GcCell<Option<Gc<Node>>>, key: u64 }
}

pub fn run(arguments: &[&str], mut rounds: Rounds) -> Result<(), Failure> {
    let step = *arguments.first().ok_or("the step is missing")?;
    let count: usize = number(arguments, 1, "count")?;
    let builder = World::builder().initial_heap(HEAP_BYTES).heap_limit(HEAP_BYTES);
    let world = with_markers(builder)?.build()?;
    // SAFETY: this thread keeps its references on its stack and in objects only.
    let m = unsafe { world.attach("main") }?;
    let first = if step == "finalizers" { Some(with_finalizers(&m, count)?) } else { None };
    m.collect()?;
    while rounds.next() {
        let report = match step {
            "sweep" => leave_dead(&m, count)?,
            "finalizers" => m.collect()?,
            "weak" => leave_weak(&m, count)?,
            _ => return Err("the step must be sweep, finalizers or weak".into()),
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
    if let Some(first) = first {
        keep_alive(first);
    }
    Ok(())
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
