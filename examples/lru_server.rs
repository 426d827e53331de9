//! A cache server on the loopback interface. Each connection has a thread; all of them share one cache in the collected heap.
//!
//!     cargo run --release --example lru_server                          test itself, with four clients at once
//!     cargo run --release --example lru_server -- serve 7070 [ENTRIES]  serve, with room for ENTRIES entries
//!     cargo run --release --example lru_server -- client 7070           send the lines of standard input, print the replies
//!
//! Commands: `SET KEY VALUE`, `GET KEY`, `DEL KEY`, `STATS`, `QUIT`; a key is one word. What to look at: the entries are a doubly linked list,
//! which is one cycle after the other, and also the values of a hash map. Evicting an entry means forgetting it: no owner, no
//! reference count, no free list of indices. A thread that reads from a socket is in a `blocking` region, so no collection waits for it.
//! A full heap is a reply (`ERROR …`), not the end of the server. `STATS` counts the entries that were evicted or replaced, and those
//! whose memory a collection has found free since: a finalizer counts them.

use std::error::Error;
use std::fmt::{self, Write as _};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use stopworld::{Gc, GcCell, GcHashMap, GcMutex, JoinHandle, Mutator, OutOfMemory, Root, Trace, World, WorldBuilder};

/// The longest line that the server reads.
const LONGEST_LINE: u64 = 64 << 10;
/// How long the server waits after a connection that it could not accept.
const RETRY_AFTER: Duration = Duration::from_millis(50);
/// How long a client waits for a reply.
const PATIENCE: Duration = Duration::from_secs(60);
const USAGE: &str = "usage: lru_server [serve PORT [ENTRIES] | client PORT]";

/// An entry of the cache. It is in the list of all entries, from the most recently used one to the least.
#[derive(Trace)]
struct Entry {
    key: Gc<str>,
    value: Gc<str>,
    newer: GcCell<Option<Gc<Entry>>>,
    older: GcCell<Option<Gc<Entry>>>,
}

/// A cache of at most `capacity` entries.
#[derive(Trace)]
struct Lru {
    capacity: usize,
    entries: GcHashMap<Gc<str>, Gc<Entry>>,
    newest: Option<Gc<Entry>>,
    oldest: Option<Gc<Entry>>,
    counts: Counts,
}

#[derive(Clone, Copy, Default, Trace)]
struct Counts {
    hits: u64,
    misses: u64,
    evicted: u64,
}

impl Lru {
    fn new(capacity: usize) -> Self {
        Lru { capacity, entries: GcHashMap::new(), newest: None, oldest: None, counts: Counts::default() }
    }

    fn get(&mut self, key: &str) -> Option<Gc<str>> {
        let Some(&entry) = self.entries.get(key) else {
            self.counts.misses += 1;
            return None;
        };
        self.counts.hits += 1;
        self.unlink(entry);
        self.link_as_newest(entry);
        Some(entry.value)
    }

    fn set(&mut self, m: &Mutator, entry: Gc<Entry>) -> Result<(), OutOfMemory> {
        // If there is no memory for a larger table, the cache is as it was.
        if let Some(former) = self.entries.insert(m, entry.key, entry)? {
            self.unlink(former);
        }
        self.link_as_newest(entry);
        if self.entries.len() > self.capacity
            && let Some(oldest) = self.oldest
        {
            self.remove(&oldest.key);
            self.counts.evicted += 1;
        }
        Ok(())
    }

    fn remove(&mut self, key: &str) -> bool {
        let removed = self.entries.remove(key);
        removed.inspect(|&entry| self.unlink(entry)).is_some()
    }

    fn link_as_newest(&mut self, entry: Gc<Entry>) {
        entry.older.set(self.newest);
        match self.newest {
            Some(newest) => newest.newer.set(Some(entry)),
            None => self.oldest = Some(entry),
        }
        self.newest = Some(entry);
    }

    fn unlink(&mut self, entry: Gc<Entry>) {
        let (newer, older) = (entry.newer.replace(None), entry.older.replace(None));
        match newer {
            Some(newer) => newer.older.set(older),
            None => self.newest = older,
        }
        match older {
            Some(older) => older.newer.set(newer),
            None => self.oldest = newer,
        }
    }
}

