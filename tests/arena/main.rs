//! Arenas: safe code with references in places that no collector scans, while another thread collects all the time.

#[path = "../hazard/mod.rs"]
mod hazard;

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hazard::{By, while_collecting};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use rstest::rstest;
use stopworld::{Arena, ArenaError, AttachError, CollectError, GcCell, Leaf, Local, Trace, World};

#[derive(Trace)]
struct Node<'gc> {
    value: u64,
    left: GcCell<Option<Local<'gc, Node<'gc>>>>,
    right: GcCell<Option<Local<'gc, Node<'gc>>>>,
}

impl<'gc> Node<'gc> {
    fn new(value: u64) -> Self {
        Self { value, left: GcCell::new(None), right: GcCell::new(None) }
    }

    fn field(&self, right: bool) -> &GcCell<Option<Local<'gc, Node<'gc>>>> {
        if right { &self.right } else { &self.left }
    }
}

const ROOTS: usize = 6;

#[derive(Trace)]
struct Graph<'gc> {
    roots: [GcCell<Option<Local<'gc, Node<'gc>>>>; ROOTS],
}

fn graph(world: &World) -> Arena<Graph<'static>> {
    Arena::<Graph<'static>>::new(world, "arena", |_| Graph { roots: [const { GcCell::new(None) }; ROOTS] }).unwrap()
}

/// `.arena.scopes`
#[rstest]
fn references_in_a_vec_are_valid_to_the_end_of_the_scope(#[values(By::Signals, By::Safepoints, By::Debugger)] by: By) {
    let world = hazard::world(by);
    while_collecting(&world, || {
        let arena = graph(&world);
        for round in 0..200 {
            arena.enter(|scope, root| {
                // The only references to these objects are in malloc's memory.
                let mut nodes: Vec<_> = (0..50).map(|value| scope.alloc(Node::new(value)).unwrap()).collect();
                let texts: HashMap<String, Local<'_, str>> =
                    (0..20).map(|n| (n.to_string(), scope.alloc_str(&format!("text {n}")).unwrap())).collect();
                root.roots[0].set(nodes.pop());
                std::thread::yield_now();
                assert!(
                    nodes.iter().enumerate().all(|(index, node)| node.value == index as u64),
                    "an object was freed in a scope"
                );
                assert!(texts.iter().all(|(n, text)| **text == *format!("text {n}")), "a text was freed in a scope");
            });
            // The other thread may be the first to find the damage.
            assert_eq!(world.damage(), None, "an object was freed in a scope");
            arena.enter(|_, root| assert_eq!(root.roots[0].get().unwrap().value, 49, "round {round}"));
        }
        assert_eq!(arena.collect().unwrap().live_objects, 2);
    });
    assert_eq!(world.damage(), None);
}

/// A step of a random program. Numbers select among what there is.
#[derive(Clone, Debug)]
enum Do {
    Allocate { root: usize, right: bool },
    Follow { from: usize, to: usize, right: bool },
    Link { from: usize, to: usize, right: bool },
    Clear { root: usize },
    NewScope,
    Collect,
}

fn step() -> impl Strategy<Value = Do> {
    let root = 0..ROOTS;
    prop_oneof![
        4 => (root.clone(), any::<bool>()).prop_map(|(root, right)| Do::Allocate { root, right }),
        3 => (root.clone(), root.clone(), any::<bool>()).prop_map(|(from, to, right)| Do::Follow { from, to, right }),
        3 => (root.clone(), root.clone(), any::<bool>()).prop_map(|(from, to, right)| Do::Link { from, to, right }),
        1 => root.prop_map(|root| Do::Clear { root }),
        2 => Just(Do::NewScope),
        1 => Just(Do::Collect),
    ]
}

/// The same graph, without a collector: nodes are never freed.
#[derive(Default)]
struct Model {
    nodes: Vec<[Option<usize>; 2]>,
    roots: [Option<usize>; ROOTS],
}

