//! The request by which a debugger is notified: its layout, and the addresses at which a debugger sets breakpoints.

use std::mem::{offset_of, size_of};

use super::protocol::{Acknowledgement, Answer};
use crate::os::Tid;
use crate::sync::{AtomicU64, Ordering};
use crate::world::{PublishedWorld, ThreadStopInfo};

/// The first eight bytes of a request.
pub const REQUEST_MAGIC: u64 = u64::from_le_bytes(*b"STOPREQ1");

/// The kinds of notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Notice {
    /// Stop the world, in the mode `detail`: the mode of the control word when the stop began. `StartWorld` and `Again` of this stop have
    /// the same `detail`.
    /// `thread` is the record of the collecting thread, or null if that thread is not a mutator of this world; `tid` is the collecting
    /// thread's id.
    StopWorld = 1,
    /// Start the world. The fields are those of the stop.
    StartWorld = 2,
    /// A thread has become a mutator: `thread`, `slot`, `tid`. Sent by that thread, before it allocates.
    ThreadCreated = 3,
    /// A thread is no longer a mutator. Its record is still valid.
    ThreadExited = 4,
    /// The world has entered the phase `detail`.
    Phase = 5,
    /// Some thread has not acknowledged: answer for each thread that is held frozen by now.
    Again = 6,
}

/// One notification, on the notifying thread's stack.
#[derive(Debug)]
#[repr(C)]
pub struct Request {
    magic: u64,
    acknowledgement: Acknowledgement,
    event: u32,
    detail: u32,
    tid: i32,
    padding: u32,
    world: *const PublishedWorld,
    thread: *const ThreadStopInfo,
    slot: *mut usize,
    epoch: u64,
}

/// The fields of a request, as offsets in bytes from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct RequestOffsets {
    /// Size of a request in bytes.
    pub size: usize,
    /// The magic number, `STOPREQ1`.
    pub magic: usize,
    /// The request's number, 64 bits; never 0, never used twice.
    pub sequence: usize,
    /// The debugger writes `sequence` here once it has served the request. 64 bits.
    pub acknowledged: usize,
    /// The debugger writes its answer here, before `acknowledged`. 64 bits.
    pub answer: usize,
    /// The [`Notice`], 32 bits. A debugger acknowledges an unknown one and otherwise ignores it.
    pub event: usize,
    /// 32 bits whose meaning depends on the event: the number of the phase, or, for stops, the mode by which to serve them.
    pub detail: usize,
    /// The thread id that the event concerns, 32 bits.
    pub tid: usize,
    /// The published world.
    pub world: usize,
    /// The thread's record, or 0.
    pub thread: usize,
    /// The address of the thread's `stack_ptr`, or 0.
    pub slot: usize,
    /// The number of the stop, 64 bits.
    pub epoch: usize,
}

/// The published offsets.
pub const REQUEST_OFFSETS: RequestOffsets = RequestOffsets {
    size: size_of::<Request>(),
    magic: offset_of!(Request, magic),
    sequence: offset_of!(Request, acknowledgement.sequence),
    acknowledged: offset_of!(Request, acknowledgement.acknowledged),
    answer: offset_of!(Request, acknowledgement.answer),
    event: offset_of!(Request, event),
    detail: offset_of!(Request, detail),
    tid: offset_of!(Request, tid),
    world: offset_of!(Request, world),
    thread: offset_of!(Request, thread),
    slot: offset_of!(Request, slot),
    epoch: offset_of!(Request, epoch),
};

/// The contents of a notification.
#[derive(Clone, Copy, Debug)]
pub(super) struct Notification<'a> {
    pub(super) notice: Notice,
    pub(super) detail: u32,
    pub(super) tid: Tid,
    pub(super) world: Option<&'a PublishedWorld>,
    pub(super) thread: Option<&'static ThreadStopInfo>,
    pub(super) epoch: u64,
}

/// Numbers the requests of the process.
static SEQUENCE: AtomicU64 = AtomicU64::new(1);

impl Request {
    /// Creates a request with a new number.
    pub(super) fn of(notification: &Notification<'_>) -> Self {
        Self {
            magic: REQUEST_MAGIC,
            acknowledgement: Acknowledgement::new(SEQUENCE.fetch_add(1, Ordering::Relaxed)),
            event: notification.notice as u32,
            detail: notification.detail,
            tid: notification.tid.0,
            padding: 0,
            world: notification.world.map_or(std::ptr::null(), std::ptr::from_ref),
            thread: notification.thread.map_or(std::ptr::null(), std::ptr::from_ref),
            slot: notification.thread.map_or(std::ptr::null_mut(), |thread| thread.slot().as_ptr()),
            epoch: notification.epoch,
        }
    }

    /// Returns the debugger's answer so far.
    pub(super) fn answer(&self) -> Answer {
        self.acknowledgement.answer()
    }
}

/// The address for a breakpoint: `nop; ret`. It is called with each request if the debugger requests notification by breakpoint.
///
/// # Safety
/// The function does nothing. A debugger with a breakpoint here reads the request.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stopworld_debugger_notify(request: *const Request) {
    std::arch::naked_asm!("nop", "ret")
}

/// The return address for inferior calls: a breakpoint instruction.
///
/// # Safety
/// Never call it from the process: it traps.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stopworld_debugger_return() {
    std::arch::naked_asm!("int3", "ud2")
}
