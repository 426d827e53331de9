//! The library exports what Debian's `libgc.so.1` exports: a symbol that is missing would be found in the other library, and a program
//! would have two heaps.

#[path = "../../../tests/skipped/mod.rs"]
mod skipped;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use object::read::elf::{ElfFile64, FileHeader};
use object::{Endianness, Object, ObjectSymbol, SymbolKind};

/// Where Debian installs the library.
const DEBIAN: &str = "/usr/lib/x86_64-linux-gnu/libgc.so.1";

/// The library that cargo builds in the same folder as this test.
fn ours() -> PathBuf {
    std::env::current_exe().unwrap().with_file_name("libstopworld_gc.so")
}

/// The symbols of the interface that a library exports, with their kinds.
fn exports(library: &Path) -> BTreeMap<String, SymbolKind> {
    let bytes = std::fs::read(library).unwrap_or_else(|error| panic!("{}: {error}", library.display()));
    let file = ElfFile64::<Endianness>::parse(&*bytes).unwrap();
    let defined = file.dynamic_symbols().filter(|symbol| symbol.is_definition());
    let named = defined.map(|symbol| (symbol.name().unwrap().to_owned(), symbol.kind()));
    named.filter(|(name, _)| name.starts_with("GC_")).collect()
}

#[test]
fn the_library_exports_256_functions_and_35_variables() {
    let ours = exports(&ours());
    let count = |kind| ours.values().filter(|is| **is == kind).count();
    assert_eq!((count(SymbolKind::Text), count(SymbolKind::Data), ours.len()), (256, 35, 291));
}

#[test]
fn the_names_and_kinds_are_those_of_debians_library() {
    if !Path::new(DEBIAN).exists() {
        return skipped::skipped("libgc1");
    }
    let (debian, ours) = (exports(Path::new(DEBIAN)), exports(&ours()));
    let missing: Vec<_> = debian.iter().filter(|(name, kind)| ours.get(*name) != Some(*kind)).collect();
    assert!(missing.is_empty(), "missing, or of another kind: {missing:?}");
    let additional: Vec<_> = ours.keys().filter(|name| !debian.contains_key(*name)).collect();
    assert!(additional.is_empty(), "no program expects {additional:?}");
}

/// The loader finds a library by this name, also one that was loaded by another path: so there is never a second one.
#[test]
fn the_library_has_the_name_that_programs_look_for() {
    let bytes = std::fs::read(ours()).unwrap();
    let file = ElfFile64::<Endianness>::parse(&*bytes).unwrap();
    let (header, endian) = (file.elf_header(), file.endian());
    let sections = header.sections(endian, &*bytes).unwrap();
    let (entries, strings) = sections.dynamic(endian, &*bytes).unwrap().unwrap();
    let strings = sections.strings(endian, &*bytes, strings).unwrap();
    use object::read::elf::Dyn;
    let soname = entries.iter().find(|entry| entry.tag(endian) == object::elf::DT_SONAME).unwrap();
    assert_eq!(soname.string(endian, strings).unwrap(), b"libgc.so.1");
}
