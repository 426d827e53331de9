//! The form with numbers: shared objects and cycles.

use ::serde::{Deserialize, Serialize};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use stopworld::serde::{Graph, with_mutator};
use stopworld::{Gc, GcCell, GcHashMap, GcMutex, GcVec, Mutator, OutOfMemory, Root, Trace, World};

use crate::{attached, hazard, there_and_back};

/// A node with each kind of reference.
#[derive(Trace, Serialize, Deserialize)]
struct Node {
    id: usize,
    /// Nodes made before this one.
    before: Gc<[Gc<Node>]>,
    any: GcCell<Option<Gc<Node>>>,
    cells: [GcCell<Option<Gc<Node>>>; 2],
    many: GcMutex<GcVec<Gc<Node>>>,
    named: GcMutex<GcHashMap<usize, Option<Gc<Node>>>>,
    rows: GcVec<GcCell<Option<Gc<Node>>>>,
    shared: Option<Gc<GcMutex<GcVec<Gc<Node>>>>>,
}

/// Where the references of a node lead: the numbers of nodes.
#[derive(Clone, Debug)]
struct Links {
    before: Vec<usize>,
    any: Option<usize>,
    cells: [Option<usize>; 2],
    many: Vec<usize>,
    named: Vec<(usize, Option<usize>)>,
    rows: Vec<Option<usize>>,
    shared: Option<usize>,
}

fn links() -> impl Strategy<Value = Vec<Links>> {
    let node = 0..100_usize;
    let one = || proptest::option::of(node.clone());
    let some = || vec(node.clone(), 0..4);
    let links = (some(), one(), [one(), one()], some(), vec((0..8_usize, one()), 0..4), vec(one(), 0..3), one());
    let links = links.prop_map(|(before, any, cells, many, named, rows, shared)| Links {
        before,
        any,
        cells,
        many,
        named,
        rows,
        shared,
    });
    vec(links, 1..20)
}

fn build(m: &Mutator, links: &[Links]) -> Result<Gc<Node>, OutOfMemory> {
    let count = links.len();
    let mut nodes: GcVec<Gc<Node>> = GcVec::new();
    let mut locks: GcVec<Gc<GcMutex<GcVec<Gc<Node>>>>> = GcVec::new();
    for _ in 0..3 {
        locks.push(m, m.alloc(GcMutex::new(GcVec::new()))?)?;
    }
    for (id, links) in links.iter().enumerate() {
        let before = m.try_alloc_array_with(if id == 0 { 0 } else { links.before.len() }, |index| {
            Ok::<_, OutOfMemory>(nodes[links.before[index] % id])
        })?;
        let node = m.alloc(Node {
            id,
            before,
            any: GcCell::new(None),
            cells: [const { GcCell::new(None) }; 2],
            many: GcMutex::new(GcVec::new()),
            named: GcMutex::new(GcHashMap::new()),
            rows: GcVec::from_iter(m, links.rows.iter().map(|_| GcCell::new(None)))?,
            shared: links.shared.map(|shared| locks[shared % 3]),
        })?;
        nodes.push(m, node)?;
    }
    for (&node, links) in nodes.iter().zip(links) {
        let target = |number: Option<usize>| number.map(|number| nodes[number % count]);
        node.any.set(target(links.any));
        for (cell, &link) in node.cells.iter().zip(&links.cells) {
            cell.set(target(link));
        }
        for &link in &links.many {
            node.many.lock(m).push(m, nodes[link % count])?;
        }
        for &(name, link) in &links.named {
            node.named.lock(m).insert(m, name, target(link))?;
        }
        for (cell, &link) in node.rows.iter().zip(&links.rows) {
            cell.set(target(link));
        }
        if let Some(shared) = node.shared {
            shared.lock(m).push(m, node)?;
        }
    }
    Ok(nodes[count - 1])
}

