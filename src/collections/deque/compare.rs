//! The comparisons of a [`GcDeque`], as those of `VecDeque`: by the elements, from the front to the back. Each costs O(n) of its calls.

use std::cmp;
use std::hash::{Hash, Hasher};

use super::queue::GcDeque;
use crate::Trace;
use crate::collections::vec::GcVec;

macro_rules! equal {
    ($({$($generics:tt)+} $other:ty;)+) => {
        $(
            impl<T: Trace + PartialEq<U>, $($generics)+> PartialEq<$other> for GcDeque<T> {
                fn eq(&self, other: &$other) -> bool {
                    self.len() == other.len() && self.iter().zip(other.iter()).all(|(one, other)| one == other)
                }
            }
        )+
    };
}

equal! {
    {U: Trace} GcDeque<U>;
    {U: Trace} GcVec<U>;
    {U} [U];
    {U} &[U];
    {U} &mut [U];
    {U, const N: usize} [U; N];
    {U, const N: usize} &[U; N];
    {U} Vec<U>;
}

impl<T: Trace + Eq> Eq for GcDeque<T> {}

impl<T: Trace + PartialOrd> PartialOrd for GcDeque<T> {
    fn partial_cmp(&self, other: &Self) -> Option<cmp::Ordering> {
        self.iter().partial_cmp(other.iter())
    }
}

impl<T: Trace + Ord> Ord for GcDeque<T> {
    fn cmp(&self, other: &Self) -> cmp::Ordering {
        self.iter().cmp(other.iter())
    }
}

impl<T: Trace + Hash> Hash for GcDeque<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.len().hash(state);
        self.iter().for_each(|element| element.hash(state));
    }
}
