//! The bridge's protocol, pure: what the collector and a debugger say to each other, and what the collector concludes.
//!
//! Over `crate::sync` and the handshake only, so that the model checker runs this very file with a debugger as one more actor.
//!
//! # Was somebody there?
//!
//! The debugger is another process. It may die, or have died long ago and left its word. So the collector believes the control
//! word only as far as "it is worth to ask": it puts a [`Receipt`] on its stack, asks, and looks whether the receipt was signed with its
//! own number. No signature, no debugger; then [`vacate`] takes the word away, unless another debugger has written its own meanwhile.
//!
//! # By which contract?
//!
//! The word is read once, when a stop begins, and [`Agreed`] is the contract of that stop until its start is over, whatever
//! the word says by then: what one debugger has begun, no other one is asked to end. If the debugger is lost meanwhile, the contract
//! does not turn into another one: the stop is a lost one.
//!
//! # Do all stand?
//!
//! In an assisted stop the suspend signal is pending for every thread. One that runs answers by itself. For one that the debugger
//! holds frozen, and which therefore can't, the debugger answers: it writes the thread's registers and then the stop's
//! number into the word `frozen`.
//!
//! A frozen thread may be let go at any moment of the stop. It takes its pending signal first, parks, and acknowledges what the debugger
//! has already answered. If both were counted, the count would be down to zero with another thread still running (`.debug.counted-twice`).
//! So the count only wakes the collector, and who stands is judged by looking at every thread: [`Member::standing`].
//!
//! # Is it true?
//!
//! A debugger may have a mistake: it answers for a thread that runs, or resumes threads before the collection ends. The
//! kernel knows which threads are stopped, and is asked about each thread that the debugger claims to hold: when it claims it, and before
//! anything is cleared or freed ([`first_not_held`]). A debugger that is found out is not in control any more (`.debug.lies`).

use crate::sabotage::{Guard, removed};
use crate::sync::{AtomicU32, AtomicU64, Ordering, const_new, interrupt_point};
use crate::world::handshake::StopState;

/// By which contract a debugger that is in control serves stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It stops all other threads itself, writes their registers and every `stack_ptr`, and restores exactly.
    Full,
    /// The collector stops the threads; it answers for those that it holds frozen.
    Assisted,
}

/// A value of the control word.
///
/// ```text
///   63              32 31        10  9   8  7       0
///  +------------------+------------+---+---+---------+
///  | who: its own pid | 0          | P | B | mode    |     P: tell each phase   B: by breakpoint, not by signal
///  +------------------+------------+---+---+---------+
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Control(pub u64);

impl Control {
    /// Nobody is in control.
    pub const NOBODY: Self = Self(0);
    /// `mode`: full.
    pub const FULL: u64 = 1;
    /// `mode`: assisted.
    pub const ASSISTED: u64 = 2;
    /// Notify by the breakpoint function.
    pub const BREAKPOINT: u64 = 1 << 8;
    /// Notify of each phase.
    pub const PHASES: u64 = 1 << 9;

    /// `mode`, as it is written.
    pub fn mode_number(self) -> u32 {
        (self.0 & 0xff) as u32
    }

    /// The contract, if a debugger that knows one is in control.
    pub fn mode(self) -> Option<Mode> {
        match self.0 & 0xff {
            Self::FULL => Some(Mode::Full),
            Self::ASSISTED => Some(Mode::Assisted),
            _ => None,
        }
    }

    /// Whether notifications come by way of the breakpoint function.
    pub fn by_breakpoint(self) -> bool {
        self.0 & Self::BREAKPOINT != 0
    }

    /// Whether each phase is to be told.
    pub fn wants_phases(self) -> bool {
        self.0 & Self::PHASES != 0
    }

