//! `stopworld debug` and `stopworld attach`, as a new user runs them.

mod terminal;

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use assert_cmd::Command;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rstest::rstest;
use terminal::Terminal;

/// A time limit far longer than any of these runs takes, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);
const STOPWORLD: &str = env!("CARGO_BIN_EXE_stopworld");
/// A program that runs until it is ended.
const GRAPH: &str = "run graph --threads 2 --seconds 600 --heap-limit 64MiB";

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs the debugger with a script.
fn scripted(script: &str, arguments: &str) -> Output {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), script).unwrap();
    let (action, rest) = arguments.split_once(' ').unwrap();
    Command::new(STOPWORLD)
        .arg(action)
        .arg("--script")
        .arg(file.path())
        .args(rest.split_whitespace())
        .timeout(LIMIT)
        .output()
        .expect("stopworld starts")
}

fn debugged(script: &str) -> Output {
    scripted(script, &format!("debug -- {STOPWORLD} {GRAPH}"))
}

/// Returns its output, after checking that it succeeded and printed no errors.
fn told(output: &Output) -> String {
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!((output.status.code(), stderr.as_str()), (Some(0), ""), "{stdout}");
    stdout
}

/// Returns the rows of tables, cell by cell.
fn rows(text: &str) -> Vec<Vec<String>> {
    let cells = |line: &str| -> Vec<String> {
        let cells: Vec<_> = line.split(['│', '┆']).map(|cell| cell.trim().to_owned()).collect();
        cells[1..cells.len() - 1].to_vec()
    };
    text.lines().filter(|line| line.starts_with('│')).map(cells).collect()
}

/// A session with the debugger, one command at a time.
struct Conversation {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    errors: Receiver<String>,
}

fn lines_of(stream: impl Read + Send + 'static) -> Receiver<String> {
    let (send, receive) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if send.send(line).is_err() {
                return;
            }
        }
    });
    receive
}

impl Conversation {
    fn begin(arguments: &str) -> Self {
        let mut child = std::process::Command::new(STOPWORLD)
            .args(arguments.split_whitespace())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("stopworld starts");
        let lines = lines_of(child.stdout.take().unwrap());
        let errors = lines_of(child.stderr.take().unwrap());
        Self { input: child.stdin.take().unwrap(), child, lines, errors }
    }

    fn with_graph(mode: &str) -> Self {
        let mut talk = Self::begin(&format!("debug --keep-going --mode {mode} -- {STOPWORLD} {GRAPH}"));
        talk.ask("cont");
        talk
    }

    /// Sends a command; its answer is everything before the answer to a second command, which follows it.
    fn ask(&mut self, line: &str) -> String {
        writeln!(self.input, "{line}\nhelp quit").unwrap();
        let mut answer = String::new();
        loop {
            let line = self.lines.recv_timeout(LIMIT).unwrap_or_else(|_| panic!("no answer to {line}; {answer}"));
            if line.starts_with("quit: ") {
                return answer;
            }
            answer.push_str(&line);
            answer.push('\n');
        }
    }

    /// Sends a command that must fail with this message. Errors of earlier commands may arrive before it.
    fn is_wrong(&mut self, line: &str, why: &str) {
        assert_eq!(self.ask(line), "");
        let mut errors = std::iter::from_fn(|| self.errors.recv_timeout(LIMIT).ok());
        assert!(errors.any(|error| error.contains(why)), "{line} is no error");
    }

    fn threads(&mut self) -> Vec<Vec<String>> {
        rows(&self.ask("threads"))
    }

    /// Returns the id of the thread with this name; waits for it to begin.
    fn thread(&mut self, name: &str) -> String {
        let deadline = Instant::now() + LIMIT;
        loop {
            let threads = self.threads();
            if let Some(row) = threads.iter().find(|row| row[1] == name) {
                return row[0].clone();
            }
            assert!(Instant::now() < deadline, "no {name} in {threads:?}");
            self.ask("wait 0.01");
        }
    }

    /// Waits until the program does its work.
    fn wait_for_a_collection(&mut self) {
        let deadline = Instant::now() + LIMIT;
        loop {
            let status = rows(&self.ask("status"));
            if status.iter().any(|row| row.len() == 6 && row[0] == "1" && row[1] != "0") {
                return;
            }
            assert!(Instant::now() < deadline, "{status:?}");
            self.ask("wait 0.05");
        }
    }

