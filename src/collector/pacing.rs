//! When to collect.
//!
//! Marking costs time in proportion to the live heap *L*; a collection is due after *B* bytes were allocated. So
//! each allocated byte pays for *c·L / B* of marking, and between two collections the heap holds up to *H = L + B*
//! bytes, plus what is lost to fragmentation. *B* is chosen in one of three ways, by the size of the heap:
//!
//! ```text
//!    H ▲                                  ,·  large: H = (1 + g)·L
//!      │                              ,·
//!      │                          .·
//!      │                    .  ·             H = L + ¾·F
//! k·F  ├ ─ ─ ─ ─ .──────·                   middling: H = k·F
//!      │       ,
//!      │     ,       small: H = F + s·L
//!   F  ├ ─ ·
//!      └──────────────────────────────────▶ L
//! ```
//!
//! - **Small**: next to nothing is alive, and a collection costs little more than the stop. A large budget costs cache misses: a
//!   thread that uses 10 MB between two collections allocates a third faster than one that uses 30 MB. So the floor *F*
//!   (`floor_bytes`) is as much as stays in the cache. It is larger for each mutator that has a processor: several threads
//!   allocate several times as fast, and every stop costs each of them two context switches. A collector whose budget depends
//!   only on the live heap lets *n* threads stop each other *n* times as often (bdwgc at a 2 MiB heap with 2 threads: 8,500
//!   collections where 700 are enough). *s* is 3, and 2 in a world of untyped objects.
//! - **Middling**: memory is cheap, and the cost is in marking. With the default rate *g* below, *k* is 2.3, and *B* is at least ¾ of the floor.
//!   A higher rate, which gives more memory for less marking, raises *k* in proportion: a world with a low floor, for programs that live in a
//!   few megabytes, then still lets a heap of ten megabytes grow enough to be marked seldom.
//! - **Large**: memory is expensive. *B = g·L* makes the marking cost of an allocated byte the constant *c / g*, whatever the
//!   program's size: the usual trade of time for space, with *g* (`growth`) as its rate. At *g* = 1/4 an allocated byte
//!   pays for the marking of four live bytes. That is much, but it applies only while a heap *grows*: a heap that has reached
//!   its size may use all memory that it holds anyway, as follows.
//!
//! Memory that the heap holds may be used before it collects: seven eighths of the memory that is resident and not alive; the last
//! eighth is for fragmentation. This rule alone would keep a heap large for ever that was large once. So memory far beyond
//! what the formulas above require is returned to the kernel ([`Pacing::surplus`]).
//!
//! A program that knows how much memory it will need can request a minimum size of the heap. The heap may then grow to that size before
//! it collects, as if the memory were resident already. None of it is returned to the kernel.
//!
//! The heap limit has precedence: the budget is at most what is left below the limit. Reaching the limit is not an
//! error but a reason to collect ([`Need::Room`](crate::heap::Need::Room)).

/// The rates by which a world decides when to collect.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pacing {
    /// Bytes that may always be allocated between two collections, however little is alive.
    pub(crate) floor_bytes: u64,
    /// Bytes that are added to `floor_bytes` for each mutator that has a processor.
    pub(crate) floor_bytes_per_mutator: u64,
    /// How many mutators can run at once.
    pub(crate) processors: usize,
    /// The factor *s* in the picture: a small heap has the floor plus this many times its live bytes. At least 1.
    pub(crate) small: u64,
    /// Bytes that may be allocated for each live byte.
    pub(crate) growth: f64,
    /// The bytes that may be allocated between two collections, whatever is alive and resident: for stress tests.
    pub(crate) every: Option<u64>,
    /// Whether a collection precedes each allocation: for stress tests.
    pub(crate) each_allocation: bool,
}

/// The default for [`Pacing::growth`].
pub(crate) const GROWTH: f64 = 0.25;

/// The default for [`Pacing::small`].
pub(crate) const SMALL: u64 = 3;

/// [`Pacing::small`] of a world of untyped objects: its programs were made for a collector that lets a small heap grow less.
pub(crate) const SMALL_UNTYPED: u64 = 2;

/// The factor *k* in the picture with the default rate: a middling heap has this many floors.
const MIDDLING: f64 = 2.3;

impl Pacing {
    /// Returns the number of bytes that may be allocated before the next collection. `held_bytes` is the larger of the resident bytes and
    /// the minimum size of the heap.
    pub(crate) fn budget(&self, live_bytes: u64, mutators: usize, limit_bytes: u64, held_bytes: u64) -> u64 {
        let spare = held_bytes.saturating_sub(live_bytes) / 8 * 7;
        // The budget is at least 64 KiB, so that the program makes progress also if the heap is at its limit, or if the floor is 0.
        let wanted = self.every.unwrap_or_else(|| self.paced(live_bytes, mutators).max(spare).max(1 << 16));
        wanted.min(limit_bytes.saturating_sub(live_bytes).max(1 << 16))
    }

