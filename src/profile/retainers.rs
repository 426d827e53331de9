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
//! Each object has a word in a side table: the number of its set. Sets are interned: equal sets have one number, a set is made
//! at most once, and what two of them are together is remembered. First each root adds itself to what it refers to. Then,
//! until nothing is left to do: an object whose set has grown adds it (or, if it is a mutable cell, itself) to what it refers
//! to, and what has grown by that is to do.
//!
//! - **It ends**, cycles or not: a set only grows, and by at most [`most`](crate::profile::census::CensusRequest::most_retainers)
//!   members; with one more it is MANY, which does not grow (`.retainer.bound`). So with a bound of *k* an object is looked at at most
//!   *k* + 1 times, a mutable cell once, and the whole costs at most (*k* + 1) times the references.
//! - **The result does not depend on the order**: it is the least solution of "my set is all that those who refer to me pass on",
//!   and with an upper bound that nothing leaves there is one least solution, however one gets there. So neither addresses nor
//!   the number of markers show in a profile.
//! - **Most of it is waiting for memory**, as in marking, and so it goes as [marking](crate::collector::mark) does: what a reference needs (the
//!   word of the side table) and what an object needs (its header and fields) are asked for many steps before they are looked
//!   at, in two short queues before the list. A word knows when its object has nothing to pass on any more, so that growing costs
//!   that word alone. Two to four times the mark phase with one marker (`benches/census.rs`), the more the more its
//!   references go back and forth.
//! - **It takes no malloc**: the side table (4 bytes for each 16 of the heap, untouched where the heap is), the sets and the list
//!   of what is to do are mapped memory. If the list can't grow (it takes no more than a marker's stack may), what is not in it is found by going over the heap, since each
//!   object that is to do has a bit that says so; if the sets can't grow, an object is under MANY.

use std::collections::HashMap;
use std::io;

use super::census::heading::Heading;
use super::census::table::{Key, List, Table};
use crate::collector::Collector;
use crate::collector::living::{Living, Root};
use crate::collector::roots::RootKind;
use crate::events::Labels;
use crate::heap::layout::{CHUNK_BYTES, HEADER_BYTES};
use crate::heap::trace::{Shape, TypeInfo};
use crate::os::memory::Reservation;
use crate::sabotage::{Guard, removed};
use crate::sync::{AtomicU8, Ordering::Relaxed};
use crate::world::ThreadName;

/// The set of an object that nothing is known to keep: it waits for a finalizer that found no room in the queue.
const NOBODY: u32 = 0;
/// The set with more members than are told apart.
const MANY: u32 = 1;
/// What that is called, as GHC does.
const MANY_NAME: &str = "MANY";
/// The most members that may be asked for.
const LARGEST_SET: usize = 64;

/// In an object's word: it is to be looked at.
const PENDING: u32 = 1 << 31;
/// In an object's word: it was looked at, and need not be again: it passes on nothing, or itself.
const DONE: u32 = 1 << 30;
/// In an object's word: its set.
const SET: u32 = DONE - 1;
/// References that wait for their words, and objects that wait for their headers.
const REFERENCES: usize = 16;
const OBJECTS: usize = 32;
/// Bytes of the heap that share a word: no two objects begin in them.
const GRANULE_SHIFT: u32 = 4;

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
}

impl Sets {
    fn new(most: usize) -> io::Result<Sets> {
        let mut sets = Sets {
            most: most.clamp(1, LARGEST_SET),
            spans: List::new()?,
            members: List::new()?,
            by_members: Table::new()?,
            joined: Table::new()?,
        };
        sets.clear();
        Ok(sets)
    }

