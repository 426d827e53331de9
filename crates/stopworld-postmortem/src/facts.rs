//! Facts about one object, and the objects that refer to it.

use super::heap::Heap;
use super::memory::word;

/// An object.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ObjectFacts {
    /// Its address.
    pub address: u64,
    /// The name of its type.
    pub type_name: String,
    /// The bytes that its cell or its blocks take.
    pub footprint: u64,
    /// The number of elements, if it is an array.
    pub length: Option<u64>,
    /// Its words that may be references.
    pub fields: Vec<Field>,
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
        let mut fields = Vec::new();
        self.for_each_reference(&object, &of_type, |offset, value| {
            if fields.len() < most {
                fields.push((offset, value));
            }
        });
        let field = |(offset, value)| {
            let target = self.target(value).and_then(|target| self.object(target));
            let target = target.map(|target| (target.address, self.types.get(target.type_number).name.clone()));
            Field { offset, value, target }
        };
        Some(ObjectFacts {
            address: object.address,
            type_name: of_type.name.clone(),
            footprint: object.footprint,
            length: of_type.is_array.then(|| word(self.memory, object.address).ok()).flatten(),
            fields: fields.into_iter().map(field).collect(),
        })
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
