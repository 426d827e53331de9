//! The stopping handshake: how a thread is requested to stop, and how it acknowledges.
//!
//! # The problem
//!
//! A collection, or a user at a debugger, wants a thread to stop. The thread may be running anywhere, be in a blocking
//! region, be parked for the other requester, or be about to exit. The requester may give up. Signals arrive
//! late, twice, or after the stop that sent them is over. And the two requesters must not undo each other: a thread that
//! the user froze stays frozen after a collection (`.vtable.nested`, `.vtable.exact-restore`).
//!
//! # The state
//!
//! One atomic word per thread has *the state of the thread* × *its holders* × *the epoch of each hold*:
//!
//! ```text
//!   63                  34 33                   4   3   2   1  0
//!  +----------------------+----------------------+---+---+------+
//!  | epoch of user's hold | epoch of collection's| U | C | state|
//!  +----------------------+----------------------+---+---+------+
//!
//!                      attach                    enter_blocking (acknowledges what it finds)
//!           DETACHED ----------> RUNNING  ---------------------------> BLOCKING
//!                    <----------    |  ^  <---------------------------    |
//!                      detach       |  |     leave_blocking, not held     | leave_blocking, held
//!            park_if_held, held:    |  |  not held any more               |
//!            publish, then          v  |                                  |
//!                                  PARKED <-------------------------------+
//! ```
//!
//! The one rule: **a thread runs past its protocol step only if it has no holder**. Everything else follows.
//!
//! * In DETACHED, BLOCKING and PARKED every hold is *satisfied*: the thread touches no collected memory, and the data that
//!   it published is in place. So a new hold on such a thread needs no acknowledgement ([`HoldOutcome::Already`]), and costs
//!   one compare-exchange.
//! * In RUNNING a hold is a request ([`HoldOutcome::MustPark`]). A thread that leaves RUNNING finds the holds in the same word
//!   that its compare-exchange replaces, and acknowledges each of them, once.
//! * Only the thread itself changes its state. A release clears the hold and posts the thread's semaphore. The thread
//!   changes from PARKED to RUNNING when it finds that it has no holder any more. Until then it is still PARKED:
//!   on a busy machine the next stop finds it satisfied although it never got the processor in between. PARKED also
//!   keeps a handler that interrupts the waiting thread from waiting on the same semaphore: the handler returns.
//! * Epochs stay in the word after the release, so the word never returns to an earlier value. A thread that
//!   published, was interrupted, parked in its handler and continued, fails its compare-exchange and publishes again
//!   (`.stop.interrupted`).
//!
//! # Acknowledgement
//!
//! [`AckCounter`] counts in one word, epoch × outstanding, by compare-exchange that compares the epoch too. An
//! acknowledgement of an abandoned stop finds another epoch and is ignored (`.stop.late`). The last one posts
//! the requester's semaphore. A restart is not acknowledged: no thread waits for it.
//!
//! # Limits
//!
//! There are two holders, with 30 bits of epoch each. `hold`, `release` and `abandon` of one holder are not called concurrently
//! with each other (a collection holds the collection lock, a debugger its thread lock); those of different holders may
//! be. Epochs wrap after 2^30 stops: an acknowledgement that is still in progress then would be counted for the new stop with
//! the same epoch.
//!
//! Everything here may run in a signal handler that interrupts any step of the same protocol on the same thread; the
//! model runs it there ([`interrupt_point`]).

use crate::sabotage::{Guard, removed};
use crate::sync::{AtomicU64, Ordering, Semaphore, const_new, interrupt_point};

/// A requester that can hold a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Holder {
    /// A collection: from its stop to its start.
    Collection = 0,
    /// A user at a debugger: a suspension of this thread, or the debugger's own stop.
    User = 1,
}

/// The state of a thread, as far as it matters for stopping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum HandshakeState {
    /// No thread uses this record.
    Detached = 0,
    /// Anywhere in its own code.
    Running = 1,
    /// In a blocking region, where it touches no collected memory.
    Blocking = 2,
    /// Waits until its holders have released it.
    Parked = 3,
}

/// The number of a stop of one holder: 30 bits, never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Epoch(u32);

