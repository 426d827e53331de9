//! Threads that allocate objects, keep references to them in every place that a collection scans, and check the objects.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use stopworld::{Gc, JoinHandle, Mutator, OutOfMemory, Root, World, cost_centre, keep_alive};

use super::check::{Node, assert_list, assert_tree, list, tree};
use super::counts::one;
use super::round::Shared;

/// The largest number of handles that threads pass to each other; further ones are dropped.
const MOST_ROOTS: usize = 200;

/// Does the work of a worker: performs one random action after the other.
pub(crate) fn work(m: &Mutator, mut random: Rng, shared: &'static Shared) -> Result<(), OutOfMemory> {
    let mut kept = tree(m, 8)?;
    while !shared.is_over() {
        act(m, &mut random, shared)?;
        let nodes = assert_tree(kept);
        shared.counts.objects_checked.fetch_add(nodes, Ordering::Relaxed);
        if random.u8(..) == 0 {
            kept = tree(m, random.u64(1..10))?;
        }
        m.safepoint();
    }
    Ok(())
}

fn act(m: &Mutator, random: &mut Rng, shared: &'static Shared) -> Result<(), OutOfMemory> {
    match random.u8(0..12) {
        0 => {
            let _cost = cost_centre!("trees");
            assert_tree(tree(m, random.u64(0..10))?);
        }
        1 => {
            let _cost = cost_centre!("lists");
            assert_list(list(m, random.u64(1..5000))?);
        }
        2 => arrays(m, random)?,
        3 => pinned(m, random, shared)?,
        4 => finalized(m, random, shared)?,
        5 => give_root(m, random, shared)?,
        6 => take_root(m, random, shared),
        7 => weak(m, random, shared)?,
        8 => range(m, random, shared)?,
        9 => m.blocking(|| thread::sleep(Duration::from_micros(random.u64(0..500)))),
        10 if random.u8(0..8) == 0 => shared.collected(m.collect()),
        _ => {
            let lists = [list(m, 10)?, list(m, 20)?];
            m.name_object(lists[0], "a list of ten");
            assert_eq!(lists.map(assert_list), [10, 20]);
        }
    }
    Ok(())
}

/// Allocates and checks arrays of references, some of them large objects.
fn arrays(m: &Mutator, random: &mut Rng) -> Result<(), OutOfMemory> {
    let length = random.usize(1..6000);
    let link = list(m, 3)?;
    let array = m.alloc_array(length, |index| (index % 3 == 0).then_some(link))?;
    assert_eq!(array.iter().filter(|element| element.is_some()).count(), length.div_ceil(3));
    assert!(array.iter().flatten().take(10).all(|link| assert_list(*link) == 3));
    Ok(())
}

fn pinned(m: &Mutator, random: &mut Rng, shared: &Shared) -> Result<(), OutOfMemory> {
    let link = list(m, random.u64(1..50))?;
    let holder = m.alloc_pinned([Some(link), None])?;
    assert_list(holder[0].expect("a pinned object keeps its contents"));
    keep_alive(holder);
    one(&shared.counts.pinned);
    Ok(())
}

/// The finalizer of [`finalized`]: the object and everything reachable from it must be intact.
fn finalize(m: &Mutator, list: Gc<Node>) {
    assert_list(list);
    // A finalizer may allocate.
    if let Ok(tree) = tree(m, 2) {
        assert_tree(tree);
    }
    if let Some(shared) = Shared::of_process() {
        one(&shared.counts.finalizers_run);
    }
}

fn finalized(m: &Mutator, random: &mut Rng, shared: &Shared) -> Result<(), OutOfMemory> {
    m.set_finalizer(list(m, random.u64(1..30))?, finalize)?;
    one(&shared.counts.finalizers_registered);
    Ok(())
}

