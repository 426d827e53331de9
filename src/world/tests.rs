//! Stopping and starting real threads, without a heap.

use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rstest::rstest;

use crate::os::clock::Budget;
use crate::os::{Tid, signals, thread};
use crate::sync::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use super::error::{SilenceReason, StopError};
use super::registry::{Threads, Vtable};
use super::safepoints::SafepointStopper;
use super::signals::SignalStopper;
use super::stop::StoppedWorld;
use super::stop_info::ThreadStopInfo;
use super::vtable::{StopRequest, ThreadVtable};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum By {
    Signals,
    Safepoints,
}

pub(crate) fn vtable(by: By) -> Vtable {
    match by {
        By::Signals => Arc::new(SignalStopper::new(signals::DEFAULT).unwrap()),
        By::Safepoints => Arc::new(SafepointStopper),
    }
}

pub(crate) fn threads(by: By) -> Arc<Threads> {
    crate::sabotage::choose();
    Threads::new(vtable(by)).unwrap()
}

pub(crate) fn budget(ms: u64) -> Budget {
    Budget::new(Duration::from_millis(ms))
}

/// One stop by a thread that is not attached.
pub(crate) fn stop_within(threads: &Threads, ms: u64) -> Result<StoppedWorld<'_>, StopError> {
    let mut budget = budget(ms);
    let locks = threads.lock_for_stop(&mut budget)?;
    threads.stop(locks, None, budget)
}

pub(crate) fn stop(threads: &Threads) -> StoppedWorld<'_> {
    stop_within(threads, 20_000).unwrap()
}

/// A thread that is attached and does `work` again and again until it is told to end.
pub(crate) struct Worker {
    pub(crate) info: &'static ThreadStopInfo,
    pub(crate) count: Arc<AtomicU64>,
    end: Arc<AtomicBool>,
    handle: Option<JoinHandle<()>>,
}

