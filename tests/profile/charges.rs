//! Each object is charged to the cost centre stack that its thread was in when it allocated it.
//! The expected values are in the objects themselves: each stores the number of the stack in which it was allocated.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rstest::rstest;
use stopworld::profile::{self, Scope, StackId};
use stopworld::testing::{alloc_with_a_pause, charged_to};
use stopworld::{
    Array, Charging, Gc, GcCell, Mutator, Paranoid, Root, Stopper, World, cost_centre, keep_alive, traced,
};

traced! {
    /// An object's stack at its allocation, and the next object.
    struct Small { next: GcCell<Option<Gc<Link>>>, under: u64 }
}
traced! {
    /// A larger object with the same fields.
    struct Middling { next: GcCell<Option<Gc<Link>>>, under: u64, rest: [u64; 9] }
}
traced! {
    /// A list of objects of all sizes.
    struct Link {
        next: GcCell<Option<Gc<Link>>>,
        under: u64,
        small: GcCell<Option<Gc<Small>>>,
        pinned: GcCell<Option<Gc<Small>>>,
        middling: GcCell<Option<Gc<Middling>>>,
        large: GcCell<Option<Gc<Array<u64>>>>,
        array: GcCell<Option<Gc<Array<u64>>>>,
    }
}

fn world(stopper: Stopper) -> World {
    let world = World::builder().heap_limit(256 << 20).initial_heap(2 << 20).stopper(stopper);
    world.charge_allocations(Charging::On).paranoid(Paranoid::On).build().unwrap()
}

fn under(m: &Mutator) -> u64 {
    m.cost_stack().get().into()
}

fn link(m: &Mutator, next: Option<Gc<Link>>) -> Gc<Link> {
    let link = m.alloc(Link {
        next: GcCell::new(next),
        under: under(m),
        small: GcCell::new(None),
        pinned: GcCell::new(None),
        middling: GcCell::new(None),
        large: GcCell::new(None),
        array: GcCell::new(None),
    });
    link.unwrap()
}

/// Pseudo-random numbers: a linear congruential generator, whose upper half is good enough.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// Allocates an object and stores it in the link.
fn furnish(m: &Mutator, dice: &mut Dice, link: Gc<Link>) {
    let (next, u) = (|| GcCell::new(None), under(m));
    match dice.below(24) {
        0..8 => link.small.set(Some(m.alloc(Small { next: next(), under: u }).unwrap())),
        8..12 => link.pinned.set(Some(m.alloc_pinned(Small { next: next(), under: u }).unwrap())),
        12..16 => link.middling.set(Some(m.alloc(Middling { next: next(), under: u, rest: [0; 9] }).unwrap())),
        // The array is a large object with blocks of its own.
        16 => link.large.set(Some(m.alloc_array(1100 + dice.below(3000) as usize, |_| u).unwrap())),
        17..22 => {
            let length = 1 + dice.below(200) as usize;
            link.array.set(Some(m.alloc_array(length, |_| u).unwrap()));
        }
        // This object is garbage.
        _ => drop(m.alloc(Small { next: next(), under: u }).unwrap()),
    }
}

/// Walks through random scopes, keeping the last few hundred links.
fn wander(m: &Mutator, seed: u64, steps: usize) -> Gc<Link> {
    let mut dice = Dice(seed);
    let centres: Vec<_> = (0..7).map(|n| profile::centre(&format!("centre {n}"), "wander", "")).collect();
    let mut scopes: Vec<Scope> = Vec::new();
    let mut list = link(m, None);
    let mut length = 0;
    for _ in 0..steps {
        match dice.below(10) {
            0..3 if scopes.len() < 6 => scopes.push(Scope::enter(centres[dice.below(7) as usize])),
            0..4 => drop(scopes.pop()),
            4 => {
                list = link(m, Some(list));
                length += 1;
                if length > 400 {
                    // The older half of the links becomes garbage.
                    let mut at = list;
                    (0..200).for_each(|_| at = at.next.get().unwrap());
                    at.next.set(None);
                    length = 200;
                }
            }
            _ => furnish(m, &mut dice, list),
        }
        m.safepoint();
    }
    while scopes.pop().is_some() {}
    list
}

