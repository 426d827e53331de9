//! Censuses and heap profiles, as a program asks for them.

use std::sync::{Arc, Weak};

use super::{Inner, World};
use crate::collector::report::Reason;
use crate::os::signals;
use crate::os::spawn::spawn;
use crate::profile::census::on_demand::OnDemand;
use crate::profile::census::profiler::Finished;
use crate::profile::census::{Census, CensusListener, CensusRequest, Every, HeapProfile, ProfileError};

impl World {
    /// Collects, and counts what lives. The bands and what did not pass the filters add up to the live bytes of the
    /// collection, exactly.
    ///
    /// ```
    /// use stopworld::World;
    /// use stopworld::profile::census::{Breakdown, CensusRequest};
    ///
    /// let world = World::builder().build()?;
    /// // SAFETY: this thread keeps every reference in local variables.
    /// let mutator = unsafe { world.attach("main") }?;
    /// let array = mutator.alloc_array(100, |i| i as u64)?;
    /// let census = world.census(&CensusRequest::by(Breakdown::Type))?;
    /// // The elements, how many they are, and the header.
    /// assert_eq!(census.bytes_of("Array<u64>"), 816);
    /// # stopworld::keep_alive(array);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// What is asked for can't be told, there is no memory for it, or the world could not be stopped.
    pub fn census(&self, request: &CensusRequest) -> Result<Census, ProfileError> {
        let observer = OnDemand::new(request, self.collector())?;
        self.inner().collect_observed(Reason::Explicit, Some(&observer))?;
        // The collection was, and so was the look.
        observer.into_census().ok_or(ProfileError::NoProfile)
    }

    /// Begins a heap profile, in place of the one that runs, which ends.
    ///
    /// # Errors
    /// What is asked for can't be told, or there is no memory or no thread for it. No profile runs then.
    pub fn profile(&self, profile: HeapProfile) -> Result<(), ProfileError> {
        self.end_profile()?;
        let inner = self.inner();
        let every = profile.every;
        let collector = &inner.collector;
        let observing = collector.threads.lock(&collector.observing.lock);
        // Somebody may have been faster.
        let others = inner.profiler.end(collector, &observing);
        let begun = inner.profiler.begin(profile, collector, &observing);
        drop(observing);
        others.map(tell);
        let change = begun?;
        if let Every::Time(_) = every
            && let Err(error) = keep_time(inner, change)
        {
            // Not one that has begun meanwhile.
            inner.end_profile_of(Some(change))?;
            return Err(error.into());
        }
        Ok(())
    }

    /// Takes a census of the profile that runs, in a collection for the purpose. Of a biography, whose censuses are known at the
    /// end, it returns nothing.
    ///
    /// # Errors
    /// No profile runs, it takes no more censuses, or the world could not be stopped.
    pub fn sample(&self) -> Result<Option<Census>, ProfileError> {
        let Inner { collector, profiler, .. } = &**self.inner();
        profiler.ask(&collector.threads.lock(&collector.observing.lock))?;
        self.inner().collect_observed(Reason::Explicit, None)?;
        Ok(profiler.last(&collector.threads.lock(&collector.observing.lock)))
    }

    /// Has the next collection take a census of the running profile, whatever the collection's reason.
    ///
    /// # Errors
    /// No profile runs, or it takes no more censuses.
    #[cfg(feature = "cli")]
    pub(crate) fn sample_next_collection(&self) -> Result<(), ProfileError> {
        let Inner { collector, profiler, .. } = &**self.inner();
        profiler.ask(&collector.threads.lock(&collector.observing.lock))
    }

    /// The number of censuses that the running heap profile has taken. `None` if no profile runs.
    #[cfg(feature = "cli")]
    pub(crate) fn censuses(&self) -> Option<u64> {
        let Inner { collector, profiler, .. } = &**self.inner();
        profiler.censuses(&collector.threads.lock(&collector.observing.lock))
    }

    /// The heap profile that runs: for who comes late and wants to know what the censuses that it hears of count.
    pub fn heap_profile(&self) -> Option<HeapProfile> {
        let Inner { collector, profiler, .. } = &**self.inner();
        profiler.profile(&collector.threads.lock(&collector.observing.lock))
    }

    /// Ends the heap profile. A biography sees one more collection, and what became of the objects is known then: its
    /// censuses are told. Also done when the world closes. `None` if no profile runs.
    ///
    /// # Errors
    /// The world could not be stopped for that last collection; the biography has ended without it, and takes what lived in the
    /// last collection for what it was then.
    pub fn end_profile(&self) -> Result<Option<Finished>, ProfileError> {
        self.inner().end_profile()
    }
}

impl Inner {
    pub(super) fn end_profile(self: &Arc<Self>) -> Result<Option<Finished>, ProfileError> {
        self.end_profile_of(None)
    }

    /// Ends the profile that began with this change, if it still runs, or whichever runs.
    fn end_profile_of(self: &Arc<Self>, change: Option<u32>) -> Result<Option<Finished>, ProfileError> {
        let Inner { collector, profiler, .. } = &**self;
        let lock = || {
            let held = collector.threads.lock(&collector.observing.lock);
            Some(held).filter(|held| change.is_none_or(|change| profiler.is_of(change, held)))
        };
        let needs_a_look = lock().is_some_and(|held| profiler.ask_for_the_end(&held));
        let looked = if needs_a_look { self.collect_observed(Reason::Explicit, None).map(|_| ()) } else { Ok(()) };
        let finished = lock().and_then(|held| profiler.end(collector, &held));
        let finished = finished.map(tell);
        looked?;
        Ok(finished)
    }
}

/// Tells the program of a biography, which is known at its end. Without the observer's lock.
fn tell((finished, listener): (Finished, Option<CensusListener>)) -> Finished {
    if let Some(listener) = listener {
        finished.biography.iter().for_each(|census| listener(census));
    }
    finished
}

/// A thread that brings a collection about whenever a census is due and nobody collects, for the profile that began with this change. It ends
/// with that, although another may have begun by now.
fn keep_time(inner: &Arc<Inner>, change: u32) -> std::io::Result<()> {
    let profiler = Arc::clone(&inner.profiler);
    let inner: Weak<Inner> = Arc::downgrade(inner);
    let work = move || {
        while profiler.wait_until_due(change) {
            let Some(inner) = inner.upgrade() else { return };
            // A failure is told to the world's own listener; the next beat tries again.
            if inner.collect_observed(Reason::Explicit, None).is_err() {
                profiler.skip_a_beat();
            }
        }
    };
    // It is no thread of the program's: its handlers do not run there. The new thread has this one's mask from its first instruction
    // on.
    let _blocked = signals::block_all();
    spawn("stopworld-census", work).map(drop)
}
