//! A debugger attaches, detaches and dies at any moment: `.vtable.attach`, `.vtable.swap`, `.debug.dies`.

use std::time::Duration;

use super::{Session, equal, expect};
use crate::facts::TestResult;

pub fn reads_all_threads(s: &mut Session) -> TestResult<()> {
    for (index, kind) in ["spinning", "counting", "allocating", "blocking", "calling read"].into_iter().enumerate() {
        s.program.start_mutator(&format!("m{index}"), kind)?;
    }
    s.attach()?;
    s.knows_all_threads()?;
    s.collect(3)?;
    s.program.start_mutator("born-later", "spinning")?;
    s.knows_all_threads()?;
    s.collect(3)?;
    for index in 0..4 {
        s.program.runs(&format!("m{index}"))?;
    }
    s.ends_well()
}

pub fn races_collections(s: &mut Session) -> TestResult<()> {
    for index in 0..4 {
        s.program.start_mutator(&format!("m{index}"), "allocating")?;
    }
    s.program.ask("collectors start")?;
    for round in 0..5 {
        s.attach()?;
        std::thread::sleep(Duration::from_millis(3 * round));
        s.detach()?;
    }
    s.program.ask("collectors end")?;
    for index in 0..4 {
        s.program.runs(&format!("m{index}"))?;
    }
    s.attach()?;
    s.collect(2)?;
    s.ends_well()
}

/// `.vtable.swap`: while another vtable is in force the debugger is not called; after the swap back it is called again.
pub fn swap(s: &mut Session) -> TestResult<()> {
    s.program.start_mutator("m", "counting")?;
    s.attach()?;
    for _ in 0..3 {
        s.collect(3)?;
        s.program.ask("swap safepoints")?;
        let before = s.stops()?;
        s.program.collect(3)?;
        equal("stops while another vtable is in force", s.stops()?, before)?;
        s.program.ask("swap back")?;
        s.knows_all_threads()?;
    }
    s.program.runs("m")?;
    s.ends_well()
}

/// The debugger detaches while collections are under way.
pub fn detach_in_mid_stop(s: &mut Session) -> TestResult<()> {
    for index in 0..4 {
        s.program.start_mutator(&format!("m{index}"), "allocating")?;
    }
    for round in 0..5 {
        s.attach()?;
        s.program.ask("collectors start")?;
        std::thread::sleep(Duration::from_millis(5 + round));
        s.detach()?;
        s.program.is_left_alone()?;
        s.program.ask("collectors end")?;
        s.program.collect(1)?;
    }
    for index in 0..4 {
        s.program.runs(&format!("m{index}"))?;
    }
    s.program.ask("verify").map(drop)
}

/// No thread stays frozen after the debugger has detached.
pub fn detach_thaws(s: &mut Session) -> TestResult<()> {
    let tid = s.program.start_mutator("m", "looking")?;
    for _ in 0..3 {
        s.attach()?;
        s.freeze(tid)?;
        s.collect(2)?;
        s.detach()?;
        s.program.is_left_alone()?;
        s.program.runs("m")?;
        s.program.collect(1)?;
    }
    s.program.ask("verify").map(drop)
}

/// `.debug.dies`: the debugger is killed while collections are under way, and while it holds a thread. The program continues at once
/// without it, and has lost no object.
pub fn death_in_mid_stop(s: &mut Session) -> TestResult<()> {
    let mut tids = Vec::new();
    for index in 0..4 {
        tids.push(s.program.start_mutator(&format!("m{index}"), "allocating")?);
    }
    for round in 0..5 {
        s.attach()?;
        s.program.ask("collectors start")?;
        if s.driver.lacks(crate::driver::Ability::FreezeOne).is_none() {
            s.freeze(tids[round as usize % tids.len()])?;
        }
        std::thread::sleep(Duration::from_millis(3 + 2 * round));
        s.driver.die()?;
        s.program.is_left_alone()?;
        for index in 0..4 {
            s.program.runs(&format!("m{index}"))?;
        }
        let collected = s.program.ask("collectors end")?.number::<u64>("collections")?;
        expect(collected > 0, || "nothing was collected".into())?;
        s.program.collect(2)?;
    }
    s.program.ask("verify").map(drop)
}
