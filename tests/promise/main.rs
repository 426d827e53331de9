//! `.promise.search`, `.promise.keep`: a reference that the collector does not see is found when its object would be freed, and nothing else is.
//!
//! The allocator of this program aborts when it is called in the stopped world (`.stop.no-malloc`). A thread that has detached leaves no
//! stale words on a stack that is scanned, so most tests build their objects on such a thread, and collect on one that was never attached.

mod correct;
#[path = "../hazard/mod.rs"]
mod hazard;
mod limits;
mod oracle;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hazard::{By, build, builder};
use rstest::rstest;
use stopworld::check::{Allocator, CheckPromise, HiddenIn, HiddenReference};
use stopworld::{Gc, GcCell, Leaf, Mutator, Root, Trace, WeakCell, World, testing};

/// Aborts when it is called in the stopped world.
struct Watched;

// SAFETY: the system's allocator, after a check.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        look();
        // SAFETY: the caller's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        look();
        // SAFETY: the caller's contract.
        unsafe { System.dealloc(memory, layout) }
    }
}

fn look() {
    if testing::is_inside_the_stopped_world() {
        let text = b"the allocator was called in the stopped world\n";
        // SAFETY: a system call with a valid buffer.
        unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
        std::process::abort();
    }
}

#[global_allocator]
static GLOBAL: Allocator<Watched> = Allocator::over(Watched);

#[derive(Trace)]
struct Node {
    number: u64,
    next: GcCell<Option<Gc<Node>>>,
}

/// Claims to be `Send + Sync`, as a wrapper that only one thread can open.
#[expect(dead_code, reason = "only the collector reads it")]
struct Wrapped(Gc<Node>);

// SAFETY: only its number is read, or the object has a root.
unsafe impl Send for Wrapped {}
// SAFETY: as above.
unsafe impl Sync for Wrapped {}

#[derive(Trace)]
struct Skipping {
    #[trace(skip = "hides a reference")]
    hidden: Wrapped,
    seen: Option<Gc<Node>>,
}

fn node(m: &Mutator, number: u64, next: Option<Gc<Node>>) -> Gc<Node> {
    m.alloc(Node { number, next: GcCell::new(next) }).unwrap()
}

/// Reports, in the order in which they were made.
#[derive(Clone, Default)]
struct Reports(Arc<Mutex<Vec<HiddenReference>>>);

impl Reports {
    fn of(&self, check: CheckPromise) -> CheckPromise {
        let reports = self.clone();
        check.most_reports(usize::MAX).on_report(move |report| reports.0.lock().unwrap().push(report.clone()))
    }

    fn take(&self) -> Vec<HiddenReference> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    fn texts(&self) -> Vec<String> {
        self.take().iter().map(ToString::to_string).collect()
    }
}

/// Runs `work` on a thread that is attached meanwhile.
fn attached<T: Send>(world: &World, work: impl FnOnce(&Mutator) -> T + Send) -> T {
    std::thread::scope(|scope| {
        let attach = || {
            // SAFETY: each test says what it does with its references; it reads none whose object may be gone.
            let m = unsafe { world.attach("worker") }.unwrap();
            work(&m)
        };
        scope.spawn(attach).join().unwrap()
    })
}

#[inline(never)]
fn hide(m: &Mutator, number: u64) -> Box<usize> {
    Box::new(Gc::addr(node(m, number, None)))
}

/// Overwrites what earlier calls have left below this one on the stack.
#[inline(never)]
fn forget_the_stack() {
    std::hint::black_box([0_u64; 4096]);
}

