//! A graph database: nodes with properties, edges with labels, queries, and indexes that keep nothing alive.
//!
//!     cargo run --release --example graph_db               run the demonstration (`TOUR` below)
//!     cargo run --release --example graph_db -- FILE       execute the commands of a file (`-`: of standard input)
//!
//! What to look at: a node lives as long as a name, or an edge from a living node, leads to it. There is no command that deletes a node, and no code
//! for it. `forget` takes a name away, `collect` collects, and the nodes that nothing leads to any more are gone, with rings of them, with
//! their edges, and with their entries in all indexes, because the indexes are `WeakMap`s. A path is found with a deque and a map
//! whose keys are the nodes themselves, not numbers that stand for them.
//!
//! ```text
//! node NAME LABEL [KEY=VALUE]…     edge FROM LABEL TO         unlink FROM LABEL TO      forget NAME
//! match LABEL [KEY=VALUE]…         path FROM TO               edges NAME                collect        count
//! ```

use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::ops::ControlFlow;
use std::process::ExitCode;

use stopworld::{
    ByAddress, Gc, GcDeque, GcHashMap, GcMutex, GcVec, Mutator, OutOfMemory, Root, Trace, WeakMap, World, WorldBuilder,
};

const USAGE: &str = "usage: graph_db [FILE | -]";

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

#[derive(Trace)]
struct Node {
    /// The name that the node had at first. Another node may have it today.
    name: Gc<str>,
    label: Gc<str>,
    properties: GcHashMap<Gc<str>, Gc<str>>,
    edges: GcMutex<GcVec<Edge>>,
}

#[derive(Clone, Copy, Trace)]
struct Edge {
    label: Gc<str>,
    to: Gc<Node>,
}

/// Nodes by something that they have. The value is the number of the node, in the order in which the nodes were made.
type Index = WeakMap<Node, u64>;

#[derive(Default, Trace)]
struct Graph {
    /// The only references that keep nodes alive, with the edges of these nodes.
    names: GcHashMap<Gc<str>, Gc<Node>>,
    by_label: GcHashMap<Gc<str>, Index>,
    /// By key and value of a property.
    by_property: GcHashMap<Gc<str>, GcHashMap<Gc<str>, Index>>,
    all: Index,
    made: u64,
}

impl Graph {
    fn add(&mut self, m: &Mutator, name: &str, label: &str, properties: &[(&str, &str)]) -> Result<(), OutOfMemory> {
        let (name, label) = (m.alloc_str(name)?, m.alloc_str(label)?);
        let mut own = GcHashMap::new();
        for (key, value) in properties {
            own.insert(m, m.alloc_str(key)?, m.alloc_str(value)?)?;
        }
        let node = m.alloc(Node { name, label, properties: own, edges: GcMutex::new(GcVec::new()) })?;
        self.made += 1;
        self.all.insert(m, node, self.made)?;
        self.by_label.entry(label).or_default(m)?.insert(m, node, self.made)?;
        for (&key, &value) in &node.properties {
            let values = self.by_property.entry(key).or_default(m)?;
            values.entry(value).or_default(m)?.insert(m, node, self.made)?;
        }
        self.names.insert(m, name, node)?;
        Ok(())
    }

    fn named(&self, name: &str) -> Outcome<Gc<Node>> {
        self.names.get(name).copied().ok_or_else(|| format!("no node is named {name}").into())
    }

    fn connect(&self, m: &Mutator, from: &str, label: &str, to: &str) -> Outcome<()> {
        let edge = Edge { label: m.alloc_str(label)?, to: self.named(to)? };
        self.named(from)?.edges.lock(m).push(m, edge)?;
        Ok(())
    }

    fn disconnect(&self, m: &Mutator, from: &str, label: &str, to: &str) -> Outcome<()> {
        let (from, to) = (self.named(from)?, self.named(to)?);
        from.edges.lock(m).retain(|edge| *edge.label != *label || !Gc::ptr_eq(edge.to, to));
        Ok(())
    }

