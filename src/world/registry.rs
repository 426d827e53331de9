//! The threads of a world: attach, detach, the list, and threads that end without detaching.
//!
//! # The interface
//!
//! [`Threads`] is the part of a world that manages threads. The facade calls [`attach`](Threads::attach) and
//! [`detach`](Threads::detach), which take the allocation and the thread list lock themselves and notify the vtable.
//! The collector calls [`lock_for_stop`](Threads::lock_for_stop), then [`stop`](Threads::stop), which returns a
//! [`StoppedWorld`](super::stop::StoppedWorld) with all functions that may be called inside the stop. Dropping it starts the world.
//! The functions that a thread calls for itself (`safepoint`, `blocking`, `with_own_stack`) are methods of its record, in
//! `region.rs`.
//!
//! # Three hazards
//!
//! * `.stop.create-race`: a thread becomes visible to stops and gets permission to run in one step under the list lock, which
//!   a stop holds from its first signal to its end. A thread that has been cloned and is not attached yet
//!   holds no reference.
//! * `.stop.exit-race`: threads detach under the same lock, so a stop finds each thread either attached or detached. A thread that
//!   ends without having detached is detached by a destructor that libc runs on it. If a thread ends without running its
//!   destructors (by a raw `exit` system call), a signal to it fails with ESRCH, or its liveness mutex shows the end if it was in a
//!   blocking region; its record is freed after the stop (`.stop.silent-death`).
//! * `.stop.two-collectors`: a thread that waits for one of the world's locks counts as blocking meanwhile. So the collection for
//!   which it waits need not wait for it.

use std::sync::{Arc, OnceLock, Weak};

use crate::events::record;
use crate::os::callback::{self, Callback};
use crate::os::clock::Budget;
use crate::os::thread::{self, ExitKey, StackBounds};
use crate::os::{Tid, signals};
use crate::sabotage::{Guard, removed};
use crate::sync::{AtomicBool, AtomicU64, AtomicUsize, Guarded, Lock, LockGuard, Ordering, compiler_fence};

use super::capabilities::{AtInstall, DebuggerNews};
use super::error::{AttachError, StopAttempts, StopError};
use super::handler::{self, TABLE};
use super::handshake::{Abandoned, Handshake, HandshakeState, HoldOutcome, Holder};
use super::inside;
use super::latch::{Latch, StillInUse};
use super::locks::{StopLocks, WorldLocks};
use super::name::ThreadName;
use super::published::{Phase, PublishedWorld};
use super::region::OwnStack;
use super::stacks::{ForeignStacks, RegisteredStack};
use super::stop_info::{self, Chunk, MAIN_THREAD, ThreadStopInfo, WAS_BLOCKED};
use super::vtable::ThreadVtable;

/// How a thread waits for the event recorder: in a blocking region, if it is a mutator outside the stop. It does not wait in the
/// stopped world (`.event.no-block-in-handler`), nor after an allocation whose event it has not fired yet: no stop may happen between
/// the two (`.event.objects`).
pub(super) static SURROUNDINGS: record::Surroundings = record::Surroundings {
    may_wait: || !inside::may_be_inside() && handler::current().is_none_or(|info| !info.is_undisturbed()),
    as_blocking: |wait| match handler::current() {
        Some(info) if info.state.handshake_state() == HandshakeState::Running => info.blocking(wait),
        _ => wait(),
    },
};

/// A shared vtable.
pub(crate) type Vtable = Arc<dyn ThreadVtable>;

