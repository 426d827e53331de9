//! Unwinds the call stack of a thread from its registers.
//!
//! framehop unwinds with the call frame information of each module and reads the target's stack as needed. addr2line finds
//! names, files and lines, also of inlined functions, if the module's file has them. The data of both are read per module
//! and kept for the next backtrace.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use addr2line::{Loader, demangle_auto};
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, Module as Unwindable, Unwinder};
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, ReadCache};

use stopworld_ptrace::{Address, Debugger, DebuggerError, Mapping, Registers};

/// The largest number of frames: deeper stacks are truncated.
const MOST_FRAMES: usize = 256;

/// One line of a backtrace.
pub(super) struct Frame {
    pub(super) address: u64,
    /// Whether the function is inlined into that of the next line, and has no frame of its own.
    pub(super) inlined: bool,
    pub(super) function: String,
    /// File and line, or the module.
    pub(super) place: String,
}

/// The modules of a target that have been read.
#[derive(Default)]
pub(super) struct Modules {
    /// The modules, by the start address of their first mapping.
    known: BTreeMap<u64, Module>,
}

struct Module {
    /// The first of its mappings.
    mapping: Mapping,
    end: u64,
    /// The difference between addresses in the process and addresses in the file.
    bias: u64,
    file: PathBuf,
    sections: Sections,
    names: Option<Names>,
}

type Sections = ExplicitModuleSectionInfo<Rc<[u8]>>;

impl Module {
    fn read(mapping: &Mapping, file: PathBuf) -> Option<Self> {
        let (bias, sections) = read_sections(&file, mapping.start, mapping.offset)?;
        Some(Self { mapping: mapping.clone(), end: mapping.end, bias, file, sections, names: None })
    }

    /// Returns whether this mapping maps the same file at the same place. If so, the bias is the same, too.
    fn is_of(&self, mapping: &Mapping) -> bool {
        let place = |mapping: &Mapping| (mapping.start, mapping.offset, mapping.inode);
        place(&self.mapping) == place(mapping) && self.mapping.path == mapping.path
    }
}

/// The function names in a module's file.
struct Names {
    /// The debugging information and symbols.
    full: Option<Loader>,
    /// The exported functions, which stripped libraries have too: address, size in bytes, name; sorted by address.
    exports: Vec<(u64, u64, String)>,
}

impl Names {
    fn read(file: &Path) -> Self {
        Self { full: Loader::new(file).ok(), exports: exports(file).unwrap_or_default() }
    }

    fn export(&self, probe: u64) -> Option<&str> {
        let next = self.exports.partition_point(|(address, ..)| *address <= probe);
        let (address, bytes, name) = self.exports.get(next.checked_sub(1)?)?;
        (probe - address < *bytes).then_some(name)
    }
}

fn exports(file: &Path) -> Option<Vec<(u64, u64, String)>> {
    let cache = ReadCache::new(File::open(file).ok()?);
    let elf = object::File::parse(&cache).ok()?;
    let functions = elf.dynamic_symbols().filter(|symbol| symbol.is_definition() && symbol.size() > 0);
    let mut exports: Vec<_> =
        functions.filter_map(|s| Some((s.address(), s.size(), s.name().ok()?.to_owned()))).collect();
    exports.sort_unstable();
    Some(exports)
}

/// Adjacent mappings of one file, as the loader creates them.
struct Span<'a> {
    first: &'a Mapping,
    /// The file offset of the last mapping.
    last_offset: u64,
    end: u64,
}

/// Groups the mappings into spans. A file that is mapped twice, for example also for reading, gives two spans. Anonymous
/// mappings between those of a module belong to the module.
fn spans(mappings: &[Mapping]) -> Vec<Span<'_>> {
    let mut spans: Vec<Span<'_>> = Vec::new();
    let mut before = "";
    for mapping in mappings.iter().filter(|mapping| !mapping.path.is_empty()) {
        match spans.last_mut() {
            Some(span) if [before, &span.first.path] == [&mapping.path; 2] && mapping.offset >= span.last_offset => {
                (span.last_offset, span.end) = (mapping.offset, mapping.end);
            }
            _ if mapping.path.starts_with('/') => {
                spans.push(Span { first: mapping, last_offset: mapping.offset, end: mapping.end });
            }
            _ => {}
        }
        before = &mapping.path;
    }
    spans
}

