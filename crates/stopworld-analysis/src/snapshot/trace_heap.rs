//! A heap dump in a .nettrace file as a [`Heap`]: 2 bytes of memory for each object if the objects of each page are in order, else 12
//! to 22, and up to 30 while the dump is opened.
//!
//! The file is read once to find the dump and to number its objects, once to count the references whose target is in the dump, and once
//! for each visit.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;

use super::assemble::{Edge, Node};
use super::dumps::{DumpVisitor, Dumps};
use heap_snapshot::{Addresses, AddressesBuilder, Error, Heap, Label, Object, Reference, Root, RootGroup};
use nettrace::{Reader, Summary};

/// Why a trace is no heap.
#[derive(Debug, thiserror::Error)]
pub enum TraceHeapError {
    /// The file has no heap dump.
    #[error(
        "the trace has no heap dump{}: record one with `stopworld run … --events GC+Type+GCHeapDump`, or `stopworld snapshot PID`",
        .0.as_deref().map_or(String::new(), |damage| format!(" (it is damaged {damage})"))
    )]
    NoDump(Option<String>),
    /// No collection with this number has a complete dump.
    #[error("collection {wanted} has no complete heap dump; those that have one: {}", listed(.found))]
    NoSuchCollection {
        /// The requested number.
        wanted: i32,
        /// The collections with a complete dump.
        found: Vec<i32>,
    },
    /// Dumps of several worlds are possible.
    #[error(
        "the {} heap dumps of several worlds: --world selects one of {} (numbers of the trace, in the order in which the worlds \
         first appear in it)",
        .collection.map_or("trace has".to_owned(), |number| format!("collections with number {number} have")),
        listed(.worlds)
    )]
    SeveralWorlds {
        /// The requested number of a collection.
        collection: Option<i32>,
        /// The numbers of the worlds.
        worlds: Vec<u16>,
    },
    /// No world with this number has a complete dump.
    #[error("world {wanted} has no complete heap dump in the trace; those that have one: {}", listed(.found))]
    NoSuchWorld {
        /// The requested number.
        wanted: u64,
        /// The worlds with a complete dump.
        found: Vec<u16>,
    },
    /// All dumps have gaps.
    #[error(
        "the heap dump of collection {collection} is incomplete: {missing} references or events are missing; record to a file \
         (`stopworld run … --trace`), which loses no events"
    )]
    Incomplete {
        /// The number of the collection.
        collection: i32,
        /// The number of missing references and events.
        missing: u64,
    },
    /// The trace ends inside its only dump.
    #[error("the trace ends inside the heap dump of collection {0}: record until the collection is over")]
    CutOff(i32),
    /// The heap exceeds a limit.
    #[error(transparent)]
    Heap(#[from] Error),
}

fn listed(numbers: &[impl ToString]) -> String {
    let all: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    if all.is_empty() { "none".to_owned() } else { all.join(", ") }
}

/// Which dump of a trace is used. The default is the last one that is complete and has objects; if none has objects, the last one that is complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DumpChoice {
    /// The number of the collection with the dump.
    pub collection: Option<i32>,
    /// The number of the world in the trace (`ClrInstanceID`). Needed if several worlds have a dump with objects.
    pub world: Option<u64>,
}

/// A callback that receives the number of bytes read; the numbers of a reading add up to the length of the file.
pub type OnRead = Box<dyn Fn(u64) + Send + Sync>;

/// A trace file and its progress callback.
struct Trace {
    file: File,
    on_read: OnRead,
}

impl std::fmt::Debug for Trace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trace").field("file", &self.file).finish_non_exhaustive()
    }
}

impl Trace {
    fn read(&self, visitor: &mut impl DumpVisitor) -> Summary {
        let mut source = Positioned { trace: self, at: 0 };
        let summary = Reader::new(&mut source).in_file_order().read(&mut Dumps::new(visitor));
        // What follows the dump is not read.
        let length = self.file.metadata().map_or(0, |file| file.len());
        (self.on_read)(length.saturating_sub(source.at));
        summary
    }
}

