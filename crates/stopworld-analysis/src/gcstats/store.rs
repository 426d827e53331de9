//! All collections of a process, or of one of its worlds, in memory of a fixed size.
//!
//! A trace of 10 GB can hold millions of collections, and every report needs all of them at the end; some reports begin with sums over all
//! collections. So a collection is packed into bytes as soon as it cannot change any more. When there are many, the bytes are written to a
//! file, and read again in order as often as a report needs.
//!
//! Collections become final in the order in which they began, except background collections, during which others begin and end. Background
//! collections have a log of their own, and reading merges the two logs of each world by index.
//!
//! A trace may have many processes. All share one file and one memory limit, so memory does not grow with the number of processes.
//!
//! The file has no name, so it disappears however the process ends. It is created in `TMPDIR` (or `/tmp`). If that is a file system
//! in memory, "fixed size" is true of this process only. If the file cannot be written, the collections stay in memory.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::collection::{Collection, Kind};
use super::pack::{Pack, Unpacker};

/// The most bytes that a log keeps in memory before it is written to the file.
const IN_MEMORY: usize = 16 << 20;
/// The most bytes that all logs of a trace keep in memory together. Beyond this limit, a log is written to the file as soon as it has
/// [`LEAST`] bytes.
const ALL_IN_MEMORY: usize = 32 << 20;
/// The most pinned objects that the processes of a trace remember together.
const MOST_PINNED: usize = 1 << 18;
/// The smallest number of bytes to write at once: fewer are not worth a system call.
const LEAST: usize = 64 << 10;
/// The size of reads from the file, of all worlds of a process together.
const READ_AHEAD: usize = 256 << 10;

/// The state that the stores of a trace share.
#[derive(Clone, Debug, Default)]
pub(super) struct Shared(Arc<Mutex<Spill>>);

#[derive(Debug, Default)]
struct Spill {
    file: Option<File>,
    /// The number of bytes in the file.
    written: u64,
    /// Bytes in memory, the sum over all logs.
    in_memory: usize,
    /// Whether writing to the file has failed.
    memory_only: bool,
    /// The number of objects known to be pinned, in all processes.
    pinned: usize,
}

impl Shared {
    fn get(&self) -> MutexGuard<'_, Spill> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Spill {
    /// Appends to the file. Returns the offset.
    fn write(&mut self, bytes: &[u8]) -> io::Result<u64> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(tempfile::tempfile()?),
        };
        // If this write fails half-way, the bytes past `written` are never read.
        file.write_all_at(bytes, self.written)?;
        let at = self.written;
        self.written += bytes.len() as u64;
        Ok(at)
    }
}

/// The collections of a process, or of one of its worlds.
#[derive(Debug, Default)]
pub(super) struct Store {
    ordinary: Log,
    background: Log,
    pub(super) count: u64,
    /// Whether to leave out the histories that are marked as provisional.
    pub(super) drop_provisional: bool,
}

impl Store {
    /// Creates a store that shares its file and limits with the other stores of the trace.
    pub(super) fn new(shared: &Shared) -> Store {
        let log = || Log { shared: shared.clone(), ..Log::default() };
        Store { ordinary: log(), background: log(), ..Store::default() }
    }

    /// Counts one more pinned object. Returns false if the limit over all processes is reached.
    pub(super) fn pin(&mut self) -> bool {
        let mut spill = self.ordinary.shared.get();
        let has_room = spill.pinned < MOST_PINNED;
        spill.pinned += usize::from(has_room);
        has_room
    }

    /// Forgets this many pinned objects.
    pub(super) fn unpin(&mut self, objects: usize) {
        self.ordinary.shared.get().pinned -= objects;
    }

    /// Adds a collection. Background collections must be added in their order, and all others in theirs.
    pub(super) fn push(&mut self, collection: &Collection) {
        let log = if collection.kind == Kind::BACKGROUND { &mut self.background } else { &mut self.ordinary };
        log.push(collection);
        self.count += 1;
    }

    /// Returns whether any collection ran in the background.
    pub(super) fn has_background(&self) -> bool {
        !self.background.is_empty()
    }
}

/// Calls `each` with the collections of all stores in the order in which they began.
///
/// # Errors
///
/// The temporary file cannot be read back.
pub(super) fn for_each<E: From<io::Error>>(
    stores: &[Store],
    mut each: impl FnMut(&Collection) -> Result<(), E>,
) -> Result<(), E> {
    let read_ahead = READ_AHEAD / stores.len().max(1);
    let logs = stores.iter().flat_map(|store| [(&store.ordinary, store), (&store.background, store)]);
    let mut heads = Vec::new();
    for (log, store) in logs.filter(|(log, _)| !log.is_empty()) {
        let mut entries = log.entries(read_ahead)?;
        let mut collection = Collection::default();
        if entries.next(&mut collection)? {
            heads.push((entries, collection, store.drop_provisional));
        }
    }
    while let Some(first) = (0..heads.len()).min_by_key(|&log| heads[log].1.index) {
        let (entries, collection, drop_provisional) = &mut heads[first];
        if *drop_provisional && collection.is_provisional {
            collection.forget_histories();
        }
        each(collection)?;
        if !entries.next(collection)? {
            heads.swap_remove(first);
        }
    }
    Ok(())
}

/// Packed collections, one after the other, each preceded by its length.
#[derive(Debug, Default)]
struct Log {
    memory: Vec<u8>,
    /// The offsets and lengths of its parts in the file; the part in memory follows them.
    in_file: Vec<(u64, usize)>,
    shared: Shared,
}

