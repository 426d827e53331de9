//! Three programs, each written for stopworld, four other collectors and `Rc`: time, memory, the longest operation, lines of code.
//!
//! ```text
//! cargo bench --manifest-path benches/collectors/Cargo.toml                         7 rounds, a few minutes
//! cargo bench --manifest-path benches/collectors/Cargo.toml -- graph --rounds 30    one program
//! cargo bench --manifest-path benches/collectors/Cargo.toml -- --quick              small sizes: compares only the results
//! cargo bench --manifest-path benches/collectors/Cargo.toml --features bdwgc        with bdwgc-alloc: needs cc, cmake and libclang-dev
//! ```
//!
//! Each program of each collector runs in a process of its own. The rounds are interleaved, and every second one is in reverse order. A
//! program does the same operations with each collector, in the same order, and must compute the same result.
//!
//! *time*: of all operations, without the start and the end of the process. *memory*: the most physical memory that the process had
//! (`VmHWM`). *worst*: the longest single operation (one request to the cache, one call of the script, one operation on the graph), with all
//! that the collector did in it, or directly after it at the program's request. *pause*: what the collector of stopworld reports as its
//! longest pause. *lines*: of the program's file in `src/`, without comments and empty lines; what all collectors share is not counted.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

const PROGRAMS: [&str; 3] = ["cache", "script", "graph"];
const OURS: &str = "stopworld";
/// The contenders, with the folders of their sources. The last one has no collector.
const CONTENDERS: [(&str, &str); 6] = [
    (OURS, "stopworld"),
    ("gc", "gc"),
    ("dumpster", "dumpster"),
    ("gc-arena", "gc_arena"),
    ("bdwgc-alloc", "bdwgc"),
    (WITHOUT_COLLECTOR, "rc"),
];
const WITHOUT_COLLECTOR: &str = "rc";
/// Our memory must be at most this many times the best.
const MOST_MEMORY: f64 = 1.2;
/// A process that runs for so long has failed.
const PATIENCE: Duration = Duration::from_secs(300);

const HELP: &str = "\
usage: cargo bench --manifest-path benches/collectors/Cargo.toml [--features bdwgc] -- [PROGRAM]... [options]

  PROGRAM      cache, script, graph (default: all)
  --rounds N   number of interleaved rounds (default: 7)
  --quick      run small sizes once, also with a paranoid stopworld, and compare only the results
  --strict     exit with 1 also if an aim is missed. Wrong results and failed processes always do
";

struct Options {
    programs: Vec<&'static str>,
    rounds: usize,
    quick: bool,
    strict: bool,
}

/// What a process printed.
struct Sample {
    checksum: String,
    numbers: Vec<(String, f64)>,
}

impl Sample {
    fn number(&self, key: &str) -> Option<f64> {
        self.numbers.iter().find(|number| number.0 == key).map(|number| number.1)
    }
}

/// A contender and its samples, one for each round, or the reason why it has none.
struct Result {
    name: &'static str,
    samples: std::result::Result<Vec<Sample>, String>,
    lines: usize,
}

impl Result {
    fn values(&self, key: &str) -> Vec<f64> {
        self.samples.iter().flatten().filter_map(|sample| sample.number(key)).collect()
    }
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(Some(options)) => options,
        Ok(None) => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(complaint) => {
            eprintln!("programs: {complaint}");
            return ExitCode::from(2);
        }
    };
    let mut good = true;
    for &program in &options.programs {
        good &= if options.quick { compare_results(program) } else { contest(program, &options) };
    }
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn options() -> std::result::Result<Option<Options>, String> {
    let mut options = Options { programs: Vec::new(), rounds: 7, quick: false, strict: false };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            // cargo bench passes it to every bench
            "--bench" => {}
            "--help" | "-h" => return Ok(None),
            "--quick" => options.quick = true,
            "--strict" => options.strict = true,
            "--rounds" => {
                options.rounds = match arguments.next().map(|number| number.parse()) {
                    Some(Ok(rounds)) if rounds > 0 => rounds,
                    _ => return Err("--rounds needs a number of at least 1".into()),
                }
            }
            name => match PROGRAMS.iter().find(|program| **program == name) {
                Some(program) => options.programs.push(program),
                None => return Err(format!("unknown argument {name} (see --help)")),
            },
        }
    }
    if options.programs.is_empty() {
        options.programs = PROGRAMS.to_vec();
    }
    Ok(Some(options))
}

