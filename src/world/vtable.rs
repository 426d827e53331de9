//! The mechanism that stops the world, as a replaceable value.
//!
//! In 2006 Mono's collector got a table of functions, so that the debugger could stop the threads its own way: a thread
//! at a breakpoint cannot run a signal handler, but its registers can be read and its stack pointer written into
//! the collector's record. Here the table is a trait, and can be swapped while the program runs.
//!
//! [`ThreadVtable`] has the contract between a vtable and the collector.

use crate::os::Tid;

use super::capabilities::{AtFork, AtInstall, AtPhase, AtSwap, ByHandshake, DebuggerClient, RevocableStop};
use super::error::StopError;
use super::stop_info::Slot;
use super::stop_request::StopRequest;

/// A mechanism that stops and starts the threads of a world. [`World::set_thread_vtable`](crate::World::set_thread_vtable)
/// installs one while the program runs.
///
/// The duty of a vtable is [`stop_world`](Self::stop_world), [`start_world`](Self::start_world), and to be notified of the
/// threads to stop: [`thread_created`](Self::thread_created) and [`thread_exited`](Self::thread_exited), which are empty for a
/// stopper that keeps no data about threads. Everything else is a capability: a trait of its own, and a function here that
/// returns it if the vtable has it. No stopper needs one.
///
/// [`SignalStopper`](crate::SignalStopper) and [`SafepointStopper`](crate::SafepointStopper) are built in. Another vtable can
/// wrap one of them. It passes on the capabilities that the wrapped one has:
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU32, Ordering};
/// use stopworld::{ByHandshake, SignalStopper, Slot, StopError, StopRequest, ThreadVtable, Tid, World};
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
///     fn thread_created(&self, tid: Tid, slot: Slot) { self.inner.thread_created(tid, slot) }
///     fn thread_exited(&self, tid: Tid, slot: Slot) { self.inner.thread_exited(tid, slot) }
///     fn by_handshake(&self) -> Option<&dyn ByHandshake> { self.inner.by_handshake() }
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
/// * One vtable may be installed in several worlds, unless it refuses ([`AtInstall`]). Different threads may call it at the same
///   time to stop different worlds.
///
/// # Safety
/// The collector frees memory based on the result of `stop_world`: after `Ok(())` no thread of the request may run until
/// `start_world`, or until a [`RevocableStop`] reports that the stop is lost; and each slot must hold the lowest address of its
/// thread's live stack. Neither the compiler nor the collector can check this, so the trait is `unsafe`. Neither function may
/// allocate from malloc, print, panic, or take a lock that a stopped thread may hold (`.stop.no-malloc`). The same holds for
/// functions that return a capability: they are called in the stop, too.
///
/// All functions are called under locks of the world; `stop_world` and `start_world` are called inside a collection. No
/// function may allocate in the collected heap, make, read or drop a [`Root`](crate::Root), attach or detach a thread, or call
/// the [`World`](crate::World). In a collection and in a swap of vtables such a call prints one line that names the function,
/// and aborts the process (`.stop.no-mutator`). In `thread_created` and `thread_exited` it may deadlock on a lock that its own
/// thread holds.
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

    /// Called when a thread is about to become a mutator: on that thread, under the allocation lock, before it can allocate. In a
    /// swap, called for each thread of the world by the thread that swaps, unless the vtable has [`AtSwap`].
    fn thread_created(&self, tid: Tid, slot: Slot);

    /// Called when a thread stops being a mutator, before its record is freed: on that thread or, if it has ended without
    /// detaching, on another one. In a swap as [`thread_created`](Self::thread_created).
    fn thread_exited(&self, tid: Tid, slot: Slot);

    /// Returns the check whether a stop still holds, for a vtable whose stops may end before `start_world`.
    fn revocable_stop(&self) -> Option<&dyn RevocableStop> {
        None
    }

    /// Returns the handshake's part, if this vtable stops threads with the world's own handshake.
    fn by_handshake(&self) -> Option<&dyn ByHandshake> {
        None
    }

    /// Returns the notifications of the worlds in which this vtable is installed.
    fn at_install(&self) -> Option<&dyn AtInstall> {
        None
    }

    /// Returns the notifications of a swap, which replace those of each thread.
    fn at_swap(&self) -> Option<&dyn AtSwap> {
        None
    }

    /// Returns the observer of phases. Called at each phase of a collection: a vtable may return `None` as long as there is
    /// nothing to notify.
    fn at_phase(&self) -> Option<&dyn AtPhase> {
        None
    }

    /// Returns the events about debuggers outside the process, if this vtable requests stops from them.
    fn debugger_client(&self) -> Option<&dyn DebuggerClient> {
        None
    }

    /// Returns the steps of a fork.
    fn at_fork(&self) -> Option<&dyn AtFork> {
        None
    }
}
