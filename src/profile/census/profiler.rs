//! A heap profile: repeated censuses, reported by events.
//!
//! A world has at most one heap profile at a time. Its whole state is guarded by the lock of the collector's
//! [observer](crate::collector::observer), which the collecting thread holds from before the stop until the events are fired. So no
//! two collections, and no thread that changes the profile, use the state at the same time. While no profile runs the observer is
//! not armed, and a collection only reads one word.
//!
//! ```text
//!   profile    CensusFilter for each filter, CensusProfileBegin
//!   census     CensusBegin (when it was taken), CensusBand for each band, CensusEnd
//!   biography  the same, for all censuses at the end, each with its own time
//! ```
//!
//! Bands are emitted in the order of the census, largest first. But stacks of more than [`MOST_ORDERED_CENTRES`] centres come last, and
//! those with the same innermost centres follow each other. So the writer of a format without room for more centres can merge the
//! stacks that it cannot distinguish, and needs to keep only the last band.

use std::cell::{RefCell, RefMut};
use std::collections::HashMap;

use super::census_taker::{CensusTaker, check_charges, cut};
use super::{Band, Census, CensusListener, Every, HeapProfile, ProfileError};
use crate::collector::Collector;
use crate::collector::live_heap::LiveHeap;
use crate::collector::{Afterwards, Attention, Observer};
use crate::events::{EventId, Events};
use crate::heap::uses::Tracking;
use crate::os::clock::now_ns;
use crate::os::futex;
use crate::profile::StackId;
use crate::profile::biography::{Biography, WalkPurpose};
use crate::sync::{AtomicU32, AtomicU64, Guarded, LockGuard, Ordering, SharedLock};

/// A world's heap profile.
pub(crate) struct Profiler {
    /// The observer's lock.
    observing: SharedLock,
    state: Guarded<RefCell<State>>,
    /// When the next census is due, by CLOCK_MONOTONIC; 0 if none is due by time.
    due_ns: AtomicU64,
    /// Incremented when a profile begins or ends. The timer thread sleeps on it.
    changes: AtomicU32,
}

#[derive(Default)]
struct State {
    running: Option<Running>,
    /// The table of uses. It is made for the first biography, and kept as long as the world: a mutator may be recording a use at any time.
    tracking: Option<Tracking>,
}

/// A running profile.
struct Running {
    profile: HeapProfile,
    work: Work,
    /// The number of censuses so far.
    era: u64,
    /// The number of collections until the next census, if a census is taken every n-th collection.
    until_next: u32,
    /// Whether a census was requested.
    asked: bool,
    /// Whether the end of the profile was requested.
    ending: bool,
    /// The number of censuses that were due but could not be taken.
    missed: u64,
    /// Whether the last walk was done. A collection between that walk and the end of the profile must not count the dead objects again.
    ended: bool,
    /// The purpose of the walk in the next collection.
    look: WalkPurpose,
    /// The labels of the bands' names.
    labels: HashMap<String, u64>,
    last: Option<Census>,
}

enum Work {
    Counting(Box<CensusTaker>),
    Biography(Box<Biography>),
}

/// The bands of a census are ordered by the names of stacks up to this many centres; stacks with more come last.
pub const MOST_ORDERED_CENTRES: usize = 255;

/// The message in the trace when all eras of a biography are used up.
const NO_MORE_ERAS: &str = "the biography has taken its maximum number of censuses: no more are taken";

/// The result of a profile that has ended.
#[derive(Debug)]
pub struct Finished {
    /// The number of censuses taken.
    pub censuses: u64,
    /// The number of censuses that were due but not taken: a biography has 65 534 at most.
    pub missed: u64,
    /// The censuses of a biography, which are known only now; empty for other profiles.
    pub biography: Vec<Census>,
}

impl Profiler {
    /// Creates a profiler, which collections call while they hold the lock `observing`.
    pub(crate) fn new(observing: SharedLock) -> Profiler {
        let state = Guarded::new(RefCell::new(State::default()));
        Profiler { observing, state, due_ns: AtomicU64::new(0), changes: AtomicU32::new(0) }
    }

