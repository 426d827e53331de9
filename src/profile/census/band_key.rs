//! Headings: the keys under which a census counts objects.
//!
//! No text can be made in the stopped world, so a band key is a number: the address of a type's description, the number of a label,
//! a kind of object. It is turned into a name after the restart. Two band keys with the same name, for example of two copies of one
//! type's description, become one band then.
//!
//! Names are produced in pieces, so that a filter can compare them in the stopped world.

use crate::collector::live_heap::Object;
use crate::events::{Label, Labels};
use crate::heap::Heap;
use crate::heap::layout::SPACES;
use crate::heap::trace::{Shape, TypeInfo};
use crate::profile::{CentreId, StackId, charge_of};
use crate::sync::{AtomicU64, Ordering::Relaxed};

/// A band key. Never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BandKey(u64);

const TAG_BITS: u32 = 3;
const TAG: u64 = (1 << TAG_BITS) - 1;
/// The name of the object's type: the address of the type's description.
const DESCRIBED_BY_TYPE: u64 = 0;
/// The object's own description: the number of a label.
const DESCRIBED_BY_ITSELF: u64 = 1;
/// The object's type: the address of the type's description.
const TYPE: u64 = 2;
/// A kind of object: an index into [`KINDS`], plus one.
const KIND: u64 = 3;
/// A set of retainers of this census.
const RETAINERS: u64 = 4;
/// One band key for all objects.
const ALL: u64 = 5;
/// A cost centre stack, by its number.
const STACK: u64 = 6;
/// A cost centre, by its number. Its name as a band key is the centre's module.
const CENTRE: u64 = 7;

/// The names of the kinds, by space (in the order of their numbers) and form.
const KINDS: [[&str; FORMS]; SPACES] = [
    [
        "SMALL_OBJECT",
        "SMALL_MUTABLE",
        "SMALL_LEAF",
        "SMALL_ARRAY",
        "SMALL_MUTABLE_ARRAY",
        "SMALL_LEAF_ARRAY",
        "SMALL_WEAK",
    ],
    [
        "PINNED_OBJECT",
        "PINNED_MUTABLE",
        "PINNED_LEAF",
        "PINNED_ARRAY",
        "PINNED_MUTABLE_ARRAY",
        "PINNED_LEAF_ARRAY",
        "PINNED_WEAK",
    ],
    [
        "LARGE_OBJECT",
        "LARGE_MUTABLE",
        "LARGE_LEAF",
        "LARGE_ARRAY",
        "LARGE_MUTABLE_ARRAY",
        "LARGE_LEAF_ARRAY",
        "LARGE_WEAK",
    ],
];
const FORMS: usize = 7;

/// The form of a type's objects, as an index into a row of [`KINDS`].
fn form(info: &TypeInfo) -> usize {
    match (info.shape, info.is_array, info.mutable) {
        (Shape::Weak, ..) => 6,
        (Shape::Leaf, false, _) => 2,
        (Shape::Leaf, true, _) => 5,
        (_, false, false) => 0,
        (_, false, true) => 1,
        (_, true, false) => 3,
        (_, true, true) => 4,
    }
}

/// The cost centre stack that an object is charged to; MAIN in a world that does not charge.
#[inline(always)]
fn charged(object: &Object, heap: &Heap) -> StackId {
    charge_of(heap, object.cell).unwrap_or(StackId::MAIN)
}

impl BandKey {
    /// The band key that all objects have in common.
    pub(crate) const ALL: BandKey = BandKey(ALL);

    /// The band key by description: the object's own one, or else its type's name.
    #[inline(always)]
    pub(crate) fn description(payload: usize, info: &'static TypeInfo) -> BandKey {
        if let Some(offset) = info.description {
            // SAFETY: the type has promised that there is a `Description`, which is one atomic word.
            let label = unsafe { (*((payload + offset) as *const AtomicU64)).load(Relaxed) };
            if label != 0 {
                return BandKey(label << TAG_BITS | DESCRIBED_BY_ITSELF);
            }
        }
        BandKey(std::ptr::from_ref(info) as u64 | DESCRIBED_BY_TYPE)
    }

    /// The band key by type.
    #[inline(always)]
    pub(crate) fn of_type(object: &Object) -> BandKey {
        BandKey(std::ptr::from_ref(object.info) as u64 | TYPE)
    }