/// A heap dump in a file.
#[derive(Debug)]
pub struct TraceHeap {
    trace: Trace,
    /// The number of the dump in the file.
    dump: usize,
    collection: i32,
    /// The numbers of the collections with a complete dump.
    complete: Vec<i32>,
    type_names: Vec<String>,
    type_indices: HashMap<u64, u32>,
    groups: Vec<RootGroup>,
    roots: Vec<Root>,
    addresses: Addresses,
    references: u64,
    left_out: u64,
    /// Whether fields are offsets. The .NET runtime writes 0 for each field.
    has_fields: bool,
    damage: Option<String>,
}

impl TraceHeap {
    /// Finds a dump in a .nettrace file.
    ///
    /// # Errors
    /// The trace has no such dump, the dump has gaps, or several worlds have one.
    pub fn open(file: File, choice: DumpChoice) -> Result<TraceHeap, TraceHeapError> {
        TraceHeap::open_watched(file, choice, Box::new(|_| ()))
    }

    /// Like [`open`](Self::open), which reads the file twice. `on_read` is called then, and in each visit, which reads it again.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn open_watched(file: File, choice: DumpChoice, on_read: OnRead) -> Result<TraceHeap, TraceHeapError> {
        let trace = Trace { file, on_read };
        let mut scan = Scan { wanted: choice, ..Scan::default() };
        let summary = trace.read(&mut scan);
        let damage = summary.damage.map(|damage| damage.to_string());
        if let Some(several) = scan.several_worlds() {
            return Err(several);
        }
        let Some(found) = scan.best else { return Err(scan.failure(damage)) };
        let mut type_indices = HashMap::new();
        let mut type_names = Vec::new();
        for type_id in found.types {
            type_indices.insert(type_id, type_names.len() as u32);
            type_names.push(scan.names.get(&type_id).cloned().unwrap_or_else(|| unnamed(type_id)));
        }
        let mut heap = TraceHeap {
            trace,
            dump: found.dump,
            collection: found.collection,
            complete: scan.complete,
            type_names,
            type_indices,
            groups: found.groups,
            roots: Vec::new(),
            addresses: found.addresses.finish()?,
            references: 0,
            left_out: 0,
            has_fields: found.has_fields,
            damage,
        };
        for (group, address, object) in found.roots {
            match heap.addresses.find(object) {
                Some(target) => heap.roots.push(Root { target, group, address }),
                None => heap.left_out += 1,
            }
        }
        let (mut references, mut all) = (0, 0);
        heap.each(&mut |_, edges| {
            all += edges.len() as u64;
            references += edges.iter().filter(|edge| heap.addresses.find(edge.0).is_some()).count() as u64;
            ControlFlow::Continue(())
        });
        heap.references = references;
        heap.left_out += all - references;
        Ok(heap)
    }

    /// The number of the collection with the dump.
    pub fn collection(&self) -> i32 {
        self.collection
    }

    /// The numbers of the collections that have a complete dump.
    pub fn complete(&self) -> &[i32] {
        &self.complete
    }

    /// The number of references and roots that are left out, because their object is not in the dump.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Where the trace is damaged, if it is. The dump is complete nevertheless.
    pub fn damage(&self) -> Option<&str> {
        self.damage.as_deref()
    }

    /// Visits the objects of the dump as they are in the file.
    fn each(&self, visit: &mut dyn FnMut(&Node, &[Edge]) -> ControlFlow<()>) {
        self.trace.read(&mut Visit { dump: self.dump, visit, is_over: false });
    }
}

fn unnamed(type_id: u64) -> String {
    if type_id == 0 { "(no type)".to_owned() } else { format!("(type {type_id:#x})") }
}

/// Reads a file from its beginning, without moving its position.
struct Positioned<'t> {
    trace: &'t Trace,
    at: u64,
}

impl Read for Positioned<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.trace.file.read_at(buffer, self.at)?;
        self.at += count as u64;
        (self.trace.on_read)(count as u64);
        Ok(count)
    }
}

impl Heap for TraceHeap {
    fn types(&self) -> &[String] {
        &self.type_names
    }

    fn names(&self) -> &[String] {
        &[]
    }

    fn groups(&self) -> &[RootGroup] {
        &self.groups
    }