impl Epoch {
    /// The largest epoch.
    pub(crate) const MAX: u32 = (1 << 30) - 1;

    fn after(number: u32) -> Self {
        Self(if number >= Self::MAX { 1 } else { number + 1 })
    }
}

/// The result of [`StopState::hold`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HoldOutcome {
    /// The thread is stopped already (blocking, parked or detached): the requester sends nothing and waits for nothing.
    Already,
    /// The thread runs: it must be notified, and will acknowledge.
    MustPark,
}

/// The result of [`StopState::park_if_held`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a thread that parked has published its stack pointer, which is stale now"]
pub(crate) enum Parked {
    /// The thread was not held, or it was parked already (a handler that interrupted the wait).
    No,
    /// The thread parked, and has been released.
    Yes,
}

/// The result of [`StopState::take_back`] or [`StopState::abandon`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Abandoned {
    /// The thread had not acknowledged; the hold was removed before the thread saw it. A signal that arrives now does nothing.
    Unanswered,
    /// The thread was stopped. After `abandon` it has been released.
    Answered,
}

/// A value of the state word.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Word(u64);

const OUTSTANDING: u64 = 0xffff_ffff;
const STATE: u64 = 0b11;
const HOLDERS: u64 = 0b1100;

impl Word {
    fn handshake_state(self) -> HandshakeState {
        match self.0 & STATE {
            0 => HandshakeState::Detached,
            1 => HandshakeState::Running,
            2 => HandshakeState::Blocking,
            _ => HandshakeState::Parked,
        }
    }

    fn with_state(self, state: HandshakeState) -> Self {
        Self(self.0 & !STATE | state as u64)
    }

    fn is_held(self) -> bool {
        self.0 & HOLDERS != 0
    }

    fn is_held_by(self, holder: Holder) -> bool {
        self.0 & Self::bit(holder) != 0
    }

    fn epoch(self, holder: Holder) -> Epoch {
        Epoch((self.0 >> Self::shift(holder)) as u32 & Epoch::MAX)
    }

    fn held(self, holder: Holder, epoch: Epoch) -> Self {
        let shift = Self::shift(holder);
        Self(self.0 & !(u64::from(Epoch::MAX) << shift) | u64::from(epoch.0) << shift | Self::bit(holder))
    }

    fn released(self, holder: Holder) -> Self {
        let mut clear = Self::bit(holder);
        if removed(Guard::VtableNested) {
            clear = HOLDERS;
        }
        if removed(Guard::StopInterrupted) {
            clear |= u64::from(Epoch::MAX) << Self::shift(holder);
        }
        Self(self.0 & !clear)
    }

    fn bit(holder: Holder) -> u64 {
        0b100 << holder as u32
    }

    fn shift(holder: Holder) -> u32 {
        4 + 30 * holder as u32
    }
}

/// The result of an acknowledgement.
enum Outstanding {
    /// All acknowledgements have arrived.
    Last,
    /// Other acknowledgements are outstanding.
    More,
    /// The acknowledgement was too late, and was ignored.
    NoneOfOurs,
}

/// The acknowledgements that one holder waits for.
///
/// ```text
///   63        32 31          0
///  +------------+-------------+
///  |   epoch    | outstanding |
///  +------------+-------------+
/// ```
#[derive(Debug)]
pub(crate) struct AckCounter {
    word: AtomicU64,
    all_in: Semaphore,
}

impl AckCounter {
    const_new! {
        /// Creates a counter without outstanding acknowledgements.
        pub(crate) fn new() -> Self {
            Self { word: AtomicU64::new(0), all_in: Semaphore::new() }
        }
    }

    /// Opens the next epoch with this many acknowledgements outstanding. Called before the first hold of that epoch,
    /// by one thread at a time.
    fn begin(&self, outstanding: u32) -> Epoch {
        let epoch = Epoch::after((self.word.load(Ordering::Relaxed) >> 32) as u32);
        // Relaxed: the epoch reaches the threads through their state words, with the hold's Release.
        self.word.store(u64::from(epoch.0) << 32 | u64::from(outstanding), Ordering::Relaxed);
        epoch
    }

