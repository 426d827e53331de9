//! Functions, files and lines of code addresses, for reports (feature `symbols`). Reads the debugging information of the program's own files; allocates.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use addr2line::{Loader, demangle_auto};

use crate::os::loaded;

/// A place in the source code, as far as the debugging information names it. Copies share its texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodePlace {
    function: Arc<str>,
    has_symbol: bool,
    file: Option<Arc<str>>,
    line: Option<u32>,
    origin: Origin,
}

/// Whose code a function is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Program,
    /// A package from a registry.
    Package,
    /// The standard library.
    Standard,
    Collector,
}

impl Origin {
    fn is_runtime(self) -> bool {
        matches!(self, Self::Standard | Self::Collector)
    }
}

impl CodePlace {
    /// Returns the function's path. If the symbols do not name it: the file and the address in it.
    pub fn function(&self) -> &str {
        &self.function
    }

    /// Returns whether the symbols name the function.
    pub fn has_symbol(&self) -> bool {
        self.has_symbol
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

/// A function of the program or of a library, in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its path.
    pub name: String,
    /// The addresses of its code.
    pub addresses: Range<usize>,
    /// The file that contains it.
    pub file: PathBuf,
    /// The lowest address of that file.
    pub file_begin: usize,
}

/// How the paths of the collector's functions begin. They are left out in front of a backtrace, and so are those of the standard library.
const COLLECTOR: [&str; 3] = ["stopworld::", "stopworld_platform::", "stopworld_fire_"];
/// How the paths of the standard library's functions begin, and those of the functions that the compiler adds.
const STANDARD: [&str; 5] = ["alloc::", "std::", "core::", "__rust", "_Unwind_"];
/// Parts of the paths of source files of the standard library. Inlined functions have names without a path.
const STANDARD_FILES: [&str; 3] = ["/rustc/", "/rust/deps/", "/rustlib/src/rust/library/"];
/// A part of the paths of source files of packages from a registry. The name of the registry and that of the package follow.
const PACKAGE_FILES: &str = "/registry/src/";
/// How the names of the collector's packages begin.
const OWN_PACKAGES: &str = "stopworld-";
/// The folder of this package when it was compiled.
const OWN_FOLDER: &str = env!("CARGO_MANIFEST_DIR");
/// How that ends in the repository, which has the package `stopworld` at its root.
const IN_REPOSITORY: &str = "/crates/stopworld-platform";
/// The C function that calls Rust's `main`. With line tables only, Rust's `main` has this name too, but also a source file.
const C_MAIN: &str = "main";
/// How the names of the functions begin that call `main`.
const CALLERS_OF_MAIN: [&str; 2] = ["_start", "__libc_start_"];

fn begins_like(function: &str, paths: &[&str]) -> bool {
    let path = function.trim_start_matches(['<', '&', '*']);
    paths.iter().any(|begin| path.starts_with(begin))
}

/// Returns whether a path is that of a source file of the package `stopworld`, or of this one, in the folders where they were compiled.
fn is_own_file(path: &str) -> bool {
    let is_source_in = |folder| path.strip_prefix(folder).is_some_and(|rest| rest.starts_with("/src/"));
    is_source_in(OWN_FOLDER) || OWN_FOLDER.strip_suffix(IN_REPOSITORY).is_some_and(is_source_in)
}

/// Returns whose code a function is, by its name and the path of its source file.
fn origin(function: &str, path: Option<&str>) -> Origin {
    let path = path.unwrap_or_default();
    let package = path.split_once(PACKAGE_FILES).and_then(|(_, rest)| rest.split_once('/')).map(|(_, package)| package);
    match package {
        _ if begins_like(function, &COLLECTOR) || is_own_file(path) => Origin::Collector,
        _ if begins_like(function, &STANDARD) => Origin::Standard,
        _ if STANDARD_FILES.iter().any(|part| path.contains(part)) => Origin::Standard,
        Some(package) if package.starts_with(OWN_PACKAGES) => Origin::Collector,
        Some(_) => Origin::Package,
        None => Origin::Program,
    }
}

/// Returns whether this is a function with which the program begins: it, and what called it, are left out at the end of a backtrace.
fn is_a_beginning(place: &CodePlace) -> bool {
    // Not `FnOnce::call_once`: it is also between the functions of the program.
    place.function.contains("__rust_begin_short_backtrace")
        || (&*place.function == C_MAIN && place.file.is_none())
        || CALLERS_OF_MAIN.iter().any(|begin| place.function.starts_with(begin))
}

/// A file in memory.
struct Module {
    path: PathBuf,
    bias: usize,
    range: Range<usize>,
    /// The names in the file, if they were needed; `None` inside if it cannot be read.
    names: Option<Option<Loader>>,
}

impl Module {
    fn of(file: &loaded::File) -> Self {
        Self { path: file.real_path(), bias: file.bias, range: file.range(), names: None }
    }

