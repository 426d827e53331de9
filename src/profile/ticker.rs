//! The ticker: where the time goes.
//!
//! A thread of its own, no mutator and never stopped, wakes at each interval and looks at the threads of its world: how much time each
//! has used since the last look, and in which cost centre stack it is now. For each interval of time it fires a tick. No
//! thread is stopped for that; all that is read is words of the threads' records, and clocks.
//!
//! **Ticks are an account, not an alarm** (`.profile.ticks`). A thread on a busy machine does not wake when it wants to. So a tick is not "the alarm
//! went off" but "another interval of time is used up", by the clock that the profile is by:
//!
//! * [`Cpu`](TickClock::Cpu): each thread has a clock of the processor time that it has used. What came to it since the last
//!   look is its credit; for each whole interval in it, the thread gets a tick, and the rest stays its credit. A thread that
//!   leaves settles by itself (see below). The processor time of collections is measured where it is spent
//!   ([`timing`](crate::collector::timing)) and becomes ticks of [`StackId::GC`]. What the process has used beside all this (the
//!   runtime's own threads, threads of no world) becomes ticks of [`StackId::SYSTEM`]. So
//!
//!   ```text
//!     ticks × interval = processor time of the process       but for less than one interval for each thread
//!   ```
//!
//!   A thread that waits uses no time and gets no tick.
//! * [`Wall`](TickClock::Wall): each thread gets a tick for each interval of real time: of GC while it collects, of
//!   [`StackId::IDLE`] while it waits in a blocking region or stands, else of its stack. Time in which the whole process stood
//!   (a debugger's prompt, a suspended machine) is no time (`.stop.jobcontrol`).
//!
//! All threads are looked at as they are at one moment, when the ticker wakes; that is what makes it a sample. What is late for
//! a moment is charged to where the thread is by then.
//!
//! **Threads that live shorter than an interval.** Thousands of them may come and go without a tick to any. What is left
//! of a thread's time when it leaves is no whole interval, and where it stands then says nothing: its scopes have ended. So the
//! rests are put together by what they were spent on, in the [`Pool`]: collecting, which was measured, or a stack:
//!
//! | time of a thread that leaves | is put to |
//! |---|---|
//! | before the last look | the stack that it was seen in |
//! | after that, if it has left that stack since | that stack, too |
//! | after that, if it has come back to it, or was never looked at | the stack that it was in before it came back |
//!
//! The last is a guess, since no clock is read when a scope ends: of scopes in each other it is the outermost that is left
//! last, and of scopes after each other the last. How many threads are never looked at is a matter of how long they live: of
//! those that live for half an interval, one in two.
//!
//! **The list of threads** belongs to a collection while there is one. The ticker does not wait for it: it then looks at the
//! threads that it knows. Who comes while the world ticks says so by himself, and who leaves, too; the list is for those who were
//! there before, and for those who vanish without a word.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::time::Duration;

use super::numbers::StackId;
use super::scope::stack_of;
use crate::collector::Collector;
use crate::collector::timing::{CollectorTime, Wanted};
use crate::events::Events;
use crate::os::clock::{now_ns, process_cpu_ns, thread_cpu_ns, thread_cpu_ns_of};
use crate::os::{Tid, futex};
use crate::sync::{AtomicU32, Locked, Ordering};
use crate::world::handshake::Place;
use crate::world::registry::Threads;
use crate::world::stop_info::ThreadStopInfo;

/// Which time ticks are of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TickClock {
    /// The processor time of each thread.
    #[default]
    Cpu,
    /// Real time, in which threads also wait.
    Wall,
}

/// How time is to be profiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeProfile {
    /// The time between two ticks. At least [`SHORTEST`](TimeProfile::SHORTEST): what is shorter is taken for that.
    pub interval: Duration,
    /// Which time.
    pub clock: TickClock,
}

impl TimeProfile {
    /// The shortest interval.
    pub const SHORTEST: Duration = Duration::from_nanos(SHORTEST_NS);
}

