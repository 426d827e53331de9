//! Compares the output of `stopworld eventlog show` with that of the real `ghc-events` for the same logs.
//!
//! The logs under `fixtures/eventlog` were written by programs of GHC 9.0.2, those in `broken` by hand. Next to each is the output of
//! `ghc-events show`, compressed, and for the broken ones a list of what four real tools print.

use crate::trace_data;

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use assert_cmd::Command;
use flate2::read::GzDecoder;
use rstest::rstest;
use trace_data::third_party;

const LIMIT: Duration = Duration::from_secs(300);

fn show(arguments: &[&str], file: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stopworld"));
    command.args(["eventlog", "show"]).args(arguments).arg(file).timeout(LIMIT).output().expect("stopworld starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
fn assert_same(ours: &[u8], real: &[u8]) {
    for (number, (ours, real)) in ours.split(|&b| b == b'\n').zip(real.split(|&b| b == b'\n')).enumerate() {
        assert_eq!(text(ours), text(real), "line {}", number + 1);
    }
    assert_eq!(ours.len(), real.len());
}

/// Returns what the real tool prints of a log.
fn real_text(log: &Path) -> Vec<u8> {
    let compressed = fs::File::open(log.with_extension("show021.txt.gz")).expect("the real output");
    let mut text = Vec::new();
    GzDecoder::new(compressed).read_to_end(&mut text).expect("gzip made it");
    text
}

/// Returns the events in a printed log.
fn events(whole: &str) -> &str {
    let at = whole.find("\nEvents:\n").expect("there is a heading");
    &whole[at + "\nEvents:\n".len()..whole.len() - 1]
}

/// Splits the events. A block marker is followed by an empty line, and the texts of other events may contain anything.
fn lines(events: &str) -> Vec<&str> {
    let begins = |line: &&str| line.split_once(": ").is_some_and(|(time, _)| time.parse::<u64>().is_ok());
    events.lines().filter(begins).collect()
}

#[rstest]
fn the_text_is_that_of_ghc_events(#[files("../../tests/fixtures/eventlog/*.eventlog")] file: PathBuf) {
    let output = show(&[], &file);
    assert_same(&output.stdout, &real_text(&file));
    if file.to_string_lossy().contains("crash") {
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr.contains("at byte 2688: the file ends here without its end marker"), "{stderr}");
    } else {
        assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
    }
}

#[test]
fn the_test_logs_of_ghc_events_are_shown_as_by_ghc_events() {
    let Some(directory) = third_party("eventlog") else { return };
    let mut seen = 0;
    for entry in fs::read_dir(directory).unwrap() {
        let file = entry.unwrap().path();
        if file.extension().is_none_or(|extension| extension != "eventlog") {
            continue;
        }
        let output = show(&[], &file);
        assert_same(&output.stdout, &fs::read(file.with_extension("eventlog.reference")).unwrap());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        seen += 1;
    }
    assert!(seen >= 6);
}

/// The order of `show` is that of `inc`, stably sorted by time.
#[rstest]
fn the_events_alone_are_the_same_in_the_order_of_the_file(
    #[files("../../tests/fixtures/eventlog/*.eventlog")] file: PathBuf,
) {
    let (whole, inc) = (show(&[], &file), show(&["--inc"], &file));
    let (whole, inc) = (text(&whole.stdout), text(&inc.stdout));
    let mut sorted = lines(&inc);
    sorted.sort_by_key(|line| line.split_once(':').unwrap().0.parse::<u64>().unwrap());
    assert_eq!(sorted, lines(events(&whole)));
    assert_eq!(inc.len(), events(&whole).len());
}

/// Returns the highest number of events that any of the real tools prints of a broken log. The cases name our message.
fn results(name: &str) -> u64 {
    let results = fs::read_to_string("../../tests/fixtures/eventlog/broken/RESULTS.txt").unwrap();
    let of_file = results.lines().filter(|line| line.split_whitespace().next() == Some(name));
    let counts =
        of_file.filter_map(|line| line.split("events-printed=").nth(1)?.split_whitespace().next()?.parse().ok());
    counts.max().expect("the file is in the list")
}

#[rstest]
#[case("append-after-end", "at byte 6297: the file continues after its end marker")]
#[case("badmagic", "at byte 0: this is not an eventlog")]
#[case("badstatus", "an event of type 2 with the unknown reason to stop 4")]
#[case("badutf8", "an event of type 164 with a text that is not UTF-8")]
#[case("dup-label", "")]
#[case("extra-fixed-ok", "")]
#[case("extra-fixed", "at byte 4791: an event of type 3, which the header does not declare")]
#[case("extra-var", "")]
#[case("full-br10", "an event of type 160 with the unknown breakdown 10")]
#[case("full-docorder", "")]
#[case("full-era", "")]
#[case("full-hT", "")]
#[case("full-hb", "")]
#[case("full-hc", "")]
#[case("full-hi-ok", "")]
#[case("full-hi", "")]
#[case("full-hr", "")]
#[case("full-hy", "")]
#[case("full-noblocks", "")]
#[case("full-noend", "at byte 6295: the file ends here without its end marker")]
#[case("gcstats50", "")]
#[case("ident-other", "")]
#[case("junk-after-end", "at byte 6297: the file continues after its end marker")]
#[case("label65525", "")]
#[case("min-noevents", "")]
#[case("min-nothing", "")]
#[case("min", "")]
#[case("no-heap-begin", "")]
#[case("no-ident", "")]
#[case("no-sample-end", "")]
#[case("nonul", "an event of type 164 with a text that has no terminating zero")]
#[case("stop6", "")]
#[case("time0", "")]
#[case("trunc-half", "at byte 3148: the file ends here without its end marker")]
#[case("trunc-midevent", "at byte 6288: the file ends here, inside an event that begins at byte ")]
#[case("trunc-midheader", "at byte 200: the file ends here, inside the declaration of a type")]
#[case("undeclared-high", "an event of type 168, which the header does not declare")]
#[case("undeclared", "an event of type 50, which the header does not declare")]
#[case("unknown-fixed", "")]
#[case("unknown-var", "")]
fn a_broken_log_yields_at_least_as_much_as_any_real_tool_prints(#[case] name: &str, #[case] told: &str) {
    let file = Path::new("../../tests/fixtures/eventlog/broken").join(name).with_extension("eventlog");
    let (whole, inc) = (show(&[], &file), show(&["--inc"], &file));
    let stderr = text(&whole.stderr);
    let expected = results(name) as usize;
    let inc_text = text(&inc.stdout);
    assert!(lines(&inc_text).len() >= expected, "{} of {expected}: {stderr}", lines(&inc_text).len());
    assert_eq!(stderr, text(&inc.stderr));
    assert_eq!(whole.status.code(), Some(i32::from(!told.is_empty())), "{stderr}");
    assert_eq!(inc.status.code(), whole.status.code());
    assert!(stderr.contains(told) && stderr.is_empty() == told.is_empty(), "{stderr}");
    assert!(!told.starts_with("an event of type") || stderr.contains("; the last good event is number "), "{stderr}");
    let has_header = !name.starts_with("badmagic") && !name.starts_with("trunc-midheader");
    if has_header {
        let whole = text(&whole.stdout);
        assert_eq!(lines(events(&whole)).len(), lines(&inc_text).len());
    } else {
        assert!(inc_text.is_empty());
    }
}

/// The message has the place of the damage and the last good event before it.
#[test]
fn damage_is_reported_with_the_last_good_event() {
    let output = show(&[], Path::new("../../tests/fixtures/eventlog/broken/trunc-midevent.eventlog"));
    let stderr = text(&output.stderr);
    assert!(stderr.contains("; the last good event is number 213, of type 26 at byte"), "{stderr}");
}

/// `.format.hostile`
#[test]
fn one_missing_byte_is_reported_in_the_singular() {
    let whole = fs::read("../../tests/fixtures/eventlog/broken/min.eventlog").unwrap();
    let mut file = tempfile::NamedTempFile::new().unwrap();
    // Without the end marker and the last byte before it.
    file.write_all(&whole[..whole.len() - 3]).unwrap();
    let stderr = text(&show(&[], file.path()).stderr);
    assert!(stderr.contains(": 1 byte more was expected"), "{stderr}");
}

#[test]
fn a_log_comes_through_a_pipe() {
    let whole = fs::read("../../tests/fixtures/eventlog/leak.hc.eventlog").unwrap();
    let real = real_text(Path::new("../../tests/fixtures/eventlog/leak.hc.eventlog"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_stopworld"));
    let output = command.args(["eventlog", "show", "-"]).write_stdin(whole).timeout(LIMIT).output().unwrap();
    assert_same(&output.stdout, &real);
    assert_eq!(output.status.code(), Some(0));
}

/// Standard input that is a file is not copied, and is read from its beginning.
#[test]
fn a_file_as_standard_input_is_read_in_place() {
    let real = real_text(Path::new("../../tests/fixtures/eventlog/leak.hc.eventlog"));
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_stopworld"));
    let file = fs::File::open("../../tests/fixtures/eventlog/leak.hc.eventlog").unwrap();
    let output = command.args(["eventlog", "show", "-"]).env("TMPDIR", "/no/such/place").stdin(file).output().unwrap();
    assert_same(&output.stdout, &real);
}

#[rstest]
#[case("no-such-file.eventlog", "No such file")]
#[case("tests", "directory")]
fn a_file_that_cannot_be_read_is_one_clear_line(#[case] file: &str, #[case] why: &str) {
    for arguments in [&[][..], &["--inc"]] {
        let output = show(arguments, Path::new(file));
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        assert!(stderr.contains(why) && stderr.contains(file), "{stderr}");
    }
}

#[rstest]
fn a_closed_pipe_is_no_error_and_a_full_disk_is_one(#[values("--inc", "")] form: &str) {
    let arguments: Vec<&str> = ["eventlog", "show", form].into_iter().filter(|word| !word.is_empty()).collect();
    let start = |stdout: Stdio| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_stopworld"));
        command.args(&arguments).arg("../../tests/fixtures/eventlog/life2.hb.eventlog");
        command.stdout(stdout).stderr(Stdio::piped()).spawn().expect("stopworld starts")
    };
    let mut closed = start(Stdio::piped());
    drop(closed.stdout.take());
    let output = closed.wait_with_output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(141), ""));
    let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has /dev/full");
    let output = start(full.into()).wait_with_output().unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.lines().count() == 1 && stderr.contains("No space left on device"), "{stderr}");
}

/// `.format.hostile`: damage far into the log loses neither the events before it nor the blocks after it.
#[test]
fn a_damaged_block_loses_no_other() {
    let whole = fs::read("../../tests/fixtures/eventlog/broken/min.eventlog").unwrap();
    let mut spoiled = whole.clone();
    // The only event of the first block gets a type that is not declared.
    spoiled[0xaf..0xb1].copy_from_slice(&0x7777u16.to_be_bytes());
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&spoiled).unwrap();
    let output = show(&[], file.path());
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(
        lines(events(&stdout)),
        [
            "100: event block: cap 65535, end time: 200",
            "300: cap 0: event block: cap 0, end time: 900",
            "300: cap 0: starting GC",
            "900: cap 0: finished GC"
        ]
    );
    assert!(stderr.contains("at byte 175: an event of type 30583, which is not declared"), "{stderr}");
    assert!(stderr.contains("reading resumes at byte 187, where a block begins"), "{stderr}");
    assert_eq!(output.status.code(), Some(1));
}
