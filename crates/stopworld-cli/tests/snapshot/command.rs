//! The commands: what they print, what they refuse, and what they leave of a file.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use heap_snapshot::{Builder, Dominators, Graph, Heap, Label, RootGroup, RootKind, v8};
use rstest::rstest;
use stopworld::{Gc, GcCell, World, traced};
use stopworld_diagnostics::Diagnostics;

use crate::command_support::{self, STOPWORLD, run, text};
use crate::{Census, recorded};

/// The census that `stopworld heap` prints: its table of types.
fn printed(directory: &Path, file: &str) -> Census {
    let output = run(directory, &format!("heap {file} --top 1000000"));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    let types =
        table.lines().skip_while(|line| !line.contains("│ type ")).skip(2).take_while(|line| line.starts_with('│'));
    let row = |line: &str| {
        let cells: Vec<_> = line.trim_matches('│').split('┆').map(str::trim).collect();
        let number = |at: usize| cells[at].parse::<u64>().unwrap();
        (cells[0].to_owned(), (number(1), number(2)))
    };
    types.map(row).collect()
}

#[rstest]
#[case("heap.nettrace")]
#[case("heap.heapsnapshot")]
fn the_objects_of_a_dump_are_counted_by_type(#[case] file: &str) {
    let directory = command_support::directory();
    let expected = recorded(directory.path());
    if file != "heap.nettrace" {
        let output = run(directory.path(), &format!("snapshot heap.nettrace -o {file}"));
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    }
    assert_eq!(printed(directory.path(), file), expected);
}

/// An option that selects a heap where there is only one is not ignored: the wrong heap would be shown.
#[rstest]
#[case("heap a.hprof --world 3", "--world selects a world of a core file or of a .nettrace, and a.hprof has one heap")]
#[case("heap a.hprof --program /bin/true", "--program is for core files, and a.hprof is none")]
#[case("heap a.hprof --collection 3", "--collection selects a heap dump of a .nettrace, and a.hprof has one heap")]
#[case("snapshot a.hprof --collection 3 -o b.hprof", "--collection selects a heap dump of a .nettrace, and a.hprof")]
#[case("snapshot heap.nettrace --program /bin/true -o b.hprof", "--program is for core files")]
#[case(
    "snapshot 1 --collection 7 -o b.hprof",
    "--program and --collection: process 1 collects and sends its heap itself"
)]
#[case("snapshot 1 --ptrace --collection 7 -o b.hprof", "'--ptrace' cannot be used with '--collection <N>'")]
fn an_option_that_selects_nothing_is_refused(#[case] arguments: &str, #[case] why: &str) {
    let directory = command_support::directory();
    recorded(directory.path());
    let output = run(directory.path(), "snapshot heap.nettrace -o a.hprof");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let output = run(directory.path(), arguments);
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
    assert!(said.contains(why), "{said}");
    assert!(!directory.path().join("b.hprof").exists());
}

/// A snapshot of a snapshot is the same heap, in either format.
#[test]
fn a_snapshot_is_converted_to_the_other_format_and_back() {
    let directory = command_support::directory();
    recorded(directory.path());
    for line in ["heap.nettrace -o a.heapsnapshot", "a.heapsnapshot -o b.hprof", "b.hprof -o c.heapsnapshot"] {
        let output = run(directory.path(), &format!("snapshot {line}"));
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    }
    let read = |file: &str| v8::read(fs::File::open(directory.path().join(file)).unwrap()).unwrap();
    let (before, after) = (read("a.heapsnapshot"), read("c.heapsnapshot"));
    assert_eq!((before.objects(), before.references()), (after.objects(), after.references()));
    assert_eq!(before.roots().len(), after.roots().len());
    let (before_tree, after_tree) = (Dominators::of(&before), Dominators::of(&after));
    for object in 0..before.objects() {
        assert_eq!(before.address(object), after.address(object));
        assert_eq!(before_tree.immediate(object), after_tree.immediate(object));
    }
}

