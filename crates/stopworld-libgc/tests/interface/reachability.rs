//! What keeps objects alive, and what happens when nothing does.

use std::cell::UnsafeCell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

use super::*;

/// Memory that only one test at a time uses.
struct Words<const N: usize>(UnsafeCell<[usize; N]>);

// SAFETY: each test that uses one is alone.
unsafe impl<const N: usize> Sync for Words<N> {}

impl<const N: usize> Words<N> {
    const fn new() -> Self {
        Self(UnsafeCell::new([0; N]))
    }

    fn range(&self) -> (Pointer, Pointer) {
        let low = self.0.get();
        // SAFETY: one past the end.
        (low.cast(), unsafe { low.add(1) }.cast())
    }

    fn set(&self, index: usize, word: usize) {
        // SAFETY: in bounds. Volatile: the collector reads it.
        unsafe { self.0.get().cast::<usize>().add(index).write_volatile(word) };
    }

    fn get(&self, index: usize) -> usize {
        // SAFETY: in bounds.
        unsafe { self.0.get().cast::<usize>().add(index).read_volatile() }
    }
}

fn new(_: usize) -> Pointer {
    // SAFETY: has no precondition.
    unsafe { GC_malloc(40) }
}

#[test]
fn what_nothing_refers_to_is_freed() {
    let _alone = alone();
    let objects = hidden(MANY, new);
    collect();
    assert!(alive(&objects) <= FEW, "{}", alive(&objects));
}

/// A variable of the program is a root; so is what an uncollectable object refers to, until it is freed.
#[test]
fn data_of_the_program_and_uncollectable_objects_are_roots() {
    static VARIABLES: Words<MANY> = Words::new();
    let _alone = alone();
    let objects = hidden(MANY, |index| {
        let object = new(index);
        VARIABLES.set(index, object as usize + index % 40);
        object
    });
    let holders = hidden(MANY, |index| {
        // SAFETY: an object of five words.
        unsafe {
            let holder = GC_malloc_uncollectable(40);
            holder.cast::<Pointer>().add(index % 5).write(new(index));
            holder
        }
    });
    // SAFETY: as above; they are not freed yet.
    let held: Vec<_> = holders
        .iter()
        .enumerate()
        .map(|(index, &holder)| hide(unsafe { show(holder).cast::<Pointer>().add(index % 5).read() }))
        .collect();
    collect();
    assert_eq!((alive(&objects), alive(&holders), alive(&held)), (MANY, MANY, MANY));
    (0..MANY).for_each(|index| VARIABLES.set(index, 0));
    // SAFETY: they are not used any more.
    holders.iter().for_each(|&holder| unsafe { GC_free(show(holder)) });
    collect();
    assert!(alive(&objects) <= FEW && alive(&held) <= FEW && alive(&holders) == 0);
}

#[test]
fn added_ranges_are_roots_until_they_are_removed() {
    let _alone = alone();
    let memory: &'static Words<MANY> = Box::leak(Box::new(Words::new()));
    let (low, high) = memory.range();
    let objects = hidden(MANY, |index| {
        let object = new(index);
        memory.set(index, object as usize);
        object
    });
    // SAFETY: readable memory, which is never freed.
    unsafe {
        GC_add_roots(low, high);
        collect();
        assert_eq!(alive(&objects), MANY);
        GC_remove_roots(low.cast::<usize>().add(MANY / 2).cast(), high);
        collect();
        assert_eq!(alive(&objects[..MANY / 2]), MANY / 2);
        assert!(alive(&objects[MANY / 2..]) <= FEW);
        GC_remove_roots(low, high);
    }
    collect();
    assert!(alive(&objects) <= FEW);
}

/// The memory that the function below pushes.
static PUSHED: Words<MANY> = Words::new();
static PUSHED_FROM: AtomicUsize = AtomicUsize::new(0);

extern "C" fn push() {
    let low = PUSHED_FROM.load(Ordering::Relaxed) as *mut usize;
    // SAFETY: the collector calls it; the memory has this many words.
    unsafe {
        GC_push_all(low.cast(), low.add(MANY / 3).cast());
        GC_push_all_eager(low.add(MANY / 3).cast(), low.add(2 * MANY / 3).cast());
        for index in 2 * MANY / 3..MANY {
            GC_set_mark_bit(low.add(index).read() as Pointer);
        }
    }
}

#[test]
fn a_function_of_the_program_pushes_roots() {
    let _alone = alone();
    let memory = Vec::leak(vec![0_usize; MANY]);
    PUSHED_FROM.store(memory.as_mut_ptr() as usize, Ordering::Relaxed);
    let place = memory.as_mut_ptr() as usize;
    let objects = hidden(MANY, |index| {
        let object = new(index);
        // SAFETY: in bounds.
        unsafe { (place as *mut usize).add(index).write_volatile(object as usize) };
        object
    });
    // SAFETY: a function as the interface has it.
    unsafe {
        let before = GC_get_push_other_roots();
        assert!(before.is_some(), "programs call the one before");
        GC_set_push_other_roots(Some(push));
        collect();
        assert_eq!(alive(&objects), MANY);
        GC_set_push_other_roots(before);
    }
    collect();
    assert!(alive(&objects) <= FEW);
    PUSHED.set(0, 0);
}