    /// The number that the debugger picked.
    pub fn who(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Whether both words are of one debugger and one mode; how it wants to be told may differ.
    pub fn is_of_the_same(self, other: Self) -> bool {
        self.who() == other.who() && self.mode() == other.mode()
    }
}

/// Who is in control now: a hint, to be believed when he has answered.
#[inline]
pub(crate) fn in_control(word: &AtomicU64) -> Control {
    // Relaxed: the word comes from outside, and nothing is read on the strength of it.
    Control(word.load(Ordering::Relaxed))
}

/// Nobody answered for this word: nobody is in control, unless somebody else has taken over. Says whether it was still this one's.
pub(crate) fn vacate(word: &AtomicU64, seen: Control) -> bool {
    if removed(Guard::DebugControl) {
        word.store(0, Ordering::Relaxed);
        return true;
    }
    word.compare_exchange(seen.0, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok()
}

/// What came back of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The debugger was there; this is what it answered.
    Acknowledged(u64),
    /// Nobody was.
    Nobody,
}

impl Answer {
    /// To a full stop: a thread that the debugger's death lets go parks by itself.
    pub(crate) const PARKED_ON_DEATH: u64 = 1;
}

/// The part of a request that the debugger signs.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Receipt {
    /// The request's number, never 0.
    pub(crate) sequence: u64,
    /// The same, when it has been served.
    pub(crate) acknowledged: AtomicU64,
    /// Written before.
    pub(crate) answer: AtomicU64,
}

impl Receipt {
    /// Unsigned.
    pub(crate) fn new(sequence: u64) -> Self {
        Self { sequence, acknowledged: AtomicU64::new(0), answer: AtomicU64::new(0) }
    }

    /// What the asker finds when it goes on.
    pub(crate) fn answer(&self) -> Answer {
        // Acquire: pairs with the Release of `sign`; a debugger's writes are system calls.
        let signed = self.acknowledged.load(Ordering::Acquire) == self.sequence;
        if signed || removed(Guard::DebugAcknowledged) {
            Answer::Acknowledged(self.answer.load(Ordering::Relaxed))
        } else {
            Answer::Nobody
        }
    }

    /// What the debugger does, in a model or in this process; one outside does it by writing memory.
    #[allow(dead_code, reason = "for models and tests")]
    pub(crate) fn sign(&self, answer: u64) {
        self.answer.store(answer, Ordering::Relaxed);
        // Release: pairs with the Acquire of `answer`.
        self.acknowledged.store(self.sequence, Ordering::Release);
    }
}

/// The contract by which the present stop of a world was begun, and whether the debugger has been lost since.
///
/// A debugger that is lost in mid-stop does not make the stop one without a debugger: what was scanned on its word may not be used
/// (`.debug.dies`, `.debug.lost`). So the word stays until the stop is over.
#[derive(Debug)]
pub(crate) struct Agreed {
    word: AtomicU64,
    lost: AtomicU32,
}

impl Agreed {
    const_new! {
        /// No stop.
        pub(crate) fn new() -> Self {
            Self { word: AtomicU64::new(0), lost: AtomicU32::new(0) }
        }
    }

    /// A stop begins under this word. Relaxed, here and below: stops are ordered by the world's locks.
    pub(crate) fn begin(&self, control: Control) {
        self.word.store(control.0, Ordering::Relaxed);
        self.lost.store(0, Ordering::Relaxed);
    }

    /// The word under which the present stop began; [`Control::NOBODY`] if it began without a debugger, or goes on without.
    pub(crate) fn control(&self) -> Control {
        Control(self.word.load(Ordering::Relaxed))
    }

    /// The debugger did not answer.
    pub(crate) fn lose(&self) {
        if removed(Guard::DebugLost) {
            self.word.store(0, Ordering::Relaxed);
        }
        self.lost.store(1, Ordering::Relaxed);
    }