impl Model {
    fn reachable(&self) -> usize {
        let mut seen = vec![false; self.nodes.len()];
        let mut open: Vec<usize> = self.roots.iter().flatten().copied().collect();
        while let Some(node) = open.pop() {
            if !std::mem::replace(&mut seen[node], true) {
                open.extend(self.nodes[node].iter().flatten());
            }
        }
        seen.into_iter().filter(|seen| *seen).count()
    }

    fn take(&mut self, step: &Do) {
        match *step {
            Do::Allocate { root, right } => {
                let mut fields = [None; 2];
                fields[usize::from(right)] = self.roots[root];
                self.nodes.push(fields);
                self.roots[root] = Some(self.nodes.len() - 1);
            }
            Do::Follow { from, to, right } => {
                self.roots[to] = self.roots[from].and_then(|node| self.nodes[node][usize::from(right)]);
            }
            Do::Link { from, to, right } => {
                if let Some(node) = self.roots[from] {
                    self.nodes[node][usize::from(right)] = self.roots[to];
                }
            }
            Do::Clear { root } => self.roots[root] = None,
            Do::NewScope | Do::Collect => {}
        }
    }
}

#[rstest]
fn random_programs_keep_exactly_what_the_root_reaches(#[values(By::Signals, By::Safepoints, By::Debugger)] by: By) {
    let world = hazard::build(hazard::builder().collect_every(0), by);
    while_collecting(&world, || {
        let mut runner = TestRunner::new(ProptestConfig::with_cases(300));
        let ended = runner.run(&proptest::collection::vec(step(), 1..80), |steps| {
            let arena = graph(&world);
            let mut model = Model::default();
            for part in steps.split_inclusive(|step| matches!(step, Do::NewScope | Do::Collect)) {
                arena.enter(|scope, root| {
                    for step in part {
                        let number = model.nodes.len() as u64;
                        match *step {
                            Do::Allocate { root: at, right } => {
                                let node = scope.alloc(Node::new(number)).unwrap();
                                node.field(right).set(root.roots[at].get());
                                root.roots[at].set(Some(node));
                            }
                            Do::Follow { from, to, right } => {
                                let found = root.roots[from].get().and_then(|node| node.field(right).get());
                                root.roots[to].set(found);
                            }
                            Do::Link { from, to, right } => {
                                if let Some(node) = root.roots[from].get() {
                                    node.field(right).set(root.roots[to].get());
                                }
                            }
                            Do::Clear { root: at } => root.roots[at].set(None),
                            Do::NewScope | Do::Collect => {}
                        }
                        model.take(step);
                    }
                    for (at, node) in root.roots.iter().enumerate() {
                        assert_eq!(node.get().map(|node| node.value as usize), model.roots[at]);
                    }
                });
                if let Some(Do::Collect) = part.last() {
                    assert_eq!(arena.collect().unwrap().live_objects as usize, model.reachable() + 1);
                }
            }
            Ok(())
        });
        ended.unwrap_or_else(|error| panic!("{error}"));
    });
    assert_eq!(world.damage(), None);
}

#[test]
fn a_loop_over_an_array_has_references_to_the_end_of_the_scope() {
    let world = hazard::world(By::Safepoints);
    graph(&world).enter(|scope, _| {
        let mut elements = Vec::new();
        {
            let array = scope.alloc_slice(&[1, 2, 3]).unwrap();
            for element in &array {
                elements.push(element);
            }
        }
        assert_eq!(elements, [&1, &2, &3]);
    });
}

#[test]
fn a_collection_in_a_scope_is_an_error_and_one_by_another_thread_waits_for_its_end() {
    let world = hazard::world(By::Signals);
    let arena = graph(&world);
    arena.enter(|_, _| {
        assert!(matches!(world.collect(), Err(CollectError::InScope)));
        arena.enter(|_, _| assert!(matches!(arena.collect(), Err(CollectError::InScope))));
    });
    let ended = AtomicBool::new(false);
    std::thread::scope(|threads| {
        arena.enter(|_, _| {
            threads.spawn(|| {
                world.collect().unwrap();
                assert!(ended.load(Ordering::Relaxed), "a collection ran while a thread was in a scope");
            });
            std::thread::sleep(Duration::from_millis(200));
            assert_eq!(world.totals().collections, 0);
            ended.store(true, Ordering::Relaxed);
        });
    });
    assert_eq!(world.totals().collections, 1);
}

