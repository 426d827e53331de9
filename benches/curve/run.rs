//! Runs the programs, each in a process of its own.

use std::io::Read;
use std::process::{Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::line::{self, Sample};
use crate::points::Point;

/// A program takes a few seconds; one that takes this long is considered hung, and ended.
const PATIENCE: Duration = Duration::from_secs(60);

/// A point and what was measured there.
pub struct Measured {
    pub point: Point,
    /// One sample per round.
    pub outcome: Result<Vec<Sample>, Failed>,
}

/// The reason why a program has no samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failed {
    /// The collector has said that its heap is full.
    DoesNotFit,
    Otherwise(String),
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::DoesNotFit => f.write_str("does not fit"),
            Self::Otherwise(reason) => write!(f, "failed: {reason}"),
        }
    }
}

impl From<String> for Failed {
    fn from(reason: String) -> Failed {
        Failed::Otherwise(reason)
    }
}

impl Measured {
    /// The median of a number, if the program prints it.
    pub fn median(&self, key: &str) -> Option<f64> {
        let samples = self.outcome.as_ref().ok()?;
        let values: Vec<f64> = samples.iter().filter_map(|sample| sample.get(key).copied()).collect();
        (!values.is_empty()).then(|| line::median(&values))
    }
}

/// Runs each point once per round, every second round in reverse order. A point that fails is not run again.
pub fn in_turns(points: &[Point], rounds: usize) -> Vec<Measured> {
    let mut all: Vec<Measured> =
        points.iter().map(|point| Measured { point: point.clone(), outcome: Ok(Vec::new()) }).collect();
    for round in 0..rounds {
        let mut order: Vec<usize> = (0..all.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for index in order {
            let measured = &mut all[index];
            let Ok(samples) = &mut measured.outcome else { continue };
            match once(&measured.point) {
                Ok(sample) => samples.push(sample),
                Err(reason) => measured.outcome = Err(reason),
            }
        }
    }
    all
}

fn once(point: &Point) -> Result<Sample, Failed> {
    let run = &point.run;
    let mut command = Command::new(&run.program);
    command.args(&run.arguments).envs(run.environment.iter().map(|(key, value)| (*key, value)));
    let mut process = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{}: {error}", run.program.display()))?;
    let (output, complaint) = (read(process.stdout.take()), read(process.stderr.take()));
    let start = Instant::now();
    let status = loop {
        match process.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if start.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(5)),
            Ok(None) => {
                // An error means that the process has just ended.
                _ = process.kill();
                _ = process.wait();
                return Err(format!("did not end within {} s", PATIENCE.as_secs()).into());
            }
            Err(error) => return Err(error.to_string().into()),
        }
    };
    let (output, complaint) = (text(output), text(complaint));
    let sample = output.lines().last().map(line::parse).unwrap_or_default();
    if !status.success() {
        // The words of libgc, of stopworld, and of whippet.
        let is_full =
            ["out of memory", "ran out of space"].iter().any(|words| complaint.to_lowercase().contains(words));
        let reason = complaint.lines().last().map_or(status.to_string(), str::to_owned);
        return Err(if is_full { Failed::DoesNotFit } else { reason.into() });
    }
    if sample.contains_key("wall_ms") { Ok(sample) } else { Err(format!("printed {output:?}").into()) }
}

/// Reads a pipe to its end on a thread, so that the program never waits for a full one.
fn read(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What can't be read is missing from the text, which is then not a sample.
        _ = pipe.map(|mut pipe| pipe.read_to_end(&mut bytes));
        bytes
    })
}

fn text(reader: JoinHandle<Vec<u8>>) -> String {
    String::from_utf8_lossy(&reader.join().unwrap_or_default()).into_owned()
}
