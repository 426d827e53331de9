//! `stopworld eventcnv` compared with the output of the MPS's own tools for the same streams.
//!
//! The streams under `fixtures/mps` were written by real MPS programs or by hand; next to each are the real tool's output, its standard
//! error and its exit code.

use crate::skipped;

use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use assert_cmd::Command;
use rstest::rstest;

const LIMIT: Duration = Duration::from_secs(300);

fn eventcnv(arguments: &[&OsStr]) -> Output {
    command(arguments).output().expect("stopworld starts")
}

fn command(arguments: &[&OsStr]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stopworld"));
    command.env_remove("MPS_TELEMETRY_FILENAME").arg("eventcnv").args(arguments).timeout(LIMIT);
    command
}

fn of_file(file: &Path, option: &str) -> Output {
    eventcnv(&["-f".as_ref(), file.as_os_str(), option.as_ref()])
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the contents of the file next to the stream with this extension.
fn outside_activity(file: &Path, ending: &str) -> Option<Vec<u8>> {
    fs::read(file.with_extension(ending)).ok()
}

fn exit_code(file: &Path, ending: &str) -> i32 {
    outside_activity(file, ending).map_or(0, |code| text(&code).trim().parse().expect("a number"))
}

#[track_caller]
fn assert_same(ours: &[u8], real: &[u8]) {
    for (number, (ours, real)) in ours.split(|&b| b == b'\n').zip(real.split(|&b| b == b'\n')).enumerate() {
        assert_eq!(text(ours), text(real), "line {}", number + 1);
    }
    assert_eq!(ours.len(), real.len());
}

/// The number of lines that begin with a clock; a line after a newline in a string does not.
fn records(lines: &[u8]) -> usize {
    let has_clock = |line: &&[u8]| line.get(..16).is_some_and(|clock| clock.iter().all(u8::is_ascii_hexdigit));
    lines.split(|&byte| byte == b'\n').filter(has_clock).count()
}

#[rstest]
fn the_hexadecimal_form_is_that_of_mpseventcnv(#[files("../../tests/fixtures/mps/*.bin")] file: PathBuf) {
    let output = of_file(&file, "--cnv");
    let stderr = text(&output.stderr);
    assert_same(&output.stdout, &outside_activity(&file, "cnv").expect("the real output"));
    assert_eq!(output.status.code(), Some(exit_code(&file, "cnv.rc")), "{stderr}");
    match outside_activity(&file, "cnv.err").filter(|real| !real.is_empty()) {
        // Our message begins with the same words and adds the byte offset.
        Some(real) => {
            let real = text(&real).trim_end().replace("mpseventcnv:", "eventcnv:");
            assert!(stderr.starts_with(&real), "{stderr}instead of\n{real}");
            assert!(stderr.contains("at byte "), "{stderr}");
        }
        // The real tool silently loses up to 15 bytes.
        None if file.to_string_lossy().contains("trunc-header") => assert!(stderr.contains("stray bytes"), "{stderr}"),
        None => assert_eq!(stderr, ""),
    }
}

#[rstest]
fn the_named_form_is_that_of_mpseventtxt_after_a_sort(#[files("../../tests/fixtures/mps/*.bin")] file: PathBuf) {
    let output = of_file(&file, "--txt");
    let real = outside_activity(&file, "txt").expect("the real output");
    assert_eq!(output.status.code(), Some(exit_code(&file, "cnv.rc")), "{}", text(&output.stderr));
    if exit_code(&file, "txt.rc") == 0 {
        assert_same(&output.stdout, &real);
    } else {
        // At this record the real tool aborted: because of a newline, an unknown code, or a 128-bit word. `eventcnv` continues.
        assert_same(&output.stdout[..real.len()], &real);
        assert_eq!(records(&output.stdout), records(&outside_activity(&file, "cnv").expect("the real output")));
    }
}

#[rstest]
fn the_styles_are_those_of_the_manuals_eventcnv(
    #[files("../../tests/fixtures/mps/v1/*.bin")] file: PathBuf,
    #[values("S", "SL", "SC")] style: &str,
    #[values(true, false)] is_told: bool,
) {
    let option = format!("-{style}");
    let mut arguments: Vec<&OsStr> = vec!["-f".as_ref(), file.as_os_str(), option.as_ref()];
    if is_told {
        arguments.extend::<[&OsStr; 2]>(["--mps-version".as_ref(), "1.0.0".as_ref()]);
    }
    let output = eventcnv(&arguments);
    assert_same(&output.stdout, &outside_activity(&file, style).expect("the real output"));
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
}

/// The three lines that the manual of 2012 shows for one record. It omits the padding.
#[rstest]
#[case("-S", "000007DC7DC1655516E TraceFix 7FFF583001D0 7FFF583000D8 107AFAB20 1\n")]
#[case("-SL", "(000007DC7DC1655516E TraceFix 7FFF583001D0 7FFF583000D8 107AFAB20 1)\n")]
#[case("-SC", "000007DC7DC1655516E, 38, 140734672929232, 140734672928984, 4423920416, 1\n")]
fn the_manuals_example_is_reproduced(#[case] style: &str, #[case] line: &str) {
    let mut record = vec![0x26, 0, 48, 0, 0, 0, 0, 0];
    for word in [0x7DC_1655_516E_u64, 0x7FFF_5830_01D0, 0x7FFF_5830_00D8, 0x1_07AF_AB20, 1] {
        record.extend_from_slice(&word.to_le_bytes());
    }
    let output = command(&["-f", "-", style, "--mps-version", "1.0.0"].map(OsStr::new))
        .write_stdin(record)
        .output()
        .expect("stopworld starts");
    let stdout = text(&output.stdout);
    let unpadded = stdout.split(' ').filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ");
    assert_eq!(if style == "-SC" { &stdout } else { &unpadded }, line);
}

#[rstest]
fn without_a_form_it_is_the_manuals_default_and_without_a_file_mpsio_log() {
    let directory = tempfile::tempdir().unwrap();
    fs::copy("../../tests/fixtures/mps/v1/sampler.bin", directory.path().join("mpsio.log")).unwrap();
    let output = command(&[]).current_dir(directory.path()).output().unwrap();
    assert_same(&output.stdout, &fs::read("../../tests/fixtures/mps/v1/sampler.S").unwrap());
}

#[test]
fn the_current_tools_forms_consult_the_environment_and_the_manuals_do_not() {
    let directory = tempfile::tempdir().unwrap();
    let named = fs::canonicalize("../../tests/fixtures/mps/synth-ok2.bin").unwrap();
    fs::copy("../../tests/fixtures/mps/synth-noinit.bin", directory.path().join("mpsio.log")).unwrap();
    for (option, expected) in [("--cnv", "synth-ok2.cnv"), ("--txt", "synth-ok2.txt")] {
        let mut command = command(&[option.as_ref()]);
        let output = command.current_dir(directory.path()).env("MPS_TELEMETRY_FILENAME", &named).output().unwrap();
        assert_same(&output.stdout, &fs::read(format!("../../tests/fixtures/mps/{expected}")).unwrap());
    }
    // As for the writer, an empty variable is one that is not set.
    let by_default = |name: &str| {
        let mut command = command(&["--txt".as_ref()]);
        command.current_dir(directory.path()).env("MPS_TELEMETRY_FILENAME", name).output().unwrap().stdout
    };
    assert_same(&by_default(""), &by_default("mpsio.log"));
    let mut command = command(&["-SL".as_ref()]);
    let output = command.current_dir(directory.path()).env("MPS_TELEMETRY_FILENAME", &named).output().unwrap();
    assert_eq!(text(&output.stdout), "(0000000000001001 PoolAlloc            1 2 3)\n");
}

#[rstest]
#[case(&["-SX"], "Unknown style code 'X'")]
#[case(&["-q"], "'-q'")]
#[case(&["-f"], "'-f <FILE>'")]
#[case(&["mpsio.log"], "'mpsio.log'")]
#[case(&["--cnv", "-SL"], "cannot be used with")]
#[case(&["--mps-version", "1.1"], "1.0.0")]
fn a_wrong_argument_gets_one_line_with_the_usage_and_exit_code_2(#[case] arguments: &[&str], #[case] told: &str) {
    let output = eventcnv(&arguments.iter().map(OsStr::new).collect::<Vec<_>>());
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.contains(told) && stderr.contains("usage: stopworld eventcnv"), "{stderr}");
}

