//! A single census, on request.

use std::cell::RefCell;

use super::taker::Taker;
use super::{Census, CensusRequest, ProfileError};
use crate::collector::Collector;
use crate::collector::living::Living;
use crate::collector::{Afterwards, Attention, Observer};

/// An observer that takes one census in one collection.
pub(crate) struct OnDemand {
    taker: RefCell<Taker>,
    census: RefCell<Option<Census>>,
}

impl OnDemand {
    /// # Errors
    /// Those of [`Taker::new`].
    pub(crate) fn new(request: &CensusRequest, collector: &Collector) -> Result<OnDemand, ProfileError> {
        Ok(OnDemand { taker: RefCell::new(Taker::new(request, collector)?), census: RefCell::new(None) })
    }

    /// Returns the census.
    ///
    /// # Panics
    /// No collection with this observer has succeeded.
    pub(crate) fn into_census(self) -> Census {
        // A collection that succeeds calls `finish` of each observer that looks, and `begin` always returns `Looks`.
        self.census.into_inner().expect("a collection with this observer has succeeded")
    }
}

impl Observer for OnDemand {
    fn begin(&self, collector: &Collector) -> Attention {
        // Only the collecting thread uses the state, so these three methods never find it borrowed.
        self.taker.borrow_mut().prepare(collector);
        Attention::Looks
    }

    fn look(&self, living: &Living<'_>) {
        self.taker.borrow_mut().take(living);
    }

    fn finish(&self, _: &Collector) -> Option<Afterwards> {
        *self.census.borrow_mut() = Some(self.taker.borrow_mut().result(0));
        None
    }
}
