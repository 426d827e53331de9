//! Functions, files and lines of addresses, for reports. Reads the debugging information of the program's own files; allocates.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use addr2line::{Loader, demangle_auto};

use super::traces::TraceId;
use crate::os::loaded;

/// A place in the source code, as far as the debugging information names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodePlace {
    function: String,
    file: Option<String>,
    line: Option<u32>,
    is_of_a_library: bool,
}

impl CodePlace {
    /// Returns the function's path. If the symbols do not name it: the file and the address in it.
    pub fn function(&self) -> &str {
        &self.function
    }

    /// Returns the source file. `None` without line tables.
    pub fn file(&self) -> Option<&str> {
        self.file.as_deref()
    }

    /// Returns the line in the source file, from 1.
    pub fn line(&self) -> Option<u32> {
        self.line
    }
}

impl fmt::Display for CodePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.function)?;
        match (&self.file, self.line) {
            (Some(file), Some(line)) => write!(f, " ({file}:{line})"),
            (Some(file), None) => write!(f, " ({file})"),
            _ => Ok(()),
        }
    }
}

/// Where the functions begin that are between the program's code and an allocator: they are left out in front of a backtrace.
const LIBRARIES: [&str; 8] =
    ["stopworld::", "stopworld_platform::", "stopworld_fire_", "alloc::", "std::", "core::", "__rust", "_Unwind_"];
/// Parts of the paths of source files of the standard library, and of packages from a registry. Inlined functions have names without a path.
const LIBRARY_FILES: [&str; 4] = ["/rustc/", "/rust/deps/", "/rustlib/src/rust/library/", "/registry/src/"];
/// The functions with which the program or a thread begins: they, and what called them, are left out at the end.
const BEGINNINGS: [&str; 4] =
    ["core::ops::function::FnOnce::call_once", "std::sys::backtrace::__rust_begin_short_backtrace", "main", "_start"];

fn is_of_a_library(function: &str) -> bool {
    let path = function.trim_start_matches(['<', '&', '*']);
    LIBRARIES.iter().any(|library| path.starts_with(library))
}

fn is_a_beginning(function: &str) -> bool {
    let path = function.trim_start_matches('<');
    path.contains("__rust_begin_short_backtrace") || BEGINNINGS.contains(&path)
}

/// A file in memory.
struct Module {
    path: PathBuf,
    bias: usize,
    low: usize,
    high: usize,
    /// The names in the file, if they were needed; `None` inside if it cannot be read.
    names: Option<Option<Loader>>,
}

/// The names of the program and its libraries.
pub(super) struct Symbols {
    modules: Vec<Module>,
    working_directory: PathBuf,
}

impl Symbols {
    /// Notes which files are loaded.
    pub(super) fn new() -> Self {
        let mut modules = Vec::new();
        loaded::for_each(|file| {
            let bounds =
                file.segments().fold((usize::MAX, 0), |(from, to), (low, high, _)| (from.min(low), to.max(high)));
            let path = match file.path().to_bytes() {
                [] => PathBuf::from("/proc/self/exe"),
                path => PathBuf::from(OsStr::from_bytes(path)),
            };
            modules.push(Module { path, bias: file.bias(), low: bounds.0, high: bounds.1, names: None });
        });
        Self { modules, working_directory: std::env::current_dir().unwrap_or_default() }
    }

    fn names_at(&mut self, address: usize) -> Option<(&PathBuf, u64, Option<&Loader>)> {
        let module = self.modules.iter_mut().find(|module| (module.low..module.high).contains(&address))?;
        let path = std::fs::read_link(&module.path).unwrap_or_else(|_| module.path.clone());
        let names = module.names.get_or_insert_with(|| Loader::new(path).ok()).as_ref();
        Some((&module.path, (address - module.bias) as u64, names))
    }

    /// Returns the name of the static variable at this address.
    pub(super) fn variable(&mut self, address: usize) -> Option<String> {
        let (_, probe, names) = self.names_at(address)?;
        let symbol = names?.find_symbol(probe)?;
        Some(without_hash(&demangle_auto(symbol.into(), None)).to_owned())
    }

    /// Returns the program's own calls of a backtrace, innermost first: without the libraries that the innermost ones have called, and without
    /// what called the program's `main` or a thread's closure.
    pub(super) fn places(&mut self, trace: TraceId) -> Vec<CodePlace> {
        let mut places = Vec::new();
        for address in trace.frames() {
            // The address is the one after the call, which may be the last instruction of its function.
            self.add_places(address - 1, &mut places);
        }
        let end = places.iter().position(|place| is_a_beginning(&place.function)).unwrap_or(places.len());
        let begin = places[..end].iter().position(|place| !place.is_of_a_library);
        match begin {
            Some(begin) => places[begin..end].to_vec(),
            None => places,
        }
    }

    fn add_places(&mut self, address: usize, places: &mut Vec<CodePlace>) {
        let here = self.working_directory.clone();
        let unknown = |function: String| CodePlace {
            is_of_a_library: is_of_a_library(&function),
            function,
            file: None,
            line: None,
        };
        let Some((path, probe, names)) = self.names_at(address) else {
            places.push(unknown(format!("{address:#x}")));
            return;
        };
        let before = places.len();
        if let Some(Ok(mut frames)) = names.map(|names| names.find_frames(probe)) {
            while let Ok(Some(frame)) = frames.next() {
                let Some(function) = frame.function.and_then(|name| name.demangle().ok().map(|name| name.into_owned()))
                else {
                    continue;
                };
                let (path, line) = frame.location.map_or((None, None), |at| (at.file, at.line));
                let is_library_file = |path: &str| LIBRARY_FILES.iter().any(|part| path.contains(part));
                places.push(CodePlace {
                    is_of_a_library: is_of_a_library(&function) || path.is_some_and(is_library_file),
                    function: without_hash(&function).to_owned(),
                    file: path.map(|path| short(path, &here)),
                    line,
                });
            }
        }
        if places.len() == before {
            let symbol = names.and_then(|names| names.find_symbol(probe));
            let name = symbol.map(|name| without_hash(&demangle_auto(name.into(), None)).to_owned());
            places.push(unknown(name.unwrap_or_else(|| format!("{}+{probe:#x}", path.display()))));
        }
    }
}

/// Returns the path of a file below the working directory; of another file the last three parts, which identify it.
fn short(path: &str, here: &Path) -> String {
    if let Ok(below) = Path::new(path).strip_prefix(here) {
        return below.display().to_string();
    }
    let cut = path.rmatch_indices('/').nth(2).map_or(0, |(at, _)| at + 1);
    path[cut..].to_owned()
}

/// Removes the hash at the end of a Rust symbol's name, which distinguishes versions of the function.
fn without_hash(name: &str) -> &str {
    match name.rsplit_once("::h") {
        Some((name, hash)) if hash.len() == 16 && hash.bytes().all(|b| b.is_ascii_hexdigit()) => name,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("<alloc::vec::Vec<app::Node>>::push", true)]
    #[case("app::fill", false)]
    #[case("<app::Node as core::clone::Clone>::clone", false)]
    #[case("stopworld_cli::main", false)]
    fn functions_of_libraries_are_known_by_their_paths(#[case] function: &str, #[case] expected: bool) {
        assert_eq!(is_of_a_library(function), expected);
    }
}