/// The callbacks with which the facade is notified of its threads and of forks.
pub(crate) trait WorldHooks: Send + Sync {
    /// Called on a thread that ends without having detached. Must end with [`Threads::detach`].
    fn thread_exits(&self, threads: &Threads, info: &'static ThreadStopInfo);

    /// Called for a thread that no longer exists: it is not in the child of a fork, or it ended without detaching. No thread uses the
    /// structure of `info.user()` any more. Called outside the stop, with all three locks held; `allocation` is the guard of the
    /// allocation lock.
    fn thread_lost(&self, info: &'static ThreadStopInfo, allocation: &LockGuard<'_>) {
        let _ = (info, allocation);
    }

    /// Called when a cost centre of this number was defined, in the process and so in every world.
    fn centre_defined(&self, number: u32) {
        let _ = number;
    }

    /// Called before this process forks, with all three locks held.
    fn fork_prepare(&self) {}

    /// Called in the parent after the fork, or after it failed, before the locks are released.
    ///
    /// # Safety
    /// This thread has called [`fork_prepare`](Self::fork_prepare), and neither of the two other functions since.
    unsafe fn fork_parent(&self) {}

    /// Called in the child after the fork, which has one thread, free locks, and no service threads (`.fork.services`).
    ///
    /// # Safety
    /// This thread has called [`fork_prepare`](Self::fork_prepare) before the fork, and is the only thread of the process.
    unsafe fn fork_child(&self) {}
}

/// The threads of one world. See the module's text.
pub(crate) struct Threads {
    pub(super) locks: WorldLocks,
    pub(super) handshake: Handshake,
    pub(super) vtable: Latch<Vtable>,
    /// The vtable that the world was built with, which needs no debugger.
    pub(super) built_in: Vtable,
    pub(super) epoch: AtomicU64,
    /// Held while a single thread is suspended: suspensions are made one at a time.
    pub(super) suspending: Lock,
    /// Guarded by the thread list lock.
    pub(super) roster: Guarded<Roster>,
    /// Guarded by the thread list lock. Changed only while none of the world's other locks is held, so that a debugger's request may
    /// read them while a collecting thread holds the list lock.
    pub(super) stacks: Guarded<Vec<RegisteredStack>>,
    /// Address and length of `stacks`, for a reader outside the process.
    pub(super) stack_list: [AtomicUsize; 2],
    pub(super) hooks: OnceLock<Weak<dyn WorldHooks>>,
    pub(super) closed: AtomicBool,
    pub(super) next_stack: AtomicU64,
    /// The stacks that only the program knows.
    pub(super) foreign: OnceLock<Arc<dyn ForeignStacks>>,
    /// The part that debuggers read.
    pub(super) published: PublishedWorld,
}

#[derive(Default)]
pub(super) struct Roster {
    live: Vec<&'static ThreadStopInfo>,
    free: Vec<&'static ThreadStopInfo>,
    pub(super) chunks: Vec<Chunk>,
}

// A panic leaves no incomplete state here: guards release the locks, and a stop that unwinds starts the world.
impl std::panic::RefUnwindSafe for Threads {}

impl Threads {
    /// Sets the facade's callbacks. Called once, before the first attach.
    pub(crate) fn set_hooks(&self, hooks: Weak<dyn WorldHooks>) {
        let _ = self.hooks.set(hooks);
    }

    /// Sets how the ends of unknown stacks are found. Called once, before the first attach.
    pub(crate) fn set_foreign(&self, stacks: Arc<dyn ForeignStacks>) {
        let _ = self.foreign.set(stacks);
    }

    pub(super) fn foreign(&self) -> Option<&dyn ForeignStacks> {
        self.foreign.get().map(|stacks| &**stacks)
    }

    pub(super) fn hooks(&self) -> Option<Arc<dyn WorldHooks>> {
        self.hooks.get().and_then(Weak::upgrade)
    }

    /// Returns the world's locks: collection → allocation → thread list.
    pub(crate) fn locks(&self) -> &WorldLocks {
        &self.locks
    }

    /// Returns the part of the world that debuggers read.
    pub(crate) fn published(&self) -> &PublishedWorld {
        &self.published
    }

    /// Publishes to debuggers that a collection has reached this phase, and notifies the vtable.
    pub(crate) fn enter_phase(&self, phase: Phase) {
        self.published.set_phase(phase);
        self.notify_phase(phase);
    }

