//! Threads, as viewers of Java expect them: an object for each, with its name, and a stack of one frame, on which its roots are.
//!
//! ```text
//!   start thread ──▶ object of class stopworld.Thread ──name──▶ java.lang.String ──value──▶ char[]
//!        │                         ▲
//!        └─▶ stack trace ─▶ frame  └── root: thread object        roots: Java frame, each with the thread
//! ```
//!
//! These objects are not in the heap that the file describes, so the reader of this crate leaves them out again. The reader identifies them by
//! the class of the first one; the other two follow it.

use std::io::Write;

use super::record::Records;
use super::{
    INSTANCE, PRIMITIVE_ARRAY, ROOT_THREAD_OBJECT, STACK_FRAME, STACK_TRACE, START_THREAD, THREAD_CLASS, THREAD_OBJECTS,
};
use crate::error::Result;
use crate::heap::{Heap, RootGroup, RootKind};

/// The type of elements that are characters.
const CHARACTER: u8 = 5;
/// A thread's status in Java's tool interface: alive and runnable.
const RUNNABLE: u32 = 5;
/// The line of a frame is not known.
const NO_LINE: u32 = u32::MAX;

/// The objects of a thread.
#[derive(Debug)]
pub(super) struct Thread {
    /// The serial number: one more than the index of its group.
    serial: u32,
    name: String,
    /// The ids of the objects: the thread, the name, the characters.
    ids: [u64; THREAD_OBJECTS],
}

/// Returns the threads that have a group of roots. `next_id` returns the ids of their objects.
pub(super) fn threads(heap: &dyn Heap, mut next_id: impl FnMut() -> u64) -> Vec<Thread> {
    let mut thread = |(group, serial): (&RootGroup, u32)| {
        let name = group.thread.clone().filter(|_| matches!(group.kind, RootKind::Stack | RootKind::Other))?;
        Some(Thread { serial, name, ids: [(); THREAD_OBJECTS].map(|()| next_id()) })
    };
    heap.groups().iter().zip(1..).filter_map(&mut thread).collect()
}

/// The classes of the objects of threads, and the serial number of the first one.
#[derive(Clone, Copy, Debug)]
pub(super) struct ThreadClasses {
    pub(super) thread: u64,
    pub(super) thread_serial: u32,
    pub(super) string: u64,
}

impl Thread {
    /// Writes the records before the heap dump.
    pub(super) fn start(&self, records: &mut Records<impl Write>, classes: ThreadClasses) -> Result<()> {
        let name = records.string(&self.name)?.to_be_bytes();
        let [method, signature, file] = ["stack", "()V", THREAD_CLASS].map(|text| records.string(text));
        let [method, signature, file] = [method?, signature?, file?].map(u64::to_be_bytes);
        let frame = u64::from(self.serial).to_be_bytes();
        let (serial, trace) = (self.serial.to_be_bytes(), self.trace().to_be_bytes());
        let (class, line) = (classes.thread_serial.to_be_bytes(), NO_LINE.to_be_bytes());
        records.record(STACK_FRAME, &[&frame, &method, &signature, &file, &class, &line])?;
        records.record(STACK_TRACE, &[&trace, &serial, &1_u32.to_be_bytes(), &frame])?;
        // The group of the thread, and the parent of the group, have no names.
        records.record(START_THREAD, &[&serial, &self.ids[0].to_be_bytes(), &trace, &name, &[0; 16]])
    }

    /// Writes the objects, and the root.
    pub(super) fn dump(&self, records: &mut Records<impl Write>, classes: ThreadClasses) -> Result<()> {
        let [thread, name, characters] = self.ids.map(u64::to_be_bytes);
        let (serial, trace) = (self.serial.to_be_bytes(), self.trace().to_be_bytes());
        records.dump(&[&[ROOT_THREAD_OBJECT], &thread, &serial, &trace]);
        // In the order of the fields: name, daemon, priority, tid, threadStatus. The tid must be unique, so it is the serial number; the
        // kernel's id is in the name, if it is known.
        let id = u64::from(self.serial).to_be_bytes();
        let fields = [&name[..], &[0], &[0; 4], &id, &RUNNABLE.to_be_bytes()].concat();
        for (id, class, fields) in [(thread, classes.thread, &fields[..]), (name, classes.string, &characters)] {
            let length = (fields.len() as u32).to_be_bytes();
            records.dump(&[&[INSTANCE], &id, &trace, &class.to_be_bytes(), &length, fields]);
        }
        let text: Vec<[u8; 2]> = self.name.encode_utf16().map(u16::to_be_bytes).collect();
        let length = (text.len() as u32).to_be_bytes();
        records.dump(&[&[PRIMITIVE_ARRAY], &characters, &trace, &length, &[CHARACTER], text.as_flattened()]);
        records.dumped()
    }

    /// The serial number of its stack trace. The first one is the empty trace of all objects.
    fn trace(&self) -> u32 {
        self.serial + 1
    }
}
