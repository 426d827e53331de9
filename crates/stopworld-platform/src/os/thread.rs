//! Threads as the kernel and libc know them.

use std::cell::Cell;
use std::io;
use std::marker::PhantomData;

use super::{Errno, Tid};
use crate::sync::{AtomicI32, AtomicU32, Ordering};

/// A stack, `[low, high)`: it grows down from `high`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackBounds {
    /// Lowest usable address (guard pages excluded).
    pub low: usize,
    /// One past the highest address: the base.
    pub high: usize,
}

impl StackBounds {
    /// Returns whether the address is in the stack. The base itself counts: it is the stack pointer of an empty stack. Empty bounds
    /// contain no address: they mean that there is no stack, and null is not a stack pointer.
    #[inline]
    pub fn contains(&self, address: usize) -> bool {
        self.low <= address && address <= self.high && self.low < self.high
    }
}

unsafe extern "C" {
    // Not among the declarations of the libc crate.
    fn pthread_setcancelstate(state: i32, old: *mut i32) -> i32;
}

const PTHREAD_CANCEL_DISABLE: i32 = 1;

/// A guard. While it exists, the calling thread cannot be cancelled: a `pthread_cancel` takes effect at the first cancellation point
/// after the guard's end. For work that must not be interrupted half-way and that calls cancellation points of libc.
pub struct NotCancelled {
    before: i32,
    on_its_thread: PhantomData<*const ()>,
}

impl NotCancelled {
    /// Disables cancellation of the calling thread until the guard is dropped.
    pub fn begin() -> Self {
        let mut before = 0;
        // SAFETY: a valid state and a place for the old one; it can't fail.
        unsafe { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &mut before) };
        Self { before, on_its_thread: PhantomData }
    }
}

impl Drop for NotCancelled {
    fn drop(&mut self) {
        // SAFETY: the state that this very thread had.
        unsafe { pthread_setcancelstate(self.before, std::ptr::null_mut()) };
    }
}

/// Returns the calling thread's id. Makes a system call each time: a cached id would need thread-local storage, which a dlopen'ed
/// library allocates on first use, and would be wrong after a fork. Async-signal-safe; can't fail, so errno stays.
#[inline]
pub fn gettid() -> Tid {
    Tid(nix::unistd::gettid().as_raw())
}

/// The process id after its first use; 0 before, and in the child of a fork.
static PID: AtomicI32 = AtomicI32::new(0);

/// Returns the process id. Async-signal-safe. The id is cached, because a stop needs it twice per thread, and the system call costs a
/// fiftieth of stopping a thread.
#[inline]
pub fn getpid() -> i32 {
    match PID.load(Ordering::Relaxed) {
        0 => {
            let pid = nix::unistd::getpid().as_raw();
            PID.store(pid, Ordering::Relaxed);
            pid
        }
        pid => pid,
    }
}

/// Forgets the cached ids. Called in the child of a fork on its only thread: the process and the thread have other ids there.
pub fn forget_ids() {
    PID.store(0, Ordering::Relaxed);
    KNOWN.set(Tid(0));
}

thread_local! {
    /// The thread's id after its first use; 0 before.
    static KNOWN: Cell<Tid> = const { Cell::new(Tid(0)) };
}

/// Returns the calling thread's id like [`gettid`], without the system call, for callers that need it a million times per second. Not
/// for handlers, and not while the world is stopped: thread-local storage may be allocated on its first use.
#[inline]
pub fn known_tid() -> Tid {
    let known = KNOWN.get();
    if known != Tid(0) {
        return known;
    }
    let tid = gettid();
    KNOWN.set(tid);
    tid
}

/// Sends `signal` to one thread of this process. Async-signal-safe, errno preserved.
///
/// `Err(ESRCH)`: the thread is gone. `Err(EAGAIN)` only for real-time signals: the queue is full.
///
/// # Safety
/// The signal is 0, or one whose action in this process is prepared for a signal from this process on that thread. (libc's own signals, 32
/// and 33, are not: their handlers believe that libc sent them.)
pub unsafe fn tgkill(tid: Tid, signal: i32) -> Result<(), Errno> {
    super::preserving_errno(|| {
        // SAFETY: integers only. The thread group is our own, so a recycled tid of another process is never hit; the caller vouches for
        // what the signal does.
        let r = unsafe { libc::syscall(libc::SYS_tgkill, getpid(), tid.0, signal) };
        if r == 0 { Ok(()) } else { Err(Errno::last()) }
    })
}

/// Sleeps for `ns` nanoseconds, or until a handler has run. Async-signal-safe, errno preserved.
pub fn sleep_ns(ns: u64) {
    let time = libc::timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 };
    // SAFETY: a valid timespec; the remaining time is not requested.
    super::preserving_errno(|| unsafe { libc::nanosleep(&time, std::ptr::null_mut()) });
}