#[rstest]
fn a_report_names_type_and_both_sites(#[values(By::Signals, By::Safepoints, By::Debugger)] by: By) {
    let reports = Reports::default();
    let world = build(builder().check_promise(reports.of(CheckPromise::report())), by);
    let hidden = attached(&world, |m| hide(m, 7));
    world.collect().unwrap();
    let report = reports.take().pop().expect("nothing was reported");
    assert_eq!(report.object_address(), *hidden);
    let debug = format!("{report:?}");
    assert!(debug.contains(&format!("object_address: {:#x}", *hidden)), "{debug}");
    assert_eq!((report.object_bytes(), report.object_offset(), report.is_kept()), (16, 0, false));
    assert!(report.type_name().contains("Node"), "{}", report.type_name());
    let function = |places: &[stopworld::check::CodePlace]| places[0].function().to_owned();
    assert_eq!(function(report.object_allocated()), "promise::node");
    assert_eq!(function(&report.object_allocated()[1..]), "promise::hide");
    let HiddenIn::Block { bytes: 8, offset: 0, allocated } = report.hidden_in() else { panic!("{report}") };
    assert_eq!((function(allocated).as_str(), allocated[0].file()), ("promise::hide", Some("tests/promise/main.rs")));
    world.collect().unwrap();
    assert_eq!(reports.texts(), [] as [&str; 0], "the object is gone, and the word was reported before");
}

/// A kept object is as alive as any other: for what it refers to, for weak references, and for finalizers (`.promise.keep`).
#[rstest]
fn a_kept_object_lives_with_all_that_it_refers_to(#[values(By::Signals, By::Safepoints, By::Debugger)] by: By) {
    let reports = Reports::default();
    let world = build(builder().check_promise(reports.of(CheckPromise::keep())), by);
    let finalized = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&finalized);
    let (hidden, weak) = attached(&world, move |m| {
        let object = node(m, 1, Some(node(m, 2, Some(node(m, 3, None)))));
        m.set_finalizer(object, move |_, _| _ = counter.fetch_add(1, Ordering::Relaxed)).unwrap();
        let weak: Root<WeakCell<Node>> = m.root(m.alloc_weak(object).unwrap());
        (Box::new(Gc::addr(object)), weak)
    });
    let alive = |world: &World| {
        attached(world, |m| {
            let numbers = std::iter::successors(weak.get(m).get(), |object| object.next.get());
            numbers.map(|object| object.number).collect::<Vec<_>>()
        })
    };
    for collection in 0..3 {
        world.collect().unwrap();
        assert_eq!(reports.take().len(), usize::from(collection == 0), "a word is reported once");
        assert_eq!(alive(&world), [1, 2, 3], "a kept object was freed");
    }
    assert_eq!(finalized.load(Ordering::Relaxed), 0, "a kept object was finalized");
    drop(hidden);
    world.collect().unwrap();
    assert_eq!(alive(&world), [] as [u64; 0]);
    assert_eq!(reports.texts(), [] as [&str; 0]);
}

#[test]
fn a_panic_comes_after_the_restart_and_leaves_world_and_objects_in_order() {
    let world = build(builder().check_promise(CheckPromise::panic()), By::Signals);
    let hidden: Vec<_> = attached(&world, |m| (0..20).map(|number| hide(m, number)).collect());
    let collects = std::panic::AssertUnwindSafe(|| drop(world.collect()));
    let text = std::panic::catch_unwind(collects).unwrap_err();
    let text = text.downcast_ref::<String>().unwrap();
    assert!(text.starts_with("collection 1 found hidden references"), "{text}");
    attached(&world, |m| {
        // The collection of an allocation panics, too.
        let more: Vec<_> = (0..20).map(|number| hide(m, number)).collect();
        let allocates = std::panic::AssertUnwindSafe(|| (0..10_000_000).for_each(|_| _ = m.alloc([0_u64; 8]).unwrap()));
        assert!(std::panic::catch_unwind(allocates).is_err());
        drop(more);
        m.collect().unwrap();
        // SAFETY: the panicking collections have kept the objects, and the words keep them at each collection.
        let numbers = hidden.iter().map(|address| unsafe { (*(**address as *const Node)).number });
        assert!(numbers.eq(0..20));
    });
}

