//! One client's events: from the recorder to its socket, for as long as it wants them.
//!
//! ```text
//!   recorder's drain ──Tap──► queue ──► this session's thread: encoder ──► socket ──► client
//!                     never waits       encodes, adds the counters          waits for the client, not for ever
//! ```
//!
//! A session is a consumer of the recorder with a selection of its own: the rows of the table that what its providers ask
//! for is made of. All sessions together, and the traces, decide what is recorded at all; each is handed its own.
//!
//! **Who is slow loses** (`.live.no-wait`). The drain puts records into the session's [queue](super::queue) and goes on. If the client does not read,
//! the session's thread waits in its write, the queue fills, and records are lost and counted: the client sees gaps in the numbers of
//! the threads. A client that takes nothing for [`STALLED`] is gone. Threads that fire may wait for the drain, as for a trace
//! in a file; the drain waits for no client, and in the stopped world nobody waits for the drain.
//!
//! **The end.** Whoever wants it to end says so ([`Control::stop`]) and waits; the session takes its consumer out of the recorder,
//! which drains everything that was fired before, writes that, the last sequence point and the end tag, and closes the
//! connection; only then is whoever waits told. If the client has hung up, the next write, or the next look, ends it the
//! same way but for the writing.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::counters::{self, Sampler, Schedule};
use super::queue::{Item, Losses, Queue, queue};
use super::request::{Collect, argument};
use super::stream::Stream;
use super::worlds::Worlds;
use crate::Reason;
use crate::collector::Collecting;
use crate::events::clock::{Clock, Relation};
use crate::events::record::bell::Bell;
use crate::events::record::{Consumer, Lost, RecordError, Recorded, Recording};
use crate::events::{EventSet, Selection};
use crate::formats::nettrace::write::live::Limits;
use crate::os::clock::now_ns;
use crate::os::signals;
use crate::os::socket::Socket;
use crate::runtime::Inner;
use crate::sync::{AtomicBool, Ordering};

/// The client sees an event this much later, at most, if it reads.
const FLUSH_NS: u64 = 100_000_000;
/// A client that takes nothing for so long is gone.
const STALLED: Duration = Duration::from_secs(30);
/// And one whose session is to end.
const STALLED_AT_THE_END: Duration = Duration::from_secs(2);
/// How long a wait for the client lasts before it is looked whether the session is to end.
const SLICE_MS: i32 = 50;
/// So many records are written before it is looked at the time, the client, and who wants an end.
const AT_A_TIME: usize = 10_000;
/// What may wait in the queue, whatever the client asks for.
const MOST_WAITING: usize = 64 << 20;

/// The keyword of the runtime's provider that asks for a collection at once.
const HEAP_COLLECT: u64 = 0x80_0000;
const RUNTIME: &str = "Microsoft-Windows-DotNETRuntime";

/// What others have of a session.
#[derive(Debug)]
pub(super) struct Control {
    /// The client knows it by this number.
    pub(super) id: u64,
    stopping: AtomicBool,
    bell: Arc<Bell>,
    over: Mutex<bool>,
    ended: Condvar,
    recording: Option<Recording<Part>>,
}

/// What a session wants of each world that it records.
#[derive(Debug)]
struct Part {
    needs: EventSet,
    limits: Limits,
}

impl Control {
    /// The session is to end: it does so by itself.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
        self.bell.ring();
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Waits until the client has been sent the end, or has been given up.
    pub(super) fn wait_for_the_end(&self, within: Duration) {
        let over = self.is_over();
        drop(self.ended.wait_timeout_while(over, within, |over| !*over));
    }

    fn is_over(&self) -> MutexGuard<'_, bool> {
        self.over.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on the session has this world's events. A world that it has already stays as it is.
    pub(super) fn join(&self, world: &Inner) -> Result<(), RecordError> {
        let Some(recording) = &self.recording else { return Ok(()) };
        let collector = &world.collector;
        recording.join(&collector.events, |Part { needs, limits }, number| {
            limits.note(number, collector.heap.limit_bytes());
            collector.events.select_recorded(recording.consumer(), Selection::of(*needs))
        })
    }
}

/// The recorder's end of the queue.
#[derive(Debug)]
struct Tap {
    queue: Arc<Queue>,
    losses: Losses,
    /// Not the whole of `Control`: it must not be the drain that frees it.
    bell: Arc<Bell>,
    came: bool,
}

impl Tap {
    fn put(&mut self, ticks: u64, item: Item) -> io::Result<()> {
        self.came = true;
        // SAFETY: whoever drains has the recorder's lock, and there is one tap for each queue.
        unsafe { self.losses.put(&self.queue, ticks, item) };
        Ok(())
    }

    fn ring(&mut self) {
        if std::mem::take(&mut self.came) {
            self.bell.ring();
        }
    }
}