#[rstest]
#[case("-h")]
#[case("-?")]
#[case("--help")]
fn help_is_no_failure(#[case] option: &str) {
    let output = eventcnv(&[option.as_ref()]);
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stdout).contains("Usage: stopworld eventcnv"));
}

#[rstest]
#[case("no-such-file.bin", "No such file")]
#[case("tests", "Is a directory")]
fn a_file_that_cannot_be_read_is_one_clear_line(#[case] file: &str, #[case] why: &str) {
    for form in ["--cnv", "--txt", "-SC"] {
        let output = of_file(Path::new(file), form);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        let beginning = format!("eventcnv: Error @0000000000000000 unable to open \"{file}\"");
        assert!(stderr.starts_with(&beginning) && stderr.contains(why), "{stderr}");
    }
}

#[test]
fn a_file_without_permission_is_one_clear_line() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let file = directory.path().join("secret.bin");
    fs::write(&file, b"secret").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o000)).unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_stopworld"));
    command.args(["eventcnv", "--cnv", "-f"]).arg(&file).current_dir("/");
    if fs::File::open(&file).is_ok() {
        // Root may read everything; the user `nobody` may not.
        command.uid(65534);
    }
    let Ok(output) = command.output() else {
        return skipped::skipped("a user that may run the command where it lies");
    };
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("unable to open") && stderr.contains("Permission denied"), "{stderr}");
    assert_eq!(stderr.lines().count(), 1);
}

