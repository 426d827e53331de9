//! The collector's access to the threads' allocation caches.

use crate::heap::cache::AllocationCache;
use crate::sabotage::{Guard, removed};
use crate::world::handler;
use crate::world::stop::StoppedWorld;
use crate::world::stop_info::ThreadStopInfo;

/// The stopped threads that allocate, including the collecting one, with their allocation caches.
pub(super) fn records_and_caches<'a>(
    stopped: &'a StoppedWorld<'_>,
) -> impl Iterator<Item = (&'static ThreadStopInfo, &'a AllocationCache)> + Clone + 'a {
    // SAFETY: the stop holds the allocation lock and the list lock while `stopped` exists.
    stopped.live().iter().filter_map(|&record| Some((record, unsafe { cache_of(record) }?)))
}

/// The allocation caches of the stopped threads, including the collecting one's.
pub(super) fn caches<'a>(stopped: &'a StoppedWorld<'_>) -> impl Iterator<Item = &'a AllocationCache> + Clone + 'a {
    records_and_caches(stopped).map(|(_, cache)| cache)
}

/// Closes the calling thread's allocation cache until the end of the stop: code that the collector calls on this thread may try
/// to allocate (`.stop.no-mutator`). The cache may belong to another world, if the thread collects a world to which it is not
/// attached.
pub(super) fn close_own_cache() {
    if !removed(Guard::StopNoMutator)
        // SAFETY: the calling thread's own record; the thread does not detach here.
        && let Some(cache) = handler::known_current().and_then(|record| unsafe { cache_of(record) })
    {
        cache.close();
    }
}

/// The allocation cache of a thread.
///
/// # Safety
/// While the result is used, one of these holds: the calling thread has the allocation lock of the thread's world; or the
/// thread is stopped, at any place (a debugger's query); or the thread is the calling one and does not detach.
pub(crate) unsafe fn cache_of<'a>(record: &ThreadStopInfo) -> Option<&'a AllocationCache> {
    // SAFETY: a mutator sets its record's user word to its cache after attach, and clears it under the allocation lock before
    // the cache is freed. So it is not freed while the caller has the lock, nor while its thread is stopped.
    unsafe { record.user().cast::<AllocationCache>().as_ref() }
}
