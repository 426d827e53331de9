//! Entries of weak maps: each keeps its value alive as long as something else keeps its key alive (`.weak.ephemeron`).
//!
//! Such an entry is an *ephemeron*. It cannot be decided while marking is under way: that its key is not marked may mean that it is not marked
//! *yet*, and the value of one entry may be what leads to the key of another. So marking collects the tables of the maps that it
//! reaches, and leaves out what is in them. Then:
//!
//! 1. The values of entries whose keys are marked are marked, with all that they reach, as long as that leads to more tables. Most maps
//!    are decided then: their keys are reached by the program.
//! 2. If some entries are left whose keys are not marked, they are put into an [index](super::key_index) by their keys. From then on, each
//!    object that is marked is looked up there, and the values of the entries that have waited for it are marked next. When there is nothing
//!    left to mark, the keys that still are not marked are dead.
//! 3. The entries of dead keys are removed from their tables, in the step that clears weak references.
//!
//! Each entry is looked at once in each step, and put into the index once. So the time is linear in the number of entries, whatever the order of
//! a chain of entries is; to repeat step 1 until nothing changes would take as many passes as the chain has entries.
//!
//! # Speed
//! The mark loop knows nothing of all this: a world without weak maps pays nothing for them. Step 1 uses that loop, on the collecting thread
//! alone. Step 2 has a loop of its own, which has no queues (see [`mark`](super::mark)) and looks up each object. It marks only what
//! is reached from the value of an entry whose key is, in turn, reached only from a value.
//!
//! # A full mark stack
//! A key that is marked because the stack was full is not looked up. So when that has happened, and the heap has been walked over, all entries
//! in the index are looked at again.
//!
//! # Finalizers
//! The steps are repeated after the objects that wait for finalizers have been marked, for the tables that only these reach. An entry of any
//! other map whose key is about to be finalized is removed before that, as a weak reference to the key is cleared.

use super::key_index::KeyIndex;
use super::linked_objects::LinkedObjects;
use super::mark::{Marker, Rank};
use super::parallel::Marking;
use super::scan::{SLICE_TAG, reference_to};
use crate::heap::Heap;
use crate::heap::ephemerons::Ephemerons;
use crate::heap::ranges::InRanges;
use crate::sabotage::{Guard, removed};
use crate::sync::{AtomicU32, Ordering::Relaxed};

/// How many places of a table a thread looks at before it takes others: for some 10 µs.
const PLACES_AT_ONCE: usize = 1024;

/// Marks the values of all entries whose keys are alive, and everything that these reach.
pub(super) fn mark_values(marking: &mut Marking<'_>) {
    let mut some_wait = !marking.tables.is_empty();
    loop {
        let mut is_over = true;
        while let Some(table) = next_table(marking) {
            some_wait |= marking.marker.values_of_marked_keys(table);
            is_over = false;
        }
        if is_over {
            break;
        }
        marking.run_on();
    }
    if !some_wait || removed(Guard::WeakEphemeron) {
        return;
    }
    let Some(mut index) = marking.index_memory.index() else { return };
    let marker = &mut marking.marker;
    marker.lacked_room = false;
    // SAFETY: tables of the stopped world.
    marking.tables.for_each(|link| marker.value_or_wait(unsafe { Ephemerons::of_link(link) }, &mut index));
    loop {
        marking.marker.drain_and_look_up(&mut index);
        if let Some(table) = next_table(marking) {
            marking.marker.value_or_wait(table, &mut index);
        } else if std::mem::take(&mut marking.marker.lacked_room) {
            marking.marker.recover_from_overflow();
            marking.marker.values_of_found_keys(&mut index);
        } else {
            return;
        }
    }
}

/// Takes a table that marking has reached, and puts it into the list of those whose entries are being decided.
fn next_table(marking: &mut Marking<'_>) -> Option<&'static Ephemerons> {
    let link = marking.take_table()?;
    marking.tables.add(link);
    // SAFETY: a table of the stopped world; its memory is not freed before the restart, and the reference is used only until then.
    Some(unsafe { Ephemerons::of_link(link) })
}

/// Removes the entries of dead keys from all tables that were reached. Returns their number.
pub(super) fn remove_dead_entries(marking: &mut Marking<'_>, heap: &Heap) -> u32 {
    let dead = AtomicU32::new(0);
    let mut tables = std::mem::replace(&mut marking.tables, LinkedObjects::EMPTY);
    tables.take_all(&mut |link| {
        // SAFETY: as in `next_table`.
        let table = unsafe { Ephemerons::of_link(link) };
        let places = table.places();
        marking.for_each(places.len(), PLACES_AT_ONCE, &|numbers| {
            let is_dead = |key| !heap.is_marked(key) && !removed(Guard::WeakClear);
            let of_dead_keys = places[numbers].iter().filter(|place| place.key().is_some_and(is_dead));
            dead.fetch_add(of_dead_keys.filter(|place| table.remove(place)).count() as u32, Relaxed);
        });
    });
    dead.into_inner()
}

/// Forgets the tables that were reached, in a collection that is discarded.
pub(super) fn forget_tables(marking: &mut Marking<'_>) {
    while next_table(marking).is_some() {}
    marking.tables.take_all(&mut |_| {});
}

impl Marker<'_> {
    /// Pushes the values of those entries of a table whose keys are marked. Returns whether there are others.
    fn values_of_marked_keys(&mut self, table: &Ephemerons) -> bool {
        let mut some_wait = false;
        for place in table.places() {
            match place.key() {
                Some(key) if self.heap.is_marked(key) => {
                    self.precise(place.value_slot(), place.value(), Rank::Exact);
                    if self.stack.is_half_full() {
                        self.drain();
                    }
                }
                Some(_) => some_wait = true,
                None => {}
            }
        }
        some_wait
    }

    /// Pushes the values of those entries of a table whose keys are marked, and puts the others into the index.
    fn value_or_wait(&mut self, table: &Ephemerons, index: &mut KeyIndex<'_>) {
        for place in table.places() {
            match place.key() {
                Some(key) if self.heap.is_marked(key) => {
                    self.precise(place.value_slot(), place.value(), Rank::Exact);
                    if self.stack.is_half_full() {
                        self.drain_and_look_up(index);
                    }
                }
                Some(key) => index.add(place, key),
                None => {}
            }
        }
    }

    /// Pushes the values of the entries in the index whose keys are marked by now.
    fn values_of_found_keys(&mut self, index: &mut KeyIndex<'_>) {
        let heap = self.heap;
        index.take_all(|key| heap.is_marked(key), |entry| self.precise(entry.value_slot(), entry.value(), Rank::Exact));
    }

    /// Marks until nothing is left to do, and looks up each object that it marks.
    fn drain_and_look_up(&mut self, index: &mut KeyIndex<'_>) {
        self.stack.note_height();
        while let Some(task) = self.stack.pop() {
            if task & SLICE_TAG != 0 {
                match self.tells {
                    true => self.scan_slice_task::<true>(task),
                    false => self.scan_slice_task::<false>(task),
                }
                continue;
            }
            let Some(target) = self.references.find(self.map, task) else { continue };
            if !self.mark(reference_to(self.map, target)) {
                continue;
            }
            let Some(info) = self.info(target.payload, true) else { continue };
            self.marked += 1;
            index.take(target.payload, |entry| self.precise(entry.value_slot(), entry.value(), Rank::Exact));
            match self.tells {
                true => self.scan::<true>(target.payload, info),
                false => self.scan::<false>(target.payload, info),
            }
        }
    }
}
