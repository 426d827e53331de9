//! Retainers: what keeps each object alive.
//!
//! A *retainer* is a place where the program can drop a reference: a thread (through the references on its stacks), a handle, a
//! registered range, a waiting finalizer, and every object whose references may change (a *mutable cell*: a type with a
//! [`GcCell`](crate::GcCell) of a reference). An object's **retainer set** contains each retainer from which it can be reached
//! without passing through another mutable cell. Objects whose references cannot change pass on their sets.
//!
//! ```text
//!   thread:main ──▶ Pair ──▶ String          String: {thread:main}
//!   handle:Cache ─▶ Cache (mutable) ──▶ Entry ──▶ String      Cache: {handle:Cache}; Entry and this String: {Cache}
//!                                        ▲
//!   thread:main ─────────────────────────┘   and then Entry and its String: {Cache, thread:main}
//! ```
//!
//! Retainers are identified by name: a thread by its own, a handle by the description of its object, a mutable cell by its own
//! description. So a million nodes that refer to each other are one retainer, and a set says what to look for in the program.
//!
//! # How the sets are found
//! Each object has a word in a side table (`retainers/words.rs`): the number of its set. Sets are interned: equal sets have one
//! number, a set is made at most once, and the union of two sets is cached. First each root adds itself to the sets of the objects
//! that it refers to. Then (`retainers/spread.rs`) every mutable cell adds itself to the sets of the objects that it refers to,
//! and every other object adds its own set. An object whose set grows after that adds it again, until no set grows.
//!
//! - **It terminates**, with or without cycles: a set only grows, and by at most
//!   [`most_retainers`](crate::profile::census::CensusRequest::most_retainers) members; with one more it is MANY, which does not
//!   grow (`.retainer.bound`). So with a bound of *k* an object is processed at most *k* + 2 times, a mutable cell once, and the
//!   total cost is at most (*k* + 2) times the number of references.
//! - **The result does not depend on the order**: it is the least solution of the equations "the set of an object is the union of the
//!   sets that its referrers pass on". A set that has become MANY stays MANY, so there is exactly one least solution. So neither
//!   addresses nor the number of markers affect a profile. The order only affects the cost: the heap is walked in the order of
//!   addresses, not along references, and so the only cache misses are those for the words of referenced objects. The search
//!   takes about as long as marking with one marker, a third longer where few objects are mutable (`benches/census.rs`).
//! - **The search does not use malloc**: the side table (4 bytes for each 16 of the heap, untouched where there are no objects), the
//!   sets and the work list are mapped memory. If the work list cannot grow (its limit is that of a marker's stack), the missing
//!   entries are found by a walk over the heap, since each pending object has a bit set. If the sets cannot grow, an object is
//!   counted under MANY.
//! - **The search keeps no memory** between two censuses, and no memory is zeroed or faulted in while the world is stopped: the side
//!   table is mapped before the stop and released after the restart.

mod spread;
mod words;

use std::collections::HashMap;
use std::io;

use words::SET;

use super::census::band_key::BandKey;
use super::census::count::Count;
use super::census::table::{Key, List, Table};
use crate::collector::Collector;
use crate::collector::live_heap::{LiveHeap, Root};
use crate::collector::roots::RootKind;
use crate::events::Labels;
use crate::heap::Heap;
use crate::heap::blocks::{BlockIndex, Cell};
use crate::heap::layout::BLOCK_BYTES;
use crate::sabotage::{Guard, removed};
use crate::world::ThreadName;

/// The set of an object without a known retainer: the object waits for a finalizer that did not fit into the queue.
const NOBODY: u32 = 0;
/// The set that represents all sets with more members than the bound.
const MANY: u32 = 1;
/// The name of the set MANY, as in GHC.
const MANY_NAME: &str = "MANY";
/// The largest bound that may be requested.
const LARGEST_SET: usize = 64;

/// A retainer.
#[derive(Clone, Copy)]
enum Retainer {
    Thread(ThreadName),
    Handle(BandKey),
    /// A mutable cell, by its description.
    Cell(BandKey),
    /// A range that the program registered, by its address.
    Range(usize),
    /// A stack that the program registered, by its address.
    Stack(usize),
    Finalizers,
}