/// What the threads share: the cache, and the number of entries that are gone.
#[derive(Clone)]
pub struct Shared {
    cache: Root<GcMutex<Lru>>,
    freed: Arc<AtomicU64>,
}

impl Shared {
    fn new(m: &Mutator, capacity: usize) -> Result<Self, OutOfMemory> {
        let cache = m.alloc(GcMutex::new(Lru::new(capacity)))?;
        Ok(Shared { cache: m.root(cache), freed: Arc::default() })
    }

    /// Executes a command, and returns the reply. `None` ends the connection.
    fn execute(&self, m: &Mutator, line: &str) -> Option<String> {
        let (command, rest) = line.split_once(' ').unwrap_or((line, ""));
        let cache = self.cache.get(m);
        Some(match (command, rest.split_once(' ').unwrap_or((rest, ""))) {
            ("QUIT", _) => return None,
            ("STATS", _) => self.statistics(m),
            ("GET" | "DEL" | "SET", ("", _)) => format!("ERROR {command} needs a key"),
            ("GET", (key, "")) => {
                // The lock is held for this line only, not while the reply is formatted.
                let value = cache.lock(m).get(key);
                value.map_or_else(|| "MISSING".to_owned(), |value| format!("VALUE {value}"))
            }
            ("DEL", (key, "")) => {
                let removed = cache.lock(m).remove(key);
                if removed { "DELETED" } else { "MISSING" }.to_owned()
            }
            ("SET", (key, value)) => match self.set(m, key, value) {
                Ok(()) => "STORED".to_owned(),
                Err(full) => format!("ERROR {key} is not stored: {full}"),
            },
            _ => format!("ERROR {command:?} with {rest:?}: not GET KEY, SET KEY VALUE, DEL KEY, STATS or QUIT"),
        })
    }

    fn set(&self, m: &Mutator, key: &str, value: &str) -> Result<(), OutOfMemory> {
        // Allocated before the lock is taken: an allocation may collect, and the other threads need not wait for that.
        let (key, value) = (m.alloc_str(key)?, m.alloc_str(value)?);
        let entry = m.alloc(Entry { key, value, newer: GcCell::new(None), older: GcCell::new(None) })?;
        let freed = Arc::clone(&self.freed);
        m.set_finalizer(entry, move |_, _| {
            freed.fetch_add(1, Ordering::Relaxed);
        })?;
        self.cache.get(m).lock(m).set(m, entry)
    }

    fn statistics(&self, m: &Mutator) -> String {
        let cache = self.cache.get(m);
        let (entries, capacity, counts) = {
            let lru = cache.lock(m);
            (lru.entries.len(), lru.capacity, lru.counts)
        };
        let Counts { hits, misses, evicted } = counts;
        let (freed, collections) = (self.freed.load(Ordering::Relaxed), m.world().totals().collections);
        format!(
            "STATS entries={entries} capacity={capacity} hits={hits} misses={misses} evicted={evicted} freed={freed} \
             collections={collections}"
        )
    }

