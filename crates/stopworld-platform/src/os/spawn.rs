//! The collector's own threads.
//!
//! They are not `std::thread` threads. When a `std::thread` starts or ends, std records its guard page under a lock that `fork`
//! does not handle: if the process forks while any thread holds this lock, the child hangs when it starts a `std::thread`. libc's own
//! locks for starting a thread are free in the child, because libc releases them there (`.fork.services`).

use std::ffi::c_void;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::thread::JoinHandleExt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::sabotage::{Guard, removed};

/// The stack size of a std thread.
const STACK_BYTES: usize = 2 << 20;
/// The longest name that Linux keeps, without the zero at its end.
const NAME_BYTES: usize = 15;

struct Start<F> {
    name: [u8; NAME_BYTES + 1],
    work: F,
}

/// A thread that [`spawn`] has started. Dropping this detaches the thread.
#[derive(Debug)]
pub struct Spawned(libc::pthread_t);

impl Spawned {
    /// Waits until the thread has ended.
    pub fn join(self) {
        // SAFETY: a thread of this process that is neither joined nor detached before: each ends its `Spawned`.
        unsafe { libc::pthread_join(self.0, std::ptr::null_mut()) };
        std::mem::forget(self);
    }

    /// Neither joins nor detaches the thread. For the child of a fork, where the thread does not exist.
    pub fn forget(self) {
        std::mem::forget(self);
    }
}

impl Drop for Spawned {
    fn drop(&mut self) {
        // SAFETY: as in `join`.
        unsafe { libc::pthread_detach(self.0) };
    }
}

/// Starts a thread; works in the child of a fork too. Linux keeps the first 15 bytes of its name. A panic ends only this
/// thread, after its message was printed.
///
/// # Errors
/// The system cannot create a thread, or has no memory for its stack.
pub fn spawn<F: FnOnce() + Send + 'static>(name: &str, work: F) -> io::Result<Spawned> {
    let mut start = Box::new(Start { name: [0; NAME_BYTES + 1], work });
    let length = name.floor_char_boundary(NAME_BYTES);
    start.name[..length].copy_from_slice(&name.as_bytes()[..length]);
    if removed(Guard::ForkThreads) {
        return Ok(Spawned(std::thread::Builder::new().spawn(start.work)?.into_pthread_t()));
    }
    let (mut attributes, mut thread) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    let start = Box::into_raw(start);
    // SAFETY: attributes are initialised first and destroyed last. The new thread alone owns `start`.
    let failed = unsafe {
        libc::pthread_attr_init(attributes.as_mut_ptr());
        libc::pthread_attr_setstacksize(attributes.as_mut_ptr(), STACK_BYTES);
        let failed = libc::pthread_create(thread.as_mut_ptr(), attributes.as_ptr(), begin::<F>, start.cast());
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        failed
    };
    if failed != 0 {
        // SAFETY: no thread was created, so it is still ours, and freed once.
        drop(unsafe { Box::from_raw(start) });
        return Err(io::Error::from_raw_os_error(failed));
    }
    // SAFETY: pthread_create has written it.
    Ok(Spawned(unsafe { thread.assume_init() }))
}

extern "C" fn begin<F: FnOnce()>(start: *mut c_void) -> *mut c_void {
    // SAFETY: `spawn` made it of a box of this type, and gave it to this thread alone.
    let start = unsafe { Box::from_raw(start.cast::<Start<F>>()) };
    // SAFETY: a name that ends in 0.
    unsafe { libc::prctl(libc::PR_SET_NAME, start.name.as_ptr()) };
    // The panic message has been printed. `Start` is moved out of, so no code sees what unwinding has left in it.
    let _ = catch_unwind(AssertUnwindSafe(start.work));
    std::ptr::null_mut()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn comm() -> String {
        std::fs::read_to_string("/proc/thread-self/comm").unwrap().trim_end().to_owned()
    }

    #[test]
    fn a_long_name_is_truncated_and_join_waits() {
        let (sender, receiver) = mpsc::channel();
        spawn("sixteen-bytes-xy", move || sender.send(comm()).unwrap()).unwrap().join();
        assert_eq!(receiver.try_recv().unwrap(), "sixteen-bytes-x");
    }

    #[test]
    fn a_name_is_cut_between_characters() {
        let (sender, receiver) = mpsc::channel();
        spawn("fourteen-byteséé", move || sender.send(comm()).unwrap()).unwrap().join();
        assert_eq!(receiver.try_recv().unwrap(), "fourteen-bytes");
    }

    #[test]
    fn a_detached_thread_keeps_running() {
        let (go, gone) = mpsc::channel();
        let (sender, receiver) = mpsc::channel();
        drop(spawn("alone", move || sender.send(gone.recv().unwrap()).unwrap()).unwrap());
        go.send(7).unwrap();
        assert_eq!(receiver.recv().unwrap(), 7);
    }

    #[test]
    fn a_panic_ends_only_its_thread() {
        let (sender, receiver) = mpsc::channel::<()>();
        spawn("panics", move || {
            let _dropped = sender;
            panic!("this panic is intended");
        })
        .unwrap()
        .join();
        assert!(receiver.recv().is_err());
    }
}
