//! Which kind an object is of.

use std::ffi::c_int;

use stopworld::TypeInfo;

use crate::library::Library;
use crate::lock::LOCK;
use crate::tables::kinds::{MADE, SizedKind, is_of, own_kind_of};

/// The numbers of the kinds that every program has.
pub(crate) const ATOMIC: c_int = 0;
pub(crate) const NORMAL: c_int = 1;
pub(crate) const UNCOLLECTABLE: c_int = 2;
pub(crate) const ATOMIC_UNCOLLECTABLE: c_int = 3;

/// What is known of an object's kind.
#[derive(Clone, Copy)]
pub(crate) struct KindFacts {
    pub(crate) number: c_int,
    pub(crate) variants: SizedKind,
    /// Whether objects of this kind may be in the table of uncollectable ones.
    pub(crate) may_be_uncollectable: bool,
}

/// Returns the kind of an object, by its description. `None` for objects that are not the program's, such as freed ones.
pub(crate) fn kind_of(library: &'static Library, type_info: &'static TypeInfo) -> Option<KindFacts> {
    let kinds = &library.kinds;
    let always = [
        (NORMAL, &kinds.normal, false),
        (ATOMIC, &kinds.atomic, false),
        (UNCOLLECTABLE, &kinds.uncollectable, true),
        (ATOMIC_UNCOLLECTABLE, &kinds.atomic_uncollectable, true),
    ];
    if let Some((number, variants, may_be_uncollectable)) = always.into_iter().find(|kind| is_of(kind.1, type_info)) {
        return Some(KindFacts { number, variants: *variants, may_be_uncollectable });
    }
    if let Some((number, kind)) = own_kind_of(type_info) {
        return Some(KindFacts { number: number as c_int, variants: kind.variants, may_be_uncollectable: true });
    }
    let variants = MADE.get(&LOCK.lock()).described_kind(type_info)?;
    Some(KindFacts { number: NORMAL, variants, may_be_uncollectable: false })
}