/// Compares the charges with what each object stores. Returns the number of objects that it checked.
fn check(m: &Mutator, list: Gc<Link>) -> usize {
    let charged = |found: Option<StackId>, says: u64| {
        assert_eq!(
            found.map(|stack| u64::from(stack.get())),
            Some(says),
            "charged to another stack than it was allocated in"
        );
    };
    let (mut at, mut count) = (Some(list), 0);
    while let Some(link) = at {
        charged(charged_to(m, link), link.under);
        if let Some(object) = link.small.get() {
            charged(charged_to(m, object), object.under);
            count += 1;
        }
        if let Some(object) = link.pinned.get() {
            charged(charged_to(m, object), object.under);
            count += 1;
        }
        if let Some(object) = link.middling.get() {
            charged(charged_to(m, object), object.under);
            count += 1;
        }
        if let Some(object) = link.large.get() {
            charged(charged_to(m, object), object[0]);
            count += 1;
        }
        if let Some(array) = link.array.get() {
            charged(charged_to(m, array), array[0]);
            count += 1;
        }
        count += 1;
        at = link.next.get();
    }
    count
}

#[rstest]
fn objects_of_every_kind_are_charged_to_the_scopes_they_were_allocated_in() {
    let world = world(Stopper::Signals);
    // SAFETY: all references are on this stack and in collected objects.
    let m = unsafe { world.attach("main") }.unwrap();
    let list = wander(&m, 1, 20_000);
    assert!(check(&m, list) > 300);
    m.collect().unwrap();
    assert!(check(&m, list) > 300);
}

/// `.stop.mid-alloc`: threads are stopped at any point of an allocation or of a change of scope.
#[rstest]
fn objects_on_threads_stopped_anywhere_are_charged_to_their_scopes(
    #[values(Stopper::Signals, Stopper::Safepoints)] stopper: Stopper,
) {
    let world = world(stopper);
    let ended = Arc::new(AtomicBool::new(false));
    let body = |seed| move |m: &Mutator| -> Root<Link> { m.root(wander(m, seed, 500_000)) };
    // SAFETY: all references are on the threads' stacks, in collected objects, and in roots.
    let threads: Vec<_> = (0..3).map(|seed| unsafe { world.spawn("wanders", body(seed)) }.unwrap()).collect();
    let collecting = std::thread::spawn({
        let (world, ended) = (world.clone(), Arc::clone(&ended));
        move || {
            while !ended.load(Ordering::Relaxed) {
                world.collect().unwrap();
                std::thread::sleep(Duration::from_micros(200));
            }
        }
    });
    let lists: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    ended.store(true, Ordering::Relaxed);
    collecting.join().unwrap();
    // SAFETY: as above.
    let m = unsafe { world.attach("main") }.unwrap();
    // The objects are checked once as the threads left them, and once more after a collection.
    for _ in 0..2 {
        assert!(lists.iter().map(|list| check(&m, list.get(&m))).sum::<usize>() > 600);
        m.collect().unwrap();
    }
}

/// `.stop.mid-alloc`: the collector charges the cell that a thread is building, and the thread then charges it again.
#[rstest]
fn an_object_under_construction_in_a_collection_is_charged_like_any_other() {
    let world = world(Stopper::Signals);
    // SAFETY: all references are on this stack and in collected objects.
    let m = unsafe { world.attach("main") }.unwrap();
    let _cost = cost_centre!("building");
    let stack = m.cost_stack();
    let other = world.clone();
    let build = |place: *mut Small| {
        // SAFETY: a valid place for a `Small`.
        unsafe { place.write(Small { next: GcCell::new(None), under: 0 }) };
    };
    let meanwhile = || {
        let other = other.clone();
        std::thread::scope(|scope| drop(scope.spawn(move || other.collect().unwrap())));
    };
    // SAFETY: the value is written whole; the other thread collects, and this one allocates nothing meanwhile.
    let built = unsafe { alloc_with_a_pause(&m, build, meanwhile) };
    let built = built.unwrap();
    let _inner = cost_centre!("later");
    assert_eq!(charged_to(&m, built), Some(stack));
    keep_alive(built);
}

