//! Sorts a stream of any length in memory of fixed size.
//!
//! Records are collected into a batch of fixed size, and a full batch is sorted in place. A stream that ends within the first batch
//! needs no more. Otherwise each batch goes to a file as a *run*, and at the end the runs are merged, each read through a small
//! buffer. So that there are never more runs than buffers, 256 runs of one level are merged into one run of the next level:
//!
//! ```text
//! records ─► batch (8 MiB, sorted) ─► run run run … 256 ─┐ level 0
//!                                                         └► run of 2 GiB, … 256 ─┐ level 1
//!                                                                                  └► …
//! ```
//! The cost is disk space: the size of the stream, and twice that size while runs are merged. The files are unnamed, so none remains,
//! however the process ends. They are created in `TMPDIR` (or `/tmp`); if that is a file system in memory, "fixed size" is true of this
//! process only.

use std::cmp::Ordering;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::format::{HEADER, LARGEST_RECORD};
use super::line::{Line, LineBuffer};
use super::reader::Record;
use super::{Version, hex};

/// The order of the lines: by clock, then by the text of `mpseventcnv`'s line.
pub(super) struct Order {
    version: Version,
    left: LineBuffer,
    right: LineBuffer,
}

impl Order {
    pub(super) fn new(version: Version) -> Order {
        Order { version, left: LineBuffer::default(), right: LineBuffer::default() }
    }

    fn compare(&mut self, a: &[u8], b: &[u8]) -> Ordering {
        if a == b {
            return Ordering::Equal;
        }
        let (a, b) = (Record::kept(a), Record::kept(b));
        // Clock and code are printed first, in columns of fixed width: their order as numbers is that of their text.
        a.clock().cmp(&b.clock()).then(a.code().cmp(&b.code())).then_with(|| {
            let layout = self.version.layout(a.code());
            let print = |line: &mut Line<'_>, record| hex::print(line, layout, record);
            self.left.fill(|line| print(line, &a)).cmp(self.right.fill(|line| print(line, &b)))
        })
    }
}

/// The memory for a batch, and the number of runs that are merged at once. Tests use small values.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub(super) batch: usize,
    pub(super) fan_in: usize,
    pub(super) merge_buffers: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { batch: 8 << 20, fan_in: 256, merge_buffers: 4 << 20 }
    }
}

/// The size of the smallest buffer through which a run is read.
const SMALLEST_BUFFER: usize = 4 << 10;

/// Collects records, and returns them in order.
pub struct Sorter {
    order: Order,
    limits: Limits,
    directory: std::path::PathBuf,
    batch: Vec<u8>,
    /// The clock of each record in the batch, and the record's offset there.
    index: Vec<(u64, u32)>,
    levels: Vec<Level>,
}

/// The runs of one level, in one file.
struct Level {
    file: File,
    len: u64,
    runs: Vec<(u64, u64)>,
}

impl Sorter {
    /// Creates an empty sorter. Its unnamed files are created in `directory`.
    pub fn new(version: Version, directory: &Path, limits: Limits) -> Sorter {
        let directory = directory.to_owned();
        Sorter {
            order: Order::new(version),
            limits,
            directory,
            batch: Vec::new(),
            index: Vec::new(),
            levels: Vec::new(),
        }
    }

    /// Adds a record.
    pub fn add(&mut self, record: &Record<'_>) -> io::Result<()> {
        let bytes = record.bytes();
        if self.batch.len() + bytes.len() > self.limits.batch {
            self.spill()?;
        }
        self.index.push((record.clock(), self.batch.len() as u32));
        self.batch.extend_from_slice(bytes);
        Ok(())
    }

    fn sort_batch(&mut self) {
        let (batch, order) = (&self.batch, &mut self.order);
        self.index.sort_unstable_by(|a, b| {
            a.0.cmp(&b.0).then_with(|| order.compare(record_at(batch, a.1 as usize), record_at(batch, b.1 as usize)))
        });
    }

    /// Writes the batch as a run.
    fn spill(&mut self) -> io::Result<()> {
        self.sort_batch();
        let level = level(&mut self.levels, 0, &self.directory)?;
        let mut run = RunWriter::begin(level);
        for &(_, at) in &self.index {
            run.add(record_at(&self.batch, at as usize))?;
        }
        run.end()?;
        self.batch.clear();
        self.index.clear();
        self.merge_level(0)
    }

