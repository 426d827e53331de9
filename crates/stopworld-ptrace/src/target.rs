//! The target's published data. Everything that can be checked is checked.
//!
//! The descriptor, the worlds, the records of threads and the requests are in memory that the target can write at any time. A program with
//! a wild pointer may have damaged them; another program may only resemble one with the collector. So each size is compared with a bound,
//! each offset with the size of its structure, each address of code with the executable mappings, and the length of a list with the number
//! of threads that the *kernel* reports. Each failure is one error that says what is wrong and where. No loop and no allocation here is
//! bounded by a number that the target chose.

use std::collections::HashSet;

use memoffset::offset_of;

use super::memory::{Address, Memory, MemoryError, u32_at, u64_at};
use super::modules::{Candidate, Mapping};
use super::sys::Piece;
use stopworld::StopInfoOffsets;
use stopworld::debugger::contract::{Calls, Descriptor, MAGIC, VERSION};
use stopworld::debugger::notify::{REQUEST_MAGIC, RequestOffsets};
use stopworld::debugger::{Phase, WorldOffsets};
use stopworld_platform::os::Tid;

/// An error in the target's data.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TargetError {
    /// There is no descriptor.
    #[error("the process contains no stopworld collector: no module has the note or the symbol stopworld_debugger")]
    NotFound,
    /// The note or symbol refers to other data.
    #[error("there is no descriptor at {at} (given by {module}): it begins with {found:02x?}")]
    Magic {
        /// The address that the module gives.
        at: Address,
        /// The module.
        module: String,
        /// The first bytes there.
        found: [u8; 8],
    },
    /// Another version of the contract.
    #[error("the descriptor at {at} has version {found}; this debugger supports version {known}")]
    Version {
        /// The address of the descriptor.
        at: Address,
        /// Its version.
        found: u32,
        /// The version that this debugger supports.
        known: u32,
    },
    /// An impossible size.
    #[error("{what} at {at} has size {found}; expected {least} to {most} bytes")]
    Size {
        /// The structure.
        what: &'static str,
        /// Its address.
        at: Address,
        /// The size found.
        found: u64,
        /// The least possible size.
        least: usize,
        /// The largest possible size.
        most: usize,
    },
    /// An impossible signal number.
    #[error("{what} in the descriptor at {at} is {found}; expected 0 for none, or 1 to {most}")]
    Signal {
        /// The use of the signal.
        what: &'static str,
        /// The address of the descriptor.
        at: Address,
        /// The number found.
        found: i32,
        /// The largest possible number.
        most: i32,
    },
    /// An offset outside of its structure.
    #[error("invalid offset {offset} of {field} in {what}: outside its {size} bytes, or misaligned")]
    Offset {
        /// The structure.
        what: &'static str,
        /// The name of the field, as the structure has it.
        field: &'static str,
        /// The offset.
        offset: u64,
        /// The structure's size.
        size: usize,
    },
    /// A pointer to unreadable memory.
    #[error("{what} at {at} cannot be read")]
    Nowhere {
        /// The structure.
        what: &'static str,
        /// Its address.
        at: Address,
    },
    /// The address of a function that is not there.
    #[error("{what} at {at} is not the expected code")]
    NotCode {
        /// The function.
        what: &'static str,
        /// Its address.
        at: Address,
    },
    /// A list with a cycle.
    #[error("the list of {what} has a cycle: it returns to {at} after {after} entries")]
    Cycle {
        /// The kind of entries.
        what: &'static str,
        /// The address of the repeated entry.
        at: Address,
        /// The number of entries before it.
        after: usize,
    },
    /// A list that is too long.
    #[error("the list of {what} has more than {limit} entries, the maximum")]
    TooLong {
        /// The kind of entries.
        what: &'static str,
        /// The maximum.
        limit: usize,
    },
    /// A notification without a request.
    #[error("thread {tid} sent a notification for address {at}, where there is no request")]
    Request {
        /// The notifying thread.
        tid: Tid,
        /// The address of the request.
        at: Address,
    },
    /// A notification for a world that does not exist.
    #[error("a request refers to a world at {at}, where there is none")]
    World {
        /// The address of the world.
        at: Address,
    },
}

