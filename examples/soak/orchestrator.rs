//! Starts rounds and their debuggers, one round after the other, and ends after the first failed round.

use std::error::Error;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::counts::Sums;

/// The arguments of a run.
#[derive(clap::Args)]
pub(crate) struct RunArguments {
    /// The duration of the run in minutes [default: 1, or no limit with --rounds]
    #[arg(long, value_name = "N")]
    minutes: Option<f64>,
    /// The seed of the random numbers; a run with the same seed has the same rounds
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Repeat the round with this seed, which its failure printed, instead of random rounds
    #[arg(long, value_name = "S")]
    round_seed: Option<u64>,
    /// The number of rounds to run [default: as many as fit into --minutes]
    #[arg(long, value_name = "N")]
    rounds: Option<u64>,
    /// Run without debugger processes
    #[arg(long)]
    no_debugger: bool,
}

/// The time after the end of a round in which its threads finish and verify their work. A round that takes longer is stuck.
const GRACE: Duration = Duration::from_secs(300);
/// The interval at which the orchestrator checks whether a process has ended.
const POLL: Duration = Duration::from_millis(20);
/// The number of bytes of a failed round's output that are shown.
const SHOWN: usize = 8000;

/// Runs the rounds.
pub(crate) fn run(arguments: &RunArguments) -> Result<(), Box<dyn Error>> {
    let minutes = arguments.minutes.or(if arguments.rounds.is_some() { None } else { Some(1.0) });
    if minutes.is_some_and(|minutes| !(minutes > 0.0 && minutes < 1e6)) {
        return Err("--minutes: the value must be a number above 0 and below 1000000".into());
    }
    let begin = Instant::now();
    let is_over = |rounds: u64| {
        minutes.is_some_and(|minutes| begin.elapsed().as_secs_f64() >= minutes * 60.0)
            || arguments.rounds.is_some_and(|most| rounds >= most)
    };
    let mut seeds = fastrand::Rng::with_seed(arguments.seed);
    let mut sums = Sums::default();
    let mut rounds = 0;
    while !is_over(rounds) {
        // 32 bits, so that the seed is easy to type.
        let seed = arguments.round_seed.unwrap_or_else(|| u64::from(seeds.u32(..)));
        let seconds = fastrand::Rng::with_seed(seed).u64(3..12);
        let before = sums.get("collections");
        let outcome = round(seed, seconds, !arguments.no_debugger, &mut sums);
        rounds += 1;
        if let Err(why) = outcome {
            report(rounds, begin.elapsed(), &sums);
            return Err(format!(
                "round {rounds} failed: {why}\nto repeat its plan: cargo run --release --example soak -- --round-seed {seed} --rounds 10"
            )
            .into());
        }
        println!("round {rounds}, seed {seed}, {seconds} s: {} collections", sums.get("collections") - before);
    }
    report(rounds, begin.elapsed(), &sums);
    Ok(())
}

fn report(rounds: u64, elapsed: Duration, sums: &Sums) {
    let build = if cfg!(debug_assertions) { "debug" } else { "release" };
    println!("\n{rounds} rounds in {:.1} minutes, {build} build", elapsed.as_secs_f64() / 60.0);
    sums.iter().for_each(|(name, count)| println!("{count:>14}  {}", name.replace('_', " ")));
}

