//! gdb takes part in collections through the script that is embedded in every program (docs/gdb.md).

mod debugged;
#[path = "../../../tests/skipped/mod.rs"]
mod skipped;
#[path = "../../../tests/tools/mod.rs"]
mod tools;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use debugged::Talk;
use rstest::rstest;
use tools::has_gdb;

/// The program that gdb runs; not a test by itself.
#[test]
fn the_program_in_the_debugger() {
    debugged::run();
}

fn this() -> PathBuf {
    std::env::current_exe().unwrap()
}

/// gdb with the program `what` of this executable, stopped at the first breakpoint, which is at `place`. `None` if there is no gdb.
fn stopped_at(place: &str, what: &str) -> Option<Talk> {
    if !has_gdb() {
        return None;
    }
    let mut gdb = Talk::gdb(&this(), what, &[]);
    gdb.ask(&format!("break {place}"));
    gdb.say("run");
    gdb.until("hit Breakpoint");
    Some(gdb)
}

/// Returns the number after `before` in gdb's output.
fn number(said: &str, before: &str) -> u64 {
    let at = said.find(before).unwrap_or_else(|| panic!("no `{before}` in:\n{said}")) + before.len();
    said[at..].trim_start().chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap()
}

/// Returns the number of threads for which gdb has acknowledged.
fn answered(gdb: &mut Talk) -> u64 {
    let said = gdb.ask("stopworld status");
    number(&said, "answered for ")
}

fn counts(gdb: &mut Talk) -> String {
    let said = gdb.ask("with language c -- output/d *(unsigned long (*)[4]) &DEBUGGED_COUNTS");
    let from = said.rfind('{').unwrap_or_else(|| panic!("{said}"));
    said[from..].split_inclusive('}').next().unwrap_or_default().to_owned()
}

#[test]
fn two_hundred_collections_run_while_gdb_holds_threads() {
    if !has_gdb() {
        return;
    }
    let mut gdb = Talk::gdb(&this(), "mutators 200 0 23", &["set breakpoint pending on"]);
    gdb.ask("break debugged_begin");
    gdb.ask("break debugged_halfway");
    gdb.ask("break debugged_end");
    gdb.say("run");
    gdb.until("debugged_begin");
    // The first half, two collections per round: only the collecting thread runs.
    gdb.ask("set scheduler-locking on");
    let before = counts(&mut gdb);
    gdb.say("continue");
    gdb.until("debugged_halfway");
    assert_eq!(counts(&mut gdb), before, "a held thread ran");
    let held = answered(&mut gdb);
    assert!(held >= 4 * 200, "{held}");
    // The second half: all threads run.
    gdb.ask("set scheduler-locking off");
    gdb.say("continue");
    gdb.until("debugged_end");
    assert_ne!(counts(&mut gdb), before);
    gdb.say("continue");
    let said = gdb.until("exited normally");
    assert!(said.contains("all trees are whole: 200 collections"), "{said}");
}

#[test]
fn a_thread_at_a_breakpoint_stays_there_while_others_collect() {
    if !has_gdb() {
        return;
    }
    let mut gdb = Talk::gdb(&this(), "mutators 1000000 2 23", &["set non-stop on"]);
    gdb.ask("break debugged_reads if number == 2");
    gdb.say("run &");
    gdb.until("hit Breakpoint");
    gdb.ask("delete 1");
    gdb.ask("set language c");
    let count = "output ((unsigned long *) &DEBUGGED_COUNTS)[2]";
    let at = collections(&mut gdb);
    let before = last_word(&gdb.ask(count));
    wait_for(&mut gdb, |gdb| collections(gdb) > at + 200);
    assert_eq!(last_word(&gdb.ask(count)), before, "the held thread ran");
    assert!(answered(&mut gdb) > 100);
    // The thread is shown as held, and the other threads run.
    wait_for(&mut gdb, |gdb| {
        let threads = gdb.ask("stopworld threads");
        let line = threads.lines().find(|line| line.contains("reader-2")).unwrap();
        assert!(!line.split("reader-2").next().unwrap().contains("running"), "{threads}");
        threads.lines().any(|line| line.contains("reader-1") && line.contains(" running "))
    });
    // After its release the thread runs, and collections continue.
    let at = collections(&mut gdb);
    gdb.say("continue -a &");
    wait_for(&mut gdb, |gdb| collections(gdb) > at + 20 && last_word(&gdb.ask(count)) != before);
    gdb.say("kill");
}

