//! The sampled allocations of a world, and which of their objects are still alive.
//!
//! A thread that has sampled an allocation adds it under the lock of this table. A collection takes the lock before it stops the threads. So in the
//! stopped world no thread is in the middle of a change, and after marking the table can be searched for objects that have died. It only gets
//! smaller then, so nothing is allocated.
//!
//! Samples are counted by *site*: call stack, cost centre stack, type and size. The table holds a bounded number of sites and of live objects,
//! and counts what it has no room for. An object that has no room is counted in its site, but not followed: it is not in use.
//!
//! The program may free objects itself, and few of them are sampled. So the table counts its objects by *region* of the address space, without
//! the lock: an object in a region with count 0 is not sampled.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::heap::layout::BLOCK_BYTES;
use crate::heap::trace::TypeInfo;
use crate::sync::{AtomicU32, Lock, LockGuard, Locked, Ordering::Relaxed};

/// The largest number of sites.
const MOST_SITES: usize = 1 << 17;
/// The largest number of sampled objects that are alive at the same time.
const MOST_OBJECTS: usize = 1 << 20;
/// The number of counters for regions. Blocks at this distance share one.
const REGIONS: usize = 1 << 12;

/// Where and what was allocated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Site {
    /// The number of the call stack; 0 if it is not known.
    pub(crate) stack: u32,
    /// The number of the thread's cost centre stack.
    pub(crate) cost_stack: u32,
    pub(crate) type_info: &'static TypeInfo,
    /// The bytes of the heap that each object takes: its cell, or its blocks.
    pub(crate) object_bytes: u64,
}

/// The samples of a site.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted {
    pub(crate) site: Site,
    pub(crate) allocated: u64,
    /// How many of their objects are not in use: dead, or not followed.
    pub(crate) freed: u64,
}

/// The samples of a world.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    /// By site, in the order in which the sites were first sampled.
    pub(crate) sites: Vec<Counted>,
    /// The number of samples without room for their sites.
    pub(crate) dropped: u64,
    /// The number of samples whose objects are not followed.
    pub(crate) untracked: u64,
}

/// The table. See the module's text.
pub(crate) struct Samples {
    pub(crate) interval_bytes: u64,
    table: Locked<Table>,
    /// The number of the table's objects by region. Changed under the lock.
    by_region: Box<[AtomicU32]>,
}

struct Table {
    sites: Vec<Counted>,
    /// The index of each site.
    index: HashMap<(u32, u32, usize, u64), u32>,
    /// The sampled objects that are alive, by payload address, with the index of their site.
    objects: HashMap<usize, u32>,
    dropped: u64,
    untracked: u64,
    room: (usize, usize),
}

impl Samples {
    pub(crate) fn new(interval_bytes: u64) -> Self {
        Self::with_room(interval_bytes, MOST_SITES, MOST_OBJECTS)
    }

    fn with_room(interval_bytes: u64, sites: usize, objects: usize) -> Self {
        let table = Table {
            sites: Vec::new(),
            index: HashMap::new(),
            objects: HashMap::new(),
            dropped: 0,
            untracked: 0,
            room: (sites, objects),
        };
        let by_region = (0..REGIONS).map(|_| AtomicU32::new(0)).collect();
        Self { interval_bytes, table: Locked::new(table), by_region }
    }

    fn region(&self, payload: usize) -> &AtomicU32 {
        &self.by_region[payload / BLOCK_BYTES % REGIONS]
    }

    /// Returns whether the object at this address may be in the table. The caller must have received the object from the thread that
    /// allocated it, so that it sees what that thread has counted.
    #[inline]
    pub(crate) fn may_contain(&self, payload: usize) -> bool {
        self.region(payload).load(Relaxed) > 0
    }

    /// The lock of the table.
    pub(crate) fn lock(&self) -> &Lock {
        self.table.lock()
    }

    /// Adds a sampled object. Allocates memory.
    pub(crate) fn add(&self, held: &mut LockGuard<'_>, payload: usize, site: Site) {
        // Its addresses of objects keep nothing alive.
        #[cfg(feature = "check")]
        let _own_memory = crate::check::OwnMemory::begin();
        if self.table.get_mut(held).add(payload, site) {
            self.region(payload).fetch_add(1, Relaxed);
        }
    }

    /// Notes that the program has freed the object at this address, if it is a sampled one.
    pub(crate) fn freed(&self, held: &mut LockGuard<'_>, payload: usize) {
        let table = self.table.get_mut(held);
        if let Some(site) = table.objects.remove(&payload) {
            table.sites[site as usize].freed += 1;
            self.region(payload).fetch_sub(1, Relaxed);
        }
    }