    /// Returns the file, and the names in it, which are read on first use. `None` if it cannot be read.
    fn names(&mut self) -> (&PathBuf, Option<&Loader>) {
        let (path, names) = (&self.path, &mut self.names);
        (path, names.get_or_insert_with(|| Loader::new(path).ok()).as_ref())
    }
}

/// The calls of a backtrace.
struct Calls {
    all: Vec<CodePlace>,
    /// Those that a report shows.
    shown: Vec<CodePlace>,
}

/// The names of the program and its libraries.
pub struct Symbols {
    files: Arc<[loaded::File]>,
    modules: Vec<Module>,
    working_directory: PathBuf,
    /// The calls at each address that was looked up, innermost first.
    at_addresses: HashMap<usize, Arc<[CodePlace]>>,
    calls: HashMap<u32, Calls>,
}

impl Symbols {
    /// Notes which files are loaded.
    pub fn new() -> Self {
        let files = loaded::files();
        let modules = files.iter().map(Module::of).collect();
        let working_directory = std::env::current_dir().unwrap_or_default();
        Self { files, modules, working_directory, at_addresses: HashMap::new(), calls: HashMap::new() }
    }

    /// Forgets names of libraries that were unloaded, and notes new ones.
    pub fn renew(&mut self) {
        if *loaded::files() != *self.files {
            *self = Self::new();
        }
    }

    /// Returns the name of the static variable at this address.
    pub fn variable(&mut self, address: usize) -> Option<String> {
        let (_, probe, names) = names_at(&mut self.modules, address)?;
        let symbol = names?.find_symbol(probe)?;
        Some(without_hash(&demangle_auto(symbol.into(), None)).to_owned())
    }

    /// Returns the function whose code contains this address, by the symbols of its file. Code that is inlined into a function belongs to
    /// that function. `None` if no symbol names it.
    pub fn function(&mut self, address: usize) -> Option<Function> {
        let module = self.modules.iter_mut().find(|module| module.range.contains(&address))?;
        let (bias, range) = (module.bias, module.range.clone());
        let (file, names) = module.names();
        let names = names?;
        let symbol = names.find_symbol_info((address - bias) as u64)?;
        let start = symbol.address();
        let is_in_it = |at: usize| {
            let symbol = || names.find_symbol_info((at - bias) as u64);
            at < range.end && symbol().is_some_and(|symbol| symbol.address() == start)
        };
        // The addresses of a function follow each other, so the last one is found by bisection.
        let (mut last, mut step) = (address, 1);
        while is_in_it(last + step) {
            last += step;
            step *= 2;
        }
        while step > 1 {
            step /= 2;
            last += if is_in_it(last + step) { step } else { 0 };
        }
        Some(Function {
            name: without_hash(&demangle_auto(symbol.name().into(), None)).to_owned(),
            addresses: start as usize + bias..last + 1,
            file: file.clone(),
            file_begin: range.start,
        })
    }

    /// Returns all calls of the backtrace with these return addresses, innermost first. Equal numbers stand for equal backtraces.
    pub fn all_places(&mut self, number: u32, addresses: impl Iterator<Item = usize>) -> &[CodePlace] {
        &self.calls(number, addresses).all
    }

    /// Returns the program's own calls of a backtrace, innermost first: without calls inside libraries, and without what called the program's
    /// `main` or a thread's closure. If none is the program's own: all calls but the innermost ones of the collector.
    pub fn places(&mut self, number: u32, addresses: impl Iterator<Item = usize>) -> &[CodePlace] {
        &self.calls(number, addresses).shown
    }

    fn calls(&mut self, number: u32, addresses: impl Iterator<Item = usize>) -> &Calls {
        if !self.calls.contains_key(&number) {
            let mut all = Vec::new();
            for address in addresses {
                // The address is the one after the call, which may be the last instruction of its function.
                all.extend_from_slice(&self.at_address(address - 1));
            }
            let shown = program_calls(&all);
            self.calls.insert(number, Calls { all, shown });
        }
        &self.calls[&number]
    }

    /// Returns the program's own frames among these, innermost first: the index of each, and its calls. A frame has more than one call if
    /// functions are inlined into it. Unlike for [`places`](Self::places), packages from a registry are part of the program.
    pub fn own_frames(&mut self, return_addresses: &[usize]) -> Vec<(usize, Vec<CodePlace>)> {
        let (mut all, mut frames) = (Vec::new(), Vec::new());
        for (index, address) in return_addresses.iter().enumerate() {
            all.extend_from_slice(&self.at_address(address - 1));
            frames.resize(all.len(), index);
        }
        let mut own: Vec<(usize, Vec<CodePlace>)> = Vec::new();
        let shown = own_calls(&all, |origin| !origin.is_runtime());
        for (place, frame) in all.drain(shown.clone()).zip(&frames[shown]) {
            match own.last_mut() {
                Some((last, places)) if last == frame => places.push(place),
                _ => own.push((*frame, vec![place])),
            }
        }
        own
    }

