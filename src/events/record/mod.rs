//! Recording: the road of events to those who need not see them at once.
//!
//! A listener is called in the middle of what happens, so it can do next to nothing. A consumer that writes files, or keeps a
//! hundred million records, gets them later, in order of time, on another thread; the thread that fires pays for
//! reading a clock and storing a few words.
//!
//! ```text
//!   thread                    thread                         handler that interrupted a fire
//!     │ fire                    │ fire                         │ fire
//!     ▼                         ▼                              ▼
//!   ┌──────┐                  ┌──────┐                       ┌────────┐
//!   │ ring │ chunks of 64 KiB │ ring │                       │ nested │         `ring`, `stream`, `wanted`, `fire`
//!   └──┬───┘                  └──┬───┘                       └───┬────┘
//!      └──────────────┬──────────┴───────────────────────────────┘
//!                     ▼
//!          drain: merge by time                    under one lock; by the writer thread, or by who flushes     `drain`, `merge`
//!                     │
//!         ┌───────────┼────────────┐               each consumer gets what it had selected then              `worlds`
//!         ▼           ▼            ▼
//!       file    flight recorder   host             `Consumer`
//! ```
//!
//! **One recorder per process**, since a thread has one ring whichever worlds it fires into, and since files want the events of
//! all worlds in one order. Each world that records has a number and its own selections.
//!
//! **Who waits.** By default nothing is lost: a thread whose ring is full waits for the drain, as a blocking region, so that a
//! collection need not wait for it. Where waiting could be for ever (in the stopped world, in a handler that interrupted
//! a fire, on the thread that drains) the ring grows instead, and at the limit of all rings together records are dropped
//! and counted (`.event.no-block-in-handler`). What waits for the writer never holds what the writer needs: it allocates
//! nothing and takes no lock but the recorder's; and if the writer does not come, who waits drains by itself.
//!
//! **Nothing is lost in the count.** A record that was fired is drained, or dropped and counted at its place in the stream and by
//! event, so that each consumer's numbers add up.
//!
//! **In the child of a fork** the rings of other threads, the writer, and the file consumers are gone (`.fork.services`); those that
//! go on are drained by who finds its ring full, or flushes, until the next consumer starts a writer.

pub(crate) mod bell;
mod consumer;
mod drain;
pub(super) mod fire;
mod flight_recorder;
mod keep_up;
mod merge;
mod recording;
pub(crate) mod ring;
mod stream;
mod wanted;
mod worlds;
mod writer;

use std::io;

pub use consumer::{
    Consumer, ConsumerId, ConsumerTotals, Ended, Lost, Policy, RecordError, Recorded, RecorderTotals, RecordingThread,
    WorldNumber,
};
pub(crate) use fire::{Hurry, Surroundings, as_blocking, catch_up, locked, set_surroundings};
pub use flight_recorder::FlightRecorder;
pub(crate) use keep_up::keep_up;
pub use merge::Run;
pub(crate) use recording::Recording;
pub(super) use worlds::RecordedWorld;

use self::drain::{Drain, Outcome, PATIENCE_NS, Place};
use self::fire::{HOMELESS, LOSSLESS, WAITS};
use super::Events;
use super::clock::Clock;
use super::sink::AfterFork;
use super::state::Selection;
use crate::os::barrier;
use crate::os::clock::now_ns;
use crate::os::exit::at_exit;
use crate::os::signals::FailingWrites;
use crate::sabotage::{Guard, removed};
use crate::sync::{AtomicBool, LockGuard, Locked, Ordering, fence_past_the_caches};

/// How many consumers can record at once.
pub const MAX_CONSUMERS: usize = 8;

/// How many worlds of a process can record at once.
pub const MAX_WORLDS: usize = 64;

/// The drain, and the recorder's lock.
// SAFETY: the only drain of the rings that threads have.
static DRAIN: Locked<Drain> = Locked::new(unsafe { Drain::new() });

/// The recorder's lock, held. Meanwhile files that fail are told of by errors only (`.event.full-disk`): who drains may be any thread of
/// the program.
struct Held {
    _failing_writes: FailingWrites,
    lock: LockGuard<'static>,
}

impl Held {
    /// Waits for it. Only in [`as_blocking`].
    fn take() -> Held {
        Held::with(DRAIN.lock().lock())
    }

    fn try_take() -> Option<Held> {
        DRAIN.lock().try_lock().ok().map(Held::with)
    }

