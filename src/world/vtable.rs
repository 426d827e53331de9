//! The mechanism that stops the world, as a replaceable value.
//!
//! In 2006 Mono's collector got a table of functions, so that the debugger could stop the threads its own way: a thread
//! at a breakpoint cannot run a signal handler, but its registers can be read and its stack pointer written into
//! the collector's record. Here the table is a trait, and can be swapped while the program runs.
//!
//! [`ThreadVtable`] has the contract between a vtable and the collector.

use crate::os::Tid;

use super::error::{FalseAnswer, StopError};
use super::published::{Phase, PublishedWorld};
use super::stop_info::{Slot, ThreadStopInfo};
use super::stop_request::StopRequest;

/// A mechanism that stops and starts the threads of a world. [`World::set_thread_vtable`](crate::World::set_thread_vtable)
/// installs one while the program runs.
///
/// [`SignalStopper`](crate::SignalStopper) and [`SafepointStopper`](crate::SafepointStopper) are built in. Another vtable can
/// wrap one of them:
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU32, Ordering};
/// use stopworld::{SignalStopper, StopError, StopRequest, ThreadStopInfo, ThreadVtable, World};
///
/// struct Counting { inner: SignalStopper, stops: AtomicU32 }
///
/// // SAFETY: `inner` stops the threads. Counting neither allocates nor takes a lock.
/// unsafe impl ThreadVtable for Counting {
///     fn name(&self) -> &'static str { "counting" }
///     fn stop_world(&self, stop: &StopRequest<'_>) -> Result<(), StopError> {
///         self.stops.fetch_add(1, Ordering::Relaxed);
///         self.inner.stop_world(stop)
///     }
///     fn start_world(&self, stop: &StopRequest<'_>) { self.inner.start_world(stop) }
///     fn handshake_signal(&self) -> Option<i32> { self.inner.handshake_signal() }
///     fn nudge(&self, thread: &ThreadStopInfo) { self.inner.nudge(thread) }
/// }
///
/// const SIGURG: i32 = 23; // the default suspend signal
/// let counting = Arc::new(Counting { inner: SignalStopper::new(SIGURG)?, stops: AtomicU32::new(0) });
/// let world = World::builder().build()?;
/// world.set_thread_vtable(counting.clone())?;
/// world.collect()?;
/// world.collect()?;
/// assert_eq!(counting.stops.load(Ordering::Relaxed), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # What a vtable guarantees
/// After [`stop_world`](Self::stop_world) has returned `Ok(())`, every thread of the request except the collecting one is
/// stopped, and its slot holds the lowest address of its live stack. All its registers, vector registers too, are in memory
/// between that address and the base of the stack, or in the record's save area.
///
/// [`start_world`](Self::start_world) restores exactly the earlier state: a thread that was already stopped for another reason
/// stays stopped (`.vtable.exact-restore`, `.vtable.nested`).
///
/// # What the collector guarantees
/// * The slots are 0 when `stop_world` is called, and are checked after it. If one is still 0 or points to no stack
///   of its thread, `start_world` is called and the stop fails with an error.
/// * The vtable that stopped the world is the one that starts it; a swap waits (`.vtable.swap`).
/// * `thread_created` is called under the allocation lock, before the thread can allocate (`.vtable.created-under-lock`);
///   `thread_exited` before the record is freed, also for threads that do not exist in a forked child
///   (`.vtable.exited-before-free`).
/// * In a swap, the outgoing vtable is first notified that all threads leave it; then the incoming one is notified of them,
///   both before the swap returns (`.vtable.attach`). The order matters, because the two may share data about threads.
///   Installing the vtable that is installed already changes nothing and notifies nothing.
/// * One vtable may be installed in several worlds, unless it refuses ([`enter_world`](Self::enter_world)).
///   Different threads may call it at the same time to stop different worlds.
///
/// # Safety
/// The collector frees memory based on the result of `stop_world`: after `Ok(())` no thread of the request may run until
/// `start_world`, and each slot must hold the lowest address of its thread's live stack. Neither the compiler nor the collector can check
/// this, so the trait is `unsafe`.
/// Neither function may allocate from malloc, print, panic, or take a lock that a stopped thread may hold (`.stop.no-malloc`).
///
/// All functions are called under locks of the world; `stop_world`, `start_world`, `still_holds` and most calls of `phase` are
/// called inside a collection. No function may allocate in the collected heap, make, read or drop a [`Root`](crate::Root),
/// attach or detach a thread, or call the [`World`](crate::World). In a collection and in a swap of vtables such a call prints
/// one line that names the function, and aborts the process (`.stop.no-mutator`). In other calls it may deadlock on a lock that
/// its own thread holds.
pub unsafe trait ThreadVtable: Send + Sync {
    /// Returns the vtable's name, for errors, reports and debuggers. Debuggers see at most 31 bytes.
    fn name(&self) -> &'static str;