    /// Merges a full level into one run of the next level, and does the same there if that level is full then.
    fn merge_level(&mut self, from: usize) -> io::Result<()> {
        if self.levels[from].runs.len() < self.limits.fan_in {
            return Ok(());
        }
        level(&mut self.levels, from + 1, &self.directory)?;
        let (below, above) = self.levels.split_at_mut(from + 1);
        let (full, next) = (&mut below[from], &mut above[0]);
        let runs = full.runs.iter().map(|&run| (&full.file, run)).collect();
        let mut merged = RunWriter::begin(next);
        merge(runs, self.limits.merge_buffers, &mut self.order, |bytes| merged.add(bytes))?;
        merged.end()?;
        full.runs.clear();
        full.len = 0;
        full.file.set_len(0)?;
        self.merge_level(from + 1)
    }

    /// Passes all records to `each`, in order. Errors of the files and errors of `each` are kept apart.
    pub fn finish<E>(mut self, mut each: impl FnMut(&Record<'_>) -> Result<(), E>) -> Result<(), Failed<E>> {
        if self.levels.is_empty() {
            self.sort_batch();
            let mut all = self.index.iter().map(|&(_, at)| Record::kept(record_at(&self.batch, at as usize)));
            return all.try_for_each(|record| each(&record).map_err(Failed::Each));
        }
        self.spill().map_err(Failed::Files)?;
        (self.batch, self.index) = (Vec::new(), Vec::new());
        let runs = self.levels.iter().flat_map(|level| level.runs.iter().map(|&run| (&level.file, run))).collect();
        let mut failed = None;
        let merged = merge(runs, self.limits.merge_buffers, &mut self.order, |bytes| {
            each(&Record::kept(bytes)).map_err(|error| {
                failed = Some(error);
                io::Error::other("the consumer of the records")
            })
        });
        match (failed, merged) {
            (Some(error), _) => Err(Failed::Each(error)),
            (None, Err(error)) => Err(Failed::Files(error)),
            (None, Ok(())) => Ok(()),
        }
    }
}

/// The reason why not all records were passed on.
#[derive(Debug)]
pub enum Failed<E> {
    /// Writing or reading the files of runs failed.
    Files(io::Error),
    /// The consumer failed.
    Each(E),
}

/// Returns the whole record that begins at this offset of our own buffer.
fn record_at(bytes: &[u8], at: usize) -> &[u8] {
    let size = u16::from_le_bytes([bytes[at + 2], bytes[at + 3]]);
    &bytes[at..at + usize::from(size)]
}

/// Returns the level with this number; a new one gets an unnamed file.
fn level<'a>(levels: &'a mut Vec<Level>, number: usize, directory: &Path) -> io::Result<&'a mut Level> {
    while levels.len() <= number {
        let file = tempfile::tempfile_in(directory)?;
        levels.push(Level { file, len: 0, runs: Vec::new() });
    }
    Ok(&mut levels[number])
}

/// Appends a run to a level's file.
struct RunWriter<'a> {
    level: &'a mut Level,
    from: u64,
    buffer: Vec<u8>,
}

impl<'a> RunWriter<'a> {
    const BUFFER: usize = 256 << 10;

