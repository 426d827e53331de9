//! The consumers in their places: adding and ending them, their selections, and their numbers.

use super::consumer::{Consumer, ConsumerId, ConsumerTotals, Ended, RecordError};
use super::drain::{Drain, PATIENCE_NS, Place};
use super::recorded::WorldNumber;
use super::ring;
use super::waiting::{LOSSLESS, ROOM, is_ending};
use super::worlds::{self, RecordedWorld};
use crate::events::state::Selection;
use crate::sync::Ordering;

impl Drain {
    pub(super) fn flush_everything(&mut self, patience: u64) {
        // Nothing was ever recorded, so the process's clock may not have been chosen yet.
        if self.next_serial == 1 {
            return;
        }
        ring::all().for_each(ring::ThreadRings::probe);
        self.settle(patience);
        self.tell_of_losses();
        self.tell_the_time();
        self.flush();
        self.count_lossless();
    }

    /// Updates [`LOSSLESS`], after a change that may affect it.
    pub(super) fn count_lossless(&mut self) {
        let consumers = self.routes.consumers.iter().flatten();
        let lossless = consumers.filter(|place| place.is_lossless() && !is_ending()).count();
        if LOSSLESS.swap(lossless as u32, Ordering::Relaxed) > lossless as u32 {
            // Threads that waited for a consumer that has failed or ended need not wait any more.
            ROOM.turn();
        }
    }

    pub(super) fn place(&mut self, consumer: ConsumerId) -> Result<&mut Place, RecordError> {
        let place = self.routes.consumers[consumer.place].as_mut();
        place.filter(|place| place.serial == consumer.serial).ok_or(RecordError::Ended)
    }

    pub(super) fn totals_of(&mut self, consumer: ConsumerId) -> Result<ConsumerTotals, RecordError> {
        let mut totals = self.place(consumer)?.totals;
        let books = &self.routes.books;
        let dropped = |world: WorldNumber| books[usize::from(world.0)].dropped(world, consumer.place);
        totals.dropped += worlds::taken(books).map(dropped).sum::<u64>();
        totals.fired = totals.written + totals.lost + totals.dropped;
        Ok(totals)
    }

    pub(super) fn add(&mut self, consumer: Box<dyn Consumer>) -> Result<ConsumerId, RecordError> {
        let place = self.routes.consumers.iter().position(Option::is_none).ok_or(RecordError::TooManyConsumers)?;
        let serial = self.next_serial;
        self.next_serial += 1;
        self.routes.consumers[place] = Some(Place::new(consumer, serial));
        self.count_lossless();
        Ok(ConsumerId { place, serial })
    }

    /// Changes what a consumer selects of a world.
    pub(super) fn change(&mut self, world: &'static RecordedWorld, consumer: ConsumerId, selection: Option<Selection>) {
        let number = WorldNumber(world.number());
        // A segment of the history may be removed only after all records from its time were drained.
        if !self.routes.books[usize::from(number.0)].has_room() {
            self.drain(PATIENCE_NS);
            let done_up_to = self.done_up_to;
            self.routes.books[usize::from(number.0)].forget_before(done_up_to);
        }
        if !self.routes.books[usize::from(number.0)].has_room() {
            self.settle(PATIENCE_NS);
            self.routes.books[usize::from(number.0)].forget_the_past();
        }
        let dropped = self.routes.books[usize::from(number.0)].change(number, consumer.place, selection);
        if let Ok(place) = self.place(consumer) {
            place.totals.dropped += dropped;
        }
    }

    pub(super) fn end(&mut self, consumer: ConsumerId) -> Result<Ended, RecordError> {
        self.place(consumer)?;
        for number in worlds::taken(&self.routes.books).collect::<Vec<_>>() {
            if self.routes.books[usize::from(number.0)].selection(consumer.place).is_some() {
                self.change(worlds::of(number), consumer, None);
            }
        }
        self.settle(PATIENCE_NS);
        // The place may be reused by another consumer, which must not receive records from the time of this consumer.
        self.routes.books.iter_mut().for_each(worlds::Book::forget_the_past);
        self.tell_of_losses();
        let totals = self.totals_of(consumer)?;
        let place = self.routes.consumers[consumer.place].take();
        self.count_lossless();
        let mut place = place.ok_or(RecordError::Ended)?;
        place.totals = totals;
        let now = self.reached();
        place.attempt(|consumer| consumer.close(&now));
        Ok(Ended { totals: place.totals, error: place.error, consumer: place.consumer })
    }
}
