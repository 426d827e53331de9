//! A debugger breaks where an event is told of, by a name that does not change, and finds the event's fields in the
//! argument registers: in an optimised program without debug information.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use stopworld::World;
use stopworld::events::{EventId, NullSink, Selection};

/// In the environment of the program that gdb runs.
const IN_GDB: &str = "STOPWORLD_IN_GDB";

const COLLECTIONS: u32 = 3;

/// Not a test by itself: the program that the debugger runs.
#[test]
fn the_program_in_the_debugger() {
    if std::env::var_os(IN_GDB).is_none() {
        return;
    }
    let world = World::builder().build().unwrap();
    let wants = [EventId::GcStart, EventId::HeapStats].into_iter().collect();
    world.events().listen(Arc::new(NullSink), Selection::of(wants)).unwrap();
    // SAFETY: this thread keeps no reference.
    let m = unsafe { world.attach("main") }.unwrap();
    for _ in 0..COLLECTIONS {
        m.alloc_array::<u64>(5_000, |_| 0).unwrap();
        m.collect().unwrap();
    }
}

/// This program without its debug information, as it would be shipped; as it is if nobody can take it out.
fn stripped(folder: &Path) -> PathBuf {
    let this = std::env::current_exe().unwrap();
    let copy = folder.join("stripped");
    let strip = Command::new("strip").arg("--strip-debug").arg("-o").args([&copy, &this]).status();
    if strip.is_ok_and(|status| status.success()) { copy } else { this }
}

#[test]
fn a_debugger_breaks_at_an_event_and_reads_its_arguments() {
    if Command::new("gdb").arg("--version").output().is_err() {
        println!("skipped: needs gdb");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // The System V ABI: the world's events in rdi, then the fields in rsi, rdx …
    let script = folder.path().join("script");
    std::fs::write(
        &script,
        r#"
set pagination off
set confirm off
set language c
set breakpoint pending on
break *&stopworld_fire_gc_start
commands
  silent
  printf "start %d for %d\n", $esi, $edx
  continue
end
break *&stopworld_fire_heap_stats
commands
  silent
  printf "stats of %d: %lu large\n", $esi, $rcx
  continue
end
run
"#,
    )
    .unwrap();
    let output = Command::new("gdb")
        .args(["-nx", "-batch", "-x"])
        .arg(&script)
        .arg("--args")
        .arg(stripped(folder.path()))
        .args(["--exact", "the_program_in_the_debugger", "--test-threads", "1"])
        .env(IN_GDB, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    if ["ptrace: Operation not permitted", "Could not trace"].iter().any(|denied| errors.contains(denied)) {
        println!("skipped: needs gdb that may trace: {errors}");
        return;
    }
    // An explicit collection has reason 1.
    let starts: Vec<&str> = said.lines().filter(|line| line.starts_with("start ")).collect();
    assert_eq!(starts, ["start 1 for 1", "start 2 for 1", "start 3 for 1"], "{said}\n{errors}");
    let stats: Vec<&str> = said.lines().filter(|line| line.starts_with("stats of ")).collect();
    assert_eq!(stats.len(), COLLECTIONS as usize, "{said}\n{errors}");
    for (number, line) in (1..).zip(stats) {
        let large: u64 = line
            .strip_prefix(&format!("stats of {number}: "))
            .and_then(|rest| rest.strip_suffix(" large"))
            .and_then(|bytes| bytes.parse().ok())
            .unwrap_or_else(|| panic!("{line}"));
        assert!(large.is_multiple_of(16 << 10) && large < 1 << 20, "{line}");
    }
}
