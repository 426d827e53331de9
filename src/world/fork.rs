//! Fork: the child has one thread, but its copy of the thread list has the parent's threads.
//!
//! `fork` copies the memory, but only the calling thread exists in the child. A lock that another thread held would be held for
//! ever there. So before the fork the forking thread takes all locks of all worlds (and so waits for a running collection), and
//! after the fork
//!
//! * the parent releases the locks;
//! * the child resets the locks to free, stores the new id of its only thread, and removes the other threads. The vtable is notified
//!   that they exited, and the facade that they and its service threads do not exist any more (`.stop.fork`, `.fork.services`).
//!
//! `vfork` and `posix_spawn` do not run these functions and do not need them: their child only execs.
//!
//! ```text
//!   prepare:  list of worlds → for each world: collection → allocation → thread list → for each world: vtable → hooks
//!             → pool of records → installation of the handler → links of published worlds
//!             → list of loaded files → recorder of events
//! ```

use std::sync::{Arc, OnceLock, Weak};

use crate::events::record;
use crate::os::{Tid, callback, loaded, thread};
use crate::sabotage::{Guard, removed};
use crate::sync::{Lock, Locked};

use super::capabilities::ForkStep;
use super::handler::{self, TABLE};
use super::inside;
use super::published;
use super::registry::{Threads, WorldHooks};
use super::stop_info::{self, ThreadStopInfo};

/// All worlds of the process, oldest first.
static WORLDS: Locked<State> = Locked::new(State { worlds: Vec::new(), held: Vec::new(), forking: Tid(0) });

struct State {
    worlds: Vec<Weak<Threads>>,
    /// The worlds that are locked, kept alive from prepare to the end of the fork.
    held: Vec<HeldWorld>,
    forking: Tid,
}

/// A world all of whose locks are held, and the hooks that `prepare` called. The same hooks must be called after the fork. They are
/// stored here because the world's own may change meanwhile: a world that is being built gets its hooks at any moment, and a
/// world that is being dropped loses them.
struct HeldWorld {
    threads: Arc<Threads>,
    hooks: Option<Arc<dyn WorldHooks>>,
}

/// Registers the handlers of forks with libc, once.
pub(crate) fn register() -> std::io::Result<()> {
    static REGISTERED: OnceLock<()> = OnceLock::new();
    if REGISTERED.get().is_none() {
        // SAFETY: the functions may be called at these steps of a fork, on any thread.
        unsafe { thread::at_fork(prepare, parent, child) }?;
        if REGISTERED.set(()).is_err() {
            // If two threads build the first world at the same time, the functions are registered twice. They then run twice per fork, and
            // the second run finds nothing to do.
        }
    }
    Ok(())
}

/// Makes forks handle this world from now on.
pub(super) fn enroll(threads: &Arc<Threads>) -> std::io::Result<()> {
    register()?;
    // Here and below the thread waits for locks in a blocking region: the forking thread that holds this lock may wait for a
    // collection, which may have to stop this thread.
    WORLDS.get_mut(&mut threads.lock(WORLDS.lock())).worlds.push(Arc::downgrade(threads));
    Ok(())
}

/// Removes a world that is being dropped.
pub(super) fn dismiss(threads: &Threads) {
    // If the last reference to a world is dropped inside this module's fork functions, this thread holds the list already. The entry
    // is then removed later.
    if WORLDS.lock().is_mine() {
        return;
    }
    let mut held = threads.lock(WORLDS.lock());
    WORLDS.get_mut(&mut held).worlds.retain(|world| !std::ptr::eq(world.as_ptr(), threads));
}

/// Calls `visit` with the hooks of each world, without holding any lock. If the calling thread is inside this module's fork functions,
/// it visits none.
pub(crate) fn each_world(visit: impl Fn(&dyn WorldHooks)) {
    if WORLDS.lock().is_mine() {
        return;
    }
    let copy = || {
        let held = WORLDS.lock().lock();
        WORLDS.get(&held).worlds.iter().filter_map(Weak::upgrade).collect::<Vec<_>>()
    };
    let worlds = match handler::current() {
        Some(info) => info.blocking(copy),
        None => copy(),
    };
    // When this function returns, `worlds` may drop the last reference to a world.
    worlds.iter().filter_map(|threads| threads.hooks()).for_each(|hooks| visit(&*hooks));
}

/// Before a fork: takes every lock.
unsafe extern "C" fn prepare() {
    if removed(Guard::StopFork) || WORLDS.lock().is_mine() {
        return;
    }
    let me = handler::current();
    let wait = |lock: &Lock| match me {
        Some(info) => info.blocking(|| lock.acquire()),
        None => lock.acquire(),
    };
    wait(WORLDS.lock());
    // SAFETY: taken just now, and released at the end of `parent`.
    let mut worlds = unsafe { WORLDS.lock().assume_held() };
    let state = WORLDS.get_mut(&mut worlds);
    state.forking = thread::gettid();
    state.worlds.retain(|world| world.strong_count() > 0);
    for threads in state.worlds.iter().filter_map(Weak::upgrade) {
        let locks = threads.locks();
        for lock in [&locks.collection, &locks.allocation, &locks.list] {
            wait(lock);
        }
        let hooks = threads.hooks();
        state.held.push(HeldWorld { threads, hooks });
    }
    // The vtables' locks are taken after the locks of all worlds: two worlds may share a vtable, and a thread that waits for the
    // vtable's locks holds those of a world.
    for HeldWorld { threads, hooks } in &state.held {
        // SAFETY: the process is at this step of a fork.
        unsafe { threads.notify_fork(ForkStep::Prepare) };
        if let Some(hooks) = hooks {
            hooks.fork_prepare();
        }
    }
    // These locks follow, because threads take them while they hold a world's locks (attach needs a record).
    wait(stop_info::pool_lock());
    wait(handler::lock());
    wait(published::linking_lock());
    wait(loaded::lock());
    // The recorder's locks are last: a thread that waits for the recorder may hold any of the locks above, so a thread that holds the
    // recorder must not wait for them.
    match me {
        Some(info) => info.blocking(record::before_fork),
        None => record::before_fork(),
    }
}

