//! `.promise.search` at its limits: many references, memory that cannot be read, threads that may not panic, forks.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;

use rstest::rstest;
use stopworld::check::CheckPromise;
use stopworld::untyped::Binding;
use stopworld::{Gc, Mutator, World};

use super::hazard::{By, build, builder};
use super::{Reports, attached, hide, node};

/// Hides references to this many objects in one block.
fn hide_many(world: &World, count: u64) -> Box<[usize]> {
    attached(world, |m| (0..count).map(|number| Gc::addr(node(m, number, None))).collect())
}

fn panics(world: &World) -> bool {
    catch_unwind(AssertUnwindSafe(|| _ = world.collect().unwrap())).is_err()
}

/// A search notes 4096 words. The next one notes the next.
#[test]
fn references_beyond_those_that_a_search_notes_are_reported_by_the_next_collections() {
    let reports = Reports::default();
    let world = build(builder().check_promise(reports.of(CheckPromise::keep())), By::Signals);
    let many = hide_many(&world, 5000);
    let mut reported = Vec::new();
    for expected in [4096, 904, 0] {
        let live = world.collect().unwrap().live_objects;
        assert_eq!(live, 5000, "each object is kept, also if its word is not noted");
        let reports = reports.take();
        assert_eq!(reports.len(), expected);
        // Inverted: the addresses themselves would be hidden references.
        reported.extend(reports.iter().map(|report| !report.object_address()));
    }
    reported.sort_unstable();
    let mut hidden: Vec<usize> = many.iter().map(|address| !address).collect();
    hidden.sort_unstable();
    assert!(reported == hidden, "each object is reported once");
    let later = attached(&world, |m| hide(m, 7));
    world.collect().unwrap();
    assert_eq!(reports.take().len(), 1, "a later mistake is reported");
    drop((many, later));
}

#[test]
fn more_references_than_a_search_notes_are_a_panic_also_if_those_that_it_notes_are_suppressed() {
    let world = build(builder().check_promise(CheckPromise::panic().suppress("hide_many")), By::Signals);
    let many = hide_many(&world, 5000);
    assert!(panics(&world), "904 references are not known");
    assert!(!panics(&world), "all are suppressed");
    let later = attached(&world, |m| hide(m, 7));
    assert!(panics(&world), "a later mistake");
    drop((many, later));
}

/// All memory is searched before the first object is kept, however small the mark stack is.
#[test]
fn an_object_that_a_kept_object_refers_to_is_reported_if_it_has_a_word_of_its_own() {
    let reports = Reports::default();
    let settings = builder().mark_stack_limit(64 << 10).check_promise(reports.of(CheckPromise::keep()));
    let world = build(settings, By::Signals);
    let chain: Vec<usize> = attached(&world, |m| {
        let mut last = None;
        let mut link = |number| {
            let object = node(m, number, last);
            last = Some(object);
            Gc::addr(object)
        };
        let mut chain: Vec<usize> = (0..20_000).map(&mut link).collect();
        // The first word that the search finds refers to the object that reaches all others.
        chain.reverse();
        chain
    });
    let mut reported = 0;
    for _ in 0..6 {
        assert_eq!(world.collect().unwrap().live_objects, 20_000);
        reported += reports.take().len();
    }
    assert_eq!(reported, 20_000);
    drop(chain);
}

#[test]
fn a_panic_comes_after_the_listener_and_also_if_no_reference_is_printed() {
    let collections = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&collections);
    let settings = builder()
        .check_promise(CheckPromise::panic().most_reports(0))
        .on_collection(move |_| _ = counter.fetch_add(1, Ordering::Relaxed));
    let world = build(settings, By::Signals);
    let hidden = attached(&world, |m| hide(m, 7));
    assert!(panics(&world));
    assert_eq!(collections.load(Ordering::Relaxed), 1);
    assert!(!panics(&world), "the word was counted before");
    drop(hidden);
}

/// A panic would end the thread for ever.
#[test]
fn the_finalizer_thread_reports_and_the_next_collection_elsewhere_panics() {
    let world = build(builder().check_promise(CheckPromise::panic()), By::Signals);
    let (sender, ended) = mpsc::channel();
    let finalize = |m: &Mutator, sender: mpsc::Sender<Box<usize>>| {
        let collects = move |m: &Mutator, _| {
            let hidden = hide(m, 7);
            super::forget_the_stack();
            m.collect().unwrap();
            sender.send(hidden).unwrap();
        };
        m.set_finalizer(node(m, 1, None), collects).unwrap();
    };
    attached(&world, |m| finalize(m, sender.clone()));
    world.collect().unwrap();
    let hidden = ended.recv_timeout(std::time::Duration::from_secs(60)).expect("the finalizer has panicked");
    assert!(panics(&world), "the panic of the finalizer thread is due");
    assert!(!panics(&world));
    drop(hidden);
}