impl Worker {
    pub(crate) fn new(
        threads: &Arc<Threads>,
        name: &str,
        work: impl Fn(&'static ThreadStopInfo) + Send + 'static,
    ) -> Self {
        let count = Arc::new(AtomicU64::new(0));
        let end = Arc::new(AtomicBool::new(false));
        let (tell, told) = mpsc::channel();
        let handle = {
            let (threads, name, count, end) = (Arc::clone(threads), name.to_owned(), count.clone(), end.clone());
            std::thread::spawn(move || {
                let info = threads.attach(&name).unwrap();
                tell.send(info).unwrap();
                while !end.load(Ordering::Relaxed) {
                    count.fetch_add(1, Ordering::Relaxed);
                    work(info);
                }
                threads.detach(info);
            })
        };
        Self { info: told.recv().unwrap(), count, end, handle: Some(handle) }
    }

    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    pub(crate) fn runs(&self) -> bool {
        let before = self.count();
        within(Duration::from_secs(10), || self.count() > before + 1)
    }

    pub(crate) fn stands(&self) -> bool {
        let before = self.count();
        std::thread::sleep(Duration::from_millis(30));
        self.count() == before
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        if let Some(handle) = self.handle.take()
            && !std::thread::panicking()
        {
            handle.join().unwrap();
        }
    }
}

pub(crate) fn within(time: Duration, holds: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    while !holds() {
        if start.elapsed() > time {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

fn sleep_in_region(info: &ThreadStopInfo) {
    info.blocking(|| std::thread::sleep(Duration::from_millis(1)));
}

pub(crate) fn spin(info: &ThreadStopInfo) {
    info.safepoint();
}

#[rstest]
fn stopped_threads_stand_still_and_go_on_after_the_start(
    #[values(By::Signals, By::Safepoints)] by: By,
    #[values(1, 4)] n: usize,
    #[values(spin as fn(&ThreadStopInfo), sleep_in_region)] work: fn(&ThreadStopInfo),
) {
    let threads = threads(by);
    let workers: Vec<_> =
        (0..n).map(|i| Worker::new(&threads, &format!("worker-{i}"), move |info| work(info))).collect();
    for round in 0..50 {
        let world = stop(&threads);
        assert_eq!(world.live().len(), n);
        let before: Vec<_> = workers.iter().map(Worker::count).collect();
        for worker in &workers {
            let mut covered = 0;
            world.scan_ranges(worker.info, |low, high| covered += high - low);
            assert!(covered > 0);
        }
        if round % 10 == 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
        // A thread in a blocking region may go on in its region (it counts outside of it).
        if work as usize == spin as *const () as usize {
            assert_eq!(before, workers.iter().map(Worker::count).collect::<Vec<_>>());
        }
        world.start();
    }
    assert!(workers.iter().all(Worker::runs));
    drop(workers);
    assert_eq!(stop(&threads).live().len(), 0);
}

/// `.stop.blocking`
#[rstest]
fn a_thread_can_not_leave_a_blocking_region_into_a_stopped_world(#[values(By::Signals, By::Safepoints)] by: By) {
    let threads = threads(by);
    let worker = Worker::new(&threads, "blocker", sleep_in_region);
    for _ in 0..20 {
        let world = stop(&threads);
        assert!(worker.stands());
        world.start();
    }
    assert!(worker.runs());
}

/// `.stop.lost`
#[test]
fn a_thread_that_masks_the_signal_is_named_and_stops_when_it_unmasks_it() {
    let threads = threads(By::Signals);
    let masked = Arc::new(AtomicBool::new(true));
    let wish = masked.clone();
    let worker = Worker::new(&threads, "masked-one", move |_| {
        if wish.load(Ordering::Relaxed) {
            if !signals::is_blocked(signals::DEFAULT) {
                std::mem::forget(signals::block(signals::DEFAULT));
            }
        } else {
            signals::unblock(signals::DEFAULT);
        }
    });
    let other = Worker::new(&threads, "innocent", spin);
    assert!(within(Duration::from_secs(5), || worker.count() > 2));
    let error = stop_within(&threads, 200).err().expect("the thread can't have stopped");
    let StopError::Unanswered { threads: silent, of, .. } = &error else { panic!("{error}") };
    assert_eq!((silent.len(), *of), (1, 2), "{error}");
    assert_eq!(silent[0].tid, worker.info.tid());
    assert_eq!(silent[0].reason, SilenceReason::MasksSignal { signal: signals::DEFAULT });
    assert!(error.to_string().contains("masked-one"), "{error}");
    assert!(worker.runs() && other.runs(), "the world does not run on");
    masked.store(false, Ordering::Relaxed);
    assert!(worker.runs());
    let world = stop(&threads);
    assert!(worker.stands() && other.stands());
    world.start();
}

/// `.stop.late`: the signal of the stop that was abandoned arrives when the thread unmasks it.
#[test]
fn a_late_signal_stops_nobody() {
    let threads = threads(By::Signals);
    let masked = Arc::new(AtomicBool::new(true));
    let wish = masked.clone();
    let worker = Worker::new(&threads, "late", move |_| {
        let _mask = signals::block(signals::DEFAULT);
        while wish.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
    });
    for _ in 0..5 {
        masked.store(true, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(5));
        assert!(stop_within(&threads, 60).is_err());
        masked.store(false, Ordering::Relaxed);
        assert!(worker.runs(), "the late signal has stopped the thread");
    }
}

#[test]
fn a_thread_without_safepoints_is_named_under_the_cooperative_stopper() {
    let threads = threads(By::Safepoints);
    let worker = Worker::new(&threads, "no-safepoint", |_| std::thread::yield_now());
    let error = stop_within(&threads, 100).err().expect("nothing can stop it");
    assert!(error.to_string().contains("no-safepoint") && error.to_string().contains("safepoint()"), "{error}");
    assert!(worker.runs());
}

/// `.vtable.nested`
#[rstest]
fn a_thread_stopped_by_the_user_stays_stopped_after_a_collection(#[values(By::Signals, By::Safepoints)] by: By) {
    let threads = threads(by);
    let frozen = Worker::new(&threads, "frozen", spin);
    let free = Worker::new(&threads, "free", spin);
    threads.suspend(frozen.info.tid(), budget(10_000)).unwrap();
    for _ in 0..3 {
        let world = stop(&threads);
        assert_ne!(frozen.info.stack_ptr(), 0);
        assert!(frozen.stands() && free.stands());
        world.start();
        assert!(frozen.stands(), "the collection's start has let the user's thread go");
        assert!(free.runs());
    }
    assert!(threads.resume(frozen.info.tid()));
    assert!(!threads.resume(frozen.info.tid()));
    assert!(frozen.runs());
}

#[test]
fn a_thread_that_the_user_suspends_during_a_stop_stays_stopped() {
    let threads = threads(By::Signals);
    let worker = Worker::new(&threads, "worker", spin);
    let world = stop(&threads);
    let tid = worker.info.tid();
    // The lists are locked now: a user's suspension waits for the collection.
    let suspender = {
        let threads = threads.clone();
        std::thread::spawn(move || threads.suspend(tid, budget(10_000)))
    };
    world.start();
    suspender.join().unwrap().unwrap();
    assert!(worker.stands());
    threads.resume(tid);
    assert!(worker.runs());
}

/// `.vtable.swap`
#[test]
fn the_vtable_can_be_swapped_while_collections_run() {
    let threads = threads(By::Signals);
    let workers: Vec<_> = (0..3).map(|i| Worker::new(&threads, &format!("w{i}"), spin)).collect();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                stop(&threads).start();
            }
        });
        for i in 0..60 {
            let by = if i % 2 == 0 { By::Safepoints } else { By::Signals };
            let outgoing = threads.set_vtable(vtable(by), budget(20_000)).unwrap();
            assert_ne!(outgoing.name(), vtable(by).name());
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(workers.iter().all(Worker::runs));
}

/// A vtable that stops nobody and writes whatever it is told to.
struct Liar(usize);

// SAFETY: it is not safe, that is the test: the wrapper must not believe it.
unsafe impl ThreadVtable for Liar {
    fn name(&self) -> &'static str {
        "liar"
    }
    fn stop_world(&self, stop: &StopRequest<'_>) -> Result<(), StopError> {
        for thread in stop.threads() {
            // SAFETY: a slot of a living thread.
            unsafe { *thread.slot() = self.0 };
        }
        Ok(())
    }
    fn start_world(&self, _: &StopRequest<'_>) {}
}

#[rstest]
#[case::empty(0)]
#[case::elsewhere(0x1000)]
fn a_slot_that_is_empty_or_points_nowhere_is_an_error_and_the_world_goes_on(#[case] slot: usize) {
    let threads = threads(By::Signals);
    let worker = Worker::new(&threads, "slotted", spin);
    let real = threads.set_vtable(Arc::new(Liar(slot)), budget(1000)).unwrap();
    let error = stop_within(&threads, 1000).err().expect("the slot is wrong");
    match (slot, &error) {
        (0, StopError::NoStackPointer { name, .. }) => assert_eq!(name.as_str(), "slotted"),
        (0x1000, StopError::UnknownStack { stack_ptr, .. }) => assert_eq!(*stack_ptr, 0x1000),
        _ => panic!("{error}"),
    }
    assert!(worker.runs());
    threads.set_vtable(real, budget(1000)).unwrap();
    stop(&threads).start();
}

/// What a vtable is told.
#[derive(Default)]
struct Listener {
    told: std::sync::Mutex<Vec<(&'static str, Tid, usize)>>,
}

// SAFETY: never stops anything in these tests.
unsafe impl ThreadVtable for Listener {
    fn name(&self) -> &'static str {
        "listener"
    }
    fn stop_world(&self, _: &StopRequest<'_>) -> Result<(), StopError> {
        Err(StopError::Vtable { stopper: "listener", what: "it only listens".into() })
    }
    fn start_world(&self, _: &StopRequest<'_>) {}
    fn thread_created(&self, tid: Tid, slot: *mut usize) {
        self.told.lock().unwrap().push(("created", tid, slot as usize));
    }
    fn thread_exited(&self, tid: Tid, slot: *mut usize) {
        // SAFETY: `.vtable.exited-before-free`: the record is still this thread's.
        let whole = unsafe { ThreadStopInfo::of_slot(slot) }.tid() == tid;
        let owned = std::ptr::eq(super::handler::TABLE.find(tid), unsafe { ThreadStopInfo::of_slot(slot) });
        let what = if whole && owned { "exited" } else { "exited after its record was freed" };
        self.told.lock().unwrap().push((what, tid, slot as usize));
    }
}

/// `.vtable.attach`, `.vtable.exited-before-free`
#[test]
fn a_vtable_hears_of_every_thread_when_it_comes_when_they_come_and_when_they_go() {
    let threads = threads(By::Signals);
    let early = Worker::new(&threads, "early", spin);
    let listener = Arc::new(Listener::default());
    let signals = threads.set_vtable(listener.clone(), budget(1000)).unwrap();
    let late = Worker::new(&threads, "late", spin);
    let (early_tid, early_slot) = (early.info.tid(), early.info.slot() as usize);
    let (late_tid, late_slot) = (late.info.tid(), late.info.slot() as usize);
    drop(late);
    threads.set_vtable(signals, budget(1000)).unwrap();
    let told = listener.told.lock().unwrap().clone();
    assert_eq!(
        told,
        [
            ("created", early_tid, early_slot),
            ("created", late_tid, late_slot),
            ("exited", late_tid, late_slot),
            ("exited", early_tid, early_slot),
        ]
    );
    assert!(early.runs());
}

/// `.stop.exit-race`
#[test]
fn a_thread_that_ends_without_detaching_is_detached() {
    let threads = threads(By::Signals);
    for _ in 0..20 {
        let threads = threads.clone();
        std::thread::spawn(move || threads.attach("forgetful").map(|info| info.tid())).join().unwrap().unwrap();
    }
    // join returns when the Rust part is over; libc's destructors have run by then, too.
    assert_eq!(stop(&threads).live().len(), 0);
    assert_eq!(Arc::strong_count(&threads), 1);
}

/// `.stop.exit-race`
#[test]
fn a_thread_that_ends_without_a_word_is_buried() {
    let threads = threads(By::Signals);
    let (tell, told) = mpsc::channel();
    let inner = threads.clone();
    std::thread::spawn(move || {
        let info = inner.attach("silent death").unwrap();
        tell.send(info.tid()).unwrap();
        drop((inner, tell));
        // SAFETY: ends this thread alone, without any destructor: exactly what the test is about.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
    });
    let tid = told.recv().unwrap();
    assert!(within(Duration::from_secs(5), || !thread::is_alive(tid)));
    stop(&threads).start();
    assert_eq!(stop(&threads).live().len(), 0);
    assert_eq!(Arc::strong_count(&threads), 1);
}

/// `.stop.create-race`, `.stop.exit-race`
#[rstest]
fn threads_are_born_and_die_while_the_world_is_stopped_again_and_again(#[values(By::Signals, By::Safepoints)] by: By) {
    let threads = threads(by);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for i in 0..3 {
            let (threads, done) = (&threads, &done);
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    let threads = threads.clone();
                    std::thread::spawn(move || {
                        let info = threads.attach(&format!("child of {i}")).unwrap();
                        info.safepoint();
                        if i != 0 {
                            threads.detach(info);
                        }
                    })
                    .join()
                    .unwrap();
                }
            });
        }
        for _ in 0..300 {
            let world = stop(&threads);
            for info in world.live() {
                assert_ne!(info.stack_ptr(), 0);
                world.scan_ranges(info, |low, high| {
                    // SAFETY: the claim: what is to be scanned can be read.
                    unsafe { std::ptr::read_volatile(low as *const usize) };
                    assert!(low < high);
                });
            }
            world.start();
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(stop(&threads).live().len(), 0);
}

/// `.stop.two-collectors`
#[rstest]
fn attached_threads_that_collect_at_once_take_turns(#[values(By::Signals, By::Safepoints)] by: By) {
    let threads = threads(by);
    let inside = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for i in 0..3 {
            let (threads, inside) = (&threads, &inside);
            scope.spawn(move || {
                let info = threads.attach(&format!("collector-{i}")).unwrap();
                for _ in 0..100 {
                    info.with_own_stack(|own| {
                        let mut budget = budget(5_000);
                        let locks = threads.lock_for_stop(&mut budget).unwrap();
                        let world = threads.stop(locks, Some(own), budget).unwrap();
                        assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0);
                        assert_ne!(info.stack_ptr(), 0);
                        inside.fetch_sub(1, Ordering::Relaxed);
                        world.start();
                    });
                }
                threads.detach(info);
            });
        }
    });
}

