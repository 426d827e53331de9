//! How sets spread: two passes over the heap, and a list for what those leave.
//!
//! ```text
//!   1  upwards     every mutable cell adds itself to what it refers to          the sets of the cells are final at once
//!   2  downwards   every other object adds its set to what it refers to         objects that were made later come first
//!   3  the list    objects whose set has grown since they were looked at
//! ```
//!
//! What a mutable cell passes on does not depend on who keeps it. So the references of mutable cells, and those are most of
//! a program's, need no traversal: the first pass takes them in the order of addresses, and so its reads are sequential. What
//! can't change refers to what was there before it was made. Memory is allocated upwards as a rule, and so when the second pass, downwards, comes to
//! an object, those who refer to it have mostly been there, and its set is final. Where it is not, because cells
//! were allocated anew between older ones, or since a reference was told of only by a run-time description, the object goes to the list.
//!
//! A reference waits in a short queue for the word of what it refers to, as in marking. The second pass reads
//! the set that it passes on only when the reference leaves the queue: so a chain of neighbours, in which each gets its set from the
//! one before, does not overtake itself.

use super::words::{PASSES, PENDING, SET, Words};
use super::{NOBODY, Retainers, prefetch};
use crate::collector::living::{Cells, Living};
use crate::heap::blocks::AddressMap;
use crate::heap::layout::{HEADER_BYTES, MARKS_PER_BLOCK};
use crate::heap::trace::{Shape, TypeInfo};
use crate::profile::census::heading::Heading;
use crate::sync::{AtomicUsize, Ordering::Relaxed};

/// Objects of the list that are asked for at a time.
const OBJECTS: usize = 32;
/// Steps that wait for the words that they need.
const STEPS: usize = 256;
/// References that [`Shape::Words`] speaks of, and one step more to say whose they are.
const MOST_AT_ONCE: usize = u64::BITS as usize + 1;

/// What is to be done, one step after the other; a step is the number of a cell, to which a set is added, or says which set that is from
/// now on.
struct Steps {
    steps: [usize; STEPS],
    count: usize,
    /// What is passed on at present.
    set: u32,
}

/// From now on it is the set of the cell of this number, which is not to be looked at any more.
const OF_CELL: usize = 1 << 63;
/// From now on it is this set.
const OF_SET: usize = 1 << 62;

impl Steps {
    const fn new() -> Steps {
        Steps { steps: [0; STEPS], count: 0, set: NOBODY }
    }

    #[inline(always)]
    const fn has_room_for(&self, steps: usize) -> bool {
        self.count + steps <= STEPS
    }

    /// There is room.
    #[inline(always)]
    fn put(&mut self, step: usize) {
        self.steps[self.count % STEPS] = step;
        self.count += 1;
    }

    /// Puts down what an object of so many words refers to, and asks for the words of that. There is room.
    #[inline(always)]
    fn put_references(&mut self, map: AddressMap, words: Words, payload: usize, bits: u64) {
        let mut count = self.count;
        for_each_word(payload, bits, |word| {
            if let Some(cell) = map.number_of_payload(word) {
                words.prefetch(cell);
                self.steps[count % STEPS] = cell;
                count += 1;
            }
        });
        self.count = count;
    }
}

/// Each word whose bit is set, of a live object.
#[inline(always)]
fn for_each_word(payload: usize, mut bits: u64, mut visit: impl FnMut(usize)) {
    while bits != 0 {
        let slot = payload + bits.trailing_zeros() as usize * size_of::<usize>();
        bits &= bits - 1;
        // SAFETY: the layout of a live object names words within its payload.
        visit(unsafe { (*(slot as *const AtomicUsize)).load(Relaxed) });
    }
}

/// The type that was met last, and what its objects pass on.
#[derive(Clone, Copy)]
struct Met {
    info: *const TypeInfo,
    passes: Passes,
}

