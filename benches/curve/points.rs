//! The collectors, and the points of their curves: builds the programs, and lists the commands.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::measure::Failure;
use crate::tools::{folder, has_header, make, runs};

/// A program that all collectors run.
pub struct Program {
    pub name: &'static str,
    /// The arguments of the versions in C and of our own.
    pub arguments: &'static [&'static str],
    /// The bytes of the live objects at the time of the largest tree, with a word for each header.
    pub live_bytes: u64,
}

pub const PROGRAMS: [Program; 2] = [
    // The stretch tree has depth 18, and nodes of 24 + 8 bytes.
    Program { name: "gcbench", arguments: &["1"], live_bytes: ((1 << 19) - 1) * 32 },
    // The stretch tree has depth 19, and nodes of 16 + 8 bytes.
    Program { name: "bintrees", arguments: &["18", "1"], live_bytes: ((1 << 20) - 1) * 24 },
];

/// The sizes of the heaps, relative to the live bytes.
const MULTIPLES: [f64; 4] = [1.5, 2.0, 3.0, 5.0];

/// The collectors of whippet. Those whose name begins with `stack-conservative` find references on the stack as ours does.
const WHIPPETS: [(&str, &str, Kind); 6] = [
    ("whippet bdw", "bdw", Kind::MarkSweep),
    ("whippet mmc", "parallel-mmc", Kind::MarkSweep),
    ("whippet mmc, conservative", "stack-conservative-parallel-mmc", Kind::MarkSweep),
    ("whippet semi", "semi", Kind::Other),
    ("whippet pcc", "pcc", Kind::Other),
    ("whippet pcc, generational", "generational-pcc", Kind::Other),
];

/// The algorithm of a collector, as far as the comparison depends on it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Ours,
    /// Marks, and reuses the memory of dead objects without a generation for young ones. Our collector is to be at least as good.
    MarkSweep,
    /// Copies, has generations, runs while the program does, or is no collector.
    Other,
}

/// How a program is run.
#[derive(Clone)]
pub struct Run {
    pub program: PathBuf,
    pub arguments: Vec<String>,
    pub environment: Vec<(&'static str, String)>,
}

impl Run {
    fn new(program: PathBuf, arguments: &[&str]) -> Run {
        let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        Run { program, arguments, environment: Vec::new() }
    }

    fn with(mut self, variable: &'static str, value: String) -> Run {
        self.environment.push((variable, value));
        self
    }

    fn argument(mut self, argument: u64) -> Run {
        self.arguments.push(argument.to_string());
        self
    }
}

/// One point of a curve: a collector with one size of its heap.
#[derive(Clone)]
pub struct Point {
    pub collector: &'static str,
    pub kind: Kind,
    /// The size of the heap, relative to the live bytes.
    pub multiple: Option<f64>,
    pub run: Run,
}

/// A heap of a collector.
struct Heap {
    multiple: f64,
    bytes: u64,
}

type MakeRun = Box<dyn Fn(&Program, &Heap) -> Run>;

pub struct Collector {
    name: &'static str,
    kind: Kind,
    is_limited: bool,
    /// How a program is run, or the reason why it can't be.
    run: Result<MakeRun, &'static str>,
}

/// Returns the points of a program, for all collectors that can run.
pub fn of(program: &Program, collectors: &[Collector]) -> Vec<Point> {
    let mut points = Vec::new();
    for collector in collectors {
        let Ok(run) = &collector.run else { continue };
        for multiple in MULTIPLES.iter().take(if collector.is_limited { MULTIPLES.len() } else { 1 }) {
            // Whole blocks of all collectors.
            let bytes = (program.live_bytes as f64 * multiple) as u64 >> 16 << 16;
            points.push(Point {
                collector: collector.name,
                kind: collector.kind,
                multiple: collector.is_limited.then_some(*multiple),
                run: run(program, &Heap { multiple: *multiple, bytes }),
            });
        }
    }
    points
}

/// Returns the collectors that can't run, and why.
pub fn skipped(collectors: &[Collector]) -> impl Iterator<Item = (&str, &str)> {
    collectors.iter().filter_map(|collector| Some((collector.name, *collector.run.as_ref().err()?)))
}

/// Builds the programs.
pub fn build() -> Result<Vec<Collector>, Failure> {
    let ours = std::env::current_exe()?;
    let mut collectors = vec![
        collector("stopworld", Kind::Ours, Ok(()), move |program, heap| {
            let run = Run::new(ours.clone(), &[&["--child", program.name], program.arguments].concat());
            run.argument(heap.bytes)
        }),
        collector("bdwgc", Kind::MarkSweep, libgc(), |program, heap| {
            let run = Run::new(folder().join(program.name), program.arguments);
            let bytes = || heap.bytes.to_string();
            run.with("GC_INITIAL_HEAP_SIZE", bytes()).with("GC_MAXIMUM_HEAP_SIZE", bytes())
        }),
    ];
    let whippet = whippet();
    for (name, variant, kind) in WHIPPETS {
        let built = match &whippet {
            Ok(source) => whippet_variant(source, variant).map(|()| source.clone()),
            Err(reason) => Err(*reason),
        };
        let path = built.as_ref().map(|source| source.join("bin").join(format!("curve.{variant}"))).unwrap_or_default();
        collectors.push(collector(name, kind, built.map(drop), move |program, heap| {
            Run::new(path.clone(), &[program.name]).argument(heap.bytes)
        }));
    }
    collectors.push(collector("Go", Kind::Other, go(), |program, heap| {
        let run = Run::new(own_folder().join("go"), &words(program));
        run.with("GOGC", "off".into()).with("GOMEMLIMIT", heap.bytes.to_string())
    }));
    collectors.push(collector("OCaml", Kind::Other, ocaml(), |program, heap| {
        let run = Run::new(own_folder().join("ocaml"), &words(program));
        run.with("OCAMLRUNPARAM", format!("o={}", (heap.multiple - 1.0) * 100.0))
    }));
    for (name, library, package) in [
        ("malloc of glibc", None, ""),
        ("mimalloc", Some("libmimalloc.so.2"), "needs libmimalloc2.0"),
        ("jemalloc", Some("libjemalloc.so.2"), "needs libjemalloc2"),
    ] {
        let is_there = if library.is_none_or(can_preload) { Ok(()) } else { Err(package) };
        let malloc = collector(name, Kind::Other, malloc().and(is_there), move |program, _| {
            let run = Run::new(folder().join(format!("{}_malloc", program.name)), program.arguments);
            library.into_iter().fold(run, |run, library| run.with("LD_PRELOAD", library.to_owned()))
        });
        collectors.push(Collector { is_limited: false, ..malloc });
    }
    Ok(collectors)
}

fn collector(
    name: &'static str,
    kind: Kind,
    built: Result<(), &'static str>,
    run: impl Fn(&Program, &Heap) -> Run + 'static,
) -> Collector {
    Collector { name, kind, is_limited: true, run: built.map(|()| Box::new(run) as MakeRun) }
}

/// The arguments of the programs in Go and OCaml.
fn words(program: &Program) -> Vec<&'static str> {
    // The number of threads is the last argument in C.
    let (_, arguments) = program.arguments.split_last().expect("a program without arguments");
    [&[program.name], arguments].concat()
}

