//! From one .NET container to the other, or to a new file with the same container.
//!
//! The file is read once, in file order, and every item is written in its place: types, threads, stacks, labels, events,
//! sequence points. Events keep their order and their ordering flags, so a reader sorts them by time as it would have before.
//! Nothing is sorted here, and memory does not grow with the file.
//! If the container stays the same, so do all numbers, except type ids of 2³¹ and above. If it changes, some numbers must change too:
//!
//! | | version 4 | version 6 |
//! |---|---|---|
//! | a thread is | its system id | an index, introduced with process, id and name |
//! | its first sequence number | is any number | is 1, otherwise the events before it are lost |
//! | activity ids | in the event's header | in a list of labels |
//! | an event's own level, version, opcode | not possible: it gets a type of its own | a label |
//!
//! **Losses** are gaps in a thread's sequence numbers. Where sequence numbers must be assigned anew, the new ones have the same gaps, so a
//! reader counts the same losses for the same threads. Version 4 cannot express losses before a thread's first event.

use std::collections::{BTreeSet, HashMap};
use std::io::{self, Read, Write};

use super::{Conversion, ConvertError, LeftOut};
use nettrace::encode::{Context, Encoder, Header, Written};
use nettrace::{Aside, Container, EventType, Interest, Label, NetEvent, Reader, ThreadInfo, TraceInfo, Visitor};

/// The number of threads whose sequence numbers are remembered.
const MOST_THREADS: usize = 1 << 16;
/// The maximum number of label lists between two sequence points, which is the number that a reader keeps.
const MOST_LISTS: u32 = 1 << 17;
/// Type ids below this are tracked individually.
const LOW_IDS: u32 = 1 << 16;
/// Type ids from here on are not kept: version 4 has 31 bits for an id, and new ids need room above the highest kept one.
const NOT_KEPT: u32 = 1 << 31;
/// The maximum number of types derived from the labels of events.
const MOST_DERIVED: usize = 1 << 12;

const NO_LABELS: &str = "version 4 has no labels";
const ONE_PROCESS: &str = "version 4 has only one process";
const NO_PLACE: &str = "version 4 has no place for it";

/// Converts a .nettrace file.
pub(super) fn convert<R: Read, W: Write>(
    input: R,
    output: W,
    container: Container,
    to: &mut Conversion,
) -> Result<(), ConvertError> {
    let mut copier = Copier::new(Encoder::new(output, container), &mut to.left_out);
    let summary = Reader::new(input).in_file_order().with_asides().read(&mut copier);
    let has_trace = copier.has_trace;
    let (carried, failed) = copier.finish();
    if let Some(error) = failed {
        return Err(ConvertError::Output(error));
    }
    to.carried = carried;
    to.take_summary(&summary, has_trace)
}

/// The type ids in the output: the original ids, unless two would be equal.
#[derive(Debug, Default)]
struct Ids {
    by_index: HashMap<u32, u32>,
    low: Vec<bool>,
    highest: u32,
}

impl Ids {
    fn give(&mut self, kind: &EventType) -> u32 {
        let wanted = kind.id;
        let id = if self.is_free(wanted) { wanted } else { self.next() };
        self.take(id);
        self.by_index.insert(kind.index, id);
        id
    }

    /// Returns the next id above all others. Ids from [`NOT_KEPT`] on are assigned one by one, so this wraps around only in a file that
    /// describes two thousand million types.
    fn next(&self) -> u32 {
        self.highest.max(LOW_IDS).checked_add(1).unwrap_or(LOW_IDS)
    }

    /// Returns an id that no type of the file has.
    fn fresh(&mut self) -> u32 {
        let id = self.next();
        self.take(id);
        id
    }

    fn is_free(&self, id: u32) -> bool {
        if id < LOW_IDS {
            !self.low.get(id as usize).copied().unwrap_or(false)
        } else {
            self.highest < id && id < NOT_KEPT
        }
    }

