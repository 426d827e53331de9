//! lldb takes part in collections through the script that `stopworld lldb-script` prints (docs/gdb.md).

mod debugged;
mod lldb_support;
#[path = "../../../tests/skipped/mod.rs"]
mod skipped;

use std::process::Command;

use lldb_support::lldb;

/// The program that lldb runs; not a test by itself.
#[test]
fn the_program_in_the_debugger() {
    debugged::run();
}

/// Returns lldb's output for `program` with these commands; `None` if there is no lldb.
fn session(program: &str, commands: &[&str]) -> Option<String> {
    let mut lldb = lldb()?;
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("stopworld_lldb.py");
    let printed = Command::new(env!("CARGO_BIN_EXE_stopworld")).arg("lldb-script").output().unwrap();
    std::fs::write(&script, printed.stdout).unwrap();
    lldb.args(["-o", "settings set stop-line-count-before 0", "-o", "settings set stop-line-count-after 0"]);
    lldb.args(["-o", &format!("command script import {}", script.display())]);
    for command in commands {
        lldb.args(["-o", command]);
    }
    let this = std::env::current_exe().unwrap();
    let output = lldb.arg("--").arg(this).args(debugged::ARGUMENTS).env(debugged::PROGRAM, program).output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if said.contains("Operation not permitted") {
        skipped::skipped(&format!("lldb that may trace: {said}"));
        return None;
    }
    Some(said)
}

/// Returns the number of held threads for which lldb has acknowledged, at each `stopworld status`.
fn answered(said: &str) -> Vec<u64> {
    let lines = said.lines().filter_map(|line| line.split_once("answered for "));
    lines.map(|(_, rest)| rest.split(' ').next().unwrap().parse().unwrap()).collect()
}

const SUSPEND: &str = "script [t for t in lldb.process if t.GetName().startswith('reader-1')][0].Suspend()";

#[test]
fn collections_continue_while_lldb_holds_a_thread_in_both_modes() {
    let commands = [
        "breakpoint set -n debugged_begin",
        "breakpoint set -n debugged_halfway",
        "breakpoint set -n debugged_end",
        "run",
        SUSPEND,
        "script print('COUNT', lldb.target.FindFirstGlobalVariable('DEBUGGED_COUNTS').GetChildAtIndex(1))",
        "continue",
        "script print('COUNT', lldb.target.FindFirstGlobalVariable('DEBUGGED_COUNTS').GetChildAtIndex(1))",
        "stopworld status",
        "stopworld mode full",
        "continue",
        "stopworld status",
        "script [t.Resume() for t in lldb.process]",
        "stopworld mode assisted",
        "continue",
    ];
    let Some(said) = session("mutators 40 0 23", &commands) else { return };
    let counts: Vec<&str> =
        said.split("COUNT ").skip(3).step_by(2).map(|rest| rest.split("(lldb)").next().unwrap()).collect();
    assert!(counts.len() < 2 || counts[0] == counts[1], "the held thread ran: {said}");
    let [assisted, full] = answered(&said)[..] else { panic!("{said}") };
    // Two collections per round: one thread in the first half, all four readers in the second.
    assert!(assisted >= 40 && full >= assisted + 160, "{said}");
    assert!(said.contains("all trees are whole: 40 collections"), "{said}");
}

#[test]
fn objects_and_phases_are_shown() {
    let commands = [
        "breakpoint set -n debugged_values",
        "run",
        "stopworld threads",
        "stopworld object node",
        "stopworld fields nodes",
        "stopworld referrers node",
        "stopworld why-alive node",
        "stopworld heap",
        "frame variable node",
        "stopworld phases stop mark-end",
        "continue",
        "stopworld threads",
        "stopworld phases stop none",
        "continue",
    ];
    let Some(said) = session("values", &commands) else { return };
    for part in [
        "world 1: running, 0 collections",
        "40 bytes in a cell of 48, small space",
        "1 object refers to 0x",
        "(main)",
        " in all",
        "debugged::Node",
        "value = 2",
        "[stopworld: world 1: mark-end]",
        "collecting (mark-end), by thread",
        "exited with status = 0",
    ] {
        assert!(said.contains(part), "no `{part}`: {said}");
    }
}

#[test]
fn errors_are_one_line() {
    let Some(said) = session("values", &["stopworld threads"]) else { return };
    assert!(said.contains("error: no program is being debugged"), "{said}");
}