struct Nothing;

// SAFETY: it keeps nothing, and is never asked to.
unsafe impl Binding for Nothing {}

#[test]
fn a_world_with_a_binding_is_refused() {
    let settings = builder().binding(Arc::new(Nothing)).check_promise(CheckPromise::report());
    let error = settings.build().unwrap_err().to_string();
    assert!(error.starts_with("check_promise cannot be used in a world with a binding"), "{error}");
}

/// A page that cannot be read hides no other page.
#[test]
fn the_search_goes_on_after_a_page_that_cannot_be_read() {
    const PAGE: usize = 4096;
    let reports = Reports::default();
    let world = build(builder().check_promise(reports.of(CheckPromise::report())), By::Signals);
    let mut words = vec![0_usize; 100 * PAGE / 8];
    attached(&world, |m| {
        words[0] = Gc::addr(node(m, 1, None));
        *words.last_mut().unwrap() = Gc::addr(node(m, 2, None));
    });
    let page = ((&raw const words[0] as usize) + 40 * PAGE).next_multiple_of(PAGE);
    let protect = |access| {
        // SAFETY: one page in the middle of the block, which no code uses meanwhile.
        assert_eq!(unsafe { libc::mprotect(page as *mut libc::c_void, PAGE, access) }, 0);
    };
    protect(libc::PROT_NONE);
    let collected = world.collect();
    protect(libc::PROT_READ | libc::PROT_WRITE);
    collected.unwrap();
    assert_eq!(reports.take().len(), 2);
    drop(words);
}

/// Runs `work` in the child of a fork, and returns its exit status and what it has written to the standard error stream. An alarm ends a child
/// that hangs.
fn forked(work: impl FnOnce() -> bool) -> (i32, String) {
    let mut ends = [0; 2];
    // SAFETY: valid places for two descriptors.
    assert_eq!(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) }, 0);
    // SAFETY: the child uses what this library and std's allocator support after a fork, and exits.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: system calls with valid descriptors.
        unsafe {
            libc::alarm(60);
            libc::dup2(ends[1], 2);
        }
        let is_right = work();
        // SAFETY: ends the child without the destructors of its parent.
        unsafe { libc::_exit(i32::from(!is_right)) };
    }
    // SAFETY: the descriptor was opened above, and is closed once.
    unsafe { libc::close(ends[1]) };
    // SAFETY: as above; from here on the file owns it.
    let mut output = unsafe { <std::fs::File as std::os::fd::FromRawFd>::from_raw_fd(ends[0]) };
    let mut text = String::new();
    std::io::Read::read_to_string(&mut output, &mut text).unwrap();
    let mut status = 0;
    // SAFETY: a child of this process, and a valid place for its status.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    (status, text)
}

/// glibc does not reset the lock of `dl_iterate_phdr` in the child of a fork.
#[rstest]
fn a_child_does_not_wait_for_a_thread_that_was_in_the_dynamic_loader(#[values(By::Signals, By::Safepoints)] by: By) {
    extern "C" fn nothing(_: *mut libc::dl_phdr_info, _: usize, _: *mut libc::c_void) -> i32 {
        std::thread::sleep(std::time::Duration::from_millis(1));
        0
    }
    let reports = Reports::default();
    let world = build(builder().check_promise(reports.of(CheckPromise::report())), by);
    let hidden = attached(&world, |m| hide(m, 7));
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ends.load(Ordering::Relaxed) {
                // SAFETY: a function for it to call, which uses no argument.
                unsafe { libc::dl_iterate_phdr(Some(nothing), std::ptr::null_mut()) };
            }
        });
        for _ in 0..5 {
            let found = forked(|| world.collect().is_ok() && reports.take().len() == 1);
            assert_eq!(found, (0, String::new()), "the child's exit status");
        }
        ends.store(true, Ordering::Relaxed);
    });
    drop(hidden);
}

#[test]
fn a_search_that_the_system_refuses_is_reported_once() {
    let reports = Reports::default();
    let world = build(builder().check_promise(reports.of(CheckPromise::report())), By::Signals);
    let hidden = attached(&world, |m| hide(m, 7));
    let (status, text) = forked(|| {
        refuse(libc::SYS_process_vm_readv);
        (0..2).all(|_| world.collect().is_ok()) && reports.take().is_empty()
    });
    assert_eq!(
        (status, text.as_str()),
        (
            0,
            "stopworld: collection 1: check_promise searches nothing: process_vm_readv failed: EPERM: Operation not permitted\n"
        )
    );
    drop(hidden);
}

/// From now on a system call fails with EPERM in this process.
fn refuse(number: libc::c_long) {
    let step = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut filter = [
        // The number of the system call is the first word of what the filter gets.
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, number as u32),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: a valid program, which the kernel copies.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program), 0);
    }
}
