//! A heap dump in a trace: objects, references, roots and types, batched into events with many rows each.
//!
//! ```text
//!   DumpNode a (2 edges)  DumpEdge  DumpEdge  DumpNode b (0)  …      one record each, as the collector meets them
//!        │                    │
//!        ▼                    ▼
//!   ┌ GCBulkNode 0 ┐  ┌ GCBulkEdge 0 ┐  ┌ BulkType ┐                 an event when a chunk is full, and at the end
//! ```
//!
//! A dump without objects is a GCBulkNode without rows.
//!
//! A DumpStack of the own provider comes before the roots on a stack: the .NET events have no field for the thread.
//!
//! The edges are in the order of their objects, so a reader needs only the counts. The writer keeps only one chunk of each kind: a
//! dump of any size is written while it is made. A type is written when the dump reports its first object.

use std::io;
use std::marker::PhantomData;

use super::event_writer::EventWriter;
use super::schema::Written;
use super::types::name_of;
use nettrace::clr::write::{
    BulkType, BulkTypeRow, Edge, GCBulkEdge, GCBulkNode, GCBulkRootEdge, GCBulkRootStaticVar, Node, RootEdge,
    RootStaticVar,
};
use nettrace::clr::{ElementType, RootFlags, RootKind, Rows, StaticFlags, Text};
use stopworld::events::payload::{DumpEdge, DumpEnd, DumpNode, DumpRoot};
use stopworld::events::record::{Recorded, RecordingThread};
use trace_io::bytes::Bytes;

/// Maximum size of the rows of one event, in bytes.
const CHUNK_BYTES: usize = 60_000;
/// Maximum size of a row, except that of a type.
const MOST_ROW: usize = 64;
const MOST_NAME: usize = 512;
/// The size of the table that remembers which types have been written.
const TYPES: usize = 1 << 14;

/// The kinds of roots in the collector's events that are written differently from the others: in a registered range, a handle, a finalizer.
const RANGE: u32 = 3;
const HANDLE: u32 = 4;
const FINALIZER: u32 = 5;

/// An event with many rows.
trait Batch {
    type Event<'r>: Written;

