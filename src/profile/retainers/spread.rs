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
use super::{NOBODY, Retainers, description, prefetch};
use crate::collector::living::Living;
use crate::heap::layout::{HEADER_BYTES, MARKS_PER_BLOCK};
use crate::heap::trace::{Shape, TypeInfo};

/// References that wait for their words, and objects that wait for their headers.
const REFERENCES: usize = 16;
const OBJECTS: usize = 32;

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

/// A reference of an object that passes on its set, by the numbers of the cells.
#[derive(Clone, Copy)]
struct Passing {
    from: usize,
    to: usize,
    /// The first of the object's: now it passes on what it has.
    begins: bool,
}

/// References of objects that pass on their sets, on their way, and the set of the one whose turn it is.
struct OnTheWay {
    queue: Queue<Passing, REFERENCES>,
    set: u32,
}

impl OnTheWay {
    const fn new() -> OnTheWay {
        OnTheWay { queue: Queue::new(Passing { from: 0, to: 0, begins: false }), set: NOBODY }
    }
}

/// The first pass has not said yet who is to be looked at: nobody comes to the list.
const FIRST_PASS: usize = usize::MAX;

impl Retainers {
    /// Spreads the roots' sets, and all others.
    pub(super) fn spread(&mut self, living: &Living<'_>) {
        self.cursor = FIRST_PASS;
        self.roots(living);
        if self.mutable_cells(living) {
            self.downwards(living);
            self.work_off(living);
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
    fn mutable_cells(&mut self, living: &Living<'_>) -> bool {
        let (map, words) = (living.map(), self.table.words());
        let mut references = Queue::<(usize, u32), REFERENCES>::new((0, NOBODY));
        let mut some_pass = false;
        living.for_each_object(|object| {
            let (payload, info) = (object.payload(), object.info);
            if !refers(info) {
                return;
            }
            if !info.mutable {
                words.note_passing(object.cell.number());
                some_pass = true;
                return;
            }
            let set = self.set_of_cell(description(living, payload));
            living.for_each_word(payload, info, |_, word| {
                let Some(cell) = map.number_of_payload(word) else { return };
                words.prefetch(cell);
                if references.is_full()
                    && let Some((cell, set)) = references.take()
                {
                    self.arrive(words, cell, set);
                }
                references.put((cell, set));
            });
        });
        while let Some((cell, set)) = references.take() {
            self.arrive(words, cell, set);
        }
        some_pass
    }

    /// Adds a set to that of a cell, whose object is then to be looked at if it passes it on. In a dead cell, to which a word may lead that is no
    /// reference, it does no harm.
    #[inline(always)]
    fn arrive(&mut self, words: Words, cell: usize, set: u32) {
        let word = words.get(cell);
        let old = word & SET;
        if old == set {
            return;
        }
        let new = if old == NOBODY { set } else { self.sets.join_quickly(old, set) };
        if new == old {
            return;
        }
        words.put(cell, word & !SET | new);
        if word & (PASSES | PENDING) == PASSES {
            self.look_again(words, cell);
        }
    }

    /// An object whose set has grown since it was looked at. What the pass has still to come to needs no place in the list.
    #[inline(never)]
    fn look_again(&mut self, words: Words, cell: usize) {
        words.put(cell, words.get(cell) | PENDING);
        if cell >= self.cursor {
            self.overflowed |= !self.work.push(cell);
        }
    }

    /// The second pass, or one more because the list could not grow: everything that is to be looked at.
    fn downwards(&mut self, living: &Living<'_>) {
        let (map, words) = (living.map(), self.table.words());
        let mut on_the_way = OnTheWay::new();
        for block in (0..living.committed_blocks()).rev().filter(|block| words.has_passing(*block)) {
            let first = block as usize * MARKS_PER_BLOCK;
            self.cursor = first;
            for cell in (first..first + map.cells_in(block)).rev() {
                if words.get(cell) & PENDING != 0 {
                    self.send(living, cell, &mut on_the_way);
                }
            }
        }
        while self.deliver(words, &mut on_the_way) {}
        self.cursor = 0;
    }

    /// What an object that is to be looked at refers to is asked for.
    #[inline(always)]
    fn send(&mut self, living: &Living<'_>, from: usize, on_the_way: &mut OnTheWay) {
        let (map, words) = (living.map(), self.table.words());
        let payload = map.payload_of_number(from);
        let mut begins = true;
        living.for_each_word(payload, living.type_of(payload), |_, word| {
            let Some(to) = map.number_of_payload(word) else { return };
            words.prefetch(to);
            if on_the_way.queue.is_full() {
                self.deliver(words, on_the_way);
            }
            on_the_way.queue.put(Passing { from, to, begins });
            begins = false;
        });
        if begins {
            // It refers to nothing.
            words.put(from, words.get(from) & !PENDING);
        }
    }

    /// The oldest reference that is on its way arrives. False if there is none.
    #[inline(always)]
    fn deliver(&mut self, words: Words, on_the_way: &mut OnTheWay) -> bool {
        let Some(Passing { from, to, begins }) = on_the_way.queue.take() else { return false };
        if begins {
            let word = words.get(from);
            words.put(from, word & !PENDING);
            on_the_way.set = word & SET;
        }
        if on_the_way.set != NOBODY {
            self.arrive(words, to, on_the_way.set);
        }
        true
    }

    /// Looks at everything in the list, until nothing is left.
    fn work_off(&mut self, living: &Living<'_>) {
        let (map, words) = (living.map(), self.table.words());
        let mut objects = Queue::<usize, OBJECTS>::new(0);
        let mut on_the_way = OnTheWay::new();
        loop {
            if let Some(cell) = self.work.pop() {
                prefetch(map.payload_of_number(cell) - HEADER_BYTES);
                objects.put(cell);
                if !objects.is_full() {
                    continue;
                }
            }
            if let Some(cell) = objects.take() {
                // Another pass may have come before.
                if words.get(cell) & PENDING != 0 {
                    self.send(living, cell, &mut on_the_way);
                }
            } else if !self.deliver(words, &mut on_the_way) {
                if !std::mem::take(&mut self.overflowed) {
                    return;
                }
                self.downwards(living);
            }
        }
    }
}

/// Whether there is anything to pass on.
fn refers(info: &TypeInfo) -> bool {
    !matches!(info.shape, Shape::Leaf | Shape::Weak)
}
