//! The definition of a primitive, and the checks of arguments that several primitives share.

use stopworld::GcCell;

use super::super::error::{Outcome, PrimitiveError};
use super::super::registers::Vm;
use super::super::value::Value;

/// A primitive's arguments: cells of the machine's stack.
pub type Args<'a> = &'a [GcCell<Value>];

/// The function of a plain primitive.
pub type Function = fn(&mut Vm<'_, '_>, Args<'_>) -> Outcome;

/// The primitives that the machine implements itself, because they rearrange the stack.
#[derive(Clone, Copy, Debug)]
pub enum Control {
    Apply,
    ApplyValues,
    CallCc,
    Reinstate,
    Unwind,
    Eval,
}

/// The implementation of a primitive.
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
    /// Returns whether a call with this number of arguments can be compiled as an operation.
    pub fn takes_inline(&self, count: usize) -> bool {
        matches!(self.action, Action::Plain(_)) && (self.least..=self.most).contains(&count) && count < 1 << 11
    }
}

/// Defines a primitive with a fixed or open range of arguments.
pub(super) const fn plain(name: &'static str, least: usize, most: usize, function: Function) -> Primitive {
    Primitive { name, least, most, action: Action::Plain(function) }
}

/// No upper bound.
pub(super) const ANY: usize = usize::MAX;

/// Returns an argument that must be an index into a sequence of this length, or its end.
pub(super) fn index_up_to(value: Value, length: usize) -> Outcome<usize> {
    match value.as_index() {
        Some(index) if index <= length => Ok(index),
        Some(_) => Err(PrimitiveError::Range(value, length)),
        None => Err(PrimitiveError::Type("an index", value)),
    }
}

/// Returns an argument that must be the index of an element.
pub(super) fn index_below(value: Value, length: usize) -> Outcome<usize> {
    match index_up_to(value, length)? {
        index if index < length => Ok(index),
        _ => Err(PrimitiveError::Range(value, length)),
    }
}

/// Returns the range of optional `start` and `end` arguments.
pub(super) fn range(args: Args<'_>, first: usize, length: usize) -> Outcome<std::ops::Range<usize>> {
    let end = args.get(first + 1).map_or(Ok(length), |end| index_up_to(end.get(), length))?;
    let start = args.get(first).map_or(Ok(0), |start| index_up_to(start.get(), end))?;
    Ok(start..end)
}

/// Returns the number of elements to create, which must be a number that a heap could hold.
pub(super) fn length(value: Value) -> Outcome<usize> {
    const MOST: usize = 1 << 32;
    value.as_index().filter(|&n| n < MOST).ok_or(PrimitiveError::Type("a length", value))
}
