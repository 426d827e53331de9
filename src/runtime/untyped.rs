//! Objects without a type: memory that the collector scans conservatively, word by word.
//!
//! A program that was written for malloc, or for a collector such as bdwgc, cannot describe its objects. Such an object is one of
//! a few *kinds* ([`UntypedKind`]), which have a name for profiles, and are scanned or not. The collector scans all words of the
//! object's cell; those that point to an object keep it alive. [`WorldBuilder::untyped`](crate::WorldBuilder::untyped) sets which
//! pointers count.
//!
//! ```
//! use stopworld::World;
//! use stopworld::untyped::{ObjectPointers, UntypedKind};
//!
//! let kind = UntypedKind::scanned("list cell");
//! let world = World::builder().untyped(ObjectPointers::Interior).build()?;
//! // SAFETY: this thread keeps every pointer in local variables.
//! let mutator = unsafe { world.attach("main") }?;
//! let (one, other) = (mutator.alloc_untyped(24, kind)?, mutator.alloc_untyped(100, kind)?);
//! // SAFETY: the objects have these sizes. A pointer into the middle of the object keeps it alive.
//! unsafe { one.cast::<*mut u8>().write(other.as_ptr().add(50)) };
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::arch::x86_64::{__m128i, _mm_setzero_si128};
use std::ptr::{self, NonNull};

use super::{Mutator, OutOfMemory, World};
use crate::events::EventId;
use crate::heap::compact::KindNumber;
use crate::heap::free::{Freed, NoObject};
use crate::heap::layout::{
    CELL_BYTES, CLASSES, FIRST_CELL, HEADER_BYTES, Space, bin, class_of_compact, class_of_untyped,
};
use crate::heap::trace::{Shape, TypeInfo};
use crate::os::callback::refuse_inside;

/// A kind of untyped objects: its name, and whether the objects are scanned. A `Copy` handle; the kind itself is never freed.
#[derive(Clone, Copy, Debug)]
pub struct UntypedKind {
    info: &'static TypeInfo,
    /// The kind's number, if its small objects may be in cells without headers.
    number: Option<KindNumber>,
}

impl UntypedKind {
    /// Makes a kind whose objects are scanned: every aligned word may be a reference. `name` appears in profiles, dumps and
    /// debuggers. Neither the name nor the kind is ever freed, so make each kind once.
    pub fn scanned(name: &str) -> UntypedKind {
        UntypedKind::of(name, 0, Shape::Untyped)
    }

    /// Makes a kind whose objects contain no references. Otherwise as [`scanned`](Self::scanned).
    pub fn leaf(name: &str) -> UntypedKind {
        UntypedKind::of(name, 0, Shape::Leaf)
    }

    /// Makes a kind whose objects have references only in some of their first 64 words: bit *i* of `words` stands for word *i*. Its objects
    /// are zeroed, too, and have at least the words that `words` names. Otherwise as [`scanned`](Self::scanned).
    pub fn with_words(name: &str, words: u64) -> UntypedKind {
        let size = (u64::BITS - words.leading_zeros()) as usize * size_of::<u64>();
        let shape = if words == 0 { Shape::Leaf } else { Shape::Words(words) };
        UntypedKind::of(name, size, shape)
    }

    /// Makes a kind whose references the world's binding finds: see
    /// [`MarkedHeap::take_bound`](crate::untyped::MarkedHeap::take_bound). The last word of the object's cell belongs to the
    /// collector: a program requests at least 8 bytes more than it uses. Without a binding, its objects refer to nothing. Otherwise as
    /// [`scanned`](Self::scanned).
    pub fn bound(name: &str) -> UntypedKind {
        UntypedKind::of(name, 0, Shape::Bound)
    }

    fn of(name: &str, size: usize, shape: Shape) -> UntypedKind {
        let info = &*Box::leak(Box::new(TypeInfo::of_described(Box::leak(Box::from(name)), size, 16, shape)));
        // An object of a bound kind has a word more than its program requests, which is that after an aligned payload.
        let number = if info.shape == Shape::Bound { None } else { KindNumber::register(info) };
        UntypedKind { info, number }
    }