    fn roots(&self) -> &[Root] {
        &self.roots
    }

    fn objects(&self) -> u32 {
        self.addresses.len() as u32
    }

    fn references(&self) -> u64 {
        self.references
    }

    fn address(&self, index: u32) -> u64 {
        self.addresses.at(index)
    }

    fn visit(&self, visit: &mut dyn FnMut(&Object<'_>) -> heap_snapshot::Result<()>) -> heap_snapshot::Result<()> {
        let (mut index, mut failure, mut references) = (0, None, Vec::new());
        self.each(&mut |node, edges| {
            references.clear();
            for (ordinal, (target, field)) in edges.iter().enumerate() {
                if let Some(target) = self.addresses.find(*target) {
                    let label = if self.has_fields { Label::Offset(*field) } else { Label::Index(ordinal as u32) };
                    references.push(Reference { target, label });
                }
            }
            let type_index = self.type_indices.get(&node.type_id).copied().unwrap_or_default();
            if index >= self.objects() {
                failure = Some(changed());
                return ControlFlow::Break(());
            }
            let object = Object { index, type_index, size: node.size, references: &references };
            index += 1;
            match visit(&object) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    failure = Some(error);
                    ControlFlow::Break(())
                }
            }
        });
        match failure {
            Some(error) => Err(error),
            None if index < self.objects() => Err(changed()),
            None => Ok(()),
        }
    }
}

/// The error for a file that is not the same when it is read again.
fn changed() -> Error {
    Error::Input(io::Error::other("the file has changed while it was read"))
}

/// What is known of a dump after the first reading.
#[derive(Debug, Default)]
struct FoundDump {
    dump: usize,
    collection: i32,
    world: u16,
    is_dump: bool,
    addresses: AddressesBuilder,
    /// The types of its objects, in order of appearance.
    types: Vec<u64>,
    known_types: HashSet<u64>,
    /// The groups of its roots, in order of appearance.
    groups: Vec<RootGroup>,
    known_groups: HashMap<RootGroup, u32>,
    /// The group, the address, and the address of the object.
    roots: Vec<(u32, u64, u64)>,
    has_fields: bool,
}

impl FoundDump {
    /// Returns the index of a group of roots. Most roots are in the group of the one before.
    fn group(&mut self, group: &RootGroup) -> u32 {
        if let Some((last, ..)) = self.roots.last().filter(|last| self.groups[last.0 as usize] == *group) {
            return *last;
        }
        if let Some(known) = self.known_groups.get(group) {
            return *known;
        }
        let index = self.groups.len() as u32;
        self.groups.push(group.clone());
        self.known_groups.insert(group.clone(), index);
        index
    }
}

/// The first reading.
#[derive(Debug, Default)]
struct Scan {
    wanted: DumpChoice,
    names: HashMap<u64, String>,
    /// The dumps in progress.
    current: Vec<FoundDump>,
    best: Option<FoundDump>,
    complete: Vec<i32>,
    /// The worlds with a complete dump.
    worlds: BTreeSet<u16>,
    /// The worlds with a wanted dump that has objects or gaps.
    possible: BTreeSet<u16>,
    /// The last dump with gaps: its collection, and what is missing.
    incomplete: Option<(i32, u64)>,
}

impl Scan {
    fn of(&mut self, dump: usize) -> Option<&mut FoundDump> {
        self.current.iter_mut().find(|current| current.dump == dump)
    }

    /// Whether a dump is of the wanted world, if one is wanted.
    fn is_of_wanted_world(&self, world: u16) -> bool {
        self.wanted.world.is_none_or(|wanted| wanted == u64::from(world))
    }

    /// The error for a choice that leaves dumps of several worlds.
    fn several_worlds(&self) -> Option<TraceHeapError> {
        let collection = self.wanted.collection;
        let is_wanted = |dump: &&FoundDump| {
            self.is_of_wanted_world(dump.world) && collection.is_none_or(|wanted| wanted == dump.collection)
        };
        let cut_off = self.current.iter().filter(is_wanted).filter(|dump| !dump.addresses.is_empty());
        let worlds: BTreeSet<u16> = self.possible.iter().copied().chain(cut_off.map(|dump| dump.world)).collect();
        let worlds = (worlds.len() > 1).then(|| worlds.into_iter().collect());
        worlds.map(|worlds| TraceHeapError::SeveralWorlds { collection, worlds })
    }

