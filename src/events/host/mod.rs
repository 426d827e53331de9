//! Hosts: programs that receive the collector's events by a callback, as the .NET runtime receives those of a standalone collector.
//!
//! The design is that of .NET. The enabled state is kept *inside* the collector, where the check is one load. The host sets it from
//! outside ([`HostConnection::set_event_keyword_state`], [`HostConnection::set_event_level_state`]), and receives
//! each event as a number and the bytes of its payload ([`Host::fire_event`]).
//!
//! ```text
//!   fire ──► ring ──► drain ──► queue ──► thread "stopworld-host" ──► Host::fire_event(id, payload)
//!   ────────────────────────              ─────────────────────────────────────────────────────────
//!   as for a file                         may allocate, lock, wait, and call the collector
//! ```
//!
//! **A host may run any code** (`.host.own-thread`), so it is never called on a thread that must not wait for it: neither on a firing
//! thread, which may be in the stopped world or in a signal handler, nor on a draining thread, which holds the recorder's lock. The drain
//! copies records into a queue, and a thread that is not a mutator takes them out and calls the host. If the host needs malloc's
//! lock, and the thread that holds it was stopped by a collection, the host waits for the restart, and no thread waits for the host.
//! Firing costs the same with a host as with a file, because the path up to the drain is the same.
//!
//! **No wait is unbounded** (`.host.bounded`). While the host takes events, the drain waits for room in a full queue, and firing
//! threads wait for the drain: nothing is lost, and all run at the host's speed. A host that has taken nothing for a
//! second may be waiting for a thread that waits for *it*. Then events are dropped until it continues. The host is notified of the number
//! of dropped events ([`Host::events_lost`]) at the place where they are missing.
//!
//! **Numbers.** `event_id` is the event's number in the [table](super::table), not its number in the .NET manifest, in which two
//! phases share one number, and which lacks half of stopworld's events. Numbers change when the table grows; names do not.
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
