//! Reads a stream into a history, event by event.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::sync::{Mutex, PoisonError};

use nettrace::clr::Provider;
use nettrace::{EventType, Interest, NetEvent, Reader, Summary, TraceInfo, Visitor};

pub(crate) use super::decode::OWN;
use super::decode::decode;
use super::model::{History, Observation, Runtime};

/// The name of the runtime's provider.
pub(crate) const RUNTIME: &str = Provider::Runtime.name();
/// The number of threads whose names are looked up.
const MOST_NAMES: usize = 4096;
/// The number of threads whose sequence numbers are followed.
const MOST_SEQUENCES: usize = 4096;
const SECOND: u128 = 1_000_000_000;

/// Reads a stream to its end. `changed` is called with the version of the history when there is something new to show; `name` returns the name
/// of a thread of the process, if it is known.
pub fn follow<R: Read>(
    stream: R,
    history: &Mutex<History>,
    changed: &dyn Fn(u64),
    name: &dyn Fn(u64) -> Option<String>,
) -> Summary {
    let mut follower = Follower {
        history,
        changed,
        name,
        start: 0,
        ticks_per_second: 1,
        pointer_bytes: 8,
        version: 0,
        named: BTreeSet::new(),
        sequences: BTreeMap::new(),
    };
    Reader::new(stream).read(&mut follower)
}

/// Adds the events of a stream to the history.
struct Follower<'a> {
    history: &'a Mutex<History>,
    changed: &'a dyn Fn(u64),
    name: &'a dyn Fn(u64) -> Option<String>,
    start: i64,
    ticks_per_second: i64,
    pointer_bytes: u8,
    version: u64,
    /// The threads whose names were looked up.
    named: BTreeSet<u64>,
    /// The sequence number of the latest event of each thread, by the thread's id in the file.
    sequences: BTreeMap<u64, Latest>,
}

/// The latest event of a thread.
struct Latest {
    sequence: u32,
    thread: u64,
}

impl Follower<'_> {
    fn update(&mut self, change: impl FnOnce(&mut History)) {
        // A panic under the lock leaves at worst one event half counted.
        let mut history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut history);
        let now = history.version;
        drop(history);
        if std::mem::replace(&mut self.version, now) != now {
            (self.changed)(now);
        }
    }
}

impl Follower<'_> {
    /// Returns whether events of the thread were lost since the latest one. The reader reports a loss when it reads the next event, which may be
    /// long before that event is delivered; the sequence numbers place the loss where it happened.
    fn follows_a_loss(&mut self, event: &NetEvent<'_>) -> bool {
        if self.sequences.len() >= MOST_SEQUENCES && !self.sequences.contains_key(&event.in_file.capture) {
            // Only losses during a pause matter.
            let history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
            self.sequences.retain(|_, latest| history.is_pausing(latest.thread));
        }
        let latest = Latest { sequence: event.sequence, thread: event.thread };
        let before = self.sequences.insert(event.in_file.capture, latest);
        // A file without sequence numbers has 0.
        before.is_some_and(|before| before.sequence != 0 && event.sequence != before.sequence.wrapping_add(1))
    }
}

impl Visitor for Follower<'_> {
    fn trace(&mut self, trace: &TraceInfo) {
        (self.start, self.ticks_per_second) = (trace.start_ticks, trace.ticks_per_second);
        self.pointer_bytes = trace.pointer_bytes;
    }

    fn event_type(&mut self, kind: &EventType) -> Interest {
        let runtime = match kind.provider.as_str() {
            OWN => Runtime::Stopworld,
            RUNTIME => Runtime::DotNet,
            _ => return Interest::Deliver,
        };
        self.update(|history| {
            // A process of stopworld has events of both providers.
            if history.runtime != Runtime::Stopworld && history.runtime != runtime {
                history.runtime = runtime;
                history.version += 1;
            }
        });
        Interest::Deliver
    }

    fn event(&mut self, event: &NetEvent<'_>) {
        let (world, what) = decode(event, self.pointer_bytes);
        let ticks = u128::from(event.time.saturating_sub(self.start).max(0).unsigned_abs());
        let per_second = u128::from(self.ticks_per_second.max(1).unsigned_abs());
        let time = u64::try_from(ticks * SECOND / per_second).unwrap_or(u64::MAX);
        let found = match what {
            Observation::ThreadStopped { thread, waited: true, .. }
                if self.named.len() < MOST_NAMES && self.named.insert(thread) =>
            {
                (self.name)(thread).map(|name| (thread, name))
            }
            Observation::ThreadLeft { thread } => {
                // A new thread may get its id.
                self.named.remove(&thread);
                None
            }
            _ => None,
        };
        let is_interrupted = self.follows_a_loss(event);
        self.update(|history| {
            if is_interrupted {
                history.interrupt(event.thread);
            }
            history.add(time, event.thread, world, what);
            if let Some((thread, name)) = found {
                history.name(thread, name);
            }
        });
    }

    fn lost(&mut self, _thread: u64, count: u64) {
        self.update(|history| history.add_lost(count));
    }
}
