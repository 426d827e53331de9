//! The debuggers, each behind the same few operations.

pub mod gdb;
pub mod lldb;
pub mod mock;
pub mod ptrace;

use std::collections::BTreeMap;

use crate::facts::Told;
use crate::program::Program;

/// What a debugger shows of a mutator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub name: String,
    pub frozen: bool,
}

/// What not every debugger can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ability {
    /// Freeze one thread while the others run.
    FreezeOne,
    /// Die without the program.
    Die,
    /// Stop threads in system calls without these being interrupted.
    LeaveCallsAlone,
    /// Be in control of a world while another vtable stops it.
    StayBesideAnother,
    /// Follow the program into the next one.
    FollowExec,
    /// Take part in stops of several worlds at once.
    ManyWorlds,
    /// Show all registers of a frozen thread.
    ShowRegisters,
}

/// A debugger that is, or is not, in control of a program.
pub trait Driver {
    /// Takes control of a program that runs, and lets it run.
    fn attach(&mut self, program: &mut Program) -> Told<()>;

    /// Leaves it alone.
    fn detach(&mut self, program: &mut Program) -> Told<()>;

    /// Is killed.
    fn die(&mut self) -> Told<()>;

    fn freeze(&mut self, program: &mut Program, tid: i32) -> Told<()>;

    fn thaw(&mut self, program: &mut Program, tid: i32) -> Told<()>;

    /// The mutators that it knows.
    fn threads(&mut self, program: &mut Program) -> Told<BTreeMap<i32, Seen>>;

    /// Something that is the same as long as a frozen thread has the same registers, extended state and red zone.
    fn fingerprint(&mut self, tid: i32) -> Told<String> {
        Err(format!("no registers of {tid} to be seen"))
    }

    /// How many stops of worlds it has served since it attached.
    fn stops(&mut self, program: &mut Program) -> Told<u64>;

    /// Why it lacks an ability; `None` if it has it.
    fn lacks(&self, ability: Ability) -> Option<&'static str>;
}

/// By which contract.
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

    /// Why it can't run here at all.
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

/// Reads `tid=name/frozen` facts.
pub fn seen(facts: &crate::facts::Facts) -> BTreeMap<i32, Seen> {
    let of = |(tid, rest): (&str, &str)| {
        let (name, state) = rest.rsplit_once('/')?;
        Some((tid.parse().ok()?, Seen { name: name.into(), frozen: state == "frozen" }))
    };
    facts.iter().filter_map(of).collect()
}
