//! The system calls of a tracer, and nothing else: the only file of the debugger with `unsafe` code.
//!
//! Uses libc, not nix: here a stop by a real-time signal is a status like any other, while nix's `waitpid` has no value for it and loses
//! the status. Each function except those that wait is one system call and returns its result.

use std::cell::Cell;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::os::fd::FromRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stopworld_platform::sync::{AtomicBool, AtomicI32, Ordering};

// Constants from <linux/ptrace.h> and <linux/elf.h> that libc does not define.
const PTRACE_GETSIGMASK: libc::c_uint = 0x420a;
const PTRACE_SETSIGMASK: libc::c_uint = 0x420b;
const NT_PRSTATUS: usize = 1;
const NT_X86_XSTATE: usize = 0x202;

/// Options of each tracee: creation of threads, exits and execs are reported, by a status of their own.
const OPTIONS: i32 = libc::PTRACE_O_TRACECLONE | libc::PTRACE_O_TRACEEXIT | libc::PTRACE_O_TRACEEXEC;

/// An upper bound for the size in bytes of the extended state: with AMX it is 11 KiB.
const LARGEST_XSTATE: usize = 64 << 10;

/// The general registers, in the kernel's layout.
pub(super) type General = libc::user_regs_struct;

/// What a thread reports to a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Report {
    /// The thread has exited; for the leader, the process has.
    Exited(i32),
    /// The thread was killed by a signal; for the leader, the process was.
    Killed(i32),
    /// A signal-delivery stop.
    Signal(i32),
    /// A group stop by this signal.
    Group(i32),
    /// The thread has stopped because of an interruption, because it was just created, or because its group stop has ended.
    Interrupted,
    /// The thread has created another thread.
    Clone,
    /// The process has executed another program.
    Exec,
    /// The thread is about to end.
    Exit,
    /// Another stop, after which it only has to be resumed.
    Other,
}

impl Report {
    fn of(status: i32) -> Self {
        if libc::WIFEXITED(status) {
            return Self::Exited(libc::WEXITSTATUS(status));
        }
        if libc::WIFSIGNALED(status) {
            return Self::Killed(libc::WTERMSIG(status));
        }
        let signal = libc::WSTOPSIG(status);
        match status >> 16 & 0xff {
            0 => Self::Signal(signal),
            libc::PTRACE_EVENT_STOP if signal == libc::SIGTRAP => Self::Interrupted,
            libc::PTRACE_EVENT_STOP => Self::Group(signal),
            libc::PTRACE_EVENT_CLONE => Self::Clone,
            libc::PTRACE_EVENT_EXEC => Self::Exec,
            libc::PTRACE_EVENT_EXIT => Self::Exit,
            _ => Self::Other,
        }
    }

    /// Returns whether the status reports the end of the thread.
    pub(super) fn is_end(self) -> bool {
        matches!(self, Self::Exited(_) | Self::Killed(_))
    }
}

fn check(result: libc::c_long) -> io::Result<()> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Returns the result of a request about a stopped thread; `None` if the thread is not stopped any more because it was killed.
pub(super) fn unless_killed<T>(got: io::Result<T>) -> io::Result<Option<T>> {
    match got {
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(None),
        got => got.map(Some),
    }
}

/// Makes a ptrace request whose data is a number.
fn plain(request: libc::c_uint, tid: i32, data: usize) -> io::Result<()> {
    // SAFETY: none of the requests passed here makes the kernel write to this process.
    check(unsafe { libc::ptrace(request, tid, std::ptr::null_mut::<u8>(), data) })
}

/// Starts to trace a thread, which continues to run.
pub(super) fn seize(tid: i32) -> io::Result<()> {
    plain(libc::PTRACE_SEIZE, tid, OPTIONS as usize)
}

/// Interrupts a thread. It reports its stop later.
pub(super) fn interrupt(tid: i32) -> io::Result<()> {
    plain(libc::PTRACE_INTERRUPT, tid, 0)
}

/// Leaves a thread in its group stop, which SIGCONT ends.
pub(super) fn listen(tid: i32) -> io::Result<()> {
    plain(libc::PTRACE_LISTEN, tid, 0)
}

/// Resumes a stopped thread, with a signal or without one (0).
pub(super) fn resume(tid: i32, signal: i32) -> io::Result<()> {
    plain(libc::PTRACE_CONT, tid, signal as usize)
}

