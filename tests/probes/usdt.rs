//! Every phase of a collection has a probe that gdb, perf and bpftrace find by its name and stop at, with the event's fields as its
//! arguments: `.event.probes`.
//!
//! To check other files, for example ones linked in other ways, name them in `STOPWORLD_PROBES_IN`, separated by colons.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::tools;
use crate::tools::{InGdb, has, said};
use crate::usdt_support::hold_against_the_table;
use rstest::rstest;
use stopworld::World;
use stopworld::events::DESCRIPTORS;

/// The environment variable that is set for the traced program.
const TRACED: &str = "STOPWORLD_TRACED";

/// The environment variable that names other files.
const FILES: &str = "STOPWORLD_PROBES_IN";

const COLLECTIONS: usize = 3;

/// The arguments that make this program the traced one.
const THE_PROGRAM: [&str; 4] = ["--exact", "usdt::the_program_under_a_tracer", "--test-threads", "1"];

/// The traced program; not a test by itself. No listener gets its events.
#[test]
fn the_program_under_a_tracer() {
    if std::env::var_os(TRACED).is_none() {
        return;
    }
    let world = World::builder().build().unwrap();
    // SAFETY: this thread keeps no reference.
    let m = unsafe { world.attach("main") }.unwrap();
    for _ in 0..COLLECTIONS {
        m.alloc_array::<u64>(5_000, |_| 0).unwrap();
        m.collect().unwrap();
    }
}

/// The preparation of the program before it is traced.
#[derive(Clone, Copy, Debug)]
enum Made {
    AsItIs,
    /// Removes all symbols and debug information, as in a shipped program.
    Stripped,
}

/// This program, prepared. `None`, with a skipped test reported, if that is not possible.
fn program(folder: &Path, made: Made) -> Option<PathBuf> {
    match made {
        Made::AsItIs => Some(std::env::current_exe().unwrap()),
        Made::Stripped => {
            let stripped = tools::stripped(folder, "--strip-all");
            if stripped.is_none() {
                tools::skipped("strip");
            }
            stripped
        }
    }
}

/// The lines that the tracer printed, which may follow the program's own output.
fn told(said: &str) -> Vec<&str> {
    said.lines().filter_map(|line| line.find("told: ").map(|at| &line[at..])).collect()
}

/// Returns the lines that each tracer must print: one for each explicit collection. Explicit collections have reason 1.
fn expected() -> Vec<String> {
    let of_one = |number| [format!("told: start {number} for 1"), format!("told: end {number}")];
    (1..=COLLECTIONS).flat_map(of_one).collect()
}

#[rstest]
#[case::as_it_is(Made::AsItIs)]
#[case::stripped(Made::Stripped)]
fn the_notes_in_the_file_match_the_table(#[case] made: Made) {
    let folder = tempfile::tempdir().unwrap();
    if let Some(program) = program(folder.path(), made) {
        hold_against_the_table(&program);
    }
}

#[test]
fn the_notes_match_the_table_in_files_linked_in_other_ways() {
    let Ok(files) = std::env::var(FILES) else {
        return tools::skipped(&format!("{FILES}, which names such files"));
    };
    for file in files.split(':') {
        hold_against_the_table(Path::new(file));
    }
}

#[test]
fn a_probe_is_named_after_the_function_that_fires_its_event_and_is_documented() {
    let page = include_str!("../../docs/probes.md");
    let mut listed: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
    for descriptor in &DESCRIPTORS {
        let Some(probe) = descriptor.probe else { continue };
        assert_eq!(descriptor.fire.strip_prefix("fire_"), Some(probe));
        let fields: Vec<_> = descriptor.fields.iter().map(|field| format!("`{}`", field.name)).collect();
        let row = format!("| `{probe}` | {} | {} |", fields.join(", "), descriptor.summary());
        let place =
            listed.iter().position(|line| *line == row).unwrap_or_else(|| panic!("docs/probes.md lacks\n{row}"));
        listed.remove(place);
    }
    assert!(listed.is_empty(), "there are no such probes: {listed:#?}");
}

#[rstest]
#[case::as_it_is(Made::AsItIs)]
#[case::stripped(Made::Stripped)]
fn gdb_lists_the_probes_and_breaks_at_them(#[case] made: Made) {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = program(folder.path(), made) else { return };
    let script = r#"
info probes stap stopworld
break -probe-stap stopworld:gc_start
commands
  silent
  printf "told: start %u for %u\n", $_probe_arg0, $_probe_arg1
  continue
end
break -probe-stap stopworld:gc_end
commands
  silent
  printf "told: end %u\n", $_probe_arg0
  continue
end
run
"#;
    let Some(InGdb { said, may_trace }) = tools::in_gdb(script, &program, &THE_PROGRAM, TRACED) else { return };
    for probe in DESCRIPTORS.iter().filter_map(|descriptor| descriptor.probe) {
        let is_listed = |line: &str| line.split_whitespace().take(3).eq(["stap", "stopworld", probe]);
        assert!(said.lines().any(is_listed), "{probe}: {said}");
    }
    if !may_trace {
        return;
    }
    assert_eq!(told(&said), expected(), "{said}");
}