fn piped(file: &Path, form: &str, stdout: Stdio) -> std::process::Child {
    std::process::Command::new(env!("CARGO_BIN_EXE_stopworld"))
        .args(["eventcnv", form, "-f"])
        .arg(file)
        .stdout(stdout)
        .stderr(Stdio::piped())
        .spawn()
        .expect("stopworld starts")
}

fn stderr_of(child: &mut std::process::Child) -> String {
    let mut stderr = String::new();
    child.stderr.take().expect("stderr is piped").read_to_string(&mut stderr).expect("stderr is text");
    stderr
}

#[rstest]
fn a_closed_pipe_is_no_error(#[values("--cnv", "--txt", "-S")] form: &str) {
    let mut child = piped(Path::new("../../tests/fixtures/mps/awlut-hot-all.bin"), form, Stdio::piped());
    drop(child.stdout.take());
    assert_eq!(stderr_of(&mut child), "");
    assert_eq!(child.wait().unwrap().code(), Some(141));
}

#[rstest]
fn a_full_disk_is_one_clear_line(#[values("--cnv", "--txt", "-S")] form: &str) {
    let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has /dev/full");
    let mut child = piped(Path::new("../../tests/fixtures/mps/awlut-hot-all.bin"), form, full.into());
    let stderr = stderr_of(&mut child);
    assert_eq!(child.wait().unwrap().code(), Some(1), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.contains("No space left on device"), "{stderr}");
}

/// `.format.hostile`: damage far into the stream loses nothing before it.
#[rstest]
fn what_precedes_damage_is_printed(#[values("--cnv", "--txt")] form: &str) {
    let whole = fs::read("../../tests/fixtures/mps/model-marksweep.bin").unwrap();
    let expected = fs::read(format!("../../tests/fixtures/mps/model-marksweep.{}", &form[2..])).unwrap();
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&whole).unwrap();
    file.write_all(&[0x2A, 0, 3, 0, 0, 0, 0, 0, 9, 9, 9, 9, 9, 9, 9, 9, 1]).unwrap();
    let output = of_file(file.path(), form);
    let stderr = text(&output.stderr);
    assert_same(&output.stdout, &expected);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr.contains(&format!("Truncated log: the record at byte {} ", whole.len())), "{stderr}");
}

