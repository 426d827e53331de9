//! Runs of the command whose trace cannot be written, or which do not end by themselves.

use crate::command_support;
use crate::mps_stream;
use crate::tools;

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use command_support::scenarios::{self, figure};
use command_support::{STOPWORLD, begin, directory, run, signal, size, stopworld, text, wait_until};
use mps_stream::{check, check_entries, check_gappy, parse};
use nix::sys::signal::Signal;
use rstest::rstest;

const ALL: u64 = 0x7f;
/// The default filter: all categories except Ref and Object.
const DEFAULT: u64 = 0x4f;

// ---- Arguments -----------------------------------------------------------------------------------------------------

#[rstest]
#[case::option("--trace t.mps", &[], Some(("t.mps", DEFAULT)))]
#[case::categories("--events Pool", &[], Some(("mpsio.log", 2)))]
#[case::both("--trace t.mps --events 0x7f", &[], Some(("t.mps", ALL)))]
#[case::nothing("", &[], None)]
#[case::zero("", &[("MPS_TELEMETRY_CONTROL", "0"), ("MPS_TELEMETRY_FILENAME", "e.mps")], None)]
#[case::environment("", &[("MPS_TELEMETRY_CONTROL", "Arena Pool Trace")], Some(("mpsio.log", 7)))]
#[case::named("", &[("MPS_TELEMETRY_CONTROL", "all"), ("MPS_TELEMETRY_FILENAME", "e.mps")], Some(("e.mps", ALL)))]
#[case::option_wins(
    "--trace t.mps --events Trace",
    &[("MPS_TELEMETRY_CONTROL", "all"), ("MPS_TELEMETRY_FILENAME", "e.mps")],
    Some(("t.mps", 4))
)]
fn options_win_over_the_environment(
    #[case] arguments: &str,
    #[case] environment: &[(&str, &str)],
    #[case] expected: Option<(&str, u64)>,
) {
    let directory = directory();
    let mut command = stopworld(directory.path(), &format!("run binary-trees --depth 12 {arguments}"));
    let output = command.envs(environment.iter().copied()).output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
    let files: Vec<_> = fs::read_dir(directory.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    let Some((file, filter)) = expected else { return assert_eq!(files, [""; 0]) };
    assert_eq!(files, [file]);
    let told = check(&fs::read(directory.path().join(file)).unwrap(), filter);
    assert!(filter & 1 == 0 || told.count("ArenaDestroy") == 1, "the stream has the world's end: {:?}", told.counts);
    assert!(text(&output.stdout).contains(&format!("{file}: ")), "the table has a row for the trace");
}

#[test]
fn a_word_that_names_nothing_is_reported_once_with_the_nearest_name() {
    let directory = directory();
    let mut command = stopworld(directory.path(), "run binary-trees --depth 8");
    let output = command.env("MPS_TELEMETRY_CONTROL", "Pol Trace Pol").output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(said.lines().count(), 1, "{said}");
    let sentence =
        "'Pol' is none of the categories Arena Pool Trace Seg Ref Object User, nor all: did you mean 'Pool'?";
    assert_eq!(said.trim_end(), format!("stopworld: MPS_TELEMETRY_CONTROL: {sentence}"));
    check(&fs::read(directory.path().join("mpsio.log")).unwrap(), 4);

    let output = Command::new(STOPWORLD).args(["run", "churn", "--events", "trace"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("did you mean 'Trace'?"), "{}", text(&output.stderr));
}

// ---- Files that fail -----------------------------------------------------------------------------------------------

/// `.event.full-disk`
#[rstest]
#[case::full("/dev/full", "No space left on device", "make room")]
#[case::directory(".", "Is a directory", "name a file in it")]
#[case::nowhere("no/such/t.mps", "No such file or directory", "create its directory")]
#[case::not_a_directory("/dev/null/t.mps", "Not a directory", "name another path")]
fn a_file_that_fails_is_one_line_and_the_run_goes_on(#[case] file: &str, #[case] why: &str, #[case] remedy: &str) {
    let printed = scenarios::goes_on_without_its_file(file, &[why, remedy], "--events all");
    let row = printed.lines().find(|line| line.contains("events are lost")).expect("the table counts the loss");
    let numbers: Vec<u64> = row.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect();
    let (lost, fired) = (numbers[numbers.len() - 2], numbers[numbers.len() - 1]);
    assert_eq!(lost, fired, "{row}");
    assert!(lost > 100_000, "{row}");
}

/// `.event.full-disk`: the part that was written before the failure is a stream, and the numbers of written and of lost records add up to
/// all records. Tested for a failure in the first block, and for one in a later block, which another thread detects.
#[rstest]
fn a_file_that_may_not_grow_keeps_whole_records(#[values(700, 4444)] blocks: u32) {
    let (figures, stream) = scenarios::may_write_only(blocks, "graph", "t.mps", "--events all");
    let entries = parse(&stream);
    assert!(entries.len() > 5_000 && stream.len() > blocks as usize * 512 - 1_000);
    let written = (figure(&figures, "bytes"), figure(&figures, "records"));
    assert_eq!(written, (stream.len() as u64, entries.len() as u64));
}

#[test]
fn a_file_without_permission_is_one_that_fails() {
    let directory = directory();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let file = directory.path().join("t.mps");
    fs::write(&file, "").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o444)).unwrap();
    let mut command = stopworld(directory.path(), "run binary-trees --depth 8 --trace t.mps");
    if fs::File::options().write(true).open(&file).is_ok() {
        // Root may write everything; the user `nobody` may not.
        command.uid(65534);
    }
    let Ok(output) = command.output() else {
        return tools::skipped("a user that may run the command where it lies");
    };
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{said}");
    assert!(said.contains("t.mps: Permission denied; make it writable"), "{said}");
}

