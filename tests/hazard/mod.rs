//! Helpers of the hazard tests: worlds, objects with hidden addresses, and threads that hold such addresses in odd places.
#![allow(dead_code, reason = "each test binary uses its own part")]

pub mod keepers;
#[path = "../patience/mod.rs"]
pub mod patience;
#[path = "../stack_support/mod.rs"]
mod stack_support;

use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use patience::patience;
use stack_support::scrub_stack;
use stopworld::debugger::mock::MockDebugger;
use stopworld::{
    CollectionReport, JoinHandle, Leaf, LostStop, Mutator, Paranoid, RevocableStop, Root, SignalStopper, Slot,
    StopError, StopRequest, Stopper, ThreadVtable, Tid, WeakCell, World, WorldBuilder,
};

/// Ways to stop the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    Signals,
    Safepoints,
    Debugger,
}

/// A small, self-checking world with timeouts for a loaded machine.
pub fn builder() -> WorldBuilder {
    World::builder().heap_limit(64 << 20).paranoid(Paranoid::On).stop_timeout(Duration::from_secs(20))
}

pub fn world(by: By) -> World {
    build(builder(), by)
}

pub fn build(builder: WorldBuilder, by: By) -> World {
    let stopper = if by == By::Safepoints { Stopper::Safepoints } else { Stopper::Signals };
    let world = builder.stopper(stopper).build().unwrap();
    if by == By::Debugger {
        world.set_thread_vtable(MockDebugger::new().unwrap()).unwrap();
    }
    world
}

/// Runs `work` while another thread collects.
pub fn while_collecting(world: &World, work: impl FnOnce()) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                world.collect().unwrap();
                std::thread::yield_now();
            }
        });
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        done.store(true, Ordering::Relaxed);
        if let Err(panic) = ended {
            std::panic::resume_unwind(panic);
        }
    });
}

/// A vtable that stops as the built-in stopper does, but reports a lost stop while `lost` is set, like a debugger whose process has died or
/// that has been detached.
pub struct Losing {
    inner: SignalStopper,
    lost: Arc<AtomicBool>,
}

impl Losing {
    /// Installs the vtable in this world. Returns its flag `lost`.
    pub fn install(world: &World) -> Arc<AtomicBool> {
        let losing = Losing { inner: SignalStopper::new(libc::SIGURG).unwrap(), lost: Arc::default() };
        let lost = Arc::clone(&losing.lost);
        world.set_thread_vtable(Arc::new(losing)).unwrap();
        lost
    }
}

// SAFETY: the built-in stopper stops and starts the threads.
unsafe impl ThreadVtable for Losing {
    fn name(&self) -> &'static str {
        "losing"
    }

    fn stop_world(&self, stop: &StopRequest<'_>) -> Result<(), StopError> {
        self.inner.stop_world(stop)
    }

    fn start_world(&self, stop: &StopRequest<'_>) {
        self.inner.start_world(stop);
    }

    fn thread_created(&self, tid: Tid, slot: Slot) {
        self.inner.thread_created(tid, slot);
    }
    fn thread_exited(&self, tid: Tid, slot: Slot) {
        self.inner.thread_exited(tid, slot);
    }

    fn revocable_stop(&self) -> Option<&dyn RevocableStop> {
        Some(self)
    }
}

// SAFETY: the built-in stopper's stops always hold, so each answer is right or only discards a collection.
unsafe impl RevocableStop for Losing {
    fn still_holds(&self, _: &StopRequest<'_>) -> Result<(), LostStop> {
        if self.lost.load(Ordering::Relaxed) { Err(LostStop::Released) } else { Ok(()) }
    }

    fn stops_whole_process(&self) -> bool {
        false
    }
}

/// The payload of a [`Hidden`] object: with its header a cell of 32 bytes, full to the last byte.
pub type Payload = Leaf<[u64; 3]>;
pub const PAYLOAD_BYTES: usize = size_of::<[u64; 3]>();

/// An object whose address is only stored in disguise, and a weak reference that shows whether it is alive.
pub struct Hidden {
    disguised: usize,
    weak: Root<WeakCell<Payload>>,
}

impl Hidden {
    /// Creates one on a thread that has ended when this returns: no stack has the address.
    pub fn new(world: &World) -> Self {
        /// Creates the object in a separate frame, which is overwritten afterwards, because the next thread may get this thread's stack.
        #[inline(never)]
        fn make(m: &Mutator) -> (usize, Root<WeakCell<Payload>>) {
            let object = m.alloc(Leaf([7; 3])).unwrap();
            let weak = m.alloc_weak(object).unwrap();
            (!stopworld::Gc::addr(object), m.root(weak))
        }
        // SAFETY: every Gc is a local variable.
        let maker = unsafe {
            world.spawn("maker", |m| {
                let made = make(m);
                scrub_stack();
                made
            })
        };
        let (disguised, weak) = maker.unwrap().join().unwrap();
        Self { disguised, weak }
    }

    /// The address plus `offset`, with every bit flipped.
    pub fn disguised(&self, offset: usize) -> usize {
        // !(x + n) is !x - n.
        self.disguised - offset
    }

    /// Returns whether the object is alive, according to its weak reference. For attached threads.
    pub fn is_alive(&self, m: &Mutator) -> bool {
        self.weak.get(m).get().is_some()
    }
}

/// Collects from this thread, which is attached to no world. Returns whether the only weak reference was cleared.
pub fn collection_kills(world: &World) -> bool {
    collect(world).weak_cleared > 0
}