impl Retainer {
    /// Visits the pieces of the name. Does not allocate.
    fn for_each_piece(self, mut visit: impl FnMut(&str)) {
        let mut labelled = |kind, address| {
            visit(kind);
            if let Some(text) = Labels::of_the_process().text_of(address) {
                visit(":");
                visit(text);
            }
        };
        match self {
            Retainer::Thread(name) => {
                visit("thread:");
                visit(name.as_str());
            }
            Retainer::Handle(band_key) => {
                visit("handle:");
                band_key.for_each_piece(visit);
            }
            Retainer::Cell(band_key) => band_key.for_each_piece(visit),
            Retainer::Range(address) => labelled("range", address),
            Retainer::Stack(address) => labelled("stack", address),
            Retainer::Finalizers => visit("finalizers"),
        }
    }

    fn is_called(self, name: &str) -> bool {
        let mut rest = Some(name);
        self.for_each_piece(|piece| rest = rest.and_then(|rest| rest.strip_prefix(piece)));
        rest == Some("")
    }

    fn text(self) -> String {
        let mut text = String::new();
        self.for_each_piece(|piece| text.push_str(piece));
        text
    }
}

/// Sets of retainers, interned.
struct Sets {
    most: usize,
    /// Where the members of each set are.
    spans: List<(u32, u32)>,
    members: List<u32>,
    /// Key: the hash of the members, and an index among the sets with that hash. Value: the set.
    by_members: Table,
    /// Key: two sets. Value: their union.
    joined: Table,
    /// A cache of the latest unions: two sets, and their union.
    recent: [(u64, u32); RECENT],
}

/// The number of entries of the cache of unions, `recent`. A power of two.
const RECENT: usize = 512;

/// The index of a pair of sets in the cache of unions: the upper bits of Fibonacci hashing.
#[inline(always)]
const fn place_of(pair: u64) -> usize {
    (pair.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - RECENT.ilog2())) as usize
}

impl Sets {
    fn new(most: usize) -> io::Result<Sets> {
        let mut sets = Sets {
            most: most.clamp(1, LARGEST_SET),
            spans: List::new()?,
            members: List::new()?,
            by_members: Table::new()?,
            joined: Table::new()?,
            recent: [(0, NOBODY); RECENT],
        };
        sets.forget();
        Ok(sets)
    }

    fn forget(&mut self) {
        self.by_members.reset();
        self.joined.reset();
        self.members.reset();
        self.spans.reset();
        self.recent = [(0, NOBODY); RECENT];
        // The sets NOBODY and MANY.
        self.spans.push((0, 0));
        self.spans.push((0, 0));
    }

    fn members(&self, set: u32) -> &[u32] {
        let (first, count) = self.spans.as_slice()[set as usize];
        &self.members.as_slice()[first as usize..(first + count) as usize]
    }

    /// Returns the number of the set with these members, in this order.
    fn intern(&mut self, members: &[u32]) -> u32 {
        let hash = members
            .iter()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, &member| (hash ^ u64::from(member)).wrapping_mul(0x0100_0000_01b3));
        for same in 0.. {
            let key = Key(hash | 1, same);
            match self.by_members.get(key) {
                Some([set, _]) if self.members(set as u32) == members => return set as u32,
                Some(_) => {}
                None => return self.add(key, members),
            }
        }
        MANY
    }

    /// Adds a set. Returns MANY if there is no memory for it.
    fn add(&mut self, key: Key, members: &[u32]) -> u32 {
        let (first, set) = (self.members.len(), self.spans.len() as u32);
        let fits = set < SET
            && members.iter().all(|&member| self.members.push(member))
            && self.spans.push((first as u32, members.len() as u32));
        match self.by_members.entry(key).filter(|_| fits) {
            Some(entry) => entry[0] = u64::from(set),
            None => return MANY,
        }
        set
    }

    /// Returns the union of two sets.
    #[inline(always)]
    fn join(&mut self, one: u32, other: u32) -> u32 {
        let pair = u64::from(one) << 32 | u64::from(other);
        let recent = &self.recent[place_of(pair)];
        if recent.0 == pair { recent.1 } else { self.join_anew(one, other) }
    }

    #[inline(never)]
    fn join_anew(&mut self, one: u32, other: u32) -> u32 {
        let pair = u64::from(one) << 32 | u64::from(other);
        let together = match (one, other) {
            (NOBODY, set) | (set, NOBODY) => set,
            (MANY, _) | (_, MANY) => MANY,
            (one, other) if one == other => one,
            _ => self.join_by_table(one, other),
        };
        self.recent[place_of(pair)] = (pair, together);
        together
    }

    fn join_by_table(&mut self, one: u32, other: u32) -> u32 {
        let key = Key(u64::from(one.min(other)) << 32 | u64::from(one.max(other)), 0);
        if let Some([set, _]) = self.joined.get(key) {
            return set as u32;
        }
        let mut together = [0; 2 * LARGEST_SET];
        let count = merge(self.members(one), self.members(other), &mut together);
        let is_many = count > self.most && !removed(Guard::RetainerBound);
        let set = if is_many { MANY } else { self.intern(&together[..count]) };
        if let Some(entry) = self.joined.entry(key) {
            entry[0] = u64::from(set);
        }
        set
    }
}

