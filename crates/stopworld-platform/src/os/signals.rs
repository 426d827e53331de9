//! Signal handlers and masks.
//!
//! Numbers are plain integers, not nix's `Signal`, which knows no real-time signals.

use std::io;
use std::marker::PhantomData;

use super::ucontext::Context;
use crate::sabotage::{Guard, removed};

/// The kernel's description of a signal.
pub type SigInfo = libc::siginfo_t;

/// The signal that suspends threads unless the user chooses another. Go uses it too: its default action is to be ignored, few
/// programs use it, and debuggers pass it on without stopping.
pub const DEFAULT: i32 = libc::SIGURG;

/// A handler as the kernel calls it.
pub type Handler = unsafe extern "C" fn(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void);

/// The action that was installed for a signal before ours. Plain data, so that the handler can chain to it.
#[derive(Clone, Copy)]
pub struct Previous(libc::sigaction);

impl Previous {
    /// The default action, so there is no handler to call.
    pub const NONE: Self =
        // SAFETY: all-zero is a valid sigaction: SIG_DFL, no flags, an empty mask.
        Self(unsafe { std::mem::zeroed() });

    /// Returns the action that would have been replaced if this one-argument handler had been installed.
    pub fn of(handler: extern "C" fn(i32)) -> Self {
        let mut previous = Self::NONE;
        previous.0.sa_sigaction = handler as *const () as usize;
        previous
    }

    /// Returns whether the action is this handler.
    pub fn is(&self, handler: Handler) -> bool {
        self.0.sa_sigaction == handler as *const () as usize
    }

    /// Whether a function was installed (neither the default action nor "ignore").
    pub fn is_function(&self) -> bool {
        self.0.sa_sigaction != libc::SIG_DFL && self.0.sa_sigaction != libc::SIG_IGN
    }

    /// Calls the previous handler, if it was a function. Does not imitate the signal's default action: for the default signal
    /// (SIGURG) that is to ignore it.
    ///
    /// # Safety
    /// In a handler of the signal whose action this was, with the arguments that the kernel gave it.
    pub unsafe fn call(&self, signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
        if !self.is_function() {
            return;
        }
        if self.0.sa_flags & libc::SA_SIGINFO != 0 {
            // SAFETY: with SA_SIGINFO the word is a three-argument handler, by sigaction's contract with the code that set it.
            let f: Handler = unsafe { std::mem::transmute(self.0.sa_sigaction) };
            // SAFETY: the kernel's own arguments, passed on.
            unsafe { f(signal, info, context) };
        } else {
            // SAFETY: without SA_SIGINFO the word is a one-argument handler.
            let f: unsafe extern "C" fn(i32) = unsafe { std::mem::transmute(self.0.sa_sigaction) };
            // SAFETY: as above.
            unsafe { f(signal) };
        }
    }
}

/// The signal of breakpoints.
pub const TRAP: i32 = libc::SIGTRAP;

/// The stack on which a handler runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandlerStack {
    /// The interrupted stack (no SA_ONSTACK).
    Own,
    /// The alternate stack, for threads that have one.
    Alternate,
}

/// The signals that the running instruction raises. If they were blocked, a bug would kill the process without calling a handler.
const SYNCHRONOUS: [i32; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP];

/// The signal by which libc cancels threads. libc's functions for signal sets do not accept it.
const CANCEL: i32 = 32;

/// Every signal but the synchronous faults: the mask of a suspend handler. It includes the cancellation signal: otherwise a
/// thread that is stopped at a cancellation point would unwind, handler included, while the world is stopped.
fn handler_mask() -> libc::sigset_t {
    let mut set = std::mem::MaybeUninit::uninit();
    // SAFETY: sigfillset initialises the set, whose first word has a bit for each of the kernel's signals; sigdelset gets valid
    // numbers.
    unsafe {
        libc::sigfillset(set.as_mut_ptr());
        *set.as_mut_ptr().cast::<u64>() |= 1 << (CANCEL - 1);
        for signal in SYNCHRONOUS {
            libc::sigdelset(set.as_mut_ptr(), signal);
        }
        set.assume_init()
    }
}