    /// Returns the calls at an address, innermost first: at least one.
    fn at_address(&mut self, address: usize) -> Arc<[CodePlace]> {
        let (modules, here) = (&mut self.modules, &self.working_directory);
        Arc::clone(self.at_addresses.entry(address).or_insert_with(|| look_up(modules, address, here)))
    }
}

/// Returns the file that contains an address, the address in the file, and the names in it.
fn names_at(modules: &mut [Module], address: usize) -> Option<(&PathBuf, u64, Option<&Loader>)> {
    let module = modules.iter_mut().find(|module| module.range.contains(&address))?;
    let probe = (address - module.bias) as u64;
    let (path, names) = module.names();
    Some((path, probe, names))
}

/// Reads the calls at an address from the debugging information.
fn look_up(modules: &mut [Module], address: usize, here: &Path) -> Arc<[CodePlace]> {
    let without_lines = |function: &str, has_symbol| {
        let origin = origin(function, None);
        Arc::from([CodePlace { function: function.into(), has_symbol, file: None, line: None, origin }])
    };
    let Some((path, probe, names)) = names_at(modules, address) else {
        return without_lines(&format!("{address:#x}"), false);
    };
    let mut places = Vec::new();
    if let Some(Ok(mut frames)) = names.map(|names| names.find_frames(probe)) {
        while let Ok(Some(frame)) = frames.next() {
            let Some(function) = frame.function.and_then(|name| name.demangle().ok().map(|name| name.into_owned()))
            else {
                continue;
            };
            let (path, line) = frame.location.map_or((None, None), |at| (at.file, at.line));
            places.push(CodePlace {
                origin: origin(&function, path),
                function: without_hash(&function).into(),
                has_symbol: true,
                file: path.map(|path| short(path, here).into()),
                line,
            });
        }
    }
    if !places.is_empty() {
        return places.into();
    }
    match names.and_then(|names| names.find_symbol(probe)) {
        Some(symbol) => without_lines(without_hash(&demangle_auto(symbol.into(), None)), true),
        None => without_lines(&format!("{}+{probe:#x}", path.display()), false),
    }
}

/// Returns the calls of a backtrace that are the program's own, without those of libraries between them. If none is: those that
/// [`own_calls`] returns.
fn program_calls(all: &[CodePlace]) -> Vec<CodePlace> {
    let is_own = |origin| origin == Origin::Program;
    let calls = &all[own_calls(all, is_own)];
    if calls.first().is_some_and(|place| is_own(place.origin)) {
        calls.iter().filter(|place| is_own(place.origin)).cloned().collect()
    } else {
        calls.to_vec()
    }
}

/// Returns which of the calls of a backtrace are the program's own: from the first to the last whose origin is. If none is: all calls but the
/// innermost ones of the collector.
fn own_calls(all: &[CodePlace], is_own: impl Fn(Origin) -> bool) -> Range<usize> {
    let end = all.iter().position(is_a_beginning).unwrap_or(all.len());
    let is_own = |place: &CodePlace| is_own(place.origin);
    match (all[..end].iter().position(is_own), all[..end].iter().rposition(is_own)) {
        (Some(first), Some(last)) => first..last + 1,
        _ => all.iter().position(|place| place.origin != Origin::Collector).unwrap_or(0)..all.len(),
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
    #[case("<alloc::vec::Vec<app::Node>>::push", Origin::Standard)]
    #[case("<stopworld::check::Allocator as core::alloc::global::GlobalAlloc>::alloc", Origin::Collector)]
    #[case("app::fill", Origin::Program)]
    #[case("<app::Node as core::clone::Clone>::clone", Origin::Program)]
    #[case("stopworld_cli::main", Origin::Program)]
    fn functions_of_libraries_are_known_by_their_paths(#[case] function: &str, #[case] expected: Origin) {
        assert_eq!(origin(function, None), expected);
    }

    #[rstest]
    #[case::closure(&["alloc::alloc", "app::fill", "core::ops::function::FnOnce::call_once", "app::run", "app::main",
        "core::ops::function::FnOnce::call_once", "std::sys::backtrace::__rust_begin_short_backtrace", "std::rt::lang_start", "main"], 1..5,
        &["app::fill", "app::run", "app::main"])]
    #[case::c_program(&["alloc::alloc", "app::fill", "main", "_start"], 1..2, &["app::fill"])]
    #[case::c_program_with_lines(&["alloc::alloc", "fill (app.c)", "main (app.c)", "__libc_start_call_main", "_start"], 1..3, &["fill", "main"])]
    #[case::line_tables_only(&["stopworld_platform::os::unwind::return_addresses", "alloc::alloc", "main (src/main.rs)",
        "std::sys::backtrace::__rust_begin_short_backtrace", "std::rt::lang_start", "main", "__libc_start_call_main", "_start"], 2..3, &["main"])]
    #[case::libraries_only(&["alloc::alloc", "std::rt::lang_start"], 0..2, &["alloc::alloc", "std::rt::lang_start"])]
    #[case::without_own_calls(&["stopworld_platform::os::unwind::return_addresses", "stopworld::check::alloc", "alloc::alloc", "main"], 2..4,
        &["alloc::alloc", "main"])]
    fn a_report_shows_the_programs_own_calls(
        #[case] functions: &[&str],
        #[case] expected: Range<usize>,
        #[case] shown: &[&str],
    ) {
        let place = |place: &&str| {
            let (function, file) = match place.strip_suffix(')').and_then(|place| place.split_once(" (")) {
                Some((function, file)) => (function, Some(file)),
                None => (*place, None),
            };
            let origin = origin(function, file);
            CodePlace { function: function.into(), has_symbol: true, file: file.map(Arc::from), line: None, origin }
        };
        let all: Vec<_> = functions.iter().map(place).collect();
        assert_eq!(own_calls(&all, |origin| origin == Origin::Program), expected);
        assert_eq!(program_calls(&all).iter().map(|place| &*place.function).collect::<Vec<_>>(), shown);
    }

    /// Functions that the compiler has inlined have names without a path, if the program has only line tables.
    #[rstest]
    #[case("src/heap/mod.rs", true)]
    #[case("crates/stopworld-platform/src/sync.rs", true)]
    #[case("examples/churn.rs", false)]
    #[case("crates/stopworld-workloads/src/graph.rs", false)]
    #[case("srcs/heap.rs", false)]
    fn files_of_the_collector_are_known_by_their_folders(#[case] file: &str, #[case] expected: bool) {
        let repository = OWN_FOLDER.strip_suffix(IN_REPOSITORY).unwrap();
        assert_eq!(origin("refill", Some(&format!("{repository}/{file}"))) == Origin::Collector, expected);
    }

    #[test]
    fn an_address_is_looked_up_once() {
        let mut symbols = Symbols::new();
        let here = Symbols::new as *const () as usize + 1;
        let [first, second] = [here, here].map(|address| symbols.own_frames(&[address]).remove(0).1.pop().unwrap());
        assert!(first.has_symbol() && first.function().ends_with("Symbols::new"), "{first:?}");
        assert!(Arc::ptr_eq(&first.function, &second.function));
        let nowhere = symbols.own_frames(&[0x11]).remove(0).1.remove(0);
        assert!(!nowhere.has_symbol() && nowhere.function() == "0x10", "{nowhere:?}");
    }

    #[test]
    fn a_function_has_the_addresses_of_its_code() {
        let mut symbols = Symbols::new();
        let start = short as *const () as usize;
        let function = symbols.function(start).unwrap();
        assert!(function.name.ends_with("symbols::short"), "{function:?}");
        assert_eq!((function.addresses.start, function.file.as_path()), (start, &*std::env::current_exe().unwrap()));
        assert!(function.file_begin < start && function.addresses.len() > 16);
        let last = function.addresses.end - 1;
        assert_eq!(symbols.function(last).as_ref(), Some(&function));
        assert_ne!(symbols.function(last + 1), Some(function));
        assert_eq!(symbols.function(0x11), None);
    }

    #[test]
    fn packages_from_a_registry_are_in_a_profile_but_not_in_front_of_a_report() {
        const REGISTRY: &str = "/home/user/.cargo/registry/src/example-0123456789abcdef/";
        let place = |(function, path): (&str, &str)| CodePlace {
            function: function.into(),
            has_symbol: true,
            file: None,
            line: None,
            origin: origin(function, Some(path)),
        };
        let all = [
            ("refill", format!("{REGISTRY}stopworld-0.1.0/src/runtime/mutator.rs")),
            ("push", "/rustc/0123/library/alloc/src/vec/mod.rs".to_owned()),
            ("parse", format!("{REGISTRY}parser-1.2.0/src/lib.rs")),
            ("app::load", "/home/user/app/src/load.rs".to_owned()),
            ("std::rt::lang_start", "/rustc/0123/library/std/src/rt.rs".to_owned()),
        ];
        let all: Vec<_> = all.iter().map(|(function, path)| place((*function, path.as_str()))).collect();
        assert_eq!(own_calls(&all, |origin| !origin.is_runtime()), 2..4);
        assert_eq!(own_calls(&all, |origin| origin == Origin::Program), 3..4);
    }
}
