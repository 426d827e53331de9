//! Censuses and heap profiles, as a program asks for them.

use super::World;
use super::heap_profile::{keep_time, tell};
use super::inner::Inner;
use crate::collector::report::Reason;
use crate::profile::census::on_demand::OnDemand;
use crate::profile::census::profiler::Finished;
use crate::profile::census::{Census, CensusRequest, Every, HeapProfile, ProfileError};

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
    pub fn sample_next_collection(&self) -> Result<(), ProfileError> {
        let Inner { collector, profiler, .. } = &**self.inner();
        profiler.ask(&collector.threads.lock(&collector.observing.lock))
    }

    /// The number of censuses that the running heap profile has taken. `None` if no profile runs.
    pub fn censuses(&self) -> Option<u64> {
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
