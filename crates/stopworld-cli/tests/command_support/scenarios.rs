//! Runs that write a trace of any format: their arguments conflict, their file fails, they are ended by a signal, or they are killed. Each
//! function asserts the properties that are common to all formats, and returns the bytes written, for the checks of the format.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::{STOPWORLD, begin, directory, run, signal, size, stopworld, text, wait_until};

// ---- Arguments -----------------------------------------------------------------------------------------------------

/// Conflicting arguments are reported in one line with the reason, and nothing is written.
#[track_caller]
pub fn is_refused(arguments: &str, why: &str) {
    let directory = directory();
    let output = run(directory.path(), &format!("run binary-trees --depth 4 {arguments}"));
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
    assert!(said.contains(why), "{said}");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

/// Checks that a run with these arguments writes this file and no other, although the environment requests a telemetry stream. Returns
/// the file's contents.
#[track_caller]
pub fn leaves(file: &str, arguments: &str) -> Vec<u8> {
    let directory = directory();
    let mut command = stopworld(directory.path(), &format!("run binary-trees --depth 14 {arguments}"));
    let output = command.env("MPS_TELEMETRY_CONTROL", "all").output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
    let files: Vec<_> = fs::read_dir(directory.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(files, [file]);
    assert!(text(&output.stdout).contains(&format!("{file}: ")), "the table has a row for the trace");
    fs::read(directory.path().join(file)).unwrap()
}

// ---- Files that fail -----------------------------------------------------------------------------------------------

/// A run whose file fails reports it in one line that contains all of `why`, and completes its work. Returns its output.
#[track_caller]
pub fn goes_on_without_its_file(file: &str, why: &[&str], more: &str) -> String {
    let directory = directory();
    let output = run(directory.path(), &format!("run graph --trace {file} {more}"));
    let (said, printed) = (text(&output.stderr), text(&output.stdout));
    assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{said}");
    assert!([file, "--trace"].iter().chain(why).all(|part| said.contains(part)), "{said}");
    assert!(printed.contains("verified="), "the workload has done its work");
    assert!(printed.contains("events are lost"), "{printed}");
    printed
}

/// A run whose file is limited to `blocks` blocks reports that in one line. Returns the figures of the trace, and the file's contents.
#[track_caller]
pub fn may_write_only(blocks: u32, workload: &str, file: &str, more: &str) -> (Value, Vec<u8>) {
    let directory = directory();
    let line = format!("ulimit -f {blocks}; exec {STOPWORLD} run {workload} --trace {file} {more} --json");
    let output = Command::new("sh").args(["-c", &line]).current_dir(directory.path()).output().unwrap();
    let said = text(&output.stderr);
    assert!(said.contains(&format!("{file}: File too large")) && said.lines().count() == 1, "{said}");
    assert_eq!(output.status.code(), Some(1));
    let printed = text(&output.stdout);
    let figures = printed.lines().find(|line| line.starts_with('{')).expect("the figures are JSON");
    let trace = serde_json::from_str::<Value>(figures).unwrap()["trace"].take();
    assert!(figure(&trace, "lost") > 0 && figure(&trace, "lost") < figure(&trace, "events"), "{trace}");
    (trace, fs::read(directory.path().join(file)).unwrap())
}

#[track_caller]
pub fn figure(figures: &Value, name: &str) -> u64 {
    figures[name].as_u64().unwrap_or_else(|| panic!("no {name} in {figures}"))
}

/// A run that writes to a pipe whose reader exits reports that in one line. Returns the first bytes.
#[track_caller]
pub fn loses_its_reader(workload: &str, more: &str) -> [u8; 100] {
    let directory = directory();
    let mut child = begin(directory.path(), &format!("run {workload} --trace /dev/stdout {more}"));
    let mut head = [0; 100];
    child.stdout.take().unwrap().read_exact(&mut head).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{said}");
    assert!(said.contains("/dev/stdout: Broken pipe; its reader closed the pipe"), "{said}");
    head
}

/// Returns all bytes that a run writes to a pipe. The contents of a pipe cannot be overwritten, so the trace gets its end marker only when
/// the run ends.
#[track_caller]
pub fn comes_through_a_pipe(format: &str) -> Vec<u8> {
    let directory = directory();
    let run = format!("{STOPWORLD} run churn --collections 3 --trace /dev/fd/3 --format {format}");
    let line = format!("{run} 3>&1 >/dev/null | cat > t");
    let output = Command::new("sh").args(["-c", &line]).current_dir(directory.path()).output().unwrap();
    assert_eq!(text(&output.stderr), "");
    fs::read(directory.path().join("t")).unwrap()
}

// ---- Runs that end otherwise ---------------------------------------------------------------------------------------

/// A run that is ended by a signal exits with this code and no message. Returns the bytes that it has written.
#[track_caller]
pub fn ends_when_asked(asked: Signal, code: i32, file: &str, more: &str) -> Vec<u8> {
    let directory = directory();
    let path = directory.path().join(file);
    let child = begin(directory.path(), &format!("run churn --seconds 600 --trace {file} {more}"));
    wait_until("something is written", || size(&path) > 0);
    signal(&child, asked);
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(code), ""));
    fs::read(path).unwrap()
}