    fn with(lock: LockGuard<'static>) -> Held {
        Held { _failing_writes: FailingWrites::are_errors(), lock }
    }

    /// Waits for it, but no longer than so many nanoseconds.
    fn take_within(ns: u64) -> Option<Held> {
        let end = now_ns() + ns;
        loop {
            match DRAIN.lock().lock_slice(end.saturating_sub(now_ns())) {
                Ok(lock) => return Some(Held::with(lock)),
                Err(_) if now_ns() >= end => return None,
                Err(_) => {}
            }
        }
    }
}

/// Consumers may have written past the caches, and go on from another thread.
impl Drop for Held {
    fn drop(&mut self) {
        fence_past_the_caches();
    }
}

impl std::ops::Deref for Held {
    type Target = Drain;

    fn deref(&self) -> &Drain {
        DRAIN.get(&self.lock)
    }
}

impl std::ops::DerefMut for Held {
    fn deref_mut(&mut self) -> &mut Drain {
        DRAIN.get_mut(&mut self.lock)
    }
}

/// `exit` has been called.
static ENDING: AtomicBool = AtomicBool::new(false);

/// For how long the end of the process waits for a drain that is under way.
const END_NS: u64 = 1_000_000_000;

/// Whether the process is about to end: what is written now may be the last.
pub(crate) fn is_ending() -> bool {
    ENDING.load(Ordering::Relaxed)
}

/// Has everything that was fired written to the files when the process exits, by returning from `main` or by `exit` on any thread. The files
/// end there: a thread that fires later neither drains nor waits, and what its ring does not hold is dropped and counted.
///
/// # Errors
/// The system has no memory for the registration.
pub fn flush_at_exit() -> std::io::Result<()> {
    at_exit(flush_now)
}

extern "C" fn flush_now() {
    ENDING.store(true, Ordering::Relaxed);
    if let Some(mut held) = Held::take_within(END_NS) {
        held.flush_everything(PATIENCE_NS);
    }
}

/// For a thread that waits for room and sees nobody make it.
fn drain_if_nobody_does() {
    if let Some(mut held) = Held::try_take().filter(|_| !is_ending()) {
        held.drain(PATIENCE_NS);
        held.count_lossless();
    }
}

/// What all worlds of the process share: the rings of all threads, the writer thread, and the consumers.
#[derive(Debug)]
pub struct Recorder(());

impl Recorder {
    /// The recorder of this process.
    pub fn of_process() -> &'static Recorder {
        static RECORDER: Recorder = Recorder(());
        &RECORDER
    }

    /// The clock of all records. The first call takes some 10 ms.
    pub fn clock(&self) -> Clock {
        Clock::of_process()
    }

    /// The MPS's `telemetry_flush`: when it returns, everything that was fired before is with its consumers, and they are
    /// flushed.
    ///
    /// Waits for a drain that is under way, as a blocking region. Not in the stopped world.
    ///
    /// # Errors
    /// The first error of a consumer that has not been returned by this function before.
    pub fn flush(&self) -> io::Result<()> {
        as_blocking(|| {
            let mut held = Held::take();
            held.flush_everything(PATIENCE_NS);
            for place in held.routes.consumers.iter_mut().flatten().filter(|place| !place.error_told) {
                if let Some(error) = &place.error {
                    place.error_told = true;
                    return Err(same_error(error));
                }
            }
            Ok(())
        })
    }

    /// The process's numbers so far. Exact when nobody fires meanwhile.
    pub fn totals(&self) -> RecorderTotals {
        as_blocking(|| {
            let held = Held::take();
            let homeless = HOMELESS.load(Ordering::Relaxed);
            let (mut fired, mut dropped) = (homeless, homeless);
            for ring in ring::all().flat_map(ring::ThreadRings::both) {
                fired += ring.fired.load(Ordering::Relaxed);
                dropped += ring.dropped.load(Ordering::Relaxed);
            }
            RecorderTotals {
                fired,
                dropped,
                drained: held.routes.passed.drained,
                unclaimed: held.routes.passed.unclaimed,
                ring_bytes: ring::bytes() as u64,
                waits: WAITS.load(Ordering::Relaxed),
            }
        })
    }

    /// Bytes of memory that the rings have now. Waits for nobody.
    pub fn ring_bytes(&self) -> u64 {
        ring::bytes() as u64
    }

    /// The numbers of a consumer so far.
    ///
    /// # Errors
    /// It has ended.
    pub fn totals_of(&self, consumer: ConsumerId) -> Result<ConsumerTotals, RecordError> {
        as_blocking(|| Held::take().totals_of(consumer))
    }

    /// Drains, and has a consumer that keeps records (a flight recorder) hand them to another one, which is then flushed.
    /// Says how many records those were.
    ///
    /// # Errors
    /// The consumer has ended or keeps no records, or `to` failed.
    pub fn replay(&self, from: ConsumerId, to: &mut dyn Consumer) -> io::Result<u64> {
        as_blocking(|| {
            let mut held = Held::take();
            held.settle(PATIENCE_NS);
            let reached = held.reached();
            let place = held.place(from).map_err(io::Error::other)?;
            let records = place.consumer.replay(to)?;
            to.drained(&reached)?;
            to.flush()?;
            Ok(records)
        })
    }
}

