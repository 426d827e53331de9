//! A heap profile: censuses again and again, told as events.
//!
//! One for each world. Everything it knows is guarded by the lock of the collector's [observer](crate::collector::observer), which
//! the collecting thread holds from before the stop until the events are fired: so no two collections, and nobody who
//! changes the profile, meet in it. While no profile runs the observer is not armed, and a collection looks at one word.
//!
//! ```text
//!   profile    CensusFilter for each filter, CensusProfileBegin
//!   census     CensusBegin (when it was taken), CensusBand for each band, CensusEnd
//!   biography  the same, all censuses at the end, each with its own time
//! ```

use std::cell::UnsafeCell;
use std::collections::HashMap;

use super::taker::{Taker, check_charges, cut};
use super::{Census, CensusListener, Every, HeapProfile, ProfileError};
use crate::collector::Collector;
use crate::collector::living::Living;
use crate::collector::observer::{Afterwards, Attention, Observer};
use crate::events::{EventId, Events};
use crate::heap::uses::{TRACKED, Tracking};
use crate::os::clock::now_ns;
use crate::os::futex;
use crate::profile::biography::{Biography, Look};
use crate::profile::census::Breakdown;
use crate::sync::{AtomicU32, AtomicU64, LockGuard, Ordering};

/// A world's heap profile.
pub(crate) struct Profiler {
    state: UnsafeCell<State>,
    /// When the next census is due, by CLOCK_MONOTONIC; 0: none is by time.
    due_ns: AtomicU64,
    /// Grows when a profile begins or ends: what the thread that keeps time sleeps on.
    changes: AtomicU32,
}

// SAFETY: `state` is reached only under the observer's lock.
unsafe impl Sync for Profiler {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Profiler {}

#[derive(Default)]
struct State {
    running: Option<Running>,
    /// Made for the first biography, and there as long as the world: a mutator may be in the middle of noting a use.
    tracking: Option<Tracking>,
}

/// A profile that runs.
struct Running {
    profile: HeapProfile,
    work: Work,
    /// Censuses so far.
    era: u64,
    /// Collections until the next census, if they are counted.
    until_next: u32,
    /// Somebody asks for a census.
    asked: bool,
    /// Somebody asks for the end.
    ending: bool,
    /// The last look was: a collection that comes before the profile is taken away must not count the dead once more.
    ended: bool,
    /// What the next collection is looked at for.
    look: Look,
    /// The labels of the bands' names.
    labels: HashMap<String, u64>,
    last: Option<Census>,
}

enum Work {
    Counting(Box<Taker>),
    Biography(Box<Biography>),
}

/// A profile that has ended.
#[derive(Debug)]
pub struct Finished {
    /// How many censuses it took.
    pub censuses: u64,
    /// The censuses of a biography, which are known only now; of another profile nothing.
    pub biography: Vec<Census>,
}

impl Profiler {
    pub(crate) fn new() -> Profiler {
        Profiler { state: UnsafeCell::new(State::default()), due_ns: AtomicU64::new(0), changes: AtomicU32::new(0) }
    }

