//! Threads that are created and exit: `.vtable.created-under-lock`, `.vtable.exited-before-free`, `.debug.frozen-owner`; and processes that fork
//! and exec.

use super::{Session, equal, expect};
use crate::facts::{Facts, TestResult};
use crate::program::{Program, wait_for};

/// Waits for a thread that is inside `thread_created`.
fn being_born(s: &mut Session) -> TestResult<i32> {
    s.program.ask("dwell")?;
    s.program.ask("later birth birth being-born")?;
    let mut tid = 0;
    wait_for("a thread to be in thread_created", || {
        tid = s.program.ask("dwelling")?.number("tid")?;
        Ok(tid != 0)
    })?;
    Ok(tid)
}

/// A new thread is announced under the allocation lock. If the user freezes it there, the world cannot collect, and the error names the thread and
/// the reason.
pub fn created_under_lock(s: &mut Session) -> TestResult<()> {
    s.program = Program::with_stop_timeout(std::time::Duration::from_secs(3))?;
    s.program.start_mutator("free", "spinning")?;
    s.attach()?;
    let tid = being_born(s)?;
    wait_for("the debugger to know the new thread", || Ok(s.threads()?.contains_key(&tid)))?;
    s.freeze(tid)?;
    s.program.ask("dwelt")?;
    let error =
        s.program.ask("collect").err().ok_or("a collection while the owner of the allocation lock is frozen")?;
    let said = Facts::answered(&format!("ok {}", error.rsplit_once(": ").map_or(error.as_str(), |(_, facts)| facts)))?;
    equal("the error", said.text("kind"), "lock-held").map_err(|e| format!("{e} ({error})"))?;
    equal("the lock", said.text("lock"), "allocation")?;
    equal("the lock's owner", said.number("tid")?, tid)?;
    equal("its name", said.text("name"), "being-born")?;
    s.program.runs("free")?;
    s.thaw(tid)?;
    s.program.ask("now birth")?;
    s.collect(3)?;
    s.ends_well()
}

/// The debugger shows no threads that have ended, and their records are reused for new threads.
pub fn exited_before_free(s: &mut Session) -> TestResult<()> {
    s.attach()?;
    for round in 0..4 {
        for index in 0..4 {
            s.program.start_mutator(&format!("t{round}-{index}"), "counting")?;
        }
        s.knows_all_threads()?;
        s.collect(2)?;
        for index in 0..4 {
            s.program.ask(&format!("end t{round}-{index}"))?;
        }
        s.knows_all_threads()?;
        s.collect(1)?;
    }
    s.ends_well()
}

/// Threads are created and exit at any moment of a stop.
pub fn during_stops(s: &mut Session) -> TestResult<()> {
    s.program.start_mutator("m", "allocating")?;
    s.attach()?;
    s.program.ask("collectors start")?;
    s.program.ask("births 60")?;
    s.program.ask("collectors end")?;
    s.knows_all_threads()?;
    s.program.runs("m")?;
    s.ends_well()
}

/// `.debug.frozen-waiter`: a thread that is frozen while it waits for the locks owns none of them, and blocks no other thread.
pub fn frozen_waiter(s: &mut Session) -> TestResult<()> {
    let waiter = s.program.start_mutator("waiter", "waiting")?;
    s.attach()?;
    being_born(s)?;
    // The waiter needs memory, and waits for the lock that the other thread owns.
    s.program.ask("go waiter")?;
    wait_for("the waiter to wait", || Ok(s.program.stays_stopped("waiter").is_ok()))?;
    s.freeze(waiter)?;
    s.program.ask("dwelt")?;
    s.program.ask("now birth")?;
    s.collect(3)?;
    s.program.stays_stopped("waiter")?;
    s.thaw(waiter)?;
    s.program.runs("waiter")?;
    s.ends_well()
}

/// A forked child has no debugger, and the parent continues with its own.
pub fn fork(s: &mut Session) -> TestResult<()> {
    s.program.start_mutator("a", "allocating")?;
    s.program.start_mutator("b", "spinning")?;
    s.attach()?;
    for _ in 0..3 {
        equal("how the child ended", s.program.ask("fork")?.number::<i32>("code")?, 0)?;
        s.collect(3)?;
    }
    s.program.runs("a")?;
    s.program.runs("b")?;
    s.ends_well()
}

/// After an exec, the new program in the process has its own collector, and the debugger finds it.
pub fn exec(s: &mut Session) -> TestResult<()> {
    s.program.start_mutator("a", "allocating")?;
    s.attach()?;
    s.collect(2)?;
    s.program.say("exec")?;
    s.program.is_ready()?;
    let tid = s.program.start_mutator("b", "spinning")?;
    wait_for("the debugger to find the new program's threads", || Ok(s.threads()?.contains_key(&tid)))?;
    s.collect(5)?;
    expect(s.threads()?.len() <= 2, || "threads of the program before the exec".into())?;
    s.program.runs("b")?;
    s.ends_well()
}