/// Detaches from a stopped thread, which resumes.
pub(super) fn detach(tid: i32, signal: i32) -> io::Result<()> {
    plain(libc::PTRACE_DETACH, tid, signal as usize)
}

fn regset(request: libc::c_uint, tid: i32, which: usize, at: *mut libc::c_void, len: usize) -> io::Result<usize> {
    let mut piece = libc::iovec { iov_base: at, iov_len: len };
    // SAFETY: the callers pass their own buffer and its length; the kernel stays within it and stores the number of bytes used.
    check(unsafe { libc::ptrace(request, tid, which, &raw mut piece) })?;
    Ok(piece.iov_len)
}

/// Reads the general registers of a stopped thread.
pub(super) fn general(tid: i32) -> io::Result<General> {
    // SAFETY: integers; all zeroes is a valid value.
    let mut registers: General = unsafe { std::mem::zeroed() };
    let len = size_of::<General>();
    regset(libc::PTRACE_GETREGSET, tid, NT_PRSTATUS, (&raw mut registers).cast(), len)?;
    Ok(registers)
}

/// Writes the general registers of a stopped thread.
pub(super) fn set_general(tid: i32, registers: &General) -> io::Result<()> {
    let at = std::ptr::from_ref(registers).cast_mut().cast();
    regset(libc::PTRACE_SETREGSET, tid, NT_PRSTATUS, at, size_of::<General>()).map(drop)
}

/// Size in bytes of the general registers up to rsp: all except the segment registers after it, each of which the kernel checks.
const UP_TO_RSP: usize = 20 * size_of::<u64>();

/// As [`set_general`], for a thread whose segment registers are unchanged.
pub(super) fn redirect(tid: i32, registers: &General) -> io::Result<()> {
    let at = std::ptr::from_ref(registers).cast_mut().cast();
    regset(libc::PTRACE_SETREGSET, tid, NT_PRSTATUS, at, UP_TO_RSP).map(drop)
}

/// Returns the bytes of the general registers, in the kernel's order.
pub(super) fn general_bytes(registers: &General) -> &[u8] {
    // SAFETY: 27 words without padding.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(registers).cast(), size_of::<General>()) }
}

/// Returns the general registers as words, in the kernel's order.
pub(super) fn general_words(registers: &General) -> &[u64] {
    // SAFETY: 27 words without padding.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(registers).cast(), size_of::<General>() / 8) }
}

/// Reads the whole extended state (x87, xmm, ymm, zmm …) of a stopped thread: an XSAVE image in the standard format. Returns its size.
pub(super) fn extended_into(tid: i32, room: &mut [u8]) -> io::Result<usize> {
    regset(libc::PTRACE_GETREGSET, tid, NT_X86_XSTATE, room.as_mut_ptr().cast(), room.len())
}

/// As [`extended_into`], appending to `into`.
pub(super) fn extended(tid: i32, room: usize, into: &mut Vec<u8>) -> io::Result<usize> {
    let start = into.len();
    into.resize(start + room.clamp(512, LARGEST_XSTATE), 0);
    let len = extended_into(tid, &mut into[start..]);
    into.truncate(start + *len.as_ref().unwrap_or(&0));
    len
}

/// Writes the extended state of a stopped thread.
pub(super) fn set_extended(tid: i32, image: &[u8]) -> io::Result<()> {
    regset(libc::PTRACE_SETREGSET, tid, NT_X86_XSTATE, image.as_ptr().cast_mut().cast(), image.len()).map(drop)
}

/// Returns an upper bound for the size in bytes of the extended state of any thread of this machine.
pub(super) fn extended_room() -> usize {
    // The kernel's own size cannot be queried before there is a tracee. Sub-leaf 0 of leaf 13 returns, in ecx, the size of all components
    // that the processor supports.
    match std::arch::x86_64::__cpuid(0).eax {
        0..13 => 512,
        _ => (std::arch::x86_64::__cpuid_count(13, 0).ecx as usize).clamp(512, LARGEST_XSTATE),
    }
}

/// Returns the offset at which a component of the extended state ends in the standard format.
pub(super) fn component_end(component: u32) -> usize {
    let leaf = std::arch::x86_64::__cpuid_count(13, component);
    leaf.ebx as usize + leaf.eax as usize
}