impl Consumer for Tap {
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
        self.ring();
        Ok(())
    }

    fn close(&mut self, now: &Relation) -> io::Result<()> {
        // SAFETY: as above.
        unsafe { self.losses.tell(&self.queue, now.ticks) };
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
    /// Up to here everything has come.
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
    /// Begins one, of no world yet.
    ///
    /// # Errors
    /// The recorder has no place for it, or the system gives no memory.
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
        let (bell, limits) = (Arc::new(Bell::new()), Limits::new());
        let recording = if needs == EventSet::NONE {
            None
        } else {
            let tap = Tap { queue: Arc::clone(&queue), losses: Losses::none(), bell: Arc::clone(&bell), came: false };
            Some(Recording::start(Box::new(tap), Part { needs, limits: limits.clone() })?)
        };
        let control = Arc::new(Control {
            id,
            stopping: AtomicBool::new(false),
            bell,
            over: Mutex::new(false),
            ended: Condvar::new(),
            recording,
        });
        let counting = interval(collect).map(|interval| {
            let schedule = Schedule::new(interval, now_ns());
            let series = schedule.series();
            Counting { schedule, sampler: worlds.with_sources(Sampler::new), series }
        });
        let to = ToClient { socket: Arc::clone(socket), control: Arc::clone(&control) };
        let stream = Stream::new(collect, limits, Box::new(to))?;
        let worlds = Arc::clone(worlds);
        Ok(Session { control, queue, stream, counting, worlds, reached: clock.now(), flushed_ns: 0 })
    }

    /// What others need of it.
    pub(super) fn control(&self) -> &Arc<Control> {
        &self.control
    }

    /// Serves the client until it has enough, or is gone.
    pub(super) fn serve(mut self, socket: &Socket) {
        let served = self.stream.begin().and_then(|()| self.serve_while_wanted(socket));
        let last = self.leave();
        // Who is gone needs no end.
        let _ = served.and_then(|()| {
            self.write_what_came(usize::MAX)?;
            self.stream.end(last.max(self.reached))
        });
        socket.end();
    }

    fn serve_while_wanted(&mut self, socket: &Socket) -> io::Result<()> {
        while !self.control.is_stopping() {
            if !self.write_what_came(AT_A_TIME)? {
                self.control.bell.wait(Some(self.patience()));
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

    /// How long there is nothing to do but for what the bell tells, in nanoseconds.
    fn patience(&self) -> u64 {
        let until_counters =
            self.counting.as_ref().map(|counting| counting.schedule.next_ns().saturating_sub(now_ns()));
        until_counters.unwrap_or(FLUSH_NS).clamp(1_000_000, FLUSH_NS)
    }

    /// Writes so many records at most. Says whether there may be more.
    fn write_what_came(&mut self, most: usize) -> io::Result<bool> {
        for _ in 0..most {
            // SAFETY: this thread is the queue's only reader: a session is one thread's.
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
        // Events between what has come and now are still to come, and must not be older than what is written.
        let ticks = if self.control.recording.is_some() { self.reached } else { Clock::of_process().now() };
        for counter in self.worlds.with_sources(|sources| counting.sampler.sample(sources, elapsed)) {
            self.stream.counter(&counter, elapsed, &counting.series, ticks)?;
        }
        self.reached = self.reached.max(ticks);
        Ok(())
    }

    /// Nothing more is recorded for it; what was is in the queue. Says up to when.
    fn leave(&self) -> u64 {
        if let Some(recording) = &self.control.recording {
            // It has ended already only if the process has been forked, and then this thread is not here.
            let _ = recording.end();
        }
        Clock::of_process().now()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(recording) = &self.control.recording {
            // Twice does no harm.
            let _ = recording.end();
        }
        *self.control.is_over() = true;
        self.control.ended.notify_all();
    }
}

/// The interval of the counters, if they are asked for: any level and any keyword will do.
fn interval(collect: &Collect) -> Option<Duration> {
    let providers = collect.providers.iter().filter(|wanted| wanted.name == counters::PROVIDER);
    let intervals = providers.filter_map(|wanted| argument(&wanted.arguments, counters::INTERVAL_KEY));
    intervals.filter_map(|text| counters::interval(&text)).min()
}

/// As real runtimes do: who enables this keyword gets a collection to look at. On a thread of its own, since it fires what the
/// session is to write.
pub(super) fn collect_if_asked(collect: &Collect, worlds: &Worlds) {
    let asks = |wanted: &super::request::Wanted| wanted.name == RUNTIME && wanted.keywords & HEAP_COLLECT != 0;
    if !collect.providers.iter().any(asks) {
        return;
    }
    let worlds = worlds.living();
    let induce = move || {
        for world in worlds {
            let who = Collecting::now(None);
            // Why there was none is told to the world's own listener; a client has no way to hear of it.
            let _ = world.collector.collect(who, Reason::Explicit);
        }
    };
    let _blocked = signals::block_all();
    // Without a thread there is no collection: as if nobody had asked.
    drop(std::thread::Builder::new().name("stopworld-induce".into()).spawn(induce));
}

/// Where a session's bytes go.
#[derive(Debug)]
struct ToClient {
    socket: Arc<Socket>,
    control: Arc<Control>,
}

impl crate::formats::nettrace::write::Destination for ToClient {
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