    fn end(mut self) -> Option<i32> {
        drop(self.input);
        self.child.wait().unwrap().code()
    }
}

#[test]
fn a_program_is_run_watched_and_killed_by_a_script() {
    let stdout = told(&debugged(
        "threads\ncont   # it is stopped at its beginning\nstep\ncont\nstatus\nstop\nthreads\ncont\ncollect\nmode\nheap\n",
    ));
    let rows = rows(&stdout);
    assert!(rows.iter().any(|row| row[0] == "process" && row[1].ends_with("alive")), "{stdout}");
    assert!(rows.iter().any(|row| row[1] == "main" && row[2] == "stopped by you" && row[3] == "1"), "{stdout}");
    assert!(rows.iter().any(|row| row[0].ends_with("graph::Vertex") && row[1] != "0"), "{stdout}");
    assert!(stdout.contains("is over"), "{stdout}");
    assert!(stdout.contains("full: the debugger stops the world"), "{stdout}");
}

#[test]
fn the_end_of_a_program_is_reported_with_its_code() {
    let output = scripted("cont\nwait\n", &format!("debug -- {STOPWORLD} run graph --heap-limit 64MiB"));
    let stdout = told(&output);
    assert!(stdout.contains("verified="), "the program's own output: {stdout}");
    assert!(stdout.ends_with("the process has ended with 0\n"), "{stdout}");
}

#[rstest]
fn a_collection_is_stepped_through_phase_by_phase(#[values("full", "assisted")] mode: &str) {
    let phases = [
        "suspend-begin",
        "suspend-end",
        "gc-start",
        "roots-begin",
        "roots-end",
        "mark-begin",
        "mark-end",
        "weak-end",
        "sweep-begin",
        "sweep-end",
        "gc-end",
        "restart-begin",
        "restart-end",
    ];
    let steps = || {
        let mut talk = Conversation::with_graph(mode);
        talk.wait_for_a_collection();
        let lines = ["hold suspend-begin", "collect", "hold off"].into_iter().chain(["step"; 12]);
        let stdout: String = lines.map(|line| talk.ask(line)).collect();
        assert_eq!(talk.end(), Some(0), "{stdout}");
        stdout
    };
    // Another thread may begin a collection before the last phase of the first is reported: then the steps mix both.
    let stdout = (0..20)
        .map(|_| steps())
        .find(|stdout| stdout.matches("suspend-begin").count() == 1)
        .expect("a collection that is not followed by another at once");
    let held: Vec<&str> =
        stdout.lines().filter(|line| line.contains(": held")).filter_map(|line| line.split(' ').nth(2)).collect();
    assert_eq!(held, phases, "{stdout}");
}

#[test]
fn an_object_is_found_and_why_it_is_alive() {
    let mut talk = Conversation::with_graph("full");
    talk.wait_for_a_collection();
    talk.ask("stop");
    let status = rows(&talk.ask("status"));
    let heap = status.iter().find(|row| row.len() == 6 && row[5].starts_with("0x")).expect("a world").clone();
    let low = u64::from_str_radix(heap[5].split('-').next().unwrap().trim_start_matches("0x"), 16).unwrap();

    // Finds the first vertex with a field that references an object with a path from a root. Dead objects are still in their cells; a weak
    // cell references its target but is not one of its referrers. The world may be stopped while the graph is being built, so several
    // moments are tried.
    let vertex = ["type", "stopworld_workloads::graph::Vertex"];
    let mut found = None;
    'moments: for _ in 0..40 {
        for place in 0..1024_u64 {
            let answer = talk.ask(&format!("object {:#x}", low + place * 8192 + 24));
            let table = rows(&answer);
            if !table.iter().any(|row| *row == vertex) {
                continue;
            }
            let Some(field) = table.iter().find(|row| row.len() == 4 && row[2].starts_with("0x")) else { continue };
            let way = rows(&talk.ask(&format!("why-alive {}", field[2])));
            if !way.is_empty() {
                found = Some((table.clone(), field.clone(), way));
                break 'moments;
            }
        }
        talk.ask("cont");
        talk.ask("wait 0.05");
        talk.ask("stop");
    }
    while talk.errors.try_recv().is_ok() {}
    let (table, field, way) = found.expect("an object with fields in the first blocks");
    let object = table[0][1].split(' ').next().unwrap().to_owned();
    assert!(table.iter().any(|row| row[0] == "marked"), "{table:?}");
    let (offset, target) = (field[0].clone(), field[2].clone());
    assert_eq!(field[1], target, "a reference is an address");
    assert!(
        ["stack of thread", "registers of", "root handle", "was building", "queue of"]
            .iter()
            .any(|root| way[1][0].contains(root)),
        "{way:?}"
    );
    assert_eq!(way.last().unwrap()[1], target);

    let referrers = talk.ask(&format!("referrers {target}"));
    assert!(referrers.contains(&object) || referrers.contains(" more"), "{referrers}");
    assert!(talk.ask(&format!("fields {object}")).contains(&target));

    // The word of that field, read as memory.
    let offset: u64 = offset.trim_start_matches('+').parse().unwrap();
    let place = u64::from_str_radix(object.trim_start_matches("0x"), 16).unwrap() + offset;
    let memory = talk.ask(&format!("x {place:#x} 1"));
    assert!(memory.trim_end().ends_with(target.trim_start_matches("0x")), "{memory} {target}");
    assert!(talk.end().is_some());
}

