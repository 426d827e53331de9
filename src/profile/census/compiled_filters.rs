//! The filters of a census.
//!
//! A filter compares names, but an object has band keys. So each filter caches for every band key whether it passes: names are
//! compared once for each band key, and after that a table lookup decides, or no lookup at all if the object has the same band key
//! as the one before.

use std::io;

use super::Filters;
use super::band_key::BandKey;
use super::table::{Key, Table};
use crate::collector::live_heap::Object;
use crate::heap::Heap;
use crate::profile::retainers::Retainers;

/// What a filter compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FilterKey {
    Module,
    Centre,
    Stack,
    Description,
    Type,
    Retainers,
}

impl FilterKey {
    /// Whether `name` is a name of this band key. Does not allocate.
    fn finds(self, name: &str, band_key: BandKey, retainers: Option<&Retainers>) -> bool {
        match self {
            FilterKey::Centre => band_key.as_centre().is_some_and(|centre| centre.label() == name),
            FilterKey::Stack => band_key.as_stack().is_some_and(|stack| {
                // The empty stack, too, has a centre: MAIN.
                stack.centre().label() == name || stack.centres().any(|centre| centre.label() == name)
            }),
            FilterKey::Retainers => {
                band_key.set().zip(retainers).is_some_and(|(set, retainers)| retainers.has_member_called(set, name))
            }
            FilterKey::Module | FilterKey::Description | FilterKey::Type => band_key.is_called(name),
        }
    }
}

/// One list of names.
struct Filter {
    key: FilterKey,
    names: Vec<String>,
    /// For each band key that was checked, whether it passes: 1 if it does, 2 if not.
    verdicts: Table,
    last: Option<(BandKey, bool)>,
}

/// All filters of a census except the one by biography.
pub(crate) struct CompiledFilters {
    filters: Vec<Filter>,
}

impl CompiledFilters {
    pub(crate) fn new(filters: &Filters) -> io::Result<CompiledFilters> {
        let lists = [
            (FilterKey::Module, &filters.modules),
            (FilterKey::Centre, &filters.centres),
            (FilterKey::Stack, &filters.stacks),
            (FilterKey::Description, &filters.descriptions),
            (FilterKey::Type, &filters.types),
            (FilterKey::Retainers, &filters.retainers),
        ];
        let there_is = lists.into_iter().filter(|(_, names)| !names.is_empty());
        let filters =
            there_is.map(|(key, names)| Ok(Filter { key, names: names.clone(), verdicts: Table::new()?, last: None }));
        Ok(CompiledFilters { filters: filters.collect::<io::Result<_>>()? })
    }

    /// Clears the cached verdicts before a census: sets of retainers are renumbered in each.
    pub(crate) fn forget(&mut self) {
        for filter in &mut self.filters {
            filter.verdicts.clear();
            filter.last = None;
        }
    }

    /// Returns whether all objects pass.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.filters.is_empty()
    }

    /// Returns whether an object passes.
    #[inline(always)]
    pub(crate) fn passes(&mut self, object: &Object, heap: &Heap, retainers: Option<&Retainers>) -> bool {
        self.is_empty() || self.all_pass(object, heap, retainers)
    }

    #[inline(never)]
    fn all_pass(&mut self, object: &Object, heap: &Heap, retainers: Option<&Retainers>) -> bool {
        self.filters.iter_mut().all(|filter| filter.passes(object, heap, retainers))
    }
}

impl Filter {
    fn passes(&mut self, object: &Object, heap: &Heap, retainers: Option<&Retainers>) -> bool {
        let band_key = match self.key {
            FilterKey::Module | FilterKey::Centre => BandKey::centre(object, heap),
            FilterKey::Stack => BandKey::stack(object, heap),
            FilterKey::Description => BandKey::description(object.payload(), object.info),
            FilterKey::Type => BandKey::of_type(object),
            FilterKey::Retainers => BandKey::retainers(retainers.map_or(0, |retainers| retainers.set_of(object.cell))),
        };
        if let Some((last, passes)) = self.last
            && last == band_key
        {
            return passes;
        }
        let key = Key(band_key.number(), 0);
        let passes = match self.verdicts.get(key) {
            Some([verdict, _]) => verdict == 1,
            None => {
                let passes = self.names.iter().any(|name| self.key.finds(name, band_key, retainers));
                // If there is no room for the result, the names are compared again the next time.
                if let Some(verdict) = self.verdicts.entry(key) {
                    verdict[0] = if passes { 1 } else { 2 };
                }
                passes
            }
        };
        self.last = Some((band_key, passes));
        passes
    }
}
