//! Folded stacks, the input of flame graph tools: frames outermost first separated by semicolons, then a blank and a number.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::centres::{Centres, StackId, Stacks};
use super::time::TimeProfile;

/// Returns the lines of a time profile, sorted. The ticks of the runtime, which are outside the program, are in stacks of one frame.
pub fn lines(time: &TimeProfile, stacks: &Stacks, centres: &Centres) -> Vec<String> {
    let mut lines: BTreeMap<String, u64> = BTreeMap::new();
    for (stack, ticks) in time.stacks(stacks) {
        *lines.entry(line(stack, stacks, centres)).or_default() += ticks;
    }
    lines.into_iter().map(|(line, ticks)| format!("{line} {ticks}")).collect()
}

/// Writes the lines.
///
/// # Errors
///
/// Writing failed.
pub fn write(out: &mut dyn Write, time: &TimeProfile, stacks: &Stacks, centres: &Centres) -> io::Result<()> {
    lines(time, stacks, centres).iter().try_for_each(|line| writeln!(out, "{line}"))
}

fn line(stack: StackId, stacks: &Stacks, centres: &Centres) -> String {
    if let Some(name) = TimeProfile::outside_activity(stack, stacks, centres) {
        return frame(name);
    }
    let mut frames: Vec<String> = stacks.centres(stack).map(|centre| frame(&full_name(centre, centres))).collect();
    frames.push("MAIN".to_owned());
    frames.reverse();
    frames.join(";")
}

/// Returns the name of a centre with its module.
pub(crate) fn full_name(centre: u32, centres: &Centres) -> String {
    match centres.get(centre) {
        Some(known) if !known.module.is_empty() && !known.is_built_in() => format!("{}.{}", known.module, known.label),
        Some(known) => known.label.clone(),
        None => centres.name(centre),
    }
}

/// Replaces the characters that are not allowed in a frame of such a line.
pub(crate) fn frame(name: &str) -> String {
    name.chars()
        .map(|character| {
            if character == ';' {
                ','
            } else if character.is_control() {
                ' '
            } else {
                character
            }
        })
        .collect()
}