    /// The band key by kind of object.
    #[inline(always)]
    pub(crate) fn kind(object: &Object) -> BandKey {
        BandKey(((object.space as usize * FORMS + form(object.info)) as u64) << TAG_BITS | KIND)
    }

    /// The band key by cost centre stack.
    #[inline(always)]
    pub(crate) fn stack(object: &Object, heap: &Heap) -> BandKey {
        BandKey(u64::from(charged(object, heap).get()) << TAG_BITS | STACK)
    }

    /// The band key by the innermost centre of the cost centre stack.
    #[inline(always)]
    pub(crate) fn centre(object: &Object, heap: &Heap) -> BandKey {
        BandKey(u64::from(charged(object, heap).centre().get()) << TAG_BITS | CENTRE)
    }

    /// The cost centre stack, if the band key is one.
    pub(crate) fn as_stack(self) -> Option<StackId> {
        (self.0 & TAG == STACK).then(|| StackId::from_raw((self.0 >> TAG_BITS) as u32))
    }

    /// The cost centre, if the band key is one.
    pub(crate) fn as_centre(self) -> Option<CentreId> {
        CentreId::from_raw((self.0 >> TAG_BITS) as u32).filter(|_| self.0 & TAG == CENTRE)
    }

    /// The band key by set of retainers, as numbered in this census.
    #[inline(always)]
    pub(crate) fn retainers(set: u32) -> BandKey {
        BandKey(u64::from(set) << TAG_BITS | RETAINERS)
    }

    /// The set of retainers, if the band key is one.
    pub(crate) fn set(self) -> Option<u32> {
        (self.0 & TAG == RETAINERS).then_some((self.0 >> TAG_BITS) as u32)
    }

    /// A hash in the range `0..places`; `places` is a power of two above 1.
    #[inline(always)]
    pub(crate) const fn spread_over(self, places: usize) -> usize {
        (self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - places.ilog2())) as usize
    }

    /// Returns the number that identifies the band key.
    pub(crate) const fn number(self) -> u64 {
        self.0
    }

    /// The inverse of [`number`](Self::number), for a number of the same run.
    pub(crate) const fn from_number(number: u64) -> BandKey {
        BandKey(number)
    }

    /// Calls `visit` with the pieces of the band key's name, in order. Does not allocate.
    pub(crate) fn for_each_piece(self, mut visit: impl FnMut(&str)) {
        let value = self.0 >> TAG_BITS;
        // SAFETY: only the address of a description, which lives for ever, becomes such a band key.
        let info = || unsafe { &*((self.0 & !TAG) as *const TypeInfo) };
        match self.0 & TAG {
            DESCRIBED_BY_TYPE => visit(info().name()),
            DESCRIBED_BY_ITSELF => {
                let text = Label::from_raw(value).and_then(|label| Labels::of_the_process().text(label));
                visit(text.unwrap_or("?"));
            }
            TYPE => {
                let info = info();
                if info.is_described() { visit(info.name()) } else { short(info.rust_name(), visit) }
            }
            STACK => {
                let stack = StackId::from_raw(value as u32);
                visit(stack.centre().label());
                for outer in stack.centres().skip(1) {
                    visit("/");
                    visit(outer.label());
                }
            }
            CENTRE => visit(CentreId::from_raw(value as u32).map_or("?", CentreId::module)),
            KIND => visit(KINDS[value as usize / FORMS][value as usize % FORMS]),
            _ => visit("?"),
        }
    }

    /// Returns the band key's name.
    pub(crate) fn text(self) -> String {
        let mut text = String::new();
        self.for_each_piece(|piece| text.push_str(piece));
        text
    }

    /// Returns whether this is the band key's name. Does not allocate.
    pub(crate) fn is_called(self, text: &str) -> bool {
        let mut rest = Some(text);
        self.for_each_piece(|piece| rest = rest.and_then(|rest| rest.strip_prefix(piece)));
        rest == Some("")
    }
}