    /// Stops all threads of the request except the collecting one, and fills their slots.
    ///
    /// # Errors
    /// The threads could not all be stopped. Before it returns an error, the vtable resumes every thread that it has stopped.
    fn stop_world(&self, stop: &StopRequest<'_>) -> Result<(), StopError>;

    /// Resumes the threads that `stop_world` has stopped. Also called if a slot was wrong after `stop_world` had returned `Ok`.
    fn start_world(&self, stop: &StopRequest<'_>);

    /// Returns how this vtable notifies threads, if it stops them with the world's own handshake as the built-in stoppers do:
    /// `Some(signal)`, or `Some(0)` if threads poll. `None`: it stops threads another way.
    fn handshake_signal(&self) -> Option<i32> {
        None
    }

    /// Returns whether this vtable requests stops from debuggers outside the process, and notifies them. Debuggers can read this.
    fn answers_debuggers(&self) -> bool {
        false
    }

    /// Returns whether this stop may freeze every thread of the process except the collecting one, the collector's own markers
    /// included. The collecting thread then marks alone and waits for no other thread.
    fn stops_whole_process(&self) -> bool {
        false
    }

    /// Returns whether the threads are still stopped. Called once, after marking and before anything is cleared or freed. If it
    /// returns `false`, for example because a debugger has died, the collection is discarded.
    fn still_holds(&self, stop: &StopRequest<'_>) -> bool {
        let _ = stop;
        true
    }

    /// Returns why [`still_holds`](Self::still_holds) returned `false`, if the reason is a debugger's false answer.
    fn false_answer(&self) -> Option<FalseAnswer> {
        None
    }

    /// Called when the vtable is about to be installed in this world, under the world's locks or before the world has threads. A
    /// vtable that can serve only one world refuses a second one.
    ///
    /// # Errors
    /// A text for the user: why the vtable refuses, and what to do instead.
    fn enter_world(&self, world: &PublishedWorld) -> Result<(), String> {
        let _ = world;
        Ok(())
    }

    /// Called when the vtable does not serve this world any more: once for each [`enter_world`](Self::enter_world) that
    /// succeeded.
    fn leave_world(&self, world: &PublishedWorld) {
        let _ = world;
    }

    /// Called when a thread is about to become a mutator: on that thread, under the allocation lock, before it can allocate.
    fn thread_created(&self, tid: Tid, slot: Slot) {
        let _ = (tid, slot);
    }

    /// Called when a thread stops being a mutator, before its record is freed: on that thread or, if it has ended without
    /// detaching, on another one.
    fn thread_exited(&self, tid: Tid, slot: Slot) {
        let _ = (tid, slot);
    }

    /// Called when the vtable has been installed, with the world's threads. Under the world's locks: meanwhile no thread attaches
    /// or detaches, and no stop begins. The default calls [`thread_created`](Self::thread_created) for each thread.
    fn add_all_threads(&self, threads: &[&'static ThreadStopInfo]) {
        for thread in threads {
            self.thread_created(thread.tid(), thread.slot());
        }
    }

    /// Called when the vtable has been replaced in the world of these threads. It must restore each of them to the state that it
    /// would have without the vtable, and must not touch threads of other worlds. The default calls
    /// [`thread_exited`](Self::thread_exited) for each thread.
    fn remove_all_threads(&self, threads: &[&'static ThreadStopInfo]) {
        for thread in threads {
            self.thread_exited(thread.tid(), thread.slot());
        }
    }

    /// Makes one thread check soon whether it must stop, if this vtable can: with a signal, for example. Used by
    /// [`World::suspend`](crate::World::suspend). The default does nothing.
    fn nudge(&self, thread: &ThreadStopInfo) {
        let _ = thread;
    }

    /// Called when a collection of the world has reached a phase: by the collecting thread, under the world's locks except at
    /// [`Phase::RestartEnd`].
    fn phase(&self, world: &PublishedWorld, phase: Phase) {
        let _ = (world, phase);
    }

    /// Returns the next event about a debugger outside the process, or `None` if there is no further one.
    fn debugger_news(&self) -> Option<DebuggerNews> {
        None
    }

    /// Called at each step of a fork, with all of the world's locks held: the vtable takes its own locks before the fork and
    /// releases them after it, in both processes.
    ///
    /// # Safety
    /// The process is at this step of a fork. Only the collector calls this, once for each step, or a vtable that wraps this one
    /// and is called in this way itself. (Implementations take and release locks without a guard.)
    unsafe fn fork(&self, step: ForkStep) {
        let _ = step;
    }
}

/// An event about a debugger outside the process. `control` is the control word, which the debugger writes to take over the
/// stopping of the process's worlds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DebuggerNews {
    /// A stop found a control word that was not there at the previous stop.
    Attached {
        /// The control word.
        control: u64,
    },
    /// The control word has been removed.
    Detached {
        /// The control word.
        control: u64,
    },
    /// No debugger responded to requests under the control word. The collector has removed the word, and stops the world without a
    /// debugger again.
    Lost {
        /// The control word.
        control: u64,
        /// The phase of the collection in which this was noticed.
        phase: Phase,
    },
}

/// A step of a fork, for [`ThreadVtable::fork`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForkStep {
    /// Before the fork: take the locks.
    Prepare,
    /// After the fork, in the parent: release the locks.
    Parent,
    /// After the fork, in the child: reset the locks to free. The only thread has a new id; `thread_exited` follows for the others.
    Child {
        /// The thread's id in the parent.
        before: Tid,
        /// The thread's id in the child.
        now: Tid,
    },
}