    #[allow(clippy::mut_from_ref, reason = "the lock makes it exclusive")]
    fn state<'a>(&'a self, _observing: &'a LockGuard<'_>) -> &'a mut State {
        // SAFETY: the guard is that of the observer's lock, which its callers take for nothing else; it is borrowed as long as
        // the state, and each of them asks once.
        unsafe { &mut *self.state.get() }
    }

    /// In a collection that has the lock.
    #[allow(clippy::mut_from_ref, reason = "the lock makes it exclusive")]
    fn running(&self) -> Option<&mut Running> {
        // SAFETY: the collector calls an observer with its lock held, and each call asks once.
        unsafe { &mut *self.state.get() }.running.as_mut()
    }

    /// Begins a profile. None runs. Returns how often one has begun or ended by now, for the thread that keeps its time.
    pub(crate) fn begin(
        &self,
        profile: HeapProfile,
        collector: &Collector,
        observing: &LockGuard<'_>,
    ) -> Result<u32, ProfileError> {
        let state = self.state(observing);
        let request = profile.request();
        let by_life = request.breakdown == Breakdown::Biography || !request.filters.biography.is_empty();
        let work = if by_life {
            if !TRACKED {
                return Err(ProfileError::NotTracked);
            }
            if state.tracking.is_none() {
                state.tracking = Some(Tracking::begin(&collector.heap)?);
            }
            check_charges(&request, collector)?;
            let tracking = state.tracking.as_ref().ok_or(ProfileError::NotTracked)?;
            Work::Biography(Box::new(Biography::new(&request, tracking)?))
        } else {
            Work::Counting(Box::new(Taker::new(&request, collector)?))
        };
        tell_of_beginning(&collector.events, &profile);
        let until_next = match profile.every {
            Every::Collections(count) => count.max(1),
            Every::Time(_) | Every::Demand => 0,
        };
        let period = profile.period_ns();
        let due = if period == 0 { 0 } else { now_ns().saturating_add(period) };
        self.due_ns.store(due, Ordering::Relaxed);
        let labels = HashMap::new();
        let (look, asked, ending, ended, last, era) = (Look::Deaths, false, false, false, None, 0);
        state.running = Some(Running { profile, work, era, until_next, asked, ending, ended, look, labels, last });
        collector.observing.arm(true);
        Ok(self.changed())
    }

    /// Whether one runs; and if so, asks for a census at the next collection.
    pub(crate) fn ask(&self, observing: &LockGuard<'_>) -> bool {
        self.state(observing).running.as_mut().map(|running| running.asked = true).is_some()
    }

    /// Whether a profile runs that must see one more collection before it ends; the next is that.
    pub(crate) fn ask_for_the_end(&self, observing: &LockGuard<'_>) -> bool {
        match &mut self.state(observing).running {
            Some(running) if matches!(running.work, Work::Biography(_)) && !running.ended => {
                running.ending = true;
                true
            }
            _ => false,
        }
    }

    /// What runs.
    pub(crate) fn profile(&self, observing: &LockGuard<'_>) -> Option<HeapProfile> {
        self.state(observing).running.as_ref().map(|running| running.profile.clone())
    }

    /// The last census.
    pub(crate) fn last(&self, observing: &LockGuard<'_>) -> Option<Census> {
        self.state(observing).running.as_ref()?.last.clone()
    }

    /// Ends the profile, if one runs, and tells of what is known only now; whom to call with that, too, the caller does without the
    /// lock.
    pub(crate) fn end(
        &self,
        collector: &Collector,
        observing: &LockGuard<'_>,
    ) -> Option<(Finished, Option<CensusListener>)> {
        let mut running = self.state(observing).running.take()?;
        collector.observing.arm(false);
        self.due_ns.store(0, Ordering::Relaxed);
        self.changed();
        let mut finished = Finished { censuses: running.era, biography: Vec::new() };
        if let Work::Biography(biography) = running.work {
            finished.biography = biography.finish();
            for census in &finished.biography {
                tell_of(&collector.events, &mut running.labels, census);
            }
        }
        Some((finished, running.profile.listener))
    }

    /// In a forked child, before anything else runs there: the profile is the parent's, and so is the thread that keeps its time
    /// (`.fork.services`). Whoever wants one here begins it.
    pub(crate) fn forget_in_child(&self) {
        // SAFETY: the forking thread took the observer's lock before the fork, and no other exists.
        let state = unsafe { &mut *self.state.get() };
        // Not dropped: this is no place for what that may do.
        std::mem::forget(state.running.take());
        if let Some(tracking) = &state.tracking {
            tracking.uses().set_era(0);
        }
        self.due_ns.store(0, Ordering::Relaxed);
    }

    /// Another profile is in force, or none. Under the lock.
    fn changed(&self) -> u32 {
        // Relaxed: who keeps time was started by who has stored what is due, and compares the word only.
        let changes = self.changes.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        futex::wake(&self.changes, u32::MAX);
        changes
    }

    /// What is due can't be had now: not at once again.
    pub(crate) fn skip_a_beat(&self) {
        const BEAT_NS: u64 = 100_000_000;
        let due = self.due_ns.load(Ordering::Relaxed);
        if due != 0 {
            let later = now_ns().saturating_add(BEAT_NS);
            // Unless it has changed meanwhile.
            let _ = self.due_ns.compare_exchange(due, later, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Waits until a census is due by time. False: a profile has begun or ended since there were so many changes.
    pub(crate) fn wait_until_due(&self, changes: u32) -> bool {
        loop {
            let (due, now) = (self.due_ns.load(Ordering::Relaxed), now_ns());
            if self.changes.load(Ordering::Relaxed) != changes || due == 0 {
                return false;
            }
            if now >= due {
                return true;
            }
            futex::wait(&self.changes, changes, Some(due - now));
        }
    }
}

impl Running {
    /// Whether this collection is one for a census.
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
                // On the beat, but never twice for beats that were missed.
                due_ns.store(now + period - (now - due) % period, Ordering::Relaxed);
                true
            }
        }
    }
}

