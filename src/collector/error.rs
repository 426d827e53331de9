//! Errors of a collection, and of closing a world.

use std::time::Duration;

use crate::heap::verify::VerifyError;
use crate::world::error::{FalseAnswer, StopError};

/// Why a collection failed. The world runs on, and nothing was reclaimed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CollectError {
    /// The world could not be stopped.
    #[error(transparent)]
    Stop(#[from] StopError),
    /// The paranoid mode found the heap damaged.
    #[error("the heap is damaged after collection {number}: {error}")]
    Damaged {
        /// The collection after which the damage was found.
        number: u32,
        /// What was found.
        error: VerifyError,
    },
    /// At the end of marking, the thread vtable no longer held the world stopped. The collection is repeated with the vtable
    /// that the world was built with, so only a failure listener gets this error.
    #[error(
        "collection {number} was discarded: {}; nothing was freed, the world runs on, and the collection is repeated by the world's own stopper",
        why_discarded(answer.as_ref())
    )]
    Discarded {
        /// The number of the discarded collection.
        number: u32,
        /// The debugger's answer that was found to be false, if that is the reason.
        answer: Option<FalseAnswer>,
    },
    /// The calling thread is in a scope of an [arena](crate::Arena): a collection would free objects that it may use.
    #[error(
        "the calling thread is in a scope of an arena, whose objects must not be freed: collect after the scope (`Arena::collect`)"
    )]
    InScope,
    /// Threads did not leave the scopes of their [arenas](crate::Arena) within the time limit for a stop.
    #[error(
        "{threads} {} in a scope of an arena for longer than {within:?}, and no collection begins before the scope ends: do less in one \
         `Arena::enter`",
        if *threads == 1 { "thread has been" } else { "threads have been" }
    )]
    ScopesOpen {
        /// The number of threads in a scope.
        threads: u32,
        /// How long the collection waited.
        within: Duration,
    },
    /// The world was closed.
    #[error("the world is closed")]
    Closed,
    /// The last handle of the world was dropped, and a thread that the world had to end did not end. Only a failure listener
    /// gets this;
    /// [`World::close`](crate::World::close) returns the same.
    #[error("the world was dropped, but did not close: {0}")]
    NotClosed(CloseError),
}

/// Why a world did not close completely.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CloseError {
    /// A finalizer has not returned.
    #[error(
        "the finalizer thread has not finished within {within:?}: the finalizer of a \"{type_name}\" object has been running for \
         {running:.1?}, and {due} more are due; the resources of these objects are not released. A finalizer must return: end its \
         loop, or set a time limit for what it waits for"
    )]
    Finalizer {
        /// How long the closing thread waited.
        within: Duration,
        /// The type of the object whose finalizer is running.
        type_name: &'static str,
        /// How long the finalizer has been running.
        running: Duration,
        /// The number of finalizers that wait for their turn.
        due: u64,
    },
    /// The finalizer thread is between two finalizers, or cannot continue: there are too many finalizers, or the thread is
    /// suspended.
    #[error("the finalizer thread has not finished within {within:?}: {due} finalizers are still due")]
    Finalizers {
        /// How long the closing thread waited.
        within: Duration,
        /// The number of finalizers that wait for their turn.
        due: u64,
    },
    /// A listener has not returned.
    #[error("the ticker thread has not finished within {within:?}: a listener to ticks has not returned")]
    Ticks {
        /// How long the closing thread waited.
        within: Duration,
    },
}

fn why_discarded(answer: Option<&FalseAnswer>) -> String {
    match answer {
        Some(answer) => format!("{answer}; this debugger is not queried again"),
        None => "the thread vtable released the stopped world too early (was the debugger killed?)".to_owned(),
    }
}
