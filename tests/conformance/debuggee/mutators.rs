//! The mutators of the debugged program: each does one thing all the time, and counts.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use stopworld::{Gc, JoinHandle, Mutator, World};
use stopworld_workloads::binary_trees::{self, Tree};

use super::calls::{Call, Calls};
use crate::facts::{Facts, TestResult};
use crate::hazard::Hidden;
use crate::hazard::keepers::KEEPERS;

/// The activity of a mutator until it is ended.
#[derive(Clone, Debug)]
pub enum Kind {
    /// Counts, with a safepoint in each round.
    Counting,
    /// Counts and does nothing else; it does not poll for stops.
    Spinning,
    /// Builds trees and checks them. Now and then it has allocated so much that it collects.
    Allocating,
    /// Has built a tree, and walks it again and again. It takes no lock of the world, so freezing it never freezes a lock's owner.
    Looking,
    /// Counts until `go` is set, then allocates a large object, for which it needs the allocation lock, and continues to count.
    Waiting,
    /// Collects.
    Collecting,
    /// Sleeps in a blocking region.
    Blocking,
    /// Keeps an object by one reference in one place only; the reference points `offset` bytes into the object.
    Keeping { place: usize, offset: usize },
    /// Makes a system call, again and again.
    Calling(Call),
}

impl Kind {
    /// Parses `counting`, `keeping r12 8`, `calling nanosleep` …
    pub fn of(words: &[&str]) -> TestResult<Self> {
        Ok(match words {
            ["counting"] => Self::Counting,
            ["spinning"] => Self::Spinning,
            ["allocating"] => Self::Allocating,
            ["looking"] => Self::Looking,
            ["waiting"] => Self::Waiting,
            ["collecting"] => Self::Collecting,
            ["blocking"] => Self::Blocking,
            ["keeping", name, rest @ ..] => {
                let place = KEEPERS.iter().position(|(known, ..)| known == name);
                let place = place.ok_or_else(|| format!("no object can be kept in {name}"))?;
                let offset =
                    rest.first().map_or(Ok(0), |offset| offset.parse()).map_err(|_| "an offset is a number")?;
                Self::Keeping { place, offset }
            }
            ["calling", name] => Self::Calling(Call::of(name)?),
            _ => return Err(format!("there is no mutator of the kind {words:?}")),
        })
    }
}

/// The state that the program shares with one of its mutators.
#[derive(Debug, Default)]
pub struct Shared {
    pub count: AtomicU64,
    pub tid: AtomicI32,
    pub end: AtomicBool,
    pub ready: AtomicBool,
    /// The flag for which a waiting mutator waits.
    pub go: AtomicBool,
    /// The error that the mutator ended with.
    pub complaint: Mutex<Option<String>>,
    pub calls: Calls,
}

/// A running mutator.
pub struct Running {
    pub name: String,
    pub shared: Arc<Shared>,
    handle: JoinHandle<()>,
    /// The object that it keeps.
    hidden: Option<Hidden>,
}

impl Running {
    /// Starts a mutator and waits until it does its work.
    pub fn start(world: &World, name: &str, kind: Kind) -> TestResult<Self> {
        if let Kind::Keeping { place, .. } = kind
            && !KEEPERS[place].2.are_met()
        {
            return Err(format!("needs {:?}", KEEPERS[place].2));
        }
        let hidden = matches!(kind, Kind::Keeping { .. }).then(|| Hidden::new(world));
        let disguised = match (&hidden, &kind) {
            (Some(hidden), Kind::Keeping { offset, .. }) => hidden.disguised(*offset),
            _ => 0,
        };
        let shared = Arc::<Shared>::default();
        let inner = Arc::clone(&shared);
        let body = move |m: &Mutator| {
            inner.tid.store(m.tid().0, Ordering::Relaxed);
            if let Err(complaint) = work(m, &kind, disguised, &inner) {
                *inner.complaint.lock().unwrap() = Some(complaint);
            }
            inner.ready.store(true, Ordering::Release);
        };
        // SAFETY: `work` keeps each `Gc` in local variables, a keeper in its register.
        let handle = unsafe { world.spawn(name, body) }.map_err(|error| error.to_string())?;
        let begun = Instant::now();
        while !shared.ready.load(Ordering::Acquire) {
            if begun.elapsed() > Duration::from_secs(120) {
                return Err(format!("{name} did not start in time"));
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        Ok(Self { name: name.into(), shared, handle, hidden })
    }

    pub fn tid(&self) -> i32 {
        self.shared.tid.load(Ordering::Relaxed)
    }

    pub fn facts(&self) -> Facts {
        let facts = Facts::new().with("tid", self.tid()).with("count", self.shared.count.load(Ordering::Relaxed));
        self.shared.calls.tell(facts)
    }

    /// Ends the mutator. Returns its last facts, and the object that it has kept until now.
    pub fn end(self) -> TestResult<(Facts, Option<Hidden>)> {
        self.shared.end.store(true, Ordering::Release);
        while !self.handle.is_finished() {
            self.shared.calls.poke();
            std::thread::sleep(Duration::from_millis(1));
        }
        let facts = self.facts();
        self.handle.join().map_err(|_| format!("{} panicked", self.name))?;
        let complaint = self.shared.complaint.lock().unwrap().take();
        complaint.map_or(Ok((facts, self.hidden)), |complaint| Err(format!("{}: {complaint}", self.name)))
    }
}

const DEPTH: u32 = 7;

fn tree(m: &Mutator) -> TestResult<Gc<Tree>> {
    binary_trees::build(m, DEPTH).map_err(|error| error.to_string())
}

fn whole(tree: Gc<Tree>) -> TestResult<()> {
    let nodes = binary_trees::count(tree);
    if nodes == binary_trees::full(DEPTH) { Ok(()) } else { Err(format!("a tree has {nodes} nodes")) }
}

fn work(m: &Mutator, kind: &Kind, disguised: usize, shared: &Shared) -> TestResult<()> {
    let goes_on = || {
        shared.ready.store(true, Ordering::Release);
        shared.count.fetch_add(1, Ordering::Relaxed);
        !shared.end.load(Ordering::Acquire)
    };
    match kind {
        Kind::Counting => {
            while goes_on() {
                m.safepoint();
            }
        }
        Kind::Spinning => while goes_on() {},
        Kind::Allocating => {
            while goes_on() {
                whole(tree(m)?)?;
            }
        }
        Kind::Looking => {
            let tree = tree(m)?;
            while goes_on() {
                whole(tree)?;
            }
        }
        Kind::Waiting => {
            while goes_on() {
                if shared.go.swap(false, Ordering::Relaxed) {
                    m.alloc_array(4000, |_| 0_u64).map_err(|error| error.to_string())?;
                }
            }
        }
        Kind::Collecting => {
            while goes_on() {
                m.collect().map_err(|error| error.to_string())?;
            }
        }
        Kind::Blocking => {
            while goes_on() {
                m.blocking(|| std::thread::sleep(Duration::from_millis(1)));
            }
        }
        Kind::Keeping { place, .. } => KEEPERS[*place].1(disguised, &raw const shared.end, &raw const shared.ready),
        Kind::Calling(call) => {
            while goes_on() {
                shared.calls.make(*call)?;
            }
        }
    }
    Ok(())
}