    fn take(&mut self, id: u32) {
        self.highest = self.highest.max(id);
        if id < LOW_IDS {
            self.low.resize(self.low.len().max(id as usize + 1), false);
            self.low[id as usize] = true;
        }
    }
}

/// The last sequence number of each thread, as read and as written.
#[derive(Debug, Default)]
struct Numbers {
    read: HashMap<u64, u32>,
    written: HashMap<u64, u32>,
}

impl Numbers {
    /// Returns the number of events that are missing before this sequence number; `None` if the numbers do not determine it.
    fn gap(&mut self, from: Container, thread: u64, number: u32) -> Option<u32> {
        if self.read.len() >= MOST_THREADS {
            self.read.clear();
        }
        let before = self.read.insert(thread, number);
        let before = match (before, from) {
            (None | Some(0), Container::V4) => return Some(0),
            (before, _) => before.unwrap_or(0),
        };
        u32::try_from(number.wrapping_sub(before).wrapping_sub(1) as i32).ok()
    }
}

struct Copier<'l, W> {
    encoder: Encoder<W>,
    left_out: &'l mut LeftOut,
    has_trace: bool,
    from: Container,
    process: u64,
    ids: Ids,
    derived: HashMap<(u32, [u64; 4]), u32>,
    /// If the input is version 4: the new index of each thread. If it is version 6: the system id of each thread.
    threads: HashMap<u64, u64>,
    next_index: u64,
    numbers: Numbers,
    /// The threads whose last number must be written at the next sequence point.
    due: BTreeSet<u64>,
    /// Lists of labels, by the activity ids in them.
    lists: HashMap<[u8; 32], u32>,
    next_list: u32,
    point: (i64, u32),
    last_time: i64,
    events: u64,
    failed: Option<io::Error>,
}

