//! The heap as it is: every live object, what it refers to, and the roots, told as events in the stopped world.
//!
//! A dump is a walk over [what lives](super::living): each object's event, then one for each reference in it. What the sweep
//! then counts as alive is what was told of, byte for byte; and a reference is told of only if it leads to an object that
//! is told of too.
//!
//! A heap has more objects than any ring has room. Nobody can be waited for in the stopped world, but the rings can be drained in
//! it: the walk stops every few thousand events and brings them to their consumers ([`record::keep_up`]). So a dump takes no
//! more memory than any other stretch of events.

use std::cell::Cell as Counter;

use super::living::{Living, Object};
use crate::events::{EventId, Events, record};

/// So many events at most between two drains: a ring holds twice as many.
const BETWEEN_DRAINS: u32 = 2_048;

/// A dump of a heap whose marking is over and whose sweep has not begun.
pub(super) struct Dump<'a> {
    living: &'a Living<'a>,
    events: &'a Events,
    fired: Counter<u32>,
    /// Somebody who is frozen has what a drain needs: the rings grow, and then records are dropped and counted.
    gave_up: Counter<bool>,
}

impl<'a> Dump<'a> {
    /// Whether anybody wants one.
    pub(super) fn is_wanted(events: &Events) -> bool {
        [EventId::DumpNode, EventId::DumpEdge, EventId::DumpRoot].into_iter().any(|event| events.is_enabled(event))
    }

    /// A dump of what lives.
    pub(super) fn new(living: &'a Living<'a>, events: &'a Events) -> Dump<'a> {
        Dump { living, events, fired: Counter::new(0), gave_up: Counter::new(false) }
    }

    /// Every object that lives, in the order of addresses, each with its references.
    pub(super) fn objects(&self) {
        let (mut objects, mut bytes) = (0, 0);
        self.living.for_each_object(|object| {
            self.object(object);
            objects += 1;
            bytes += object.bytes;
        });
        self.events.fire_dump_end(objects, bytes);
    }

    fn object(&self, object: Object) {
        let (payload, Object { info, bytes, .. }) = (object.payload(), object);
        let mut edges = 0;
        self.living.for_each_reference(payload, info, |_, _| edges += 1);
        self.events.fire_dump_node(payload, bytes, std::ptr::from_ref(info) as usize, edges);
        self.count();
        self.living.for_each_reference(payload, info, |slot, target| {
            self.events.fire_dump_edge(target, (slot - payload) as u32);
            self.count();
        });
    }

    /// The roots that the collection began with, each that leads to an object.
    pub(super) fn roots(&self) {
        self.living.for_each_root(|root| {
            let of_type = std::ptr::from_ref(self.living.type_of(root.object)) as usize;
            self.events.fire_dump_root(root.object, root.kind as u32, root.place, of_type);
            self.count();
        });
    }

    /// An event was fired.
    #[inline(always)]
    fn count(&self) {
        self.fired.set(self.fired.get() + 1);
        if self.fired.get() >= BETWEEN_DRAINS {
            self.fired.set(0);
            if !self.gave_up.get() {
                self.gave_up.set(!record::keep_up());
            }
        }
    }
}
