//! A session: sends events from the recorder to one client's socket until the client or the process ends it.
//!
//! ```text
//!   recorder's drain ──Tap──► queue ──► this session's thread: encoder ──► socket ──► client
//!                     never waits       encodes, adds the counters          waits for the client, with a timeout
//! ```
//!
//! A session is a consumer of the recorder with its own selection: the rows of the event table from which the requested events
//! are made. The recorder records the union of the selections of all sessions and traces, and each consumer receives its own.
//!
//! **A slow client loses events** (`.live.no-wait`). The drain puts records into the session's [queue](super::queue) and
//! continues. If the client does not read, the session's thread waits in its write, the queue fills, and records are lost and
//! counted: the client sees gaps in the sequence numbers of the threads. A client that reads nothing for [`STALLED`] is
//! disconnected. Threads that fire events may wait for the drain, as with a trace file; the drain waits for no client, and while
//! the world is stopped no thread waits for the drain.
//!
//! **The end.** A thread that ends the session calls [`Control::stop`] and waits. The session removes its consumer from the
//! recorder, which drains all events fired before. The session writes these events, the last sequence point and the end tag,
//! closes the connection, and only then notifies the waiting thread. If the client has closed the connection, the next write or
//! the next check ends the session in the same way, but without writing.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::counters::{self, Sampler, Schedule};
use super::queue::{Item, Losses, Queue, queue};
use super::request::{Collect, argument};
use super::stream::{Stream, providers};
use super::worlds::Worlds;
use crate::os::clock::now_ns;
use crate::os::signals;
use crate::os::socket::Socket;
use crate::sync::notify::Notify;
use crate::sync::{AtomicBool, Ordering};
use stopworld::World;
use stopworld::events::clock::{Clock, Relation};
use stopworld::events::record::{Consumer, Lost, RecordError, Recorded, Recording};
use stopworld::events::{EventSet, Selection};
use stopworld_trace::nettrace::Providers;
use stopworld_trace::nettrace::live::{Live, WorldFacts};

/// The longest delay of an event to a client that reads.
const FLUSH_NS: u64 = 100_000_000;
/// A client that reads nothing for this time is disconnected.
const STALLED: Duration = Duration::from_secs(30);
/// A client that reads nothing for this time while the session is ending is disconnected.
const STALLED_AT_THE_END: Duration = Duration::from_secs(2);
/// The longest single wait for the client, after which the session checks whether it must end.
const SLICE_MS: i32 = 50;
/// The number of records written before the session checks the time, the client, and whether it must end.
const AT_A_TIME: usize = 10_000;
/// The largest size of the queue, in bytes, whatever the client requests.
const MOST_WAITING: usize = 64 << 20;

/// The keyword of the runtime's provider that requests an immediate collection.
const HEAP_COLLECT: u64 = 0x80_0000;
const RUNTIME: &str = "Microsoft-Windows-DotNETRuntime";

/// The part of a session that other threads use.
#[derive(Debug)]
pub(super) struct Control {
    /// The id of the session, which the client knows.
    pub(super) id: u64,
    stopping: AtomicBool,
    wakeup: Arc<Notify>,
    over: Mutex<bool>,
    ended: Condvar,
    recording: Option<Recording<WorldSelection>>,
    /// The number of the only world that the session records; `None` if it records all.
    world: Option<u64>,
}

/// The events that a session records in each world.
#[derive(Debug)]
struct WorldSelection {
    providers: Providers,
    facts: WorldFacts,
}

impl Control {
    /// Requests the end of the session. The session's thread performs it.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
        self.wakeup.notify();
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Waits until the end has been sent to the client, or the client has been disconnected.
    pub(super) fn wait_for_the_end(&self, within: Duration) {
        let over = self.is_over();
        drop(self.ended.wait_timeout_while(over, within, |over| !*over));
    }

    fn is_over(&self) -> MutexGuard<'_, bool> {
        self.over.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records this world's events in the session from now on. Has no effect on a world that it already records, or that is not the
    /// requested one.
    pub(super) fn join(&self, world: &World) -> Result<(), RecordError> {
        let Some(recording) = self.recording.as_ref().filter(|_| is_requested(self.world, world)) else {
            return Ok(());
        };
        let events = world.events();
        recording.join(events, |WorldSelection { providers, facts }, number| {
            facts.note(number, world);
            events.select_recorded(recording.consumer(), Selection::of(Live::needs_of(providers, world)))?;
            facts.note_threads(world);
            Ok(())
        })
    }
}

