//! Biographies: void, lag, use, inherent use, drag.
//!
//! Whether a live object will be used again is known only when it dies. So a biography collects two kinds of data. At each *census*
//! it counts the objects that have been used so far and those that have not. At each *collection* it notes for each dead object
//! when it was created, when it was last used, and its size. At the end these data are combined.
//!
//! ```text
//!              born c        first use          last use u                 died d          eras, one from census to census
//!   never used │▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓│               VOID   at the censuses c … d-1
//!   used       │▒▒▒ LAG ▒▒▒│██████████ USE ██████████│░░░░ DRAG ░░░░│               DRAG   at the censuses u+1 … d-1
//! ```
//!
//! Two arrays, indexed by era, record the dead objects: `void[c] += n, void[d] -= n` for those that were never used,
//! `drag[u+1] += n, drag[d] -= n` for those that were. Their prefix sums show, for each census, how much of the *not used* objects
//! was void (the rest is lag), and how much of the *used* objects was drag (the rest is use). Every object that is still alive at the
//! end of the biography counts as dying then. So all five stages are exact for every census, and none is known before the end
//! (`.biography.exact`).
//!
//! **A use is a dereference of a [`Gc`](crate::Gc)**, also for an access that writes a field or calls a method.
//! `Weak::get` uses the weak reference, not its target. If the program keeps a Rust reference into an object, further accesses
//! through it are not seen, and creating an object is no use of it. **Inherent use** is the stage of objects that are used by address,
//! in ways that cannot be observed: objects of the pinned space, and of types described at run time.
//!
//! **A biography takes at most [`LAST_ERA`] censuses**, because of the largest era number that the side word of an object can
//! hold. After that a request for a census fails. Deaths are still recorded until the end, so that the existing censuses stay exact.
//!
//! A collection with a biography walks the whole heap, also if no census is due; a read costs a load, a comparison and a store.

use std::collections::HashMap;

use super::StackId;
use super::census::band_key::BandKey;
use super::census::census_taker::{Bands, Found};
use super::census::compiled_filters::CompiledFilters;
use super::census::count::Count;
use super::census::table::{Key, Table};
use super::census::{Band, Breakdown, Census, CensusRequest, ProfileError, Stage};
use crate::collector::live_heap::{LiveHeap, Object};
use crate::heap::Heap;
use crate::heap::layout::Space;
use crate::heap::uses::{LAST_ERA, Life, Tracking, Uses};
use crate::os::clock::now_ns;
use crate::sabotage::{Guard, removed};

/// The purpose of a walk over the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WalkPurpose {
    /// Only record the dead objects.
    Deaths,
    /// Also take a census.
    Census,
    /// The last walk: all live objects count as dying now.
    End,
}

/// The part of an object's stage that a census knows at once: the second word of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
enum UseKind {
    NotUsed = 0,
    Used = 1,
    Inherent = 2,
}

/// A change of the numbers of bytes and objects; negative for objects that die.
type Change = [i64; 2];

/// A running biography.
pub(crate) struct Biography {
    breakdown: Breakdown,
    stages: Vec<Stage>,
    compiled_filters: CompiledFilters,
    uses: &'static Uses,
    era: u16,
    /// The live objects, by band key and [`UseKind`]. Counted in the stopped world.
    living: Table,
    /// The dead objects, by band key, and by eras of birth and last use. Counted in the stopped world.
    died: Table,
    found: Found,
    /// The censuses so far.
    taken: Vec<Taken>,
    /// For each band key, the changes of void bytes and objects at each era. `drag` has the changes of drag bytes and objects.
    void: HashMap<BandKey, Vec<Change>>,
    drag: HashMap<BandKey, Vec<Change>>,
}

/// A census whose stages are not known yet.
struct Taken {
    era: u16,
    found: Found,
    living: Vec<(BandKey, u64, [u64; 2])>,
}

impl Biography {
    /// Starts a biography. The request has passed [`check`](crate::profile::census::HeapProfile::check).
    ///
    /// # Errors
    /// The system gives no memory.
    pub(crate) fn new(request: &CensusRequest, tracking: &Tracking) -> Result<Biography, ProfileError> {
        let filters = &request.filters;
        let uses = tracking.uses();
        tracking.forget();
        let stages = if filters.biography.is_empty() { Stage::ALL.to_vec() } else { filters.biography.clone() };
        let biography = Biography {
            breakdown: request.breakdown,
            stages,
            compiled_filters: CompiledFilters::new(filters)?,
            uses,
            era: 1,
            living: Table::new()?,
            died: Table::new()?,
            found: Found::default(),
            taken: Vec::new(),
            void: HashMap::new(),
            drag: HashMap::new(),
        };
        uses.set_era(1);
        Ok(biography)
    }