/// Returns the mask of signals that a stopped thread blocks.
pub(super) fn blocked(tid: i32) -> io::Result<u64> {
    let mut mask = 0u64;
    // SAFETY: the address is the size of a mask, the data a mask of that size.
    check(unsafe { libc::ptrace(PTRACE_GETSIGMASK, tid, size_of::<u64>(), &raw mut mask) })?;
    Ok(mask)
}

/// Sets the mask of signals that a stopped thread blocks.
pub(super) fn set_blocked(tid: i32, mut mask: u64) -> io::Result<()> {
    // SAFETY: as above; the kernel only reads.
    check(unsafe { libc::ptrace(PTRACE_SETSIGMASK, tid, size_of::<u64>(), &raw mut mask) })
}

/// The complete siginfo of a signal, which can be restored unchanged.
pub(super) struct SignalInfo(libc::siginfo_t);

impl SignalInfo {
    /// Returns the value of a queued signal.
    pub(super) fn queued_value(&self) -> Option<u64> {
        // SAFETY: all bytes of it are initialised, and the code shows that this part of it is a value.
        (self.0.si_code == libc::SI_QUEUE).then(|| unsafe { self.0.si_value() }.sival_ptr as u64)
    }
}

impl SignalInfo {
    /// Returns whether the kernel sent it, not a process: a fault, or a key of the terminal.
    pub(super) fn is_from_the_kernel(&self) -> bool {
        self.0.si_code == libc::SI_KERNEL
    }
}

/// Returns whether a process is in the process group of this one, to which the terminal sends the signals of its keys.
pub(super) fn is_of_our_group(pid: i32) -> bool {
    // SAFETY: integers only.
    unsafe { libc::getpgid(pid) == libc::getpgrp() }
}

/// Returns the siginfo of a thread in a signal-delivery stop.
pub(super) fn signal_info(tid: i32) -> io::Result<SignalInfo> {
    // SAFETY: integers; all zeroes is a valid value.
    let mut info = SignalInfo(unsafe { std::mem::zeroed() });
    // SAFETY: the kernel fills one siginfo_t.
    check(unsafe { libc::ptrace(libc::PTRACE_GETSIGINFO, tid, std::ptr::null_mut::<u8>(), &raw mut info.0) })?;
    Ok(info)
}

/// Replaces the signal of a thread in a signal-delivery stop.
pub(super) fn set_signal_info(tid: i32, info: &SignalInfo) -> io::Result<()> {
    let at = (&raw const info.0).cast_mut();
    // SAFETY: the kernel reads one siginfo_t.
    check(unsafe { libc::ptrace(libc::PTRACE_SETSIGINFO, tid, std::ptr::null_mut::<u8>(), at) })
}

/// Returns the message of an event: the new thread, or the former id.
pub(super) fn event_message(tid: i32) -> io::Result<i32> {
    let mut message: libc::c_ulong = 0;
    // SAFETY: the kernel stores one long.
    check(unsafe { libc::ptrace(libc::PTRACE_GETEVENTMSG, tid, std::ptr::null_mut::<u8>(), &raw mut message) })?;
    Ok(message as i32)
}

/// The result of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waited {
    Reported(i32, Report),
    /// There is no report yet, or a signal for this process interrupted the wait.
    Nothing,
    /// There is no such thread to wait for.
    NoThread,
}

/// Whether a wait may sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    Sleep,
    Look,
}

/// How a wait handles the end of its thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    /// The end is a report like any other.
    Taken,
    /// The report is left for the code that waits for the process; for the debugger the thread does not exist any more.
    Left,
}

/// Waits for one thread, and takes its report.
pub(super) fn wait(tid: i32, patience: Patience, ends: Ends) -> Waited {
    let flags = libc::__WALL | if patience == Patience::Look { libc::WNOHANG } else { 0 };
    let waited = match ends {
        Ends::Taken => {
            let mut status = 0;
            // SAFETY: the kernel stores one int.
            let reporter = unsafe { libc::waitpid(tid, &mut status, flags) };
            if reporter == -1 { Err(io::Error::last_os_error()) } else { Ok((reporter, status)) }
        }
        // The status has the format of `waitpid`: the signal, then the mark of a stop.
        Ends::Left => {
            look_at(libc::P_PID, tid, libc::WSTOPPED | flags).map(|info| (info.reporter, info.status << 8 | 0x7f))
        }
    };
    match waited {
        Ok((0, _)) => Waited::Nothing,
        Ok((reporter, status)) => Waited::Reported(reporter, Report::of(status)),
        Err(error) if error.raw_os_error() == Some(libc::EINTR) => Waited::Nothing,
        Err(_) => Waited::NoThread,
    }
}

