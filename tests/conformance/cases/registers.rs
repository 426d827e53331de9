//! `.stop.registers`, `.stop.red-zone`, `.stop.interior` when the debugger stops the threads: an object whose only reference is in one place
//! survives, and dies when the reference is dropped.

use super::{Session, equal, expect};
use crate::facts::TestResult;
use crate::hazard::PAYLOAD_BYTES;
use crate::hazard::keepers::KEEPERS;

/// The maximum number of threads that spin at once.
const AT_ONCE: usize = 8;

/// What happens to the keepers before the collection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum They {
    Run,
    AreFrozen,
}

/// Each keeper `place offset` keeps its object alive while it runs, and no other reference keeps the object alive.
fn keep(s: &mut Session, places: &[String], they: They) -> TestResult<()> {
    s.attach()?;
    let mut kept = 0;
    for batch in places.chunks(AT_ONCE) {
        let mut keepers = Vec::new();
        for place in batch {
            let name = format!("keeper-{}", keepers.len());
            match s.program.start_mutator(&name, &format!("keeping {place}")) {
                Ok(tid) => keepers.push((name, place, tid)),
                Err(lacks) if lacks.contains("needs Avx") => {}
                Err(error) => return Err(error),
            }
        }
        if they == They::AreFrozen {
            for (_, _, tid) in &keepers {
                s.freeze(*tid)?;
            }
        }
        // A control object that nothing keeps must die: otherwise the survival of the others shows nothing.
        s.program.ask("hide")?;
        equal("objects that died although they were kept, and the one that had to", s.collect(1)?, 1)
            .map_err(|error| format!("{batch:?}: {error}"))?;
        equal("objects that died in the second collection", s.collect(1)?, 0)?;
        if they == They::AreFrozen {
            for (_, _, tid) in &keepers {
                s.thaw(*tid)?;
            }
            equal("objects that died after the thaw", s.collect(1)?, 0)?;
        }
        kept += keepers.len();
        for (place, (name, ..)) in keepers.iter().enumerate() {
            s.program.ask(&format!("end {name}")).map_err(|error| format!("{place}: {error}"))?;
        }
        equal("objects that died when their keepers ended", s.collect(1)?, keepers.len() as u64)?;
    }
    expect(kept > 0, || "no thread could keep an object".into())?;
    s.ends_well()
}

/// The keepers with these names.
fn named(is_wanted: impl Fn(&str) -> bool) -> Vec<String> {
    KEEPERS.iter().map(|(name, ..)| (*name).to_owned()).filter(|name| is_wanted(name)).collect()
}

fn is_vector(name: &str) -> bool {
    ["xmm", "ymm", "zmm"].iter().any(|kind| name.starts_with(kind))
}

pub fn general(s: &mut Session) -> TestResult<()> {
    keep(s, &named(|name| name.starts_with('r') && !name.contains('_')), They::Run)
}

pub fn vectors(s: &mut Session) -> TestResult<()> {
    keep(s, &named(is_vector), They::Run)
}

pub fn red_zone(s: &mut Session) -> TestResult<()> {
    keep(s, &named(|name| name.starts_with("red_zone")), They::Run)
}

pub fn interior(s: &mut Session) -> TestResult<()> {
    let offsets = [1, 8, PAYLOAD_BYTES - 1, PAYLOAD_BYTES];
    keep(s, &offsets.map(|offset| format!("r12 {offset}")), They::Run)
}

pub fn asleep(s: &mut Session) -> TestResult<()> {
    keep(s, &named(|name| name == "r12_asleep"), They::Run)
}

pub fn of_frozen_threads(s: &mut Session) -> TestResult<()> {
    let wanted =
        ["rax", "rbx", "rbp", "r12", "r15", "xmm0", "xmm15", "ymm3_high", "zmm20", "red_zone_far", "r12_asleep"];
    keep(s, &named(|name| wanted.contains(&name)), They::AreFrozen)
}
