//! Consumers of records: what they receive, and the rules that they must follow.

use std::fmt;
use std::io;

use super::merge::Run;
use super::recorded::{Lost, Recorded};
use super::worlds::{MAX_CONSUMERS, MAX_WORLDS};
use crate::events::clock::Relation;
use crate::events::sink::AfterFork;

/// What a thread does when its ring is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Where the thread may wait, it waits until there is room. Elsewhere the ring grows, and at the limit the record is dropped
    /// and counted.
    Lossless,
    /// The thread continues; the record is dropped and counted.
    Dropping,
}

/// A receiver of the records from the rings, some time after the events: a file, a flight recorder, a host.
///
/// **Order.** The records of all threads are delivered in order of time. A record of a thread that was stopped in the middle of firing,
/// for longer than a drain waits, may be delivered late: its `ticks` are then less than those of the record
/// before it. Within a thread `ticks` never decrease, except that a signal handler's records may be delivered after the record
/// that it interrupted.
///
/// **Where it runs.** On the writer thread; on a thread that flushes or changes a selection; and, when a debugger calls
/// `stopworld_telemetry_flush`, on any thread while all others are stopped, whatever locks they hold. So
/// [`record`](Consumer::record), [`records`](Consumer::records), [`lost`](Consumer::lost), [`drained`](Consumer::drained)
/// and [`flush`](Consumer::flush) allocate nothing, take no lock that a thread of the program may hold, and do not fire.
/// They write to memory that they already have and make system calls. They may wait for the disk: a slow lossless
/// consumer makes firing threads wait. A consumer that must allocate, for example a host, copies what it receives to
/// memory that it already has and does the rest on a thread of its own, where the allocator may make it wait for a restart.
///
/// **Errors.** The first error ends the consumer: it receives no more records, those that it would have received are counted as lost, and
/// [`end_recording`](crate::events::Events::end_recording) returns the error with the numbers.
pub trait Consumer: fmt::Debug + Send {
    /// Takes one of the records that the consumer selected.
    fn record(&mut self, record: &Recorded) -> io::Result<()>;

    /// Takes a run of consecutive records that only this consumer receives. The default calls [`record`](Consumer::record) for each. It is
    /// a trait method so that it is monomorphised, and `record` inlined, for each consumer.
    ///
    /// An implementation may return before the end of the run; it is called again with the rest. If it takes no record, the first record
    /// of the run is passed to `record`.
    ///
    /// # Errors
    /// The errors of `record`, for the record that was taken last. That record counts as lost, the records before it as written.
    fn records(&mut self, run: &mut Run<'_, '_>) -> io::Result<()> {
        while let Some(record) = run.next() {
            self.record(record)?;
        }
        Ok(())
    }

    /// Reports that records were lost before they were delivered. A format that can express losses writes one at this place.
    fn lost(&mut self, lost: &Lost) -> io::Result<()> {
        let _ = lost;
        Ok(())
    }

    /// Called after a drain: everything up to `now.ticks` has been delivered. A format may write its time marks here; it need not
    /// write to the file yet.
    fn drained(&mut self, now: &Relation) -> io::Result<()> {
        let _ = now;
        Ok(())
    }

    /// Writes everything received so far to a place where it survives the end of this process. Called often enough that
    /// a killed run leaves a readable file (`.event.crash`): about ten times a second, if there were records.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Writes what the format requires at its end, and flushes. Only [`closed`](Consumer::closed) follows. May allocate, but runs under the
    /// recorder's lock: it takes no lock that a thread may hold while it fires, stops the world or waits for a collection.
    fn close(&mut self, now: &Relation) -> io::Result<()> {
        let _ = now;
        self.flush()
    }