/// Returns the last word of the answer; lines that gdb printed unasked may precede it.
fn last_word(said: &str) -> String {
    said.split_whitespace().last().unwrap_or_default().to_owned()
}

/// Returns the number of collections of the program.
fn collections(gdb: &mut Talk) -> u64 {
    let said = gdb.ask("stopworld status");
    let at = said.find(" collection").unwrap_or_else(|| panic!("{said}"));
    said[..at].rsplit(' ').next().unwrap().parse().unwrap()
}

fn wait_for(gdb: &mut Talk, mut holds: impl FnMut(&mut Talk) -> bool) {
    let end = Instant::now() + Duration::from_secs(600);
    while !holds(gdb) {
        assert!(Instant::now() < end, "{}", gdb.ask("stopworld threads"));
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The command's own workloads, which check what they build, on eight threads. Now and then the user stops one of them at the entry of a
/// function that it calls in each step of its work.
#[rstest]
#[case::binary_trees(&["binary-trees", "--depth", "12", "--collections", "200"], "binary_trees::checked")]
#[case::churn(&["churn", "--collections", "200"], "churn::link")]
#[case::lisp(&["lisp", "../../examples/scheme/nqueens.scm", "--collections", "200", "--heap-limit", "12MiB"], "lisp::store::Store::cons")]
fn workloads_reach_their_right_results_with_threads_stopped(#[case] workload: &[&str], #[case] function: &str) {
    if !has_gdb() {
        return;
    }
    let mut command = Command::new("sh");
    command.args(["-c", "exec gdb \"$@\" 2>&1", "gdb", "-nx", "-q", "-iex", "set auto-load safe-path /"]);
    for setting in
        ["set non-stop on", "set confirm off", "set pagination off", "set width 0", "set print thread-events off"]
    {
        command.args(["-iex", setting]);
    }
    command.arg(env!("CARGO_BIN_EXE_stopworld"));
    let mut gdb = Talk::with(&mut command);
    // The program's output goes to a file, because gdb's output arrives in pieces and would mix with the program's lines.
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("output");
    let workload_options = "--threads 8 --initial-heap 1MiB --paranoid";
    gdb.say(&format!("run run {} {workload_options} > {} &", workload.join(" "), output.display()));
    gdb.until("attached to process");
    let (mut held, mut over) = (0, false);
    let end = Instant::now() + Duration::from_secs(1800);
    while !over {
        assert!(Instant::now() < end, "{}", gdb.ask("stopworld threads"));
        // All threads run for a while; then the next one that calls the function stops. Short turns, because the others can
        // often do only little before they wait for the stopped thread, and some turns must see a collection.
        std::thread::sleep(Duration::from_millis(20));
        gdb.ask(&format!("tbreak stopworld_workloads::{function}"));
        let before = collections_so_far(&mut gdb);
        // Waits until other threads have collected meanwhile, or until they wait for the stopped thread, for example to join it. A few
        // collections are enough: the fewer of them a turn takes, the more turns there are.
        let long_enough = Instant::now() + Duration::from_millis(500);
        while collections_so_far(&mut gdb).is_some_and(|now| Some(now) < before.map(|n| n + 5))
            && Instant::now() < long_enough
        {}
        held += u64::from(collections_so_far(&mut gdb) > before);
        let said = gdb.ask("continue -a &");
        over = said.contains("exited") || said.contains("not being run") || collections_so_far(&mut gdb).is_none();
    }
    // The program's world has closed; its remaining output and the end of the process follow. gdb 13 may not accept commands at this point.
    let said = gdb.all_until("exited normally");
    drop(gdb);
    assert!(held >= 1, "{held}: {said}");
    // Workloads that check themselves print nothing of their own; the Lisp programs print the same as in an undisturbed run.
    let alone =
        Command::new(env!("CARGO_BIN_EXE_stopworld")).arg("run").args(workload).args(["--threads", "8"]).output();
    let beside_gdb = std::fs::read_to_string(output).unwrap();
    assert_eq!(printed(&beside_gdb), printed(&String::from_utf8_lossy(&alone.unwrap().stdout)));
}

/// What the threads of a Lisp workload have printed, in an order that does not depend on the threads.
fn printed(output: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = output.lines().filter(|line| line.starts_with("[lisp-")).collect();
    lines.sort_unstable();
    lines
}

/// Returns the number of collections; `None` if the program has ended.
fn collections_so_far(gdb: &mut Talk) -> Option<u64> {
    let said = gdb.ask("stopworld status");
    let at = said.find(" collection")?;
    said[..at].rsplit(' ').next()?.parse().ok()
}

#[rstest]
#[case::the_default(23)]
#[case::one_at_which_gdb_stops_by_default(12)]
#[case::a_real_time_signal(45)]
fn next_finish_and_calls_work_across_collections(#[case] signal: i32) {
    let Some(mut gdb) = stopped_at("debugged_steps", &format!("mutators 6 3 {signal}")) else { return };
    gdb.ask("delete");
    // The function is stepped through line by line; two of its lines collect.
    let first = number(&gdb.ask("info line"), "Line");
    for line in first + 1..first + 5 {
        let said = gdb.ask("next");
        let shown = said.lines().last().and_then(|last| last.split_whitespace().next().map(str::to_owned));
        assert_eq!(shown, Some(line.to_string()), "{said}");
    }
    gdb.ask("break debugged_collects");
    gdb.ask("continue");
    let said = gdb.ask("finish");
    assert!(said.contains("Value returned is"), "{said}");
    let mut last: u64 = last_word(&said).parse().unwrap();
    // The user's `delete` also deletes the script's catchpoint, which the script restores.
    gdb.ask("delete");
    for _ in 0..6 {
        let said = gdb.ask("next");
        assert!(!said.contains("suspend"), "{said}");
        let stepped = said;
        let said = gdb.ask("print debugged_collects()");
        let now = last_word(&said).parse().unwrap_or_else(|_| panic!("{stepped}\n{said}\n{}", gdb.ask("bt 4")));
        assert!(now > last, "{said}");
        last = now;
    }
    gdb.say("continue");
    let said = gdb.until("exited normally");
    assert!(said.contains("all trees are whole: 6 collections"), "{said}");
}

#[test]
fn a_thread_that_gdb_has_answered_for_runs_nothing_of_its_own_in_the_stop() {
    let Some(mut gdb) = stopped_at("debugged_begin", "mutators 6 0 23") else { return };
    gdb.ask("delete");
    gdb.ask("set scheduler-locking on");
    gdb.ask("stopworld phases stop mark-begin");
    gdb.say("continue");
    gdb.until("mark-begin]");
    let threads = gdb.ask("stopworld threads");
    let reader = threads.lines().find(|line| line.contains("reader-0")).unwrap();
    assert!(reader.contains("held by a collection"), "{threads}");
    gdb.ask(&format!("thread {}", number(reader, "")));
    // A call does not take the suspend signal: its handler would wait for the thread that collects.
    let before = gdb.ask("print $rsp");
    let said = gdb.ask("stopworld heap");
    assert!(said.contains(" in all"), "{said}");
    assert_eq!(last_word(&gdb.ask("print $rsp")), last_word(&before));
    // A step does.
    gdb.ask("stepi 3");
    let said = gdb.ask("bt 2");
    assert!(said.contains("signal handler called"), "{said}");
    gdb.ask("set scheduler-locking off");
    gdb.ask("stopworld phases stop none");
    gdb.say("continue");
    let said = gdb.until("exited normally");
    assert!(said.contains("all trees are whole: 6 collections"), "{said}");
}

/// gdb attached to a running process, in this mode, with the script's option for phases.
fn attached_to(program: &Talk, mode: &str, phases: &str) -> Talk {
    let mut gdb = Command::new("sh");
    gdb.args(["-c", "exec gdb \"$@\" 2>&1", "gdb", "-nx", "-q", "-iex", "set auto-load safe-path /"]);
    let mut gdb = Talk::with(gdb.args(["-iex", "set confirm off", "-p", &program.id().to_string()]));
    gdb.ask(&format!("stopworld mode {mode}"));
    gdb.ask(&format!("stopworld phases {phases}"));
    gdb
}

#[rstest]
fn a_killed_gdb_leaves_a_program_that_runs_and_collects(#[values("assisted", "full")] mode: &str) {
    if !has_gdb() {
        return;
    }
    let program = Talk::with(&mut debugged::program(&this(), "mutators 0 2 23"));
    let mut gdb = attached_to(&program, mode, "on");
    gdb.say("continue");
    gdb.until("mark-begin");
    gdb.kill();
    let (right, said) = program.finish();
    assert!(right && said.contains("all trees are whole"), "{said}");
}

/// The state of a process after its gdb was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Runs,
    Stopped,
    Dead,
}

/// Returns the state of a process whose gdb was killed: the expected one as soon as it is reached, or the last one after a while.
fn fate(pid: u32, expected: Fate) -> Fate {
    let states = || -> Vec<u8> {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
        let stats = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("stat")).ok());
        stats.filter_map(|stat| stat.rsplit_once(") ").map(|(_, rest)| rest.as_bytes()[0])).collect()
    };
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        std::thread::sleep(Duration::from_millis(500));
        let states = states();
        let found = match states.iter().any(|state| b"Tt".contains(state)) {
            _ if states.iter().all(|state| b"ZX".contains(state)) => Fate::Dead,
            true => Fate::Stopped,
            false => Fate::Runs,
        };
        if found == expected || Instant::now() > end {
            return found;
        }
    }
}

