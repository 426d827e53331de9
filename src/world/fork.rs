//! Fork: the child has one thread and a list of many.
//!
//! `fork` copies the memory and the calling thread. Whatever lock another thread held is held for ever in the child,
//! and whatever thread the list names beside the caller does not exist. So before the fork the forking thread takes
//! all locks of all worlds (which waits for a collection that is under way), and after it
//!
//! * the parent lets them go;
//! * the child makes them free, gives its one thread its new id, and buries the others: the vtable hears that they exited,
//!   the facade that what they had is nobody's (`.stop.fork`), and that its service threads are gone (`.fork.services`).
//!
//! `vfork` and `posix_spawn` run no such functions and need none: their child only execs.
//!
//! ```text
//!   prepare:  list of worlds → for each world: collection → allocation → thread list → vtable → hooks
//!             → pool of records → installation of the handler → links of published worlds → recorder of events
//! ```

use std::sync::{Arc, OnceLock, Weak};

use crate::events::record;
use crate::os::{Tid, thread};
use crate::sabotage::{Guard, removed};
use crate::sync::{Lock, UnsafeCell};

use super::handler::{self, TABLE};
use super::inside;
use super::published;
use super::registry::{Threads, WorldHooks};
use super::stop_info::{self, ThreadStopInfo};
use super::vtable::ForkStep;

/// All worlds of the process, oldest first.
static WORLDS: Lock = Lock::new();
static LIST: Worlds = Worlds(UnsafeCell::new(State { worlds: Vec::new(), held: Vec::new(), forking: Tid(0) }));

struct State {
    worlds: Vec<Weak<Threads>>,
    /// Kept alive from prepare to the end of the fork.
    held: Vec<HeldWorld>,
    forking: Tid,
}

/// A world all of whose locks are held. Those whom `prepare` has asked are those who are told of the end: a world that is
/// being built gets its hooks at any moment, and one that goes loses them.
struct HeldWorld {
    threads: Arc<Threads>,
    hooks: Option<Arc<dyn WorldHooks>>,
}

struct Worlds(UnsafeCell<State>);

// SAFETY: only touched under `WORLDS`, or alone in a fork's child.
unsafe impl Sync for Worlds {}

fn with_state<R>(change: impl FnOnce(&mut State) -> R) -> R {
    LIST.0.with_mut(|state| {
        // SAFETY: callers hold `WORLDS`, or are the only thread; `change` does not come back here.
        change(unsafe { &mut *state })
    })
}

/// From now on forks take care of this world.
pub(super) fn enroll(threads: &Arc<Threads>) -> std::io::Result<()> {
    static REGISTERED: OnceLock<()> = OnceLock::new();
    if REGISTERED.get().is_none() {
        thread::at_fork(prepare, parent, child)?;
        if REGISTERED.set(()).is_err() {
            // Two first worlds at once: the functions run twice per fork, and the second time find nothing to do.
        }
    }
    // As blocking, here and below: the forking thread that has this lock may wait for a collection, which may have to stop us.
    let _held = threads.lock(&WORLDS);
    with_state(|state| state.worlds.push(Arc::downgrade(threads)));
    Ok(())
}

/// The world goes.
pub(super) fn dismiss(threads: &Threads) {
    // A world whose last owner goes inside a fork's own functions: the list is ours already, and is cleaned later.
    if WORLDS.is_mine() {
        return;
    }
    let _held = threads.lock(&WORLDS);
    with_state(|state| state.worlds.retain(|world| !std::ptr::eq(world.as_ptr(), threads)));
}

/// Calls `visit` with what each world's facade wants to hear, outside of all locks. In a fork's own functions with none.
pub(crate) fn each_world(visit: impl Fn(&dyn WorldHooks)) {
    if WORLDS.is_mine() {
        return;
    }
    let copy = || {
        let _held = WORLDS.lock();
        with_state(|state| state.worlds.iter().filter_map(Weak::upgrade).collect::<Vec<_>>())
    };
    let worlds = match handler::current() {
        Some(info) => info.blocking(copy),
        None => copy(),
    };
    // Their last owners, perhaps, when this ends.
    worlds.iter().filter_map(|threads| threads.hooks()).for_each(|hooks| visit(&*hooks));
}