    /// Returns the name that was given to the kind.
    pub fn name(self) -> &'static str {
        self.info.name()
    }

    /// Returns the description that the objects' headers point to.
    pub fn type_info(self) -> &'static TypeInfo {
        self.info
    }

    /// Returns whether objects of this kind are scanned.
    #[inline(always)]
    pub fn is_scanned(self) -> bool {
        self.info.shape != Shape::Leaf
    }
}

/// Up to this many bytes, a cell is zeroed by stores in place; a call of `memset` would take longer than the rest of the allocation.
const ZEROED_IN_PLACE: usize = 256;

/// Zeroes the payload of a cell.
///
/// # Safety
/// The payload is aligned to 16 and belongs to the caller; the cell's size is a multiple of 16.
#[inline(always)]
unsafe fn zero_payload(payload: *mut u8, cell_bytes: usize) {
    let bytes = cell_bytes - HEADER_BYTES;
    // SAFETY: within the payload.
    unsafe {
        if bytes > ZEROED_IN_PLACE {
            return ptr::write_bytes(payload, 0, bytes);
        }
        let last = bytes - size_of::<u64>();
        // Volatile, so that the compiler does not make a call of `memset` of the loop.
        for at in (0..last).step_by(size_of::<__m128i>()) {
            payload.add(at).cast::<__m128i>().write_volatile(_mm_setzero_si128());
        }
        payload.add(last).cast::<u64>().write(0);
    }
}

