//! Work on consecutive numbers, which several threads can share.

use std::ops::Range;

/// Visits the numbers of a range. Called by several threads at once.
pub(crate) type Visit<'a> = dyn Fn(Range<usize>) + Sync + 'a;

/// Visits all numbers below a bound, in ranges, on one thread or several.
pub(crate) trait InRanges {
    /// Calls `visit` with ranges that together contain each number below `count` once. A thread takes `at_once` of them at a time. Returns when
    /// all calls have returned, whose effects are visible then.
    fn for_each(&self, count: usize, at_once: usize, visit: &Visit<'_>);
}

/// Visits everything at once on the calling thread.
#[cfg(test)]
pub(crate) struct Alone;

#[cfg(test)]
impl InRanges for Alone {
    fn for_each(&self, count: usize, _at_once: usize, visit: &Visit<'_>) {
        visit(0..count);
    }
}
