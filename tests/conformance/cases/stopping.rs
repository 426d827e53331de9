//! `.vtable.nested`, `.vtable.exact-restore`: the user's stops and the collections' stops are counted separately.

use super::{Session, equal};
use crate::facts::TestResult;
use crate::program::wait_for;

/// A frozen thread stays frozen through collections while the others run; after the thaw it runs, too.
pub fn nested(s: &mut Session) -> TestResult<()> {
    let frozen = s.program.start_mutator("frozen", "spinning")?;
    s.program.start_mutator("free", "spinning")?;
    s.attach()?;
    for _ in 0..3 {
        s.freeze(frozen)?;
        s.program.stays_stopped("frozen")?;
        let at = s.program.count("frozen")?;
        for _ in 0..4 {
            s.collect(1)?;
            s.program.runs("free")?;
        }
        equal("is it frozen", s.threads()?[&frozen].frozen, true)?;
        equal("what it counted while it was frozen", s.program.count("frozen")? - at, 0)?;
        s.thaw(frozen)?;
        s.program.runs("frozen")?;
    }
    s.ends_well()
}

/// The user thaws a thread while collections are under way: the thread runs at the end, and every collection succeeds.
pub fn thaw_in_mid_stop(s: &mut Session) -> TestResult<()> {
    let tid = s.program.start_mutator("thawed", "looking")?;
    s.program.start_mutator("free", "allocating")?;
    s.attach()?;
    s.program.ask("collectors start")?;
    for round in 0..20 {
        s.freeze(tid)?;
        std::thread::sleep(std::time::Duration::from_micros(700 * round % 5000));
        s.thaw(tid)?;
    }
    s.program.runs("thawed")?;
    s.program.ask("collectors end")?;
    s.ends_well()
}

/// After a collection each thread is in the state it was in before: frozen, running, in a blocking region, in a call.
pub fn exact_restore(s: &mut Session) -> TestResult<()> {
    let kinds = ["spinning", "counting", "looking", "blocking"];
    let mut tids = Vec::new();
    for (index, kind) in kinds.iter().cycle().take(8).enumerate() {
        tids.push(s.program.start_mutator(&format!("m{index}"), kind)?);
    }
    s.attach()?;
    for subset in [0b0101_0101_u32, 0b0000_1111, 0b1000_0000, 0b1111_1111, 0] {
        let chosen = |index: usize| subset >> index & 1 == 1;
        for (index, tid) in tids.iter().enumerate().filter(|(index, _)| chosen(*index)) {
            s.freeze(*tid).map_err(|error| format!("m{index}: {error}"))?;
        }
        s.collect(3)?;
        let shown = s.threads()?;
        for (index, tid) in tids.iter().enumerate() {
            equal(&format!("is m{index} frozen, of {subset:#b}"), shown[tid].frozen, chosen(index))?;
            if !chosen(index) {
                s.program.runs(&format!("m{index}"))?;
            }
        }
        for (index, tid) in tids.iter().enumerate().filter(|(index, _)| chosen(*index)) {
            s.program.stays_stopped(&format!("m{index}"))?;
            s.thaw(*tid)?;
        }
    }
    s.ends_well()
}

pub fn frozen_while_blocking(s: &mut Session) -> TestResult<()> {
    let tid = s.program.start_mutator("blocking", "blocking")?;
    s.attach()?;
    for _ in 0..5 {
        s.freeze(tid)?;
        s.collect(3)?;
        s.program.stays_stopped("blocking")?;
        s.thaw(tid)?;
        s.program.runs("blocking")?;
    }
    s.ends_well()
}

/// The collecting thread is one of the world's mutators, and is itself frozen now and then.
pub fn a_mutator_collects(s: &mut Session) -> TestResult<()> {
    let collecting = s.program.start_mutator("collecting", "collecting")?;
    let other = s.program.start_mutator("other", "looking")?;
    s.attach()?;
    for _ in 0..5 {
        s.freeze(other)?;
        s.program.runs("collecting")?;
        s.program.stays_stopped("other")?;
        s.thaw(other)?;
        s.freeze(collecting)?;
        s.thaw(collecting)?;
        s.program.runs("other")?;
        s.program.runs("collecting")?;
    }
    s.program.ask("end collecting")?;
    s.ends_well()
}

/// Four worlds, each with its own mutators, collect all the time.
pub fn many_worlds(s: &mut Session) -> TestResult<()> {
    s.program.ask("worlds 4")?;
    for world in 0..4 {
        s.program.ask(&format!("start-in {world} w{world}-a allocating"))?;
        s.program.ask(&format!("start-in {world} w{world}-b spinning"))?;
    }
    s.attach()?;
    s.program.ask("collectors start")?;
    let before = s.stops()?;
    wait_for("stops of all worlds", || Ok(s.stops()? > before + 60))?;
    s.knows_all_threads()?;
    let done = s.program.ask("collectors end")?;
    for world in 0..4 {
        equal(&format!("has world {world} collected"), done.number::<u64>(&format!("world{world}"))? > 0, true)?;
        s.program.runs(&format!("w{world}-a"))?;
        s.program.runs(&format!("w{world}-b"))?;
    }
    s.ends_well()
}
