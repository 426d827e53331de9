//! Finds out why an object is alive: finds a shortest path to it from a root.
//!
//! A breadth-first search over the whole heap, from all roots at once. Its memory (for each cell the parent object, and the queue) is
//! mapped for the search and touched only where there are objects: 16 bytes for each object that is reached. The root of each path is not
//! stored: when the path is found, the roots are visited a second time, in the same order, to find the one that references the first object
//! of the path.

use std::ops::ControlFlow;

use super::facts::{Refusal, Step, StepKind};
use super::objects::{Object, View};
use crate::collector::cache_of;
use crate::heap::layout::MARKS_PER_BLOCK;
use crate::os::memory::Reservation;
use crate::os::preserving_errno;
use crate::world::debugged_stacks::{self, FoundIn};
use crate::world::stop_info::ThreadStopInfo;

/// The parent of an object that a root references.
const ROOT: usize = 1;

/// A word outside the heap that keeps an object alive.
#[derive(Clone, Copy)]
pub(super) struct Root {
    pub(super) kind: StepKind,
    pub(super) tid: i32,
    pub(super) slot: usize,
    pub(super) word: usize,
}

/// Finds a shortest path from a root to `target` and calls `write` with each step and its index. Returns the number of steps; 0 if there is
/// no path.
pub(super) fn path_to(target: Object, view: &View<'_>, mut write: impl FnMut(usize, Step)) -> Result<usize, Refusal> {
    let mut search = Search::new(view)?;
    if !search.run(target) {
        // SAFETY: the calling debugger keeps every other thread of the process stopped until this returns.
        let knows_all_roots = unsafe { debugged_stacks::registered_can_be_read(&view.collector.threads) };
        return if knows_all_roots { Ok(0) } else { Err(Refusal::Busy) };
    }
    let steps = search.length(target).ok_or(Refusal::Changed)?;
    let mut object = target;
    for index in (0..steps).rev() {
        let step = match search.parent(object) {
            ROOT => root_step(view, object).ok_or(Refusal::Changed)?,
            parent => {
                let parent = view.object_at(parent).ok_or(Refusal::Changed)?;
                let step = field_step(search.view, parent, object).ok_or(Refusal::Changed)?;
                object = parent;
                step
            }
        };
        write(index, step);
    }
    Ok(steps)
}

fn root_step(view: &View<'_>, object: Object) -> Option<Step> {
    let found = for_each_root(view, |root, kept| match kept.cell == object.cell {
        true => ControlFlow::Break(root),
        false => ControlFlow::Continue(()),
    });
    let root = found.break_value()?;
    let offset = root.word.wrapping_sub(object.payload());
    Some(Step {
        kind: root.kind as u32,
        tid: root.tid,
        slot: root.slot,
        value: root.word,
        object: object.payload(),
        offset,
    })
}

fn field_step(view: &View<'_>, holder: Object, object: Object) -> Option<Step> {
    let found = holder.for_each_reference(|offset, word| match view.refers_to(word, object) {
        true => ControlFlow::Break((offset, word)),
        false => ControlFlow::Continue(()),
    });
    let (offset, value) = found.break_value()?;
    let slot = holder.payload() + offset;
    Some(Step { kind: StepKind::Field as u32, tid: 0, slot, value, object: object.payload(), offset })
}

/// The state of a search.
struct Search<'v, 'a> {
    view: &'v View<'a>,
    blocks: usize,
    parents: Reservation,
    queue: Reservation,
    first: usize,
    end: usize,
}

impl<'v, 'a> Search<'v, 'a> {
    fn new(view: &'v View<'a>) -> Result<Self, Refusal> {
        let blocks = view.blocks();
        let map = || -> std::io::Result<Reservation> {
            let memory = Reservation::new(blocks * MARKS_PER_BLOCK * size_of::<usize>(), 4096)?;
            memory.commit(0, memory.len())?;
            Ok(memory)
        };
        let mapped = preserving_errno(|| Ok((map()?, map()?)));
        let (parents, queue) = mapped.map_err(|_: std::io::Error| Refusal::NoMemory)?;
        Ok(Self { view, blocks, parents, queue, first: 0, end: 0 })
    }

    /// Continues until the target is reached. Returns false if it cannot be reached.
    fn run(&mut self, target: Object) -> bool {
        let view = self.view;
        let reached = for_each_root(view, |_, object| self.reach(object, ROOT, target));
        if reached.is_break() {
            return true;
        }
        while let Some(holder) = self.next() {
            let reached =
                holder.for_each_reference(|_, word| match view.may_lead_here(word).then(|| view.target_of(word)) {
                    Some(Some(object)) => self.reach(object, holder.payload(), target),
                    _ => ControlFlow::Continue(()),
                });
            if reached.is_break() {
                return true;
            }
        }
        false
    }