#[test]
fn a_scope_that_does_not_end_is_named_and_delays_no_later_collection() {
    let world = hazard::builder().stop_timeout(Duration::from_millis(100)).build().unwrap();
    let arena = graph(&world);
    let error = arena
        .enter(|_, _| std::thread::scope(|threads| threads.spawn(|| world.collect()).join().unwrap()).unwrap_err());
    assert!(
        matches!(error, CollectError::ScopesOpen { threads: 1, within } if within == Duration::from_millis(100)),
        "{error}"
    );
    assert!(error.to_string().starts_with("1 thread has been in a scope of an arena for longer than 100ms"), "{error}");
    let begin = Instant::now();
    arena.enter(|_, _| ());
    world.collect().unwrap();
    assert!(begin.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_collection_that_is_due_in_a_scope_runs_at_its_end() {
    let world = World::builder().heap_limit(256 << 20).initial_heap(1 << 20).build().unwrap();
    let arena = graph(&world);
    arena.enter(|scope, _| {
        let nodes: Vec<_> = (0..400_000).map(|value| scope.alloc(Node::new(value)).unwrap()).collect();
        assert_eq!(world.totals().collections, 0);
        assert!(nodes.iter().enumerate().all(|(index, node)| node.value == index as u64));
    });
    assert_eq!(world.totals().collections, 1);
    assert!(world.totals().live_bytes < 1 << 20);
}

#[test]
fn the_heap_limit_is_an_error_in_a_scope_and_there_is_room_after_it() {
    let world = World::builder().heap_limit(4 << 20).build().unwrap();
    let arena = graph(&world);
    let fill = || arena.enter(|scope, _| (0..).find_map(|value| scope.alloc(Node::new(value)).err()).unwrap());
    let (first, second) = (fill(), fill());
    assert!(first.to_string().contains("heap"), "{first}");
    assert!(second.live < 1 << 20, "what the first scope left was not collected: {second:?}");
}

/// A large minimum size of the heap makes no collection due before the limit.
#[test]
fn each_scope_that_finds_no_room_is_followed_by_a_collection() {
    let world = World::builder().heap_limit(16 << 20).build().unwrap();
    world.set_minimum_heap(64 << 20);
    let arena = graph(&world);
    let fill = || arena.enter(|scope, _| (0..).take_while(|_| scope.alloc([0_u64; 4096]).is_ok()).count());
    let first = fill();
    assert!(first > 100);
    for _ in 0..5 {
        assert!(fill() >= first / 2, "what the scope before left was not collected");
    }
}

#[test]
fn scopes_that_panic_leave_no_garbage_for_ever() {
    let world = World::builder().heap_limit(16 << 20).build().unwrap();
    let arena = graph(&world);
    for round in 0..40 {
        let panicking = || {
            arena.enter(|scope, _| {
                for _ in 0..20 {
                    scope.alloc([0_u64; 4096]).unwrap_or_else(|error| panic!("no room in round {round}: {error}"));
                }
                std::panic::resume_unwind(Box::new("on purpose"));
            });
        };
        let panic = catch_unwind(AssertUnwindSafe(panicking)).unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&"on purpose"), "{:?}", panic.downcast_ref::<String>());
    }
}

