//! memlab and VisualVM's heap walker read what we write: the same objects, sizes and retained sizes as ours.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use heap_snapshot::{Dominators, Graph, Heap, RootKind, hprof, v8};

use stopworld_analysis::snapshot::{DumpChoice, OpenedHeap};

use crate::command_support::{self, run, text};
use crate::random_heap::random_heap;
use crate::skipped::skipped;
use crate::{Census, assert_retained, recorded};

/// The folder into which `.ci/heap-readers` installs.
fn readers() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("heap-readers")
}

fn source(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshot").join(file)
}

fn exists(tool: &str) -> bool {
    Command::new(tool).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// What memlab finds: size, retained size and name of each object, in the order of the file. `None` if memlab is missing.
fn memlab(snapshot: &Path) -> Option<Vec<(u64, u64, String)>> {
    let installed = readers().join("memlab");
    if !exists("node") || !installed.is_dir() {
        skipped(if exists("node") { "memlab" } else { "node" });
        return None;
    }
    let found = snapshot.with_extension("memlab");
    let mut command = Command::new("node");
    let output = command.arg(source("memlab.js")).arg(installed).arg(snapshot).arg(&found).output().unwrap();
    assert!(output.status.success() && found.exists(), "{}{}", text(&output.stdout), text(&output.stderr));
    let text = fs::read_to_string(found).unwrap();
    let object = |line: &str| {
        let mut words = line.splitn(3, ' ');
        let mut number = || words.next().unwrap().parse().unwrap();
        (number(), number(), line.splitn(3, ' ').nth(2).unwrap().to_owned())
    };
    Some(text.lines().map(object).collect())
}

/// An object in VisualVM.
struct Instance {
    address: u64,
    size: u64,
    retained: u64,
    class: String,
}

/// What VisualVM finds: the number of roots, and the objects. `None` if VisualVM is missing.
fn visualvm(dump: &Path) -> Option<(usize, Vec<Instance>)> {
    let library =
        readers().join("visualvm/usr/share/visualvm/visualvm/modules/org-graalvm-visualvm-lib-jfluid-heap.jar");
    if !exists("java") || !library.exists() {
        skipped(if exists("java") { "visualvm" } else { "java" });
        return None;
    }
    let found = dump.with_extension("visualvm");
    let mut command = Command::new("java");
    let folder = dump.parent().unwrap();
    // Preferences of the user stay as they are.
    command
        .arg(format!("-Duser.home={0}", folder.display()))
        .arg(format!("-Djava.util.prefs.userRoot={}", folder.display()));
    command.arg("-Djava.awt.headless=true").arg("-cp").arg(library).arg(source("VisualVm.java"));
    let output = command.arg(dump).arg(&found).output().unwrap();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    let text = fs::read_to_string(found).unwrap();
    let mut lines = text.lines();
    let roots = lines.next().unwrap().parse().unwrap();
    let object = |line: &str| {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        let number = |at: usize| words[at].parse::<u64>().unwrap();
        Instance { address: number(0), size: number(1), retained: number(2), class: words[3].to_owned() }
    };
    Some((roots, lines.map(object).collect()))
}

/// The objects that stand for threads and groups of roots in our files.
const OF_ROOTS: [&str; 4] = ["stopworld.Thread", "java.lang.String", "char[]", "stopworld.Roots[]"];

/// As [`visualvm`], without the objects of threads and of groups of roots.
fn visualvm_of_ours(dump: &Path) -> Option<(usize, Vec<Instance>)> {
    let (roots, mut found) = visualvm(dump)?;
    found.retain(|object| !OF_ROOTS.contains(&object.class.as_str()));
    Some((roots, found))
}

#[test]
fn memlab_finds_our_objects_sizes_and_retained_sizes() {
    let directory = command_support::directory();
    let file = directory.path().join("random.heapsnapshot");
    let graph = random_heap();
    v8::write(&graph, File::create(&file).unwrap()).unwrap();
    let Some(found) = memlab(&file) else { return };
    let dominators = Dominators::of(&graph);
    let reached = (0..graph.objects()).filter(|object| dominators.is_reached(*object)).count();
    assert!(reached > 1000, "{reached}");
    assert_eq!(found.len(), graph.objects() as usize);
    for (object, (size, retained, name)) in found.iter().enumerate() {
        let object = object as u32;
        assert_eq!((*size, name.as_str()), (graph.size(object), graph.type_name(object)));
        if dominators.is_reached(object) {
            assert_eq!(*retained, dominators.retained(object), "object {object}");
        }
    }
}

#[test]
fn visualvm_finds_our_objects_sizes_and_retained_sizes() {
    let directory = command_support::directory();
    let file = directory.path().join("random.hprof");
    let graph = random_heap();
    hprof::write(&graph, File::create(&file).unwrap()).unwrap();
    let Some((roots, found)) = visualvm_of_ours(&file) else { return };
    let threads = graph.groups().iter().filter(|group| group.kind == RootKind::Stack && group.thread.is_some()).count();
    assert_eq!((roots, found.len()), (graph.roots().len() + threads + graph.groups().len(), graph.objects() as usize));
    let dominators = Dominators::of(&graph);
    for Instance { address, size, retained, class } in found {
        let object = graph.find(address).unwrap();
        assert_eq!(size, graph.size(object), "{class}");
        assert!(class.starts_with(graph.type_name(object)), "{class}");
        if dominators.is_reached(object) {
            assert_eq!(retained, dominators.retained(object), "object {object}, a {class}");
        }
    }
}

/// A real heap: the objects and bytes of each type are those of the dump, and in memlab each object retains as much as in `stopworld heap`.
#[test]
fn memlab_and_visualvm_count_the_objects_of_a_run() {
    let directory = command_support::directory();
    let expected = recorded(directory.path());
    for format in ["heapsnapshot", "hprof"] {
        let output = run(directory.path(), &format!("snapshot heap.nettrace -o heap.{format}"));
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    }
    let count = |objects: &mut dyn Iterator<Item = (String, u64)>| {
        let mut census = Census::new();
        for (name, size) in objects {
            let row = census.entry(name).or_default();
            *row = (row.0 + 1, row.1 + size);
        }
        census
    };
    let file = directory.path().join("heap.heapsnapshot");
    if let Some(found) = memlab(&file) {
        assert_retained(&file, found.iter().map(|(_, retained, _)| *retained));
        assert_eq!(count(&mut found.into_iter().map(|(size, _, name)| (name, size))), expected);
    }
    if let Some((_, found)) = visualvm_of_ours(&directory.path().join("heap.hprof")) {
        let trace = File::open(directory.path().join("heap.nettrace")).unwrap();
        let graph = OpenedHeap::open(trace, DumpChoice::default()).unwrap().into_graph().unwrap();
        let dominators = Dominators::of(&graph);
        for Instance { address, retained, class, .. } in &found {
            let object = graph.find(*address).unwrap();
            assert_eq!(*retained, dominators.retained(object), "the object {address:#x}, a {class}");
        }
        // A class for each size, and arrays.
        let name = |class: &str| class.split(" (").next().unwrap().to_owned();
        assert_eq!(count(&mut found.into_iter().map(|object| (name(&object.class), object.size))), expected);
    }
}

/// In memlab, the group of a thread retains the thread's list, and nothing else.
#[test]
fn memlab_finds_each_list_below_its_thread() {
    let directory = command_support::directory();
    let (graph, [left, right]) = with_threads(directory.path(), "heap.heapsnapshot");
    let file = directory.path().join("heap.heapsnapshot");
    if memlab(&file).is_none() {
        return;
    }
    let groups = fs::read_to_string(file.with_extension("memlab.groups")).unwrap();
    let retained = |name: String| {
        let line = groups.lines().find_map(|line| line.strip_suffix(&format!(" ({name})")));
        line.unwrap_or_else(|| panic!("no {name} in {groups}")).parse::<u64>().unwrap()
    };
    let bytes = |name: &str| {
        let is_it = |object: &u32| graph.type_name(*object).ends_with(name);
        (0..graph.objects()).filter(is_it).map(|object| graph.size(object)).sum::<u64>()
    };
    assert_eq!(retained(format!("stacks of thread {left} \"left\"")), bytes("Left"));
    assert_eq!(retained(format!("stacks of thread {right} \"right\"")), bytes("Right"));
}

/// VisualVM's list of threads has each thread with a frame, and in the frame the objects to which the stack refers.
#[test]
fn visualvm_finds_each_list_on_the_stack_of_its_thread() {
    let directory = command_support::directory();
    let (graph, _) = with_threads(directory.path(), "heap.hprof");
    let file = directory.path().join("heap.hprof");
    if visualvm(&file).is_none() {
        return;
    }
    let found = fs::read_to_string(file.with_extension("visualvm.threads")).unwrap();
    let mut found: Vec<String> = found.lines().map(str::to_owned).collect();
    let mut expected = Vec::new();
    for (index, group) in graph.groups().iter().enumerate() {
        let Some(thread) = &group.thread else { continue };
        expected.push(format!("thread 1 {thread}"));
        let of_thread = graph.roots().iter().filter(|root| root.group as usize == index);
        expected.extend(of_thread.map(|root| format!("{} 0 {thread}", graph.address(root.target))));
    }
    assert!(expected.iter().any(|line| line.ends_with("\"left\"")), "{expected:?}");
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
}

/// Records two threads with a list each, and writes the heap in the format of the file. Returns it, and the ids of the threads.
fn with_threads(directory: &Path, file: &str) -> (Graph, [i32; 2]) {
    let threads = crate::threads::recorded(directory);
    let output = run(directory, &format!("snapshot heap.nettrace -o {file}"));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let opened = OpenedHeap::open(File::open(directory.join("heap.nettrace")).unwrap(), DumpChoice::default()).unwrap();
    (opened.into_graph().unwrap(), threads)
}

/// A snapshot by V8 itself: the same objects with the same sizes as in memlab.
#[test]
fn a_snapshot_of_v8_has_the_objects_that_memlab_finds() {
    let directory = command_support::directory();
    let file = directory.path().join("v8.heapsnapshot");
    if exists("node") {
        let script = format!("require('v8').writeHeapSnapshot({:?})", file.display().to_string());
        assert!(Command::new("node").args(["-e", &script]).status().unwrap().success());
    }
    let Some(found) = memlab(&file) else { return };
    let graph = v8::read(File::open(&file).unwrap()).unwrap();
    let mut expected: Vec<u64> = found.into_iter().map(|(size, _, _)| size).collect();
    let mut sizes: Vec<u64> = (0..graph.objects()).map(|object| graph.size(object)).collect();
    expected.sort_unstable();
    sizes.sort_unstable();
    assert!(sizes.len() > 10_000 && sizes == expected, "{} and {} objects", sizes.len(), expected.len());
}

/// A dump by a Java machine: the same objects as in VisualVM, of the same classes.
#[test]
fn a_dump_of_a_java_machine_has_the_objects_that_visualvm_finds() {
    let directory = command_support::directory();
    let file = directory.path().join("java.hprof");
    if exists("java") {
        assert!(Command::new("java").arg(source("Dump.java")).arg(&file).status().unwrap().success());
    }
    let Some((_, found)) = visualvm(&file) else { return };
    let graph = hprof::read(File::open(&file).unwrap()).unwrap();
    let mut expected: Vec<(u64, String)> = found.into_iter().map(|object| (object.address, object.class)).collect();
    let mut objects: Vec<(u64, String)> =
        (0..graph.objects()).map(|object| (graph.address(object), graph.type_name(object).to_owned())).collect();
    expected.sort();
    objects.sort();
    assert!(objects.len() > 10_000, "{}", objects.len());
    let differ = objects.iter().zip(&expected).find(|(ours, theirs)| ours != theirs);
    assert_eq!((objects.len(), differ), (expected.len(), None));
}
