//! A thread's registers, and the other state that a stop must not change.

use std::fmt;

use super::memory::Address;
use super::sys::{self, General};

/// The general registers of a thread.
#[derive(Clone, Copy, Debug)]
pub struct Registers(pub(super) General);

/// The names of the registers, in the kernel's order.
const NAMES: [&str; 27] = [
    "r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx", "rdx", "rsi", "rdi", "orig_rax",
    "rip", "cs", "eflags", "rsp", "ss", "fs_base", "gs_base", "ds", "es", "fs", "gs",
];

impl Registers {
    /// Returns the instruction pointer.
    pub fn rip(&self) -> Address {
        Address(self.0.rip)
    }

    /// Returns the stack pointer.
    pub fn rsp(&self) -> Address {
        Address(self.0.rsp)
    }

    /// Returns the frame pointer, where one is used.
    pub fn rbp(&self) -> Address {
        Address(self.0.rbp)
    }

    /// Returns a register by name.
    pub fn get(&self, name: &str) -> Option<u64> {
        self.iter().find(|(n, _)| *n == name).map(|(_, value)| value)
    }

    /// Returns all registers, in the kernel's order.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        NAMES.into_iter().zip(sys::general_words(&self.0).iter().copied())
    }
}

impl PartialEq for Registers {
    fn eq(&self, other: &Self) -> bool {
        sys::general_words(&self.0) == sys::general_words(&other.0)
    }
}

impl Eq for Registers {}

/// The state of a thread that a stop must not change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadRegisters {
    /// The general registers.
    pub general: Registers,
    /// The extended state: an XSAVE image.
    pub extended: Vec<u8>,
    /// The mask of blocked signals.
    pub blocked: u64,
    /// The 128 bytes below its stack pointer; fewer if the memory cannot be read.
    pub red_zone: Vec<u8>,
}

/// The first difference between two states of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    /// This general register.
    Register(&'static str),
    /// The extended state; the offset of the first byte that differs.
    Extended(usize),
    /// The blocked signals.
    Blocked,
    /// The red zone.
    RedZone,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Register(name) => f.write_str(name),
            Self::Extended(at) => write!(f, "its extended state, at byte {at}"),
            Self::Blocked => f.write_str("the signals that it blocks"),
            Self::RedZone => f.write_str("its red zone"),
        }
    }
}

impl ThreadRegisters {
    /// Returns the first difference.
    pub fn difference(&self, other: &Self) -> Option<Difference> {
        let mut registers = self.general.iter().zip(other.general.iter());
        if let Some(((name, _), _)) = registers.find(|(one, another)| one != another) {
            return Some(Difference::Register(name));
        }
        if self.extended != other.extended {
            let same = self.extended.iter().zip(&other.extended).take_while(|(one, another)| one == another);
            return Some(Difference::Extended(same.count()));
        }
        if self.blocked != other.blocked {
            return Some(Difference::Blocked);
        }
        (self.red_zone != other.red_zone).then_some(Difference::RedZone)
    }
}