    /// Returns the nodes with a label and with these properties, in the order in which they were made. Walks through the smallest index.
    fn find(&self, m: &Mutator, label: &str, properties: &[(&str, &str)]) -> Result<GcVec<Gc<Node>>, OutOfMemory> {
        let nothing = Index::new();
        let of_property = |&(key, value): &(&str, &str)| self.by_property.get(key).and_then(|values| values.get(value));
        let indexes = std::iter::once(self.by_label.get(label)).chain(properties.iter().map(of_property));
        let indexes: Vec<&Index> = indexes.map(|index| index.unwrap_or(&nothing)).collect();
        let smallest = indexes.iter().copied().min_by_key(|index| index.len()).unwrap_or(&nothing);
        let matching = smallest.iter().filter(|(node, _)| indexes.iter().all(|index| index.contains_key(*node)));
        let mut found = GcVec::from_iter(m, matching.map(|(node, &number)| (number, node)))?;
        found.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        GcVec::from_iter(m, found.into_iter().map(|(_, node)| node))
    }

    /// Returns the edges of a shortest path, or `None` if there is none.
    fn path(&self, m: &Mutator, from: Gc<Node>, to: Gc<Node>) -> Result<Option<GcVec<Edge>>, OutOfMemory> {
        // Where the search came from to each node that it has reached, and by which edge.
        let mut reached: GcHashMap<ByAddress<Node>, Option<(Gc<Node>, Edge)>> = GcHashMap::new();
        reached.insert(m, ByAddress(from), None)?;
        let mut queue = GcDeque::from_iter(m, [from])?;
        while let Some(node) = queue.pop_front() {
            if Gc::ptr_eq(node, to) {
                let (mut path, mut last) = (GcVec::new(), node);
                while let Some((before, edge)) = reached[&ByAddress(last)] {
                    path.push(m, edge)?;
                    last = before;
                }
                path.reverse();
                return Ok(Some(path));
            }
            for &edge in node.edges.lock(m).iter() {
                if !reached.contains_key(&ByAddress(edge.to)) {
                    reached.insert(m, ByAddress(edge.to), Some((node, edge)))?;
                    queue.push_back(m, edge.to)?;
                }
            }
        }
        Ok(None)
    }

    /// Executes one command, and prints its result.
    fn execute(&mut self, m: &Mutator, command: &str, out: &mut dyn Write) -> Outcome<()> {
        let words: Vec<&str> = command.split_whitespace().collect();
        match *words.as_slice() {
            [] | ["#", ..] => {}
            ["node", name, label, ref properties @ ..] => self.add(m, name, label, &pairs(properties)?)?,
            ["edge", from, label, to] => self.connect(m, from, label, to)?,
            ["unlink", from, label, to] => self.disconnect(m, from, label, to)?,
            ["forget", name] => _ = self.names.remove(name).ok_or_else(|| format!("no node is named {name}"))?,
            ["match", label, ref properties @ ..] => {
                let properties = pairs(properties)?;
                for node in self.find(m, label, &properties)? {
                    write!(out, "  {}", node.name)?;
                    for (key, value) in &node.properties {
                        write!(out, " {key}={value}")?;
                    }
                    writeln!(out)?;
                }
            }
            ["edges", name] => {
                for edge in self.named(name)?.edges.lock(m).iter() {
                    writeln!(out, "  {name} -{}-> {}", edge.label, edge.to.name)?;
                }
            }
            ["path", from, to] => match self.path(m, self.named(from)?, self.named(to)?)? {
                None => writeln!(out, "  no path from {from} to {to}")?,
                Some(path) => {
                    write!(out, "  {from}")?;
                    for edge in path {
                        write!(out, " -{}-> {}", edge.label, edge.to.name)?;
                    }
                    writeln!(out)?;
                }
            },
            ["count"] => {
                let of_properties = self.by_property.values().flat_map(GcHashMap::values);
                let indexed: usize = self.by_label.values().chain(of_properties).map(Index::len).sum();
                let (names, nodes) = (self.names.len(), self.all.len());
                writeln!(out, "  {names} names, {nodes} nodes, {indexed} index entries")?;
            }
            _ => return Err("not a command with its arguments: the head of graph_db.rs lists them".into()),
        }
        Ok(())
    }
}

/// Splits words of the form `KEY=VALUE`.
fn pairs<'a>(words: &[&'a str]) -> Outcome<Vec<(&'a str, &'a str)>> {
    words.iter().map(|word| word.split_once('=').ok_or_else(|| format!("{word} is not KEY=VALUE").into())).collect()
}