    /// Why there is no dump.
    fn failure(&self, damage: Option<String>) -> TraceHeapError {
        let cut_off = self.current.iter().find(|dump| dump.is_dump && self.is_of_wanted_world(dump.world));
        if let Some(wanted) = self.wanted.world
            && self.complete.is_empty()
            && self.incomplete.is_none()
            && cut_off.is_none()
            && !self.worlds.is_empty()
        {
            return TraceHeapError::NoSuchWorld { wanted, found: self.worlds.iter().copied().collect() };
        }
        match (self.wanted.collection, self.incomplete, cut_off) {
            (Some(wanted), ..) if !self.complete.is_empty() => {
                TraceHeapError::NoSuchCollection { wanted, found: self.complete.clone() }
            }
            (_, Some((collection, missing)), _) => TraceHeapError::Incomplete { collection, missing },
            (_, None, Some(current)) => TraceHeapError::CutOff(current.collection),
            (_, None, None) => TraceHeapError::NoDump(damage),
        }
    }
}

impl DumpVisitor for Scan {
    fn begin(&mut self, dump: usize, collection: i32, world: u16) {
        self.current.push(FoundDump { dump, collection, world, ..FoundDump::default() });
    }

    fn dumped(&mut self, dump: usize) {
        if let Some(current) = self.of(dump) {
            current.is_dump = true;
        }
    }

    fn object(&mut self, dump: usize, node: &Node, edges: &[Edge]) -> ControlFlow<()> {
        if let Some(current) = self.of(dump) {
            current.addresses.push(node.address);
            current.has_fields |= edges.iter().any(|edge| edge.1 != 0);
            if current.known_types.insert(node.type_id) {
                current.types.push(node.type_id);
            }
        }
        ControlFlow::Continue(())
    }

    fn root(&mut self, dump: usize, group: &RootGroup, address: u64, object: u64) {
        if let Some(current) = self.of(dump) {
            let group = current.group(group);
            current.roots.push((group, address, object));
        }
    }

    fn type_name(&mut self, type_id: u64, name: String) {
        self.names.insert(type_id, name);
    }

    fn end(&mut self, dump: usize, missing: u64) {
        let Some(at) = self.current.iter().position(|current| current.dump == dump) else { return };
        let ended = self.current.swap_remove(at);
        let is_whole = missing == 0;
        if is_whole && ended.is_dump {
            self.worlds.insert(ended.world);
        }
        if !self.is_of_wanted_world(ended.world) {
            return;
        }
        let is_wanted = self.wanted.collection.is_none_or(|wanted| wanted == ended.collection);
        if is_wanted && ended.is_dump && !(is_whole && ended.addresses.is_empty()) {
            self.possible.insert(ended.world);
        }
        if !is_whole {
            self.incomplete = Some((ended.collection, missing));
        } else if ended.is_dump {
            self.complete.push(ended.collection);
            // At the end of a program its heap is often empty, and so is that of a world of which it makes no use.
            let is_better =
                !ended.addresses.is_empty() || self.best.as_ref().is_none_or(|best| best.addresses.is_empty());
            if is_wanted && is_better {
                self.best = Some(ended);
            }
        }
    }
}

/// A later reading.
struct Visit<'v> {
    dump: usize,
    visit: &'v mut dyn FnMut(&Node, &[Edge]) -> ControlFlow<()>,
    is_over: bool,
}

impl DumpVisitor for Visit<'_> {
    fn begin(&mut self, _dump: usize, _collection: i32, _world: u16) {}

    fn object(&mut self, dump: usize, node: &Node, edges: &[Edge]) -> ControlFlow<()> {
        if dump == self.dump { (self.visit)(node, edges) } else { ControlFlow::Continue(()) }
    }

    fn end(&mut self, dump: usize, _missing: u64) {
        self.is_over |= dump == self.dump;
    }

    fn is_done(&self) -> bool {
        self.is_over
    }
}