    fn band_key(breakdown: Breakdown, object: &Object, heap: &Heap) -> BandKey {
        match breakdown {
            Breakdown::CostCentre => BandKey::stack(object, heap),
            Breakdown::Module => BandKey::centre(object, heap),
            Breakdown::Description => BandKey::description(object.payload(), object.info),
            Breakdown::Type => BandKey::of_type(object),
            Breakdown::Kind => BandKey::kind(object),
            // Without a second breakdown, all objects have one band key. `new` has refused retainers as the second breakdown.
            Breakdown::Biography | Breakdown::Retainer => BandKey::ALL,
        }
    }

    /// Walks the heap, in the stopped world. Do not call it for a census once the biography [is full](Self::is_full).
    pub(crate) fn look(&mut self, living: &LiveHeap<'_>, look: WalkPurpose) {
        let begun = now_ns();
        self.found = Found { taken_ns: begun, collection: living.number(), ..Found::default() };
        self.living.clear();
        self.died.clear();
        self.compiled_filters.forget();
        living.for_each_cell(|visited| {
            let payload = visited.payload();
            let uses = self.uses;
            let life = uses.life(payload);
            if visited.lives {
                // A last use in a future era comes from an earlier profile.
                let used = if life.used > self.era { 0 } else { life.used };
                let life = Life { born: if life.born == 0 { self.era } else { life.born }, used };
                uses.set_life(payload, life);
                self.lives(&visited.object(), living.heap(), life, look);
            } else if life != (Life { born: 0, used: 0 }) {
                uses.set_life(payload, Life { born: 0, used: 0 });
                // An object that no collection has seen alive was in no census.
                if life.born != 0 {
                    self.dies(&visited.object(), living.heap(), life);
                }
            }
        });
        if look == WalkPurpose::Census && !removed(Guard::BiographyExact) {
            // The era changes here, where no mutator runs: every use after the restart belongs to the eras after this census.
            self.uses.set_era(self.era + 1);
        }
        self.found.took_ns = now_ns() - begun;
    }

    fn lives(&mut self, object: &Object, heap: &Heap, life: Life, look: WalkPurpose) {
        match look {
            WalkPurpose::Deaths => {}
            WalkPurpose::End => self.dies(object, heap, life),
            WalkPurpose::Census => {
                let this = Count { bytes: object.bytes as u64, objects: 1 };
                self.found.live.add(this);
                if !self.compiled_filters.passes(object, heap, None) {
                    self.found.filtered.add(this);
                    return;
                }
                let so = match life.used {
                    _ if is_inherently_used(object) => UseKind::Inherent,
                    0 => UseKind::NotUsed,
                    _ => UseKind::Used,
                };
                let key = Key(Self::band_key(self.breakdown, object, heap).number(), so as u64);
                match self.living.entry(key) {
                    Some(count) => *count = [count[0] + this.bytes, count[1] + 1],
                    None => self.found.no_room.add(this),
                }
            }
        }
    }

    fn dies(&mut self, object: &Object, heap: &Heap, life: Life) {
        if is_inherently_used(object) || !self.compiled_filters.passes(object, heap, None) {
            return;
        }
        let band_key = Self::band_key(self.breakdown, object, heap).number();
        // If there is no room for an entry, the object still counts as lag or use, as the censuses counted it.
        if let Some(count) = self.died.entry(Key(band_key, u64::from(life.born) << 16 | u64::from(life.used))) {
            *count = [count[0] + object.bytes as u64, count[1] + 1];
        }
    }

    /// Adds the results of the walk. Call it after the restart.
    pub(crate) fn note(&mut self, look: WalkPurpose) {
        let now = usize::from(self.era);
        for (Key(band_key, when), [bytes, objects]) in self.died.iter() {
            let (born, used) = ((when >> 16) as usize, (when & 0xffff) as usize);
            let change = [bytes as i64, objects as i64];
            let (array, from) = if used == 0 { (&mut self.void, born) } else { (&mut self.drag, used + 1) };
            if from < now {
                let array = array.entry(BandKey::from_number(band_key)).or_default();
                array.resize(array.len().max(now + 1), [0; 2]);
                for (at, sign) in [(from, 1), (now, -1)] {
                    array[at] = [array[at][0] + sign * change[0], array[at][1] + sign * change[1]];
                }
            }
        }
        if look != WalkPurpose::Census {
            return;
        }
        let living = self.living.iter().map(|(Key(band_key, so), count)| (BandKey::from_number(band_key), so, count));
        self.taken.push(Taken { era: self.era, found: self.found, living: living.collect() });
        self.era += 1;
    }

