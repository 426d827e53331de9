//! `stopworld core` on real cores: of programs that were killed in the allocator, while marking, and while sweeping. What it says is compared
//! with what the program's own collector counted at the same moment.

mod lldb_support;
#[path = "../../../tests/skipped/mod.rs"]
mod skipped;
#[path = "../../../tests/tools/mod.rs"]
mod tools;

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;

use rstest::rstest;
use stopworld::debugger::inspect::{self, CensusRow, ObjectFacts};
use stopworld::events::{EventId, Record, Selection, Sink};
use stopworld::{Gc, GcCell, Mutator, World, traced};
use tools::{has, has_gdb, said, skipped};

const STOPWORLD: &str = env!("CARGO_BIN_EXE_stopworld");

/// The environment variable with the place at which the subject ends.
const ENDS: &str = "STOPWORLD_SUBJECT_ENDS";
/// The length of the list that is alive, and of the one that is garbage.
const ALIVE: u64 = 1000;
const GARBAGE: u64 = 2000;

traced! {
    struct Node {
        next: GcCell<Option<Gc<Node>>>,
        value: u64,
    }
}

traced! {
    struct Rubbish {
        next: GcCell<Option<Gc<Rubbish>>>,
        value: [u64; 3],
    }
}

/// Ends the process at the n-th event.
#[derive(Debug)]
struct Ends {
    after: AtomicU64,
    an_object: usize,
}

impl Sink for Ends {
    fn record(&self, _: &Record) {
        if self.after.fetch_sub(1, Ordering::Relaxed) == 1 {
            tell_and_abort(self.an_object);
        }
    }
}

/// Prints what the collector itself counts, and aborts. In the stopped world this is only safe because the other threads neither print nor
/// allocate.
fn tell_and_abort(an_object: usize) -> ! {
    let (mut facts, mut rows) = (ObjectFacts::default(), [CensusRow::default(); 64]);
    // SAFETY: the other thread of this world is in a blocking region, or stopped.
    let count = unsafe {
        assert_eq!(inspect::describe(an_object, &raw mut facts as usize, 0, 0), 1);
        inspect::census(facts.world, rows.as_mut_ptr() as usize, rows.len(), 0)
    };
    for row in &rows[..usize::try_from(count).unwrap()] {
        // SAFETY: the name of a type, which lives for ever.
        let name = unsafe { std::slice::from_raw_parts(row.type_name as *const u8, row.type_name_bytes) };
        println!("census {} {} {}", String::from_utf8_lossy(name), row.objects, row.bytes);
    }
    std::process::abort();
}