/// `.debug.outside`: the questions are answered wherever the threads were stopped, and in every phase of a collection.
#[rstest]
fn questions_are_answered_at_every_phase_of_a_collection(#[values("full", "assisted")] mode: &str) {
    let mut talk = Conversation::with_graph(mode);
    talk.wait_for_a_collection();
    const QUESTIONS: [&str; 3] = ["object", "referrers", "path"];
    let mut answered = [0_u32; QUESTIONS.len()];
    let phases =
        ["suspend-end", "roots-begin", "mark-begin", "mark-end", "weak-end", "sweep-begin", "sweep-end", "gc-end"];
    for phase in phases {
        // A collection that another thread requested may be held at that phase before the requested one.
        let held = talk.ask(&format!("hold {phase}")) + &talk.ask("collect");
        assert!(held.contains(&format!("{phase} ")) && held.contains("held"), "{phase}: {held}");
        let heap = talk.ask("heap");
        assert!(heap.contains(" objects, "), "{phase}: {heap}");
        let status = rows(&talk.ask("status"));
        let world = status.iter().find(|row| row.len() == 6 && row[5].starts_with("0x")).expect("a world");
        assert_eq!(world[2], phase);
        let low = u64::from_str_radix(world[5].split('-').next().unwrap().trim_start_matches("0x"), 16).unwrap();
        // Looks in the first blocks for the address of an object. At an address without an object, the answer is an error.
        for block in 0..64 {
            let answers = QUESTIONS.map(|question| talk.ask(&format!("{question} {:#x}", low + block * 16384 + 24)));
            let is_answer = answers.map(|answer| !answer.is_empty());
            answered.iter_mut().zip(is_answer).for_each(|(answered, is_answer)| *answered += u32::from(is_answer));
            if is_answer.contains(&true) {
                break;
            }
        }
        talk.ask("hold off");
        talk.ask("cont");
    }
    while let Ok(error) = talk.errors.try_recv() {
        assert!(error.contains("no object is"), "{error}");
    }
    assert!(answered.iter().all(|answers| *answers > 0), "{QUESTIONS:?}: {answered:?} answers");
    assert!(talk.ask("collect").contains("is over"));
    talk.end();
}

