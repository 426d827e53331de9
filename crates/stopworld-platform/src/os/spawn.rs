//! Threads of the collector's own.
//!
//! They are not `std::thread`'s. When such a thread begins or ends, std notes its guard page behind a lock of its own, which no fork
//! knows of: a child that was forked off while any thread held it can never start a thread of std's, and hangs when it tries. What
//! libc does at a thread's start it sets free in the child (`.fork.services`).

use std::ffi::c_void;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::thread::JoinHandleExt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::sabotage::{Guard, removed};

/// What a thread of std's has, too.
const STACK_BYTES: usize = 2 << 20;
/// The longest name that Linux keeps, without the zero at its end.
const NAME_BYTES: usize = 15;

struct Start<F> {
    name: [u8; NAME_BYTES + 1],
    work: F,
}

/// A thread that [`spawn`] has started. One that is dropped goes on by itself.
#[derive(Debug)]
pub struct Spawned(libc::pthread_t);

impl Spawned {
    /// Waits for the thread's end.
    pub fn join(self) {
        // SAFETY: a thread of this process that is neither joined nor detached before: each ends its `Spawned`.
        unsafe { libc::pthread_join(self.0, std::ptr::null_mut()) };
        std::mem::forget(self);
    }

    /// In the child of a fork: there is no such thread.
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

/// Starts a thread, also in the child of a fork. Linux keeps the first 15 bytes of its name. A panic ends the thread alone, after its
/// message was printed.
///
/// # Errors
/// The system gave no thread, or no memory for its stack.
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
        // SAFETY: there is no thread, so it is still ours, once.
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
    // The message has been told where it panicked. `Start` is moved out of, so nothing that unwinding has broken is seen.
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
    fn a_thread_has_the_beginning_of_its_name_and_is_waited_for() {
        let (tell, told) = mpsc::channel();
        spawn("sixteen-bytes-xy", move || tell.send(comm()).unwrap()).unwrap().join();
        assert_eq!(told.try_recv().unwrap(), "sixteen-bytes-x");
    }

    #[test]
    fn a_name_is_cut_between_characters() {
        let (tell, told) = mpsc::channel();
        spawn("fourteen-byteséé", move || tell.send(comm()).unwrap()).unwrap().join();
        assert_eq!(told.try_recv().unwrap(), "fourteen-bytes");
    }

    #[test]
    fn a_thread_that_nobody_waits_for_goes_on() {
        let (go, gone) = mpsc::channel();
        let (tell, told) = mpsc::channel();
        drop(spawn("alone", move || tell.send(gone.recv().unwrap()).unwrap()).unwrap());
        go.send(7).unwrap();
        assert_eq!(told.recv().unwrap(), 7);
    }

    #[test]
    fn a_panic_ends_the_thread_alone() {
        let (tell, told) = mpsc::channel::<()>();
        spawn("panics", move || {
            let _dropped = tell;
            panic!("this panic is meant");
        })
        .unwrap()
        .join();
        assert!(told.recv().is_err());
    }
}