impl Default for TimeProfile {
    /// A millisecond of processor time, as GHC's.
    fn default() -> Self {
        TimeProfile { interval: Duration::from_millis(1), clock: TickClock::Cpu }
    }
}

/// Why a world does not begin to tick.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TickError {
    /// It ticks already.
    #[error("the world ticks already: stop its ticks before you ask for others")]
    Already,
    /// The system gave no thread.
    #[error("the system gave no thread for the ticks: {0}")]
    System(#[from] io::Error),
}

/// The shortest interval.
const SHORTEST_NS: u64 = 20_000;
/// Real time that passed between two looks counts up to this.
const LONGEST_LOOK_NS: u64 = 1_000_000_000;

/// The ticker's states, in one word that its thread sleeps on.
const OFF: u32 = 0;
const ON: u32 = 1;
const ENDING: u32 = 2;

/// A tick that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Due {
    tid: Tid,
    stack: StackId,
    ticks: u64,
}

/// Ticks that are due, and which tick the last of each is.
#[derive(Debug, Default)]
pub(crate) struct Harvest {
    due: Vec<Due>,
    last: u64,
}

impl Harvest {
    /// Fires them. Outside of all locks: a fire may wait for room.
    fn fire(&mut self, events: &Events) {
        for Due { tid, stack, ticks } in self.due.drain(..) {
            for back in (0..ticks).rev() {
                events.fire_tick(self.last.saturating_sub(back).max(1), tid.0 as u32, stack.get());
            }
        }
    }
}

/// A world's ticker. See the module's text.
pub(crate) struct Ticker {
    word: AtomicU32,
    book: Locked<Book>,
}

// A panic leaves an account that is a little wrong.
impl std::panic::RefUnwindSafe for Ticker {}

/// What is known of the time.
struct Book {
    interval: u64,
    clock: TickClock,
    begun: u64,
    /// Wall: when the last look was, and the time that counted since the beginning.
    looked: u64,
    counted: u64,
    known: HashMap<usize, Known>,
    /// Looks so far.
    looks: u64,
    process_base: u64,
    helpers_base: u64,
    /// Processor time of threads of the world since the beginning, those included that left.
    mutators_ns: u64,
    /// What threads that left had not had ticks for.
    pool: Pool,
    system_ticks: u64,
    helper_ticks: u64,
}

/// What is known of a thread.
struct Known {
    record: &'static ThreadStopInfo,
    serial: u64,
    /// When the list of threads had it last.
    look: u64,
    /// Its processor time at the last look, and how much of that was for collections.
    cpu: u64,
    collected: u64,
    /// Time that there was no tick for yet.
    credit: u64,
    collected_credit: u64,
    /// In which stack it was when its clock was read last; `None` if nobody has done so yet.
    seen: Option<StackId>,
}

impl Known {
    /// A thread whose processor time is `now`. What it has used before is not counted.
    fn new(record: &'static ThreadStopInfo, look: u64, now: u64) -> Known {
        let (serial, collected) = (record.serial(), record.collected_ns(now));
        Known { record, serial, look, cpu: now, collected, credit: 0, collected_credit: 0, seen: None }
    }

    /// Takes what the thread has used since, and says how much that is.
    fn update(&mut self, cpu: u64) -> u64 {
        let used = cpu.saturating_sub(self.cpu);
        // Read at another moment than the clock, and while its thread may be changing it. What is too much or too little
        // comes out at the next look.
        let collected = self.record.collected_ns(cpu).saturating_sub(self.collected).min(used);
        self.cpu += used;
        self.collected += collected;
        self.credit += used - collected;
        self.collected_credit += collected;
        used
    }

    fn harvest(&mut self, interval: u64, due: &mut Vec<Due>) {
        let (tid, stack) = (self.record.tid(), stack_of(self.record));
        push(due, tid, stack, take_whole(&mut self.credit, interval));
        push(due, tid, StackId::GC, take_whole(&mut self.collected_credit, interval));
        self.seen = Some(stack);
        self.record.forget_left_cost_stack();
    }

