//! When to collect.
//!
//! Marking costs time in proportion to the live heap *L*; a collection is due after *B* bytes were allocated. So
//! each allocated byte pays for *c·L / B* of marking, and between two collections the heap holds up to *L + B*
//! bytes and what fragmentation adds. With *B = g·L* the price of a byte is the constant *c / g*, whatever the
//! program's size, and the heap is at most *(1 + g)·L*: the classical trade of time for space, of which *g*
//! (`growth`) is the rate. At *g* = 1 an allocated byte costs the marking of one live byte.
//!
//! Two floors keep small heaps from collecting all the time:
//!
//! - A fixed one, so that a program with almost nothing alive does not stop the world for it.
//! - One for each mutator. Every stop costs each thread a switch out and back in, and several threads allocate
//!   several times as fast: a collector whose budget knows only the live heap lets *n* threads stop each other *n*
//!   times as often (bdwgc at a 2 MiB heap with 2 threads: 8,500 collections where 700 would do).
//!
//! Memory that the heap holds anyway may be used before it collects: three quarters of what is resident and not
//! alive are a third floor. It would keep a heap that was large once large for ever; so memory that is far more than
//! pacing asks for goes back to the kernel ([`Pacing::surplus`]).
//!
//! Above all is the heap limit: the budget is what is left of it, if that is less, and running into it is not an
//! error but a reason to collect ([`Need::Room`](crate::heap::Need::Room)).

/// The rates by which a world decides when to collect.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pacing {
    /// Bytes that may always be allocated between two collections.
    pub(crate) floor_bytes: u64,
    /// As much again for each mutator.
    pub(crate) floor_bytes_per_mutator: u64,
    /// Bytes that may be allocated for each live byte.
    pub(crate) growth: f64,
}

impl Default for Pacing {
    fn default() -> Self {
        Self { floor_bytes: 8 << 20, floor_bytes_per_mutator: 2 << 20, growth: 0.5 }
    }
}

impl Pacing {
    /// Bytes to allocate before the next collection.
    pub(crate) fn budget(&self, live_bytes: u64, mutators: usize, limit_bytes: u64, resident_bytes: u64) -> u64 {
        let spare = resident_bytes.saturating_sub(live_bytes) / 4 * 3;
        // A little at least, so that a heap at its limit, or one without a floor, still gets something done.
        let wanted = self.paced(live_bytes, mutators).max(spare).max(1 << 16);
        wanted.min(limit_bytes.saturating_sub(live_bytes).max(1 << 16))
    }

    fn paced(&self, live_bytes: u64, mutators: usize) -> u64 {
        // Saturating, here and below: any floor and any growth may be asked for, and this runs in the stopped world.
        let floor = self.floor_bytes.saturating_add(self.floor_bytes_per_mutator.saturating_mul(mutators as u64));
        ((live_bytes as f64 * self.growth) as u64).max(floor)
    }

    /// How many bytes may stay resident, if so many more are that it is worth giving memory back.
    pub(crate) fn surplus(&self, live_bytes: u64, mutators: usize, resident_bytes: u64) -> Option<u64> {
        let wanted = live_bytes.saturating_add(self.paced(live_bytes, mutators));
        (resident_bytes > wanted.saturating_mul(3)).then(|| wanted / 2 * 3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    const MIB: u64 = 1 << 20;

    #[rstest]
    #[case::a_small_heap_gets_the_floor(MIB, 1, 1 << 40, 10 * MIB)]
    #[case::each_mutator_raises_the_floor(MIB, 8, 1 << 40, 24 * MIB)]
    #[case::a_large_heap_is_paced_by_what_is_alive(1000 * MIB, 8, 1 << 40, 500 * MIB)]
    #[case::the_limit_is_above_all(1000 * MIB, 8, 1010 * MIB, 10 * MIB)]
    fn the_budget(#[case] live: u64, #[case] mutators: usize, #[case] limit: u64, #[case] budget: u64) {
        assert_eq!(Pacing::default().budget(live, mutators, limit, 0), budget);
    }

    #[test]
    fn memory_that_the_heap_holds_anyway_is_used_and_much_more_is_given_back() {
        let pacing = Pacing::default();
        assert_eq!(pacing.budget(10 * MIB, 1, 1 << 40, 50 * MIB), 30 * MIB);
        assert_eq!(pacing.surplus(10 * MIB, 1, 50 * MIB), None);
        assert_eq!(pacing.surplus(10 * MIB, 1, 1000 * MIB), Some(30 * MIB));
    }
}
