//! Executes each query for the worlds of a list: an address belongs to the world whose heap contains it.

use std::ops::ControlFlow;

use super::facts::{
    ARRAY, DROPS, FREE_BLOCK, FREE_CELL, FieldFacts, HALF_BUILT, LARGE, LEAF, ObjectFacts, PINNED, Refusal, WEAK,
};
use super::objects::{Object, View};
use super::{counting, search};
use crate::collector::Collector;
use crate::heap::array::Array;
use crate::heap::blocks::Cell;
use crate::heap::layout::{CLASSES, MAX_ALIGN, Space, class_of_size, payload_bytes};
use crate::heap::trace::{Shape, TypeInfo};
use crate::sync::Ordering::Relaxed;
use crate::world::{PublishedWorld, WorldList};

/// Implements [`describe`](super::describe).
///
/// # Safety
/// As for the function that the debugger calls.
pub(in crate::debugger) unsafe fn describe(worlds: &'static WorldList, address: usize, out: usize) -> i64 {
    answer(|| {
        let (world, view) = around(worlds, address)?;
        let mut out = Buffer::<ObjectFacts>::new(out, 1)?;
        let (found, facts) = describe_in(&view, address);
        out.put(0, ObjectFacts { world: std::ptr::from_ref(world) as usize, ..facts });
        Ok(usize::from(found))
    })
}

/// Implements [`fields`](super::fields).
///
/// # Safety
/// As for the function that the debugger calls.
pub(in crate::debugger) unsafe fn fields(
    worlds: &'static WorldList,
    address: usize,
    out: usize,
    capacity: usize,
) -> i64 {
    answer(|| {
        let (view, object) = object_around(worlds, address)?;
        let mut out = Buffer::new(out, capacity)?;
        Ok(fields_in(&view, object, |index, field| out.put(index, field)))
    })
}

/// Implements [`referrers`](super::referrers).
///
/// # Safety
/// As for the function that the debugger calls.
pub(in crate::debugger) unsafe fn referrers(
    worlds: &'static WorldList,
    address: usize,
    out: usize,
    capacity: usize,
) -> i64 {
    answer(|| {
        let (view, object) = object_around(worlds, address)?;
        let mut out = Buffer::new(out, capacity)?;
        Ok(referrers_in(&view, object, |index, holder| out.put(index, holder)))
    })
}

/// Implements [`path`](super::path).
///
/// # Safety
/// As for the function that the debugger calls.
pub(in crate::debugger) unsafe fn path(worlds: &'static WorldList, address: usize, out: usize, capacity: usize) -> i64 {
    answer(|| {
        let (view, object) = object_around(worlds, address)?;
        let mut out = Buffer::new(out, capacity)?;
        search::path_to(object, &view, |index, step| out.put(index, step))
    })
}

/// Implements [`request_collection`](super::request_collection).
///
/// # Safety
/// As for the function that the debugger calls.
pub(in crate::debugger) unsafe fn request_collection(worlds: &'static WorldList, world: usize) -> i64 {
    answer(|| {
        let (mut met, mut woken) = (0, 0);
        worlds.find(|published| {
            if let Some(collector) = collector_of(published)
                && (world == 0 || std::ptr::from_ref(published) as usize == world)
            {
                met += 1;
                woken += usize::from(request_in(collector));
            }
            false
        });
        if met == 0 { Err(Refusal::NoWorld) } else { Ok(woken) }
    })
}

/// Implements [`census`](super::census).
///
/// # Safety
/// As for the function that the debugger calls.
pub(in crate::debugger) unsafe fn census(worlds: &'static WorldList, world: usize, out: usize, capacity: usize) -> i64 {
    answer(|| {
        let is_it = |published: &PublishedWorld| std::ptr::from_ref(published) as usize == world;
        let found = worlds.find(is_it).and_then(collector_of).ok_or(Refusal::NoWorld)?;
        let mut out = Buffer::new(out, capacity)?;
        counting::take(&View::of(found), |index, row| out.put(index, row))
    })
}