/// Describes everything that a node reaches: two graphs have the same shape if the descriptions are equal. Each node, and each shared
/// lock, has a number, in the order in which it is reached.
fn description(m: &Mutator, root: Gc<Node>) -> String {
    let mut order: GcVec<Gc<Node>> = GcVec::new();
    let mut locks: GcVec<Gc<GcMutex<GcVec<Gc<Node>>>>> = GcVec::new();
    order.push(m, root).unwrap();
    let mut lines = String::new();
    let mut next = 0;
    while next < order.len() {
        let node = order[next];
        next += 1;
        let mut number = |of: Gc<Node>| {
            order.iter().position(|&known| Gc::ptr_eq(known, of)).unwrap_or_else(|| {
                order.push(m, of).unwrap();
                order.len() - 1
            })
        };
        let before: Vec<usize> = node.before.iter().map(|&of| number(of)).collect();
        let any = node.any.get().map(&mut number);
        let cells = [0, 1].map(|index: usize| node.cells[index].get().map(&mut number));
        let many: Vec<usize> = node.many.lock(m).iter().map(|&of| number(of)).collect();
        let named: Vec<_> = node.named.lock(m).iter().map(|(&name, &of)| (name, of.map(&mut number))).collect();
        let rows: Vec<_> = node.rows.iter().map(|cell| cell.get().map(&mut number)).collect();
        let shared = node.shared.map(|lock| {
            let members: Vec<usize> = lock.lock(m).iter().map(|&of| number(of)).collect();
            let known = locks.iter().position(|&known| Gc::ptr_eq(known, lock)).unwrap_or_else(|| {
                locks.push(m, lock).unwrap();
                locks.len() - 1
            });
            (known, members)
        });
        lines += &format!("{} {before:?} {any:?} {cells:?} {many:?} {named:?} {rows:?} {shared:?}\n", node.id);
    }
    lines
}

/// Writes and reads this many random graphs.
fn graphs_come_back(m: &Mutator, cases: u32) {
    let mut runner = TestRunner::new(ProptestConfig::with_cases(cases));
    let result = runner.run(&links(), |links| {
        let root = build(m, &links).unwrap();
        let shape = description(m, root);
        there_and_back(m, &Graph(root), |Graph(back)| assert_eq!(description(m, back), shape));
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn any_graph_is_read_back_with_the_same_shape() {
    let world = hazard::builder().build().unwrap();
    attached(&world, |m| graphs_come_back(m, 200));
    assert_eq!(world.damage(), None);
}

#[test]
fn any_graph_is_read_back_in_a_world_that_collects_all_the_time() {
    crate::paranoid(|m| graphs_come_back(m, 5));
}

#[derive(Trace, Serialize, Deserialize)]
struct Link {
    number: u64,
    next: GcCell<Option<Gc<Link>>>,
}

#[test]
fn a_long_list_needs_no_stack() {
    const LENGTH: u64 = 100_000;
    let world = World::builder().build().unwrap();
    // A thread of the world has a stack of 2 MiB.
    let body = |m: &Mutator| {
        let mut list = None;
        for number in 0..LENGTH {
            list = Some(m.alloc(Link { number, next: GcCell::new(list) }).unwrap());
        }
        there_and_back(m, &Graph(list), |Graph(mut back)| {
            let mut length = 0;
            while let Some(link) = back {
                length += 1;
                assert_eq!(link.number, LENGTH - length);
                back = link.next.get();
            }
            assert_eq!(length, LENGTH);
        });
    };
    // SAFETY: as in `attached`.
    unsafe { world.spawn("list", body) }.unwrap().join().unwrap();
}

#[test]
fn several_roots_share_objects() {
    crate::paranoid(|m| {
        let shared = m.alloc(Link { number: 1, next: GcCell::new(None) }).unwrap();
        let mut roots = Vec::new();
        for number in 2..4 {
            roots.push(m.root(m.alloc(Link { number, next: GcCell::new(Some(shared)) }).unwrap()));
        }
        there_and_back(m, &Graph(roots), |Graph(back): Graph<Vec<Root<Link>>>| {
            let [one, other] = [0, 1].map(|index: usize| back[index].get(m).next.get().unwrap());
            assert!(Gc::ptr_eq(one, other));
            assert_eq!(one.number, 1);
        });
    });
}

#[test]
fn a_cycle_without_numbers_is_an_error_and_a_shared_object_is_written_twice() {
    crate::paranoid(|m| {
        let link = m.alloc(Link { number: 1, next: GcCell::new(None) }).unwrap();
        assert_eq!(
            serde_json::to_string(&[link, link]).unwrap(),
            r#"[{"number":1,"next":null},{"number":1,"next":null}]"#
        );
        link.next.set(Some(link));
        let error = serde_json::to_string(&link).unwrap_err().to_string();
        assert!(error.contains("Link` is part of itself, by a cycle of references"), "{error}");
        // The error leaves no trace.
        link.next.set(None);
        assert!(serde_json::to_string(&link).is_ok());
    });
}

#[test]
fn a_graph_that_another_thread_changes_is_written_whole_or_not_at_all() {
    let world = World::builder().build().unwrap();
    attached(&world, |m| {
        let first = m.alloc(Link { number: 0, next: GcCell::new(None) }).unwrap();
        let (root, done) = (m.root(first), std::sync::atomic::AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                attached(&world, |m| {
                    let first = root.get(m);
                    while !done.load(std::sync::atomic::Ordering::Relaxed) {
                        let mut list = None;
                        for number in 1..20 {
                            list = Some(m.alloc(Link { number, next: GcCell::new(list) }).unwrap());
                            first.next.set(list);
                        }
                    }
                });
            });
            let (mut whole, mut refused) = (0, 0);
            for _ in 0..2000 {
                match with_mutator(m, || serde_json::to_string(&Graph(first))) {
                    Ok(text) => {
                        let Graph(back) = with_mutator(m, || serde_json::from_str::<Graph<Gc<Link>>>(&text)).unwrap();
                        let mut link = back.next.get();
                        while let Some(next) = link.and_then(|link| link.next.get()) {
                            assert_eq!(next.number, link.unwrap().number - 1);
                            link = Some(next);
                        }
                        whole += 1;
                    }
                    Err(error) => {
                        assert!(error.to_string().starts_with("the graph changed while it was written"), "{error}");
                        refused += 1;
                    }
                }
            }
            done.store(true, std::sync::atomic::Ordering::Relaxed);
            assert!(whole > 0, "{refused} refused");
        });
    });
}

