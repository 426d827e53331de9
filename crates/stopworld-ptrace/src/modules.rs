//! Finds the collector in the target.
//!
//! A process has any number of ELF modules: the program, its libraries, and modules loaded later. Each copy of the collector is in one of
//! them, and its descriptor is located by an allocated note that no tool strips. Notes are found by the program headers, which are in the
//! first page of each module's mapping. So only the target's memory is read, and it does not matter whether the file was deleted, replaced,
//! or is in another mount namespace. Only if no module has the note, the files' symbol tables are read.
//!
//! The target controls everything that is read here. So the number of headers is limited, long tables are truncated, and a module with
//! invalid data is ignored.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use object::elf::{EM_X86_64, FileHeader64, PT_LOAD, PT_NOTE, ProgramHeader64};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{LittleEndian, Object, ObjectSymbol, pod};

use super::memory::{Address, Memory, u32_at, u64_at};

/// The symbol of the descriptor.
const SYMBOL: &str = "stopworld_debugger";
/// The note's name, with its terminating zero, and its type.
const NOTE_NAME: &[u8] = b"stopworld\0";
const NOTE_TYPE: u32 = 1;

/// The maximum number of bytes of the list of mappings that is read.
const LARGEST_MAPS: u64 = 64 << 20;
/// The maximum size in bytes of a segment of notes that is read.
const LARGEST_NOTES: usize = 64 << 10;
/// The maximum size in bytes of a file whose symbols are searched.
const LARGEST_FILE: u64 = 1 << 30;
/// The maximum number of program headers of a module.
const MOST_HEADERS: usize = 256;

/// One mapping of the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Its first address.
    pub start: u64,
    /// The address past its last byte.
    pub end: u64,
    /// Whether the target can read it.
    pub readable: bool,
    /// Whether the target can execute its contents.
    pub executable: bool,
    /// The offset in the file at which it begins, in bytes.
    pub offset: u64,
    /// The file's inode number, which distinguishes it from a later file with the same path; 0 if there is no file.
    pub inode: u64,
    /// The file's path in the target, or a name in brackets, or empty.
    pub path: String,
}

/// A possible address of a descriptor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) descriptor: Address,
    pub(super) module: String,
}

