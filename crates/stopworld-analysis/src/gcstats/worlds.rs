//! The worlds of a process.
//!
//! A process of this project may have several worlds, each with a heap. They count their collections from 1 each, and may be collected at the same time.
//! Their events have the number of the world in the field that is the number of the runtime in .NET (`ClrInstanceID`). In a trace of .NET it is
//! the same in all events of a process. Very old events do not have it.
//!
//! PerfView ignores the field.

/// The maximum number of worlds of a process whose states are kept. The recorder has the same maximum of worlds at a time, but a trace may
/// have any number of them one after the other.
pub(super) const MOST_WORLDS: usize = stopworld::events::record::MAX_WORLDS;

/// A state for each world. If there are too many worlds, a new one takes the place of an idle one, or of any, that was used least recently.
#[derive(Debug)]
pub(super) struct ByWorld<T> {
    /// The one that was used last is at the end.
    places: Vec<(u16, T)>,
}

impl<T> Default for ByWorld<T> {
    fn default() -> ByWorld<T> {
        ByWorld { places: Vec::new() }
    }
}

impl<T> ByWorld<T> {
    /// Returns the number of the world that was used last.
    pub(super) fn latest(&self) -> Option<u16> {
        self.places.last().map(|(world, _)| *world)
    }

    /// Returns the state of a world. If there is none, `new` creates it, from the state that it replaces if there are too many.
    pub(super) fn get(&mut self, world: u16, is_idle: impl Fn(&T) -> bool, new: impl FnOnce(Option<T>) -> T) -> &mut T {
        if self.latest() != Some(world) {
            let known = self.places.iter().position(|(known, _)| *known == world);
            let place = match known {
                Some(index) => self.places.remove(index),
                None => {
                    let replaced = (self.places.len() >= MOST_WORLDS)
                        .then(|| self.places.iter().position(|(_, state)| is_idle(state)).unwrap_or(0))
                        .map(|index| self.places.remove(index).1);
                    (world, new(replaced))
                }
            };
            self.places.push(place);
        }
        let (_, state) = self.places.last_mut().expect("it was pushed just now, or is the latest");
        state
    }

    /// Returns all states.
    pub(super) fn into_states(self) -> impl Iterator<Item = T> {
        self.places.into_iter().map(|(_, state)| state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_world_takes_the_place_of_the_idle_one_that_was_used_least_recently() {
        let mut worlds = ByWorld::default();
        let is_idle = |state: &(u16, bool)| state.1;
        for world in 0..MOST_WORLDS as u16 {
            // World 0 is not idle.
            worlds.get(world, is_idle, |replaced| {
                assert_eq!(replaced, None);
                (world, world != 0)
            });
        }
        assert_eq!(worlds.get(1, is_idle, |_| unreachable!()).0, 1);
        assert_eq!(worlds.latest(), Some(1));
        worlds.get(1000, is_idle, |replaced| {
            assert_eq!(replaced, Some((2, true)));
            (1000, false)
        });
        for world in [0, 1, 3] {
            assert_eq!(worlds.get(world, is_idle, |_| unreachable!()).0, world);
        }
        assert_eq!(worlds.into_states().count(), MOST_WORLDS);
    }

    #[test]
    fn without_an_idle_world_any_is_replaced() {
        let mut worlds = ByWorld::default();
        for world in 0..=MOST_WORLDS as u16 {
            let expected = (usize::from(world) == MOST_WORLDS).then_some(0);
            worlds.get(
                world,
                |_| false,
                |replaced| {
                    assert_eq!(replaced, expected);
                    world
                },
            );
        }
    }
}
