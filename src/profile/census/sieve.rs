//! The filters of a census.
//!
//! A filter compares names, but an object has headings. So each filter caches for every heading whether it passes: names are
//! compared once for each heading, and after that a table lookup decides, or no lookup at all if the object has the same heading
//! as the one before.

use std::io;

use super::Filters;
use super::heading::Heading;
use super::table::{Key, Table};
use crate::collector::living::Object;
use crate::heap::Heap;
use crate::profile::retainers::Retainers;

/// What a filter compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Looks {
    Module,
    Centre,
    Stack,
    Description,
    Type,
    Retainers,
}

impl Looks {
    /// Whether `name` is a name of this heading. Does not allocate.
    fn finds(self, name: &str, heading: Heading, retainers: Option<&Retainers>) -> bool {
        match self {
            Looks::Centre => heading.as_centre().is_some_and(|centre| centre.label() == name),
            Looks::Stack => heading.as_stack().is_some_and(|stack| {
                // The empty stack, too, has a centre: MAIN.
                stack.centre().label() == name || stack.centres().any(|centre| centre.label() == name)
            }),
            Looks::Retainers => {
                heading.set().zip(retainers).is_some_and(|(set, retainers)| retainers.has_member_called(set, name))
            }
            Looks::Module | Looks::Description | Looks::Type => heading.is_called(name),
        }
    }
}

/// One list of names.
struct Filter {
    looks: Looks,
    names: Vec<String>,
    /// For each heading that was checked, whether it passes: 1 if it does, 2 if not.
    verdicts: Table,
    last: Option<(Heading, bool)>,
}

/// All filters of a census except the one by biography.
pub(crate) struct Sieve {
    filters: Vec<Filter>,
}

impl Sieve {
    pub(crate) fn new(filters: &Filters) -> io::Result<Sieve> {
        let lists = [
            (Looks::Module, &filters.modules),
            (Looks::Centre, &filters.centres),
            (Looks::Stack, &filters.stacks),
            (Looks::Description, &filters.descriptions),
            (Looks::Type, &filters.types),
            (Looks::Retainers, &filters.retainers),
        ];
        let there_is = lists.into_iter().filter(|(_, names)| !names.is_empty());
        let filters = there_is
            .map(|(looks, names)| Ok(Filter { looks, names: names.clone(), verdicts: Table::new()?, last: None }));
        Ok(Sieve { filters: filters.collect::<io::Result<_>>()? })
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
        let heading = match self.looks {
            Looks::Module | Looks::Centre => Heading::centre(object, heap),
            Looks::Stack => Heading::stack(object, heap),
            Looks::Description => Heading::description(object.payload(), object.info),
            Looks::Type => Heading::of_type(object),
            Looks::Retainers => Heading::retainers(retainers.map_or(0, |retainers| retainers.set_of(object.cell))),
        };
        if let Some((last, passes)) = self.last
            && last == heading
        {
            return passes;
        }
        let key = Key(heading.number(), 0);
        let passes = match self.verdicts.get(key) {
            Some([verdict, _]) => verdict == 1,
            None => {
                let passes = self.names.iter().any(|name| self.looks.finds(name, heading, retainers));
                // If there is no room for the result, the names are compared again the next time.
                if let Some(verdict) = self.verdicts.entry(key) {
                    verdict[0] = if passes { 1 } else { 2 };
                }
                passes
            }
        };
        self.last = Some((heading, passes));
        passes
    }
}
