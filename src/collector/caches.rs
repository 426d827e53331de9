//! The allocation caches of threads, as the collector reaches them.

use crate::heap::cache::AllocationCache;
use crate::sabotage::{Guard, removed};
use crate::world::handler;
use crate::world::stop::StoppedWorld;
use crate::world::stop_info::ThreadStopInfo;

/// The stopped threads that allocate, the collecting one among them, with their allocation caches.
pub(super) fn records_and_caches<'a>(
    stopped: &'a StoppedWorld<'_>,
) -> impl Iterator<Item = (&'static ThreadStopInfo, &'a AllocationCache)> + Clone + 'a {
    // SAFETY: the stop holds the allocation and the list lock as long as `stopped` exists.
    stopped.live().iter().filter_map(|&record| Some((record, unsafe { cache_of(record) }?)))
}

/// The allocation caches of the stopped threads, the collecting one's among them.
pub(super) fn caches<'a>(stopped: &'a StoppedWorld<'_>) -> impl Iterator<Item = &'a AllocationCache> + Clone + 'a {
    records_and_caches(stopped).map(|(_, cache)| cache)
}

/// From here to the end of the stop the calling thread can't allocate: what the collector calls on it may try to
/// (`.stop.no-mutator`). Its cache may be another world's: a thread that collects a world which it is not attached to.
pub(super) fn close_own_cache() {
    if !removed(Guard::StopNoMutator)
        // SAFETY: the calling thread's own, which does not detach here.
        && let Some(cache) = handler::known_current().and_then(|record| unsafe { cache_of(record) })
    {
        cache.close();
    }
}

/// The allocation cache of a thread.
///
/// # Safety
/// As long as the result is used, the calling thread holds the allocation lock of the thread's world; or the thread is stopped, wherever
/// that is (a debugger's question); or the thread is the calling one and does not detach.
pub(crate) unsafe fn cache_of<'a>(record: &ThreadStopInfo) -> Option<&'a AllocationCache> {
    // SAFETY: a mutator sets its record's user word to its cache after attach and clears it under the allocation lock
    // before the cache goes: it does not go while the caller has the lock, nor while its thread is stopped.
    unsafe { record.user().cast::<AllocationCache>().as_ref() }
}
