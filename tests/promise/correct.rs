//! Programs that keep the promise: nothing is reported.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rstest::rstest;
use stopworld::check::CheckPromise;
use stopworld::{
    Arena, Gc, GcCell, GcDeque, GcHashMap, GcHashSet, GcString, GcVec, Leaf, Local, Mutator, Trace, WeakCell, WeakMap,
    World,
};

use super::hazard::{By, build, builder};
use super::{Node, Reports, attached, node};

fn collections(m: &Mutator) {
    let mut vector = GcVec::new();
    let mut map = GcHashMap::new();
    let mut set = GcHashSet::new();
    let mut queue = GcDeque::new();
    let mut text = GcString::new();
    for number in 0..500 {
        vector.push(m, node(m, number, None)).unwrap();
        map.insert(m, number, node(m, number, Some(vector[0]))).unwrap();
        set.insert(m, number).unwrap();
        queue.push_back(m, node(m, number, None)).unwrap();
        text.push_str(m, "text").unwrap();
        if number % 100 == 0 {
            m.collect().unwrap();
        }
    }
    assert_eq!((vector.len(), map.len(), set.len(), queue.len(), text.len()), (500, 500, 500, 500, 2000));
}

fn weak_references(m: &Mutator) {
    let mut map = WeakMap::with_capacity(m, 10).unwrap();
    let cells = m.alloc_array(100, |_| GcCell::new(None::<Gc<WeakCell<Node>>>)).unwrap();
    for (number, cell) in (0..).zip(&*cells) {
        let key = node(m, number, None);
        cell.set(Some(m.alloc_weak(key).unwrap()));
        map.insert(m, key, node(m, number, Some(key))).unwrap();
    }
    (0..3).for_each(|_| _ = m.collect().unwrap());
}

fn finalizers(m: &Mutator) {
    struct Counted(Arc<AtomicU32>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let dropped = Arc::new(AtomicU32::new(0));
    for number in 0..100 {
        m.alloc(Leaf(Counted(Arc::clone(&dropped)))).unwrap();
        m.set_finalizer(node(m, number, None), |_, object| assert!(object.number < 100)).unwrap();
    }
    (0..3).for_each(|_| _ = m.collect().unwrap());
}

fn roots(m: &Mutator) {
    let roots: Vec<_> = (0..100).map(|number| m.root(node(m, number, Some(node(m, number, None))))).collect();
    (0..3).for_each(|_| _ = m.collect().unwrap());
    assert!(roots.iter().zip(0..).all(|(root, number)| root.get(m).next.get().unwrap().number == number));
}

#[rstest]
fn nothing_is_reported_for(
    #[values(collections, weak_references, finalizers, roots)] program: fn(&Mutator),
    #[values(By::Signals, By::Safepoints, By::Debugger)] by: By,
) {
    let reports = Reports::default();
    let world: World = build(builder().collect_every(1 << 20).check_promise(reports.of(CheckPromise::report())), by);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| attached(&world, program));
        }
    });
    world.collect().unwrap();
    assert_eq!(reports.texts(), [] as [&str; 0]);
}

#[derive(Trace)]
struct Item<'gc> {
    number: u64,
    next: GcCell<Option<Local<'gc, Item<'gc>>>>,
}

#[test]
fn nothing_is_reported_for_an_arena() {
    let reports = Reports::default();
    let world = build(builder().check_promise(reports.of(CheckPromise::report())), By::Signals);
    let work = || {
        let arena =
            Arena::<Item<'static>>::new(&world, "arena", |_| Item { number: 0, next: GcCell::new(None) }).unwrap();
        for _ in 0..5 {
            arena.enter(|scope, root| {
                let item = |number| scope.alloc(Item { number, next: GcCell::new(root.next.get()) }).unwrap();
                let kept: Vec<_> = (0..100).map(item).collect();
                root.next.set(kept.last().copied());
                assert!(kept.iter().zip(0..).all(|(item, number)| item.number == number));
            });
            arena.collect().unwrap();
        }
    };
    std::thread::scope(|scope| scope.spawn(work).join().unwrap());
    assert_eq!(reports.texts(), [] as [&str; 0]);
}