/// Runs one program of one contender.
fn run(contender: &str, program: &str, quick: bool) -> std::result::Result<Sample, String> {
    let executable = match contender {
        "bdwgc-alloc" => {
            let built = option_env!("CARGO_BIN_EXE_contender-bdwgc").filter(|_| cfg!(feature = "bdwgc"));
            built.ok_or("skipped: needs --features bdwgc, which needs cc, cmake and libclang-dev")?
        }
        _ => env!("CARGO_BIN_EXE_contender"),
    };
    let mut command = Command::new(executable);
    command.args([contender, program]).args(quick.then_some("small"));
    let process = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut process = process.map_err(|error| format!("failed: {error}"))?;
    let deadline = Instant::now() + PATIENCE;
    while process.try_wait().map_err(|error| format!("failed: {error}"))?.is_none() {
        if Instant::now() > deadline {
            // It may have ended just now, and then there is nothing to kill.
            let _ = process.kill();
            let _ = process.wait();
            return Err(format!("failed: no result within {} s", PATIENCE.as_secs()));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = process.wait_with_output().map_err(|error| format!("failed: {error}"))?;
    let (printed, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let pairs: Vec<(&str, &str)> = printed.split_whitespace().filter_map(|pair| pair.split_once('=')).collect();
    match pairs.first() {
        Some(("checksum", checksum)) if output.status.success() => Ok(Sample {
            checksum: (*checksum).to_owned(),
            numbers: pairs.iter().filter_map(|(key, value)| Some(((*key).to_owned(), value.parse().ok()?))).collect(),
        }),
        _ => Err(format!("failed: {}: {}", output.status, errors.lines().last().unwrap_or(&printed))),
    }
}

/// Whether the reason for a missing sample is no failure.
fn is_skipped(reason: &str) -> bool {
    reason.starts_with("skipped: ")
}

/// Runs a small size with each contender, and prints whether all results are the same.
fn compare_results(program: &str) -> bool {
    let mut good = true;
    let mut expected: Option<String> = None;
    for name in CONTENDERS.iter().map(|contender| contender.0).chain(["stopworld-paranoid"]) {
        let outcome = match run(name, program, true) {
            Err(reason) if is_skipped(&reason) => reason,
            Err(reason) => {
                good = false;
                reason
            }
            Ok(sample) if expected.as_ref().is_none_or(|expected| *expected == sample.checksum) => {
                let text = format!("result {}", sample.checksum);
                expected = Some(sample.checksum);
                text
            }
            Ok(sample) => {
                good = false;
                format!("WRONG RESULT {}", sample.checksum)
            }
        };
        println!("{program:8} {name:20} {outcome}");
    }
    good
}

/// Runs a program in rounds, and prints its table. Returns whether all results are right, and with `strict` whether the aims hold, too.
fn contest(program: &str, options: &Options) -> bool {
    let mut results: Vec<Result> = CONTENDERS
        .iter()
        .map(|&(name, folder)| Result { name, samples: Ok(Vec::new()), lines: lines_of_code(folder, program) })
        .collect();
    for round in 0..options.rounds {
        let mut order: Vec<usize> = (0..results.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for index in order {
            let Result { name, samples, .. } = &mut results[index];
            let Ok(so_far) = samples else { continue };
            match run(name, program, false) {
                Ok(sample) => so_far.push(sample),
                Err(reason) => *samples = Err(reason),
            }
        }
    }
    println!("\n{program}: {} interleaved rounds; medians, and the middle half of the times", options.rounds);
    println!(
        "{:12} {:>9} {:>17} {:>9} {:>11} {:>10} {:>9} {:>6}",
        "", "time ms", "middle half", "to ours", "memory MiB", "worst ms", "pause ms", "lines"
    );
    let ours = results[0].values("time_ms");
    for result in &results {
        show(result, &ours);
    }
    let right = are_right(&results);
    let aims_hold = right && judge(&results);
    right && (aims_hold || !options.strict)
}

/// Prints which contenders failed, and whether results differ. Returns whether all results are right: a contender that is skipped has none.
fn are_right(results: &[Result]) -> bool {
    let mut right = true;
    for result in results {
        if let Err(reason) = &result.samples
            && !is_skipped(reason)
        {
            println!("  FAILED: {} has no result", result.name);
            right = false;
        }
    }
    let mut checksums =
        results.iter().flat_map(|result| result.samples.iter().flatten()).map(|sample| &sample.checksum);
    let first = checksums.next();
    if checksums.any(|checksum| Some(checksum) != first) {
        println!("  FAILED: the results differ");
        right = false;
    }
    right
}

fn show(result: &Result, ours: &[f64]) {
    let Result { name, samples, lines } = result;
    if let Err(reason) = samples {
        println!("{name:12} {reason}");
        return;
    }
    let times = result.values("time_ms");
    let ratios: Vec<f64> = times.iter().zip(ours).map(|(time, ours)| time / ours).collect();
    let half = format!("{:.0} to {:.0}", quantile(&times, 0.25), quantile(&times, 0.75));
    let pauses = result.values("pause_ms");
    let pause = if pauses.is_empty() { String::new() } else { format!("{:.2}", quantile(&pauses, 0.5)) };
    println!(
        "{name:12} {:>9.0} {half:>17} {:>9.2} {:>11.1} {:>10.2} {pause:>9} {lines:>6}",
        quantile(&times, 0.5),
        if ratios.is_empty() { f64::NAN } else { quantile(&ratios, 0.5) },
        quantile(&result.values("memory_mib"), 0.5),
        quantile(&result.values("worst_ms"), 0.5),
    );
}

/// Compares our program with the best of the others, and prints whether the aims hold.
fn judge(results: &[Result]) -> bool {
    let measured: Vec<&Result> = results.iter().filter(|result| result.samples.is_ok()).collect();
    let others =
        |with_rc: bool| measured.iter().filter(move |other| with_rc || other.name != WITHOUT_COLLECTOR).copied();
    let in_time = aim("time", "time_ms", 1.0, others(false));
    let in_memory = aim("memory", "memory_mib", MOST_MEMORY, others(true));
    in_time && in_memory
}

/// Compares our number with the best of the others. The first contender is ours.
fn aim<'a>(what: &str, key: &str, most: f64, mut contenders: impl Iterator<Item = &'a Result>) -> bool {
    let Some(ours) = contenders.next().filter(|contender| contender.name == OURS) else { return false };
    let ours = ours.values(key);
    let ratio = |other: &Result| {
        let ratios: Vec<f64> = ours.iter().zip(other.values(key)).map(|(ours, other)| ours / other).collect();
        quantile(&ratios, 0.5)
    };
    let Some((ratio, name)) =
        contenders.map(|other| (ratio(other), other.name)).max_by(|one, other| one.0.total_cmp(&other.0))
    else {
        return true;
    };
    let verdict = if ratio <= most { "HOLDS" } else { "FALLS SHORT" };
    println!("  {what}: {ratio:.2} times that of {name}, aim at most {most}: {verdict}");
    ratio <= most
}

fn quantile(values: &[f64], q: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let position = q * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[position.floor() as usize], sorted[position.ceil() as usize]);
    below + (above - below) * position.fract()
}

/// Counts the lines of a program, without comments and empty lines.
fn lines_of_code(folder: &str, program: &str) -> usize {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(folder).join(program).with_extension("rs");
    let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//")).count()
}