/// A process that waits with a heap and an open diagnostics socket. It is killed when the test ends.
struct Subject(Child);

impl Subject {
    fn start(directory: &Path) -> Subject {
        let mut command = Command::new(STOPWORLD);
        command.args(["run", "graph", "--seconds", "600", "--threads", "2", "--diagnostics", "--initial-heap", "4m"]);
        command.env("TMPDIR", directory).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let subject = Subject(command.spawn().unwrap());
        let pid = format!("dotnet-diagnostic-{}-", subject.0.id());
        command_support::wait_until("it opens its socket", || {
            fs::read_dir(directory).unwrap().any(|entry| entry.unwrap().file_name().to_string_lossy().starts_with(&pid))
        });
        subject
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_running_process_sends_its_heap() {
    let directory = command_support::directory();
    let subject = Subject::start(directory.path());
    // Before the workload's first pass, and between two passes, its threads have no objects.
    command_support::wait_until("a snapshot has a graph", || {
        let mut command =
            command_support::stopworld(directory.path(), &format!("snapshot {} -o live.hprof", subject.0.id()));
        let output = command.env("TMPDIR", directory.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let census = printed(directory.path(), "live.hprof");
        let of_graph = census.iter().filter(|(name, _)| name.contains("graph::Vertex"));
        let table = text(&run(directory.path(), "heap live.hprof").stdout);
        let is_of_threads = table.contains("roots: stacks of thread ") && table.contains(" \"graph-");
        of_graph.map(|(_, row)| row.0).sum::<u64>() > 1000 && is_of_threads
    });
}

#[test]
fn a_stopped_process_is_reported_after_the_timeout() {
    let directory = command_support::directory();
    let subject = Subject::start(directory.path());
    let pid = subject.0.id();
    // SAFETY: a plain system call on a process that this test started.
    assert_eq!(unsafe { libc::kill(pid as i32, libc::SIGSTOP) }, 0);
    let mut command = command_support::stopworld(directory.path(), &format!("snapshot {pid} --timeout 1.5 -o x.hprof"));
    let begun = Instant::now();
    let output = command.env("TMPDIR", directory.path()).output().unwrap();
    let taken = begun.elapsed();
    let expected = format!("error: process {pid} did not answer within 1.5 s: is it stopped?\n");
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(1), expected));
    assert!((Duration::from_millis(1_500)..Duration::from_secs(15)).contains(&taken), "{taken:?}");
    assert!(!directory.path().join("x.hprof").exists());
}

/// The test is the process: it accepts a session, and closes the connection without a heap.
#[test]
fn a_process_that_ends_meanwhile_is_reported() {
    use std::io::{Read, Write};
    let directory = command_support::directory();
    let pid = std::process::id();
    // Where this process would have its own socket.
    let path = std::env::temp_dir().join(format!("dotnet-diagnostic-{pid}-1-socket"));
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    // A reply without the request's contents: an error, then a session with the number 1, whose stream is cut in its header.
    let reply = |id: u8, payload: &[u8]| {
        let size = (20 + payload.len()) as u16;
        [b"DOTNET_IPC_V1\0", &size.to_le_bytes()[..], &[0xff, id, 0, 0], payload].concat()
    };
    let unknown = reply(0xff, &0x8013_1385_u32.to_le_bytes());
    let cut = [reply(0, &1_u64.to_le_bytes()), b"Nettrace".to_vec()].concat();
    std::thread::spawn(move || {
        for answer in [unknown, cut] {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 4096];
            assert!(stream.read(&mut request).unwrap() >= 20);
            stream.write_all(&answer).unwrap();
        }
        // The request to stop is refused.
        drop(listener);
    });
    let output = run(directory.path(), &format!("snapshot {pid} -o x.hprof"));
    fs::remove_file(&path).unwrap();
    let expected =
        format!("error: process {pid} closed the connection before it had sent its heap: it has probably ended\n");
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(1), expected));
}