/// Returns whether a thread of this process has this id now. Async-signal-safe.
pub fn is_alive(tid: Tid) -> bool {
    // SAFETY: signal 0 only checks that the thread exists.
    unsafe { tgkill(tid, 0) }.is_ok()
}

/// Returns the bounds of the calling thread's stack. Takes locks of libc and may allocate (the bounds of the main thread's stack are read
/// from /proc). So it may be called when a thread attaches, but never while the world is stopped (`.stop.locks`).
pub fn current_stack() -> io::Result<StackBounds> {
    let mut attr = std::mem::MaybeUninit::<libc::pthread_attr_t>::uninit();
    // SAFETY: pthread_getattr_np initialises `attr` when it returns 0.
    let r = unsafe { libc::pthread_getattr_np(libc::pthread_self(), attr.as_mut_ptr()) };
    if r != 0 {
        return Err(io::Error::from_raw_os_error(r));
    }
    let mut low = std::ptr::null_mut();
    let mut size = 0usize;
    // SAFETY: `attr` is initialised; both pointers are valid.
    let r = unsafe { libc::pthread_attr_getstack(attr.as_ptr(), &mut low, &mut size) };
    // SAFETY: initialised above, destroyed once.
    unsafe { libc::pthread_attr_destroy(attr.as_mut_ptr()) };
    if r != 0 {
        return Err(io::Error::from_raw_os_error(r));
    }
    Ok(StackBounds { low: low as usize, high: low as usize + size })
}

/// The calling thread's alternate signal stack, if it has one. Async-signal-safe.
pub fn sigaltstack_bounds() -> Option<StackBounds> {
    let mut stack = libc::stack_t { ss_sp: std::ptr::null_mut(), ss_flags: 0, ss_size: 0 };
    // SAFETY: only reads the setting, into a valid place.
    let r = unsafe { libc::sigaltstack(std::ptr::null(), &mut stack) };
    if r != 0 || stack.ss_flags & libc::SS_DISABLE != 0 || stack.ss_size == 0 {
        return None;
    }
    Some(StackBounds { low: stack.ss_sp as usize, high: stack.ss_sp as usize + stack.ss_size })
}

/// Whether the calling thread is the process's first.
pub fn is_main() -> bool {
    gettid().0 == getpid()
}

/// A destructor that libc runs when a thread ends, for threads that set a value.
///
/// Unlike a Rust `thread_local!`, setting a value allocates nothing for the first 32 keys, and the destructor runs after Rust's own
/// thread-local destructors: libc runs those first.
#[derive(Clone, Copy, Debug)]
pub struct ExitKey(libc::pthread_key_t);

impl ExitKey {
    /// Makes a key. `destructor` is called with the thread's value when the thread ends.
    pub fn new(destructor: unsafe extern "C" fn(*mut libc::c_void)) -> io::Result<Self> {
        let mut key = 0;
        // SAFETY: `key` is a valid place.
        let r = unsafe { libc::pthread_key_create(&mut key, Some(destructor)) };
        if r == 0 { Ok(Self(key)) } else { Err(io::Error::from_raw_os_error(r)) }
    }

    /// Sets the calling thread's value. With null, no destructor runs when the thread ends.
    ///
    /// # Safety
    /// The value is null, or what the key's destructor may be called with when the thread ends.
    pub unsafe fn set(self, value: *const libc::c_void) -> io::Result<()> {
        // SAFETY: the key is never deleted.
        let r = unsafe { libc::pthread_setspecific(self.0, value) };
        if r == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(r)) }
    }

    /// The calling thread's value.
    pub fn get(self) -> *mut libc::c_void {
        // SAFETY: the key is never deleted.
        unsafe { libc::pthread_getspecific(self.0) }
    }
}

/// Shows whether a thread is alive, at the cost of one load: a robust mutex that the thread holds as long as it is attached.
///
/// When a thread ends, in whatever way, the kernel walks its list of robust mutexes and marks each that it still holds. It does
/// so before it reports the end to any other thread. So a thread that has joined the ended thread, and unmapped its stack, sees
/// the mark. A `LivenessMutex` of zero bytes belongs to no thread.
#[derive(Debug)]
#[repr(C, align(8))]
pub struct LivenessMutex {
    mutex: [AtomicU32; std::mem::size_of::<libc::pthread_mutex_t>() / 4],
}

const _: () = assert!(std::mem::align_of::<LivenessMutex>() >= std::mem::align_of::<libc::pthread_mutex_t>());

impl LivenessMutex {
    fn mutex(&self) -> *mut libc::pthread_mutex_t {
        self.mutex.as_ptr().cast_mut().cast()
    }