    /// Notifies the vtable that a collection has reached this phase, without publishing it. For the last phase: by then another collection
    /// may have begun and published its own phase.
    pub(crate) fn notify_phase(&self, phase: Phase) {
        let notify = |vtable: &Vtable| {
            if let Some(observer) = vtable.at_phase() {
                observer.phase(&self.published, phase);
            }
        };
        self.vtable.latch().with(|vtable| callback::call(|| notify(vtable)));
    }

    /// Returns the vtable's next event about a debugger.
    pub(crate) fn debugger_news(&self) -> Option<DebuggerNews> {
        self.vtable.latch().with(|vtable| vtable.debugger_client().and_then(|client| callback::call(|| client.news())))
    }

    /// Publishes to debuggers which vtable stops the world.
    pub(super) fn publish_vtable(&self) {
        self.vtable
            .latch()
            .with(|vtable| self.published.set_stopper(vtable.name(), vtable.debugger_client().is_some()));
    }

    /// Returns the suspend signal, for diagnoses; 0 if the process has none.
    pub(super) fn signal(&self) -> i32 {
        handler::installed().unwrap_or(0)
    }

    /// Makes further attaches fail.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    /// Attaches the calling thread to the world. Takes the allocation and the list lock, and notifies the vtable before it
    /// returns. The suspend signal is unblocked in this thread until it detaches.
    pub(crate) fn attach(self: &Arc<Self>, name: &str) -> Result<&'static ThreadStopInfo, AttachError> {
        if self.closed.load(Ordering::Relaxed) {
            return Err(AttachError::Closed);
        }
        let key = exit_key()?;
        let tid = thread::gettid();
        if let Some(info) = handler::current() {
            if !key.get().is_null() {
                return Err(AttachError::AlreadyAttached { name: info.name() });
            }
            // This is the entry of a thread that ended without detaching, and whose id the kernel has given to this thread.
            info.gone.store(1, Ordering::Relaxed);
        }
        let stack = thread::current_stack()?;
        let alternate = thread::sigaltstack_bounds();
        let mut flags = if thread::is_main() { MAIN_THREAD } else { 0 };
        if handler::installed().is_some_and(signals::unblock) {
            flags |= WAS_BLOCKED;
        }
        let enlist = |list: &mut LockGuard<'_>| {
            let info = self.roster_mut(list).free_record()?;
            info.prepare(tid, ThreadName::new(name), stack, flags);
            info.set_alternate(alternate);
            // SAFETY: a record, which is never unmapped; `detach` clears the key.
            unsafe { key.set(std::ptr::from_ref(info).cast()) }?;
            // `owner` is set before the record is put in the table: from then on, any suspend signal, even from another process, makes
            // the handler read it.
            info.owner.store(Arc::as_ptr(self).cast_mut().cast(), Ordering::Relaxed);
            if let Err(error) = TABLE.set(tid, std::ptr::from_ref(info).cast_mut()) {
                info.owner.store(std::ptr::null_mut(), Ordering::Relaxed);
                // SAFETY: null.
                let _ = unsafe { key.set(std::ptr::null()) };
                return Err(error.into());
            }
            // SAFETY: records are never unmapped; this one is free, so the last owner of its liveness mutex has ended its ownership or does
            // not exist.
            unsafe { info.liveness.begin() };
            // The strong count of `owner`; `Roster::remove` releases it.
            let _ = Arc::into_raw(Arc::clone(self));
            self.roster_mut(list).add(info);
            self.published.link_thread(list, info);
            info.state.attach();
            Ok(info)
        };
        let created = |info: &Result<&'static ThreadStopInfo, AttachError>| {
            if let Ok(info) = info {
                self.vtable.latch().with(|vtable| vtable.thread_created(tid, info.slot()));
            }
        };
        self.locks.thread_created(enlist, created)
    }

    /// Detaches the calling thread. `info` is its record. The thread can be stopped until this function returns.
    pub(crate) fn detach(&self, info: &'static ThreadStopInfo) {
        let tid = info.tid();
        debug_assert_eq!(tid, thread::gettid(), "a thread detaches itself");
        let was_blocked = info.flags.load(Ordering::Relaxed) & WAS_BLOCKED != 0;
        let exited = || self.vtable.latch().with(|vtable| vtable.thread_exited(tid, info.slot()));
        // The thread stays in a blocking region until it has detached. No collection holds it then, since a collection would hold the locks.
        let owner = info.blocking_to_the_end(|| {
            let delist = |list: &mut LockGuard<'_>| {
                TABLE.clear(tid);
                info.state.detach(&self.handshake);
                // SAFETY: begun by `attach`, on this thread.
                unsafe { info.liveness.end() };
                if let Ok(key) = exit_key() {
                    // Clearing cannot fail: the key's slot exists.
                    // SAFETY: null.
                    let _ = unsafe { key.set(std::ptr::null()) };
                }
                self.published.unlink_thread(list, info);
                self.roster_mut(list).remove(info)
            };
            let is_suspended = || info.is_suspended();
            if removed(Guard::VtableExitedBeforeFree) {
                let owner = self.locks.thread_exited(is_suspended, || {}, delist);
                exited();
                owner
            } else {
                self.locks.thread_exited(is_suspended, exited, delist)
            }
        });
        if was_blocked && let Some(signal) = handler::installed() {
            std::mem::forget(signals::block(signal));
        }
        drop(owner);
    }

    /// Returns whether the record belongs to a thread of this world.
    fn owns(&self, info: &ThreadStopInfo) -> bool {
        std::ptr::eq(info.owner.load(Ordering::Relaxed).cast(), self)
    }

    /// Returns the calling thread's record, if it is attached to this world.
    pub(crate) fn own_record(&self) -> Option<&'static ThreadStopInfo> {
        handler::current().filter(|info| self.owns(info))
    }

    /// Runs `f` with the calling thread's stack published, if it is attached to this world and not in a blocking region; otherwise
    /// with `None`. A thread of another world counts as blocking there.
    pub(crate) fn with_own_stack<R>(&self, f: impl FnOnce(Option<&OwnStack>) -> R) -> R {
        match self.own_record() {
            Some(record) if record.state.handshake_state() == HandshakeState::Running => {
                record.with_own_stack(|own| f(Some(own)))
            }
            Some(_) => f(None),
            None => self.as_blocking(|| f(None)),
        }
    }

    /// Runs `wait` as a blocking region if the calling thread is attached to any world.
    pub(crate) fn as_blocking<R>(&self, wait: impl FnOnce() -> R) -> R {
        match handler::current() {
            Some(info) if info.state.handshake_state() == HandshakeState::Running => info.blocking(wait),
            _ => wait(),
        }
    }

    /// Runs `take`, which waits for a lock, as [`ThreadStopInfo::blocking_until`] does if the calling thread is attached to any
    /// world.
    pub(crate) fn blocking_until<R>(&self, mut take: impl FnMut() -> R) -> R {
        match handler::current() {
            Some(info) if info.state.handshake_state() == HandshakeState::Running => info.blocking_until(take),
            _ => take(),
        }
    }

    /// Takes a lock that a thread may hold while it stops the world or suspends a thread.
    pub(crate) fn lock<'a>(&self, lock: &'a Lock) -> LockGuard<'a> {
        self.blocking_until(|| lock.lock())
    }

    /// Calls `look` with all threads, under the list lock. `look` may allocate, but must not attach or detach threads.
    pub(crate) fn with_live<R>(&self, look: impl FnOnce(&[&'static ThreadStopInfo]) -> R) -> R {
        let list = self.lock(&self.locks.list);
        look(self.live(&list))
    }

    /// Calls `look` with all threads, unless the list is in use at this moment. Returns whether `look` was called. `look` must be short.
    pub(crate) fn look_now(&self, look: impl FnOnce(&[&'static ThreadStopInfo])) -> bool {
        let list = self.locks.list.try_lock();
        if let Ok(list) = &list {
            look(self.live(list));
        }
        list.is_ok()
    }

    /// Returns the number of threads; `None` if the list is in use at this moment.
    pub(crate) fn count_now(&self) -> Option<usize> {
        let list = self.locks.list.try_lock().ok()?;
        Some(self.live(&list).len())
    }

    /// Registers a coroutine's stack and returns its id. Each collection scans all of it until it is unregistered.
    pub(crate) fn register_stack(&self, low: usize, high: usize) -> u64 {
        let id = self.next_stack.fetch_add(1, Ordering::Relaxed);
        let bounds = StackBounds { low: low.next_multiple_of(8), high: high & !7 };
        self.change_stacks(|stacks| stacks.push(RegisteredStack { id, bounds }));
        id
    }

    /// Returns the bounds of the stack that contains an address, for the calling thread, whose record this is. `None` if that is neither the
    /// thread's own stack, nor its alternate signal stack, nor a registered one.
    pub(crate) fn stack_with(&self, info: &ThreadStopInfo, address: usize) -> Option<StackBounds> {
        let contains = |bounds: &StackBounds| bounds.contains(address);
        Some(info.stack_bounds()).filter(contains).or_else(|| thread::sigaltstack_bounds().filter(contains)).or_else(
            || {
                let list = self.lock(&self.locks.list);
                self.registered(&list).iter().map(|stack| stack.bounds).find(contains)
            },
        )
    }

    /// Changes the list of registered stacks. A reader outside the process finds it empty meanwhile.
    fn change_stacks(&self, change: impl FnOnce(&mut Vec<RegisteredStack>)) {
        let mut list = self.lock(&self.locks.list);
        let [place, count] = &self.stack_list;
        count.store(0, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        let stacks = self.stacks_mut(&mut list);
        change(stacks);
        place.store(stacks.as_ptr() as usize, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        count.store(stacks.len(), Ordering::Relaxed);
    }

    /// Returns the address of two words: the address of the list of registered stacks, and their number.
    pub(crate) fn stack_list(&self) -> usize {
        std::ptr::from_ref(&self.stack_list) as usize
    }

    /// Unregisters the stack of this id.
    pub(crate) fn unregister_stack(&self, id: u64) {
        self.change_stacks(|stacks| stacks.retain(|stack| stack.id != id));
    }

    /// Installs another vtable and returns the outgoing one, in whose functions no thread is any more. Waits for the
    /// present collection. The outgoing vtable is notified that all threads leave it, then the incoming one
    /// is notified of the threads; no stop can begin in between. If `incoming` is installed already, nothing changes and it is returned.
    pub(crate) fn set_vtable(&self, incoming: Vtable, mut budget: Budget) -> Result<Vtable, StopError> {
        let name = incoming.name();
        let _called_back = Callback::begin();
        let refused = |what| StopError::Vtable { stopper: name, what };
        let locks = self.lock_for_stop(&mut budget)?;
        if self.vtable.latch().with(|present| is_same(present, &incoming)) {
            return Ok(incoming);
        }
        self.enter(&incoming).map_err(refused)?;
        // SAFETY: this is the only place that swaps, under the world's locks.
        let outgoing = match unsafe { self.vtable.swap(incoming, &mut budget) } {
            Ok(outgoing) => outgoing,
            Err(StillInUse(incoming)) => {
                self.leave(&incoming);
                return Err(refused("the present vtable is still in use".into()));
            }
        };
        let live = self.live(&locks.list);
        match outgoing.at_swap() {
            Some(outgoing) => callback::call(|| outgoing.remove_all_threads(live)),
            None => live.iter().for_each(|thread| outgoing.thread_exited(thread.tid(), thread.slot())),
        }
        self.leave(&outgoing);
        if !removed(Guard::VtableAttach) {
            self.vtable.latch().with(|incoming| match incoming.at_swap() {
                Some(incoming) => callback::call(|| incoming.add_all_threads(live)),
                None => live.iter().for_each(|thread| incoming.thread_created(thread.tid(), thread.slot())),
            });
        }
        self.publish_vtable();
        Ok(outgoing)
    }

    /// Notifies `vtable` that it is about to be installed in this world, which it may refuse.
    pub(super) fn enter(&self, vtable: &Vtable) -> Result<(), String> {
        let enter = |vtable: &dyn AtInstall| callback::call(|| vtable.enter_world(&self.published));
        vtable.at_install().map_or(Ok(()), enter)
    }

    /// Notifies `vtable` that it does not serve this world any more.
    pub(super) fn leave(&self, vtable: &Vtable) {
        if let Some(vtable) = vtable.at_install() {
            callback::call(|| vtable.leave_world(&self.published));
        }
    }

    /// Suspends one thread until [`resume`](Self::resume), across any number of collections (`.vtable.nested`).
    pub(crate) fn suspend(&self, tid: Tid, mut budget: Budget) -> Result<(), StopError> {
        let within = budget.total();
        let unanswered = |silent| {
            let (stopper, threads, attempts) = ("suspend", vec![silent], StopAttempts::default());
            StopError::Unanswered { stopper, within, of: 1, threads, attempts }
        };
        if tid == thread::gettid() {
            return Err(StopError::Vtable { stopper: "suspend", what: "a thread cannot suspend itself".into() });
        }
        let _suspending = self.lock(&self.suspending);
        // This thread holds the list lock, so no collection runs: the record still belongs to the thread, and a collecting thread is not
        // suspended in the middle of a stopped world.
        let list = self.blocking_until(|| self.locks.list.lock_within(&mut budget));
        let list = list.map_err(|holder| self.lock_denied("thread list", Tid(holder.0 as i32), within))?;
        let Some(info) = self.live(&list).iter().copied().find(|info| info.tid() == tid) else {
            return Err(unanswered(super::error::SilentThread::describe(tid, None, self.signal())));
        };
        if info.state.is_held_by(Holder::User) {
            return Ok(());
        }
        let epoch = self.handshake.begin(Holder::User, 1);
        if info.state.hold(Holder::User, epoch) == HoldOutcome::Already {
            return Ok(());
        }
        while info.state.is_held_by(Holder::User) {
            self.vtable.latch().with(|vtable| {
                if let Some(stopper) = vtable.by_handshake() {
                    callback::call(|| stopper.request_check(info));
                }
            });
            let outstanding = budget.slice(u64::MAX, |ns| self.handshake.wait_slice(Holder::User, ns));
            match outstanding {
                Some(0) => return Ok(()),
                Some(_) => {}
                None => {
                    self.handshake.close(Holder::User);
                    return match info.state.take_back(Holder::User) {
                        Abandoned::Unanswered => Err(unanswered(super::error::SilentThread::of(info, self.signal()))),
                        Abandoned::Answered if info.state.is_held_by(Holder::User) => Ok(()),
                        Abandoned::Answered => break,
                    };
                }
            }
        }
        Err(unanswered(super::error::SilentThread::describe(tid, None, self.signal())))
    }

    /// Resumes a suspended thread. Returns `false` if it was not suspended.
    ///
    /// Takes none of the world's locks: the suspended thread may hold one of them (`.debug.frozen-owner`), and only this
    /// function resumes it.
    pub(crate) fn resume(&self, tid: Tid) -> bool {
        let _suspending = self.lock(&self.suspending);
        // SAFETY: null or a record, which is never unmapped. A suspended thread cannot free its record, and no other thread
        // suspends or resumes meanwhile: if the record is of this world and held, it belongs to the thread.
        let Some(info) = (unsafe { TABLE.find(tid).as_ref() }) else { return false };
        if !self.owns(info) || !info.state.is_held_by(Holder::User) {
            return false;
        }
        info.state.release(Holder::User);
        true
    }

    /// In the child of a fork: resets the lock of suspensions, whose holder does not exist here.
    ///
    /// # Safety
    /// The caller is the only thread of the process, and neither suspends nor resumes.
    pub(super) unsafe fn forget_suspending(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.suspending.reset_in_child() };
    }

    // ---- the roster; `list` is the guard of the thread list lock

    fn roster_mut<'a>(&'a self, list: &'a mut LockGuard<'_>) -> &'a mut Roster {
        // SAFETY: the roster is always accessed with this lock.
        unsafe { self.roster.get_mut(&self.locks.list, list) }
    }

    /// Returns the attached threads.
    pub(super) fn live<'a>(&'a self, list: &'a LockGuard<'_>) -> &'a [&'static ThreadStopInfo] {
        // SAFETY: the roster is always accessed with this lock.
        unsafe { &self.roster.get(&self.locks.list, list).live }
    }

    fn stacks_mut<'a>(&'a self, list: &'a mut LockGuard<'_>) -> &'a mut Vec<RegisteredStack> {
        // SAFETY: the stacks are always accessed with this lock.
        unsafe { self.stacks.get_mut(&self.locks.list, list) }
    }

    /// Returns the registered stacks.
    pub(super) fn registered<'a>(&'a self, list: &'a LockGuard<'_>) -> &'a [RegisteredStack] {
        // SAFETY: the stacks are always accessed with this lock.
        unsafe { self.stacks.get(&self.locks.list, list) }
    }

    /// Returns the registered stacks, whatever the threads were doing when they were stopped; `None` if a stopped thread holds the
    /// list lock, and so may have been changing them.
    ///
    /// # Safety
    /// As long as the result is used, every thread of the process except the calling one is stopped. The calling thread is not in
    /// the middle of [`register_stack`](Self::register_stack) or [`unregister_stack`](Self::unregister_stack) further up in its
    /// call chain, unless it holds the list lock there.
    pub(super) unsafe fn registered_if_unchanging(&self) -> Option<&[RegisteredStack]> {
        // If the thread that holds the list lock also holds the collection lock, it is collecting, swapping the vtable or forking: none of
        // these changes the stacks.
        let list = self.locks.list.holder();
        let unchanging = list.is_none() || list == self.locks.collection.holder();
        // SAFETY: the stacks are changed only under the list lock, by a thread that does not hold the collection lock; no such thread
        // holds it, and none can take it meanwhile.
        unchanging.then(|| unsafe { self.stacks.peek() }.as_slice())
    }

    /// Removes threads that do not exist any more. Called when no thread is stopped any more.
    pub(super) fn remove_ended_threads(&self, locks: &mut StopLocks<'_>) {
        while let Some(info) = self.live(&locks.list).iter().copied().find(|info| info.is_gone()) {
            self.remove_ended_thread(locks, info);
        }
    }

    /// Removes a thread that does not exist any more, and so cannot detach itself.
    pub(super) fn remove_ended_thread(&self, locks: &mut StopLocks<'_>, info: &'static ThreadStopInfo) {
        let tid = info.tid();
        self.vtable.latch().with(|vtable| vtable.thread_exited(tid, info.slot()));
        if let Some(hooks) = self.hooks() {
            hooks.thread_lost(info, &locks.allocation);
        }
        if std::ptr::eq(TABLE.find(tid), info) {
            TABLE.clear(tid);
        }
        info.state.reset_in_child();
        info.gone.store(0, Ordering::Relaxed);
        self.published.unlink_thread(&mut locks.list, info);
        let owner = self.roster_mut(&mut locks.list).remove(info);
        // The strong count of the removed thread. It is never the last one, because the caller uses this world.
        drop(owner);
    }
}