/// A stream can be followed while it is written, because everything received is printed before the command waits for more.
#[test]
fn a_stream_is_printed_as_it_arrives_through_a_pipe() {
    let whole = fs::read("../../tests/fixtures/mps/synth-ok2.bin").unwrap();
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_stopworld"))
        .args(["eventcnv", "--cnv", "-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("stopworld starts");
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(&whole).unwrap();
    let expected = fs::read("../../tests/fixtures/mps/synth-ok2.cnv").unwrap();
    let mut seen = vec![0; expected.len()];
    child.stdout.as_mut().unwrap().read_exact(&mut seen).unwrap();
    assert_same(&seen, &expected);
    drop(stdin);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// A large stream is sorted in files. Its output is the same as if it was sorted in memory, and no file remains.
#[test]
fn a_stream_that_is_too_large_for_memory_is_sorted() {
    let mut stream = Vec::new();
    for i in 0..300_000u64 {
        stream.extend([0x2A, 0, 40, 0, 0, 0, 0, 0]);
        [i * 7919 % 300_007, i, 2, 3].iter().for_each(|word| stream.extend(word.to_le_bytes()));
    }
    assert!(stream.len() > 8 << 20);
    let directory = tempfile::tempdir().unwrap();
    let output =
        command(&["-f", "-", "--txt"].map(OsStr::new)).env("TMPDIR", directory.path()).write_stdin(stream).output();
    let output = output.expect("stopworld starts");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let lines: Vec<&[u8]> = output.stdout.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()).collect();
    assert_eq!(lines.len(), 300_000);
    assert!(lines.is_sorted());
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn without_room_to_sort_there_is_an_error() {
    let stream = [[0x2A, 0, 40, 0, 0, 0, 0, 0].as_slice(), &[1; 32]].concat().repeat(250_000);
    let output =
        command(&["-f", "-", "--txt"].map(OsStr::new)).env("TMPDIR", "/no/such/place").write_stdin(stream).output();
    let output = output.expect("stopworld starts");
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr.contains("no room to sort in /no/such/place") && stderr.contains("TMPDIR"), "{stderr}");
}

/// Repeats a record up to `size` bytes, cut where a record ends.
fn repeated(record: impl Fn(u64) -> Vec<u8>, size: usize) -> Vec<u8> {
    let mut stream = Vec::with_capacity(size + 300);
    for number in 0.. {
        if stream.len() >= size {
            break;
        }
        stream.extend(record(number));
    }
    stream
}

fn of_words(code: u8, words: &[u64]) -> Vec<u8> {
    let mut record = vec![code, 0, 8 + 8 * words.len() as u8, 0, 0, 0, 0, 0];
    words.iter().for_each(|word| record.extend(word.to_le_bytes()));
    record
}

/// An exception to "byte for byte": mpseventtxt aborts at a record that labels the address 0 or 1. `eventcnv` prints the record and
/// continues.
#[rstest]
fn a_label_of_an_address_that_aborts_the_real_tool_is_printed(#[values(0, 1)] address: u64) {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("t.mps");
    let stream = [text_of(7), of_words(0x22, &[8, address, 7]), of_words(0x2A, &[9, 1, address, 3])].concat();
    fs::write(&file, stream).expect("the file can be written");
    let output = of_file(&file, "--txt");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let printed = text(&output.stdout);
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines.len(), 3, "{printed}");
    assert!(lines[1].contains(&format!("{address:016X}")) && lines[1].contains("Label"), "{printed}");
    assert!(lines[2].contains("PoolAlloc"), "the next record is printed: {printed}");
}

/// A text of 17 bytes, different for each number.
fn text_of(number: u64) -> Vec<u8> {
    let mut record = of_words(0x21, &[number, number]);
    write!(record, "{number:017}").expect("a vector accepts it");
    record.resize(48, 0);
    record[2] = 48;
    record
}

/// `.format.hostile`: memory is limited by the buffers, for a long stream, for one with endless labels, and for one whose clocks are all
/// equal; in a sorted form and in the others.
#[rstest]
#[case::allocations(repeated(|n| of_words(0x2A, &[n * 7919 % 1_000_003, n, 2, 3]), 96 << 20))]
#[case::labels(repeated(|n| of_words(0x22, &[n, n * 8, n]), 64 << 20))]
#[case::names(repeated(|n| [of_words(0x22, &[n, n * 8, n]), of_words(0x23, &[n, n * 8, n]), text_of(n)].concat(), 96 << 20))]
#[case::one_clock(repeated(|n| of_words(0x2A, &[5, n % 1000, 2, 3]), 16 << 20))]
fn memory_stays_below_32_mib(#[case] stream: Vec<u8>, #[values("--cnv", "--txt", "-S")] form: &str) {
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_stopworld"))
        .args(["eventcnv", form, "-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("stopworld starts");
    let mut stdin = child.stdin.take().expect("stdin is piped");
    let writer = std::thread::spawn(move || stdin.write_all(&stream));
    let mut stdout = child.stdout.take().expect("stdout is piped");
    let status = format!("/proc/{}/status", child.id());
    let (mut peak, mut lines) = (0, vec![0; 1 << 20]);
    // Read the peak while the process has more to print: it still exists then.
    while stdout.read(&mut lines).expect("stdout is readable") > 0 {
        let status = fs::read_to_string(&status).expect("the child exists");
        let line = status.lines().find(|line| line.starts_with("VmHWM:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
        peak = peak.max(kilobytes.unwrap_or(0));
    }
    assert!(child.wait().expect("the child ends").success());
    writer.join().expect("the writer ends").expect("all was read");
    println!("{form}: {peak} KiB");
    assert!((1..32 << 10).contains(&peak), "{peak} KiB");
}
