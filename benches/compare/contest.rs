//! Runs the sides of a contest in turns and collects their samples, round by round.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use crate::line::{self, Sample};
use crate::options::Options;
use crate::peers::Programs;
use crate::rows::{Contest, Pace, Side, Source};

/// A round takes at most a few seconds; a side without output for this long is considered hung.
const PATIENCE: Duration = Duration::from_secs(120);

/// The result of one side.
pub enum Outcome {
    /// One sample per round.
    Samples(Vec<Sample>),
    /// The side can't run here.
    Skipped(&'static str),
    /// The side ran and failed.
    Failed(String),
}

/// Runs a contest. Returns one outcome per side, in the order of the sides.
pub fn run(contest: &Contest, programs: &Programs, options: &Options) -> Vec<Outcome> {
    let mut outcomes: Vec<Outcome> = contest
        .sides
        .iter()
        .map(|side| match missing(side, programs) {
            Some(reason) => Outcome::Skipped(reason),
            None => Outcome::Samples(Vec::new()),
        })
        .collect();
    let mut done = 0;
    while done < options.rounds {
        let rounds = (options.rounds - done).min(contest.rounds_of_a_life());
        let mut lives: Vec<Option<ChildProcess>> = contest.sides.iter().map(|_| None).collect();
        // the first round of a process is a warm-up and is not counted
        let warm_up = usize::from(contest.pace != Pace::WholeProcess);
        for round in 0..rounds + warm_up {
            let mut order: Vec<usize> = (0..contest.sides.len()).collect();
            if round % 2 == 1 {
                order.reverse();
            }
            for index in order {
                let Outcome::Samples(samples) = &mut outcomes[index] else { continue };
                let side = &contest.sides[index];
                let answer = match contest.pace {
                    Pace::WholeProcess => whole_process(side, programs),
                    Pace::Served { .. } => served(&mut lives[index], side, programs),
                };
                match answer {
                    Ok(_) if round < warm_up => {}
                    Ok(sample) => samples.push(sample),
                    Err(reason) => {
                        lives[index] = None;
                        outcomes[index] = Outcome::Failed(format!("{}: {reason}", side.command.join(" ")));
                    }
                }
            }
        }
        done += rounds;
    }
    if let Some(file) = &options.samples
        && let Err(error) = append_samples(file, contest, &outcomes)
    {
        eprintln!("compare: {}: {error}", file.display());
    }
    outcomes
}

fn missing(side: &Side, programs: &Programs) -> Option<&'static str> {
    match side.source {
        Source::Ours => None,
        Source::Libgc => programs.no_peers,
        Source::PlainC => programs.no_bare,
        Source::Lttng => programs.no_lttng,
    }
}

fn command(side: &Side, programs: &Programs) -> Result<Command, String> {
    let (name, arguments) = side.command.split_first().ok_or("a side without a command")?;
    let mut command = match side.source {
        Source::Ours => {
            let mut command = Command::new(std::env::current_exe().map_err(|error| error.to_string())?);
            command.args(["--child", name]);
            command
        }
        Source::Libgc | Source::PlainC => Command::new(programs.path(name)),
        Source::Lttng => {
            let mut command = Command::new("sh");
            command.arg(programs.lttng_session()).arg(programs.path(name));
            command
        }
    };
    command.args(arguments).envs(side.environment.iter().map(|(key, value)| (*key, value)));
    Ok(command)
}

fn whole_process(side: &Side, programs: &Programs) -> Result<Sample, String> {
    let mut life = ChildProcess::start(command(side, programs)?)?;
    let answer = life.answer()?;
    life.end()?;
    Ok(answer)
}

fn served(life: &mut Option<ChildProcess>, side: &Side, programs: &Programs) -> Result<Sample, String> {
    let life = match life {
        Some(life) => life,
        None => {
            let mut born = ChildProcess::start(command(side, programs)?)?;
            match born.line()?.as_str() {
                "ready" => life.insert(born),
                other => return Err(format!("printed {other:?} instead of ready")),
            }
        }
    };
    life.ask()?;
    life.answer()
}

/// A running process of one side of a comparison, with its input (requests) and output (answers). Killed when dropped.
struct ChildProcess {
    process: Child,
    questions: Option<ChildStdin>,
    answers: Receiver<String>,
}

impl ChildProcess {
    fn start(mut command: Command) -> Result<ChildProcess, String> {
        let mut process =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(|error| error.to_string())?;
        let output = process.stdout.take().ok_or("no standard output")?;
        let (sender, answers) = channel();
        // a separate reader thread, so that waiting for a hung process can time out
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(ChildProcess { questions: process.stdin.take(), process, answers })
    }

    fn ask(&mut self) -> Result<(), String> {
        let questions = self.questions.as_mut().ok_or("no standard input")?;
        questions.write_all(b"round\n").map_err(|error| format!("{error}{}", self.how_it_ended()))
    }

    fn line(&mut self) -> Result<String, String> {
        match self.answers.recv_timeout(PATIENCE) {
            Ok(line) => Ok(line),
            Err(RecvTimeoutError::Timeout) => Err(format!("no answer within {} s", PATIENCE.as_secs())),
            Err(RecvTimeoutError::Disconnected) => Err(format!("no answer{}", self.how_it_ended())),
        }
    }

    fn answer(&mut self) -> Result<Sample, String> {
        let line = self.line()?;
        let sample = line::parse(&line);
        if sample.is_empty() { Err(format!("printed {line:?} instead of key=value pairs")) } else { Ok(sample) }
    }

    fn end(&mut self) -> Result<(), String> {
        match self.process.wait() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(status.to_string()),
            Err(error) => Err(error.to_string()),
        }
    }

    fn how_it_ended(&mut self) -> String {
        match self.process.wait() {
            Ok(status) => format!(" ({status})"),
            Err(_) => String::new(),
        }
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        // Both calls fail only if the process has already ended, which is fine.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn append_samples(file: &std::path::Path, contest: &Contest, outcomes: &[Outcome]) -> std::io::Result<()> {
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(file)?;
    let name = contest.rows.first().map_or("", |row| row.name.as_str());
    for (side, outcome) in contest.sides.iter().zip(outcomes) {
        let Outcome::Samples(samples) = outcome else { continue };
        for (round, sample) in samples.iter().enumerate() {
            for (key, value) in sample {
                writeln!(file, "{name}\t{round}\t{:?}\t{key}\t{value}", side.role)?;
            }
        }
    }
    Ok(())
}