/// After a fork, in the parent: releases every lock.
unsafe extern "C" fn parent() {
    if removed(Guard::StopFork) || !WORLDS.lock().is_mine() {
        return;
    }
    // SAFETY: ends what `prepare` has begun.
    unsafe { record::after_fork_in_parent() };
    // SAFETY: taken by this thread in `prepare`, and released below, when the guard is not used any more.
    let mut worlds = unsafe { WORLDS.lock().assume_held() };
    let held = std::mem::take(&mut WORLDS.get_mut(&mut worlds).held);
    for HeldWorld { threads, hooks } in held.iter().rev() {
        if let Some(hooks) = hooks {
            // SAFETY: as above.
            unsafe { hooks.fork_parent() };
        }
        // SAFETY: the process is at this step of a fork.
        unsafe { threads.notify_fork(ForkStep::Parent) };
        let locks = threads.locks();
        for lock in [&locks.list, &locks.allocation, &locks.collection] {
            // SAFETY: taken by this thread in `prepare`, without a guard.
            unsafe { lock.release() };
        }
    }
    for lock in [loaded::lock(), published::linking_lock(), handler::lock(), stop_info::pool_lock(), WORLDS.lock()] {
        // SAFETY: as above.
        unsafe { lock.release() };
    }
    // These may be the last references to their worlds by now. To drop a world needs the locks.
    drop(held);
}

/// After a fork, in the child: resets the locks, and leaves each world with the surviving thread only.
unsafe extern "C" fn child() {
    if removed(Guard::StopFork) {
        return;
    }
    thread::forget_ids();
    // SAFETY: this is the only thread of the process.
    let mut worlds = unsafe { WORLDS.lock().assume_held() };
    let state = WORLDS.get_mut(&mut worlds);
    let (held, before) = (std::mem::take(&mut state.held), std::mem::replace(&mut state.forking, Tid(0)));
    let now = thread::gettid();
    if before == Tid(0) || before == now {
        return;
    }
    // The recorder is first: the hooks below make each world's `Events` read from the recorder which events are still recorded.
    // SAFETY: the child's only thread; ends what `prepare` has begun.
    unsafe { record::after_fork_in_child() };
    // SAFETY: null or a record, never unmapped.
    let survivor = unsafe { TABLE.find(before).as_ref() };
    for HeldWorld { threads, .. } in &held {
        // SAFETY: this is the only thread of the process, and its locks were taken without guards.
        unsafe {
            threads.locks().reset_in_child();
            threads.forget_suspending();
        }
        threads.handshake.reset_in_child();
    }
    for lock in [handler::lock(), published::linking_lock(), stop_info::pool_lock()] {
        // SAFETY: as above.
        unsafe { lock.reset_in_child() };
    }
    // SAFETY: as above: taken in `prepare`, without a guard.
    unsafe { loaded::reset_in_child() };
    inside::reset_in_child();
    if let Some(survivor) = survivor {
        rename(survivor, before, now);
    }
    for HeldWorld { threads, hooks } in &held {
        threads.left_alone(survivor, before, now);
        if let Some(hooks) = hooks {
            // SAFETY: as above.
            unsafe { hooks.fork_child() };
        }
    }
    // SAFETY: as above; the guard is not used any more.
    unsafe { WORLDS.lock().reset_in_child() };
    drop(held);
}

/// Stores the new id of the surviving thread in its record.
fn rename(survivor: &ThreadStopInfo, before: Tid, now: Tid) {
    TABLE.clear(before);
    survivor.tid.store(now.0, crate::sync::Ordering::Relaxed);
    survivor.state.survive_fork();
    // SAFETY: records are never unmapped; its owner was this thread in the parent.
    unsafe { survivor.liveness.begin() };
    // Without the entry a signal could not stop the child's thread. This fails only if 32 KiB cannot be mapped.
    TABLE.set(now, std::ptr::from_ref(survivor).cast_mut()).expect("memory for one page of the thread table");
}

impl Threads {
    /// Notifies the vtable of a step of a fork.
    ///
    /// # Safety
    /// The process is at this step of a fork, and this is the only call for this step and world.
    unsafe fn notify_fork(&self, step: ForkStep) {
        self.vtable.latch().with(|vtable| {
            if let Some(vtable) = vtable.at_fork() {
                // SAFETY: the caller's promise.
                callback::call(|| unsafe { vtable.fork(step) });
            }
        });
    }

    /// Removes every thread except the survivor.
    fn left_alone(&self, survivor: Option<&'static ThreadStopInfo>, before: Tid, now: Tid) {
        // SAFETY: the process is at this step of a fork.
        unsafe { self.notify_fork(ForkStep::Child { before, now }) };
        let is_survivor = |info: &ThreadStopInfo| survivor.is_some_and(|survivor| std::ptr::eq(survivor, info));
        // The locks are free: the child has no other thread.
        let mut locks = self.locks.all();
        while let Some(info) = self.live(&locks.list).iter().copied().find(|info| !is_survivor(info)) {
            self.remove_ended_thread(&mut locks, info);
        }
    }
}
