//! The bridge: a thread vtable that makes the debugger in control, if there is one, take part in stops.
//!
//! It wraps another vtable, which stops the threads if there is no debugger. A world uses the bridge unless configured otherwise. While
//! no debugger is in control it costs a load at each phase of a collection, and one for each thread that attaches or detaches.
//!
//! # Two contracts
//!
//! ```text
//!              full                                          assisted
//!   collector        debugger                     collector        debugger
//!   hold all                                      hold all, signal all that run
//!   STOP_WORLD ────> stop the others              STOP_WORLD ────> answer for frozen threads
//!                    push registers                                (registers, stack_ptr, frozen = epoch)
//!                    write every stack_ptr        wait: parked or frozen
//!              <──── acknowledge                        AGAIN ────> …every 20 ms, until all have stopped
//!   scan, mark, alone                             scan, mark
//!   still traced?                                 frozen ones still held, or parked?
//!   release all                                   release all
//!   START_WORLD ───> restore exactly, resume      START_WORLD ───> nothing to do
//! ```
//!
//! In both contracts, the threads are held in the handshake first. This makes the debugger's death harmless. When the kernel resumes a
//! thread because its tracer is gone, the thread finds that it is held: in the assisted contract in the handler of its pending
//! suspend signal, in the full contract in [`stopworld_debugger_park`].
//!
//! A stop may begin without a debugger, because there was none or it did not acknowledge. After 20 ms such a stop sends AGAIN to the
//! debugger that is in control by then: this debugger may have attached during the stop, and have frozen a thread before the thread
//! could park.
//!
//! # When no debugger acknowledges
//!
//! If a notification is not acknowledged, the collecting thread clears the control word, unless the debugger has only missed this thread and
//! traces others (`.debug.missed`). If that happens at the beginning of a stop, the stop is done by signals; later, the stop is *lost*.
//! Before anything is cleared or freed, the collecting thread checks whether the tracer that the kernel reports is still the same as at the
//! beginning of the stop; if not, the stop is lost too. The marks of a lost stop are discarded, and the collection is repeated by signals
//! (`.debug.dies`).
//!
//! The threads are stopped for some time after this check. If the debugger dies in that time, this happens to a thread:
//!
//! * In full mode, if the answer was PARKED_ON_DEATH: the thread parks in the function to which the debugger has moved its registers.
//! * In full mode with any other answer: the thread takes the suspend signal, which the collecting thread has sent to all threads before
//!   the check, and parks.
//! * In assisted mode: the thread takes the suspend signal that is pending since the stop began, and parks.
//!
//! So a second check is not needed, however long a dump or a census takes after the first one: marks made while the debugger held the
//! threads stay valid. A second check would also be too late: by then weak references are cleared and finalizers queued, which a
//! discarded collection could not undo.
//!
//! # When the answer is false
//!
//! The collecting thread compares each thread that a debugger claims to hold with what the kernel reports about it, once when the
//! debugger has answered and once after marking (`claims.rs`). A debugger whose claim is false loses control. A false claim that is found
//! before the scan ends the stop with an error; if it is found after marking, the marks are discarded. In both cases the collection is
//! repeated without the debugger (`.debug.lies`).
//!
//! # Limits
//!
//! * In an assisted stop, a thread that the debugger has acknowledged as frozen may run nevertheless. If the debugger is killed after the
//!   kernel has reported the thread's suspend signal to it and before it has passed the signal on, the kernel discards the signal. If all
//!   that happens after the check, the thread runs while the collection ends. The same holds for a thread that masks the signal in a
//!   handler of the program. The contract requires a debugger to keep each acknowledged thread frozen until START_WORLD.
//! * A bridge has the state of one stop only, so it serves one world at a time, and refuses a second one. It serves a world as long as
//!   the bridge is installed there, or if the world was built with it.

use std::cell::Cell;
use std::sync::Arc;