/// One copy of the collector in the target.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Library {
    /// The address of its descriptor.
    pub descriptor: Address,
    /// The file that it was loaded from.
    pub module: String,
    /// The version of its contract.
    pub version: u32,
    /// The signal of its notifications; 0 before its first world.
    pub notify_signal: i32,
    /// The signal by which it suspends threads; 0 if there is none.
    pub suspend_signal: i32,
    /// The address for a breakpoint; 0 while the module is not relocated yet, like all addresses that follow.
    pub notify: Address,
    /// Where threads wait for the end of a collection when their debugger has died.
    pub park: Address,
    /// The return address for inferior calls.
    pub call_return: Address,
    /// Memory for the results of inferior calls.
    pub scratch: Address,
    /// Its size in bytes.
    pub scratch_size: usize,
    /// The functions for inferior calls, in the contract's order.
    pub calls: Vec<Address>,
    pub(super) request: RequestOffsets,
    pub(super) world: WorldOffsets,
    pub(super) thread: StopInfoOffsets,
    pub(super) is_ready: Ready,
}

/// Whether a module has been relocated, so that its pointers are valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ready {
    Yes,
    /// It is only mapped.
    NotRelocated,
}

/// The maximum size of a descriptor in bytes.
const LARGEST_DESCRIPTOR: usize = 64 << 10;
/// The maximum size of a published structure in bytes.
const LARGEST_STRUCTURE: usize = 4 << 10;
/// The maximum size of the scratch memory in bytes.
const LARGEST_SCRATCH: usize = 64 << 20;
/// The number of functions for inferior calls in this version.
const MOST_CALLS: usize = size_of::<Calls>() / 8 - 1;
/// The maximum number of worlds.
const MOST_WORLDS: usize = 4096;
/// How many more records than threads there may be: the next collection removes those of threads that ended without detaching.
const MOST_DEAD: usize = 1024;

/// Size in bytes of a record's or a stopper's name, with the byte of its length.
const NAME: usize = 32;

impl Library {
    /// Reads and checks the descriptor of a candidate.
    pub(super) fn read(memory: &Memory, maps: &[Mapping], candidate: &Candidate) -> Result<Self, TargetError> {
        let at = candidate.descriptor;
        let mut bytes = vec![0; size_of::<Descriptor>()];
        let known = memory.read_some(at, &mut bytes);
        let found: [u8; 8] = std::array::from_fn(|i| bytes[i]);
        if known < 16 {
            return Err(TargetError::Nowhere { what: "the descriptor", at });
        }
        if found != MAGIC {
            return Err(TargetError::Magic { at, module: candidate.module.clone(), found });
        }
        let version = u32_at(&bytes, offset_of!(Descriptor, version));
        if version != VERSION {
            return Err(TargetError::Version { at, found: version, known: VERSION });
        }
        let size = u32_at(&bytes, offset_of!(Descriptor, size)).into();
        check_size("the descriptor", at, size, size_of::<Descriptor>(), LARGEST_DESCRIPTOR)?;
        if known < bytes.len() {
            return Err(TargetError::Nowhere { what: "the descriptor's end", at: at.offset(known) });
        }
        let word = |offset: usize| u64_at(&bytes, offset);
        let mut library = Self {
            descriptor: at,
            module: candidate.module.clone(),
            version,
            notify_signal: u32_at(&bytes, offset_of!(Descriptor, notify_signal)) as i32,
            suspend_signal: u32_at(&bytes, offset_of!(Descriptor, suspend_signal)) as i32,
            notify: Address(word(offset_of!(Descriptor, notify))),
            park: Address(word(offset_of!(Descriptor, park))),
            call_return: Address(word(offset_of!(Descriptor, call_return))),
            scratch: Address(word(offset_of!(Descriptor, scratch))),
            scratch_size: word(offset_of!(Descriptor, scratch_size)) as usize,
            calls: Vec::new(),
            request: table(&bytes, offset_of!(Descriptor, request), REQUEST, at)?.into_request(),
            world: table(&bytes, offset_of!(Descriptor, world), WORLD, at)?.into_world(),
            thread: table(&bytes, offset_of!(Descriptor, thread), THREAD, at)?.into_thread(),
            is_ready: Ready::NotRelocated,
        };
        let calls = offset_of!(Descriptor, calls);
        let count = (word(calls) as usize).min(MOST_CALLS);
        library.calls = (1..=count).map(|i| Address(word(calls + 8 * i))).collect();
        library.check_signals()?;
        // Before its relocation a module's pointers are null, or not its addresses in memory. Worlds exist only after it.
        let functions = library.check_functions(memory, maps);
        if functions.is_ok() {
            library.is_ready = Ready::Yes;
        } else if library.notify_signal != 0 {
            functions?;
        }
        Ok(library)
    }

