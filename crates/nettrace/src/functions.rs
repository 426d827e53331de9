//! The names of the addresses in stacks.
//!
//! The stacks of a trace are addresses of code. The runtime names its functions when it compiles them, and names all of them at the end of
//! the trace: the *rundown*. So a program that prints stacks reads the file twice: first the names, then the stacks.
//!
//! ```
//! use nettrace::Reader;
//! use nettrace::functions::Functions;
//!
//! let mut functions = Functions::default();
//! Reader::new(&b"Nettrace"[..]).in_file_order().read(&mut functions);
//! assert!(functions.is_empty() && functions.at(1, 0x1000).is_none());
//! ```

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use super::clr::code::{MethodDCStopVerbose, ModuleDCStop};
use super::clr::{Payload, Provider, Z16};
use super::{EventType, Interest, NetEvent, TraceInfo, Visitor};

/// The numbers of the events that name a function. All have the fields of [`MethodDCStopVerbose`].
const FUNCTIONS: [u32; 2] = [143, 144];
/// The numbers of the events that describe a module. All have the fields of [`ModuleDCStop`].
const MODULES: [u32; 3] = [152, 153, 154];

/// The maximum number of characters of a name that are kept.
const LONGEST_NAME: usize = 4096;
/// The maximum size of all names together, with their entries, in bytes.
const MOST_BYTES: usize = 64 << 20;
/// The size of an entry without its names.
const ENTRY_BYTES: usize = 256;

/// A function of a traced process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// The address of its first instruction.
    pub start: u64,
    /// The length of its code, in bytes.
    pub size: u32,
    /// The id of its module.
    pub module: u64,
    /// The path of its name: a namespace and a type, or a module path.
    pub namespace: String,
    /// The last part of its name.
    pub name: String,
    /// Its parameters and result as the runtime writes them. Empty for a function that is not of .NET.
    pub signature: String,
}

impl Function {
    fn name_bytes(&self) -> usize {
        self.namespace.len() + self.name.len() + self.signature.len()
    }
}

/// The name, as the languages write it: with `::` for a function without a signature, and with a point and the types of the
/// parameters for one with.
impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Function { namespace, name, signature, .. } = self;
        let between = match (namespace.is_empty(), signature.is_empty()) {
            (true, _) => "",
            (false, true) => "::",
            (false, false) => ".",
        };
        let parameters = signature.find('(').map_or("", |at| &signature[at..]);
        write!(f, "{namespace}{between}{name}{parameters}")
    }
}

/// The functions and modules that a trace names, by process. As a [`Visitor`], it reads them from a file.
///
/// It takes at most 64 MiB. Names that do not fit are left out and counted, and the end of a name of more than 4,096 characters is left out. A
/// function without code is ignored. If code was replaced at an address, its last name counts for the whole trace.
#[derive(Debug, Default)]
pub struct Functions {
    functions: BTreeMap<(u64, u64), Function>,
    modules: HashMap<(u64, u64), String>,
    pointer_bytes: u8,
    bytes: usize,
    left_out: u64,
}

impl Functions {
    /// Returns whether the trace names no function: it has no rundown, or its process was killed before it.
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// Returns the number of functions and modules that were left out, because the names take too much memory.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Reserves memory for names of this size, which replace others of the size `before`. Returns false if there is not enough.
    fn reserve(&mut self, before: Option<usize>, names: usize) -> bool {
        let bytes = self.bytes - before.map_or(0, |names| ENTRY_BYTES + names) + ENTRY_BYTES + names;
        let fits = bytes <= MOST_BYTES;
        if fits {
            self.bytes = bytes;
        } else {
            self.left_out += 1;
        }
        fits
    }

    /// Returns the function of this process that contains an address of a stack.
    pub fn at(&self, process: u64, address: u64) -> Option<&Function> {
        let (&(of, start), function) = self.functions.range(..=(process, address)).next_back()?;
        (of == process && address - start < u64::from(function.size)).then_some(function)
    }

    /// Returns the path of a module of this process.
    pub fn module(&self, process: u64, id: u64) -> Option<&str> {
        self.modules.get(&(process, id)).map(String::as_str)
    }
}

/// Returns the group of numbers that has this event, if its provider names code.
fn names(kind: &EventType) -> Option<&'static [u32]> {
    let provider = Provider::named(&kind.provider)?;
    let groups: [&[u32]; 2] = match provider {
        Provider::Rundown => [&FUNCTIONS, &MODULES[1..]],
        // Number 154 of this provider is the load of an assembly.
        Provider::Runtime => [&FUNCTIONS, &MODULES[..2]],
        Provider::Private | Provider::EventPipe => return None,
    };
    groups.into_iter().find(|group| group.contains(&kind.event))
}

/// Returns the part of a name that is kept.
fn kept(text: Z16<'_>) -> String {
    let mut kept: String = text.chars().take(LONGEST_NAME).collect();
    kept.shrink_to_fit();
    kept
}

impl Visitor for Functions {
    fn trace(&mut self, trace: &TraceInfo) {
        self.pointer_bytes = trace.pointer_bytes;
    }

    fn event_type(&mut self, kind: &EventType) -> Interest {
        if names(kind).is_some() { Interest::Deliver } else { Interest::Skip }
    }