use super::claims::{self, Claim, ClaimCheck, FalseClaim, member};
use super::descriptor::{publish_suspend_signal, stopworld_debugger};
use super::notify;
pub use super::park::stopworld_debugger_park;
use super::protocol::{self, AckState, Answer, Control, Mode, StopContract};
use super::request::{Notice, Notification};
use super::served_world::ServedWorld;
use crate::os::{Errno, Tid, signals, thread, tracer};
use crate::sabotage::{Guard, removed};
use crate::sync::{AtomicI32, AtomicU32, AtomicU64, Ordering};
use crate::world::error::DebuggerPart;
use crate::world::handler;
use crate::world::handshake::{Epoch, Holder};
use crate::world::handshake_stop::{self, Notifier, NotifyOutcome};
use crate::world::{
    AtFork, AtInstall, AtPhase, ByHandshake, DebuggerClient, DebuggerNews, FalseAnswer, ForkStep, HoldFault, LostStop,
    Phase, PublishedWorld, RevocableStop, Slot, StopError, StopRequest, ThreadStopInfo, ThreadVtable,
};

/// Stops a world with the debugger that is in control. See the module documentation.
pub struct DebuggerBridge {
    inner: Arc<dyn ThreadVtable>,
    /// The contract of the present stop.
    stop_contract: StopContract,
    /// The answer with which the debugger acknowledged the present stop. Used in full mode only.
    answer: AtomicU64,
    /// The pid of the collecting thread's tracer before the debugger was notified. 0: no debugger has acknowledged anything in this stop.
    tracer: AtomicI32,
    /// 1: a debugger has answered for a thread in this stop. Before the first notification of a stop, the value is that of the previous stop.
    answered: AtomicU32,
    /// The control word when a stop last began.
    known: AtomicU64,
    attached: AtomicU64,
    detached: AtomicU64,
    lost: AtomicU64,
    lost_in: AtomicU32,
    serves: ServedWorld,
    /// The false answer of this stop.
    false_claim: FalseClaim,
}