    fn check_signals(&self) -> Result<(), TargetError> {
        for (what, signal) in
            [("the notification signal", self.notify_signal), ("the suspend signal", self.suspend_signal)]
        {
            check_signal(what, self.descriptor, signal)?;
        }
        Ok(())
    }

    fn check_functions(&self, memory: &Memory, maps: &[Mapping]) -> Result<(), TargetError> {
        let is_code = |at: Address| maps.iter().any(|m| m.executable && m.start <= at.0 && at.0 < m.end);
        let begins = |what, at: Address, expected: &[&[u8]]| {
            let mut code = [0; 2];
            let good =
                is_code(at) && memory.read(at, &mut code).is_ok() && expected.iter().any(|e| code.starts_with(e));
            if good { Ok(()) } else { Err(TargetError::NotCode { what, at }) }
        };
        // `nop; ret`, or the same with the breakpoint of a dead debugger.
        begins("the notification function", self.notify, &[&[0x90, 0xc3], &[0xcc, 0xc3]])?;
        begins("the return address for inferior calls", self.call_return, &[&[0xcc]])?;
        begins("the park function", self.park, &[&[]])?;
        for &call in self.calls.iter().filter(|call| !call.is_null()) {
            begins("a function for inferior calls", call, &[&[]])?;
        }
        check_size("the scratch memory", self.scratch, self.scratch_size as u64, 0, LARGEST_SCRATCH)
    }

    /// Returns the address of the control word.
    pub(super) fn control(&self) -> Address {
        self.descriptor.offset(offset_of!(Descriptor, control))
    }

    /// Returns the worlds, newest first.
    pub(super) fn worlds(&self, memory: &Memory) -> Result<Vec<WorldState>, TargetError> {
        let what = "worlds";
        let head = self.descriptor.offset(offset_of!(Descriptor, worlds));
        let nowhere = |at| move |_: MemoryError| TargetError::Nowhere { what: "a world", at };
        let mut at = Address(memory.word(head).map_err(nowhere(head))?);
        let mut seen = HashSet::new();
        let mut worlds = Vec::new();
        while !at.is_null() {
            if !seen.insert(at) {
                return Err(TargetError::Cycle { what, at, after: worlds.len() });
            }
            if worlds.len() == MOST_WORLDS {
                return Err(TargetError::TooLong { what, limit: MOST_WORLDS });
            }
            let mut bytes = vec![0; self.world.size];
            memory.read(at, &mut bytes).map_err(nowhere(at))?;
            worlds.push(WorldState::parse(at, &bytes, &self.world));
            at = Address(u64_at(&bytes, self.world.next));
        }
        Ok(worlds)
    }

