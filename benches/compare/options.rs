//! The command line of the comparison. Parsed by hand: a bench must not need the command's dependencies.

use std::path::PathBuf;

pub const HELP: &str = "\
usage: cargo bench --bench compare -- [ROW...] [options]

  ROW             stop, restart, mark, allocate, programs, events, or a part of a row's name
  --rounds N      interleaved rounds (30)
  --quick         3 rounds
  --spread        also show the middle half of the ratios
  --samples FILE  write every sample, tab-separated: row, round, side, key, value
  --calibrate     let the bare limit run in our place too: what noise alone makes of a ratio
  --strict        exit with 1 if a row falls short
  --list          show the rows and what must hold, run nothing
";

/// What the command line asked for.
pub enum Asked {
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
    pub fn parse(arguments: &[String]) -> Result<Asked, String> {
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
                "--help" | "-h" => return Ok(Asked::Help),
                "--quick" => options.rounds = 3,
                "--spread" => options.spread = true,
                "--calibrate" => options.calibrate = true,
                "--strict" => options.strict = true,
                "--list" => options.list = true,
                "--samples" => options.samples = Some(PathBuf::from(value()?)),
                "--rounds" => {
                    options.rounds = match value()?.parse() {
                        Ok(rounds) if rounds > 0 => rounds,
                        _ => return Err("--rounds needs a number from 1 on".into()),
                    }
                }
                unknown if unknown.starts_with('-') => return Err(format!("unknown option {unknown} (see --help)")),
                row => options.rows.push(row.to_lowercase()),
            }
        }
        Ok(Asked::Compare(options))
    }
}
