//! The end of a heap profile, and the thread that takes its periodic censuses.

use std::sync::{Arc, Weak};

use super::inner::Inner;
use crate::collector::report::Reason;
use crate::os::signals;
use crate::os::spawn::spawn;
use crate::profile::census::profiler::Finished;
use crate::profile::census::{CensusListener, ProfileError};

impl Inner {
    pub(super) fn end_profile(self: &Arc<Self>) -> Result<Option<Finished>, ProfileError> {
        self.end_profile_of(None)
    }

    /// Ends the profile that began with this change, if it is still running; with `None`, whichever profile is running.
    pub(super) fn end_profile_of(self: &Arc<Self>, change: Option<u32>) -> Result<Option<Finished>, ProfileError> {
        let Inner { collector, profiler, .. } = &**self;
        let lock = || {
            let held = collector.threads.lock(&collector.observing.lock);
            Some(held).filter(|held| change.is_none_or(|change| profiler.is_of(change, held)))
        };
        let needs_a_look = lock().is_some_and(|held| profiler.ask_for_the_end(&held));
        let looked = if needs_a_look { self.collect_observed(Reason::Explicit, None).map(|_| ()) } else { Ok(()) };
        let finished = lock().and_then(|held| profiler.end(collector, &held));
        let finished = finished.map(notify_listener);
        looked?;
        Ok(finished)
    }
}

/// Passes the censuses of a biography, which are known only at its end, to the program's listener. Called without the
/// observer's lock.
pub(super) fn notify_listener((finished, listener): (Finished, Option<CensusListener>)) -> Finished {
    if let Some(listener) = listener {
        finished.biography.iter().for_each(|census| listener(census));
    }
    finished
}

/// Starts a thread that collects whenever a census is due and no other thread has collected. It serves the profile that began
/// with this change, and ends with it even if another profile has begun since.
pub(super) fn keep_time(inner: &Arc<Inner>, change: u32) -> std::io::Result<()> {
    let profiler = Arc::clone(&inner.profiler);
    let inner: Weak<Inner> = Arc::downgrade(inner);
    let work = move || {
        while profiler.wait_until_due(change) {
            let Some(inner) = inner.upgrade() else { return };
            // A failure is reported to the world's failure listener. The next period tries again.
            if inner.collect_observed(Reason::Explicit, None).is_err() {
                profiler.postpone();
            }
        }
    };
    // Signal handlers of the program must not run on the new thread: from its first instruction on it has the signal mask that
    // it inherits from the calling thread.
    let _blocked = signals::block_all();
    spawn("stopworld-census", work).map(drop)
}