/// What the objects of a type pass on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Passes {
    Nothing,
    /// What they have.
    What,
    /// Themselves, all of them as the set that was said last, to these words.
    Alike(u64),
    /// Themselves; each is a case of its own.
    Itself,
}

/// The first pass has not said yet who is to be looked at: nobody comes to the list.
const FIRST_PASS: usize = usize::MAX;

impl Retainers {
    /// Spreads the roots' sets, and all others.
    pub(super) fn spread(&mut self, living: &Living<'_>) {
        self.cursor = FIRST_PASS;
        let mut steps = Steps::new();
        self.roots(living);
        if self.mutable_cells(living, &mut steps) {
            self.downwards(living, &mut steps);
            self.work_off(living, &mut steps);
        }
    }

    fn roots(&mut self, living: &Living<'_>) {
        let (map, words) = (living.map(), self.table.words());
        living.for_each_root(|root| {
            let set = self.set_of_root(living, &root);
            if let Some(cell) = map.number_of_payload(root.object) {
                self.arrive(words, cell, set);
            }
        });
    }

    /// The first pass. Returns whether there are objects that pass on what they have.
    fn mutable_cells(&mut self, living: &Living<'_>, steps: &mut Steps) -> bool {
        let mut met = Met { info: std::ptr::null(), passes: Passes::Nothing };
        let mut some_pass = false;
        living.for_each_block(|cells| some_pass |= self.mutable_cells_of(living, &cells, steps, &mut met));
        self.take(self.table.words(), steps);
        some_pass
    }

    fn mutable_cells_of(&mut self, living: &Living<'_>, cells: &Cells, steps: &mut Steps, met: &mut Met) -> bool {
        let (map, words) = (living.map(), self.table.words());
        let (mut last, mut some_pass) = (*met, false);
        living.for_each_living(cells, |index| {
            let (cell, info) = (cells.cell(index), cells.type_of(index));
            // Neighbours mostly are of one type.
            if last.info != std::ptr::from_ref(info) {
                last = self.meet(info, words, steps);
            }
            match last.passes {
                Passes::Nothing => {}
                Passes::What => {
                    words.note_passing(cell.number());
                    some_pass = true;
                }
                Passes::Alike(bits) => {
                    if !steps.has_room_for(MOST_AT_ONCE) {
                        self.take(words, steps);
                    }
                    steps.put_references(map, words, cell.payload(), bits);
                }
                Passes::Itself => {
                    let set = self.set_of_cell(Heading::description(cell.payload(), info));
                    self.say(set, words, steps);
                    self.send(living, cell.payload(), info, steps);
                }
            }
        });
        *met = last;
        some_pass
    }

    /// Another type than that of the object before.
    #[inline(never)]
    fn meet(&mut self, info: &'static TypeInfo, words: Words, steps: &mut Steps) -> Met {
        let passes = match info.shape {
            Shape::Leaf | Shape::Weak => Passes::Nothing,
            _ if !info.mutable => Passes::What,
            Shape::Words(bits) if info.description.is_none() => {
                let set = self.set_of_cell(Heading::of_description(info));
                self.say(set, words, steps);
                Passes::Alike(bits)
            }
            _ => Passes::Itself,
        };
        Met { info, passes }
    }

    /// What is passed on from now on.
    fn say(&mut self, set: u32, words: Words, steps: &mut Steps) {
        if !steps.has_room_for(1) {
            self.take(words, steps);
        }
        steps.put(OF_SET | set as usize);
    }

    /// Puts down what an object refers to, whatever it is.
    #[inline(never)]
    fn send(&mut self, living: &Living<'_>, payload: usize, info: &TypeInfo, steps: &mut Steps) {
        let (map, words) = (living.map(), self.table.words());
        living.for_each_word(payload, info, |_, word| {
            if let Some(cell) = map.number_of_payload(word) {
                words.prefetch(cell);
                if !steps.has_room_for(1) {
                    self.take(words, steps);
                }
                steps.put(cell);
            }
        });
    }

