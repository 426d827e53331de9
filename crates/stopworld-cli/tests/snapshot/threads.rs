//! Roots by thread: what each thread's stack keeps alive is below that thread, in each format and from each source.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::channel;
use std::time::Duration;

use heap_snapshot::{Graph, Heap};
use rstest::rstest;
use stopworld::{Gc, GcCell, Mutator, World, traced};
use stopworld_analysis::snapshot::{DumpChoice, OpenedHeap};
use stopworld_trace::nettrace::{Options, Providers};

use crate::command_support::{self, run, text};

traced! {
    struct Left {
        next: GcCell<Option<Gc<Left>>>,
    }
}

traced! {
    struct Right {
        next: GcCell<Option<Gc<Right>>>,
    }
}

traced! {
    struct Shared {
        next: GcCell<Option<Gc<Shared>>>,
    }
}

const LEFT: usize = 100;
const RIGHT: usize = 250;
const SHARED: usize = 7;

#[inline(never)]
fn left(m: &Mutator) -> Gc<Left> {
    (0..LEFT).fold(None, |next, _| Some(m.alloc(Left { next: GcCell::new(next) }).unwrap())).unwrap()
}

#[inline(never)]
fn right(m: &Mutator) -> Gc<Right> {
    (0..RIGHT).fold(None, |next, _| Some(m.alloc(Right { next: GcCell::new(next) }).unwrap())).unwrap()
}

#[inline(never)]
fn shared(m: &Mutator) -> Gc<Shared> {
    (0..SHARED).fold(None, |next, _| Some(m.alloc(Shared { next: GcCell::new(next) }).unwrap())).unwrap()
}

/// The number of objects of each type.
pub(crate) type Count = BTreeMap<String, usize>;

/// Set in the process that [`recorded`] starts, to the directory of the trace.
const RECORDS: &str = "STOPWORLD_TEST_RECORDS_THREADS";

/// Records the heap of two threads that each have a list, and of a third one that has a handle, in `heap.nettrace`. Returns the ids of the
/// first two. They are in a process of their own: a stack of this one may have addresses that an earlier test has left there.
pub(crate) fn recorded(directory: &Path) -> [i32; 2] {
    let arguments = ["threads::the_subject", "--exact", "--nocapture", "--test-threads=1"];
    let output =
        Command::new(std::env::current_exe().unwrap()).args(arguments).env(RECORDS, directory).output().unwrap();
    let printed = text(&output.stdout);
    let ids = printed.lines().find_map(|line| line.strip_prefix("threads "));
    let ids = ids.unwrap_or_else(|| panic!("{printed}{}", text(&output.stderr)));
    let (left, right) = ids.split_once(' ').unwrap();
    [left, right].map(|id| id.parse().unwrap())
}

/// The program that is recorded; not a test by itself.
#[test]
fn the_subject() {
    let Some(directory) = std::env::var_os(RECORDS).map(PathBuf::from) else { return };
    let options = Options::new(directory.join("heap.nettrace"));
    let trace = options.providers(Providers::parse_keywords("GC+Type+GCHeapDump").unwrap()).start().unwrap();
    let world = World::builder().record_to(&trace).build().unwrap();
    let (starts, has_started) = channel();
    let (ends, has_ended) = [channel::<()>(), channel()].into_iter().unzip::<_, _, Vec<_>, Vec<_>>();
    let mut has_ended = has_ended.into_iter();
    let mut waits = || (starts.clone(), has_ended.next().unwrap());
    let (of_left, of_right) = (waits(), waits());
    let wait = |m: &Mutator, (starts, has_ended): (std::sync::mpsc::Sender<_>, std::sync::mpsc::Receiver<()>), name| {
        m.blocking(move || {
            starts.send((name, nix::unistd::gettid().as_raw())).unwrap();
            has_ended.recv().unwrap_err();
        });
    };
    // SAFETY: the list is in a local variable.
    let one = unsafe {
        world.spawn("left", move |m| {
            let list = left(m);
            wait(m, of_left, "left");
            stopworld::keep_alive(list);
        })
    };
    // SAFETY: as above.
    let other = unsafe {
        world.spawn("right", move |m| {
            let list = right(m);
            wait(m, of_right, "right");
            stopworld::keep_alive(list);
        })
    };
    let ids: BTreeMap<&str, i32> = [(); 2].map(|()| has_started.recv().unwrap()).into();
    {
        // SAFETY: the reference is in a handle.
        let m = unsafe { world.attach("main") }.unwrap();
        let handle = m.root(shared(&m));
        m.collect().unwrap();
        drop(handle);
    }
    drop(ends);
    one.unwrap().join().unwrap();
    other.unwrap().join().unwrap();
    drop(world);
    trace.wait_for_worlds(Duration::from_secs(120));
    assert!(trace.finish().unwrap().is_complete());
    println!("\nthreads {} {}", ids["left"], ids["right"]);
}

