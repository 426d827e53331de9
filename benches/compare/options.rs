//! The command line of the comparison. Parsed by hand, so that the bench does not need the dependencies of the command.

use std::path::PathBuf;

pub const HELP: &str = "\
usage: cargo bench --bench compare -- [ROW...] [options]

  ROW             a group (stop, restart, mark, steps, allocate, programs, events) or part of a row's name
  --rounds N      number of interleaved rounds (default: 30)
  --quick         run 3 rounds
  --spread        also show the range of the middle half of the ratios
  --samples FILE  append every sample to FILE, tab-separated: row, round, side, key, value
  --calibrate     run the bare limit also in place of our side, to show the effect of noise on a ratio
  --strict        exit with 1 if a limit is missed or a row fails
  --list          print the rows and their limits, and run nothing
";

/// The parsed command line.
pub enum CommandLine {
    Compare(Options),
    Help,
}

pub struct Options {
    pub rows: Vec<String>,
    pub rounds: usize,
    pub spread: bool,
    pub samples: Option<PathBuf>,
    pub calibrate: bool,
    pub strict: bool,
    pub list: bool,
}

impl Options {
    pub fn parse(arguments: &[String]) -> Result<CommandLine, String> {
        let mut options = Options {
            rows: Vec::new(),
            rounds: 30,
            spread: false,
            samples: None,
            calibrate: false,
            strict: false,
            list: false,
        };
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let mut value = || rest.next().ok_or(format!("{argument} needs a value"));
            match argument.as_str() {
                // cargo bench passes it to every bench
                "--bench" => {}
                "--help" | "-h" => return Ok(CommandLine::Help),
                "--quick" => options.rounds = 3,
                "--spread" => options.spread = true,
                "--calibrate" => options.calibrate = true,
                "--strict" => options.strict = true,
                "--list" => options.list = true,
                "--samples" => options.samples = Some(PathBuf::from(value()?)),
                "--rounds" => {
                    options.rounds = match value()?.parse() {
                        Ok(rounds) if rounds > 0 => rounds,
                        _ => return Err("--rounds needs a number of at least 1".into()),
                    }
                }
                unknown if unknown.starts_with('-') => return Err(format!("unknown option {unknown} (see --help)")),
                row => options.rows.push(row.to_lowercase()),
            }
        }
        Ok(CommandLine::Compare(options))
    }
}
