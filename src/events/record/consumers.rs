//! The consumers in their slots: adding and ending them, their selections, and their numbers.

use super::consumer::{Consumer, ConsumerId, ConsumerTotals, Ended, RecordError};
use super::drain::{ConsumerSlot, Drain, PATIENCE_NS};
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
        self.report_losses();
        self.report_time();
        self.flush();
        self.count_lossless();
    }

    /// Updates [`LOSSLESS`], after a change that may affect it.
    pub(super) fn count_lossless(&mut self) {
        let consumers = self.routes.consumers.iter().flatten();
        let lossless = consumers.filter(|slot| slot.is_lossless() && !is_ending()).count();
        if LOSSLESS.swap(lossless as u32, Ordering::Relaxed) > lossless as u32 {
            // Threads that waited for a consumer that has failed or ended need not wait any more.
            ROOM.notify_all();
        }
    }

    pub(super) fn slot(&mut self, consumer: ConsumerId) -> Result<&mut ConsumerSlot, RecordError> {
        let slot = self.routes.consumers[consumer.slot].as_mut();
        slot.filter(|slot| slot.serial == consumer.serial).ok_or(RecordError::Ended)
    }

    pub(super) fn totals_of(&mut self, consumer: ConsumerId) -> Result<ConsumerTotals, RecordError> {
        let mut totals = self.slot(consumer)?.totals;
        let histories = &self.routes.histories;
        let dropped = |world: WorldNumber| histories[usize::from(world.0)].dropped(world, consumer.slot);
        totals.dropped += worlds::taken(histories).map(dropped).sum::<u64>();
        totals.fired = totals.written + totals.lost + totals.dropped;
        Ok(totals)
    }

    pub(super) fn add(&mut self, consumer: Box<dyn Consumer>) -> Result<ConsumerId, RecordError> {
        let slot = self.routes.consumers.iter().position(Option::is_none).ok_or(RecordError::TooManyConsumers)?;
        let serial = self.next_serial;
        self.next_serial += 1;
        self.routes.consumers[slot] = Some(ConsumerSlot::new(consumer, serial));
        self.count_lossless();
        Ok(ConsumerId { slot, serial })
    }

    /// Changes what a consumer selects of a world.
    pub(super) fn change(&mut self, world: &'static RecordedWorld, consumer: ConsumerId, selection: Option<Selection>) {
        let number = WorldNumber(world.number());
        // A segment of the history may be removed only after all records from its time were drained.
        if !self.routes.histories[usize::from(number.0)].has_room() {
            self.drain(PATIENCE_NS);
            let done_up_to = self.done_up_to;
            self.routes.histories[usize::from(number.0)].forget_before(done_up_to);
        }
        if !self.routes.histories[usize::from(number.0)].has_room() {
            self.settle(PATIENCE_NS);
            self.routes.histories[usize::from(number.0)].forget_the_past();
        }
        let dropped = self.routes.histories[usize::from(number.0)].change(number, consumer.slot, selection);
        if let Ok(slot) = self.slot(consumer) {
            slot.totals.dropped += dropped;
        }
    }

    pub(super) fn end(&mut self, consumer: ConsumerId) -> Result<Ended, RecordError> {
        self.slot(consumer)?;
        for number in worlds::taken(&self.routes.histories).collect::<Vec<_>>() {
            if self.routes.histories[usize::from(number.0)].selection(consumer.slot).is_some() {
                self.change(worlds::of(number), consumer, None);
            }
        }
        self.settle(PATIENCE_NS);
        // The slot may be reused by another consumer, which must not receive records from the time of this consumer.
        self.routes.histories.iter_mut().for_each(worlds::SelectionHistory::forget_the_past);
        self.report_losses();
        let totals = self.totals_of(consumer)?;
        let slot = self.routes.consumers[consumer.slot].take();
        self.count_lossless();
        let mut slot = slot.ok_or(RecordError::Ended)?;
        slot.totals = totals;
        let now = self.reached();
        slot.attempt(|consumer| consumer.close(&now));
        Ok(Ended { totals: slot.totals, error: slot.error, consumer: slot.consumer })
    }
}