#[rstest]
#[case::function("promise::hide", 0)]
#[case::file("promise/*.rs", 0)]
#[case::library("GlobalAlloc", 0)]
#[case::all("*", 0)]
#[case::another("promise::seek", 1)]
fn a_suppression_names_a_site_of_the_block(#[case] pattern: &str, #[case] expected: usize) {
    let reports = Reports::default();
    let world = build(builder().check_promise(reports.of(CheckPromise::report().suppress(pattern))), By::Signals);
    let hidden = attached(&world, |m| hide(m, 7));
    world.collect().unwrap();
    assert_eq!(reports.take().len(), expected);
    drop(hidden);
}

/// What was never written, or is freed, or does not point into an object, is not a reference.
#[test]
fn unused_capacity_freed_blocks_and_other_words_are_not_reported() {
    let reports = Reports::default();
    let world = build(builder().check_promise(reports.of(CheckPromise::report())), By::Signals);
    let words = attached(&world, |m| {
        let addresses: Vec<usize> = (0..1000).map(|number| Gc::addr(node(m, number, None))).collect();
        let words: Vec<usize> = addresses.iter().flat_map(|&word| [word - 8, word - 1, !word, word << 1]).collect();
        drop(addresses);
        words
    });
    // The same sizes again: the blocks that held addresses were freed.
    let unused: Vec<Vec<usize>> = (0..100).map(|_| Vec::with_capacity(1000)).collect();
    world.collect().unwrap();
    assert_eq!(reports.texts(), [] as [&str; 0]);
    drop((words, unused));
}

/// A word that points into an object is found, and one in memory that is registered is none of the check's business.
#[test]
fn interior_pointers_count_and_registered_ranges_do_not() {
    let reports = Reports::default();
    let world = build(builder().check_promise(reports.of(CheckPromise::report())), By::Signals);
    let ranges = attached(&world, |m| {
        let (seen, inside) = (Box::new(Gc::addr(node(m, 1, None))), Box::new(Gc::addr(node(m, 2, None)) + 8));
        // SAFETY: the box lives longer than the guard.
        (unsafe { m.world().register_range((&raw const *seen).cast(), 8) }, seen, inside)
    });
    world.collect().unwrap();
    let reported = reports.take();
    assert_eq!(reported.iter().map(HiddenReference::object_offset).collect::<Vec<_>>(), [8]);
    assert!(reported[0].to_string().contains("; it refers to byte 8 of the object"));
    drop(ranges);
}

thread_local!(static LAST: [Cell<usize>; 8] = const { [const { Cell::new(0) }; 8] });

/// The thread-local variables of a thread that is not the main thread are at the end of its stack, which is scanned.
#[test]
fn a_thread_local_of_another_thread_keeps_its_object() {
    let reports = Reports::default();
    let world = build(builder().check_promise(reports.of(CheckPromise::report())), By::Signals);
    attached(&world, |m| {
        LAST.with(|last| last.iter().for_each(|last| last.set(Gc::addr(node(m, 1, None)))));
        assert!(m.collect().unwrap().live_objects >= 8);
        LAST.with(|last| last.iter().for_each(|last| last.set(0)));
    });
    assert_eq!(reports.texts(), [] as [&str; 0]);
}

/// The child of a fork has the table of its parent, whatever the other threads were doing.
#[test]
fn the_child_of_a_fork_finds_what_its_parent_would() {
    let reports = Reports::default();
    let world = build(builder().check_promise(reports.of(CheckPromise::report())), By::Signals);
    let hidden: Vec<_> = attached(&world, |m| (0..10).map(|number| hide(m, number)).collect());
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !ends.load(Ordering::Relaxed) {
                    std::hint::black_box(vec![1_u8; 100]);
                }
            });
        }
        for _ in 0..10 {
            // SAFETY: the child uses what this library and std's allocator support after a fork, and exits.
            let child = unsafe { libc::fork() };
            if child == 0 {
                let found = world.collect().map(|_| reports.take().len());
                // SAFETY: ends the child without the destructors of its parent.
                unsafe { libc::_exit(if matches!(found, Ok(10)) { 0 } else { 1 }) };
            }
            let mut status = 0;
            // SAFETY: a child of this process, and a valid place for its status.
            assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            assert_eq!(status, 0, "the child's exit status");
        }
        ends.store(true, Ordering::Relaxed);
    });
    world.collect().unwrap();
    assert_eq!(reports.take().len(), 10);
    drop(hidden);
}

