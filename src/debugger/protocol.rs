//! The bridge's protocol without I/O: the messages between the collector and a debugger, and what the collector concludes from them.
//!
//! It uses only `crate::sync` and the handshake, so the model checker runs this very file with a debugger as one more actor.
//!
//! # Is a debugger there?
//!
//! The debugger is another process. It may die, or have died long ago and left its control word. So the collector treats the control word
//! only as a hint that a request is worthwhile. It puts an [`Acknowledgement`] on its stack, sends the request, and checks whether the
//! debugger has filled it in, that is, written the request's number to `acknowledged`. If it has not, there is no debugger; then [`vacate`]
//! clears the control word, unless another debugger has written its own meanwhile.
//!
//! A request reaches only the tracer of the thread that sends it. A debugger may have missed a thread when it attached (the thread's creation
//! was in progress then, or its tracer was another one). That thread's requests are never acknowledged, but the debugger lives, and serves the
//! other threads. So an untraced thread clears the control word only if no thread of the process is traced ([`is_gone`],
//! `.debug.missed`). Otherwise the debugger would not get the requests that it waits for, while the threads that it holds keep every
//! stop from succeeding.
//!
//! # Which contract applies?
//!
//! The control word is read once, when a stop begins. [`StopContract`] is the contract of that stop until its world is started again, whatever the
//! word contains by then: a stop that one debugger began is not ended by another one. If the debugger is lost meanwhile, the stop does not
//! continue under another contract: it is lost.
//!
//! # Have all threads stopped?
//!
//! In an assisted stop the suspend signal is pending for every thread. A running thread acknowledges by itself. A thread that the debugger
//! holds frozen cannot, so the debugger answers for it: it writes the thread's registers and then the stop's number into the word `frozen`.
//! If another debugger takes over during the stop, the answers of the first one are discarded ([`Member::discard_answer`]): the first one's
//! end has resumed these threads, and the second one may have stopped them elsewhere.
//!
//! A frozen thread may be resumed at any moment of the stop. It takes its pending signal first, parks, and acknowledges although the
//! debugger has already answered for it. If both were counted, the count would reach zero while another thread still runs
//! (`.debug.counted-twice`). So the count only wakes the collector, which then checks every thread to find out whether all have stopped:
//! [`Member::ack_state`].
//!
//! # Is the answer true?
//!
//! A debugger may have a bug: it answers for a running thread, or resumes threads before the collection ends. So the collector compares
//! each thread that the debugger claims to hold with what the kernel reports about the thread: when the debugger makes the claim, and
//! again before anything is cleared or freed ([`first_not_held`]). A debugger whose claim is false loses control (`.debug.lies`).

use crate::sabotage::{Guard, removed};
use crate::sync::{AtomicU32, AtomicU64, Ordering, const_new, interrupt_point};
use crate::world::handshake::StopState;

/// The contract by which a debugger in control serves stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The debugger stops all other threads itself, writes their registers and every `stack_ptr`, and restores them exactly.
    Full,
    /// The collector stops the threads; the debugger answers for those that it holds frozen.
    Assisted,
}

/// A value of the control word.
///
/// ```text
///   63              32 31        10  9   8  7       0
///  +------------------+------------+---+---+---------+
///  | who: attach id   | 0          | P | B | mode    |     P: notify of phases   B: by breakpoint, not by signal
///  +------------------+------------+---+---+---------+
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Control(pub u64);

impl Control {
    /// No debugger is in control.
    pub const NOBODY: Self = Self(0);
    /// `mode`: full.
    pub const FULL: u64 = 1;
    /// `mode`: assisted.
    pub const ASSISTED: u64 = 2;
    /// Notify by the breakpoint function.
    pub const BREAKPOINT: u64 = 1 << 8;
    /// Notify of each phase.
    pub const PHASES: u64 = 1 << 9;

    /// The `mode` field, as written.
    pub fn mode_number(self) -> u32 {
        (self.0 & 0xff) as u32
    }

    /// Returns the contract, or `None` if no debugger is in control or the mode is unknown.
    pub fn mode(self) -> Option<Mode> {
        match self.0 & 0xff {
            Self::FULL => Some(Mode::Full),
            Self::ASSISTED => Some(Mode::Assisted),
            _ => None,
        }
    }

    /// Returns whether notifications use the breakpoint function.
    pub fn by_breakpoint(self) -> bool {
        self.0 & Self::BREAKPOINT != 0
    }

    /// Returns whether the debugger requests a notification of each phase.
    pub fn wants_phases(self) -> bool {
        self.0 & Self::PHASES != 0
    }

