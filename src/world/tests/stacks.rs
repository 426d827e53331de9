//! Threads that are stopped on another stack than their own.

use super::*;

/// `.stop.own-stack`
#[test]
fn the_collecting_threads_own_stack_is_scanned() {
    let threads = threads(By::Signals);
    let info = threads.attach("collector").unwrap();
    let local = std::hint::black_box([0x0123_4567_89ab_cdefu64]);
    let found = info.with_own_stack(|own| {
        let mut budget = budget(60_000);
        let locks = threads.lock_for_stop(&mut budget).unwrap();
        let world = threads.stop(locks, Some(own), StopBy::InForce, budget).unwrap();
        let mut found = false;
        let wanted = std::hint::black_box(&local).as_ptr() as usize;
        world.scan_ranges(info, |low, high| found |= (low..high).contains(&wanted));
        found
    });
    threads.detach(info);
    assert!(found);
}

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
    // SAFETY: the signal and the handler are this test's own.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = linger as *const () as usize;
        action.sa_flags = libc::SA_ONSTACK;
        libc::sigaction(libc::SIGUSR2, &action, std::ptr::null_mut());
    }
    let worker = Worker::new(&threads, "acrobat", |_| std::thread::yield_now());
    // SAFETY: its handler was installed above.
    unsafe { thread::tgkill(worker.info.tid(), libc::SIGUSR2) }.unwrap();
    assert!(within(LONG, || ON_ALTERNATE.load(Ordering::Relaxed) != 0));
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
fn an_unregistered_stack_is_an_error_until_it_is_registered() {
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
    let unknown = || {
        std::thread::sleep(Duration::from_millis(5));
        stop_within(&threads, 10_000).err()
    };
    // The thread may not have reached that stack yet.
    let error = (0..1000).find_map(|_| unknown()).expect("the stack is unknown");
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