impl Log {
    fn push(&mut self, collection: &Collection) {
        let at = self.memory.len();
        self.memory.extend([0; 4]);
        collection.pack(&mut self.memory);
        let length = u32::try_from(self.memory.len() - at - 4).expect("the rows of a collection are limited");
        self.memory[at..at + 4].copy_from_slice(&length.to_le_bytes());
        let shared = self.shared.clone();
        let mut spill = shared.get();
        spill.in_memory += self.memory.len() - at;
        let most = if spill.in_memory >= ALL_IN_MEMORY { LEAST } else { IN_MEMORY };
        if self.memory.len() >= most && !spill.memory_only {
            spill.memory_only = self.spill(&mut spill).is_err();
        }
    }

    fn spill(&mut self, spill: &mut Spill) -> io::Result<()> {
        let at = spill.write(&self.memory)?;
        self.in_file.push((at, self.memory.len()));
        spill.in_memory -= self.memory.len();
        self.memory = Vec::new();
        Ok(())
    }

    fn is_empty(&self) -> bool {
        self.in_file.is_empty() && self.memory.is_empty()
    }

    fn entries(&self, read_ahead: usize) -> io::Result<Entries<'_>> {
        let file = self.shared.get().file.as_ref().map(File::try_clone).transpose()?;
        let in_file = Parts { file, parts: &self.in_file, read: 0 };
        Ok(Entries { bytes: BufReader::with_capacity(read_ahead, in_file).chain(&self.memory), entry: Vec::new() })
    }
}

/// A reader for the parts of a log in the file, in order.
struct Parts<'a> {
    file: Option<File>,
    parts: &'a [(u64, usize)],
    /// The number of bytes read of the current part.
    read: usize,
}

impl Read for Parts<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (Some(file), Some((&(at, length), later))) = (&self.file, self.parts.split_first()) else { return Ok(0) };
        let most = buffer.len().min(length - self.read);
        let bytes = file.read_at(&mut buffer[..most], at + self.read as u64)?;
        if bytes == 0 && most > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.read += bytes;
        if self.read == length {
            (self.parts, self.read) = (later, 0);
        }
        Ok(bytes)
    }
}

/// Iterates over the collections of a log, in order.
struct Entries<'a> {
    bytes: io::Chain<BufReader<Parts<'a>>, &'a [u8]>,
    entry: Vec<u8>,
}

impl Entries<'_> {
    /// Replaces `collection` by the next one. Returns false if there is none.
    fn next(&mut self, collection: &mut Collection) -> io::Result<bool> {
        let mut length = [0; 4];
        match self.bytes.read_exact(&mut length) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            read => read?,
        }
        self.entry.resize(u32::from_le_bytes(length) as usize, 0);
        self.bytes.read_exact(&mut self.entry)?;
        collection.unpack_into(&mut Unpacker::new(&self.entry));
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gcstats::collection::{HeapHistory, HeapStats};
    use nettrace::clr::history::GenerationData;

    fn collection(index: u64, kind: Kind) -> Collection {
        let data = GenerationData { size_before: index as i64 * 1000, budget: -1, ..GenerationData::default() };
        // Each has other optional parts than the one before it, in whose memory it is read back.
        let heaps = vec![HeapHistory { generations: vec![data; 5 - index as usize % 2] }; 8 + index as usize % 3];
        let stats = index.is_multiple_of(4).then(HeapStats::default);
        Collection { index, kind, heaps, stats, pause: index as f64 / 3.0, ..Collection::default() }
    }

    #[test]
    fn more_collections_than_fit_into_memory_come_back_in_order() {
        let mut store = Store::default();
        let total = 60_000;
        for index in 0..total {
            match index % 7 {
                // This collection is pushed after the next two, because it becomes final after them.
                0 => continue,
                2 => {
                    store.push(&collection(index, Kind::BLOCKING));
                    store.push(&collection(index - 2, Kind::BACKGROUND));
                }
                _ => store.push(&collection(index, Kind::BLOCKING)),
            }
        }
        assert!(!store.ordinary.in_file.is_empty(), "nothing was written to the file");
        for _ in 0..2 {
            let mut next = 0;
            let all = for_each(std::slice::from_ref(&store), |found| {
                let kind = if next % 7 == 0 { Kind::BACKGROUND } else { Kind::BLOCKING };
                assert_eq!(*found, collection(next, kind));
                next += 1;
                Ok::<_, io::Error>(())
            });
            all.expect("a file can be read");
            assert_eq!(next, store.count);
        }
    }

    #[test]
    fn the_stores_of_many_processes_share_a_limit_and_a_file() {
        let shared = Shared::default();
        let mut stores: Vec<Store> = (0..400).map(|_| Store::new(&shared)).collect();
        let each = 250;
        for index in 0..each {
            stores.iter_mut().for_each(|store| store.push(&collection(index, Kind::BLOCKING)));
        }
        let in_memory = shared.get().in_memory;
        let written = shared.get().written;
        let by_logs: usize = stores.iter().map(|store| store.ordinary.memory.len()).sum();
        assert_eq!(in_memory, by_logs);
        // Packed they take 58 MB, and no log would be large enough to be written by itself.
        assert!(written > 0 && in_memory < ALL_IN_MEMORY + 400 * LEAST / 2, "{in_memory} {written}");
        for store in &stores {
            let mut next = 0;
            let all = for_each(std::slice::from_ref(store), |found| {
                assert_eq!(*found, collection(next, Kind::BLOCKING));
                next += 1;
                Ok::<_, io::Error>(())
            });
            all.expect("the file can be read");
            assert_eq!(next, each);
        }
    }
}
