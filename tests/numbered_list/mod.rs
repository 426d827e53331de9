//! A list on the collected heap whose sum shows whether a link was lost.

use stopworld::{Gc, GcCell, Mutator, traced};

traced! {
    /// A link.
    pub struct Link { next: GcCell<Option<Gc<Link>>>, value: u64 }
}

/// Allocates `length` links with the values 0 to `length` - 1.
pub fn a_list(m: &Mutator, length: u64) -> Gc<Link> {
    let mut list = m.alloc(Link { next: GcCell::new(None), value: 0 }).unwrap();
    for value in 1..length {
        list = m.alloc(Link { next: GcCell::new(Some(list)), value }).unwrap();
    }
    list
}

/// Returns the sum of the values of a list.
pub fn sum(list: Gc<Link>) -> u64 {
    let mut sum = 0;
    let mut next = Some(list);
    while let Some(link) = next {
        sum += link.value;
        next = link.next.get();
    }
    sum
}
