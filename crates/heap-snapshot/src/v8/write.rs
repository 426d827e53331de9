//! Writes `.heapsnapshot` files.

use std::collections::HashMap;
use std::io::{self, Write};

use trace_io::json::Quoted;

use super::{ADDRESS, UNNAMED_FROM};
use crate::error::{Error, Result};
use crate::heap::{Heap, Label};

/// The types of nodes, as V8 numbers them.
const NODE_TYPES: &[&str] = &[
    "hidden",
    "array",
    "string",
    "object",
    "code",
    "closure",
    "regexp",
    "number",
    "native",
    "synthetic",
    "concatenated string",
    "sliced string",
    "symbol",
    "bigint",
    "object shape",
];
const OBJECT: u32 = 3;
const SYNTHETIC: u32 = 9;
/// The types of edges, as V8 numbers them.
const EDGE_TYPES: &[&str] = &["context", "element", "property", "internal", "hidden", "shortcut", "weak"];
const ELEMENT: u32 = 1;
const PROPERTY: u32 = 2;

const NODE_FIELDS: &[&str] =
    &["type", "name", "id", "self_size", "edge_count", "trace_node_id", "detachedness", ADDRESS];
const EDGE_FIELDS: &[&str] = &["type", "name_or_index", "to_node"];

/// The strings of a file, in the order in which they were first used. Each name is there once: DevTools would show the objects of only
/// one of two names with the same text.
#[derive(Debug, Default)]
struct Strings {
    all: Vec<String>,
    names: HashMap<String, u32>,
    offsets: HashMap<u32, u32>,
}

impl Strings {
    fn add(&mut self, text: String) -> u32 {
        self.all.push(text);
        self.all.len() as u32 - 1
    }

    /// The string of a name, which several types of a heap can have.
    fn name(&mut self, text: &str) -> u32 {
        if let Some(known) = self.names.get(text) {
            return *known;
        }
        let new = self.add(text.to_owned());
        self.names.insert(text.to_owned(), new);
        new
    }

    /// The string of the label of an offset.
    fn offset(&mut self, offset: u32) -> u32 {
        if let Some(known) = self.offsets.get(&offset) {
            return *known;
        }
        let new = self.add(Label::Offset(offset).text(&[]));
        self.offsets.insert(offset, new);
        new
    }
}

/// Writes a heap as `.heapsnapshot`. Visits the heap twice; besides the heap, the strings are in memory.
///
/// # Errors
/// The heap can't be visited, the output can't be written, or the heap has more than 2²⁹ objects, which the format can't refer to.
pub fn write(heap: &dyn Heap, mut out: impl Write) -> Result<()> {
    let mut strings = Strings::default();
    strings.add(String::new());
    let types: Vec<u32> = heap.types().iter().map(|name| strings.name(name)).collect();
    let fields: Vec<u32> = heap.names().iter().map(|name| strings.name(name)).collect();
    let groups: Vec<u32> = heap.groups().iter().map(|group| strings.add(format!("({group})"))).collect();
    // Roots are written group by group.
    let mut roots = heap.roots().to_vec();
    roots.sort_by_key(|root| root.group);
    // The first nodes are the root and the groups.
    let before = 1 + groups.len() as u64;
    let nodes = before + u64::from(heap.objects());
    if nodes * NODE_FIELDS.len() as u64 > u64::from(u32::MAX) {
        return Err(Error::TooLarge(
            "the heap has more than 536 million objects, which a .heapsnapshot can't refer to: write HPROF",
        ));
    }
    let edges = groups.len() as u64 + roots.len() as u64 + heap.references();
    begin(&mut out, nodes, edges).map_err(Error::Output)?;

    let mut row = Row { out, is_first: true };
    row.of([SYNTHETIC.into(), 0, 1, 0, groups.len() as u64, 0, 0, 0])?;
    for (index, (name, count)) in groups.iter().zip(heap.roots_by_group()).enumerate() {
        row.of([SYNTHETIC.into(), (*name).into(), 2 * index as u64 + 3, 0, count, 0, 0, 0])?;
    }
    heap.visit(&mut |object| {
        let id = 2 * (before + u64::from(object.index)) + 1;
        let name = types[object.type_index as usize];
        let address = heap.address(object.index);
        row.of([OBJECT.into(), name.into(), id, object.size, object.references.len() as u64, 0, 0, address])
    })?;
    row.out.write_all(b"],\n\"edges\":[").map_err(Error::Output)?;

    row.is_first = true;
    let node = |position: u64| position * NODE_FIELDS.len() as u64;
    for index in 0..groups.len() as u64 {
        row.of([ELEMENT.into(), index + 1, node(1 + index)])?;
    }
    for (index, root) in roots.iter().enumerate() {
        let target = node(before + u64::from(root.target));
        if root.address == 0 {
            row.of([ELEMENT.into(), index as u64, target])?;
        } else {
            let name = strings.add(format!("{:#x}", root.address));
            row.of([PROPERTY.into(), name.into(), target])?;
        }
    }
    heap.visit(&mut |object| {
        for reference in object.references {
            let (kind, name) = match reference.label {
                Label::Offset(offset) if offset < UNNAMED_FROM => (PROPERTY, strings.offset(offset)),
                Label::Offset(index) | Label::Index(index) => (ELEMENT, index),
                Label::Field(field) => (PROPERTY, fields[field as usize]),
            };
            row.of([kind.into(), name.into(), node(before + u64::from(reference.target))])?;
        }
        Ok(())
    })?;
    end(&mut row.out, &strings.all).map_err(Error::Output)
}