/// `.vtable.nested`
#[rstest]
fn a_thread_that_was_stopped_stays_so_across_a_collection(#[values("full", "assisted")] mode: &str) {
    let mut talk = Conversation::with_graph(mode);
    talk.wait_for_a_collection();
    // The thread may be stopped while it owns a lock that every collection needs, or while it collects: then no collection is possible
    // (`.debug.frozen-owner`). Or it ends, and another thread has its name.
    let stopped = (0..20).find_map(|_| {
        let tid = talk.thread("graph-0");
        if talk.ask(&format!("stop {tid}")).contains("is stopped") {
            let registers = talk.ask(&format!("registers {tid}"));
            if talk.ask("collect").contains("is over") {
                return Some((tid, registers));
            }
            talk.ask(&format!("cont {tid}"));
            talk.ask("wait 0.1");
        }
        None
    });
    let (tid, registers) = stopped.expect("a collection while the thread is stopped");
    while talk.errors.try_recv().is_ok() {}
    let state = |talk: &mut Conversation, column: usize, of: &str| {
        talk.threads().iter().find(|row| row[column] == of).map(|row| row[2].clone())
    };
    assert_eq!(state(&mut talk, 0, &tid).as_deref(), Some("stopped by you"));
    // The other threads run, or a collection has stopped them.
    assert_ne!(state(&mut talk, 1, "main").as_deref(), Some("stopped by you"));
    assert_eq!(talk.ask(&format!("registers {tid}")), registers);
    talk.ask(&format!("cont {tid}"));
    // After this the thread may end, and the next collection may stop it.
    assert_ne!(state(&mut talk, 0, &tid).as_deref(), Some("stopped by you"));
    // The main thread does not end.
    let main = talk.thread("main");
    talk.is_wrong(&format!("cont {main}"), "was not stopped");
    assert_eq!(talk.end(), Some(1));
}

#[test]
fn a_backtrace_names_the_functions_of_the_program() {
    let mut talk = Conversation::with_graph("full");
    talk.wait_for_a_collection();
    let tid = talk.thread("main");
    let trace = talk.ask(&format!("backtrace {tid}"));
    assert!(trace.starts_with("#0"), "{trace}");
    assert!(trace.contains("stopworld_cli::execute at stopworld-cli/src/lib.rs"), "{trace}");
    assert!(!trace.contains("::h0"), "names are demangled: {trace}");
    assert_eq!(talk.end(), Some(0));
}

#[test]
fn births_and_ends_of_threads_are_reported_on_request() {
    let mut talk = Conversation::begin(&format!("debug -- {STOPWORLD} run churn --threads 2 --seconds 600"));
    let mut said = talk.ask("watch threads on") + &talk.ask("cont");
    let deadline = Instant::now() + LIMIT;
    while !["is mutator \"main\" of world 1", "has begun", "has ended"].iter().all(|part| said.contains(part)) {
        assert!(Instant::now() < deadline, "{said}");
        said += &talk.ask("wait 0.1");
    }
    talk.ask("watch threads off");
    assert!(!talk.ask("threads").is_empty());
    assert_eq!(talk.end(), Some(0));
}

/// A program that is running already; it is killed when this is dropped.
struct Running(Child);

impl Running {
    fn graph() -> Self {
        let child = std::process::Command::new(STOPWORLD)
            .args(GRAPH.split_whitespace())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("stopworld starts");
        Self(child)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the status lines of the threads whose state in /proc is stopped, or stopped by a tracer.
fn stopped_threads(pid: u32) -> Vec<String> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).expect("a process");
    let lines = threads.filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("stat")).ok());
    let is_stopped = |line: &String| line.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['t', 'T']));
    lines.filter(is_stopped).collect()
}

#[test]
fn a_process_that_was_attached_to_goes_on_by_itself() {
    let mut running = Running::graph();
    let pid = running.0.id();
    // Waits until it has a world.
    let deadline = Instant::now() + LIMIT;
    while !told(&scripted("status\n", &format!("attach {pid}"))).contains("running") {
        assert!(Instant::now() < deadline);
    }
    let stdout = told(&scripted("stop\nthreads\ncont\ncollect\ndetach\nstatus\n", &format!("attach {pid}")));
    assert!(stdout.contains("is over") && stdout.contains("is detached and continues to run"), "{stdout}");
    assert!(
        told(&scripted("collect\n", &format!("attach {pid}"))).contains("is over"),
        "a second attach must work as well"
    );
    assert!(running.0.try_wait().unwrap().is_none(), "the program must continue");
    let deadline = Instant::now() + LIMIT;
    while !stopped_threads(pid).is_empty() {
        assert!(
            Instant::now() < deadline,
            "it is not debugged any more, and these threads are stopped: {:?}",
            stopped_threads(pid)
        );
    }
}

