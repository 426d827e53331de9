//! Signal handlers and masks.
//!
//! Numbers are plain integers, not nix's `Signal`, which knows no real-time signals.

use std::io;
use std::marker::PhantomData;

use super::ucontext::Context;
use crate::sabotage::{Guard, removed};

/// What the kernel tells about a signal.
pub type SigInfo = libc::siginfo_t;

/// The signal that suspends threads unless the user chooses another. Go chose it too: its default action is to be
/// ignored, hardly a program uses it, and debuggers pass it on without stopping.
pub const DEFAULT: i32 = libc::SIGURG;

/// A handler as the kernel calls it.
pub type Handler = unsafe extern "C" fn(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void);

/// What was installed for a signal before us. Plain data, so that the handler can chain to it.
#[derive(Clone, Copy)]
pub struct Previous(libc::sigaction);

impl Previous {
    /// Nothing: as if the signal had been ignored.
    pub const NONE: Self =
        // SAFETY: all-zero is a valid sigaction: SIG_DFL, no flags, an empty mask.
        Self(unsafe { std::mem::zeroed() });

    /// As if this one-argument handler had been installed.
    pub fn of(handler: extern "C" fn(i32)) -> Self {
        let mut previous = Self::NONE;
        previous.0.sa_sigaction = handler as *const () as usize;
        previous
    }

    /// Whether it is this handler.
    pub fn is(&self, handler: Handler) -> bool {
        self.0.sa_sigaction == handler as *const () as usize
    }

    /// Whether a function was installed (neither the default action nor "ignore").
    pub fn is_function(&self) -> bool {
        self.0.sa_sigaction != libc::SIG_DFL && self.0.sa_sigaction != libc::SIG_IGN
    }

    /// Calls the previous handler, when there was a function. The signal's default action is not imitated: for the
    /// default signal (SIGURG) it is to ignore it.
    ///
    /// # Safety
    /// In a handler of the signal whose action this was, with the arguments that the kernel gave it.
    pub unsafe fn call(&self, signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
        if !self.is_function() {
            return;
        }
        if self.0.sa_flags & libc::SA_SIGINFO != 0 {
            // SAFETY: with SA_SIGINFO the word is a three-argument handler, by sigaction's contract with whoever set it.
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

/// On which stack a handler runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandlerStack {
    /// The one that was interrupted (no SA_ONSTACK).
    Own,
    /// The alternate stack, for threads that have one.
    Alternate,
}

/// The signals that are raised by the running instruction. Blocking them would turn a bug into a silent kill.
const SYNCHRONOUS: [i32; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP];

/// The signal by which libc cancels threads. Its functions for sets do not know it.
const CANCEL: i32 = 32;

/// Every signal but the synchronous faults: what a suspend handler runs under. Also that of cancellation: a thread that is
/// stopped in a cancellation point would otherwise unwind, handler and all, while the world is stopped.
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
    // `.stop.eintr`: a read or a futex wait that the signal interrupts goes on after it.
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

/// What the process has for `signal` now.
pub fn current(signal: i32) -> io::Result<Previous> {
    let mut now = std::mem::MaybeUninit::uninit();
    // SAFETY: only reads the action.
    let r = unsafe { libc::sigaction(signal, std::ptr::null(), now.as_mut_ptr()) };
    // SAFETY: written when r == 0.
    if r == 0 { Ok(Previous(unsafe { now.assume_init() })) } else { Err(io::Error::last_os_error()) }
}

/// Whether siginfo says that this very process sent the signal to the thread by tgkill. Async-signal-safe.
///
/// # Safety
/// `info` is the second argument of a running handler.
pub unsafe fn is_from_this_process(info: *const libc::siginfo_t) -> bool {
    // SAFETY: by the caller; `si_pid` is valid for SI_TKILL.
    unsafe { (*info).si_code == libc::SI_TKILL && (*info).si_pid() == super::thread::getpid() }
}

/// Whether `handler` is what the process has for `signal` now.
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

/// Whether the signal has its default action: the program has no use for it.
pub fn is_default(signal: i32) -> bool {
    current(signal).is_ok_and(|now| now.0.sa_sigaction == libc::SIG_DFL)
}

/// From now on the signal does nothing in this process. Not by SIG_IGN, which a process that is spawned would inherit: `execve`
/// gives a signal with a handler its default action again.
///
/// # Safety
/// No code of the process depends on the signal's action: it has the default action, and programs may use it ([`is_usable`]).
pub unsafe fn make_harmless(signal: i32) -> io::Result<()> {
    // SAFETY: a handler that does nothing may run anywhere; the rest by the caller's promise.
    unsafe { install(signal, nothing, HandlerStack::Own) }.map(drop)
}

/// The handler of a signal that only a tracer looks at.
unsafe extern "C" fn nothing(_: i32, _: *mut SigInfo, _: *mut libc::c_void) {}

/// Makes `previous` the signal's action again. Async-signal-safe.
///
/// # Safety
/// `previous` was this signal's action, its handler is still in memory, and no other code depends on the action that it replaces.
pub unsafe fn put_back(signal: i32, previous: &Previous) {
    // SAFETY: an action that the kernel gave us for this signal, by the caller's promise.
    unsafe { libc::sigaction(signal, &previous.0, std::ptr::null_mut()) };
}

/// Sends the calling thread a signal with a value, and lets it come now, also if the thread masks it. Whoever traces the thread has
/// seen it when this returns. Not sent unless it is [harmless](make_harmless): without a tracer the handler runs, and is over when
/// this returns. Async-signal-safe, errno preserved.
///
/// # Safety
/// A tracer may read and write the memory that `value` names: it is 0, or the address of what the tracer expects, alive until this returns.
pub unsafe fn queue_to_myself(signal: i32, value: usize) {
    if !(1..=64).contains(&signal) || !super::preserving_errno(|| is_installed(signal, nothing)) {
        return;
    }
    /// As the kernel reads it: `si_signo`, `si_errno`, `si_code`, padding, `si_pid`, `si_uid`, `si_value`.
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
        // A blocked signal would be kept.
        let before = change_mask(libc::SIG_UNBLOCK, &only(signal));
        let tid = super::thread::gettid().0;
        // SAFETY: a complete siginfo, which the kernel copies.
        let send = || unsafe { libc::syscall(libc::SYS_rt_tgsigqueueinfo, pid, tid, signal, &raw const queued) };
        // EAGAIN: the user's queue of signals is full. It empties when others take theirs.
        for _ in 0..1000 {
            if send() == 0 || super::Errno::last() != super::Errno::EAGAIN {
                break;
            }
            super::thread::sleep_ns(1_000_000);
        }
        change_mask(libc::SIG_SETMASK, &before);
    });
}

