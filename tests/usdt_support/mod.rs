//! Reads the probes from an ELF file, as tracers do, and compares them with the table of events.

use std::collections::BTreeMap;
use std::path::Path;

use stopworld::events::DESCRIPTORS;

/// `90`, which a tracer replaces with a breakpoint.
const NOP: u8 = 0x90;

/// Bits of a section's flags.
const WRITE: u64 = 1;
const ALLOC: u64 = 2;
const EXECUTE: u64 = 4;

/// A section that is in the file: the header fields that matter here.
#[derive(Clone, Copy, Debug)]
struct Section {
    kind: u32,
    flags: u64,
    address: u64,
    offset: u64,
    bytes: u64,
}

impl Section {
    /// The offset in the file of an address of this section.
    fn offset_of(&self, address: u64) -> usize {
        assert!((self.address..self.address + self.bytes).contains(&address), "{address:#x} is not in {self:x?}");
        (address - self.address + self.offset) as usize
    }
}

#[derive(Debug)]
struct Probe {
    provider: String,
    /// `4@%eax`: the size, and where.
    arguments: Vec<String>,
    address: u64,
    base: u64,
    semaphore: u64,
}

fn word<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().unwrap()
}

fn u16_at(bytes: &[u8], at: usize) -> usize {
    u16::from_le_bytes(word(bytes, at)).into()
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(word(bytes, at))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(word(bytes, at))
}

/// The text at the beginning, and the bytes after its terminating 0.
fn text(bytes: &[u8]) -> (String, &[u8]) {
    let end = bytes.iter().position(|byte| *byte == 0).expect("a text ends");
    (String::from_utf8(bytes[..end].to_vec()).unwrap(), &bytes[end + 1..])
}

/// The sections of a file by name, from the table at its end.
fn sections(file: &[u8]) -> BTreeMap<String, Section> {
    assert_eq!(file[..6], *b"\x7fELF\x02\x01", "64 bits, little-endian");
    let (table, size, count) = (u64_at(file, 0x28) as usize, u16_at(file, 0x3a), u16_at(file, 0x3c));
    let header = |index: usize| &file[table + index * size..][..size];
    let names = u64_at(header(u16_at(file, 0x3e)), 0x18) as usize;
    (0..count)
        .map(|index| {
            let header = header(index);
            let section = Section {
                kind: u32_at(header, 4),
                flags: u64_at(header, 8),
                address: u64_at(header, 0x10),
                offset: u64_at(header, 0x18),
                bytes: u64_at(header, 0x20),
            };
            (text(&file[names + u32_at(header, 0) as usize..]).0, section)
        })
        .collect()
}

/// The probes in the notes by name; each may have several places.
fn probes(mut notes: &[u8]) -> BTreeMap<String, Vec<Probe>> {
    let padded = |bytes: usize| bytes.next_multiple_of(4);
    let mut found = BTreeMap::<String, Vec<Probe>>::new();
    while !notes.is_empty() {
        let (owner_bytes, bytes, kind) = (u32_at(notes, 0) as usize, u32_at(notes, 4) as usize, u32_at(notes, 8));
        let (owner, _) = text(&notes[12..12 + owner_bytes]);
        assert_eq!((owner.as_str(), kind), ("stapsdt", 3));
        let begin = 12 + padded(owner_bytes);
        let what = &notes[begin..begin + bytes];
        let (provider, rest) = text(&what[24..]);
        let (name, rest) = text(rest);
        let (arguments, _) = text(rest);
        found.entry(name).or_default().push(Probe {
            provider,
            arguments: arguments.split(' ').map(str::to_owned).collect(),
            address: u64_at(what, 0),
            base: u64_at(what, 8),
            semaphore: u64_at(what, 16),
        });
        notes = &notes[begin + padded(bytes)..];
    }
    found
}

/// `.event.probes`: exactly the probes of the events are in this program or library. The addresses that a tracer computes from their notes
/// are those of a nop, and of a counter that the tracer may increment.
pub fn hold_against_the_table(path: &Path) {
    let file = std::fs::read(path).unwrap();
    let sections = sections(&file);
    let section = |name: &str| *sections.get(name).unwrap_or_else(|| panic!("{}: no {name}", path.display()));
    let notes = section(".note.stapsdt");
    let mut found = probes(&file[notes.offset as usize..][..notes.bytes as usize]);
    // The C library has probes too, if it is linked statically.
    found.retain(|_, places| places[0].provider == "stopworld");

    let (base, semaphores) = (section(".stapsdt.base"), section(".probes"));
    assert_eq!(semaphores.kind, 1, "the semaphores have contents in the file");
    assert_eq!(semaphores.flags & (ALLOC | WRITE | EXECUTE), ALLOC | WRITE);
    for descriptor in &DESCRIPTORS {
        let Some(name) = descriptor.probe else { continue };
        let places = found.remove(name).unwrap_or_else(|| panic!("{}: no probe {name}", path.display()));
        assert_eq!(places.len(), 1, "{name} must have one place");
        for place in places {
            let text = sections.values().find(|section| {
                section.flags & EXECUTE != 0
                    && (section.address..section.address + section.bytes).contains(&place.address)
            });
            let text = text.unwrap_or_else(|| panic!("{name} is not in the program's text"));
            assert_eq!(file[text.offset_of(place.address)], NOP, "{name}");
            assert_eq!(place.base, base.address, "{name}");
            // As perf does it, which takes the section's file offset for its address.
            assert_eq!((place.address + base.offset - place.base) as usize, text.offset_of(place.address), "{name}");
            let semaphore = semaphores.offset_of(place.semaphore);
            assert_eq!(u32_at(&file, semaphore), 0, "{name}: the semaphore of a program that does not run is 0");

            let kinds = descriptor.fields.iter().map(|field| format!("{}@%", field.kind.bytes()));
            assert!(
                place.arguments.len() == descriptor.fields.len()
                    && place.arguments.iter().zip(kinds).all(|(argument, kind)| argument.starts_with(&kind)),
                "{name}: {:?}",
                place.arguments
            );
        }
    }
    assert!(found.is_empty(), "not in the table: {found:?}");
}