    /// Returns the world at the address that a request contains.
    pub(super) fn world(&self, memory: &Memory, at: Address) -> Result<WorldState, TargetError> {
        let mut bytes = vec![0; self.world.size];
        memory.read(at, &mut bytes).map_err(|_| TargetError::World { at })?;
        Ok(WorldState::parse(at, &bytes, &self.world))
    }

    /// Returns the records of a world's threads, newest first. `guesses` are probable addresses of records: these are read in one call, but
    /// only the list decides which of them are used. `alive` is the number of threads of the process.
    pub(super) fn records(
        &self,
        memory: &Memory,
        head: Address,
        guesses: &[Address],
        alive: usize,
    ) -> Result<Vec<Record>, TargetError> {
        self.walk(memory, head, guesses, alive, |at, bytes| Record::parse(at, bytes, &self.thread))
    }

    /// As [`records`](Self::records), but only the data that a stop needs.
    pub(super) fn stacks(
        &self,
        memory: &Memory,
        head: Address,
        guesses: &[Address],
        alive: usize,
    ) -> Result<Vec<Stack>, TargetError> {
        self.walk(memory, head, guesses, alive, |at, bytes| Stack::parse(at, bytes, &self.thread))
    }

    fn walk<T>(
        &self,
        memory: &Memory,
        head: Address,
        guesses: &[Address],
        alive: usize,
        parse: impl Fn(Address, &[u8]) -> T,
    ) -> Result<Vec<T>, TargetError> {
        let limit = alive + MOST_DEAD;
        let guesses = &guesses[..guesses.len().min(limit)];
        let size = self.thread.size;
        let mut bytes = vec![0; size * guesses.len()];
        let places = guesses.iter().zip(bytes.chunks_exact_mut(size));
        let failed = memory.read_all(&mut places.map(|(at, bytes)| Piece { at: at.0, bytes }).collect::<Vec<_>>());
        let mut other = vec![0; size];
        let mut found = Vec::with_capacity(guesses.len());
        let (mut at, mut hint) = (head, guesses.len());
        while !at.is_null() {
            if found.len() == limit {
                return Err(self.endless(memory, head, limit));
            }
            // The list has the newest first; the guesses are in the order of thread ids, so mostly the reverse.
            hint = hint.wrapping_sub(1);
            if guesses.get(hint) != Some(&at) {
                hint = guesses.iter().position(|guess| *guess == at).unwrap_or(guesses.len());
            }
            let record = if hint < guesses.len() && !failed.contains(&hint) {
                &bytes[hint * size..][..size]
            } else {
                memory.read(at, &mut other).map_err(|_| TargetError::Nowhere { what: RECORD, at })?;
                &other
            };
            found.push(parse(at, record));
            at = Address(u64_at(record, self.thread.next));
        }
        Ok(found)
    }

    /// Returns what is wrong with a list that has more than `limit` records.
    fn endless(&self, memory: &Memory, head: Address, limit: usize) -> TargetError {
        let what = "managed threads";
        let mut seen = HashSet::new();
        let mut at = head;
        while seen.len() <= limit && !at.is_null() {
            if !seen.insert(at) {
                return TargetError::Cycle { what, at, after: seen.len() };
            }
            match memory.word(at.offset(self.thread.next)) {
                Ok(next) => at = Address(next),
                Err(_) => return TargetError::Nowhere { what: RECORD, at },
            }
        }
        TargetError::TooLong { what, limit }
    }

    /// Returns the record at an address.
    pub(super) fn record(&self, memory: &Memory, at: Address) -> Result<Record, TargetError> {
        let mut bytes = vec![0; self.thread.size];
        memory.read(at, &mut bytes).map_err(|_| TargetError::Nowhere { what: RECORD, at })?;
        Ok(Record::parse(at, &bytes, &self.thread))
    }

