//! Reads `.heapsnapshot` files.
//!
//! Names are at the end of the file, so nodes and edges are kept as numbers until then: 29 bytes for a node, 9 for an edge.

use std::io::Read;

use super::ADDRESS;
use super::json::Json;
use crate::error::{Error, Result};
use crate::graph::{Builder, Graph};
use crate::heap::{Label, RootGroup, RootKind};

/// Where the fields of nodes and edges are, and what their types are called.
#[derive(Debug, Default)]
struct Meta {
    node_fields: Vec<String>,
    node_types: Vec<String>,
    edge_fields: Vec<String>,
    edge_types: Vec<String>,
}

#[derive(Debug)]
struct Node {
    name: u32,
    size: u64,
    address: u64,
    edges: u32,
    kind: u8,
}

#[derive(Debug)]
struct Edge {
    name: u32,
    target: u32,
    kind: u8,
}

/// The parts of a file, in the order in which they come.
#[derive(Debug, Default)]
struct File {
    meta: Option<Meta>,
    /// The numbers of nodes and edges that the head of the file states.
    node_count: Option<u64>,
    edge_count: Option<u64>,
    nodes: Vec<Node>,
    edges: Vec<Edge>,
    strings: Vec<String>,
    has_strings: bool,
}

/// Reads a snapshot that this crate, V8, or another program has written.
///
/// Nodes of type synthetic are groups of roots. Weak references are left out: they keep nothing alive. The address of an object is the
/// field `address` if its node has one, otherwise the id. The type of an object is its name, and of a string, an array or code of a
/// program the type of its node in parentheses, as in DevTools.
///
/// # Errors
/// The input can't be read, or it is damaged.
pub fn read(input: impl Read) -> Result<Graph> {
    let mut json = Json::new(input);
    if json.peek()? != b'{' {
        return Error::damaged(json.offset(), "expected `{`: this is not a .heapsnapshot");
    }
    let mut file = File::default();
    json.object(|json, key| match key {
        "snapshot" => json.object(|json, key| match key {
            "meta" => {
                file.meta = Some(meta(json)?);
                Ok(())
            }
            "node_count" => {
                file.node_count = Some(json.number()?);
                Ok(())
            }
            "edge_count" => {
                file.edge_count = Some(json.number()?);
                Ok(())
            }
            _ => json.skip(),
        }),
        "nodes" => nodes(json, &mut file),
        "edges" => edges(json, &mut file),
        "strings" => {
            file.has_strings = true;
            json.array(|json| {
                file.strings.push(json.string()?);
                Ok(())
            })
        }
        _ => json.skip(),
    })?;
    let Some(meta) = file.meta.take() else { return Error::damaged(json.offset(), "the file has no `snapshot.meta`") };
    if !file.has_strings {
        return Error::damaged(json.offset(), "the file has no `strings`");
    }
    graph(&meta, &file, json.offset())
}

fn meta<R: Read>(json: &mut Json<R>) -> Result<Meta> {
    let mut meta = Meta::default();
    json.object(|json, key| {
        let (list, is_nested) = match key {
            "node_fields" => (&mut meta.node_fields, false),
            "edge_fields" => (&mut meta.edge_fields, false),
            "node_types" => (&mut meta.node_types, true),
            "edge_types" => (&mut meta.edge_types, true),
            _ => return json.skip(),
        };
        let mut index = 0;
        json.array(|json| {
            index += 1;
            match (is_nested, index) {
                (false, _) => list.push(json.string()?),
                // The names of the types of the first field, which is `type`.
                (true, 1) => json.array(|json| {
                    list.push(json.string()?);
                    Ok(())
                })?,
                (true, _) => json.skip()?,
            }
            Ok(())
        })
    })?;
    Ok(meta)
}

/// Returns the positions of fields in a row.
fn positions<const N: usize>(at: u64, fields: &[String], wanted: [&str; N]) -> Result<[usize; N]> {
    let mut found = [0; N];
    for (position, name) in found.iter_mut().zip(wanted) {
        match fields.iter().position(|field| field == name) {
            Some(index) => *position = index,
            None => return Error::damaged(at, format!("`snapshot.meta` has no field `{name}` before this part")),
        }
    }
    Ok(found)
}

/// Visits rows of `width` numbers.
fn rows<R: Read>(json: &mut Json<R>, width: usize, mut visit: impl FnMut(u64, &[u64]) -> Result<()>) -> Result<()> {
    let mut row = Vec::with_capacity(width);
    json.array(|json| {
        row.push(json.number()?);
        if row.len() == width {
            visit(json.offset(), &row)?;
            row.clear();
        }
        Ok(())
    })?;
    if row.is_empty() { Ok(()) } else { Error::damaged(json.offset(), "the last row of this part is not complete") }
}

fn small<T: TryFrom<u64>>(at: u64, number: u64) -> Result<T> {
    T::try_from(number).or_else(|_| Error::damaged(at, format!("{number} is too large for its field")))
}

