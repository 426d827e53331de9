//! The worlds that are open, by handle. A handle is looked up in this list, so that the use of a stale handle is an error.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stopworld::World;
use stopworld::events::host::HostConnection;

use crate::abi::Opaque;
use crate::failure::{Code, Failure, failure, is_null};

/// A world and its host.
#[derive(Debug)]
pub(crate) struct Hosted {
    pub(crate) world: World,
    pub(crate) connection: HostConnection,
}

static WORLDS: Mutex<BTreeMap<usize, Arc<Hosted>>> = Mutex::new(BTreeMap::new());

fn worlds() -> MutexGuard<'static, BTreeMap<usize, Arc<Hosted>>> {
    // The lock cannot be poisoned: no code panics while it holds the lock.
    WORLDS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Looks up the world of a handle.
pub(crate) fn world_of(handle: *mut Opaque) -> Result<Arc<Hosted>, Failure> {
    if handle.is_null() {
        return Err(is_null("the world"));
    }
    let known = worlds().get(&(handle as usize)).cloned();
    known.ok_or_else(|| failure(Code::Argument, "the handle is not a world, or the world was closed"))
}

/// Lists a world, and returns its handle.
pub(crate) fn open(hosted: Hosted) -> *mut Opaque {
    let hosted = Arc::new(hosted);
    let handle = Arc::as_ptr(&hosted) as usize;
    worlds().insert(handle, hosted);
    handle as *mut Opaque
}

/// Removes a handle from the list. Returns false if the list did not have the handle.
pub(crate) fn close(handle: *mut Opaque) -> bool {
    worlds().remove(&(handle as usize)).is_some()
}
