//! What a thread vtable can do besides stopping and starting.
//!
//! A stopper needs none of this. A vtable that has a capability returns it from the function of the same name in
//! [`ThreadVtable`](crate::ThreadVtable), and implements all of its functions.
//!
//! | capability | called | without it |
//! |---|---|---|
//! | [`RevocableStop`] | in the stop, after marking | the stop holds until its start |
//! | [`ByHandshake`] | by `World::suspend`, and by a debugger bridge around the vtable | a suspended thread stops at its next safepoint |
//! | [`AtInstall`] | before the vtable is installed, and after it was removed | it serves any number of worlds |
//! | [`AtSwap`] | when the vtable was installed in a running world, or removed from it | each thread is created or exits |
//! | [`AtPhase`] | when a collection has reached a phase | nothing |
//! | [`DebuggerClient`] | when a vtable was installed, and in each collection | debuggers read that the world sends no requests |
//! | [`AtFork`] | at each step of a fork | nothing: the vtable has no locks |
//!
//! # Safe and unsafe capabilities
//!
//! [`RevocableStop`] is `unsafe` to implement: the collector frees memory if it answers that the stop still holds. The other
//! traits are safe. Their answers decide nothing about memory, and code that they call cannot damage the heap: the collector
//! calls them as callbacks. A callback that uses the heap, attaches a thread or calls the [`World`](crate::World) ends the
//! process with one line that names the function, and so does a panic (`.stop.no-mutator`). The locks of the world are held, and
//! in the stop a stopped thread may hold any other lock. So a callback that waits for a lock may wait for ever. In the stop it
//! must not allocate from malloc, print, or panic either: the panic's message is printed under a lock of the standard library,
//! and if a stopped thread holds that lock, the process hangs instead of ending.

use crate::os::Tid;

use super::error::FalseAnswer;
use super::published::{Phase, PublishedWorld};
use super::stop_info::ThreadStopInfo;
use super::stop_request::StopRequest;

/// A stop that another party upholds, for example a debugger, and so may end before `start_world`.
///
/// # Safety
/// If [`still_holds`](Self::still_holds) returns `Ok(())`, no thread of the request has run since `stop_world`, and none will run
/// until `start_world`. The collector then clears weak references and frees memory.
///
/// Both functions are called in the stop. They must not allocate from malloc, print, panic, or take a lock that a stopped thread
/// may hold (`.stop.no-malloc`).
pub unsafe trait RevocableStop {
    /// Returns whether the threads are still stopped. Called once, after marking and before anything is cleared or freed. If it
    /// returns an error, the collection is discarded.
    ///
    /// # Errors
    /// The stop was lost: some thread may have run.
    fn still_holds(&self, stop: &StopRequest<'_>) -> Result<(), LostStop>;

    /// Returns whether this stop may freeze every thread of the process except the collecting one, the collector's own markers
    /// included. The collecting thread then marks alone and waits for no other thread.
    fn stops_whole_process(&self) -> bool;
}

/// Why a stop did not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostStop {
    /// The threads were resumed, for example because the debugger that held them has died.
    Released,
    /// A debugger claimed to hold a thread, and did not.
    FalseAnswer(FalseAnswer),
}

/// A stopper that stops threads with the world's own handshake, as the built-in ones do.
///
/// A [`DebuggerBridge`](crate::debugger::bridge::DebuggerBridge) around such a stopper stops the world itself, by the same handshake, so
/// that a debugger can take part.
pub trait ByHandshake {
    /// Returns the signal that makes a thread look at its handshake; `None` if threads poll.
    fn signal(&self) -> Option<i32>;

    /// Makes one thread check soon whether it must stop: with the signal, for example. Called by
    /// [`World::suspend`](crate::World::suspend), repeatedly until the thread has stopped.
    fn request_check(&self, thread: &ThreadStopInfo);
}

/// A vtable that keeps data about its worlds, or that refuses some of them.
pub trait AtInstall {
    /// Called when the vtable is about to be installed in this world, under the world's locks or before the world has threads. A
    /// vtable that can serve only one world refuses a second one.
    ///
    /// # Errors
    /// A text for the user: why the vtable refuses, and what to do instead.
    fn enter_world(&self, world: &PublishedWorld) -> Result<(), String>;

    /// Called when the vtable does not serve this world any more: once for each [`enter_world`](Self::enter_world) that
    /// succeeded.
    fn leave_world(&self, world: &PublishedWorld);
}

/// A vtable that treats the threads of a swap differently from threads that attach or detach one by one. Without this capability,
/// the collector calls `thread_created` or `thread_exited` for each thread.
pub trait AtSwap {
    /// Called when the vtable has been installed, with the world's threads. Under the world's locks: meanwhile no thread attaches
    /// or detaches, and no stop begins.
    fn add_all_threads(&self, threads: &[&'static ThreadStopInfo]);

    /// Called when the vtable has been replaced in the world of these threads. It must restore each of them to the state that it
    /// would have without the vtable, and must not touch threads of other worlds.
    fn remove_all_threads(&self, threads: &[&'static ThreadStopInfo]);
}

/// A vtable that follows the phases of collections.
pub trait AtPhase {
    /// Called when a collection of the world has reached a phase: by the collecting thread, under the world's locks except at
    /// [`Phase::RestartEnd`], in the stop from [`Phase::SuspendEnd`] to [`Phase::RestartBegin`].
    fn phase(&self, world: &PublishedWorld, phase: Phase);
}

/// A vtable that requests stops from debuggers outside the process, and notifies them. Debuggers can read whether the installed
/// vtable has this capability.
pub trait DebuggerClient {
    /// Returns the next event about a debugger outside the process, or `None` if there is no further one. Called until it
    /// returns `None`.
    fn news(&self) -> Option<DebuggerNews>;
}

/// A vtable with locks, or with data about the process, which a fork must not copy in the middle of a change.
pub trait AtFork {
    /// Called at each step of a fork, with all of the world's locks held: the vtable takes its own locks before the fork and
    /// releases them after it, in both processes.
    ///
    /// # Safety
    /// The process is at this step of a fork. Only the collector calls this, once for each step; a vtable that wraps this one may
    /// pass on the calls that it receives from the collector. (Implementations take and release locks without a guard.)
    unsafe fn fork(&self, step: ForkStep);
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

/// A step of a fork, for [`AtFork::fork`].
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
