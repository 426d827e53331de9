//! Retainers: who keeps each object alive.
//!
//! A *retainer* is a place from which the program can let go: a thread (by what lies on its stacks), a handle, a registered
//! range, a finalizer that waits, and every object whose references may change (a *mutable cell*: a type with a
//! [`GcCell`](crate::GcCell) of a reference). An object's **retainer set** holds each retainer from which it can be reached
//! without passing through another mutable cell. Objects whose references can't change pass on what they have.
//!
//! ```text
//!   thread:main ──▶ Pair ──▶ String          String: {thread:main}
//!   handle:Cache ─▶ Cache (mutable) ──▶ Entry ──▶ String      Cache: {handle:Cache}; Entry and this String: {Cache}
//!                                        ▲
//!   thread:main ─────────────────────────┘   and then Entry and its String: {Cache, thread:main}
//! ```
//!
//! Retainers go by name: a thread by its own, a handle by the description of what it holds, a mutable cell by its own
//! description. So a million nodes that refer to each other are one retainer, and a set says what to look for in the program.
//!
//! # How the sets are found
//! Each object has a word in a side table (`retainers/words.rs`): the number of its set. Sets are interned: equal sets have
//! one number, a set is made at most once, and what two of them are together is remembered. First each root adds itself to
//! what it refers to. Then (`retainers/spread.rs`) every mutable cell adds itself to what it refers to, and every other
//! object adds its set; and what has grown after that adds it once more, until nothing grows.
//!
//! - **It ends**, cycles or not: a set only grows, and by at most
//!   [`most`](crate::profile::census::CensusRequest::most_retainers) members; with one more it is MANY, which does not grow
//!   (`.retainer.bound`). So with a bound of *k* an object is looked at at most *k* + 2 times, a mutable cell once, and the
//!   whole costs at most (*k* + 2) times the references.
//! - **The result does not depend on the order**: it is the least solution of "my set is all that those who refer to me
//!   pass on", and with an upper bound that nothing leaves there is one least solution, however one gets there. So neither
//!   addresses nor the number of markers show in a profile. The order decides what it costs: the heap is walked in the
//!   order of addresses, which no traversal does, and the one thing that is waited for is the word of what a reference
//!   leads to. About as long as marking with one marker, a third longer where little can change (`benches/census.rs`).
//! - **It takes no malloc**: the side table (4 bytes for each 16 of the heap, untouched where no objects are), the sets and
//!   the list of what is to be looked at again are mapped memory. If the list can't grow (it takes no more than a marker's
//!   stack may), what is not in it is found by going over the heap, since each object that is to be looked at has a bit
//!   that says so; if the sets can't grow, an object is under MANY.
//! - **It keeps no memory** between two censuses, and has none zeroed or faulted in while the world stands: the side table
//!   is mapped before the stop and given back after the restart.

mod spread;
mod words;

use std::collections::HashMap;
use std::io;

use words::SET;

use super::census::count::Count;
use super::census::heading::Heading;
use super::census::table::{Key, List, Table};
use crate::collector::Collector;
use crate::collector::living::{Living, Root};
use crate::collector::roots::RootKind;
use crate::events::Labels;
use crate::heap::Heap;
use crate::heap::blocks::{BlockIndex, Cell};
use crate::heap::layout::BLOCK_BYTES;
use crate::sabotage::{Guard, removed};
use crate::world::ThreadName;

/// The set of an object that nothing is known to keep: it waits for a finalizer that found no room in the queue.
const NOBODY: u32 = 0;
/// The set with more members than are told apart.
const MANY: u32 = 1;
/// What that is called, as GHC does.
const MANY_NAME: &str = "MANY";
/// The most members that may be asked for.
const LARGEST_SET: usize = 64;

/// A retainer.
#[derive(Clone, Copy)]
enum Retainer {
    Thread(ThreadName),
    Handle(Heading),
    /// A mutable cell, by its description.
    Cell(Heading),
    /// A range that the program registered, by its address.
    Range(usize),
    /// A stack that it registered, likewise.
    Stack(usize),
    Finalizers,
}

impl Retainer {
    /// The name, in pieces. Allocates nothing.
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
            Retainer::Handle(heading) => {
                visit("handle:");
                heading.for_each_piece(visit);
            }
            Retainer::Cell(heading) => heading.for_each_piece(visit),
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
    /// Where each set's members are.
    spans: List<(u32, u32)>,
    members: List<u32>,
    /// From the hash of the members, and a number for each set that has it, to the set.
    by_members: Table,
    /// From two sets to what they are together.
    joined: Table,
    /// What was joined last: two sets, and what they are together.
    recent: [(u64, u32); RECENT],
}

/// How many pairs of sets are joined without the table. A power of two.
const RECENT: usize = 512;

/// Where a pair of sets is among the [`RECENT`] ones: the upper bits of Fibonacci hashing.
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
        // Nobody, and many.
        self.spans.push((0, 0));
        self.spans.push((0, 0));
    }

    fn members(&self, set: u32) -> &[u32] {
        let (first, count) = self.spans.as_slice()[set as usize];
        &self.members.as_slice()[first as usize..(first + count) as usize]
    }

    /// The number of the set with these members, in their order.
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

    /// Without memory for it, it is MANY.
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

    /// What two sets are together.
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

/// Merges two ascending lists without repetition; `into` has room for both.
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

