//! The rundown at the end of a trace: the functions that its stacks refer to, and the files that contain them.
//!
//! Names come from the symbols of the files in memory. To list these files takes the lock of the dynamic loader, which a thread of the program may
//! hold while it waits for a collection or for the recorder: in a static constructor, or in a callback of `dl_iterate_phdr`. So the names are
//! looked up where nothing waits for the thread that does it (`.event.names`): in
//! [`Consumer::closed`](stopworld::events::record::Consumer::closed), without the recorder's lock and in a blocking region, or on the own thread of
//! a live session. The stacks themselves are written in the drain, which needs no names.
//!
//! Code of a library that was unloaded before the end has no name, or that of a library loaded in its place.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::stacks::{Stacks, addresses};
use nettrace::clr::Text;
use nettrace::clr::write::{MethodDCEndVerbose, ModuleDCEnd};
use stopworld_platform::symbols::{Function, Symbols};

/// Names and paths are cut to this many UTF-16 units.
const MOST_NAME: usize = 4_000;

/// The functions of a trace's stacks.
#[derive(Debug, Default)]
pub(super) struct Rundown {
    /// The modules by their ids: their lowest addresses.
    modules: BTreeMap<u64, String>,
    functions: Vec<Function>,
}

impl Rundown {
    /// Looks up the functions of these stacks. Takes the lock of the dynamic loader, reads files and allocates.
    pub(super) fn of(stacks: &Stacks) -> Rundown {
        let called: BTreeSet<usize> = stacks.seen().flat_map(addresses).collect();
        let mut rundown = Rundown::default();
        if called.is_empty() {
            return rundown;
        }
        let mut symbols = Symbols::new();
        let mut known_up_to = 0;
        for address in called.into_iter().filter(|address| *address > 0) {
            // The addresses ascend, and so do the functions.
            if address < known_up_to {
                continue;
            }
            let Some(function) = symbols.function(address) else { continue };
            known_up_to = function.addresses.end;
            let path = |path: &PathBuf| path.display().to_string();
            rundown.modules.entry(function.file_begin as u64).or_insert_with(|| path(&function.file));
            rundown.functions.push(function);
        }
        rundown
    }

    /// Returns the events about the modules.
    pub(super) fn modules(&self) -> impl Iterator<Item = ModuleDCEnd<'_>> {
        self.modules.iter().map(|(id, path)| ModuleDCEnd {
            module_id: *id,
            assembly_id: *id,
            flags: 0,
            reserved: 0,
            il_path: Text::cut(path, MOST_NAME),
            // The file is not compiled from another one, and has no symbol file of Windows.
            native_path: "".into(),
            managed_pdb_signature: [0; 16],
            managed_pdb_age: 0,
            managed_pdb_path: "".into(),
            native_pdb_signature: [0; 16],
            native_pdb_age: 0,
            native_pdb_path: "".into(),
        })
    }

    /// Returns the events about the functions.
    pub(super) fn functions(&self) -> impl Iterator<Item = MethodDCEndVerbose<'_>> {
        self.functions.iter().map(|function| {
            let (namespace, name) = parts(&function.name);
            let start = function.addresses.start as u64;
            MethodDCEndVerbose {
                method_id: start,
                module_id: function.file_begin as u64,
                start_address: start,
                size: u32::try_from(function.addresses.len()).unwrap_or(u32::MAX),
                // Code that was not compiled by .NET has no number.
                token: 0,
                flags: 0,
                namespace: Text::cut(namespace, MOST_NAME),
                name: Text::cut(name, MOST_NAME),
                signature: "".into(),
                rejit_id: 0,
            }
        })
    }
}

/// Splits the path of a function before its last part. A part may contain paths in brackets.
fn parts(path: &str) -> (&str, &str) {
    let mut depth = 0_i32;
    let mut before = ' ';
    for (at, letter) in path.char_indices().rev() {
        match letter {
            // An arrow, as in the type of a function.
            '>' if path[..at].ends_with(['-', '=']) => {}
            '>' | ')' | '}' | ']' => depth += 1,
            '<' | '(' | '{' | '[' => depth -= 1,
            ':' if before == ':' && depth == 0 => return (&path[..at], &path[at + 2..]),
            _ => {}
        }
        before = letter;
    }
    ("", path)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("malloc", "", "malloc")]
    #[case("app::main", "app", "main")]
    #[case("app::load::parse", "app::load", "parse")]
    #[case("<app::Node as core::clone::Clone>::clone", "<app::Node as core::clone::Clone>", "clone")]
    #[case("app::main::{{closure}}", "app::main", "{{closure}}")]
    #[case("app::fill::<app::Node>", "app::fill", "<app::Node>")]
    #[case(
        "core::ops::function::FnOnce::call_once{{vtable.shim}}",
        "core::ops::function::FnOnce",
        "call_once{{vtable.shim}}"
    )]
    #[case("<F as app::Run<fn(u8) -> app::Node>>::run", "<F as app::Run<fn(u8) -> app::Node>>", "run")]
    #[case("std::vector<a::b>::push(a::b const&)", "std::vector<a::b>", "push(a::b const&)")]
    #[case("", "", "")]
    fn a_path_is_split_before_its_last_part(#[case] path: &str, #[case] namespace: &str, #[case] name: &str) {
        assert_eq!(parts(path), (namespace, name));
    }
}
