//! The library exports what Debian's `libgc.so.1` exports: a symbol that is missing would be found in the other library, and a program
//! would have two heaps.

#[path = "../../../tests/skipped/mod.rs"]
mod skipped;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use object::read::elf::{ElfFile64, FileHeader};
use object::{Endianness, Object, ObjectSection, ObjectSymbol, SymbolKind};

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

/// The modules of `first.txt`, with the functions that each line names.
fn modules_in_order() -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines = include_str!("../first.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let lines = lines.map(|line| line.split_once(": ").expect("a line is `module: function function`"));
    lines.filter(|(module, _)| !["exported", "dropped"].contains(module))
}

/// A module that was renamed would silently lose its place.
#[test]
fn the_modules_whose_code_comes_first_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (module, _) in modules_in_order().filter(|(module, _)| module.starts_with("stopworld")) {
        let (name, path) = module.split_once("::").unwrap();
        let source = match name {
            "stopworld" => root.join("src"),
            "stopworld_gc" => root.join("crates/stopworld-libgc/src"),
            other => root.join("crates").join(other.replace('_', "-")).join("src"),
        };
        let file = source.join(path.replace("::", "/"));
        assert!(file.is_dir() || file.with_extension("rs").is_file(), "first.txt: there is no module {module}");
    }
}

#[test]
fn the_code_that_programs_run_is_at_the_beginning() {
    if !cfg!(ordered_code) {
        return skipped::skipped("lld or GNU ld");
    }
    let bytes = std::fs::read(ours()).unwrap();
    let file = ElfFile64::<Endianness>::parse(&*bytes).unwrap();
    let first = file.section_by_name(".text.first").expect("the section of build.rs");
    let first = first.address()..first.address() + first.size();
    let others = file.section_by_name(".text").unwrap();
    assert!(first.end <= others.address() && first.end - first.start < others.size() / 2, "{first:#x?}");
    let in_first = || file.symbols().filter(|symbol| first.contains(&symbol.address()));
    let names: Vec<&str> = in_first().map(|symbol| symbol.name().unwrap()).collect();
    let has_code = |module: &str| {
        let with_length = |part: &str| format!("{}{}{part}", part.len(), if part.starts_with('_') { "_" } else { "" });
        let forms = [module.split("::").map(with_length).collect(), module.replace("::", "..")];
        names.iter().any(|name| forms.iter().any(|form| name.contains(form)))
    };
    // What the compiler puts into its callers has no code of its own, and that differs between profiles.
    let without: Vec<_> = modules_in_order().filter(|(module, _)| !has_code(module)).collect();
    assert!(without.len() * 10 < modules_in_order().count(), "{without:?}");
    // What each program runs is before what only some run.
    let place = |part: &str| in_first().find(|symbol| symbol.name().unwrap().contains(part)).map(|it| it.address());
    let [start, malloc, collection] = ["7library10initialise", "GC_malloc", "18collect_and_report"].map(place);
    assert!(
        start.is_some() && malloc.is_some() && start.max(malloc) < collection,
        "{start:x?} {malloc:x?} {collection:x?}"
    );
}
