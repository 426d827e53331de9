//! A single census, on request.

use std::cell::RefCell;

use super::census_taker::CensusTaker;
use super::{Census, CensusRequest, ProfileError};
use crate::collector::Collector;
use crate::collector::live_heap::LiveHeap;
use crate::collector::{Afterwards, Attention, Observer};

/// An observer that takes one census in one collection.
pub(crate) struct OnDemand {
    census_taker: RefCell<CensusTaker>,
    census: RefCell<Option<Census>>,
}

impl OnDemand {
    /// # Errors
    /// Those of [`CensusTaker::new`].
    pub(crate) fn new(request: &CensusRequest, collector: &Collector) -> Result<OnDemand, ProfileError> {
        Ok(OnDemand { census_taker: RefCell::new(CensusTaker::new(request, collector)?), census: RefCell::new(None) })
    }

    /// Returns the census.
    ///
    /// # Panics
    /// No collection with this observer has succeeded.
    pub(crate) fn into_census(self) -> Census {
        // A collection that succeeds calls `finish` of each observer that looks, and `begin` always returns `Observes`.
        self.census.into_inner().expect("a collection with this observer has succeeded")
    }
}

impl Observer for OnDemand {
    fn begin(&self, collector: &Collector) -> Attention {
        // Only the collecting thread uses the state, so these three methods never find it borrowed.
        self.census_taker.borrow_mut().prepare(collector);
        Attention::Observes
    }

    fn look(&self, live_heap: &LiveHeap<'_>) {
        self.census_taker.borrow_mut().take(live_heap);
    }

    fn finish(&self, _: &Collector) -> Option<Afterwards> {
        *self.census.borrow_mut() = Some(self.census_taker.borrow_mut().result(0));
        None
    }
}