impl<'l, W: Write> Copier<'l, W> {
    fn new(encoder: Encoder<W>, left_out: &'l mut LeftOut) -> Copier<'l, W> {
        Copier {
            encoder,
            left_out,
            has_trace: false,
            from: Container::V4,
            process: 0,
            ids: Ids::default(),
            derived: HashMap::new(),
            threads: HashMap::new(),
            next_index: 1,
            numbers: Numbers::default(),
            due: BTreeSet::new(),
            lists: HashMap::new(),
            next_list: 1,
            point: (0, 0),
            last_time: 0,
            events: 0,
            failed: None,
        }
    }

    fn finish(mut self) -> (u64, Option<io::Error>) {
        if self.failed.is_none() && !self.due.is_empty() {
            let time = self.last_time;
            let written = self.write_due(time);
            self.keep(written);
        }
        if self.failed.is_none() {
            self.failed = self.encoder.end().err();
        }
        (self.events, self.failed)
    }

    fn is_same(&self) -> bool {
        self.from == self.encoder.container()
    }

    fn keep<T>(&mut self, result: io::Result<T>) -> Option<T> {
        result.map_err(|error| self.failed.get_or_insert(error).kind()).ok()
    }

    // ---- Threads -------------------------------------------------------------------------------------------------------

    /// Returns the version 6 index of a thread of version 4.
    fn index_of(&mut self, thread: u64) -> io::Result<u64> {
        if let Some(index) = self.threads.get(&thread) {
            return Ok(*index);
        }
        if self.threads.len() >= MOST_THREADS {
            for index in std::mem::take(&mut self.threads).into_values() {
                let last = self.numbers.written.remove(&index).unwrap_or(0);
                self.encoder.thread_ended(index, last)?;
            }
        }
        let index = self.next_index;
        self.next_index += 1;
        self.threads.insert(thread, index);
        self.encoder.thread(index, (self.process, thread), "", &[])?;
        Ok(index)
    }

    fn introduce(&mut self, thread: &ThreadInfo<'_>) -> io::Result<()> {
        if self.is_same() {
            return self.encoder.thread(thread.index, (thread.process, thread.thread), &thread.name, &thread.pairs);
        }
        if self.threads.len() >= MOST_THREADS {
            self.threads.clear();
        }
        self.threads.insert(thread.index, thread.thread);
        self.numbers.read.insert(thread.index, 0);
        self.left_out.add("names of threads", NO_PLACE, u64::from(!thread.name.is_empty()));
        self.left_out.add("key-value pairs of threads", NO_PLACE, thread.pairs.len() as u64);
        self.left_out.add("threads of other processes", ONE_PROCESS, u64::from(thread.process != self.process));
        Ok(())
    }

    /// Processes the last sequence number of a thread. Returns the thread's id and last number in the output.
    fn last_number(&mut self, id: u64, sequence: u32) -> io::Result<(u64, u32)> {
        let gap = match self.numbers.read.insert(id, sequence) {
            None if self.from == Container::V4 => 0,
            before => u32::try_from(sequence.wrapping_sub(before.unwrap_or(0)) as i32).unwrap_or(0),
        };
        let key = match self.from {
            Container::V4 => self.index_of(id)?,
            Container::V6 => self.threads.get(&id).copied().unwrap_or(0),
        };
        let written = self.numbers.written.entry(key).or_default();
        // In version 4 a gap needs an earlier sequence number of the thread: losses before its first event cannot be written.
        if *written != 0 || self.encoder.container() == Container::V6 {
            *written = written.wrapping_add(gap);
        } else {
            self.left_out.add("losses before a thread's first event", NO_PLACE, u64::from(gap));
        }
        Ok((key, *written))
    }

    fn write_due(&mut self, time: i64) -> io::Result<()> {
        for thread in std::mem::take(&mut self.due) {
            let last = self.numbers.written.get(&thread).copied().unwrap_or(0);
            self.encoder.last_number(thread, last);
        }
        self.encoder.sequence_point(time, 0)
    }

    // ---- Asides --------------------------------------------------------------------------------------------------------

    fn take_extra(&mut self, aside: &Aside<'_>) -> io::Result<()> {
        match *aside {
            Aside::Stack { id, addresses } => self.encoder.stack(id, addresses),
            Aside::Labels { id, bytes } if self.is_same() => self.encoder.labels(id, bytes),
            // The labels of a list are written with the events that use it.
            Aside::Labels { .. } => Ok(()),
            Aside::ThreadEnded { id, sequence } if self.is_same() => self.encoder.thread_ended(id, sequence),
            Aside::ThreadEnded { id, sequence } => {
                let (thread, _) = self.last_number(id, sequence)?;
                if self.due.len() < MOST_THREADS {
                    self.due.insert(thread);
                }
                self.threads.remove(&id);
                self.numbers.read.remove(&id);
                Ok(())
            }
            Aside::PointBegins { time, flags } => {
                self.point = (time, flags);
                self.last_time = time;
                Ok(())
            }
            Aside::LastNumber { id, sequence } => {
                let (thread, number) = if self.is_same() { (id, sequence) } else { self.last_number(id, sequence)? };
                self.encoder.last_number(thread, number);
                if self.encoder.point_is_full() { self.encoder.sequence_point(self.point.0, 0) } else { Ok(()) }
            }
            Aside::PointEnds => self.end_point(),
        }
    }

    fn end_point(&mut self) -> io::Result<()> {
        let (time, flags) = self.point;
        for thread in std::mem::take(&mut self.due) {
            let last = self.numbers.written.get(&thread).copied().unwrap_or(0);
            self.encoder.last_number(thread, last);
        }
        self.encoder.sequence_point(time, flags)?;
        self.lists.clear();
        self.next_list = 1;
        if flags & 1 != 0 {
            self.threads.clear();
            self.numbers.read.clear();
        }
        if flags & 2 != 0 {
            self.ids.by_index.clear();
            self.derived.clear();
            if self.is_same() {
                self.ids = Ids::default();
            }
        }
        Ok(())
    }

    // ---- Events --------------------------------------------------------------------------------------------------------

    fn write(&mut self, event: &NetEvent<'_>) -> io::Result<()> {
        let Some(kind) = self.kind_of(event)? else { return Ok(()) };
        let mut header = Header {
            kind,
            sequence: event.sequence,
            thread: event.in_file.thread,
            capture: event.in_file.capture,
            processor: event.processor,
            time: event.time,
            sorted: event.in_file.sorted,
            context: Context {
                stack: event.stack.id,
                labels: event.in_file.labels,
                activity: event.activity,
                related: event.related,
            },
        };
        if !self.is_same() {
            match self.from {
                Container::V4 => self.for_version_6(event, &mut header)?,
                Container::V6 => self.for_version_4(event, &mut header),
            }
        }
        self.last_time = event.time;
        match self.encoder.event(&header, event.payload)? {
            Written::Yes => self.events += 1,
            Written::TooLong => self.left_out.add(&name_of(event.kind), "its payload exceeds the largest block", 1),
        }
        Ok(())
    }

    fn for_version_6(&mut self, event: &NetEvent<'_>, header: &mut Header) -> io::Result<()> {
        header.capture = self.index_of(event.in_file.capture)?;
        header.thread = self.index_of(event.in_file.thread)?;
        header.sequence = self.number(event, header.capture);
        if event.activity != [0; 16] || event.related != [0; 16] {
            header.context.labels = self.list_of(event)?;
        }
        Ok(())
    }

    fn for_version_4(&mut self, event: &NetEvent<'_>, header: &mut Header) {
        (header.capture, header.thread) = (event.capture_thread, event.thread);
        header.sequence = self.number(event, header.capture);
        for label in event.labels {
            let what = match label {
                Label::TraceId(_) => "trace ids",
                Label::SpanId(_) => "span ids",
                Label::Text(..) => "labels with a text",
                Label::Number(..) => "labels with a number",
                // The output has these values in the event's header, or in a derived type.
                _ => continue,
            };
            self.left_out.add(what, NO_LABELS, 1);
        }
    }

    /// Returns the event's sequence number in the output.
    fn number(&mut self, event: &NetEvent<'_>, thread: u64) -> u32 {
        let gap = self.numbers.gap(self.from, event.in_file.capture, event.sequence);
        if gap.is_none() {
            self.left_out.add("backward steps of a thread's sequence numbers", "the numbers continue without a gap", 1);
        }
        let gap = gap.unwrap_or(0);
        if self.numbers.written.len() >= 4 * MOST_THREADS {
            self.numbers.written.clear();
        }
        let is_4 = self.encoder.container() == Container::V4;
        let number = match self.numbers.written.get(&thread).copied() {
            // For a reader of version 4, a thread whose last number is 0 has just begun.
            None | Some(0) if is_4 => {
                self.left_out.add("losses before a thread's first event", NO_PLACE, u64::from(gap));
                event.sequence.max(1)
            }
            before => before.unwrap_or(0).wrapping_add(gap).wrapping_add(1),
        };
        self.numbers.written.insert(thread, number);
        number
    }

    /// Returns the list of labels with an event's activity ids.
    fn list_of(&mut self, event: &NetEvent<'_>) -> io::Result<u32> {
        const LAST: u8 = 0x80;
        let mut both = [0; 32];
        both[..16].copy_from_slice(&event.activity);
        both[16..].copy_from_slice(&event.related);
        if let Some(list) = self.lists.get(&both) {
            return Ok(*list);
        }
        if self.next_list >= MOST_LISTS {
            self.left_out.add("activity ids", "more of them between two sequence points than readers keep", 1);
            return Ok(0);
        }
        let mut list = Vec::with_capacity(34);
        if event.activity != [0; 16] {
            list.push(if event.related == [0; 16] { LAST | 1 } else { 1 });
            list.extend(event.activity);
        }
        if event.related != [0; 16] {
            list.push(LAST | 2);
            list.extend(event.related);
        }
        let id = self.next_list;
        self.next_list += 1;
        self.lists.insert(both, id);
        self.encoder.labels(id, &list)?;
        Ok(id)
    }

    // ---- Types ---------------------------------------------------------------------------------------------------------

    fn describe(&mut self, id: u32, kind: &EventType) -> io::Result<()> {
        let described = self.encoder.event_type(id, kind)?;
        let name = name_of(kind);
        if described.without_fields {
            let why = "the container cannot describe its fields; payloads are unchanged";
            self.left_out.add(&format!("fields of {name}"), why, 1);
        }
        if described.without_texts {
            self.left_out.add(&format!("descriptive texts of {name}"), NO_PLACE, 1);
        }
        if described.cut_numbers {
            self.left_out.add(&format!("level or version of {name}"), "version 6 has only one byte for it", 1);
        }
        Ok(())
    }

    /// Returns the id of an event's type in the output. If the output cannot express some of the event's labels, the type is one derived
    /// from these labels.
    fn kind_of(&mut self, event: &NetEvent<'_>) -> io::Result<Option<u32>> {
        let kind = event.kind;
        let Some(&id) = self.ids.by_index.get(&kind.index) else { return Ok(None) };
        let says = |label: Label<'_>| {
            matches!(label, Label::Opcode(_) | Label::Keywords(_) | Label::Level(_) | Label::Version(_))
        };
        let is_plain = self.is_same() || event.in_file.labels == 0 || !event.labels.into_iter().any(says);
        if is_plain {
            return Ok(Some(id));
        }
        let own = EventType {
            opcode: event.opcode(),
            version: event.version(),
            level: event.level(),
            keywords: event.keywords(),
            ..kind.clone()
        };
        let opcode = own.opcode.map_or(u64::MAX, u64::from);
        let key = (kind.index, [opcode, own.version.into(), own.level.into(), own.keywords]);
        if let Some(id) = self.derived.get(&key) {
            return Ok(Some(*id));
        }
        if self.derived.len() >= MOST_DERIVED {
            self.left_out.add("an event's own level, version, opcode or keywords", NO_LABELS, 1);
            return Ok(Some(id));
        }
        let id = self.ids.fresh();
        self.derived.insert(key, id);
        self.describe(id, &own)?;
        Ok(Some(id))
    }
}