    /// Collects until at least one of `evicted` entries was freed.
    fn wait_for_freed(&self, world: &World, evicted: usize) -> Result<(), Box<dyn Error>> {
        let deadline = Instant::now() + PATIENCE;
        while evicted > 0 && self.freed.load(Ordering::Relaxed) == 0 {
            if Instant::now() > deadline {
                return Err(format!("none of {evicted} evicted entries was freed").into());
            }
            world.collect()?;
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Serves one connection until the client leaves.
    fn serve(&self, m: &Mutator, stream: TcpStream) -> io::Result<()> {
        let mut requests = BufReader::new(stream.try_clone()?);
        let mut replies = stream;
        let mut line = Vec::new();
        loop {
            line.clear();
            // The region captures nothing that is collected: the compiler checks that.
            let read = m.blocking(|| requests.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line))?;
            let whole = line.strip_suffix(b"\n");
            let reply = match whole.map(str::from_utf8) {
                Some(Ok(request)) => self.execute(m, request.trim_end_matches('\r')),
                Some(Err(error)) => Some(format!("ERROR the line is not UTF-8: {error}")),
                None if read as u64 == LONGEST_LINE => {
                    Some(format!("ERROR a line is longer than {LONGEST_LINE} bytes"))
                }
                // The client has left. If it did so within a line, that is not a request: its end may be missing.
                None => None,
            };
            let Some(mut reply) = reply else { return Ok(()) };
            reply.push('\n');
            m.blocking(|| replies.write_all(reply.as_bytes()))?;
            if whole.is_none() {
                return Ok(());
            }
        }
    }
}

/// Serves each connection on a thread of its own. Returns when there are no more and all have ended. A connection that fails ends alone.
///
/// # Errors
/// A connection panicked.
pub fn accept(
    world: &World,
    connections: impl Iterator<Item = io::Result<TcpStream>>,
    shared: &Shared,
) -> Result<(), Box<dyn Error>> {
    let (mut threads, mut panics) = (Vec::new(), 0);
    for (number, stream) in connections.enumerate() {
        let stream = match stream {
            Ok(stream) => stream,
            Err(error) => {
                eprintln!("lru_server: a connection was not accepted: {error}");
                // There may be no descriptor or no memory until other connections end.
                std::thread::sleep(RETRY_AFTER);
                continue;
            }
        };
        let shared = shared.clone();
        let serve = move |m: &Mutator| match shared.serve(m, stream) {
            Ok(()) => {}
            Err(error) => eprintln!("lru_server: {}: {error}", m.name()),
        };
        // SAFETY: `serve` keeps every `Gc` in local variables, in collected objects and in a `Root`.
        match unsafe { world.spawn(&format!("connection-{number}"), serve) } {
            Ok(thread) => threads.push((number, thread)),
            Err(error) => eprintln!("lru_server: connection-{number} has no thread: {error}"),
        }
        let ended = threads.extract_if(.., |(_, thread)| thread.is_finished());
        panics += ended.filter_map(join).count();
    }
    panics += threads.into_iter().filter_map(join).count();
    if panics == 0 { Ok(()) } else { Err(format!("{panics} connections panicked").into()) }
}

/// Waits for the end of a connection. Reports a panic, and returns the number of the connection then.
fn join((number, thread): (usize, JoinHandle<()>)) -> Option<usize> {
    thread.join().err().map(|_| {
        eprintln!("lru_server: connection-{number} panicked");
        number
    })
}

/// Makes the cache of a new world, on a thread that leaves nothing of it on a stack.
pub fn cache(world: &World, capacity: usize) -> Result<Shared, Box<dyn Error>> {
    // SAFETY: the thread keeps every `Gc` in local variables.
    let maker = unsafe { world.spawn("maker", move |m| Shared::new(m, capacity)) }?;
    Ok(maker.join().map_err(|_| "the cache could not be made")??)
}

/// The client's end of a connection.
struct Client {
    requests: TcpStream,
    replies: BufReader<TcpStream>,
}

impl Client {
    fn connect(port: u16) -> io::Result<Client> {
        let requests = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        requests.set_nodelay(true)?;
        requests.set_read_timeout(Some(PATIENCE))?;
        requests.set_write_timeout(Some(PATIENCE))?;
        Ok(Client { replies: BufReader::new(requests.try_clone()?), requests })
    }