#[rstest]
fn a_panic_charges_later_objects_to_the_scope_that_catches_it() {
    let world = world(Stopper::Signals);
    // SAFETY: all references are on this stack.
    let m = unsafe { world.attach("main") }.unwrap();
    let _cost = cost_centre!("catches");
    let before = m.cost_stack();
    let kept = RefCell::new(None);
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _cost = cost_centre!("panics");
        *kept.borrow_mut() = Some((m.root(link(&m, None)), m.cost_stack()));
        std::panic::resume_unwind(Box::new(()));
    }));
    assert!(caught.is_err());
    let after = link(&m, None);
    let (inside, stack) = kept.into_inner().unwrap();
    assert_eq!(charged_to(&m, inside.get(&m)), Some(stack));
    assert_eq!(stack.parent(), Some(before));
    assert_eq!(charged_to(&m, after), Some(before));
}

#[rstest]
fn scopes_in_blocking_regions_leave_the_charges_alone() {
    let world = world(Stopper::Signals);
    let ended = Arc::new(AtomicBool::new(false));
    let collecting = std::thread::spawn({
        let (world, ended) = (world.clone(), Arc::clone(&ended));
        move || {
            while !ended.load(Ordering::Relaxed) {
                world.collect().unwrap();
            }
        }
    });
    // SAFETY: all references are on this stack and in collected objects.
    let m = unsafe { world.attach("main") }.unwrap();
    let mut list = link(&m, None);
    for _ in 0..3000 {
        let _cost = cost_centre!("outside");
        list = link(&m, Some(list));
        m.blocking(|| {
            let _cost = cost_centre!("inside");
            std::hint::spin_loop();
        });
        list = link(&m, Some(list));
    }
    assert_eq!(check(&m, list), 6001);
    ended.store(true, Ordering::Relaxed);
    m.blocking(|| collecting.join().unwrap());
    assert_eq!(check(&m, list), 6001);
}

#[rstest]
fn the_child_of_a_fork_charges_on() {
    let world = world(Stopper::Signals);
    // SAFETY: all references are on this stack and in collected objects.
    let m = unsafe { world.attach("main") }.unwrap();
    let scope = cost_centre!("before");
    let list = link(&m, None);
    // SAFETY: the child only works on the heap and leaves by `_exit`.
    match unsafe { libc::fork() } {
        0 => {
            let fine = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let more = {
                    let _cost = cost_centre!("in the child");
                    link(&m, Some(list))
                };
                drop(scope);
                let last = link(&m, Some(more));
                assert_eq!(m.cost_stack(), StackId::MAIN);
                m.collect().unwrap();
                assert_eq!(check(&m, last), 3);
            }));
            // SAFETY: ends the child.
            unsafe { libc::_exit(if fine.is_ok() { 0 } else { 1 }) };
        }
        child => {
            let mut status = 0;
            // SAFETY: a child of this process.
            assert_eq!(m.blocking(|| unsafe { libc::waitpid(child, &mut status, 0) }), child);
            assert_eq!(status, 0, "the child failed");
        }
    }
    assert_eq!(check(&m, list), 1);
}

/// `.profile.charge`: the collector charges objects in the stopped world for threads that have not charged them yet.
#[rstest]
fn what_a_thread_has_not_charged_itself_the_collector_charges() {
    let world = world(Stopper::Signals);
    // SAFETY: all references are on the threads' stacks, in collected objects, and in roots.
    let m = unsafe { world.attach("main") }.unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let body = move |m: &Mutator| {
        let _cost = cost_centre!("never left");
        // The first object of the block is allocated under another cost centre stack, so that a missing charge of the second one shows up
        // as that stack.
        let list = {
            let _cost = cost_centre!("left");
            link(m, None)
        };
        tell.send(m.root(link(m, Some(list)))).unwrap();
        m.blocking(move || {
            let _ = ended.recv();
        });
    };
    // SAFETY: as above.
    let thread = unsafe { world.spawn("stays", body) }.unwrap();
    let list = told.recv().unwrap();
    m.collect().unwrap();
    assert_eq!(check(&m, list.get(&m)), 2);
    drop(end);
    thread.join().unwrap();
    assert_eq!(check(&m, list.get(&m)), 2);
}

#[rstest]
fn a_world_that_does_not_charge_reports_that() {
    let world = World::builder().heap_limit(16 << 20).build().unwrap();
    // SAFETY: all references are on this stack.
    let m = unsafe { world.attach("main") }.unwrap();
    let _cost = cost_centre!("somewhere");
    assert_eq!(charged_to(&m, link(&m, None)), None);
}
