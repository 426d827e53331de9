//! Measures full collections of a live heap of small linked objects. The peer's program is `benches/peers/pause.c`.

use stopworld::{Array, Gc, GcCell, Mutator, OutOfMemory, World, keep_alive, traced};

use super::{Failure, Rounds, cpu_s, median, number, peak_rss_mb, with_markers};

traced! {
    /// An object of 32 bytes with two references. As in C, the references come first. Rust would put the padding first, and then in half of
    /// the objects the references would be on another cache line than the header.
    #[repr(C)]
    pub struct Object {
        a: GcCell<Option<Gc<Object>>>,
        b: GcCell<Option<Gc<Object>>>,
        padding: [u64; 2],
    }
}

type All = Gc<Array<GcCell<Option<Gc<Object>>>>>;

/// The objects kept alive during the collections.
struct Heap {
    root: Gc<Object>,
    all: Option<All>,
    objects: usize,
}

pub fn run(arguments: &[&str], mut rounds: Rounds) -> Result<(), Failure> {
    let megabytes: f64 = number(arguments, 0, "megabytes")?;
    let size: usize = number(arguments, 1, "object size")?;
    let shape = *arguments.get(2).ok_or("the shape is missing")?;
    let collections: usize = number(arguments, 3, "collections")?;
    if size != size_of::<Object>() {
        return Err("the object size must be 32".into());
    }
    let world = with_markers(World::builder())?.build()?;
    // SAFETY: this thread keeps its references on its stack only (the two of `Heap`).
    let m = unsafe { world.attach("main") }?;
    let count = (megabytes * 1048576.0 / size as f64) as usize;
    let heap = match shape {
        "tree" => forest(&m, count),
        "list" => list(&m, count),
        "graph" => graph(&m, count),
        _ => return Err("the shape must be list, tree or graph".into()),
    }?;
    m.collect()?;
    while rounds.next() {
        let (mut mark, mut pause) = (Vec::new(), Vec::new());
        let cpu_start = cpu_s();
        let mut report = None;
        for _ in 0..collections {
            let collection = m.collect()?;
            mark.push(collection.mark_ns);
            pause.push(collection.pause_ns);
            report = Some(collection);
        }
        let report = report.ok_or("collections: at least 1")?;
        let mark_ns = median(&mut mark);
        println!(
            "program=pause shape={shape} objects={} mark_ms={:.3} mobj_s={:.2} pause_ms={:.3} cpu_ms={:.2} \
             peak_rss_mb={:.1} heap_mb={:.1} live_objects={}",
            heap.objects,
            mark_ns / 1e6,
            heap.objects as f64 * 1e3 / mark_ns,
            median(&mut pause) / 1e6,
            (cpu_s() - cpu_start) / collections as f64 * 1e3,
            peak_rss_mb(),
            report.committed_bytes as f64 / 1048576.0,
            report.live_objects,
        );
    }
    keep_alive(heap.root);
    if let Some(all) = heap.all {
        keep_alive(all);
    }
    Ok(())
}

fn object(m: &Mutator) -> Result<Gc<Object>, OutOfMemory> {
    m.alloc(Object { a: GcCell::new(None), b: GcCell::new(None), padding: [0; 2] })
}

fn tree(m: &Mutator, depth: u32) -> Result<Gc<Object>, OutOfMemory> {
    let o = object(m)?;
    if depth > 0 {
        o.a.set(Some(tree(m, depth - 1)?));
        o.b.set(Some(tree(m, depth - 1)?));
    }
    Ok(o)
}

/// Makes the deepest tree that fits, and a list of trees of depth 14 with the rest of the objects.
fn forest(m: &Mutator, count: usize) -> Result<Heap, OutOfMemory> {
    const SMALL: u32 = 14;
    let depth = (count + 1).ilog2() - 1;
    let big_size = (2 << depth) - 1;
    let (big, mut objects) = (tree(m, depth)?, big_size);
    let (rest, mut others) = (count - big_size, None);
    for _ in (0..rest.min(big_size / 2)).step_by(2 << SMALL) {
        let (small, link) = (tree(m, SMALL)?, object(m)?);
        link.a.set(others);
        link.b.set(Some(small));
        others = Some(link);
        objects += 2 << SMALL;
    }
    let root = object(m)?;
    root.a.set(Some(big));
    root.b.set(others);
    Ok(Heap { root, all: None, objects })
}

fn list(m: &Mutator, count: usize) -> Result<Heap, OutOfMemory> {
    let mut root = object(m)?;
    for _ in 1..count {
        let o = object(m)?;
        o.a.set(Some(root));
        root = o;
    }
    Ok(Heap { root, all: None, objects: count })
}

/// Makes objects that each reference two objects picked at random.
fn graph(m: &Mutator, count: usize) -> Result<Heap, OutOfMemory> {
    let all: All = m.alloc_array(count, |_| GcCell::new(None))?;
    for slot in all.iter() {
        slot.set(Some(object(m)?));
    }
    let mut random = 88172645463325252u64;
    let mut any = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        all[(random % count as u64) as usize].get()
    };
    for o in all.iter().filter_map(GcCell::get) {
        o.a.set(any());
        o.b.set(any());
    }
    let root = object(m)?;
    root.a.set(all[0].get());
    Ok(Heap { root, all: Some(all), objects: count })
}