    fn ask(&mut self, request: fmt::Arguments<'_>) -> io::Result<String> {
        let mut line = request.to_string();
        line.push('\n');
        self.requests.write_all(line.as_bytes())?;
        let mut reply = String::new();
        self.replies.read_line(&mut reply)?;
        reply.truncate(reply.trim_end().len());
        Ok(reply)
    }
}

/// The number of entries of the caches that are tested with numbered keys.
const ROOM: usize = 100;
const SESSION: [&str; 12] = [
    "SET one 1",
    "SET two 2",
    "SET three 3",
    "GET one",
    "SET four 4",
    "GET two",
    "SET one uno",
    "GET one",
    "DEL three",
    "DEL three",
    "GET",
    "FLUSH all",
];

/// Stores and reads numbered keys, as many as `requests`. Returns how many replies were wrong. Another client may have evicted a key at any
/// time, but may not change its value. A client that is `alone` finds each key that it reads: it is one of its last fifty.
fn work(client: &mut Client, name: usize, requests: usize, alone: bool) -> io::Result<usize> {
    let mut wrong = 0;
    for request in 0..requests / 2 {
        let stored = client.ask(format_args!("SET {name}:{request} value {request} of client {name}"))?;
        let before = request.saturating_sub(request * 7 % 50);
        let read = client.ask(format_args!("GET {name}:{before}"))?;
        let right = read == format!("VALUE value {before} of client {name}") || (read == "MISSING" && !alone);
        wrong += usize::from(stored != "STORED") + usize::from(!right);
    }
    Ok(wrong)
}

/// Runs a server with room for three entries, and one client that shows the protocol; then servers with room for a hundred, with one
/// client, and with `clients` at once. Prints the same with each run, whatever the collector does.
pub fn self_test(world: &World, clients: usize, requests: usize, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    let (small, alone, large) = (cache(world, 3)?, cache(world, ROOM)?, cache(world, ROOM)?);
    let mut transcript = String::new();
    let (wrong_alone, statistics, wrong) = std::thread::scope(|threads| -> Result<_, Box<dyn Error>> {
        let client = threads.spawn(move || {
            let mut client = Client::connect(port)?;
            SESSION.iter().map(|line| Ok((line, client.ask(format_args!("{line}"))?))).collect::<io::Result<Vec<_>>>()
        });
        accept(world, listener.incoming().take(1), &small)?;
        for (request, reply) in client.join().map_err(|_| "the client panicked")?? {
            writeln!(transcript, "{request:12} -> {reply}")?;
        }
        let client = threads.spawn(move || -> io::Result<_> {
            let mut client = Client::connect(port)?;
            Ok((work(&mut client, 0, requests, true)?, client.ask(format_args!("STATS"))?))
        });
        accept(world, listener.incoming().take(1), &alone)?;
        let (wrong_alone, statistics) = client.join().map_err(|_| "the client panicked")??;
        let work = |name| work(&mut Client::connect(port)?, name, requests, false);
        let clients: Vec<_> = (0..clients).map(|name| threads.spawn(move || work(name))).collect();
        accept(world, listener.incoming().take(clients.len()), &large)?;
        let results = clients.into_iter().map(|client| client.join().unwrap_or(Ok(requests)));
        Ok((wrong_alone, statistics, results.sum::<io::Result<usize>>()?))
    })?;
    let pairs = requests / 2;
    let evicted = pairs.saturating_sub(ROOM);
    let expected =
        format!("STATS entries={} capacity={ROOM} hits={pairs} misses=0 evicted={evicted} ", pairs.min(ROOM));
    if !statistics.starts_with(&expected) {
        return Err(format!("{statistics}, expected {expected}").into());
    }
    alone.wait_for_freed(world, evicted)?;
    write!(out, "{transcript}")?;
    writeln!(out, "1 client, {requests} requests: {wrong_alone} wrong replies")?;
    writeln!(out, "{clients} clients at once, {requests} requests each: {wrong} wrong replies")?;
    // SAFETY: this thread uses a `Gc` only in `statistics`, which keeps it in a local variable.
    let m = unsafe { world.attach("statistics") }?;
    writeln!(io::stderr(), "{}", large.statistics(&m))?;
    let wrong = wrong_alone + wrong;
    if wrong == 0 { Ok(()) } else { Err(format!("{wrong} wrong replies").into()) }
}

/// Runs the program with these arguments.
pub fn run(builder: WorldBuilder, arguments: &[&str], out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let parsed = |port: &str| port.parse().map_err(|_| USAGE);
    match *arguments {
        [] => self_test(&builder.build()?, 4, 10_000, out),
        ["serve", port] => serve(&builder.build()?, parsed(port)?, 100_000),
        ["serve", port, entries] => serve(&builder.build()?, parsed(port)?, entries.parse().map_err(|_| USAGE)?),
        ["client", port] => {
            let mut client = Client::connect(parsed(port)?)?;
            io::stdin().lines().try_for_each(|line| Ok(writeln!(out, "{}", client.ask(format_args!("{}", line?))?)?))
        }
        _ => Err(USAGE.into()),
    }
}

fn serve(world: &World, port: u16, capacity: usize) -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    eprintln!("lru_server: port {}, room for {capacity} entries", listener.local_addr()?.port());
    accept(world, listener.incoming(), &cache(world, capacity)?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    run(World::builder().heap_limit(256 << 20), &arguments, &mut io::stdout().lock())
}