impl Modules {
    /// Returns the frames of a thread with these registers, innermost first.
    pub(super) fn backtrace(
        &mut self,
        debugger: &Debugger,
        registers: &Registers,
    ) -> Result<Vec<Frame>, DebuggerError> {
        self.update(&debugger.mappings()?, |path| debugger.module_path(path));
        let unwinder = self.unwinder();
        let mut cache = CacheX86_64::new();
        let mut read = |address| debugger.read_word(Address(address)).map_err(|_| ());
        let word = |name| registers.get(name).unwrap_or(0);
        let start = UnwindRegsX86_64::new(word("rip"), word("rsp"), word("rbp"));
        let mut frames = Vec::new();
        let mut addresses = unwinder.iter_frames(word("rip"), start, &mut cache, &mut read);
        // An error ends the list: the rest of the stack can't be unwound.
        while let Ok(Some(address)) = addresses.next()
            && frames.len() < MOST_FRAMES
        {
            self.name(address.address(), address.address_for_lookup(), &mut frames);
        }
        Ok(frames)
    }

    /// Updates the modules to the current mappings. The data of a module are kept if the same file is still at the same
    /// place: libraries are loaded and unloaded, and after an exec all modules may be different.
    fn update(&mut self, mappings: &[Mapping], file_of: impl Fn(&str) -> PathBuf) {
        let mut before = std::mem::take(&mut self.known);
        for Span { first, end, .. } in spans(mappings) {
            let known = before.remove(&first.start).filter(|module| module.is_of(first));
            if let Some(module) = known.or_else(|| Module::read(first, file_of(&first.path))) {
                self.known.insert(first.start, Module { end, ..module });
            }
        }
    }

    fn unwinder(&self) -> UnwinderX86_64<Rc<[u8]>> {
        let mut unwinder = UnwinderX86_64::new();
        for (start, module) in &self.known {
            let (path, sections) = (module.mapping.path.clone(), module.sections.clone());
            unwinder.add_module(Unwindable::new(path, *start..module.end, module.bias, sections));
        }
        unwinder
    }

    fn name(&mut self, address: u64, lookup: u64, frames: &mut Vec<Frame>) {
        let module = self.known.range_mut(..=lookup).next_back().map(|(_, module)| module).filter(|m| lookup < m.end);
        let unknown = |place| Frame { address, inlined: false, function: "??".to_owned(), place };
        let Some(module) = module else { return frames.push(unknown(String::new())) };
        let probe = lookup.wrapping_sub(module.bias);
        let names = module.names.get_or_insert_with(|| Names::read(&module.file));
        let before = frames.len();
        if let Some(full) = &names.full {
            name_by(full, probe, address, &module.mapping.path, frames);
        }
        if frames.len() == before
            && let Some(function) = names.export(probe)
        {
            let (function, place) = (function.to_owned(), module.mapping.path.clone());
            frames.push(Frame { address, inlined: false, function, place });
        }
        if frames.len() == before {
            frames.push(unknown(module.mapping.path.clone()));
        } else {
            let last = frames.len() - 1;
            frames[before..last].iter_mut().for_each(|frame| frame.inlined = true);
        }
    }
}

fn name_by(names: &Loader, probe: u64, address: u64, path: &str, frames: &mut Vec<Frame>) {
    let mut add = |function: String, place: String| frames.push(Frame { address, inlined: false, function, place });
    if let Ok(mut found) = names.find_frames(probe) {
        while let Ok(Some(frame)) = found.next() {
            let Some(function) = frame.function else { continue };
            let place = frame.location.and_then(|at| Some(format!("{}:{}", short(at.file?), at.line?)));
            let name = function.demangle().map_or_else(|_| "??".to_owned(), |name| name.into_owned());
            add(without_hash(&name).to_owned(), place.unwrap_or_else(|| path.to_owned()));
        }
    }
    if frames.last().is_none_or(|frame| frame.address != address)
        && let Some(symbol) = names.find_symbol(probe)
    {
        let name = demangle_auto(symbol.into(), None).into_owned();
        frames.push(Frame {
            address,
            inlined: false,
            function: without_hash(&name).to_owned(),
            place: path.to_owned(),
        });
    }
}

/// Returns the last three parts of a path, which identify the file.
fn short(path: &str) -> &str {
    let cut = path.rmatch_indices('/').nth(2).map_or(0, |(at, _)| at + 1);
    &path[cut..]
}

/// Removes the hash at the end of a Rust symbol's name, which distinguishes versions of the function.
fn without_hash(name: &str) -> &str {
    match name.rsplit_once("::h") {
        Some((name, hash)) if hash.len() == 16 && hash.bytes().all(|b| b.is_ascii_hexdigit()) => name,
        _ => name,
    }
}

