//! All code of the mock debugger that runs in its signal handler, and the data that it uses.
//!
//! The same rules apply as in `world/handler.rs`: plain system calls, atomics of the thread's own [`Debuggee`], `memcpy`. The difference is
//! the stack. This handler has SA_ONSTACK: it runs on the alternate stack, so the thread's own stack is as a debugger would find it. The
//! handler writes the registers where a debugger would write them.
//!
//! Debuggees are in memory that is never unmapped. A debuggee returns to the free list only when its own thread gives it up. When another
//! thread removes it, its thread may still be leaving the handler, and the record is not reused.

use crate::os::signals::{self, HandlerStack};
use crate::os::thread::StackBounds;
use crate::os::ucontext::Context;
use crate::os::{Tid, memory, thread};
use crate::sabotage::{Guard, removed};
use crate::sync::{AtomicI32, AtomicPtr, AtomicU32, AtomicUsize, Locked, Ordering};
use crate::world::handshake::{Handshake, HandshakeState, Holder, StopState};
use crate::world::tid_table::TidTable;
use crate::world::{SetupError, Slot, ThreadStopInfo};

/// The debugger's state of one thread.
#[repr(C, align(64))]
pub(super) struct Debuggee {
    pub(super) state: StopState,
    handshake: AtomicPtr<Handshake>,
    slot: AtomicPtr<usize>,
    tid: AtomicI32,
    pub(super) silent: AtomicU32,
    /// The lowest address of the live stack, pushed registers included.
    stack_ptr: AtomicUsize,
    /// How many bytes of the save area the registers use, if they are there.
    saved: AtomicUsize,
    instruction: AtomicUsize,
    stack: AtomicUsize,
    /// 1: the registers are written as by [`Pushed::InRecord`].
    in_record: AtomicU32,
}

/// Where the registers of a stopped thread are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pushed {
    /// Below the red zone, if there is room.
    OnStack,
    /// Into the save area of the thread's record.
    InRecord,
}

/// All debuggees of all mock debuggers in the process.
static DEBUGGEES: TidTable<Debuggee> = TidTable::new();

static INSTALLED: AtomicI32 = AtomicI32::new(0);
static FREE: Locked<Vec<&'static Debuggee>> = Locked::new(Vec::new());

/// Installs the handler once for the process.
pub(super) fn install(signal: i32) -> Result<(), SetupError> {
    if !signals::is_usable(signal) || crate::world::handler::installed() == Some(signal) {
        return Err(SetupError::UnusableSignal(signal));
    }
    let _held = FREE.lock().lock();
    match INSTALLED.load(Ordering::Relaxed) {
        0 => {
            // SAFETY: `on_stop_signal` calls only async-signal-safe functions; the signal is one that programs may use, and becomes the mock's.
            unsafe { signals::install(signal, on_stop_signal, HandlerStack::Alternate) }?;
            INSTALLED.store(signal, Ordering::Relaxed);
            Ok(())
        }
        installed if installed == signal => Ok(()),
        installed => Err(SetupError::OtherSignal { installed, asked: signal }),
    }
}

/// The handler of the mock's signal.
unsafe extern "C" fn on_stop_signal(_: i32, _: *mut signals::SigInfo, context: *mut std::ffi::c_void) {
    crate::os::preserving_errno(|| {
        if let Some(debuggee) = find(thread::gettid()) {
            // SAFETY: the kernel's own argument.
            let context = unsafe { signals::context(context) };
            // SAFETY: set before the debuggee was entered in the table; handshakes are never freed.
            let handshake = unsafe { &*debuggee.handshake.load(Ordering::Relaxed) };
            let _ = debuggee.state.park_if_held(handshake, || debuggee.push_registers(context));
        }
    });
}

/// The red zone of the System V ABI.
const RED_ZONE: usize = 128;
/// Bytes for the general registers: the kernel's 23, rounded up to a multiple of 64.
const GENERAL: usize = 192;