#[test]
fn a_closed_pipe_ends_the_trace_and_not_the_run() {
    let head = scenarios::loses_its_reader("graph", "--events all");
    assert_eq!(parse(&head[..72])[0].name, "EventInit");
}

// ---- Runs that end otherwise ---------------------------------------------------------------------------------------

/// The number of bytes in complete records.
fn whole_records(stream: &[u8]) -> usize {
    let mut at = 0;
    while let Some(head) = stream.get(at..at + 16) {
        let size = usize::from(u16::from_le_bytes([head[2], head[3]]));
        if at + size > stream.len() {
            break;
        }
        at += size;
    }
    at
}

/// The offsets of the clock syncs among the complete records.
fn syncs(stream: &[u8]) -> Vec<usize> {
    let entries = parse(&stream[..whole_records(stream)]);
    entries.iter().enumerate().filter(|(_, entry)| entry.name == "EventClockSync").map(|(at, _)| at).collect()
}

/// The first bytes of a file, which may grow as fast as it is read.
fn head_of(file: &Path) -> Vec<u8> {
    let mut head = Vec::new();
    fs::File::open(file).unwrap().take(1 << 16).read_to_end(&mut head).unwrap();
    head
}

/// `.event.crash`: the file has complete records, for which stopworld's reader reports no notice.
#[rstest]
fn a_run_that_is_killed_leaves_a_stream(#[values("all", "Arena Pool Trace", "User")] events: &str) {
    let directory = directory();
    let file: PathBuf = directory.path().join("t.mps");
    for bytes in [0, 100_000, 5_000_000] {
        // A file with few records is created later.
        let bytes = if events == "all" { bytes } else { 0 };
        let mut command = stopworld(directory.path(), "run churn --seconds 600 --threads 2 --trace t.mps --events");
        let command = command.arg(events);
        let is_there = || size(&file) > bytes && !syncs(&head_of(&file)).is_empty();
        // On a busy machine the run may write gigabytes before it is killed.
        let killed = || scenarios::is_killed_when(command, &file, is_there, Duration::from_millis(20));
        let stream = std::iter::repeat_with(killed).find(|stream| stream.len() < 100_000_000).unwrap();
        // The run may have been killed during a write. In that case only the last record is cut.
        let whole = whole_records(&stream);
        let entries = parse(&stream[..whole]);
        // Up to its last sync the stream obeys all rules.
        let syncs = syncs(&stream);
        let end = *syncs.last().unwrap();
        if syncs.len() >= 2 {
            check_entries(entries[..=end].iter().cloned(), ALL);
        }
        let read = run(directory.path(), "eventcnv --cnv -f t.mps");
        match stream.len() - whole {
            0 => assert_eq!((read.status.code(), text(&read.stderr).as_str()), (Some(0), "")),
            1..16 => assert_eq!(read.status.code(), Some(0)),
            _ => assert!(read.status.code() == Some(1) && text(&read.stderr).contains("Truncated log")),
        }
        assert_eq!(text(&read.stdout).lines().count(), entries.len());
    }
}

