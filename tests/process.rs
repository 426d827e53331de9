//! Properties of a process that a world must not change: threads can be cancelled, and spawned processes inherit the same state.

mod hazard;

use std::ffi::c_void;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use hazard::{By, builder, collect, wait_for, world};
use rstest::rstest;
use stopworld::{ByHandshake, Leaf, SignalStopper, Slot, StopError, StopRequest, ThreadVtable, Tid, World};

unsafe extern "C-unwind" {
    // Cancellation points, declared so that unwinding may leave them, as it does when the thread is cancelled.
    fn pause() -> i32;
    fn pthread_testcancel();
    fn pthread_exit(value: *mut c_void) -> !;
}

unsafe extern "C" {
    fn pthread_create(
        thread: *mut libc::pthread_t,
        attributes: *const libc::pthread_attr_t,
        start: extern "C-unwind" fn(*mut c_void) -> *mut c_void,
        argument: *mut c_void,
    ) -> i32;
    fn pthread_cancel(thread: libc::pthread_t) -> i32;
}

const CANCELED: *mut c_void = usize::MAX as *mut c_void;

/// The state shared by the thread and its test.
struct Shared {
    world: World,
    body: fn(&Shared),
    ready: AtomicBool,
    /// The number of destructors that have run.
    dropped: AtomicU64,
}

/// A thread that Rust's standard library did not start: that library catches everything at the bottom of its threads, and forced unwinding
/// must not be caught.
struct Foreign {
    thread: libc::pthread_t,
    shared: Arc<Shared>,
}

extern "C-unwind" fn start(argument: *mut c_void) -> *mut c_void {
    // SAFETY: the reference count that `Foreign::start` has taken.
    let shared = unsafe { Arc::from_raw(argument.cast::<Shared>()) };
    (shared.body)(&shared);
    std::ptr::null_mut()
}

impl Foreign {
    fn start(world: &World, body: fn(&Shared)) -> Self {
        let world = world.clone();
        let shared = Arc::new(Shared { world, body, ready: AtomicBool::new(false), dropped: AtomicU64::new(0) });
        let mut thread = 0;
        let argument = Arc::into_raw(Arc::clone(&shared)).cast_mut().cast();
        // SAFETY: a place for the thread, a function of this signature, and a reference count of its own.
        assert_eq!(unsafe { pthread_create(&mut thread, std::ptr::null(), start, argument) }, 0);
        wait_for("the thread", || shared.ready.load(Ordering::Acquire));
        Self { thread, shared }
    }

    fn cancel(&self) {
        // SAFETY: a thread that has not been joined yet.
        assert_eq!(unsafe { pthread_cancel(self.thread) }, 0);
    }

    /// Joins the thread. Returns whether it was cancelled, and the shared state.
    fn join(self) -> (bool, Arc<Shared>) {
        let mut value = std::ptr::null_mut();
        // SAFETY: joined once.
        assert_eq!(unsafe { libc::pthread_join(self.thread, &mut value) }, 0);
        (value == CANCELED, self.shared)
    }
}

struct Dropped<'a>(&'a AtomicU64);

impl Drop for Dropped<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn waits_in_a_region(shared: &Shared) {
    let _outer = Dropped(&shared.dropped);
    // SAFETY: every Gc is a local variable.
    let m = unsafe { shared.world.attach("cancelled") }.unwrap();
    m.alloc(Leaf(7_u64)).unwrap();
    m.blocking(|| {
        let _inner = Dropped(&shared.dropped);
        shared.ready.store(true, Ordering::Release);
        loop {
            // SAFETY: waits for a signal.
            unsafe { pause() };
        }
    });
}

fn runs(shared: &Shared) {
    let _outer = Dropped(&shared.dropped);
    // SAFETY: every Gc is a local variable.
    let m = unsafe { shared.world.attach("cancelled") }.unwrap();
    let _inner = Dropped(&shared.dropped);
    loop {
        m.alloc(Leaf(7_u64)).unwrap();
        m.safepoint();
        shared.ready.store(true, Ordering::Release);
        // SAFETY: a cancellation point.
        unsafe { pthread_testcancel() };
    }
}

fn collects(shared: &Shared) {
    let _outer = Dropped(&shared.dropped);
    // SAFETY: every Gc is a local variable.
    let m = unsafe { shared.world.attach("cancelled") }.unwrap();
    let _inner = Dropped(&shared.dropped);
    loop {
        m.collect().unwrap();
        shared.ready.store(true, Ordering::Release);
        // SAFETY: a cancellation point.
        unsafe { pthread_testcancel() };
    }
}

fn exits_in_a_region(shared: &Shared) {
    let _outer = Dropped(&shared.dropped);
    // SAFETY: every Gc is a local variable.
    let m = unsafe { shared.world.attach("cancelled") }.unwrap();
    m.blocking(|| {
        let _inner = Dropped(&shared.dropped);
        shared.ready.store(true, Ordering::Release);
        // SAFETY: ends this thread, which returns nothing.
        unsafe { pthread_exit(CANCELED) };
    });
}