/// Runs one round and its debuggers. The error contains the failure and the output of the process.
fn round(seed: u64, seconds: u64, with_debugger: bool, sums: &mut Sums) -> Result<(), String> {
    let directory = tempfile::tempdir().map_err(|error| format!("can't create a temporary directory: {error}"))?;
    let arguments = ["round".to_owned(), seed.to_string(), seconds.to_string(), directory.path().display().to_string()];
    let program = start(&arguments, directory.path(), "round")?;
    let pid = program.id();
    let ended = AtomicBool::new(false);
    let debuggers = Mutex::new(Debuggers::default());
    let (outcome, debugged) = thread::scope(|scope| {
        let debugging = with_debugger.then(|| scope.spawn(|| debug(pid, seed, directory.path(), &ended, &debuggers)));
        let outcome = wait(program, Duration::from_secs(seconds) + GRACE);
        ended.store(true, Ordering::Relaxed);
        let debugged = debugging.map(|thread| thread.join().unwrap_or_else(|_| Err("its thread panicked".to_owned())));
        (outcome, debugged.unwrap_or(Ok(())))
    });
    let (output, errors) = output_of(directory.path(), "round");
    let Debuggers { sums: mut sums_of_round, story } = debuggers.into_inner().unwrap_or_default();
    sums_of_round.take(&output);
    for (name, count) in sums_of_round.iter() {
        sums.add(name, count);
    }
    let (liars, false_answers) = (sums_of_round.get("debuggers_that_lied"), sums_of_round.get("false_answers"));
    match outcome {
        Ok(status) if status.success() && liars == 0 && false_answers > 0 => {
            Err(format!("{false_answers} acknowledgements of honest debuggers were rejected\n{}", tail(&errors)))
        }
        Ok(status) if status.success() => debugged.map_err(|why| format!("the debugger: {why}")),
        Ok(status) => Err(format!("{status}\n{}\nits debuggers:\n{}", tail(&errors), tail(&story))),
        Err(stacks) => Err(format!(
            "the process did not end in time\n{}\nits debuggers:\n{}\n{stacks}",
            tail(&errors),
            tail(&story)
        )),
    }
}

/// The actions of a round's debuggers.
#[derive(Default)]
struct Debuggers {
    sums: Sums,
    /// A log of the debuggers' starts and ends.
    story: String,
}

/// Attaches one debugger after the other, until the round has ended. About half of them are killed, and one in six violates its
/// contract.
fn debug(pid: u32, seed: u64, directory: &Path, ended: &AtomicBool, done: &Mutex<Debuggers>) -> Result<(), String> {
    let add = |name: &str| done.lock().unwrap_or_else(PoisonError::into_inner).sums.add(name, 1);
    let tell = |line: &str| done.lock().unwrap_or_else(PoisonError::into_inner).story += &format!("{line}\n");
    let begin = Instant::now();
    let mut random = fastrand::Rng::with_seed(seed ^ 0xDEB6);
    while !ended.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(random.u64(0..800)));
        let (seed, milliseconds) = (random.u64(..), random.u64(20..1500));
        let lies = random.u8(0..6) == 0;
        let is_killed = random.bool();
        let killed_after = Duration::from_millis(random.u64(1..=milliseconds));
        let part = if lies { "liar" } else { "debugger" };
        let arguments = [part.to_owned(), pid.to_string(), seed.to_string(), milliseconds.to_string()];
        let mut debugger = start(&arguments, directory, part)?;
        if lies {
            add("debuggers_that_lied");
        }
        tell(&format!("at {:?} started {arguments:?}", begin.elapsed()));
        // The exit code of a liar is ignored: it may fail when the round rejects its acknowledgements. It gets time to end.
        if is_killed || lies {
            let until = Instant::now() + if is_killed { killed_after } else { Duration::from_millis(2 * milliseconds) };
            while Instant::now() < until && debugger.try_wait().is_ok_and(|ended| ended.is_none()) {
                thread::sleep(Duration::from_millis(1));
            }
            // A debugger that has already ended does not count as killed.
            if debugger.try_wait().is_ok_and(|ended| ended.is_none()) && debugger.kill().is_ok() {
                add("debuggers_killed");
                tell(&format!("at {:?} killed the debugger", begin.elapsed()));
            }
            debugger.wait().map_err(|error| error.to_string())?;
            let (output, errors) = output_of(directory, part);
            tell(&format!("at {:?} it had ended, with output {output:?} {:?}", begin.elapsed(), errors.lines().next()));
            continue;
        }
        let status = wait(debugger, Duration::from_millis(milliseconds) + GRACE)?;
        let (output, errors) = output_of(directory, "debugger");
        if !status.success() && !ended.load(Ordering::Relaxed) {
            // Attaching to a program that is about to end fails: wait, and check whether the round has ended.
            thread::sleep(Duration::from_secs(2));
            if !ended.load(Ordering::Relaxed) {
                return Err(format!("{status}\n{}", tail(&errors)));
            }
        }
        tell(&format!("at {:?} it had ended", begin.elapsed()));
        done.lock().unwrap_or_else(PoisonError::into_inner).sums.take(&output);
    }
    Ok(())
}