    /// Whether it did not, in this stop.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed) != 0
    }

    /// Whether the one under whose word the stop began is still in control, and not lost.
    pub(crate) fn stands(&self, word: &AtomicU64) -> bool {
        let now = in_control(word);
        // By which mode it wants the next stop to be served is its own affair.
        !self.is_lost() && now.mode().is_some() && now.who() == self.control().who()
    }

    /// The stop is over, or goes on without the debugger. Gives back the word, for the news of its end: also if the debugger was
    /// lost, since another one may have served the stop, and waits for that news (`.debug.start`).
    pub(crate) fn end(&self) -> Control {
        let is_silent = self.is_lost() && removed(Guard::DebugStart);
        let control = if is_silent { Control::NOBODY } else { self.control() };
        self.begin(Control::NOBODY);
        control
    }
}

/// How a thread stands in an assisted stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It runs, or its debugger has not answered for it yet.
    No,
    /// It has answered itself: what it published is right.
    ByItself,
    /// The debugger holds it and has answered: what the debugger wrote is right.
    Frozen,
}

/// The words by which a thread, or a debugger for it, answers an assisted stop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member<'a> {
    /// The thread's side of the handshake.
    pub(crate) state: &'a StopState,
    /// The debugger's answer: the number of the stop.
    pub(crate) frozen: &'a AtomicU64,
    /// 1: that answer has been taken off the count.
    pub(crate) counted: &'a AtomicU32,
    /// Not 0: the thread would not park if it were let go now, but a little later.
    pub(crate) undisturbed: &'a AtomicU32,
}

impl Member<'_> {
    /// How it stands in the stop of this number. Its own answer comes first: one that was let go has published anew.
    pub(crate) fn standing(&self, epoch: u64) -> Standing {
        if self.state.has_answered() {
            return Standing::ByItself;
        }
        // Acquire: pairs with the Release of `freeze`; a frozen thread changes nothing, so what it is about is read after it.
        let frozen = self.frozen.load(Ordering::Acquire) == epoch;
        if frozen && self.undisturbed.load(Ordering::Relaxed) == 0 { Standing::Frozen } else { Standing::No }
    }

    /// A stop begins: nothing is counted.
    pub(crate) fn forget(&self) {
        self.counted.store(0, Ordering::Relaxed);
    }

    /// A full stop: the debugger has answered for this thread, or the thread had stopped by itself.
    pub(crate) fn rely(&self, answered_for: bool) {
        self.counted.store(answered_for.into(), Ordering::Relaxed);
    }

    /// Whether it has.
    pub(crate) fn is_relied_on(&self) -> bool {
        self.counted.load(Ordering::Relaxed) != 0
    }

    /// Whether the debugger's answer is to be taken off the count now: once, and not if the thread has answered itself.
    fn counts(&self, epoch: u64) -> bool {
        self.standing(epoch) == Standing::Frozen && self.counted.swap(1, Ordering::Relaxed) == 0
    }

    /// What the debugger does when all else is written, in a model or in this process.
    #[allow(dead_code, reason = "for models and tests")]
    pub(crate) fn freeze(&self, epoch: u64) {
        // Release: pairs with the Acquire of `standing`.
        self.frozen.store(epoch, Ordering::Release);
    }
}

/// The first thread that a debugger claims to hold although the kernel says otherwise (`.debug.lies`).
pub(crate) fn first_not_held<T: Copy>(mut claimed: impl Iterator<Item = T>, is_held: impl Fn(T) -> bool) -> Option<T> {
    claimed.find(|thread| !removed(Guard::DebugLies) && !is_held(*thread))
}

/// How many of them a debugger has answered for since this was asked last: they are taken off the count of those who are waited for.
pub(crate) fn newly_frozen<'a>(members: impl Iterator<Item = Member<'a>>, epoch: u64) -> u32 {
    let mut count = 0;
    for member in members {
        interrupt_point();
        count += u32::from(member.counts(epoch));
    }
    count
}

/// Whether all stand, by looking at each of them, when so many are outstanding by the count.
pub(crate) fn all_stand<'a>(mut members: impl Iterator<Item = Member<'a>>, epoch: u64, outstanding: u32) -> bool {
    if removed(Guard::DebugCountedTwice) {
        return outstanding == 0;
    }
    members.all(|member| member.standing(epoch) != Standing::No)
}
