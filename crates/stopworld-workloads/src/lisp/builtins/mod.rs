//! The procedures that are written in Rust.
//!
//! A primitive gets its arguments as a slice of the machine's stack, which the collector scans, and returns a value or a
//! [`PrimitiveError`](super::error::PrimitiveError). No primitive calls a Scheme procedure: procedures with procedure arguments (`map`, `sort`,
//! `dynamic-wind`, …) are written in Scheme, in `prelude.scm`, so that continuations and errors pass through them like through the
//! program's own code. Primitives whose names begin with `%` are for the prelude only.

use super::store::{Allocated, Store};
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

/// Returns the primitive with this index.
#[inline(always)]
pub fn primitive(index: usize) -> &'static Primitive {
    &PRIMITIVES[index]
}

/// Returns the name of the primitive with this index.
pub fn name(index: usize) -> &'static str {
    primitive(index).name
}

/// Returns the index of a primitive, which must exist.
pub fn index_of(name: &'static str) -> usize {
    let found = PRIMITIVES.iter().position(|p| p.name == name);
    // This is called only with names that are literals in this folder; tests expand each of these forms.
    found.unwrap_or_else(|| unreachable!("no primitive is called {name}"))
}

/// Defines all primitives as global variables.
pub fn install(store: &Store<'_>) -> Allocated<()> {
    PRIMITIVES.iter().enumerate().try_for_each(|(index, primitive)| {
        store.intern(primitive.name)?.value.set(Value::primitive(index));
        Ok(())
    })
}