/// A workload whose threads start and exit all the time, and a gdb attached to it whose output is read to its end.
struct Births {
    gdb: Talk,
    pid: u32,
}

impl Births {
    const WORKLOAD: [&str; 6] = ["run", "churn", "--threads", "2", "--seconds", "600"];

    fn gdb(arguments: &[&str], settings: &[&str]) -> Talk {
        let mut gdb = Command::new("sh");
        gdb.args(["-c", "exec gdb \"$@\" 2>&1", "gdb", "-nx", "-q", "-iex", "set auto-load safe-path /"]);
        for setting in ["set confirm off", "set pagination off", "set startup-with-shell off"].iter().chain(settings) {
            gdb.args(["-iex", setting]);
        }
        Talk::with(gdb.args(arguments))
    }

    /// Starts the program by gdb, which continues it after the commands `first`.
    fn launched(first: &str) -> Self {
        let arguments = [&["--args", env!("CARGO_BIN_EXE_stopworld")], &Self::WORKLOAD[..]].concat();
        let mut gdb = Self::gdb(&arguments, &[]);
        gdb.ask("starti");
        let pid = last_word(&gdb.ask("python print(gdb.selected_inferior().pid)")).parse().unwrap();
        if !first.is_empty() {
            gdb.ask(first);
        }
        gdb.say("continue &");
        gdb.until("attached to process");
        // While libraries are loaded gdb has breakpoints of its own in the loader. They remain when gdb is killed, and then kill the
        // program.
        let has_threads = || std::fs::read_dir(format!("/proc/{pid}/task")).is_ok_and(|tasks| tasks.count() > 2);
        let end = Instant::now() + Duration::from_secs(60);
        while !has_threads() {
            assert!(Instant::now() < end, "the program has not started its threads");
            std::thread::sleep(Duration::from_millis(10));
        }
        Self { gdb, pid }
    }

