//! Host programs in C that load the collector, use it, and misuse it.

#[path = "../../tests/skipped/mod.rs"]
mod skipped;
#[path = "../../tests/usdt_support/mod.rs"]
mod usdt_support;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::mem::{offset_of, size_of};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use stopworld_host::abi;

/// The shared library, which cargo builds in the same folder as this test.
fn library() -> PathBuf {
    let this = std::env::current_exe().unwrap();
    let library = this.with_file_name("libstopworld_host.so");
    assert!(library.exists(), "{} was not built", library.display());
    library
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Compiles a C program; `None` if there is no C compiler.
fn compiled(folder: &Path, source: &Path) -> Option<PathBuf> {
    if Command::new("cc").arg("--version").output().is_err() {
        skipped::skipped("cc");
        return None;
    }
    let program = folder.join(source.file_stem().unwrap());
    let output = Command::new("cc")
        .args(["-std=c11", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-D_POSIX_C_SOURCE=200809L", "-I"])
        .arg(root().join("host/include"))
        .arg(source)
        .arg("-o")
        .arg(&program)
        .args(["-ldl", "-lpthread"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(program)
}

fn run(program: &Path) -> (String, Output) {
    let output = Command::new("timeout").arg("600").arg(program).arg(library()).output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{stdout}\n{errors}", output.status);
    (stdout, output)
}

/// An event that the example printed.
#[derive(Debug)]
struct Printed<'a> {
    name: &'a str,
    fields: BTreeMap<&'a str, &'a str>,
}

impl Printed<'_> {
    fn number(&self, field: &str) -> u64 {
        self.fields[field].parse().unwrap()
    }
}

fn events_of(phase: &str) -> Vec<Printed<'_>> {
    let event = |line| {
        let (name, rest) = str::strip_prefix(line, "event ")?.split_once(' ')?;
        // No label in the example contains both a space and an equals sign.
        Some(Printed { name, fields: rest.split(' ').filter_map(|field| field.split_once('=')).collect() })
    };
    phase.lines().filter_map(event).collect()
}

/// `.host.resident`: the example calls dlclose before it uses the library.
#[test]
fn a_host_in_c_allocates_collects_and_receives_exactly_the_selected_events() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled(folder.path(), &root().join("examples/host/host.c")) else { return };
    let (stdout, output) = run(&program);
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    let phases: Vec<(&str, &str)> = stdout.split("phase ").skip(1).filter_map(|phase| phase.split_once('\n')).collect();
    let names: Vec<&str> = phases.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["collections", "roots", "names", "end"], "{stdout}");
    let (_, collections) = phases[0];

    // The events of collections come in pairs, ordered by time, with the same numbers as in the reports.
    let events = events_of(collections);
    assert!(events.windows(2).all(|pair| pair[0].number("at") <= pair[1].number("at")), "{stdout}");
    let pairs = events.iter().filter(|event| matches!(event.name, "GcStart" | "GcEnd"));
    let pairs: Vec<_> = pairs.map(|event| (event.name, event.number("number"))).collect();
    let expected: Vec<_> = (1..=3).flat_map(|number| [("GcStart", number), ("GcEnd", number)]).collect();
    assert_eq!(pairs, expected, "{stdout}");
    let reported: Vec<Vec<u64>> = collections
        .lines()
        .filter(|line| line.starts_with("collected "))
        .map(|line| line.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect())
        .collect();
    let stats: Vec<u64> = events
        .iter()
        .filter(|event| event.name == "HeapStats")
        .map(|event| event.number("small_bytes") + event.number("large_bytes") + event.number("pinned_bytes"))
        .collect();
    assert_eq!(stats, reported.iter().map(|report| report[2]).collect::<Vec<_>>(), "live bytes: {stdout}");
    let live: Vec<u64> = reported.iter().map(|report| report[1]).collect();
    assert!((2000..2010).contains(&live[0]) && (2000..2010).contains(&live[1]) && live[2] < 1010, "{live:?}: {stdout}");
    for name in ["builder-0", "builder-1"] {
        assert!(collections.contains(&format!("{name}: 1000 nodes, sum 500500\n")), "{stdout}");
    }

    // After a change of the selection, the host receives no event that is disabled.
    let names_in =
        |phase: usize| events_of(phases[phase].1).iter().map(|event| event.name.to_owned()).collect::<Vec<_>>();
    assert!(phases[1].1.contains("collected with a root: number 4"), "{stdout}");
    assert_eq!(names_in(1), ["RootCreated", "RootDropped"], "{stdout}");
    assert!(phases[2].1.contains("collected at the end: number 5"), "{stdout}");
    assert_eq!(names_in(2), ["Interned", "Labelled"], "{stdout}");
    assert!(phases[2].1.contains("label=\"a node of main's\""), "{stdout}");
    assert_eq!(names_in(3), [] as [&str; 0], "{stdout}");

    let count = phases.iter().map(|(_, phase)| events_of(phase).len()).sum::<usize>();
    assert!(stdout.contains(&format!("collections 5, threads 0, events {count}, lost 0\n")), "{count}: {stdout}");
    assert!(stdout.ends_with("closed\n"), "{stdout}");
}