/// The result of `waitid`.
struct WaitidResult {
    /// 0: there was no report.
    reporter: i32,
    status: i32,
    code: i32,
}

impl WaitidResult {
    /// Returns how it has ended, if it has.
    fn end(&self) -> Option<Report> {
        match self.code {
            libc::CLD_EXITED => Some(Report::Exited(self.status)),
            libc::CLD_KILLED | libc::CLD_DUMPED => Some(Report::Killed(self.status & 0x7f)),
            _ => None,
        }
    }
}

fn look_at(which: libc::idtype_t, id: i32, flags: i32) -> io::Result<WaitidResult> {
    // SAFETY: integers; all zeroes is a valid value.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel fills one siginfo_t, or leaves it zero.
    check(unsafe { libc::waitid(which, id as libc::id_t, &raw mut info, flags) }.into())?;
    // SAFETY: filled by waitid, or zero.
    let (reporter, status) = unsafe { (info.si_pid(), info.si_status()) };
    Ok(WaitidResult { reporter, status, code: info.si_code })
}

/// Returns how a process has ended, if it has. The report is left for other waits.
pub(super) fn end_of(pid: i32) -> Option<Report> {
    let flags = libc::WEXITED | libc::WNOWAIT | libc::WNOHANG | libc::__WALL;
    look_at(libc::P_PID, pid, flags).ok()?.end()
}