/// Whether a number can be a signal for suspension: it exists, can be caught and libc leaves it to programs.
pub fn is_usable(signal: i32) -> bool {
    (1..=64).contains(&signal)
        && ![libc::SIGKILL, libc::SIGSTOP, libc::SIGCONT, libc::SIGTSTP, 32, 33].contains(&signal)
        && !SYNCHRONOUS.contains(&signal)
        && signal != libc::SIGABRT
}

/// The name of a signal for people: `SIGURG`, `SIGRTMIN+3`, or its number.
pub fn name(signal: i32) -> String {
    let (lowest, highest) = real_time();
    match nix::sys::signal::Signal::try_from(signal) {
        Ok(s) => s.as_str().to_owned(),
        Err(_) if signal == lowest => "SIGRTMIN".to_owned(),
        Err(_) if (lowest..=highest).contains(&signal) => format!("SIGRTMIN+{}", signal - lowest),
        Err(_) => format!("signal {signal}"),
    }
}

/// The signal of a name that [`name`] gives or `kill -l` lists (`USR1`, `sigusr1`, `SIGRTMAX-2`), or of a number.
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
    // SAFETY: a set that was initialised; it is only read.
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

/// Blocks one signal in the calling thread until the guard is dropped (or, forgotten, for good).
pub fn block(signal: i32) -> MaskGuard {
    MaskGuard::restoring(change_mask(libc::SIG_BLOCK, &only(signal)))
}

/// What a write in vain raises besides its error.
const OF_WRITES: [i32; 2] = [libc::SIGPIPE, libc::SIGXFSZ];

/// While it lives, what this thread writes in vain is an error of the write and not the end of the process, whatever the program has
/// made of the signals: what comes of a write never reaches it.
pub struct FailingWrites {
    /// Of [`OF_WRITES`], those that would now come.
    open: [bool; OF_WRITES.len()],
    _mask: MaskGuard,
}

impl FailingWrites {
    /// Until it is dropped, a failing write of the calling thread returns an error and sends no signal.
    pub fn are_errors() -> FailingWrites {
        let old = change_mask(libc::SIG_BLOCK, &set_of(&OF_WRITES));
        let mut open = OF_WRITES.map(|signal| !has(&old, signal));
        if open.contains(&true) {
            let mut pending = std::mem::MaybeUninit::uninit();
            // SAFETY: the set is written.
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
            // SAFETY: a set and a time; who is not asked for gets no information. It waits for nothing.
            unsafe { libc::sigtimedwait(&only(signal), std::ptr::null_mut(), &at_once) };
        }
    }
}

/// Blocks every signal (but faults) in the calling thread until the guard is dropped.
pub fn block_all() -> MaskGuard {
    MaskGuard::restoring(change_mask(libc::SIG_BLOCK, &handler_mask()))
}

/// Unblocks one signal in the calling thread; says whether it was blocked.
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

/// Puts the calling thread's signal mask back when dropped. Stays on its thread: the mask is that thread's.
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

/// Lets the interrupted code go on at another instruction.
///
/// # Safety
/// `context` is the third argument of a running handler; the code that was interrupted goes on there as it should.
pub unsafe fn continue_at(context: *mut libc::c_void, instruction: usize) {
    // SAFETY: by the caller.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    context.uc_mcontext.gregs[libc::REG_RIP as usize] = instruction as i64;
}

/// The context that the kernel handed to a handler.
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

    /// The signal's default is the end of the process.
    #[test]
    fn what_comes_of_a_write_never_reaches_the_program() {
        std::thread::spawn(|| {
            let outer = FailingWrites::are_errors();
            raise(libc::SIGXFSZ);
            drop(FailingWrites::are_errors());
            // What was on its way before is left to who let it wait.
            raise(libc::SIGPIPE);
            drop(outer);
            assert!(!is_blocked(libc::SIGXFSZ));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_signal_that_waited_before_waits_afterwards() {
        std::thread::spawn(|| {
            let blocked = block(libc::SIGXFSZ);
            raise(libc::SIGXFSZ);
            drop(FailingWrites::are_errors());
            let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            // SAFETY: a set and a time.
            let found = unsafe { libc::sigtimedwait(&only(libc::SIGXFSZ), std::ptr::null_mut(), &at_once) };
            assert_eq!(found, libc::SIGXFSZ);
            drop(blocked);
        })
        .join()
        .unwrap();
    }
}
