//! Writes HPROF files.

use std::io::Write;

use super::plan::{Plan, plan};
use super::record::Records;
use super::threads::{ThreadClasses, threads};
use super::{
    ARRAY_HEADER, BRACKETS, CLASS, HEADER, ID_STEP, INSTANCE, LOAD_CLASS, NO_ARRAY, OBJECT_ARRAY, OBJECT_CLASS,
    REFERENCE, ROOT_JAVA_FRAME, ROOT_JNI_GLOBAL, ROOT_NATIVE_STACK, ROOT_STICKY_CLASS, ROOT_THREAD_BLOCK, ROOT_UNKNOWN,
    ROOTS_CLASS, STACK_TRACE, THREAD_CLASS,
};
use crate::error::{Error, Result};
use crate::heap::{Heap, Label, Object, Root, RootKind};

/// A class that VisualVM expects: its name, its superclass in the list, the names and types of its fields, and its size.
type Required = (&'static str, Option<usize>, &'static [(&'static str, u8)], u64);

const REQUIRED: &[Required] = &[
    (OBJECT_CLASS, None, &[], 16),
    ("java/lang/Class", Some(0), &[], 16),
    ("java/lang/Thread", Some(0), THREAD_FIELDS, 48),
    ("java/lang/String", Some(0), &[("value", REFERENCE)], 24),
    ("java/lang/ref/Reference", Some(0), REFERENCE_FIELDS, 48),
    ("java/lang/ref/WeakReference", Some(4), &[], 16),
    ("java/lang/ref/SoftReference", Some(4), &[], 16),
    ("java/lang/ref/FinalReference", Some(4), &[], 16),
    ("java/lang/ref/PhantomReference", Some(4), &[], 16),
    ("[Z", Some(0), &[], 16),
    ("[C", Some(0), &[], 16),
    ("[F", Some(0), &[], 16),
    ("[D", Some(0), &[], 16),
    ("[B", Some(0), &[], 16),
    ("[S", Some(0), &[], 16),
    ("[I", Some(0), &[], 16),
    ("[J", Some(0), &[], 16),
    ("[Ljava/lang/Object;", Some(0), &[], 16),
    (ROOTS_CLASS, Some(0), &[], 16),
    (THREAD_CLASS, Some(THREAD), &[], 48),
];
/// The places of classes in the list.
const THREAD: usize = 2;
const STRING_CLASS: usize = 3;
const OWN_THREAD: usize = REQUIRED.len() - 1;
const ROOTS: usize = OWN_THREAD - 1;
/// Boolean, int and long.
const THREAD_FIELDS: &[(&str, u8)] =
    &[("name", REFERENCE), ("daemon", 4), ("priority", 10), ("tid", 11), ("threadStatus", 10)];
const REFERENCE_FIELDS: &[(&str, u8)] =
    &[("referent", REFERENCE), ("queue", REFERENCE), ("next", REFERENCE), ("discovered", REFERENCE)];

/// The serial number of the stack trace of objects, which is empty.
const TRACE: [u8; 4] = 1_u32.to_be_bytes();
/// The number of the only frame of a thread.
const FRAME: [u8; 4] = 0_u32.to_be_bytes();

/// Writes a heap as HPROF 1.0.2 with ids of eight bytes, which are the addresses of the objects. Visits the heap twice; besides the heap,
/// a segment of one megabyte, or the largest object, is in memory.
///
/// # Errors
/// The heap can't be visited, the output can't be written, an address is not below 2⁶⁴ − 2³², or an object exceeds 4 GiB.
pub fn write(heap: &dyn Heap, out: impl Write) -> Result<()> {
    let highest = (0..heap.objects()).map(|index| heap.address(index)).max().unwrap_or(0);
    // Classes follow the last object.
    let Some(mut id) = highest.max(0x100).checked_next_multiple_of(16).filter(|id| *id < u64::MAX - (1 << 32)) else {
        return Err(Error::TooLarge(
            "an object is at the end of the address space, where HPROF has no room for classes",
        ));
    };
    let mut next_id = || {
        id += ID_STEP;
        id
    };
    let required: Vec<u64> = REQUIRED.iter().map(|_| next_id()).collect();
    let plans = plan(heap, &mut next_id)?;
    let threads = threads(heap, &mut next_id);
    let groups: Vec<u64> = heap.groups().iter().map(|_| next_id()).collect();
    let mut writer = Writer { records: Records::begin(out)?, serial: 0 };
    for ((name, parent, fields, size), id) in REQUIRED.iter().zip(&required) {
        let field = |(name, kind): &(&str, u8)| Ok((writer.records.string(name)?, *kind));
        let fields = fields.iter().map(field).collect::<Result<Vec<_>>>()?;
        writer.class(*id, name, parent.map_or(0, |parent| required[parent]), *size, &fields)?;
    }
    // The serial numbers of classes are in the order of the list.
    let classes = ThreadClasses {
        thread: required[OWN_THREAD],
        thread_serial: OWN_THREAD as u32 + 1,
        string: required[STRING_CLASS],
    };
    for (plan, name) in plans.iter().zip(heap.types()) {
        writer.classes_of(plan, name, heap.names(), required[0])?;
    }
    writer.records.record(STACK_TRACE, &[&TRACE, &[0; 8]])?;
    threads.iter().try_for_each(|thread| thread.start(&mut writer.records, classes))?;
    threads.iter().try_for_each(|thread| thread.dump(&mut writer.records, classes))?;
    for root in heap.roots() {
        writer.root(heap, root)?;
    }
    writer.groups(heap, &groups, required[ROOTS])?;
    let mut buffer = Vec::new();
    heap.visit(&mut |object| writer.object(heap, &plans[object.type_index as usize], object, &mut buffer))?;
    writer.records.finish()
}

struct Writer<W> {
    records: Records<W>,
    /// The serial number of the last class.
    serial: u32,
}

impl<W: Write> Writer<W> {
    /// Writes a class and its name, with the names and types of its fields.
    fn class(&mut self, id: u64, name: &str, parent: u64, size: u64, fields: &[(u64, u8)]) -> Result<()> {
        let name = self.records.string(name)?;
        self.serial += 1;
        let parts = [&self.serial.to_be_bytes()[..], &id.to_be_bytes(), &TRACE, &name.to_be_bytes()];
        self.records.record(LOAD_CLASS, &parts)?;
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        // The class loader, the signers, the protection domain, and two reserved words are null.
        self.records.dump(&[&[CLASS], &id.to_be_bytes(), &TRACE, &parent.to_be_bytes(), &[0; 40], &size.to_be_bytes()]);
        // No constants and no static fields.
        self.records.dump(&[&[0; 4], &(fields.len() as u16).to_be_bytes()]);
        for (field, kind) in fields {
            self.records.dump(&[&field.to_be_bytes(), &[*kind]]);
        }
        self.records.dumped()
    }

    fn classes_of(&mut self, plan: &Plan, name: &str, names: &[String], parent: u64) -> Result<()> {
        // Readers show a slash as a dot, and what follows "[L" as the elements of an array.
        match plan {
            Plan::Array { class } => {
                let element = name.strip_suffix(BRACKETS).map_or_else(|| format!("{name}{NO_ARRAY}"), str::to_owned);
                self.class(*class, &format!("[L{element};"), parent, HEADER, &[])
            }
            Plan::Classes { labels, sizes } => {
                let field = |label: &Label| Ok((self.records.string(&label.text(names))?, REFERENCE));
                let fields = labels.iter().map(field).collect::<Result<Vec<_>>>()?;
                for (size, class) in sizes {
                    let own = if sizes.len() == 1 { name.to_owned() } else { format!("{name} ({size} bytes)") };
                    self.class(*class, &own, parent, (*size).max(HEADER), &fields)?;
                }
                Ok(())
            }
        }
    }

    fn root(&mut self, heap: &dyn Heap, root: &Root) -> Result<()> {
        let group = &heap.groups()[root.group as usize];
        let object = heap.address(root.target).to_be_bytes();
        // The serial number of the thread.
        let thread = (root.group + 1).to_be_bytes();
        match group.kind {
            RootKind::Handle => self.records.dump(&[&[ROOT_JNI_GLOBAL], &object, &root.address.to_be_bytes()]),
            RootKind::Stack if group.thread.is_some() => {
                self.records.dump(&[&[ROOT_JAVA_FRAME], &object, &thread, &FRAME]);
            }
            RootKind::Stack => self.records.dump(&[&[ROOT_NATIVE_STACK], &object, &thread]),
            RootKind::Static => self.records.dump(&[&[ROOT_STICKY_CLASS], &object]),
            RootKind::Other if group.thread.is_some() => self.records.dump(&[&[ROOT_THREAD_BLOCK], &object, &thread]),
            RootKind::Finalizer | RootKind::Other => self.records.dump(&[&[ROOT_UNKNOWN], &object]),
        }
        self.records.dumped()
    }

    /// Writes an array for each group of roots, with these ids, of this class.
    fn groups(&mut self, heap: &dyn Heap, ids: &[u64], class: u64) -> Result<()> {
        let mut targets: Vec<Vec<u64>> = vec![Vec::new(); ids.len()];
        for root in heap.roots() {
            targets[root.group as usize].push(heap.address(root.target));
        }
        for (id, targets) in ids.iter().zip(&mut targets) {
            targets.sort_unstable();
            targets.dedup();
            let (id, length) = (id.to_be_bytes(), (targets.len() as u32).to_be_bytes());
            self.records.dump(&[&[ROOT_UNKNOWN], &id]);
            self.records.dump(&[&[OBJECT_ARRAY], &id, &TRACE, &length, &class.to_be_bytes()]);
            targets.iter().for_each(|target| self.records.dump(&[&target.to_be_bytes()]));
            self.records.dumped()?;
        }
        Ok(())
    }

    fn object(&mut self, heap: &dyn Heap, plan: &Plan, object: &Object<'_>, buffer: &mut Vec<u8>) -> Result<()> {
        let address = heap.address(object.index).to_be_bytes();
        buffer.clear();
        match plan {
            Plan::Array { class } => {
                let length = (object.size.saturating_sub(ARRAY_HEADER) / 8).max(object.references.len() as u64);
                let Some(length) = u32::try_from(length).ok().filter(|length| *length < u32::MAX / 8 - 16) else {
                    return Err(Error::TooLarge(
                        "an object exceeds 4 GiB, the largest record of HPROF: write a .heapsnapshot",
                    ));
                };
                for reference in object.references {
                    buffer.extend_from_slice(&heap.address(reference.target).to_be_bytes());
                }
                buffer.resize(8 * length as usize, 0);
                self.records.dump(&[
                    &[OBJECT_ARRAY],
                    &address,
                    &TRACE,
                    &length.to_be_bytes(),
                    &class.to_be_bytes(),
                    buffer,
                ]);
            }
            Plan::Classes { labels, sizes } => {
                let class = sizes.get(&object.size).copied().unwrap_or_default();
                buffer.resize(8 * labels.len(), 0);
                for reference in object.references {
                    if let Ok(field) = labels.binary_search(&reference.label) {
                        let target = heap.address(reference.target).to_be_bytes();
                        buffer[8 * field..8 * field + 8].copy_from_slice(&target);
                    }
                }
                let length = (buffer.len() as u32).to_be_bytes();
                self.records.dump(&[&[INSTANCE], &address, &TRACE, &class.to_be_bytes(), &length, buffer]);
            }
        }
        self.records.dumped()
    }
}