/// Starts this program again as a part of a round. Its output goes to files in the directory.
fn start(arguments: &[String], directory: &Path, name: &str) -> Result<Child, String> {
    let file = |kind: &str| File::create(directory.join(format!("{name}.{kind}"))).map(Stdio::from);
    let start = || {
        Command::new(std::env::current_exe()?)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(file("out")?)
            .stderr(file("err")?)
            .spawn()
    };
    start().map_err(|error| format!("can't start the {name}: {error}"))
}

fn output_of(directory: &Path, name: &str) -> (String, String) {
    let read = |kind: &str| fs::read(directory.join(format!("{name}.{kind}"))).unwrap_or_default();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (text(read("out")), text(read("err")))
}

fn tail(text: &str) -> &str {
    &text[text.floor_char_boundary(text.len().saturating_sub(SHOWN))..]
}

/// Waits for the end of a process. If it does not end in time, kills it and returns what its threads were doing.
fn wait(mut child: Child, at_most: Duration) -> Result<ExitStatus, String> {
    let deadline = Instant::now() + at_most;
    while Instant::now() < deadline {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) => thread::sleep(POLL),
            Err(error) => return Err(error.to_string()),
        }
    }
    let doing = what_it_does(child.id());
    let _ = child.kill();
    let _ = child.wait();
    Err(doing)
}

/// Returns the states and stacks of the threads of a stuck process. A process can have only one tracer, so the debugger that is attached to
/// the round is killed first, after its stacks have been taken.
pub(crate) fn what_it_does(pid: u32) -> String {
    let mut text = String::new();
    let mut tracer = None;
    for thread in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
        let read = |file: &str| fs::read_to_string(thread.path().join(file)).unwrap_or_default();
        let status = read("status");
        let is_shown = |line: &&str| ["Name", "State", "Pid", "TracerPid", "SigPnd", "SigBlk"].contains(&name_of(line));
        let shown: Vec<&str> = status.lines().filter(is_shown).collect();
        text += &format!("{} wchan: {} syscall: {}\n", shown.join(" "), read("wchan"), read("syscall").trim());
        let of_thread = status.lines().find(|line| name_of(line) == "TracerPid");
        tracer =
            tracer.or(of_thread.and_then(|line| line.rsplit('\t').next()?.parse().ok()).filter(|pid: &u32| *pid != 0));
    }
    if let Some(tracer) = tracer {
        text += &format!("the debugger, process {tracer}:\n{}", stacks_of(tracer));
        let _ = Command::new("kill").args(["-KILL", &tracer.to_string()]).status();
    }
    text + "the program:\n" + &stacks_of(pid)
}

fn name_of(line: &str) -> &str {
    line.split(':').next().unwrap_or_default()
}

fn stacks_of(pid: u32) -> String {
    let gdb = Command::new("gdb")
        .args(["-p", &pid.to_string(), "-batch", "-ex", "thread apply all backtrace 24"])
        .stdin(Stdio::null())
        .output();
    gdb.map_or_else(
        |_| "(the stacks can't be shown without gdb)\n".to_owned(),
        |gdb| String::from_utf8_lossy(&gdb.stdout).into_owned() + &String::from_utf8_lossy(&gdb.stderr),
    )
}