/// Installs `handler` with SA_RESTART | SA_SIGINFO and all signals but faults masked while it runs (`.stop.eintr`,
/// `.stop.altstack`). Returns the action that it replaces.
///
/// # Safety
/// * `handler` may be called on any thread between any two instructions, with the arguments that the kernel gives it, from now on and for as
///   long as the process has the action; so it is async-signal-safe.
/// * No other code of the process depends on the action that is replaced.
pub unsafe fn install(signal: i32, handler: Handler, stack: HandlerStack) -> io::Result<Previous> {
    let onstack = if stack == HandlerStack::Alternate { libc::SA_ONSTACK } else { 0 };
    // `.stop.eintr`: a read or a futex wait that the signal interrupts is restarted after it.
    let restart = if removed(Guard::StopEintr) { 0 } else { libc::SA_RESTART };
    let action = libc::sigaction {
        sa_sigaction: handler as *const () as usize,
        sa_mask: handler_mask(),
        sa_flags: restart | libc::SA_SIGINFO | onstack,
        sa_restorer: None,
    };
    let mut previous = std::mem::MaybeUninit::uninit();
    // SAFETY: `action` is complete; the caller vouches for the handler.
    let r = unsafe { libc::sigaction(signal, &action, previous.as_mut_ptr()) };
    if r != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: sigaction succeeded, so it wrote the old action.
    Ok(Previous(unsafe { previous.assume_init() }))
}

/// The process's current action for `signal`.
pub fn current(signal: i32) -> io::Result<Previous> {
    let mut now = std::mem::MaybeUninit::uninit();
    // SAFETY: only reads the action.
    let r = unsafe { libc::sigaction(signal, std::ptr::null(), now.as_mut_ptr()) };
    // SAFETY: written when r == 0.
    if r == 0 { Ok(Previous(unsafe { now.assume_init() })) } else { Err(io::Error::last_os_error()) }
}

/// Whether siginfo shows that this process sent the signal to the thread by tgkill. Async-signal-safe.
///
/// # Safety
/// `info` is the second argument of a running handler.
pub unsafe fn is_from_this_process(info: *const libc::siginfo_t) -> bool {
    // SAFETY: by the caller; `si_pid` is valid for SI_TKILL.
    unsafe { (*info).si_code == libc::SI_TKILL && (*info).si_pid() == super::thread::getpid() }
}

/// Whether `handler` is the process's current handler for `signal`.
pub fn is_installed(signal: i32, handler: Handler) -> bool {
    let mut now = std::mem::MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: only reads the action.
    let r = unsafe { libc::sigaction(signal, std::ptr::null(), now.as_mut_ptr()) };
    // SAFETY: written when r == 0.
    r == 0 && unsafe { now.assume_init() }.sa_sigaction == handler as *const () as usize
}

/// The lowest and the highest real-time signal that libc leaves to programs.
pub fn real_time() -> (i32, i32) {
    (libc::SIGRTMIN(), libc::SIGRTMAX())
}

/// Whether the signal has its default action, that is, the program does not use it.
pub fn is_default(signal: i32) -> bool {
    current(signal).is_ok_and(|now| now.0.sa_sigaction == libc::SIG_DFL)
}

/// Makes the signal have no effect in this process, by an empty handler. Spawned processes would inherit SIG_IGN, but `execve` resets
/// a signal with a handler to its default action.
///
/// # Safety
/// The signal has its default action, it is one of those that programs may use ([`is_usable`]), and no code of the process depends on its
/// action.
pub unsafe fn make_harmless(signal: i32) -> io::Result<()> {
    // SAFETY: a handler that does nothing may run anywhere; the rest by the caller's promise.
    unsafe { install(signal, nothing, HandlerStack::Own) }.map(drop)
}

/// The handler of a signal that only a tracer observes.
unsafe extern "C" fn nothing(_: i32, _: *mut SigInfo, _: *mut libc::c_void) {}

