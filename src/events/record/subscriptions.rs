//! What a world has recorded, and for whom.

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
/// Functions that change who records wait for a drain that is under way, and for changes of other threads, as a blocking
/// region. They are not for the stopped world, nor for handlers.
impl Events {
    /// From now on, what `selection` selects of this world's events is recorded for `consumer`. The first consumer of the
    /// process starts the writer thread.
    ///
    /// # Errors
    /// There are too many, or the system does not give what recording needs; the consumer is dropped.
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

    /// A consumer of another world's events gets this world's, too.
    ///
    /// # Errors
    /// The consumer has ended, or too many worlds record.
    pub fn record_also_to(&self, consumer: ConsumerId, selection: Selection) -> Result<(), RecordError> {
        self.changing(|events, held| {
            held.place(consumer)?;
            let world = events.enroll(held)?;
            held.change(world, consumer, Some(selection));
            Ok(())
        })
    }

    /// Changes what a consumer records of this world, from what it records now, as one. When this returns, nothing that it
    /// disabled is recorded with a later timestamp, and what was fired before is not lost. `edit` runs under the
    /// recorder's lock: it must not call the recorder.
    ///
    /// # Errors
    /// The consumer has ended, or does not record this world.
    pub fn change_recorded(&self, consumer: ConsumerId, edit: impl FnOnce(&mut Selection)) -> Result<(), RecordError> {
        self.changing(|events, held| {
            held.place(consumer)?;
            let world = events.recorded_world().ok_or(RecordError::Ended)?;
            let book = &held.routes.books[usize::from(world.number())];
            let mut selection = *book.selection(consumer.place).ok_or(RecordError::Ended)?;
            edit(&mut selection);
            held.change(world, consumer, Some(selection));
            Ok(())
        })
    }

    /// Replaces what a consumer records of this world: as [`change_recorded`](Events::change_recorded).
    ///
    /// # Errors
    /// The consumer has ended, or does not record this world.
    pub fn select_recorded(&self, consumer: ConsumerId, selection: Selection) -> Result<(), RecordError> {
        self.change_recorded(consumer, |old| *old = selection)
    }

    /// The number by which consumers know this world. `None` if nothing of it was ever recorded.
    pub fn world_number(&self) -> Option<WorldNumber> {
        self.recorded_world().map(|world| WorldNumber(world.number()))
    }

    /// What a consumer records of this world.
    ///
    /// # Errors
    /// The consumer has ended, or does not record this world.
    pub fn recorded_selection(&self, consumer: ConsumerId) -> Result<Selection, RecordError> {
        as_blocking(|| {
            let mut held = Held::take();
            held.place(consumer)?;
            let world = self.recorded_world().ok_or(RecordError::Ended)?;
            let book = &held.routes.books[usize::from(world.number())];
            book.selection(consumer.place).copied().ok_or(RecordError::Ended)
        })
    }

    /// Ends a consumer, of whichever worlds: takes its selections away, drains, closes it, and returns it with its numbers.
    /// (Other worlds that it recorded notice at their next change that a check may fail earlier.)
    ///
    /// # Errors
    /// It has ended already.
    pub fn end_recording(&self, consumer: ConsumerId) -> Result<Ended, RecordError> {
        self.changing(|_, held| held.end(consumer))
    }

    /// Runs a change under both locks, and brings the words that the fire functions test up to date.
    fn changing<R>(
        &self,
        change: impl FnOnce(&Events, &mut Drain) -> Result<R, RecordError>,
    ) -> Result<R, RecordError> {
        as_blocking(|| {
            // In this order: a fork takes the listeners' lock of each world before the recorder's.
            let listeners = self.listeners.change();
            let mut held = Held::take();
            let result = change(self, &mut held);
            drop(held);
            self.enable(&listeners);
            result
        })
    }

    /// The world's number, a new one if it has none.
    fn enroll(&self, held: &mut Drain) -> Result<&'static RecordedWorld, RecordError> {
        if let Some(world) = self.recorded_world() {
            return Ok(world);
        }
        // A linker that saw no use of it would leave it out, and a debugger would look in vain.
        std::hint::black_box::<extern "C" fn() -> i32>(stopworld_telemetry_flush);
        let world = worlds::take(&mut held.routes.books).ok_or(RecordError::TooManyWorlds)?;
        self.set_recorded_world(world);
        Ok(world)
    }
}

impl Drop for Events {
    /// A world goes: what it fired reaches its consumers, and those of no other world are closed.
    fn drop(&mut self) {
        let Some(world) = self.recorded_world() else { return };
        let number = usize::from(world.number());
        as_blocking(|| {
            let mut held = Held::take();
            for place in 0..MAX_CONSUMERS {
                if held.routes.books[number].selection(place).is_none() {
                    continue;
                }
                let Some(serial) = held.routes.consumers[place].as_ref().map(|consumer| consumer.serial) else {
                    continue;
                };
                let consumer = ConsumerId { place, serial };
                held.change(world, consumer, None);
                let is_of_others = held.routes.books.iter().any(|book| book.selection(place).is_some());
                if !is_of_others {
                    // An error has nobody to go to here: who wants it ends the recording before.
                    drop(held.end(consumer));
                }
            }
            held.flush_everything(PATIENCE_NS);
            worlds::give_back(&mut held.routes.books, world);
        });
    }
}