    fn reach(&mut self, object: Object, parent: usize, target: Object) -> ControlFlow<()> {
        if object.cell.block as usize >= self.blocks || self.parent(object) != 0 {
            return ControlFlow::Continue(());
        }
        // SAFETY: in bounds of the committed mapping, which is exclusively ours; each cell enters the queue once.
        unsafe {
            self.parents.base().cast::<usize>().add(place(object)).write(parent);
            self.queue.base().cast::<usize>().add(self.end).write(object.payload());
        }
        self.end += 1;
        if object.cell == target.cell { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Returns an object's parent: the payload of another object, [`ROOT`], or 0 if it was not reached yet.
    fn parent(&self, object: Object) -> usize {
        // SAFETY: in bounds of the committed mapping: callers have checked it, or took the object from there.
        unsafe { self.parents.base().cast::<usize>().add(place(object)).read() }
    }

    fn next(&mut self) -> Option<Object> {
        while self.first < self.end {
            // SAFETY: written by `reach`.
            let payload = unsafe { self.queue.base().cast::<usize>().add(self.first).read() };
            self.first += 1;
            let object = self.view.object_at(payload);
            if object.is_some() {
                return object;
            }
        }
        None
    }

    /// Returns the number of objects on the path to this one, which was reached, including itself. Returns `None` if a parent is gone: then
    /// its cell may hold another object, and the path may have a cycle.
    fn length(&self, target: Object) -> Option<usize> {
        let mut at = target;
        for steps in 1..=self.end {
            match self.parent(at) {
                ROOT => return Some(steps),
                parent => at = self.view.object_at(parent)?,
            }
        }
        None
    }
}

fn place(object: Object) -> usize {
    object.cell.block as usize * MARKS_PER_BLOCK + object.cell.index as usize
}

/// Calls `visit` with every root and the object that it keeps alive, in the order of the collector's own scan.
pub(super) fn for_each_root<B>(
    view: &View<'_>,
    mut visit: impl FnMut(Root, Object) -> ControlFlow<B>,
) -> ControlFlow<B> {
    // The iterations below cannot end early; `visit` is not called any more after it breaks.
    let mut outcome = ControlFlow::Continue(());
    let mut keeps = |root: Root, object: Option<Object>| {
        if let Some(object) = object
            && outcome.is_continue()
        {
            outcome = visit(root, object);
        }
    };
    let mut scan = |kind, tid, low, high| {
        view.for_each_word(low, high, |slot, word| {
            if view.may_lead_here(word) {
                for object in view.objects_around(word) {
                    keeps(Root { kind, tid, slot, word }, object);
                }
            }
        });
    };
    let threads = &view.collector.threads;
    view.for_each_record(|record| {
        let scan = |found_in, low, high| scan(kind_of(found_in), record.tid().0, low, high);
        // SAFETY: the calling debugger keeps every other thread of the process stopped until this returns.
        unsafe { debugged_stacks::for_a_debugger(threads, record, scan) };
    });
    let scan_registered = |found_in, low, high| scan(kind_of(found_in), 0, low, high);
    // SAFETY: as above.
    unsafe { debugged_stacks::registered_for_a_debugger(threads, scan_registered) };
    view.for_each_record(|record| half_built(record, |low, high| scan(StepKind::HalfBuilt, record.tid().0, low, high)));
    view.collector.ranges.for_each(|low, high| scan(StepKind::Range, 0, low, high));
    let mut exactly = |kind, slot, word| keeps(Root { kind, tid: 0, slot, word }, view.object_at(word));
    view.collector.roots.for_each(|slot, word| exactly(StepKind::Handle, slot, word));
    let ready = |slot, word| exactly(StepKind::Finalizer, slot, word);
    // SAFETY: the calling debugger keeps every other thread of the process stopped until this returns.
    unsafe { view.collector.finalizers.for_each_ready_anytime(ready) };
    outcome
}

fn kind_of(found_in: FoundIn) -> StepKind {
    match found_in {
        FoundIn::Stack => StepKind::Stack,
        FoundIn::Registers => StepKind::Registers,
        FoundIn::RegisteredStack => StepKind::RegisteredStack,
    }
}

/// Calls `scan` with each cell that a thread may have been initialising when it was stopped (`.stop.mid-alloc`).
fn half_built(record: &ThreadStopInfo, mut scan: impl FnMut(usize, usize)) {
    // SAFETY: the calling debugger keeps every other thread of the process stopped until this returns.
    let Some(cache) = (unsafe { cache_of(record) }) else { return };
    cache.half_built().for_each(|(cell, bytes)| scan(cell, cell.saturating_add(bytes)));
}

#[cfg(test)]
mod tests {
    use super::super::tests::{built, view, world};
    use super::*;
    use crate::Gc;

    /// This can happen if other threads run, and cells are reused.
    #[test]
    fn a_path_with_a_cycle_is_rejected() {
        let world = world();
        let addresses = built(&world, |m| [1, 2, 3_u64].map(|number| Gc::addr(m.alloc(number).unwrap())));
        let view = view(world.collector());
        let [first, second, other] = addresses.map(|address| view.object_at(address).unwrap());
        let mut search = Search::new(&view).unwrap();
        assert!(search.reach(first, second.payload(), other).is_continue());
        assert!(search.reach(second, first.payload(), other).is_continue());
        assert!(search.reach(other, ROOT, other).is_break());
        assert_eq!(search.length(other), Some(1));
        assert_eq!(search.length(first), None);
    }
}
