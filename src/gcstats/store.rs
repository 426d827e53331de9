//! All collections of a process, in memory of a fixed size.
//!
//! A trace of 10 GB can hold millions of collections, and every report needs each of them at the end: some begin with
//! sums over all. So a collection about which nothing can change any more is packed into bytes, and when there are many,
//! the bytes go to a file, to be read again in order as often as the report needs.
//!
//! Collections become final in the order in which they began, but for those in the background, which others overtake.
//! These have a log of their own, and reading merges the two by their places.
//!
//! The files have no name, so nothing is left behind however the process ends. They are made in `TMPDIR` (or `/tmp`);
//! where that is a file system in memory, "fixed size" is true of this process only. If a file can't be written, the
//! collections stay in memory.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};

use super::collection::{Collection, Kind};
use super::pack::{Pack, Unpacker};

/// What a log keeps in memory before it goes to a file.
const IN_MEMORY: usize = 8 << 20;
/// Read ahead from a file.
const READ_AHEAD: usize = 256 << 10;

/// The collections of a process.
#[derive(Debug, Default)]
pub(super) struct Store {
    ordinary: Log,
    background: Log,
    pub(super) count: u64,
    /// Whether to leave out the histories that are marked as provisional.
    pub(super) drop_provisional: bool,
}

impl Store {
    /// Keeps a collection. Those of the background come in their order, and so do all others.
    pub(super) fn push(&mut self, collection: &Collection) {
        let log = if collection.kind == Kind::BACKGROUND { &mut self.background } else { &mut self.ordinary };
        log.push(collection);
        self.count += 1;
    }

    /// Whether any collection ran in the background.
    pub(super) fn has_background(&self) -> bool {
        self.background.in_file > 0 || !self.background.memory.is_empty()
    }

    /// Shows all collections in the order in which they began.
    ///
    /// # Errors
    ///
    /// The file that they were put into can't be read.
    pub(super) fn for_each<E: From<io::Error>>(
        &self,
        mut each: impl FnMut(&Collection) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut logs = [self.ordinary.entries()?, self.background.entries()?];
        let mut heads = [logs[0].next()?, logs[1].next()?];
        loop {
            let first = match (&heads[0], &heads[1]) {
                (Some(ordinary), Some(background)) => usize::from(background.index < ordinary.index),
                (Some(_), None) => 0,
                (None, Some(_)) => 1,
                (None, None) => return Ok(()),
            };
            if let Some(collection) = &mut heads[first] {
                if self.drop_provisional && collection.is_provisional {
                    collection.forget_histories();
                }
                each(collection)?;
            }
            heads[first] = logs[first].next()?;
        }
    }
}

/// Packed collections, one after the other, each behind its length.
#[derive(Debug, Default)]
struct Log {
    memory: Vec<u8>,
    file: Option<File>,
    /// Bytes in the file; those in memory follow them.
    in_file: u64,
    /// Whether writing to a file has failed.
    memory_only: bool,
}

impl Log {
    fn push(&mut self, collection: &Collection) {
        let at = self.memory.len();
        self.memory.extend([0; 4]);
        collection.pack(&mut self.memory);
        let length = u32::try_from(self.memory.len() - at - 4).expect("the rows of a collection are limited");
        self.memory[at..at + 4].copy_from_slice(&length.to_le_bytes());
        if self.memory.len() >= IN_MEMORY && !self.memory_only {
            self.memory_only = self.spill().is_err();
        }
    }

    fn spill(&mut self) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(tempfile::tempfile()?),
        };
        // If this fails half-way, what is behind `in_file` is never read.
        file.seek(SeekFrom::Start(self.in_file))?;
        file.write_all(&self.memory)?;
        self.in_file += self.memory.len() as u64;
        self.memory.clear();
        Ok(())
    }

    fn entries(&self) -> io::Result<Entries<'_>> {
        let file: Box<dyn Read> = match &self.file {
            Some(file) => {
                let mut file = file.try_clone()?;
                file.seek(SeekFrom::Start(0))?;
                Box::new(BufReader::with_capacity(READ_AHEAD, file.take(self.in_file)))
            }
            None => Box::new(io::empty()),
        };
        Ok(Entries { bytes: file.chain(&self.memory), entry: Vec::new() })
    }
}

/// The collections of a log in order.
struct Entries<'a> {
    bytes: io::Chain<Box<dyn Read>, &'a [u8]>,
    entry: Vec<u8>,
}

impl Entries<'_> {
    fn next(&mut self) -> io::Result<Option<Collection>> {
        let mut length = [0; 4];
        match self.bytes.read_exact(&mut length) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        }
        self.entry.resize(u32::from_le_bytes(length) as usize, 0);
        self.bytes.read_exact(&mut self.entry)?;
        Ok(Some(Collection::unpack(&mut Unpacker::new(&self.entry))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::nettrace::clr::history::GenerationData;
    use crate::gcstats::collection::HeapHistory;

    fn collection(index: u64, kind: Kind) -> Collection {
        let data = GenerationData { size_before: index as i64 * 1000, budget: -1, ..GenerationData::default() };
        let heaps = vec![HeapHistory { generations: vec![data; 5] }; 8];
        Collection { index, kind, heaps, pause: index as f64 / 3.0, ..Collection::default() }
    }

    #[test]
    fn more_collections_than_fit_into_memory_come_back_in_order() {
        let mut store = Store::default();
        let total = 60_000;
        for index in 0..total {
            match index % 7 {
                // Becomes final after the next two.
                0 => continue,
                2 => {
                    store.push(&collection(index, Kind::BLOCKING));
                    store.push(&collection(index - 2, Kind::BACKGROUND));
                }
                _ => store.push(&collection(index, Kind::BLOCKING)),
            }
        }
        assert!(store.ordinary.in_file > 0, "nothing was written to a file");
        for _ in 0..2 {
            let mut next = 0;
            let all = store.for_each(|found| {
                let kind = if next % 7 == 0 { Kind::BACKGROUND } else { Kind::BLOCKING };
                assert_eq!(*found, collection(next, kind));
                next += 1;
                Ok::<_, io::Error>(())
            });
            all.expect("a file can be read");
            assert_eq!(next, store.count);
        }
    }
}
