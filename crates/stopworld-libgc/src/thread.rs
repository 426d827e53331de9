//! The calling thread's attachment to the world.
//!
//! A program need not register its threads: a thread is attached when it first needs the heap, and detached when it ends. Its attachment is
//! found through one word of thread-local storage. Each allocation reads that word, so it is in the storage that is allocated with the
//! thread ("initial-exec"): it is one load at a fixed distance from the thread pointer. A Rust `thread_local!` in a shared library is
//! found by a call of a function of the loader.

use std::arch::{asm, global_asm};
use std::cell::Cell;
use std::ffi::c_void;

use stopworld::Mutator;

use crate::call_sites::CallSites;
use crate::library::{self, Kinds, Library};
use crate::lock::LOCK;
use crate::os::{self, thread_name};
use crate::print;
use crate::tables::objects::THREADS;

/// An attached thread.
pub(crate) struct Attached {
    pub(crate) mutator: Mutator,
    pub(crate) library: &'static Library,
    /// The places from which the thread allocates, if objects are charged to them.
    pub(crate) call_sites: Option<CallSites>,
    /// Whether the program has registered the thread itself.
    pub(crate) is_registered: Cell<bool>,
    /// Whether the thread is running finalizers at the end of an allocation.
    pub(crate) is_finalizing: Cell<bool>,
}

global_asm!(
    ".pushsection .tbss,\"awT\",@nobits",
    ".balign 8",
    ".globl stopworld_gc_attached",
    ".hidden stopworld_gc_attached",
    ".type stopworld_gc_attached, @object",
    ".size stopworld_gc_attached, 8",
    "stopworld_gc_attached:",
    ".zero 8",
    ".popsection",
);

/// Reads the calling thread's word: null if it is not attached.
#[inline(always)]
fn word() -> *mut Attached {
    let word;
    // SAFETY: reads this thread's copy of the word, which the linker places in the thread's static storage.
    unsafe {
        asm!(
            "mov {word}, qword ptr [rip + stopworld_gc_attached@GOTTPOFF]",
            "mov {word}, fs:[{word}]",
            word = out(reg) word,
            options(nostack, pure, readonly, preserves_flags)
        );
    }
    word
}

fn set_word(attached: *mut Attached) {
    // SAFETY: as in `word`.
    unsafe {
        asm!(
            "mov {place}, qword ptr [rip + stopworld_gc_attached@GOTTPOFF]",
            "mov fs:[{place}], {attached}",
            place = out(reg) _,
            attached = in(reg) attached,
            options(nostack, preserves_flags)
        );
    }
}

/// Returns the calling thread's attachment, if it has one. The reference is valid until the thread ends or is unregistered, so it must
/// not be kept across a call into the program.
#[inline(always)]
pub(crate) fn current<'a>() -> Option<&'a Attached> {
    // SAFETY: the word is null, or the address of the thread's own attachment, which is freed only by `detach`.
    unsafe { word().as_ref() }
}

/// Returns the library, initialised.
pub(crate) fn library() -> &'static Library {
    library::get(end_of_thread)
}

/// Returns the calling thread's attachment. Attaches the thread if necessary, and initialises the library.
#[inline(always)]
pub(crate) fn attached<'a>() -> &'a Attached {
    match current() {
        Some(attached) => attached,
        None => attach(),
    }
}

#[cold]
#[inline(never)]
fn attach<'a>() -> &'a Attached {
    let library = library();
    let name = if os::thread::is_main() { "main".to_owned() } else { thread_name() };
    // SAFETY: the interface lets the collector scan this thread's stack and registers, and the memory that the program registers. Code of
    // the program that runs in a blocking region, or on a thread that is detached, does not use the heap.
    let mutator = match unsafe { library.world.attach(&name) } {
        Ok(mutator) => mutator,
        Err(error) => print::abort(&format!("the thread \"{name}\" can't be attached to the collector: {error}")),
    };
    let attached = Attached {
        mutator,
        library,
        call_sites: library.has_call_sites.then(CallSites::new),
        is_registered: Cell::new(false),
        is_finalizing: Cell::new(false),
    };
    let attached = Box::into_raw(Box::new(attached));
    // SAFETY: in this module only the thread itself frees it.
    let tid = unsafe { &*attached }.mutator.tid().0;
    THREADS.get(&LOCK.lock()).insert(os::own_pthread(), tid);
    library.thread_key.set(attached.cast());
    set_word(attached);
    // SAFETY: as in `current`.
    unsafe { &*attached }
}

/// Detaches the calling thread, if it is attached.
pub(crate) fn detach() {
    let attached = word();
    if attached.is_null() {
        return;
    }
    set_word(std::ptr::null_mut());
    // SAFETY: made by `attach` on this thread, and not reachable any more.
    let attached = unsafe { Box::from_raw(attached) };
    attached.library.thread_key.set(std::ptr::null());
    THREADS.get(&LOCK.lock()).remove(&os::own_pthread());
    drop(attached);
}

/// The destructor of the thread's key. Other destructors may use the heap after it: the thread is then attached again, and this is
/// called again, as long as libc repeats the destructors.
unsafe extern "C" fn end_of_thread(_: *mut c_void) {
    detach();
}

impl Attached {
    pub(crate) fn kinds(&self) -> &'static Kinds {
        &self.library.kinds
    }
}
