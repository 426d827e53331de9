//! The bridge: a thread vtable that asks the debugger that is in control, and does without if there is none.
//!
//! It is laid over a stopper of the world's own, and is what a world has in force unless told otherwise. With nobody in control
//! it costs one load per collection, and one for each thread that comes or goes.
//!
//! # Two contracts
//!
//! ```text
//!              full                                          assisted
//!   collector        debugger                     collector        debugger
//!   hold all                                      hold all, signal all that run
//!   STOP_WORLD ────> stop the others              STOP_WORLD ────> answer for whom you hold frozen
//!                    push registers                                (registers, stack_ptr, frozen = epoch)
//!                    write every stack_ptr        wait: parked or frozen
//!              <──── acknowledge                        AGAIN ────> …every 20 ms, until all stand
//!   scan, mark, alone                             scan, mark
//!   still traced?                                 frozen ones still held, or parked?
//!   release all                                   release all
//!   START_WORLD ───> restore exactly, let go      START_WORLD ───> nothing to do
//! ```
//!
//! In both the threads are held in the handshake first. It is what makes the debugger's death harmless: a thread that the kernel
//! lets go because its tracer is gone finds that it is held, by its pending suspend signal in the one contract, in
//! [`stopworld_debugger_park`] in the other.
//!
//! # When nobody answers
//!
//! A notification that was not acknowledged clears the control word, and the stop goes on with signals (`.debug.dies`). In a full
//! stop the collecting thread looks once more before anything is cleared or freed: is its tracer the one that acknowledged? If not, the
//! marks are discarded and the collection is repeated.
//!
//! # Limits
//!
//! * A thread that masks the suspend signal in a handler of the program's own, is answered for while frozen, and is let go before
//!   the end of the stop runs on in mid-scan: the debugger's obligation is to keep it frozen. If the debugger dies there, the look before
//!   anything is freed discards the collection; if it dies after that look, nothing does.
//! * A full debugger that does not answer [`Answer::PARKED_ON_DEATH`] has the same gap for every thread.
//! * One bridge serves one world.

use std::cell::Cell;
use std::sync::Arc;

use super::contract::stopworld_debugger;
use super::notify::{self, News, Notice};
use super::protocol::{self, Agreed, Answer, Control, Member, Mode, Standing};
use crate::os::clock::now_ns;
use crate::os::{Errno, Tid, signals, thread, tracer};
use crate::sabotage::{Guard, removed};
use crate::sync::{AtomicI32, AtomicU32, AtomicU64, Ordering};
use crate::world::ask::{self, Teller, Told};
use crate::world::handler;
use crate::world::handshake::Holder;
use crate::world::{
    DebuggerNews, ForkStep, Phase, PublishedWorld, StopError, StopRequest, ThreadStopInfo, ThreadVtable,
};

/// Asks the debugger that is in control. See the module's text.
pub struct DebuggerBridge {
    inner: Arc<dyn ThreadVtable>,
    /// The contract of the present stop.
    agreed: Agreed,
    /// What the debugger answered to it, if it is a full one, and which process that was.
    answer: AtomicU64,
    tracer: AtomicI32,
    /// Who was in control when a stop was last begun.
    known: AtomicU64,
    attached: AtomicU64,
    detached: AtomicU64,
    lost: AtomicU64,
    lost_in: AtomicU32,
}