    /// Attaches gdb to the program while it runs.
    fn attached(program: &Talk, settings: &[&str]) -> Self {
        let pid = program.id();
        let mut gdb = Self::gdb(&["-p", &pid.to_string()], settings);
        gdb.until("attached to process");
        gdb.ask("continue -a &");
        Self { gdb, pid }
    }

    fn kill_gdb(mut self, after: Duration, expected: Fate) -> Fate {
        std::thread::sleep(after);
        self.gdb.kill();
        fate(self.pid, expected)
    }
}

/// gdb attaches to new threads by SIGSTOP: killed while doing so, it leaves a SIGSTOP pending, which stops the process.
#[rstest]
#[case::all_stop("set non-stop off")]
#[case::non_stop("set non-stop on")]
fn a_program_that_gdb_has_attached_to_runs_on_when_gdb_is_killed(#[case] setting: &str) {
    if !has_gdb() {
        return;
    }
    let mut program = Command::new(env!("CARGO_BIN_EXE_stopworld"));
    let program = Talk::with(program.args(Births::WORKLOAD).stderr(Stdio::null()));
    for round in 0..8 {
        let after = Duration::from_millis(300 + 90 * round);
        let found = Births::attached(&program, &[setting]).kill_gdb(after, Fate::Runs);
        assert_eq!(found, Fate::Runs, "round {round}");
    }
}

