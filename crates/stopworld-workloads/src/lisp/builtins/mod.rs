//! The procedures that are written in Rust.
//!
//! A primitive gets its arguments as a slice of the machine's stack, where the collector sees them, and returns a
//! value or trouble. None of them calls a Scheme procedure: what takes procedures (`map`, `sort`, `dynamic-wind`, …)
//! is written in Scheme, in `prelude.scm`, so that continuations and errors pass through it like through the
//! program's own code. Names with `%` are for the prelude only.

use super::store::{Made, Store};
use super::value::Value;

mod definition;
pub mod lists;
mod numeric;
mod state;
mod tables;
mod text;
mod vectors;
mod writing;

pub use definition::{Action, Control, Function, Primitive};

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

/// The name of the primitive of this index.
pub fn name(index: usize) -> &'static str {
    primitive(index).name
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