fn answer(question: impl FnOnce() -> Result<usize, Refusal>) -> i64 {
    match question() {
        Ok(count) => count as i64,
        Err(refusal) => refusal as i64,
    }
}

/// The caller's memory for the results.
struct Buffer<T> {
    place: *mut T,
    capacity: usize,
}

impl<T> Buffer<T> {
    fn new(address: usize, capacity: usize) -> Result<Self, Refusal> {
        let usable = address.is_multiple_of(align_of::<u64>()) && (address != 0 || capacity == 0);
        usable.then_some(Self { place: address as *mut T, capacity }).ok_or(Refusal::NoBuffer)
    }

    /// Writes an item, or drops it if it does not fit.
    fn put(&mut self, index: usize, item: T) {
        if index < self.capacity {
            // SAFETY: the caller of the query provides aligned memory with room for `capacity` items.
            unsafe { self.place.add(index).write(item) };
        }
    }
}

fn collector_of(published: &PublishedWorld) -> Option<&Collector> {
    // SAFETY: null, or the collector of a published world, which is alive while it is published.
    unsafe { published.collector().cast::<Collector>().as_ref() }
}

/// Returns the world whose heap contains the address.
fn around(worlds: &'static WorldList, address: usize) -> Result<(&'static PublishedWorld, View<'static>), Refusal> {
    let published = worlds.find(|published| published.has_in_its_heap(address)).ok_or(Refusal::NoWorld)?;
    let collector = collector_of(published).ok_or(Refusal::NoWorld)?;
    Ok((published, View::of(collector)))
}

fn object_around(worlds: &'static WorldList, address: usize) -> Result<(View<'static>, Object), Refusal> {
    let (_, view) = around(worlds, address)?;
    let object = view.object_around(address).ok_or(Refusal::NoObject)?;
    Ok((view, object))
}

pub(super) fn request_in(collector: &Collector) -> bool {
    collector.heap.request_collection();
    collector.finalizers.announce();
    collector.finalizers.started.load(Relaxed)
}

/// Describes the object that has `address` inside or just past its end; if there is none, returns `false` and the facts of the cell.
pub(super) fn describe_in(view: &View<'_>, address: usize) -> (bool, ObjectFacts) {
    let blocks = &view.heap.blocks;
    if let Some(object) = view.object_around(address) {
        return (true, facts_of(view, object));
    }
    let mut facts = ObjectFacts { flags: FREE_BLOCK, ..ObjectFacts::default() };
    if let Some(cell) = blocks.cell_containing(address) {
        let space = blocks.info(cell.block).head.space.load(Relaxed);
        let half_built = if is_half_built(view, cell) { HALF_BUILT } else { 0 };
        facts = ObjectFacts { flags: FREE_CELL | half_built, space: u32::from(space), ..place_of(view, cell) };
    }
    (false, facts)
}

fn place_of(view: &View<'_>, cell: Cell) -> ObjectFacts {
    let word = view.heap.blocks.word(cell.block);
    let cell_bytes = match word.is_large_head() {
        true => view.heap.large_footprint(cell.block) as usize,
        false => word.cell_bytes(),
    };
    ObjectFacts {
        base: cell.payload(),
        cell_bytes,
        block: view.heap.blocks.start(cell.block),
        ..ObjectFacts::default()
    }
}