impl ThreadStopInfo {
    /// Returns the published part of the world that the thread is attached to.
    ///
    /// # Safety
    /// As long as the reference is used, that world's locks are held, or the thread is the calling one and attached.
    pub(crate) unsafe fn published_world<'a>(&self) -> Option<&'a PublishedWorld> {
        // SAFETY: the caller's promise: the strong count that the record holds is not released meanwhile.
        unsafe { self.owner.load(Ordering::Relaxed).cast::<Threads>().as_ref() }.map(Threads::published)
    }

    /// Returns the threads of the world that the thread is attached to.
    ///
    /// # Safety
    /// On the record's own thread, between attach and detach: the record holds a strong count then.
    pub(super) unsafe fn threads(&self) -> &Threads {
        // SAFETY: the caller's promise.
        unsafe { &*self.owner.load(Ordering::Relaxed).cast() }
    }
}

impl Roster {
    /// Returns the next free record. It stays in the free list until [`add`](Self::add).
    fn free_record(&mut self) -> std::io::Result<&'static ThreadStopInfo> {
        if self.free.is_empty() {
            let chunk = stop_info::take_chunk()?;
            self.chunks.push(chunk);
            // The order is reversed because records are taken from the end: they are used in the order of their addresses.
            self.free.extend(chunk.iter().rev());
        }
        // The list is not empty, because it was filled above.
        Ok(self.free[self.free.len() - 1])
    }

    /// Moves the record that [`free_record`](Self::free_record) has just returned into the list of attached threads.
    fn add(&mut self, info: &'static ThreadStopInfo) {
        self.free.pop();
        info.index.store(self.live.len() as u32, Ordering::Relaxed);
        self.live.push(info);
    }

    /// Removes a record from the list and returns the strong count that it held.
    fn remove(&mut self, info: &'static ThreadStopInfo) -> Option<Arc<Threads>> {
        let index = info.index.load(Ordering::Relaxed) as usize;
        debug_assert!(std::ptr::eq(self.live[index], info));
        self.live.swap_remove(index);
        if let Some(moved) = self.live.get(index) {
            moved.index.store(index as u32, Ordering::Relaxed);
        }
        self.free.push(info);
        let owner = info.owner.swap(std::ptr::null_mut(), Ordering::Relaxed).cast::<Threads>();
        // SAFETY: the strong count that `attach` made, released once: the swap left null.
        (!owner.is_null()).then(|| unsafe { Arc::from_raw(owner) })
    }
}