/// Merges two ascending lists and removes repetitions; `into` must have room for both. Returns the length.
fn merge(mut one: &[u32], mut other: &[u32], into: &mut [u32]) -> usize {
    let mut count = 0;
    loop {
        let next = match (one.first(), other.first()) {
            (None, None) => return count,
            (Some(&a), None) => a,
            (None, Some(&b)) => b,
            (Some(&a), Some(&b)) => a.min(b),
        };
        one = one.strip_prefix(&[next]).unwrap_or(one);
        other = other.strip_prefix(&[next]).unwrap_or(other);
        into[count] = next;
        count += 1;
    }
}

/// Finds the retainers of all live objects.
pub(crate) struct Retainers {
    table: words::Table,
    sets: Sets,
    /// The retainers, each with the set that contains only it.
    retainers: List<(Retainer, u32)>,
    by_identity: Table,
    /// The work list (`spread.rs`): objects to be processed, by the numbers of their cells.
    work: List<usize>,
    /// Whether the work list could not grow.
    overflowed: bool,
    /// A cache: descriptions of mutable cells, and the set that contains only the cell's retainer.
    met: [(u64, u32); MET],
}

/// The number of entries of the cache `met`. A power of two.
const MET: usize = 16;

/// Counts objects of one size by their sets. Most objects have one of a few sets, which have the smallest numbers; only these are
/// summed up here.
struct Tally {
    /// The count of one object.
    one: Count,
    objects: [u64; FEW],
    /// Only the first `used` sums may differ from 0.
    used: usize,
}

/// The number of sets that are summed up here.
const FEW: usize = 256;

impl Tally {
    const fn new() -> Tally {
        Tally { one: Count { bytes: 0, objects: 1 }, objects: [0; FEW], used: 0 }
    }

    /// Starts a block of objects of this size.
    #[inline(always)]
    fn begin(&mut self, bytes: u64, visit: &mut impl FnMut(u32, Count)) {
        if self.one.bytes != bytes {
            self.close(visit);
            self.one.bytes = bytes;
        }
    }

    /// Adds this many objects of a set.
    #[inline(always)]
    fn add(&mut self, Run { set, objects }: Run, visit: &mut impl FnMut(u32, Count)) {
        if let Some(sum) = self.objects.get_mut(set as usize) {
            *sum += objects;
            self.used = self.used.max(set as usize + 1);
        } else if objects > 0 {
            visit(set, self.one.times(objects));
        }
    }

    #[inline(never)]
    fn close(&mut self, visit: &mut impl FnMut(u32, Count)) {
        for (set, objects) in self.objects.iter_mut().enumerate().take(std::mem::take(&mut self.used)) {
            let objects = std::mem::take(objects);
            if objects > 0 {
                visit(set as u32, self.one.times(objects));
            }
        }
    }
}

/// Adjacent objects with the same set.
struct Run {
    set: u32,
    objects: u64,
}

/// The number of words that are compared together.
const TOGETHER: usize = 16;

/// The kind of retainer that an identity belongs to: the second word of its key.
#[derive(Clone, Copy)]
enum Kind {
    Thread = 1,
    Handle = 2,
    Cell = 3,
    Range = 4,
    Stack = 5,
    Finalizers = 6,
}

impl Retainers {
    /// # Errors
    /// The system provides no memory.
    pub(crate) fn new(collector: &Collector, most: usize) -> io::Result<Retainers> {
        Ok(Retainers {
            table: words::Table::new(collector.heap.blocks.reserved_bytes())?,
            sets: Sets::new(most)?,
            retainers: List::new()?,
            by_identity: Table::new()?,
            work: List::of_at_most(collector.markers.stack_bytes() / size_of::<usize>())?,
            overflowed: false,
            met: [(0, NOBODY); MET],
        })
    }