/// Returns which of this thread's tracees and children has a report, and how it has ended if it reports its end. The report is not
/// consumed. `Err` if there are neither tracees nor children.
pub(super) fn peek(patience: Patience) -> io::Result<Option<(i32, Option<Report>)>> {
    // The wait is only for this thread: another thread of this process may have children and tracees of its own.
    let flags = libc::WEXITED | libc::WNOWAIT | libc::__WALL | libc::__WNOTHREAD;
    let flags = flags | if patience == Patience::Look { libc::WNOHANG } else { 0 };
    match look_at(libc::P_ALL, 0, flags) {
        Ok(looked) => Ok((looked.reporter != 0).then(|| (looked.reporter, looked.end()))),
        Err(error) if error.raw_os_error() == Some(libc::EINTR) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A piece of another process's memory, and the local buffer for it.
pub(super) struct Piece<T> {
    pub(super) at: u64,
    pub(super) bytes: T,
}

/// The maximum number of pieces per call.
pub(super) const PIECES: usize = 1024;

/// Writes up to [`PIECES`] pieces. Returns the number of bytes written.
pub(super) fn write_pieces(tid: i32, pieces: &[Piece<&[u8]>]) -> io::Result<usize> {
    let local: Vec<_> = pieces.iter().map(|p| piece(p.bytes.as_ptr() as usize, p.bytes.len())).collect();
    let remote: Vec<_> = pieces.iter().map(|p| piece(p.at as usize, p.bytes.len())).collect();
    let (count, far) = (local.len() as u64, remote.len() as u64);
    // SAFETY: the local pieces are slices of this process, which are read.
    let written = unsafe { libc::process_vm_writev(tid, local.as_ptr(), count, remote.as_ptr(), far, 0) };
    usize::try_from(written).map_err(|_| io::Error::last_os_error())
}

/// Reads up to [`PIECES`] pieces. Returns the number of bytes read.
pub(super) fn read_pieces(tid: i32, pieces: &mut [Piece<&mut [u8]>]) -> io::Result<usize> {
    let remote: Vec<_> = pieces.iter().map(|p| piece(p.at as usize, p.bytes.len())).collect();
    let local: Vec<_> = pieces.iter_mut().map(|p| piece(p.bytes.as_mut_ptr() as usize, p.bytes.len())).collect();
    let (count, far) = (local.len() as u64, remote.len() as u64);
    // SAFETY: the local pieces are mutable slices of this process, borrowed for the call.
    let read = unsafe { libc::process_vm_readv(tid, local.as_ptr(), count, remote.as_ptr(), far, 0) };
    usize::try_from(read).map_err(|_| io::Error::last_os_error())
}

fn piece(at: usize, len: usize) -> libc::iovec {
    libc::iovec { iov_base: at as *mut _, iov_len: len }
}

/// Returns the calling thread's id.
pub(super) fn this_thread() -> i32 {
    // SAFETY: no arguments, no failure.
    unsafe { libc::gettid() }
}

/// Kills a process.
pub(super) fn kill(pid: i32) -> io::Result<()> {
    // SAFETY: a system call on another process.
    check(unsafe { libc::kill(pid, libc::SIGKILL) }.into())
}

/// Kills this process, as if the debugger were killed from outside.
pub(super) fn die() -> ! {
    let _ = kill(std::process::id() as i32);
    // SIGKILL to oneself does not return; `abort` satisfies the compiler.
    std::process::abort()
}

/// A child that waits before it executes its program, so that it can be seized without any signal.
pub(super) struct Launched {
    pub(super) pid: i32,
    go: File,
    failed: File,
}

/// Forks a child that waits for [`Launched::go`] and then executes `program`.
pub(super) fn launch(program: &CString, arguments: &[CString]) -> io::Result<Launched> {
    let (wait_for, go) = pipe()?;
    let (failed, tell) = pipe()?;
    let mut argv: Vec<*const libc::c_char> = arguments.iter().map(|a| a.as_ptr()).collect();
    argv.push(std::ptr::null());
    // SAFETY: the child calls async-signal-safe functions only: read, execvp (which in glibc uses the stack), write, _exit.
    match unsafe { libc::fork() } {
        -1 => {
            let error = io::Error::last_os_error();
            // SAFETY: our own descriptors, which nothing else uses.
            let _ = unsafe { [wait_for, go, failed, tell].map(|fd| libc::close(fd)) };
            Err(error)
        }
        0 => {
            // SAFETY: as above; the strings were made before the fork.
            unsafe {
                libc::close(go);
                let mut byte = 0u8;
                if libc::read(wait_for, (&raw mut byte).cast(), 1) == 1 {
                    libc::execvp(program.as_ptr(), argv.as_ptr());
                    let code = *libc::__errno_location();
                    libc::write(tell, (&raw const code).cast(), size_of::<i32>());
                }
                libc::_exit(127)
            }
        }
        pid => {
            // SAFETY: our own descriptors; two are closed, two passed to their owners.
            unsafe {
                libc::close(wait_for);
                libc::close(tell);
                Ok(Launched { pid, go: File::from_raw_fd(go), failed: File::from_raw_fd(failed) })
            }
        }
    }
}

impl Launched {
    /// Makes the child execute its program.
    pub(super) fn go(&mut self) -> io::Result<()> {
        io::Write::write_all(&mut self.go, &[1])
    }

    /// Returns why it could not execute the program. Called when it has ended.
    pub(super) fn error(mut self) -> Option<io::Error> {
        let mut code = [0; 4];
        io::Read::read_exact(&mut self.failed, &mut code).ok()?;
        Some(io::Error::from_raw_os_error(i32::from_ne_bytes(code)))
    }
}

fn pipe() -> io::Result<(i32, i32)> {
    let mut ends = [0; 2];
    // SAFETY: the kernel stores two ints.
    check(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) }.into())?;
    Ok((ends[0], ends[1]))
}

/// The signal that ends a wait of a tracer thread; 0: not chosen yet.
static NUDGE: AtomicI32 = AtomicI32::new(0);

extern "C" fn nothing(_: libc::c_int) {}

/// Installs an empty handler for an unused real-time signal, once per process.
fn interrupt_signal() -> io::Result<i32> {
    static CHOOSING: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _one = CHOOSING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let chosen = NUDGE.load(Ordering::Relaxed);
    if chosen != 0 {
        return Ok(chosen);
    }
    for signal in (libc::SIGRTMIN()..=libc::SIGRTMAX()).rev() {
        // SAFETY: reads the present action, then sets a handler that does nothing; SA_RESTART is absent on purpose.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            if libc::sigaction(signal, std::ptr::null(), &mut action) == 0 && action.sa_sigaction == libc::SIG_DFL {
                action = std::mem::zeroed();
                action.sa_sigaction = nothing as *const () as usize;
                check(libc::sigaction(signal, &action, std::ptr::null_mut()).into())?;
                NUDGE.store(signal, Ordering::Relaxed);
                return Ok(signal);
            }
        }
    }
    Err(io::Error::other("every real-time signal of this process is in use"))
}