/// Returns whether both are the same object. Compares addresses only: two handles of one type may have different function tables.
fn is_same(one: &Vtable, other: &Vtable) -> bool {
    std::ptr::addr_eq(Arc::as_ptr(one), Arc::as_ptr(other))
}

/// Returns the thread-specific key whose destructor detaches threads that end while attached.
pub(super) fn exit_key() -> std::io::Result<ExitKey> {
    static KEY: OnceLock<ExitKey> = OnceLock::new();
    match KEY.get() {
        Some(key) => Ok(*key),
        None => {
            let key = ExitKey::new(thread_exits)?;
            // If two threads race here, the second key is never set, so its destructor never runs.
            Ok(*KEY.get_or_init(|| key))
        }
    }
}

/// Detaches a thread that ends while attached: the destructor of thread-specific data, which libc calls on that thread (`.stop.exit-race`).
unsafe extern "C" fn thread_exits(info: *mut std::ffi::c_void) {
    // SAFETY: the value that `attach` set: a record, never unmapped; cleared by `detach`.
    let info = unsafe { &*info.cast::<ThreadStopInfo>() };
    if removed(Guard::StopExitRace) || info.tid() != thread::gettid() {
        return;
    }
    // SAFETY: the record's own thread, still attached.
    let threads = unsafe { info.threads() };
    match threads.hooks() {
        Some(hooks) => hooks.thread_exits(threads, info),
        None => threads.detach(info),
    }
}
