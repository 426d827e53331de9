//! The comparisons of a [`GcVec`], as those of `Vec`: by the elements, one after the other. Each costs O(n) of its calls.

use std::cmp;
use std::hash::{Hash, Hasher};

use super::vector::GcVec;
use crate::Trace;

macro_rules! equal {
    ($({$($generics:tt)+} $one:ty, $other:ty;)+) => {
        $(
            impl<$($generics)+> PartialEq<$other> for $one {
                fn eq(&self, other: &$other) -> bool {
                    self[..] == other[..]
                }
            }
        )+
    };
}

equal! {
    {T: Trace + PartialEq<U>, U: Trace} GcVec<T>, GcVec<U>;
    {T: Trace + PartialEq<U>, U} GcVec<T>, [U];
    {T: Trace + PartialEq<U>, U} GcVec<T>, &[U];
    {T: Trace + PartialEq<U>, U} GcVec<T>, &mut [U];
    {T: Trace + PartialEq<U>, U, const N: usize} GcVec<T>, [U; N];
    {T: Trace + PartialEq<U>, U, const N: usize} GcVec<T>, &[U; N];
    {T: Trace + PartialEq<U>, U} GcVec<T>, Vec<U>;
    {T: PartialEq<U>, U: Trace} [T], GcVec<U>;
    {T: PartialEq<U>, U: Trace} &[T], GcVec<U>;
    {T: PartialEq<U>, U: Trace} &mut [T], GcVec<U>;
    {T: PartialEq<U>, U: Trace} Vec<T>, GcVec<U>;
}

impl<T: Trace + Eq> Eq for GcVec<T> {}

impl<T: Trace + PartialOrd> PartialOrd for GcVec<T> {
    fn partial_cmp(&self, other: &Self) -> Option<cmp::Ordering> {
        self.as_slice().partial_cmp(other.as_slice())
    }
}

impl<T: Trace + Ord> Ord for GcVec<T> {
    fn cmp(&self, other: &Self) -> cmp::Ordering {
        self.as_slice().cmp(other.as_slice())
    }
}

impl<T: Trace + Hash> Hash for GcVec<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_slice().hash(state);
    }
}