/// The program that is killed; not a test by itself.
#[test]
fn the_subject() {
    let Ok(place) = std::env::var(ENDS) else { return };
    let world = World::builder().heap_limit(16 << 20).markers(1).build().unwrap();
    let (started, has_started) = channel();
    let (end, ends) = channel::<()>();
    // SAFETY: the thread keeps its reference on its stack.
    let waiter = unsafe {
        world.spawn("waiter", move |m| {
            let own = m.alloc([7_u64; 4]).unwrap();
            let address = Gc::addr(own);
            m.blocking(move || {
                started.send(address).unwrap();
                ends.recv()
            })
            .unwrap_err();
            black_box(own);
        })
    };
    // SAFETY: this thread keeps its references on its stack, and passes none to the sink.
    let m = unsafe { world.attach("subject") }.unwrap();
    let of_waiter = m.blocking(move || has_started.recv()).unwrap();
    let list = list(&m);
    let kept = m.root(list);
    let deep = (0..ALIVE / 2).fold(list, |node, _| node.next.get().unwrap());
    println!("\nhead {:#x}\ndeep {:#x}\nwaiter {of_waiter:#x}", Gc::addr(list), Gc::addr(deep));
    m.alloc_array::<u64>(30_000, |index| index as u64).map(|array| println!("array {:#x}", Gc::addr(array))).unwrap();
    garbage(&m);
    let listen = |event, after| {
        let sink = Ends { after: AtomicU64::new(after), an_object: Gc::addr(list) };
        world.events().listen(Arc::new(sink), Selection::of([event].into_iter().collect())).unwrap()
    };
    match place.as_str() {
        "running" => tell_and_abort(Gc::addr(list)),
        "worlds" => {
            let before = mappings();
            let others = (0..20).map(|_| World::builder().heap_limit(1 << 20).markers(1).build().unwrap());
            let _others: Vec<World> = others.collect();
            leave_out_since(&before);
            tell_and_abort(Gc::addr(list))
        }
        "allocating" => {
            let _listens = listen(EventId::ObjectAllocated, 100);
            garbage(&m);
        }
        "roots" => {
            let _listens = listen(EventId::RootScanned, 3);
            m.collect().unwrap();
        }
        "marking" => {
            let _listens = listen(EventId::MarkEnd, 1);
            m.collect().unwrap();
        }
        "sweeping" => {
            let _listens = listen(EventId::BlockReclaimed, 5);
            m.collect().unwrap();
        }
        "swept" => {
            m.collect().unwrap();
            // Some of the blocks are swept, and have new objects.
            (0..300).for_each(|_| {
                black_box(rubbish(&m, None));
            });
            tell_and_abort(Gc::addr(list));
        }
        _ => panic!("no place: {place}"),
    }
    drop((kept, end, waiter));
    panic!("{place} was not reached");
}

/// Returns the ends of each mapping, in the order of the addresses.
fn mappings() -> Vec<[usize; 2]> {
    let mappings = std::fs::read_to_string("/proc/self/maps").unwrap();
    let ends = mappings.lines().map(|line| line.split(' ').next().unwrap().split_once('-').unwrap());
    ends.map(|(start, end)| [start, end].map(|end| usize::from_str_radix(end, 16).unwrap())).collect()
}

/// Leaves large memory that was mapped since then out of cores. A world reserves a gigabyte, of which gdb writes all.
fn leave_out_since(before: &[[usize; 2]]) {
    const MADV_DONTDUMP: c_int = 16;
    unsafe extern "C" {
        fn madvise(start: *mut c_void, bytes: usize, advice: c_int) -> c_int;
    }
    let leave_out = |start: usize, end: usize| {
        if end.saturating_sub(start) > 1 << 20 {
            // SAFETY: the memory and its contents stay.
            assert_eq!(unsafe { madvise(start as *mut c_void, end - start, MADV_DONTDUMP) }, 0);
        }
    };
    for [start, end] in mappings() {
        let mut new_from = start;
        // A mapping may have become larger.
        for [known, known_end] in before.iter().filter(|[known, known_end]| *known < end && start < *known_end) {
            leave_out(new_from, *known);
            new_from = *known_end;
        }
        leave_out(new_from, end);
    }
}

#[inline(never)]
fn list(m: &Mutator) -> Gc<Node> {
    (0..ALIVE).fold(None, |next, value| Some(m.alloc(Node { next: GcCell::new(next), value }).unwrap())).unwrap()
}

fn rubbish(m: &Mutator, next: Option<Gc<Rubbish>>) -> Gc<Rubbish> {
    m.alloc(Rubbish { next: GcCell::new(next), value: [1; 3] }).unwrap()
}

#[inline(never)]
fn garbage(m: &Mutator) {
    black_box((0..GARBAGE).fold(None, |next, _| Some(rubbish(m, next))));
}

/// What ends the process, and writes the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writer {
    /// The kernel, if it writes cores to files here, or else gdb.
    Kernel,
    Gdb,
}

/// Returns the command that runs a program to its end, so that the kernel writes its core; `None` if that would go elsewhere.
fn ended_by_the_kernel(program: &Path) -> Option<Command> {
    let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    if pattern.trim() != "core" {
        return None;
    }
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -c unlimited && exec \"$@\"", "sh"]).arg(program);
    Some(shell)
}

