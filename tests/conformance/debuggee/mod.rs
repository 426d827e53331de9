//! The debugged program: worlds, and mutators of all kinds, under the control of the suite.
//!
//! Commands arrive on stdin, one per line; each is answered by one line on stdout (`facts.rs`). The thread that reads them belongs to no world, so
//! it answers while the mutators are frozen. A command that takes too long for the suite to wait is executed *later*, on a thread of its
//! own, and its result is requested by name.

mod calls;
mod inside;
mod mutators;
mod rows;

use std::collections::BTreeMap;
use std::io::BufRead;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use stopworld::{CollectError, CollectionReport, Paranoid, SafepointStopper, StopError, World};

use crate::facts::{Facts, TestResult, answer};
use crate::hazard::Hidden;
use inside::{Dwelling, Mock};
use mutators::{Kind, Running};

/// Executes commands until stdin ends. Arguments: the timeout of a stop in milliseconds.
pub fn main(arguments: &[String]) -> TestResult<()> {
    let timeout = arguments.first().map_or(Ok(20_000), |text| text.parse()).map_err(|_| "milliseconds")?;
    let mut program = Program::new(Duration::from_millis(timeout))?;
    answer(&Ok(Facts::new().with("pid", std::process::id())));
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| error.to_string())?;
        let words: Vec<&str> = line.split_whitespace().collect();
        answer(&program.execute(&words));
    }
    // Mutators that no command has ended may be left: `exit` does not wait for them.
    std::process::exit(0);
}

fn build(timeout: Duration) -> TestResult<World> {
    let builder = World::builder().heap_limit(64 << 20).initial_heap(1 << 20).stop_timeout(timeout);
    builder.paranoid(Paranoid::On).build().map_err(|error| error.to_string())
}

/// A command that is executed later.
type Later = JoinHandle<TestResult<Facts>>;

struct Program {
    timeout: Duration,
    /// Commands without a number apply to the first world.
    worlds: Vec<World>,
    mutators: BTreeMap<String, Running>,
    later: BTreeMap<String, Later>,
    collectors: Vec<Collector>,
    mock: Mock,
    dwelling: Option<Arc<Dwelling>>,
    /// Objects that are not, or no longer, kept alive: the next collection must free them.
    unkept: Vec<Hidden>,
}

/// A thread of no world that collects all the time.
struct Collector {
    end: Arc<AtomicBool>,
    collections: Arc<AtomicU64>,
    thread: JoinHandle<TestResult<()>>,
}

impl Collector {
    fn start(world: World) -> Self {
        let (end, collections) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let (ended, counted) = (Arc::clone(&end), Arc::clone(&collections));
        let thread = std::thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                world.collect().map_err(|error| error.to_string())?;
                counted.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_micros(300));
            }
            Ok(())
        });
        Self { end, collections, thread }
    }
}

impl Program {
    fn new(timeout: Duration) -> TestResult<Self> {
        Ok(Self {
            timeout,
            worlds: vec![build(timeout)?],
            mutators: BTreeMap::new(),
            later: BTreeMap::new(),
            collectors: Vec::new(),
            mock: Mock::default(),
            dwelling: None,
            unkept: Vec::new(),
        })
    }

    fn world(&self) -> &World {
        &self.worlds[0]
    }

