//! Finds descriptors of the collector in ELF files in memory: by the note that no tool strips.

use object::LittleEndian;
use object::elf::{EM_X86_64, FileHeader64, PT_LOAD, PT_NOTE, ProgramHeader64};
use object::pod;
use object::read::elf::{FileHeader, ProgramHeader};

use super::memory::{Memory, read, u32_at, u64_at};

/// The note's name, with its terminating zero, and its type.
const NOTE_NAME: &[u8] = b"stopworld\0";
const NOTE_TYPE: u32 = 1;
/// The maximum size in bytes of a segment of notes that is read.
const LARGEST_NOTES: u64 = 64 << 10;
/// The maximum number of program headers of a module.
const MOST_HEADERS: usize = 256;
const LE: LittleEndian = LittleEndian;

type Header = FileHeader64<LittleEndian>;
type Segment = ProgramHeader64<LittleEndian>;

/// Returns the addresses of the descriptors to which the notes of the ELF file at this address refer.
pub(crate) fn descriptors(memory: &dyn Memory, start: u64) -> Vec<u64> {
    in_image(memory, start).unwrap_or_default()
}

fn in_image(memory: &dyn Memory, start: u64) -> Option<Vec<u64>> {
    let mut header = [0; size_of::<Header>()];
    read(memory, start, &mut header).ok()?;
    let header = Header::parse(&header[..]).ok()?;
    header.endian().ok()?;
    let (count, size) = (header.e_phnum(LE) as usize, header.e_phentsize(LE) as usize);
    if header.e_machine(LE) != EM_X86_64 || size != size_of::<Segment>() || count > MOST_HEADERS {
        return None;
    }
    let mut table = vec![0; count * size];
    read(memory, start.wrapping_add(header.e_phoff(LE)), &mut table).ok()?;
    let segments: &[Segment] = pod::slice_from_all_bytes(&table).ok()?;
    // The segment that contains the ELF header has the address of the module without a bias.
    let first = segments.iter().find(|segment| segment.p_type(LE) == PT_LOAD && segment.p_offset(LE) == 0)?;
    let bias = start.wrapping_sub(first.p_vaddr(LE));
    let mut found = Vec::new();
    for notes in segments.iter().filter(|segment| segment.p_type(LE) == PT_NOTE) {
        let at = bias.wrapping_add(notes.p_vaddr(LE));
        let mut bytes = vec![0; notes.p_memsz(LE).min(LARGEST_NOTES) as usize];
        if read(memory, at, &mut bytes).is_ok() {
            found.extend(in_notes(at, &bytes));
        }
    }
    Some(found)
}

/// Returns the addresses that our notes among these refer to. The search continues at each multiple of 4, whatever notes are padded to.
fn in_notes(at: u64, bytes: &[u8]) -> Vec<u64> {
    let mut found = Vec::new();
    for offset in (0..bytes.len().saturating_sub(11)).step_by(4) {
        let rest = &bytes[offset..];
        let is_ours = u32_at(rest, 0) as usize == NOTE_NAME.len()
            && u32_at(rest, 4) == 8
            && u32_at(rest, 8) == NOTE_TYPE
            && rest[12..].starts_with(NOTE_NAME);
        let place = 12 + NOTE_NAME.len().next_multiple_of(4);
        if is_ours && rest.len() >= place + 8 {
            let here = at.wrapping_add((offset + place) as u64);
            found.push(here.wrapping_add(u64_at(rest, place)));
        }
    }
    found
}