/// Returns the command that runs a program to its end in gdb, which writes its core; `None`, with a skipped test reported, if gdb can't.
fn ended_by_gdb(program: &Path, core: &Path) -> Option<Command> {
    if !has_gdb() {
        return None;
    }
    let mut gdb = Command::new("gdb");
    gdb.args(["-q", "-nx", "-batch", "-iex", "set auto-load no", "-ex", "handle all nostop noprint pass"]);
    gdb.args(["-ex", "handle SIGABRT stop nopass", "-ex", "run", "-ex"]);
    gdb.arg(format!("generate-core-file {}", core.display())).args(["-ex", "kill", "--args"]).arg(program);
    Some(gdb)
}

/// A core, and what its process said.
struct Dead {
    folder: tempfile::TempDir,
    core: PathBuf,
    said: String,
}

impl Dead {
    /// Returns the address that the process printed under this name.
    fn address(&self, name: &str) -> String {
        let line = self.said.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name} in {}", self.said)).to_owned()
    }

    /// Returns the address of the list's first object.
    fn head(&self) -> u64 {
        u64::from_str_radix(self.address("head").trim_start_matches("0x"), 16).unwrap()
    }

    /// Returns objects and bytes by type, as the process counted them.
    fn census(&self) -> BTreeMap<String, (u64, u64)> {
        let rows = self.said.lines().filter_map(|line| line.strip_prefix("census "));
        rows.map(|row| {
            let mut words = row.rsplitn(3, ' ');
            let [bytes, objects] = [words.next().unwrap(), words.next().unwrap()].map(|word| word.parse().unwrap());
            (words.next().unwrap().to_owned(), (objects, bytes))
        })
        .collect()
    }

    /// Leaves out what the kernel does not write, but gdb does: the constants of the program and its libraries, which follow the header of
    /// each file.
    fn leave_out_constants(&self) {
        let core = Headers::of(&self.core);
        let begins_a_file = |at: &u64| core.word(core.word(at + 8)).to_le_bytes().starts_with(b"\x7fELF");
        for at in core.loads().filter(|at| core.word(at + 32) > 4096 && begins_a_file(at)) {
            core.file.write_all_at(&4096_u64.to_le_bytes(), at + 32).unwrap();
        }
    }

    fn core(&self, arguments: &[&str]) -> Output {
        Command::new(STOPWORLD).arg("core").arg(&self.core).args(arguments).output().unwrap()
    }
}

/// The program headers of a core.
struct Headers {
    file: std::fs::File,
}

impl Headers {
    fn of(core: &Path) -> Headers {
        Headers { file: std::fs::File::options().read(true).write(true).open(core).unwrap() }
    }

    fn word(&self, at: u64) -> u64 {
        let mut bytes = [0; 8];
        self.file.read_exact_at(&mut bytes, at).unwrap();
        u64::from_le_bytes(bytes)
    }

    /// Returns where the header of each segment of memory is. Its offset in the file is at 8, its address at 16, and the
    /// number of its bytes in the file at 32.
    fn loads(&self) -> impl Iterator<Item = u64> {
        // The program headers follow the file header, which has their number at byte 56.
        let all = (0..self.word(56) & 0xffff).map(|index| 64 + 56 * index);
        all.filter(|at| self.word(*at) & 0xffff_ffff == 1)
    }

    /// Returns where the header of the only segment with an address is.
    fn load_with(&self, address: u64) -> u64 {
        let has_address = |at: &u64| (self.word(at + 16)..self.word(at + 16) + self.word(at + 32)).contains(&address);
        let found: Vec<u64> = self.loads().filter(has_address).collect();
        assert_eq!(found.len(), 1);
        found[0]
    }
}

