//! The ticker: time profiles.
//!
//! The ticker is a thread of its own, which is no mutator and is never stopped. It wakes at each interval and samples the threads
//! of its world: how much time each has used since the last sample, and in which cost centre stack it is now. For each used
//! interval it fires a tick. No thread is stopped for that; the ticker reads only words of the threads' records, and clocks.
//!
//! **Ticks count used time, not wake-ups of the ticker** (`.profile.ticks`). On a busy machine a thread does not wake on time. So a tick
//! means that another interval of time has been used, according to the clock of the profile:
//!
//! * [`Cpu`](TickClock::Cpu): each thread has a clock of its processor time. The ticker adds the time that a thread has used since the
//!   last sample to the thread's *credit*, the time that has not become ticks yet. For each whole interval in the credit the thread
//!   gets a tick; the remainder stays in the credit. A thread that exits reports its remaining time itself (it *settles its account*,
//!   see below). The processor time of collections is measured where it is spent ([`timing`](crate::collector::timing)) and
//!   becomes ticks of [`StackId::GC`]. All other processor time of the process (the runtime's own threads, threads of no world)
//!   becomes ticks of [`StackId::SYSTEM`]. So
//!
//!   ```text
//!     ticks × interval = processor time of the process       except for less than one interval for each thread
//!   ```
//!
//!   A waiting thread uses no time and gets no tick.
//! * [`Wall`](TickClock::Wall): each thread gets a tick for each interval of real time: of GC while it collects, of
//!   [`StackId::IDLE`] while it is in a blocking region or stopped, otherwise of its stack. Time in which the whole process was
//!   stopped (at a debugger's prompt, on a suspended machine) does not count (`.stop.jobcontrol`).
//!
//! All threads are sampled when the ticker wakes, so this is a sampling profile. If the ticker wakes late, the time is charged to the
//! stack in which the thread is by then.
//!
//! **Threads that live shorter than an interval.** Thousands of them may start and exit without a tick to any. The time of a thread
//! that has not become a tick when it exits is less than an interval, and its stack at that moment is useless: its scopes have
//! ended. So these remainders are added up in the [`Pool`] by what they were spent on: collecting, which was measured, or a stack:
//!
//! | time of a thread that exits | is charged to |
//! |---|---|
//! | before the last sample | the stack that it was sampled in |
//! | after that, if it has left that stack since | that stack, too |
//! | after that, if it has come back to it, or was never sampled | the stack that it was in before it came back |
//!
//! The last row is a guess, since no clock is read when a scope ends: the thread leaves the outermost of nested scopes last, and
//! the last of consecutive scopes last. How many threads are never sampled depends on how long they live: half of the threads that
//! live for half an interval.
//!
//! **The list of threads** belongs to a collection while one runs. The ticker does not wait for the list; it then samples the
//! threads that it knows. Threads that attach or detach while the ticker runs register themselves. The list is only needed for
//! threads attached earlier, and for threads that exit without detaching.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::time::Duration;

use super::numbers::StackId;
use super::scope::stack_of;
use crate::collector::Collector;
use crate::collector::timing::{CollectorTime, Measured};
use crate::events::Events;
use crate::os::clock::{now_ns, process_cpu_ns, thread_cpu_ns, thread_cpu_ns_of};
use crate::os::{Tid, futex};
use crate::sync::{AtomicU32, Locked, Ordering};
use crate::world::handshake::HandshakeState;
use crate::world::registry::Threads;
use crate::world::stop_info::ThreadStopInfo;

/// The clock that ticks are measured by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TickClock {
    /// The processor time of each thread.
    #[default]
    Cpu,
    /// Real time, in which threads also wait.
    Wall,
}

/// The settings of a time profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeProfile {
    /// The time between two ticks. A shorter time than [`SHORTEST`](TimeProfile::SHORTEST) is raised to it.
    pub interval: Duration,
    /// The clock by which ticks are measured.
    pub clock: TickClock,
}

impl TimeProfile {
    /// The shortest interval.
    pub const SHORTEST: Duration = Duration::from_nanos(SHORTEST_NS);
}