/// The folder for the programs that only this benchmark has.
fn own_folder() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("curve")
}

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/curve")
}

fn malloc() -> Result<(), &'static str> {
    if make(&folder(), "bare") { Ok(()) } else { Err("needs cc and make") }
}

fn libgc() -> Result<(), &'static str> {
    malloc()?;
    if !has_header("gc.h") {
        return Err("needs libgc-dev");
    }
    if make(&folder(), "peers") { Ok(()) } else { Err("benches/peers did not build") }
}

fn go() -> Result<(), &'static str> {
    if !runs("go") {
        return Err("needs golang-go");
    }
    let mut build = Command::new("go");
    build.args(["build", "-o"]).arg(own_folder().join("go")).arg(source().join("programs.go"));
    let built = succeeds(build.env("GOCACHE", own_folder().join("go-cache")));
    if built { Ok(()) } else { Err("benches/curve/programs.go did not build") }
}

fn ocaml() -> Result<(), &'static str> {
    if !runs("ocamlopt") {
        return Err("needs ocaml-nox");
    }
    // The compiler writes its intermediate files beside the source.
    let (folder, source) = (own_folder(), source().join("programs.ml"));
    let copied = std::fs::create_dir_all(&folder).and_then(|()| std::fs::copy(source, folder.join("programs.ml")));
    let mut build = Command::new("ocamlopt");
    build.args(["-O3", "-I", "+unix", "unix.cmxa", "programs.ml", "-o", "ocaml"]).current_dir(folder);
    if copied.is_ok() && succeeds(&mut build) { Ok(()) } else { Err("benches/curve/programs.ml did not build") }
}

/// Copies the source of whippet, and our program into it, with the times, so that make builds only what has changed. Returns the copy.
fn whippet() -> Result<PathBuf, &'static str> {
    let original = std::env::var_os("STOPWORLD_WHIPPET").ok_or("needs STOPWORLD_WHIPPET, a folder with its source")?;
    let copy = own_folder().join("whippet");
    let copied = std::fs::create_dir_all(&copy).is_ok()
        && succeeds(Command::new("cp").arg("-a").arg(Path::new(&original).join(".")).arg(&copy))
        && ["whippet/curve.c", "whippet/curve-types.h", "whippet/curve-embedder.h", "../peers/common.h"]
            .iter()
            .all(|file| succeeds(Command::new("cp").arg("-p").arg(source().join(file)).arg(copy.join("benchmarks"))));
    if copied { Ok(copy) } else { Err("STOPWORLD_WHIPPET could not be copied, or is not a folder with its source") }
}

fn whippet_variant(source: &Path, variant: &str) -> Result<(), &'static str> {
    let mut build = Command::new("make");
    build.arg("-s").arg("-C").arg(source).args(["TESTS=curve", "USE_LTTNG=0"]).arg(format!("bin/curve.{variant}"));
    // This make must not use cargo's jobserver.
    if succeeds(build.env_remove("MAKEFLAGS")) { Ok(()) } else { Err("did not build") }
}

fn succeeds(command: &mut Command) -> bool {
    command.stdin(Stdio::null()).stdout(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// Returns whether the dynamic linker finds the library. It complains if not, and runs the program anyway.
fn can_preload(library: &str) -> bool {
    let output = Command::new("true").env("LD_PRELOAD", library).output();
    output.is_ok_and(|output| output.status.success() && output.stderr.is_empty())
}