/// Reads the target's /proc/PID/maps by a living thread.
pub(super) fn read_maps(pid: i32, live: i32) -> std::io::Result<String> {
    let mut text = Vec::new();
    File::open(format!("/proc/{pid}/task/{live}/maps"))?.take(LARGEST_MAPS).read_to_end(&mut text)?;
    // A path may have any bytes, and the limit may cut a character.
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Parses the mappings; lines that cannot be parsed are left out.
pub(super) fn parse_maps(text: &str) -> Vec<Mapping> {
    text.lines().filter_map(parse_mapping).collect()
}

fn parse_mapping(line: &str) -> Option<Mapping> {
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let access = words.next()?;
    let offset = words.next()?;
    let inode = words.nth(1)?;
    let path = words.next().unwrap_or("").trim_start();
    Some(Mapping {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        readable: access.starts_with('r'),
        executable: access.contains('x'),
        offset: u64::from_str_radix(offset, 16).ok()?,
        inode: inode.parse().ok()?,
        path: path.to_owned(),
    })
}

/// Returns a path by which this process can open the file of a mapping: through the target's own root.
pub(super) fn file_of(pid: i32, live: i32, mapped: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/task/{live}/root{mapped}"))
}

/// Returns every address at which a module of the target places a descriptor.
pub(super) fn find(pid: i32, memory: &Memory, maps: &[Mapping]) -> Vec<Candidate> {
    let modules: Vec<_> = maps
        .iter()
        .filter(|m| m.offset == 0 && m.readable && !m.path.starts_with('['))
        .filter_map(|m| Some((m, Image::read(memory, m.start)?)))
        .collect();
    let mut found: Vec<Candidate> = Vec::new();
    for (mapping, image) in &modules {
        let noted = image.notes(memory).into_iter();
        found.extend(noted.map(|descriptor| Candidate { descriptor, module: mapping.path.clone() }));
    }
    if found.is_empty() {
        let mut seen = HashSet::new();
        for (mapping, image) in &modules {
            if mapping.path.starts_with('/')
                && seen.insert(&mapping.path)
                && let Some(address) = symbol(&file_of(pid, memory.live(), &mapping.path))
            {
                let descriptor = Address(image.bias.wrapping_add(address));
                found.push(Candidate { descriptor, module: mapping.path.clone() });
            }
        }
    }
    found.sort_by_key(|c| c.descriptor);
    found.dedup_by_key(|c| c.descriptor);
    found
}

/// Returns the symbol's address in the file, before loading.
fn symbol(path: &Path) -> Option<u64> {
    if fs::metadata(path).ok()?.len() > LARGEST_FILE {
        return None;
    }
    let bytes = fs::read(path).ok()?;
    let file = object::File::parse(&*bytes).ok()?;
    let named = |symbol: &object::Symbol<'_, '_>| symbol.name() == Ok(SYMBOL) && symbol.address() != 0;
    let symbol = file.dynamic_symbols().find(named).or_else(|| file.symbols().find(named));
    symbol.map(|symbol| symbol.address())
}

/// An ELF module in memory.
struct Image {
    /// The difference between addresses in memory and in the file.
    bias: u64,
    /// The segments of notes: address and size in bytes.
    notes: Vec<(u64, usize)>,
}

type Header = FileHeader64<LittleEndian>;
type Segment = ProgramHeader64<LittleEndian>;

impl Image {
    fn read(memory: &Memory, start: u64) -> Option<Self> {
        let mut header = [0; size_of::<Header>()];
        memory.read(Address(start), &mut header).ok()?;
        let header = Header::parse(&header[..]).ok()?;
        let endian = header.endian().ok()?;
        let (count, size) = (header.e_phnum(endian) as usize, header.e_phentsize(endian) as usize);
        if header.e_machine(endian) != EM_X86_64 || size != size_of::<Segment>() || count > MOST_HEADERS {
            return None;
        }
        let mut table = vec![0; count * size];
        memory.read(Address(start.wrapping_add(header.e_phoff(endian))), &mut table).ok()?;
        let segments: &[Segment] = pod::slice_from_all_bytes(&table).ok()?;
        // The segment that contains the ELF header has the address of the module without a bias.
        let first = segments.iter().find(|s| s.p_type(endian) == PT_LOAD && s.p_offset(endian) == 0)?;
        let bias = start.wrapping_sub(first.p_vaddr(endian));
        let notes = segments.iter().filter(|s| s.p_type(endian) == PT_NOTE);
        let notes = notes.map(|s| (bias.wrapping_add(s.p_vaddr(endian)), s.p_memsz(endian) as usize)).collect();
        Some(Self { bias, notes })
    }

    /// Returns the descriptors that the module's notes refer to.
    fn notes(&self, memory: &Memory) -> Vec<Address> {
        let mut found = Vec::new();
        for &(at, size) in &self.notes {
            let mut bytes = vec![0; size.min(LARGEST_NOTES)];
            if memory.read(Address(at), &mut bytes).is_ok() {
                found.extend(descriptors(at, &bytes));
            }
        }
        found
    }
}

/// Returns the addresses that our notes among these refer to. Notes are padded to 4 bytes, those in a segment of alignment 8 to 8. Our note
/// is found with either, because the search continues at each multiple of 4.
fn descriptors(at: u64, bytes: &[u8]) -> Vec<Address> {
    let mut found = Vec::new();
    let mut offset = 0;
    while let Some(header) = bytes.get(offset..offset + 12) {
        let (name, value) = (u32_at(header, 0) as usize, u32_at(header, 4) as usize);
        let start = offset + 12;
        let is_ours = name == NOTE_NAME.len()
            && value == 8
            && u32_at(header, 8) == NOTE_TYPE
            && bytes.get(start..).is_some_and(|rest| rest.starts_with(NOTE_NAME));
        if is_ours {
            let place = start + NOTE_NAME.len().next_multiple_of(4);
            if let Some(distance) = bytes.get(place..place + 8) {
                found.push(Address(at.wrapping_add(place as u64).wrapping_add(u64_at(distance, 0))));
            }
        }
        offset += 4;
    }
    found
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn note(name: &[u8], kind: u32, value: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend((name.len() as u32).to_le_bytes());
        bytes.extend((value.len() as u32).to_le_bytes());
        bytes.extend(kind.to_le_bytes());
        bytes.extend(name);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn our_note_is_found_among_others() {
        let build_id = note(b"GNU\0", 3, &[7; 20]);
        let ours = note(NOTE_NAME, NOTE_TYPE, &(-0x100i64).to_le_bytes());
        let bytes = [build_id.clone(), ours, build_id.clone()].concat();
        let place = 0x1000 + build_id.len() as u64 + 12 + 12;
        assert_eq!(descriptors(0x1000, &bytes), [Address(place - 0x100)]);
    }

    #[rstest]
    #[case::nothing(vec![])]
    #[case::cut(note(NOTE_NAME, NOTE_TYPE, &[1; 8])[..25].to_vec())]
    #[case::huge_name([u32::MAX.to_le_bytes(); 3].concat())]
    #[case::other_type(note(NOTE_NAME, 2, &[1; 8]))]
    #[case::other_name(note(b"stopwarld\0", NOTE_TYPE, &[1; 8]))]
    #[case::short_value(note(NOTE_NAME, NOTE_TYPE, &[1; 4]))]
    fn invalid_notes_yield_no_descriptor(#[case] bytes: Vec<u8>) {
        assert_eq!(descriptors(0x1000, &bytes), []);
    }

    #[test]
    fn mappings_are_parsed_and_invalid_lines_are_left_out() {
        let text = "00400000-0040b000 r-xp 00000000 08:01 131 /bin/a b (deleted)\nnonsense\n\
                    7ffc0000-7ffd0000 rw-p 00000000 00:00 0     [stack]\n1000-2000 ---p 00001000 00:00 0\n";
        let maps = parse_maps(text);
        assert_eq!(maps.len(), 3);
        assert_eq!((maps[0].start, maps[0].end, maps[0].executable), (0x400000, 0x40b000, true));
        assert_eq!((maps[0].inode, maps[0].path.as_str()), (131, "/bin/a b (deleted)"));
        assert_eq!((maps[1].path.as_str(), maps[1].executable), ("[stack]", false));
        assert_eq!((maps[2].offset, maps[2].readable, maps[2].path.as_str()), (0x1000, false, ""));
    }
}