fn facts_of(view: &View<'_>, object: Object) -> ObjectFacts {
    let (info, cell) = (object.info, object.cell);
    let blocks = &view.heap.blocks;
    let mut flags = match info.shape {
        Shape::Leaf => LEAF,
        Shape::Array { .. } => ARRAY,
        Shape::Weak => WEAK,
        Shape::Words(_) | Shape::Wide(_) | Shape::Untyped | Shape::Bound => 0,
    };
    let space = match () {
        () if blocks.word(cell.block).is_large_head() => Space::Large as u32,
        () => u32::from(blocks.info(cell.block).head.space.load(Relaxed)),
    };
    flags |= if space == Space::Large as u32 { LARGE } else { 0 };
    flags |= if space == Space::Pinned as u32 { PINNED } else { 0 };
    flags |= if is_half_built(view, cell) { HALF_BUILT } else { 0 };
    flags |= if info.drop_in_place.is_some() { DROPS } else { 0 };
    let (bytes, length) = match info.shape {
        Shape::Array { stride, .. } => {
            let length = object.length(stride as usize);
            (size_of::<Array<u8>>() + length * stride as usize, length)
        }
        Shape::Leaf if is_of_any_size(info, object.room) => {
            // An array's length is its first word; other types without references have no known length.
            let is_array = info.size() == size_of::<Array<u8>>();
            flags |= if is_array { ARRAY } else { 0 };
            (object.room, if is_array { object.length(0) } else { 0 })
        }
        // A Rust type whose layout is that any word may be a reference has a size.
        Shape::Untyped if info.size() == 0 || info.is_array => (object.room, 0),
        Shape::Bound => (object.room, 0),
        _ => (info.size().min(object.room), 0),
    };
    let mut fields = usize::from(object.weak_target().is_some());
    let _ = object.for_each_reference(|_, _| {
        fields += 1;
        ControlFlow::<()>::Continue(())
    });
    let (type_name, rust_name) = (info.name(), info.rust_name());
    ObjectFacts {
        bytes,
        type_info: std::ptr::from_ref(info) as usize,
        type_name: type_name.as_ptr() as usize,
        type_name_bytes: type_name.len(),
        rust_name: rust_name.as_ptr() as usize,
        rust_name_bytes: rust_name.len(),
        fields,
        length,
        space,
        flags,
        marked: u32::from(blocks.mark(cell.block, cell.index).load(Relaxed) == view.heap.epoch()),
        ..place_of(view, cell)
    }
}

/// Returns whether the objects of this leaf type differ in size, so that the type does not determine the size of an object: the size in
/// the type is 0, or belongs to another size of cell than the object has.
fn is_of_any_size(info: &TypeInfo, room: usize) -> bool {
    // No collected type has a larger alignment. If this type has, its descriptor is damaged, and its size is not valid.
    let class = if info.align() <= MAX_ALIGN { class_of_size(info.size(), info.align()) } else { CLASSES };
    info.size() == 0 || (class < CLASSES && payload_bytes(class) != room)
}

/// Returns whether a thread's allocation cursor is at this cell (`.stop.mid-alloc`).
fn is_half_built(view: &View<'_>, cell: Cell) -> bool {
    let mut found = false;
    view.for_each_record(|record| {
        // SAFETY: the calling debugger keeps every other thread of the process stopped until this returns.
        let cache = unsafe { crate::collector::cache_of(record) };
        found |= cache.is_some_and(|cache| cache.half_built().any(|(header, _)| header == cell.header));
    });
    found
}

pub(super) fn fields_in(view: &View<'_>, object: Object, mut write: impl FnMut(usize, FieldFacts)) -> usize {
    let mut count = 0;
    let mut tell = |offset, value| {
        let target = view.target_of(value).map_or(0, |target| target.payload());
        write(count, FieldFacts { offset, value, target });
        count += 1;
    };
    if let Some(target) = object.weak_target() {
        tell(0, target);
    }
    let _ = object.for_each_reference(|offset, value| {
        tell(offset, value);
        ControlFlow::<()>::Continue(())
    });
    count
}

pub(super) fn referrers_in(view: &View<'_>, target: Object, mut write: impl FnMut(usize, usize)) -> usize {
    let mut count = 0;
    let _ = view.for_each_object(|holder| {
        let refers = holder.for_each_reference(|_, word| match view.refers_to(word, target) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        });
        if refers.is_break() {
            write(count, holder.payload());
            count += 1;
        }
        ControlFlow::<()>::Continue(())
    });
    count
}
