//! Exports a time profile for speedscope (<https://www.speedscope.app>): the ticks of each capability in the order of time.

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};

use ghc_eventlog::format::NO_CAPABILITY;
use serde::Serialize;

use super::centres::{Centres, StackId, Stacks};
use super::folded::full_name;
use super::log::Profiles;
use crate::json::{self, Items};

/// The file, with the names of speedscope's schema. The members are in the order of the output.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct File<'a, P, F> {
    #[serde(rename = "$schema")]
    schema: &'a str,
    name: &'a str,
    exporter: &'a str,
    active_profile_index: usize,
    profiles: P,
    shared: Shared<F>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Profile<S, W> {
    pub(crate) r#type: &'static str,
    pub(crate) name: String,
    pub(crate) unit: &'static str,
    pub(crate) start_value: u64,
    pub(crate) end_value: u128,
    pub(crate) samples: S,
    pub(crate) weights: W,
}

#[derive(Serialize)]
struct Shared<F> {
    frames: F,
}

#[derive(Serialize)]
pub(crate) struct Frame<'a> {
    pub(crate) name: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) file: &'a str,
}

/// Writes the export.
///
/// # Errors
///
/// Writing failed.
pub fn write(out: &mut dyn Write, profiles: &Profiles, name: &str) -> io::Result<()> {
    let Profiles { time, stacks, centres, .. } = profiles;
    // A log without an interval uses one tick as the unit.
    let interval = u128::from(time.interval_ns.max(1));
    let frames = Frames::of(time.runs.values().flatten().map(|&(stack, _)| stack), stacks);
    let frames = &frames;
    let profiles = Items(|| {
        time.runs.iter().map(|(cap, runs)| Profile {
            r#type: "sampled",
            name: capability_name(*cap),
            unit: "nanoseconds",
            start_value: 0,
            end_value: runs.iter().map(|&(_, ticks)| u128::from(ticks)).sum::<u128>() * interval,
            samples: Items(move || runs.iter().map(|&(stack, _)| frames.numbers(stack, stacks))),
            weights: Items(move || runs.iter().map(move |&(_, ticks)| u128::from(ticks) * interval)),
        })
    });
    write_file(out, name, profiles, Items(|| frames.centres.iter().map(|&centre| frame(centre, centres))))
}

/// Writes a file with these profiles, whose samples are lists of indices of frames.
pub(crate) fn write_file(
    out: &mut dyn Write,
    name: &str,
    profiles: impl Serialize,
    frames: impl Serialize,
) -> io::Result<()> {
    let file = File {
        schema: "https://www.speedscope.app/file-format-schema.json",
        name,
        exporter: concat!("stopworld ", env!("CARGO_PKG_VERSION")),
        active_profile_index: 0,
        profiles,
        shared: Shared { frames },
    };
    json::write(&mut *out, &file)?;
    writeln!(out)
}

/// Returns the name of a capability. In logs of stopworld, the time of threads outside the world belongs to no capability.
fn capability_name(cap: u32) -> String {
    if cap == u32::from(NO_CAPABILITY) { "no capability".to_owned() } else { format!("capability {cap}") }
}

fn frame(centre: u32, centres: &Centres) -> Frame<'_> {
    Frame { name: full_name(centre, centres), file: centres.get(centre).map_or("", |centre| &centre.place) }
}

/// The frames in use, in the order of their first use.
#[derive(Default)]
struct Frames {
    centres: Vec<u32>,
    by_centre: HashMap<u32, usize>,
}

impl Frames {
    fn of(used: impl Iterator<Item = StackId>, stacks: &Stacks) -> Self {
        let mut frames = Self::default();
        let mut seen = HashSet::new();
        for stack in used.filter(|stack| seen.insert(*stack)) {
            for centre in outermost_first(stack, stacks) {
                frames.by_centre.entry(centre).or_insert_with(|| {
                    frames.centres.push(centre);
                    frames.centres.len() - 1
                });
            }
        }
        frames
    }

    /// Returns the numbers of the frames of a stack, outermost first. The empty stack has none.
    fn numbers(&self, stack: StackId, stacks: &Stacks) -> Vec<usize> {
        outermost_first(stack, stacks).iter().map(|centre| self.by_centre[centre]).collect()
    }
}

fn outermost_first(stack: StackId, stacks: &Stacks) -> Vec<u32> {
    let mut centres: Vec<u32> = stacks.centres(stack).collect();
    centres.reverse();
    centres
}
