//! The command as a server and as a client of the socket.

use super::*;

fn stopworld() -> Command {
    Command::new(env!("CARGO_BIN_EXE_stopworld"))
}

/// Starts a run that has a socket; returns it and a client of the socket.
fn run(directory: &std::path::Path, more: &[&str]) -> (std::process::Child, Client) {
    let mut command = stopworld();
    command.args(["run", "churn", "--seconds", "600"]).args(more).env("TMPDIR", directory);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("it has a socket", || !sockets(directory).is_empty());
    let path = sockets(directory).remove(0);
    until("it listens", || std::os::unix::net::UnixStream::connect(&path).is_ok());
    (child, Client::at(&path))
}

/// Sends SIGTERM after the process has installed its handler, which happens later than the creation of the socket.
fn terminate(child: &std::process::Child) {
    until("it has its signal handlers", || {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or_default();
        u64::from_str_radix(caught.trim(), 16).is_ok_and(|caught| caught & 1 << (libc::SIGTERM - 1) != 0)
    });
    // SAFETY: a plain system call on a process that this test started.
    unsafe { libc::kill(child.id() as i32, libc::SIGTERM) };
}

#[test]
fn sigterm_ends_the_sessions_in_order_and_removes_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let (mut child, client) = run(directory.path(), &["--diagnostics"]);
    let session = client.watch(&[ask(RUNTIME, GC, INFORMATIONAL)]);
    terminate(&child);
    assert!(read(&session.reading.join().unwrap()).whole);
    assert_eq!(ended(&mut child).code(), Some(143));
    assert!(sockets(directory.path()).is_empty());
}

#[test]
fn without_the_option_there_is_no_socket() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = stopworld();
    command.args(["run", "churn", "--collections", "3"]).env("TMPDIR", directory.path());
    assert!(command.output().unwrap().status.success());
    assert!(sockets(directory.path()).is_empty());
}

#[test]
fn trace_writes_what_it_is_sent_and_counters_prints_it() {
    let directory = tempfile::tempdir().unwrap();
    let (mut child, _) = run(directory.path(), &["--diagnostics"]);
    let file = directory.path().join("out.nettrace");
    let pid = child.id().to_string();
    let output = stopworld().args(["trace", &pid, "--duration", "0.5", "-o"]).arg(&file).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let stream = read(&fs::read(&file).unwrap());
    assert!(stream.whole && stream.pid == child.id());
    let output = stopworld().args(["counters", &pid, "--interval", "0.2", "--duration", "3"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success());
    for name in ["GC Heap Size (MB)", "Gen 2 GC Count (count / ", "Allocation Rate (B / ", "Threads of the Heap"] {
        assert!(text.contains(name), "{name}: {text}");
    }
    terminate(&child);
    ended(&mut child);
}

/// The functions of the program on the stacks in a trace, as `dump` prints them, and the addresses without names.
fn on_stacks(file: &std::path::Path) -> (bool, bool) {
    let output = stopworld().args(["dump", "--event", "GC/AllocationTick", "--stacks"]).arg(file).output().unwrap();
    let (lines, complaints) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{complaints}");
    let mut frames = lines.lines().filter_map(|line| line.strip_prefix("               "));
    assert!(frames.clone().count() > 0, "{lines}");
    (frames.any(|frame| frame.starts_with("stopworld_workloads::churn::")), complaints.contains("names no functions"))
}

/// With the rundown, which `stopworld trace` requests, the end of the stream has the names.
#[test]
fn a_world_that_samples_sends_call_stacks_and_names() {
    let directory = tempfile::tempdir().unwrap();
    let (mut child, client) = run(directory.path(), &["--diagnostics", "--alloc-interval", "64KiB"]);
    let file = directory.path().join("out.nettrace");
    let pid = child.id().to_string();
    let mut tracing = stopworld();
    tracing.args(["trace", &pid, "--duration", "0.5", "--providers", "Microsoft-Windows-DotNETRuntime:1:5", "-o"]);
    let output = tracing.arg(&file).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(on_stacks(&file), (true, false));

    let session = client.begin(2, &collect(2, 16, false, &[ask(RUNTIME, GC, 5)]));
    std::thread::sleep(std::time::Duration::from_millis(500));
    fs::write(&file, client.end(session)).unwrap();
    assert_eq!(on_stacks(&file), (false, true));
    terminate(&child);
    ended(&mut child);
}

#[test]
fn a_trace_ends_when_the_process_does() {
    let directory = tempfile::tempdir().unwrap();
    let (mut child, client) = run(directory.path(), &["--diagnostics"]);
    let file = directory.path().join("out.nettrace");
    let pid = child.id().to_string();
    let mut tracing = stopworld();
    tracing.args(["trace", &pid, "--providers", "Microsoft-Windows-DotNETRuntime:1:4,Others:ff:5:a=b", "-o"]);
    let mut tracing = tracing.arg(&file).stderr(Stdio::piped()).spawn().unwrap();
    until("the trace has begun", || fs::metadata(&file).is_ok_and(|found| found.len() > 102));
    drop(client);
    terminate(&child);
    ended(&mut child);
    assert_eq!(ended(&mut tracing).code(), Some(0));
    assert!(read(&fs::read(&file).unwrap()).whole);
}

#[test]
fn a_trace_is_not_written_to_standard_output() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = stopworld();
    let output = command.args(["trace", "1", "-o", "-"]).current_dir(directory.path()).output().unwrap();
    let line = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), line.lines().count()), (Some(2), 1), "{line}");
    assert!(line.starts_with("error: --output -: a trace is not written to standard output: name a file"), "{line}");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[rstest]
