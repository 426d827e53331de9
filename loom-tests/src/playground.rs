//! A world for the models: the shipped protocol, with threads that have a heap of one cell each.
//!
//! The models check that no thread accesses data that it must not. So the data that a stopped world shares without atomics
//! is in loom cells here, and loom reports every access that the protocol does not order:
//!
//! * `heap`: a thread's collected memory. The thread writes it while it runs, the collector while the world is stopped.
//! * `locals`: data that only the thread writes. The user of a debugger reads it while the debugger holds the thread.
//! * `published`: the data that a thread publishes for the collector before it acknowledges (`stack_ptr` and the rest).
//! * `listed`: the thread list, under its lock.

use std::ops::Deref;

use std::sync::Arc;

use crate::checker::thread;
use crate::kernel::{self, Kernel};
use crate::sync::UnsafeCell;
use crate::sync::lock::Patience;
use crate::world::handshake::{Abandoned, Handshake, HandshakeState, HoldOutcome, Holder, Parked, StopState};
use crate::world::locks::{StopLocks, WorldLocks};

/// How running threads are notified that they are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stopper {
    /// By a signal, at any step.
    Signals,
    /// Threads are not notified: they check at safepoints.
    Safepoints,
}

/// The code that wrote `published`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Published {
    /// The data are stale, because the thread has resumed since.
    Nothing,
    /// The thread's signal handler.
    Handler,
    /// A safepoint.
    Safepoint,
    /// The entry to a blocking region.
    Region,
}

/// A thread of the world.
pub(crate) struct Thread {
    pub(crate) tid: u32,
    pub(crate) state: StopState,
    pub(crate) heap: UnsafeCell<u32>,
    locals: UnsafeCell<u32>,
    published: UnsafeCell<Published>,
}

/// The world.
pub(crate) struct World {
    pub(crate) locks: WorldLocks,
    pub(crate) handshake: Handshake,
    pub(crate) threads: Vec<Thread>,
    stopper: Stopper,
    listed: UnsafeCell<Vec<bool>>,
    kernel: Arc<Kernel>,
}

// SAFETY: all data that is not Sync is in loom cells, and loom reports unordered accesses to them.
unsafe impl Sync for World {}
// SAFETY: as above.
unsafe impl Send for World {}

/// Waits without a time limit.
pub(crate) struct Forever;

impl Patience for Forever {
    fn slice(&mut self, wait: &mut dyn FnMut(u64)) -> bool {
        wait(u64::MAX);
        true
    }
}

/// Waits for this many slices.
pub(crate) struct Slices(pub(crate) usize);

impl Patience for Slices {
    fn slice(&mut self, wait: &mut dyn FnMut(u64)) -> bool {
        if self.0 == 0 {
            return false;
        }
        self.0 -= 1;
        wait(1);
        true
    }
}

/// The world of one execution; every thread of the model has a clone.
#[derive(Clone)]
pub(crate) struct Playground(Arc<World>);

impl Deref for Playground {
    type Target = World;

    fn deref(&self) -> &World {
        &self.0
    }
}

impl Playground {
    /// Creates a world with room for `mutators` threads, of which the first `attached` threads are attached already, on a machine with
    /// `others` more threads (including the calling thread, which is number 1).
    pub(crate) fn new(stopper: Stopper, others: u32, mutators: u32, attached: usize) -> Self {
        let kernel = Kernel::boot(others + mutators);
        let thread = |i| Thread {
            tid: others + 1 + i,
            state: StopState::new(),
            heap: UnsafeCell::new(0),
            locals: UnsafeCell::new(0),
            published: UnsafeCell::new(Published::Nothing),
        };
        let threads: Vec<Thread> = (0..mutators).map(thread).collect();
        threads[..attached].iter().for_each(|t| t.state.attach());
        let listed = (0..threads.len()).map(|i| i < attached).collect();
        Self(Arc::new(World {
            locks: WorldLocks::new(),
            handshake: Handshake::new(),
            threads,
            stopper,
            listed: UnsafeCell::new(listed),
            kernel,
        }))
    }

    /// Runs mutator `i`, with the signal handler installed.
    pub(crate) fn mutator(&self, i: usize, body: impl FnOnce(&Playground) + Send + 'static) -> thread::JoinHandle<()> {
        let world = self.clone();
        self.kernel.spawn(self.threads[i].tid, move || {
            if world.stopper == Stopper::Signals {
                let inner = world.clone();
                kernel::on_signal(move || inner.handler(i));
            }
            body(&world);
        })
    }

    /// Runs a thread that is not a mutator.
    pub(crate) fn other(&self, tid: u32, body: impl FnOnce(&Playground) + Send + 'static) -> thread::JoinHandle<()> {
        let world = self.clone();
        self.kernel.spawn(tid, move || body(&world))
    }
}

impl World {
    // ---- the actions of mutator `i`

    fn publish(&self, i: usize, what: Published) {
        self.threads[i].published.with_mut(|p| {
            // SAFETY: loom reports every concurrent access.
            unsafe { *p = what };
        });
    }

    fn ran_on(&self, i: usize, parked: Parked) {
        if parked == Parked::Yes {
            self.publish(i, Published::Nothing);
        }
    }

    /// Does what the suspend signal's handler does.
    fn handler(&self, i: usize) {
        let parked = self.threads[i].state.park_if_held(&self.handshake, || self.publish(i, Published::Handler));
        self.ran_on(i, parked);
    }

