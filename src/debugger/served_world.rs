//! The world that a bridge serves.

use crate::sync::{AtomicU64, Ordering};
use crate::world::PublishedWorld;

/// The world that a bridge serves, by the address of its published record, and how often it has entered.
///
/// ```text
///   63                        16 15        0
///  +---------------------------+-----------+
///  |  address / 8, 0: no world |  entered  |
///  +---------------------------+-----------+
/// ```
#[derive(Debug)]
pub(super) struct ServedWorld(AtomicU64);

impl ServedWorld {
    const ENTERED: u64 = 0xffff;

    pub(super) const fn no_world() -> Self {
        Self(AtomicU64::new(0))
    }

    fn word_of(world: &PublishedWorld) -> u64 {
        // A user address has 47 bits, and is aligned to 8 bytes.
        (std::ptr::from_ref(world) as u64) << 13
    }

    /// Counts one entry. Returns false if the bridge serves another world.
    pub(super) fn enter(&self, world: &PublishedWorld) -> bool {
        let world = Self::word_of(world);
        // Relaxed, here and in `leave`: the bridge's state of stops is handed on by the worlds' locks.
        let entered = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |now| {
            let is_free = now == 0 || now & !Self::ENTERED == world;
            (is_free && now & Self::ENTERED != Self::ENTERED).then_some(world | ((now & Self::ENTERED) + 1))
        });
        entered.is_ok()
    }

    /// Undoes one entry, if it is this world's.
    pub(super) fn leave(&self, world: &PublishedWorld) {
        let world = Self::word_of(world);
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |now| match now & Self::ENTERED {
            0 => None,
            _ if now & !Self::ENTERED != world => None,
            1 => Some(0),
            _ => Some(now - 1),
        });
    }
}