#[rstest]
#[case::as_gdb_has_it("", Fate::Dead)]
#[case::as_gdb_has_it_again("stopworld exit-kill on", Fate::Dead)]
#[case::without_exit_kill("stopworld exit-kill off", Fate::Runs)]
fn a_program_that_gdb_has_launched_is_killed_with_it_unless_its_user_says_so(#[case] first: &str, #[case] fate: Fate) {
    if !has_gdb() {
        return;
    }
    nix::sys::prctl::set_child_subreaper(true).unwrap();
    for _ in 0..3 {
        let births = Births::launched(first);
        let pid = nix::unistd::Pid::from_raw(births.pid as i32);
        let found = births.kill_gdb(Duration::from_secs(1), fate);
        // The parent of the program has ended, so the program is now a child of this process.
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL);
        let end = nix::sys::wait::waitpid(pid, None);
        assert_eq!(found, fate, "{end:?}");
    }
}

/// Ways in which gdb leaves in the middle of a stop.
#[derive(Clone, Copy)]
enum Leaves {
    /// gdb notifies the collector first.
    AsItShould,
    /// gdb detaches by its own command, without a notification.
    Unannounced,
    Killed,
}

/// The world is stopped, everything is marked, nothing is freed yet: a thread that resumes now would run on a heap that is being collected.
#[rstest]
fn gdb_can_leave_in_mid_stop(
    #[values("assisted", "full")] mode: &str,
    #[values("mark-begin", "mark-end")] phase: &str,
    #[values(Leaves::AsItShould, Leaves::Unannounced, Leaves::Killed)] how: Leaves,
) {
    if !has_gdb() {
        return;
    }
    let program = Talk::with(&mut debugged::program(&this(), "mutators 0 2 23"));
    let mut gdb = attached_to(&program, mode, &format!("stop {phase}"));
    gdb.say("continue");
    gdb.until(&format!("{phase}]"));
    let said = gdb.ask("stopworld threads");
    assert!(said.contains(&format!("collecting ({phase}), by thread")), "{said}");
    match how {
        Leaves::AsItShould => drop((gdb.ask("stopworld detach"), gdb.ask("detach"))),
        Leaves::Unannounced => drop(gdb.ask("detach")),
        Leaves::Killed => gdb.kill(),
    }
    let (right, said) = program.finish();
    assert!(right && said.contains("all trees are whole"), "{said}");
    if !matches!(how, Leaves::Killed) {
        let said = gdb.ask("show scheduler-locking");
        assert!(said.contains("\"replay\""), "{said}");
    }
}

#[test]
fn in_full_mode_gdb_stops_the_threads_itself() {
    let Some(mut gdb) = stopped_at("debugged_begin", "mutators 30 2 23") else { return };
    gdb.ask("break debugged_end");
    gdb.ask("stopworld mode full");
    gdb.say("continue");
    gdb.until("debugged_end");
    assert!(answered(&mut gdb) >= 60 * 3);
    gdb.ask("stopworld mode assisted");
    gdb.say("continue");
    let said = gdb.until("exited normally");
    assert!(said.contains("all trees are whole: 30 collections"), "{said}");
}

