//! The view on a terminal of its own.

use rstest::rstest;

use crate::diagnostics_support::subject::{Subject, descriptors, until};
use crate::played::{Played, fixture};
use crate::terminal::Terminal;
use crate::watched::stopworld;

/// What a program writes to leave the second screen of a terminal.
const LEAVES_SCREEN: &str = "\x1b[?1049l";

fn watch(pid: u32) -> Terminal {
    Terminal::start(env!("CARGO_BIN_EXE_stopworld"), &["watch", &pid.to_string()])
}

/// As above, under a shell, which keeps the terminal as the view leaves it.
fn watch_under_shell(pid: u32) -> Terminal {
    Terminal::start_under_shell(env!("CARGO_BIN_EXE_stopworld"), &["watch", &pid.to_string()])
}

/// What ends the view.
#[derive(Clone, Copy, Debug)]
enum End {
    Keys(&'static str),
    Signal(libc::c_int),
}

#[rstest]
#[case::q(End::Keys("q"))]
#[case::escape(End::Keys("\x1b"))]
#[case::ctrl_c(End::Keys("\x03"))]
#[case::sigterm(End::Signal(libc::SIGTERM))]
#[case::sigint(End::Signal(libc::SIGINT))]
fn the_view_ends_cleanly(#[case] end: End) {
    let mut subject = Subject::start();
    subject.tell("collect 1");
    let before = descriptors(subject.pid());
    let mut terminal = watch_under_shell(subject.pid());
    terminal.until(&format!("process {}", subject.pid()));
    subject.tell("collect 3");
    terminal.until("requested");
    assert!(!terminal.is_for_lines(), "the view reads single keys");
    assert!(descriptors(subject.pid()) > before, "the view has a session");
    match end {
        End::Keys(keys) => terminal.press(keys),
        End::Signal(signal) => terminal.signal_job(signal),
    }
    terminal.until(LEAVES_SCREEN);
    terminal.until("ended with 0");
    assert!(terminal.is_for_lines(), "the terminal is as it was");
    until("the session has ended", || descriptors(subject.pid()) <= before);
}

/// A terminal that is closed ends the view. The kernel sends a signal only to the process that leads the session of the terminal.
#[rstest]
#[case::of_the_leader(watch)]
#[case::of_another_process(watch_under_shell)]
fn a_view_ends_with_its_terminal(#[case] watch: fn(u32) -> Terminal) {
    let mut subject = Subject::start();
    subject.tell("collect 1");
    let before = descriptors(subject.pid());
    let mut terminal = watch(subject.pid());
    terminal.until("Phases: mean");
    terminal.hang_up();
    assert_eq!(terminal.wait(), Some(0), "no panic, though nothing can be printed");
    until("the session has ended", || descriptors(subject.pid()) <= before);
}

/// The terminal's modes are restored; the rest cannot be written.
#[test]
fn a_signal_ends_a_view_whose_terminal_takes_no_output() {
    let subject = Subject::start();
    let mut terminal = watch_under_shell(subject.pid());
    terminal.until("Phases: mean");
    terminal.stall();
    let view = format!("/proc/{}", terminal.job());
    let (mut rows, mut blocked) = (50, 0);
    until("the terminal is full", || {
        blocked += usize::from(std::fs::read_to_string(format!("{view}/syscall")).unwrap().starts_with("1 0x1 "));
        // The signal of a new size interrupts a write, which goes on if there is room, and the view draws the whole picture again.
        rows ^= 1;
        terminal.resize(rows, 200);
        blocked > 50
    });
    terminal.signal_job(libc::SIGTERM);
    until("the view has ended", || !std::path::Path::new(&view).exists());
    assert!(terminal.is_for_lines(), "the terminal's modes are as they were");
    terminal.resume();
    terminal.until(&format!("ended with {}", 128 + libc::SIGTERM));
}

#[test]
fn the_end_of_the_process_is_one_line_after_the_view() {
    let mut subject = Subject::start();
    let pid = subject.pid();
    let mut terminal = watch(pid);
    terminal.until(&format!("process {pid}"));
    subject.tell("collect 1");
    terminal.until("requested");
    subject.order("exit");
    subject.ended();
    let shown = terminal.until(&format!("stopworld: process {pid} has ended\r\n"));
    assert!(shown.contains(LEAVES_SCREEN), "{shown:?}");
    assert_eq!(terminal.wait(), Some(0));
    assert!(terminal.is_for_lines());
}

#[test]
fn the_view_follows_the_size_of_the_terminal() {
    let subject = Subject::start();
    let mut terminal = watch(subject.pid());
    terminal.until("Phases: mean");
    for (rows, columns) in [(5, 10), (1, 1), (2, 300), (60, 100)] {
        terminal.resize(rows, columns);
    }
    terminal.until("Phases: mean");
    terminal.press("q");
    assert_eq!(terminal.end(), Some(0));
}

/// A process of .NET, which has no name for itself and no stops by thread.
#[test]
fn a_process_of_net_is_shown() {
    let mut played = Played::start(&fixture("gcapp-3.1-gc-info.nettrace"));
    let mut terminal = watch(played.pid());
    // The view writes only what differs from the picture before, so the spaces of a text may be missing. This is its last word:
    // ".NET does not report which thread a stop waits for."
    let shown = terminal.until("for.");
    for word in ["(.NET)", "generation", "does", "report", "waits"] {
        assert!(shown.contains(word), "{shown}");
    }
    played.end();
    terminal.until("has ended");
    assert_eq!(terminal.end(), Some(0));
}

#[rstest]
#[case(&["watch", "1", "--port", "80"], 2, &["--web", "stopworld watch --help"])]
#[case(&["watch", "1", "--web", "--port", "99999"], 2, &["'--port <N>'", "99999"])]
#[case(&["watch", "init"], 2, &["'init'"])]
#[case(&["watch"], 2, &["PID"])]
#[case(&["watch", "1"], 2, &["terminal", "`stopworld watch 1 --web`", "`stopworld counters 1`"])]
#[case(&["watch", "4194305", "--web"], 1, &["there is no process 4194305"])]
fn wrong_arguments_are_one_line(#[case] arguments: &[&str], #[case] code: i32, #[case] expected: &[&str]) {
    let output = stopworld().args(arguments).output().unwrap();
    let line = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), line.lines().count()), (Some(code), 1), "{line}");
    assert!(line.starts_with("error: ") && expected.iter().all(|part| line.contains(part)), "{line}");
    assert!(output.stdout.is_empty());
}

#[test]
fn a_process_without_a_socket_is_one_line() {
    let output = stopworld().args(["watch", &std::process::id().to_string(), "--web"]).output().unwrap();
    let line = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), line.lines().count()), (Some(1), 1), "{line}");
    assert!(line.contains("has no diagnostics socket in"), "{line}");
}

#[test]
fn a_port_in_use_is_one_line_with_the_remedy() {
    let subject = Subject::start();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let pid = subject.pid().to_string();
    let output = stopworld().args(["watch", &pid, "--web", "--port", &port]).output().unwrap();
    let line = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), line.lines().count()), (Some(1), 1), "{line}");
    for part in ["can't listen at 127.0.0.1:", &port, "in use", "name another port"] {
        assert_eq!(line.matches(part).count(), 1, "{line}");
    }
}