/// Counts what the roots of each group reach.
fn reached(graph: &Graph) -> BTreeMap<String, Count> {
    let mut groups = BTreeMap::new();
    for (index, group) in graph.groups().iter().enumerate() {
        let of_group = graph.roots().iter().filter(|root| root.group as usize == index);
        let mut todo: Vec<u32> = of_group.map(|root| root.target).collect();
        let mut seen = BTreeSet::new();
        while let Some(object) = todo.pop() {
            if seen.insert(object) {
                todo.extend(graph.references_of(object).iter().map(|reference| reference.target));
            }
        }
        let count: &mut Count = groups.entry(group.to_string()).or_default();
        for object in seen {
            let name = graph.type_name(object).rsplit("::").next().unwrap_or_default();
            *count.entry(name.to_owned()).or_default() += 1;
        }
    }
    groups
}

#[rstest]
fn each_list_is_below_its_own_thread(
    #[values("heap.nettrace", "heap.heapsnapshot", "heap.hprof", "again.heapsnapshot")] file: &str,
) {
    let directory = command_support::directory();
    let [left, right] = recorded(directory.path());
    for line in
        ["heap.nettrace -o heap.heapsnapshot", "heap.nettrace -o heap.hprof", "heap.hprof -o again.heapsnapshot"]
    {
        let output = run(directory.path(), &format!("snapshot {line}"));
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    }
    let opened = OpenedHeap::open(File::open(directory.path().join(file)).unwrap(), DumpChoice::default()).unwrap();
    let graph = opened.into_graph().unwrap();
    let count = |name: &str, number| Count::from([(name.to_owned(), number)]);
    let mut reached = reached(&graph);
    // The thread that collects has its list, by chance, also on its stack.
    let main = reached.extract_if(.., |group, _| group.ends_with("\"main\"")).collect::<Vec<_>>();
    assert!(main.iter().all(|(_, found)| found.keys().all(|name| name == "Shared")), "{main:?}");
    let expected = [
        ("handles".to_owned(), count("Shared", SHARED)),
        (format!("stacks of thread {left} \"left\""), count("Left", LEFT)),
        (format!("stacks of thread {right} \"right\""), count("Right", RIGHT)),
    ];
    assert_eq!(reached, BTreeMap::from(expected));
}

/// The path from a root begins with the thread.
#[test]
fn why_names_the_thread() {
    let directory = command_support::directory();
    let [left, _] = recorded(directory.path());
    let opened =
        OpenedHeap::open(File::open(directory.path().join("heap.nettrace")).unwrap(), DumpChoice::default()).unwrap();
    let graph = opened.into_graph().unwrap();
    let last = (0..graph.objects())
        .find(|object| graph.type_name(*object).ends_with("Left") && graph.references_of(*object).is_empty());
    let address = graph.address(last.unwrap());
    let output = run(directory.path(), &format!("heap heap.nettrace --why {address:#x}"));
    let path = text(&output.stdout);
    assert!(path.starts_with(&format!("root: stacks of thread {left} \"left\", the word at 0x")), "{path}");
    assert_eq!(path.lines().count(), 1 + LEFT, "{path}");
}