    fn paced(&self, live_bytes: u64, mutators: usize) -> u64 {
        // The arithmetic here and below saturates: users may choose any floor and any growth, and this runs in the stopped world, where a
        // panic is not allowed.
        let running = mutators.min(self.processors) as u64;
        let floor = self.floor_bytes.saturating_add(self.floor_bytes_per_mutator.saturating_mul(running));
        let small = floor.saturating_add(live_bytes.saturating_mul(self.small - 1));
        let floors = MIDDLING * (self.growth / GROWTH).max(1.0);
        let middling = ((floor as f64 * floors) as u64).saturating_sub(live_bytes).max(floor / 4 * 3);
        let large = (live_bytes as f64 * self.growth) as u64;
        small.min(middling).max(large)
    }

    /// The number of bytes that may stay resident: at least the minimum size of the heap. `None` if it is not worth returning memory to the
    /// kernel.
    pub(crate) fn surplus(
        &self,
        live_bytes: u64,
        mutators: usize,
        resident_bytes: u64,
        minimum_bytes: u64,
    ) -> Option<u64> {
        let wanted = live_bytes.saturating_add(self.paced(live_bytes, mutators));
        let most = wanted.saturating_mul(3).max(minimum_bytes);
        (resident_bytes > most).then(|| (wanted / 2 * 3).max(minimum_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    const MIB: u64 = 1 << 20;
    const PACING: Pacing = Pacing {
        floor_bytes: 4 * MIB,
        floor_bytes_per_mutator: 6 * MIB,
        processors: 4,
        small: SMALL,
        growth: GROWTH,
        every: None,
        each_allocation: false,
    };

    #[rstest]
    #[case::an_empty_heap_gets_the_floor(0, 1, 1 << 40, 10 * MIB)]
    #[case::each_mutator_raises_the_floor(0, 3, 1 << 40, 22 * MIB)]
    #[case::but_only_as_many_as_can_run(0, 64, 1 << 40, 28 * MIB)]
    #[case::a_small_heap_may_triple(3 * MIB, 1, 1 << 40, 16 * MIB)]
    #[case::a_middling_one_has_its_size(10 * MIB, 1, 1 << 40, 13 * MIB)]
    #[case::but_a_budget_of_at_least_three_quarters_of_the_floor(20 * MIB, 1, 1 << 40, 15 * MIB / 2)]
    #[case::a_large_one_is_paced_by_what_is_alive(1000 * MIB, 4, 1 << 40, 250 * MIB)]
    #[case::the_limit_is_above_all(1000 * MIB, 4, 1010 * MIB, 10 * MIB)]
    fn the_budget(#[case] live: u64, #[case] mutators: usize, #[case] limit: u64, #[case] budget: u64) {
        assert_eq!(PACING.budget(live, mutators, limit, 0), budget);
    }

    #[test]
    fn a_small_heap_of_untyped_objects_may_double() {
        assert_eq!(Pacing { small: SMALL_UNTYPED, ..PACING }.budget(3 * MIB, 1, 1 << 40, 0), 13 * MIB);
    }

    #[rstest]
    #[case::a_low_rate_changes_no_middling_heap(0.1, 15 * MIB / 2)]
    #[case::a_double_rate_doubles_it(0.5, 30 * MIB)]
    #[case::an_absurd_one_ends_at_the_limit(1e300, (1 << 40) - 16 * MIB)]
    fn the_budget_of_a_middling_heap(#[case] growth: f64, #[case] budget: u64) {
        assert_eq!(Pacing { growth, ..PACING }.budget(16 * MIB, 1, 1 << 40, 0), budget);
    }

    #[test]
    fn a_fixed_budget_depends_only_on_the_limit() {
        let stress = Pacing { every: Some(MIB), ..PACING };
        assert_eq!(stress.budget(100 * MIB, 4, 1 << 40, 1000 * MIB), MIB);
        assert_eq!(stress.budget(100 * MIB, 4, 100 * MIB, 0), 1 << 16);
    }

    proptest! {
        /// With more live bytes the heap never gets smaller, and with more mutators it never collects more often.
        #[test]
        fn the_heap_grows_with_what_is_alive(live in 0..1_u64 << 32, more in 0..1_u64 << 30, mutators in 1_usize..9) {
            prop_assert!(live + PACING.paced(live, mutators) <= live + more + PACING.paced(live + more, mutators) + 1);
            prop_assert!(PACING.paced(live, mutators) <= PACING.paced(live, mutators + 1));
        }
    }

    #[test]
    fn memory_that_the_heap_holds_anyway_is_used_and_much_more_is_given_back() {
        assert_eq!(PACING.budget(10 * MIB, 1, 1 << 40, 50 * MIB), 35 * MIB);
        assert_eq!(PACING.surplus(10 * MIB, 1, 50 * MIB, 0), None);
        assert_eq!(PACING.surplus(10 * MIB, 1, 1000 * MIB, 0), Some(69 * MIB / 2));
    }

    #[test]
    fn a_requested_minimum_is_never_given_back() {
        assert_eq!(PACING.surplus(10 * MIB, 1, 1000 * MIB, 1000 * MIB), None);
        assert_eq!(PACING.surplus(10 * MIB, 1, 1001 * MIB, 1000 * MIB), Some(1000 * MIB));
    }
}