/// Reads the sections of a module's file that unwinding needs. Returns the bias and the sections.
fn read_sections(file: &Path, start: u64, offset: u64) -> Option<(u64, Sections)> {
    let cache = ReadCache::new(File::open(file).ok()?);
    let elf = object::File::parse(&cache).ok()?;
    // The segment of this mapping. The mapping starts at a page boundary, so its offset is that of the segment, rounded down.
    let segment = elf.segments().find(|segment| segment.file_range().0 & !0xfff == offset)?;
    let first = segment.address().wrapping_sub(segment.file_range().0.wrapping_sub(offset));
    let section = |name: &str| elf.section_by_name(name);
    let range =
        |name: &str| section(name).map(|section| section.address()..section.address().saturating_add(section.size()));
    let data = |name: &str| section(name).and_then(|section| section.data().ok().map(Rc::from));
    let sections = Sections {
        base_svma: 0,
        text_svma: range(".text"),
        got_svma: range(".got"),
        eh_frame_svma: range(".eh_frame"),
        eh_frame: data(".eh_frame"),
        eh_frame_hdr_svma: range(".eh_frame_hdr"),
        eh_frame_hdr: data(".eh_frame_hdr"),
        debug_frame: data(".debug_frame"),
        ..Default::default()
    };
    Some((start.wrapping_sub(first), sections))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_paths_are_shortened_to_their_distinctive_parts() {
        assert_eq!(without_hash("a::b::h0123456789abcdef"), "a::b");
        assert_eq!(without_hash("a::heap"), "a::heap");
        assert_eq!(short("/a/b/c/d.rs"), "b/c/d.rs");
        assert_eq!(short("d.rs"), "d.rs");
    }

    /// Returns the mappings of a program loaded at an address: its headers, and a mapping of another part of the file.
    fn loaded(start: u64, path: &str, inode: u64) -> Vec<Mapping> {
        let mapping = |offset| Mapping {
            start: start + offset,
            end: start + offset + 0x1000,
            readable: true,
            executable: offset > 0,
            offset,
            inode,
            path: path.to_owned(),
        };
        vec![mapping(0), mapping(0x3000)]
    }

    #[test]
    fn adjacent_mappings_of_a_file_are_one_module() {
        let nameless = |start| Mapping { offset: 0, ..loaded(start, "", 0).remove(0) };
        let mappings = [
            loaded(0x10_000, "/a", 1),
            vec![nameless(0x14_000)],
            loaded(0x20_000, "/b", 2),
            loaded(0x30_000, "[heap]", 0),
            loaded(0x40_000, "/b", 2),
            // The same file again, mapped for reading.
            loaded(0x50_000, "/b", 2),
        ]
        .concat();
        let found: Vec<_> = spans(&mappings).iter().map(|span| (span.first.start, span.end)).collect();
        assert_eq!(found, [(0x10_000, 0x14_000), (0x20_000, 0x24_000), (0x40_000, 0x44_000), (0x50_000, 0x54_000)]);
    }

    #[test]
    fn a_module_is_kept_as_long_as_the_same_file_is_at_the_same_place() {
        let this = std::env::current_exe().unwrap();
        let mut modules = Modules::default();
        let mut update = |mappings: &[Mapping]| {
            modules.update(mappings, |_| this.clone());
            let known = modules.known.values().map(|module| {
                let read = module.sections.eh_frame.clone().expect("a program that can be unwound");
                (module.mapping.path.clone(), module.end, read)
            });
            known.collect::<Vec<_>>()
        };
        let first = update(&loaded(0x10_0000, "/a", 1));
        assert_eq!((first.len(), first[0].0.as_str(), first[0].1), (1, "/a", 0x10_4000));
        let mut grown = loaded(0x10_0000, "/a", 1);
        grown[1].end += 0x1000;
        let again = update(&grown);
        assert!(Rc::ptr_eq(&first[0].2, &again[0].2), "the same file is not read again");
        assert_eq!(again[0].1, 0x10_5000);
        let replaced = update(&loaded(0x10_0000, "/a", 2));
        assert!(!Rc::ptr_eq(&first[0].2, &replaced[0].2), "a replaced file is read again");
        let other = update(&loaded(0x10_0000, "/b", 2));
        assert_eq!((other.len(), other[0].0.as_str()), (1, "/b"), "an exec replaces the module");
        let elsewhere = update(&loaded(0x20_0000, "/b", 2));
        assert_eq!(elsewhere.len(), 1, "the previous place has no module");
        assert_eq!(update(&[]).len(), 0);
    }
}