/// Between scopes, a stop neither waits for the thread nor signals it.
#[rstest]
fn a_thread_between_scopes_delays_no_collection(#[values(By::Signals, By::Safepoints)] by: By) {
    let world = hazard::build(hazard::builder().stop_timeout(Duration::from_secs(2)), by);
    let (arrived, over) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let arena = graph(&world);
            arena.enter(|scope, root| root.roots[0].set(Some(scope.alloc(Node::new(7)).unwrap())));
            arrived.store(true, Ordering::Relaxed);
            while !over.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
            arena.enter(|_, root| assert_eq!(root.roots[0].get().unwrap().value, 7));
        });
        while !arrived.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        let collected = world.collect();
        over.store(true, Ordering::Relaxed);
        assert_eq!(collected.unwrap().live_objects, 2);
    });
}

#[test]
fn a_scope_ends_when_it_panics() {
    let world = hazard::world(By::Signals);
    let arena = graph(&world);
    catch_unwind(AssertUnwindSafe(|| arena.enter(|_, _| panic!("in a scope")))).unwrap_err();
    arena.collect().unwrap();
}

#[test]
fn a_thread_has_one_arena_and_other_threads_have_theirs() {
    let world = hazard::world(By::Signals);
    let arena = graph(&world);
    let second = Arena::<u64>::new(&world, "second", |_| 2);
    assert!(matches!(second, Err(ArenaError::Attach(AttachError::AlreadyAttached { .. }))), "{second:?}");
    std::thread::scope(|threads| {
        for number in 0..3_u64 {
            let world = &world;
            threads.spawn(move || {
                let other = Arena::<(Local<'static, str>, u64)>::new(world, "other", |scope| {
                    (scope.alloc_str(&number.to_string()).unwrap(), number)
                });
                let other = other.unwrap();
                for _ in 0..50 {
                    other.enter(|scope, root| {
                        let slice = scope.alloc_slice(&[root.0; 9]).unwrap();
                        assert!(slice.iter().all(|text| **text == *number.to_string() && root.1 == number));
                    });
                    other.collect().unwrap();
                }
            });
        }
    });
    drop(arena);
    assert_eq!(world.damage(), None);
}

#[test]
fn values_with_destructors_are_dropped_when_they_are_dead() {
    struct Bell(std::sync::mpsc::SyncSender<&'static str>);
    impl Drop for Bell {
        fn drop(&mut self) {
            self.0.send("dropped").unwrap();
        }
    }
    let world = hazard::world(By::Signals);
    let (sender, receiver) = std::sync::mpsc::sync_channel(1);
    let arena = graph(&world);
    arena.enter(|scope, _| scope.alloc(Leaf(Bell(sender))).map(|_| ()).unwrap());
    let mut dropped = receiver.try_recv();
    let end = Instant::now() + Duration::from_secs(60);
    while dropped.is_err() && Instant::now() < end {
        arena.collect().unwrap();
        dropped = receiver.recv_timeout(Duration::from_millis(10)).map_err(|_| std::sync::mpsc::TryRecvError::Empty);
    }
    assert_eq!(dropped, Ok("dropped"));
}

/// Forks while another thread is in a scope, too. The other thread does not exist in the child.
#[rstest]
fn the_child_of_a_fork_collects(#[values(false, true)] in_scope: bool) {
    let world = hazard::world(By::Signals);
    let (arrived, over) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let other = graph(&world);
            other.enter(|_, _| {
                arrived.store(true, Ordering::Relaxed);
                while !over.load(Ordering::Relaxed) {
                    std::thread::yield_now();
                }
            });
        });
        while !arrived.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        let arena = graph(&world);
        let fork = || {
            // SAFETY: the child uses only the collector, which supports forks, and ends by `_exit`.
            unsafe { libc::fork() }
        };
        let child = if in_scope { arena.enter(|_, _| fork()) } else { fork() };
        if child == 0 {
            let code = i32::from(arena.collect().is_err());
            // SAFETY: ends the child without running its parent's destructors.
            unsafe { libc::_exit(code) };
        }
        let mut status = 0;
        // SAFETY: waits for the child of this process.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        over.store(true, Ordering::Relaxed);
        assert_eq!(status, 0, "the child of the fork does not collect");
    });
}
