//! Disappearing links: words of the program that the collector sets to 0 when the object dies to which they belong.
//!
//! A short link is cleared before finalizers are found, a long link after what finalizers can reach has been marked. A link that lies in
//! a dead object is forgotten.

use std::hash::BuildHasherDefault;

use super::{OrderedMap, remove_dead};
use crate::lock::Guarded;
use crate::sync::{AtomicUsize, Ordering};

/// The links of one sort: the object of each link, by the link's address.
#[derive(Debug)]
pub(crate) struct Links(OrderedMap<usize>);

/// Links that are cleared when their object is not reachable.
pub(crate) static SHORT: Guarded<Links> = Guarded::new(Links::new());
/// Links that are cleared when their object is not reachable from finalizers either.
pub(crate) static LONG: Guarded<Links> = Guarded::new(Links::new());

/// The result of [`Links::move_to`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moved {
    Done,
    /// The new place has a link already.
    Occupied,
    NotFound,
}

impl Links {
    const fn new() -> Self {
        Self(OrderedMap::with_hasher(BuildHasherDefault::new()))
    }

    /// Adds a link. Returns whether it replaces one at the same address.
    pub(crate) fn add(&mut self, link: usize, object: usize) -> bool {
        self.0.insert(link, object).is_some()
    }

    /// Removes a link. Returns whether it was there.
    pub(crate) fn remove(&mut self, link: usize) -> bool {
        self.0.swap_remove(&link).is_some()
    }

    /// Changes the address of a link. The program moves the link's content.
    pub(crate) fn move_to(&mut self, link: usize, new: usize) -> Moved {
        if link == new {
            return if self.0.contains_key(&link) { Moved::Done } else { Moved::NotFound };
        }
        if !self.0.contains_key(&link) {
            return Moved::NotFound;
        }
        if self.0.contains_key(&new) {
            return Moved::Occupied;
        }
        if let Some(object) = self.0.swap_remove(&link) {
            self.0.insert(new, object);
        }
        Moved::Done
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Sets each link to 0 whose object is dead, and forgets it. In the stopped world.
    ///
    /// # Safety
    /// Links whose object is alive or dead are still words of the program, unless they are in dead objects.
    pub(crate) unsafe fn clear_dead(&mut self, is_alive: impl Fn(usize) -> bool) {
        for (&link, _) in self.0.iter().filter(|&(_, &object)| !is_alive(object)) {
            // SAFETY: the program registered the word, and says so before it frees it; the memory of dead objects is still there.
            unsafe { (*(link as *const AtomicUsize)).store(0, Ordering::Relaxed) };
        }
        remove_dead(&mut self.0, |_, &object| !is_alive(object));
    }

    /// Forgets the links that lie in dead objects. In the stopped world.
    pub(crate) fn forget_dangling(&mut self, lies_in_dead_object: impl Fn(usize) -> bool) {
        remove_dead(&mut self.0, |link, _| lies_in_dead_object(link));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_replaced_moved_and_cleared() {
        let mut links = Links::new();
        let words = [7_usize, 8, 9];
        let [a, b, c] = [0, 1, 2].map(|index| &raw const words[index] as usize);
        assert!(!links.add(a, 100));
        assert!(links.add(a, 200));
        assert!(!links.add(b, 100));
        assert_eq!(links.move_to(a, b), Moved::Occupied);
        assert_eq!(links.move_to(a, a), Moved::Done);
        assert_eq!(links.move_to(a, c), Moved::Done);
        assert_eq!(links.move_to(a, c), Moved::NotFound);
        // SAFETY: both words are on the stack.
        unsafe { links.clear_dead(|object| object == 100) };
        let read = |word: &usize| std::hint::black_box(word as *const usize);
        // SAFETY: as above. Volatile, because the compiler does not know that the words were written.
        let now = [&words[0], &words[1], &words[2]].map(|word| unsafe { read(word).read_volatile() });
        assert_eq!(now, [7, 8, 0]);
        links.forget_dangling(|link| link == b);
        assert!(!links.remove(b) && links.len() == 0);
    }
}
