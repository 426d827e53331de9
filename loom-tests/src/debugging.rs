//! A simulated process with a debugger bridge, and a simulated debugger, for the models.
//!
//! The messages between the two are the shipped ones (`debugger/protocol.rs`, `world/handshake.rs`). The actions of the bridge are
//! simulated here in the order of `debugger/bridge.rs`: that file stops real threads and can't run under a model checker.
//!
//! The models check:
//!
//! * **No thread runs during a scan whose result is used.** Each thread counts its steps. The scan records the counts, and they must be
//!   unchanged when the marks are used. From then until the world starts, the collector owns a cell of each thread, which the thread accesses
//!   at every step: the model checker reports unordered accesses.
//! * **No thread is left stopped or waits for ever.** Every thread ends, or the checker finds a deadlock.
//! * **A thread that the user has stopped stays stopped**, until the user resumes it.
//!
//! The model chooses the step at which the debugger dies; the checker chooses where the other threads are at that time.

use std::cell::Cell;
use std::ops::Deref;
use std::sync::Arc;

#[path = "debugging_debugger.rs"]
mod debugging_debugger;

pub(crate) use debugging_debugger::{Debugger, IMMORTAL, Killed};

use crate::checker::thread;
use crate::debugger::protocol::{
    AckState, Acknowledgement, Answer, Control, Member, Mode, StopContract, all_stopped, first_not_held, in_control,
    is_gone, newly_frozen, still_traces, vacate,
};
use crate::kernel::{self, Kernel, ptrace};
use crate::sabotage::{Guard, removed};
use crate::sync::lock::Patience;
use crate::sync::{AtomicU32, AtomicU64, LockGuard, Ordering, UnsafeCell};
use crate::world::handshake::{Epoch, Handshake, HandshakeState, HoldOutcome, Holder, Parked, StopState};
use crate::world::locks::WorldLocks;

/// The values of `stack_ptr` and `saved_sp` in the models: they show which side has written them.
const BY_ITSELF: u32 = 1;
const BY_DEBUGGER: u32 = 2;

/// A managed thread.
pub(crate) struct Thread {
    pub(crate) tid: u32,
    pub(crate) state: StopState,
    frozen: AtomicU64,
    counted: AtomicU32,
    undisturbed: AtomicU32,
    stack_ptr: AtomicU32,
    saved_sp: AtomicU32,
    registers: UnsafeCell<u32>,
    /// The number of steps that the thread had made when the debugger wrote its registers.
    registers_of: AtomicU32,
    heap: UnsafeCell<u32>,
    steps: AtomicU32,
    listed: AtomicU32,
}

/// The process.
pub(crate) struct Process {
    pub(crate) kernel: Arc<Kernel>,
    pub(crate) threads: Vec<Thread>,
    list_changes: bool,
    locks: WorldLocks,
    handshake: Handshake,
    control: AtomicU64,
    stop_contract: StopContract,
    tracer: Cell<u32>,
    answer: Cell<u64>,
    answered: Cell<bool>,
    epoch: Cell<u64>,
    sequence: AtomicU64,
    /// The number of collections that used their marks, and the number of collections that discarded them.
    pub(crate) used: Cell<u32>,
    pub(crate) discarded: Cell<u32>,
    /// The number of stops in which the debugger's answer was found to be false.
    pub(crate) refused: Cell<u32>,
}

// SAFETY: the `std` cells belong to the collecting thread; the other cells are the checker's, which reports unordered accesses.
unsafe impl Sync for Process {}
// SAFETY: as above.
unsafe impl Send for Process {}

/// Waits without a time limit.
struct Forever;

impl Patience for Forever {
    fn slice(&mut self, wait: &mut dyn FnMut(u64)) -> bool {
        wait(u64::MAX);
        true
    }
}

/// The kind of a notification to the debugger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    StopWorld,
    StartWorld,
    Again,
    Phase,
    Created,
    Exited,
}

struct Request {
    acknowledgement: Acknowledgement,
    notice: Notice,
    mode: Option<Mode>,
    epoch: u64,
}

