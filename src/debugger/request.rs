//! The request that tells a debugger something: its layout, and the addresses at which a debugger sets breakpoints.

use std::mem::{offset_of, size_of};

use super::protocol::{Answer, Receipt};
use crate::os::Tid;
use crate::sync::{AtomicU64, Ordering};
use crate::world::{PublishedWorld, ThreadStopInfo};

/// The first eight bytes of a request.
pub const REQUEST_MAGIC: u64 = u64::from_le_bytes(*b"STOPREQ1");

/// What a debugger is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Notice {
    /// The world is to be stopped, by the mode `detail`, which is the control word's as it was when the stop began, and is told with
    /// `StartWorld` and `Again`, too. `thread` is the collecting one, or null if that is
    /// none of the world's; `tid` is the collecting thread's.
    StopWorld = 1,
    /// The world is to be started.
    StartWorld = 2,
    /// A thread has become a mutator: `thread`, `slot`, `tid`. Told on it, before it allocates.
    ThreadCreated = 3,
    /// A thread is no mutator any more. Its record is still whole.
    ThreadExited = 4,
    /// The world has come to the phase `detail`.
    Phase = 5,
    /// Some thread has not answered: whoever is held frozen by now is to be served.
    Again = 6,
}

/// What the notifying thread wants to tell, on its stack.
#[derive(Debug)]
#[repr(C)]
pub struct Request {
    magic: u64,
    receipt: Receipt,
    event: u32,
    detail: u32,
    tid: i32,
    padding: u32,
    world: *const PublishedWorld,
    thread: *const ThreadStopInfo,
    slot: *mut usize,
    epoch: u64,
}

/// Where a debugger finds the fields of a request, in bytes from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct RequestOffsets {
    /// Size of a request.
    pub size: usize,
    /// `STOPREQ1`.
    pub magic: usize,
    /// Its number, 64 bits; never 0, never used twice.
    pub sequence: usize,
    /// The debugger writes `sequence` here when it has done what was asked. 64 bits.
    pub acknowledged: usize,
    /// And its answer here, before. 64 bits.
    pub answer: usize,
    /// The [`Notice`], 32 bits. One that a debugger does not know is acknowledged and otherwise left alone.
    pub event: usize,
    /// Belongs to the event, 32 bits: the number of the phase; of what has to do with a stop, the mode in which it is to be served.
    pub detail: usize,
    /// Whom it is about, 32 bits.
    pub tid: usize,
    /// The published world.
    pub world: usize,
    /// The thread's record, or 0.
    pub thread: usize,
    /// The address of its `stack_ptr`, or 0.
    pub slot: usize,
    /// The number of the stop, 64 bits.
    pub epoch: usize,
}

/// The published offsets.
pub const REQUEST_OFFSETS: RequestOffsets = RequestOffsets {
    size: size_of::<Request>(),
    magic: offset_of!(Request, magic),
    sequence: offset_of!(Request, receipt.sequence),
    acknowledged: offset_of!(Request, receipt.acknowledged),
    answer: offset_of!(Request, receipt.answer),
    event: offset_of!(Request, event),
    detail: offset_of!(Request, detail),
    tid: offset_of!(Request, tid),
    world: offset_of!(Request, world),
    thread: offset_of!(Request, thread),
    slot: offset_of!(Request, slot),
    epoch: offset_of!(Request, epoch),
};

/// What is told, by one who knows.
#[derive(Clone, Copy, Debug)]
pub(super) struct News<'a> {
    pub(super) notice: Notice,
    pub(super) detail: u32,
    pub(super) tid: Tid,
    pub(super) world: Option<&'a PublishedWorld>,
    pub(super) thread: Option<&'static ThreadStopInfo>,
    pub(super) epoch: u64,
}

/// Numbers all requests of the process.
static SEQUENCE: AtomicU64 = AtomicU64::new(1);

impl Request {
    /// A request with a number of its own.
    pub(super) fn of(news: &News<'_>) -> Self {
        Self {
            magic: REQUEST_MAGIC,
            receipt: Receipt::new(SEQUENCE.fetch_add(1, Ordering::Relaxed)),
            event: news.notice as u32,
            detail: news.detail,
            tid: news.tid.0,
            padding: 0,
            world: news.world.map_or(std::ptr::null(), std::ptr::from_ref),
            thread: news.thread.map_or(std::ptr::null(), std::ptr::from_ref),
            slot: news.thread.map_or(std::ptr::null_mut(), |thread| thread.slot().as_ptr()),
            epoch: news.epoch,
        }
    }

    /// What the debugger has answered by now.
    pub(super) fn answer(&self) -> Answer {
        self.receipt.answer()
    }
}

/// The place for a breakpoint: `nop; ret`. Called with each request, if the debugger wants to be told that way.
///
/// # Safety
/// By itself it does nothing; a debugger that has a breakpoint here reads the request.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stopworld_debugger_notify(request: *const Request) {
    std::arch::naked_asm!("nop", "ret")
}

/// Where an inferior call returns to: a breakpoint instruction.
///
/// # Safety
/// Nobody in the process calls it: it traps.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stopworld_debugger_return() {
    std::arch::naked_asm!("int3", "ud2")
}