#[test]
fn the_tracer_of_a_traced_process_is_named() {
    let running = Running::graph();
    let pid = running.0.id();
    let mut first = Conversation::begin(&format!("attach {pid}"));
    first.ask("mode");
    let output = scripted("status\n", &format!("attach {pid}"));
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.contains(&format!("process {} traces it already", first.child.id())), "{stderr}");
    assert_eq!(first.end(), Some(0));
}

/// The head of a program for another processor: AArch64.
fn foreign_program() -> tempfile::TempPath {
    use std::os::unix::fs::PermissionsExt;
    let mut head = vec![0; 64];
    head[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    head[16..20].copy_from_slice(&[2, 0, 183, 0]);
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&head).unwrap();
    file.as_file().set_permissions(std::fs::Permissions::from_mode(0o755)).unwrap();
    file.into_temp_path()
}

#[rstest]
#[case::no_process("attach 999999999", 1, "there is no process 999999999")]
#[case::no_number("attach init", 2, "'init'")]
#[case::no_such_program("debug -- /no/such/program", 1, "/no/such/program cannot be run")]
#[case::no_program("debug --", 2, "usage: stopworld debug")]
#[case::not_executable("debug -- /etc/passwd", 1, "/etc/passwd cannot be run")]
#[case::wrong_option("debug --mode half -- true", 2, "'half'")]
fn what_cannot_be_debugged_is_one_line(#[case] arguments: &str, #[case] code: i32, #[case] told: &str) {
    let output = scripted("cont\n", arguments);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    assert!(stderr.starts_with("error: ") && stderr.lines().count() == 1, "{stderr}");
    assert!(stderr.contains(told), "{stderr}");
}

#[test]
fn a_program_for_another_architecture_is_refused() {
    let program = foreign_program();
    let output = scripted("cont\n", &format!("debug -- {}", program.display()));
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr.contains("is a program for another architecture"), "{stderr}");
}

#[test]
fn a_process_without_a_collector_is_not_attached_to() {
    let mut sleeper = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    let output = scripted("status\n", &format!("attach {}", sleeper.id()));
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr.contains("contains no stopworld collector"), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}

#[rstest]
#[case("thraeds\n", 1, "did you mean 'threads'?")]
#[case("# nothing\n\nobject here\n", 3, "object: 'here' is not an address")]
#[case("object 0x10\n", 1, "object: ")]
#[case("registers 1\n", 1, "registers: the process has no thread 1; `threads` lists them")]
#[case("step\n", 1, "`cont` first")]
#[case("heap\n", 1, "heap: the process has no world yet")]
#[case("kill\nthreads\n", 2, "threads: SIGKILL has killed the process")]
#[case("break\n", 1, "hold: name phases of a collection, all or off. The phases are suspend-begin, ")]
#[case("break main\n", 1, "There are no breakpoints in code")]
fn a_script_ends_at_the_first_line_that_fails_and_names_it(
    #[case] script: &str,
    #[case] line: usize,
    #[case] told: &str,
) {
    let output = debugged(&format!("{script}mode\n"));
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains(&format!(":{line}: ")) && stderr.contains(told), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(!stdout.contains("full: the debugger"), "the next line was not executed: {stdout}");
}

#[test]
fn the_mode_is_changed_between_two_collections() {
    let stdout = told(&debugged("cont\nstep\ncont\nmode assisted\nmode\ncollect\nmode full\ncollect\nmode\n"));
    assert!(stdout.contains("assisted: the collector") && stdout.contains("full: the debugger"), "{stdout}");
    let output = debugged("cont\nstep\ncont\nhold mark-end\ncollect\nmode assisted\n");
    assert!(text(&output.stderr).contains("mode: a collection is held"), "{}", text(&output.stderr));
}

#[test]
fn a_process_after_detach_is_not_debugged_any_more() {
    // It continues for a second, so that it has not ended when the second command looks at it.
    let output = scripted("detach\ncollect\n", &format!("debug -- {STOPWORLD} run churn --seconds 1"));
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr.contains(":2: collect: the process is no longer debugged"), "{stderr}");
    assert!(text(&output.stdout).contains("churn threads=1"), "the program must continue by itself");
}

#[test]
fn a_script_that_ignores_errors_runs_to_its_end() {
    let output = scripted("nonsense\nmode\n", &format!("debug --keep-going -- {STOPWORLD} {GRAPH}"));
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("full: the debugger"));
}