/// The process of one execution; every thread of the model has a clone.
#[derive(Clone)]
pub(crate) struct Target(Arc<Process>);

impl Deref for Target {
    type Target = Process;

    fn deref(&self) -> &Process {
        &self.0
    }
}

impl Target {
    /// Creates a process with `threads` managed threads, all attached, and `others` threads that are not managed. Thread 1 is the calling
    /// thread, which collects.
    pub(crate) fn new(others: u32, threads: u32) -> Self {
        Self::with_attached(others, threads, threads)
    }

    /// Like [`new`](Self::new), with only the first `attached` threads attached.
    pub(crate) fn with_attached(others: u32, threads: u32, attached: u32) -> Self {
        let thread = |i| Thread {
            tid: 2 + others + i,
            state: StopState::new(),
            frozen: AtomicU64::new(0),
            counted: AtomicU32::new(0),
            undisturbed: AtomicU32::new(0),
            stack_ptr: AtomicU32::new(0),
            saved_sp: AtomicU32::new(0),
            registers: UnsafeCell::new(0),
            registers_of: AtomicU32::new(0),
            heap: UnsafeCell::new(0),
            steps: AtomicU32::new(0),
            listed: AtomicU32::new(u32::from(i < attached)),
        };
        let threads: Vec<Thread> = (0..threads).map(thread).collect();
        threads[..attached as usize].iter().for_each(|thread| thread.state.attach());
        Self(Arc::new(Process {
            kernel: Kernel::boot_for_tracers(1 + others + threads.len() as u32),
            list_changes: attached as usize != threads.len(),
            threads,
            locks: WorldLocks::new(),
            handshake: Handshake::new(),
            control: AtomicU64::new(0),
            stop_contract: StopContract::new(),
            tracer: Cell::new(0),
            answer: Cell::new(0),
            answered: Cell::new(false),
            epoch: Cell::new(0),
            sequence: AtomicU64::new(1),
            used: Cell::new(0),
            discarded: Cell::new(0),
            refused: Cell::new(0),
        }))
    }

    /// Runs managed thread `i`. Its body ends inside a blocking region.
    pub(crate) fn run(&self, i: usize, body: impl FnOnce(&Target) + Send + 'static) -> thread::JoinHandle<()> {
        let target = self.clone();
        self.kernel.spawn(self.threads[i].tid, move || {
            let inner = target.clone();
            kernel::on_signal(move || inner.handler(i));
            body(&target);
        })
    }

    /// Runs a thread that is not managed, that is, a debugger.
    pub(crate) fn outside(&self, tid: u32, body: impl FnOnce(&Target) + Send + 'static) -> thread::JoinHandle<()> {
        let target = self.clone();
        self.kernel.spawn(tid, move || body(&target))
    }
}

// ---- the actions of managed thread `i`
impl Process {
    fn publish(&self, i: usize) {
        self.threads[i].saved_sp.store(BY_ITSELF, Ordering::Relaxed);
        self.threads[i].stack_ptr.store(BY_ITSELF, Ordering::Relaxed);
    }

    /// Does what the suspend signal's handler does, and what `park` does.
    fn handler(&self, i: usize) {
        let _: Parked = self.threads[i].state.park_if_held(&self.handshake, || self.publish(i));
    }

    /// Accesses collected memory.
    pub(crate) fn work(&self, i: usize) {
        let thread = &self.threads[i];
        kernel::interrupt_point();
        thread.steps.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the checker reports every concurrent access.
        thread.heap.with_mut(|heap| unsafe { *heap += 1 });
        kernel::interrupt_point();
    }