    /// The stack that stands for the time since the last look, for the thread itself when it leaves. See the module's text.
    fn spent_under(&self) -> StackId {
        let (present, left) = (stack_of(self.record), StackId::from_raw(self.record.left_cost_stack()));
        match self.seen {
            Some(seen) if seen != present => seen,
            _ if left != StackId::MAIN => left,
            _ => present,
        }
    }

    /// Takes what the thread, which leaves, has used since the last look, and gives all that it had no tick for into the pool.
    fn settle(mut self, cpu: u64, pool: &mut Pool) -> u64 {
        let before = std::mem::take(&mut self.credit);
        let used = self.update(cpu);
        let under = self.spent_under();
        pool.add(self.seen.unwrap_or(under), before);
        pool.add(under, self.credit);
        pool.add(StackId::GC, self.collected_credit);
        used
    }
}

/// Time that was spent on this and that, in pieces that are too small for a tick each.
///
/// As soon as all together is an interval, there is a tick, and the stack gets it that has waited for the most. What that has not
/// had yet of the interval it owes: so the sum is exact, and each stack's share is right but for a few intervals.
#[derive(Debug, Default)]
struct Pool {
    sum: u64,
    /// Nanoseconds without a tick, or, if they are below 0, a tick's that were not spent yet.
    of: HashMap<StackId, i64>,
}

impl Pool {
    fn add(&mut self, stack: StackId, ns: u64) {
        if ns > 0 {
            self.sum += ns;
            *self.of.entry(stack).or_default() += ns as i64;
        }
    }

    /// Takes whole intervals out.
    fn harvest(&mut self, interval: u64, tid: Tid, due: &mut Vec<Due>) {
        while self.sum >= interval {
            let Some((&stack, waiting)) = self.of.iter_mut().max_by_key(|(stack, ns)| (**ns, **stack)) else { return };
            let ticks = (*waiting as u64 / interval).clamp(1, self.sum / interval);
            *waiting = waiting.saturating_sub_unsigned(ticks * interval);
            self.sum -= ticks * interval;
            push(due, tid, stack, ticks);
        }
    }
}

fn push(due: &mut Vec<Due>, tid: Tid, stack: StackId, ticks: u64) {
    if ticks > 0 {
        due.push(Due { tid, stack, ticks });
    }
}

/// Takes whole intervals out of a credit.
fn take_whole(credit: &mut u64, interval: u64) -> u64 {
    let whole = *credit / interval;
    *credit %= interval;
    whole
}

/// Threads of the process that are none of the world's.
const NOBODY: Tid = Tid(0);

impl Book {
    fn new() -> Book {
        Book {
            interval: 1,
            clock: TickClock::Cpu,
            begun: 0,
            looked: 0,
            counted: 0,
            known: HashMap::new(),
            looks: 0,
            process_base: 0,
            helpers_base: 0,
            mutators_ns: 0,
            pool: Pool::default(),
            system_ticks: 0,
            helper_ticks: 0,
        }
    }

    fn begin(&mut self, profile: TimeProfile, threads: &Threads, time: &CollectorTime) {
        let now = now_ns();
        *self = Book {
            interval: u64::try_from(profile.interval.as_nanos()).unwrap_or(u64::MAX).max(SHORTEST_NS),
            clock: profile.clock,
            begun: now,
            looked: now,
            process_base: process_cpu_ns(),
            helpers_base: time.helpers_ns(),
            ..Book::new()
        };
        self.refresh(threads);
    }

    /// Which tick it is by real time.
    fn last_tick(&self, now: u64) -> u64 {
        now.saturating_sub(self.begun) / self.interval
    }

    /// Learns who came and who went, if nobody has the list.
    fn refresh(&mut self, threads: &Threads) {
        self.looks += 1;
        let look = self.looks;
        let refreshed = threads.look_now(|live| {
            for &record in live.iter().filter(|record| !record.has_settled()) {
                self.meet(record, look, || thread_cpu_ns_of(record.tid()).unwrap_or(0));
            }
        });
        if refreshed {
            self.known.retain(|_, known| known.look == look);
        }
    }