#[test]
fn links_of_dead_objects_are_cleared() {
    let _alone = alone();
    let links: &'static Words<MANY> = Box::leak(Box::new(Words::new()));
    let place = |index: usize| links.range().0.cast::<Pointer>().wrapping_add(index);
    let kept = hidden(1, new);
    let (root_low, root_high) = {
        let root: &'static Words<1> = Box::leak(Box::new(Words::new()));
        root.set(0, show(kept[0]) as usize);
        root.range()
    };
    // SAFETY: words that are never freed.
    unsafe {
        GC_add_roots(root_low, root_high);
        hidden(MANY - 2, |index| {
            let object = new(index);
            links.set(index, hide(object));
            assert_eq!(GC_general_register_disappearing_link(place(index), object), 0);
            assert_eq!(GC_general_register_disappearing_link(place(index), object), 1);
            object
        });
        links.set(MANY - 2, 77);
        assert_eq!(GC_general_register_disappearing_link(place(MANY - 2), show(kept[0])), 0);
        // Moved to the last place, and the first one removed.
        assert_eq!(GC_move_disappearing_link(place(1), place(0)), 1);
        assert_eq!(GC_move_disappearing_link(place(1), place(MANY - 1)), 0);
        assert_eq!(GC_move_disappearing_link(place(1), place(MANY - 1)), 4);
        links.set(MANY - 1, links.get(1));
        assert_eq!((GC_unregister_disappearing_link(place(0)), GC_unregister_disappearing_link(place(0))), (1, 0));
        collect();
        GC_remove_roots(root_low, root_high);
    }
    let cleared = (2..MANY - 2).chain([MANY - 1]).filter(|&index| links.get(index) == 0).count();
    assert!(cleared >= MANY - 3 - FEW, "{cleared}");
    assert_eq!(links.get(MANY - 2), 77, "its object is alive");
    assert!(links.get(0) != 0 && links.get(1) != 0, "they were unregistered");
}

static FINALIZED: AtomicUsize = AtomicUsize::new(0);
static NOTIFIED: AtomicUsize = AtomicUsize::new(0);

extern "C" fn finalize(object: Pointer, data: Pointer) {
    // SAFETY: the object is alive during the call.
    assert_eq!(unsafe { *object.cast::<usize>() }, data as usize ^ 0x5555);
    FINALIZED.fetch_add(1, Ordering::Relaxed);
}

extern "C" fn notify() {
    NOTIFIED.fetch_add(1, Ordering::Relaxed);
}

/// Objects with finalizers.
fn with_finalizers() -> Vec<usize> {
    hidden(MANY, |index| {
        let object = new(index);
        // SAFETY: an object of this size.
        unsafe {
            object.cast::<usize>().write((2 * index + 1) ^ 0x5555);
            let data = (2 * index + 1) as Pointer;
            GC_register_finalizer_no_order(object, Some(finalize), data, null_mut(), null_mut());
            let (mut function, mut word) = (None, null_mut());
            GC_register_finalizer(object, Some(finalize), data, &mut function, &mut word);
            assert!(
                function.is_some_and(|old| std::ptr::fn_addr_eq(old, finalize as Finalizer)) && word == data,
                "the one before comes back"
            );
        }
        object
    })
}

#[test]
fn finalizers_run_once_in_the_thread_that_collects() {
    let _alone = alone();
    let before = FINALIZED.load(Ordering::Relaxed);
    let objects = with_finalizers();
    collect();
    let done = FINALIZED.load(Ordering::Relaxed) - before;
    assert!((MANY - FEW..=MANY).contains(&done), "{done}");
    collect();
    assert!(FINALIZED.load(Ordering::Relaxed) - before <= MANY);
    assert!(alive(&objects) <= FEW);
}

#[test]
fn on_demand_the_program_is_notified_and_runs_them() {
    let _alone = alone();
    let (before, notified) = (FINALIZED.load(Ordering::Relaxed), NOTIFIED.load(Ordering::Relaxed));
    let links: &'static Words<2> = Box::leak(Box::new(Words::new()));
    // SAFETY: functions as the interface has them.
    unsafe {
        GC_set_finalize_on_demand(1);
        GC_set_finalizer_notifier(Some(notify));
        let objects = with_finalizers();
        for (index, register) in [GC_general_register_disappearing_link, GC_register_long_link].into_iter().enumerate()
        {
            links.set(index, 1);
            register(links.range().0.cast::<Pointer>().add(index), show(objects[index]));
        }
        collect();
        assert_eq!(NOTIFIED.load(Ordering::Relaxed) - notified, 1);
        assert_eq!(FINALIZED.load(Ordering::Relaxed), before);
        assert_eq!((GC_should_invoke_finalizers(), alive(&objects)), (1, MANY));
        assert!(links.get(0) == 0 || is_alive(objects[0]));
        assert_eq!(links.get(1), 1, "a long link stays as long as the finalizer has not run");
        let done = GC_invoke_finalizers() as usize;
        assert_eq!(FINALIZED.load(Ordering::Relaxed) - before, done);
        assert_eq!(GC_should_invoke_finalizers(), 0);
        GC_set_finalizer_notifier(None);
        GC_set_finalize_on_demand(0);
        collect();
        assert!(alive(&objects) <= FEW);
    }
}