impl DebuggerBridge {
    /// A bridge over a way of stopping that does without a debugger. If that is none of the built-in ones, it is merely passed on
    /// to: debuggers are neither asked nor told.
    pub fn over(inner: Arc<dyn ThreadVtable>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            agreed: Agreed::new(),
            answer: AtomicU64::new(0),
            tracer: AtomicI32::new(0),
            known: AtomicU64::new(0),
            attached: AtomicU64::new(0),
            detached: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            lost_in: AtomicU32::new(0),
        })
    }

    /// The word of a debugger that can be asked.
    fn in_control(&self) -> Option<(Control, Mode)> {
        let control = protocol::in_control(&stopworld_debugger.control);
        let mode = control.mode()?;
        self.inner.stops_by_handshake().then_some((control, mode))
    }

    /// A stop begins under this word: notes who has come and who has gone since the last one.
    fn meet(&self, control: Control) {
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

    /// Tells the debugger; if it is not there, takes its word away.
    fn tell(&self, control: Control, phase: Phase, news: &News<'_>) -> Answer {
        let answer = notify::tell(control, news);
        if answer == Answer::Nobody {
            self.lose(control, phase);
        }
        answer
    }

    /// The debugger of this word is gone.
    fn lose(&self, control: Control, phase: Phase) {
        self.agreed.end();
        if protocol::vacate(&stopworld_debugger.control, control) {
            self.known.store(0, Ordering::Relaxed);
            self.lost_in.store(phase as u32, Ordering::Relaxed);
            self.lost.store(control.0, Ordering::Relaxed);
        }
    }

    fn tell_of_stop(&self, control: Control, notice: Notice, stop: &StopRequest<'_>) -> Answer {
        let news = News {
            notice,
            detail: 0,
            tid: thread::gettid(),
            world: Some(stop.world()),
            thread: stop.collecting(),
            epoch: stop.epoch(),
        };
        self.tell(control, stop.world().phase(), &news)
    }

    fn tell_of_thread(&self, notice: Notice, tid: Tid, slot: *mut usize) {
        let Some((control, _)) = self.in_control() else { return };
        // SAFETY: the slot of a thread that is about to be, or has just been, one of the world's.
        let record = unsafe { ThreadStopInfo::of_slot(slot) };
        // SAFETY: the world's own locks are held: it is there.
        let world = unsafe { record.published_world() };
        let news = News { notice, detail: 0, tid, world, thread: Some(record), epoch: 0 };
        self.tell(control, world.map_or(Phase::Running, PublishedWorld::phase), &news);
    }

    /// Signals reach every thread, frozen ones too, and wait there.
    fn stop_assisted(&self, stop: &StopRequest<'_>, control: Control) -> Result<(), StopError> {
        if handler::installed().is_none() {
            // A world that stops at safepoints: one that is let go in mid-stop would run on to the next. Should the installation
            // fail, then frozen threads are not believed to stand.
            let _ = handler::install(signals::DEFAULT);
        }
        super::contract::publish_suspend_signal();
        stop.threads().for_each(|record| member(record).forget());
        let assistant = Assistant { bridge: self, control, asked: Cell::new(false), epoch: stop.epoch() };
        let epoch = ask::hold(stop, |record| assistant.tell(record));
        let stopped = ask::wait(&assistant, stop, epoch);
        if stopped.is_err() && self.agreed.end() != Control::NOBODY {
            self.tell_of_stop(control, Notice::StartWorld, stop);
        }
        stopped
    }

    fn stop_full(&self, stop: &StopRequest<'_>, control: Control) -> Result<(), StopError> {
        super::contract::publish_suspend_signal();
        let epoch = ask::hold(stop, |_| Told::Maybe);
        if let Answer::Acknowledged(answer) = self.tell_of_stop(control, Notice::StopWorld, stop) {
            // Who lets us go on is who holds the others.
            let tracer = tracer::of_myself();
            if tracer != 0 {
                self.answer.store(answer, Ordering::Relaxed);
                self.tracer.store(tracer, Ordering::Relaxed);
                // Nobody is waited for any more.
                stop.handshake().close(Holder::Collection);
                stop.threads()
                    .filter(|record| record.stack_ptr() == 0 && !thread::is_alive(record.tid()))
                    .for_each(ThreadStopInfo::mark_gone);
                return Ok(());
            }
            self.lose(control, stop.world().phase());
        }
        // As without a debugger, from here on. Some may have been stopped, and let go by its death.
        let alone = Alone(self);
        let gone = ask::tell_again(&alone, stop);
        stop.handshake().satisfied(Holder::Collection, epoch, gone);
        ask::wait(&alone, stop, epoch)
    }

    /// Whether the one who holds a full stop still does.
    fn holds_full(&self, stop: &StopRequest<'_>, control: Control) -> bool {
        if tracer::of_myself() == self.tracer.load(Ordering::Relaxed) || removed(Guard::DebugDies) {
            return true;
        }
        self.lose(control, stop.world().phase());
        if self.answer.load(Ordering::Relaxed) & Answer::PARKED_ON_DEATH != 0 {
            wait_until(|| stop.threads().all(|record| record.stop_state().has_answered()));
        }
        false
    }

    /// Whether every thread for which the debugger answered an assisted stop is still frozen, or has parked.
    fn holds_assisted(&self, stop: &StopRequest<'_>) -> bool {
        let frozen = |record: &&ThreadStopInfo| member(record).standing(stop.epoch()) == Standing::Frozen;
        stop.threads().filter(|record| frozen(record)).all(|record| {
            let stands = || record.stop_state().has_answered() || tracer::holds(record.tid());
            wait_until(stands) || removed(Guard::DebugDies)
        })
    }
}