/// Restores `previous` as the signal's action. Async-signal-safe.
///
/// # Safety
/// `previous` was this signal's action, its handler is still in memory, and no other code depends on the action that it replaces.
pub unsafe fn put_back(signal: i32, previous: &Previous) {
    // SAFETY: an action that the kernel gave us for this signal, by the caller's promise.
    unsafe { libc::sigaction(signal, &previous.0, std::ptr::null_mut()) };
}

/// Sends the calling thread a signal with a value. The signal is delivered before this returns, even if the thread blocks it: a
/// tracer of the thread has seen it, and without a tracer the empty handler has run. Sends nothing unless the signal is
/// [harmless](make_harmless). Async-signal-safe, errno preserved.
///
/// # Safety
/// A tracer may read and write the memory that `value` names: it is 0, or the address of what the tracer expects, alive until this returns.
pub unsafe fn queue_to_myself(signal: i32, value: usize) {
    if !(1..=64).contains(&signal) || !super::preserving_errno(|| is_installed(signal, nothing)) {
        return;
    }
    /// The kernel's layout: `si_signo`, `si_errno`, `si_code`, padding, `si_pid`, `si_uid`, `si_value`.
    #[repr(C)]
    struct Queued {
        signal: i32,
        errno: i32,
        code: i32,
        padding: i32,
        pid: i32,
        uid: u32,
        value: usize,
        rest: [u64; 12],
    }
    const _: () = assert!(std::mem::size_of::<Queued>() == std::mem::size_of::<libc::siginfo_t>());
    let pid = super::thread::getpid();
    let queued = Queued { signal, errno: 0, code: libc::SI_QUEUE, padding: 0, pid, uid: 0, value, rest: [0; 12] };
    super::preserving_errno(|| {
        // A blocked signal would stay pending.
        let before = change_mask(libc::SIG_UNBLOCK, &only(signal));
        let tid = super::thread::gettid().0;
        // SAFETY: a complete siginfo, which the kernel copies.
        let send = || unsafe { libc::syscall(libc::SYS_rt_tgsigqueueinfo, pid, tid, signal, &raw const queued) };
        // EAGAIN: the user's queue of signals is full. It gets room when other threads take their signals.
        for _ in 0..1000 {
            if send() == 0 || super::Errno::last() != super::Errno::EAGAIN {
                break;
            }
            super::thread::sleep_ns(1_000_000);
        }
        change_mask(libc::SIG_SETMASK, &before);
    });
}

/// Whether a number can be the suspension signal: it exists, can be caught, and libc leaves it to programs.
pub fn is_usable(signal: i32) -> bool {
    (1..=64).contains(&signal)
        && ![libc::SIGKILL, libc::SIGSTOP, libc::SIGCONT, libc::SIGTSTP, 32, 33].contains(&signal)
        && !SYNCHRONOUS.contains(&signal)
        && signal != libc::SIGABRT
}

/// The readable name of a signal: `SIGURG`, `SIGRTMIN+3`, or its number.
pub fn name(signal: i32) -> String {
    let (lowest, highest) = real_time();
    match nix::sys::signal::Signal::try_from(signal) {
        Ok(s) => s.as_str().to_owned(),
        Err(_) if signal == lowest => "SIGRTMIN".to_owned(),
        Err(_) if (lowest..=highest).contains(&signal) => format!("SIGRTMIN+{}", signal - lowest),
        Err(_) => format!("signal {signal}"),
    }
}

