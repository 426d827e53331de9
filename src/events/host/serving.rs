//! The two ends of a host's queue: the drain adds events, and a separate thread takes them out and calls the host.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::interface::{Host, Stamp};
use super::queue::{Entry, Queue, State};
use crate::events::clock::{Clock, Relation};
use crate::events::record::{Consumer, Lost, Recorded, WorldNumber};
use crate::events::table::MAX_PAYLOAD_BYTES;
use crate::os::thread;
use crate::sabotage::{Guard, removed};
use crate::sync::Ordering;

/// The producer of the queue: a consumer of the drain.
#[derive(Debug)]
pub(super) struct Filler {
    pub(super) queue: Arc<Queue>,
    /// Used only by the known-bad variant.
    pub(super) host: Arc<dyn Host>,
}

impl Consumer for Filler {
    #[inline]
    fn record(&mut self, record: &Recorded) -> io::Result<()> {
        if removed(Guard::HostOwnThread) {
            self.host.fire_event(record.id as u32, record.event().serialize(&mut [0; MAX_PAYLOAD_BYTES]));
            return Ok(());
        }
        // SAFETY: there is one drain at a time, and this is the only filler.
        unsafe { self.queue.put(record.ticks, record.thread, record.world, Some(record.id), record.fields()) };
        if self.queue.state() == State::Failed { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(()) }
    }

    fn lost(&mut self, lost: &Lost) -> io::Result<()> {
        // SAFETY: as above.
        unsafe { self.queue.put(lost.ticks, lost.thread, WorldNumber(0), None, &[lost.count]) };
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        // SAFETY: as above.
        unsafe { self.queue.report_loss() };
        self.queue.wake();
        Ok(())
    }

    fn close(&mut self, _: &Relation) -> io::Result<()> {
        // SAFETY: as above.
        unsafe { self.queue.report_loss() };
        self.queue.close();
        Ok(())
    }
}

impl Drop for Filler {
    fn drop(&mut self) {
        self.queue.close();
    }
}

/// The thread that calls the host.
pub(super) struct Server {
    pub(super) queue: Arc<Queue>,
    pub(super) host: Arc<dyn Host>,
    pub(super) last: (u64, u64),
}

impl Server {
    pub(super) fn run(mut self) {
        self.queue.server.store(thread::gettid().0 as u32, Ordering::Relaxed);
        loop {
            self.queue.sleep();
            // The state is read before the last delivery, so that everything that was queued before the end is delivered.
            let is_closed = self.queue.state() != State::Open;
            let delivered = catch_unwind(AssertUnwindSafe(|| self.deliver()));
            if delivered.is_err() {
                self.queue.fail();
            }
            if is_closed || delivered.is_err() {
                break self.queue.over();
            }
        }
    }

    fn deliver(&mut self) {
        let relation = Clock::of_process().relation();
        let mut buffer = [0; MAX_PAYLOAD_BYTES];
        let queue = Arc::clone(&self.queue);
        // SAFETY: this is the only thread that takes entries.
        while let Some((entry, next)) = unsafe { queue.first() } {
            match entry {
                Entry::Event(record) => {
                    let stamp = Stamp {
                        ns: self.ns_of(&relation, record.ticks),
                        thread: record.thread,
                        world: record.world,
                        version: record.id.descriptor().version,
                    };
                    let payload = record.event().serialize(&mut buffer);
                    self.host.fire_stamped_event(record.id as u32, payload, &stamp);
                    queue.count_delivered();
                }
                Entry::Lost(count) => self.host.events_lost(count),
            }
            queue.advance(next);
        }
    }

    /// Converts ticks to nanoseconds. Each batch reads the relation of the clocks anew, which may differ by a few nanoseconds from the
    /// previous one. A record that is not earlier than the previous one does not get an earlier time.
    fn ns_of(&mut self, relation: &Relation, ticks: u64) -> u64 {
        let (last_ticks, last_ns) = self.last;
        let ns = relation.ns_of(ticks);
        let ns = if ticks >= last_ticks { ns.max(last_ns) } else { ns };
        self.last = (ticks, ns);
        ns
    }
}
