//! Bindings of language runtimes (`.stop.binding`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use rstest::rstest;
use stopworld::untyped::{Binding, MarkedHeap, ObjectPointers, RootScanner, UntypedKind};
use stopworld::{Mutator, Paranoid, Stopper, ThreadStopInfo, World};

const OBJECTS: usize = 64;

/// What the binding does with each object, whose address it has in a table that the collector does not know.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kept {
    Not,
    /// By a range that has its address.
    ByRange,
    /// By a range that has an address inside it, scanned as a stack.
    ByStack,
    /// By its address.
    ByAddress,
    /// After marking.
    Late,
    /// What it refers to is kept after marking, and not the object.
    Referents,
}

struct Runtime {
    table: [AtomicUsize; OBJECTS],
    interior: [AtomicUsize; OBJECTS],
    how: [Kept; OBJECTS],
    dead: [AtomicBool; OBJECTS],
    prepared: AtomicUsize,
    begun: AtomicUsize,
    ended: AtomicUsize,
    stacks_asked: AtomicUsize,
}

impl Runtime {
    fn new() -> Runtime {
        Runtime {
            table: [const { AtomicUsize::new(0) }; OBJECTS],
            interior: [const { AtomicUsize::new(0) }; OBJECTS],
            how: [Kept::Not; OBJECTS],
            dead: [const { AtomicBool::new(false) }; OBJECTS],
            prepared: AtomicUsize::new(0),
            begun: AtomicUsize::new(0),
            ended: AtomicUsize::new(0),
            stacks_asked: AtomicUsize::new(0),
        }
    }
}

fn range_of(word: &AtomicUsize) -> (usize, usize) {
    let low = std::ptr::from_ref(word) as usize;
    (low, low + 8)
}

// SAFETY: nothing here allocates, prints or takes a lock.
unsafe impl Binding for Runtime {
    fn prepare(&self) {
        self.prepared.fetch_add(1, Ordering::Relaxed);
    }

    fn about_to_stop(&self) {
        assert_eq!(self.begun.fetch_add(1, Ordering::Relaxed), self.ended.load(Ordering::Relaxed));
    }

    fn roots(&self, roots: &mut RootScanner<'_>) {
        for (index, how) in self.how.iter().enumerate() {
            let ((low, high), (inner_low, inner_high)) =
                (range_of(&self.table[index]), range_of(&self.interior[index]));
            match how {
                // SAFETY: the word is readable, and no thread writes it during a collection.
                Kept::ByRange => unsafe { roots.range(low, high) },
                // SAFETY: as above.
                Kept::ByStack => unsafe { roots.stack(inner_low, inner_high) },
                Kept::ByAddress => roots.object(self.table[index].load(Ordering::Relaxed)),
                _ => {}
            }
        }
    }

    fn after_marking(&self, heap: &mut MarkedHeap<'_, '_>) {
        for (index, how) in self.how.iter().enumerate() {
            let object = self.table[index].load(Ordering::Relaxed);
            self.dead[index].store(!heap.is_marked(object), Ordering::Relaxed);
            match how {
                Kept::Late => heap.keep(object),
                // SAFETY: each object is alive until the first collection.
                Kept::Referents if !heap.is_marked(object) => unsafe { heap.keep_referents(object) },
                _ => {}
            }
        }
        heap.mark();
    }

    fn restarted(&self) {
        self.ended.fetch_add(1, Ordering::Relaxed);
    }

    fn stack_end(&self, _: &ThreadStopInfo, _: usize) -> Option<usize> {
        self.stacks_asked.fetch_add(1, Ordering::Relaxed);
        None
    }
}

