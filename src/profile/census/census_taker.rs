//! Takes one census: counts the live objects in the stopped world, and finds the names of the band keys afterwards.

use std::collections::HashMap;

use super::band_key::BandKey;
use super::compiled_filters::CompiledFilters;
use super::count::Count;
use super::table::{Key, Table};
use super::{Band, Breakdown, Census, CensusRequest, Filters, ProfileError};
use crate::collector::Collector;
use crate::collector::live_heap::{LiveHeap, Object};
use crate::events::labels::MAX_LABEL_BYTES;
use crate::heap::layout::Space;
use crate::os::clock::now_ns;
use crate::profile::retainers::{Retainers, SetNames};
use crate::profile::{self, StackId};
use crate::sabotage::{Guard, removed};

/// The band of the objects for which the table had no room.
const NO_ROOM: &str = "(no memory for more bands)";

/// Everything that a census needs in the stopped world, prepared before the stop.
pub(crate) struct CensusTaker {
    breakdown: Breakdown,
    compiled_filters: CompiledFilters,
    counts: Table,
    retainers: Option<Box<Retainers>>,
    set_names: SetNames,
    found: Found,
}

/// Number of band keys that are summed up without the table. A power of two.
const PLACES: usize = 16;

/// The results of a census except the bands.
#[derive(Clone, Copy, Default)]
pub(crate) struct Found {
    pub(crate) taken_ns: u64,
    pub(crate) took_ns: u64,
    pub(crate) collection: u32,
    pub(crate) live: Count,
    pub(crate) filtered: Count,
    pub(crate) no_room: Count,
}

/// Sums up runs of objects with one band key. Often a few band keys alternate, so the sums of a few band keys are kept here. A sum
/// moves to the table when another band key needs its place.
struct Tally<'a> {
    counts: &'a mut Table,
    places: [(BandKey, Count); PLACES],
    /// The objects for which the table had no room.
    no_room: Count,
}

impl<'a> Tally<'a> {
    fn new(counts: &'a mut Table) -> Tally<'a> {
        Tally { counts, places: [(BandKey::ALL, Count::default()); PLACES], no_room: Count::default() }
    }

    fn add(&mut self, band_key: BandKey, run: Count) {
        let place = &mut self.places[band_key.spread_over(PLACES)];
        if place.0 == band_key {
            place.1.add(run);
        } else {
            let before = std::mem::replace(place, (band_key, run));
            self.put_into_table(before);
        }
    }

    fn put_into_table(&mut self, (band_key, count): (BandKey, Count)) {
        if count.objects > 0 {
            match self.counts.entry(Key(band_key.number(), 0)) {
                Some(sum) => *sum = [sum[0] + count.bytes, sum[1] + count.objects],
                None => self.no_room.add(count),
            }
        }
    }

    /// Moves all sums to the table. Returns the count for which the table had no room.
    fn finish(mut self) -> Count {
        for place in self.places {
            self.put_into_table(place);
        }
        self.no_room
    }
}

/// Checks whether the world charges allocations, if the request needs it.
pub(crate) fn check_charges(request: &CensusRequest, collector: &Collector) -> Result<(), ProfileError> {
    let Filters { modules, centres, stacks, .. } = &request.filters;
    let asks = matches!(request.breakdown, Breakdown::CostCentre | Breakdown::Module)
        || [modules, centres, stacks].into_iter().any(|names| !names.is_empty());
    if asks && collector.heap.charges().is_none() {
        return Err(ProfileError::NotCharged);
    }
    // Makes the names of the built-in centres available in the stopped world.
    drop(profile::centres());
    Ok(())
}

impl CensusTaker {
    /// # Errors
    /// The request is not supported, or there is no memory.
    pub(crate) fn new(request: &CensusRequest, collector: &Collector) -> Result<CensusTaker, ProfileError> {
        let filters = &request.filters;
        check_charges(request, collector)?;
        if request.breakdown.is_by_life(filters) {
            return Err(ProfileError::OnlyAtTheEnd);
        }
        let needs_retainers = request.breakdown.needs_retainers(filters);
        let retainers =
            if needs_retainers { Some(Box::new(Retainers::new(collector, request.most_retainers)?)) } else { None };
        Ok(CensusTaker {
            breakdown: request.breakdown,
            compiled_filters: CompiledFilters::new(filters)?,
            counts: Table::new()?,
            retainers,
            set_names: SetNames::default(),
            found: Found::default(),
        })
    }

