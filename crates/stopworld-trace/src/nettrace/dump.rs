//! A heap dump in a trace: objects, references, roots and types, batched into events with many rows each.
//!
//! ```text
//!   DumpNode a (2 edges)  DumpEdge  DumpEdge  DumpNode b (0)  …      one record each, as the collector meets them
//!        │                    │
//!        ▼                    ▼
//!   ┌ GCBulkNode 0 ┐  ┌ GCBulkEdge 0 ┐  ┌ BulkType ┐                 an event when a chunk is full, and at the end
//! ```
//!
//! The edges are in the order of their objects, so a reader needs only the counts. The writer keeps only one chunk of each kind: a
//! dump of any size is written while it is made. A type is written when its first object comes.

use std::io;

use super::pen::Pen;
use super::schema::{Kind, Net};
use super::types::name_of;
use stopworld::events::record::{Recorded, RecordingThread};
use trace_io::bytes::Bytes;

/// Maximum size of the rows of one event, in bytes.
const CHUNK_BYTES: usize = 60_000;
/// Maximum size of a row, except that of a type.
const MOST_ROW: usize = 64;
const MOST_NAME: usize = 512;
/// The size of the table that remembers which types have been written.
const TYPES: usize = 1 << 14;

/// The code for classes among the element types of .NET.
const ELEMENT_TYPE_CLASS: u8 = 0x12;

/// The kind of a root in a registered range, in the events of the collector; then the kinds of roots in .NET.
const RANGE: u64 = 3;
const ROOT_STACK: u8 = 0;
const ROOT_FINALIZER: u8 = 1;
const ROOT_HANDLE: u8 = 2;
/// A flag: the root is a word that may be a reference, so it pins its object.
const PINNING: u32 = 1;

/// The rows of one kind that are not written yet.
#[derive(Debug)]
struct Bulk {
    net: Net,
    rows: Bytes,
    count: u32,
    /// Number of events of this kind in this dump.
    index: u32,
}

impl Bulk {
    fn new(net: Net) -> Bulk {
        Bulk { net, rows: Bytes::with_capacity(CHUNK_BYTES), count: 0, index: 0 }
    }
}

/// See the module documentation.
#[derive(Debug)]
pub(super) struct Dump {
    types: Bulk,
    nodes: Bulk,
    edges: Bulk,
    roots: Bulk,
    statics: Bulk,
    told: Box<[u64]>,
    of: Option<(RecordingThread, u16)>,
}

impl Dump {
    pub(super) fn new() -> Dump {
        Dump {
            types: Bulk::new(Net::BulkType),
            nodes: Bulk::new(Net::BulkNode),
            edges: Bulk::new(Net::BulkEdge),
            roots: Bulk::new(Net::BulkRootEdge),
            statics: Bulk::new(Net::BulkRootStaticVar),
            told: vec![0; TYPES].into(),
            of: None,
        }
    }

    /// Separates the chunks of different worlds and threads: writes the rows of the previous one first.
    fn begin(&mut self, pen: &mut Pen, record: &Recorded) -> io::Result<()> {
        let of = Some((record.thread, pen.world));
        if self.of != of {
            self.put_rest(pen, record.ticks)?;
            self.of = of;
        }
        Ok(())
    }

    pub(super) fn node(&mut self, pen: &mut Pen, record: &Recorded) -> io::Result<()> {
        self.begin(pen, record)?;
        let [address, bytes, kind, edges] =
            [record.field::<0>(), record.field::<1>(), record.field::<2>(), record.field::<3>()];
        self.tell_of_type(pen, kind, record.ticks)?;
        let rows = &mut self.nodes.rows;
        [address, bytes, kind, edges].into_iter().for_each(|word| rows.u64(word));
        self.nodes.count += 1;
        self.put_if_full(pen, record.ticks)
    }

    pub(super) fn edge(&mut self, pen: &mut Pen, record: &Recorded) -> io::Result<()> {
        self.begin(pen, record)?;
        self.edges.rows.u64(record.field::<0>());
        self.edges.rows.u32(record.field::<1>() as u32);
        self.edges.count += 1;
        self.put_if_full(pen, record.ticks)
    }