impl Default for TimeProfile {
    /// The default profile: a tick for each millisecond of processor time, as in GHC.
    fn default() -> Self {
        TimeProfile { interval: Duration::from_millis(1), clock: TickClock::Cpu }
    }
}

/// Why the ticker of a world could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TickError {
    /// The world's ticker is already running.
    #[error("the world's ticker is already running: stop it before starting another one")]
    Already,
    /// The system could not create a thread.
    #[error("the system could not create a thread for the ticker: {0}")]
    System(#[from] io::Error),
}

/// The shortest interval.
const SHORTEST_NS: u64 = 20_000;
/// The maximum real time that is counted between two samples. If more time has passed, the whole process was probably stopped.
const LONGEST_LOOK_NS: u64 = 1_000_000_000;

/// The ticker's states, in one word that its thread sleeps on.
const OFF: u32 = 0;
const ON: u32 = 1;
const ENDING: u32 = 2;

/// Ticks that are due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Due {
    tid: Tid,
    stack: StackId,
    ticks: u64,
}

/// Ticks that are due, and the number of the last tick of each entry.
#[derive(Debug, Default)]
pub(crate) struct TickBatch {
    due: Vec<Due>,
    last: u64,
}

impl TickBatch {
    /// Fires the ticks. Call it without locks: a fire may wait for room.
    fn fire(&mut self, events: &Events) {
        for Due { tid, stack, ticks } in self.due.drain(..) {
            for back in (0..ticks).rev() {
                events.fire_tick(self.last.saturating_sub(back).max(1), tid.0 as u32, stack.get());
            }
        }
    }
}

/// The ticker of a world. See the module documentation.
pub(crate) struct Ticker {
    word: AtomicU32,
    accounts: Locked<Accounts>,
}

// After a panic the accounts may be slightly wrong, but are usable.
impl std::panic::RefUnwindSafe for Ticker {}

/// The accounts.
struct Accounts {
    interval: u64,
    clock: TickClock,
    begun: u64,
    /// For the wall clock: the time of the last sample.
    looked: u64,
    /// For the wall clock: the time counted since the start.
    counted: u64,
    known: HashMap<usize, ThreadAccount>,
    /// The number of samples so far.
    looks: u64,
    process_base: u64,
    helpers_base: u64,
    /// Processor time of the world's threads since the start, including those that have exited.
    mutators_ns: u64,
    /// The processor time of exited threads that has not become ticks yet.
    pool: Pool,
    system_ticks: u64,
    helper_ticks: u64,
}

/// The account of a thread.
struct ThreadAccount {
    record: &'static ThreadStopInfo,
    serial: u64,
    /// The number of the sample at which the list of threads last contained this thread.
    look: u64,
    /// The thread's processor time at the last sample.
    cpu: u64,
    /// The part of `cpu` that was spent on collections.
    collected: u64,
    /// The time that has not become a tick yet.
    credit: u64,
    collected_credit: u64,
    /// The thread's stack when its clock was last read; `None` if it was never sampled.
    seen: Option<StackId>,
}

impl ThreadAccount {
    /// Creates the account of a thread whose processor time is `now`. Time that the thread used before does not count.
    fn new(record: &'static ThreadStopInfo, look: u64, now: u64) -> ThreadAccount {
        let (serial, collected) = (record.serial(), record.collected_ns(now));
        ThreadAccount { record, serial, look, cpu: now, collected, credit: 0, collected_credit: 0, seen: None }
    }