/// `.host.version`, `.host.no-unwind`
#[test]
fn misuse_returns_an_error_code_with_a_text() {
    let folder = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/misuse.c");
    let Some(program) = compiled(folder.path(), &source) else { return };
    let (stdout, _) = run(&program);
    let wrong: Vec<&str> = stdout.lines().filter(|line| line.starts_with("WRONG")).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(stdout.lines().filter(|line| line.starts_with("ok ")).count() > 70, "{stdout}");
    assert!(stdout.ends_with("done\n"), "{stdout}");
    // Every code other than 0 comes with an error text.
    for line in stdout.lines().filter(|line| line.starts_with("ok ")) {
        let (_, outcome) = line.split_once(": ").unwrap();
        let (code, text) = outcome.split_once(' ').unwrap();
        assert!(code == "0" || text.len() > 10, "{line}");
    }
}

/// `.host.no-unwind`: nothing unwinds across the interface, except a cancelled thread, which must.
#[test]
fn threads_of_a_host_can_be_cancelled_in_a_region_and_detach() {
    let folder = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cancel.c");
    let Some(program) = compiled(folder.path(), &source) else { return };
    let (stdout, _) = run(&program);
    let expected = "\
        cancelled in a region: cancelled 50, cleaned 50, threads 0\n\
        cancelled in a region in a region: cancelled 50, cleaned 50, threads 0\n\
        ends in a region: cancelled 50, cleaned 50, threads 0\n\
        cancelled between collections: cancelled 50, cleaned 50, threads 0\n\
        done\n";
    assert_eq!(stdout, expected);
}

/// `.host.own-thread`: no thread waits for a host that waits for malloc's lock, and thread-local storage is allocated before it is needed
/// in a signal handler.
#[test]
fn a_library_loaded_by_dlopen_collects_while_threads_use_malloc_and_record_all_events() {
    let folder = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stress.c");
    let Some(program) = compiled(folder.path(), &source) else { return };
    let (stdout, _) = run(&program);
    let numbers: Vec<u64> = stdout.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect();
    let [events, lost, backwards] = numbers[..] else { panic!("{stdout}") };
    assert!(events > 10_000 && lost == 0, "{stdout}");
    // If a thread is stopped for long while it fires an event, that record may be delivered late.
    assert!(backwards < events / 20, "{stdout}");
}

/// The header and `abi.rs` describe the same layout.
#[test]
fn the_structures_have_the_same_layout_in_c_and_in_rust() {
    let mut checks = String::from("#include \"stopworld.h\"\n");
    macro_rules! same {
        ($($rust:ident = $c:literal { $($member:ident),* })*) => {$(
            writeln!(checks, "_Static_assert(sizeof({}) == {}, \"\");", $c, size_of::<abi::$rust>()).unwrap();
            let mut end = 0;
            $(
                let offset = offset_of!(abi::$rust, $member);
                assert!(offset >= end, "the members of {} are not in order", $c);
                end = offset + 1;
                let name = stringify!($member);
                writeln!(checks, "_Static_assert(offsetof({}, {name}) == {offset}, \"{name}\");", $c).unwrap();
            )*
            let _ = end;
        )*};
    }
    same! {
        Header = "stopworld_header" { size, major, minor }
        Stamp = "stopworld_stamp" { ns, tid, thread_index, world, version, reserved }
        Host = "stopworld_host" { header, context, fire_event, events_lost }
        Options = "stopworld_options" { header, heap_limit, initial_heap, markers, safepoints, paranoid, reserved }
        TypeDescription = "stopworld_type_description" { header, name, bytes, references, reference_words }
        Collection = "stopworld_collection" {
            header, number, threads_stopped, pause_ns, live_objects, live_bytes, freed_bytes, allocated_bytes
        }
        Statistics = "stopworld_statistics" {
            header, collections, threads, allocated_bytes, live_bytes, committed_bytes, events_delivered, events_lost
        }
        Field = "stopworld_field" { name, unit, offset, kind, since, reserved }
        EventDescription = "stopworld_event" { header, name, summary, event_id, version, net_id, field_count, fields }
        Collector = "stopworld_collector" { header }
    }
    for (member, offset) in abi::COLLECTOR_MEMBERS {
        writeln!(checks, "_Static_assert(offsetof(stopworld_collector, {member}) == {offset}, \"{member}\");").unwrap();
    }
    let (major, minor) = (abi::MAJOR, abi::MINOR);
    writeln!(checks, "_Static_assert(STOPWORLD_MAJOR == {major} && STOPWORLD_MINOR == {minor}, \"\");").unwrap();
    writeln!(checks, "_Static_assert(STOPWORLD_MAX_FIELDS == {}, \"\");", abi::MAX_FIELDS).unwrap();
    writeln!(checks, "int main(void) {{ return 0; }}").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("layout.c");
    std::fs::write(&source, checks).unwrap();
    compiled(folder.path(), &source);
}

/// `.host.resident`, and the exported symbols that debuggers and tools look up by name.
#[test]
fn the_library_exports_its_functions_and_is_marked_nodelete() {
    let Ok(output) = Command::new("readelf").args(["-W", "-d", "--dyn-syms"]).arg(library()).output() else {
        return skipped::skipped("readelf");
    };
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(stdout.contains("NODELETE"), "{stdout}");
    let exported =
        |name: &str| stdout.lines().any(|line| line.ends_with(&format!(" {name}")) && line.contains("GLOBAL"));
    for name in ["stopworld_initialize", "stopworld_last_error", "stopworld_telemetry_flush", "stopworld_fire_gc_start"]
    {
        assert!(exported(name), "{name} is not exported");
    }
}

/// `.event.probes`: the shared library has the same probes as a program.
#[test]
fn the_library_has_the_probes() {
    usdt_support::hold_against_the_table(&library());
}
