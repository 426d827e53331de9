//! Programs in C that use the library as other programs do: they are linked with `libgc.so.1`.

#[path = "../../../../tests/skipped/mod.rs"]
mod skipped;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rstest::rstest;

/// The folder with this file.
fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/library")
}

/// A folder with the library, under the name that programs look for.
struct Scene(tempfile::TempDir);

impl Scene {
    /// `None` if there is no C compiler.
    fn new() -> Option<Scene> {
        if Command::new("cc").arg("--version").output().is_err() {
            skipped::skipped("cc");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let library = std::env::current_exe().unwrap().with_file_name("libstopworld_gc.so");
        symlink(library, folder.path().join("libgc.so.1")).unwrap();
        Some(Scene(folder))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn compile(&self, source: &str, output: &str, arguments: &[&str]) -> PathBuf {
        let output = self.path(output);
        let done = Command::new("cc")
            .args(["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread"])
            .arg(sources().join(source))
            .arg("-o")
            .arg(&output)
            .args(arguments)
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        output
    }

    /// Compiles a program, linked with the library.
    fn program(&self, name: &str) -> PathBuf {
        let library = self.path("libgc.so.1");
        self.compile(&format!("{name}.c"), name, &[library.to_str().unwrap(), "-ldl"])
    }

    /// A command that runs the program.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("timeout");
        command.arg("1200").arg(program).env("LD_LIBRARY_PATH", self.0.path());
        command
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[rstest]
#[case::before_main("before_main")]
#[case::threads("threads")]
#[case::stacks("stacks")]
#[case::reentrancy("reentrancy")]
fn a_program_keeps_what_it_refers_to(
    #[case] name: &str,
    // The heap is verified after each collection, and these are as frequent as possible.
    #[values(false, true)] paranoid: bool,
) {
    let Some(scene) = Scene::new() else { return };
    let mut command = scene.command(&scene.program(name));
    if paranoid {
        command.env("STOPWORLD_PARANOID", "1").env("STOPWORLD_BUDGET", "256k");
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}: {}", output.status, stderr(&output));
    if name == "before_main" {
        assert_eq!(String::from_utf8_lossy(&output.stdout), "1 two 3 4 5.25 6 7 8 9 10.5\n");
        assert_eq!(stderr(&output), "ok\n");
    }
}

#[test]
fn libraries_are_loaded_and_unloaded_during_collections() {
    let Some(scene) = Scene::new() else { return };
    let plugin = scene.compile("plugin.c", "plugin0.so", &["-shared", "-fPIC"]);
    for copy in ["plugin1.so", "plugin2.so"] {
        fs::copy(&plugin, scene.path(copy)).unwrap();
    }
    let output = scene.command(&scene.program("plugins")).arg(scene.0.path()).output().unwrap();
    assert!(output.status.success(), "{}: {}", output.status, stderr(&output));
}

#[rstest]
#[case::unknown("unknown")]
#[case::inside("inside")]
#[case::twice("twice")]
fn an_unknown_pointer_is_reported_with_the_place_of_the_call(#[case] mistake: &str) {
    let Some(scene) = Scene::new() else { return };
    let output = scene.command(&scene.program("mistakes")).arg(mistake).output().unwrap();
    let text = stderr(&output);
    assert!(output.status.success() && output.stdout == b"went on\n", "{}: {text}", output.status);
    assert!(text.starts_with("stopworld libgc: GC_free(0x") && text.lines().count() == 1, "{text}");
    assert!(text.contains("called from mistakes+0x"), "{text}");
}

/// Each leak once, by the collection that finds it: with the place if a debugging function has allocated it.
#[rstest]
#[case::requested("now")]
#[case::at_exit("exit")]
fn leaks_are_reported_with_the_place_of_the_allocation(#[case] last: &str) {
    let Some(scene) = Scene::new() else { return };
    let output = scene.command(&scene.program("leaks")).arg(last).output().unwrap();
    let text = stderr(&output);
    assert!(output.status.success(), "{}: {text}", output.status);
    let mut parts = [String::new(), String::new(), String::new(), String::new()];
    let mut part = 0;
    for line in text.lines() {
        if ["first", "second", "third"].contains(&line) {
            part += 1;
            continue;
        }
        let (before, address) = line.split_once("0x").unwrap_or((line, ""));
        parts[part] += before;
        parts[part] += address.split_once(' ').map_or("", |(_, rest)| rest);
        parts[part].push('\n');
    }
    let sorted = |part: &str| {
        let mut lines: Vec<_> = part.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    assert_eq!(
        sorted(&parts[0]),
        [
            "Found 2 leaked objects:",
            "Leaked composite object at (some.c:12, sz=102, NORMAL)",
            "Leaked composite object at (some.c:13, sz=103, NORMAL)",
        ]
    );
    assert_eq!(parts[1], "", "each leak is reported once");
    let (at_the_end, before) = if last == "exit" { (&parts[3], &parts[2]) } else { (&parts[2], &parts[3]) };
    assert_eq!(before, "");
    assert_eq!(
        sorted(at_the_end),
        [
            "Found 4 leaked objects:",
            "Leaked atomic object at (some.c:30, sz=7, PTRFREE)",
            "Leaked composite object at (other.c:20, sz=5000, NORMAL)",
            "Leaked composite object at (some.c:14, sz=104, NORMAL)",
            "Leaked composite object at (sz=1080, NORMAL)",
        ]
    );
}

/// Runs the program for leaks in one mode. Returns its standard error.
fn leaks_in(mode: &str, environment: &[(&str, &str)]) -> Option<String> {
    let scene = Scene::new()?;
    let output =
        scene.command(&scene.program("leak_modes")).arg(mode).envs(environment.iter().copied()).output().unwrap();
    assert!(output.status.success(), "{}: {}", output.status, stderr(&output));
    Some(stderr(&output))
}

#[test]
fn many_leaks_are_described_and_the_others_are_counted() {
    let Some(text) = leaks_in("many", &[]) else { return };
    let number = |before: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(before)).unwrap_or_else(|| panic!("{text}"));
        line.split_once(' ').unwrap().0.parse::<usize>().unwrap()
    };
    // What a stale word has kept is in the report of a later search.
    let first = &text[..text.rfind("Found ").filter(|later| *later > 0).unwrap_or(text.len())];
    let described = first.lines().filter(|line| line.contains("(some.c:1, sz=100, NORMAL)")).count();
    let (found, others) = (number("Found "), number("and "));
    assert!(described >= 1000 && described + others == found, "{text}");
    assert!((1490..=1500).contains(&found), "{text}");
}

/// While the search is off, objects are freed or die, and their addresses are those of others when it is on again.
#[rstest]
#[case::freed("freed")]
#[case::collected("collected")]
fn a_place_that_was_noted_before_the_search_was_off_is_not_reported_for_another_object(#[case] mode: &str) {
    let Some(text) = leaks_in(mode, &[]) else { return };
    assert!(text.contains("Leaked composite object at 0x") && !text.contains("some.c"), "{text}");
}

#[rstest]
#[case::wanted(&[("GC_FIND_LEAK", "1")], "Found 1 leaked objects:\nLeaked composite object at (sz=104, NORMAL)\n")]
#[case::not_wanted(&[], "")]
fn a_program_that_does_not_call_gc_init_is_searched_at_exit(
    #[case] environment: &[(&str, &str)],
    #[case] expected: &str,
) {
    let Some(text) = leaks_in("plain", environment) else { return };
    let without_address = match text.split_once("0x") {
        Some((before, rest)) => format!("{before}{}", rest.split_once(' ').unwrap().1),
        None => text,
    };
    assert_eq!(without_address, expected);
}

#[test]
fn a_function_that_is_missing_says_its_name() {
    let Some(scene) = Scene::new() else { return };
    let output = scene.command(&scene.program("mistakes")).arg("missing").output().unwrap();
    let text = stderr(&output);
    assert!(!output.status.success() && output.stdout.is_empty());
    assert!(text.starts_with("stopworld libgc: GC_stop_world_external is not available: "), "{text}");
}

/// The world is stopped then, so the message comes without memory from malloc.
#[test]
fn a_mark_procedure_that_changes_the_tables_is_refused_by_name() {
    let Some(scene) = Scene::new() else { return };
    let output = scene.command(&scene.program("mistakes")).arg("in a collection").output().unwrap();
    let text = stderr(&output);
    assert!(!output.status.success() && output.stdout.is_empty(), "{text}");
    let expected =
        "stopworld libgc: a function of the program that the collector calls in a collection (a mark procedure";
    assert!(text.starts_with(expected) && text.lines().count() == 1, "{text}");
}

/// Each format, also with the heap by call site. The program allocates only in functions of its own.
#[rstest]
#[case::telemetry("t.mps", None)]
#[case::nettrace("t.nettrace", None)]
#[case::timeline("t.json", None)]
#[case::eventlog("t.eventlog", Some("sites"))]
#[case::profile("t.hp", None)]
#[case::sites("t.hp", Some("sites"))]
fn a_trace_is_written(#[case] file: &str, #[case] sites: Option<&str>) {
    let Some(scene) = Scene::new() else { return };
    let mut command = scene.command(&scene.program("stacks"));
    command.env("STOPWORLD_TRACE", scene.path(file).with_file_name(format!("%p-{file}")));
    if sites.is_some() {
        command.env("STOPWORLD_CALL_SITES", "1");
    }
    let output = command.output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{}: {}", output.status, stderr(&output));
    let written = fs::read_dir(scene.0.path()).unwrap().map(|entry| entry.unwrap().path());
    let [trace] = written.filter(|path| path.to_str().unwrap().ends_with(file)).collect::<Vec<_>>().try_into().unwrap();
    let pid = trace.file_name().unwrap().to_str().unwrap().split('-').next().unwrap().parse::<u32>();
    assert!(pid.is_ok(), "{}", trace.display());
    let bytes = fs::read(&trace).unwrap();
    let expected: &[&str] = match (file, sites) {
        ("t.hp", None) => &["normal", "END_SAMPLE"],
        (_, Some(_)) => &["stacks+0x"],
        _ => &[],
    };
    let text = String::from_utf8_lossy(&bytes);
    assert!(bytes.len() > 200 && expected.iter().all(|word| text.contains(word)), "{} bytes: {text}", bytes.len());
}

#[rstest]
#[case::extension(&[("STOPWORLD_TRACE", "t.xyz")], "end the name in one of .mps, .nettrace, ")]
#[case::format(&[("STOPWORLD_TRACE", "t"), ("STOPWORLD_TRACE_FORMAT", "x")], "STOPWORLD_TRACE_FORMAT=x in the environment: the formats are mps, ")]
#[case::events(&[("STOPWORLD_TRACE", "t.nettrace"), ("STOPWORLD_TRACE_EVENTS", "Nothing")], "STOPWORLD_TRACE_EVENTS=Nothing")]
#[case::profile(&[("STOPWORLD_PROFILE", "hz")], "the profiles are hc, hm, ")]
#[case::no_place(&[("STOPWORLD_PROFILE", "hy")], "set STOPWORLD_TRACE to a FILE.eventlog or FILE.hp")]
fn a_wrong_setting_is_refused_in_one_line(#[case] settings: &[(&str, &str)], #[case] expected: &str) {
    let Some(scene) = Scene::new() else { return };
    let output = scene.command(&scene.program("mistakes")).arg("").envs(settings.iter().copied()).output().unwrap();
    let text = stderr(&output);
    assert!(output.status.code() == Some(2) && output.stdout.is_empty() && text.lines().count() == 1, "{text}");
    assert!(text.starts_with("stopworld libgc: STOPWORLD_") && text.contains(expected), "{text}");
}

/// As for every trace of this project, a file that fails does not end the program.
#[test]
fn a_trace_that_cannot_be_written_is_reported_and_the_program_goes_on() {
    let Some(scene) = Scene::new() else { return };
    let mut command = scene.command(&scene.program("mistakes"));
    let output = command.arg("").env("STOPWORLD_TRACE", "/nonexistent/t.mps").output().unwrap();
    let text = stderr(&output);
    assert!(output.status.success() && output.stdout == b"went on\n", "{}: {text}", output.status);
    assert!(text.contains("/nonexistent/t.mps: ") && text.contains("(STOPWORLD_TRACE)"), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
}

/// Settings of bdwgc that are wrong are reported, and ignored as bdwgc ignores them.
#[test]
fn a_wrong_setting_of_bdwgc_is_a_warning() {
    let Some(scene) = Scene::new() else { return };
    let mut command = scene.command(&scene.program("mistakes"));
    command.arg("").env("GC_INITIAL_HEAP_SIZE", "much").env("GC_MARKERS", "1").env("GC_MAXIMUM_HEAP_SIZE", "1G");
    let output = command.output().unwrap();
    let expected = "GC Warning: GC_INITIAL_HEAP_SIZE=much in the environment is ignored: it must be a size in bytes, such as 64M\n";
    assert!(output.status.success() && stderr(&output) == expected, "{}", stderr(&output));
}

/// The stoppers that a program without safepoints can have.
#[rstest]
fn a_program_runs_with_each_stopper(#[values("signals", "mock-debugger")] stopper: &str) {
    let Some(scene) = Scene::new() else { return };
    let output = scene.command(&scene.program("stacks")).env("STOPWORLD_STOPPER", stopper).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{}: {}", output.status, stderr(&output));
}

/// Two libraries that are both called libgc.so.1, of which only one answers to that name.
#[test]
fn a_second_libgc_is_refused() {
    let Some(scene) = Scene::new() else { return };
    fs::write(scene.path("other.c"), "int other;").unwrap();
    let other = scene.compile(scene.path("other.c").to_str().unwrap(), "libgc.so.1.5", &["-shared", "-fPIC"]);
    let program = scene.program("mistakes");
    let output = scene.command(&program).arg("").env("LD_PRELOAD", other).output().unwrap();
    let text = stderr(&output);
    assert!(output.status.code() == Some(2) && text.lines().count() == 1, "{text}");
    assert!(text.contains("another libgc is loaded beside this one") && text.contains("libgc.so.1.5"), "{text}");
    let output = scene.command(&program).arg("").output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
}