    /// Executes a safepoint.
    pub(crate) fn safepoint(&self, i: usize) {
        let state = &self.threads[i].state;
        if state.is_held() {
            let parked = state.park_if_held(&self.handshake, || self.publish(i, Published::Safepoint));
            self.ran_on(i, parked);
        }
    }

    /// Accesses collected memory and locals.
    pub(crate) fn work(&self, i: usize) {
        for cell in [&self.threads[i].heap, &self.threads[i].locals] {
            cell.with_mut(|value| {
                // SAFETY: loom reports every concurrent access.
                unsafe { *value += 1 };
            });
        }
        kernel::interrupt_point();
    }

    /// Enters a blocking region.
    pub(crate) fn block(&self, i: usize) {
        self.threads[i].state.enter_blocking(&self.handshake, || self.publish(i, Published::Region));
    }

    /// Leaves the blocking region.
    pub(crate) fn unblock(&self, i: usize) {
        let parked = self.threads[i].state.leave_blocking();
        self.ran_on(i, parked);
    }

    /// Takes the locks for a stop by mutator `i`.
    pub(crate) fn locks_by(&self, i: usize) -> StopLocks<'_> {
        self.locks.for_stop(|take| self.blocking_until(i, take), &mut Forever).expect("Forever does not give up")
    }

    /// Waits in `take` inside a blocking region. Returns its result after leaving the region.
    pub(crate) fn blocking_until<R>(&self, i: usize, mut take: impl FnMut() -> R) -> R {
        loop {
            self.block(i);
            let taken = take();
            if self.threads[i].state.try_leave_blocking() {
                return taken;
            }
            drop(taken);
            self.unblock(i);
        }
    }

    /// Takes the locks for a stop that is made by a thread that is not a mutator.
    pub(crate) fn locks_by_stranger(&self) -> StopLocks<'_> {
        self.locks.for_stop(|take| take(), &mut Forever).expect("Forever does not give up")
    }

    /// Adds the thread to the list, or removes it. The shipped code that calls this must hold the list lock.
    pub(crate) fn list(&self, i: usize, listed: bool) {
        self.listed.with_mut(|l| {
            // SAFETY: loom reports every concurrent access.
            unsafe { (&mut *l)[i] = listed };
        });
    }

    // ---- the actions of a stop

    /// Returns whether the thread is on the list.
    pub(crate) fn is_listed(&self, i: usize) -> bool {
        self.listed.with(|l| {
            // SAFETY: loom reports every concurrent write.
            unsafe { (&*l)[i] }
        })
    }

    fn each_other(&self, me: Option<usize>) -> Vec<usize> {
        let listed = self.listed.with(|l| {
            // SAFETY: loom reports every concurrent write.
            unsafe { (*l).clone() }
        });
        (0..self.threads.len()).filter(|i| listed[*i] && Some(*i) != me).collect()
    }

    /// Holds each thread except `me`, and signals those that run.
    pub(crate) fn request_stop(&self, holder: Holder, me: Option<usize>) {
        let others = self.each_other(me);
        let epoch = self.handshake.begin(holder, others.len() as u32);
        let mut satisfied = 0;
        for i in others {
            match self.threads[i].state.hold(holder, epoch) {
                HoldOutcome::MustPark if self.stopper == Stopper::Signals => self.kernel.signal(self.threads[i].tid),
                HoldOutcome::MustPark => {}
                HoldOutcome::Already => satisfied += 1,
            }
        }
        self.handshake.satisfied(holder, epoch, satisfied);
    }

    /// Stops all threads except `me`.
    pub(crate) fn stop(&self, holder: Holder, me: Option<usize>) {
        self.request_stop(holder, me);
        while self.handshake.wait_slice(holder, u64::MAX) != 0 {}
    }

    /// Accesses the stopped threads as a collection does: reads the data they published, and writes their memory.
    pub(crate) fn mark(&self, me: Option<usize>) {
        for i in self.each_other(me) {
            let thread = &self.threads[i];
            // SAFETY: loom reports every concurrent write.
            let published = thread.published.with(|p| unsafe { *p });
            assert_ne!(published, Published::Nothing, "a stopped thread has published nothing");
            if thread.state.handshake_state() == HandshakeState::Blocking {
                assert_eq!(
                    published,
                    Published::Region,
                    "a blocking thread has published a frame that no longer exists"
                );
            }
            // SAFETY: loom reports every concurrent access.
            thread.heap.with_mut(|h| unsafe { *h += 100 });
        }
    }

    /// Accesses a held thread as a user does: reads its locals.
    pub(crate) fn look(&self, i: usize) -> u32 {
        self.threads[i].locals.with(|value| {
            // SAFETY: loom reports every concurrent write.
            unsafe { *value }
        })
    }

    /// Releases all threads except `me`.
    pub(crate) fn start(&self, holder: Holder, me: Option<usize>) {
        for i in self.each_other(me) {
            self.threads[i].state.release(holder);
        }
    }

    /// Ends a stop that has timed out. Returns true if all threads have stopped in the meantime; otherwise releases all of them.
    pub(crate) fn give_up(&self, holder: Holder) -> bool {
        self.handshake.close(holder);
        let others = self.each_other(None);
        let silent = others.iter().filter(|i| self.threads[**i].state.take_back(holder) == Abandoned::Unanswered);
        let all_stopped = silent.count() == 0;
        if !all_stopped {
            self.start(holder, None);
        }
        all_stopped
    }

    /// Collects on a thread that holds the necessary locks: stop, mark, start.
    pub(crate) fn collect(&self, me: Option<usize>) {
        self.stop(Holder::Collection, me);
        self.mark(me);
        self.start(Holder::Collection, me);
    }
}
