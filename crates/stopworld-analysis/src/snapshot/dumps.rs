//! Finds the heap dumps in a .nettrace file.
//!
//! A dump is between the start and the end of a collection. A runtime has at most one collection at a time; a file may have several
//! runtimes (worlds), whose collections overlap, so each has its own state.
//!
//! A dump is written by one thread, so the events are read in the order of the file, in which the events and the losses of a thread keep their
//! order. A dump has a gap if its thread has lost events between start and end, or if the numbers of its events have one.
//!
//! The events of the .NET runtime do not say which thread's stack a root is on. Our collector does, in an event of its own before the roots of
//! each stack; a dump without these events has all stacks in one group.

use std::collections::HashMap;
use std::ops::ControlFlow;

use super::assemble::{Assembler, Edge, Node};
use crate::convert::decoded::{self, EventMeaning, meaning};
use heap_snapshot::{RootGroup, RootKind};
use nettrace::clr::bulk::{BulkEdge, BulkNode, BulkRootEdge, BulkRootStaticVar, BulkType};
use nettrace::clr::gc::{End, Start};
use nettrace::clr::{Payload, Provider, RootKind as NetRoot};
use nettrace::{EventType, Interest, NetEvent, TraceInfo, Visitor};
use stopworld::events::EventId;

/// The longest name of a thread in bytes. A damaged trace may have names of any length, and each root refers to one.
const LONGEST_THREAD: usize = 512;

/// What a visitor of dumps receives. `dump` is the number of the dump in the file, from 0.
pub(super) trait DumpVisitor {
    /// A collection of a runtime (world) begins, with or without a dump.
    fn begin(&mut self, dump: usize, collection: i32, world: u16);

    /// A collection has a dump; its heap may be empty.
    fn dumped(&mut self, _dump: usize) {}

    /// An object with its references.
    fn object(&mut self, dump: usize, node: &Node, edges: &[Edge]) -> ControlFlow<()>;

    /// A root: its group, its address, and the address of the object.
    fn root(&mut self, _dump: usize, _group: &RootGroup, _address: u64, _object: u64) {}

    /// The name of a type.
    fn type_name(&mut self, _type_id: u64, _name: String) {}

    /// A collection ends. `missing` is the number of references and of events that the file lacks, 0 if the dump is complete.
    fn end(&mut self, _dump: usize, _missing: u64) {}

    /// Whether the visitor needs nothing more of the file.
    fn is_done(&self) -> bool {
        false
    }
}

/// Whether events of this type report whose stack the following roots are on.
fn is_stack(kind: &EventType) -> bool {
    meaning(kind) == EventMeaning::Own(EventId::DumpStack)
}

/// The group of the roots of a kind, except those on stacks.
fn group_of(kind: u8) -> RootGroup {
    const FINALIZER: u8 = NetRoot::Finalizer as u8;
    const HANDLE: u8 = NetRoot::Handle as u8;
    const SIZED: u8 = NetRoot::SizedRef as u8;
    RootGroup::of(match kind {
        HANDLE | SIZED => RootKind::Handle,
        FINALIZER => RootKind::Finalizer,
        _ => RootKind::Other,
    })
}

/// Returns the group of the roots on a stack, from the event that is before them.
fn stack(event: &NetEvent<'_>, pointer_bytes: u8) -> RootGroup {
    const UNFINISHED: u64 = 1;
    const REGISTERED: u64 = 2;
    let fields = decoded::fields(event, pointer_bytes);
    let tid = fields.number("tid").unwrap_or_default() as u32;
    let name = fields.text("label").unwrap_or_default();
    let name = &name[..name.floor_char_boundary(LONGEST_THREAD)];
    match fields.number("kind") {
        Some(REGISTERED) => RootGroup::registered_stacks(),
        Some(UNFINISHED) => RootGroup::unfinished_of(tid, name),
        _ => RootGroup::stack_of(tid, name),
    }
}

/// A collection in progress.
#[derive(Debug)]
struct Current {
    dump: usize,
    /// The thread that writes the dump.
    thread: u64,
    assembler: Assembler,
    /// The next index of each kind of event.
    next: [u32; 3],
    missing: u64,
    /// The group of the following roots on a stack.
    stack: RootGroup,
}

impl Current {
    fn new(dump: usize, thread: u64) -> Current {
        let stack = RootGroup::of(RootKind::Stack);
        Current { dump, thread, assembler: Assembler::default(), next: [0; 3], missing: 0, stack }
    }
}

/// Delivers the dumps of a file to a visitor.
pub(super) struct Dumps<'v, V> {
    visitor: &'v mut V,
    pointer_bytes: u8,
    /// By runtime.
    current: HashMap<u16, Current>,
    begun: usize,
    is_done: bool,
}