    /// Subtracts `count` from the outstanding acknowledgements of `epoch`, and returns whether any remain. An acknowledgement of
    /// an earlier epoch is ignored.
    fn acknowledge(&self, epoch: Epoch, count: u32) -> Outstanding {
        let mut seen = self.word.load(Ordering::Relaxed);
        loop {
            let outstanding = seen as u32;
            let counts = (seen >> 32) as u32 == epoch.0 || removed(Guard::StopLate);
            if !counts || outstanding == 0 {
                return Outstanding::NoneOfOurs;
            }
            // Release: pairs with the Acquire of `outstanding`. What each thread did before it parked happens before
            // what the requester does next: the later exchanges continue the release sequence of the earlier ones.
            let fewer = seen - u64::from(count.min(outstanding));
            match self.word.compare_exchange_weak(seen, fewer, Ordering::Release, Ordering::Relaxed) {
                Ok(_) if fewer as u32 == 0 => return Outstanding::Last,
                Ok(_) => return Outstanding::More,
                Err(now) => seen = now,
            }
        }
    }

    fn outstanding(&self) -> u32 {
        // Acquire: pairs with the Release of `acknowledge`.
        self.word.load(Ordering::Acquire) as u32
    }
}

/// The world's side of the handshake: one counter per holder. Threads acknowledge here, and requesters wait here.
#[derive(Debug)]
pub(crate) struct Handshake {
    counters: [AckCounter; 2],
}

impl Handshake {
    const_new! {
        /// Creates a handshake without a stop in progress.
        pub(crate) fn new() -> Self {
            Self { counters: [AckCounter::new(), AckCounter::new()] }
        }
    }

    /// Begins a stop of at most `threads` threads: the number of [`StopState::hold`] calls that follow. The caller
    /// then reports with [`satisfied`](Self::satisfied) how many of them returned [`HoldOutcome::Already`].
    pub(crate) fn begin(&self, holder: Holder, threads: u32) -> Epoch {
        self.counter(holder).begin(threads)
    }

    /// Reports that `count` threads of this stop needed no acknowledgement.
    pub(crate) fn satisfied(&self, holder: Holder, epoch: Epoch, count: u32) {
        self.counter(holder).acknowledge(epoch, count);
    }

    /// Sleeps until all threads have acknowledged, for at most `ns` nanoseconds and possibly less. Returns the number of outstanding
    /// acknowledgements. If it is 0, all threads are stopped, and what they did before is visible.
    pub(crate) fn wait_slice(&self, holder: Holder, ns: u64) -> u32 {
        let counter = self.counter(holder);
        match counter.outstanding() {
            0 => 0,
            _ => {
                // The semaphore may have a permit left from an earlier stop, so only the count decides.
                counter.all_in.wait_slice(ns);
                counter.outstanding()
            }
        }
    }

    /// Closes the present epoch: nothing is outstanding any more, and later acknowledgements are ignored. Called before the
    /// [`StopState::take_back`] calls of a stop that ran out of time.
    pub(crate) fn close(&self, holder: Holder) {
        let counter = self.counter(holder);
        let mut seen = counter.word.load(Ordering::Relaxed);
        while let Err(now) =
            counter.word.compare_exchange_weak(seen, seen & !OUTSTANDING, Ordering::Relaxed, Ordering::Relaxed)
        {
            seen = now;
        }
    }

    /// In the child of a `fork`: resets the counters, since no thread waits here.
    pub(crate) fn reset_in_child(&self) {
        for counter in &self.counters {
            counter.word.store(counter.word.load(Ordering::Relaxed) & !OUTSTANDING, Ordering::Relaxed);
            counter.all_in.reset_in_child();
        }
    }

    /// Acknowledges every hold of `word`, on behalf of a thread that has just left RUNNING.
    fn acknowledge(&self, word: Word) {
        for holder in [Holder::Collection, Holder::User] {
            if word.is_held_by(holder) {
                let counter = self.counter(holder);
                if let Outstanding::Last = counter.acknowledge(word.epoch(holder), 1) {
                    interrupt_point();
                    counter.all_in.post();
                }
                interrupt_point();
            }
        }
    }

    fn counter(&self, holder: Holder) -> &AckCounter {
        &self.counters[holder as usize]
    }
}