/// `.stop.own-stack`
#[test]
fn the_collecting_threads_own_stack_is_scanned() {
    let threads = threads(By::Signals);
    let info = threads.attach("collector").unwrap();
    let local = std::hint::black_box([0x0123_4567_89ab_cdefu64]);
    let found = info.with_own_stack(|own| {
        let mut budget = budget(5_000);
        let locks = threads.lock_for_stop(&mut budget).unwrap();
        let world = threads.stop(locks, Some(own), budget).unwrap();
        let mut found = false;
        let wanted = std::hint::black_box(&local).as_ptr() as usize;
        world.scan_ranges(info, |low, high| found |= (low..high).contains(&wanted));
        found
    });
    threads.detach(info);
    assert!(found);
}

/// `.debug.frozen-owner`
#[test]
fn the_holder_of_a_lock_that_is_not_let_go_is_named() {
    let threads = threads(By::Signals);
    let hold = Arc::new(AtomicBool::new(true));
    let wish = hold.clone();
    let inner = threads.clone();
    let (tell, told) = mpsc::channel();
    let worker = Worker::new(&threads, "lock owner", move |_| {
        if wish.load(Ordering::Relaxed) {
            let _held = inner.locks().allocation.lock();
            let _ = tell.send(());
            while wish.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
        }
    });
    told.recv().unwrap();
    let error = stop_within(&threads, 100).err().expect("the lock is held");
    let StopError::LockHeld { lock, holder, .. } = &error else { panic!("{error}") };
    assert_eq!((*lock, holder.tid), ("allocation", worker.info.tid()));
    assert!(error.to_string().contains("lock owner"), "{error}");
    hold.store(false, Ordering::Relaxed);
    stop(&threads).start();
}

