//! Heap dumps: every live object, its references, and the roots, reported as events in the stopped world.
//!
//! A dump walks over the [live objects](super::live_heap). It fires one event for each object, then one for each reference in it.
//! The sweep later counts exactly these objects as alive, byte for byte. A reference is reported only if its target is reported
//! too.
//!
//! A heap has more objects than a ring has room for. In the stopped world the walk cannot wait for another thread, but it can
//! drain the rings itself: every few thousand events it passes the records to their consumers ([`record::keep_up`]). So a dump
//! takes no more memory than any other sequence of events.

use std::cell::Cell as Counter;

use super::live_heap::{LiveHeap, Object, Root};
use super::roots::RootKind;
use crate::events::{EventId, Events, Label, Labels, record};

/// The maximum number of events between two drains; a ring holds twice as many.
const BETWEEN_DRAINS: u32 = 2_048;

/// A dump of a heap whose marking is over and whose sweep has not begun.
pub(super) struct Dump<'a> {
    live_heap: &'a LiveHeap<'a>,
    events: &'a Events,
    fired: Counter<u32>,
    /// Set when a drain is not possible because a stopped thread holds what it needs. From then on the rings grow; when they reach
    /// their limit, records are dropped and counted.
    gave_up: Counter<bool>,
}

impl<'a> Dump<'a> {
    /// Whether an event of a dump is enabled.
    pub(super) fn is_wanted(events: &Events) -> bool {
        [EventId::DumpNode, EventId::DumpEdge, EventId::DumpRoot].into_iter().any(|event| events.is_enabled(event))
    }

    /// Creates a dump of the live objects.
    pub(super) fn new(live_heap: &'a LiveHeap<'a>, events: &'a Events) -> Dump<'a> {
        Dump { live_heap, events, fired: Counter::new(0), gave_up: Counter::new(false) }
    }

    /// Reports every live object, in address order, each with its references.
    pub(super) fn objects(&self) {
        let (mut objects, mut bytes) = (0, 0);
        self.live_heap.for_each_object(|object| {
            self.object(object);
            objects += 1;
            bytes += object.bytes;
        });
        self.events.fire_dump_end(objects, bytes);
    }

    fn object(&self, object: Object) {
        let (payload, Object { info, bytes, .. }) = (object.payload(), object);
        let mut edges = 0;
        self.live_heap.for_each_reference(payload, info, |_, _| edges += 1);
        self.events.fire_dump_node(payload, bytes, std::ptr::from_ref(info) as usize, edges);
        self.count();
        self.live_heap.for_each_reference(payload, info, |slot, target| {
            self.events.fire_dump_edge(target, (slot - payload) as u32);
            self.count();
        });
    }

    /// Reports the roots with which the collection began, as far as they refer to an object. Before the first root on a stack, reports the
    /// stack.
    pub(super) fn roots(&self) {
        let mut last = None;
        self.live_heap.for_each_root(|root| {
            let stack = Some((root.kind, root.thread.map(std::ptr::from_ref)));
            if stack != last {
                last = stack;
                self.stack(&root);
            }
            let of_type = std::ptr::from_ref(self.live_heap.type_of(root.object)) as usize;
            self.events.fire_dump_root(root.object, root.kind as u32, root.place, of_type);
            self.count();
        });
    }

    /// Reports the stack that a root is on, if it is on one.
    fn stack(&self, root: &Root) {
        if !matches!(root.kind, RootKind::Stack | RootKind::HalfBuilt | RootKind::RegisteredStack) {
            return;
        }
        let tid = root.thread.map_or(0, |record| record.tid().0 as u32);
        // A thread's name is stored when it attaches; finding it takes no lock. A name that can't be stored leaves the label of the thread
        // that had the record before.
        let label = root.thread.and_then(|record| {
            let (address, name) = (std::ptr::from_ref(record) as usize, record.name());
            Labels::of_the_process().label_with(address, name.as_str())
        });
        self.events.fire_dump_stack(tid, root.kind as u32, label.map_or(0, Label::get));
        self.count();
    }

    /// Counts a fired event, and drains the rings when due.
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