    /// Called after a successful [`close`](Consumer::close), without the recorder's lock and in a blocking region: for what `close` must not
    /// do. No call follows.
    ///
    /// It may take locks that threads of the program hold, such as that of the dynamic loader. A thread that holds such a lock may wait for
    /// the recorder, or for a collection. It does not wait for this thread: this thread does not hold the recorder's lock, and a stop
    /// does not wait for a thread in a blocking region.
    fn closed(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Returns, after an error, how many of the records that the consumer took are lost too, because they were still in its buffers.
    fn unwritten(&self) -> u64 {
        0
    }

    /// Returns whether firing threads wait for this consumer.
    fn policy(&self) -> Policy {
        Policy::Lossless
    }

    /// Returns what happens to the consumer in the child of a fork (`.fork.services`). A consumer that is silenced there is forgotten: it is
    /// not flushed, closed or dropped, because its file belongs to the parent.
    fn forked(&self) -> AfterFork {
        AfterFork::Silence
    }

    /// Passes the records that this consumer has kept to another consumer, oldest first, and returns their number. For consumers that
    /// keep records, such as the flight recorder. The rules for `record` apply.
    ///
    /// # Errors
    /// The consumer keeps no records, or `to` failed.
    fn replay(&self, to: &mut dyn Consumer) -> io::Result<u64> {
        let _ = to;
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// The id of a consumer, until it is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConsumerId {
    pub(super) slot: usize,
    /// Distinguishes this consumer from earlier consumers in the same slot.
    pub(super) serial: u64,
}

/// The counts of a consumer's records. After the consumer was ended or flushed, `fired` = `written` + `lost` + `dropped`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConsumerTotals {
    /// The number of records that the consumer selected and that were fired.
    pub fired: u64,
    /// The number of fired records that the consumer has taken and not lost.
    pub written: u64,
    /// The number of fired records that are lost because of the consumer's error.
    pub lost: u64,
    /// The number of fired records that were dropped because a ring had no room.
    pub dropped: u64,
}

/// How a consumer ended.
#[derive(Debug)]
pub struct Ended {
    /// The counts of its records.
    pub totals: ConsumerTotals,
    /// The consumer's first error.
    pub error: Option<io::Error>,
    /// The consumer itself, closed.
    pub consumer: Box<dyn Consumer>,
}

impl Ended {
    /// Calls [`Consumer::closed`], unless the consumer has failed. The caller holds no lock, and is in a blocking region.
    pub(super) fn complete(&mut self) {
        if self.error.is_none() {
            self.error = self.consumer.closed().err();
        }
    }
}

/// The counts of the records of the process: `fired` = `drained` + `dropped` + the records that are still in the rings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecorderTotals {
    /// The number of records that were fired while a consumer recorded them.
    pub fired: u64,
    /// The number of fired records that have left the rings.
    pub drained: u64,
    /// The number of fired records that were dropped because a ring had no room.
    pub dropped: u64,
    /// The number of drained records that no consumer wanted any more: they were fired by a thread that was suspended in the
    /// middle of the fire, or for a consumer that has ended since.
    pub unclaimed: u64,
    /// The current memory of the rings, in bytes.
    pub ring_bytes: u64,
    /// How often a thread had to wait for room.
    pub waits: u64,
}

/// Why recording failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// All slots are taken.
    #[error("a process has at most {max} recording consumers: end one first", max = MAX_CONSUMERS)]
    TooManyConsumers,
    /// The maximum number of worlds records already.
    #[error("at most {max} worlds can record at once: end the recording of one first", max = MAX_WORLDS)]
    TooManyWorlds,
    /// The consumer has ended already, or never recorded this world.
    #[error("this consumer has ended, or does not record this world: record to a new consumer")]
    Ended,
    /// The system call membarrier is not available.
    #[error(
        "recording needs the system call membarrier (Linux 4.14 or later, and a sandbox that allows it): {0}; listen \
         to events instead, which does not need it"
    )]
    Barrier(#[source] io::Error),
    /// The system refused a thread or memory.
    #[error("the system refused memory or a thread for recording: {0}")]
    System(#[from] io::Error),
}
