//! Reads the probes from an ELF file, as tracers do, and compares them with the table of events.

use std::collections::BTreeMap;
use std::path::Path;

use object::elf::{self, SectionHeader64};
use object::read::elf::{ElfFile64, SectionHeader};
use object::{LittleEndian, Object};
use stopworld::events::DESCRIPTORS;

/// The instruction `nop`, which a tracer replaces with a breakpoint.
const NOP: u8 = 0x90;

type Elf<'a> = ElfFile64<'a, LittleEndian>;
type Section = SectionHeader64<LittleEndian>;

fn contains(section: &Section, address: u64) -> bool {
    (section.sh_addr(LittleEndian)..section.sh_addr(LittleEndian) + section.sh_size(LittleEndian)).contains(&address)
}

/// The offset in the file of an address of this section.
fn offset_of(section: &Section, address: u64) -> usize {
    assert!(contains(section, address), "{address:#x} is not in {section:x?}");
    (address - section.sh_addr(LittleEndian) + section.sh_offset(LittleEndian)) as usize
}

#[derive(Debug)]
struct Probe<'a> {
    provider: &'a str,
    /// The arguments, such as `4@%eax`: the size, and the location.
    arguments: Vec<&'a str>,
    address: u64,
    base: u64,
    semaphore: u64,
}

/// The probes in the notes by name; each may have several places.
fn probes<'a>(file: &Elf<'a>, notes: &Section) -> BTreeMap<&'a str, Vec<Probe<'a>>> {
    let mut notes = notes.notes(LittleEndian, file.data()).unwrap().expect("a section of notes");
    let mut found = BTreeMap::<_, Vec<_>>::new();
    while let Some(note) = notes.next().unwrap() {
        assert_eq!((note.name(), note.n_type(LittleEndian)), (&b"stapsdt"[..], 3));
        let (words, texts) = note.desc().split_at(24);
        let [address, base, semaphore] = [0, 1, 2].map(|at| u64::from_le_bytes(words.as_chunks().0[at]));
        let texts: Vec<_> = texts.split(|byte| *byte == 0).map(|text| str::from_utf8(text).unwrap()).collect();
        let [provider, name, arguments, ..] = texts[..] else { panic!("{texts:?} are not three texts") };
        let arguments = arguments.split(' ').collect();
        found.entry(name).or_default().push(Probe { provider, arguments, address, base, semaphore });
    }
    found
}

/// `.event.probes`: exactly the probes of the events are in this program or library. The addresses that a tracer computes from their notes
/// are those of a nop, and of a counter that the tracer may increment.
pub fn hold_against_the_table(path: &Path) {
    let bytes = std::fs::read(path).unwrap();
    let file = Elf::parse(&*bytes).unwrap();
    let section = |name: &str| {
        let found = file.section_by_name(name).unwrap_or_else(|| panic!("{}: no {name}", path.display()));
        found.elf_section_header()
    };
    let mut found = probes(&file, section(".note.stapsdt"));
    // The C library has probes too, if it is linked statically.
    found.retain(|_, places| places[0].provider == "stopworld");

    let sections: Vec<&Section> = file.sections().map(|section| section.elf_section_header()).collect();
    let (base, semaphores) = (section(".stapsdt.base"), section(".probes"));
    assert_eq!(semaphores.sh_type(LittleEndian), elf::SHT_PROGBITS, "the semaphores have contents in the file");
    let (alloc, write, execute) = (u64::from(elf::SHF_ALLOC), u64::from(elf::SHF_WRITE), u64::from(elf::SHF_EXECINSTR));
    assert_eq!(semaphores.sh_flags(LittleEndian) & (alloc | write | execute), alloc | write);
    for descriptor in &DESCRIPTORS {
        let Some(name) = descriptor.probe else { continue };
        let places = found.remove(name).unwrap_or_else(|| panic!("{}: no probe {name}", path.display()));
        assert_eq!(places.len(), 1, "{name} must have one place");
        for place in places {
            let is_text = |section: &&&Section| section.sh_flags(LittleEndian) & execute != 0;
            let text = sections.iter().filter(is_text).find(|section| contains(section, place.address));
            let text = text.unwrap_or_else(|| panic!("{name} is not in the program's text"));
            assert_eq!(bytes[offset_of(text, place.address)], NOP, "{name}");
            assert_eq!(place.base, base.sh_addr(LittleEndian), "{name}");
            // The offset is computed as perf does it, which uses the section's file offset in place of its address.
            assert_eq!(
                place.address + base.sh_offset(LittleEndian) - place.base,
                offset_of(text, place.address) as u64,
                "{name}"
            );
            let semaphore = offset_of(semaphores, place.semaphore);
            assert_eq!(bytes[semaphore..][..4], [0; 4], "{name}: the semaphore of a program that does not run is 0");

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