/// Set in the process that [`the_subject`] is, to the number of objects in its second world.
const OBJECTS: &str = "STOPWORLD_TEST_OBJECTS_OF_A_WORLD";

traced! {
    struct Kept {
        next: GcCell<Option<Gc<Kept>>>,
    }
}

/// A program with three worlds, of which the first is empty and the third has one object more than the second; not a test by itself.
#[test]
fn the_subject() {
    let Some(objects) = std::env::var_os(OBJECTS) else { return };
    let diagnostics = Diagnostics::open().unwrap();
    let build = || World::builder().record_to(&diagnostics).build().unwrap();
    let empty = build();
    let count: u64 = objects.to_str().unwrap().parse().unwrap();
    let fill = |count| {
        let world = build();
        // SAFETY: the references are on this thread's stack.
        let m = unsafe { world.attach("main") }.unwrap();
        let list = (0..count).fold(None, |next, _| Some(m.alloc(Kept { next: GcCell::new(next) }).unwrap()));
        let handle = list.map(|list| m.root(list));
        drop(m);
        (world, handle)
    };
    let filled = (count > 0).then(|| [fill(count), fill(count + 1)]);
    println!("\nready");
    // The end of its input is the end of the test.
    std::io::stdin().lines().for_each(drop);
    drop((filled, empty));
}

/// Runs `line` with the process id of a program of [`the_subject`] in place of `PID`.
fn with_subject(directory: &Path, objects: u64, line: &str) -> (Option<i32>, String) {
    let mut subject = Command::new(std::env::current_exe().unwrap());
    subject.args(["command::the_subject", "--exact", "--nocapture", "--test-threads=1"]);
    subject.env(OBJECTS, objects.to_string()).env("TMPDIR", directory);
    let mut subject = subject.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(subject.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "ready"));
    let mut command = command_support::stopworld(directory, &line.replace("PID", &subject.id().to_string()));
    let output = command.env("TMPDIR", directory).output().unwrap();
    drop(subject.stdin.take());
    assert!(subject.wait().unwrap().success());
    (output.status.code(), text(&output.stderr))
}

/// An empty heap is a heap, and a world is never chosen by chance.
#[rstest]
#[case::hprof("empty.hprof", 0, "", 0)]
#[case::heapsnapshot("empty.heapsnapshot", 0, "", 0)]
#[case::the_second_world("objects.hprof", 200_000, " --world 2", 200_000)]
#[case::the_third_world("objects.hprof", 20_000, " --world 3", 20_001)]
#[case::the_empty_world("objects.hprof", 20_000, " --world 1", 0)]
fn a_process_sends_the_heap_of_a_world(
    #[case] file: &str,
    #[case] objects: u64,
    #[case] world: &str,
    #[case] expected: u64,
) {
    let directory = command_support::directory();
    let line = format!("snapshot PID --timeout 20{world} -o {file}");
    let (code, said) = with_subject(directory.path(), objects, &line);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains(&format!("wrote {expected} objects, ")), "{said}");
    let heap = printed(directory.path(), file);
    assert_eq!(heap.values().map(|row| row.0).sum::<u64>(), expected);
}

/// The socket and ptrace report the worlds alike.
#[rstest]
#[case("", "the process has several worlds: --world selects one of 3, 2, 1\n")]
#[case(" --world 4", "the process has no world 4: it has 3, 2, 1\n")]
fn a_world_of_several_must_be_selected(
    #[case] world: &str,
    #[case] expected: &str,
    #[values("", " --ptrace")] way: &str,
) {
    let directory = command_support::directory();
    let (code, said) = with_subject(directory.path(), 10, &format!("snapshot PID{way}{world} -o x.hprof"));
    assert_eq!((code, said.lines().count()), (Some(1), 1), "{said}");
    assert!(said.ends_with(expected), "{said}");
    assert!(!directory.path().join("x.hprof").exists());
}