/// How long a thread that its debugger has let go may take to its first step, which is to park.
const PARKS_WITHIN_NS: u64 = 1_000_000_000;

/// Looks again and again, for a second.
fn wait_until(holds: impl Fn() -> bool) -> bool {
    let begin = now_ns();
    loop {
        if holds() {
            return true;
        }
        if now_ns() - begin > PARKS_WITHIN_NS {
            return false;
        }
        thread::sleep_ns(100_000);
    }
}

fn member(record: &ThreadStopInfo) -> Member<'_> {
    Member { state: record.stop_state(), frozen: record.frozen_word(), counted: record.counted_word() }
}

/// Tells by the suspend signal, if there is one.
fn tell_by_signal(record: &ThreadStopInfo) -> Told {
    let told = match handler::installed() {
        Some(signal) => handler::send(record, signal),
        None => thread::tgkill(record.tid(), 0),
    };
    if told == Err(Errno::ESRCH) { Told::Gone } else { Told::Maybe }
}

/// The signal stopper, with a debugger that answers for some.
struct Assistant<'a> {
    bridge: &'a DebuggerBridge,
    control: Control,
    /// Whether it has been asked once.
    asked: Cell<bool>,
    epoch: u64,
}

impl Assistant<'_> {
    /// Whether its answers count. Not those of one that died: the kernel has let go whom it held.
    fn is_believed(&self) -> bool {
        self.bridge.agreed.control() != Control::NOBODY && handler::installed().is_some()
    }
}

impl Teller for Assistant<'_> {
    fn name(&self) -> &'static str {
        ASSISTED
    }

    fn signal(&self) -> i32 {
        handler::installed().unwrap_or(0)
    }

    fn tell(&self, record: &ThreadStopInfo) -> Told {
        tell_by_signal(record)
    }

    fn asks_again_after_ns(&self) -> u64 {
        20_000_000
    }

    fn all_stand(&self, stop: &StopRequest<'_>, outstanding: u32) -> bool {
        if self.is_believed() {
            protocol::all_stand(stop.threads().map(member), self.epoch, outstanding)
        } else {
            stop.threads().all(|record| record.stop_state().has_answered())
        }
    }

    fn stands(&self, record: &ThreadStopInfo) -> bool {
        match member(record).standing(self.epoch) {
            Standing::ByItself => true,
            Standing::Frozen => self.is_believed(),
            Standing::No => false,
        }
    }

    fn ask_for_answers(&self, stop: &StopRequest<'_>) -> u32 {
        if self.bridge.agreed.control() == Control::NOBODY {
            return 0;
        }
        let notice = if self.asked.replace(true) { Notice::Again } else { Notice::StopWorld };
        self.bridge.tell_of_stop(self.control, notice, stop);
        if self.is_believed() { protocol::newly_frozen(stop.threads().map(member), self.epoch) } else { 0 }
    }
}

/// What a full stop becomes when its debugger is gone.
struct Alone<'a>(&'a DebuggerBridge);

impl Teller for Alone<'_> {
    fn name(&self) -> &'static str {
        self.0.inner.name()
    }

    fn signal(&self) -> i32 {
        handler::installed().unwrap_or(0)
    }

    fn tell(&self, record: &ThreadStopInfo) -> Told {
        tell_by_signal(record)
    }
}

const FULL: &str = "debugger (full)";
const ASSISTED: &str = "debugger (assisted)";

