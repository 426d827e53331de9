//! Exports a time profile for speedscope (<https://www.speedscope.app>): for each capability its ticks in sequence.

use std::fmt::Write as _;
use std::io::{self, Write};

use super::centres::{Centres, StackId, Stacks};
use super::folded::full_name;
use super::log::Profiles;
use ghc_eventlog::format::NO_CAPABILITY;
use trace_io::json::Quoted;

/// Writes the export.
///
/// # Errors
///
/// Writing failed.
pub fn write(out: &mut dyn Write, profiles: &Profiles, name: &str) -> io::Result<()> {
    let Profiles { time, stacks, centres, .. } = profiles;
    let mut frames = Frames::default();
    write!(out, "{{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"name\":{},", Quoted(name))?;
    write!(out, "\"exporter\":\"stopworld {}\",\"activeProfileIndex\":0,\"profiles\":[", env!("CARGO_PKG_VERSION"))?;
    for (index, (cap, runs)) in time.runs.iter().enumerate() {
        let ticks: u64 = runs.iter().map(|(_, ticks)| ticks).sum();
        let end = u128::from(ticks) * u128::from(interval(time.interval_ns));
        let comma = if index > 0 { "," } else { "" };
        let whose = capability_name(*cap);
        write!(out, "{comma}{{\"type\":\"sampled\",\"name\":\"{whose}\",\"unit\":\"nanoseconds\",")?;
        write!(out, "\"startValue\":0,\"endValue\":{end},\"samples\":[")?;
        for (index, &(stack, _)) in runs.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(out, "{comma}[{}]", frames.of(stack, stacks))?;
        }
        write!(out, "],\"weights\":[")?;
        for (index, &(_, ticks)) in runs.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(out, "{comma}{}", u128::from(ticks) * u128::from(interval(time.interval_ns)))?;
        }
        write!(out, "]}}")?;
    }
    write!(out, "],\"shared\":{{\"frames\":[")?;
    for (index, centre) in frames.centres.iter().enumerate() {
        let comma = if index > 0 { "," } else { "" };
        write!(out, "{comma}{}", frame(*centre, centres))?;
    }
    writeln!(out, "]}}}}")
}

/// The name of a capability. In logs of stopworld, the time of threads outside the world belongs to no capability.
fn capability_name(cap: u32) -> String {
    if cap == u32::from(NO_CAPABILITY) { "no capability".to_owned() } else { format!("capability {cap}") }
}

/// The nanoseconds of a tick. A log without an interval uses one tick as the unit.
fn interval(nanoseconds: u64) -> u64 {
    nanoseconds.max(1)
}

fn frame(centre: u32, centres: &Centres) -> String {
    let name = full_name(centre, centres);
    let name = Quoted(&name);
    let place = centres.get(centre).map(|centre| centre.place.as_str()).filter(|place| !place.is_empty());
    place.map_or_else(
        || format!("{{\"name\":{name}}}"),
        |place| format!("{{\"name\":{name},\"file\":{}}}", Quoted(place)),
    )
}

/// The frames in use, in the order of their first use.
#[derive(Default)]
struct Frames {
    centres: Vec<u32>,
    by_centre: std::collections::HashMap<u32, usize>,
}

impl Frames {
    /// The frames of a stack, outermost first, separated by commas. The empty stack has none.
    fn of(&mut self, stack: StackId, stacks: &Stacks) -> String {
        let mut centres: Vec<u32> = stacks.centres(stack).collect();
        centres.reverse();
        let mut text = String::new();
        for centre in centres {
            let next = self.centres.len();
            let index = *self.by_centre.entry(centre).or_insert(next);
            if index == next {
                self.centres.push(centre);
            }
            let _ = write!(text, "{}{index}", if text.is_empty() { "" } else { "," });
        }
        text
    }
}