    /// Maps the memory for the next census. Call it before the world is stopped, with the collector's locks held.
    pub(crate) fn prepare(&mut self, collector: &Collector) {
        if let Some(retainers) = &mut self.retainers {
            retainers.prepare(&collector.heap);
        }
    }

    /// Counts, in the stopped world.
    pub(crate) fn take(&mut self, live_heap: &LiveHeap<'_>) {
        let begun = now_ns();
        self.counts.clear();
        self.compiled_filters.forget();
        self.found = Found { taken_ns: begun, collection: live_heap.number(), ..Found::default() };
        if let Some(retainers) = &mut self.retainers {
            retainers.trace(live_heap);
        }
        let heap = live_heap.heap();
        match self.breakdown {
            // The module is found once for each stack, after the restart.
            Breakdown::CostCentre | Breakdown::Module => {
                self.count(live_heap, |object, _| BandKey::stack(object, heap))
            }
            Breakdown::Description => {
                self.count(live_heap, |object, _| BandKey::description(object.payload(), object.info));
            }
            Breakdown::Type => self.count(live_heap, |object, _| BandKey::of_type(object)),
            Breakdown::Kind => {
                // Neighbouring objects mostly have one type and are in one space.
                let mut last = (std::ptr::null(), Space::Small, BandKey::ALL);
                self.count(live_heap, |object, _| {
                    let info = std::ptr::from_ref(object.info);
                    if (last.0, last.1) != (info, object.space) {
                        last = (info, object.space, BandKey::kind(object));
                    }
                    last.2
                });
            }
            Breakdown::Retainer if self.compiled_filters.is_empty() => self.count_sets(live_heap),
            Breakdown::Retainer => self.count(live_heap, |object, retainers| {
                BandKey::retainers(retainers.map_or(0, |retainers| retainers.set_of(object.cell)))
            }),
            // `new` has refused this breakdown.
            Breakdown::Biography => self.count(live_heap, |_, _| BandKey::ALL),
        }
        self.found.took_ns = now_ns() - begun;
    }

    /// Counts the objects by band key. Objects of one band key are adjacent: a run of them is counted in registers.
    #[inline(always)]
    fn count(&mut self, live_heap: &LiveHeap<'_>, mut band_key_of: impl FnMut(&Object, Option<&Retainers>) -> BandKey) {
        let Self { compiled_filters, counts, retainers, found, .. } = self;
        let retainers = retainers.as_deref();
        let (mut live, mut filtered, mut tally) = (Count::default(), Count::default(), Tally::new(counts));
        live_heap.for_each_block(|cells| {
            let this = Count { bytes: cells.bytes as u64, objects: 1 };
            let (mut band_key, mut run, mut objects) = (BandKey::ALL, 0, 0);
            live_heap.masks_with_headers(&cells).for_each(|index| {
                let object = cells.object(index);
                objects += 1;
                if !compiled_filters.passes(&object, live_heap.heap(), retainers) {
                    if !removed(Guard::CensusExact) {
                        filtered.add(this);
                    }
                    return;
                }
                let its = band_key_of(&object, retainers);
                if its != band_key {
                    tally.add(band_key, this.times(run));
                    (band_key, run) = (its, 0);
                }
                run += 1;
            });
            tally.add(band_key, this.times(run));
            live.add(this.times(objects));
        });
        found.live = live;
        found.filtered = filtered;
        found.no_room = tally.finish();
    }

