//! The functions of [`World`] for censuses and heap profiles.

use super::World;
use super::heap_profile::{keep_time, notify_listener};
use super::inner::Inner;
use crate::collector::report::Reason;
use crate::os::callback::refuse_inside;
use crate::profile::allocations::AllocationProfile;
use crate::profile::census::on_demand::OnDemand;
use crate::profile::census::profiler::Finished;
use crate::profile::census::{Census, CensusRequest, Every, HeapProfile, ProfileError};

impl World {
    /// Runs a collection and returns a census of the live objects. The sum of its bands and of the objects that the filters
    /// excluded is exactly the collection's live bytes.
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
    /// // 100 elements, the length, and the object's header: 8 bytes each.
    /// assert_eq!(census.bytes_of("Array<u64>"), 816);
    /// # stopworld::keep_alive(array);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The request is impossible in this world, there is not enough memory for it, or the world could not be stopped.
    pub fn census(&self, request: &CensusRequest) -> Result<Census, ProfileError> {
        refuse_inside("World::census");
        let observer = OnDemand::new(request, self.collector())?;
        self.inner().collect_observed(Reason::Explicit, Some(&observer))?;
        Ok(observer.into_census())
    }

    /// Starts a heap profile. A profile that is running ends first, as by [`end_profile`](Self::end_profile).
    ///
    /// # Errors
    /// The profile is impossible in this world, there is not enough memory or no thread for it, or the end of the previous profile
    /// failed. No profile is running then.
    pub fn profile(&self, profile: HeapProfile) -> Result<(), ProfileError> {
        refuse_inside("World::profile");
        self.end_profile()?;
        let inner = self.inner();
        let every = profile.every;
        let collector = &inner.collector;
        let observing = collector.threads.lock(&collector.observing.lock);
        // Another thread may have started a profile in between.
        let others = inner.profiler.end(collector, &observing);
        let begun = inner.profiler.begin(profile, collector, &observing);
        drop(observing);
        others.map(notify_listener);
        let change = begun?;
        if let Every::Time(_) = every
            && let Err(error) = keep_time(inner, change)
        {
            // Only this profile is ended, not one that another thread has begun in between.
            inner.end_profile_of(Some(change))?;
            return Err(error.into());
        }
        Ok(())
    }

    /// Returns whether the world [samples its allocations](crate::WorldBuilder::allocation_sampling).
    pub fn samples_allocations(&self) -> bool {
        self.collector().samples.is_some()
    }

    /// Returns what the world has allocated so far, and what is in use, by call stack. `None` if the world does not
    /// [sample its allocations](crate::WorldBuilder::allocation_sampling). What is in use is known as of the last collection; an object that has
    /// died since counts as in use.
    pub fn allocation_profile(&self) -> Option<AllocationProfile> {
        refuse_inside("World::allocation_profile");
        let collector = self.collector();
        let samples = collector.samples.as_ref()?;
        let counts = samples.counts(&collector.threads.lock(samples.lock()));
        // In a blocking region: the loader's lock may be held by a thread that waits for a collection.
        let profile = || AllocationProfile::new(samples.interval_bytes, counts);
        Some(collector.threads.as_blocking(profile))
    }

    /// Runs a collection in which the running profile takes a census, and returns the census. Returns `None` for a biography,
    /// whose censuses are known only at its end.
    ///
    /// # Errors
    /// No profile is running, it takes no more censuses, or the world could not be stopped.
    pub fn sample(&self) -> Result<Option<Census>, ProfileError> {
        refuse_inside("World::sample");
        let Inner { collector, profiler, .. } = &**self.inner();
        profiler.ask(&collector.threads.lock(&collector.observing.lock))?;
        self.inner().collect_observed(Reason::Explicit, None)?;
        Ok(profiler.last(&collector.threads.lock(&collector.observing.lock)))
    }

    /// Makes the running profile take a census in the next collection, whatever the reason of that collection.
    ///
    /// # Errors
    /// No profile is running, or it takes no more censuses.
    pub fn sample_next_collection(&self) -> Result<(), ProfileError> {
        refuse_inside("World::sample_next_collection");
        let Inner { collector, profiler, .. } = &**self.inner();
        profiler.ask(&collector.threads.lock(&collector.observing.lock))
    }

    /// Returns the number of censuses that the running heap profile has taken. `None` if no profile is running.
    pub fn censuses(&self) -> Option<u64> {
        refuse_inside("World::censuses");
        let Inner { collector, profiler, .. } = &**self.inner();
        profiler.censuses(&collector.threads.lock(&collector.observing.lock))
    }

    /// Returns the settings of the running heap profile: for a consumer that starts late, and must know what the censuses count.
    /// `None` if no profile is running.
    pub fn heap_profile(&self) -> Option<HeapProfile> {
        refuse_inside("World::heap_profile");
        let Inner { collector, profiler, .. } = &**self.inner();
        profiler.profile(&collector.threads.lock(&collector.observing.lock))
    }

    /// Ends the running heap profile and returns its results. `None` if no profile is running. The close of a world also does this.
    ///
    /// A biography runs one last collection, after which the fate of its objects is known; its censuses are then passed to its
    /// listener.
    ///
    /// # Errors
    /// The world could not be stopped for that last collection. The biography has ended nevertheless: an object that was live in the
    /// previous collection is counted in the state that it had then.
    pub fn end_profile(&self) -> Result<Option<Finished>, ProfileError> {
        refuse_inside("World::end_profile");
        self.inner().end_profile()
    }
}
