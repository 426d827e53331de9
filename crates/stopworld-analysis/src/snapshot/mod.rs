//! Heap snapshots: from the heap dump of a trace, or from a snapshot file; what is in them, and what has grown between two.
//!
//! | file | part |
//! |---|---|
//! | `assemble`, `dumps`, `trace_heap` | the heap dump of a .nettrace file as a heap |
//! | `census` | the objects of a heap by type, with retained sizes |

mod assemble;
mod census;
mod dumps;
mod trace_heap;

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;

pub use census::{Growth, TypeRow, census, growth};
pub use trace_heap::{DumpChoice, OnRead, TraceHeap, TraceHeapError};

use heap_snapshot::{Graph, hprof, v8};

/// The format of a file with a heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotFormat {
    /// `.heapsnapshot`.
    HeapSnapshot,
    /// HPROF.
    Hprof,
    /// `.nettrace`, with a heap dump.
    Nettrace,
}

impl SnapshotFormat {
    /// Returns the format of snapshots that the extension of a file selects: `.heapsnapshot` or `.hprof`.
    pub fn by_extension(file: &Path) -> Option<SnapshotFormat> {
        match file.extension()?.to_str()? {
            "heapsnapshot" => Some(SnapshotFormat::HeapSnapshot),
            "hprof" => Some(SnapshotFormat::Hprof),
            _ => None,
        }
    }

    /// Returns the format of a file by its first bytes. Does not move the position of the file.
    ///
    /// # Errors
    /// The file can't be read.
    pub fn of(file: &File) -> io::Result<Option<SnapshotFormat>> {
        let mut head = [0; 64];
        let mut count = 0;
        while count < head.len() {
            match file.read_at(&mut head[count..], count as u64)? {
                0 => break,
                read => count += read,
            }
        }
        let head = &head[..count];
        let text = head.trim_ascii_start();
        Ok(if head.starts_with(b"Nettrace") {
            Some(SnapshotFormat::Nettrace)
        } else if head.starts_with(b"JAVA PROFILE 1.0") {
            Some(SnapshotFormat::Hprof)
        } else if text.starts_with(b"{") {
            Some(SnapshotFormat::HeapSnapshot)
        } else {
            None
        })
    }
}

/// Why a file is no heap.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The file has another format.
    #[error("not a heap snapshot: expected a .heapsnapshot, an HPROF file, or a .nettrace with a heap dump")]
    Unknown,
    /// The file can't be read.
    #[error("can't read the file: {0}")]
    Input(#[from] io::Error),
    /// The trace has no heap dump that can be used.
    #[error(transparent)]
    Trace(#[from] TraceHeapError),
    /// The snapshot is damaged.
    #[error(transparent)]
    Heap(#[from] heap_snapshot::Error),
}

/// A heap in a file.
#[derive(Debug)]
pub enum OpenedHeap {
    /// A heap dump, which stays in its file.
    Trace(Box<TraceHeap>),
    /// A snapshot, read into memory.
    Graph(Box<Graph>),
}

impl OpenedHeap {
    /// Opens a file with a heap, whatever its format. `choice` selects one of the dumps of a trace.
    ///
    /// # Errors
    /// The file has no heap.
    pub fn open(file: File, choice: DumpChoice) -> Result<OpenedHeap, SnapshotError> {
        OpenedHeap::open_watched(file, choice, Box::new(|_| ()))
    }

    /// Like [`open`](Self::open). If the file is a trace, `on_read` is called while it is read: see [`TraceHeap::open_watched`].
    ///
    /// # Errors
    /// The file has no heap.
    pub fn open_watched(mut file: File, choice: DumpChoice, on_read: OnRead) -> Result<OpenedHeap, SnapshotError> {
        match SnapshotFormat::of(&file)? {
            None => Err(SnapshotError::Unknown),
            Some(SnapshotFormat::Nettrace) => {
                Ok(OpenedHeap::Trace(Box::new(TraceHeap::open_watched(file, choice, on_read)?)))
            }
            Some(SnapshotFormat::HeapSnapshot) => {
                file.seek(SeekFrom::Start(0))?;
                Ok(OpenedHeap::Graph(Box::new(v8::read(file)?)))
            }
            Some(SnapshotFormat::Hprof) => {
                file.seek(SeekFrom::Start(0))?;
                Ok(OpenedHeap::Graph(Box::new(hprof::read(file)?)))
            }
        }
    }

    /// Reads the heap into memory.
    ///
    /// # Errors
    /// The file can't be read.
    pub fn into_graph(self) -> Result<Graph, SnapshotError> {
        match self {
            OpenedHeap::Trace(trace) => Ok(Graph::of(&*trace)?),
            OpenedHeap::Graph(graph) => Ok(*graph),
        }
    }
}