/// Attached threads allocate in both heaps, and an unattached one maps and unmaps large blocks, while collections search.
#[rstest]
fn a_search_finds_the_same_while_all_threads_allocate(#[values(By::Signals, By::Safepoints)] by: By) {
    let reports = Reports::default();
    let world = build(builder().check_promise(reports.of(CheckPromise::keep())), by);
    let hidden: Vec<_> = attached(&world, |m| (0..10).map(|number| hide(m, number)).collect());
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                attached(&world, |m| {
                    let mut list = None;
                    for number in 0.. {
                        if ends.load(Ordering::Relaxed) {
                            break;
                        }
                        list = Some(node(m, number, list.filter(|_| number % 100 != 0)));
                        std::hint::black_box(vec![number; (number % 50) as usize]);
                        m.safepoint();
                    }
                })
            });
        }
        scope.spawn(|| {
            while !ends.load(Ordering::Relaxed) {
                std::hint::black_box(vec![1_u8; 1 << 20]);
            }
        });
        let until = Instant::now() + Duration::from_secs(2);
        let mut found = 0;
        while Instant::now() < until {
            world.collect().unwrap();
            found += reports.take().len();
        }
        ends.store(true, Ordering::Relaxed);
        assert_eq!(found, hidden.len(), "each hidden reference is found, and reported once");
    });
}

/// A reference in a live object, in a word that marking does not read.
#[rstest]
#[case::leaf("leaf", "Leaf<promise::Wrapped>", 0)]
#[case::field("field", "promise::Skipping", std::mem::offset_of!(Skipping, hidden))]
#[case::element("element", "Array<promise::Skipping>", 8 + size_of::<Skipping>() + std::mem::offset_of!(Skipping, hidden))]
fn a_reference_in_an_object_that_is_not_scanned_is_found(#[case] kind: &str, #[case] holder: &str, #[case] at: usize) {
    let reports = Reports::default();
    let world = build(builder().check_promise(reports.of(CheckPromise::report())), By::Signals);
    let (hidden, roots) = attached(&world, |m| {
        let (object, seen) = (node(m, 7, None), node(m, 8, None));
        let skipping = |hidden| Skipping { hidden: Wrapped(hidden), seen: Some(seen) };
        let roots = match kind {
            "leaf" => (Some(m.root(m.alloc(Leaf(Wrapped(object))).unwrap())), None, None),
            "field" => (None, Some(m.root(m.alloc(skipping(object)).unwrap())), None),
            _ => {
                let array = m.alloc_array(2, |index| skipping(if index == 0 { seen } else { object })).unwrap();
                (None, None, Some(m.root(array)))
            }
        };
        (!Gc::addr(object), roots)
    });
    world.collect().unwrap();
    let [report] = reports.take().try_into().expect("one object is hidden");
    assert_eq!(report.object_address(), !hidden);
    let HiddenIn::Object { type_name, offset, allocated } = report.hidden_in() else { panic!("{report}") };
    assert!(type_name.ends_with(holder), "{type_name}");
    assert_eq!((*offset, allocated[0].file()), (at, Some("tests/promise/main.rs")));
    let text = report.to_string();
    assert!(text.contains(&format!("{holder}, at byte {at}, which is not scanned\n")), "{text}");
    drop(roots);
}

#[test]
fn a_pattern_matches_the_type_of_the_object_that_hides_a_reference() {
    let reports = Reports::default();
    let check = reports.of(CheckPromise::report()).suppress("Leaf<promise::Wrapped>");
    let world = build(builder().check_promise(check), By::Signals);
    let root = attached(&world, |m| m.root(m.alloc(Leaf(Wrapped(node(m, 7, None)))).unwrap()));
    world.collect().unwrap();
    assert_eq!(reports.texts(), [] as [&str; 0]);
    drop(root);
}