    fn execute(&mut self, words: &[&str]) -> TestResult<Facts> {
        match words {
            ["start", name, kind @ ..] => self.start(0, name, kind),
            ["start-in", world, name, kind @ ..] => self.start(number(world)?, name, kind),
            ["facts", name] => Ok(self.mutator(name)?.facts()),
            ["go", name] => {
                self.mutator(name)?.shared.go.store(true, Ordering::Relaxed);
                Ok(Facts::new())
            }
            ["end", name] => self.end(name),
            ["threads"] => Ok(self.threads()),
            ["collect"] => collected(self.world()),
            ["collect", times] => self.collect(number(times)?),
            ["hide"] => {
                self.unkept.push(Hidden::new(self.world()));
                Ok(Facts::new())
            }
            ["worlds", count] => self.more_worlds(number(count)?),
            ["collectors", "start"] => self.start_collectors(),
            ["collectors", "end"] => self.end_collectors(),
            ["births", count] => self.births(number(count)?),
            ["fork"] => inside::fork(self.world()),
            ["exec"] => Err(inside::exec(self.timeout)),
            ["swap", stopper] => self.swap(stopper),
            ["dwell"] => self.dwell(),
            ["dwelling"] => Ok(Facts::new().with("tid", self.dwelling()?.inside())),
            ["dwelt"] => self.dwelt(),
            ["later", name, command @ ..] => self.later(name, command),
            ["done", name] => Ok(Facts::new().with("done", self.later.get(*name).is_some_and(Later::is_finished))),
            ["now", name] => {
                let later = self.later.remove(*name).ok_or_else(|| format!("nothing is called {name}"))?;
                later.join().map_err(|_| format!("{name} panicked"))?
            }
            ["mock", rest @ ..] => self.mock.execute(&self.worlds, rest),
            ["verify"] => {
                let verified = self.world().verify().map_err(|error| error.to_string())?;
                let damage = self.world().damage().map_or(Ok(()), |damage| Err(damage.to_owned()));
                damage.map(|()| Facts::new().with("verified", format!("{verified:?}").len()))
            }
            _ => Err(format!("unknown command {words:?}")),
        }
    }

    fn mutator(&self, name: &str) -> TestResult<&Running> {
        self.mutators.get(name).ok_or_else(|| format!("no mutator is called {name}"))
    }

    fn start(&mut self, world: usize, name: &str, kind: &[&str]) -> TestResult<Facts> {
        let world = self.worlds.get(world).ok_or("there is no such world")?;
        let running = Running::start(world, name, Kind::of(kind)?)?;
        let facts = running.facts();
        self.mutators.insert(name.into(), running);
        Ok(facts)
    }

    fn end(&mut self, name: &str) -> TestResult<Facts> {
        let (facts, hidden) =
            self.mutators.remove(name).ok_or_else(|| format!("no mutator is called {name}"))?.end()?;
        self.unkept.extend(hidden);
        Ok(facts)
    }

    /// Each mutator: its name and its thread's id.
    fn threads(&self) -> Facts {
        let all = self.worlds.iter().flat_map(World::threads);
        all.fold(Facts::new(), |facts, thread| facts.with(thread.name.as_str(), thread.tid.0))
    }

    fn collect(&self, times: u32) -> TestResult<Facts> {
        let mut killed = 0;
        let mut last = Facts::new();
        for _ in 0..times {
            last = collected(self.world())?;
            killed += last.number::<u64>("killed")?;
        }
        Ok(last.with("killed", killed))
    }

    fn more_worlds(&mut self, count: usize) -> TestResult<Facts> {
        while self.worlds.len() < count {
            self.worlds.push(build(self.timeout)?);
        }
        Ok(Facts::new())
    }

    fn start_collectors(&mut self) -> TestResult<Facts> {
        self.collectors.extend(self.worlds.iter().cloned().map(Collector::start));
        Ok(Facts::new())
    }

    fn end_collectors(&mut self) -> TestResult<Facts> {
        let mut facts = Facts::new();
        let mut sum = 0;
        for (world, collector) in std::mem::take(&mut self.collectors).into_iter().enumerate() {
            collector.end.store(true, Ordering::Relaxed);
            collector.thread.join().map_err(|_| "a collector panicked")??;
            let collections = collector.collections.load(Ordering::Relaxed);
            sum += collections;
            facts = facts.with(&format!("world{world}"), collections);
        }
        Ok(facts.with("collections", sum))
    }