/// Finds the retainers of all that lives.
pub(crate) struct Retainers {
    table: words::Table,
    sets: Sets,
    /// The retainers, each with the set that has it alone.
    retainers: List<(Retainer, u32)>,
    by_identity: Table,
    /// Objects that are to be looked at (`spread.rs`), by the numbers of their cells.
    work: List<usize>,
    /// The list could not grow.
    overflowed: bool,
    /// Mutable cells' descriptions that were met, and the set that has each alone.
    met: [(u64, u32); MET],
}

/// How many descriptions are found without a table. A power of two.
const MET: usize = 16;

/// Objects of one size, by their sets. Most have one of a few, which have the smallest numbers: these are added up here.
struct Tally {
    /// What one of them is.
    one: Count,
    objects: [u64; FEW],
    /// How many of these may not be 0.
    used: usize,
}

/// Sets that are added up without a search.
const FEW: usize = 256;

impl Tally {
    const fn new() -> Tally {
        Tally { one: Count { bytes: 0, objects: 1 }, objects: [0; FEW], used: 0 }
    }

    /// The next objects have this size.
    #[inline(always)]
    fn begin(&mut self, bytes: u64, visit: &mut impl FnMut(u32, Count)) {
        if self.one.bytes != bytes {
            self.close(visit);
            self.one.bytes = bytes;
        }
    }

    /// So many more objects.
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

/// Objects that lie together and have one set.
struct Run {
    set: u32,
    objects: u64,
}

/// Words that are looked at together.
const TOGETHER: usize = 16;

/// What kind of retainer an identity is of: the second word of its key.
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
    /// The system gives no memory.
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

    /// The set of a live object, after [`trace`](Self::trace).
    #[inline(always)]
    pub(crate) fn set_of(&self, cell: Cell) -> u32 {
        self.table.words().get(cell.number()) & SET
    }

    /// All live objects by their sets: parts of what there is of a set and a size, as they come.
    pub(crate) fn count(&self, living: &Living<'_>, mut visit: impl FnMut(u32, Count)) {
        let mut tally = Tally::new();
        living.for_each_block(|cells| {
            let words = self.table.words().of_block(&cells);
            let mut run = Run { set: NOBODY, objects: 0 };
            tally.begin(cells.bytes as u64, &mut visit);
            living.masks(&cells).for_each_run(|indices| {
                let (sixteens, rest) = words[indices].as_chunks::<TOGETHER>();
                for words in sixteens {
                    // Without a branch for each.
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

    /// Maps what the next [`trace`](Self::trace) is to need. Before the world is stopped, with its locks held.
    pub(crate) fn prepare(&mut self, heap: &Heap) {
        self.forget();
        self.table.prepare(heap.blocks.map(), (heap.committed_bytes() as usize / BLOCK_BYTES) as BlockIndex);
    }

    /// Finds the sets of all that lives. In the stopped world.
    pub(crate) fn trace(&mut self, living: &Living<'_>) {
        self.table.note_use(living.committed_blocks());
        self.spread(living);
    }

    /// Forgets the sets, and gives the memory back. When the world runs again.
    pub(crate) fn forget(&mut self) {
        self.table.give_back();
        self.sets.forget();
        self.retainers.reset();
        self.by_identity.reset();
        self.work.reset();
        self.overflowed = false;
        self.met = [(0, NOBODY); MET];
    }

    /// The set that has this retainer alone.
    fn alone(&mut self, identity: u64, kind: Kind, retainer: impl FnOnce() -> Retainer) -> u32 {
        let key = Key(identity, kind as u64);
        if let Some([set, _]) = self.by_identity.get(key) {
            return set as u32;
        }
        // Its number is its place in the list; from 0, ascending: so a set of one is sorted.
        let set = self.sets.intern(&[self.retainers.len() as u32]);
        if !self.retainers.push((retainer(), set)) {
            return MANY;
        }
        if let Some(entry) = self.by_identity.entry(key) {
            entry[0] = u64::from(set);
        }
        set
    }

    fn set_of_root(&mut self, living: &Living<'_>, root: &Root) -> u32 {
        match (root.kind, root.thread) {
            (RootKind::Stack | RootKind::HalfBuilt, Some(thread)) => {
                let identity = std::ptr::from_ref(thread) as u64;
                self.alone(identity, Kind::Thread, || Retainer::Thread(thread.name()))
            }
            (RootKind::Handles, _) => {
                let held = description(living, root.object);
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

    fn set_of_cell(&mut self, cell: Heading) -> u32 {
        let place = cell.spread_over(MET);
        let (met, set) = self.met[place];
        if met == cell.number() {
            return set;
        }
        let set = self.alone(cell.number(), Kind::Cell, || Retainer::Cell(cell));
        self.met[place] = (cell.number(), set);
        set
    }

    /// Whether a set has a member of this name.
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

/// What a live object is called.
fn description(living: &Living<'_>, payload: usize) -> Heading {
    Heading::description(payload, living.type_of(payload))
}

/// What sets are called: `(number)member,member`. The number is the same in all censuses of a profile, so that a set is one
/// band over time.
#[derive(Default)]
pub(crate) struct SetNames {
    numbers: HashMap<String, usize>,
}

impl SetNames {
    /// The name of a set. When the world runs again.
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
        // 1 is MANY.
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