impl<'v, V: DumpVisitor> Dumps<'v, V> {
    pub(super) fn new(visitor: &'v mut V) -> Dumps<'v, V> {
        Dumps { visitor, pointer_bytes: 8, current: HashMap::new(), begun: 0, is_done: false }
    }

    /// Checks that no event of this kind is missing before this one.
    fn follows(current: &mut Current, kind: usize, index: Option<u32>) {
        let index = index.unwrap_or(current.next[kind]);
        current.missing += u64::from(index.abs_diff(current.next[kind]));
        current.next[kind] = index.wrapping_add(1);
    }

    fn read(&mut self, event: &NetEvent<'_>) -> ControlFlow<()> {
        const STACK: u8 = NetRoot::Stack as u8;
        if is_stack(event.kind) {
            // A thread has at most one collection. Others that are open have lost their end.
            let of_thread = self.current.values_mut().filter(|current| current.thread == event.capture_thread);
            if let Some(current) = of_thread.max_by_key(|current| current.dump) {
                current.stack = stack(event, self.pointer_bytes);
            }
            return ControlFlow::Continue(());
        }
        let payload = Payload::new(event.payload, self.pointer_bytes);
        let version = event.version();
        let Dumps { visitor, current, .. } = self;
        match event.kind.event {
            Start::EVENT => {
                let start = Start::new(version, payload);
                let (number, runtime) = (start.count().unwrap_or(0), start.clr_instance_id().unwrap_or(0));
                visitor.begin(self.begun, number, runtime);
                current.insert(runtime, Current::new(self.begun, event.capture_thread));
                self.begun += 1;
            }
            End::EVENT => {
                let runtime = End::new(version, payload).clr_instance_id().unwrap_or(0);
                if let Some(ended) = current.remove(&runtime) {
                    visitor.end(ended.dump, ended.missing.saturating_add(ended.assembler.missing()));
                }
            }
            BulkType::EVENT => {
                for row in BulkType::new(version, payload).rows() {
                    if let (Some(id), Some(name)) = (row.type_id(), row.name()) {
                        visitor.type_name(id, name.to_string());
                    }
                }
            }
            BulkNode::EVENT => {
                let event = BulkNode::new(version, payload);
                let Some(current) = current.get_mut(&event.clr_instance_id().unwrap_or(0)) else {
                    return ControlFlow::Continue(());
                };
                Self::follows(current, 0, event.index());
                visitor.dumped(current.dump);
                for row in event.rows() {
                    let numbers = (row.address(), row.size(), row.type_id(), row.edge_count());
                    let (Some(address), Some(size), Some(type_id), Some(edges)) = numbers else { break };
                    let dump = current.dump;
                    let visit = &mut |node: &Node, edges: &[Edge]| visitor.object(dump, node, edges);
                    current.assembler.node(Node { address, size, type_id, edges }, visit)?;
                }
            }
            BulkEdge::EVENT => {
                let event = BulkEdge::new(version, payload);
                let Some(current) = current.get_mut(&event.clr_instance_id().unwrap_or(0)) else {
                    return ControlFlow::Continue(());
                };
                Self::follows(current, 1, event.index());
                for row in event.rows() {
                    let (Some(target), Some(field)) = (row.value(), row.field_id()) else { break };
                    let dump = current.dump;
                    let visit = &mut |node: &Node, edges: &[Edge]| visitor.object(dump, node, edges);
                    current.assembler.edge((target, field), visit)?;
                }
            }
            BulkRootEdge::EVENT => {
                let event = BulkRootEdge::new(version, payload);
                let Some(current) = current.get_mut(&event.clr_instance_id().unwrap_or(0)) else {
                    return ControlFlow::Continue(());
                };
                Self::follows(current, 2, event.index());
                for row in event.rows() {
                    if let (Some(object), Some(kind), Some(address)) = (row.rooted_node(), row.kind(), row.root_id()) {
                        let dump = current.dump;
                        match kind {
                            STACK => visitor.root(dump, &current.stack, address, object),
                            _ => visitor.root(dump, &group_of(kind), address, object),
                        }
                    }
                }
            }
            BulkRootStaticVar::EVENT => {
                let event = BulkRootStaticVar::new(version, payload);
                let Some(current) = current.get_mut(&event.clr_instance_id().unwrap_or(0)) else {
                    return ControlFlow::Continue(());
                };
                let statics = RootGroup::of(RootKind::Static);
                for row in event.rows() {
                    if let (Some(object), Some(address)) = (row.object_id(), row.root_id()) {
                        visitor.root(current.dump, &statics, address, object);
                    }
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

impl<V: DumpVisitor> Visitor for Dumps<'_, V> {
    fn trace(&mut self, trace: &TraceInfo) {
        self.pointer_bytes = trace.pointer_bytes;
    }

    fn event_type(&mut self, kind: &EventType) -> Interest {
        const WANTED: [u32; 7] = [
            Start::EVENT,
            End::EVENT,
            BulkType::EVENT,
            BulkNode::EVENT,
            BulkEdge::EVENT,
            BulkRootEdge::EVENT,
            BulkRootStaticVar::EVENT,
        ];
        let is_runtime = Provider::named(&kind.provider) == Some(Provider::Runtime);
        if is_runtime && WANTED.contains(&kind.event) || is_stack(kind) { Interest::Deliver } else { Interest::Skip }
    }

    fn event(&mut self, event: &NetEvent<'_>) {
        if !self.is_done {
            self.is_done = self.read(event).is_break();
        }
    }

    fn lost(&mut self, thread: u64, count: u64) {
        let current = self.current.values_mut().filter(|current| current.thread == thread);
        current.for_each(|current| current.missing = current.missing.saturating_add(count));
    }

    fn is_done(&self) -> bool {
        self.is_done || self.visitor.is_done()
    }
}