    fn clear(&mut self) {
        self.by_members.clear();
        self.joined.clear();
        self.members.truncate(0);
        self.spans.truncate(0);
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
    fn join(&mut self, one: u32, other: u32) -> u32 {
        match (one, other) {
            (NOBODY, set) | (set, NOBODY) => return set,
            (MANY, _) | (_, MANY) => return MANY,
            (one, other) if one == other => return one,
            _ => {}
        }
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
    base: usize,
    /// A word for each [granule](GRANULE_SHIFT) of the heap.
    words: Reservation,
    /// How many bytes of them may not be 0.
    written: usize,
    sets: Sets,
    /// The retainers, each with the set that has it alone.
    retainers: List<(Retainer, u32)>,
    by_identity: Table,
    work: List<usize>,
    /// The list could not grow.
    overflowed: bool,
    /// The last mutable cell's description, and the set that has it alone.
    last_cell: (u64, u32),
}

/// A first-in-first-out queue of at most `N`, which is a power of two.
struct Queue<T, const N: usize> {
    slots: [T; N],
    first: usize,
    end: usize,
}

impl<T: Copy, const N: usize> Queue<T, N> {
    const fn new(nothing: T) -> Self {
        assert!(N.is_power_of_two());
        Self { slots: [nothing; N], first: 0, end: 0 }
    }

    #[inline(always)]
    const fn is_full(&self) -> bool {
        self.end - self.first == N
    }

    /// The queue is not full.
    #[inline(always)]
    fn put(&mut self, item: T) {
        self.slots[self.end % N] = item;
        self.end += 1;
    }

    #[inline(always)]
    fn take(&mut self) -> Option<T> {
        if self.first == self.end {
            return None;
        }
        let item = self.slots[self.first % N];
        self.first += 1;
        Some(item)
    }
}

/// A reference on its way to the word of what it refers to: that one's payload and mark, and the set that is passed on.
#[derive(Clone, Copy)]
struct Passing {
    payload: usize,
    mark: *const AtomicU8,
    set: u32,
}

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
        let heap = &collector.heap;
        let bytes = (heap.blocks.reserved_bytes() >> GRANULE_SHIFT) * size_of::<u32>();
        let words = Reservation::new(bytes, CHUNK_BYTES)?;
        words.commit(0, words.len())?;
        words.huge_pages(0, words.len());
        Ok(Retainers {
            base: heap.blocks.base(),
            words,
            written: 0,
            sets: Sets::new(most)?,
            retainers: List::new()?,
            by_identity: Table::new()?,
            work: List::of_at_most(collector.markers.stack_bytes() / size_of::<usize>())?,
            overflowed: false,
            last_cell: (0, NOBODY),
        })
    }

    /// Where the word of an object is. In the heap.
    #[inline(always)]
    fn place(&self, payload: usize) -> *mut u32 {
        let index = (payload - self.base) >> GRANULE_SHIFT;
        debug_assert!(index * size_of::<u32>() < self.words.len());
        // SAFETY: there is a word for each granule of the heap.
        unsafe { self.words.base().cast::<u32>().add(index) }
    }

    /// The word of an object. In the heap.
    #[inline(always)]
    fn word(&mut self, payload: usize) -> &mut u32 {
        // SAFETY: mapped as long as `self`, which is borrowed alone; zeroes are valid.
        unsafe { &mut *self.place(payload) }
    }

    /// The set of a live object, after [`trace`](Self::trace).
    #[inline(always)]
    pub(crate) fn set_of(&self, payload: usize) -> u32 {
        // SAFETY: mapped, and not written any more.
        unsafe { self.place(payload).read() & SET }
    }

    /// Finds the sets of all that lives. In the stopped world.
    pub(crate) fn trace(&mut self, living: &Living<'_>) {
        self.forget();
        self.written = (living.committed_bytes() >> GRANULE_SHIFT) * size_of::<u32>();
        living.for_each_root(|root| {
            let set = self.set_of_root(living, &root);
            self.grow(root.object, set);
        });
        self.work_off(living);
    }