/// Returns the name of a type in the list of events that were left out.
pub(super) fn name_of(kind: &EventType) -> String {
    format!("{}/{}", kind.provider, kind.title())
}

impl<W: Write> Visitor for Copier<'_, W> {
    fn trace(&mut self, trace: &TraceInfo) {
        self.has_trace = true;
        (self.from, self.process, self.last_time) = (trace.container, trace.process_id.into(), trace.start_ticks);
        let described = self.encoder.trace(trace);
        if let Some(described) = self.keep(described) {
            self.left_out.add("key-value pairs of the trace", NO_PLACE, described.pairs_left_out);
        }
    }

    fn event_type(&mut self, kind: &EventType) -> Interest {
        let id = self.ids.give(kind);
        let described = self.describe(id, kind);
        self.keep(described);
        Interest::Deliver
    }

    fn thread(&mut self, thread: &ThreadInfo<'_>) {
        let introduced = self.introduce(thread);
        self.keep(introduced);
    }

    fn event(&mut self, event: &NetEvent<'_>) {
        if self.failed.is_none() {
            let written = self.write(event);
            self.keep(written);
        }
    }

    fn aside(&mut self, aside: &Aside<'_>) {
        if self.failed.is_none() {
            let taken = self.take_extra(aside);
            self.keep(taken);
        }
    }

    fn is_done(&self) -> bool {
        self.failed.is_some()
    }
}