impl Mutator {
    /// Allocates an untyped object of at least `bytes` bytes, aligned to 16. An object of a scanned kind is zeroed, up to the end of
    /// its cell; one of a leaf kind is not. Objects of 0 bytes are distinct.
    ///
    /// Costs as much as [`alloc`](Self::alloc), and the zeroing.
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc).
    #[inline(always)]
    pub fn alloc_untyped(&self, bytes: usize, kind: UntypedKind) -> Result<NonNull<u8>, OutOfMemory> {
        if self.cache.has_compact_cells()
            && let Some(number) = kind.number
            && let Some(class) = class_of_compact(bytes)
        {
            return self.compact_untyped(bytes, class, kind, number);
        }
        let class = class_of_untyped(bytes);
        if class == CLASSES {
            return self.large_untyped(bytes, kind);
        }
        let (bin, cell_bytes, info) = (bin(Space::Small, class), CELL_BYTES[class], kind.info);
        let is_scanned = kind.is_scanned();
        let build = |payload| {
            if is_scanned {
                // SAFETY: a cell of this size, which belongs to the thread; the class has aligned payloads.
                unsafe { zero_payload(payload, cell_bytes) };
            }
        };
        // SAFETY: this thread's own cache. Writing zeros neither allocates nor unwinds.
        let freed = unsafe { self.cache.allocate_freed(class, ptr::from_ref(info) as usize, build) };
        if let Some(payload) = freed.and_then(NonNull::new) {
            return Ok(payload);
        }
        loop {
            // SAFETY: this thread's own cache; the bin's cells have this size. Writing zeros neither allocates nor unwinds.
            let cell = unsafe { self.cache.allocate(bin, cell_bytes, ptr::from_ref(info) as usize, build) };
            match cell.and_then(NonNull::new) {
                Some(payload) => {
                    self.report_allocated(bin, payload.as_ptr(), cell_bytes, info);
                    return Ok(payload);
                }
                None => self.refill(bin, bytes, info)?,
            }
        }
    }

    /// [`alloc_untyped`](Self::alloc_untyped) in a cell without a header.
    #[inline(always)]
    fn compact_untyped(
        &self,
        bytes: usize,
        class: usize,
        kind: UntypedKind,
        number: KindNumber,
    ) -> Result<NonNull<u8>, OutOfMemory> {
        let (bin, cell_bytes) = (bin(Space::Small, class), CELL_BYTES[class]);
        let is_scanned = kind.is_scanned();
        let build = |payload: *mut u8| {
            if is_scanned {
                for at in (0..cell_bytes).step_by(size_of::<__m128i>()) {
                    // SAFETY: within a cell of this size, which belongs to the thread; its payload is aligned. Volatile, as in
                    // `zero_payload`.
                    unsafe { payload.add(at).cast::<__m128i>().write_volatile(_mm_setzero_si128()) };
                }
            }
        };
        // SAFETY: this thread's own cache. Writing zeros neither allocates nor unwinds.
        let freed = unsafe { self.cache.allocate_freed_compact(class, number, build) };
        if let Some(payload) = freed.and_then(NonNull::new) {
            return Ok(payload);
        }
        loop {
            // SAFETY: this thread's own cache; the bin's cells have this size. Writing zeros neither allocates nor unwinds.
            let cell = unsafe { self.cache.allocate_compact(bin, cell_bytes, number, build) };
            match cell.and_then(NonNull::new) {
                Some(payload) => {
                    self.report_allocated(bin, payload.as_ptr(), cell_bytes, kind.info);
                    return Ok(payload);
                }
                None => self.refill(bin, bytes, kind.info)?,
            }
        }
    }

    /// Makes a list of up to `most` new objects: the first word of each is the address of the next one, and that of the last is `rest`.
    /// Otherwise the objects are as those of [`alloc_untyped`](Self::alloc_untyped). Returns the first, and their number. Takes the free cells that
    /// the thread has at hand: neither collects nor takes a lock.
    ///
    /// A reference to the first object keeps the others alive if their kind is scanned. Objects of a leaf kind that nothing else refers to
    /// are freed by the next collection.
    ///
    /// `None` if there is no such cell, or if objects of this size have no cells, or if an event reports each allocation. After a call of
    /// [`alloc_untyped`](Self::alloc_untyped) there may be cells again.
    pub fn list_untyped(
        &self,
        bytes: usize,
        kind: UntypedKind,
        most: usize,
        rest: Option<NonNull<u8>>,
    ) -> Option<(NonNull<u8>, usize)> {
        if self.world().collector().events.is_enabled(EventId::ObjectAllocated) {
            return None;
        }
        let (bytes, clears) = (bytes.max(size_of::<usize>()), kind.is_scanned());
        let rest = rest.map_or(0, |rest| rest.as_ptr() as usize);
        let compact = kind.number.filter(|_| self.cache.has_compact_cells()).zip(class_of_compact(bytes));
        let class = compact.map_or_else(|| class_of_untyped(bytes), |(_, class)| class);
        if class == CLASSES {
            return None;
        }
        let bin = bin(Space::Small, class);
        let list = match compact {
            // SAFETY: this thread's own cache; the heap has compact cells.
            Some((number, _)) => unsafe { self.cache.allocate_compact_list(bin, most, number, clears, rest) },
            // SAFETY: this thread's own cache; untyped objects of this class have headers.
            None => unsafe { self.cache.allocate_list(bin, most, ptr::from_ref(kind.info) as usize, clears, rest) },
        };
        let (head, count) = list?;
        let head = NonNull::new(head as *mut u8)?;
        if self.world().collector().events.is_enabled(EventId::ObjectAllocated) {
            self.report_list(bin, head, count, kind.info);
        }
        Some((head, count))
    }

    /// Reports the objects of a list, if an event has begun to report each allocation while it was made. A collection may have settled the
    /// first ones, and reported them; the others are not settled.
    #[cold]
    #[inline(never)]
    fn report_list(&self, bin: usize, head: NonNull<u8>, count: usize, info: &'static TypeInfo) {
        let cell_bytes = CELL_BYTES[bin % CLASSES];
        for index in 0..count {
            self.report_allocated(bin, head.as_ptr().wrapping_add(index * cell_bytes), cell_bytes, info);
        }
    }

    /// Frees an untyped object, whose memory the program does not use any more. A small object's cell is the first that this thread's
    /// allocations of the same size class take; the memory of a large object is free at once. No event reports the end of a small object
    /// before the next collection finds it. Returns what the object was.
    ///
    /// # Errors
    /// No object begins at this address, or it was freed already. Nothing has changed.
    ///
    /// # Safety
    /// The object was allocated by [`alloc_untyped`](Self::alloc_untyped), and no thread uses it any more. Other objects may still
    /// contain its address.
    pub unsafe fn free_untyped(&self, object: NonNull<u8>) -> Result<UntypedObject, NotAllocated> {
        refuse_inside("Mutator::free_untyped");
        let (heap, address) = (&self.world().collector().heap, object.as_ptr() as usize);
        self.sampled_freed(address);
        // SAFETY: the thread's own cache; the rest by the caller's promise.
        match unsafe { heap.free(&self.cache, address, || self.allocation_lock()) } {
            Ok(Freed { bytes, type_info, footprint }) => {
                if let Some(footprint) = footprint {
                    let events = &self.world().collector().events;
                    events.fire_object_freed(address, footprint);
                    let start = address - HEADER_BYTES - FIRST_CELL;
                    events.fire_block_released(start, footprint, Space::Large as u32);
                }
                // SAFETY: the header of an object is the address of a `TypeInfo`, which lives for ever.
                Ok(UntypedObject { address: object, bytes, type_info: unsafe { &*type_info } })
            }
            Err(NoObject) => Err(NotAllocated { address }),
        }
    }

    #[cold]
    #[inline(never)]
    fn large_untyped(&self, bytes: usize, kind: UntypedKind) -> Result<NonNull<u8>, OutOfMemory> {
        // Whole words, so that the last one is scanned.
        let rounded = self.array_bytes(bytes, 1)?.next_multiple_of(16);
        let payload = self.large(rounded, kind.info)?;
        NonNull::new(payload).ok_or_else(|| self.out_of_memory(bytes))
    }
}