    /// Takes all steps.
    #[inline(never)]
    fn take(&mut self, words: Words, steps: &mut Steps) {
        let mut set = steps.set;
        for &step in &steps.steps[..steps.count] {
            if step & (OF_CELL | OF_SET) == 0 {
                self.arrive(words, step, set);
            } else if step & OF_SET != 0 {
                set = (step & !OF_SET) as u32;
            } else {
                let cell = step & !OF_CELL;
                let word = words.get(cell);
                words.put(cell, word & !PENDING);
                set = word & SET;
            }
        }
        (steps.count, steps.set) = (0, set);
    }

    /// Adds a set to that of a cell, whose object is then to be looked at if it passes it on. In a dead cell, to which a word may lead that is no
    /// reference, it does no harm.
    #[inline(always)]
    fn arrive(&mut self, words: Words, cell: usize, set: u32) {
        let word = words.get(cell);
        let old = word & SET;
        if old == set || set == NOBODY {
            return;
        }
        if old == NOBODY && word & (PASSES | PENDING) != PASSES {
            words.put(cell, word | set);
        } else {
            self.grow(words, cell, set);
        }
    }

    #[inline(never)]
    fn grow(&mut self, words: Words, cell: usize, set: u32) {
        let word = words.get(cell);
        let (old, is_new_to_the_list) = (word & SET, word & (PASSES | PENDING) == PASSES);
        let new = self.sets.join(old, set);
        if new == old {
            return;
        }
        words.put(cell, word & !SET | new);
        if is_new_to_the_list {
            words.put(cell, word & !SET | new | PENDING);
            // What the pass has still to come to needs no place in the list.
            if cell >= self.cursor {
                self.overflowed |= !self.work.push(cell);
            }
        }
    }

    /// The second pass, or one more because the list could not grow: everything that is to be looked at.
    fn downwards(&mut self, living: &Living<'_>, steps: &mut Steps) {
        let (map, words) = (living.map(), self.table.words());
        for block in (0..living.committed_blocks()).rev().filter(|block| words.has_passing(*block)) {
            let first = block as usize * MARKS_PER_BLOCK;
            self.cursor = first;
            for cell in (first..first + map.cells_in(block)).rev() {
                if words.get(cell) & PENDING != 0 {
                    self.look_at(living, cell, steps);
                }
            }
        }
        self.take(words, steps);
        self.cursor = 0;
    }

    #[inline(always)]
    fn look_at(&mut self, living: &Living<'_>, cell: usize, steps: &mut Steps) {
        let (map, words) = (living.map(), self.table.words());
        let payload = map.payload_of_number(cell);
        let info = living.type_of(payload);
        if !steps.has_room_for(MOST_AT_ONCE) {
            self.take(words, steps);
        }
        steps.put(OF_CELL | cell);
        match info.shape {
            Shape::Words(bits) => steps.put_references(map, words, payload, bits),
            _ => self.send(living, payload, info, steps),
        }
    }

    /// Looks at everything in the list, until nothing is left.
    fn work_off(&mut self, living: &Living<'_>, steps: &mut Steps) {
        let (map, words) = (living.map(), self.table.words());
        let mut ahead = [0; OBJECTS];
        loop {
            // Some at a time, all of which are asked for before the first is looked at.
            let mut count = 0;
            while count < OBJECTS
                && let Some(cell) = self.work.pop()
            {
                prefetch(map.payload_of_number(cell) - HEADER_BYTES);
                ahead[count] = cell;
                count += 1;
            }
            for &cell in &ahead[..count] {
                // Another pass may have come before.
                if words.get(cell) & PENDING != 0 {
                    self.look_at(living, cell, steps);
                }
            }
            self.take(words, steps);
            if count == 0 && self.work.len() == 0 {
                if !std::mem::take(&mut self.overflowed) {
                    return;
                }
                self.downwards(living, steps);
            }
        }
    }
}