#[test]
fn gdb_stops_at_a_phase_and_shows_the_others() {
    let Some(mut gdb) = stopped_at("debugged_begin", "mutators 6 0 23") else { return };
    assert!(gdb.ask("stopworld phases stop nonsense").contains("a phase is one of"));
    gdb.ask("stopworld phases on");
    gdb.ask("stopworld phases stop mark-end");
    gdb.say("continue");
    let said = gdb.until("mark-end]");
    assert!(said.contains("[stopworld: world 1: mark-begin]"), "{said}");
    let said = gdb.ask("stopworld threads");
    assert!(said.contains("collecting (mark-end), by thread"), "{said}");
    // `.debug.inspect`: queries are answered in each phase, by the collecting thread.
    for phase in ["mark-end", "weak-end", "sweep-begin", "gc-end", "roots-begin", "mark-begin"] {
        if phase != "mark-end" {
            gdb.ask(&format!("stopworld phases stop {phase}"));
            gdb.say("continue");
            gdb.until(&format!("{phase}]"));
        }
        let heap = gdb.ask("stopworld heap");
        assert!(heap.contains("in all"), "{phase}: {heap}");
    }
    gdb.ask("stopworld phases off");
    gdb.ask("stopworld phases stop none");
    gdb.say("continue");
    gdb.until("all trees are whole: 6 collections");
}