    /// Makes the calling thread the owner.
    ///
    /// If libc refuses to make a robust mutex, or if the mutexes of this libc have another layout, no thread is ever found dead.
    ///
    /// # Safety
    /// * The mutex stays mapped at its address until the thread calls [`end`](Self::end), or for good: until then libc's and the
    ///   kernel's lists of the thread's robust mutexes refer to it.
    /// * It has no other owner: its last owner has called [`end`](Self::end) or is gone, or was the calling thread in the parent of a fork.
    pub unsafe fn begin(&self) {
        let mut attributes = std::mem::MaybeUninit::<libc::pthread_mutexattr_t>::uninit();
        // SAFETY: attributes are initialised first and destroyed last. The mutex is not in use, and it stays where it is, by
        // the caller's promise; in the child of a fork libc begins with an empty list.
        unsafe {
            libc::pthread_mutexattr_init(attributes.as_mut_ptr());
            libc::pthread_mutexattr_setrobust(attributes.as_mut_ptr(), libc::PTHREAD_MUTEX_ROBUST);
            libc::pthread_mutex_init(self.mutex(), attributes.as_ptr());
            libc::pthread_mutex_lock(self.mutex());
            libc::pthread_mutexattr_destroy(attributes.as_mut_ptr());
        }
    }

    /// Ends the ownership: the mutex no longer shows whether the calling thread is alive.
    ///
    /// # Safety
    /// The calling thread called [`begin`](Self::begin), and has not ended it since.
    pub unsafe fn end(&self) {
        // SAFETY: `begin` was called on this thread.
        unsafe { libc::pthread_mutex_unlock(self.mutex()) };
    }

    /// Whether the owner ended without [`end`](Self::end). Async-signal-safe, stop-safe.
    #[inline]
    pub fn owner_has_died(&self) -> bool {
        // The futex is the mutex's first word. Acquire: pairs with the kernel's exchange of that word, which is a full
        // barrier, when the thread ends and its robust mutexes are marked: what the thread did before is visible.
        self.mutex[0].load(Ordering::Acquire) & libc::FUTEX_OWNER_DIED != 0
    }
}

/// Fills `bytes` with random bytes. May fail shortly after the machine has started.
pub fn random(bytes: &mut [u8]) -> io::Result<()> {
    // SAFETY: the bytes are writable, and the length is theirs.
    let count = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), libc::GRND_NONBLOCK) };
    if count == bytes.len() as isize { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Registers the three functions that libc calls around each fork of this process. They can't be unregistered.
///
/// # Safety
/// The functions may be called on any thread that forks: `prepare` and then `parent` on the same thread, or `child` on the only thread of the
/// child.
pub unsafe fn at_fork(
    prepare: unsafe extern "C" fn(),
    parent: unsafe extern "C" fn(),
    child: unsafe extern "C" fn(),
) -> io::Result<()> {
    // SAFETY: the functions live as long as the program and may be called around a fork, by the caller's promise.
    let r = unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
    if r == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(r)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_local_is_on_the_stack_of_its_thread() {
        let local = 0u8;
        let stack = current_stack().unwrap();
        assert!(stack.contains(std::ptr::from_ref(&local) as usize));
        let other = std::thread::spawn(|| current_stack().unwrap()).join().unwrap();
        assert!(!other.contains(std::ptr::from_ref(&local) as usize));
    }

    #[test]
    fn rust_threads_have_an_alternate_stack() {
        let (stack, alternate) =
            std::thread::spawn(|| (current_stack().unwrap(), sigaltstack_bounds().unwrap())).join().unwrap();
        assert!(alternate.high <= stack.low || alternate.low >= stack.high);
    }

    #[test]
    fn a_liveness_mutex_shows_the_end_of_its_owner() {
        let mutexes: &'static [LivenessMutex; 2] =
            Box::leak(Box::new([const { LivenessMutex { mutex: [const { AtomicU32::new(0) }; _] } }; 2]));
        for _ in 0..3 {
            let handle = std::thread::spawn(|| {
                // SAFETY: the mutexes are leaked, so they stay mapped; the thread that had them before is joined.
                mutexes.iter().for_each(|mutex| unsafe { mutex.begin() });
                assert!(!mutexes[0].owner_has_died());
                // SAFETY: begun above, by this thread.
                unsafe { mutexes[1].end() };
            });
            handle.join().unwrap();
            assert!(mutexes[0].owner_has_died() && !mutexes[1].owner_has_died());
        }
    }

    #[test]
    fn a_finished_thread_is_not_alive() {
        let handle = std::thread::spawn(gettid);
        let tid = handle.join().unwrap();
        // The kernel reaps the task shortly after join has returned.
        let gone = (0..1000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            !is_alive(tid)
        });
        assert!(gone);
        assert!(is_alive(gettid()));
    }
}