/// Runs a program to its end at a place. `None`, with a skipped test reported, if there is no way to get a core here.
fn ended_at(place: &str, program: &Path, writer: Writer) -> Option<Dead> {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["the_subject", "--exact", "--nocapture", "--test-threads=1"];
    let core = folder.path().join("core");
    let by_kernel = ended_by_the_kernel(program).filter(|_| writer == Writer::Kernel);
    for command in [by_kernel, None] {
        let is_last = command.is_none();
        let mut command = command.or_else(|| ended_by_gdb(program, &core))?;
        let output = command.args(arguments).env(ENDS, place).current_dir(folder.path()).output().unwrap();
        let said = said(&output);
        assert!(!said.contains("was not reached"), "{said}");
        let written = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
        let is_core = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("core"));
        if let Some(core) = written.into_iter().find(is_core) {
            return Some(Dead { folder, core, said });
        }
        // The kernel writes none if a limit forbids it.
        assert!(!is_last, "gdb wrote no core: {said}");
    }
    None
}

fn this() -> PathBuf {
    std::env::current_exe().unwrap()
}

/// Returns objects, bytes and retained bytes by type from a report.
fn types(report: &str) -> BTreeMap<String, (u64, u64, u64)> {
    let rows =
        report.lines().skip_while(|line| !line.starts_with("│ type ")).skip(2).take_while(|line| line.starts_with('│'));
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('│').split('┆').map(str::trim).collect();
        let number = |index: usize| cells[index].parse().unwrap_or_else(|_| panic!("{row}"));
        (cells[0].to_owned(), (number(1), number(2), number(3)))
    })
    .collect()
}

#[rstest]
#[case::running("running", "no collection", Writer::Kernel)]
#[case::allocating("allocating", "no collection", Writer::Kernel)]
#[case::roots("roots", "scanning roots", Writer::Kernel)]
#[case::marking("marking", "a collection", Writer::Kernel)]
#[case::swept("swept", "no collection", Writer::Kernel)]
#[case::running_with_gdb("running", "no collection", Writer::Gdb)]
#[case::roots_with_gdb("roots", "scanning roots", Writer::Gdb)]
fn a_core_has_the_objects_that_the_program_counted(#[case] place: &str, #[case] phase: &str, #[case] writer: Writer) {
    let Some(dead) = ended_at(place, &this(), writer) else { return };
    let output = dead.core(&[]);
    let report = said(&output);
    assert_eq!(output.status.code(), Some(0), "{report}");
    assert!(report.contains(phase) && report.contains("no damage was found"), "{report}");
    let types = types(&report);
    let census: BTreeMap<_, _> =
        types.iter().map(|(name, (objects, bytes, _))| (name.clone(), (*objects, *bytes))).collect();
    assert_eq!(census, dead.census(), "{report}");
    let (nodes, bytes, retained) = types["post_mortem::Node"];
    assert_eq!((nodes, retained), (ALIVE, bytes));
    for thread in ["subject", "waiter", "in a blocking region"] {
        assert!(report.contains(thread), "{report}");
    }
}

/// In a sweep the dead objects do not count, whether their blocks are freed already or not.
#[test]
fn a_core_from_the_middle_of_a_sweep_has_the_live_objects() {
    let Some(dead) = ended_at("sweeping", &this(), Writer::Kernel) else { return };
    let output = dead.core(&[]);
    let report = said(&output);
    assert_eq!(output.status.code(), Some(0), "{report}");
    assert!(report.contains("phase sweep-begin: a collection was setting up the sweep"), "{report}");
    assert!(report.contains("no damage was found") && !report.contains("not reached"), "{report}");
    let types = types(&report);
    assert_eq!(types["post_mortem::Node"].0, ALIVE, "{report}");
    // Words that are left on the stack may keep some of them.
    let rubbish = types.get("post_mortem::Rubbish").map_or(0, |row| row.0);
    assert!(rubbish < GARBAGE, "{report}");
}