/// What a debugger calls while all other threads stand still, whatever they hold: everything that was fired goes to the files.
///
/// The caller drains by itself. 0 if all is well; 1 if a thread that stands still holds the recorder's lock: let the program run
/// on for a moment, and call again; 2 if a consumer has failed, now or before.
#[unsafe(no_mangle)]
pub extern "C" fn stopworld_telemetry_flush() -> i32 {
    let Some(mut held) = Held::try_take() else { return 1 };
    // Fires in flight are those of frozen threads: no patience.
    held.flush_everything(0);
    if held.routes.consumers.iter().flatten().any(|place| place.error.is_some()) { 2 } else { 0 }
}

/// An error cannot be cloned; its meaning can.
fn same_error(error: &io::Error) -> io::Error {
    error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error)
}

impl Drain {
    fn flush_everything(&mut self, patience: u64) {
        // Nothing was ever recorded; there is no clock either.
        if self.next_serial == 1 {
            return;
        }
        ring::all().for_each(ring::ThreadRings::probe);
        self.settle(patience);
        self.tell_of_losses();
        self.tell_the_time();
        self.flush();
        self.count_lossless();
    }

    /// After anything that may have changed it.
    fn count_lossless(&mut self) {
        let consumers = self.routes.consumers.iter().flatten();
        let lossless = consumers.filter(|place| place.is_lossless() && !is_ending()).count();
        if LOSSLESS.swap(lossless as u32, Ordering::Relaxed) > lossless as u32 {
            // Who waited for one that has failed waits for nobody now.
            fire::ROOM.turn();
        }
    }

    fn place(&mut self, consumer: ConsumerId) -> Result<&mut Place, RecordError> {
        let place = self.routes.consumers[consumer.place].as_mut();
        place.filter(|place| place.serial == consumer.serial).ok_or(RecordError::Ended)
    }

    fn totals_of(&mut self, consumer: ConsumerId) -> Result<ConsumerTotals, RecordError> {
        let mut totals = self.place(consumer)?.totals;
        let books = &self.routes.books;
        let dropped = |world: WorldNumber| books[usize::from(world.0)].dropped(world, consumer.place);
        totals.dropped += worlds::taken(books).map(dropped).sum::<u64>();
        totals.fired = totals.written + totals.lost + totals.dropped;
        Ok(totals)
    }

    fn add(&mut self, consumer: Box<dyn Consumer>) -> Result<ConsumerId, RecordError> {
        let place = self.routes.consumers.iter().position(Option::is_none).ok_or(RecordError::TooManyConsumers)?;
        let serial = self.next_serial;
        self.next_serial += 1;
        self.routes.consumers[place] = Some(Place::new(consumer, serial));
        self.count_lossless();
        Ok(ConsumerId { place, serial })
    }

    /// Changes what a consumer selects of a world.
    fn change(&mut self, world: &'static RecordedWorld, consumer: ConsumerId, selection: Option<Selection>) {
        let number = WorldNumber(world.number());
        // What was fired must have gone by the history before that is forgotten.
        if !self.routes.books[usize::from(number.0)].has_room() {
            self.drain(PATIENCE_NS);
            let done_up_to = self.done_up_to;
            self.routes.books[usize::from(number.0)].forget_before(done_up_to);
        }
        if !self.routes.books[usize::from(number.0)].has_room() {
            self.settle(PATIENCE_NS);
            self.routes.books[usize::from(number.0)].forget_the_past();
        }
        let dropped = self.routes.books[usize::from(number.0)].change(number, consumer.place, selection);
        if let Ok(place) = self.place(consumer) {
            place.totals.dropped += dropped;
        }
    }