#[test]
fn values_are_shown_as_what_they_mean() {
    let Some(mut gdb) = stopped_at("debugged_values", "values") else { return };
    gdb.ask("finish");
    gdb.ask("break debugged_values");
    gdb.ask("kill");
    gdb.say("run");
    gdb.until("hit Breakpoint");
    let node = gdb.ask("print node");
    let parts = ["= Gc(0x", "debugged::Node = {next = Some(Gc(0x", "small = 7", "real = 1.5", "value = 2}"];
    assert!(parts.iter().all(|part| node.contains(part)), "{node}");
    let numbers = gdb.ask("print numbers");
    assert!(numbers.ends_with("[u64; 5] = {0, 10, 20, 30, 40}"), "{numbers}");
    let nodes = gdb.ask("print nodes");
    assert!(nodes.contains("[Option<Gc<") && nodes.contains("; 3] = {None, Some(Gc(0x"), "{nodes}");
    let weak = gdb.ask("print weak");
    assert!(weak.contains("= Weak(0x") && weak.contains(") of Gc(0x"), "{weak}");
    assert!(gdb.ask("print none").ends_with("= None"));
    assert!(gdb.ask("print *small").ends_with("= 7"));
    gdb.ask("break debugged_unsized");
    gdb.say("continue");
    gdb.until("hit Breakpoint");
    let text = gdb.ask("print text");
    assert!(text.contains("= Gc(0x") && text.ends_with(r#"str "five!""#), "{text}");
    let shown = gdb.ask("print shown");
    assert!(shown.contains("= Gc(0x") && shown.contains("dyn ") && shown.contains("Display"), "{shown}");
    gdb.say("kill");
}

#[test]
fn objects_are_explained() {
    let Some(mut gdb) = stopped_at("debugged_values", "values") else { return };
    let threads = gdb.ask("stopworld threads");
    assert!(threads.contains("world 1: running, 0 collections"), "{threads}");
    assert!(threads.lines().any(|line| line.starts_with("* ") && line.contains("main")), "{threads}");
    let object = gdb.ask("stopworld object node");
    assert!(object.contains("debugged::Node\n"), "{object}");
    assert!(object.contains("40 bytes in a cell of 48, small space") && object.contains("+0 "), "{object}");
    let inside = gdb.ask("stopworld object node.payload.pointer as usize + 8");
    assert!(inside.contains("is at +8)"), "{inside}");
    let fields = gdb.ask("stopworld fields nodes");
    assert!(fields.contains("null") && fields.contains("::Node"), "{fields}");
    let referrers = gdb.ask("stopworld referrers node");
    assert!(referrers.contains("1 object refers to 0x") && referrers.contains("::Node"), "{referrers}");
    let why = gdb.ask("stopworld why-alive node");
    assert!(why.contains("(main)") && why.contains("-> 0x"), "{why}");
    let heap = gdb.ask("stopworld heap");
    assert!(heap.lines().any(|line| line.contains("Node")) && heap.contains("in all"), "{heap}");
    // Wrong arguments give one line each.
    for wrong in ["object", "object nosuchthing", "object 16", "heap 7", "mode sideways"] {
        let said = gdb.ask(&format!("stopworld {wrong}"));
        assert!(!said.is_empty() && said.lines().count() == 1, "{wrong}: {said}");
    }
    let collect = gdb.ask("stopworld collect");
    assert!(collect.contains("will collect when the program continues"), "{collect}");
    gdb.ask("break debugged_end");
    gdb.say("continue");
    gdb.until("hit Breakpoint");
    assert!(collections(&mut gdb) >= 2);
    gdb.say("kill");
}

/// Returns gdb's own output for a script of commands, without a prompt.
fn batch(executable: &Path, program: &str, commands: &[&str]) -> String {
    let mut gdb = Command::new("gdb");
    gdb.args(["-nx", "-batch", "-q", "-iex", "set auto-load safe-path /", "-iex", "set print thread-events off"]);
    for command in commands {
        gdb.args(["-ex", command]);
    }
    let output = gdb.arg("--args").arg(executable).args(debugged::ARGUMENTS).env(debugged::PROGRAM, program);
    let output = output.output().unwrap();
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[rstest]
#[case::whole(None)]
#[case::without_debug_information(Some("--strip-debug"))]
#[case::without_symbols(Some("--strip-all"))]
fn every_program_embeds_the_script_and_is_found_by_it(#[case] strip: Option<&str>) {
    if !has_gdb() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = match strip {
        None => this(),
        Some(how) => {
            let stripped = folder.path().join("stripped");
            let done = Command::new("strip").args([how, "-o"]).args([&stripped, &this()]).status();
            if !done.is_ok_and(|status| status.success()) {
                return tools::skipped("strip");
            }
            stripped
        }
    };
    let commands =
        ["stopworld phases stop mark-end", "run", "stopworld threads", "stopworld phases stop none", "continue"];
    let said = batch(&program, "mutators 3 0 23", &commands);
    assert!(said.contains("[stopworld: attached to process"), "{said}");
    assert!(said.contains("collecting (mark-end), by thread") && said.contains("reader-3"), "{said}");
    assert!(said.contains("all trees are whole: 3 collections"), "{said}");
}

#[test]
fn full_mode_can_be_chosen_before_the_program_starts() {
    if !has_gdb() {
        return;
    }
    let said = batch(&this(), "mutators 3 0 23", &["stopworld mode full", "run"]);
    assert!(said.contains(", full]") && said.contains("all trees are whole: 3 collections"), "{said}");
}

#[test]
fn the_commands_say_what_they_need() {
    if !has_gdb() {
        return;
    }
    let said =
        batch(&this(), "", &["stopworld threads", "stopworld object 1", "help stopworld mode", "help stopworld"]);
    assert!(said.contains("no program is being debugged"), "{said}");
    assert!(said.contains("Shows or sets how gdb takes part in collections"), "{said}");
    assert!(said.contains("stopworld why-alive -- Shows a shortest path from a root"), "{said}");
}

#[rstest]
#[case::gdb("gdb-script")]
#[case::lldb("lldb-script")]
fn the_command_prints_a_script_that_python_understands(#[case] which: &str) {
    let output = Command::new(env!("CARGO_BIN_EXE_stopworld")).arg(which).output().unwrap();
    assert!(output.status.success());
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script.py");
    std::fs::write(&script, &output.stdout).unwrap();
    let Ok(compiled) = Command::new("python3").args(["-m", "py_compile"]).arg(&script).output() else {
        return tools::skipped("python3");
    };
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
}
