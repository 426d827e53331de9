//! Who takes records: what a consumer sees, and what it must keep.

use std::fmt;
use std::io;

use super::merge::Run;
use super::recorded::{Lost, Recorded};
use super::worlds::{MAX_CONSUMERS, MAX_WORLDS};
use crate::events::clock::Relation;
use crate::events::sink::AfterFork;

/// What a thread does that finds its ring full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// It waits until there is room, where it may; elsewhere the ring grows, and at its limit the record is dropped
    /// and counted.
    Lossless,
    /// It goes on; the record is dropped and counted.
    Dropping,
}

/// Somebody who takes records from the rings, later than they happened: a file, a flight recorder, a host.
///
/// **Order.** Records come by time, of all threads together. One of a thread that was stopped in the middle of firing,
/// and stayed so for longer than a drain waits, may come late: its `ticks` are then less than those of the record
/// before it. Within a thread `ticks` never go backwards, except that a signal handler's records may come after the record
/// that it interrupted.
///
/// **Where it runs.** On the writer thread; on whoever flushes or changes a selection; and, when a debugger calls
/// `stopworld_telemetry_flush`, on any thread while all others stand still, whatever locks they hold. So
/// [`record`](Consumer::record), [`records`](Consumer::records), [`lost`](Consumer::lost), [`drained`](Consumer::drained)
/// and [`flush`](Consumer::flush) allocate nothing, take no lock that a thread of the program may hold, and do not fire;
/// they write into memory that they have and make system calls. They may wait for the disk: a lossless
/// consumer that is slow makes those wait that fire. Whoever must allocate, a host for example, puts what it gets into
/// memory that it has and does the rest on a thread of its own, where the allocator may make it wait for a restart.
///
/// **Errors.** The first error ends it: it gets no more records, those that it would have got are counted as lost to it, and
/// [`end_recording`](crate::events::Events::end_recording) returns the error with the numbers.
pub trait Consumer: fmt::Debug + Send {
    /// Takes one record, of those that it selected.
    fn record(&mut self, record: &Recorded) -> io::Result<()>;

    /// Takes records that follow each other and that nobody else gets. There is no need to write it: what is here gives each to
    /// [`record`](Consumer::record), and is part of the trait so that it is made anew for each consumer, with what that does inlined.
    ///
    /// Who writes it may return before the run is over, and is called again with the rest. Who takes none of it gets its first
    /// record by `record`.
    ///
    /// # Errors
    /// Those of `record`, at the record that was taken last: that one counts as lost, those before it as written.
    fn records(&mut self, run: &mut Run<'_, '_>) -> io::Result<()> {
        while let Some(record) = run.next() {
            self.record(record)?;
        }
        Ok(())
    }

    /// Records were lost before they got here. A format that can say so says it at this place.
    fn lost(&mut self, lost: &Lost) -> io::Result<()> {
        let _ = lost;
        Ok(())
    }

    /// A drain is over: everything up to `now.ticks` has come. The place for a format's marks of time; no need to write.
    fn drained(&mut self, now: &Relation) -> io::Result<()> {
        let _ = now;
        Ok(())
    }

    /// Brings everything that came so far to where it is safe from the death of this process. Called often enough that
    /// a killed run leaves a readable file (`.event.crash`): some ten times a second, if anything came.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// The end: writes what the format wants at its end, and flushes. Nothing comes after it. May allocate.
    fn close(&mut self, now: &Relation) -> io::Result<()> {
        let _ = now;
        self.flush()
    }

    /// After an error: how many of the records that it took are lost with it, because they were still in its buffers.
    fn unwritten(&self) -> u64 {
        0
    }

    /// Whether threads wait for it.
    fn policy(&self) -> Policy {
        Policy::Lossless
    }

    /// What becomes of it in the child of a fork (`.fork.services`). One that is silenced there is forgotten, neither
    /// flushed nor closed nor dropped: its file belongs to the parent.
    fn forked(&self) -> AfterFork {
        AfterFork::Silence
    }

    /// Hands what it has kept to another consumer, oldest first; says how many records those were. For consumers that keep
    /// records, as the flight recorder does. The same rules as for `record`.
    ///
    /// # Errors
    /// It keeps none, or `to` failed.
    fn replay(&self, to: &mut dyn Consumer) -> io::Result<u64> {
        let _ = to;
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// A consumer of records, until it is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConsumerId {
    pub(super) place: usize,
    /// Distinguishes it from those that had the same place before.
    pub(super) serial: u64,
}

/// A consumer's numbers. `fired` = `written` + `lost` + `dropped`, once it is ended or flushed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConsumerTotals {
    /// Records that it selected and that were fired.
    pub fired: u64,
    /// Of these, what it has taken and not lost.
    pub written: u64,
    /// Of these, what is lost because of its error.
    pub lost: u64,
    /// Of these, what no ring had room for.
    pub dropped: u64,
}

/// How a consumer ended.
#[derive(Debug)]
pub struct Ended {
    /// Its numbers.
    pub totals: ConsumerTotals,
    /// Its first error.
    pub error: Option<io::Error>,
    /// The consumer itself, closed.
    pub consumer: Box<dyn Consumer>,
}

/// The process's numbers: `fired` = `drained` + `dropped` + what is still in the rings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecorderTotals {
    /// Records that were fired while somebody recorded them.
    pub fired: u64,
    /// Of these, what has left the rings.
    pub drained: u64,
    /// Of these, what no ring had room for.
    pub dropped: u64,
    /// Of those that have left the rings, what nobody wanted any more: they were fired by a thread that was frozen in the
    /// middle, or for a consumer that has ended since.
    pub unclaimed: u64,
    /// Bytes of memory that the rings have now.
    pub ring_bytes: u64,
    /// How often a thread had to wait for room.
    pub waits: u64,
}

/// Why nobody can record.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// All places are taken.
    #[error("a process has at most {max} recording consumers: end one first", max = MAX_CONSUMERS)]
    TooManyConsumers,
    /// Too many worlds.
    #[error("at most {max} worlds can record at once: end the recording of one first", max = MAX_WORLDS)]
    TooManyWorlds,
    /// The consumer has ended already, or never recorded this world.
    #[error("this consumer has been ended, or does not record this world: record to a new one")]
    Ended,
    /// No barrier.
    #[error(
        "recording needs the system call membarrier (Linux 4.14 or later, and a sandbox that allows it): {0}; listen \
         to events instead, which needs nothing"
    )]
    Barrier(#[source] io::Error),
    /// No thread, or no memory.
    #[error("the system refused memory or a thread for recording: {0}")]
    System(#[from] io::Error),
}