    /// Returns the request of a notification.
    pub(super) fn request(&self, memory: &Memory, tid: Tid, at: Address) -> Result<Request, TargetError> {
        let mut bytes = vec![0; self.request.size];
        let read = memory.read(at, &mut bytes);
        if read.is_err() || u64_at(&bytes, self.request.magic) != REQUEST_MAGIC {
            return Err(TargetError::Request { tid, at });
        }
        let offsets = &self.request;
        Ok(Request {
            acknowledged: at.offset(offsets.acknowledged),
            answer: at.offset(offsets.answer),
            sequence: u64_at(&bytes, offsets.sequence),
            event: u32_at(&bytes, offsets.event),
            detail: u32_at(&bytes, offsets.detail),
            tid: Tid(u32_at(&bytes, offsets.tid) as i32),
            world: Address(u64_at(&bytes, offsets.world)),
            thread: Address(u64_at(&bytes, offsets.thread)),
            epoch: u64_at(&bytes, offsets.epoch),
        })
    }
}

fn check_size(what: &'static str, at: Address, found: u64, least: usize, most: usize) -> Result<(), TargetError> {
    let fits = (least as u64..=most as u64).contains(&found);
    if fits { Ok(()) } else { Err(TargetError::Size { what, at, found, least, most }) }
}

/// The largest signal number of Linux.
const MOST_SIGNAL: i32 = 64;

pub(super) fn check_signal(what: &'static str, at: Address, found: i32) -> Result<(), TargetError> {
    let fits = (0..=MOST_SIGNAL).contains(&found);
    if fits { Ok(()) } else { Err(TargetError::Signal { what, at, found, most: MOST_SIGNAL }) }
}

/// The layout of a table of offsets: the structure that it describes, and for each field its name and width. The first number is the
/// structure's size.
pub(super) struct Shape {
    what: &'static str,
    pub(super) fields: &'static [(&'static str, usize)],
}

pub(super) const REQUEST: Shape = Shape {
    what: "a request",
    fields: &[
        ("magic", 8),
        ("sequence", 8),
        ("acknowledged", 8),
        ("answer", 8),
        ("event", 4),
        ("detail", 4),
        ("tid", 4),
        ("world", 8),
        ("thread", 8),
        ("slot", 8),
        ("epoch", 8),
    ],
};

pub(super) const WORLD: Shape = Shape {
    what: "a world",
    fields: &[
        ("next", 8),
        ("number", 8),
        ("threads", 8),
        ("bridged", 4),
        ("phase", 4),
        ("collecting", 4),
        ("epoch", 8),
        ("collections", 8),
        ("heap_low", 8),
        ("heap_high", 8),
        ("collector", 8),
        ("stopper", 0),
    ],
};

pub(super) const THREAD: Shape = Shape {
    what: RECORD,
    fields: &[
        ("stack_ptr", 8),
        ("saved_sp", 8),
        ("state", 8),
        ("tid", 4),
        ("stack_low", 8),
        ("stack_high", 8),
        ("save_area", 8),
        ("save_area_size", 8),
        ("save_area_used", 4),
        ("name", 0),
        ("frozen", 8),
        ("next", 8),
        ("serial", 8),
    ],
};

/// The name of a record in errors.
const RECORD: &str = "a thread's record";

/// The numbers of a table that was checked.
struct Table(Vec<usize>);

fn table(bytes: &[u8], at: usize, shape: Shape, descriptor: Address) -> Result<Table, TargetError> {
    let number = |i: usize| u64_at(bytes, at + 8 * i);
    check_size(shape.what, descriptor.offset(at), number(0), 8, LARGEST_STRUCTURE)?;
    let size = number(0) as usize;
    let mut numbers = vec![size];
    for (i, &(field, width)) in shape.fields.iter().enumerate() {
        let offset = number(i + 1);
        // A name is a byte with the length, and the bytes that follow.
        let (bytes, align) = if width == 0 { (NAME, 1) } else { (width, width) };
        let fits = offset.checked_add(bytes as u64).is_some_and(|end| end <= size as u64);
        if !fits || !offset.is_multiple_of(align as u64) {
            return Err(TargetError::Offset { what: shape.what, field, offset, size });
        }
        numbers.push(offset as usize);
    }
    Ok(Table(numbers))
}