/// A name and numbers. A format writes it as an array, which may end when the value has been read.
#[derive(Trace, Serialize, Deserialize)]
struct Record(Gc<str>, u64, GcVec<u64>);

#[derive(Trace, Serialize, Deserialize)]
struct Book {
    records: GcMutex<GcVec<Gc<Record>>>,
    last: GcCell<Option<Gc<Record>>>,
}

fn book(m: &Mutator, records: u64) -> Gc<Book> {
    let mut all = GcVec::new();
    for number in 0..records {
        let name = m.alloc_str(&format!("record {number}")).unwrap();
        let record = Record(name, number, GcVec::from_iter(m, 0..number).unwrap());
        all.push(m, m.alloc(record).unwrap()).unwrap();
    }
    let last = GcCell::new(all.last().copied());
    m.alloc(Book { records: GcMutex::new(all), last }).unwrap()
}

fn assert_is_book(m: &Mutator, book: Gc<Book>, records: u64) {
    let all = book.records.lock(m);
    assert_eq!(all.len() as u64, records);
    for (number, record) in (0..).zip(all.iter()) {
        assert_eq!((&*record.0, record.1), (&*format!("record {number}"), number));
        assert!(record.2.iter().copied().eq(0..number));
    }
    assert!(Gc::ptr_eq(book.last.get().unwrap(), *all.last().unwrap()));
}

/// A file that collects whenever an array or an object ends: the value that was read is not in another object yet.
struct Collecting<'a> {
    text: &'a [u8],
    mutator: &'a Mutator,
}

impl std::io::Read for Collecting<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let Some((&byte, rest)) = self.text.split_first() else { return Ok(0) };
        if matches!(byte, b']' | b'}' | b',') {
            self.mutator.collect().unwrap();
        }
        (buffer[0], self.text) = (byte, rest);
        Ok(1)
    }
}

#[test]
fn what_was_read_survives_a_collection_at_any_moment() {
    crate::paranoid(|m| {
        let text = with_mutator(m, || serde_json::to_string(&Graph(book(m, 12)))).unwrap();
        for _ in 0..3 {
            let read = || serde_json::from_reader(Collecting { text: text.as_bytes(), mutator: m });
            let Graph(book) = with_mutator(m, read).unwrap();
            m.collect().unwrap();
            assert_is_book(m, book, 12);
        }
    });
}

#[test]
fn what_was_read_survives_the_collections_of_other_threads() {
    let world = hazard::builder().build().unwrap();
    hazard::while_collecting(&world, || {
        attached(&world, |m| {
            let text = with_mutator(m, || serde_json::to_string(&Graph(book(m, 300)))).unwrap();
            for _ in 0..10 {
                let Graph(book) = with_mutator(m, || serde_json::from_str(&text)).unwrap();
                assert_is_book(m, book, 300);
            }
        });
    });
    assert_eq!(world.damage(), None);
}

