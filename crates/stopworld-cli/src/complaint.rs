//! One-line messages for wrong arguments: what is wrong, where, and what to write instead.
//!
//! clap prints paragraphs (the fault, a tip, the usage, and how to get help). A user who mistyped a word needs the
//! first two paragraphs, but the rest scrolls them off the screen. So a message here is clap's own text up to the usage,
//! joined into one line.

use std::ffi::OsStr;

use clap::CommandFactory;
use clap::error::ErrorKind;

use super::arguments::Command;
use super::eventcnv;

/// What to print for arguments that did not parse.
pub(super) enum ArgumentError {
    /// Help or version was requested: print it on stdout and succeed.
    Help(clap::Error),
    /// One line for stderr; the exit code is [`USAGE`].
    Usage(String),
}

impl ArgumentError {
    /// Converts clap's error; `action` is the first argument.
    pub(super) fn about(error: clap::Error, action: Option<&OsStr>) -> ArgumentError {
        let is_help = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
        if action == Some(OsStr::new("eventcnv")) && !is_help {
            return ArgumentError::Usage(one_line(&error.render().to_string()) + "; " + eventcnv::USAGE);
        }
        let debugs = [("debug", "debug [OPTIONS] -- PROGRAM [ARGUMENTS]"), ("attach", "attach [OPTIONS] PID")];
        if let Some((_, usage)) = debugs.iter().find(|(name, _)| action == Some(OsStr::new(name)))
            && !is_help
        {
            return ArgumentError::Usage(format!(
                "{}; usage: stopworld {usage}",
                one_line(&error.render().to_string())
            ));
        }
        // The first argument may be mistyped: keep it only if it names a subcommand.
        let action = action.and_then(OsStr::to_str).filter(|name| Command::command().find_subcommand(name).is_some());
        match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => ArgumentError::Help(error),
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand if action == Some("eventlog") => {
                ArgumentError::Usage("error: no subcommand given: `stopworld eventlog show FILE` prints the events".to_owned())
            }
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => ArgumentError::Usage(
                "error: no subcommand given: `stopworld run binary-trees` runs a workload, `stopworld --help` lists the others"
                    .to_owned(),
            ),
            kind => {
                let line = one_line(&error.render().to_string());
                ArgumentError::Usage(match kind {
                    ErrorKind::MissingRequiredArgument if line.contains("<WORKLOAD>") => {
                        line + "; `stopworld workloads` lists what can be run"
                    }
                    _ => with_remedy(line, action),
                })
            }
        }
    }
}

/// Appends the help command to the line unless the line already states a remedy.
fn with_remedy(line: String, action: Option<&str>) -> String {
    let is_number = line.ends_with("invalid digit found in string");
    let has_remedy = !is_number && ["; tip: ", "[possible values", "': "].iter().any(|remedy| line.contains(remedy));
    match action {
        _ if has_remedy => line,
        Some(action) => format!("{line}; `stopworld {action} --help` explains the options"),
        None => format!("{line}; `stopworld --help` lists the commands"),
    }
}