    /// Attaches the thread.
    pub(crate) fn attach(&self, i: usize) {
        let enlist = |_: &mut LockGuard<'_>| {
            self.threads[i].state.attach();
            self.threads[i].listed.store(1, Ordering::Release);
        };
        self.locks.thread_created(enlist, |()| self.tell_whoever(Notice::Created));
    }

    /// Detaches the thread.
    pub(crate) fn exit(&self, i: usize) {
        let delist = |_: &mut LockGuard<'_>| {
            self.threads[i].listed.store(0, Ordering::Release);
            self.threads[i].state.detach(&self.handshake);
        };
        let gone = self.locks.thread_exited(|| false, || self.tell_whoever(Notice::Exited), delist);
        assert!(gone.is_some(), "no user holds the thread by the handshake");
    }

    /// Leaves a blocking region.
    pub(crate) fn unblock(&self, i: usize) {
        let _: Parked = self.threads[i].state.leave_blocking();
    }

    /// Enters a blocking region.
    pub(crate) fn block(&self, i: usize) {
        self.threads[i].state.enter_blocking(&self.handshake, || self.publish(i));
    }

    fn steps(&self, i: usize) -> u32 {
        // A read-modify-write, so that it reads the latest value, regardless of ordering.
        self.threads[i].steps.fetch_add(0, Ordering::AcqRel)
    }
}

// ---- the actions of the collecting thread
impl Process {
    fn listed(&self) -> impl Iterator<Item = usize> + '_ {
        let listed = |i: &usize| !self.list_changes || self.threads[*i].listed.load(Ordering::Acquire) != 0;
        (0..self.threads.len()).filter(listed)
    }

    fn members(&self) -> impl Iterator<Item = Member<'_>> {
        self.listed().map(|i| self.member(i))
    }

    fn member(&self, i: usize) -> Member<'_> {
        let Thread { state, frozen, counted, undisturbed, .. } = &self.threads[i];
        Member { state, frozen, counted, undisturbed }
    }

    fn tell(&self, control: Control, notice: Notice) -> Answer {
        let acknowledgement = Acknowledgement::new(self.sequence.fetch_add(1, Ordering::Relaxed));
        let is_of_a_stop = !matches!(notice, Notice::Created | Notice::Exited);
        let epoch = if is_of_a_stop { self.epoch.get() } else { 0 };
        // The mode is that of this stop, even if another debugger receives the notification.
        let mode = match (notice, self.stop_contract.control()) {
            (Notice::Again, _) => Some(Mode::Assisted),
            (_, Control::NOBODY) => control.mode(),
            (_, stop_contract) => stop_contract.mode(),
        };
        let request = Request { acknowledgement, notice, mode, epoch };
        ptrace::notify(std::ptr::from_ref(&request) as usize);
        request.acknowledgement.answer()
    }
}

/// Any finite time.
const A_WHILE: u64 = 1;

/// The state of the collector's requests to the debugger during a stop.
struct StopRequester {
    first: Cell<bool>,
    counts: Cell<bool>,
    notified: Cell<Option<(u32, u32)>>,
}

// ---- the bridge, with the steps of `debugger/bridge.rs` and `world/handshake_stop.rs` in the same order
impl Process {
    fn lose(&self, control: Control) {
        self.lose_stop(control);
        vacate(&self.control, control);
    }

    fn lose_stop(&self, control: Control) {
        if self.stop_contract.control().is_of_the_same(control) {
            self.stop_contract.lose();
        }
    }

    fn not_served(&self, control: Control, tracer: u32) {
        if is_gone(tracer as i32, || self.kernel.is_any_traced()) {
            self.lose(control);
        } else {
            self.lose_stop(control);
        }
    }

    fn tell_or_lose(&self, control: Control, notice: Notice) -> Answer {
        let answer = self.tell(control, notice);
        if answer == Answer::Nobody {
            self.not_served(control, self.kernel.tracer());
        }
        answer
    }

    /// Notifies the debugger in control, if there is one.
    pub(crate) fn tell_whoever(&self, notice: Notice) {
        let control = in_control(&self.control);
        if control.mode().is_some() {
            self.tell_or_lose(control, notice);
        }
    }

    fn look_for_tracer(&self, control: Control) -> Option<u32> {
        let tracer = self.kernel.tracer();
        if tracer == 0 {
            self.not_served(control, tracer);
        }
        (tracer != 0).then_some(tracer)
    }

