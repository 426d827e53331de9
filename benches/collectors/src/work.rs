//! The work of the three programs: what is asked of them, in which order. It is the same for each collector and in each run.

use std::fmt::Write;
use std::time::{Duration, Instant};

use crate::language::{self, Function};

/// A cache of texts that keeps the most recently used ones: the core of `examples/lru_server.rs`.
pub trait Cache {
    /// Returns the checksum of the text.
    fn get(&mut self, key: &str) -> Option<u64>;
    fn set(&mut self, key: &str, value: &str);
    fn delete(&mut self, key: &str) -> bool;
}

/// An interpreter: the core of `examples/script`.
pub trait Script {
    /// Calls the function that the program is.
    fn call(&mut self, argument: f64) -> f64;
}

/// A graph whose nodes are found by a property: the core of `examples/graph_db.rs`.
pub trait Graph {
    /// Adds a node, and an edge between it and each neighbour, in both directions.
    fn add(&mut self, id: u64, property: u64, neighbours: &[u64]);
    /// Removes a node with its edges.
    fn delete(&mut self, id: u64);
    /// Returns the number of nodes with a property, and the sum of their ids.
    fn find(&self, property: u64) -> (u64, u64);
    /// Returns the sum of the ids of the first `limit` nodes that a breadth-first search from a node visits.
    fn reach(&mut self, id: u64, limit: usize) -> u64;
}

/// Measures operations.
pub struct Meter {
    checksum: u64,
    worst: Duration,
    began: Instant,
    last: Instant,
}

impl Meter {
    fn begin() -> Self {
        let now = Instant::now();
        Meter { checksum: 0, worst: Duration::ZERO, began: now, last: now }
    }

    /// Notes the result of an operation, which took the time since the last one.
    fn note(&mut self, result: u64) {
        let now = Instant::now();
        self.worst = self.worst.max(now - self.last);
        self.last = now;
        self.checksum = self.checksum.rotate_left(5) ^ result.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    /// The line that `contender` prints.
    pub fn line(&self) -> String {
        let (time, worst) = ((self.last - self.began).as_secs_f64() * 1e3, self.worst.as_secs_f64() * 1e3);
        format!("checksum={} time_ms={time:.3} worst_ms={worst:.3} memory_mib={:.3}", self.checksum, peak_mib())
    }
}

/// The largest amount of physical memory that this process has had.
fn peak_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc is mounted");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the kernel prints VmHWM");
    line.trim_end_matches("kB").trim().parse::<f64>().expect("VmHWM is a number") / 1024.0
}

/// A xorshift generator.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// A checksum of a text that costs little, but reads it.
pub fn sum(text: &str) -> u64 {
    text.len() as u64 + u64::from(text.as_bytes()[text.len() / 2])
}

/// How large a program is: `Small` for tests.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Size {
    Small,
    Full,
}

impl Size {
    /// The number of entries of the cache.
    pub fn capacity(self) -> usize {
        if self == Size::Small { 500 } else { 100_000 }
    }
}

/// Half of the requests ask for one of a tenth of the keys. Two in three read.
pub fn drive_cache(size: Size, cache: &mut dyn Cache) -> Meter {
    const TEXT: &str = "The quick brown fox jumps over the lazy dog, and the collector finds what is left of the texts that it has read \
                        on its way through the cache: nothing that anyone would ever ask for again, so it is forgotten, and its place free.";
    let (capacity, requests) = (size.capacity() as u64, if size == Size::Small { 5_000 } else { 2_000_000 });
    let (mut random, mut key, mut meter) = (Random(88_172_645_463_325_252), String::new(), Meter::begin());
    for _ in 0..requests {
        let keys = if random.below(2) == 0 { capacity / 5 } else { 2 * capacity };
        key.clear();
        write!(key, "user:{}", random.below(keys)).expect("a string grows");
        let result = match random.below(12) {
            0..8 => cache.get(&key).unwrap_or(1),
            8..11 => {
                cache.set(&key, &TEXT[..32 + random.below(160) as usize]);
                2
            }
            _ => u64::from(cache.delete(&key)),
        };
        meter.note(result);
    }
    meter
}

/// The program that `Script` interprets.
pub fn program() -> &'static Function {
    language::parse(include_str!("program.lisp"))
}

/// Calls the program with one number after the other.
pub fn drive_script(size: Size, script: &mut dyn Script) -> Meter {
    let calls = if size == Size::Small { 60 } else { 6_000 };
    let mut meter = Meter::begin();
    for call in 0..calls {
        let result = script.call(f64::from(call));
        meter.note(result as u64);
    }
    meter
}

/// After the first nodes, three operations in ten add a node, three delete one, three find nodes by a property, and one searches a neighbourhood.
pub fn drive_graph(size: Size, graph: &mut dyn Graph) -> Meter {
    let (nodes, operations) = if size == Size::Small { (300, 3_000) } else { (50_000, 600_000) };
    let (properties, mut random, mut meter) = (nodes / 20, Random(88_172_645_463_325_252), Meter::begin());
    let (mut alive, mut next): (Vec<u64>, u64) = (Vec::new(), 0);
    for operation in 0..nodes + operations {
        let any = |random: &mut Random| alive[random.below(alive.len() as u64) as usize];
        let choice = if operation < nodes { 0 } else { random.below(10) };
        let result = match choice {
            0..3 => {
                let neighbours: Vec<u64> = (0..alive.len().min(3)).map(|_| any(&mut random)).collect();
                graph.add(next, random.below(properties), &neighbours);
                alive.push(next);
                next += 1;
                next
            }
            3..6 => {
                let id = alive.swap_remove(random.below(alive.len() as u64) as usize);
                graph.delete(id);
                id
            }
            6..9 => {
                let (count, ids) = graph.find(random.below(properties));
                count ^ ids
            }
            _ => {
                let from = any(&mut random);
                graph.reach(from, 50)
            }
        };
        meter.note(result);
    }
    meter
}
