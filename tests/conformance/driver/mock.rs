//! The debugger inside the program: commands to the program control it.

use std::collections::BTreeMap;

use super::{Ability, Driver, Mode, ThreadView, seen};
use crate::facts::TestResult;
use crate::program::Program;

pub struct Mock(pub Mode);

impl Driver for Mock {
    fn attach(&mut self, program: &mut Program) -> TestResult<()> {
        program.ask(&format!("mock attach {}", self.0.name())).map(drop)
    }

    fn detach(&mut self, program: &mut Program) -> TestResult<()> {
        program.ask("mock detach").map(drop)
    }

    fn die(&mut self) -> TestResult<()> {
        Err("not supported by this debugger".into())
    }

    fn freeze(&mut self, program: &mut Program, tid: i32) -> TestResult<()> {
        program.ask(&format!("mock freeze {tid}")).map(drop)
    }

    fn thaw(&mut self, program: &mut Program, tid: i32) -> TestResult<()> {
        program.ask(&format!("mock thaw {tid}")).map(drop)
    }

    fn threads(&mut self, program: &mut Program) -> TestResult<BTreeMap<i32, ThreadView>> {
        Ok(seen(&program.ask("mock threads")?))
    }

    fn stops(&mut self, program: &mut Program) -> TestResult<u64> {
        program.ask("mock stops")?.number("stops")
    }

    fn lacks(&self, ability: Ability) -> Option<&'static str> {
        match ability {
            Ability::FreezeOne | Ability::ManyWorlds => None,
            Ability::Die => Some("it is a part of the program, and dies with it"),
            Ability::LeaveCallsAlone => Some("it stops threads by a signal of its own"),
            Ability::StayBesideAnother => Some("it is the vtable: another one in force replaces it"),
            Ability::ShowRegisters => Some("it shows no registers"),
            Ability::FollowExec => Some("an exec replaces the program's memory, which contains it"),
        }
    }
}