/// The heap of the program while it runs, not at its end, when nothing is alive any more.
#[rstest]
#[case("--snapshot heap.hprof")]
#[case("--snapshot heap.heapsnapshot --snapshot-at 3 --trace run.nettrace")]
fn a_run_writes_the_heap_of_a_collection(#[case] options: &str) {
    let directory = command_support::directory();
    let output = run(directory.path(), &format!("run graph --threads 2 --initial-heap 1m {options}"));
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    assert!(errors.contains("stopworld: wrote ") && text(&output.stdout).contains("│ collections"), "{errors}");
    let census = printed(directory.path(), options.split(' ').nth(1).unwrap());
    let vertices: u64 = census.iter().filter(|(name, _)| name.contains("graph::Vertex")).map(|(_, row)| row.0).sum();
    assert!(vertices > 1000, "{census:?}");
}

#[rstest]
#[case("run binary-trees --depth 4 --snapshot a.hprof", 1, &["a.hprof is not written", "--initial-heap"])]
#[case("run graph --snapshot a.json", 2, &["'--snapshot <FILE>'", "'a.json'", "end it in .heapsnapshot"])]
#[case("run graph --snapshot no/a.hprof", 1, &["no/a.hprof", "its directory must exist"])]
#[case("run graph --snapshot-at 2", 2, &["--snapshot <FILE>"])]
fn a_run_without_its_snapshot_reports_it_in_one_line(#[case] line: &str, #[case] code: i32, #[case] expected: &[&str]) {
    let directory = command_support::directory();
    let output = run(directory.path(), line);
    let error = text(&output.stderr);
    assert_eq!((output.status.code(), error.lines().count()), (Some(code), 1), "{error}");
    for part in expected {
        assert!(error.contains(part), "'{error}' does not contain {part}");
    }
    assert!(!directory.path().join("a.hprof").exists());
}

/// `.event.full-disk`: for the temporary file, a limit of the size of a file stands for a full disk. Up to 2 KiB is nothing of the trace,
/// and up to 100 KiB is a part of the dump.
#[rstest]
fn a_run_whose_temporary_file_is_full_names_its_directory(#[values(1, 2, 100)] blocks: u32) {
    let directory = command_support::directory();
    let line =
        format!("ulimit -f {blocks}; exec {STOPWORLD} run graph --threads 2 --initial-heap 1m --snapshot e.hprof");
    let mut shell = Command::new("sh");
    let output = shell.args(["-c", &line]).current_dir(directory.path()).output().unwrap();
    let error = text(&output.stderr);
    assert_eq!((output.status.code(), error.lines().count()), (Some(1), 1), "{error}");
    assert!(error.contains("--snapshot: can't write the temporary file: File too large"), "{error}");
    assert!(error.contains("or set TMPDIR to a directory with room"), "{error}");
    assert!(!directory.path().join("e.hprof").exists());
}

/// A list of `length` nodes, which a handle keeps alive, and a node that nothing keeps alive.
fn list(length: u32) -> Graph {
    let mut builder = Builder::default();
    for node in 0..length {
        builder.object(0x1000 + 32 * u64::from(node), "Node", 32).unwrap();
        if node + 1 < length {
            builder.reference(Label::Offset(8), node + 1);
        }
    }
    builder.object(0x9000, "Garbage", 64).unwrap();
    builder.root(RootGroup { kind: RootKind::Handle, thread: None }, 0x7000_1000, 0);
    builder.finish().0
}

fn write(directory: &Path, file: &str, graph: &Graph) {
    v8::write(graph, fs::File::create(directory.join(file)).unwrap()).unwrap();
}