/// The recorder's end of the queue.
#[derive(Debug)]
struct QueueConsumer {
    queue: Arc<Queue>,
    losses: Losses,
    /// Wakes the session's thread. The tap does not refer to the whole `Control`, because the drain must not be the last owner that frees it.
    wakeup: Arc<Notify>,
    came: bool,
}

impl QueueConsumer {
    fn put(&mut self, ticks: u64, item: Item) -> io::Result<()> {
        self.came = true;
        // SAFETY: the draining thread holds the recorder's lock, and there is one tap per queue.
        unsafe { self.losses.put(&self.queue, ticks, item) };
        Ok(())
    }

    fn notify(&mut self) {
        if std::mem::take(&mut self.came) {
            self.wakeup.notify();
        }
    }
}

impl Consumer for QueueConsumer {
    fn record(&mut self, record: &Recorded) -> io::Result<()> {
        self.put(record.ticks, Item::Record(*record))
    }

    fn lost(&mut self, lost: &Lost) -> io::Result<()> {
        self.put(lost.ticks, Item::Lost(*lost))
    }

    fn drained(&mut self, now: &Relation) -> io::Result<()> {
        let came = self.came;
        self.put(now.ticks, Item::Reached(*now))?;
        self.came = came;
        self.notify();
        Ok(())
    }

    fn close(&mut self, now: &Relation) -> io::Result<()> {
        // SAFETY: as above.
        unsafe { self.losses.report(&self.queue, now.ticks) };
        Ok(())
    }
}

/// A session, on its own thread.
pub(super) struct Session {
    control: Arc<Control>,
    queue: Arc<Queue>,
    stream: Stream,
    counting: Option<Counting>,
    worlds: Arc<Worlds>,
    /// The time up to which all records have been received.
    reached: u64,
    flushed_ns: u64,
}

/// The counters of a session.
struct Counting {
    schedule: Schedule,
    sampler: Sampler,
    series: String,
}

impl Session {
    /// Begins a session, which records no world yet.
    ///
    /// # Errors
    /// If the recorder has no place for another consumer, or memory can't be allocated.
    pub(super) fn begin(
        id: u64,
        collect: &Collect,
        socket: &Arc<Socket>,
        worlds: &Arc<Worlds>,
    ) -> Result<Session, RecordError> {
        let clock = Clock::of_process();
        let bytes = (collect.megabytes as usize).saturating_mul(1 << 20).min(MOST_WAITING);
        let needs = Stream::needs(collect);
        let queue = Arc::new(queue(if needs == EventSet::NONE { 0 } else { bytes }));
        let (wakeup, facts) = (Arc::new(Notify::new()), WorldFacts::default());
        let recording = if needs == EventSet::NONE {
            None
        } else {
            let queue_consumer = QueueConsumer {
                queue: Arc::clone(&queue),
                losses: Losses::none(),
                wakeup: Arc::clone(&wakeup),
                came: false,
            };
            let selection = WorldSelection { providers: providers(collect), facts: facts.clone() };
            Some(Recording::start(Box::new(queue_consumer), selection)?)
        };
        let control = Arc::new(Control {
            id,
            stopping: AtomicBool::new(false),
            wakeup,
            over: Mutex::new(false),
            ended: Condvar::new(),
            recording,
            world: collect.world(),
        });
        let counting = interval(collect).map(|interval| {
            let schedule = Schedule::new(interval, now_ns());
            let series = schedule.series();
            Counting { schedule, sampler: Sampler::new(&worlds.sources()), series }
        });
        let to = ToClient { socket: Arc::clone(socket), control: Arc::clone(&control) };
        let stream = Stream::new(collect, facts, Box::new(to))?;
        let worlds = Arc::clone(worlds);
        Ok(Session { control, queue, stream, counting, worlds, reached: clock.now(), flushed_ns: 0 })
    }

    /// Returns the part that other threads use.
    pub(super) fn control(&self) -> &Arc<Control> {
        &self.control
    }

    /// Serves the client until the session is stopped or the client is gone.
    pub(super) fn serve(mut self, socket: &Socket) {
        let served = self.stream.begin().and_then(|()| self.serve_while_wanted(socket));
        let last = self.leave();
        // If the client is gone, the end is not written.
        let _ = served.and_then(|()| {
            self.write_what_came(usize::MAX)?;
            self.stream.end(last.max(self.reached))
        });
        socket.end();
    }