    pub(super) fn root(&mut self, pen: &mut Pen, record: &Recorded) -> io::Result<()> {
        self.begin(pen, record)?;
        let [object, kind, root, of_type] =
            [record.field::<0>(), record.field::<1>(), record.field::<2>(), record.field::<3>()];
        if kind == RANGE {
            let rows = &mut self.statics.rows;
            [root, object, of_type].into_iter().for_each(|word| rows.u64(word));
            rows.u32(PINNING);
            rows.utf16("", 0);
            self.statics.count += 1;
        } else {
            let (kind, flags) = match kind {
                4 => (ROOT_HANDLE, 0),
                5 => (ROOT_FINALIZER, 0),
                _ => (ROOT_STACK, PINNING),
            };
            let rows = &mut self.roots.rows;
            rows.u64(object);
            rows.u8(kind);
            rows.u32(flags);
            rows.u64(root);
            self.roots.count += 1;
        }
        self.put_if_full(pen, record.ticks)
    }

    /// Ends the dump.
    pub(super) fn end(&mut self, pen: &mut Pen, ticks: u64) -> io::Result<()> {
        self.put_rest(pen, ticks)?;
        self.of = None;
        Ok(())
    }

    fn tell_of_type(&mut self, pen: &mut Pen, kind: u64, ticks: u64) -> io::Result<()> {
        if kind == 0 {
            return Ok(());
        }
        // Addresses of descriptions are multiples of 8. If another type has the slot, it is replaced, and will be written again.
        let place = (kind >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - TYPES.trailing_zeros());
        if std::mem::replace(&mut self.told[place as usize], kind) == kind {
            return Ok(());
        }
        if self.types.rows.room() < MOST_ROW + 2 * MOST_NAME {
            Self::put(&mut self.types, pen, self.of, ticks)?;
        }
        let rows = &mut self.types.rows;
        rows.u64(kind);
        rows.u64(0);
        rows.u32(0);
        rows.u32(0);
        rows.u8(ELEMENT_TYPE_CLASS);
        rows.utf16(name_of(kind), MOST_NAME);
        rows.u32(0);
        self.types.count += 1;
        Ok(())
    }

    #[inline(always)]
    fn put_if_full(&mut self, pen: &mut Pen, ticks: u64) -> io::Result<()> {
        if self.nodes.rows.room() < MOST_ROW {
            // A reader must know a node's type before the node.
            Self::put(&mut self.types, pen, self.of, ticks)?;
        }
        for bulk in [&mut self.nodes, &mut self.edges, &mut self.roots, &mut self.statics] {
            if bulk.rows.room() < MOST_ROW {
                Self::put(bulk, pen, self.of, ticks)?;
            }
        }
        Ok(())
    }

    fn put_rest(&mut self, pen: &mut Pen, ticks: u64) -> io::Result<()> {
        let of = self.of;
        for bulk in [&mut self.types, &mut self.nodes, &mut self.edges, &mut self.roots, &mut self.statics] {
            Self::put(bulk, pen, of, ticks)?;
            bulk.index = 0;
        }
        // The next dump must be readable without this one.
        self.told.fill(0);
        Ok(())
    }

    fn put(bulk: &mut Bulk, pen: &mut Pen, of: Option<(RecordingThread, u16)>, ticks: u64) -> io::Result<()> {
        let Some((thread, world)) = of.filter(|_| bulk.count > 0) else { return Ok(()) };
        let (count, index) = (std::mem::take(&mut bulk.count), bulk.index);
        bulk.index += 1;
        let result = pen.write(Kind::Net(bulk.net), ticks, thread, |payload| {
            if !matches!(bulk.net, Net::BulkType | Net::BulkRootStaticVar) {
                payload.u32(index);
            }
            payload.u32(count);
            if bulk.net == Net::BulkRootStaticVar {
                payload.u64(0);
            }
            payload.u16(world);
            payload.put(bulk.rows.as_slice());
        });
        bulk.rows.clear();
        result.map(drop)
    }
}