/// `.event.async-file`, `.event.slot`: all threads are stopped, including the one that writes the file, inside a block or not.
#[test]
fn a_debugger_can_flush_while_the_writing_thread_is_stopped() {
    if !tools::has("gdb") {
        return;
    }
    let directory = directory();
    let file = directory.path().join("t.mps");
    let child = begin(directory.path(), "run churn --seconds 600 --threads 2 --trace t.mps --events all");
    wait_until("blocks are written", || size(&file) > 5_000_000);
    let mut said = String::new();
    // A thread may be stopped while it holds the recorder's lock: then the call returns 1, and is repeated later.
    for attempt in 0..100 {
        // The run is stopped, because it would write gigabytes until gdb has started.
        signal(&child, Signal::SIGSTOP);
        let output = Command::new("gdb")
            .args(["-batch", "-nx", "-iex", "set debuginfod enabled off", "-p", &child.id().to_string()])
            .args(["-ex", "handle SIGSTOP nostop noprint nopass", "-ex", "set scheduler-locking on"])
            // The thread may be in a Rust function, whose language the expression is not.
            .args(["-ex", "set language c"])
            .args(["-ex", "printf \"flushed: %d\\n\", ((int (*)(void)) stopworld_telemetry_flush)()"])
            .args(["-ex", &format!("shell cp {} {}.then", file.display(), file.display())])
            .args(["-ex", "detach"])
            .output()
            .unwrap();
        signal(&child, Signal::SIGCONT);
        said = format!("{}{}", text(&output.stdout), text(&output.stderr));
        if !said.contains("flushed: 1") {
            break;
        }
        std::thread::sleep(Duration::from_millis(attempt % 10));
    }
    signal(&child, Signal::SIGTERM);
    let output = child.wait_with_output().unwrap();
    if said.contains("not permitted") {
        return tools::skipped("a system that lets gdb look into our child");
    }
    assert!(said.contains("flushed: 0"), "{said}");
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(143), ""));
    let then = fs::read(directory.path().join("t.mps.then")).unwrap();
    assert_eq!(whole_records(&then), then.len(), "what was flushed ends with a whole record");
    let stream = fs::read(&file).unwrap();
    assert!(stream.starts_with(&then) && whole_records(&stream) == stream.len(), "the run continued the stream");
}

#[rstest]
#[case(Signal::SIGTERM, 143)]
#[case(Signal::SIGINT, 130)]
fn a_run_that_is_asked_to_end_writes_its_end(#[case] asked: Signal, #[case] code: i32) {
    check(&scenarios::ends_when_asked(asked, code, "t.mps", "--events all"), ALL);
}

#[test]
fn a_run_that_is_abandoned_is_traced_until_then() {
    let entries = parse(&scenarios::is_left_behind("t.mps", "--events all"));
    assert_eq!(entries.last().unwrap().name, "EventClockSync");
}

#[test]
fn the_flight_recorder_is_written_when_asked_and_only_then() {
    // A flight recorder never waits, so any event may be missing.
    let stream = scenarios::writes_its_recorder_when_asked("t.mps");
    assert!(check_gappy(&stream) > 1_000);
    let entries = parse(&stream);
    let count = |name: &str| entries.iter().filter(|entry| entry.name == name).count();
    assert_eq!(count("PoolInit"), 3 * count("ArenaCreateVM"), "all pools must be introduced, not only those in use");
    assert_eq!(count("TraceDestroy"), count("TraceCreate"));

    let directory = directory();
    let output = run(directory.path(), "run graph --trace e.mps --flight-recorder 64k --flight-at-end --events Object");
    assert_eq!(output.status.code(), Some(0));
    assert!(check_gappy(&fs::read(directory.path().join("e.mps")).unwrap()) > 500);
}

/// The failure is reported in one line, in every format. The writing thread is the program's first thread, which receives the signal of the
/// file size limit.
#[rstest]
fn a_flight_recorder_that_cant_be_written_at_the_end_fails_the_run(
    #[values("mps", "nettrace", "json", "eventlog")] format: &str,
    #[values(
        ("/dev/full", "No space left on device", "make room"),
        ("t", "File too large", "raise the limit of a file's size")
    )]
    (file, why, remedy): (&str, &str, &str),
) {
    let directory = directory();
    let recorder = "--flight-recorder 1m --flight-at-end";
    let line = format!("ulimit -f 1; exec {STOPWORLD} run graph --trace {file} --format {format} {recorder}");
    let output = Command::new("sh").args(["-c", &line]).current_dir(directory.path()).output().unwrap();
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{said}");
    let parts = [&format!("{file}: {why}"), remedy, "--trace FILE"];
    assert!(parts.iter().all(|part| said.contains(part)), "{said}");
    assert!(text(&output.stdout).contains("verified="), "the workload has done its work");
}

#[test]
fn sigusr2_flushes_a_trace() {
    let directory = directory();
    let child = begin(directory.path(), "run churn --seconds 600 --trace t.mps");
    let file = directory.path().join("t.mps");
    wait_until("something is written", || size(&file) > 0);
    signal(&child, Signal::SIGUSR2);
    std::thread::sleep(Duration::from_millis(50));
    signal(&child, Signal::SIGTERM);
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(143));
}