mod places {
    //! `.stop.registers`: where a stopped thread may keep its only reference.

    use super::*;

    /// Spins until `end`, with the word in one place only. The word is passed inverted, so that the caller's copies are
    /// not it.
    macro_rules! keeper {
        ($name:ident, $clobber:literal, [$($load:literal),*], [$($clear:literal),*]) => {
            #[unsafe(naked)]
            extern "C" fn $name(inverted: u64, end: *const AtomicBool) {
                std::arch::naked_asm!(
                    "push rbx", "push r12", "push r13", "push r14", "push r15",
                    "not rdi",
                    $($load,)*
                    "xor edi, edi",
                    "2:", "cmp byte ptr [rsi], 0", "je 2b",
                    $($clear,)*
                    "pop r15", "pop r14", "pop r13", "pop r12", "pop rbx",
                    "ret",
                )
            }
        };
    }
    keeper!(rbx, "rbx", ["mov rbx, rdi"], []);
    keeper!(r12, "r12", ["mov r12, rdi"], []);
    keeper!(r13, "r13", ["mov r13, rdi"], []);
    keeper!(r14, "r14", ["mov r14, rdi"], []);
    keeper!(r15, "r15", ["mov r15, rdi"], []);
    keeper!(r9, "r9", ["mov r9, rdi"], []);
    keeper!(xmm8, "xmm8", ["movq xmm8, rdi"], ["pxor xmm8, xmm8"]);
    keeper!(
        ymm9_high,
        "ymm9",
        [
            "vmovq xmm9, rdi",
            "vinsertf128 ymm9, ymm9, xmm9, 1",
            "vextractf128 xmm10, ymm9, 1",
            "vpxor xmm11, xmm11, xmm11",
            "vinsertf128 ymm9, ymm11, xmm10, 1",
            "vpxor xmm10, xmm10, xmm10"
        ],
        ["vzeroall"]
    );
    keeper!(red_zone_near, "", ["mov [rsp - 8], rdi"], ["mov qword ptr [rsp - 8], 0"]);
    keeper!(red_zone_far, "", ["mov [rsp - 128], rdi"], ["mov qword ptr [rsp - 128], 0"]);