    /// Counts the live objects by sets of retainers, without reading the objects.
    fn count_sets(&mut self, live_heap: &LiveHeap<'_>) {
        let Self { counts, retainers: Some(retainers), found, .. } = self else { return };
        let (mut live, mut tally) = (Count::default(), Tally::new(counts));
        retainers.count(live_heap, |set, count| {
            live.add(count);
            tally.add(BandKey::retainers(set), count);
        });
        found.live = live;
        found.no_room = tally.finish();
    }

    /// Returns the census. Call it after the restart.
    pub(crate) fn result(&mut self, era: u64) -> Census {
        let mut bands = Bands::default();
        let mut counts: Vec<_> = self.counts.iter().collect();
        // The table's order depends on addresses, which differ between runs.
        counts.sort_unstable_by(|(one, a), (other, b)| b.cmp(a).then(one.cmp(other)));
        for (Key(band_key, _), [bytes, objects]) in counts {
            let band_key = BandKey::from_number(band_key);
            let stack = band_key.as_stack();
            match (stack, band_key.set(), &self.retainers) {
                (Some(stack), ..) if self.breakdown == Breakdown::Module => {
                    bands.add(stack.centre().module().to_owned(), None, bytes, objects);
                }
                (_, Some(set), Some(retainers)) => {
                    bands.add(self.set_names.name(retainers, set), None, bytes, objects);
                }
                _ => bands.add(band_key.text(), stack.map(StackId::get), bytes, objects),
            }
        }
        bands.add_unplaced(self.found.no_room);
        if let Some(retainers) = &mut self.retainers {
            retainers.forget();
        }
        self.found.census(era, self.breakdown, bands.sorted())
    }
}

impl Found {
    /// The census, with its bands.
    pub(crate) fn census(self, era: u64, breakdown: Breakdown, bands: Vec<Band>) -> Census {
        let Found { taken_ns, took_ns, collection, live, filtered, .. } = self;
        Census {
            era,
            breakdown,
            taken_ns,
            took_ns,
            collection,
            live_bytes: live.bytes,
            live_objects: live.objects,
            filtered_bytes: filtered.bytes,
            filtered_objects: filtered.objects,
            bands,
        }
    }
}

/// Bands under construction: one for each name.
#[derive(Default)]
pub(crate) struct Bands {
    places: HashMap<(String, Option<u32>), usize>,
    bands: Vec<Band>,
}

impl Bands {
    pub(crate) fn add(&mut self, mut label: String, stack: Option<u32>, bytes: u64, objects: u64) {
        cut(&mut label);
        let Bands { places, bands } = self;
        let place = *places.entry((label, stack)).or_insert_with_key(|(label, stack)| {
            bands.push(Band { label: label.clone(), stack: *stack, bytes: 0, objects: 0 });
            bands.len() - 1
        });
        bands[place].bytes += bytes;
        bands[place].objects += objects;
    }

    /// Adds the objects for which the table had no room.
    pub(crate) fn add_unplaced(&mut self, count: Count) {
        if count.objects > 0 {
            self.add(NO_ROOM.to_owned(), None, count.bytes, count.objects);
        }
    }

    pub(crate) fn sorted(self) -> Vec<Band> {
        let mut bands = self.bands;
        let by_size = |one: &Band, other: &Band| other.bytes.cmp(&one.bytes);
        bands.sort_by(|one, other| {
            by_size(one, other).then_with(|| (&one.label, one.stack).cmp(&(&other.label, other.stack)))
        });
        bands
    }
}

/// Shortens a label to the longest allowed size, and removes NULs.
pub(super) fn cut(label: &mut String) {
    if label.contains('\0') {
        *label = label.replace('\0', "");
    }
    let mut end = MAX_LABEL_BYTES.min(label.len());
    while !label.is_char_boundary(end) {
        end -= 1;
    }
    label.truncate(end);
}