/// A thread's side of the handshake. All zero bytes are a valid detached state.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct StopState {
    word: AtomicU64,
    resume: Semaphore,
}

impl StopState {
    const_new! {
        /// Creates the state of a record without a thread.
        #[allow(dead_code, reason = "a world's records are made as zero bytes; tests and models make single ones")]
        pub(crate) fn new() -> Self {
            Self { word: AtomicU64::new(0), resume: Semaphore::new() }
        }
    }

    // ---- for the requester

    /// Requests the thread to stop, on behalf of `holder`. If this returns [`HoldOutcome::Already`], the thread is stopped, and what it
    /// published is visible. Each call counts as one of the threads of [`Handshake::begin`]. A detached record stays unheld.
    pub(crate) fn hold(&self, holder: Holder, epoch: Epoch) -> HoldOutcome {
        let mut seen = self.load(Ordering::Relaxed);
        loop {
            debug_assert!(!seen.is_held_by(holder), "two holds of one holder");
            if seen.handshake_state() == HandshakeState::Detached {
                return HoldOutcome::Already;
            }
            // Release: pairs with the Acquire of `park_if_held` and `leave_blocking`.
            // Acquire: pairs with the Release by which the thread left RUNNING.
            match self.exchange(seen, seen.held(holder, epoch), Ordering::AcqRel) {
                Ok(()) if seen.handshake_state() == HandshakeState::Running => return HoldOutcome::MustPark,
                Ok(()) => return HoldOutcome::Already,
                Err(now) => seen = now,
            }
        }
    }

    /// Releases the thread, on behalf of `holder`. If it is parked and has no other holder, it is woken.
    pub(crate) fn release(&self, holder: Holder) {
        self.remove_hold(holder);
    }

    /// Removes a hold that has not been acknowledged, because the requester's time is over. An acknowledged hold stays, and what
    /// the thread published is visible. So the stop succeeds if all threads have stopped by now; otherwise the requester knows which
    /// threads to name (`.stop.lost`).
    pub(crate) fn take_back(&self, holder: Holder) -> Abandoned {
        // Acquire: pairs with the Release by which the thread left RUNNING.
        let mut seen = self.load(Ordering::Acquire);
        loop {
            if seen.handshake_state() != HandshakeState::Running || !seen.is_held_by(holder) {
                return Abandoned::Answered;
            }
            // Relaxed: the thread has not stopped, and the holder has done nothing that the thread must see.
            match self.exchange(seen, seen.released(holder), Ordering::Relaxed) {
                Ok(()) => return Abandoned::Unanswered,
                Err(now) => seen = now,
            }
        }
    }

    /// Removes a hold, acknowledged or not: the thread does not exist any more.
    pub(crate) fn abandon(&self, holder: Holder) -> Abandoned {
        match self.remove_hold(holder).handshake_state() {
            HandshakeState::Running => Abandoned::Unanswered,
            _ => Abandoned::Answered,
        }
    }

    /// Returns whether the hold is satisfied: the thread is stopped or has detached. Used to find the threads that are signalled again,
    /// and the threads that an error names.
    pub(crate) fn has_answered(&self) -> bool {
        // Acquire: pairs with the Release by which the thread left RUNNING.
        self.load(Ordering::Acquire).handshake_state() != HandshakeState::Running
    }

    /// Returns the state of the thread. A hint, unless the caller holds the thread.
    pub(crate) fn handshake_state(&self) -> HandshakeState {
        // Acquire: pairs with the Release by which the thread left RUNNING.
        self.load(Ordering::Acquire).handshake_state()
    }

    /// Returns whether `holder` holds the thread. Does not make visible what the thread has published.
    pub(crate) fn is_held_by(&self, holder: Holder) -> bool {
        self.load(Ordering::Relaxed).is_held_by(holder)
    }

    /// Returns whether the thread has any [`Holder`]. Every safepoint calls this: it is one relaxed load.
    #[inline]
    pub(crate) fn is_held(&self) -> bool {
        self.load(Ordering::Relaxed).is_held()
    }