    fn end(&mut self, consumer: ConsumerId) -> Result<Ended, RecordError> {
        self.place(consumer)?;
        for number in worlds::taken(&self.routes.books).collect::<Vec<_>>() {
            if self.routes.books[usize::from(number.0)].selection(consumer.place).is_some() {
                self.change(worlds::of(number), consumer, None);
            }
        }
        self.settle(PATIENCE_NS);
        // The place is another consumer's next, whose records are not those of this one's time.
        self.routes.books.iter_mut().for_each(worlds::Book::forget_the_past);
        self.tell_of_losses();
        let totals = self.totals_of(consumer)?;
        let place = self.routes.consumers[consumer.place].take();
        self.count_lossless();
        let mut place = place.ok_or(RecordError::Ended)?;
        place.totals = totals;
        let now = self.reached();
        place.attempt(|consumer| consumer.close(&now));
        Ok(Ended { totals: place.totals, error: place.error, consumer: place.consumer })
    }
}

/// Recording of one world's events.
///
/// Functions that change who records wait for a drain that is under way, and for changes of other threads, as a blocking
/// region. They are not for the stopped world, nor for handlers.
impl Events {
    /// From now on, what `selection` selects of this world's events is recorded for `consumer`. The first consumer of the
    /// process starts the writer thread.
    ///
    /// # Errors
    /// There are too many, or the system does not give what recording needs; the consumer is dropped.
    pub fn record_to(&self, consumer: Box<dyn Consumer>, selection: Selection) -> Result<ConsumerId, RecordError> {
        crate::sabotage::choose();
        barrier::register().map_err(RecordError::Barrier)?;
        let _ = Clock::of_process();
        self.changing(|events, held| {
            let world = events.enroll(held)?;
            writer::ensure_started(held)?;
            let consumer = held.add(consumer)?;
            held.change(world, consumer, Some(selection));
            Ok(consumer)
        })
    }

    /// A consumer of another world's events gets this world's, too.
    ///
    /// # Errors
    /// The consumer has ended, or too many worlds record.
    pub fn record_also_to(&self, consumer: ConsumerId, selection: Selection) -> Result<(), RecordError> {
        self.changing(|events, held| {
            held.place(consumer)?;
            let world = events.enroll(held)?;
            held.change(world, consumer, Some(selection));
            Ok(())
        })
    }

    /// Changes what a consumer records of this world, from what it records now, as one. When this returns, nothing that it
    /// disabled is recorded with a later timestamp, and what was fired before is not lost. `edit` runs under the
    /// recorder's lock: it must not call the recorder.
    ///
    /// # Errors
    /// The consumer has ended, or does not record this world.
    pub fn change_recorded(&self, consumer: ConsumerId, edit: impl FnOnce(&mut Selection)) -> Result<(), RecordError> {
        self.changing(|events, held| {
            held.place(consumer)?;
            let world = events.recorded_world().ok_or(RecordError::Ended)?;
            let book = &held.routes.books[usize::from(world.number())];
            let mut selection = *book.selection(consumer.place).ok_or(RecordError::Ended)?;
            edit(&mut selection);
            held.change(world, consumer, Some(selection));
            Ok(())
        })
    }

    /// Replaces what a consumer records of this world: as [`change_recorded`](Events::change_recorded).
    ///
    /// # Errors
    /// The consumer has ended, or does not record this world.
    pub fn select_recorded(&self, consumer: ConsumerId, selection: Selection) -> Result<(), RecordError> {
        self.change_recorded(consumer, |old| *old = selection)
    }

    /// The number by which consumers know this world. `None` if nothing of it was ever recorded.
    pub fn world_number(&self) -> Option<WorldNumber> {
        self.recorded_world().map(|world| WorldNumber(world.number()))
    }

    /// What a consumer records of this world.
    ///
    /// # Errors
    /// The consumer has ended, or does not record this world.
    pub fn recorded_selection(&self, consumer: ConsumerId) -> Result<Selection, RecordError> {
        as_blocking(|| {
            let mut held = Held::take();
            held.place(consumer)?;
            let world = self.recorded_world().ok_or(RecordError::Ended)?;
            let book = &held.routes.books[usize::from(world.number())];
            book.selection(consumer.place).copied().ok_or(RecordError::Ended)
        })
    }