/// A cancelled thread leaves its region, runs its destructors and detaches, and the world continues without it.
#[rstest]
#[case::in_a_region(waits_in_a_region)]
#[case::that_allocates(runs)]
#[case::that_collects(collects)]
#[case::that_ends_itself_in_a_region(exits_in_a_region)]
fn a_thread_that_is_cancelled_detaches(
    #[case] body: fn(&Shared),
    #[values(By::Signals, By::Safepoints, By::Debugger)] by: By,
) {
    let world = world(by);
    for _ in 0..20 {
        let thread = Foreign::start(&world, body);
        collect(&world);
        thread.cancel();
        collect(&world);
        let (cancelled, shared) = thread.join();
        assert!(cancelled);
        assert_eq!(shared.dropped.load(Ordering::SeqCst), 2, "destructors");
        assert_eq!(world.threads().len(), 0);
        collect(&world);
        world.verify().unwrap();
    }
}

fn waits_outside_of_a_region(shared: &Shared) {
    // SAFETY: every Gc is a local variable.
    let _m = unsafe { shared.world.attach("cancelled") }.unwrap();
    let _inner = Dropped(&shared.dropped);
    shared.ready.store(true, Ordering::Release);
    loop {
        // SAFETY: waits for a signal.
        unsafe { pause() };
    }
}

/// Cancels a thread in the stopped world, and checks whether the thread runs before the start.
struct Cancelling {
    signals: SignalStopper,
    target: AtomicUsize,
    dropped: AtomicUsize,
    ran: AtomicBool,
}

// SAFETY: the built-in stopper stops and starts the threads; in between this sends a signal and sleeps.
unsafe impl ThreadVtable for Cancelling {
    fn name(&self) -> &'static str {
        "cancelling"
    }
    fn stop_world(&self, stop: &StopRequest<'_>) -> Result<(), StopError> {
        self.signals.stop_world(stop)
    }
    fn start_world(&self, stop: &StopRequest<'_>) {
        let (target, dropped) = (self.target.swap(0, Ordering::SeqCst), self.dropped.load(Ordering::SeqCst));
        if target != 0 {
            // SAFETY: a thread that has not been joined yet, and a counter that outlives the collection.
            let dropped = unsafe {
                assert_eq!(pthread_cancel(target as libc::pthread_t), 0);
                &*(dropped as *const AtomicU64)
            };
            std::thread::sleep(Duration::from_millis(50));
            self.ran.store(dropped.load(Ordering::SeqCst) != 0, Ordering::SeqCst);
        }
        self.signals.start_world(stop);
    }
    fn thread_created(&self, tid: Tid, slot: Slot) {
        self.signals.thread_created(tid, slot);
    }
    fn thread_exited(&self, tid: Tid, slot: Slot) {
        self.signals.thread_exited(tid, slot);
    }
    fn by_handshake(&self) -> Option<&dyn ByHandshake> {
        self.signals.by_handshake()
    }
}

/// A thread that was stopped in a cancellation point does not unwind before the world is started.
#[test]
fn a_thread_that_is_cancelled_while_it_is_stopped_stays_stopped() {
    let world = builder().build().unwrap();
    let cancelling = Arc::new(Cancelling {
        signals: SignalStopper::new(libc::SIGURG).unwrap(),
        target: AtomicUsize::new(0),
        dropped: AtomicUsize::new(0),
        ran: AtomicBool::new(false),
    });
    world.set_thread_vtable(cancelling.clone()).unwrap();
    let thread = Foreign::start(&world, waits_outside_of_a_region);
    // The thread is in `pause` while this one sleeps.
    std::thread::sleep(Duration::from_millis(50));
    cancelling.dropped.store(std::ptr::from_ref(&thread.shared.dropped) as usize, Ordering::SeqCst);
    cancelling.target.store(thread.thread as usize, Ordering::SeqCst);
    collect(&world);
    assert!(!cancelling.ran.load(Ordering::SeqCst), "the cancelled thread ran in the stopped world");
    let (cancelled, shared) = thread.join();
    assert!(cancelled);
    assert_eq!(shared.dropped.load(Ordering::SeqCst), 1);
    collect(&world);
}

/// A spawned process has the signal dispositions, the signal mask, the files and the environment that it would have without a world.
#[test]
fn a_spawned_process_inherits_nothing_of_a_world() {
    fn of_a_child() -> String {
        let report = "grep -E 'Sig(Ign|Blk)' /proc/self/status; ls /proc/self/fd | head -3; ls /proc/self/fd | wc -l; env | sort";
        let mut command = Command::new("sh");
        command.args(["-c", report]);
        // SAFETY: the child does nothing; the call makes the standard library use fork and exec instead of posix_spawn.
        unsafe { command.pre_exec(|| Ok(())) };
        let output = command.output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    }
    let Some(output) = hazard::in_own_process(module_path!(), "a_spawned_process_inherits_nothing_of_a_world") else {
        let before = of_a_child();
        let world = world(By::Debugger);
        // SAFETY: every Gc is a local variable.
        let m = unsafe { world.attach("main") }.unwrap();
        m.alloc(Leaf(1_u64)).unwrap();
        m.set_finalizer(m.alloc(Leaf(2_u64)).unwrap(), |_, _| ()).unwrap();
        collect(&world);
        assert_eq!(m.blocking(of_a_child), before);
        return;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