    fn hold(&self, tell: impl Fn(usize)) -> Epoch {
        let listed: Vec<usize> = self.listed().collect();
        let epoch = self.handshake.begin(Holder::Collection, listed.len() as u32);
        let mut satisfied = 0;
        for i in listed {
            match self.threads[i].state.hold(Holder::Collection, epoch) {
                HoldOutcome::Already => satisfied += 1,
                HoldOutcome::MustPark => tell(i),
            }
        }
        self.handshake.satisfied(Holder::Collection, epoch, satisfied);
        epoch
    }

    fn signal(&self, i: usize) {
        self.kernel.signal(self.threads[i].tid);
    }

    /// Returns `false` if the debugger's answer was found to be false; then all threads are released again.
    fn stop_world(&self, with_contract: bool) -> bool {
        self.epoch.set(self.epoch.get() + 1);
        self.listed().for_each(|i| self.threads[i].stack_ptr.store(0, Ordering::Relaxed));
        let control = if with_contract { in_control(&self.control) } else { Control::NOBODY };
        self.stop_contract.begin(if control.mode().is_some() { control } else { Control::NOBODY });
        self.tracer.set(0);
        match control.mode() {
            Some(Mode::Full) => self.stop_full(control),
            _ => {
                let epoch = self.hold(|i| self.signal(i));
                self.wait(epoch);
                true
            }
        }
    }

    /// Called when a full stop is acknowledged: records the threads that the debugger has answered for, that is, those that had not stopped
    /// by themselves.
    fn rely_on(&self) {
        if removed(Guard::DebugLies) {
            return;
        }
        for i in self.listed() {
            let thread = &self.threads[i];
            self.member(i).rely(!thread.state.has_answered() && thread.stack_ptr.load(Ordering::Relaxed) != 0);
        }
        self.answered.set(true);
    }

    /// Returns whether the debugger has claimed to hold a thread that it does not hold.
    fn is_found_out(&self) -> bool {
        let relied_on = self.listed().filter(|i| self.member(*i).is_relied_on());
        let is_held = |i: usize| {
            let thread = &self.threads[i];
            self.kernel.is_stopped(thread.tid) && !thread.state.has_answered()
        };
        first_not_held(relied_on, is_held).is_some()
    }

    fn stop_full(&self, control: Control) -> bool {
        let epoch = self.hold(|_| ());
        if let Some(tracer) = self.look_for_tracer(control)
            && let Answer::Acknowledged(answer) = self.tell_or_lose(control, Notice::StopWorld)
        {
            self.answer.set(answer);
            self.tracer.set(if removed(Guard::DebugTracerFirst) { self.kernel.tracer() } else { tracer });
            self.handshake.close(Holder::Collection);
            self.rely_on();
            // If the debugger has died, the threads are parking, and the check after marking detects it.
            if self.is_found_out() && self.is_traced_as_before() {
                self.refuse(control);
                self.start_world();
                return false;
            }
            self.believe_who_answered();
            return true;
        }
        // From here on the stop continues as without a debugger. Some threads may have been stopped by the debugger, and resumed by its
        // death.
        self.stop_contract.end();
        self.listed().filter(|i| !self.threads[*i].state.has_answered()).for_each(|i| self.signal(i));
        self.wait(epoch);
        true
    }

    /// Waits until all threads are stopped, and requests the debugger to answer for threads that can't acknowledge.
    fn wait(&self, epoch: Epoch) {
        let requester = StopRequester { first: Cell::new(true), counts: Cell::new(false), notified: Cell::new(None) };
        let answered = self.request_answers(&requester);
        self.handshake.satisfied(Holder::Collection, epoch, answered);
        let mut slice = A_WHILE;
        loop {
            let outstanding = self.handshake.wait_slice(Holder::Collection, slice);
            slice = A_WHILE;
            if self.all_stopped(&requester, outstanding) {
                break;
            }
            if outstanding == 0 {
                // Polls again.
                thread::yield_now();
            }
            if kernel::time_has_passed() && !removed(Guard::DebugAgain) {
                self.listed().filter(|i| !self.is_stopped(&requester, *i)).for_each(|i| self.signal(i));
                let answered = self.request_answers(&requester);
                self.handshake.satisfied(Holder::Collection, epoch, answered);
                // Real slices end by themselves; in the model it is enough if this slice does.
                slice = 0;
            }
        }
        self.believe_who_answered();
    }

