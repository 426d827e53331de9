//! Recording: the path of events to consumers that need not see them immediately.
//!
//! A listener is called at the moment of the event, so it can do very little. A consumer that writes files, or keeps a
//! hundred million records, receives them later, in order of time, on another thread. The thread that fires only
//! reads a clock and stores a few words.
//!
//! ```text
//!   thread                    thread                         handler that interrupted a fire
//!     │ fire                    │ fire                         │ fire
//!     ▼                         ▼                              ▼
//!   ┌──────┐                  ┌──────┐                       ┌────────┐
//!   │ ring │ chunks of 64 KiB │ ring │                       │ nested │         `ring`, `stream`, `enabled`, `fire`
//!   └──┬───┘                  └──┬───┘                       └───┬────┘
//!      └──────────────┬──────────┴───────────────────────────────┘
//!                     ▼
//!          drain: merge by time                    under one lock; by the writer thread, or a flushing thread  `drain`, `merge`
//!                     │
//!         ┌───────────┼────────────┐               each consumer gets what it had selected at that time      `worlds`
//!         ▼           ▼            ▼
//!       file    flight recorder   host             `Consumer`
//! ```
//!
//! **There is one recorder per process**, because a thread has one ring for all worlds that it fires into, and because files need the
//! events of all worlds in one order. Each world that records has a number and its own selections.
//!
//! **Waiting.** By default nothing is lost: a thread whose ring is full waits for the drain, in a blocking region, so that a
//! collection need not wait for it. Where a wait could be endless (in the stopped world, in a handler that interrupted
//! a fire, on the thread that drains) the ring grows instead. At the limit of all rings together, records are dropped
//! and counted (`.event.no-block-in-handler`). A thread that waits for the writer never holds what the writer needs: the writer allocates
//! nothing and takes no lock except the recorder's. If the writer does not drain, the waiting thread drains itself.
//!
//! **Every record is accounted for.** A record that was fired is drained, or dropped and counted at its place in the stream and by
//! event, so that each consumer's numbers add up.
//!
//! **In the child of a fork** the rings of other threads, the writer, and the file consumers do not exist (`.fork.services`). The
//! remaining consumers are served by any thread that finds its ring full or flushes, until the next consumer starts a writer.

mod consumer;
mod consumers;
mod drain;
mod enabled;
pub(super) mod fire;
mod flight_recorder;
mod fork;
mod head;
mod keep_up;
mod lock;
mod merge;
mod recorded;
mod recorder;
mod recording;
pub(crate) mod ring;
mod stream;
mod subscriptions;
mod waiting;
mod worlds;
mod writer;

pub use consumer::{Consumer, ConsumerId, ConsumerTotals, Ended, Policy, RecordError, RecorderTotals};
pub(crate) use fire::{NoWaitSection, catch_up};
pub use flight_recorder::FlightRecorder;
pub(crate) use fork::{after_fork_in_child, after_fork_in_parent, before_fork};
pub(crate) use keep_up::keep_up;
pub use merge::Run;
pub use recorded::{Lost, Recorded, RecordingThread, WorldNumber};
pub use recorder::{Recorder, flush_at_exit, stopworld_telemetry_flush};
pub use recording::Recording;
pub(crate) use waiting::{Surroundings, as_blocking, set_surroundings};
pub use waiting::{in_blocking_region, is_ending, locked};
pub(super) use worlds::RecordedWorld;
pub use worlds::{MAX_CONSUMERS, MAX_WORLDS};