    /// Returns the set of a live object. Valid after [`trace`](Self::trace).
    #[inline(always)]
    pub(crate) fn set_of(&self, cell: Cell) -> u32 {
        self.table.words().get(cell.number()) & SET
    }

    /// Counts all live objects by their sets. A set may be visited several times, with partial counts.
    pub(crate) fn count(&self, live_heap: &LiveHeap<'_>, mut visit: impl FnMut(u32, Count)) {
        let mut tally = Tally::new();
        live_heap.for_each_block(|cells| {
            let words = self.table.words().of_block(&cells);
            let mut run = Run { set: NOBODY, objects: 0 };
            tally.begin(cells.bytes as u64, &mut visit);
            live_heap.masks(&cells).for_each_run(|indices| {
                let (sixteens, rest) = words[indices].as_chunks::<TOGETHER>();
                for words in sixteens {
                    // This loop has no branch for each word.
                    if words.iter().fold(true, |all, word| all & (word & SET == run.set)) {
                        run.objects += TOGETHER as u64;
                        continue;
                    }
                    words.iter().for_each(|word| tally.add(Run { set: word & SET, objects: 1 }, &mut visit));
                    let next = Run { set: words[TOGETHER - 1] & SET, objects: 0 };
                    tally.add(std::mem::replace(&mut run, next), &mut visit);
                }
                rest.iter().for_each(|word| tally.add(Run { set: word & SET, objects: 1 }, &mut visit));
            });
            tally.add(run, &mut visit);
        });
        tally.close(&mut visit);
    }

    /// Maps the memory for the next [`trace`](Self::trace). Call it before the world is stopped, with the collector's locks held.
    pub(crate) fn prepare(&mut self, heap: &Heap) {
        self.forget();
        self.table.prepare(heap.blocks.map(), (heap.committed_bytes() as usize / BLOCK_BYTES) as BlockIndex);
    }

    /// Finds the sets of all live objects, in the stopped world.
    pub(crate) fn trace(&mut self, live_heap: &LiveHeap<'_>) {
        self.table.note_use(live_heap.committed_blocks());
        self.spread(live_heap);
    }

    /// Discards the sets and releases their memory. Call it after the restart.
    pub(crate) fn forget(&mut self) {
        self.table.give_back();
        self.sets.forget();
        self.retainers.reset();
        self.by_identity.reset();
        self.work.reset();
        self.overflowed = false;
        self.met = [(0, NOBODY); MET];
    }

    /// Returns the set that contains only this retainer.
    fn alone(&mut self, identity: u64, kind: Kind, retainer: impl FnOnce() -> Retainer) -> u32 {
        let key = Key(identity, kind as u64);
        if let Some([set, _]) = self.by_identity.get(key) {
            return set as u32;
        }
        // The retainer's number is its index in the list. The members of a set are sorted; a set of one member is.
        let set = self.sets.intern(&[self.retainers.len() as u32]);
        if !self.retainers.push((retainer(), set)) {
            return MANY;
        }
        if let Some(entry) = self.by_identity.entry(key) {
            entry[0] = u64::from(set);
        }
        set
    }

    fn set_of_root(&mut self, live_heap: &LiveHeap<'_>, root: &Root) -> u32 {
        match (root.kind, root.thread) {
            (RootKind::Stack | RootKind::HalfBuilt, Some(thread)) => {
                let identity = std::ptr::from_ref(thread) as u64;
                self.alone(identity, Kind::Thread, || Retainer::Thread(thread.name()))
            }
            (RootKind::Handles, _) => {
                let held = description(live_heap, root.object);
                self.alone(held.number(), Kind::Handle, || Retainer::Handle(held))
            }
            (RootKind::Range, _) => self.alone(root.range as u64, Kind::Range, || Retainer::Range(root.range)),
            (RootKind::RegisteredStack, _) => {
                self.alone(root.range as u64, Kind::Stack, || Retainer::Stack(root.range))
            }
            (RootKind::Finalizers | RootKind::Stack | RootKind::HalfBuilt, _) => {
                self.alone(1, Kind::Finalizers, || Retainer::Finalizers)
            }
        }
    }

