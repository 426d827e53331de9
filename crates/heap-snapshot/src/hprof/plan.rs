//! Which classes stand for a type.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::Result;
use crate::heap::{Heap, Label, Object};

/// With more different labels or sizes than this, a type becomes an array class.
const MOST: usize = 64;

/// The classes of a type.
#[derive(Debug)]
pub(super) enum Plan {
    /// A class for each size, all with a field for each label.
    Classes { labels: Vec<Label>, sizes: BTreeMap<u64, u64> },
    /// An array class.
    Array { class: u64 },
}

/// What objects of a type have.
#[derive(Debug, Default)]
struct Seen {
    labels: BTreeSet<Label>,
    sizes: BTreeSet<u64>,
    is_array: bool,
}

impl Seen {
    fn add(&mut self, object: &Object<'_>) {
        if self.is_array {
            return;
        }
        self.sizes.insert(object.size);
        self.labels.extend(object.references.iter().map(|reference| reference.label));
        let all_differ = || {
            // Most objects have their references in ascending order.
            let labels = || object.references.iter().map(|reference| reference.label);
            labels().zip(labels().skip(1)).all(|(label, next)| label < next)
                || labels().collect::<BTreeSet<_>>().len() == object.references.len()
        };
        self.is_array = self.labels.len() > MOST || self.sizes.len() > MOST || !all_differ();
    }
}

/// Visits the heap, and plans the classes of each type. `next_id` returns the ids of the classes.
pub(super) fn plan(heap: &dyn Heap, mut next_id: impl FnMut() -> u64) -> Result<Vec<Plan>> {
    let mut seen: Vec<Seen> = heap.types().iter().map(|_| Seen::default()).collect();
    heap.visit(&mut |object| {
        seen[object.type_index as usize].add(object);
        Ok(())
    })?;
    let plan = |seen: Seen| match seen {
        Seen { is_array: true, .. } => Plan::Array { class: next_id() },
        Seen { labels, sizes, .. } => Plan::Classes {
            labels: labels.into_iter().collect(),
            sizes: sizes.into_iter().map(|size| (size, next_id())).collect(),
        },
    };
    Ok(seen.into_iter().map(plan).collect())
}