    /// Starts and ends mutators, four at a time, and collects once for each four.
    fn births(&self, count: usize) -> TestResult<Facts> {
        for round in 0..count.div_ceil(4) {
            let born = (0..4).map(|index| {
                // SAFETY: the body keeps nothing.
                unsafe {
                    self.world().spawn(&format!("born-{round}-{index}"), |m| {
                        m.alloc(stopworld::Leaf(1_u64)).map(drop).map_err(|error| error.to_string())
                    })
                }
            });
            let born: Vec<_> = born.collect();
            collected(self.world())?;
            for child in born {
                let child = child.map_err(|error| error.to_string())?;
                child.join().map_err(|_| "a child panicked")??;
            }
        }
        Ok(Facts::new().with("born", count.div_ceil(4) * 4))
    }

    fn swap(&self, stopper: &str) -> TestResult<Facts> {
        let world = self.world();
        let swapped = match stopper {
            "safepoints" => world.set_thread_vtable(Arc::new(SafepointStopper)),
            "back" => world.set_thread_vtable(inside::taken_out()?),
            _ => return Err(format!("no vtable is called {stopper}")),
        };
        let outgoing = swapped.map_err(|error| error.to_string())?;
        let facts = Facts::new().with("outgoing", outgoing.name());
        if stopper != "back" {
            inside::take_out(outgoing);
        }
        Ok(facts)
    }

    /// From now on new threads stay in `thread_created` until `dwelt`.
    fn dwell(&mut self) -> TestResult<Facts> {
        let dwelling = Dwelling::over_the_one_in_force(self.world())?;
        dwelling.close();
        self.dwelling = Some(dwelling);
        Ok(Facts::new())
    }

    fn dwelling(&self) -> TestResult<&Arc<Dwelling>> {
        self.dwelling.as_ref().ok_or_else(|| "no thread is kept in thread_created".into())
    }

    fn dwelt(&self) -> TestResult<Facts> {
        self.dwelling()?.open();
        Ok(Facts::new())
    }

    fn later(&mut self, name: &str, command: &[&str]) -> TestResult<Facts> {
        let world = self.world().clone();
        let thread = match command {
            ["collect"] => std::thread::spawn(move || collected(&world)),
            ["birth", child] => {
                let child = (*child).to_owned();
                std::thread::spawn(move || Ok(Running::start(&world, &child, Kind::Counting)?.end()?.0))
            }
            ["run", row @ ..] => {
                let row: Vec<String> = row.iter().map(|word| (*word).to_owned()).collect();
                std::thread::spawn(move || rows::run(&world, &row))
            }
            _ => return Err(format!("{command:?} can't be done later")),
        };
        self.later.insert(name.into(), thread);
        Ok(Facts::new())
    }
}

fn number<N: std::str::FromStr>(word: &str) -> TestResult<N> {
    word.parse().map_err(|_| format!("{word:?} is no number"))
}

/// Collects on the calling thread, which belongs to no world.
fn collected(world: &World) -> TestResult<Facts> {
    let begun = Instant::now();
    let report = world.collect().map_err(|error| complaint(&error))?;
    Ok(tell(&report).with("us", begun.elapsed().as_micros()))
}

fn tell(report: &CollectionReport) -> Facts {
    Facts::new()
        .with("number", report.number)
        .with("killed", report.weak_cleared)
        .with("stopped", report.threads_stopped)
        .with("blocking", report.threads_blocking)
}

/// Formats an error as facts that a case can examine.
fn complaint(error: &CollectError) -> String {
    let facts = match error {
        CollectError::Stop(StopError::LockHeld { lock, holder, .. }) => Facts::new()
            .with("kind", "lock-held")
            .with("lock", lock)
            .with("tid", holder.tid)
            .with("name", holder.name.map_or(String::new(), |name| name.to_string()))
            .with("reason", format!("{:?}", holder.reason)),
        CollectError::Stop(StopError::Unanswered { threads, .. }) => Facts::new()
            .with("kind", "unanswered")
            .with("tid", threads.first().map_or(0, |thread| thread.tid.0))
            .with("reason", threads.first().map_or(String::new(), |thread| format!("{:?}", thread.reason))),
        other => Facts::new().with("kind", "other").with("text", other),
    };
    facts.to_string()
}