/// Parses a name as [`name`] returns it or `kill -l` lists it (`USR1`, `sigusr1`, `SIGRTMAX-2`), or a number.
pub fn of_name(text: &str) -> Option<i32> {
    let (lowest, highest) = real_time();
    let upper = text.to_ascii_uppercase();
    let short = upper.strip_prefix("SIG").unwrap_or(&upper);
    let offset = |name: &str| -> Option<i32> {
        let offset = short.strip_prefix(name)?;
        if offset.is_empty() { Some(0) } else { offset.strip_prefix(['+', '-'])?.parse::<u8>().ok().map(i32::from) }
    };
    let real_time = match short {
        _ if short.starts_with("RTMIN") && !short.contains('-') => offset("RTMIN").map(|more| lowest + more),
        _ if short.starts_with("RTMAX") && !short.contains('+') => offset("RTMAX").map(|less| highest - less),
        _ => None,
    };
    // `SIG34` is what gdb calls SIGRTMIN.
    let numbered = || short.parse().ok().filter(|signal| (1..=highest).contains(signal));
    let named = || format!("SIG{short}").parse::<nix::sys::signal::Signal>().ok().map(|signal| signal as i32);
    real_time.filter(|signal| (lowest..=highest).contains(signal)).or_else(numbered).or_else(named)
}

/// A set of one signal.
fn only(signal: i32) -> libc::sigset_t {
    set_of(&[signal])
}

fn set_of(signals: &[i32]) -> libc::sigset_t {
    let mut set = std::mem::MaybeUninit::uninit();
    // SAFETY: sigemptyset initialises; the numbers were checked by the caller (`is_usable`).
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for &signal in signals {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        set.assume_init()
    }
}

fn has(set: &libc::sigset_t, signal: i32) -> bool {
    // SAFETY: a set that is initialised, only read here.
    unsafe { libc::sigismember(set, signal) == 1 }
}

fn change_mask(how: i32, set: &libc::sigset_t) -> libc::sigset_t {
    let mut old = std::mem::MaybeUninit::uninit();
    // SAFETY: valid sets; with a valid `how` the call can't fail.
    unsafe {
        libc::pthread_sigmask(how, set, old.as_mut_ptr());
        old.assume_init()
    }
}

/// Blocks one signal in the calling thread until the guard is dropped. If the guard is forgotten, the signal stays blocked.
pub fn block(signal: i32) -> MaskGuard {
    MaskGuard::restoring(change_mask(libc::SIG_BLOCK, &only(signal)))
}

/// The signals that a failing write raises besides its error.
const OF_WRITES: [i32; 2] = [libc::SIGPIPE, libc::SIGXFSZ];

/// A guard. While it exists, a failing write of this thread returns an error and does not end the process, whatever actions the program
/// has set for the signals SIGPIPE and SIGXFSZ. A signal that such a write raises never reaches the program.
pub struct FailingWrites {
    /// For each of [`OF_WRITES`], whether it was neither blocked nor pending before.
    open: [bool; OF_WRITES.len()],
    _mask: MaskGuard,
}

impl FailingWrites {
    /// Until the guard is dropped, a failing write of the calling thread returns an error and raises no visible signal.
    pub fn are_errors() -> FailingWrites {
        let old = change_mask(libc::SIG_BLOCK, &set_of(&OF_WRITES));
        let mut open = OF_WRITES.map(|signal| !has(&old, signal));
        if open.contains(&true) {
            let mut pending = std::mem::MaybeUninit::uninit();
            // SAFETY: sigpending writes the set.
            let pending = unsafe {
                libc::sigpending(pending.as_mut_ptr());
                pending.assume_init()
            };
            open.iter_mut().zip(OF_WRITES).for_each(|(open, signal)| *open &= !has(&pending, signal));
        }
        FailingWrites { open, _mask: MaskGuard::restoring(old) }
    }
}

impl Drop for FailingWrites {
    fn drop(&mut self) {
        let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        for (signal, _) in OF_WRITES.into_iter().zip(self.open).filter(|(_, open)| *open) {
            // SAFETY: a set and a time; the null pointer requests no information. The call does not wait.
            unsafe { libc::sigtimedwait(&only(signal), std::ptr::null_mut(), &at_once) };
        }
    }
}

/// Blocks every signal except faults in the calling thread until the guard is dropped.
pub fn block_all() -> MaskGuard {
    MaskGuard::restoring(change_mask(libc::SIG_BLOCK, &handler_mask()))
}