    /// Returns whether all eras are used up. Then the biography takes no more censuses, and only records the deaths of objects that
    /// earlier censuses counted.
    pub(crate) fn is_full(&self) -> bool {
        self.era > LAST_ERA
    }

    /// Returns the number of censuses taken so far.
    pub(crate) fn eras(&self) -> u64 {
        self.taken.len() as u64
    }

    /// Returns all censuses. Call it after the last walk has been noted.
    pub(crate) fn finish(self) -> Vec<Census> {
        self.uses.set_era(0);
        let [void, drag] = [&self.void, &self.drag].map(sums);
        let at = |sums: &HashMap<BandKey, Vec<Change>>, band_key: BandKey, era: u16| {
            sums.get(&band_key).and_then(|sums| sums.get(usize::from(era))).copied().unwrap_or_default()
        };
        let census = |taken: &Taken| {
            let mut by_stage: Vec<(BandKey, Stage, [u64; 2])> = Vec::new();
            for &(band_key, so, count) in &taken.living {
                let mut part = |stage, late: Change, early| {
                    // The result is limited to the live count: an object may have another band key when it dies than when it was counted.
                    let at_most = if removed(Guard::BiographyExact) { [u64::MAX; 2] } else { count };
                    let late = [0, 1].map(|of| (late[of].max(0) as u64).min(at_most[of]));
                    debug_assert!(late[0] <= count[0] && late[1] <= count[1], "a stage has more than was alive");
                    by_stage.push((band_key, stage, late));
                    by_stage.push((band_key, early, [count[0] - late[0], count[1] - late[1]]));
                };
                if so == UseKind::NotUsed as u64 {
                    part(Stage::Void, at(&void, band_key, taken.era), Stage::Lag);
                } else if so == UseKind::Used as u64 {
                    part(Stage::Drag, at(&drag, band_key, taken.era), Stage::Use);
                } else {
                    by_stage.push((band_key, Stage::InherentUse, count));
                }
            }
            self.census(taken, &by_stage)
        };
        self.taken.iter().map(census).collect()
    }

    fn census(&self, taken: &Taken, by_stage: &[(BandKey, Stage, [u64; 2])]) -> Census {
        let mut found = taken.found;
        let mut bands = Bands::default();
        let mut stages = Stage::ALL.map(|_| [0; 2]);
        for &(band_key, stage, count) in by_stage {
            if !self.stages.contains(&stage) {
                found.filtered.add(Count { bytes: count[0], objects: count[1] });
            } else if self.breakdown == Breakdown::Biography {
                let sum = &mut stages[stage as usize];
                *sum = [sum[0] + count[0], sum[1] + count[1]];
            } else if count[1] > 0 {
                bands.add(band_key.text(), band_key.as_stack().map(StackId::get), count[0], count[1]);
            }
        }
        bands.add_unplaced(found.no_room);
        let mut all: Vec<Band> = Vec::new();
        if self.breakdown == Breakdown::Biography {
            let named = Stage::ALL.into_iter().filter(|stage| self.stages.contains(stage));
            all.extend(named.map(|stage| {
                let [bytes, objects] = stages[stage as usize];
                Band { label: stage.name().to_owned(), stack: None, bytes, objects }
            }));
        }
        all.extend(bands.sorted());
        found.census(u64::from(taken.era), self.breakdown, all)
    }
}

/// Whether an object is used by its address, in ways that cannot be observed.
fn is_inherently_used(object: &Object) -> bool {
    object.space == Space::Pinned || object.info.is_described()
}

/// Returns the prefix sums: for each era, the count that has begun by then and not ended.
fn sums(changes: &HashMap<BandKey, Vec<Change>>) -> HashMap<BandKey, Vec<Change>> {
    let sum = |changes: &Vec<Change>| {
        let mut so_far = [0; 2];
        let add = |change: &Change| {
            so_far = [so_far[0] + change[0], so_far[1] + change[1]];
            so_far
        };
        changes.iter().map(add).collect()
    };
    changes.iter().map(|(band_key, changes)| (*band_key, sum(changes))).collect()
}