    /// Returns the attach id, a number that the debugger chose.
    pub fn who(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Returns whether both words have the same debugger and mode; the flags for notifications may differ.
    pub fn is_of_the_same(self, other: Self) -> bool {
        self.who() == other.who() && self.mode() == other.mode()
    }
}

/// Returns the control word. It is a hint: a debugger is there only if it acknowledges.
#[inline]
pub(crate) fn in_control(word: &AtomicU64) -> Control {
    // Relaxed: the word is written by another process, and this process reads no data that depend on it.
    Control(word.load(Ordering::Relaxed))
}

/// Clears the control word after a request was not acknowledged, unless another debugger has taken over. Returns whether it was still
/// `seen`.
pub(crate) fn vacate(word: &AtomicU64, seen: Control) -> bool {
    if removed(Guard::DebugControl) {
        word.store(0, Ordering::Relaxed);
        return true;
    }
    word.compare_exchange(seen.0, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok()
}

/// Returns whether the debugger in control is gone, after a thread's request was not acknowledged, or could not be, because the thread has no tracer. `tracer` is the tracer
/// of that thread, 0 for none; `is_any_traced` returns whether any thread of the process is traced (`.debug.missed`).
pub(crate) fn is_gone(tracer: i32, is_any_traced: impl FnOnce() -> bool) -> bool {
    tracer != 0 || removed(Guard::DebugMissed) || !is_any_traced()
}

/// Returns whether the debugger with this process id still traces the calling thread. Called after a thread was found not to be stopped
/// as claimed. `is_exiting` returns whether the kernel has begun to end that process, `tracer` the present tracer of the calling thread.
///
/// The kernel resumes the threads of a dying debugger one after the other. Until it comes to the calling thread, that thread is still traced,
/// although another one may already run, and only the first of the two shows that no claim was false (`.debug.exits`). They are read in
/// this order, because a process that is gone from /proc does not trace any thread any more.
pub(crate) fn still_traces(debugger: i32, is_exiting: impl FnOnce(i32) -> bool, tracer: impl FnOnce() -> i32) -> bool {
    let is_alive = removed(Guard::DebugExits) || !is_exiting(debugger);
    is_alive && tracer() == debugger
}

/// The result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The debugger acknowledged, with this answer.
    Acknowledged(u64),
    /// No debugger acknowledged.
    Nobody,
}

impl Answer {
    /// Answer to a full stop: threads that the debugger's death resumes park by themselves.
    pub(crate) const PARKED_ON_DEATH: u64 = 1;
}

/// The part of a request that the debugger fills in.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Acknowledgement {
    /// The request's number, never 0.
    pub(crate) sequence: u64,
    /// The request's number, once the request has been served; 0 before.
    pub(crate) acknowledged: AtomicU64,
    /// Written before `acknowledged`.
    pub(crate) answer: AtomicU64,
}

impl Acknowledgement {
    /// Creates one that is not filled in.
    pub(crate) fn new(sequence: u64) -> Self {
        Self { sequence, acknowledged: AtomicU64::new(0), answer: AtomicU64::new(0) }
    }

    /// Returns what the requesting thread finds when it continues.
    pub(crate) fn answer(&self) -> Answer {
        // Acquire: pairs with the Release of `acknowledge`. An external debugger writes by system calls.
        let is_acknowledged = self.acknowledged.load(Ordering::Acquire) == self.sequence;
        if is_acknowledged || removed(Guard::DebugAcknowledged) {
            Answer::Acknowledged(self.answer.load(Ordering::Relaxed))
        } else {
            Answer::Nobody
        }
    }

    /// Acknowledges as a debugger does, for a model or a debugger in this process. An external debugger writes the memory.
    #[allow(dead_code, reason = "for models and tests")]
    pub(crate) fn acknowledge(&self, answer: u64) {
        self.answer.store(answer, Ordering::Relaxed);
        // Release: pairs with the Acquire of `answer`.
        self.acknowledged.store(self.sequence, Ordering::Release);
    }
}

/// The contract by which the present stop of a world was begun, and whether the debugger has been lost since.
///
/// If a debugger is lost during a stop, the stop does not become a stop without a debugger: marks from stacks that were scanned because
/// of the debugger's answers must not be used (`.debug.dies`, `.debug.lost`). So the control word is kept until the stop is over.
#[derive(Debug)]
pub(crate) struct StopContract {
    word: AtomicU64,
    lost: AtomicU32,
}

impl StopContract {
    const_new! {
        /// Creates the state of a world that is not in a stop.
        pub(crate) fn new() -> Self {
            Self { word: AtomicU64::new(0), lost: AtomicU32::new(0) }
        }
    }

    /// Begins a stop under this word. Relaxed, here and below: stops are ordered by the world's locks.
    pub(crate) fn begin(&self, control: Control) {
        self.word.store(control.0, Ordering::Relaxed);
        self.lost.store(0, Ordering::Relaxed);
    }

    /// Returns the word under which the present stop began; [`Control::NOBODY`] if it began without a debugger, or continues without one.
    pub(crate) fn control(&self) -> Control {
        Control(self.word.load(Ordering::Relaxed))
    }

    /// Records that the debugger did not acknowledge.
    pub(crate) fn lose(&self) {
        if removed(Guard::DebugLost) {
            self.word.store(0, Ordering::Relaxed);
        }
        self.lost.store(1, Ordering::Relaxed);
    }

