//! The scripts of `.ci/` accept only a result that proves the property to be checked.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::skipped;
use rstest::rstest;

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(".ci").join(name)
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// `.ci/guards` and `.ci/orderings` depend on this: a test proves its guard only by failing with its own message.
#[rstest]
#[case::its_own_message("echo 'the object died'; exit 101", "the object died", None)]
#[case::its_own_message_then_an_abort("echo 'the object died'; kill -ABRT $$", "the object died", None)]
#[case::a_crash_that_is_expected("kill -SEGV $$", "signal 11: the stack is unmapped", None)]
#[case::a_pass("echo 'the object died'", "the object died", Some("passes"))]
#[case::another_message("echo 'no such file'; exit 101", "the object died", Some("but not with \"the object died\""))]
#[case::a_crash("kill -SEGV $$", "the object died", Some("status 139, but not with"))]
#[case::another_crash("kill -ABRT $$", "signal 11: the stack is unmapped", Some("not by signal 11"))]
#[case::a_hang("echo 'the object died'; exec sleep 60", "the object died", Some("still running after 1 s"))]
#[case::no_such_program("exec /no/such/program", "the object died", Some("could not be started"))]
fn a_command_must_fail_for_the_expected_reason(
    #[case] command: &str,
    #[case] text: &str,
    #[case] rejected: Option<&str>,
) {
    let seconds = if command.contains("sleep") { "1" } else { "60" };
    let output = Command::new(script("must-fail")).args([seconds, text, "bash", "-c", command]).output().unwrap();
    assert_eq!(output.status.success(), rejected.is_none(), "{}", said(&output));
    assert!(said(&output).contains(rejected.unwrap_or("")), "{}", said(&output));
}

/// Each guard that can be removed has a row with the message of its test.
#[test]
fn every_row_of_the_table_of_guards_has_a_message() {
    let guards = std::fs::read_to_string(script("guards")).unwrap();
    let (_, rest) = guards.split_once("<<'EOF'\n").unwrap();
    let rows: Vec<&str> = rest.lines().take_while(|line| *line != "EOF").collect();
    assert!(rows.len() > 40, "{rows:?}");
    for row in rows {
        let cells: Vec<&str> = row.splitn(4, '|').map(str::trim).collect();
        assert!(cells.len() == 4 && cells[3].len() > 8, "{row}");
    }
}

/// A test that is skipped for want of a tool fails in CI only if `.ci/run` lists the tool, by the same name.
#[test]
fn each_tool_whose_lack_skips_a_test_is_listed_for_ci() {
    // Properties of the machine, or of the build.
    const OTHERS: [&str; 4] = [
        "a build with the feature biography",
        "a user that may run the command where it lies",
        "a system that lets gdb look into our child",
        "ptrace",
    ];
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let run = std::fs::read_to_string(script("run")).unwrap();
    let is_word = |text: &str| {
        run.split([':', ',', '"', ' ', ')', '(', '\n']).any(|word| word == text) || run.contains(&format!("{text}\""))
    };
    let mut files = crate::sources(&root.join("tests"));
    files.extend(crate::sources(&root.join("crates")));
    files.extend(crate::sources(&root.join("host")));
    let mut named = 0;
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        for needs in text.split("skipped(\"").skip(1).filter_map(|rest| rest.split('"').next()) {
            named += 1;
            assert!(OTHERS.contains(&needs) || is_word(needs), "{}: skipped for want of {needs}", file.display());
        }
    }
    assert!(named > 20, "{named}");
}

/// Tests that report themselves as skipped are counted; that is an error if the tool was installed for them.
#[rstest]
#[case::nothing(&[], &["gdb"], true, "0 skipped")]
#[case::the_machine(&["Avx512", "gdb that may trace: Operation not permitted"], &["gdb"], true, "2 skipped")]
#[case::a_tool_that_was_installed(&["Avx512", "gdb"], &["cc", "gdb"], false, "skipped because gdb is missing, but it was installed")]
#[case::a_tool_of_two_words(&["lldb with Python"], &["lldb with Python"], false, "because lldb with Python is missing")]
fn skipped_tests_are_counted(
    #[case] needs: &[&str],
    #[case] installed: &[&str],
    #[case] accepted: bool,
    #[case] expected: &str,
) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("skipped");
    for need in needs {
        let this = std::env::current_exe().unwrap();
        let status = Command::new(this)
            .args(["--exact", "ci_scripts::a_test_that_is_skipped"])
            .env("STOPWORLD_SKIPPED", &file)
            .env("CI_SCRIPTS_NEEDS", need)
            .output()
            .unwrap()
            .status;
        assert!(status.success());
    }
    let output = Command::new(script("skipped")).arg(&file).args(installed).output().unwrap();
    assert_eq!(output.status.success(), accepted, "{}", said(&output));
    assert!(said(&output).contains(expected), "{}", said(&output));
}

/// The test that the test above runs, with captured output like any passing test; not a test by itself.
#[test]
fn a_test_that_is_skipped() {
    if let Ok(needs) = std::env::var("CI_SCRIPTS_NEEDS") {
        skipped::skipped(&needs);
    }
}