    pub(crate) type Keeper = extern "C" fn(u64, *const AtomicBool);

    /// Runs a keeper on an attached thread, stops the world by what `threads` has in force, and looks for the word.
    pub(crate) fn is_found(threads: &Arc<Threads>, keeper: Keeper) -> bool {
        let word = 0x5709_0000_0000_0000_u64 | keeper as usize as u64;
        let inverted = !word;
        let end = Arc::new(AtomicBool::new(false));
        let (tell, told) = mpsc::channel();
        let handle = {
            let (threads, end) = (threads.clone(), end.clone());
            std::thread::spawn(move || {
                let info = threads.attach("keeper").unwrap();
                tell.send(info).unwrap();
                keeper(inverted, Arc::as_ptr(&end));
                threads.detach(info);
            })
        };
        let info = told.recv().unwrap();
        std::thread::sleep(Duration::from_millis(20));
        let world = stop(threads);
        let mut found = false;
        world.scan_ranges(info, |low, high| {
            for address in (low..high).step_by(8) {
                // SAFETY: a range of a stopped thread.
                found |= unsafe { std::ptr::read_volatile(address as *const u64) } == word;
            }
        });
        world.start();
        end.store(true, Ordering::Relaxed);
        handle.join().unwrap();
        found
    }

    #[rstest]
    pub(crate) fn a_word_that_only_a_register_or_the_red_zone_holds_is_scanned(
        #[values(rbx, r12, r13, r14, r15, r9, xmm8, red_zone_near, red_zone_far)] keeper: Keeper,
    ) {
        assert!(is_found(&threads(By::Signals), keeper));
    }

    #[test]
    fn a_word_in_the_upper_half_of_a_ymm_register_is_scanned() {
        if std::arch::is_x86_feature_detected!("avx") {
            assert!(is_found(&threads(By::Signals), ymm9_high));
        }
    }

    pub(crate) const ALL: [Keeper; 9] = [rbx, r12, r13, r14, r15, r9, xmm8, red_zone_near, red_zone_far];
}
pub(crate) use places::{ALL as KEEPERS, is_found};

static ON_ALTERNATE: AtomicUsize = AtomicUsize::new(0);
static LEAVE_ALTERNATE: AtomicBool = AtomicBool::new(false);

extern "C" fn linger(_: i32) {
    let local = 0u8;
    ON_ALTERNATE.store(std::ptr::from_ref(&local) as usize, Ordering::Relaxed);
    while !LEAVE_ALTERNATE.load(Ordering::Relaxed) {
        std::hint::spin_loop();
    }
}

