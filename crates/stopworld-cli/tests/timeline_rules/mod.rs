//! The rules of the Trace Event Format that stopworld's timelines must obey, checked by a strict JSON parser.

#![allow(dead_code, reason = "each test program uses its part")]

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

/// A slice, from its beginning to its end, in microseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Slice {
    pub name: String,
    pub track: (u64, u64),
    pub depth: usize,
    pub from: f64,
    pub until: f64,
    pub args: Map<String, Value>,
}

/// The contents of a timeline.
#[derive(Debug, Default)]
pub struct Timeline {
    pub rows: Vec<Map<String, Value>>,
    pub slices: Vec<Slice>,
    /// Slices that have no end.
    pub open: usize,
    pub instants: BTreeMap<String, u64>,
    pub counters: BTreeMap<String, Vec<Map<String, Value>>>,
    pub threads: BTreeMap<(u64, u64), String>,
    pub processes: BTreeMap<u64, String>,
    pub meanwhile: u64,
}

impl Timeline {
    /// The slices with this name, or with this name followed by a number.
    pub fn named(&self, name: &str) -> Vec<&Slice> {
        let is_it = |slice: &&Slice| {
            let rest = slice.name.strip_prefix(name);
            rest.is_some_and(|rest| rest.is_empty() || rest.trim_start().parse::<u64>().is_ok())
        };
        self.slices.iter().filter(is_it).collect()
    }

    /// The slices inside another one.
    pub fn inside<'a>(&'a self, outer: &'a Slice) -> impl Iterator<Item = &'a Slice> {
        self.slices.iter().filter(move |slice| {
            slice.track == outer.track
                && slice.depth > outer.depth
                && slice.from >= outer.from
                && slice.until <= outer.until
        })
    }
}

fn number(row: &Map<String, Value>, name: &str) -> u64 {
    row.get(name).and_then(Value::as_u64).unwrap_or_else(|| panic!("{name} in {row:?}"))
}

fn word<'a>(row: &'a Map<String, Value>, name: &str) -> &'a str {
    row.get(name).and_then(Value::as_str).unwrap_or_else(|| panic!("{name} in {row:?}"))
}

/// Checks a complete timeline.
pub fn check(bytes: &[u8]) -> Timeline {
    let rows: Vec<Map<String, Value>> = serde_json::from_slice(bytes).unwrap_or_else(|error| {
        let text = String::from_utf8_lossy(bytes);
        panic!("{error}: …{}", &text[text.floor_char_boundary(text.len().saturating_sub(300))..])
    });
    let timeline = rules(rows);
    assert_eq!(timeline.open, 0, "slices without an end");
    timeline
}

/// Checks a timeline of a killed run, whose slices may be open.
pub fn check_killed(bytes: &[u8]) -> Timeline {
    rules(serde_json::from_slice(bytes).unwrap())
}

/// Checks the rows of a timeline that may be cut anywhere.
pub fn check_rows(bytes: &[u8]) -> Timeline {
    let text = String::from_utf8_lossy(bytes);
    let whole = text.lines().filter_map(|line| serde_json::from_str(line.trim_end_matches(',')).ok());
    rules(whole.collect())
}

fn rules(rows: Vec<Map<String, Value>>) -> Timeline {
    let mut timeline = Timeline::default();
    let mut open: BTreeMap<(u64, u64), Vec<Slice>> = BTreeMap::new();
    // On a track, nothing begins or ends before the latest end inside the same slice.
    let mut newest: BTreeMap<(u64, u64), f64> = BTreeMap::new();
    let mut meanwhile: BTreeSet<(u64, String, u64)> = BTreeSet::new();
    for row in &rows {
        let track = (number(row, "pid"), number(row, "tid"));
        let args = row["args"].as_object().unwrap().clone();
        let ph = word(row, "ph");
        if ph == "M" {
            let name = word(&args, "name").to_owned();
            match word(row, "name") {
                "process_name" => drop(timeline.processes.insert(track.0, name)),
                "thread_name" => drop(timeline.threads.insert(track, name)),
                other => panic!("{other} is no metadata"),
            }
            continue;
        }
        let at = row["ts"].as_f64().unwrap_or_else(|| panic!("ts in {row:?}"));
        if ph != "E" {
            assert!(!word(row, "name").is_empty() && !word(row, "cat").is_empty());
        }
        match ph {
            "B" => {
                let stack = open.entry(track).or_default();
                if let Some(outer) = stack.last() {
                    assert!(at >= outer.from && at >= newest[&track], "{row:?} in {outer:?}");
                }
                let name = word(row, "name").to_owned();
                stack.push(Slice { name, track, depth: stack.len(), from: at, until: at, args });
                newest.insert(track, at);
            }
            "E" => {
                let mut slice =
                    open.get_mut(&track).and_then(Vec::pop).unwrap_or_else(|| panic!("{row:?} ends nothing"));
                assert!(at >= slice.from && at >= newest[&track], "{row:?} ends {slice:?}");
                slice.until = at;
                slice.args.extend(args);
                timeline.slices.push(slice);
                newest.insert(track, at);
            }
            "i" => {
                assert_eq!(word(row, "s"), "t");
                *timeline.instants.entry(word(row, "name").to_owned()).or_default() += 1;
            }
            "C" => {
                assert!(!args.is_empty() && args.values().all(Value::is_u64), "{row:?}");
                timeline.counters.entry(word(row, "name").to_owned()).or_default().push(args);
            }
            "b" => {
                let key = (track.0, word(row, "name").to_owned(), number(row, "id"));
                assert!(meanwhile.insert(key), "{row:?}");
                timeline.meanwhile += 1;
            }
            "e" => {
                let key = (track.0, word(row, "name").to_owned(), number(row, "id"));
                assert!(meanwhile.remove(&key), "{row:?}");
            }
            other => panic!("{other} is no phase that stopworld writes"),
        }
    }
    timeline.open = open.values().map(Vec::len).sum();
    timeline.rows = rows;
    timeline
}
