//! The objects of a heap as tables for a terminal: by type, the objects that retain most, what has grown, and why an object is alive.

use std::cmp::Reverse;

use comfy_table::Table;

use super::Bytes;
use super::layout::{align_right, empty};
use crate::snapshot::{Growth, TypeRow};
use heap_snapshot::{Dominators, Graph, Heap, paths};

/// Names are cut to this many characters.
const LONGEST_NAME: usize = 72;
/// The number of groups of roots with a line of their own.
const MOST_GROUPS: usize = 20;

/// Formats the contents of a heap: general facts, up to `most` types, and up to `most` objects; no newline at the end.
pub fn render(graph: &Graph, dominators: &Dominators, census: &[TypeRow], most: usize) -> String {
    format!("{}\n{}\n{}", figures(graph, dominators), types(census, most), objects(graph, dominators, most))
}

fn figures(graph: &Graph, dominators: &Dominators) -> Table {
    let mut table = empty();
    let bytes = (0..graph.objects()).fold(0_u64, |sum, object| sum.saturating_add(graph.size(object)));
    table.add_row(["objects".to_owned(), format!("{}, {}", graph.objects(), Bytes(bytes))]);
    table.add_row(["references".to_owned(), graph.references().to_string()]);
    for (group, count) in roots(graph) {
        table.add_row([group, count.to_string()]);
    }
    let unreached = (0..graph.objects()).filter(|object| !dominators.is_reached(*object));
    let (count, bytes) = unreached.fold((0, 0_u64), |(n, sum), object| (n + 1, sum.saturating_add(graph.size(object))));
    if count > 0 {
        table.add_row(["not reached from a root".to_owned(), format!("{count}, {}", Bytes(bytes))]);
    }
    table
}

/// Returns the groups of roots and their sizes, the largest group first. There is a group for each thread, so small groups share a line.
pub(super) fn roots(graph: &Graph) -> Vec<(String, u64)> {
    let mut groups: Vec<_> =
        graph.groups().iter().zip(graph.roots_by_group()).filter(|(_, count)| *count > 0).collect();
    groups.sort_by_key(|(_, count)| Reverse(*count));
    let rest = groups.split_off(MOST_GROUPS.min(groups.len()));
    let mut lines: Vec<_> = groups.into_iter().map(|(group, count)| (cut(&format!("roots: {group}")), count)).collect();
    if !rest.is_empty() {
        lines.push((format!("roots: {} more groups", rest.len()), rest.iter().map(|(_, count)| count).sum()));
    }
    lines
}

fn types(census: &[TypeRow], most: usize) -> Table {
    let mut table = empty();
    table.set_header(["type", "objects", "bytes", "retained"]);
    for row in census.iter().take(most) {
        table.add_row([cut(&row.name), row.count.to_string(), row.bytes.to_string(), row.retained.to_string()]);
    }
    if let Some(rest) = census.get(most..).filter(|rest| !rest.is_empty()) {
        let sum = |of: fn(&TypeRow) -> u64| rest.iter().map(of).fold(0, u64::saturating_add).to_string();
        table.add_row([format!("{} more", rest.len()), sum(|row| row.count), sum(|row| row.bytes), String::new()]);
    }
    align_right(&mut table, 1..4);
    table
}

fn objects(graph: &Graph, dominators: &Dominators, most: usize) -> Table {
    let mut table = empty();
    table.set_header(["object", "type", "bytes", "retained"]);
    for object in dominators.largest(most) {
        let address = format!("{:#x}", graph.address(object));
        let sizes = [graph.size(object), dominators.retained(object)].map(|size| size.to_string());
        let [own, retained] = sizes;
        table.add_row([address, cut(graph.type_name(object)), own, retained]);
    }
    align_right(&mut table, 2..4);
    table
}

/// Formats what has changed between two heaps, with up to `most` types; no newline at the end.
pub fn render_growth(growth: &[Growth], most: usize) -> String {
    let mut table = empty();
    table.set_header(["type", "objects", "change", "bytes", "change", "retained", "change"]);
    for row in growth.iter().take(most) {
        let mut cells = vec![cut(&row.name)];
        for (before, after) in [row.count, row.bytes, row.retained] {
            cells.extend([after.to_string(), change(before, after)]);
        }
        table.add_row(cells);
    }
    if let Some(rest) = growth.get(most..).filter(|rest| !rest.is_empty()) {
        let change: i128 = rest.iter().map(Growth::grown).sum();
        let empty = String::new;
        table.add_row([
            format!("{} more", rest.len()),
            empty(),
            empty(),
            empty(),
            format!("{change:+}"),
            empty(),
            empty(),
        ]);
    }
    align_right(&mut table, 1..7);
    table.to_string()
}

fn change(before: u64, after: u64) -> String {
    match i128::from(after) - i128::from(before) {
        0 => String::new(),
        change => format!("{change:+}"),
    }
}

/// Formats a path from a root to an object, an object per line; no newline at the end.
pub fn render_path(graph: &Graph, dominators: &Dominators, path: &paths::Path) -> String {
    let group = cut(&graph.groups()[path.root.group as usize].to_string());
    let mut lines = vec![match path.root.address {
        0 => format!("root: {group}"),
        address => format!("root: {group}, the word at {address:#x}"),
    }];
    let mut by = String::new();
    for (object, label) in &path.steps {
        let (address, name) = (graph.address(*object), cut(graph.type_name(*object)));
        let (size, retained) = (graph.size(*object), Bytes(dominators.retained(*object)));
        lines.push(format!("  {by}→ {address:#x}  {name}, {size} B, retains {retained}"));
        by = label.map_or(String::new(), |label| format!("{} ", label.text(graph.names())));
    }
    lines.join("\n")
}

fn cut(name: &str) -> String {
    // Control characters of a file must not reach the terminal.
    let shown = |char: char| if char.is_control() { '\u{fffd}' } else { char };
    match name.char_indices().nth(LONGEST_NAME) {
        Some((end, _)) => name[..end].chars().map(shown).chain(['…']).collect(),
        None => name.chars().map(shown).collect(),
    }
}

#[cfg(test)]
mod tests {
    use heap_snapshot::{Builder, RootGroup, RootKind};

    use super::super::heap_map;
    use super::*;

    /// A heap with one object. The stack of thread n has n roots.
    fn with_threads(threads: u32) -> Graph {
        let mut builder = Builder::default();
        let object = builder.object(0x1000, "node", 32).unwrap();
        for tid in 1..=threads {
            let group = RootGroup { kind: RootKind::Stack, thread: Some(format!("{tid}\n")) };
            (0..tid).for_each(|root| builder.root(group.clone(), root.into(), object));
        }
        builder.finish().0
    }

    #[test]
    fn small_groups_of_roots_share_a_line() {
        let line = |tid: u64| (format!("roots: stacks of {tid}\u{fffd}"), tid);
        let largest: Vec<_> = (11..=30).rev().map(line).collect();
        let rest = ("roots: 10 more groups".to_owned(), 55);
        assert_eq!(roots(&with_threads(30)), [largest, vec![rest]].concat());
        assert_eq!(roots(&with_threads(20)), (1..=20).rev().map(line).collect::<Vec<_>>());
        assert_eq!(roots(&with_threads(0)), []);
        let graph = with_threads(30);
        let page = heap_map::render(&graph, &Dominators::of(&graph), &[], "a heap");
        assert!(
            page.contains("stacks of 11\u{fffd}") && page.contains("10 more groups") && !page.contains("of 10\u{fffd}")
        );
    }
}