    fn begin(level: &'a mut Level) -> RunWriter<'a> {
        RunWriter { from: level.len, level, buffer: Vec::with_capacity(Self::BUFFER) }
    }

    fn add(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.buffer.len() + bytes.len() > Self::BUFFER {
            self.write()?;
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    fn write(&mut self) -> io::Result<()> {
        self.level.file.write_all_at(&self.buffer, self.level.len)?;
        self.level.len += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    fn end(mut self) -> io::Result<()> {
        self.write()?;
        let run = (self.from, self.level.len);
        if run.0 < run.1 {
            self.level.runs.push(run);
        }
        Ok(())
    }
}

/// Reads a run back.
struct RunReader<'a> {
    file: &'a File,
    next: u64,
    to: u64,
    buffer: Vec<u8>,
    at: usize,
    end: usize,
}

impl RunReader<'_> {
    /// Returns the next record, which is empty at the end of the run.
    fn front(&self) -> &[u8] {
        if self.at == self.end { &[] } else { record_at(&self.buffer, self.at) }
    }

    /// Advances to the next record. Returns true if there is one.
    fn advance(&mut self) -> io::Result<bool> {
        self.at += self.front().len();
        let whole = |reader: &RunReader<'_>| {
            let rest = reader.end - reader.at;
            rest >= HEADER && rest >= record_at_size(&reader.buffer, reader.at)
        };
        if whole(self) {
            return Ok(true);
        }
        self.buffer.copy_within(self.at..self.end, 0);
        self.end -= self.at;
        self.at = 0;
        let wanted = (self.to - self.next).min((self.buffer.len() - self.end) as u64) as usize;
        self.file.read_exact_at(&mut self.buffer[self.end..self.end + wanted], self.next)?;
        self.next += wanted as u64;
        self.end += wanted;
        Ok(self.end > 0)
    }
}

fn record_at_size(bytes: &[u8], at: usize) -> usize {
    usize::from(u16::from_le_bytes([bytes[at + 2], bytes[at + 3]]))
}

/// Passes the records of all runs to `each`, in order.
fn merge(
    runs: Vec<(&File, (u64, u64))>,
    memory: usize,
    order: &mut Order,
    mut each: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let size = (memory / runs.len().max(1)).max(SMALLEST_BUFFER.max(2 * LARGEST_RECORD));
    let mut readers = Vec::with_capacity(runs.len());
    for (file, (from, to)) in runs {
        let mut reader = RunReader { file, next: from, to, buffer: vec![0; size], at: 0, end: 0 };
        if reader.advance()? {
            readers.push(reader);
        }
    }
    // A heap of runs; the run with the smallest record is on top.
    let mut heap: Vec<usize> = (0..readers.len()).collect();
    let mut before = |readers: &[RunReader<'_>], a: usize, b: usize| {
        order.compare(readers[a].front(), readers[b].front()) == Ordering::Less
    };
    for place in (0..heap.len() / 2).rev() {
        sift_down(&mut heap, place, |a, b| before(&readers, a, b));
    }
    while let Some(&first) = heap.first() {
        each(readers[first].front())?;
        if !readers[first].advance()? {
            heap.swap_remove(0);
        }
        sift_down(&mut heap, 0, |a, b| before(&readers, a, b));
    }
    Ok(())
}

fn sift_down(heap: &mut [usize], mut place: usize, mut before: impl FnMut(usize, usize) -> bool) {
    loop {
        let children = 2 * place + 1..(2 * place + 3).min(heap.len());
        let mut first = place;
        for child in children {
            if before(heap[child], heap[first]) {
                first = child;
            }
        }
        if first == place {
            return;
        }
        heap.swap(first, place);
        place = first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Makes a `PoolAlloc` record with this clock and size.
    fn record(clock: u64, size: u64) -> Vec<u8> {
        let mut bytes = vec![0x2A, 0, 40, 0, 0, 0, 0, 0];
        for word in [clock, 0x5000, 0x6000, size] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    fn line(bytes: &[u8]) -> Vec<u8> {
        let mut buffer = LineBuffer::default();
        let record = Record::kept(bytes);
        buffer.fill(|line| hex::print(line, Version::V2.layout(record.code()), &record)).to_vec()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        /// The order is that of the lines as text, whether or not records were written to disk, and for any number of levels.
        #[test]
        fn records_come_back_in_the_order_of_their_lines(
            keys in prop::collection::vec((0..40u64, prop_oneof![0..20u64, any::<u64>()]), 0..400),
            batch in prop_oneof![Just(80usize), Just(1000), Just(1 << 20)],
            fan_in in 2..5usize,
        ) {
            let directory = tempfile::tempdir().unwrap();
            let limits = Limits { batch, fan_in, merge_buffers: 0 };
            let mut sorter = Sorter::new(Version::V2, directory.path(), limits);
            let mut lines = Vec::new();
            for (clock, size) in keys {
                let bytes = record(clock, size);
                lines.push(line(&bytes));
                sorter.add(&Record::kept(&bytes)).unwrap();
            }
            lines.sort();
            let mut sorted = Vec::new();
            sorter.finish(|record| { sorted.push(line(record.bytes())); Ok::<_, ()>(()) }).unwrap();
            prop_assert_eq!(sorted, lines);
            prop_assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        }
    }
}