    /// Removes the objects that have died. Called in the stopped world after marking: allocates nothing.
    pub(crate) fn remove_dead(&self, held: &mut LockGuard<'_>, lives: impl Fn(usize) -> bool) {
        let Table { sites, objects, .. } = self.table.get_mut(held);
        objects.retain(|&payload, site| {
            let lives = lives(payload);
            if !lives {
                sites[*site as usize].freed += 1;
                self.region(payload).fetch_sub(1, Relaxed);
            }
            lives
        });
    }

    /// Returns the samples so far.
    pub(crate) fn counts(&self, held: &LockGuard<'_>) -> Counts {
        let Table { sites, dropped, untracked, .. } = self.table.get(held);
        Counts { sites: sites.clone(), dropped: *dropped, untracked: *untracked }
    }
}

impl Table {
    /// Adds a sample. Returns whether the table has one more object.
    fn add(&mut self, payload: usize, site: Site) -> bool {
        let Some(index) = self.index_of(site) else {
            self.dropped += 1;
            return false;
        };
        self.sites[index as usize].allocated += 1;
        let is_full = self.objects.len() >= self.room.1;
        match self.objects.entry(payload) {
            Entry::Vacant(_) if is_full => {
                self.untracked += 1;
                self.sites[index as usize].freed += 1;
                false
            }
            Entry::Vacant(place) => {
                place.insert(index);
                true
            }
            // The object there is not known to be dead, but has given its memory to the new one.
            Entry::Occupied(mut before) => {
                let before = before.insert(index);
                self.sites[before as usize].freed += 1;
                false
            }
        }
    }

    fn index_of(&mut self, site: Site) -> Option<u32> {
        let key = (site.stack, site.cost_stack, std::ptr::from_ref(site.type_info) as usize, site.object_bytes);
        let next = self.sites.len();
        match self.index.entry(key) {
            Entry::Occupied(known) => Some(*known.get()),
            Entry::Vacant(_) if next >= self.room.0 => None,
            Entry::Vacant(new) => {
                self.sites.push(Counted { site, allocated: 0, freed: 0 });
                Some(*new.insert(next as u32))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::trace::Described;

    fn site(stack: u32, object_bytes: u64) -> Site {
        Site { stack, cost_stack: 0, type_info: u64::INFO, object_bytes }
    }

    #[test]
    fn samples_are_counted_by_site_until_their_objects_die() {
        let samples = Samples::new(1);
        let mut held = samples.lock().lock();
        for payload in 1..=10 {
            samples.add(&mut held, payload, site(payload as u32 % 2, 16));
        }
        samples.remove_dead(&mut held, |payload| payload > 4);
        samples.freed(&mut held, 10);
        samples.freed(&mut held, 10);
        // A new object at an address whose object was not seen to die.
        samples.add(&mut held, 9, site(1, 32));
        let Counts { sites, dropped, untracked } = samples.counts(&held);
        let counts: Vec<_> = sites.iter().map(|c| (c.site.stack, c.site.object_bytes, c.allocated, c.freed)).collect();
        assert_eq!(counts, [(1, 16, 5, 3), (0, 16, 5, 3), (1, 32, 1, 0)]);
        assert_eq!((dropped, untracked), (0, 0));
    }

    #[test]
    fn samples_without_room_are_counted() {
        let samples = Samples::with_room(1, 2, 3);
        let mut held = samples.lock().lock();
        for payload in 1..=5 {
            samples.add(&mut held, payload, site(0, 16));
        }
        samples.add(&mut held, 1, site(1, 16));
        samples.add(&mut held, 2, site(2, 16));
        let Counts { sites, dropped, untracked } = samples.counts(&held);
        // The object at 1 has given its memory to one of another site, and two objects have no room.
        assert_eq!(sites.iter().map(|c| (c.allocated, c.freed)).collect::<Vec<_>>(), [(5, 3), (1, 0)]);
        assert_eq!((dropped, untracked), (1, 2));
    }

    #[test]
    fn a_region_without_samples_is_known_without_the_lock() {
        let samples = Samples::new(1);
        let mut held = samples.lock().lock();
        let places = [BLOCK_BYTES, BLOCK_BYTES + 64, 3 * BLOCK_BYTES];
        places.iter().for_each(|place| samples.add(&mut held, *place, site(0, 16)));
        samples.add(&mut held, places[0], site(1, 16));
        let contained = |samples: &Samples| [1, 2, 3].map(|block| samples.may_contain(block * BLOCK_BYTES + 8));
        assert_eq!(contained(&samples), [true, false, true]);
        samples.freed(&mut held, places[0]);
        assert_eq!(contained(&samples), [true, false, true]);
        samples.remove_dead(&mut held, |payload| payload == places[2]);
        assert_eq!(contained(&samples), [false, false, true]);
    }
}