#[test]
fn a_core_answers_questions_about_objects() {
    let Some(dead) = ended_at("running", &this(), Writer::Kernel) else { return };
    let ask = |question: &str, address: &str| {
        let output = dead.core(&[question, address]);
        (output.status.code(), said(&output))
    };
    let (head, deep, waiter) = (dead.address("head"), dead.address("deep"), dead.address("waiter"));
    let (code, why) = ask("--why", &deep);
    assert_eq!(code, Some(0), "{why}");
    assert!(why.starts_with("root: ") && why.contains(&deep), "{why}");
    assert!(why.contains(&head) || why.contains("stacks of thread"), "{why}");
    let (code, why) = ask("--why", &waiter);
    assert_eq!(code, Some(0), "{why}");
    assert!(why.starts_with("root: stacks of thread ") && why.contains(&waiter), "{why}");
    let (code, object) = ask("--object", &head);
    assert_eq!(code, Some(0), "{object}");
    assert!(
        object.starts_with(&format!("{head}  post_mortem::Node, ")) && object.contains("post_mortem::Node │"),
        "{object}"
    );
    let (code, array) = ask("--object", &dead.address("array"));
    assert_eq!((code, array.contains("245760 B, 30000 elements")), (Some(0), true), "{array}");
    let next = object.lines().find_map(|line| line.contains("+0").then(|| line.split("0x").nth(1))).flatten().unwrap();
    let next = format!("0x{}", next.split_whitespace().next().unwrap());
    let (code, referrers) = ask("--referrers", &next);
    assert_eq!((code, referrers.contains(&head)), (Some(0), true), "{referrers}");
    let (code, none) = ask("--object", "0x10");
    assert_eq!(code, Some(1), "{none}");
    assert!(none.contains("no object is at 0x10: the address is in no world's heap"), "{none}");
}