    fn state<'a>(&'a self, observing: &'a LockGuard<'_>) -> RefMut<'a, State> {
        // SAFETY: it is always this lock.
        unsafe { self.state.get(&self.observing, observing) }.borrow_mut()
    }

    /// Calls `f` with the running profile, in a collection that holds the lock.
    ///
    /// # Panics
    /// If the calling thread does not hold the lock.
    fn with_running<R>(&self, f: impl FnOnce(&mut Running) -> R) -> Option<R> {
        assert!(self.observing.is_mine(), "an observer must be called with its lock held");
        // SAFETY: this thread holds it, and `RefCell` ensures that the state is borrowed from one guard at a time.
        let held = unsafe { self.observing.assume_held() };
        self.state(&held).running.as_mut().map(f)
    }

    /// Begins a profile; none may be running. Returns the number of this change, which identifies the profile.
    pub(crate) fn begin(
        &self,
        profile: HeapProfile,
        collector: &Collector,
        observing: &LockGuard<'_>,
    ) -> Result<u32, ProfileError> {
        let state = &mut *self.state(observing);
        let request = profile.request();
        profile.check()?;
        let work = if request.breakdown.is_by_life(&request.filters) {
            if state.tracking.is_none() {
                state.tracking = Some(Tracking::begin(&collector.heap)?);
            }
            check_charges(&request, collector)?;
            let tracking = state.tracking.as_ref().ok_or(ProfileError::NotTracked)?;
            Work::Biography(Box::new(Biography::new(&request, tracking)?))
        } else {
            Work::Counting(Box::new(CensusTaker::new(&request, collector)?))
        };
        report_begin(&collector.events, &profile);
        let until_next = match profile.every {
            Every::Collections(count) => count.max(1),
            Every::Time(_) | Every::Demand => 0,
        };
        let period = profile.period_ns();
        let due = if period == 0 { 0 } else { now_ns().saturating_add(period) };
        self.due_ns.store(due, Ordering::Relaxed);
        let labels = HashMap::new();
        let (look, asked, ending, ended, last, era, missed) = (WalkPurpose::Deaths, false, false, false, None, 0, 0);
        state.running =
            Some(Running { profile, work, era, until_next, asked, ending, ended, missed, look, labels, last });
        collector.observing.arm(true);
        Ok(self.changed())
    }

    /// Whether the running profile is the one that began with this change.
    pub(crate) fn is_of(&self, change: u32, _observing: &LockGuard<'_>) -> bool {
        self.changes() == change
    }

    /// Requests a census at the next collection.
    ///
    /// # Errors
    /// No profile runs, or it takes no more censuses.
    pub(crate) fn ask(&self, observing: &LockGuard<'_>) -> Result<(), ProfileError> {
        let mut state = self.state(observing);
        let running = state.running.as_mut().ok_or(ProfileError::NoProfile)?;
        if running.is_full() {
            running.missed += 1;
            return Err(ProfileError::NoMoreEras);
        }
        running.asked = true;
        Ok(())
    }

    /// The number of censuses that the running profile has taken. `None` if no profile runs.
    pub(crate) fn censuses(&self, observing: &LockGuard<'_>) -> Option<u64> {
        self.state(observing).running.as_ref().map(|running| running.era)
    }

    /// Returns whether the running profile needs one more collection before it can end (a biography does). If so, marks the next
    /// collection as its last one.
    pub(crate) fn ask_for_the_end(&self, observing: &LockGuard<'_>) -> bool {
        match &mut self.state(observing).running {
            Some(running) if matches!(running.work, Work::Biography(_)) && !running.ended => {
                running.ending = true;
                true
            }
            _ => false,
        }
    }

    /// The settings of the running profile.
    pub(crate) fn profile(&self, observing: &LockGuard<'_>) -> Option<HeapProfile> {
        self.state(observing).running.as_ref().map(|running| running.profile.clone())
    }

    /// The last census.
    pub(crate) fn last(&self, observing: &LockGuard<'_>) -> Option<Census> {
        self.state(observing).running.as_ref()?.last.clone()
    }

    /// Ends the running profile, if any, and emits the censuses that are known only now. Returns the listener to call with them,
    /// which the caller does without the lock.
    pub(crate) fn end(
        &self,
        collector: &Collector,
        observing: &LockGuard<'_>,
    ) -> Option<(Finished, Option<CensusListener>)> {
        let mut running = self.state(observing).running.take()?;
        collector.observing.arm(false);
        self.due_ns.store(0, Ordering::Relaxed);
        self.changed();
        let mut finished = Finished { censuses: running.era, missed: running.missed, biography: Vec::new() };
        if let Work::Biography(biography) = running.work {
            finished.biography = biography.finish();
            for census in &finished.biography {
                report_census(&collector.events, &mut running.labels, census);
            }
        }
        Some((finished, running.profile.listener))
    }

    /// Forgets the profile in a forked child, before anything else runs there: the profile and its timer thread belong to the parent
    /// (`.fork.services`). A child that wants a profile starts its own.
    ///
    /// # Safety
    /// The caller is the only thread of the process.
    pub(crate) unsafe fn forget_in_child(&self) {
        // SAFETY: the caller's promise.
        let held = unsafe { self.observing.assume_held() };
        let state = &mut *self.state(&held);
        // The profile is not dropped: a destructor may do things that are not allowed here.
        std::mem::forget(state.running.take());
        if let Some(tracking) = &state.tracking {
            tracking.uses().set_era(0);
        }
        self.due_ns.store(0, Ordering::Relaxed);
    }

    /// Notes that a profile has begun or ended.
    fn changed(&self) -> u32 {
        // Release: pairs with the Acquire in `changes`: the new `due_ns` is visible.
        let change = self.changes.fetch_add(1, Ordering::Release).wrapping_add(1);
        futex::wake(&self.changes, u32::MAX);
        change
    }

    /// The number of times that a profile has begun or ended.
    fn changes(&self) -> u32 {
        // Acquire: pairs with the Release in `changed`.
        self.changes.load(Ordering::Acquire)
    }

    /// Postpones a census that is due but cannot be taken now.
    pub(crate) fn postpone(&self) {
        const BEAT_NS: u64 = 100_000_000;
        let due = self.due_ns.load(Ordering::Relaxed);
        if due != 0 {
            let later = now_ns().saturating_add(BEAT_NS);
            // If another thread has set a new time meanwhile, the exchange fails, and the new time stays.
            let _ = self.due_ns.compare_exchange(due, later, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Waits until a census of the profile that began with this change is due by time. Returns false if the profile has ended.
    pub(crate) fn wait_until_due(&self, change: u32) -> bool {
        loop {
            let (due, now) = (self.due_ns.load(Ordering::Relaxed), now_ns());
            if self.changes() != change || due == 0 {
                return false;
            }
            if now >= due {
                return true;
            }
            futex::wait(&self.changes, change, Some(due - now));
        }
    }
}

impl Running {
    /// Returns whether the profile takes no more censuses.
    fn is_full(&self) -> bool {
        matches!(&self.work, Work::Biography(biography) if biography.is_full())
    }

    /// Whether a census is due in this collection.
    fn is_due(&mut self, due_ns: &AtomicU64) -> bool {
        if std::mem::take(&mut self.asked) {
            return true;
        }
        match self.profile.every {
            Every::Demand => false,
            Every::Collections(every) => {
                self.until_next = self.until_next.saturating_sub(1);
                let due = self.until_next == 0;
                if due {
                    self.until_next = every.max(1);
                }
                due
            }
            Every::Time(_) => {
                let (due, now, period) = (due_ns.load(Ordering::Relaxed), now_ns(), self.profile.period_ns().max(1));
                if now < due {
                    return false;
                }
                // Keep the phase, but skip the periods that were missed.
                due_ns.store(now + period - (now - due) % period, Ordering::Relaxed);
                true
            }
        }
    }
}

impl Observer for Profiler {
    fn begin(&self, collector: &Collector) -> Attention {
        self.with_running(|running| running.begin(collector, &self.due_ns)).unwrap_or(Attention::Passes)
    }

    fn look(&self, live_heap: &LiveHeap<'_>) {
        self.with_running(|running| match &mut running.work {
            Work::Counting(census_taker) => census_taker.take(live_heap),
            Work::Biography(biography) => biography.look(live_heap, running.look),
        });
    }

    fn finish(&self, collector: &Collector) -> Option<Afterwards> {
        self.with_running(|running| running.finish(collector)).flatten()
    }
}

impl Running {
    fn begin(&mut self, collector: &Collector, due_ns: &AtomicU64) -> Attention {
        if self.ended {
            return Attention::Passes;
        }
        // If `look` is not `Deaths`, the census of an earlier attempt is still due: the world could not be stopped, or the debugger that
        // stopped the world resumed it.
        if self.look == WalkPurpose::Deaths {
            self.look = match () {
                () if std::mem::take(&mut self.ending) => WalkPurpose::End,
                () if !self.is_due(due_ns) => WalkPurpose::Deaths,
                () if self.is_full() => {
                    self.missed += 1;
                    WalkPurpose::Deaths
                }
                () => WalkPurpose::Census,
            };
        }
        match &mut self.work {
            Work::Counting(_) if self.look != WalkPurpose::Census => return Attention::Passes,
            Work::Counting(census_taker) => census_taker.prepare(collector),
            Work::Biography(_) => {}
        }
        Attention::Observes
    }

    fn finish(&mut self, collector: &Collector) -> Option<Afterwards> {
        let mut afterwards: Option<Afterwards> = None;
        match &mut self.work {
            Work::Counting(census_taker) => {
                self.era += 1;
                let census = census_taker.result(self.era);
                report_census(&collector.events, &mut self.labels, &census);
                if let Some(listener) = self.profile.listener.clone() {
                    let census = census.clone();
                    afterwards = Some(Box::new(move || listener(&census)));
                }
                self.last = Some(census);
            }
            Work::Biography(biography) => {
                biography.note(self.look);
                if self.look == WalkPurpose::Census && biography.is_full() {
                    // Also report it in the trace. If there is no room for the text, the message is lost.
                    let _ = collector.events.telemetry_message(NO_MORE_ERAS);
                }
                self.ended = self.look == WalkPurpose::End;
                self.era = biography.eras();
            }
        }
        self.look = WalkPurpose::Deaths;
        afterwards
    }
}

fn report_begin(events: &Events, profile: &HeapProfile) {
    if !events.is_enabled(EventId::CensusProfileBegin) {
        return;
    }
    for (kind, mut text) in profile.filters.texts() {
        cut(&mut text);
        events.fire_census_filter(kind, events.telemetry_intern(&text).map_or(0, |label| label.get()));
    }
    events.fire_census_profile_begin(profile.period_ns(), profile.breakdown as u32);
}

fn report_census(events: &Events, labels: &mut HashMap<String, u64>, census: &Census) {
    if !events.is_enabled(EventId::CensusBand) {
        return;
    }
    events.fire_census_begin(census.era, census.taken_ns);
    for band in deep_ones_last(&census.bands) {
        let label = match band.stack {
            Some(_) => 0,
            None => match labels.get(&band.label) {
                Some(label) => *label,
                None => {
                    // If there is no room for the label, the event of the band has no name, but still has its bytes.
                    let label = events.telemetry_intern(&band.label).map_or(0, |label| label.get());
                    labels.insert(band.label.clone(), label);
                    label
                }
            },
        };
        events.fire_census_band(label, band.bytes, band.objects, band.stack.unwrap_or(0));
    }
    events.fire_census_end(census.era);
}

/// The bands in the order in which they are emitted.
fn deep_ones_last(bands: &[Band]) -> impl Iterator<Item = &Band> {
    let centres = |band: &Band| StackId::from_raw(band.stack.unwrap_or(0)).centres();
    let (mut deep, others): (Vec<&Band>, Vec<&Band>) =
        bands.iter().partition(|band| centres(band).nth(MOST_ORDERED_CENTRES).is_some());
    deep.sort_by(|one, other| centres(one).cmp(centres(other)));
    others.into_iter().chain(deep)
}

#[cfg(all(test, feature = "biography"))]
mod tests {
    use super::*;
    use crate::World;
    use crate::heap::uses::LAST_ERA;
    use crate::profile::census::{Breakdown, Stage};

    /// `.biography.exact`: after the last era every request fails, and the earlier censuses stay exact.
    #[test]
    fn a_full_biography_refuses_censuses_and_stays_exact() {
        let world = World::builder().heap_limit(64 << 20).build().unwrap();
        world.profile(HeapProfile::by(Breakdown::Biography).every(Every::Demand)).unwrap();
        let make = |m: &crate::Mutator| [1_u64, 2, 3].map(|number| m.root(m.alloc(number).unwrap()));
        // SAFETY: the references are in handles.
        let [never, late, dies] = unsafe { world.spawn("maker", make) }.unwrap().join().unwrap();
        for _ in 0..LAST_ERA {
            world.sample().unwrap();
        }
        for _ in 0..2 {
            assert!(matches!(world.sample(), Err(ProfileError::NoMoreEras)));
        }
        let used = late.clone();
        // SAFETY: as above.
        unsafe { world.spawn("user", move |m| assert_eq!(*used.get(m), 2)) }.unwrap().join().unwrap();
        drop(dies);
        world.collect().unwrap();
        let finished = world.end_profile().unwrap().unwrap();
        assert_eq!((finished.censuses, finished.missed), (u64::from(LAST_ERA), 2));
        let eras: Vec<u64> = finished.biography.iter().map(|census| census.era).collect();
        assert_eq!(eras, (1..=u64::from(LAST_ERA)).collect::<Vec<_>>());
        for census in &finished.biography {
            let stages = Stage::ALL.map(|stage| census.bytes_of(stage.name()));
            assert_eq!(stages, [16 + 16, 16, 0, 0, 0], "void, and used after the last census: {census:#?}");
        }
        drop((never, late));
    }
}
