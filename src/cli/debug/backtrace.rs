//! From a thread's registers to the functions that it is in.
//!
//! framehop unwinds by the call frame information of each module, reading the target's stack as it goes; addr2line gives names,
//! files and lines, inlined functions among them, where the module's file has them. Both are asked per module, and what they have
//! read is kept for the next backtrace.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use addr2line::{Loader, demangle_auto};
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, Module as Unwindable, Unwinder};
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, ReadCache};

use crate::debugger::ptrace::{Address, Debugger, DebuggerError, Registers};

/// Deeper stacks are cut.
const MOST_FRAMES: usize = 256;

/// One line of a backtrace.
pub(super) struct Frame {
    pub(super) address: u64,
    /// Inlined into the function of the next line: it has no frame of its own.
    pub(super) inlined: bool,
    pub(super) function: String,
    /// File and line, or the module.
    pub(super) place: String,
}

/// The modules of a target, as far as they were read.
#[derive(Default)]
pub(super) struct Modules {
    /// By the address at which the first of each is mapped.
    known: BTreeMap<u64, Module>,
}

struct Module {
    end: u64,
    path: String,
    /// What is added to the addresses in the file.
    bias: u64,
    file: PathBuf,
    names: Option<Names>,
}

/// What a module's file says of its functions.
struct Names {
    /// Its debugging information and symbols.
    full: Option<Loader>,
    /// What it exports, which stripped libraries have too: address, bytes, name; by address.
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

/// A line of /proc/PID/maps.
struct Mapping<'a> {
    start: u64,
    end: u64,
    offset: u64,
    path: &'a str,
}

fn mapping(line: &str) -> Option<Mapping<'_>> {
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let offset = words.nth(1)?;
    let path = words.nth(2)?.trim();
    let number = |text| u64::from_str_radix(text, 16).ok();
    path.starts_with('/').then_some(())?;
    Some(Mapping { start: number(start)?, end: number(end)?, offset: number(offset)?, path })
}

impl Modules {
    /// The frames of a thread with these registers, innermost first.
    pub(super) fn backtrace(
        &mut self,
        debugger: &Debugger,
        registers: &Registers,
    ) -> Result<Vec<Frame>, DebuggerError> {
        let unwinder = self.unwinder(debugger)?;
        let mut cache = CacheX86_64::new();
        let mut read = |address| debugger.read_word(Address(address)).map_err(|_| ());
        let word = |name| registers.get(name).unwrap_or(0);
        let start = UnwindRegsX86_64::new(word("rip"), word("rsp"), word("rbp"));
        let mut frames = Vec::new();
        let mut addresses = unwinder.iter_frames(word("rip"), start, &mut cache, &mut read);
        // An error ends the list: the rest of the stack is not known.
        while let Ok(Some(address)) = addresses.next()
            && frames.len() < MOST_FRAMES
        {
            self.name(address.address(), address.address_for_lookup(), &mut frames);
        }
        Ok(frames)
    }

    fn unwinder(&mut self, debugger: &Debugger) -> Result<UnwinderX86_64<Vec<u8>>, DebuggerError> {
        let maps = debugger.maps()?;
        let mut ranges: BTreeMap<&str, (u64, u64, u64)> = BTreeMap::new();
        for Mapping { start, end, offset, path } in maps.lines().filter_map(mapping) {
            // The mappings of a module lie side by side, in the order of addresses.
            let range = ranges.entry(path).or_insert((start, end, offset));
            range.1 = end;
        }
        let mut unwinder = UnwinderX86_64::new();
        for (path, (start, end, offset)) in ranges {
            let file = debugger.module_path(path);
            let Some((bias, sections)) = read_sections(&file, start, offset) else { continue };
            unwinder.add_module(Unwindable::new(path.to_owned(), start..end, bias, sections));
            let module = self.known.entry(start).or_insert_with(|| Module {
                end,
                path: path.to_owned(),
                bias,
                file,
                names: None,
            });
            module.end = end;
        }
        Ok(unwinder)
    }

    fn name(&mut self, address: u64, lookup: u64, frames: &mut Vec<Frame>) {
        let module = self.known.range_mut(..=lookup).next_back().map(|(_, module)| module).filter(|m| lookup < m.end);
        let unknown = |place| Frame { address, inlined: false, function: "??".to_owned(), place };
        let Some(module) = module else { return frames.push(unknown(String::new())) };
        let probe = lookup.wrapping_sub(module.bias);
        let names = module.names.get_or_insert_with(|| Names::read(&module.file));
        let before = frames.len();
        if let Some(full) = &names.full {
            name_by(full, probe, address, &module.path, frames);
        }
        if frames.len() == before
            && let Some(function) = names.export(probe)
        {
            let (function, place) = (function.to_owned(), module.path.clone());
            frames.push(Frame { address, inlined: false, function, place });
        }
        if frames.len() == before {
            frames.push(unknown(module.path.clone()));
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

/// The last parts of a path, which tell enough.
fn short(path: &str) -> &str {
    let cut = path.rmatch_indices('/').nth(2).map_or(0, |(at, _)| at + 1);
    &path[cut..]
}

/// A Rust symbol's name ends with a hash that tells its versions apart.
fn without_hash(name: &str) -> &str {
    match name.rsplit_once("::h") {
        Some((name, hash)) if hash.len() == 16 && hash.bytes().all(|b| b.is_ascii_hexdigit()) => name,
        _ => name,
    }
}

/// What unwinding takes of a module's file, and what is added to its addresses.
fn read_sections(file: &Path, start: u64, offset: u64) -> Option<(u64, ExplicitModuleSectionInfo<Vec<u8>>)> {
    let cache = ReadCache::new(File::open(file).ok()?);
    let elf = object::File::parse(&cache).ok()?;
    // The segment that this mapping is of: at its lowest address the file's bytes from a page's beginning on.
    let segment = elf.segments().find(|segment| segment.file_range().0 & !0xfff == offset)?;
    let first = segment.address().wrapping_sub(segment.file_range().0.wrapping_sub(offset));
    let section = |name: &str| elf.section_by_name(name);
    let range = |name: &str| section(name).map(|section| section.address()..section.address() + section.size());
    let data = |name: &str| section(name).and_then(|section| section.data().ok().map(<[u8]>::to_vec));
    let sections = ExplicitModuleSectionInfo {
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
    fn names_and_paths_are_cut_to_what_tells_them_apart() {
        assert_eq!(without_hash("a::b::h0123456789abcdef"), "a::b");
        assert_eq!(without_hash("a::heap"), "a::heap");
        assert_eq!(short("/a/b/c/d.rs"), "b/c/d.rs");
        assert_eq!(short("d.rs"), "d.rs");
    }

    #[test]
    fn a_line_of_the_mappings_is_read() {
        let line = "55d0-55e0 r-xp 00001000 fd:00 123   /usr/bin/a name";
        let found = mapping(line).unwrap();
        assert_eq!((found.start, found.end, found.offset, found.path), (0x55d0, 0x55e0, 0x1000, "/usr/bin/a name"));
        assert!(mapping("55d0-55e0 r-xp 00000000 00:00 0 [vdso]").is_none());
        assert!(mapping("55d0-55e0 r-xp 00000000 00:00 0").is_none());
    }
}
