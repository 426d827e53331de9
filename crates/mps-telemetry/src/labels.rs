//! The label of an address at the time of a record.
//! One record interns a text under a number; another record labels an address with that number. When
//! records come in clock order, the current label is the last one seen, so only the current
//! labels are kept. The MPS labels client addresses and its own pointers separately, and so does this file.
//!
//! `.format.hostile`: a stream may have any number of labels. A fixed number is kept; further
//! addresses stay without a label.

use std::collections::HashMap;

use super::format::Version;
use super::notice::Kind;
use super::reader::Record;
use super::typed::TypedRecord;
use super::{v1, v2};

/// The largest numbers of addresses, of pointers, and of texts that are kept: each fits a hash table of 2¹⁷ places.
const MOST: usize = (1 << 17) / 8 * 7;
/// The largest number of bytes of texts.
const MOST_TEXT: usize = 3 << 20;

/// The namespace of a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Namespace {
    /// Parameters of sort A, labelled by `Label`.
    Addresses,
    /// Parameters of sort P, labelled by `LabelPointer`.
    Pointers,
}

/// The label of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Label<'a> {
    /// The label's text.
    Text(&'a [u8]),
    /// The label's number, for which the stream has no text.
    Unknown(u64),
}

/// The current labels.
#[derive(Debug, Default)]
pub struct Labels {
    addresses: HashMap<u64, u64>,
    pointers: HashMap<u64, u64>,
    /// The offset and length of each text in `text`.
    interned: HashMap<u64, (u32, u32)>,
    text: Vec<u8>,
}

impl Labels {
    /// Updates the labels if this record of a stream of this version changes them. Returns a notice if something is wrong with it.
    pub fn learn(&mut self, version: Version, record: &Record<'_>) -> Option<Kind> {
        match (version, record.code()) {
            (Version::V2, v2::Intern::CODE) => {
                let v2::Intern { stringId, string } = v2::Intern::decode(record)?;
                self.intern(stringId, string)
            }
            (Version::V2, v2::Label::CODE) => {
                let v2::Label { address, stringId } = v2::Label::decode(record)?;
                set(&mut self.addresses, address, stringId)
            }
            (Version::V2, v2::LabelPointer::CODE) => {
                let v2::LabelPointer { pointer, stringId } = v2::LabelPointer::decode(record)?;
                set(&mut self.pointers, pointer, stringId)
            }
            (Version::V1, v1::Intern::CODE) => {
                let v1::Intern { stringId, string } = v1::Intern::decode(record)?;
                self.intern(stringId, string)
            }
            (Version::V1, v1::Label::CODE) => {
                let v1::Label { address, stringId } = v1::Label::decode(record)?;
                set(&mut self.addresses, address, stringId)
            }
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

    /// Returns the current label of this address.
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
    // The address is looked up first, because requesting a new entry would make a full table grow.
    if let Some(known) = table.get_mut(&key) {
        *known = value;
    } else if table.len() < MOST {
        table.insert(key, value);
    } else {
        return Some(Kind::TooManyLabels(MOST));
    }
    None
}