#[derive(Trace, Serialize, Deserialize, Default)]
struct Optional {
    cell: Option<GcCell<Option<Gc<u64>>>>,
    lock: Option<GcMutex<GcVec<Gc<u64>>>>,
    none: Option<GcCell<Option<Gc<u64>>>>,
}

#[test]
fn a_cell_may_be_optional() {
    crate::paranoid(|m| {
        let number = m.alloc(7_u64).unwrap();
        let lock = Some(GcMutex::new(GcVec::from_iter(m, [number]).unwrap()));
        let object = m.alloc(Optional { cell: Some(GcCell::new(Some(number))), lock, none: None }).unwrap();
        there_and_back(m, &Graph(object), |Graph(back)| {
            let number = back.cell.as_ref().unwrap().get().unwrap();
            assert_eq!(*number, 7);
            assert!(Gc::ptr_eq(number, back.lock.as_ref().unwrap().lock(m)[0]));
            assert!(back.none.is_none());
        });
    });
}

/// A type before it was edited.
#[derive(Trace, Serialize, Deserialize)]
#[serde(rename = "Person")]
struct Before {
    mother: GcCell<Option<Gc<u64>>>,
    father: GcCell<Option<Gc<u64>>>,
    others: [GcCell<Option<Gc<u64>>>; 2],
}

/// Its fields in another order, and a new one.
#[derive(Trace, Serialize, Deserialize)]
#[serde(rename = "Person")]
struct After {
    others: [GcCell<Option<Gc<u64>>>; 2],
    #[serde(default)]
    neighbour: GcCell<Option<Gc<u64>>>,
    father: GcCell<Option<Gc<u64>>>,
    mother: GcCell<Option<Gc<u64>>>,
}

#[test]
fn contents_are_assigned_to_fields_by_name() {
    crate::paranoid(|m| {
        let cell = |number: u64| GcCell::new(Some(m.alloc(number).unwrap()));
        let before = m.alloc(Before { mother: cell(1), father: cell(2), others: [cell(3), cell(4)] }).unwrap();
        let text = with_mutator(m, || serde_json::to_string(&Graph(before))).unwrap();
        let Graph(after) = with_mutator(m, || serde_json::from_str::<Graph<Gc<After>>>(&text)).unwrap();
        let number = |cell: &GcCell<Option<Gc<u64>>>| *cell.get().unwrap();
        assert_eq!((number(&after.mother), number(&after.father)), (1, 2));
        assert_eq!((number(&after.others[0]), number(&after.others[1])), (3, 4));
        assert_eq!(after.neighbour.get(), None);
        let text = text.replace("mother", "madre");
        let error = with_mutator(m, || serde_json::from_str::<Graph<Gc<After>>>(&text).err().unwrap());
        assert!(error.to_string().contains("missing field `mother`"), "{error}");
    });
}

/// Two objects, each in the lock of the other, are written by two threads at the same time.
#[test]
fn threads_that_write_the_same_locks_do_not_wait_for_each_other() {
    #[derive(Trace, Serialize)]
    struct Party {
        others: GcMutex<GcVec<Gc<Party>>>,
    }
    let world = World::builder().build().unwrap();
    attached(&world, |m| {
        let [one, other] = [(); 2].map(|()| m.alloc(Party { others: GcMutex::new(GcVec::new()) }).unwrap());
        one.others.lock(m).push(m, other).unwrap();
        other.others.lock(m).push(m, one).unwrap();
        let write = |root: Root<Party>| {
            move |m: &Mutator| {
                let party = root.get(m);
                (0..5000).for_each(|_| {
                    let error = with_mutator(m, || serde_json::to_string(&party)).unwrap_err().to_string();
                    assert!(error.contains("serialize a `stopworld::serde::Graph`"), "{error}");
                    with_mutator(m, || serde_json::to_string(&Graph(party))).unwrap();
                });
            }
        };
        // SAFETY: as in `attached`.
        let threads = [one, other].map(|party| unsafe { world.spawn("writer", write(m.root(party))) }.unwrap());
        m.blocking(|| threads.map(|thread| thread.join().unwrap()));
    });
}