#[test]
fn why_prints_the_path_from_the_root() {
    let directory = command_support::directory();
    write(directory.path(), "list.heapsnapshot", &list(3));
    // An address inside the last node.
    let output = run(directory.path(), "heap list.heapsnapshot --why 0x1048");
    let expected = "root: handles, the word at 0x70001000\n  \
        → 0x1000  Node, 32 B, retains 96 B\n  \
        +8 → 0x1020  Node, 32 B, retains 64 B\n  \
        +8 → 0x1040  Node, 32 B, retains 32 B\n";
    assert_eq!((text(&output.stdout).as_str(), output.status.code()), (expected, Some(0)));
    let output = run(directory.path(), "heap list.heapsnapshot --why 0x9000");
    assert_eq!(text(&output.stderr), "heap: list.heapsnapshot: no root reaches the object at 0x9000\n");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn diff_prints_what_has_grown() {
    let directory = command_support::directory();
    write(directory.path(), "a.heapsnapshot", &list(3));
    write(directory.path(), "b.heapsnapshot", &list(10));
    let output = run(directory.path(), "heap --diff a.heapsnapshot b.heapsnapshot");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split(['│', '┆']).map(str::trim).collect()).collect();
    assert_eq!(rows[3], ["", "Node", "10", "+7", "320", "+224", "320", "+224", ""], "{table}");
    assert!(!table.contains("Garbage"), "it has not changed:\n{table}");
}

#[rstest]
#[case("snapshot none.nettrace -o a.heapsnapshot", 1, &["can't open none.nettrace", "No such file"])]
#[case("snapshot text -o a.heapsnapshot", 1, &["text: not a heap snapshot: expected", "HPROF", ".nettrace with a heap dump"])]
#[case("snapshot text -o a.json", 2, &["a.json", "end it in .heapsnapshot", ".hprof"])]
#[case("snapshot text -o no/a.hprof", 1, &["can't write no/a.hprof: No such file or directory (os error 2); its directory must exist", "or name another file"])]
#[case("snapshot text -o -", 2, &["'-'", "not written to standard output", ".hprof"])]
#[case("snapshot plain.nettrace -o a.hprof", 1, &["plain.nettrace: the trace has no heap dump", "--events GC+Type+GCHeapDump"])]
#[case("snapshot cut.nettrace -o a.hprof", 1, &["cut.nettrace: the trace ends inside the heap dump of collection 1"])]
#[case("snapshot heap.nettrace -o a.hprof --collection 99", 1, &["collection 99 has no complete heap dump; those that have one: 1"])]
#[case("snapshot 4194304 -o a.hprof", 1, &["process 4194304"])]
#[case("snapshot cut.hprof -o a.hprof", 1, &["cut.hprof: byte ", "the file is truncated"])]
#[case("snapshot no-end.hprof -o a.hprof", 1, &["no-end.hprof: byte ", "the record that ends the heap dump is missing"])]
#[case("heap no-end.hprof", 1, &["no-end.hprof: byte ", "the file is truncated"])]
#[case("heap text", 1, &["text: not a heap snapshot"])]
#[case("heap", 2, &["FILE", "stopworld heap --help"])]
#[case("heap heap.nettrace --why 0xzz", 2, &["'0xzz'", "0x7f3a10002040"])]
#[case("heap heap.nettrace --why 0x10", 1, &["heap.nettrace: no object contains 0x10"])]
#[case("heap --diff heap.nettrace", 2, &["--diff", "2"])]
#[case("heap --diff - -", 2, &["--diff: both snapshots are `-`", "name a file for the other"])]
#[case("heap 4194304", 1, &["can't open 4194304", "`stopworld snapshot 4194304 -o FILE.hprof`", "--ptrace"])]
fn what_can_not_be_done_is_one_line_and_leaves_the_output(
    #[case] line: &str,
    #[case] code: i32,
    #[case] expected: &[&str],
) {
    let directory = command_support::directory();
    let path = |name: &str| directory.path().join(name);
    recorded(directory.path());
    fs::write(path("text"), "hello").unwrap();
    let trace = fs::read(path("heap.nettrace")).unwrap();
    fs::write(path("cut.nettrace"), &trace[..trace.len() / 3]).unwrap();
    run(directory.path(), "snapshot heap.nettrace -o whole.hprof");
    let whole = fs::read(path("whole.hprof")).unwrap();
    fs::write(path("cut.hprof"), &whole[..whole.len() - 1000]).unwrap();
    // The record that ends the heap dump has nothing but a tag, a time and a length.
    fs::write(path("no-end.hprof"), &whole[..whole.len() - 9]).unwrap();
    run(directory.path(), "run graph --trace plain.nettrace");
    for output in ["a.hprof", "a.heapsnapshot", "a.json"] {
        fs::write(path(output), "earlier").unwrap();
    }
    let output = run(directory.path(), line);
    let error = text(&output.stderr);
    assert_eq!((output.status.code(), error.lines().count()), (Some(code), 1), "{error}");
    for part in expected {
        assert!(error.contains(part), "'{error}' does not contain {part}");
    }
    for output in ["a.hprof", "a.heapsnapshot", "a.json"] {
        assert_eq!(fs::read_to_string(path(output)).unwrap(), "earlier");
    }
}