/// An object that was found by an address.
#[derive(Clone, Copy, Debug)]
pub struct UntypedObject {
    /// The object's first byte.
    pub address: NonNull<u8>,
    /// The bytes that the program may use from there on: at least as many as were asked for.
    pub bytes: usize,
    /// The description that the object's header points to.
    pub type_info: &'static TypeInfo,
}

/// There is no object at an address that was to be freed: it is none of the heap, or inside an object, or the object was freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no object begins at {address:#x}, or it was freed already")]
pub struct NotAllocated {
    /// The address.
    pub address: usize,
}

impl World {
    /// Returns the object that contains this address, of any type; `None` if there is none, or it was freed. Takes no lock. If no
    /// reference keeps the object alive, the result may be outdated at once.
    pub fn untyped_object(&self, address: usize) -> Option<UntypedObject> {
        let heap = &self.collector().heap;
        let (payload, type_info) = heap.object_containing(address)?;
        let address = NonNull::new(payload as *mut u8)?;
        Some(UntypedObject { address, bytes: heap.room_of(payload), type_info })
    }

    /// Calls `visit` with each object of the world that was alive after the last collection or was allocated since, of any type. Takes no
    /// lock: an object that another thread allocates or frees meanwhile may be missing, or be visited.
    pub fn for_each_untyped(&self, mut visit: impl FnMut(UntypedObject)) {
        let heap = &self.collector().heap;
        heap.for_each_object(|payload, type_info| {
            if let Some(address) = NonNull::new(payload as *mut u8) {
                visit(UntypedObject { address, bytes: heap.room_of(payload), type_info });
            }
        });
    }

    /// Lets pointers to the byte at `bytes` from the beginning of an object keep the object alive, in a world whose
    /// [untyped objects](crate::untyped) are found by [`ObjectPointers::Bases`](crate::untyped::ObjectPointers::Bases). In other
    /// worlds this has no effect. From 64 bytes on, displacements are not told apart: registering one registers all.
    pub fn register_displacement(&self, bytes: usize) {
        self.collector().heap.displacements.add(bytes);
    }
}
