//! Recording: the road of events to those who need not see them at once.
//!
//! A listener is called in the middle of what happens, so it can do next to nothing. A consumer that writes files, or keeps a
//! hundred million records, gets them later, in order of time, on another thread; the thread that fires pays for
//! reading a clock and storing a few words.
//!
//! ```text
//!   thread                    thread                         handler that interrupted a fire
//!     │ fire                    │ fire                         │ fire
//!     ▼                         ▼                              ▼
//!   ┌──────┐                  ┌──────┐                       ┌────────┐
//!   │ ring │ chunks of 64 KiB │ ring │                       │ nested │         `ring`, `stream`, `wanted`, `fire`
//!   └──┬───┘                  └──┬───┘                       └───┬────┘
//!      └──────────────┬──────────┴───────────────────────────────┘
//!                     ▼
//!          drain: merge by time                    under one lock; by the writer thread, or by who flushes     `drain`, `merge`
//!                     │
//!         ┌───────────┼────────────┐               each consumer gets what it had selected then              `worlds`
//!         ▼           ▼            ▼
//!       file    flight recorder   host             `Consumer`
//! ```
//!
//! **One recorder per process**, since a thread has one ring whichever worlds it fires into, and since files want the events of
//! all worlds in one order. Each world that records has a number and its own selections.
//!
//! **Who waits.** By default nothing is lost: a thread whose ring is full waits for the drain, as a blocking region, so that a
//! collection need not wait for it. Where waiting could be for ever (in the stopped world, in a handler that interrupted
//! a fire, on the thread that drains) the ring grows instead, and at the limit of all rings together records are dropped
//! and counted (`.event.no-block-in-handler`). What waits for the writer never holds what the writer needs: it allocates
//! nothing and takes no lock but the recorder's; and if the writer does not come, who waits drains by itself.
//!
//! **Nothing is lost in the count.** A record that was fired is drained, or dropped and counted at its place in the stream and by
//! event, so that each consumer's numbers add up.
//!
//! **In the child of a fork** the rings of other threads, the writer, and the file consumers are gone (`.fork.services`); those that
//! go on are drained by who finds its ring full, or flushes, until the next consumer starts a writer.

pub(crate) mod bell;
mod consumer;
mod consumers;
mod drain;
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
mod wanted;
mod worlds;
mod writer;

pub use consumer::{Consumer, ConsumerId, ConsumerTotals, Ended, Policy, RecordError, RecorderTotals};
pub(crate) use fire::{Hurry, catch_up};
pub use flight_recorder::FlightRecorder;
pub(crate) use fork::{after_fork_in_child, after_fork_in_parent, before_fork};
pub(crate) use keep_up::keep_up;
pub use merge::Run;
pub use recorded::{Lost, Recorded, RecordingThread, WorldNumber};
pub use recorder::{Recorder, flush_at_exit, stopworld_telemetry_flush};
pub(crate) use recording::Recording;
pub(crate) use waiting::{Surroundings, as_blocking, is_ending, locked, set_surroundings};
pub(super) use worlds::RecordedWorld;
pub use worlds::{MAX_CONSUMERS, MAX_WORLDS};