    fn remove_hold(&self, holder: Holder) -> Word {
        let mut seen = self.load(Ordering::Relaxed);
        loop {
            if !seen.is_held_by(holder) {
                return seen;
            }
            // Release: pairs with the Acquire by which the thread returns to RUNNING; it then sees what the holder did.
            match self.exchange(seen, seen.released(holder), Ordering::Release) {
                Ok(()) => break,
                Err(now) => seen = now,
            }
        }
        if seen.handshake_state() == HandshakeState::Parked && !seen.released(holder).is_held() {
            self.resume.post();
        }
        seen
    }

    /// In the child of a `fork`: resets the record of a thread that does not exist there.
    pub(crate) fn reset_in_child(&self) {
        let seen = self.load(Ordering::Relaxed);
        self.word.store(Word(seen.0 & !HOLDERS).with_state(HandshakeState::Detached).0, Ordering::Relaxed);
        self.resume.reset_in_child();
    }

    // ---- for the thread itself

    /// Puts the record into use, for the calling thread. [`WorldLocks::thread_created`](super::locks::WorldLocks::thread_created)
    /// ensures that this does not happen during a stop.
    pub(crate) fn attach(&self) {
        let seen = self.load(Ordering::Relaxed);
        debug_assert!(seen.handshake_state() == HandshakeState::Detached && !seen.is_held());
        // No other thread writes a detached word. Relaxed: a holder finds the record in the list, whose lock orders this.
        self.word.store(seen.with_state(HandshakeState::Running).0, Ordering::Relaxed);
    }

    /// Takes the record out of use, for the calling thread, from RUNNING or from within a blocking region. A hold that was
    /// made while the thread ran is acknowledged, so a requester does not wait for a thread that has exited
    /// (`.stop.exit-race`). A user's suspension of the thread ends with the record.
    pub(crate) fn detach(&self, handshake: &Handshake) {
        let mut seen = self.load(Ordering::Relaxed);
        let left = loop {
            debug_assert!(matches!(seen.handshake_state(), HandshakeState::Running | HandshakeState::Blocking));
            let gone = Word(seen.0 & !HOLDERS).with_state(HandshakeState::Detached);
            interrupt_point();
            // Release: pairs with the Acquire of `hold`, or of `outstanding` by way of the acknowledgement. Acquire:
            // pairs with the Release of `hold`; without it this thread might read the counter's value from before the stop
            // began, and ignore its own acknowledgement as one of an earlier epoch.
            match self.exchange(seen, gone, Ordering::AcqRel) {
                Ok(()) => break seen,
                Err(now) => seen = now,
            }
        };
        interrupt_point();
        if left.handshake_state() == HandshakeState::Running && !removed(Guard::StopExitRace) {
            handshake.acknowledge(left);
        }
    }

    /// Parks the thread if it is held: publishes (the stack pointer and everything else that holders read), acknowledges, and
    /// waits until it has no holder. Called by the signal handler and by the safepoint, at any moment. Does nothing unless the
    /// thread is RUNNING and held. `publish` may be called several times.
    pub(crate) fn park_if_held(&self, handshake: &Handshake, mut publish: impl FnMut()) -> Parked {
        // Acquire: pairs with the Release of `hold`, and with that of `remove_hold`: a thread that a debugger stopped at the entry, and
        // which is not held any more when it gets here, continues without an exchange.
        let mut seen = self.load(Ordering::Acquire);
        let parked = loop {
            if seen.handshake_state() != HandshakeState::Running || !seen.is_held() {
                return Parked::No;
            }
            if !removed(Guard::StopPublish) {
                publish();
            }
            interrupt_point();
            // Release: pairs with the Acquire of `hold` (a second holder that finds this thread parked), and with the Acquire of the
            // functions that only read the word. The exchange itself need not acquire: the load above, or the exchange that failed, has
            // acquired the value `seen`.
            match self.exchange(seen, seen.with_state(HandshakeState::Parked), Ordering::Release) {
                Ok(()) => break seen,
                Err(now) => seen = now,
            }
        };
        interrupt_point();
        handshake.acknowledge(parked);
        if removed(Guard::StopPublish) {
            publish();
        }
        self.wait_until_released();
        Parked::Yes
    }