    fn serve_while_wanted(&mut self, socket: &Socket) -> io::Result<()> {
        while !self.control.is_stopping() {
            if !self.write_what_came(AT_A_TIME)? {
                self.control.wakeup.wait(Some(self.patience()));
            }
            self.write_counters()?;
            let now = now_ns();
            if now.saturating_sub(self.flushed_ns) >= FLUSH_NS {
                self.stream.flush(self.reached)?;
                self.flushed_ns = now;
            }
            if socket.is_gone() {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
        }
        Ok(())
    }

    /// Returns the time, in nanoseconds, after which the session has work even if there is no notification.
    fn patience(&self) -> u64 {
        let until_counters =
            self.counting.as_ref().map(|counting| counting.schedule.next_ns().saturating_sub(now_ns()));
        until_counters.unwrap_or(FLUSH_NS).clamp(1_000_000, FLUSH_NS)
    }

    /// Writes at most `most` records. Returns whether there may be more.
    fn write_what_came(&mut self, most: usize) -> io::Result<bool> {
        for _ in 0..most {
            // SAFETY: this thread is the queue's only reader: a session belongs to one thread.
            match unsafe { self.queue.take() } {
                Some(Item::Record(record)) => self.stream.record(&record)?,
                Some(Item::Lost(lost)) => self.stream.lost(&lost)?,
                Some(Item::Reached(relation)) => self.reached = self.reached.max(relation.ticks),
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    fn write_counters(&mut self) -> io::Result<()> {
        let Some(counting) = &mut self.counting else { return Ok(()) };
        let Some(elapsed) = counting.schedule.due(now_ns()) else { return Ok(()) };
        // Events fired before now may still arrive. They must not be older than what is already written, so counters carry the time
        // up to which all events have been received.
        let ticks = if self.control.recording.is_some() { self.reached } else { Clock::of_process().now() };
        for counter in counting.sampler.sample(&self.worlds.sources(), elapsed) {
            self.stream.counter(&counter, elapsed, &counting.series, ticks)?;
        }
        self.reached = self.reached.max(ticks);
        Ok(())
    }

    /// Ends the recording for this session; all recorded events are then in the queue. Returns the time of the end.
    fn leave(&self) -> u64 {
        if let Some(recording) = &self.control.recording {
            // The recording can have ended before only in a forked child, where this thread does not exist.
            let _ = recording.end();
        }
        Clock::of_process().now()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(recording) = &self.control.recording {
            // Ending it twice is harmless.
            let _ = recording.end();
        }
        *self.control.is_over() = true;
        self.control.ended.notify_all();
    }
}

/// Returns the interval of the counters if they are requested, with any level and any keywords.
fn interval(collect: &Collect) -> Option<Duration> {
    let providers = collect.providers.iter().filter(|wanted| wanted.name == counters::PROVIDER);
    let intervals = providers.filter_map(|wanted| argument(&wanted.arguments, counters::INTERVAL_KEY));
    intervals.filter_map(|text| counters::interval(&text)).min()
}

/// Returns whether a session with this request records the world.
fn is_requested(requested: Option<u64>, world: &World) -> bool {
    requested.is_none_or(|number| number == world.facts().number)
}

/// Like the .NET runtime, performs a collection if the client enables the keyword for it. The collection runs on its own
/// thread, because this thread must write the events that the collection fires.
pub(super) fn collect_if_asked(collect: &Collect, worlds: &Worlds) {
    let asks =
        |wanted: &super::request::RequestedProvider| wanted.name == RUNTIME && wanted.keywords & HEAP_COLLECT != 0;
    if !collect.providers.iter().any(asks) {
        return;
    }
    let mut worlds = worlds.living();
    worlds.retain(|world| is_requested(collect.world(), world));
    let induce = move || {
        for world in worlds {
            // A failure is reported to the world's own listener; the protocol can't report it to the client.
            let _ = world.collect();
        }
    };
    let _blocked = signals::block_all();
    // If the thread can't be started, there is no collection.
    drop(std::thread::Builder::new().name("stopworld-induce".into()).spawn(induce));
}

/// The destination of a session's bytes.
#[derive(Debug)]
struct ToClient {
    socket: Arc<Socket>,
    control: Arc<Control>,
}

impl stopworld_trace::nettrace::Destination for ToClient {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        let mut moved = Instant::now();
        while !rest.is_empty() {
            match self.socket.send(rest) {
                Ok(count) => {
                    rest = &rest[count..];
                    moved = Instant::now();
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let patience = if self.control.is_stopping() { STALLED_AT_THE_END } else { STALLED };
                    if self.socket.wait_to_write(SLICE_MS).gone || moved.elapsed() >= patience {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
