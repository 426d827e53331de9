//! Test support: simulates on one thread what may happen to a thread between any two steps of its work. The thread is stopped, or
//! vanishes, while it takes a block (`.heap.reserve`), or is stopped for a debugger's query while it changes a table
//! (`.debug.inspect`).

use std::cell::RefCell;

use crate::sync::SharedLock;

/// A planned action, and the window in which it happens. A *window* is a point between two steps, marked by [`window`].
struct PlannedAction {
    /// The number of windows to be passed before the one in which the action happens.
    left: usize,
    /// Windows in which this lock is held do not count, because a stop and a fork wait for the lock.
    lock: SharedLock,
    what: Box<dyn FnOnce()>,
}

thread_local! {
    static PLAN: RefCell<Option<PlannedAction>> = const { RefCell::new(None) };
}

/// Plans one call of `what`, after `left` windows in which `lock` is not held.
pub(crate) fn plan(left: usize, lock: SharedLock, what: impl FnOnce() + 'static) {
    PLAN.set(Some(PlannedAction { left, lock, what: Box::new(what) }));
}

/// Whether the planned call has happened. If not, the plan is dropped.
pub(crate) fn has_happened() -> bool {
    PLAN.take().is_none()
}

/// Marks a point at which a test may stop or lose the thread.
pub(crate) fn window() {
    let due = PLAN.with_borrow_mut(|plan| match plan {
        Some(waiting) if waiting.lock.holder().is_some() => None,
        Some(PlannedAction { left: 0, .. }) => plan.take(),
        Some(waiting) => {
            waiting.left -= 1;
            None
        }
        None => None,
    });
    if let Some(plan) = due {
        (plan.what)();
    }
}

mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
    use std::sync::Arc;

    use super::super::blocks::{BlockIndex, BlockState};
    use super::super::cache::AllocationCache;
    use super::super::charges::Charging;
    use super::super::layout::BINS;
    use super::super::stopped::WorldStopped;
    use super::super::{Heap, Paranoid, Refill};
    use super::*;
    use crate::events::Events;
    use crate::heap::ranges::Alone;
    use crate::sync::{CurrentId, Ordering::Relaxed};

    static WORD: CurrentId = CurrentId::new();

    /// The bin for which the thread takes blocks.
    const BIN: usize = 2;

    /// Where the thread's next block comes from.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum From {
        Reserve,
        List,
    }

    /// What happens to the thread in the window.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Fate {
        /// The thread is stopped for a collection, another thread takes blocks, and the thread continues.
        Stopped,
        /// The thread vanishes, and its cache is released at once, as in a fork.
        Lost,
        /// The thread is stopped for a collection, another thread takes blocks, and then the thread vanishes.
        StoppedThenLost,
        /// The thread vanishes, and its cache is released only after another collection, as for a thread that ended without detaching.
        LostThenCollected,
    }

    struct Scene {
        heap: Heap,
        lock: SharedLock,
        thread: AllocationCache,
        other: AllocationCache,
    }

    impl Scene {
        fn new() -> Arc<Scene> {
            let lock = SharedLock::alone();
            let mut heap = Heap::new(4 << 20, Paranoid::On, Charging::Off, None, lock.clone()).unwrap();
            heap.set_first_budget(u64::MAX);
            let (thread, other) = (heap.new_cache(&WORD), heap.new_cache(&WORD));
            Arc::new(Scene { heap, lock, thread, other })
        }

        fn refill(&self, cache: &AllocationCache, bin: usize) {
            assert_eq!(self.heap.refill(cache, bin, || self.lock.lock()), Refill::Ready);
        }

        fn collect(&self, caches: &[&AllocationCache], mark: impl FnOnce(u8)) {
            let held = self.lock.lock();
            // SAFETY: no other thread uses this heap.
            let stopped = unsafe { WorldStopped::assume(&held) };
            caches.iter().for_each(|cache| check_filled_bins(cache));
            mark(self.heap.begin_marking(stopped));
            self.heap.set_up_sweep(stopped, caches.iter().copied(), &Events::new(), &Alone);
            self.heap.end_collection(stopped, u64::MAX);
        }

        /// Runs up to the point at which the thread takes its next block from `from`.
        fn prepare(&self, from: From) {
            let mut used_up = Vec::new();
            while used_up.len() < 3 || self.thread.reserve().count < 3 {
                used_up.extend(self.thread.block(BIN));
                self.refill(&self.thread, BIN);
            }
            if from == From::List {
                // One of the blocks contains a live object.
                let marks = self.heap.blocks.marks(used_up[0], 3);
                self.collect(&[&self.thread, &self.other], |epoch| marks[1].store(epoch, Relaxed));
            }
        }

        fn stop(&self) {
            self.collect(&[&self.thread, &self.other], |_| {});
            (0..4).for_each(|bin| self.refill(&self.other, bin));
        }

        fn bury(&self) {
            let held = self.lock.lock();
            // SAFETY: the simulated thread has vanished, or ends here.
            unsafe { self.heap.finish_sweep_of(&held, &self.thread) };
            self.heap.release_cache(&held, &self.thread);
        }

        /// Checks that each block is free or belongs to the other thread. Called when no object is alive any more.
        fn check(&self) {
            self.collect(&[&self.other], |_| {});
            let held = self.lock.lock();
            let state = &mut *self.heap.state(&held);
            let others: Vec<BlockIndex> = (0..BINS).filter_map(|bin| self.other.block(bin)).collect();
            let mut resident = 0;
            for block in 0..state.committed_blocks as BlockIndex {
                let info = self.heap.blocks.info(block);
                let expected = if others.contains(&block) { BlockState::Owned } else { BlockState::Free };
                assert_eq!(info.state(), expected, "block {block}");
                assert_eq!(state.free.contains(block as usize), expected == BlockState::Free, "block {block}");
                resident += usize::from(info.head.fresh.load(Relaxed) == 0);
            }
            assert_eq!(state.free.count() + others.len(), state.committed_blocks);
            // If the thread vanished while it counted a block, the number is one too large: see `install_empty`.
            assert!((resident..=resident + 1).contains(&state.resident_blocks), "{resident} resident blocks");
        }
    }

    /// A stop looks at no other bins.
    fn check_filled_bins(cache: &AllocationCache) {
        let has = |bin: &usize| cache.block(*bin).is_some() || cache.run(*bin).0 != 0;
        let filled: Vec<usize> = cache.filled_bins().collect();
        assert_eq!(
            (0..BINS).filter(has).find(|bin| !filled.contains(bin)),
            None,
            "a bin is filled, but not in the set"
        );
    }

    /// Runs the work of the thread, with the action in the window of this number. Returns false if there is no such window.
    fn play(from: From, fate: Fate, window: usize) -> bool {
        struct Gone;
        let scene = Scene::new();
        scene.prepare(from);
        let stage = Arc::clone(&scene);
        plan(window, scene.lock.clone(), move || {
            if matches!(fate, Fate::Stopped | Fate::StoppedThenLost) {
                stage.stop();
            }
            if fate != Fate::Stopped {
                resume_unwind(Box::new(Gone));
            }
        });
        let lost = catch_unwind(AssertUnwindSafe(|| scene.refill(&scene.thread, BIN)))
            .is_err_and(|panic| panic.is::<Gone>() || resume_unwind(panic));
        let was_there = has_happened();
        assert_eq!(lost, was_there && fate != Fate::Stopped);
        if !lost {
            (0..3).for_each(|_| scene.refill(&scene.thread, BIN));
        } else if fate == Fate::LostThenCollected {
            scene.collect(&[&scene.thread, &scene.other], |_| {});
            (0..4).for_each(|bin| scene.refill(&scene.other, bin));
        }
        scene.bury();
        scene.check();
        was_there
    }

    /// `.heap.reserve`, `.stop.fork`
    #[rstest::rstest]
    #[case::reserve(From::Reserve, Fate::Stopped, 10)]
    #[case::reserve(From::Reserve, Fate::Lost, 10)]
    #[case::reserve(From::Reserve, Fate::StoppedThenLost, 10)]
    #[case::reserve(From::Reserve, Fate::LostThenCollected, 10)]
    #[case::list(From::List, Fate::Lost, 3)]
    fn a_thread_that_is_lost_anywhere_has_each_block_once(
        #[case] from: From,
        #[case] fate: Fate,
        #[case] at_least: usize,
    ) {
        crate::sabotage::choose();
        let windows = (0..100).take_while(|window| play(from, fate, *window)).count();
        assert!((at_least..100).contains(&windows), "{windows} windows");
    }
}
