//! Which name an address has at the time of a record.
//!
//! A text is interned under a number, and an address is labelled with that number; both are records of the stream. When
//! records come in the order of their clocks, the label in force is simply the last one seen, so nothing but the current
//! labels is kept. The MPS labels clients' addresses and its own pointers apart, and so do we.
//!
//! `.format.hostile`: a stream may label without end. What is remembered is bounded; beyond that, addresses that are
//! new stay without a name.

use std::collections::HashMap;

use super::format::{Layout, Sort};
use super::notice::Kind;
use super::reader::Record;

/// How many addresses, pointers and texts each are remembered: what fits a hash table of 2¹⁷ places.
const MOST: usize = (1 << 17) / 8 * 7;
/// How many bytes of texts are.
const MOST_TEXT: usize = 3 << 20;

/// Whose addresses a label is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Namespace {
    /// Parameters of the sort A, named by `Label`.
    Addresses,
    /// Parameters of the sort P, named by `LabelPointer`.
    Pointers,
}

/// What an address is labelled with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Label<'a> {
    /// This text.
    Text(&'a [u8]),
    /// A number for which there was no text.
    Unknown(u64),
}

/// The labels in force.
#[derive(Debug, Default)]
pub struct Labels {
    addresses: HashMap<u64, u64>,
    pointers: HashMap<u64, u64>,
    /// Where in `text` each string lies.
    interned: HashMap<u64, (u32, u32)>,
    text: Vec<u8>,
}

impl Labels {
    /// Takes note of what this record says about names, if anything.
    pub fn learn(&mut self, layout: &Layout, record: &Record<'_>) -> Option<Kind> {
        let [first, second] = layout.params else { return None };
        let (key, at) = (record.word(usize::from(first.offset))?, usize::from(second.offset));
        match (layout.name, second.sort) {
            ("Intern", Sort::S) => self.intern(key, record.string(at)?),
            ("Label", Sort::W) => set(&mut self.addresses, key, record.word(at)?),
            ("LabelPointer", Sort::W) => set(&mut self.pointers, key, record.word(at)?),
            _ => None,
        }
    }

    fn intern(&mut self, id: u64, text: &[u8]) -> Option<Kind> {
        let known = self.interned.get(&id).copied();
        if known.is_some_and(|place| self.text(place) == Some(text)) {
            return None;
        }
        if self.text.len() + text.len() > MOST_TEXT {
            return Some(Kind::TooManyLabels(MOST));
        }
        let place = (self.text.len() as u32, text.len() as u32);
        self.text.extend_from_slice(text);
        let full = set(&mut self.interned, id, place);
        full.or(known.map(|_| Kind::InternedAgain(id)))
    }

    fn text(&self, (from, len): (u32, u32)) -> Option<&[u8]> {
        self.text.get(from as usize..)?.get(..len as usize)
    }

    /// The label of this address now.
    pub fn of(&self, namespace: Namespace, address: u64) -> Option<Label<'_>> {
        let labels = match namespace {
            Namespace::Addresses => &self.addresses,
            Namespace::Pointers => &self.pointers,
        };
        let id = *labels.get(&address)?;
        let text = self.interned.get(&id).and_then(|&place| self.text(place));
        Some(text.map_or(Label::Unknown(id), Label::Text))
    }
}

fn set<T>(table: &mut HashMap<u64, T>, key: u64, value: T) -> Option<Kind> {
    // Looked up first: to ask for a new place would already make a full table grow.
    if let Some(known) = table.get_mut(&key) {
        *known = value;
    } else if table.len() < MOST {
        table.insert(key, value);
    } else {
        return Some(Kind::TooManyLabels(MOST));
    }
    None
}