/// Fills the tables: each object refers to a leaf, which only it refers to. Returns the hidden addresses of both.
#[inline(never)]
fn fill(mutator: &Mutator, runtime: &Runtime) -> Vec<(usize, usize)> {
    let (kind, leaf) = (UntypedKind::scanned("object"), UntypedKind::leaf("leaf"));
    let tables = (0..OBJECTS).map(|index| {
        let (object, leaf) = (mutator.alloc_untyped(40, kind).unwrap(), mutator.alloc_untyped(72, leaf).unwrap());
        // SAFETY: the object has a word.
        unsafe { object.cast::<usize>().write(leaf.as_ptr() as usize) };
        let address = object.as_ptr() as usize;
        runtime.table[index].store(address, Ordering::Relaxed);
        runtime.interior[index].store(address + 17, Ordering::Relaxed);
        (!address, !(leaf.as_ptr() as usize))
    });
    tables.collect()
}

#[rstest]
fn what_the_binding_keeps_lives(
    #[values(Stopper::Signals, Stopper::Safepoints)] stopper: Stopper,
    #[values(ObjectPointers::Interior, ObjectPointers::Bases)] pointers: ObjectPointers,
) {
    const KINDS: [Kept; 6] = [Kept::Not, Kept::ByRange, Kept::ByStack, Kept::ByAddress, Kept::Late, Kept::Referents];
    let how = std::array::from_fn(|index| KINDS[index % KINDS.len()]);
    let runtime = Arc::new(Runtime { how, ..Runtime::new() });
    let builder = World::builder().untyped(pointers).stopper(stopper).paranoid(Paranoid::On).heap_limit(64 << 20);
    let world = builder.binding(runtime.clone()).build().unwrap();
    // SAFETY: the addresses are in the binding's tables, or hidden.
    let mutator = unsafe { world.attach("test") }.unwrap();
    let hidden = fill(&mutator, &runtime);
    world.collect().unwrap();
    let is_object = |address: usize| world.untyped_object(address).is_some();
    let mut wrong = 0;
    for (index, &(object, leaf)) in hidden.iter().enumerate() {
        let (object, leaf) = (is_object(!object), is_object(!leaf));
        let expected = match how[index] {
            Kept::Not => (false, false),
            Kept::Referents => (false, true),
            _ => (true, true),
        };
        if how[index] != Kept::Not {
            assert!(object >= expected.0 && leaf >= expected.1, "{:?}: {object} {leaf}", how[index]);
        }
        wrong += usize::from((object, leaf) != expected);
        let found_dead = runtime.dead[index].load(Ordering::Relaxed);
        assert!(!found_dead || matches!(how[index], Kept::Not | Kept::Late | Kept::Referents), "{:?}", how[index]);
    }
    // A word that is left on the stack may keep a few alive.
    assert!(wrong <= 4, "{wrong} of {OBJECTS} live or died against expectation");
    let times = [&runtime.prepared, &runtime.begun, &runtime.ended].map(|count| count.load(Ordering::Relaxed));
    assert_eq!(times, [1; 3]);
}

/// A stop that fails is reported to the binding too: otherwise its locks would stay taken.
#[test]
fn the_binding_learns_of_the_end_of_a_stop_that_failed() {
    let runtime = Arc::new(Runtime::new());
    let builder = World::builder().stopper(Stopper::Safepoints).stop_timeout(Duration::from_millis(50));
    let world = builder.binding(runtime.clone()).build().unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (world, over) = (&world, &over);
        let ready = Arc::new(std::sync::Barrier::new(2));
        let other = Arc::clone(&ready);
        scope.spawn(move || {
            // SAFETY: no object is used.
            let _mutator = unsafe { world.attach("busy") }.unwrap();
            other.wait();
            while !over.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        ready.wait();
        assert!(world.collect().is_err());
        over.store(true, Ordering::Relaxed);
    });
    let times = [&runtime.begun, &runtime.ended].map(|count| count.load(Ordering::Relaxed));
    assert_eq!(times, [1; 2]);
    world.collect().unwrap();
    assert_eq!(runtime.ended.load(Ordering::Relaxed), 2);
    assert_eq!(runtime.stacks_asked.load(Ordering::Relaxed), 0, "every stack is known");
}
