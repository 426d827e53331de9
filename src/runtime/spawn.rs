//! Threads that are mutators from their first instruction to their last.

use std::sync::Arc;

use super::{Mutator, World};
use crate::os::callback::refuse_inside;
use crate::profile;
use crate::world::registry::Threads;

/// Why a thread could not be spawned.
#[derive(Debug, thiserror::Error)]
#[error("the thread \"{name}\" could not be started: {error}")]
pub struct SpawnError {
    name: String,
    #[source]
    error: std::io::Error,
}

impl World {
    /// Starts a thread that is a mutator of this world while it runs `body`.
    ///
    /// It begins in the cost centre stack of the calling thread. What `body` captures and returns lies in ordinary memory and is not scanned; the types see to it that no
    /// `Gc` is among it.
    ///
    /// # Errors
    /// The system gave no thread, or it could not be attached.
    ///
    /// # In the child of a fork
    /// It may hang there: std keeps a lock of its own while a thread of it begins or ends, and if another thread held that when the
    /// process forked, the child can start no thread of std's any more. A thread of libc's (`pthread_create`) that
    /// [`attach`](Self::attach)es always can be started; the collector's own are.
    ///
    /// # Safety
    /// `body` keeps the promise of [`attach`](Self::attach).
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
        // The new thread may have to wait for a collection, which may have to stop us.
        match threads.as_blocking(|| attachment.recv()) {
            Ok(Ok(())) => Ok(JoinHandle { thread, threads }),
            Ok(Err(error)) => Err(failed(std::io::Error::other(error))),
            Err(_) => Err(failed(std::io::Error::other("the thread ended before it was attached"))),
        }
    }
}

/// A spawned mutator thread.
pub struct JoinHandle<R> {
    thread: std::thread::JoinHandle<Option<R>>,
    threads: Arc<Threads>,
}

impl<R> JoinHandle<R> {
    /// Waits for the thread's end; a mutator counts as blocking meanwhile.
    ///
    /// # Errors
    /// What the thread panicked with.
    ///
    /// # Panics
    /// Never: a thread that could not attach has no handle.
    pub fn join(self) -> std::thread::Result<R> {
        refuse_inside("JoinHandle::join");
        let Self { thread, threads } = self;
        let result = threads.as_blocking(|| thread.join())?;
        Ok(result.expect("a thread that could not attach has no handle"))
    }

    /// Whether the thread has ended.
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// The thread's handle.
    pub fn thread(&self) -> &std::thread::Thread {
        self.thread.thread()
    }
}