impl DebuggerBridge {
    /// Creates a bridge over a vtable that needs no debugger. If `inner` is not a built-in vtable, every call is only forwarded to it:
    /// debuggers get no requests and no notifications.
    pub fn over(inner: Arc<dyn ThreadVtable>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            stop_contract: StopContract::new(),
            answer: AtomicU64::new(0),
            tracer: AtomicI32::new(0),
            answered: AtomicU32::new(0),
            known: AtomicU64::new(0),
            attached: AtomicU64::new(0),
            detached: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            lost_in: AtomicU32::new(0),
            serves: ServedWorld::no_world(),
            false_claim: FalseClaim::nothing(),
        })
    }

    /// Returns the control word and the mode of the debugger that is in control, if requests can be sent to it.
    fn in_control(&self) -> Option<(Control, Mode)> {
        let control = protocol::in_control(&stopworld_debugger.control);
        let mode = control.mode()?;
        self.stops_by_handshake().then_some((control, mode))
    }

    /// Whether the wrapped stopper uses the handshake, so that debuggers can take part.
    fn stops_by_handshake(&self) -> bool {
        self.inner.by_handshake().is_some()
    }

    /// Called when a stop begins, with the control word at that time. Records which debuggers have attached and detached since the last
    /// stop.
    fn note_debugger(&self, control: Control) {
        let known = Control(self.known.load(Ordering::Relaxed));
        if known.is_of_the_same(control) {
            return;
        }
        self.known.store(control.0, Ordering::Relaxed);
        if known != Control::NOBODY {
            self.detached.store(known.0, Ordering::Relaxed);
        }
        if control != Control::NOBODY {
            self.attached.store(control.0, Ordering::Relaxed);
        }
    }

    /// Notifies the debugger. If it does not acknowledge, it is lost.
    fn notify(&self, control: Control, phase: Phase, notification: &Notification<'_>) -> Answer {
        let answer = notify::send(control, notification);
        if answer == Answer::Nobody {
            self.not_served(control, phase, tracer::of_myself());
        }
        answer
    }

    /// Called when the debugger with this control word has not acknowledged a request of the calling thread, whose tracer is `tracer`, or
    /// cannot, because there is none. The debugger is lost for the present stop. If it is gone, its control word is cleared.
    fn not_served(&self, control: Control, phase: Phase, tracer: i32) {
        if protocol::is_gone(tracer, || tracer::any_traced().is_some()) {
            self.lose(control, phase);
        } else {
            self.lose_stop(control);
        }
    }

    /// Records that the debugger with this control word is lost for the present stop, if the stop began under its control.
    fn lose_stop(&self, control: Control) {
        if self.stop_contract.control().is_of_the_same(control) {
            self.stop_contract.lose();
        }
    }

    /// Records that the debugger with this control word is gone.
    fn lose(&self, control: Control, phase: Phase) {
        self.lose_stop(control);
        if protocol::vacate(&stopworld_debugger.control, control) {
            self.known.store(0, Ordering::Relaxed);
            self.lost_in.store(phase as u32, Ordering::Relaxed);
            self.lost.store(control.0, Ordering::Relaxed);
        }
    }

    fn notify_stop(&self, control: Control, notice: Notice, stop: &StopRequest<'_>) -> Answer {
        let stop_contract = match (notice, self.stop_contract.control()) {
            (Notice::Again, _) => Control(Control::ASSISTED),
            (_, Control::NOBODY) => control,
            (_, stop_contract) => stop_contract,
        };
        let notification = Notification {
            notice,
            detail: stop_contract.mode_number(),
            tid: thread::gettid(),
            world: Some(stop.world()),
            thread: stop.collecting(),
            epoch: stop.epoch(),
        };
        self.notify(control, stop.world().phase(), &notification)
    }

    fn notify_thread(&self, notice: Notice, tid: Tid, slot: Slot) {
        let Some((control, _)) = self.in_control() else { return };
        let record = slot.record();
        // SAFETY: the world's own locks are held, so it is alive.
        let world = unsafe { record.published_world() };
        let notification = Notification { notice, detail: 0, tid, world, thread: Some(record), epoch: 0 };
        self.notify(control, world.map_or(Phase::Running, PublishedWorld::phase), &notification);
    }

    /// Returns the present tracer. Called before a request, so that a debugger that attaches during the request is not mistaken for the
    /// debugger to which the request was addressed. If there is no tracer, returns `None`, and the control word of a dead debugger is
    /// cleared.
    fn current_tracer(&self, control: Control, phase: Phase) -> Option<i32> {
        let tracer = tracer::of_myself();
        if tracer == 0 {
            self.not_served(control, phase, tracer);
        }
        (tracer != 0).then_some(tracer)
    }

    /// Holds and signals all threads, and waits until they have stopped. If a debugger is in control, or attaches meanwhile, it takes part
    /// by the assisted contract.
    fn hold_and_signal(&self, stop: &StopRequest<'_>) -> Result<(), StopError> {
        let requester = StopRequester::of(self, stop);
        let epoch = handshake_stop::hold(stop, |record| requester.notify(record));
        self.wait(&requester, stop, epoch)
    }

    /// Waits until all threads have stopped. Fails if the debugger's answer is false.
    fn wait(&self, requester: &StopRequester<'_>, stop: &StopRequest<'_>, epoch: Epoch) -> Result<(), StopError> {
        let stopped = handshake_stop::wait(requester, stop, epoch);
        let Some(answer) = self.false_claim.take() else { return stopped };
        if stopped.is_ok() {
            handshake_stop::start(stop);
        }
        Err(StopError::FalseAnswer(answer))
    }

    /// Records that the debugger's answer for this thread is false: the debugger loses control.
    fn reject_claim(&self, record: &'static ThreadStopInfo, fault: HoldFault, control: Control, phase: Phase) {
        self.false_claim.note(record, fault);
        self.lose(control, phase);
    }

    fn stop_assisted(&self, stop: &StopRequest<'_>, control: Control) -> Result<(), StopError> {
        self.ensure_suspend_signal();
        let stopped = self.hold_and_signal(stop);
        if stopped.is_err() && self.stop_contract.end() != Control::NOBODY {
            self.notify_stop(control, Notice::StartWorld, stop);
        }
        stopped
    }

    /// Installs the handler of the suspend signal if there is none. In a world that stops at safepoints, a frozen thread that is resumed
    /// during the stop would run on to its next safepoint; the signal stops it at once. If the handler cannot be installed, frozen threads
    /// are not counted as stopped.
    fn ensure_suspend_signal(&self) {
        if handler::installed().is_none() {
            handler::install_in_a_stop(signals::DEFAULT);
        }
        publish_suspend_signal();
    }

    fn stop_full(&self, stop: &StopRequest<'_>, control: Control) -> Result<(), StopError> {
        self.ensure_suspend_signal();
        let epoch = handshake_stop::hold(stop, |_| NotifyOutcome::Maybe);
        if let Some(tracer) = self.current_tracer(control, stop.world().phase())
            && let Answer::Acknowledged(answer) = self.notify_stop(control, Notice::StopWorld, stop)
        {
            self.answer.store(answer, Ordering::Relaxed);
            self.tracer.store(tracer, Ordering::Relaxed);
            // The collecting thread waits for no thread any more.
            stop.handshake().close(Holder::Collection);
            self.rely_on(stop);
            return match claims::first_lie(stop, |record| claims::fault(record, self.claim())) {
                Some((record, fault)) if self.is_traced_as_before() => Err(self.refuse(stop, control, record, fault)),
                // If the debugger has died, the threads are parking, and the check after marking detects it.
                _ => Ok(()),
            };
        }
        // From here on the stop continues as without a debugger. The debugger may have stopped some threads, which its death has
        // resumed.
        self.stop_contract.end();
        let requester = StopRequester::of(self, stop);
        let gone = handshake_stop::notify_again(&requester, stop);
        stop.handshake().satisfied(Holder::Collection, epoch, gone);
        self.wait(&requester, stop, epoch)
    }

    /// Called when a full stop is acknowledged: records the threads that the debugger has answered for, which are those that had not
    /// stopped before.
    fn rely_on(&self, stop: &StopRequest<'_>) {
        for record in stop.threads() {
            let had_stopped = record.stop_state().has_answered();
            if had_stopped {
                // The thread is in a blocking region, or still parked: the values that it published are valid, whatever the debugger
                // wrote.
                record.use_saved_sp();
            } else if record.stack_ptr() == 0 && !thread::is_alive(record.tid()) {
                record.mark_gone();
            }
            member(record).rely(!had_stopped && record.stack_ptr() != 0);
        }
        self.answered.store(1, Ordering::Relaxed);
    }

    /// Returns how the debugger claims to hold the threads of the present full stop.
    fn claim(&self) -> Claim {
        match self.answer.load(Ordering::Relaxed) & Answer::PARKED_ON_DEATH {
            0 => Claim::Stopped,
            _ => Claim::AtPark,
        }
    }

    /// Ends a full stop before anything is scanned. START_WORLD makes the debugger resume the threads that it has really stopped.
    fn refuse(
        &self,
        stop: &StopRequest<'_>,
        control: Control,
        record: &'static ThreadStopInfo,
        fault: HoldFault,
    ) -> StopError {
        self.reject_claim(record, fault, control, stop.world().phase());
        handshake_stop::start(stop);
        if self.stop_contract.end() != Control::NOBODY {
            self.notify_stop(control, Notice::StartWorld, stop);
        }
        let answer = self.false_claim.take();
        StopError::FalseAnswer(answer.unwrap_or(FalseAnswer { name: record.name(), tid: record.tid(), found: fault }))
    }

    /// Returns whether the debugger that stopped the threads in a full stop still holds them.
    fn holds_full(&self, stop: &StopRequest<'_>) -> bool {
        if self.answer.load(Ordering::Relaxed) & Answer::PARKED_ON_DEATH == 0 {
            // The signal is sent before the check: if the debugger dies after the check, these threads take the signal and park.
            stop.threads().for_each(|record| {
                send_suspend_signal(record);
            });
        }
        if self.is_still_traced(stop) {
            let let_go = |record: &ThreadStopInfo| match claims::fault(record, self.claim()) {
                None if record.stop_state().has_answered() => Some(HoldFault::LetGo),
                None => None,
                // The thread was stopped when the debugger answered.
                Some(HoldFault::Running) => Some(HoldFault::LetGo),
                fault => fault,
            };
            match claims::first_lie(stop, let_go) {
                None => return true,
                Some((record, fault)) if self.is_still_traced(stop) => {
                    self.reject_claim(record, fault, self.stop_contract.control(), stop.world().phase());
                    return false;
                }
                // The debugger has died between the two checks.
                Some(_) => {}
            }
        }
        // The threads are parking by now; the scan is over, and its result is not used. A thread whose suspend signal was lost with the debugger
        // needs another one; a thread that has ended never parks.
        let runs = |record: &&ThreadStopInfo| !record.stop_state().has_answered() && thread::is_alive(record.tid());
        let signal_again = || {
            stop.threads().filter(runs).for_each(|record| {
                send_suspend_signal(record);
            });
        };
        claims::wait_until(|| !stop.threads().any(|record| runs(&record)), signal_again);
        false
    }

    /// Returns whether the tracer is still the one that has acknowledged in this stop, and does not end.
    fn is_traced_as_before(&self) -> bool {
        protocol::still_traces(self.tracer.load(Ordering::Relaxed), tracer::is_exiting, tracer::of_myself)
    }

    /// Returns whether the debugger that acknowledged in this stop still holds the threads that it held then.
    fn is_still_traced(&self, stop: &StopRequest<'_>) -> bool {
        let same = self.is_traced_as_before();
        let stop_contract = self.stop_contract.control();
        let still_stopped =
            same && (stop_contract == Control::NOBODY || self.stop_contract.is_in_force(&stopworld_debugger.control));
        if !still_stopped && stop_contract != Control::NOBODY {
            self.lose(stop_contract, stop.world().phase());
        }
        still_stopped || removed(Guard::DebugDies)
    }

    /// Returns whether every thread for which a debugger has answered is still frozen, or has parked.
    fn holds_assisted(&self, stop: &StopRequest<'_>) -> bool {
        if self.answered.load(Ordering::Relaxed) == 0 {
            return true;
        }
        if !self.is_still_traced(stop) {
            return false;
        }
        let Some((record, fault)) = claims::first_unfrozen(stop, ClaimCheck::AfterMarking, |_| ()) else { return true };
        if self.is_still_traced(stop) {
            let fault = if fault == HoldFault::Running { HoldFault::LetGo } else { fault };
            self.reject_claim(record, fault, self.stop_contract.control(), stop.world().phase());
        }
        false
    }

    /// Stops the world by signals, whichever debugger is in control. Called after a lost stop.
    fn stop_without_contract(&self, stop: &StopRequest<'_>) -> Result<(), StopError> {
        self.stop_contract.begin(Control::NOBODY);
        self.tracer.store(0, Ordering::Relaxed);
        if self.stops_by_handshake() { self.hold_and_signal(stop) } else { self.inner.stop_world(stop) }
    }
}

