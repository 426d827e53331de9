//! The registers of a running machine, which lie on the Rust stack of its thread.

use stopworld::{Gc, OutOfMemory};

use super::meter::Meter;
use super::objects::{Closure, Row};
use super::output::Output;
use super::store::Store;
use super::value::Value;

/// The registers of a running machine.
pub struct Vm<'v, 'o> {
    pub store: Store<'v>,
    pub out: &'v mut Output<'o>,
    pub stack: Gc<Row>,
    pub sp: usize,
    pub fp: usize,
    pub pc: usize,
    pub closure: Gc<Closure>,
    pub handlers: Value,
    pub winders: Value,
    pub most_slots: usize,
    /// Slots at the end of the stack that are not used: `RESERVE`, or none while handlers look at a recursion that
    /// went too deep.
    pub reserve: usize,
    /// No slot from here on has been used since the unused ones were cleared.
    pub high: usize,
    pub calls: u32,
    /// The primitive that is running, for error messages.
    pub primitive: usize,
    /// What the last full heap had to say.
    pub memory: Option<OutOfMemory>,
    /// Who is charged, while the world is profiled.
    pub meter: Meter<'v>,
}