/// Joins clap's message, up to its usage paragraph, into one line.
fn one_line(rendered: &str) -> String {
    let mut line = String::new();
    let lines = rendered.lines().map(str::trim).take_while(|l| !l.starts_with("Usage:") && !l.starts_with("For more"));
    let mut is_list = false;
    // The advice to write `-- --option` is for an argument that begins with a dash. A mistyped option is more likely.
    for part in lines.filter(|l| !l.starts_with("tip: to pass '")) {
        if part.is_empty() {
            is_list = false;
            continue;
        }
        let begins_list = line.ends_with(':');
        if !line.is_empty() {
            let separator = if is_list { ", " } else { "; " };
            line.push_str(if begins_list || part.starts_with('[') { " " } else { separator });
        }
        is_list |= begins_list;
        line.push_str(part);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use rstest::rstest;

    #[rstest]
    #[case(&["run", "churn", "--thread", "2"], &["'--thread'", "'--threads'"])]
    #[case(&["run", "churn", "--threads", "0"], &["'--threads <N>'", "'0'", "from 1 to 4096"])]
    #[case(&["run", "churn", "--threads", "-3"], &["'--threads <N>'", "'-3'", "from 1 to"])]
    #[case(&["run", "churn", "--stop", "signal"], &["'--stop <HOW>'", "possible values", "'signals'"])]
    #[case(&["run", "churn", "--heap-limit", "64parsecs"], &["'--heap-limit <SIZE>'", "unknown unit 'parsecs'"])]
    #[case(&["run", "churn", "--heap-limit", "-5"], &["'--heap-limit <SIZE>'", "64MiB"])]
    #[case(&["run", "churn", "--seconds", "NaN"], &["'--seconds <S>'", "above 0"])]
    #[case(&["run", "churn", "--seconds", "1", "--collections", "1"], &["--seconds", "--collections", "cannot be used with"])]
    #[case(&["run", "churn", "--threads"], &["'--threads <N>'", "--help"])]
    #[case(&["run"], &["WORKLOAD", "stopworld workloads"])]
    #[case(&["run", "churn", "--metrics", "-1"], &["'-1'", "IP:PORT", "0 to 65535"])]
    #[case(&["run", "churn", "--no-such"], &["'--no-such' found; `stopworld run --help`"])]
    #[case(&["heap", "a.hprof", "--top", "-1"], &["'--top <N>'", "'-1'", "a whole number from 0 to"])]
    #[case(&["heapprof", "a.eventlog", "--top", "x"], &["'--top <N>'", "'x'", "a whole number from 0 to"])]
    #[case(&["core", "core", "--top", "-1"], &["'--top <N>'", "'-1'", "a whole number from 0 to"])]
    #[case(&["heap", "a.nettrace", "--collection", "x"], &["'--collection <N>'", "'x'", "a whole number from 1 to"])]
    #[case(&["heap", "a.hprof", "--why", "-5"], &["'--why <ADDR>'", "'-5'", "0x7f3a10002040"])]
    #[case(&["core", "core", "--object", "-5"], &["'--object <ADDR>'", "'-5'", "0x7f3a10002040"])]
    #[case(&["core", "core", "--world", "-1"], &["'--world <N>'", "'-1'", "a whole number from 0 to"])]
    #[case(&["convert", "a.nettrace", "a.parquet", "--jobs", "0"], &["'--jobs <N>'", "'0'", "a whole number from 1 to"])]
    #[case(&["gcstats", "a.nettrace", "--process", "-1"], &["'--process <PID>'", "'-1'", "a whole number from 0 to"])]
    #[case(&["snapshot"], &["--output <FILE>, <PID|FILE>; `stopworld snapshot --help`"])]
    #[case(&["snapshot", "1", "-o", "-"], &["'--output <FILE>'", "standard output", ".hprof"])]
    #[case(&["run", "churn", "--snapshot", "-"], &["'--snapshot <FILE>'", "standard output", ".hprof"])]
    #[case(&["run", "churn", "--alloc-stacks", "-"], &["'--alloc-stacks <FILE>'", "standard output", ".folded"])]
    #[case(&["run", "churn", "--flight-at-end"], &["--flight-recorder", "stopworld run --help"])]
    #[case(&["run", "churn", "--profile", "hc", "--interval", "-5gc"], &["'-5gc'", "from 1 on"])]
    #[case(&["run", "churn", "--time-profile", "--tick", "1e-12"], &["'1e-12'", "at least 0.00002 seconds"])]
    #[case(&["run", "churn", "--otlp", ""], &["'--otlp <URL>'", "empty", "http://127.0.0.1:4318"])]
    #[case(&["run", "churn", "--otlp", "http://"], &["'http://'", "host", "http://127.0.0.1:4318"])]
    #[case(&["run", "churn", "--otlp", "https://127.0.0.1:4318"], &["https:// is not supported"])]
    #[case(&["run", "churn", "--otlp", "127.0.0.1:4318"], &["does not begin with http://"])]
    #[case(&["run", "churn", "--otlp", "http://127.0.0.1:99999"], &["port", "http://127.0.0.1:4318"])]
    #[case(&["heapprof", "x", "--pprof", "--at", "-1"], &["'--at <WHEN>'", "'-1'", "seconds above 0"])]
    #[case(&["gcstats"], &["FILE", "stopworld gcstats --help"])]
    #[case(&["gcstats", "x", "--csv", "--xml"], &["'--csv'", "'--xml'", "stopworld gcstats --help"])]
    #[case(&["run", "churn", "--events", "Bogus"], &["'Bogus'", "Arena Pool Trace", "GCHandle"])]
    #[case(&["debug"], &["PROGRAM", "usage: stopworld debug"])]
    #[case(&["debug", "--mod", "full", "x"], &["'--mod'", "'--mode'"])]
    #[case(&["debug", "--mode", "half", "x"], &["'half'", "full", "assisted"])]
    #[case(&["attach"], &["PID", "usage: stopworld attach"])]
    #[case(&["attach", "init"], &["'init'", "usage: stopworld attach"])]
    #[case(&["attach", "-1"], &["'-1'", "usage: stopworld attach"])]
    #[case(&["rum", "churn"], &["'rum'", "'run'"])]
    #[case(&["eventcnv", "-SX"], &["Unknown style code 'X'", "-SL", "usage: stopworld eventcnv"])]
    #[case(&["eventcnv", "-f"], &["'-f <FILE>'", "usage: stopworld eventcnv"])]
    #[case(&["eventcnv", "-q"], &["'-q'", "usage: stopworld eventcnv"])]
    #[case(&["eventcnv", "mpsio.log"], &["'mpsio.log'", "-f FILE"])]
    #[case(&["eventcnv", "--cnv", "--txt"], &["cannot be used with", "--cnv | --txt"])]
    #[case(&["eventcnv", "--mps-version", "3"], &["possible values: 1.0.0, 2.0.0"])]
    #[case(&[], &["stopworld --help"])]
    fn a_wrong_argument_gets_one_line_with_the_place_and_the_remedy(#[case] words: &[&str], #[case] expected: &[&str]) {
        let error = Command::try_parse_from([&["stopworld"], words].concat()).expect_err("these arguments are wrong");
        let ArgumentError::Usage(line) = ArgumentError::about(error, words.first().map(OsStr::new)) else {
            panic!("help instead of a complaint")
        };
        assert_eq!(line.lines().count(), 1, "{line}");
        assert!(line.starts_with("error: "), "{line}");
        for part in expected {
            assert!(line.contains(part), "'{line}' does not contain {part}");
        }
    }
}
