//! Cooperation, exactness, attach and detach: whole programs, and many rounds. The ordinary run has a short form of each; the long form is run with
//! `--ignored`.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Session, equal, expect};
use crate::driver::{Ability, Which};
use crate::facts::TestResult;
use crate::program::{Program, wait_for};

/// The length of a row: short, or long on request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Short,
    Long,
}

/// A small generator of pseudo-random numbers, so that each run does the same.
struct Xorshift(u64);

impl Xorshift {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

/// The program runs to its end with `collections` collections while threads are frozen and thawed; its result is that of an undisturbed run.
fn cooperation(s: &mut Session, program: &str, form: Form) -> TestResult<()> {
    let collections = match (form, s.which) {
        (Form::Short, Which::Mock(_) | Which::Ptrace(_)) => 60,
        (Form::Short, _) => 12,
        (Form::Long, Which::Mock(_) | Which::Ptrace(_)) => 1000,
        (Form::Long, _) => 200,
    };
    let mut alone = Program::start()?;
    alone.ask(&format!("later it run {program} 1"))?;
    alone.say("now it")?;
    let undisturbed = alone.long_answer()?;
    drop(alone);

    s.attach()?;
    let before = s.stops()?;
    s.program.ask(&format!("later it run {program} {collections}"))?;
    let mut disorder = Xorshift(collections + 17);
    let (mut frozen, may_freeze) = (0, s.driver.lacks(Ability::FreezeOne).is_none());
    while s.program.ask("done it")?.text("done") != "true" {
        let here: Vec<i32> = s.threads()?.into_keys().collect();
        if may_freeze && !here.is_empty() {
            let tid = here[disorder.below(here.len())];
            // The thread may have ended by now.
            if s.freeze(tid).is_ok() {
                frozen += 1;
                std::thread::sleep(Duration::from_millis(disorder.below(8) as u64));
                let _ = s.thaw(tid);
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let done = s.program.ask("now it")?;
    equal("the result", done.text("result"), undisturbed.text("result"))?;
    let happened = done.number::<u64>("collections")?;
    let served = s.stops()? - before;
    expect(served >= happened && happened >= collections, || {
        format!("{happened} collections of {collections}, and the debugger served {served} stops")
    })?;
    expect(!may_freeze || frozen > 0, || "no thread could be frozen".into())?;
    s.ends_well()
}

pub fn lisp(s: &mut Session) -> TestResult<()> {
    cooperation(s, "lisp", Form::Short)
}

pub fn churn(s: &mut Session) -> TestResult<()> {
    cooperation(s, "churn", Form::Short)
}

pub fn binary_trees(s: &mut Session) -> TestResult<()> {
    cooperation(s, "binary-trees", Form::Short)
}

pub fn long_lisp(s: &mut Session) -> TestResult<()> {
    cooperation(s, "lisp", Form::Long)
}

pub fn long_churn(s: &mut Session) -> TestResult<()> {
    cooperation(s, "churn", Form::Long)
}

pub fn long_binary_trees(s: &mut Session) -> TestResult<()> {
    cooperation(s, "binary-trees", Form::Long)
}

/// Freezes, thaws and collections in any order. After each step exactly the threads that the user has frozen are frozen, with every register, the
/// extended state and the red zone unchanged.
fn exact(s: &mut Session, form: Form) -> TestResult<()> {
    let steps = match (form, s.which) {
        (Form::Short, Which::Mock(_) | Which::Ptrace(_)) => 300,
        (Form::Short, _) => 30,
        (Form::Long, Which::Mock(_) | Which::Ptrace(_)) => 10_000,
        (Form::Long, _) => 300,
    };
    let mut threads = Vec::new();
    for (index, kind) in ["spinning", "counting", "looking", "blocking", "calling nanosleep"].into_iter().enumerate() {
        threads.push((s.program.start_mutator(&format!("m{index}"), kind)?, false));
    }
    let shows_registers = s.driver.lacks(Ability::ShowRegisters).is_none();
    let mut fingerprints: BTreeMap<i32, String> = BTreeMap::new();
    s.attach()?;
    let mut disorder = Xorshift(steps);
    for step in 0..steps {
        let index = disorder.below(threads.len() * 2);
        match threads.get_mut(index) {
            Some((tid, frozen)) => {
                if *frozen {
                    fingerprints.remove(tid);
                    s.thaw(*tid)?;
                } else {
                    s.freeze(*tid)?;
                    if shows_registers {
                        fingerprints.insert(*tid, s.driver.fingerprint(*tid)?);
                    }
                }
                *frozen = !*frozen;
            }
            None => {
                s.collect(1)?;
                for (tid, before) in &fingerprints {
                    equal(&format!("step {step}: the registers of {tid}"), &s.driver.fingerprint(*tid)?, before)?;
                }
            }
        }
        let shown = s.threads()?;
        for (index, (tid, frozen)) in threads.iter().enumerate() {
            equal(&format!("step {step}: is m{index} frozen"), shown[tid].frozen, *frozen)?;
            if !matches!(s.which, Which::Mock(_)) {
                let (state, tracer) = s.program.status(*tid)?;
                // A running thread may be about to stop for a notification; a frozen one never runs.
                expect(!*frozen || (state == 't' && tracer != 0), || format!("step {step}: m{index} is {state}"))?;
            }
        }
    }
    for (index, (tid, frozen)) in threads.iter().enumerate() {
        if *frozen {
            s.program.stays_stopped(&format!("m{index}"))?;
            s.thaw(*tid)?;
        }
        s.program.runs(&format!("m{index}"))?;
    }
    s.ends_well()
}

pub fn exactness(s: &mut Session) -> TestResult<()> {
    exact(s, Form::Short)
}

pub fn long_exactness(s: &mut Session) -> TestResult<()> {
    exact(s, Form::Long)
}

/// Attaches and detaches at random moments, against eight mutators and a collector that never pause.
fn again_and_again(s: &mut Session, form: Form) -> TestResult<()> {
    let cycles = match (form, s.which) {
        (Form::Short, Which::Mock(_) | Which::Ptrace(_)) => 40,
        (Form::Short, _) => 3,
        (Form::Long, Which::Mock(_) | Which::Ptrace(_)) => 1000,
        (Form::Long, _) => 50,
    };
    for index in 0..8 {
        s.program.start_mutator(&format!("m{index}"), if index % 2 == 0 { "allocating" } else { "collecting" })?;
    }
    let mut disorder = Xorshift(cycles);
    for cycle in 0..cycles {
        let at = |error: String| format!("cycle {cycle}: {error}");
        s.attach().map_err(at)?;
        std::thread::sleep(Duration::from_micros(disorder.below(4000) as u64));
        s.detach().map_err(at)?;
        std::thread::sleep(Duration::from_micros(disorder.below(2000) as u64));
        if cycle % 20 == 0 {
            s.program.is_left_alone().map_err(at)?;
        }
    }
    s.program.is_left_alone()?;
    for index in 0..8 {
        s.program.runs(&format!("m{index}"))?;
    }
    for index in 0..8 {
        s.program.ask(&format!("end m{index}"))?;
    }
    wait_for("the last threads to exit", || Ok(s.program.tids()?.len() <= 4))?;
    s.program.collect(2)?;
    s.program.ask("verify").map(drop)
}

pub fn attach_and_detach(s: &mut Session) -> TestResult<()> {
    again_and_again(s, Form::Short)
}

pub fn long_attach_and_detach(s: &mut Session) -> TestResult<()> {
    again_and_again(s, Form::Long)
}
