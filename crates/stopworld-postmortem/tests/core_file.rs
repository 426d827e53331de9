//! Cores whose headers and notes are damaged, or made to do harm.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rstest::rstest;
use stopworld_postmortem::{Bytes, CoreFile, Memory};

const NT_PRSTATUS: u32 = 1;
const NT_FILE: u32 = 0x4649_4c45;

/// Offsets of the members of a program header.
const KIND: usize = 0;
const ADDRESS: usize = 16;
const IN_FILE: usize = 32;
const IN_MEMORY: usize = 40;

fn put(core: &mut [u8], index: usize, member: usize, word: &[u8]) {
    let at = 64 + 56 * index + member;
    core[at..at + word.len()].copy_from_slice(word);
}

/// A core with two pieces of memory.
fn two_pieces() -> Vec<u8> {
    support::written(&[(0x1000, vec![1; 4096]), (0x10_0000, vec![2; 4096])])
}

fn note(kind: u32, contents: &[u8]) -> Vec<u8> {
    let mut note = Vec::new();
    for word in [0, u32::try_from(contents.len()).unwrap(), kind] {
        note.extend_from_slice(&word.to_le_bytes());
    }
    note.extend_from_slice(contents);
    note.resize(note.len().next_multiple_of(4), 0);
    note
}

/// A core with these notes.
fn with_notes(notes: Vec<u8>) -> CoreFile {
    let mut core = support::written(&[(0x1000, notes)]);
    put(&mut core, 0, KIND, &4_u32.to_le_bytes());
    CoreFile::parse(Box::new(core)).unwrap()
}

#[rstest]
#[case::in_memory(IN_MEMORY)]
#[case::in_file(IN_FILE)]
fn a_segment_with_a_wrong_size_does_not_hide_the_others(#[case] member: usize) {
    let mut core = two_pieces();
    put(&mut core, 0, member, &0x7fff_ffff_0000_u64.to_le_bytes());
    let core = CoreFile::parse(Box::new(core)).unwrap();
    let mut byte = [0];
    assert_eq!((core.read_some(0x1000, &mut byte), byte), (1, [1]));
    assert_eq!((core.read_some(0x10_0000, &mut byte), byte), (1, [2]));
}

#[test]
fn segments_at_one_address_are_reported() {
    let mut core = two_pieces();
    put(&mut core, 1, ADDRESS, &0x1800_u64.to_le_bytes());
    let core = CoreFile::parse(Box::new(core)).unwrap();
    assert_eq!(core.complaints(), ["1 segments overlap others, and end where those begin"]);
    let mut bytes = [0; 2];
    assert_eq!((core.read_some(0x17ff, &mut bytes), bytes[0]), (1, 1));
    assert_eq!((core.read_some(0x1800, &mut bytes), bytes), (2, [2, 2]));
}

#[test]
fn the_next_known_address_is_that_of_the_next_segment() {
    let core = CoreFile::parse(Box::new(two_pieces())).unwrap();
    assert_eq!(core.next_known(0x2000), 0x10_0000);
    assert_eq!(core.next_known(0x20_0000), u64::MAX);
}

/// A file of zeros after its beginning, which counts the bytes that are read.
struct Sparse {
    beginning: Vec<u8>,
    length: u64,
    read: Arc<AtomicU64>,
}

impl Bytes for Sparse {
    fn length(&self) -> u64 {
        self.length
    }

    fn bytes_at(&self, at: u64, into: &mut [u8]) -> usize {
        self.read.fetch_add(into.len() as u64, Ordering::Relaxed);
        into.fill(0);
        self.beginning.bytes_at(at, into);
        into.len().min(usize::try_from(self.length.saturating_sub(at)).unwrap_or(usize::MAX))
    }
}

/// `.format.hostile`
#[test]
fn segments_of_notes_that_overlap_are_read_up_to_a_limit() {
    const SEGMENTS: usize = 1000;
    let (notes, read) = (200_u64 << 20, Arc::new(AtomicU64::new(0)));
    let pieces: Vec<_> = (0..SEGMENTS).map(|index| (0x1000 * index as u64, Vec::new())).collect();
    let mut beginning = support::written(&pieces);
    for index in 0..SEGMENTS {
        put(&mut beginning, index, KIND, &4_u32.to_le_bytes());
        put(&mut beginning, index, IN_FILE, &notes.to_le_bytes());
    }
    let length = beginning.len() as u64 + notes;
    let core = CoreFile::parse(Box::new(Sparse { beginning, length, read: Arc::clone(&read) })).unwrap();
    assert!(core.complaints().iter().any(|complaint| complaint.contains("bytes of the notes at byte")));
    assert!(read.load(Ordering::Relaxed) < 2 * notes, "{read:?}");
}

#[test]
fn a_note_about_a_thread_that_is_too_short_is_reported() {
    let core = with_notes([note(NT_PRSTATUS, &[0; 336]), note(NT_PRSTATUS, &[])].concat());
    assert_eq!((core.threads().len(), core.complaints()), (1, &["a note about a thread is too short".to_owned()][..]));
}

/// Each list that is read again would be sorted again.
#[test]
fn the_first_list_of_mapped_files_counts() {
    let mut files = Vec::new();
    for word in [1, 4096, 0x1000, 0x2000, 0_u64] {
        files.extend_from_slice(&word.to_le_bytes());
    }
    files.extend_from_slice(b"/program\0");
    let core = with_notes(note(NT_FILE, &files).repeat(3));
    assert_eq!(core.mapped().len(), 1);
}

/// A process may map thousands of files.
#[test]
fn only_elf_files_are_opened_and_not_all_of_them() {
    const LIMIT: usize = 512;
    let program = std::env::current_exe().unwrap();
    // One file by many names.
    let mut paths: Vec<String> =
        (0..LIMIT + 3).map(|index| format!("{}{}", "/.".repeat(index), program.display())).collect();
    let data = format!("{}/Cargo.toml", env!("CARGO_MANIFEST_DIR"));
    paths.insert(0, data.clone());
    let mut files = Vec::new();
    for word in [paths.len() as u64, 4096] {
        files.extend_from_slice(&word.to_le_bytes());
    }
    for index in 1..=paths.len() as u64 {
        for word in [index << 20, (index << 20) + 4096, 0] {
            files.extend_from_slice(&word.to_le_bytes());
        }
    }
    paths.iter().for_each(|path| files.extend_from_slice(format!("{path}\0").as_bytes()));
    let mut core = support::written(&[(1 << 40, note(NT_FILE, &files))]);
    put(&mut core, 0, KIND, &4_u32.to_le_bytes());
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("many-files.core");
    std::fs::write(&file, core).unwrap();
    let core = CoreFile::open(&file, None).unwrap();
    assert_eq!(core.mapped().len(), paths.len());
    let unusable: Vec<_> = core.unusable_files().collect();
    assert_eq!(unusable.len(), 3, "{unusable:?}");
    assert!(unusable.iter().all(|(path, reason)| *path != data && reason.ends_with("512 files are open already")));
}

#[rstest]
#[case::a_folder("/")]
#[case::a_device("/dev/null")]
fn what_is_not_a_file_is_no_core(#[case] path: &str) {
    let error = CoreFile::open(path.as_ref(), None).unwrap_err().to_string();
    assert_eq!(error, "can't read the file: it is not a regular file");
}