/// Unblocks one signal in the calling thread; returns whether it was blocked.
pub fn unblock(signal: i32) -> bool {
    has(&change_mask(libc::SIG_UNBLOCK, &only(signal)), signal)
}

/// Whether the calling thread blocks the signal.
pub fn is_blocked(signal: i32) -> bool {
    let mut now = std::mem::MaybeUninit::uninit();
    // SAFETY: only reads the mask; the set is written.
    unsafe {
        libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), now.as_mut_ptr());
        has(&now.assume_init(), signal)
    }
}

/// Restores the calling thread's signal mask when dropped. It cannot be sent to another thread, because the mask is that of its
/// thread.
pub struct MaskGuard {
    before: libc::sigset_t,
    on_its_thread: PhantomData<*const ()>,
}

impl MaskGuard {
    fn restoring(before: libc::sigset_t) -> MaskGuard {
        MaskGuard { before, on_its_thread: PhantomData }
    }
}

impl Drop for MaskGuard {
    fn drop(&mut self) {
        change_mask(libc::SIG_SETMASK, &self.before);
    }
}

/// Makes the interrupted code continue at another instruction.
///
/// # Safety
/// `context` is the third argument of a running handler, and the interrupted code may continue at `instruction`.
pub unsafe fn continue_at(context: *mut libc::c_void, instruction: usize) {
    // SAFETY: by the caller.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    context.uc_mcontext.gregs[libc::REG_RIP as usize] = instruction as i64;
}

/// The context that the kernel passed to a handler.
///
/// # Safety
/// `context` is the third argument of a running handler, which returns only after the last use of the reference.
pub unsafe fn context<'a>(context: *mut libc::c_void) -> &'a Context {
    // SAFETY: by the caller; `Context` is a transparent view of ucontext_t.
    unsafe { &*context.cast::<Context>() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raise(signal: i32) {
        // SAFETY: a signal to this thread.
        assert_eq!(unsafe { libc::raise(signal) }, 0);
    }

    #[test]
    fn every_signal_is_known_by_its_name() {
        for signal in (1..=31).chain(real_time().0..=real_time().1) {
            assert_eq!(of_name(&name(signal)), Some(signal), "{}", name(signal));
        }
        let wrong =
            ["", "SIG", "SIGFOO", "0", "65", "-1", "RTMIN+40", "RTMIN-1", "RTMAX+1", "RTMIN+99999999999", "RTMIN+x"];
        assert_eq!(wrong.map(of_name), [None; 11]);
    }

    #[rstest::rstest]
    #[case("usr1", libc::SIGUSR1)]
    #[case("SIGRTMIN+3", libc::SIGRTMIN() + 3)]
    #[case("RTMAX-2", libc::SIGRTMAX() - 2)]
    #[case("SIG34", 34)]
    #[case("11", libc::SIGSEGV)]
    fn a_signal_has_several_names(#[case] text: &str, #[case] signal: i32) {
        assert_eq!(of_name(text), Some(signal));
    }

    /// The test would be killed if a write raised one of the signals, because their default action ends the process.
    #[test]
    fn signals_of_failing_writes_never_reach_the_program() {
        std::thread::spawn(|| {
            let outer = FailingWrites::are_errors();
            raise(libc::SIGXFSZ);
            drop(FailingWrites::are_errors());
            // The inner guard leaves the pending SIGXFSZ to the outer one, which removes both signals.
            raise(libc::SIGPIPE);
            drop(outer);
            assert!(!is_blocked(libc::SIGXFSZ));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_signal_that_was_pending_before_stays_pending() {
        std::thread::spawn(|| {
            let blocked = block(libc::SIGXFSZ);
            raise(libc::SIGXFSZ);
            drop(FailingWrites::are_errors());
            let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            // SAFETY: a valid set and time.
            let found = unsafe { libc::sigtimedwait(&only(libc::SIGXFSZ), std::ptr::null_mut(), &at_once) };
            assert_eq!(found, libc::SIGXFSZ);
            drop(blocked);
        })
        .join()
        .unwrap();
    }
}