    fn believe_who_answered(&self) {
        for thread in self.listed().map(|i| &self.threads[i]).filter(|thread| thread.state.has_answered()) {
            thread.stack_ptr.store(thread.saved_sp.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    fn is_stopped(&self, requester: &StopRequester, i: usize) -> bool {
        match self.member(i).ack_state(self.epoch.get()) {
            AckState::ByItself => true,
            AckState::Frozen => requester.counts.get(),
            AckState::No => false,
        }
    }

    fn all_stopped(&self, requester: &StopRequester, outstanding: u32) -> bool {
        if requester.counts.get() {
            all_stopped(self.members(), self.epoch.get(), outstanding)
        } else {
            outstanding == 0 && (!self.answered.get() || self.listed().all(|i| self.is_stopped(requester, i)))
        }
    }

    fn request_answers(&self, requester: &StopRequester) -> u32 {
        let first = requester.first.replace(false);
        if first && self.answered.replace(false) {
            self.members().for_each(|member| member.forget());
        }
        if first && self.stop_contract.control().mode() != Some(Mode::Assisted) {
            return 0;
        }
        requester.counts.set(false);
        let control = in_control(&self.control);
        if control.mode().is_none() {
            return 0;
        }
        let Some(tracer) = self.look_for_tracer(control) else { return 0 };
        let debugger = Some((control.who(), tracer));
        if requester.notified.replace(debugger) != debugger {
            self.members().for_each(|member| member.discard_answer());
        }
        let notice = if first { Notice::StopWorld } else { Notice::Again };
        if self.tell_or_lose(control, notice) == Answer::Nobody {
            return 0;
        }
        self.tracer.set(tracer);
        // A claimed thread that is neither stopped nor parks is a false answer, which the bridge reports as an error. In the model each
        // thread eventually parks.
        let frozen = self.listed().filter(|i| self.member(*i).ack_state(self.epoch.get()) == AckState::Frozen);
        let is_held = |i: usize| {
            self.until(|| self.stands_as_claimed(i));
            true
        };
        first_not_held(frozen, is_held);
        requester.counts.set(true);
        let newly = newly_frozen(self.members(), self.epoch.get());
        self.answered.set(self.answered.get() || newly != 0);
        newly
    }

    /// Checks after marking whether the threads are still stopped.
    fn still_holds(&self) -> bool {
        if self.tracer.get() == 0 {
            return true;
        }
        let stop_contract =
            if removed(Guard::DebugLatched) { in_control(&self.control) } else { self.stop_contract.control() };
        match stop_contract.mode() {
            Some(Mode::Full) => self.holds_full(),
            _ => self.holds_assisted(),
        }
    }

    fn holds_full(&self) -> bool {
        if self.answer.get() & Answer::PARKED_ON_DEATH == 0 && !removed(Guard::DebugSignalledBefore) {
            // Signal before the check: if the debugger dies after the check, the threads take the signal and park.
            self.listed().for_each(|i| self.signal(i));
        }
        if !self.is_still_traced() {
            return false;
        }
        let is_found_out = self.is_found_out();
        if is_found_out && self.is_still_traced() {
            self.refuse(self.stop_contract.control());
        }
        // If the threads are not stopped any more, the real bridge gives them a second to park; no check here depends on that.
        !is_found_out
    }

    fn refuse(&self, control: Control) {
        self.refused.set(self.refused.get() + 1);
        self.lose(control);
    }

    fn is_traced_as_before(&self) -> bool {
        let is_exiting = |tracer: i32| self.kernel.is_exiting(tracer as u32);
        still_traces(self.tracer.get() as i32, is_exiting, || self.kernel.tracer() as i32)
    }

    fn is_still_traced(&self) -> bool {
        let same = self.is_traced_as_before();
        let stop_contract = self.stop_contract.control();
        let still_stopped = same && (stop_contract == Control::NOBODY || self.stop_contract.is_in_force(&self.control));
        if !still_stopped && stop_contract != Control::NOBODY {
            self.lose(stop_contract);
        }
        still_stopped || removed(Guard::DebugDies)
    }

    fn holds_assisted(&self) -> bool {
        if !self.answered.get() {
            return true;
        }
        let frozen = |i: &usize| self.member(*i).ack_state(self.epoch.get()) == AckState::Frozen;
        if !self.is_still_traced() {
            return false;
        }
        self.listed().filter(frozen).for_each(|i| self.until(|| self.stands_as_claimed(i)));
        true
    }

    /// Returns whether a thread that the debugger has answered for is stopped, or has parked.
    fn stands_as_claimed(&self, i: usize) -> bool {
        let Thread { state, tid, .. } = &self.threads[i];
        state.has_answered() || self.kernel.is_stopped(*tid)
    }

    fn until(&self, holds: impl Fn() -> bool) {
        while !holds() {
            thread::yield_now();
        }
    }

    fn start_world(&self) {
        let control = self.stop_contract.end();
        self.listed().for_each(|i| self.threads[i].state.release(Holder::Collection));
        if control != Control::NOBODY {
            self.tell_or_lose(control, Notice::StartWorld);
        }
    }

    /// Collects: stop, mark, use the marks if the threads are still stopped, start. If they are not, repeats the collection without a
    /// contract, that is, without relying on a debugger. (The repetition fails only if a debugger attaches during it, answers for a thread,
    /// and dies. Then the real collector gives up; the model tries again.)
    pub(crate) fn collect(&self) {
        let _locks = self.list_changes.then(|| {
            let locks = self.locks.for_stop(|take| take(), &mut Forever);
            locks.expect("Forever does not give up")
        });
        let mut used = self.collect_once(true);
        while !used {
            used = self.collect_once(false);
        }
    }

    fn collect_once(&self, with_contract: bool) -> bool {
        if !self.stop_world(with_contract) {
            self.discarded.set(self.discarded.get() + 1);
            return false;
        }
        let listed: Vec<usize> = self.listed().collect();
        let marked: Vec<u32> = listed.iter().map(|i| self.mark(*i)).collect();
        let control = in_control(&self.control);
        if control.wants_phases() && self.stop_contract.is_in_force(&self.control) {
            self.tell_or_lose(control, Notice::Phase);
        }
        let held = removed(Guard::DebugAskedLate) || self.still_holds();
        if held {
            // Here weak references are cleared and caches are taken back.
            for (i, steps) in listed.iter().zip(marked) {
                assert_eq!(self.steps(*i), steps, "a mutator ran during a scan whose result is used");
                let thread = &self.threads[*i];
                if thread.stack_ptr.load(Ordering::Relaxed) == BY_DEBUGGER {
                    let written_at = thread.registers_of.load(Ordering::Relaxed);
                    assert_eq!(written_at, steps, "the registers are from before the thread ran on");
                }
                // SAFETY: the checker reports every concurrent access.
                self.threads[*i].heap.with_mut(|heap| unsafe { *heap += 100 });
            }
        }
        let held = held && (!removed(Guard::DebugAskedLate) || self.still_holds());
        let count = if held { &self.used } else { &self.discarded };
        count.set(count.get() + 1);
        self.start_world();
        held
    }

    /// Scans a thread's stack and registers. Returns the number of steps that the thread has made so far.
    fn mark(&self, i: usize) -> u32 {
        let thread = &self.threads[i];
        let steps = self.steps(i);
        let stack_ptr = thread.stack_ptr.load(Ordering::Relaxed);
        if stack_ptr == 0 && self.kernel.has_ended(thread.tid) {
            return steps;
        }
        assert!(stack_ptr != 0, "the stack pointer of a stopped thread has not been written");
        if stack_ptr == BY_DEBUGGER {
            // SAFETY: the checker reports every concurrent write.
            assert!(thread.registers.with(|registers| unsafe { *registers }) != 0);
        }
        steps
    }
}
