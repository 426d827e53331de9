//! A debugger sets a breakpoint on an event by a stable name, and finds the event's fields in the argument registers: in an optimised
//! program without debug information.

use std::sync::Arc;

use crate::tools;
use stopworld::World;
use stopworld::events::{EventId, NullSink, Selection};

/// The environment variable that is set for the program that gdb runs.
const IN_GDB: &str = "STOPWORLD_IN_GDB";

const COLLECTIONS: u32 = 3;

/// The program that the debugger runs; not a test by itself.
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

#[test]
fn a_debugger_breaks_at_an_event_and_reads_its_arguments() {
    // Stripped of debug information, as it would be shipped; unchanged if no tool can strip it.
    let folder = tempfile::tempdir().unwrap();
    let stripped = tools::stripped(folder.path(), "--strip-debug");
    let program = stripped.unwrap_or_else(|| std::env::current_exe().unwrap());
    // The System V ABI: the world's events in rdi, then the fields in rsi, rdx …
    let script = r#"
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
"#;
    let arguments = ["--exact", "gdb::the_program_in_the_debugger", "--test-threads", "1"];
    let Some(tools::InGdb { said, may_trace: true }) = tools::in_gdb(script, &program, &arguments, IN_GDB) else {
        return;
    };
    // An explicit collection has reason 1.
    let starts: Vec<&str> = said.lines().filter(|line| line.starts_with("start ")).collect();
    assert_eq!(starts, ["start 1 for 1", "start 2 for 1", "start 3 for 1"], "{said}");
    let stats: Vec<&str> = said.lines().filter(|line| line.starts_with("stats of ")).collect();
    assert_eq!(stats.len(), COLLECTIONS as usize, "{said}");
    for (number, line) in (1..).zip(stats) {
        let large: u64 = line
            .strip_prefix(&format!("stats of {number}: "))
            .and_then(|rest| rest.strip_suffix(" large"))
            .and_then(|bytes| bytes.parse().ok())
            .unwrap_or_else(|| panic!("{line}"));
        assert!(large.is_multiple_of(16 << 10) && large < 1 << 20, "{line}");
    }
}