pub fn collect(world: &World) -> CollectionReport {
    world.collect().unwrap_or_else(|error| panic!("{error}"))
}

/// Two flags between a test and the thread that it observes.
#[derive(Default)]
pub struct Flags {
    pub ready: AtomicBool,
    pub end: AtomicBool,
}

impl Flags {
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    pub fn wait_ready(&self) {
        wait_for("the other thread to be ready", || self.ready.load(Ordering::Acquire));
    }

    pub fn end(&self) {
        self.end.store(true, Ordering::Release);
    }

    pub fn is_ended(&self) -> bool {
        self.end.load(Ordering::Acquire)
    }

    pub fn set_ready(&self) {
        self.ready.store(true, Ordering::Release);
    }
}

/// Waits for a condition that must hold soon, even on a busy machine.
pub fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    let patience = patience(120, 6);
    while !is_so() {
        assert!(begin.elapsed() < patience, "waited {patience:?} for {what}");
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// A mutator that runs `body`.
pub fn spawn<R: Send + 'static>(
    world: &World,
    name: &str,
    body: impl FnOnce(&Mutator) -> R + Send + 'static,
) -> JoinHandle<R> {
    // SAFETY: the tests' bodies keep every Gc in local variables or in registers.
    unsafe { world.spawn(name, body) }.unwrap()
}

/// Runs a test of this binary again, alone, in a process of its own: `name` in the module `module` (`module_path!()`). `None` in that
/// process: the caller continues.
pub fn in_own_process(module: &str, name: &str) -> Option<Output> {
    run_alone(module, name, &[])
}

/// Like [`in_own_process`], for a test that is ignored by default.
pub fn in_own_process_ignored(module: &str, name: &str) -> Option<Output> {
    run_alone(module, name, &["--ignored"])
}

fn run_alone(module: &str, name: &str, more: &[&str]) -> Option<Output> {
    const VARIABLE: &str = "HAZARD_IN_OWN_PROCESS";
    // The test harness leaves the program's own name out.
    let name = module.split_once("::").map_or(name.to_owned(), |(_, module)| format!("{module}::{name}"));
    if std::env::var(VARIABLE).is_ok_and(|value| value == name) {
        // This process ends with the process that waits for it.
        // SAFETY: a plain system call.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        return None;
    }
    let me = std::env::current_exe().unwrap();
    let mut again = Command::new(me);
    again.args([&name, "--exact", "--nocapture", "--test-threads=1"]).args(more).env(VARIABLE, &name);
    let output = again.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("running 1 test"), "no test is called {name}");
    Some(output)
}

/// Runs the rest of the calling test in a process of its own.
#[macro_export]
macro_rules! alone {
    ($name:literal) => {
        if let Some(output) = $crate::hazard::in_own_process(module_path!(), $name) {
            let text =
                format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            assert!(output.status.success(), "{}: {text}", output.status);
            return;
        }
    };
}

/// Forks and runs `child` in the child. Returns how it ended: its exit code, or 1000 plus its signal. SIGALRM ends a child that hangs.
pub fn fork(child: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child runs code of this process on its one thread, as programs that fork do, and never returns.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "fork: {}", std::io::Error::last_os_error());
    if pid == 0 {
        // SAFETY: plain calls.
        unsafe { libc::alarm(patience(300, 20).as_secs() as u32) };
        let code = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child)).unwrap_or(99);
        // SAFETY: ends the child without the parent's destructors.
        unsafe { libc::_exit(code) };
    }
    wait_for_child(pid)
}

/// Returns how a child ended: see [`fork`].
pub fn wait_for_child(pid: i32) -> i32 {
    let mut status = 0;
    // SAFETY: a child of this process.
    while unsafe { libc::waitpid(pid, &mut status, 0) } != pid {}
    if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { 1000 + libc::WTERMSIG(status) }
}

/// Sends a signal to one thread of this process.
pub fn tell(tid: stopworld::Tid, signal: i32) {
    // SAFETY: a plain system call.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), tid.0, signal) };
}

/// Blocks (`SIG_BLOCK`) or unblocks the suspend signal in the calling thread.
pub fn mask_suspend_signal(how: i32) {
    // SAFETY: a plain change of this thread's mask.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGURG);
        libc::pthread_sigmask(how, &set, std::ptr::null_mut());
    }
}

/// Installs a handler.
pub fn handle(signal: i32, handler: extern "C" fn(i32), flags: i32) -> libc::sigaction {
    // SAFETY: complete actions; the tests' handlers touch atomics only, or state why they may do more.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = flags;
        let mut before: libc::sigaction = std::mem::zeroed();
        assert_eq!(libc::sigaction(signal, &action, &mut before), 0);
        before
    }
}

/// vfork, with a child that uses none of the shared memory except the flag that ends it.
pub fn vfork_until(end: &AtomicBool) -> i32 {
    let pid: i64;
    // SAFETY: the child has registers of its own and writes no memory, so sharing the stack does no harm; it ends by exit.
    unsafe {
        std::arch::asm!(
            "mov eax, 58", // vfork
            "syscall",
            "test rax, rax",
            "jnz 4f",
            "2: cmp byte ptr [{end}], 0",
            "jne 3f",
            "mov eax, 24", // sched_yield
            "syscall",
            "jmp 2b",
            "3: xor edi, edi",
            "mov eax, 60", // exit
            "syscall",
            "4:",
            end = in(reg) std::ptr::from_ref(end),
            out("rax") pid,
            out("rcx") _,
            out("r11") _,
            out("rdi") _,
        );
    }
    pid as i32
}
