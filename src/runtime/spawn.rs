//! [`World::spawn`]: threads that are mutators while they run.

use std::fmt;
use std::sync::Arc;

use super::{Mutator, World};
use crate::os::callback::refuse_inside;
use crate::profile;
use crate::world::registry::Threads;

/// Why [`World::spawn`] failed: the system could not create the thread, or the thread could not be attached.
#[derive(Debug, thiserror::Error)]
#[error("the thread \"{name}\" could not be started: {error}")]
pub struct SpawnError {
    name: String,
    #[source]
    error: std::io::Error,
}

impl World {
    /// Starts a thread named `name` that is a mutator of this world while it runs `body`. Returns when the thread is attached.
    ///
    /// The thread starts in the cost centre stack of the calling thread. Values that `body` captures and returns are in ordinary
    /// memory, which is not scanned; the `Send` bounds keep every `Gc` out. Pass a [`Root`](crate::Root) instead.
    ///
    /// # Errors
    /// The system could not create the thread, or the thread could not be attached.
    ///
    /// # In the child of a fork
    /// This function may hang in the child of a fork. The standard library holds a lock while one of its threads starts or ends.
    /// If another thread held that lock when the process forked, the child cannot start a thread of the standard library. A
    /// thread made with `pthread_create` that [`attach`](Self::attach)es can always be started; the collector's own threads are
    /// made this way.
    ///
    /// # Safety
    /// `body` meets the safety requirements of [`attach`](Self::attach).
    pub unsafe fn spawn<R: Send + 'static>(
        &self,
        name: &str,
        body: impl FnOnce(&Mutator) -> R + Send + 'static,
    ) -> Result<JoinHandle<R>, SpawnError> {
        refuse_inside("World::spawn");
        let world = self.clone();
        let failed = |error| SpawnError { name: name.to_owned(), error };
        let own_name = name.to_owned();
        let cost_stack = profile::current_stack();
        let (attached, attachment) = std::sync::mpsc::sync_channel(1);
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || match Mutator::attach(world, &own_name) {
                Ok(mutator) => {
                    mutator.set_cost_stack(cost_stack);
                    let _ = attached.send(Ok(()));
                    Some(body(&mutator))
                }
                Err(error) => {
                    let _ = attached.send(Err(error));
                    None
                }
            })
            .map_err(failed)?;
        let threads = Arc::clone(&self.collector().threads);
        // The new thread may have to wait for a collection, which may have to stop the calling thread.
        match threads.as_blocking(|| attachment.recv()) {
            Ok(Ok(())) => Ok(JoinHandle { thread, threads }),
            Ok(Err(error)) => Err(failed(std::io::Error::other(error))),
            Err(_) => Err(failed(std::io::Error::other("the thread ended before it was attached"))),
        }
    }
}

/// The handle of a thread started by [`World::spawn`]. Dropping it lets the thread run on, detached from the handle.
pub struct JoinHandle<R> {
    thread: std::thread::JoinHandle<Option<R>>,
    threads: Arc<Threads>,
}

impl<R> JoinHandle<R> {
    /// Waits until the thread has ended, and returns the result of its `body`. A caller that is a mutator counts as blocking
    /// meanwhile, so collections do not wait for it.
    ///
    /// # Errors
    /// The payload of the thread's panic.
    pub fn join(self) -> std::thread::Result<R> {
        refuse_inside("JoinHandle::join");
        let Self { thread, threads } = self;
        let result = threads.as_blocking(|| thread.join())?;
        Ok(result.expect("a thread that could not attach has no handle"))
    }

    /// Returns whether the thread has ended.
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Returns the standard library's handle of the thread.
    pub fn thread(&self) -> &std::thread::Thread {
        self.thread.thread()
    }
}

impl<R> fmt::Debug for JoinHandle<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.thread().name().unwrap_or_default();
        f.debug_struct("JoinHandle").field("name", &name).field("finished", &self.is_finished()).finish()
    }
}
