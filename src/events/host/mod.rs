//! Hosts: programs that a collector tells what happens, as a runtime is told by its standalone collector.
//!
//! The design is .NET's. What is enabled is kept *inside* the collector, where the check is one load; the host sets it from
//! outside ([`HostConnection::set_event_keyword_state`], [`HostConnection::set_event_level_state`]), and gets, in
//! return, each event as a number and the bytes of its payload ([`Host::fire_event`]).
//!
//! ```text
//!   fire ──► ring ──► drain ──► queue ──► thread "stopworld-host" ──► Host::fire_event(id, payload)
//!   ────────────────────────              ─────────────────────────────────────────────────────────
//!   as for a file                         may allocate, lock, wait, and call the collector
//! ```
//!
//! **A host may do what it likes** (`.host.own-thread`), so nobody calls it who must not wait for it: neither the thread that fires,
//! which may stand in the stopped world or in a signal handler, nor the drain, which holds the recorder's lock. The drain
//! copies records into a queue, and a thread that is no mutator takes them out and calls the host. If the host wants malloc's
//! lock, and who has it was stopped by a collection, the host waits for the restart and nobody waits for the host. So
//! firing costs the same with a host as with a file: it is the same road.
//!
//! **Nobody waits for ever** (`.host.bounded`). While the host takes events, the drain waits for room in a full queue, and those who
//! fire wait for the drain: nothing is lost, and everybody goes at the host's speed. A host that has taken nothing for a
//! second may be waiting for a thread that waits for *it*. Then events are dropped until it goes on; it is told how many
//! ([`Host::events_lost`]) at the place where they are missing.
//!
//! **Numbers.** `event_id` is the event's number in the [table](super::table), not its number in .NET's manifest: there two
//! phases share one number, and half of our events have none. Numbers change when the table grows; names do not, and
//! [`EventId::descriptor`](super::EventId::descriptor) has the name, the numbers in other formats, and where each field
//! lies in the payload. A [template](super::templates) reads it.

mod connection;
mod interface;
mod options;
mod queue;
mod serving;

pub use self::connection::HostConnection;
pub use self::interface::{Host, HostError, Stamp};
pub use self::options::{HostOptions, HostTotals};
