//! Why there was no collection, and why a world did not close.

use std::time::Duration;

use crate::heap::verify::VerifyError;
use crate::world::error::{FalseAnswer, StopError};

/// Why there was no collection. The world runs on, and nothing was reclaimed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CollectError {
    /// The world could not be stopped.
    #[error(transparent)]
    Stop(#[from] StopError),
    /// The paranoid mode found the heap broken.
    #[error("the heap is damaged after collection {number}: {error}")]
    Damaged {
        /// The collection after which it was found.
        number: u32,
        /// What was found.
        error: VerifyError,
    },
    /// At the end of marking the stopper no longer held the world. The collection is repeated with the stopper that the world was
    /// built with, so only a failure listener gets this error.
    #[error(
        "collection {number} was discarded: {}; nothing was freed, the world runs on, and the collection is repeated by the world's own stopper",
        why_discarded(answer.as_ref())
    )]
    Discarded {
        /// The collection that was not.
        number: u32,
        /// The debugger's answer that was found to be false, if that is the reason.
        answer: Option<FalseAnswer>,
    },
    /// The world was closed.
    #[error("the world is closed")]
    Closed,
    /// The last handle of the world was dropped, and what the world had to end did not. Only a failure listener gets this;
    /// [`World::close`](crate::World::close) returns the same.
    #[error("the world was dropped, and {0}")]
    NotClosed(CloseError),
}

/// Why a world did not close in order.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CloseError {
    /// A finalizer has not returned.
    #[error(
        "after {within:?} the finalizer thread has not finished: the finalizer of a \"{type_name}\" object has been running for \
         {running:.1?}, and {due} more are due; what they hold is not released. A finalizer must return: end its loop, or give what \
         it waits for a time limit"
    )]
    Finalizer {
        /// How long it was waited for.
        within: Duration,
        /// The type of the object whose finalizer runs.
        type_name: &'static str,
        /// For how long.
        running: Duration,
        /// Finalizers that wait for their turn.
        due: u64,
    },
    /// The finalizer thread is between two finalizers, or can't go on: there are too many, or it is suspended.
    #[error("after {within:?} the finalizer thread has not finished: {due} finalizers are still due")]
    Finalizers {
        /// How long they were waited for.
        within: Duration,
        /// Finalizers that wait for their turn.
        due: u64,
    },
    /// A listener has not returned.
    #[error("after {within:?} the thread that ticks has not finished: a listener to ticks has not returned")]
    Ticks {
        /// How long it was waited for.
        within: Duration,
    },
}

fn why_discarded(answer: Option<&FalseAnswer>) -> String {
    match answer {
        Some(answer) => format!("{answer}; it is not asked any more"),
        None => "the thread vtable let go of the stopped world (was the debugger killed?)".to_owned(),
    }
}
