//! Stopping the world only to verify the heap.

use super::caches::close_own_cache;
use super::error::CollectError;
use super::state::{Collecting, Collector};
use crate::heap::verify::Verified;
use crate::os::callback::{self, Callback};
use crate::os::clock::Budget;
use crate::os::thread::NotCancelled;
use crate::sync::Ordering;
use crate::world::LostStop;
use crate::world::error::StopError;
use crate::world::stop::StopBy;

impl Collector {
    /// Stops the world only to verify the heap.
    ///
    /// # Errors
    /// As [`collect`](Self::collect).
    pub(crate) fn verify(&self, who: Collecting<'_>) -> Result<Verified, CollectError> {
        callback::refuse_inside("World::verify");
        match self.verify_once(who, StopBy::InForce) {
            Ok(Some(verified)) => return Ok(verified),
            // The debugger that stopped the world is not used again, as in `collect`.
            Ok(None) => {}
            Err(error @ CollectError::Stop(StopError::FalseAnswer(_))) => {
                if let Some(listener) = &self.on_failure {
                    listener(&error);
                }
            }
            Err(error) => return Err(error),
        }
        let verified = self.verify_once(who, StopBy::BuiltIn)?;
        Ok(verified.expect("the built-in stopper keeps the world stopped"))
    }

    /// Stops the world and verifies the heap once. Returns `None` if the vtable resumed threads during the verification, whose result is
    /// then not valid.
    fn verify_once(&self, who: Collecting<'_>, by: StopBy) -> Result<Option<Verified>, CollectError> {
        let _called_back = Callback::begin();
        let _whole = NotCancelled::begin();
        let mut budget = Budget::new(self.stop_timeout);
        let locks = self.threads.lock_for_stop(&mut budget)?;
        let locks = self.wait_for_sweeps(locks, &mut budget)?;
        close_own_cache();
        let stopped = self.stop(locks, who.own, by, budget);
        let stopped = stopped.map_err(|error| self.with_finalizer(error))?;
        let found = self.heap.verify(stopped.proof());
        let holds = stopped.still_holds();
        drop(stopped);
        match holds {
            Ok(()) => {}
            Err(LostStop::Released) => return Ok(None),
            Err(LostStop::FalseAnswer(answer)) => return Err(StopError::FalseAnswer(answer).into()),
        }
        let number = self.collections.load(Ordering::Relaxed);
        found.map(Some).map_err(|error| CollectError::Damaged { number, error })
    }
}