/// Sends the suspend signal, if there is one.
fn send_suspend_signal(record: &ThreadStopInfo) -> NotifyOutcome {
    let sent = match handler::installed() {
        Some(signal) => handler::send(record, signal),
        // SAFETY: signal 0 only checks whether the thread exists.
        None => unsafe { thread::tgkill(record.tid(), 0) },
    };
    if sent == Err(Errno::ESRCH) { NotifyOutcome::Gone } else { NotifyOutcome::Maybe }
}

/// A built-in vtable, with a debugger that may answer for some threads.
struct StopRequester<'a> {
    bridge: &'a DebuggerBridge,
    /// No debugger has been notified in this stop yet.
    first: Cell<bool>,
    /// A debugger has acknowledged, and its answers count. The answers of a debugger that has died do not count: the kernel has resumed its
    /// threads.
    counts: Cell<bool>,
    /// The attach id and the process id of the debugger that was notified last.
    notified: Cell<Option<(u32, i32)>>,
    epoch: u64,
    /// Data for an error: the control word when the stop began, how many requests were sent to a debugger, and how many it acknowledged.
    control: Control,
    asked: Cell<u32>,
    acknowledged: Cell<u32>,
}

impl<'a> StopRequester<'a> {
    fn of(bridge: &'a DebuggerBridge, stop: &StopRequest<'_>) -> Self {
        let control = protocol::in_control(&stopworld_debugger.control);
        let (first, counts, notified) = (Cell::new(true), Cell::new(false), Cell::new(None));
        let (asked, acknowledged) = (Cell::new(0), Cell::new(0));
        Self { bridge, first, counts, notified, epoch: stop.epoch(), control, asked, acknowledged }
    }