#[case("no/such/t.nettrace", "No such file or directory", "create its directory")]
#[case(".", "Is a directory", "it is a directory: name a file in it")]
#[case("/dev/full", "No space left on device", "make room")]
fn a_file_that_fails_is_one_line_with_a_remedy(#[case] file: &str, #[case] why: &str, #[case] remedy: &str) {
    let subject = Subject::start();
    let directory = tempfile::tempdir().unwrap();
    let pid = subject.pid().to_string();
    let mut command = stopworld();
    command.args(["trace", &pid, "--duration", "30", "-o", file]).current_dir(directory.path());
    let output = command.output().unwrap();
    let line = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), line.lines().count()), (Some(1), 1), "{line}");
    let told = format!("; {remedy}, or name another file (-o FILE)");
    assert!(line.starts_with(&format!("error: {file}: {why}")) && line.ends_with(&(told + "\n")), "{line}");
}

#[rstest]
fn a_process_that_cannot_be_asked_is_one_line(#[values("trace", "counters")] action: &str) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("none");
    let run = |pid: u32| {
        let mut command = stopworld();
        command.args([action, &pid.to_string()]);
        if action == "trace" {
            command.arg("-o").arg(&file);
        }
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, line) = run(4_194_305);
    assert_eq!((code, line.as_str()), (Some(1), "error: there is no process 4194305\n"));
    let (code, line) = run(std::process::id());
    assert!(code == Some(1) && line.contains("has no diagnostics socket in") && line.lines().count() == 1, "{line}");
    // A socket file without a listener.
    let mut subject = Subject::start();
    let path = subject.client.0.clone();
    subject.tell("close");
    drop(UnixListener::bind(&path).unwrap());
    let (code, line) = run(subject.pid());
    assert!(code == Some(1) && line.contains("can't connect to") && line.lines().count() == 1, "{line}");
    assert!(!file.exists(), "no file for a trace that did not start");
}

/// The three commands wait at the same time, because each waits for half a minute.
#[test]
fn a_stopped_process_is_reported_in_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let (mut child, _) = run(directory.path(), &["--diagnostics"]);
    let pid = child.id();
    // SAFETY: a plain system call on a process that this test started.
    assert_eq!(unsafe { libc::kill(pid as i32, libc::SIGSTOP) }, 0);
    let commands = ["trace PID -o none", "counters PID", "watch PID --web"].map(|line| {
        let mut command = stopworld();
        command.args(line.replace("PID", &pid.to_string()).split(' ')).current_dir(directory.path());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    });
    let begun = std::time::Instant::now();
    let outputs = commands.map(|command| command.wait_with_output().unwrap());
    let taken = begun.elapsed();
    child.kill().unwrap();
    ended(&mut child);
    for output in outputs {
        let line = String::from_utf8(output.stderr).unwrap();
        let expected = format!("error: process {pid} did not answer within 30 s: is it stopped?\n");
        assert_eq!((output.status.code(), line), (Some(1), expected));
    }
    assert!((29..50).contains(&taken.as_secs()), "{taken:?}");
    assert!(!directory.path().join("none").exists());
}