// Each shape has as many fields as the structure that it is converted to: the lengths are constants.
const _: () = {
    assert!(size_of::<RequestOffsets>() == 8 * (REQUEST.fields.len() + 1));
    assert!(size_of::<WorldOffsets>() == 8 * (WORLD.fields.len() + 1));
    assert!(size_of::<StopInfoOffsets>() == 8 * (THREAD.fields.len() + 1));
};

impl Table {
    fn into_request(self) -> RequestOffsets {
        let n = &self.0;
        RequestOffsets {
            size: n[0],
            magic: n[1],
            sequence: n[2],
            acknowledged: n[3],
            answer: n[4],
            event: n[5],
            detail: n[6],
            tid: n[7],
            world: n[8],
            thread: n[9],
            slot: n[10],
            epoch: n[11],
        }
    }

    fn into_world(self) -> WorldOffsets {
        let n = &self.0;
        WorldOffsets {
            size: n[0],
            next: n[1],
            number: n[2],
            threads: n[3],
            bridged: n[4],
            phase: n[5],
            collecting: n[6],
            epoch: n[7],
            collections: n[8],
            heap_low: n[9],
            heap_high: n[10],
            collector: n[11],
            stopper: n[12],
        }
    }

    fn into_thread(self) -> StopInfoOffsets {
        let n = &self.0;
        StopInfoOffsets {
            size: n[0],
            stack_ptr: n[1],
            saved_sp: n[2],
            state: n[3],
            tid: n[4],
            stack_low: n[5],
            stack_high: n[6],
            save_area: n[7],
            save_area_size: n[8],
            save_area_used: n[9],
            name: n[10],
            frozen: n[11],
            next: n[12],
            serial: n[13],
        }
    }
}

/// The state of a world at the time of the query.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorldState {
    /// Its address.
    pub address: Address,
    /// Its number in the process.
    pub number: u64,
    /// The phase of its collection; `Err` has an unknown number.
    pub phase: Result<Phase, u32>,
    /// The collecting thread.
    pub collecting: Option<Tid>,
    /// The number of its latest stop.
    pub epoch: u64,
    /// The number of its finished collections.
    pub collections: u64,
    /// The bounds of its heap.
    pub heap: (Address, Address),
    /// The address by which its functions for inferior calls identify it.
    pub collector: Address,
    /// Whether it notifies debuggers of its stops.
    pub bridged: bool,
    /// The name of its vtable.
    pub stopper: String,
    pub(super) threads: Address,
}

impl WorldState {
    fn parse(address: Address, bytes: &[u8], offsets: &WorldOffsets) -> Self {
        let word = |offset| u64_at(bytes, offset);
        let phase = u32_at(bytes, offsets.phase);
        let collecting = u32_at(bytes, offsets.collecting) as i32;
        Self {
            address,
            number: word(offsets.number),
            phase: Phase::of(phase).ok_or(phase),
            collecting: (collecting != 0).then_some(Tid(collecting)),
            epoch: word(offsets.epoch),
            collections: word(offsets.collections),
            heap: (Address(word(offsets.heap_low)), Address(word(offsets.heap_high))),
            collector: Address(word(offsets.collector)),
            bridged: u32_at(bytes, offsets.bridged) == 1,
            stopper: name(&bytes[offsets.stopper..offsets.stopper + NAME]),
            threads: Address(word(offsets.threads)),
        }
    }
}

/// A thread's state in its handshake with the collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeState {
    /// It is not a mutator any more.
    Detached,
    /// It runs, or is stopped by a debugger.
    Running,
    /// It is in a blocking region.
    Blocking,
    /// It has stopped itself for a collection.
    Parked,
}