    fn is_assisted(&self) -> bool {
        self.bridge.stop_contract.control().mode() == Some(Mode::Assisted)
    }
}

impl Notifier for StopRequester<'_> {
    fn name(&self) -> &'static str {
        self.bridge.name()
    }

    fn signal(&self) -> i32 {
        match self.bridge.inner.by_handshake().and_then(ByHandshake::signal) {
            None if !self.is_assisted() => 0,
            _ => handler::installed().unwrap_or(0),
        }
    }

    fn notify(&self, record: &ThreadStopInfo) -> NotifyOutcome {
        if self.signal() != 0 {
            send_suspend_signal(record)
        } else if thread::is_alive(record.tid()) {
            NotifyOutcome::Maybe
        } else {
            NotifyOutcome::Gone
        }
    }

    fn should_give_up(&self) -> bool {
        self.bridge.false_claim.is_something()
    }

    fn notify_again_after_ns(&self) -> u64 {
        if self.bridge.in_control().is_some() { 20_000_000 } else { handshake_stop::NOTIFY_AGAIN_NS }
    }

    fn all_stopped(&self, stop: &StopRequest<'_>, outstanding: u32) -> bool {
        if self.counts.get() {
            protocol::all_stopped(stop.threads().map(member), self.epoch, outstanding)
        } else {
            // Check the threads that were counted for a debugger that has died since.
            let nobody = self.bridge.answered.load(Ordering::Relaxed) == 0;
            outstanding == 0 && (nobody || stop.threads().all(|record| self.is_stopped(record)))
        }
    }

    fn is_stopped(&self, record: &ThreadStopInfo) -> bool {
        match member(record).ack_state(self.epoch) {
            AckState::ByItself => true,
            AckState::Frozen => self.counts.get(),
            AckState::No => false,
        }
    }

    fn debuggers_part(&self) -> Option<DebuggerPart> {
        Some(DebuggerPart {
            control_at_first: self.control.0,
            control_at_last: protocol::in_control(&stopworld_debugger.control).0,
            asked: self.asked.get(),
            acknowledged: self.acknowledged.get(),
            tracer: tracer::of_myself(),
            others_tracer: tracer::any_traced().map_or(0, |traced| traced.tracer),
        })
    }

    fn request_answers(&self, stop: &StopRequest<'_>) -> u32 {
        let first = self.first.replace(false);
        if first && self.bridge.answered.swap(0, Ordering::Relaxed) != 0 {
            stop.threads().for_each(|record| member(record).forget());
        }
        if first && !self.is_assisted() {
            return 0;
        }
        let notice = if first { Notice::StopWorld } else { Notice::Again };
        let Some((control, _)) = self.bridge.in_control() else {
            self.counts.set(false);
            return 0;
        };
        let Some(tracer) = self.bridge.current_tracer(control, stop.world().phase()) else {
            self.counts.set(false);
            return 0;
        };
        let debugger = Some((control.who(), tracer));
        if self.notified.replace(debugger) != debugger {
            stop.threads().for_each(|record| member(record).discard_answer());
        }
        // A debugger that attaches during the stop may hold threads in a world that stops at safepoints: see `ensure_suspend_signal`.
        self.bridge.ensure_suspend_signal();
        if handler::installed().is_some() && self.signal() == 0 {
            stop.threads().filter(|record| !record.stop_state().has_answered()).for_each(|record| {
                send_suspend_signal(record);
            });
        }
        let answer = self.bridge.notify_stop(control, notice, stop);
        self.asked.set(self.asked.get() + 1);
        self.acknowledged.set(self.acknowledged.get() + u32::from(answer != Answer::Nobody));
        self.counts.set(answer != Answer::Nobody && handler::installed().is_some());
        if !self.counts.get() {
            return 0;
        }
        self.bridge.tracer.store(tracer, Ordering::Relaxed);
        let signal_again = |record: &ThreadStopInfo| {
            send_suspend_signal(record);
        };
        if let Some((record, fault)) = claims::first_unfrozen(stop, ClaimCheck::BeforeScanning, signal_again) {
            self.counts.set(false);
            // A debugger that has died since counts as having answered for no thread.
            if self.bridge.is_traced_as_before() {
                self.bridge.reject_claim(record, fault, control, stop.world().phase());
            }
            return 0;
        }
        let newly = protocol::newly_frozen(stop.threads().map(member), self.epoch);
        if newly != 0 {
            self.bridge.answered.store(1, Ordering::Relaxed);
        }
        newly
    }
}