/// A program that does not react to the first signal ends at the second. Returns the bytes written until then.
#[track_caller]
pub fn is_left_behind(file: &str, more: &str) -> Vec<u8> {
    let directory = directory();
    let path = directory.path().join(file);
    fs::write(directory.path().join("loop.scm"), "(define (loop n) (cons n n) (loop (+ n 1))) (loop 0)").unwrap();
    let mut child = begin(directory.path(), &format!("run lisp loop.scm --trace {file} {more}"));
    wait_until("something is written", || size(&path) > 0);
    signal(&child, Signal::SIGTERM);
    // The program sees only one signal if it had no time between the two.
    wait_until("it ends", || {
        std::thread::sleep(Duration::from_millis(50));
        kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).unwrap();
        child.try_wait().unwrap().is_some()
    });
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(143));
    fs::read(path).unwrap()
}

/// Kills a run `later` after its file has grown beyond `beyond` bytes. Returns the bytes that it has written.
#[track_caller]
pub fn is_killed(run: &mut Command, file: &Path, beyond: u64, later: Duration) -> Vec<u8> {
    is_killed_when(run, file, || size(file) > beyond, later)
}

/// Kills a run `later` after `holds` returns true. Returns the bytes that it has written.
#[track_caller]
pub fn is_killed_when(run: &mut Command, file: &Path, holds: impl FnMut() -> bool, later: Duration) -> Vec<u8> {
    let _ = fs::remove_file(file);
    let mut child = run.stdout(Stdio::null()).spawn().unwrap();
    wait_until("something is written", holds);
    std::thread::sleep(later);
    signal(&child, Signal::SIGKILL);
    child.wait().unwrap();
    fs::read(file).unwrap()
}

/// Kills runs after various times. At least three of five files must have their end marker. The others may lack it because the run was
/// killed during a write, which happens more often on a busy machine.
/// `is_whole` returns whether the bytes contain that end, and checks whatever must hold either way.
#[track_caller]
pub fn most_of_the_killed_have_their_end(file: &str, more: &str, mut is_whole: impl FnMut(&[u8]) -> bool) {
    let directory = directory();
    let arguments = format!("run churn --seconds 600 --threads 2 --trace {file} {more}");
    let (mut rounds, mut whole) = (0, 0);
    while rounds < 5 || (whole < 3 && rounds < 20) {
        let mut run = stopworld(directory.path(), &arguments);
        let bytes = is_killed(&mut run, &directory.path().join(file), 4096, Duration::from_millis(50 * (rounds % 5)));
        whole += u32::from(is_whole(&bytes));
        rounds += 1;
    }
    assert!(whole >= 3, "of {rounds} files {whole} have their end");
}

/// A flight recorder is written only when it is requested. Returns the file's contents.
#[track_caller]
pub fn writes_its_recorder_when_asked(file: &str) -> Vec<u8> {
    let directory = directory();
    let path = directory.path().join(file);
    let arguments = format!("run churn --seconds 600 --trace {file} --flight-recorder 1m --flexowriter");
    let mut child = begin(directory.path(), &arguments);
    let (collections, counted) = (Arc::new(AtomicU32::new(0)), BufReader::new(child.stdout.take().unwrap()).lines());
    let count = Arc::clone(&collections);
    let counting = std::thread::spawn(move || {
        let called = counted.map_while(Result::ok).filter(|line| line.contains("HAS BEEN CALLED"));
        called.for_each(|_| _ = count.fetch_add(1, Ordering::Relaxed));
    });
    wait_until("it has something to record", || collections.load(Ordering::Relaxed) >= 20);
    assert!(!path.exists());
    signal(&child, Signal::SIGUSR2);
    wait_until("the recorder is written", || size(&path) > 0);
    signal(&child, Signal::SIGTERM);
    let output = child.wait_with_output().unwrap();
    counting.join().unwrap();
    let said = text(&output.stderr);
    assert!(output.status.code() == Some(143) && said.contains(&format!("events to {file}")), "{said}");
    fs::read(path).unwrap()
}