/// `.stop.altstack`
#[test]
fn of_a_thread_on_its_alternate_stack_both_stacks_are_scanned() {
    let threads = threads(By::Signals);
    // SAFETY: the test's own signal and handler.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = linger as *const () as usize;
        action.sa_flags = libc::SA_ONSTACK;
        libc::sigaction(libc::SIGUSR2, &action, std::ptr::null_mut());
    }
    let worker = Worker::new(&threads, "acrobat", |_| std::thread::yield_now());
    thread::tgkill(worker.info.tid(), libc::SIGUSR2).unwrap();
    assert!(within(Duration::from_secs(5), || ON_ALTERNATE.load(Ordering::Relaxed) != 0));
    let world = stop(&threads);
    let mut ranges = Vec::new();
    world.scan_ranges(worker.info, |low, high| ranges.push((low, high)));
    world.start();
    LEAVE_ALTERNATE.store(true, Ordering::Relaxed);
    let on_alternate = ON_ALTERNATE.load(Ordering::Relaxed);
    let (low, high) = worker.info.stack();
    assert!(!(low..high).contains(&on_alternate));
    assert!(ranges.iter().any(|(low, high)| (*low..*high).contains(&on_alternate)), "{ranges:x?}");
    assert!(ranges.contains(&(low, high)), "{ranges:x?}");
    assert!(worker.runs());
}

/// `.stop.coroutine`
#[test]
fn a_stack_that_nobody_registered_is_an_error_until_it_is_registered() {
    let threads = threads(By::Signals);
    const SIZE: usize = 256 << 10;
    let stack = crate::os::memory::map_anonymous(SIZE).unwrap() as usize;
    let top = stack + SIZE;

    /// Calls `f(arg)` on another stack.
    #[unsafe(naked)]
    extern "C" fn on_stack(top: usize, f: extern "C" fn(*const AtomicBool), arg: *const AtomicBool) {
        std::arch::naked_asm!(
            "push rbx",
            "mov rbx, rsp",
            "mov rsp, rdi",
            "mov rdi, rdx",
            "call rsi",
            "mov rsp, rbx",
            "pop rbx",
            "ret"
        )
    }
    extern "C" fn wait(end: *const AtomicBool) {
        // SAFETY: outlives the call.
        while !unsafe { &*end }.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    }
    let end = Arc::new(AtomicBool::new(false));
    let wish = end.clone();
    let worker = Worker::new(&threads, "coroutine", move |_| on_stack(top, wait, Arc::as_ptr(&wish)));
    std::thread::sleep(Duration::from_millis(20));
    let error = stop_within(&threads, 2000).err().expect("the stack is unknown");
    assert!(matches!(error, StopError::UnknownStack { .. }), "{error}");
    assert!(error.to_string().contains("register_stack"), "{error}");
    let id = threads.register_stack(stack, top);
    let world = stop(&threads);
    let mut ranges = Vec::new();
    world.scan_ranges(worker.info, |low, high| ranges.push((low, high)));
    world.scan_registered_stacks(|low, high| ranges.push((low, high)));
    assert_eq!(ranges, [worker.info.stack(), (stack, top)]);
    world.start();
    threads.unregister_stack(id);
    end.store(true, Ordering::Relaxed);
    assert!(worker.runs());
}

/// `.stop.errno`
#[test]
fn errno_is_what_it_was_even_if_a_chained_handler_spoils_it() {
    extern "C" fn spoil(_: i32) {
        CHAINED.fetch_add(1, Ordering::Relaxed);
        nix::errno::Errno::set_raw(libc::EOVERFLOW);
    }
    static CHAINED: AtomicUsize = AtomicUsize::new(0);
    let threads = threads(By::Signals);
    let _spoiler = super::handler::chain_to(spoil);
    let info = threads.attach("errno").unwrap();
    nix::errno::Errno::set_raw(libc::E2BIG);
    // Nobody owes us this signal: it is the program's own, and goes to the program's handler.
    // SAFETY: a signal to ourselves, by the bare system call: our own wrapper would preserve errno, too.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread::gettid().0, signals::DEFAULT) };
    let errno = nix::errno::Errno::last_raw();
    threads.detach(info);
    assert!(CHAINED.load(Ordering::Relaxed) >= 1, "a foreign signal was not passed on");
    assert_eq!(errno, libc::E2BIG);
}

