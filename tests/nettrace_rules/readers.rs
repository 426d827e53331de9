//! How PerfView and dotnet-gcdump find the heap dump of a trace: the rules of both readers.

use std::collections::HashSet;

use super::{DEFAULT, Event, Trace};

const GC_START: u16 = 1;
const GC_END: u16 = 2;
const BULK_TYPE: u16 = 15;
const BULK_NODE: u16 = 18;
const BULK_EDGE: u16 = 19;
const INDUCED: u64 = 1;
const NON_CONCURRENT: u64 = 0;

/// The dump that both readers find.
#[derive(Debug, Default)]
pub struct Found {
    pub nodes: usize,
    pub edges: usize,
    /// Types of nodes that have no name: shown as UNKNOWN.
    pub unnamed: usize,
}

/// Returns the number of rows of a bulk event, and where they begin in its payload.
fn rows(event: &Event) -> (usize, usize) {
    let count = |at: usize| u32::from_le_bytes(event.payload[at..at + 4].try_into().unwrap()) as usize;
    if event.kind.id as u16 == BULK_TYPE { (count(0), 6) } else { (count(4), 10) }
}

fn word(event: &Event, at: usize) -> u64 {
    u64::from_le_bytes(event.payload[at..at + 8].try_into().unwrap())
}

/// Reads the dump, or returns the readers' error message.
pub fn heap_dump(trace: &Trace) -> Result<Found, String> {
    let (mut seen_start, mut ignores, mut has_process, mut collection) = (false, true, false, 0);
    let (mut nodes, mut edges, mut types) = (Vec::new(), 0, HashSet::new());
    for event in trace.events.iter().filter(|event| event.kind.provider == DEFAULT) {
        match event.kind.id as u16 {
            GC_START => {
                has_process = true;
                let is_full = event.number("Depth") >= 2 && event.number("Type") == NON_CONCURRENT;
                if is_full && event.number("Reason") == INDUCED && !seen_start {
                    (seen_start, ignores, collection) = (true, false, event.number("Count"));
                }
            }
            GC_END if !ignores && event.number("Count") == collection => {
                ignores = true;
                // As long as the readers have found no dump, they look at the next collection.
                seen_start = !nodes.is_empty() || !types.is_empty() || edges > 0;
            }
            // The readers determine the process from the first start of a collection, and ignore types before it.
            BULK_TYPE if has_process => {
                let (count, mut at) = rows(event);
                for _ in 0..count {
                    types.insert(word(event, at));
                    at += 8 + 8 + 4 + 4 + 1;
                    at += 2 + 2 * event.payload[at..].chunks_exact(2).position(|unit| unit == [0, 0]).unwrap();
                    at += 4 + 8 * u32::from_le_bytes(event.payload[at..at + 4].try_into().unwrap()) as usize;
                }
            }
            BULK_NODE if !ignores => {
                let (count, at) = rows(event);
                nodes.extend((0..count).map(|row| (word(event, at + 32 * row + 16), word(event, at + 32 * row + 24))));
            }
            BULK_EDGE if !ignores => edges += rows(event).0,
            _ => {}
        }
    }
    if !seen_start {
        return Err("the file did not include a heap dump".into());
    }
    if !ignores {
        return Err("the file has the start of a heap dump but not its end".into());
    }
    let wanted: u64 = nodes.iter().map(|(_, count)| count).sum();
    if wanted != edges as u64 {
        return Err(format!("the nodes have {wanted} edges, the file {edges}"));
    }
    let unnamed = nodes.iter().filter(|(kind, _)| !types.contains(kind)).count();
    Ok(Found { nodes: nodes.len(), edges, unnamed })
}