// SAFETY: without a debugger it is the vtable below. With one, a stop is over when every thread is held in the handshake and
// has parked there, or is stopped by the tracer that acknowledged it; that is looked at again before anything is freed. Nothing
// here allocates or takes a lock.
unsafe impl ThreadVtable for DebuggerBridge {
    fn name(&self) -> &'static str {
        match self.agreed.control().mode() {
            None => self.inner.name(),
            Some(Mode::Full) => FULL,
            Some(Mode::Assisted) => ASSISTED,
        }
    }

    fn stop_world(&self, stop: &StopRequest<'_>) -> Result<(), StopError> {
        let Some((control, mode)) = self.in_control() else {
            self.meet(Control::NOBODY);
            return self.inner.stop_world(stop);
        };
        self.meet(control);
        self.agreed.begin(control);
        let stopped = match mode {
            Mode::Full => self.stop_full(stop, control),
            Mode::Assisted => self.stop_assisted(stop, control),
        };
        if stopped.is_err() {
            self.agreed.end();
        }
        stopped
    }

    fn start_world(&self, stop: &StopRequest<'_>) {
        match self.agreed.end() {
            Control::NOBODY => self.inner.start_world(stop),
            control => {
                // Before the debugger lets them go: whom its death lets go now goes on, too.
                ask::start(stop);
                self.tell_of_stop(control, Notice::StartWorld, stop);
            }
        }
    }

    fn answers_debuggers(&self) -> bool {
        self.inner.stops_by_handshake()
    }

    fn stops_by_handshake(&self) -> bool {
        self.inner.stops_by_handshake()
    }

    fn stops_whole_process(&self) -> bool {
        match self.agreed.control().mode() {
            None => self.inner.stops_whole_process(),
            mode => mode == Some(Mode::Full),
        }
    }

    fn still_holds(&self, stop: &StopRequest<'_>) -> bool {
        let control = self.agreed.control();
        match control.mode() {
            None => self.inner.still_holds(stop),
            Some(Mode::Full) => self.holds_full(stop, control),
            Some(Mode::Assisted) => self.holds_assisted(stop),
        }
    }

    fn thread_created(&self, tid: Tid, slot: *mut usize) {
        self.inner.thread_created(tid, slot);
        self.tell_of_thread(Notice::ThreadCreated, tid, slot);
    }

    fn thread_exited(&self, tid: Tid, slot: *mut usize) {
        self.inner.thread_exited(tid, slot);
        self.tell_of_thread(Notice::ThreadExited, tid, slot);
    }

    fn nudge(&self, thread: &ThreadStopInfo) {
        self.inner.nudge(thread);
    }

    fn phase(&self, world: &PublishedWorld, phase: Phase) {
        if !protocol::in_control(&stopworld_debugger.control).wants_phases() {
            return;
        }
        let Some((control, _)) = self.in_control() else { return };
        // In the stopped world only to the debugger with which the stop was begun.
        let is_outside = matches!(phase, Phase::SuspendBegin | Phase::RestartEnd);
        if is_outside || self.agreed.control().is_of_the_same(control) {
            let (detail, tid) = (phase as u32, thread::gettid());
            let news =
                News { notice: Notice::Phase, detail, tid, world: Some(world), thread: None, epoch: world.epoch() };
            self.tell(control, phase, &news);
        }
    }

    fn debugger_news(&self) -> Option<DebuggerNews> {
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

    fn fork(&self, step: ForkStep) {
        self.inner.fork(step);
        if let ForkStep::Child { .. } = step {
            // Whoever traces the parent does not trace us; if it does, it says so anew.
            stopworld_debugger.control.store(0, Ordering::Relaxed);
            self.agreed.end();
            for word in [&self.known, &self.attached, &self.detached, &self.lost] {
                word.store(0, Ordering::Relaxed);
            }
        }
    }
}

/// Where a thread goes on that a debugger had stopped in mid-collection when it died.
///
/// It is entered as a signal handler is, with all signals blocked: rsp leads to the frame that the debugger has pushed, a word that is
/// not used and then the kernel's `ucontext`. It stands as long as the collection holds the thread, and then returns to where the frame
/// says, by `rt_sigreturn`, with the registers and the signal mask that are in the frame.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stopworld_debugger_park() {
    std::arch::naked_asm!(
        "cld",
        "mov rbx, rsp",
        "and rsp, -16",
        "call {park}",
        "lea rsp, [rbx + 8]",
        "mov eax, 15",
        "syscall",
        "ud2",
        park = sym park,
    )
}

extern "C" fn park() {
    crate::os::preserving_errno(|| {
        if let Some(record) = handler::current() {
            handler::park_below(record);
        }
    });
}
