//! Calls that act on the calling thread: attach, detach, allocate, roots, ranges, safepoints, blocking regions.
//!
//! A C host has no `Mutator` to pass around, so each thread stores its own in thread-local storage. (In a library loaded by dlopen,
//! thread-local storage is allocated on first use. Attaching uses this storage, so that a signal handler on the thread never allocates
//! it.)

use std::cell::RefCell;
use std::ffi::{c_char, c_void};
use std::sync::Arc;

use stopworld::{Described, DescribedType, Gc, Mutator, RangeGuard, Root};

use crate::abi::{self, Opaque};
use crate::failure::{Code, Failure, caught, failure, guarded, is_null, place, text};
use crate::handles::{Hosted, world_of};
use crate::versions;

/// The attachment of a thread. A blocking region keeps this value borrowed, so calls that would end the attachment are refused in the
/// region.
struct Attached {
    mutator: Mutator,
    hosted: Arc<Hosted>,
    blocking: std::cell::Cell<u32>,
}

thread_local! {
    static ATTACHED: RefCell<Option<Attached>> = const { RefCell::new(None) };
}

fn not_attached() -> Failure {
    failure(Code::NotAttached, "this thread is not attached to a world: call thread_attach first")
}

fn in_a_region() -> Failure {
    failure(
        Code::Blocking,
        "this thread is in a blocking region, where it must not use the heap: make this call before or after the region",
    )
}

/// Runs `run` if the calling thread is attached and not in a blocking region; fails otherwise.
#[inline]
fn attached<R>(run: impl FnOnce(&Attached) -> Result<R, Failure>) -> Result<R, Failure> {
    let here = |attached: &RefCell<Option<Attached>>| {
        let attached = attached.borrow();
        let attached = attached.as_ref().ok_or_else(not_attached)?;
        if attached.blocking.get() > 0 { Err(in_a_region()) } else { run(attached) }
    };
    // A thread that is ending has been detached.
    ATTACHED.try_with(here).unwrap_or_else(|_| Err(not_attached()))
}

/// Fails if the calling thread is in a blocking region.
pub(crate) fn must_not_block() -> Result<(), Failure> {
    match attached(|_| Ok(())) {
        Err(failure) if !failure.is(Code::NotAttached) => Err(failure),
        _ => Ok(()),
    }
}

pub(crate) fn must_not_be_attached() -> Result<(), Failure> {
    match ATTACHED.try_with(|attached| attached.borrow().is_some()) {
        Ok(true) => Err(failure(Code::Attached, "this thread is attached to a world: detach it first")),
        _ => Ok(()),
    }
}

pub(crate) unsafe extern "C" fn thread_attach(world: *mut Opaque, name: *const c_char) -> abi::Code {
    guarded(|| {
        let hosted = world_of(world)?;
        // SAFETY: the host's promise.
        let name = if name.is_null() { "host" } else { unsafe { text(name, "the thread's name") }? };
        must_not_be_attached()?;
        // SAFETY: the host keeps references only where the header says that the collector finds them.
        let mutator = unsafe { hosted.world.attach(name) }?;
        let attached = Attached { mutator, hosted, blocking: std::cell::Cell::new(0) };
        let kept = ATTACHED.try_with(|here| here.replace(Some(attached)));
        kept.map(drop).map_err(|_| failure(Code::System, "this thread is ending and can't be attached any more"))
    })
}