/// `.stop.eintr`
#[test]
fn a_read_that_a_stop_interrupts_goes_on() {
    let threads = threads(By::Signals);
    let (mut reader, mut writer) = std::io::pipe().unwrap();
    let (tell, told) = mpsc::channel();
    let inner = threads.clone();
    let handle = std::thread::spawn(move || {
        let info = inner.attach("reader").unwrap();
        tell.send(()).unwrap();
        let mut byte = [0u8];
        let result = std::io::Read::read(&mut reader, &mut byte).map(|n| (n, byte[0]));
        inner.detach(info);
        result
    });
    told.recv().unwrap();
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(1));
        stop(&threads).start();
    }
    std::io::Write::write_all(&mut writer, b"x").unwrap();
    assert_eq!(handle.join().unwrap().unwrap(), (1, b'x'));
}

/// `.stop.fork`
#[rstest]
fn the_child_of_a_fork_has_one_thread_and_stops_its_world(
    #[values(By::Signals, By::Safepoints)] by: By,
    #[values(true, false)] from_attached: bool,
) {
    let threads = threads(by);
    let _workers: Vec<_> = (0..3).map(|i| Worker::new(&threads, &format!("w{i}"), spin)).collect();
    for _ in 0..10 {
        let own = from_attached.then(|| threads.attach("forker").unwrap());
        // SAFETY: the child calls only what the test is about, then _exit.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            // SAFETY: a deadlock ends by SIGALRM.
            unsafe { libc::alarm(20) };
            let code = std::panic::catch_unwind(|| child_of_fork(&threads, own)).unwrap_or(99);
            // SAFETY: leaves without running the parent's destructors.
            unsafe { libc::_exit(code) };
        }
        let mut status = 0;
        // SAFETY: our own child.
        assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "status {status:#x}");
        if let Some(own) = own {
            threads.detach(own);
        }
        stop(&threads).start();
    }
}

fn child_of_fork(threads: &Arc<Threads>, own: Option<&'static ThreadStopInfo>) -> i32 {
    let expected = usize::from(own.is_some());
    if threads.with_live(<[_]>::len) != expected {
        return 1;
    }
    if own.is_some_and(|own| own.tid() != thread::gettid()) {
        return 2;
    }
    // A thread of the child, stopped by the child.
    let worker = Worker::new(threads, "grandchild", spin);
    for _ in 0..5 {
        let collected = match own {
            Some(own) => own.with_own_stack(|own| {
                let mut budget = budget(10_000);
                let locks = threads.lock_for_stop(&mut budget)?;
                threads.stop(locks, Some(own), budget).map(|world| world.live().len())
            }),
            None => stop_within(threads, 10_000).map(|world| world.live().len()),
        };
        if !matches!(collected, Ok(n) if n == expected + 1) {
            return 3;
        }
    }
    if !worker.runs() {
        return 4;
    }
    drop(worker);
    0
}

/// `.stop.lost`: what a user meets when a debugger holds a thread.
#[test]
fn a_thread_held_by_a_debugger_is_named_with_the_debuggers_pid() {
    let threads = threads(By::Signals);
    let worker = Worker::new(&threads, "at a breakpoint", spin);
    let tid = worker.info.tid().0;
    let (mut ready, tell) = std::io::pipe().unwrap();
    let (hear, go) = std::io::pipe().unwrap();
    // SAFETY: the child only makes system calls, then _exit.
    let tracer = unsafe { libc::fork() };
    if tracer == 0 {
        use std::os::fd::AsRawFd;
        // SAFETY: plain system calls of a tracer.
        unsafe {
            libc::alarm(30);
            let held = libc::ptrace(libc::PTRACE_SEIZE, tid, 0, 0) == 0
                && libc::ptrace(libc::PTRACE_INTERRUPT, tid, 0, 0) == 0
                && libc::waitpid(tid, &mut 0, libc::__WALL) == tid;
            libc::write(tell.as_raw_fd(), [u8::from(held)].as_ptr().cast(), 1);
            libc::read(hear.as_raw_fd(), [0u8].as_mut_ptr().cast(), 1);
            libc::ptrace(libc::PTRACE_DETACH, tid, 0, 0);
            libc::_exit(0);
        }
    }
    let mut held = [0u8];
    std::io::Read::read_exact(&mut ready, &mut held).unwrap();
    let outcome = (held[0] == 1).then(|| stop_within(&threads, 200).err());
    std::io::Write::write_all(&mut { go }, b"x").unwrap();
    // SAFETY: our own child.
    unsafe { libc::waitpid(tracer, &mut 0, 0) };
    let Some(error) = outcome else { return eprintln!("ptrace is not allowed here: nothing tested") };
    let error = error.expect("the thread was held");
    let StopError::Unanswered { threads: silent, .. } = &error else { panic!("{error}") };
    assert_eq!(silent[0].reason, SilenceReason::HeldByDebugger { tracer });
    assert!(worker.runs());
    stop(&threads).start();
}