    /// Returns the event. `index` is the number of events of this kind before it in the dump.
    fn event(index: u32, rows: Rows<'_>) -> Self::Event<'_>;
}

macro_rules! batches {
    ($($batch:ident: |$index:pat_param, $rows:ident| $event:ident { $($field:tt)* };)+) => { $(
        #[derive(Debug)]
        struct $batch;

        impl Batch for $batch {
            type Event<'r> = $event<'r>;

            #[inline]
            fn event($index: u32, $rows: Rows<'_>) -> $event<'_> {
                $event { $($field)* }
            }
        }
    )+ };
}

batches! {
    Types: |_, rows| BulkType { rows };
    Nodes: |index, rows| GCBulkNode { index, rows };
    Edges: |index, rows| GCBulkEdge { index, rows };
    Roots: |index, rows| GCBulkRootEdge { index, rows };
    Statics: |_, rows| GCBulkRootStaticVar { app_domain_id: 0, rows };
}

/// The rows of one kind that have not been written yet.
#[derive(Debug)]
struct Bulk<B> {
    rows: Bytes,
    count: u32,
    /// Number of events of this kind in this dump.
    index: u32,
    batch: PhantomData<B>,
}

/// The thread and the world of a dump.
type Origin = Option<(RecordingThread, u16)>;

impl<B: Batch> Bulk<B> {
    fn new() -> Bulk<B> {
        Bulk { rows: Bytes::with_capacity(CHUNK_BYTES), count: 0, index: 0, batch: PhantomData }
    }

    #[inline(always)]
    fn is_full(&self) -> bool {
        self.rows.room() < MOST_ROW
    }

    #[inline(always)]
    fn put_if_full(&mut self, event_writer: &mut EventWriter, of: Origin, ticks: u64) -> io::Result<()> {
        if self.is_full() { self.put(event_writer, of, ticks) } else { Ok(()) }
    }

    /// Writes an event with the rows collected so far, if there are any.
    fn put(&mut self, event_writer: &mut EventWriter, of: Origin, ticks: u64) -> io::Result<()> {
        let Some((thread, world)) = of.filter(|_| self.count > 0) else { return Ok(()) };
        let rows = Rows { count: self.count, bytes: self.rows.as_slice() };
        let result = event_writer.write_for(world, &B::event(self.index, rows), ticks, thread);
        self.rows.clear();
        self.count = 0;
        self.index += 1;
        result.map(drop)
    }

    /// Writes the remaining rows of a dump.
    fn end(&mut self, event_writer: &mut EventWriter, of: Origin, ticks: u64) -> io::Result<()> {
        self.put(event_writer, of, ticks)?;
        self.index = 0;
        Ok(())
    }
}

/// See the module documentation.
#[derive(Debug)]
pub(super) struct Dump {
    types: Bulk<Types>,
    nodes: Bulk<Nodes>,
    edges: Bulk<Edges>,
    roots: Bulk<Roots>,
    statics: Bulk<Statics>,
    reported_types: Box<[u64]>,
    of: Origin,
}

impl Dump {
    pub(super) fn new() -> Dump {
        Dump {
            types: Bulk::new(),
            nodes: Bulk::new(),
            edges: Bulk::new(),
            roots: Bulk::new(),
            statics: Bulk::new(),
            reported_types: vec![0; TYPES].into(),
            of: None,
        }
    }

    /// Separates the chunks of different worlds and threads: if the record is of another world or thread, writes the remaining rows first.
    fn begin(&mut self, event_writer: &mut EventWriter, record: &Recorded) -> io::Result<()> {
        let of = Some((record.thread, event_writer.world));
        if self.of != of {
            self.put_rest(event_writer, record.ticks)?;
            self.of = of;
        }
        Ok(())
    }

    pub(super) fn node(&mut self, event_writer: &mut EventWriter, record: &Recorded, node: DumpNode) -> io::Result<()> {
        self.begin(event_writer, record)?;
        let type_id = node.type_addr as u64;
        self.write_type(event_writer, type_id, record.ticks)?;
        let (address, size, edge_count) = (node.addr as u64, node.bytes as u64, node.edges as u64);
        Node { address, size, type_id, edge_count }.encode(&mut self.nodes.rows);
        self.nodes.count += 1;
        self.put_if_full(event_writer, record.ticks)
    }

    pub(super) fn edge(&mut self, event_writer: &mut EventWriter, record: &Recorded, edge: DumpEdge) -> io::Result<()> {
        self.begin(event_writer, record)?;
        Edge { value: edge.target_addr as u64, field_id: edge.offset }.encode(&mut self.edges.rows);
        self.edges.count += 1;
        self.put_if_full(event_writer, record.ticks)
    }

    pub(super) fn root(&mut self, event_writer: &mut EventWriter, record: &Recorded, root: DumpRoot) -> io::Result<()> {
        self.begin(event_writer, record)?;
        let (object, root_id) = (root.object_addr as u64, root.root_addr as u64);
        if root.kind == RANGE {
            let row = RootStaticVar {
                root_id,
                object_id: object,
                type_id: root.type_addr as u64,
                // The only flag is ThreadLocal.
                flags: StaticFlags::NONE,
                field_name: "".into(),
            };
            row.encode(&mut self.statics.rows);
            self.statics.count += 1;
        } else {
            let (kind, flags) = match root.kind {
                HANDLE => (RootKind::Handle, RootFlags::NONE),
                FINALIZER => (RootKind::Finalizer, RootFlags::NONE),
                // The root is a word that may be a reference, so it pins its object.
                _ => (RootKind::Stack, RootFlags::PINNING),
            };
            RootEdge { rooted_node: object, kind, flags, root_id }.encode(&mut self.roots.rows);
            self.roots.count += 1;
        }
        self.put_if_full(event_writer, record.ticks)
    }

    /// Writes the roots on the last stack, so that no event has roots on two stacks.
    pub(super) fn end_stack(&mut self, event_writer: &mut EventWriter, record: &Recorded) -> io::Result<()> {
        self.begin(event_writer, record)?;
        self.roots.put(event_writer, self.of, record.ticks)
    }

    /// Ends the dump of a heap. That of an empty heap is an event without rows, so that a reader knows of it.
    pub(super) fn end_heap(
        &mut self,
        event_writer: &mut EventWriter,
        record: &Recorded,
        heap: DumpEnd,
    ) -> io::Result<()> {
        if heap.objects == 0 {
            let rows = Rows { count: 0, bytes: &[] };
            event_writer.write(&Nodes::event(0, rows), record.ticks, record.thread)?;
        }
        self.end(event_writer, record.ticks)
    }

    /// Ends the dump.
    pub(super) fn end(&mut self, event_writer: &mut EventWriter, ticks: u64) -> io::Result<()> {
        self.put_rest(event_writer, ticks)?;
        self.of = None;
        Ok(())
    }

    fn write_type(&mut self, event_writer: &mut EventWriter, kind: u64, ticks: u64) -> io::Result<()> {
        if kind == 0 {
            return Ok(());
        }
        // Addresses of descriptions are multiples of 8. If the slot has another type, that type is replaced, and will be written again when
        // it is needed.
        let place = (kind >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - TYPES.trailing_zeros());
        if std::mem::replace(&mut self.reported_types[place as usize], kind) == kind {
            return Ok(());
        }
        if self.types.rows.room() < MOST_ROW + 2 * MOST_NAME {
            self.types.put(event_writer, self.of, ticks)?;
        }
        let row = BulkTypeRow {
            type_id: kind,
            module_id: 0,
            type_name_id: 0,
            flags: 0,
            cor_element_type: ElementType::Class,
            name: Text::cut(name_of(kind), MOST_NAME),
            parameters: &[],
        };
        row.encode(&mut self.types.rows);
        self.types.count += 1;
        Ok(())
    }

    #[inline(always)]
    fn put_if_full(&mut self, event_writer: &mut EventWriter, ticks: u64) -> io::Result<()> {
        let of = self.of;
        if self.nodes.is_full() {
            // A reader must know a node's type before the node.
            self.types.put(event_writer, of, ticks)?;
            self.nodes.put(event_writer, of, ticks)?;
        }
        self.edges.put_if_full(event_writer, of, ticks)?;
        self.roots.put_if_full(event_writer, of, ticks)?;
        self.statics.put_if_full(event_writer, of, ticks)
    }

    fn put_rest(&mut self, event_writer: &mut EventWriter, ticks: u64) -> io::Result<()> {
        let of = self.of;
        self.types.end(event_writer, of, ticks)?;
        self.nodes.end(event_writer, of, ticks)?;
        self.edges.end(event_writer, of, ticks)?;
        self.roots.end(event_writer, of, ticks)?;
        self.statics.end(event_writer, of, ticks)?;
        // Types are forgotten, because the next dump must be readable without this one.
        self.reported_types.fill(0);
        Ok(())
    }
}