/// The bridge without its contracts: stops by the wrapped vtable even if a debugger is in control. The debugger is only requested to
/// answer for threads that do not acknowledge. Used to repeat a collection.
pub(crate) struct WithoutContract(pub(crate) Arc<DebuggerBridge>);

// SAFETY: as for the bridge.
unsafe impl ThreadVtable for WithoutContract {
    fn name(&self) -> &'static str {
        self.0.inner.name()
    }

    fn stop_world(&self, stop: &StopRequest<'_>) -> Result<(), StopError> {
        self.0.stop_without_contract(stop)
    }

    fn start_world(&self, stop: &StopRequest<'_>) {
        self.0.start_world(stop);
    }

    // It is never installed: the bridge is, and is notified of the threads.
    fn thread_created(&self, _: Tid, _: Slot) {}

    fn thread_exited(&self, _: Tid, _: Slot) {}

    fn revocable_stop(&self) -> Option<&dyn RevocableStop> {
        self.0.revocable_stop()
    }

    fn at_install(&self) -> Option<&dyn AtInstall> {
        self.0.at_install()
    }
}

const FULL: &str = "debugger (full)";
const ASSISTED: &str = "debugger (assisted)";

// SAFETY: without a debugger it is the wrapped vtable. With one, a stop is complete when every thread is held in the handshake and has
// parked there, or is stopped by the tracer that acknowledged it; that is checked again before anything is freed. Nothing here allocates or
// takes a lock that a stopped thread may hold.
unsafe impl ThreadVtable for DebuggerBridge {
    fn name(&self) -> &'static str {
        match self.stop_contract.control().mode() {
            None => self.inner.name(),
            Some(Mode::Full) => FULL,
            Some(Mode::Assisted) => ASSISTED,
        }
    }

    fn stop_world(&self, stop: &StopRequest<'_>) -> Result<(), StopError> {
        let Some((control, mode)) = self.in_control() else {
            self.note_debugger(Control::NOBODY);
            return self.stop_without_contract(stop);
        };
        self.note_debugger(control);
        self.tracer.store(0, Ordering::Relaxed);
        self.stop_contract.begin(control);
        let stopped = match mode {
            Mode::Full => self.stop_full(stop, control),
            Mode::Assisted => self.stop_assisted(stop, control),
        };
        if stopped.is_err() {
            self.stop_contract.end();
        }
        stopped
    }

    fn start_world(&self, stop: &StopRequest<'_>) {
        if !self.stops_by_handshake() {
            return self.inner.start_world(stop);
        }
        // The threads are released before the debugger resumes them: a thread that the debugger's death resumes now must continue, too.
        handshake_stop::start(stop);
        match self.stop_contract.end() {
            Control::NOBODY => {}
            control => {
                self.notify_stop(control, Notice::StartWorld, stop);
            }
        }
    }

    fn thread_created(&self, tid: Tid, slot: Slot) {
        self.inner.thread_created(tid, slot);
        self.notify_thread(Notice::ThreadCreated, tid, slot);
    }

    fn thread_exited(&self, tid: Tid, slot: Slot) {
        self.inner.thread_exited(tid, slot);
        self.notify_thread(Notice::ThreadExited, tid, slot);
    }

    fn revocable_stop(&self) -> Option<&dyn RevocableStop> {
        Some(self)
    }

    fn by_handshake(&self) -> Option<&dyn ByHandshake> {
        self.inner.by_handshake()
    }

    fn at_install(&self) -> Option<&dyn AtInstall> {
        Some(self)
    }

    fn at_phase(&self) -> Option<&dyn AtPhase> {
        // While no debugger wants phases, each costs this load.
        protocol::in_control(&stopworld_debugger.control).wants_phases().then_some(self)
    }

    fn debugger_client(&self) -> Option<&dyn DebuggerClient> {
        self.stops_by_handshake().then_some(self)
    }

    fn at_fork(&self) -> Option<&dyn AtFork> {
        Some(self)
    }
}

