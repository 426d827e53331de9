//! What a world records for each consumer.

use super::consumer::{Consumer, ConsumerId, Ended, RecordError};
use super::drain::{Drain, PATIENCE_NS};
use super::lock::Held;
use super::recorded::WorldNumber;
use super::recorder::stopworld_telemetry_flush;
use super::waiting::as_blocking;
use super::worlds::{self, MAX_CONSUMERS, RecordedWorld};
use super::writer;
use crate::events::clock::Clock;
use crate::events::source::Events;
use crate::events::state::Selection;
use crate::os::barrier;

/// Recording of one world's events.
///
/// Functions that change consumers or selections wait, in a blocking region, for a drain that is under way, and for changes by other
/// threads. They must not be called in the stopped world or in signal handlers.
impl Events {
    /// Adds a consumer: from now on, the events of this world that `selection` selects are recorded for it. The first consumer of the
    /// process starts the writer thread.
    ///
    /// # Errors
    /// There are too many consumers or worlds, or the system refuses a resource that recording needs; the consumer is dropped.
    pub fn record_to(&self, consumer: Box<dyn Consumer>, selection: Selection) -> Result<ConsumerId, RecordError> {
        crate::sabotage::choose();
        barrier::register().map_err(RecordError::Barrier)?;
        let _ = Clock::of_process();
        self.changing(|events, held| {
            let world = events.enroll(held)?;
            writer::ensure_started(held)?;
            let consumer = held.add(consumer)?;
            held.change(world, consumer, Some(selection));
            Ok(consumer)
        })
    }

    /// Records this world's events for an existing consumer of another world's events, too.
    ///
    /// # Errors
    /// The consumer has ended, or too many worlds record.
    pub fn record_also_to(&self, consumer: ConsumerId, selection: Selection) -> Result<(), RecordError> {
        self.changing(|events, held| {
            held.slot(consumer)?;
            let world = events.enroll(held)?;
            held.change(world, consumer, Some(selection));
            Ok(())
        })
    }

    /// Changes a consumer's current selection of this world as a whole. When this returns, no event that it
    /// disabled is recorded with a later timestamp, and records that were fired before are not lost. `edit` runs under the
    /// recorder's lock: it must not call the recorder. It runs in a blocking region, so it cannot use a `Gc`:
    ///
    /// ```compile_fail,E0277
    /// use stopworld::events::{Events, record::ConsumerId};
    /// use stopworld::{Gc, Leaf};
    ///
    /// fn change(events: &Events, consumer: ConsumerId, gc: Gc<Leaf<u64>>) {
    ///     let _ = events.change_recorded(consumer, |_| assert_eq!(**gc, 5));
    /// }
    /// ```
    ///
    /// # Errors
    /// The consumer has ended, or does not record this world.
    pub fn change_recorded(
        &self,
        consumer: ConsumerId,
        edit: impl FnOnce(&mut Selection) + Send,
    ) -> Result<(), RecordError> {
        self.changing(|events, held| {
            held.slot(consumer)?;
            let world = events.recorded_world().ok_or(RecordError::Ended)?;
            let history = &held.routes.histories[usize::from(world.number())];
            let mut selection = *history.selection(consumer.slot).ok_or(RecordError::Ended)?;
            edit(&mut selection);
            held.change(world, consumer, Some(selection));
            Ok(())
        })
    }

    /// Replaces a consumer's selection of this world, like [`change_recorded`](Events::change_recorded).
    ///
    /// # Errors
    /// The consumer has ended, or does not record this world.
    pub fn select_recorded(&self, consumer: ConsumerId, selection: Selection) -> Result<(), RecordError> {
        self.change_recorded(consumer, |old| *old = selection)
    }

    /// Returns the number that identifies this world in records. `None` if no event of the world was ever recorded.
    pub fn world_number(&self) -> Option<WorldNumber> {
        self.recorded_world().map(|world| WorldNumber(world.number()))
    }

    /// Returns a consumer's selection of this world.
    ///
    /// # Errors
    /// The consumer has ended, or does not record this world.
    pub fn recorded_selection(&self, consumer: ConsumerId) -> Result<Selection, RecordError> {
        as_blocking(|| {
            let mut held = Held::take();
            held.slot(consumer)?;
            let world = self.recorded_world().ok_or(RecordError::Ended)?;
            let history = &held.routes.histories[usize::from(world.number())];
            history.selection(consumer.slot).copied().ok_or(RecordError::Ended)
        })
    }

    /// Ends a consumer, for all its worlds: removes its selections, drains, closes it, and returns it with its numbers.
    /// (Its other worlds update the words that their fire functions test before their next collection. Until then a fire
    /// may call the out-of-line function, and data may be computed for it, although no consumer wants the event.)
    ///
    /// # Errors
    /// The consumer has ended already.
    pub fn end_recording(&self, consumer: ConsumerId) -> Result<Ended, RecordError> {
        let mut ended = self.changing(|_, held| held.end(consumer))?;
        // `.event.names`: see `Consumer::closed`.
        as_blocking(|| ended.complete());
        Ok(ended)
    }

    /// Runs a change under both locks, and updates the words that the fire functions test.
    fn changing<R>(
        &self,
        change: impl FnOnce(&Events, &mut Drain) -> Result<R, RecordError>,
    ) -> Result<R, RecordError> {
        as_blocking(|| {
            // The locks are taken in this order: a fork takes the listeners' lock of each world before the recorder's.
            let listeners = self.listeners.change();
            let mut held = Held::take();
            let result = change(self, &mut held);
            drop(held);
            self.enable(&listeners);
            result
        })
    }

    /// Returns the recorded world, with a new number if it has none.
    fn enroll(&self, held: &mut Drain) -> Result<&'static RecordedWorld, RecordError> {
        if let Some(world) = self.recorded_world() {
            return Ok(world);
        }
        // Without a use, the linker would leave this function out, and a debugger would not find it.
        std::hint::black_box::<extern "C" fn() -> i32>(stopworld_telemetry_flush);
        let world = worlds::take(&mut held.routes.histories).ok_or(RecordError::TooManyWorlds)?;
        self.set_recorded_world(world);
        Ok(world)
    }
}

impl Drop for Events {
    /// When a world is dropped, the records that it fired are delivered to its consumers, and consumers without another world are closed.
    fn drop(&mut self) {
        let Some(world) = self.recorded_world() else { return };
        let number = usize::from(world.number());
        as_blocking(|| {
            let mut ended = Vec::new();
            let mut held = Held::take();
            for slot in 0..MAX_CONSUMERS {
                if held.routes.histories[number].selection(slot).is_none() {
                    continue;
                }
                let Some(serial) = held.routes.consumers[slot].as_ref().map(|consumer| consumer.serial) else {
                    continue;
                };
                let consumer = ConsumerId { slot, serial };
                held.change(world, consumer, None);
                let is_of_others = held.routes.histories.iter().any(|history| history.selection(slot).is_some());
                if !is_of_others {
                    // An error cannot be returned here. A program that needs it ends the recording before.
                    ended.extend(held.end(consumer));
                }
            }
            held.flush_everything(PATIENCE_NS);
            worlds::give_back(&mut held.routes.histories, world);
            drop(held);
            ended.iter_mut().for_each(Ended::complete);
        });
    }
}