/// Commands that show the database.
pub const TOUR: &str = "\
node ada person born=1815 field=mathematics
node charles person born=1791 field=mathematics
node mary person born=1780 field=astronomy
node joseph person born=1752 field=weaving
node engine machine material=brass
node loom machine material=wood
node notes paper year=1843
node draft paper year=1843
edge ada knows charles
edge ada knows mary
edge mary teaches ada
edge charles designed engine
edge joseph designed loom
edge engine inspired-by loom
edge ada wrote notes
edge notes describes engine
edge draft replaces notes
# All mathematicians; then all papers of a year.
match person field=mathematics
match paper year=1843
path mary loom
path loom mary
count
# Without its name, the draft is unreachable. The notes are not: ada wrote them. Two machines are still in use.
forget draft
forget notes
forget engine
forget loom
collect
match paper year=1843
match machine
count
# Mary and ada refer to each other; that does not keep them alive.
forget mary
forget ada
collect
match person
match paper
path charles joseph
edges charles
count
";

/// Executes the commands of `input` in a new world. Prints each query before its result.
pub fn run(builder: WorldBuilder, input: &mut (impl BufRead + Send), out: &mut (impl Write + Send)) -> Outcome<()> {
    let world = builder.build()?;
    // SAFETY: the thread keeps every `Gc` in local variables and in collected objects.
    let maker =
        unsafe { world.spawn("maker", |m| m.alloc(GcMutex::new(Graph::default())).map(|graph| m.root(graph))) }?;
    let graph = maker.join().map_err(|_| "the maker panicked")??;
    let mut line = 0;
    loop {
        let session = std::thread::scope(|threads| {
            threads.spawn(|| session(&world, &graph, input, &mut line, out)).join().map_err(|_| "the session panicked")
        });
        if session??.is_break() {
            return Ok(());
        }
        world.collect()?;
    }
}

/// Executes commands up to the end, or up to `collect`. That collection takes place when this thread is gone. A stack is scanned
/// conservatively: while the thread is here, an old word on its stack could keep a node alive that has been forgotten.
fn session(
    world: &World,
    graph: &Root<GcMutex<Graph>>,
    input: &mut (impl BufRead + Send),
    line: &mut usize,
    out: &mut (impl Write + Send),
) -> Outcome<ControlFlow<()>> {
    // SAFETY: this thread keeps every `Gc` and every collection in local variables and in collected objects.
    let m = &unsafe { world.attach("session") }?;
    let mut text = String::new();
    loop {
        text.clear();
        // While this thread waits for a command or for its reader, collections need not wait for it.
        if m.blocking(|| input.read_line(&mut text))? == 0 {
            return Ok(ControlFlow::Break(()));
        }
        let command = text.trim_end_matches(['\r', '\n']);
        *line += 1;
        if command == "collect" {
            return Ok(ControlFlow::Continue(()));
        }
        let mut result = Vec::new();
        if ["match", "path", "edges", "count", "#"].iter().any(|query| command.starts_with(query)) {
            writeln!(result, "{command}")?;
        }
        let executed = graph.get(m).lock(m).execute(m, command, &mut result);
        m.blocking(|| out.write_all(&result))?;
        executed.map_err(|error| format!("line {line}: {command}: {error}"))?;
    }
}

/// Runs the program with these arguments. Returns its exit status.
pub fn start(builder: WorldBuilder, arguments: &[&str], out: &mut (impl Write + Send)) -> Outcome<u8> {
    match *arguments {
        [] => run(builder, &mut TOUR.as_bytes(), out)?,
        ["-"] => run(builder, &mut BufReader::new(std::io::stdin()), out)?,
        ["--help"] => writeln!(out, "{USAGE}")?,
        [file] if !file.starts_with('-') => {
            let commands = File::open(file).map_err(|error| format!("{file}: {error}"))?;
            run(builder, &mut BufReader::new(commands), out)?;
        }
        _ => {
            eprintln!("{USAGE}");
            return Ok(2);
        }
    }
    Ok(0)
}

fn main() -> Outcome<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    Ok(start(World::builder().heap_limit(256 << 20), &arguments, &mut std::io::stdout())?.into())
}
