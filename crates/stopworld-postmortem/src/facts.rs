//! Facts about one object, and the objects that refer to it; how many objects each type has.

use std::collections::{BTreeMap, HashMap};

use super::heap::{Heap, Space};
use super::library::ThreadRecord;
use super::memory::word;
use super::roots::half_built;
use super::types::Shape;

/// An object.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ObjectFacts {
    /// Its address.
    pub address: u64,
    /// The name of its type.
    pub type_name: String,
    /// The size of its value in bytes; the size of the room for it, if objects of its type differ in size.
    pub bytes: u64,
    /// The bytes that its cell or its blocks take.
    pub footprint: u64,
    /// The number of elements, if it is an array.
    pub length: Option<u64>,
    /// The part of the heap that it is in.
    pub space: Space,
    /// Whether it has the mark of the present collection or, between collections, of the last.
    pub is_marked: bool,
    /// Whether it is a weak reference, which does not keep its target alive.
    pub is_weak: bool,
    /// Whether objects of its type hold no references, so that a collection does not read them.
    pub is_leaf: bool,
    /// Whether it is dropped when it is unreachable.
    pub is_dropped: bool,
    /// Its words that may be references, and the target of a weak reference.
    pub fields: Vec<Field>,
    /// The number of all such words.
    pub field_count: u64,
}

/// A word of an object that may be a reference.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Field {
    /// Its offset in bytes.
    pub offset: u64,
    /// Its value.
    pub value: u64,
    /// The address of the object that it refers to, and the name of that object's type.
    pub target: Option<(u64, String)>,
}

/// An object that refers to another one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Referrer {
    /// Its address.
    pub address: u64,
    /// The name of its type.
    pub type_name: String,
    /// The offset of the reference in bytes.
    pub offset: u64,
}

impl Heap<'_> {
    /// Describes the object with a number, with at most `most` fields.
    pub fn facts(&self, number: u32, most: usize) -> Option<ObjectFacts> {
        let object = self.object(number)?;
        let of_type = self.types.get(object.type_number);
        let (space, is_marked) = self.state(number)?;
        let (mut fields, mut field_count) = (Vec::new(), 0);
        let mut add = |offset, value| {
            field_count += 1;
            if fields.len() < most {
                fields.push((offset, value));
            }
        };
        if let (true, Ok(target)) = (of_type.is_weak, word(self.memory, object.address)) {
            add(0, target);
        }
        self.for_each_reference(&object, &of_type, add);
        let length = of_type.is_array.then(|| word(self.memory, object.address).ok()).flatten();
        let bytes = match (of_type.stride, length) {
            (Some(stride), Some(length)) => length.saturating_mul(stride).saturating_add(of_type.value_bytes),
            _ if of_type.is_array || of_type.value_bytes == 0 => object.room,
            _ => of_type.value_bytes,
        };
        let field = |(offset, value)| {
            let target = self.target(value).and_then(|target| self.object(target));
            let target = target.map(|target| (target.address, self.types.get(target.type_number).name.clone()));
            Field { offset, value, target }
        };
        Some(ObjectFacts {
            address: object.address,
            type_name: of_type.name.clone(),
            bytes: bytes.min(object.room),
            footprint: object.footprint,
            length,
            space,
            is_marked,
            is_weak: of_type.is_weak,
            is_leaf: of_type.is_known && of_type.shape == Shape::None && !of_type.is_weak,
            is_dropped: of_type.is_dropped,
            fields: fields.into_iter().map(field).collect(),
            field_count,
        })
    }

    /// Returns whether one of these threads was building an object in the cell with this address (`.stop.mid-alloc`).
    pub fn is_half_built(&self, address: u64, threads: &[ThreadRecord]) -> bool {
        let has = |cell: u64| (cell..cell.saturating_add(self.cell_bytes_at(cell))).contains(&address);
        threads.iter().any(|thread| thread.cache != 0 && half_built(self, thread).into_iter().any(has))
    }

    /// Returns the number of objects of each type, and the bytes of their cells or blocks, in the order of the types' names.
    pub fn histogram(&self) -> Vec<(String, u64, u64)> {
        let mut by_name = BTreeMap::<String, (u64, u64)>::new();
        let mut by_type = HashMap::<u32, (u64, u64)>::new();
        self.for_each_object(|_, object| {
            let (objects, bytes) = by_type.entry(object.type_number).or_default();
            (*objects, *bytes) = (*objects + 1, *bytes + object.footprint);
        });
        // The compiler may have generated several descriptions of one type.
        for (number, (objects, bytes)) in by_type {
            let sum = by_name.entry(self.types.get(number).name.clone()).or_default();
            *sum = (sum.0 + objects, sum.1 + bytes);
        }
        by_name.into_iter().map(|(name, (objects, bytes))| (name, objects, bytes)).collect()
    }

    /// Returns the objects that refer to the one with this number, in the order of their addresses: at most `most` of them, and the number
    /// of all. Reads the whole heap.
    pub fn referrers(&self, number: u32, most: usize) -> (Vec<Referrer>, u64) {
        let (mut found, mut count) = (Vec::new(), 0);
        self.for_each_object(|_, object| {
            let of_type = self.types.get(object.type_number);
            let mut first = None;
            self.for_each_reference(object, &of_type, |offset, word| {
                if first.is_none() && self.target(word) == Some(number) {
                    first = Some(offset);
                }
            });
            if let Some(offset) = first {
                count += 1;
                if found.len() < most {
                    let (address, type_name) = (object.address, of_type.name.clone());
                    found.push(Referrer { address, type_name, offset });
                }
            }
        });
        (found, count)
    }
}