/// A program that sends itself signals that it catches, then a signal that kills it.
const SIGNALLED: &str =
    "trap : USR1 37; i=0; while [ $i -lt 200 ]; do kill -USR1 $$; kill -37 $$; i=$((i+1)); done; kill -SEGV $$";

/// Runs a shell program under the debugger by a script. Standard error is ignored: the program has no collector.
fn signalled(script: &str) -> String {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), script).unwrap();
    let mut debugger = Command::new(STOPWORLD);
    debugger.arg("debug").arg("--script").arg(file.path()).args(["--", "/bin/sh", "-c", SIGNALLED]);
    let output = debugger.timeout(LIMIT).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn signals_pass_silently_and_a_fault_stops_the_program_first() {
    let stdout = signalled("cont\nwait\nthreads\nstatus\ncont\nwait\n");
    let told: Vec<&str> = stdout.lines().filter(|line| line.starts_with("SIG")).collect();
    assert_eq!(told.len(), 2, "{stdout}");
    assert!(told[0].starts_with("SIGSEGV for thread ") && told[0].contains("every thread is stopped"), "{stdout}");
    assert_eq!(told[1], "SIGSEGV has killed the process");
    let rows = rows(&stdout);
    assert!(rows.iter().any(|row| row.len() > 2 && row[2] == "stopped by you, before SIGSEGV"), "{stdout}");
    // The kernel merges a standard signal with one that is pending already, so only the others are counted exactly.
    let signals = &rows.iter().find(|row| row[0] == "signals").unwrap()[1];
    let passed: u32 = signals.split(' ').next().unwrap().parse().unwrap();
    assert!(passed >= 200, "{signals}");
}

#[test]
fn signals_are_reported_stopped_at_and_withheld_according_to_their_rules() {
    let stdout = signalled("handle USR1 SIGRTMIN+3 print\ncont\nwait\nhandle SEGV nopass\ncont\nwait\n");
    assert!(stdout.lines().filter(|line| line.starts_with("SIGRTMIN+3 for thread ")).count() == 200, "{stdout}");
    assert!(stdout.contains("\nSIGUSR1 for thread "), "{stdout}");
    let rule = ["SIGSEGV", "11", "yes", "yes", "no"];
    assert!(rows(&stdout).iter().any(|row| *row == rule), "{stdout}");
    // The thread was stopped before the signal under the earlier rule, so it is still delivered.
    assert!(stdout.ends_with("SIGSEGV has killed the process\n"), "{stdout}");

    let stdout = signalled(
        "handle SIGSEGV nostop print nopass\nhandle SIGUSR1 stop nopass\ncont\nwait\nhandle all nostop noprint\ncont\nwait\n",
    );
    assert!(stdout.contains("every thread is stopped; `cont` continues without the signal"), "{stdout}");
    assert!(stdout.ends_with("the process has ended with 0\n"), "{stdout}");
}

#[test]
fn the_rules_of_the_collectors_signals_cannot_be_changed() {
    let mut talk = Conversation::with_graph("full");
    talk.wait_for_a_collection();
    talk.is_wrong("handle SIGURG nopass", "SIGURG is reserved for the collector: it suspends threads");
    let rules = rows(&talk.ask("handle"));
    assert!(rules.iter().any(|row| row[0] == "SIGINT" && row[4] == "no"), "{rules:?}");
    assert!(!rules.iter().any(|row| row[0] == "SIGURG"), "{rules:?}");
    assert_eq!(talk.end(), Some(1));
}