/// The end of a damaged trace is missing, so an earlier dump than that of the whole trace may be shown.
#[rstest]
#[case("heap cut.nettrace", "heap: cut.nettrace: the trace is damaged ", "│ type ")]
#[case("heap --diff heap.nettrace cut.nettrace", "heap: cut.nettrace: the trace is damaged ", "│ type ")]
#[case("snapshot cut.nettrace -o x.hprof", "snapshot: the trace is damaged ", "")]
fn a_damaged_trace_is_a_failure_after_its_complete_dump(
    #[case] line: &str,
    #[case] expected: &str,
    #[case] printed: &str,
) {
    let directory = command_support::directory();
    recorded(directory.path());
    let trace = fs::read(directory.path().join("heap.nettrace")).unwrap();
    fs::write(directory.path().join("cut.nettrace"), &trace[..trace.len() - 5]).unwrap();
    let output = run(directory.path(), line);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.starts_with(expected), "{said}");
    assert!(said.contains("; the heap dump of collection ") && said.contains(" is complete and is used\n"), "{said}");
    assert!(text(&output.stdout).contains(printed));
    assert!(!line.contains("-o x.hprof") || directory.path().join("x.hprof").exists());
}

/// `.event.full-disk`
#[test]
fn a_full_disk_is_one_line() {
    let directory = command_support::directory();
    recorded(directory.path());
    std::os::unix::fs::symlink("/dev/full", directory.path().join("full.hprof")).unwrap();
    let output = run(directory.path(), "snapshot heap.nettrace -o full.hprof");
    let error = text(&output.stderr);
    assert_eq!((output.status.code(), error.lines().count()), (Some(1), 1), "{error}");
    assert!(error.contains("full.hprof: No space left on device"), "{error}");
}

/// `.event.full-disk`: a file that did not exist is not called unchanged.
#[rstest]
fn a_message_about_the_existing_file_needs_one(#[values(false, true)] exists: bool) {
    let directory = command_support::directory();
    recorded(directory.path());
    if exists {
        fs::write(directory.path().join("x.hprof"), "earlier").unwrap();
    }
    let line = format!("ulimit -f 20; exec {STOPWORLD} snapshot heap.nettrace -o x.hprof");
    let output = Command::new("sh").args(["-c", &line]).current_dir(directory.path()).output().unwrap();
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("x.hprof: File too large"), "{error}");
    assert_eq!(error.contains("the existing file is unchanged"), exists, "{error}");
    assert_eq!(directory.path().join("x.hprof").exists(), exists);
}

/// `.event.full-disk`
#[test]
fn a_report_without_room_names_the_remedy() {
    let directory = command_support::directory();
    recorded(directory.path());
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = command_support::stopworld(directory.path(), "heap heap.nettrace");
    let output = command.stdout(full).output().unwrap();
    let expected = "error: can't write the report: No space left on device (os error 28); make room\n";
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(1), expected));
}

#[test]
fn a_closed_standard_error_ends_no_command() {
    let directory = command_support::directory();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let line = "run graph --threads 2 --initial-heap 1m --snapshot e.hprof";
    let output = command_support::stopworld(directory.path(), line).stderr(writer).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(directory.path().join("e.hprof").exists());
}