fn nodes<R: Read>(json: &mut Json<R>, file: &mut File) -> Result<()> {
    let fields = file.meta.as_ref().map_or(&[][..], |meta| &meta.node_fields);
    let [kind, name, id, size, edges] =
        positions(json.offset(), fields, ["type", "name", "id", "self_size", "edge_count"])?;
    let address = fields.iter().position(|field| field == ADDRESS).unwrap_or(id);
    let width = fields.len();
    rows(json, width, |at, row| {
        if file.nodes.len() as u64 + 2 >= u64::from(u32::MAX) {
            return Err(Error::TooLarge("the heap has more than 4,294,967,294 objects"));
        }
        file.nodes.push(Node {
            name: small(at, row[name])?,
            size: row[size],
            address: row[address],
            edges: small(at, row[edges])?,
            kind: small(at, row[kind])?,
        });
        Ok(())
    })
}

fn edges<R: Read>(json: &mut Json<R>, file: &mut File) -> Result<()> {
    let meta = file.meta.as_ref();
    let fields = meta.map_or(&[][..], |meta| &meta.edge_fields);
    let [kind, name, target] = positions(json.offset(), fields, ["type", "name_or_index", "to_node"])?;
    // A file whose nodes have no fields has no node to which an edge could refer.
    let (width, of_node) = (fields.len(), meta.map_or(1, |meta| meta.node_fields.len().max(1)) as u64);
    let count = file.nodes.len() as u64;
    rows(json, width, |at, row| {
        if !row[target].is_multiple_of(of_node) || row[target] / of_node >= count {
            return Error::damaged(at, format!("the edge refers to node {}, which does not begin a node", row[target]));
        }
        let target = (row[target] / of_node) as u32;
        file.edges.push(Edge { name: small(at, row[name])?, target, kind: small(at, row[kind])? });
        Ok(())
    })
}

fn graph(meta: &Meta, file: &File, end: u64) -> Result<Graph> {
    for (name, stated, found) in [
        ("node_count", file.node_count, file.nodes.len() as u64),
        ("edge_count", file.edge_count, file.edges.len() as u64),
    ] {
        if let Some(stated) = stated
            && stated != found
        {
            return Error::damaged(end, format!("`{name}` is {stated}, and the file has {found}"));
        }
    }
    let stated: u64 = file.nodes.iter().map(|node| u64::from(node.edges)).sum();
    if stated != file.edges.len() as u64 {
        return Error::damaged(end, format!("the nodes have {stated} edges, and the file has {}", file.edges.len()));
    }
    let string = |index: u32| match file.strings.get(index as usize) {
        Some(string) => Ok(string.as_str()),
        None => Error::damaged(end, format!("the file has no string {index}")),
    };
    let is_synthetic =
        |node: &Node| meta.node_types.get(usize::from(node.kind)).is_some_and(|kind| kind == "synthetic");
    // Synthetic nodes are not objects: the others are numbered without them.
    let mut numbers = Vec::with_capacity(file.nodes.len());
    let mut objects = 0;
    for (index, node) in file.nodes.iter().enumerate() {
        let is_object = index > 0 && !is_synthetic(node);
        numbers.push(if is_object { objects } else { u32::MAX });
        objects += u32::from(is_object);
    }
    let mut builder = Builder::default();
    let mut rest = file.edges.as_slice();
    for (node, number) in file.nodes.iter().zip(&numbers) {
        let (own, others) = rest.split_at(node.edges as usize);
        rest = others;
        let is_object = *number != u32::MAX;
        if is_object {
            let kind = meta.node_types.get(usize::from(node.kind)).map_or("", String::as_str);
            let name = match kind {
                "object" | "native" => string(node.name)?.to_owned(),
                _ => format!("({kind})"),
            };
            builder.object(node.address, &name, node.size)?;
        }
        for edge in own {
            let target = numbers[edge.target as usize];
            let kind = meta.edge_types.get(usize::from(edge.kind)).map_or("", String::as_str);
            if target == u32::MAX || kind == "weak" {
                continue;
            }
            let is_number = matches!(kind, "element" | "hidden");
            if is_object {
                let label = if is_number { Label::Index(edge.name) } else { label(string(edge.name)?, &mut builder) };
                builder.reference(label, target);
            } else {
                let address = if is_number { 0 } else { hexadecimal(string(edge.name)?) };
                builder.root(group(string(node.name)?), address, target);
            }
        }
    }
    Ok(builder.finish().0)
}

/// The label of a property: an offset, as this crate writes it, or a field.
fn label(name: &str, builder: &mut Builder) -> Label {
    match name.strip_prefix('+').and_then(|offset| offset.parse().ok()) {
        Some(offset) => Label::Offset(offset),
        None => builder.field(name),
    }
}

fn hexadecimal(name: &str) -> u64 {
    name.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or(0)
}

/// The group of roots that a node with this name is.
fn group(name: &str) -> RootGroup {
    let inner = name.strip_prefix('(').and_then(|name| name.strip_suffix(')')).unwrap_or(name);
    let kinds = [RootKind::Stack, RootKind::Handle, RootKind::Static, RootKind::Finalizer, RootKind::Other];
    for kind in kinds {
        match inner.strip_prefix(&kind.to_string()) {
            Some("") => return RootGroup { kind, thread: None },
            Some(rest) if rest.starts_with(" of ") => {
                return RootGroup { kind, thread: Some(rest[" of ".len()..].to_owned()) };
            }
            _ => {}
        }
    }
    RootGroup { kind: RootKind::Other, thread: None }
}