impl Observer for Profiler {
    fn begin(&self, collector: &Collector) -> Attention {
        let Some(running) = self.running().filter(|running| !running.ended) else { return Attention::Passes };
        // Unless one is due still, because the world could not be stopped, or whoever stopped it let go.
        if running.look == Look::Deaths {
            running.look = match () {
                () if std::mem::take(&mut running.ending) => Look::End,
                () if running.is_due(&self.due_ns) => Look::Census,
                () => Look::Deaths,
            };
        }
        match &mut running.work {
            Work::Counting(_) if running.look != Look::Census => return Attention::Passes,
            Work::Counting(taker) => taker.prepare(collector),
            Work::Biography(_) => {}
        }
        Attention::Looks
    }

    fn look(&self, living: &Living<'_>) {
        let Some(running) = self.running() else { return };
        match &mut running.work {
            Work::Counting(taker) => taker.take(living),
            Work::Biography(biography) => biography.look(living, running.look),
        }
    }

    fn finish(&self, collector: &Collector) -> Option<Afterwards> {
        let running = self.running()?;
        let mut afterwards: Option<Afterwards> = None;
        match &mut running.work {
            Work::Counting(taker) => {
                running.era += 1;
                let census = taker.result(running.era);
                tell_of(&collector.events, &mut running.labels, &census);
                if let Some(listener) = running.profile.listener.clone() {
                    let census = census.clone();
                    afterwards = Some(Box::new(move || listener(&census)));
                }
                running.last = Some(census);
            }
            Work::Biography(biography) => {
                biography.note(running.look);
                running.ended = running.look == Look::End;
                running.era = biography.eras();
            }
        }
        running.look = Look::Deaths;
        afterwards
    }
}

fn tell_of_beginning(events: &Events, profile: &HeapProfile) {
    if !events.is_enabled(EventId::CensusProfileBegin) {
        return;
    }
    for (kind, mut text) in profile.filters.texts() {
        cut(&mut text);
        events.fire_census_filter(kind, events.telemetry_intern(&text).map_or(0, |label| label.get()));
    }
    events.fire_census_profile_begin(profile.period_ns(), profile.breakdown as u32);
}

fn tell_of(events: &Events, labels: &mut HashMap<String, u64>, census: &Census) {
    if !events.is_enabled(EventId::CensusBand) {
        return;
    }
    events.fire_census_begin(census.era, census.taken_ns);
    for band in &census.bands {
        let label = match band.stack {
            Some(_) => 0,
            None => match labels.get(&band.label) {
                Some(label) => *label,
                None => {
                    // Without room for it the band has no name, but its bytes.
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