/// Writes rows of numbers, separated by commas.
struct Row<W> {
    out: W,
    is_first: bool,
}

impl<W: Write> Row<W> {
    fn of<const N: usize>(&mut self, numbers: [u64; N]) -> Result<()> {
        // A number has up to 20 digits.
        let mut text = [0; 21 * 8];
        let mut end = text.len();
        for number in numbers.iter().rev() {
            let mut rest = *number;
            loop {
                end -= 1;
                text[end] = b'0' + (rest % 10) as u8;
                rest /= 10;
                if rest == 0 {
                    break;
                }
            }
            end -= 1;
            text[end] = b',';
        }
        if std::mem::take(&mut self.is_first) {
            end += 1;
        }
        self.out.write_all(&text[end..]).and_then(|()| self.out.write_all(b"\n")).map_err(Error::Output)
    }
}

fn begin(out: &mut impl Write, nodes: u64, edges: u64) -> io::Result<()> {
    let (node_fields, edge_fields) = (list(NODE_FIELDS), list(EDGE_FIELDS));
    let (node_types, edge_types) = (list(NODE_TYPES), list(EDGE_TYPES));
    let numbers = list(&["number"; NODE_FIELDS.len() - 2]);
    write!(
        out,
        "{{\"snapshot\":{{\"meta\":{{\"node_fields\":[{node_fields}],\"node_types\":[[{node_types}],\"string\",{numbers}],\
         \"edge_fields\":[{edge_fields}],\"edge_types\":[[{edge_types}],\"string_or_number\",\"node\"],\
         \"trace_function_info_fields\":[],\"trace_node_fields\":[],\"sample_fields\":[],\"location_fields\":[]}},\
         \"node_count\":{nodes},\"edge_count\":{edges},\"trace_function_count\":0}},\n\"nodes\":["
    )
}

fn list(names: &[&str]) -> String {
    names.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(",")
}

fn end(out: &mut impl Write, strings: &[String]) -> io::Result<()> {
    out.write_all(
        b"],\n\"trace_function_infos\":[],\n\"trace_tree\":[],\n\"samples\":[],\n\"locations\":[],\n\"strings\":[",
    )?;
    for (index, text) in strings.iter().enumerate() {
        write!(out, "{}{}", if index == 0 { "" } else { ",\n" }, Quoted(text))?;
    }
    out.write_all(b"]}\n")?;
    out.flush()
}