    fn forget(&mut self) {
        // SAFETY: within the mapping, which is ours alone.
        unsafe { self.words.base().write_bytes(0, self.written) };
        self.sets.clear();
        self.retainers.truncate(0);
        self.by_identity.clear();
        self.work.truncate(0);
        self.overflowed = false;
        self.last_cell = (0, NOBODY);
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

    /// Adds a set to that of a live object, which is then to be looked at, unless it has nothing to pass on.
    #[inline(always)]
    fn grow(&mut self, payload: usize, set: u32) {
        let word = *self.word(payload);
        let old = word & SET;
        if old == set {
            return;
        }
        let new = self.sets.join(old, set);
        if new == old {
            return;
        }
        if word & (PENDING | DONE) == 0 {
            *self.word(payload) = new | PENDING;
            self.overflowed |= !self.work.push(payload);
        } else {
            *self.word(payload) = new | word & !SET;
        }
    }

    fn work_off(&mut self, living: &Living<'_>) {
        let mut objects = Queue::<usize, OBJECTS>::new(0);
        let nothing = Passing { payload: 0, mark: std::ptr::null(), set: NOBODY };
        let mut references = Queue::<Passing, REFERENCES>::new(nothing);
        let epoch = living.epoch();
        loop {
            if let Some(payload) = self.work.pop() {
                prefetch(payload - HEADER_BYTES);
                objects.put(payload);
                if !objects.is_full() {
                    continue;
                }
            }
            if let Some(payload) = objects.take() {
                self.pass_on(living, payload, &mut references);
            } else if let Some(reference) = references.take() {
                self.arrive(reference, epoch);
            } else if std::mem::take(&mut self.overflowed) {
                // What the list had no room for says so itself.
                living.for_each_object(|object| {
                    if *self.word(object.payload()) & PENDING != 0 {
                        self.pass_on(living, object.payload(), &mut references);
                    }
                });
            } else {
                return;
            }
        }
    }

    /// A reference has its word.
    #[inline(always)]
    fn arrive(&mut self, reference: Passing, epoch: u8) {
        let Passing { payload, mark, set } = reference;
        // Something lives there if something was known to, or if it is marked.
        // SAFETY: in the table of marks, which is mapped as long as the heap.
        if *self.word(payload) != NOBODY || unsafe { &*mark }.load(Relaxed) == epoch {
            self.grow(payload, set);
        }
    }

    /// Adds an object's set, or itself, to what it refers to.
    fn pass_on(&mut self, living: &Living<'_>, payload: usize, references: &mut Queue<Passing, REFERENCES>) {
        let info = living.type_of(payload);
        let word = *self.word(payload) & SET;
        // A mutable cell passes on itself, whoever keeps it: once is enough.
        let is_done = info.mutable || !refers(info);
        *self.word(payload) = if is_done { word | DONE } else { word };
        let set = if info.mutable { self.set_of_cell(description(living, payload)) } else { word };
        let (map, epoch) = (living.map(), living.epoch());
        living.for_each_word(payload, info, |_, word| {
            let Some(mark) = map.mark_of_payload(word) else { return };
            prefetch(self.place(word) as usize);
            prefetch(mark as usize);
            if references.is_full()
                && let Some(reference) = references.take()
            {
                self.arrive(reference, epoch);
            }
            references.put(Passing { payload: word, mark, set });
        });
    }

    fn set_of_cell(&mut self, cell: Heading) -> u32 {
        let (last, set) = self.last_cell;
        if last == cell.number() {
            return set;
        }
        let set = self.alone(cell.number(), Kind::Cell, || Retainer::Cell(cell));
        self.last_cell = (cell.number(), set);
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

/// Whether there is anything to pass on.
fn refers(info: &TypeInfo) -> bool {
    !matches!(info.shape, Shape::Leaf | Shape::Weak)
}

#[inline(always)]
fn prefetch(address: usize) {
    // SAFETY: a prefetch has no effect that a program can see, whatever the address.
    unsafe { std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address as *const i8) };
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
    use std::collections::BTreeSet;

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
                    None => prop_assert_eq!(together, MANY),
                }
                for (set, members) in &all {
                    prop_assert_eq!(*set == together, *members == expected, "equal sets have one number");
                }
                all.push((together, expected));
            }
        }
    }
}
