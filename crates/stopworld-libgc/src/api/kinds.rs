//! Kinds of objects: those that every program has, those that it makes, and descriptions of their pointers.

use std::ffi::{c_int, c_void};
use std::ptr;

use stopworld::TypeInfo;

use crate::library::{Library, SizedKind};

use super::malloc::{allocate, many, out_of_memory, uncollectable};
use super::objects::is_of;

/// The numbers of the kinds that every program has.
pub(crate) const ATOMIC: c_int = 0;
pub(crate) const NORMAL: c_int = 1;
pub(crate) const UNCOLLECTABLE: c_int = 2;
pub(crate) const ATOMIC_UNCOLLECTABLE: c_int = 3;

/// A kind, and its number.
#[derive(Clone, Copy)]
pub(crate) struct KindFacts {
    pub(crate) number: c_int,
    pub(crate) variants: SizedKind,
    pub(crate) is_uncollectable: bool,
}

/// Returns the kind of an object, by its description. `None` for objects that are not the program's, such as freed ones.
pub(crate) fn kind_of(library: &'static Library, type_info: &'static TypeInfo) -> Option<KindFacts> {
    let kinds = &library.kinds;
    let own = [
        (NORMAL, &kinds.normal, false),
        (ATOMIC, &kinds.atomic, false),
        (UNCOLLECTABLE, &kinds.uncollectable, true),
        (ATOMIC_UNCOLLECTABLE, &kinds.atomic_uncollectable, true),
    ];
    let found = own.into_iter().find(|(_, variants, _)| is_of(variants, type_info));
    found.map(|(number, variants, is_uncollectable)| KindFacts { number, variants: *variants, is_uncollectable })
}
