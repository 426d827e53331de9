//! The debuggers, each with the same few operations.

pub mod gdb;
pub mod lldb;
pub mod mock;
pub mod ptrace;

use std::collections::BTreeMap;

use crate::facts::TestResult;
use crate::program::Program;

/// The facts about a mutator that a debugger shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadView {
    pub name: String,
    pub frozen: bool,
}

/// Abilities that not every debugger has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ability {
    /// Freeze one thread while the others run.
    FreezeOne,
    /// Die while the program survives.
    Die,
    /// Stop threads in system calls without interrupting the calls.
    LeaveCallsAlone,
    /// Stay in control of a world while another vtable stops it.
    StayBesideAnother,
    /// Follow the program through an exec.
    FollowExec,
    /// Take part in stops of several worlds at once.
    ManyWorlds,
    /// Show all registers of a frozen thread.
    ShowRegisters,
}

/// A debugger that may be in control of a program.
pub trait Driver {
    /// Takes control of a running program, and lets it run on.
    fn attach(&mut self, program: &mut Program) -> TestResult<()>;

    /// Detaches from the program.
    fn detach(&mut self, program: &mut Program) -> TestResult<()>;

    /// Kills the debugger.
    fn die(&mut self) -> TestResult<()>;

    fn freeze(&mut self, program: &mut Program, tid: i32) -> TestResult<()>;

    fn thaw(&mut self, program: &mut Program, tid: i32) -> TestResult<()>;

    /// Returns the mutators that the debugger knows.
    fn threads(&mut self, program: &mut Program) -> TestResult<BTreeMap<i32, ThreadView>>;

    /// Returns a string that changes only if a frozen thread's registers, extended state or red zone change.
    fn fingerprint(&mut self, tid: i32) -> TestResult<String> {
        Err(format!("the registers of {tid} are not readable"))
    }

    /// Returns the number of stops of worlds that the debugger has served since it attached.
    fn stops(&mut self, program: &mut Program) -> TestResult<u64>;

    /// Returns the reason why the debugger lacks an ability; `None` if it has the ability.
    fn lacks(&self, ability: Ability) -> Option<&'static str>;
}

/// The contract that the debugger uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Full,
    Assisted,
}

impl Mode {
    pub fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Assisted => "assisted",
        }
    }
}

/// A column of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    Mock(Mode),
    Ptrace(Mode),
    Gdb(Mode),
    Lldb,
}

impl Which {
    pub const ALL: [Self; 7] = [
        Self::Mock(Mode::Full),
        Self::Mock(Mode::Assisted),
        Self::Ptrace(Mode::Full),
        Self::Ptrace(Mode::Assisted),
        Self::Gdb(Mode::Assisted),
        Self::Gdb(Mode::Full),
        Self::Lldb,
    ];

    pub fn name(self) -> String {
        match self {
            Self::Mock(mode) => format!("mock {}", mode.name()),
            Self::Ptrace(mode) => format!("ptrace {}", mode.name()),
            Self::Gdb(mode) => format!("gdb {}", mode.name()),
            Self::Lldb => "lldb".into(),
        }
    }

    /// Returns the reason why the debugger cannot run on this machine; `None` if it can.
    pub fn is_missing(self) -> Option<String> {
        match self {
            Self::Mock(_) => None,
            Self::Ptrace(_) => ptrace::is_missing(),
            Self::Gdb(_) => gdb::is_missing(),
            Self::Lldb => lldb::is_missing(),
        }
    }

    pub fn build(self) -> Box<dyn Driver> {
        match self {
            Self::Mock(mode) => Box::new(mock::Mock(mode)),
            Self::Ptrace(mode) => Box::new(ptrace::Ptrace::new(mode)),
            Self::Gdb(mode) => Box::new(gdb::Gdb::new(mode)),
            Self::Lldb => Box::new(lldb::Lldb::new()),
        }
    }
}

/// Parses `tid=name/frozen` facts.
pub fn seen(facts: &crate::facts::Facts) -> BTreeMap<i32, ThreadView> {
    let of = |(tid, rest): (&str, &str)| {
        let (name, state) = rest.rsplit_once('/')?;
        Some((tid.parse().ok()?, ThreadView { name: name.into(), frozen: state == "frozen" }))
    };
    facts.iter().filter_map(of).collect()
}