    /// Adds the time that the thread has used since the last sample, and returns it.
    fn update(&mut self, cpu: u64) -> u64 {
        let used = cpu.saturating_sub(self.cpu);
        // This is read at another moment than the clock, and the thread may be changing it. If the result is too large or too small, the
        // next sample corrects it.
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

    /// Returns the stack to charge for the time since the last sample, when the thread exits. See the module documentation.
    fn spent_under(&self) -> StackId {
        let (present, left) = (stack_of(self.record), StackId::from_raw(self.record.left_cost_stack()));
        match self.seen {
            Some(seen) if seen != present => seen,
            _ if left != StackId::MAIN => left,
            _ => present,
        }
    }

    /// Adds the time that an exiting thread has used since the last sample. Puts all its time without a tick into the pool.
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

/// Pieces of time that are too small for a tick each, by the stack that they were spent on.
///
/// As soon as they add up to an interval, the stack with the most time gets a tick. If this stack had less than an interval, its
/// time becomes negative. So the sum is exact, and each stack's share is right except for a few intervals.
#[derive(Debug, Default)]
struct Pool {
    sum: u64,
    /// For each stack, the nanoseconds that have not become ticks yet; if negative, the time by which its ticks exceed the time spent.
    of: HashMap<StackId, i64>,
}

impl Pool {
    fn add(&mut self, stack: StackId, ns: u64) {
        if ns > 0 {
            self.sum += ns;
            *self.of.entry(stack).or_default() += ns as i64;
        }
    }

    /// Subtracts whole intervals from the sum, and adds their ticks to `due`.
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

/// Subtracts all whole intervals from `credit`, a time that has not been charged yet. Returns their number.
fn take_whole(credit: &mut u64, interval: u64) -> u64 {
    let whole = *credit / interval;
    *credit %= interval;
    whole
}

/// The thread id for threads of the process that belong to no world.
const NOBODY: Tid = Tid(0);

impl Accounts {
    fn new() -> Accounts {
        Accounts {
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
        *self = Accounts {
            interval: u64::try_from(profile.interval.as_nanos()).unwrap_or(u64::MAX).max(SHORTEST_NS),
            clock: profile.clock,
            begun: now,
            looked: now,
            process_base: process_cpu_ns(),
            helpers_base: time.helpers_ns(),
            ..Accounts::new()
        };
        self.refresh(threads);
    }

    /// The number of the current tick by real time.
    fn last_tick(&self, now: u64) -> u64 {
        now.saturating_sub(self.begun) / self.interval
    }

    /// Updates the known threads from the list, unless the list is locked.
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

    /// Notes that a thread is in the world; it may be new. `clock` reads its processor time.
    fn meet(&mut self, record: &'static ThreadStopInfo, look: u64, clock: impl FnOnce() -> u64) {
        match self.known.entry(key_of(record)) {
            Entry::Occupied(known) if known.get().serial == record.serial() => known.into_mut().look = look,
            unknown => drop(unknown.insert_entry(ThreadAccount::new(record, look, clock()))),
        }
    }

    /// Ends the profile.
    fn end(&mut self) {
        self.known.clear();
    }

    /// Adds a thread that has joined the world; called by that thread.
    fn join(&mut self, record: &'static ThreadStopInfo) {
        self.meet(record, self.looks, thread_cpu_ns);
    }

    /// Takes a sample of all threads.
    fn look(&mut self, threads: &Threads, time: &CollectorTime, harvest: &mut TickBatch) {
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

    /// Advances real time to `now`. Returns how many intervals were completed.
    fn real_ticks(&mut self, now: u64) -> u64 {
        let ticked = self.counted / self.interval;
        self.counted += now.saturating_sub(std::mem::replace(&mut self.looked, now)).min(LONGEST_LOOK_NS);
        self.counted / self.interval - ticked
    }

    /// Returns the time until the next sample. Samples do not drift away from the ticks. With the wall clock, samples are taken so
    /// often, however long the interval is, that the time between two of them is not mistaken for a stop of the whole process.
    fn until_next(&self, now: u64) -> u64 {
        match self.clock {
            TickClock::Cpu => self.interval - now.saturating_sub(self.begun) % self.interval,
            TickClock::Wall => (self.interval - self.counted % self.interval).min(LONGEST_LOOK_NS / 2),
        }
    }

    fn look_at_processor_time(&mut self, time: &CollectorTime, due: &mut Vec<Due>) {
        // This clock is read first: time that a thread uses while its clock is read must not count as time of other threads.
        let process = process_cpu_ns().saturating_sub(self.process_base);
        for known in self.known.values_mut() {
            // A thread that has just exited has no clock.
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

    /// Settles the account of a thread that is about to leave the world; called by that thread.
    fn leave(&mut self, record: &'static ThreadStopInfo, harvest: &mut TickBatch) {
        // The list still contains the thread for a moment: the thread must not be added again as a new one.
        record.settle();
        let known = self.known.remove(&key_of(record)).filter(|known| known.serial == record.serial());
        let Some(known) = known.filter(|_| self.clock == TickClock::Cpu) else { return };
        self.mutators_ns += known.settle(thread_cpu_ns(), &mut self.pool);
        harvest.last = self.last_tick(now_ns());
        // The tick carries the id of the thread that completes the interval, also for the other threads' time in it.
        self.pool.harvest(self.interval, record.tid(), &mut harvest.due);
    }
}

/// The key of a thread.
fn key_of(record: &'static ThreadStopInfo) -> usize {
    std::ptr::from_ref(record) as usize
}

/// Fires ticks of other threads up to a total, which may seem to decrease for a moment.
fn advance(ticked: &mut u64, total: u64, stack: StackId, due: &mut Vec<Due>) {
    let ticks = total.saturating_sub(*ticked);
    *ticked += ticks;
    push(due, NOBODY, stack, ticks);
}

/// The stack to charge a thread's real time to.
fn whereabouts(record: &ThreadStopInfo) -> StackId {
    if record.collects() {
        StackId::GC
    } else if record.stop_state().handshake_state() == HandshakeState::Running {
        stack_of(record)
    } else {
        StackId::IDLE
    }
}

impl Ticker {
    pub(crate) fn new() -> Ticker {
        Ticker { word: AtomicU32::new(OFF), accounts: Locked::new(Accounts::new()) }
    }

    /// Returns whether the ticker runs.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.word.load(Ordering::Relaxed) != OFF
    }

    /// Nanoseconds between two ticks, while the ticker runs.
    pub(crate) fn interval_ns(&self, threads: &Threads) -> Option<u64> {
        let held = threads.lock(self.accounts.lock());
        self.is_on().then(|| self.accounts.get(&held).interval)
    }

    /// Starts the ticker. `spawn` starts the thread, which executes [`run`](Self::run).
    pub(crate) fn start(
        &self,
        profile: TimeProfile,
        collector: &Collector,
        spawn: impl FnOnce() -> io::Result<()>,
    ) -> Result<(), TickError> {
        let mut held = collector.threads.lock(self.accounts.lock());
        if self.is_on() {
            return Err(TickError::Already);
        }
        let time = collector.markers.time();
        time.set_measured(Measured::Yes);
        let accounts = self.accounts.get_mut(&mut held);
        accounts.begin(profile, &collector.threads, time);
        let interval = accounts.interval;
        self.word.store(ON, Ordering::Relaxed);
        drop(held);
        collector.events.fire_ticker_begin(interval);
        if let Err(error) = spawn() {
            time.set_measured(Measured::No);
            // Release: pairs with the Acquire in `stop`, where another thread may already wait for the ticker.
            self.word.store(OFF, Ordering::Release);
            futex::wake(&self.word, u32::MAX);
            return Err(error.into());
        }
        Ok(())
    }

    /// Runs the ticker's thread until the ticker is stopped, or until `with_collector` has no collector any more.
    pub(crate) fn run(&self, with_collector: impl Fn(&mut dyn FnMut(&Collector)) -> bool) {
        let mut harvest = TickBatch::default();
        let mut until_next = SHORTEST_NS;
        loop {
            if self.word.load(Ordering::Relaxed) == ON {
                futex::wait(&self.word, ON, Some(until_next));
            }
            let ends = self.word.load(Ordering::Relaxed) != ON;
            let is_there = with_collector(&mut |collector| {
                {
                    let mut held = self.accounts.lock().lock();
                    let accounts = self.accounts.get_mut(&mut held);
                    accounts.look(&collector.threads, collector.markers.time(), &mut harvest);
                    until_next = accounts.until_next(now_ns());
                    if ends {
                        accounts.end();
                    }
                }
                harvest.fire(&collector.events);
                if ends {
                    collector.markers.time().set_measured(Measured::No);
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

    /// Stops the ticker, after a last sample, and waits for its thread, which may have to wait for a slow consumer. If there is a
    /// deadline (CLOCK_MONOTONIC), waits until then. Returns whether the ticker has ended.
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

    /// Reports that a thread has joined the world; called by that thread, without locks.
    #[inline]
    pub(crate) fn joined(&self, record: &'static ThreadStopInfo) {
        if self.is_on() {
            self.accounts.get_mut(&mut record.lock(self.accounts.lock())).join(record);
        }
    }

    /// Reports that a thread is about to leave the world; called by that thread, without locks.
    #[inline]
    pub(crate) fn leaves(&self, record: &'static ThreadStopInfo, events: &Events) {
        if self.is_on() {
            let mut harvest = TickBatch::default();
            self.accounts.get_mut(&mut record.lock(self.accounts.lock())).leave(record, &mut harvest);
            harvest.fire(events);
        }
    }

    /// Locks the accounts for the duration of a fork.
    pub(crate) fn before_fork(&self) {
        self.accounts.lock().acquire();
    }

    /// Unlocks the accounts in the parent.
    ///
    /// # Safety
    /// This thread has called [`before_fork`](Self::before_fork), and the fork is over.
    pub(crate) unsafe fn after_fork_in_parent(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.accounts.lock().release() };
    }

    /// Forgets the ticker in the child of a fork, where its thread does not exist (`.fork.services`).
    ///
    /// # Safety
    /// This is the child of a fork before which its thread called [`before_fork`](Self::before_fork), and no other thread runs yet.
    pub(crate) unsafe fn after_fork_in_child(&self, time: &CollectorTime) {
        // SAFETY: the caller's promise.
        unsafe { self.accounts.lock().reset_in_child() };
        self.word.store(OFF, Ordering::Relaxed);
        time.set_measured(Measured::No);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// `.profile.ticks`: each interval of real time is a tick, also if it is longer than the most that one sample counts. Time
        /// in which the whole process was stopped does not count.
        #[test]
        fn real_time_is_counted_whatever_the_interval_is(
            interval in SHORTEST_NS..20_000_000_000,
            steps in proptest::collection::vec((0_u64..LONGEST_LOOK_NS / 2, prop_oneof![9 => Just(0_u64), 1 => 1..1000_u64]), 1..200),
        ) {
            let mut accounts = Accounts { interval, clock: TickClock::Wall, begun: 1, looked: 1, ..Accounts::new() };
            let (mut now, mut passed, mut ticks) = (1, 0, 0);
            for (late, seconds_stopped) in steps {
                let nap = accounts.until_next(now);
                prop_assert!(nap > 0 && nap <= interval && nap + late < LONGEST_LOOK_NS, "a normal gap counts in full");
                let stopped = seconds_stopped * 1_000_000_000;
                now += nap + late + stopped;
                passed += (nap + late + stopped).min(LONGEST_LOOK_NS);
                ticks += accounts.real_ticks(now);
                prop_assert_eq!(ticks, passed / interval);
            }
        }
    }

    proptest! {
        /// `.profile.ticks`: the remaining time of short threads becomes ticks: exactly as many as it has intervals, and each stack
        /// gets its share.
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
                    prop_assert!((its * interval).abs_diff(*spent) <= 5 * interval, "{its} ticks of {interval} ns for {spent} ns");
                }
            }
        }
    }

    #[test]
    fn a_tick_of_five_seconds_comes_every_five_seconds() {
        let mut accounts = Accounts { interval: 5_000_000_000, clock: TickClock::Wall, ..Accounts::new() };
        let (mut now, mut ticks) = (0, 0);
        while now < 60_000_000_000 {
            now += accounts.until_next(now);
            ticks += accounts.real_ticks(now);
        }
        assert_eq!(ticks, 12);
    }
}