    /// Returns whether the debugger failed to acknowledge in this stop.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed) != 0
    }

    /// Returns whether the debugger under whose control word the stop began is still in control, and not lost.
    pub(crate) fn is_in_force(&self, word: &AtomicU64) -> bool {
        let now = in_control(word);
        // The mode is not compared: it may already be the one for the next stop.
        !self.is_lost() && now.mode().is_some() && now.who() == self.control().who()
    }

    /// Ends the stop, or its dependence on the debugger. Returns the control word for the notification of the stop's end, even if the
    /// debugger was lost: another debugger may have served the stop and wait for that notification (`.debug.start`).
    pub(crate) fn end(&self) -> Control {
        let is_silent = self.is_lost() && removed(Guard::DebugStart);
        let control = if is_silent { Control::NOBODY } else { self.control() };
        self.begin(Control::NOBODY);
        control
    }
}

/// Whether a thread has stopped in an assisted stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AckState {
    /// The thread runs, or the debugger has not answered for it yet.
    No,
    /// The thread has acknowledged by itself: the values that it published are valid.
    ByItself,
    /// The debugger holds the thread and has answered for it: the values that the debugger wrote are valid.
    Frozen,
}

/// The words by which a thread, or a debugger on its behalf, acknowledges an assisted stop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member<'a> {
    /// The thread's part of the handshake.
    pub(crate) state: &'a StopState,
    /// The debugger's answer: the number of the stop.
    pub(crate) frozen: &'a AtomicU64,
    /// 1: the debugger's answer has been subtracted from the count.
    pub(crate) counted: &'a AtomicU32,
    /// Not 0: the thread is in a non-preemptible section. If resumed now, it would park only a little later.
    pub(crate) undisturbed: &'a AtomicU32,
}

impl Member<'_> {
    /// Returns whether the thread has stopped in the stop with this number. The thread's own acknowledgement takes precedence: a resumed
    /// thread has published new values.
    pub(crate) fn ack_state(&self, epoch: u64) -> AckState {
        if self.state.has_answered() {
            return AckState::ByItself;
        }
        // Acquire: pairs with the Release of `freeze`. A frozen thread changes nothing, so `undisturbed` is read after it.
        let frozen = self.frozen.load(Ordering::Acquire) == epoch;
        if frozen && self.undisturbed.load(Ordering::Relaxed) == 0 { AckState::Frozen } else { AckState::No }
    }

    /// Records that the debugger's answer is not counted yet. Called when a stop begins.
    pub(crate) fn forget(&self) {
        self.counted.store(0, Ordering::Relaxed);
    }

    /// Discards the debugger's answer, because that debugger is gone (`.debug.answers`). It stays counted: if the thread is answered for again,
    /// it is not subtracted twice. Relaxed: the next debugger writes while the calling thread is stopped.
    pub(crate) fn discard_answer(&self) {
        if !removed(Guard::DebugAnswers) {
            self.frozen.store(0, Ordering::Relaxed);
        }
    }

    /// Records, in a full stop, whether the debugger has answered for this thread (`true`), or the thread had stopped by itself.
    pub(crate) fn rely(&self, answered_for: bool) {
        self.counted.store(answered_for.into(), Ordering::Relaxed);
    }

    /// Returns whether the debugger has answered for this thread in this full stop.
    pub(crate) fn is_relied_on(&self) -> bool {
        self.counted.load(Ordering::Relaxed) != 0
    }

    /// Returns whether to subtract the debugger's answer from the count now. Returns true at most once, and not if the thread has
    /// acknowledged by itself.
    fn counts(&self, epoch: u64) -> bool {
        self.ack_state(epoch) == AckState::Frozen && self.counted.swap(1, Ordering::Relaxed) == 0
    }

    /// Answers as a debugger does once everything else is written, for a model or a debugger in this process.
    #[allow(dead_code, reason = "for models and tests")]
    pub(crate) fn freeze(&self, epoch: u64) {
        // Release: pairs with the Acquire of `ack_state`.
        self.frozen.store(epoch, Ordering::Release);
    }
}

/// Returns the first thread that a debugger claims to hold although the kernel reports otherwise (`.debug.lies`).
pub(crate) fn first_not_held<T: Copy>(mut claimed: impl Iterator<Item = T>, is_held: impl Fn(T) -> bool) -> Option<T> {
    claimed.find(|thread| !removed(Guard::DebugLies) && !is_held(*thread))
}

/// Returns for how many members a debugger has newly answered since the last call; the caller subtracts them from the outstanding count.
pub(crate) fn newly_frozen<'a>(members: impl Iterator<Item = Member<'a>>, epoch: u64) -> u32 {
    let mut count = 0;
    for member in members {
        interrupt_point();
        count += u32::from(member.counts(epoch));
    }
    count
}

/// Returns whether all members have stopped, by checking each of them. `outstanding` is the number of missing acknowledgements by the
/// count.
pub(crate) fn all_stopped<'a>(mut members: impl Iterator<Item = Member<'a>>, epoch: u64, outstanding: u32) -> bool {
    if removed(Guard::DebugCountedTwice) {
        return outstanding == 0;
    }
    members.all(|member| member.ack_state(epoch) != AckState::No)
}