    fn set_of_cell(&mut self, cell: BandKey) -> u32 {
        let place = cell.spread_over(MET);
        let (met, set) = self.met[place];
        if met == cell.number() {
            return set;
        }
        let set = self.alone(cell.number(), Kind::Cell, || Retainer::Cell(cell));
        self.met[place] = (cell.number(), set);
        set
    }

    /// Returns whether a set has a member with this name.
    pub(crate) fn has_member_called(&self, set: u32, name: &str) -> bool {
        if set == MANY {
            return name == MANY_NAME;
        }
        self.named(set).any(|retainer| retainer.is_called(name))
    }

    fn named(&self, set: u32) -> impl Iterator<Item = Retainer> + '_ {
        self.sets.members(set).iter().map(|&member| self.retainers.as_slice()[member as usize].0)
    }
}

/// The description of a live object.
fn description(live_heap: &LiveHeap<'_>, payload: usize) -> BandKey {
    BandKey::description(payload, live_heap.type_of(payload))
}

/// The names of sets: `(number)member,member`. The number is the same in all censuses of a profile, so that a set is one band over
/// time.
#[derive(Default)]
pub(crate) struct SetNames {
    numbers: HashMap<String, usize>,
}

impl SetNames {
    /// Returns the name of a set. Call it after the restart.
    pub(crate) fn name(&mut self, retainers: &Retainers, set: u32) -> String {
        if set == MANY {
            return MANY_NAME.to_owned();
        }
        let mut members: Vec<String> = retainers.named(set).map(Retainer::text).collect();
        members.sort_unstable();
        members.dedup();
        if members.is_empty() {
            return "(0)".to_owned();
        }
        let members = members.join(",");
        // Number 1 is MANY.
        let next = self.numbers.len() + 2;
        let number = *self.numbers.entry(members.clone()).or_insert(next);
        format!("({number}){members}")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The oracle is a set of numbers. `.retainer.bound`
        #[test]
        fn sets_are_joined_as_sets_are_and_beyond_the_bound_they_are_many(
            most in 1_usize..9,
            steps in proptest::collection::vec((0_usize..40, 0_usize..40), 1..200),
        ) {
            crate::sabotage::choose();
            let mut sets = Sets::new(most).unwrap();
            let mut all: Vec<(u32, Option<BTreeSet<u32>>)> =
                (0..12).map(|member| (sets.intern(&[member]), Some([member].into()))).collect();
            all.push((NOBODY, Some(BTreeSet::new())));
            for (one, other) in steps {
                let ((one, a), (other, b)) = (all[one % all.len()].clone(), all[other % all.len()].clone());
                let together = sets.join(one, other);
                prop_assert_eq!(together, sets.join(other, one));
                let expected = a.zip(b).map(|(a, b)| &a | &b).filter(|set| set.len() <= most);
                match &expected {
                    Some(set) => prop_assert_eq!(sets.members(together), set.iter().copied().collect::<Vec<_>>()),
                    None => prop_assert_eq!(together, MANY, "a set beyond the bound"),
                }
                for (set, members) in &all {
                    prop_assert_eq!(*set == together, *members == expected, "equal sets have one number");
                }
                all.push((together, expected));
            }
        }
    }

    proptest! {
        /// The oracle is a map.
        #[test]
        fn objects_are_added_up_by_their_sets(
            blocks in proptest::collection::vec(
                (1_u64..4, proptest::collection::vec((0..2 * FEW as u32, 0_u64..20), 0..20)),
                0..20,
            ),
        ) {
            let (mut sums, mut expected) = (BTreeMap::new(), BTreeMap::new());
            let add = |to: &mut BTreeMap<u32, [u64; 2]>, set, Count { bytes, objects }| {
                let sum: &mut [u64; 2] = to.entry(set).or_default();
                *sum = [sum[0] + bytes, sum[1] + objects];
            };
            let mut tally = Tally::new();
            let mut visit = |set, count| add(&mut sums, set, count);
            for (bytes, runs) in blocks {
                tally.begin(bytes, &mut visit);
                for (set, objects) in runs {
                    tally.add(Run { set, objects }, &mut visit);
                    add(&mut expected, set, Count { bytes: bytes * objects, objects });
                }
            }
            tally.close(&mut visit);
            expected.retain(|_, [_, objects]| *objects > 0);
            prop_assert_eq!(sums, expected);
        }
    }
}
