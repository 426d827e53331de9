//! The procedures that are written in Rust.
//!
//! A primitive gets its arguments as a slice of the machine's stack, where the collector sees them, and returns a
//! value or trouble. None of them calls a Scheme procedure: what takes procedures (`map`, `sort`, `dynamic-wind`, …)
//! is written in Scheme, in `prelude.scm`, so that continuations and errors pass through it like through the
//! program's own code. Names with `%` are for the prelude only.

use stopworld::GcCell;

use super::error::{Outcome, Trouble};
use super::machine::Vm;
use super::store::{Made, Store};
use super::value::Value;

pub mod lists;
mod numeric;
mod state;
mod tables;
mod text;
mod vectors;
mod writing;

/// A primitive's arguments: cells of the machine's stack.
pub type Args<'a> = &'a [GcCell<Value>];

/// What a plain primitive is.
pub type Function = fn(&mut Vm<'_, '_>, Args<'_>) -> Outcome;

/// What the machine does itself, because it rearranges the stack.
#[derive(Clone, Copy, Debug)]
pub enum Control {
    Apply,
    ApplyValues,
    CallCc,
    Reinstate,
    Unwind,
    Eval,
}

/// How a primitive is run.
#[derive(Clone, Copy)]
pub enum Action {
    Plain(Function),
    Control(Control),
}

/// A procedure written in Rust.
#[derive(Clone, Copy)]
pub struct Primitive {
    pub name: &'static str,
    pub least: usize,
    pub most: usize,
    pub action: Action,
}

impl Primitive {
    /// Whether a call with this many arguments can be compiled as an operation.
    pub fn takes_inline(&self, count: usize) -> bool {
        matches!(self.action, Action::Plain(_)) && (self.least..=self.most).contains(&count) && count < 1 << 11
    }
}

/// A primitive with a fixed or open range of arguments.
const fn plain(name: &'static str, least: usize, most: usize, function: Function) -> Primitive {
    Primitive { name, least, most, action: Action::Plain(function) }
}

/// No upper bound.
const ANY: usize = usize::MAX;

const GROUPS: &[&[Primitive]] =
    &[state::ALL, numeric::ALL, lists::ALL, text::ALL, vectors::ALL, tables::ALL, writing::ALL];

const COUNT: usize = {
    let (mut count, mut group) = (0, 0);
    while group < GROUPS.len() {
        count += GROUPS[group].len();
        group += 1;
    }
    assert!(count < 1 << 12, "the operand of `Primitive` has twelve bits for the index");
    count
};

static PRIMITIVES: [Primitive; COUNT] = {
    let mut all = [GROUPS[0][0]; COUNT];
    let (mut next, mut group) = (0, 0);
    while group < GROUPS.len() {
        let mut i = 0;
        while i < GROUPS[group].len() {
            all[next] = GROUPS[group][i];
            next += 1;
            i += 1;
        }
        group += 1;
    }
    all
};

/// The primitive of this index.
#[inline(always)]
pub fn primitive(index: usize) -> &'static Primitive {
    &PRIMITIVES[index]
}

/// The index of a primitive that exists.
pub fn index_of(name: &'static str) -> usize {
    let found = PRIMITIVES.iter().position(|p| p.name == name);
    // Only called with names that are written in this folder, each of which some test expands.
    found.unwrap_or_else(|| unreachable!("no primitive is called {name}"))
}

/// Defines all of them as global variables.
pub fn install(store: &Store<'_>) -> Made<()> {
    PRIMITIVES.iter().enumerate().try_for_each(|(index, primitive)| {
        store.intern(primitive.name)?.value.set(Value::primitive(index));
        Ok(())
    })
}

/// An argument that must be an index into a sequence of this length, or its end.
fn index_up_to(value: Value, length: usize) -> Outcome<usize> {
    match value.as_index() {
        Some(index) if index <= length => Ok(index),
        Some(_) => Err(Trouble::Range(value, length)),
        None => Err(Trouble::Type("an index", value)),
    }
}

/// An argument that must be an index of an element.
fn index_below(value: Value, length: usize) -> Outcome<usize> {
    match index_up_to(value, length)? {
        index if index < length => Ok(index),
        _ => Err(Trouble::Range(value, length)),
    }
}

/// Optional `start` and `end` arguments.
fn range(args: Args<'_>, first: usize, length: usize) -> Outcome<std::ops::Range<usize>> {
    let end = args.get(first + 1).map_or(Ok(length), |end| index_up_to(end.get(), length))?;
    let start = args.get(first).map_or(Ok(0), |start| index_up_to(start.get(), end))?;
    Ok(start..end)
}

/// A count of elements to make, which must be something a heap could hold.
fn length(value: Value) -> Outcome<usize> {
    const MOST: usize = 1 << 32;
    value.as_index().filter(|&n| n < MOST).ok_or(Trouble::Type("a length", value))
}