    /// Ends a consumer, of whichever worlds: takes its selections away, drains, closes it, and returns it with its numbers.
    /// (Other worlds that it recorded notice at their next change that a check may fail earlier.)
    ///
    /// # Errors
    /// It has ended already.
    pub fn end_recording(&self, consumer: ConsumerId) -> Result<Ended, RecordError> {
        self.changing(|_, held| held.end(consumer))
    }

    /// Runs a change under both locks, and brings the words that the fire functions test up to date.
    fn changing<R>(
        &self,
        change: impl FnOnce(&Events, &mut Drain) -> Result<R, RecordError>,
    ) -> Result<R, RecordError> {
        as_blocking(|| {
            // In this order: a fork takes the listeners' lock of each world before the recorder's.
            let listeners = self.listeners.change();
            let mut held = Held::take();
            let result = change(self, &mut held);
            drop(held);
            self.enable(&listeners);
            result
        })
    }

    /// The world's number, a new one if it has none.
    fn enroll(&self, held: &mut Drain) -> Result<&'static RecordedWorld, RecordError> {
        if let Some(world) = self.recorded_world() {
            return Ok(world);
        }
        // A linker that saw no use of it would leave it out, and a debugger would look in vain.
        std::hint::black_box::<extern "C" fn() -> i32>(stopworld_telemetry_flush);
        let world = worlds::take(&mut held.routes.books).ok_or(RecordError::TooManyWorlds)?;
        // Release: pairs with the acquire of `recorded_world`.
        self.recording.store(std::ptr::from_ref(world).cast_mut(), Ordering::Release);
        Ok(world)
    }
}

impl Drop for Events {
    /// A world goes: what it fired reaches its consumers, and those of no other world are closed.
    fn drop(&mut self) {
        let Some(world) = self.recorded_world() else { return };
        let number = usize::from(world.number());
        as_blocking(|| {
            let mut held = Held::take();
            for place in 0..MAX_CONSUMERS {
                if held.routes.books[number].selection(place).is_none() {
                    continue;
                }
                let Some(serial) = held.routes.consumers[place].as_ref().map(|consumer| consumer.serial) else {
                    continue;
                };
                let consumer = ConsumerId { place, serial };
                held.change(world, consumer, None);
                let is_of_others = held.routes.books.iter().any(|book| book.selection(place).is_some());
                if !is_of_others {
                    // An error has nobody to go to here: who wants it ends the recording before.
                    drop(held.end(consumer));
                }
            }
            held.flush_everything(PATIENCE_NS);
            worlds::give_back(&mut held.routes.books, world);
        });
    }
}

/// Before a fork, with the locks of all worlds held: nobody drains, nobody changes who records.
pub(crate) fn before_fork() {
    DRAIN.lock().acquire();
}

/// After the fork, in the parent.
///
/// # Safety
/// This thread has called [`before_fork`], and the fork is over.
pub(crate) unsafe fn after_fork_in_parent() {
    // SAFETY: the caller's promise.
    unsafe { DRAIN.lock().release() };
}

/// After the fork, in the child (`.fork.services`).
///
/// # Safety
/// The calling thread, which called [`before_fork`] before the fork, is the only one of the process.
pub(crate) unsafe fn after_fork_in_child() {
    // SAFETY: the caller's promise.
    unsafe { DRAIN.lock().reset_in_child() };
    ring::after_fork_in_child();
    writer::forget();
    fire::BELL.forget();
    // It is inherited; where it is not, there is nobody yet whom it would order.
    let _ = barrier::register();
    let mut held = Held::take();
    if removed(Guard::ForkServices) {
        return;
    }
    // What is in the ring was fired by the parent, which has it too.
    let mut silent = [false; MAX_CONSUMERS];
    for (place, silent) in held.routes.consumers.iter_mut().zip(&mut silent) {
        if place.as_ref().is_some_and(|place| place.consumer.forked() == AfterFork::Silence) {
            *silent = true;
            // Neither flushed nor dropped: its file and its buffers' contents are the parent's.
            std::mem::forget(place.take());
        }
    }
    held.discard();
    worlds::silence(&mut held.routes.books, |place| silent[place]);
    held.count_lossless();
}

/// What the writer does each time.
fn work(flush: bool) -> Outcome {
    let mut held = Held::take();
    if is_ending() {
        return Outcome::All;
    }
    let outcome = held.drain(PATIENCE_NS);
    if flush {
        ring::all().for_each(ring::ThreadRings::probe);
        held.tell_of_losses();
    }
    held.tell_the_time();
    if flush {
        held.flush();
    }
    held.count_lossless();
    outcome
}