/// Visits the name of a Rust type without paths and without blanks.
fn short(mut name: &str, mut visit: impl FnMut(&str)) {
    while !name.is_empty() {
        let end = name.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(name.len());
        let (word, rest) = name.split_at(end);
        if let Some(rest) = rest.strip_prefix("::").filter(|_| !word.is_empty()) {
            name = rest;
            continue;
        }
        visit(word);
        let mut rest = rest.chars();
        let before = rest.as_str();
        match rest.next() {
            Some(' ') | None => {}
            Some(sign) => visit(&before[..sign.len_utf8()]),
        }
        name = rest.as_str();
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::heap::array::Array;
    use crate::heap::blocks::Cell;
    use crate::heap::cell::GcCell;
    use crate::heap::layout::Space;
    use crate::heap::pointer::{Gc, WeakCell};
    use crate::heap::trace::{Described, Leaf, Trace};

    #[rstest]
    #[case("u64", "u64")]
    #[case("alloc::string::String", "String")]
    #[case("a::Array<b::c::GcCell<core::option::Option<b::Gc<d::Node>>>>", "Array<GcCell<Option<Gc<Node>>>>")]
    #[case("std::collections::HashMap<u8, (x::Y, [z::Z; 3])>", "HashMap<u8,(Y,[Z;3])>")]
    #[case("<a::B as c::D>::E", "<BasD>::E")]
    #[case("größe::Ü", "Ü")]
    #[case("", "")]
    fn a_type_is_named_without_its_paths(#[case] name: &str, #[case] expected: &str) {
        let mut text = String::new();
        short(name, |piece| text.push_str(piece));
        assert_eq!(text, expected);
    }

    fn object(info: &'static TypeInfo, space: Space) -> Object {
        Object { cell: Cell { header: 0, block: 0, index: 0 }, info, bytes: 16, space }
    }

    #[rstest]
    #[case(<Leaf<u64> as Described>::INFO, Space::Small, "SMALL_LEAF", "Leaf", "Leaf<u64>")]
    #[case(<Array<u64> as Described>::INFO, Space::Large, "LARGE_LEAF_ARRAY", "u64[]", "Array<u64>")]
    #[case(<Array<Gc<u64>> as Described>::INFO, Space::Pinned, "PINNED_ARRAY", "Gc[]", "Array<Gc<u64>>")]
    #[case(<Array<GcCell<Gc<u64>>> as Described>::INFO, Space::Small, "SMALL_MUTABLE_ARRAY", "GcCell[]", "Array<GcCell<Gc<u64>>>")]
    #[case(<GcCell<Gc<u64>> as Described>::INFO, Space::Small, "SMALL_MUTABLE", "GcCell", "GcCell<Gc<u64>>")]
    #[case(<GcCell<u64> as Described>::INFO, Space::Small, "SMALL_LEAF", "GcCell", "GcCell<u64>")]
    #[case(<Gc<u64> as Described>::INFO, Space::Small, "SMALL_OBJECT", "Gc", "Gc<u64>")]
    #[case(<WeakCell<u64> as Described>::INFO, Space::Small, "SMALL_WEAK", "Weak", "WeakCell<u64>")]
    fn headings_have_names(
        #[case] info: &'static TypeInfo,
        #[case] space: Space,
        #[case] kind: &str,
        #[case] description: &str,
        #[case] of_type: &str,
    ) {
        let object = object(info, space);
        for (band_key, name) in [
            (BandKey::kind(&object), kind),
            (BandKey::description(0, info), description),
            (BandKey::of_type(&object), of_type),
        ] {
            assert_eq!(band_key.text(), name);
            assert!(band_key.is_called(name));
            assert!(!band_key.is_called(&name[1..]) && !band_key.is_called(&format!("{name}x")));
        }
    }

    #[test]
    fn an_objects_own_description_is_its_name() {
        #[repr(C)]
        struct Named(u64, crate::Description);
        // SAFETY: no references; the description is at that offset.
        unsafe impl Trace for Named {
            const NAME: &'static str = "Named";
            const LAYOUT: crate::Layout = crate::Layout::LEAF;
            const DESCRIPTION: Option<usize> = Some(8);
        }
        let named = Named(7, crate::Description::none());
        let called = || BandKey::description(std::ptr::from_ref(&named) as usize, Named::INFO).text();
        assert_eq!((named.0, called().as_str()), (7, "Named"));
        named.1.set(Labels::of_the_process().intern("fibonacci").unwrap());
        assert_eq!(called(), "fibonacci");
    }
}