    fn event(&mut self, event: &NetEvent<'_>) {
        let (version, payload) = (event.version(), Payload::new(event.payload, self.pointer_bytes));
        if FUNCTIONS.contains(&event.kind.event) {
            let view = MethodDCStopVerbose::new(version, payload);
            let text = |text: Option<Z16<'_>>| text.map(kept);
            let function = || {
                Some(Function {
                    start: view.start_address()?,
                    size: view.size()?,
                    module: view.module_id()?,
                    namespace: text(view.namespace())?,
                    name: text(view.name())?,
                    signature: text(view.signature()).unwrap_or_default(),
                })
            };
            let Some(function) = function().filter(|function| function.size > 0) else { return };
            // The runtime names a function again at the end.
            let key = (event.process, function.start);
            if self.reserve(self.functions.get(&key).map(Function::name_bytes), function.name_bytes()) {
                self.functions.insert(key, function);
            }
        } else {
            let view = ModuleDCStop::new(version, payload);
            if let (Some(id), Some(path)) = (view.module_id(), view.il_path()) {
                let (key, path) = ((event.process, id), kept(path));
                if self.reserve(self.modules.get(&key).map(String::len), path.len()) {
                    self.modules.insert(key, path);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::clr::Encode;
    use crate::clr::write::{MethodDCEndVerbose, ModuleDCEnd};

    fn visit<E: Encode>(functions: &mut Functions, process: u64, event: &E) {
        let mut payload = Vec::new();
        event.encode(0, &mut payload);
        let kind = E::DEFINITION.event_type();
        assert_eq!(functions.event_type(&kind), Interest::Deliver);
        functions.event(&NetEvent {
            kind: &kind,
            process,
            payload: &payload,
            time: 0,
            thread: 0,
            capture_thread: 0,
            processor: None,
            sequence: 0,
            stack: Default::default(),
            activity: [0; 16],
            related: [0; 16],
            labels: Default::default(),
            offset: 0,
            in_file: Default::default(),
        });
    }

    fn method(start: u64, size: u32, name: &'static str) -> MethodDCEndVerbose<'static> {
        MethodDCEndVerbose {
            method_id: start,
            module_id: 0x1000,
            start_address: start,
            size,
            token: 0,
            flags: 0,
            namespace: "app::load".into(),
            name: name.into(),
            signature: "".into(),
            rejit_id: 0,
        }
    }

    #[rstest]
    #[case::before(7, 0x1fff, None)]
    #[case::first(7, 0x2000, Some("app::load::parse"))]
    #[case::last(7, 0x200f, Some("app::load::parse"))]
    #[case::between(7, 0x2010, None)]
    #[case::second(7, 0x2020, Some("app::load::read"))]
    #[case::after(7, 0x2021, None)]
    #[case::highest(7, u64::MAX, None)]
    #[case::another_process(8, 0x2000, None)]
    fn an_address_belongs_to_the_function_that_contains_it(
        #[case] process: u64,
        #[case] address: u64,
        #[case] expected: Option<&str>,
    ) {
        let mut functions = Functions::default();
        assert!(functions.is_empty());
        visit(&mut functions, 7, &method(0x2000, 0x10, "parse"));
        visit(&mut functions, 7, &method(0x2020, 1, "read"));
        let found = functions.at(process, address).map(ToString::to_string);
        assert_eq!(found.as_deref(), expected);
        assert!(!functions.is_empty());
    }

    /// `.format.hostile`
    #[test]
    fn names_take_a_limited_amount_of_memory() {
        let mut functions = Functions::default();
        let name: &'static str = "n".repeat(LONGEST_NAME + 1).leak();
        let fits = MOST_BYTES / (ENTRY_BYTES + "app::load".len() + LONGEST_NAME);
        for number in 0..fits as u64 + 3 {
            visit(&mut functions, 7, &method(0x1000 * number, 0x1000, name));
        }
        assert_eq!(functions.left_out(), 3);
        // A function that is named again takes the place of its first name.
        visit(&mut functions, 7, &method(0, 0x1000, "again"));
        visit(&mut functions, 7, &method(0, 0x1000, name));
        assert_eq!(functions.left_out(), 3);
        let last = |number: usize| functions.at(7, 0x1000 * number as u64).map(|function| function.name.len());
        assert_eq!((last(fits - 1), last(fits)), (Some(LONGEST_NAME), None));
    }

    #[test]
    fn a_function_without_code_hides_no_other() {
        let mut functions = Functions::default();
        visit(&mut functions, 7, &method(0x2000, 0x10, "parse"));
        visit(&mut functions, 7, &method(0x2008, 0, "label"));
        assert_eq!(functions.at(7, 0x2009).map(|function| function.name.as_str()), Some("parse"));
    }

    #[test]
    fn a_module_has_the_path_of_its_file() {
        let mut functions = Functions::default();
        let module = ModuleDCEnd {
            module_id: 0x1000,
            assembly_id: 0x1000,
            flags: 0,
            reserved: 0,
            il_path: "/usr/bin/app".into(),
            native_path: "".into(),
            managed_pdb_signature: [0; 16],
            managed_pdb_age: 0,
            managed_pdb_path: "".into(),
            native_pdb_signature: [0; 16],
            native_pdb_age: 0,
            native_pdb_path: "".into(),
        };
        visit(&mut functions, 7, &module);
        assert_eq!(functions.module(7, 0x1000), Some("/usr/bin/app"));
        assert_eq!(functions.module(8, 0x1000), None);
    }

    #[rstest]
    #[case("app::load", "parse", "", "app::load::parse")]
    #[case("", "malloc", "", "malloc")]
    #[case(
        "System.String",
        "Concat",
        "class System.String  (class System.String,int32)",
        "System.String.Concat(class System.String,int32)"
    )]
    fn a_name_is_written_as_in_its_language(
        #[case] namespace: &str,
        #[case] name: &str,
        #[case] signature: &str,
        #[case] expected: &str,
    ) {
        let [namespace, name, signature] = [namespace, name, signature].map(str::to_owned);
        let function = Function { start: 0, size: 1, module: 0, namespace, name, signature };
        assert_eq!(function.to_string(), expected);
    }
}