impl Debuggee {
    /// Returns the thread's record, found as a debugger finds it: by the slot and the published offsets.
    pub(super) fn info(&self) -> &'static ThreadStopInfo {
        // SAFETY: from a `Slot`, see `enlist`.
        unsafe { ThreadStopInfo::of_slot(self.slot.load(Ordering::Relaxed)) }
    }

    pub(super) fn tid(&self) -> Tid {
        Tid(self.tid.load(Ordering::Relaxed))
    }

    /// Whether the mock debugger with this handshake stops the thread.
    pub(super) fn is_of(&self, handshake: &Handshake) -> bool {
        std::ptr::eq(self.handshake.load(Ordering::Relaxed), handshake)
    }

    pub(super) fn stack_ptr(&self) -> usize {
        self.stack_ptr.load(Ordering::Relaxed)
    }

    pub(super) fn at(&self) -> (usize, usize) {
        (self.instruction.load(Ordering::Relaxed), self.stack.load(Ordering::Relaxed))
    }

    /// Writes the slot of a stopped thread, also of one that was frozen long ago, as the debugger does.
    pub(super) fn write_stack_ptr(&self) -> usize {
        let stack_ptr = self.stack_ptr();
        self.info().set_save_area_used(self.saved.load(Ordering::Relaxed));
        // SAFETY: the thread is stopped, and has pushed its registers at this address or into the save area.
        unsafe { self.info().slot().store(stack_ptr) };
        stack_ptr
    }

    /// Writes all registers where the collector will scan them.
    fn push_registers(&self, context: &Context) {
        let here = 0u8;
        let frame = std::ptr::from_ref(&here) as usize;
        let sp = context.stack_pointer();
        let alternate = context.alternate_stack();
        let on_alternate = |address: usize| alternate.is_some_and(|bounds| bounds.contains(address));
        self.instruction.store(context.instruction_pointer(), Ordering::Relaxed);
        self.stack.store(sp, Ordering::Relaxed);
        self.saved.store(0, Ordering::Relaxed);
        let info = self.info();
        if on_alternate(sp) {
            // The thread is stopped in a signal handler of the program, on its alternate stack: the collector must know the bounds of that
            // stack.
            info.set_alternate(alternate);
        }
        let stack_ptr = if removed(Guard::StopRedZone) {
            sp
        } else if removed(Guard::StopRegisters) {
            sp - RED_ZONE
        } else if self.in_record.load(Ordering::Relaxed) == 0 && (on_alternate(sp) || !on_alternate(frame)) {
            // The kernel's frame is below the interrupted frame, on the same stack, and contains all registers.
            frame
        } else {
            let (extended, length) = context.extended_state();
            let size = GENERAL + length.next_multiple_of(64);
            let (low, high) = info.stack();
            let own = StackBounds { low, high };
            let place = (sp - RED_ZONE - size) & !63;
            if self.in_record.load(Ordering::Relaxed) == 0 && own.contains(sp) && own.contains(place) {
                // SAFETY: below the red zone of a stack whose thread is in this handler, on another stack; dead memory.
                unsafe { write_registers(place as *mut u8, context, extended, length) };
                place
            } else {
                // The registers are written into the record if the stack has no room or is unknown (a coroutine's), and in the assisted contract.
                let (area, room) = info.save_area();
                if size <= room {
                    // SAFETY: the area has room, and is this thread's own.
                    unsafe { write_registers(area, context, extended, length) };
                    self.saved.store(size, Ordering::Relaxed);
                }
                sp - RED_ZONE
            }
        };
        self.stack_ptr.store(stack_ptr, Ordering::Relaxed);
    }
}

/// Copies the general and the extended registers to `place`.
///
/// # Safety
/// `place` has room for both.
unsafe fn write_registers(place: *mut u8, context: &Context, extended: *const u8, length: usize) {
    let general = context.general();
    // SAFETY: by the caller's promise; 23 words fit into `GENERAL`; `extended` is the kernel's image of that length.
    unsafe {
        std::ptr::copy_nonoverlapping(general.as_ptr().cast::<u8>(), place, size_of_val(general).min(GENERAL));
        if length != 0 {
            std::ptr::copy_nonoverlapping(extended, place.add(GENERAL), length);
        }
    }
}

/// Returns the mock debuggers' state of a thread.
pub(super) fn find(tid: Tid) -> Option<&'static Debuggee> {
    // SAFETY: null or a debuggee, which is never unmapped.
    unsafe { DEBUGGEES.find(tid).as_ref() }
}

/// Adds a thread. Returns `None` if there is no memory. The thread's slot stays empty then, and the stop reports that.
pub(super) fn enlist(tid: Tid, slot: Slot, handshake: &'static Handshake, pushed: Pushed) -> Option<&'static Debuggee> {
    let debuggee = free_debuggee()?;
    debuggee.tid.store(tid.0, Ordering::Relaxed);
    debuggee.slot.store(slot.as_ptr(), Ordering::Relaxed);
    debuggee.handshake.store(std::ptr::from_ref(handshake).cast_mut(), Ordering::Relaxed);
    debuggee.stack_ptr.store(0, Ordering::Relaxed);
    debuggee.saved.store(0, Ordering::Relaxed);
    debuggee.in_record.store(u32::from(pushed == Pushed::InRecord), Ordering::Relaxed);
    debuggee.state.attach();
    DEBUGGEES.set(tid, std::ptr::from_ref(debuggee).cast_mut()).ok()?;
    Some(debuggee)
}

/// Removes a thread for good.
pub(super) fn delist(debuggee: &'static Debuggee, handshake: &Handshake) {
    let tid = debuggee.tid();
    if std::ptr::eq(DEBUGGEES.find(tid), debuggee) {
        DEBUGGEES.clear(tid);
    }
    if tid == thread::gettid() && debuggee.state.handshake_state() == HandshakeState::Running {
        debuggee.state.detach(handshake);
        FREE.get_mut(&mut FREE.lock().lock()).push(debuggee);
    } else if debuggee.state.is_held_by(Holder::User) {
        debuggee.state.release(Holder::User);
    }
}

/// Called in the child of a fork: the surviving thread has another id, and the lock's holder may not exist.
pub(super) fn forked(before: Tid, now: Tid) {
    // SAFETY: the child's only thread calls this.
    unsafe { FREE.lock().reset_in_child() };
    if let Some(debuggee) = find(before) {
        DEBUGGEES.clear(before);
        debuggee.tid.store(now.0, Ordering::Relaxed);
        debuggee.state.survive_fork();
        // Without memory for the table the mock cannot stop the thread, and the stop reports that.
        let _ = DEBUGGEES.set(now, std::ptr::from_ref(debuggee).cast_mut());
    }
}

fn free_debuggee() -> Option<&'static Debuggee> {
    const CHUNK: usize = 64;
    let mut held = FREE.lock().lock();
    let free = FREE.get_mut(&mut held);
    if free.is_empty() {
        let chunk = memory::map_anonymous(CHUNK * size_of::<Debuggee>()).ok()?.cast::<Debuggee>();
        // SAFETY: fresh zeroed pages; zeroes are a valid detached debuggee; never unmapped.
        free.extend(unsafe { std::slice::from_raw_parts(chunk, CHUNK) });
    }
    free.pop()
}