/// Takes every lock.
unsafe extern "C" fn prepare() {
    if removed(Guard::StopFork) || WORLDS.is_mine() {
        return;
    }
    let me = handler::current();
    let wait = |lock: &Lock| match me {
        Some(info) => info.blocking(|| lock.acquire()),
        None => lock.acquire(),
    };
    wait(&WORLDS);
    with_state(|state| {
        state.forking = thread::gettid();
        state.worlds.retain(|world| world.strong_count() > 0);
        for threads in state.worlds.iter().filter_map(Weak::upgrade) {
            let locks = threads.locks();
            for lock in [&locks.collection, &locks.allocation, &locks.list] {
                wait(lock);
            }
            // SAFETY: this is the step.
            threads.vtable.latch().with(|vtable| unsafe { vtable.fork(ForkStep::Prepare) });
            let hooks = threads.hooks();
            if let Some(hooks) = &hooks {
                hooks.fork_prepare();
            }
            state.held.push(HeldWorld { threads, hooks });
        }
    });
    // Last: threads take these with a world's locks in their hands (attach needs a record).
    wait(stop_info::pool_lock());
    wait(handler::lock());
    wait(published::linking_lock());
    // Last of all: who waits for the recorder may hold any of the above, so who has the recorder waits for none of them.
    match me {
        Some(info) => info.blocking(record::before_fork),
        None => record::before_fork(),
    }
}

/// Lets every lock go.
unsafe extern "C" fn parent() {
    if removed(Guard::StopFork) || !WORLDS.is_mine() {
        return;
    }
    record::after_fork_in_parent();
    let held = with_state(|state| std::mem::take(&mut state.held));
    for HeldWorld { threads, hooks } in held.iter().rev() {
        if let Some(hooks) = hooks {
            hooks.fork_parent();
        }
        // SAFETY: this is the step.
        threads.vtable.latch().with(|vtable| unsafe { vtable.fork(ForkStep::Parent) });
        let locks = threads.locks();
        locks.list.release();
        locks.allocation.release();
        locks.collection.release();
    }
    published::linking_lock().release();
    handler::lock().release();
    stop_info::pool_lock().release();
    WORLDS.release();
    // Perhaps the last owners by now; they need the locks.
    drop(held);
}

/// Makes a whole world of what is left.
unsafe extern "C" fn child() {
    if removed(Guard::StopFork) {
        return;
    }
    thread::forget_ids();
    let (held, before) = with_state(|state| (std::mem::take(&mut state.held), state.forking));
    let now = thread::gettid();
    if before == Tid(0) || before == now {
        return;
    }
    // First: the worlds' own events ask it what is still recorded.
    record::after_fork_in_child();
    // SAFETY: null or a record, never unmapped.
    let survivor = unsafe { TABLE.find(before).as_ref() };
    for HeldWorld { threads, .. } in &held {
        threads.locks().reset_in_child();
        threads.handshake.reset_in_child();
        threads.forget_suspending();
    }
    handler::lock().reset_in_child();
    published::linking_lock().reset_in_child();
    stop_info::pool_lock().reset_in_child();
    inside::reset_in_child();
    if let Some(survivor) = survivor {
        rename(survivor, before, now);
    }
    for HeldWorld { threads, hooks } in &held {
        threads.left_alone(survivor, before, now);
        if let Some(hooks) = hooks {
            hooks.fork_child();
        }
    }
    with_state(|state| state.forking = Tid(0));
    WORLDS.reset_in_child();
    drop(held);
}

/// The surviving thread has a new id.
fn rename(survivor: &ThreadStopInfo, before: Tid, now: Tid) {
    TABLE.clear(before);
    survivor.tid.store(now.0, crate::sync::Ordering::Relaxed);
    survivor.state.survive_fork();
    survivor.pulse.begin();
    // Without the entry the child's thread could not be stopped by a signal; it fails only if 32 KiB can't be mapped.
    TABLE.set(now, std::ptr::from_ref(survivor).cast_mut()).expect("memory for one page of the thread table");
}

impl Threads {
    /// Buries every thread but the survivor.
    fn left_alone(&self, survivor: Option<&'static ThreadStopInfo>, before: Tid, now: Tid) {
        // SAFETY: this is the step.
        self.vtable.latch().with(|vtable| unsafe { vtable.fork(ForkStep::Child { before, now }) });
        let is_survivor = |info: &ThreadStopInfo| survivor.is_some_and(|survivor| std::ptr::eq(survivor, info));
        while let Some(info) = self.live_while_locked().iter().copied().find(|info| !is_survivor(info)) {
            self.bury(info);
        }
    }
}