    /// Here is a thread, whose processor time `clock` tells: it may be new.
    fn meet(&mut self, record: &'static ThreadStopInfo, look: u64, clock: impl FnOnce() -> u64) {
        match self.known.entry(key_of(record)) {
            Entry::Occupied(known) if known.get().serial == record.serial() => known.into_mut().look = look,
            unknown => drop(unknown.insert_entry(Known::new(record, look, clock()))),
        }
    }

    /// The world ticks no more.
    fn end(&mut self) {
        self.known.clear();
    }

    /// A thread has joined the world; called by itself.
    fn join(&mut self, record: &'static ThreadStopInfo) {
        self.meet(record, self.looks, thread_cpu_ns);
    }

    /// Looks at everybody.
    fn look(&mut self, threads: &Threads, time: &CollectorTime, harvest: &mut Harvest) {
        let now = now_ns();
        self.refresh(threads);
        match self.clock {
            TickClock::Cpu => {
                harvest.last = self.last_tick(now);
                self.look_at_processor_time(time, &mut harvest.due);
            }
            TickClock::Wall => {
                let ticks = self.real_ticks(now);
                harvest.last = self.counted / self.interval;
                for known in self.known.values() {
                    push(&mut harvest.due, known.record.tid(), whereabouts(known.record), ticks);
                }
            }
        }
    }

    /// Real time passes; returns how many intervals of it are full now.
    fn real_ticks(&mut self, now: u64) -> u64 {
        let ticked = self.counted / self.interval;
        self.counted += now.saturating_sub(std::mem::replace(&mut self.looked, now)).min(LONGEST_LOOK_NS);
        self.counted / self.interval - ticked
    }

    /// How long until the next look. The looks do not drift away from the ticks; and real time must be looked at so often that none of
    /// it seems to be the whole process's standing, however long the interval is.
    fn until_next(&self, now: u64) -> u64 {
        match self.clock {
            TickClock::Cpu => self.interval - now.saturating_sub(self.begun) % self.interval,
            TickClock::Wall => (self.interval - self.counted % self.interval).min(LONGEST_LOOK_NS / 2),
        }
    }

    fn look_at_processor_time(&mut self, time: &CollectorTime, due: &mut Vec<Due>) {
        // First: what a thread uses while its clock is read is not the others'.
        let process = process_cpu_ns().saturating_sub(self.process_base);
        for known in self.known.values_mut() {
            // A thread that has just ended has no clock.
            if let Some(cpu) = thread_cpu_ns_of(known.record.tid()) {
                self.mutators_ns += known.update(cpu);
                known.harvest(self.interval, due);
            }
        }
        let helpers = time.helpers_ns().saturating_sub(self.helpers_base);
        let system = process.saturating_sub(self.mutators_ns + helpers);
        advance(&mut self.helper_ticks, helpers / self.interval, StackId::GC, due);
        advance(&mut self.system_ticks, system / self.interval, StackId::SYSTEM, due);
    }

    /// A thread of the world is about to leave; called by itself.
    fn leave(&mut self, record: &'static ThreadStopInfo, harvest: &mut Harvest) {
        // The list has the thread for a moment still: it must not be met again, as a newcomer.
        record.settle();
        let known = self.known.remove(&key_of(record)).filter(|known| known.serial == record.serial());
        let Some(known) = known.filter(|_| self.clock == TickClock::Cpu) else { return };
        self.mutators_ns += known.settle(thread_cpu_ns(), &mut self.pool);
        harvest.last = self.last_tick(now_ns());
        // The one whose rest makes an interval full stands for those that it is of.
        self.pool.harvest(self.interval, record.tid(), &mut harvest.due);
    }
}

/// What a thread is known by.
fn key_of(record: &'static ThreadStopInfo) -> usize {
    std::ptr::from_ref(record) as usize
}

/// Ticks of others up to a total that may seem to go back for a moment.
fn advance(ticked: &mut u64, total: u64, stack: StackId, due: &mut Vec<Due>) {
    let ticks = total.saturating_sub(*ticked);
    *ticked += ticks;
    push(due, NOBODY, stack, ticks);
}