// SAFETY: without a debugger in the stop, the wrapped vtable answers. With one, the kernel is asked whether each thread that the debugger has
// answered for is still held; all others have parked in the handshake. Only system calls and atomics are used.
unsafe impl RevocableStop for DebuggerBridge {
    fn still_holds(&self, stop: &StopRequest<'_>) -> Result<(), LostStop> {
        if self.tracer.load(Ordering::Relaxed) == 0 {
            return self.inner.revocable_stop().map_or(Ok(()), |inner| inner.still_holds(stop));
        }
        let is_held = match self.stop_contract.control().mode() {
            Some(Mode::Full) => self.holds_full(stop),
            _ => self.holds_assisted(stop),
        };
        if is_held {
            return Ok(());
        }
        Err(self.false_claim.take().map_or(LostStop::Released, LostStop::FalseAnswer))
    }

    fn stops_whole_process(&self) -> bool {
        // Also in an assisted stop: the debugger may hold markers, for which no debugger answers.
        self.tracer.load(Ordering::Relaxed) != 0
            || self.inner.revocable_stop().is_some_and(RevocableStop::stops_whole_process)
    }
}

impl AtInstall for DebuggerBridge {
    fn enter_world(&self, world: &PublishedWorld) -> Result<(), String> {
        let inner = self.inner.at_install();
        inner.map_or(Ok(()), |inner| inner.enter_world(world))?;
        if self.serves.enter(world) {
            return Ok(());
        }
        if let Some(inner) = inner {
            inner.leave_world(world);
        }
        Err("this bridge serves another world: give each world one of its own (DebuggerBridge::over)".into())
    }