fn give_root(m: &Mutator, random: &mut Rng, shared: &Shared) -> Result<(), OutOfMemory> {
    let root = m.root(tree(m, random.u64(0..6))?);
    let again = random.bool().then(|| root.clone());
    one(&shared.counts.roots);
    m.blocking(move || {
        let mut roots = shared.roots();
        roots.push(root);
        roots.extend(again);
        let surplus = roots.len().saturating_sub(MOST_ROOTS);
        let dropped: Vec<Root<Node>> = roots.drain(..surplus).collect();
        drop(roots);
        drop(dropped);
    });
    Ok(())
}

fn take_root(m: &Mutator, random: &mut Rng, shared: &Shared) {
    let taken = m.blocking(|| {
        let mut roots = shared.roots();
        let index = random.usize(..).checked_rem(roots.len())?;
        Some(roots.swap_remove(index))
    });
    if let Some(root) = taken {
        assert_tree(root.get(m));
    }
}

/// Creates a weak reference to an object that only this function keeps alive, and checks an older weak reference.
fn weak(m: &Mutator, random: &mut Rng, shared: &'static Shared) -> Result<(), OutOfMemory> {
    let target = list(m, random.u64(1..40))?;
    let reference = m.alloc_weak(target)?;
    if random.u8(0..16) == 0 {
        shared.collected(m.collect());
        let same = reference.get().is_some_and(|found| Gc::ptr_eq(found, target));
        assert!(same, "a weak reference was cleared though its target is reachable");
        assert_list(target);
    }
    let root = m.root(reference);
    let older = m.blocking(|| {
        let mut weak = shared.weak();
        weak.push(root);
        let index = random.usize(0..weak.len());
        (weak.len() > MOST_ROOTS).then(|| weak.swap_remove(index))
    });
    if let Some(root) = older {
        match root.get(m).get() {
            Some(target) => {
                assert_list(target);
            }
            None => one(&shared.counts.weak_cleared),
        }
    }
    Ok(())
}

/// Checks objects whose only references are in a registered range of ordinary memory.
fn range(m: &Mutator, random: &mut Rng, shared: &'static Shared) -> Result<(), OutOfMemory> {
    let memory = vec![Some(list(m, random.u64(1..40))?); 4];
    // SAFETY: the vector is neither moved nor changed while the guard lives.
    let registered = unsafe { m.world().register_range(memory.as_ptr().cast(), size_of_val(&*memory)) };
    // If the table of ranges is full, there is nothing to check.
    if let Some(guard) = registered {
        if random.u8(0..16) == 0 {
            shared.collected(m.collect());
        }
        assert!(memory.iter().flatten().all(|list| assert_list(*list) > 0));
        drop(guard);
        one(&shared.counts.ranges);
    }
    Ok(())
}

/// Starts threads that end soon, some of them without detaching.
pub(crate) fn bear(world: &World, mut random: Rng, shared: &'static Shared) {
    while !shared.is_over() {
        let depth = random.u64(0..8);
        if random.u8(0..4) == 0 {
            end_without_detach(world, depth);
            one(&shared.counts.threads_ended_without_detach);
        } else {
            let children = (0..random.usize(1..6)).filter_map(|_| start(world, "child", depth));
            children.collect::<Vec<_>>().into_iter().for_each(|child| {
                // The result is ignored: a failed check panics, and a panic ends the process.
                let _ = child.join();
            });
        }
        one(&shared.counts.threads_born);
        thread::sleep(Duration::from_micros(random.u64(0..3000)));
    }
}

fn start(world: &World, name: &str, depth: u64) -> Option<JoinHandle<()>> {
    let life = move |m: &Mutator| {
        if let Ok(tree) = tree(m, depth) {
            assert_tree(tree);
        }
    };
    // SAFETY: the tree is on the thread's stack.
    unsafe { world.spawn(name, life) }.ok()
}

fn end_without_detach(world: &World, depth: u64) {
    let world = world.clone();
    let thread = thread::spawn(move || {
        // SAFETY: the tree is referenced from this thread's stack, and is not used after the mutator is forgotten.
        if let Ok(m) = unsafe { world.attach("silent") } {
            if let Ok(tree) = tree(&m, depth) {
                assert_tree(tree);
            }
            std::mem::forget(m);
        }
    });
    let _ = thread.join();
}
