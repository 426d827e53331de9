//! Damaged places of a heap.

use std::fmt;

/// The maximum number of damaged places that are kept; further ones are counted.
const MOST: usize = 64;

/// What is wrong at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Damage {
    /// The block's tables do not agree, or its cells have an impossible size.
    Block(String),
    /// The header of the object does not refer to a type; it has this value.
    Header(u64),
    /// The object is larger than its cell.
    Size {
        /// The name of its type.
        type_name: String,
        /// Its size in bytes.
        bytes: u64,
        /// The size of the cell without header.
        room: u64,
    },
    /// The object refers into the heap, but not to an object.
    Dangling {
        /// The name of its type.
        type_name: String,
        /// The offset of the reference in the object.
        offset: u64,
        /// The reference.
        target: u64,
    },
    /// A list of free cells is damaged.
    FreeRun(String),
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damage::Block(what) => write!(f, "the block is {what}"),
            Damage::Header(header) => write!(f, "the object's header is {header:#x}, which is not a type"),
            Damage::Size { type_name, bytes, room } => {
                write!(f, "the object of type {type_name} has {bytes} bytes, and its cell {room}")
            }
            Damage::Dangling { type_name, offset, target } => {
                write!(f, "the object of type {type_name} refers to {target:#x} at offset {offset}, where no object is")
            }
            Damage::FreeRun(what) => write!(f, "the list of the block's free cells is damaged: {what}"),
        }
    }
}

/// Words in the objects of one type, where references may be, that are neither 0, nor odd, nor addresses in the heap. That is right only
/// if the type may have other values there (a type of the program that implements `stopworld::Word`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutsideWords {
    /// The name of the type.
    pub type_name: String,
    /// Their number.
    pub count: u64,
    /// The address of the object with the first of them.
    pub object: u64,
    /// The offset of the first in its object.
    pub offset: u64,
    /// The first.
    pub value: u64,
}

/// The damaged places of a heap.
#[derive(Clone, Debug, Default)]
pub struct Damages {
    /// The first of them, by address.
    pub places: Vec<(u64, Damage)>,
    /// The number of all of them.
    pub count: u64,
    /// What may be damage, by type, the rarest first: a field that was overwritten is one of few, and a type that may have other values has
    /// many of them.
    pub outside: Vec<OutsideWords>,
}

impl Damages {
    pub(crate) fn add(&mut self, address: u64, damage: impl FnOnce() -> Damage) {
        self.count += 1;
        if self.places.len() < MOST {
            self.places.push((address, damage()));
        }
    }
}