    fn leave_world(&self, world: &PublishedWorld) {
        self.serves.leave(world);
        if let Some(inner) = self.inner.at_install() {
            inner.leave_world(world);
        }
    }
}

impl AtPhase for DebuggerBridge {
    fn phase(&self, world: &PublishedWorld, phase: Phase) {
        let Some((control, _)) = self.in_control() else { return };
        // In the stopped world only the debugger with which the stop was begun is notified.
        let is_outside = matches!(phase, Phase::SuspendBegin | Phase::RestartEnd);
        if is_outside || self.stop_contract.is_in_force(&stopworld_debugger.control) {
            let (detail, tid) = (phase as u32, thread::gettid());
            let notification = Notification {
                notice: Notice::Phase,
                detail,
                tid,
                world: Some(world),
                thread: None,
                epoch: world.epoch(),
            };
            self.notify(control, phase, &notification);
        }
    }
}

impl DebuggerClient for DebuggerBridge {
    fn news(&self) -> Option<DebuggerNews> {
        let take = |word: &AtomicU64| match word.load(Ordering::Relaxed) {
            0 => None,
            _ => Some(word.swap(0, Ordering::Relaxed)),
        };
        let detached = take(&self.detached).map(|control| DebuggerNews::Detached { control });
        let attached = || take(&self.attached).map(|control| DebuggerNews::Attached { control });
        let lost = || {
            let phase = Phase::of(self.lost_in.load(Ordering::Relaxed)).unwrap_or(Phase::Running);
            take(&self.lost).map(|control| DebuggerNews::Lost { control, phase })
        };
        detached.or_else(attached).or_else(lost)
    }
}

impl AtFork for DebuggerBridge {
    unsafe fn fork(&self, step: ForkStep) {
        if let Some(inner) = self.inner.at_fork() {
            // SAFETY: the caller's promise.
            unsafe { inner.fork(step) };
        }
        if let ForkStep::Child { .. } = step {
            // The parent's tracer does not trace this child; if it does, it takes control again.
            stopworld_debugger.control.store(0, Ordering::Relaxed);
            self.stop_contract.begin(Control::NOBODY);
            self.tracer.store(0, Ordering::Relaxed);
            for word in [&self.known, &self.attached, &self.detached, &self.lost] {
                word.store(0, Ordering::Relaxed);
            }
        }
    }
}