/// The record of a managed thread, at the time of the query.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Record {
    /// Its address.
    pub address: Address,
    /// The thread's id.
    pub tid: Tid,
    /// The name given at attach.
    pub name: String,
    /// The address of its `stack_ptr`.
    pub slot: Address,
    /// The value of `stack_ptr`.
    pub stack_ptr: Address,
    /// The stack pointer that the thread itself published.
    pub saved_sp: Address,
    /// The handshake's word.
    pub state: u64,
    /// The stack's lowest address and its base.
    pub stack: (Address, Address),
    /// Distinguishes the uses of one record.
    pub serial: u64,
    /// The epoch for which a debugger has answered.
    pub frozen: u64,
    pub(super) save_area: SaveArea,
}

impl Record {
    pub(super) fn parse(address: Address, bytes: &[u8], offsets: &StopInfoOffsets) -> Self {
        let word = |offset| u64_at(bytes, offset);
        Self {
            address,
            tid: Tid(u32_at(bytes, offsets.tid) as i32),
            name: name(&bytes[offsets.name..offsets.name + NAME]),
            slot: address.offset(offsets.stack_ptr),
            stack_ptr: Address(word(offsets.stack_ptr)),
            saved_sp: Address(word(offsets.saved_sp)),
            state: word(offsets.state),
            stack: (Address(word(offsets.stack_low)), Address(word(offsets.stack_high))),
            serial: word(offsets.serial),
            frozen: word(offsets.frozen),
            save_area: SaveArea::parse(address, bytes, offsets),
        }
    }

    /// Returns the thread's state in its handshake.
    pub fn handshake_state(&self) -> HandshakeState {
        match self.state & 3 {
            0 => HandshakeState::Detached,
            1 => HandshakeState::Running,
            2 => HandshakeState::Blocking,
            _ => HandshakeState::Parked,
        }
    }
}

/// The part of a record that a stop needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stack {
    pub(super) record: Address,
    pub(super) tid: i32,
    /// The address of its `stack_ptr`.
    pub(super) slot: Address,
    pub(super) low: u64,
    pub(super) high: u64,
    pub(super) save_area: SaveArea,
    /// Whether it has been read.
    pub(super) is_done: bool,
}

/// The memory for registers in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SaveArea {
    pub(super) at: Address,
    pub(super) size: usize,
    /// The address of the number of bytes used.
    pub(super) used: Address,
}

impl SaveArea {
    fn parse(record: Address, bytes: &[u8], offsets: &StopInfoOffsets) -> Self {
        let size = u64_at(bytes, offsets.save_area_size) as usize;
        let used = record.offset(offsets.save_area_used);
        Self { at: Address(u64_at(bytes, offsets.save_area)), size, used }
    }
}

impl Stack {
    fn parse(record: Address, bytes: &[u8], offsets: &StopInfoOffsets) -> Self {
        Self {
            record,
            tid: u32_at(bytes, offsets.tid) as i32,
            slot: record.offset(offsets.stack_ptr),
            low: u64_at(bytes, offsets.stack_low),
            high: u64_at(bytes, offsets.stack_high),
            save_area: SaveArea::parse(record, bytes, offsets),
            is_done: false,
        }
    }
}

/// Parses a byte with the length, and a name of any bytes.
fn name(bytes: &[u8]) -> String {
    let length = usize::from(bytes[0]).min(bytes.len() - 1);
    String::from_utf8_lossy(&bytes[1..=length]).into_owned()
}

/// The request of a notifying thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) acknowledged: Address,
    pub(super) answer: Address,
    pub(super) sequence: u64,
    pub(super) event: u32,
    pub(super) detail: u32,
    pub(super) tid: Tid,
    pub(super) world: Address,
    pub(super) thread: Address,
    pub(super) epoch: u64,
}