static PROCEDURE_CALLS: AtomicUsize = AtomicUsize::new(0);

/// Marks what the second word hides, and nothing else.
extern "C" fn mark_hidden(object: *mut usize, top: Pointer, limit: Pointer, environment: usize) -> Pointer {
    assert_eq!(environment, 5);
    PROCEDURE_CALLS.fetch_add(1, Ordering::Relaxed);
    // SAFETY: an object of its kind.
    let hidden = unsafe { object.add(1).read() };
    if hidden == 0 {
        return top;
    }
    // SAFETY: the collector calls it.
    unsafe { GC_mark_and_push(show(hidden), top, limit, null_mut()) }
}

/// A list of objects of the kind, each of which the one before hides, and only the first of which a root refers to.
#[test]
fn a_mark_procedure_finds_what_its_object_hides() {
    let _alone = alone();
    // SAFETY: as the interface has it.
    unsafe {
        let procedure = GC_new_proc(mark_hidden) as usize;
        let kind = GC_new_kind(GC_new_free_list(), (5 << 6 | procedure) << 2 | 2, 0, 1) as c_int;
        let root = GC_malloc_uncollectable(8).cast::<Pointer>();
        let mut list = null_mut();
        GC_generic_malloc_many(32, kind, &mut list);
        assert_eq!(GC_get_kind_and_size(list, null_mut()), kind);
        let objects = hidden(MANY, |_| GC_generic_malloc(16, kind));
        let last: Vec<_> = hidden(1, new);
        for pair in objects.windows(2) {
            show(pair[0]).cast::<usize>().add(1).write(pair[1]);
        }
        show(objects[MANY - 1]).cast::<usize>().add(1).write(last[0]);
        root.write(show(objects[0]));
        collect();
        assert_eq!((alive(&objects), alive(&last)), (MANY, 1));
        assert!(PROCEDURE_CALLS.load(Ordering::Relaxed) >= MANY);
        root.write(null_mut());
        collect();
        assert!(alive(&objects) <= FEW || alive(&last) == 1, "a word that was left may keep a part of the list");
        GC_free(root.cast());
    }
}

/// A word that the descriptor does not name keeps nothing alive.
#[test]
fn typed_objects_are_scanned_by_their_descriptors() {
    let _alone = alone();
    // SAFETY: objects of these sizes.
    unsafe {
        let descriptor = GC_make_descriptor([0b10_usize].as_ptr(), 3);
        let leaf = GC_make_descriptor([0_usize].as_ptr(), 3);
        let targets: Vec<usize> = (0..3 * MANY).map(|_| 0).collect();
        let targets = Vec::leak(targets);
        let roots = hidden(MANY, |index| {
            let root = GC_malloc_uncollectable(16).cast::<Pointer>();
            let typed = GC_malloc_explicitly_typed(24, descriptor);
            assert!((0..3).all(|word| *typed.cast::<usize>().add(word) == 0));
            let atomic = GC_malloc_explicitly_typed(24, leaf);
            assert!((0..3).all(|word| *atomic.cast::<usize>().add(word) == 0));
            root.write(typed);
            root.add(1).write(atomic);
            for (at, place) in
                [typed.cast::<Pointer>(), typed.cast::<Pointer>().add(1), atomic.cast()].into_iter().enumerate()
            {
                let target = new(index);
                place.write(target);
                (&raw const targets[at * MANY + index]).cast_mut().write(hide(target));
            }
            root.cast()
        });
        collect();
        assert!(alive(&targets[..MANY]) <= FEW, "the first word");
        assert_eq!(alive(&targets[MANY..2 * MANY]), MANY, "the second word");
        assert!(alive(&targets[2 * MANY..]) <= FEW, "of an object without pointers");
        roots.iter().for_each(|&root| GC_free(show(root)));
    }
}

static STATUS: AtomicI32 = AtomicI32::new(1);

extern "C" fn status(_: Pointer) -> c_int {
    STATUS.load(Ordering::Relaxed)
}

#[test]
fn toggle_references_keep_objects_as_the_program_says() {
    let _alone = alone();
    // SAFETY: as the interface has it.
    unsafe {
        GC_set_toggleref_func(Some(status));
        let objects = hidden(MANY, |index| {
            let object = new(index);
            assert_eq!(GC_toggleref_add(object, 1), 0);
            object
        });
        collect();
        assert_eq!(alive(&objects), MANY);
        STATUS.store(2, Ordering::Relaxed);
        collect();
        assert!(alive(&objects) <= FEW);
        STATUS.store(0, Ordering::Relaxed);
        collect();
        GC_set_toggleref_func(None);
    }
}