/// In what a thread is, in real time.
fn whereabouts(record: &ThreadStopInfo) -> StackId {
    if record.collects() {
        StackId::GC
    } else if record.stop_state().place() == Place::Running {
        stack_of(record)
    } else {
        StackId::IDLE
    }
}

impl Ticker {
    pub(crate) fn new() -> Ticker {
        Ticker { word: AtomicU32::new(OFF), book: Locked::new(Book::new()) }
    }

    /// Whether the world ticks.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.word.load(Ordering::Relaxed) != OFF
    }

    /// Nanoseconds from tick to tick, while the world ticks.
    pub(crate) fn interval_ns(&self, threads: &Threads) -> Option<u64> {
        let held = threads.lock(self.book.lock());
        self.is_on().then(|| self.book.get(&held).interval)
    }

    /// Begins to tick. `spawn` starts the thread, whose work is [`run`](Self::run).
    pub(crate) fn start(
        &self,
        profile: TimeProfile,
        collector: &Collector,
        spawn: impl FnOnce() -> io::Result<()>,
    ) -> Result<(), TickError> {
        let mut held = collector.threads.lock(self.book.lock());
        if self.is_on() {
            return Err(TickError::Already);
        }
        let time = collector.markers.time();
        time.want(Wanted::Yes);
        let book = self.book.get_mut(&mut held);
        book.begin(profile, &collector.threads, time);
        let interval = book.interval;
        self.word.store(ON, Ordering::Relaxed);
        drop(held);
        collector.events.fire_ticker_begin(interval);
        if let Err(error) = spawn() {
            time.want(Wanted::No);
            // Release: pairs with the Acquire in `stop`, where somebody may be waiting for the thread already.
            self.word.store(OFF, Ordering::Release);
            futex::wake(&self.word, u32::MAX);
            return Err(error.into());
        }
        Ok(())
    }

    /// What the ticker's thread does until it is told to end, or `with_collector` has none any more.
    pub(crate) fn run(&self, with_collector: impl Fn(&mut dyn FnMut(&Collector)) -> bool) {
        let mut harvest = Harvest::default();
        let mut until_next = SHORTEST_NS;
        loop {
            if self.word.load(Ordering::Relaxed) == ON {
                futex::wait(&self.word, ON, Some(until_next));
            }
            let ends = self.word.load(Ordering::Relaxed) != ON;
            let is_there = with_collector(&mut |collector| {
                {
                    let mut held = self.book.lock().lock();
                    let book = self.book.get_mut(&mut held);
                    book.look(&collector.threads, collector.markers.time(), &mut harvest);
                    until_next = book.until_next(now_ns());
                    if ends {
                        book.end();
                    }
                }
                harvest.fire(&collector.events);
                if ends {
                    collector.markers.time().want(Wanted::No);
                }
            });
            if ends || !is_there {
                break;
            }
        }
        // Release: pairs with the Acquire in `stop`: the last ticks are fired.
        self.word.store(OFF, Ordering::Release);
        futex::wake(&self.word, u32::MAX);
    }

    /// Ends the ticks, after a last look. Waits for the thread, which may have to wait for somebody who listens: until this time, by
    /// CLOCK_MONOTONIC, if there is one. Whether it has ended.
    pub(crate) fn stop(&self, threads: &Threads, deadline: Option<u64>) -> bool {
        if self.word.compare_exchange(ON, ENDING, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            futex::wake(&self.word, u32::MAX);
        }
        threads.as_blocking(|| {
            // Acquire: pairs with the Release in `run`.
            while self.word.load(Ordering::Acquire) == ENDING {
                let left = deadline.map(|deadline| deadline.saturating_sub(now_ns()));
                if left == Some(0) {
                    return false;
                }
                futex::wait(&self.word, ENDING, left);
            }
            true
        })
    }

    /// A thread has joined the world; called by itself, without locks.
    #[inline]
    pub(crate) fn joined(&self, record: &'static ThreadStopInfo) {
        if self.is_on() {
            self.book.get_mut(&mut record.lock(self.book.lock())).join(record);
        }
    }

    /// A thread is about to leave the world; called by itself, without locks.
    #[inline]
    pub(crate) fn leaves(&self, record: &'static ThreadStopInfo, events: &Events) {
        if self.is_on() {
            let mut harvest = Harvest::default();
            self.book.get_mut(&mut record.lock(self.book.lock())).leave(record, &mut harvest);
            harvest.fire(events);
        }
    }

    /// Keeps the account whole while the process forks.
    pub(crate) fn before_fork(&self) {
        self.book.lock().acquire();
    }

    /// Goes on with it, in the parent.
    ///
    /// # Safety
    /// This thread has called [`before_fork`](Self::before_fork), and the fork is over.
    pub(crate) unsafe fn after_fork_in_parent(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.book.lock().release() };
    }

    /// In the child of a fork nobody ticks any more (`.fork.services`).
    ///
    /// # Safety
    /// This is the child of a fork before which its thread called [`before_fork`](Self::before_fork), and no other thread runs yet.
    pub(crate) unsafe fn after_fork_in_child(&self, time: &CollectorTime) {
        // SAFETY: the caller's promise.
        unsafe { self.book.lock().reset_in_child() };
        self.word.store(OFF, Ordering::Relaxed);
        time.want(Wanted::No);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// `.profile.ticks`: each interval of real time is a tick, also if it is longer than what one look counts for; but not the time in which the
        /// whole process stood.
        #[test]
        fn real_time_is_counted_whatever_the_interval_is(
            interval in SHORTEST_NS..20_000_000_000,
            steps in proptest::collection::vec((0_u64..LONGEST_LOOK_NS / 2, prop_oneof![9 => Just(0_u64), 1 => 1..1000_u64]), 1..200),
        ) {
            let mut book = Book { interval, clock: TickClock::Wall, begun: 1, looked: 1, ..Book::new() };
            let (mut now, mut passed, mut ticks) = (1, 0, 0);
            for (late, seconds_of_standing) in steps {
                let nap = book.until_next(now);
                prop_assert!(nap > 0 && nap <= interval && nap + late < LONGEST_LOOK_NS, "all of it counts");
                let stands = seconds_of_standing * 1_000_000_000;
                now += nap + late + stands;
                passed += (nap + late + stands).min(LONGEST_LOOK_NS);
                ticks += book.real_ticks(now);
                prop_assert_eq!(ticks, passed / interval);
            }
        }
    }

    proptest! {
        /// `.profile.ticks`: what short threads leave becomes ticks, neither more nor fewer than there are intervals in it, and each of what
        /// it was spent on.
        #[test]
        fn a_pool_gives_each_stack_its_share(
            pieces in proptest::collection::vec((0..5_u32, 0..3000_u64), 1..500),
            interval in 100..2000_u64,
        ) {
            let (mut pool, mut due) = (Pool::default(), Vec::new());
            let mut spent = [0; 5];
            for (stack, ns) in pieces {
                pool.add(StackId::from_raw(stack), ns);
                spent[stack as usize] += ns;
                pool.harvest(interval, NOBODY, &mut due);
                let ticks = due.iter().map(|due| due.ticks).sum::<u64>();
                prop_assert_eq!(ticks, spent.iter().sum::<u64>() / interval);
                for (stack, spent) in spent.iter().enumerate() {
                    let its = due.iter().filter(|due| due.stack.get() == stack as u32).map(|due| due.ticks).sum::<u64>();
                    prop_assert!((its * interval).abs_diff(*spent) <= 5 * interval, "{its} of {interval} are not {spent}");
                }
            }
        }
    }

    #[test]
    fn a_tick_of_five_seconds_comes_every_five_seconds() {
        let mut book = Book { interval: 5_000_000_000, clock: TickClock::Wall, ..Book::new() };
        let (mut now, mut ticks) = (0, 0);
        while now < 60_000_000_000 {
            now += book.until_next(now);
            ticks += book.real_ticks(now);
        }
        assert_eq!(ticks, 12);
    }
}
