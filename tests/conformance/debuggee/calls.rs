//! Blocking system calls, and their results.
//!
//! Each is made directly, so that no library restarts it, and outside a blocking region: the thread must be stopped inside the call.

use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::facts::{Facts, TestResult};

/// The time that each call lasts if it is not interrupted. `read` and `futex` last until `poke` ends them.
const LONG: Duration = Duration::from_millis(120);

macro_rules! calls {
    ($($variant:ident = $name:literal),* $(,)?) => {
        /// The kinds of calls.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Call {
            $(#[doc = $name] $variant,)*
        }

        impl Call {
            pub fn of(name: &str) -> TestResult<Self> {
                match name {
                    $($name => Ok(Self::$variant),)*
                    _ => Err(format!("no call is named {name}")),
                }
            }
        }
    };
}

calls! {
    Nanosleep = "nanosleep", ClockNanosleep = "clock_nanosleep", Futex = "futex", TimedFutex = "timed_futex",
    Poll = "poll", Select = "select", Read = "read", EpollWait = "epoll_wait", SigTimedWait = "sigtimedwait",
}

/// The results of a thread's calls.
#[derive(Debug, Default)]
pub struct Calls {
    made: AtomicU64,
    interrupted: AtomicU64,
    /// The number of calls that returned early, without an error.
    short: AtomicU64,
    /// The word on which the futex calls wait.
    word: AtomicU32,
    /// The write end of the pipe that ends a `read`.
    pipe: AtomicI32,
}

impl Calls {
    pub fn tell(&self, facts: Facts) -> Facts {
        facts
            .with("calls", self.made.load(Ordering::Relaxed))
            .with("eintr", self.interrupted.load(Ordering::Relaxed))
            .with("short", self.short.load(Ordering::Relaxed))
    }

    /// Ends a call that waits for an event.
    pub fn poke(&self) {
        self.word.store(1, Ordering::Release);
        // SAFETY: a wake on our own word, and a write of one byte to our own pipe; if there is no pipe, to no file.
        unsafe {
            libc::syscall(libc::SYS_futex, &raw const self.word, libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, i32::MAX);
            let pipe = self.pipe.load(Ordering::Acquire);
            if pipe > 0 {
                libc::write(pipe, c"!".as_ptr().cast(), 1);
            }
        }
    }

    /// Makes the call once.
    pub fn make(&self, call: Call) -> TestResult<()> {
        let mut ends = [-1; 2];
        // SAFETY: a plain system call; the array has room for two.
        if call == Call::Read && unsafe { libc::pipe(ends.as_mut_ptr()) } != 0 {
            return Err("no pipe".into());
        }
        self.pipe.store(ends[1], Ordering::Release);
        let begun = Instant::now();
        // SAFETY: its arguments are our own variables.
        let result = unsafe { self.enter(call, ends[0]) };
        let error = std::io::Error::last_os_error().raw_os_error();
        // A call that was poked may return early.
        let is_poked = self.word.load(Ordering::Acquire) != 0;
        let early = begun.elapsed() < LONG && !matches!(call, Call::Read | Call::Futex) && !is_poked;
        self.pipe.store(-1, Ordering::Release);
        self.made.fetch_add(1, Ordering::Relaxed);
        if result < 0 && error == Some(libc::EINTR) {
            self.interrupted.fetch_add(1, Ordering::Relaxed);
        } else if early {
            self.short.fetch_add(1, Ordering::Relaxed);
        }
        for end in ends.into_iter().filter(|end| *end >= 0) {
            // SAFETY: our own descriptor.
            unsafe { libc::close(end) };
        }
        Ok(())
    }

    unsafe fn enter(&self, call: Call, pipe: i32) -> i64 {
        let time = libc::timespec { tv_sec: 0, tv_nsec: LONG.as_nanos() as i64 };
        let milliseconds = LONG.as_millis() as i32;
        let futex = |timeout: *const libc::timespec| {
            let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
            // SAFETY: our own word.
            unsafe { libc::syscall(libc::SYS_futex, &raw const self.word, operation, 0, timeout) }
        };
        // SAFETY: the arguments have the required types; pointers are to local variables, or null where that is allowed.
        unsafe {
            match call {
                Call::Nanosleep => libc::syscall(libc::SYS_nanosleep, &raw const time, 0),
                Call::ClockNanosleep => {
                    libc::syscall(libc::SYS_clock_nanosleep, libc::CLOCK_MONOTONIC, 0, &raw const time, 0)
                }
                Call::Futex => futex(std::ptr::null()),
                Call::TimedFutex => futex(&raw const time),
                Call::Poll => libc::poll(std::ptr::null_mut(), 0, milliseconds).into(),
                Call::Select => {
                    let mut time = libc::timeval { tv_sec: 0, tv_usec: LONG.as_micros() as i64 };
                    libc::syscall(libc::SYS_select, 0, 0, 0, 0, &raw mut time)
                }
                Call::Read => {
                    let mut byte = 0u8;
                    libc::read(pipe, (&raw mut byte).cast(), 1) as i64
                }
                Call::EpollWait => {
                    let epoll = libc::epoll_create1(libc::EPOLL_CLOEXEC);
                    let mut event: libc::epoll_event = std::mem::zeroed();
                    let result = libc::epoll_wait(epoll, &raw mut event, 1, milliseconds);
                    let error = *libc::__errno_location();
                    libc::close(epoll);
                    *libc::__errno_location() = error;
                    result.into()
                }
                Call::SigTimedWait => {
                    let mut set: libc::sigset_t = std::mem::zeroed();
                    libc::sigemptyset(&mut set);
                    libc::sigaddset(&mut set, libc::SIGUSR2);
                    libc::sigtimedwait(&set, std::ptr::null_mut(), &time).into()
                }
            }
        }
    }
}