/// A terminal sends the signal of Ctrl-C to the debugger and to the program.
#[rstest]
#[case::wait("wait", &[STOPWORLD, "run", "graph", "--threads", "2", "--seconds", "600", "--heap-limit", "64MiB"])]
#[case::wait_for_a_time("wait 100", &[STOPWORLD, "run", "graph", "--threads", "2", "--seconds", "600", "--heap-limit", "64MiB"])]
#[case::step("step", &["/bin/sh", "-c", "while :; do sleep 0.1; done"])]
fn ctrl_c_during_a_command_stops_the_program_and_does_not_kill_it(#[case] command: &str, #[case] program: &[&str]) {
    let mut terminal = Terminal::start(STOPWORLD, &[&["debug", "--"], program].concat());
    terminal.until("lists the commands");
    terminal.ask("cont");
    terminal.ask("wait 1");
    terminal.type_line(command);
    terminal.begins_to_wait();
    terminal.press_ctrl_c();
    let said = terminal.until("threads are stopped");
    assert!(!said.contains("has killed the process"), "{said}");
    let threads = terminal.ask("threads");
    assert!(threads.contains("stopped by you"), "{threads}");
    // The program continues, and the signal of the key is not delivered later.
    terminal.ask("cont");
    let said = terminal.ask("wait 0.5") + &terminal.ask("status");
    assert!(!said.contains("SIGINT for") && said.contains(" alive"), "{said}");
    terminal.type_line("quit");
    assert_eq!(terminal.end(), Some(0));
}

#[test]
fn ctrl_c_stops_a_program_that_was_attached_to() {
    let mut running = Running::graph();
    let pid = running.0.id().to_string();
    let deadline = Instant::now() + LIMIT;
    while !told(&scripted("status\n", &format!("attach {pid}"))).contains("running") {
        assert!(Instant::now() < deadline);
    }
    let mut terminal = Terminal::start(STOPWORLD, &["attach", &pid]);
    terminal.until("lists the commands");
    terminal.type_line("wait");
    terminal.begins_to_wait();
    terminal.press_ctrl_c();
    terminal.until("threads are stopped");
    terminal.type_line("quit");
    assert_eq!(terminal.end(), Some(0));
    assert!(running.0.try_wait().unwrap().is_none(), "the program must continue");
}

#[test]
fn the_program_receives_ctrl_c_if_the_rule_says_so() {
    let program = "trap 'echo caught; exit 3' INT; echo ready; while :; do sleep 0.1; done";
    let mut terminal = Terminal::start(STOPWORLD, &["debug", "--", "/bin/sh", "-c", program]);
    terminal.until("lists the commands");
    terminal.ask("handle SIGINT nostop pass");
    // Without its trap the program would be killed by the signal.
    let (deadline, mut said) = (Instant::now() + LIMIT, terminal.ask("cont"));
    while !said.contains("ready") {
        assert!(Instant::now() < deadline, "{said}");
        said += &terminal.ask("wait 0.1");
    }
    terminal.type_line("wait");
    terminal.begins_to_wait();
    terminal.press_ctrl_c();
    terminal.until("caught");
    assert!(terminal.ask("wait").contains("the process has ended with 3"));
    terminal.type_line("quit");
    assert_eq!(terminal.end(), Some(0));
}

#[test]
fn a_script_that_is_interrupted_names_its_line_or_goes_on() {
    let mut talk = Conversation::with_graph("full");
    talk.wait_for_a_collection();
    writeln!(talk.input, "wait\nhelp quit").unwrap();
    // A signal that arrives before the command begins stops the threads, and the command waits all the same: so there may be several.
    let (deadline, mut said) = (Instant::now() + LIMIT, String::new());
    while !said.contains("\nquit: ") {
        match talk.lines.recv_timeout(Duration::from_millis(500)) {
            Ok(line) => said.extend(["\n", &line]),
            Err(_) => kill(Pid::from_raw(talk.child.id() as i32), Signal::SIGINT).unwrap(),
        }
        assert!(Instant::now() < deadline, "{said}");
    }
    assert!(said.contains("threads are stopped"), "{said}");
    assert!(talk.errors.recv_timeout(LIMIT).unwrap().contains("interrupted by SIGINT"));
    assert!(talk.threads().iter().any(|row| row[1] == "main" && row[2] == "stopped by you"));
    assert_eq!(talk.end(), Some(1));
}

/// The commands that the README shows.
#[test]
fn the_commands_of_the_readme_do_what_it_says() {
    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md")).unwrap();
    let section = readme.split("\n## With a debugger\n").nth(1).expect("the section");
    let script = section.split("```text\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a script");
    // The program has just begun: waits until it has collected, however long that takes.
    assert!(script.contains("\nwait 1\n"), "{script}");
    let stdout = told(&debugged(&script.replace("\nwait 1\n", "\nstep\ncont\n")));
    assert!(stdout.contains("stopped by you") && stdout.contains("is over"), "{stdout}");
}