    /// Enters a blocking region: publishes, and from here on counts as stopped. Existing holds are acknowledged, so the
    /// thread need not park before it sleeps. `publish` may be called several times.
    pub(crate) fn enter_blocking(&self, handshake: &Handshake, mut publish: impl FnMut()) {
        // Relaxed: the value is used only if the exchange below finds it again, and that exchange acquires.
        let mut seen = self.load(Ordering::Relaxed);
        let entered = loop {
            debug_assert!(seen.handshake_state() == HandshakeState::Running, "blocking regions do not nest here");
            publish();
            interrupt_point();
            // Release: pairs with the Acquire of `hold`. Acquire: pairs with its Release, so that the counter of its epoch is
            // seen. A handler that parked in between has changed the word (its epoch stays there), so the exchange fails and
            // this thread publishes again.
            match self.exchange(seen, seen.with_state(HandshakeState::Blocking), Ordering::AcqRel) {
                Ok(()) => break seen,
                Err(now) => seen = now,
            }
        };
        interrupt_point();
        handshake.acknowledge(entered);
    }

    /// Leaves a blocking region: waits until the thread has no holder. What was published at the entry stays valid
    /// until this returns. Returns [`Parked::Yes`] if it had to wait.
    pub(crate) fn leave_blocking(&self) -> Parked {
        let mut seen = self.load(Ordering::Relaxed);
        loop {
            debug_assert!(seen.handshake_state() == HandshakeState::Blocking);
            let held = seen.is_held() && !removed(Guard::StopBlocking);
            let next = seen.with_state(if held { HandshakeState::Parked } else { HandshakeState::Running });
            // Acquire: pairs with the Release of `remove_hold`. What the thread published when it entered is still released:
            // every change of the word since then was an exchange.
            match self.exchange(seen, next, Ordering::Acquire) {
                Ok(()) if held => break,
                Ok(()) => return Parked::No,
                Err(now) => seen = now,
            }
            interrupt_point();
        }
        interrupt_point();
        self.wait_until_released();
        Parked::Yes
    }

    /// Leaves a blocking region unless the thread is held, and returns whether it has left. A thread that has taken a lock in
    /// the region releases it before it parks (`.debug.frozen-waiter`).
    pub(crate) fn try_leave_blocking(&self) -> bool {
        if removed(Guard::DebugFrozenWaiter) {
            let _ = self.leave_blocking();
            return true;
        }
        let mut seen = self.load(Ordering::Relaxed);
        loop {
            debug_assert!(seen.handshake_state() == HandshakeState::Blocking);
            if seen.is_held() {
                return false;
            }
            // Acquire: as in `leave_blocking`.
            match self.exchange(seen, seen.with_state(HandshakeState::Running), Ordering::Acquire) {
                Ok(()) => return true,
                Err(now) => seen = now,
            }
            interrupt_point();
        }
    }

    /// Changes from PARKED to RUNNING as soon as the thread has no holder. A permit of the semaphore only means that the word
    /// may have changed: the permit may be left from an earlier wait that ended without taking it, and there may be a new hold.
    fn wait_until_released(&self) {
        let mut seen = self.load(Ordering::Relaxed);
        loop {
            if seen.is_held() {
                self.resume.wait();
                interrupt_point();
                seen = self.load(Ordering::Relaxed);
                if !removed(Guard::StopStalePermit) {
                    continue;
                }
            }
            // Acquire: pairs with the Release of `remove_hold`.
            match self.exchange(seen, seen.with_state(HandshakeState::Running), Ordering::Acquire) {
                Ok(()) => break,
                Err(now) => seen = now,
            }
        }
        interrupt_point();
    }

    /// In the child of a `fork`, for the surviving thread: its holders do not exist here.
    pub(crate) fn survive_fork(&self) {
        self.word.store(self.load(Ordering::Relaxed).0 & !HOLDERS, Ordering::Relaxed);
    }

    // ---- the word

    fn load(&self, order: Ordering) -> Word {
        Word(self.word.load(order))
    }

    /// Compare-exchange. A failure acquires, because the caller decides again on the value found: `take_back` may find an
    /// acknowledgement in it.
    fn exchange(&self, from: Word, to: Word, order: Ordering) -> Result<(), Word> {
        self.word.compare_exchange(from.0, to.0, order, Ordering::Acquire).map(drop).map_err(Word)
    }
}