/// Ends the waits of one tracer thread. A wait for a tracee has no time limit of its own, so a timer of the thread interrupts it.
/// Other threads end a wait with a signal ([`WaitInterrupter`]). If that signal arrives just before the wait begins, the timer's next tick ends the wait.
pub(super) struct Alarm {
    timer: libc::timer_t,
    /// The number of users that need it to tick.
    wanted_by: Cell<u32>,
    interrupter: Arc<WaitInterrupter>,
    _this_thread: PhantomData<*const ()>,
}

/// The part of an alarm that other threads can access, to end a wait of the tracer thread.
pub(super) struct WaitInterrupter {
    signal: i32,
    thread: i32,
    wanted: AtomicBool,
    over: AtomicBool,
}

/// How often a wait is interrupted.
const TICK: Duration = Duration::from_millis(10);

impl Alarm {
    /// Creates an alarm for the calling thread.
    pub(super) fn new() -> io::Result<Self> {
        let signal = interrupt_signal()?;
        // SAFETY: gettid cannot fail; the event names this thread; the kernel stores the timer's id.
        unsafe {
            let thread = libc::gettid();
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            libc::sigaddset(&mut set, signal);
            libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut());
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = signal;
            event.sigev_notify_thread_id = thread;
            let mut timer: libc::timer_t = std::ptr::null_mut();
            check(libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer).into())?;
            let interrupter =
                WaitInterrupter { signal, thread, wanted: AtomicBool::new(false), over: AtomicBool::new(false) };
            Ok(Self { timer, wanted_by: Cell::new(0), interrupter: Arc::new(interrupter), _this_thread: PhantomData })
        }
    }

    pub(super) fn interrupter(&self) -> Arc<WaitInterrupter> {
        Arc::clone(&self.interrupter)
    }

    /// Returns whether [`WaitInterrupter::interrupt`] was called since the last call of this function.
    pub(super) fn was_interrupted(&self) -> bool {
        // Acquire: pairs with the Release in `WaitInterrupter::interrupt`; what was written before that call is visible.
        self.interrupter.wanted.swap(false, Ordering::Acquire)
    }

    fn set(&self, tick: Duration) {
        let tick = libc::timespec { tv_sec: 0, tv_nsec: tick.as_nanos() as i64 };
        let every = libc::itimerspec { it_interval: tick, it_value: tick };
        // SAFETY: our own timer; it could only fail with an invalid id or time.
        unsafe { libc::timer_settime(self.timer, 0, &every, std::ptr::null_mut()) };
    }

    /// While the result is alive, waits of this thread end at least every few milliseconds. A second one costs nothing: a caller that
    /// sleeps and serves in turns keeps one over all of it.
    pub(super) fn ticking(&self) -> Ticking<'_> {
        if self.wanted_by.replace(self.wanted_by.get() + 1) == 0 {
            self.set(TICK);
        }
        Ticking(self)
    }
}

/// See [`Alarm::ticking`].
pub(super) struct Ticking<'a>(&'a Alarm);

impl Ticking<'_> {
    /// Waits for one thread until a time.
    pub(super) fn wait(&self, tid: i32, ends: Ends, until: Instant) -> Waited {
        loop {
            match wait(tid, Patience::Sleep, ends) {
                Waited::Nothing if Instant::now() < until => {}
                waited => return waited,
            }
        }
    }
}

impl Drop for Ticking<'_> {
    fn drop(&mut self) {
        self.0.wanted_by.set(self.0.wanted_by.get() - 1);
        if self.0.wanted_by.get() == 0 {
            self.0.set(Duration::ZERO);
        }
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        self.interrupter.over.store(true, Ordering::Relaxed);
        // SAFETY: our own timer, deleted once.
        unsafe { libc::timer_delete(self.timer) };
    }
}

impl WaitInterrupter {
    /// Ends the thread's wait.
    pub(super) fn interrupt(&self) {
        // Release: pairs with the Acquire in `was_interrupted`.
        self.wanted.store(true, Ordering::Release);
        if !self.over.load(Ordering::Relaxed) {
            // SAFETY: a thread of this process, or none; the handler does nothing.
            unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), self.thread, self.signal) };
        }
    }
}

/// Registers that are all zero.
#[cfg(any(test, feature = "fuzzing"))]
pub(super) fn no_registers() -> General {
    // SAFETY: integers; all zeroes is a valid value.
    unsafe { std::mem::zeroed() }
}
