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
    /// The number of slots at the end of the stack that the program may not use: `RESERVE`, or 0 while handlers of the error "recursion too
    /// deep" run.
    pub reserve: usize,
    /// The slots from this index on have not been used since the unused slots were last cleared.
    pub high: usize,
    pub calls: u32,
    /// The primitive that is running, for error messages.
    pub primitive: usize,
    /// The last out-of-memory error.
    pub memory: Option<OutOfMemory>,
    /// Tracks which cost centre stack is charged, while the world is profiled.
    pub meter: Meter<'v>,
}