/// The names of types are in the program, which is not where it was.
#[test]
fn a_core_of_a_program_that_has_moved_asks_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    std::fs::copy(this(), &program).unwrap();
    let Some(dead) = ended_at("running", &program, Writer::Kernel) else { return };
    dead.leave_out_constants();
    let moved = folder.path().join("moved");
    std::fs::rename(&program, &moved).unwrap();
    let output = dead.core(&[]);
    let report = said(&output);
    assert_eq!(output.status.code(), Some(1), "{report}");
    assert!(
        report.contains("types can't be read: their names are missing") && report.contains("--program FILE"),
        "{report}"
    );
    let output = dead.core(&["--program", moved.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(types(&said(&output))["post_mortem::Node"].0, ALIVE);
    let output = dead.core(&["--program", STOPWORLD]);
    assert!(said(&output).contains("it is not the file that the process had mapped"), "{}", said(&output));
}

/// Neither symbols nor section headers are left.
#[test]
fn a_core_of_a_stripped_program_is_read() {
    if !has("strip") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = tools::stripped(folder.path(), "--strip-all") else { return };
    let Some(dead) = ended_at("roots", &program, Writer::Kernel) else { return };
    let output = dead.core(&[]);
    let report = said(&output);
    assert_eq!((output.status.code(), types(&report)["post_mortem::Node"].0), (Some(0), ALIVE), "{report}");
}

#[test]
fn a_core_that_is_cut_off_gives_what_is_there() {
    let Some(dead) = ended_at("running", &this(), Writer::Kernel) else { return };
    let length = std::fs::metadata(&dead.core).unwrap().len();
    let mut seen = Vec::new();
    // The last cut is after the worlds, which are in a heap of malloc near the end of the core.
    let parts = [0, 1, 5, 20, 50, 90, 99].map(|part| length * part / 100).into_iter().chain([length - (1 << 20)]);
    // The first ones are before the program's variables, which have other values in its file.
    let mut cuts: Vec<u64> = (12..24).map(|power| 1 << power).chain(parts).filter(|bytes| *bytes < length).collect();
    cuts.sort_unstable();
    for bytes in cuts {
        let cut = dead.folder.path().join("cut");
        std::fs::copy(&dead.core, &cut).unwrap();
        std::fs::File::options().write(true).open(&cut).unwrap().set_len(bytes).unwrap();
        let output = Command::new(STOPWORLD).arg("core").arg(&cut).output().unwrap();
        let report = said(&output);
        assert_eq!(output.status.code(), Some(1), "{bytes} bytes: {report}");
        assert!(report.contains("the core is cut off at byte") || bytes == 0, "{bytes} bytes: {report}");
        assert!(!report.contains("panicked"), "{report}");
        assert!(!report.contains("the process had no world"), "{bytes} bytes: {report}");
        let found = types(&report).get("post_mortem::Node").map_or(0, |row| row.0);
        let says_sound = report.lines().any(|line| line == "verified  no damage was found");
        assert!(found == ALIVE || !says_sound, "{bytes} bytes, {found} objects: {report}");
        let lines: Vec<_> = report.lines().filter(|line| line.starts_with("core: ")).collect();
        assert!(lines.iter().enumerate().all(|(at, line)| !lines[..at].contains(line)), "{bytes} bytes: {report}");
        seen.push(found);
    }
    assert!(seen.is_sorted() && seen.last() > Some(&0), "{seen:?}");
    // The last of them becomes a snapshot with what is there, too.
    let (cut, file) = (dead.folder.path().join("cut"), dead.folder.path().join("cut.hprof"));
    let snapshot = Command::new(STOPWORLD).arg("snapshot").arg(&cut).arg("-o").arg(&file).output().unwrap();
    assert_eq!((snapshot.status.code(), file.exists()), (Some(1), true), "{}", said(&snapshot));
    // An existing file, which may have a whole heap, stays.
    std::fs::write(&file, "whole").unwrap();
    let snapshot = Command::new(STOPWORLD).arg("snapshot").arg(&cut).arg("-o").arg(&file).output().unwrap();
    let refused = said(&snapshot);
    assert_eq!(
        (snapshot.status.code(), std::fs::read_to_string(&file).unwrap().as_str()),
        (Some(1), "whole"),
        "{refused}"
    );
    assert!(refused.contains("the heap is incomplete, so it does not replace the existing file"), "{refused}");
    let heap = Command::new(STOPWORLD).arg("heap").arg(&cut).output().unwrap();
    assert_eq!(heap.status.code(), Some(1), "{}", said(&heap));
}

/// A core may lack the segment with the objects without being cut off. Nothing of what is left contradicts itself.
#[test]
fn a_core_without_the_objects_is_not_called_sound() {
    let Some(dead) = ended_at("running", &this(), Writer::Kernel) else { return };
    let core = Headers::of(&dead.core);
    core.file.write_all_at(&[0; 8], core.load_with(dead.head()) + 32).unwrap();
    let output = dead.core(&[]);
    let report = said(&output);
    assert_eq!((output.status.code(), types(&report).len()), (Some(1), 0), "{report}");
    assert!(report.contains("\nverified  no damage was found in the part of the heap that the core has\n"), "{report}");
    assert!(
        report.contains(" blocks are not in the core as a whole: some of their objects may be missing"),
        "{report}"
    );
}

/// Inside the heap, the reference is wrong for certain. Outside, it may be another value of the program's type.
#[test]
fn a_reference_that_was_overwritten_is_listed() {
    let Some(dead) = ended_at("running", &this(), Writer::Kernel) else { return };
    let (head, core) = (dead.head(), Headers::of(&dead.core));
    let segment = core.load_with(head);
    let place = core.word(segment + 8) + head - core.word(segment + 16);
    let overwrite = |value: u64| core.file.write_all_at(&value.to_le_bytes(), place).unwrap();
    let heap = || Command::new(STOPWORLD).arg("heap").arg(&dead.core).output().unwrap();

    overwrite(0x4141_4141_4141_4140);
    let report = said(&dead.core(&[]));
    assert!(report.contains("\nsuspect   words in the place of references"), "{report}");
    let line = format!("\n  {head:#x}  type post_mortem::Node has 0x4141414141414140 at offset 0, and 0 more\n");
    assert!(report.contains(&line), "{report}");
    assert_eq!(heap().status.code(), Some(0));

    overwrite(head + 8);
    let (output, heap) = (dead.core(&[]), heap());
    let report = said(&output);
    assert_eq!((output.status.code(), heap.status.code()), (Some(1), Some(1)), "{report}");
    assert!(report.contains("\nverified  1 damaged place:\n") && !report.contains("\nsuspect"), "{report}");
    let damaged = "core: 1 place of the heap is damaged: `stopworld core` lists them\n";
    assert!(said(&heap).contains(damaged), "{}", said(&heap));
}

/// As `zstd -dc core.zst | stopworld heap -` does.
#[rstest]
#[case::core(&["core", "-"])]
#[case::heap(&["heap", "-"])]
#[case::snapshot(&["snapshot", "-", "-o", "heap.hprof"])]
fn a_core_is_read_from_a_pipe(#[case] arguments: &[&str]) {
    let Some(dead) = ended_at("running", &this(), Writer::Kernel) else { return };
    let file = std::fs::File::open(&dead.core).unwrap();
    let mut cat = Command::new("cat").stdin(file).stdout(Stdio::piped()).spawn().unwrap();
    let mut command = Command::new(STOPWORLD);
    command.args(arguments).current_dir(dead.folder.path()).stdin(cat.stdout.take().unwrap());
    let output = command.output().unwrap();
    cat.wait().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let report = match arguments[0] {
        "snapshot" => {
            Command::new(STOPWORLD).args(["heap", "heap.hprof"]).current_dir(dead.folder.path()).output().unwrap()
        }
        _ => output,
    };
    assert_eq!(types(&said(&report))["post_mortem::Node"].0, ALIVE);
}

/// A damaged core may seem to have thousands of worlds.
#[test]
fn only_some_of_many_worlds_are_read() {
    let Some(dead) = ended_at("worlds", &this(), Writer::Kernel) else { return };
    let output = dead.core(&[]);
    let report = said(&output);
    let worlds = report.lines().filter(|line| line.starts_with("world ") && line.contains("phase running")).count();
    assert_eq!(worlds, 16, "{report}");
    assert!(report.contains("\n5 more worlds are left out: --world N shows one, such as --world 5\n"), "{report}");
    // The first world is the last of the list. It has the object.
    let output = dead.core(&["--world", "1"]);
    assert_eq!(types(&said(&output))["post_mortem::Node"].0, ALIVE, "{}", said(&output));
    let head = dead.address("head");
    let output = dead.core(&["--object", &head]);
    assert!(said(&output).starts_with(&format!("{head}  post_mortem::Node, ")), "{}", said(&output));
    let output = dead.core(&["--world", "99"]);
    let no_world =
        "the process had no world 99: it had 21, 20, 19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, and 5 more";
    assert!(output.status.code() == Some(1) && said(&output).contains(no_world), "{}", said(&output));
}

/// gdb's commands for objects, on a core.
#[test]
fn gdb_runs_the_command_for_a_core() {
    if !has_gdb() {
        return;
    }
    let Some(dead) = ended_at("running", &this(), Writer::Kernel) else { return };
    let script = dead.folder.path().join("stopworld.py");
    std::fs::write(&script, stopworld::debugger::scripts::GDB).unwrap();
    let head = dead.address("head");
    let mut gdb = Command::new("gdb");
    gdb.args(["-q", "-nx", "-batch", "-iex", "set auto-load no", "-x"]).arg(&script).env("STOPWORLD", STOPWORLD);
    for command in ["core", "heap", &format!("object {head}"), &format!("why-alive {head}"), "collect"] {
        gdb.args(["-ex", &format!("stopworld {command}")]);
    }
    let report = said(&gdb.arg(this()).arg(&dead.core).output().unwrap());
    assert_eq!(report.matches("no damage was found").count(), 2, "{report}");
    assert_eq!(types(&report)["post_mortem::Node"].0, ALIVE, "{report}");
    assert!(report.contains(&format!("{head}  post_mortem::Node, ")) && report.contains("root: "), "{report}");
    assert!(report.contains("`stopworld core` shows its heap"), "{report}");
    let mut without = Command::new("gdb");
    without.args(["-q", "-nx", "-batch", "-iex", "set auto-load no", "-x"]).arg(&script);
    without.args(["-ex", "stopworld heap"]).env("STOPWORLD", "/no/such/command").arg(this()).arg(&dead.core);
    let report = said(&without.output().unwrap());
    assert!(report.contains("set STOPWORLD to its path"), "{report}");
}

/// lldb's commands for objects, on a core.
#[test]
fn lldb_runs_the_command_for_a_core() {
    let Some(mut lldb) = lldb_support::lldb() else { return };
    let Some(dead) = ended_at("running", &this(), Writer::Kernel) else { return };
    let script = dead.folder.path().join("stopworld_lldb.py");
    std::fs::write(&script, stopworld::debugger::scripts::LLDB).unwrap();
    let head = dead.address("head");
    lldb.arg("--core").arg(&dead.core).args(["-o", &format!("command script import {}", script.display())]);
    for command in
        ["core", "heap", &format!("object {head}"), &format!("why-alive {head}"), "status", "threads", "collect"]
    {
        lldb.args(["-o", &format!("stopworld {command}")]);
    }
    let report = said(&lldb.arg("--").arg(this()).env("STOPWORLD", STOPWORLD).output().unwrap());
    assert_eq!(report.matches("no damage was found").count(), 2, "{report}");
    assert_eq!(types(&report)["post_mortem::Node"].0, ALIVE, "{report}");
    assert!(report.contains(&format!("{head}  post_mortem::Node, ")) && report.contains("root: "), "{report}");
    assert!(report.contains("a core file has no threads that can run"), "{report}");
    assert!(report.contains("collector at 0x"), "{report}");
}

/// The process is read while it runs, and goes on.
#[test]
fn a_running_process_is_read_by_ptrace() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("heap.heapsnapshot");
    let mut child = Command::new(STOPWORLD)
        .args(["run", "graph", "--threads", "2", "--seconds", "600", "--heap-limit", "64m"])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let (mut report, mut heap) = (String::new(), String::new());
    for _ in 0..100 {
        std::thread::sleep(std::time::Duration::from_millis(200));
        let pid = child.id().to_string();
        let output = Command::new(STOPWORLD).args(["snapshot", &pid, "--ptrace", "-o"]).arg(&file).output().unwrap();
        report = said(&output);
        if output.status.success() {
            heap = said(&Command::new(STOPWORLD).arg("heap").arg(&file).output().unwrap());
        }
        // Between two passes of the workload, when its threads have ended, no object is reached.
        if heap.contains("roots: stacks of thread") || report.contains("Operation not permitted") {
            break;
        }
    }
    let goes_on = child.try_wait().unwrap().is_none();
    child.kill().unwrap();
    child.wait().unwrap();
    if report.contains("Operation not permitted") {
        return skipped("ptrace");
    }
    assert!(goes_on && report.contains("stopworld: wrote "), "{report}");
    assert!(heap.contains("roots: stacks of thread"), "{heap}");
}

#[rstest]
#[case::heapsnapshot("heap.heapsnapshot")]
#[case::hprof("heap.hprof")]
fn a_core_becomes_a_snapshot(#[case] name: &str) {
    let Some(dead) = ended_at("running", &this(), Writer::Kernel) else { return };
    let file = dead.folder.path().join(name);
    let output = Command::new(STOPWORLD).arg("snapshot").arg(&dead.core).arg("-o").arg(&file).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let heap = |file: &Path| said(&Command::new(STOPWORLD).arg("heap").arg(file).output().unwrap());
    let of_snapshot = types(&heap(&file));
    assert_eq!(of_snapshot["post_mortem::Node"].0, ALIVE);
    assert_eq!(of_snapshot, types(&heap(&dead.core)));
}
