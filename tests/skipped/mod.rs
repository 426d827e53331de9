//! Reports that a test is skipped.

use std::fs::OpenOptions;
use std::io::Write;

/// Reports that the calling test is skipped because the machine lacks something: prints `skipped: needs gdb`.
///
/// The test harness hides the output of passing tests, so the report would be lost. If the environment variable `STOPWORLD_SKIPPED` names a
/// file, a line with the missing thing and the test is appended to it; `.ci/skipped` reads that file.
pub fn skipped(needs: &str) {
    println!("skipped: needs {needs}");
    let Some(file) = std::env::var_os("STOPWORLD_SKIPPED") else { return };
    let program = std::env::current_exe().unwrap_or_default();
    let program = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("?");
    // One write, so that the lines of concurrent tests do not mix.
    let line = format!("{}\t{program}\t{test}\n", needs.lines().next().unwrap_or("?"));
    let log = OpenOptions::new().append(true).create(true).open(&file);
    log.and_then(|mut log| log.write_all(line.as_bytes())).expect("STOPWORLD_SKIPPED names a file that can be written");
}