pub(crate) extern "C" fn thread_detach() -> abi::Code {
    guarded(|| {
        attached(|_| Ok(()))?;
        // The mutator is dropped when the borrow has ended: detaching fires an event, and may wait for a collection first.
        drop(ATTACHED.try_with(|here| here.take()).ok().flatten());
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn type_describe(
    description: *const abi::TypeDescription,
    out: *mut *const Opaque,
) -> abi::Code {
    guarded(|| {
        // SAFETY: the host's promise, here and below.
        let place = unsafe { place(out, "the output pointer for the type") }?;
        // SAFETY: as above.
        let description = unsafe { versions::read(description) }?;
        // SAFETY: as above.
        let name = unsafe { text(description.name, "the type's name") }?;
        let references = if description.references.is_null() {
            &[]
        } else {
            // SAFETY: as above: `reference_words` words are there.
            unsafe { std::slice::from_raw_parts(description.references, description.reference_words) }
        };
        let layout = DescribedType::layout(references)?;
        let described = DescribedType::new(name, description.bytes, layout)?;
        *place = std::ptr::from_ref(Box::leak(Box::new(described))).cast();
        Ok(())
    })
}

/// # Safety
/// `handle` is null or came from `type_describe`.
unsafe fn type_of(handle: *const Opaque) -> Result<DescribedType, Failure> {
    // SAFETY: the caller's promise; types are never freed.
    unsafe { handle.cast::<DescribedType>().as_ref() }.copied().ok_or_else(|| is_null("the type"))
}

/// Allocates an object with `make` and writes its address to `out`.
///
/// # Safety
/// `out` is null, or a pointer may be written there.
#[inline]
unsafe fn allocate_with(
    out: *mut *mut c_void,
    make: impl FnOnce(&Mutator) -> Result<Gc<Described>, Failure>,
) -> abi::Code {
    caught(|| {
        // SAFETY: the caller's promise.
        let place = unsafe { place(out, "the output pointer for the object") }?;
        *place = Gc::as_ptr(attached(|attached| make(&attached.mutator))?).cast_mut().cast();
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn allocate(of: *const Opaque, out: *mut *mut c_void) -> abi::Code {
    // SAFETY: the host's promise.
    unsafe { allocate_with(out, |m| Ok(m.alloc_described(type_of(of)?)?)) }
}

pub(crate) unsafe extern "C" fn allocate_array(of: *const Opaque, length: usize, out: *mut *mut c_void) -> abi::Code {
    // SAFETY: the host's promise.
    unsafe { allocate_with(out, |m| Ok(m.alloc_described_array(type_of(of)?, length)?)) }
}

pub(crate) unsafe extern "C" fn allocate_bytes(bytes: usize, out: *mut *mut c_void) -> abi::Code {
    // SAFETY: the host's promise.
    unsafe { allocate_with(out, |m| Ok(m.alloc_bytes(bytes)?)) }
}

/// A root and its world.
struct Held {
    root: Root<Described>,
    hosted: Arc<Hosted>,
}

pub(crate) unsafe extern "C" fn root_create(object: *mut c_void, out: *mut *mut Opaque) -> abi::Code {
    guarded(|| {
        // SAFETY: the host's promise.
        let place = unsafe { place(out, "the output pointer for the root") }?;
        if object.is_null() {
            return Err(is_null("the object"));
        }
        let held = attached(|attached| {
            // SAFETY: the host's promise: an object from this collector that the host has kept alive.
            let gc = unsafe { Gc::<Described>::from_addr(object as usize) };
            Ok(Held { root: attached.mutator.root(gc), hosted: Arc::clone(&attached.hosted) })
        })?;
        *place = Box::into_raw(Box::new(held)).cast();
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn root_get(root: *const Opaque, out: *mut *mut c_void) -> abi::Code {
    guarded(|| {
        // SAFETY: the host's promise.
        let place = unsafe { place(out, "the output pointer for the object") }?;
        // SAFETY: the host's promise: null, or a root that has not been dropped.
        let held = unsafe { root.cast::<Held>().as_ref() }.ok_or_else(|| is_null("the root"))?;
        let object = attached(|attached| {
            if !Arc::ptr_eq(&attached.hosted, &held.hosted) {
                return Err(failure(
                    Code::NotAttached,
                    "this thread is attached to a world other than the root's world",
                ));
            }
            Ok(held.root.get(&attached.mutator))
        })?;
        *place = Gc::as_ptr(object).cast_mut().cast();
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn root_drop(root: *mut Opaque) -> abi::Code {
    guarded(|| {
        if root.is_null() {
            return Err(is_null("the root"));
        }
        // SAFETY: the host's promise: made by `root_create`, dropped once.
        drop(unsafe { Box::from_raw(root.cast::<Held>()) });
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn range_register(
    world: *mut Opaque,
    start: *const c_void,
    bytes: usize,
    out: *mut *mut Opaque,
) -> abi::Code {
    guarded(|| {
        // SAFETY: the host's promise.
        let place = unsafe { place(out, "the output pointer for the range") }?;
        let hosted = world_of(world)?;
        if start.is_null() {
            return Err(is_null("the range's start"));
        }
        if (start as usize).checked_add(bytes).is_none() {
            return Err(failure(Code::Argument, "the range extends past the end of the address space"));
        }
        // SAFETY: the host's promise: the range is readable until it is dropped.
        let guard = unsafe { hosted.world.register_range(start.cast(), bytes) };
        let guard = guard.ok_or_else(|| failure(Code::System, "too many ranges are registered: drop some"))?;
        *place = Box::into_raw(Box::new(guard)).cast();
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn range_drop(range: *mut Opaque) -> abi::Code {
    guarded(|| {
        if range.is_null() {
            return Err(is_null("the range"));
        }
        // SAFETY: the host's promise: made by `range_register`, dropped once.
        drop(unsafe { Box::from_raw(range.cast::<RangeGuard>()) });
        Ok(())
    })
}

pub(crate) extern "C" fn safepoint() -> abi::Code {
    caught(|| {
        attached(|attached| {
            attached.mutator.safepoint();
            Ok(())
        })
    })
}

/// The host's region function and its argument, which the collector passes on without using it.
struct Region(unsafe extern "C-unwind" fn(*mut c_void), *mut c_void);

// SAFETY: the region is called on the thread that passed it.
unsafe impl Send for Region {}

pub(crate) unsafe extern "C" fn blocking(
    region: Option<unsafe extern "C-unwind" fn(*mut c_void)>,
    argument: *mut c_void,
) -> abi::Code {
    let mut checked = None;
    let refused = guarded(|| {
        checked = Some(Region(region.ok_or_else(|| is_null("the region"))?, argument));
        match ATTACHED.try_with(|attached| attached.borrow().is_some()) {
            Ok(true) => Ok(()),
            _ => Err(not_attached()),
        }
    });
    let Some(region) = checked.filter(|_| refused == 0) else { return refused };
    // This is outside of `guarded`, which catches panics: if the thread is cancelled in the region, it unwinds through here.
    let called = ATTACHED.try_with(|attached| {
        if let Some(attached) = &*attached.borrow() {
            attached.run(region);
        }
    });
    guarded(|| called.map_err(|_| not_attached()))
}

impl Attached {
    /// Calls `region` as a blocking region of this thread.
    fn run(&self, region: Region) {
        struct Outside<'a>(&'a std::cell::Cell<u32>);
        impl Drop for Outside<'_> {
            fn drop(&mut self) {
                self.0.set(0);
            }
        }
        let call = move || {
            let Region(function, argument) = { region };
            // SAFETY: the host promises that its function may be called with this argument.
            unsafe { function(argument) };
        };
        if self.blocking.get() > 0 {
            // A nested region is part of the outer one.
            return call();
        }
        self.blocking.set(1);
        let _outside = Outside(&self.blocking);
        self.mutator.blocking(call);
    }
}