/// `.stop.lost`: a thread inside vfork sleeps where no signal reaches it until its child execs or ends.
#[test]
fn a_thread_in_vfork_is_waited_for_or_named() {
    extern "C" fn child(_: *mut libc::c_void) -> i32 {
        let pause = libc::timespec { tv_sec: 0, tv_nsec: 400_000_000 };
        // SAFETY: a plain system call, in a child that shares our memory and touches nothing of it.
        unsafe { libc::nanosleep(&pause, std::ptr::null_mut()) };
        0
    }
    let threads = threads(By::Signals);
    let worker = Worker::new(&threads, "vforker", |_| {
        const SIZE: usize = 64 << 10;
        let stack = crate::os::memory::map_anonymous(SIZE).unwrap();
        // SAFETY: what vfork does: the child runs on a stack of its own, and we sleep until it ends.
        unsafe {
            let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
            let pid = libc::clone(child, stack.add(SIZE).cast(), flags, std::ptr::null_mut());
            libc::waitpid(pid, &mut 0, 0);
            crate::os::memory::unmap(stack, SIZE);
        }
    });
    std::thread::sleep(Duration::from_millis(100));
    let error = stop_within(&threads, 100).err().expect("the child sleeps longer");
    let StopError::Unanswered { threads: silent, .. } = &error else { panic!("{error}") };
    assert_eq!(silent[0].reason, SilenceReason::Uninterruptible, "{error}");
    // With time, it is waited for.
    stop(&threads).start();
    assert!(worker.runs());
}

/// The others are in blocking regions: only one has to be waited for.
#[test]
fn the_slowest_thread_is_named() {
    let threads = threads(By::Safepoints);
    let _quick = Worker::new(&threads, "quick", |info| {
        info.blocking(|| std::thread::sleep(Duration::from_millis(5)));
    });
    let _slow = Worker::new(&threads, "slow", |info| {
        info.safepoint();
        std::thread::sleep(Duration::from_millis(50));
    });
    std::thread::sleep(Duration::from_millis(5));
    let slowest = (0..3)
        .filter_map(|_| stop(&threads).census().slowest)
        .max_by_key(|slowest| slowest.ns)
        .expect("somebody was waited for");
    assert_eq!(slowest.name.as_str(), "slow");
}

#[test]
fn a_thread_belongs_to_one_world_at_a_time() {
    let (one, two) = (threads(By::Signals), threads(By::Safepoints));
    let info = one.attach("first").unwrap();
    assert!(two.attach("second").unwrap_err().to_string().contains("first"));
    one.detach(info);
    let info = two.attach("second").unwrap();
    two.detach(info);
}

#[test]
fn a_second_suspend_signal_is_refused() {
    drop(threads(By::Signals));
    let error = SignalStopper::new(libc::SIGWINCH).unwrap_err();
    assert!(error.to_string().contains("SIGURG") && error.to_string().contains("SIGWINCH"), "{error}");
    assert!(SignalStopper::new(libc::SIGKILL).is_err());
    assert!(SignalStopper::new(0).is_err());
}

/// The claim that blocking regions are cheap, loosely (the bench measures it): far below a signal's microseconds.
#[test]
fn threads_in_blocking_regions_cost_next_to_nothing() {
    let threads = threads(By::Signals);
    let end = Arc::new((std::sync::Mutex::new(false), std::sync::Condvar::new()));
    let (tell, told) = mpsc::channel();
    let handles: Vec<_> = (0..128)
        .map(|i| {
            let (threads, end, tell) = (threads.clone(), end.clone(), tell.clone());
            std::thread::Builder::new()
                .stack_size(64 << 10)
                .spawn(move || {
                    let info = threads.attach(&format!("idle-{i}")).unwrap();
                    info.blocking(|| {
                        tell.send(()).unwrap();
                        drop(end.1.wait_while(end.0.lock().unwrap(), |end| !*end).unwrap());
                    });
                    threads.detach(info);
                })
                .unwrap()
        })
        .collect();
    (0..128).for_each(|_| told.recv().unwrap());
    std::thread::sleep(Duration::from_millis(50));
    let mut best = u64::MAX;
    for _ in 0..200 {
        let mut budget = budget(10_000);
        let locks = threads.lock_for_stop(&mut budget).unwrap();
        let start = crate::os::clock::now_ns();
        let world = threads.stop(locks, None, budget).unwrap();
        world.start();
        best = best.min(crate::os::clock::now_ns() - start);
    }
    *end.0.lock().unwrap() = true;
    end.1.notify_all();
    handles.into_iter().for_each(|handle| handle.join().unwrap());
    eprintln!("stop and start of 128 threads in blocking regions: {} ns each", best / 128);
    assert!(best / 128 < 1000, "{} ns per thread", best / 128);
}