/// The number of a processor that this process may use.
fn a_processor() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    list.trim().chars().take_while(char::is_ascii_digit).collect()
}

#[test]
fn bpftrace_sees_the_phases() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = program(folder.path(), Made::Stripped).filter(|_| has("bpftrace")) else { return };
    let usdt = format!("usdt:{}:stopworld", program.display());
    let script = format!(
        r#"{usdt}:gc_start {{ printf("told: start %d for %d\n", arg0, arg1); }}
           {usdt}:gc_end {{ printf("told: end %d\n", arg0); }}"#
    );
    let command = format!("{} {}", program.display(), THE_PROGRAM.join(" "));
    // Each processor has a buffer of its own: on one processor the lines are in the order of the events.
    let mut on_one_processor = Command::new("taskset");
    on_one_processor.args(["-c", &a_processor(), "bpftrace", "-e", &script, "-c", &command]);
    let output = on_one_processor.env(TRACED, "1").output().unwrap();
    let said = said(&output);
    if !output.status.success() {
        let denied = ["as the root user", "not permitted", "ermission denied", "BTF", "debugfs", "tracefs"];
        assert!(denied.iter().any(|word| said.contains(word)), "{said}");
        tools::skipped(&format!("bpftrace that may trace: {said}"));
        return;
    }
    assert_eq!(told(&said), expected(), "{said}");
}

/// perf with a cache of its own, and the probes that it has defined for the whole machine; they are removed when this is dropped.
struct Perf {
    cache: tempfile::TempDir,
    defined: Vec<String>,
}

impl Perf {
    fn run(&self, arguments: &[&str]) -> Output {
        let cache = self.cache.path().to_str().unwrap();
        Command::new("perf").args(["--buildid-dir", cache]).args(arguments).env(TRACED, "1").output().unwrap()
    }

    /// Defines the probe `name`. If that name is taken, perf may choose another one: `sdt_stopworld:gc_start_1`.
    ///
    /// # Errors
    /// perf's message.
    fn define(&mut self, name: &str) -> Result<(), String> {
        let output = self.run(&["probe", "--force", &format!("sdt_stopworld:{name}")]);
        let said = said(&output);
        let defined = said.lines().find_map(|line| line.trim().strip_suffix(')')?.split_once(" (on %"));
        match defined {
            Some((defined, _)) if output.status.success() => self.defined.push(defined.to_owned()),
            _ => return Err(said),
        }
        Ok(())
    }
}

impl Drop for Perf {
    fn drop(&mut self) {
        for defined in &self.defined {
            self.run(&["probe", "--quiet", "--del", defined]);
        }
    }
}

#[test]
fn perf_records_the_phases() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = program(folder.path(), Made::Stripped).filter(|_| has("perf")) else { return };
    let program = program.to_str().unwrap();
    let mut perf = Perf { cache: tempfile::tempdir().unwrap(), defined: Vec::new() };
    let added = perf.run(&["buildid-cache", "--add", program]);
    assert!(added.status.success(), "{}", said(&added));
    let listed = said(&perf.run(&["list", "sdt"]));
    for probe in DESCRIPTORS.iter().filter_map(|descriptor| descriptor.probe) {
        assert!(
            listed.lines().any(|line| line.trim().starts_with(&format!("sdt_stopworld:{probe} "))),
            "{probe}: {listed}"
        );
    }
    for name in ["gc_start", "gc_end"] {
        if let Err(said) = perf.define(name) {
            tools::skipped(&format!("perf that may define probes: {said}"));
            return;
        }
    }

    let data = folder.path().join("data");
    let data = data.to_str().unwrap();
    let mut record = vec!["record", "--quiet", "-o", data];
    record.extend(perf.defined.iter().flat_map(|event| ["-e", event]));
    record.extend(["--", program]);
    record.extend(THE_PROGRAM);
    let recorded = perf.run(&record);
    if !recorded.status.success() {
        tools::skipped(&format!("perf that may record: {}", said(&recorded)));
        return;
    }
    // `sdt_stopworld:gc_start: (55d6ce24a2b3) arg1=1 arg2=1`
    let script = said(&perf.run(&["script", "-i", data, "-F", "event,trace"]));
    let told = script.lines().filter_map(|line| {
        let words: Vec<_> = line.split_whitespace().collect();
        let [event, _, arguments @ ..] = &words[..] else { return None };
        let which = perf.defined.iter().position(|defined| event.strip_suffix(':') == Some(defined))?;
        Some(match (which, arguments) {
            (0, [number, reason]) => format!("told: start {} for {}", &number[5..], &reason[5..]),
            (_, number) => format!("told: end {}", &number[0][5..]),
        })
    });
    assert_eq!(told.collect::<Vec<_>>(), expected(), "{script}");
}
