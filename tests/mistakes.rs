//! `.promise.search`: each row of the README's table of mistakes, as a program of its own (`examples/hidden.rs`, which is compiled into this one).
//! The references of one row are not addresses: they cannot be found, and the program runs on as if nothing were wrong.
//!
//! The mistakes are made on the main thread, whose thread-local variables are not part of its stack. So this program has its own `main`.
//!
//! Usage: `cargo test --test mistakes -- [PART OF A MISTAKE'S NAME]…`

#[path = "../examples/hidden.rs"]
mod hidden;

use std::process::{Command, ExitCode, Output};

/// What the report says of the place of the reference, or what the program prints.
#[derive(Clone, Copy)]
enum Expected {
    /// In a block that this function has allocated.
    Block(&'static str),
    /// In an object of this type that this function has allocated.
    Object(&'static str, &'static str),
    At(&'static str),
    Nothing,
}
use Expected::{At, Block, Nothing, Object};

/// The rows, with the mistakes that stand for them.
const ROWS: &[(&str, &[(&str, Expected)])] = &[
    (
        "a `Box`, `Vec`, `HashMap`, `Rc` …",
        &[("hash-map", Block("hidden::hash_map")), ("boxed", Block("hidden::boxed"))],
    ),
    (
        "a `thread_local!` or a `static`",
        &[
            ("thread-local", At("a thread-local variable of the main thread")),
            ("static", At("the static variable mistakes::hidden::CACHE")),
        ],
    ),
    ("a future or another coroutine", &[("future", Block("hidden::in_a_future::begin"))]),
    (
        "a `Leaf` or a skipped field, by a wrapper that claims to be `Send + Sync`",
        &[("leaf", Object("Leaf<mistakes::hidden::Wrapped>, at byte 0, which is not scanned", "hidden::in_a_leaf"))],
    ),
    ("an array that std's stable sort (`sort`, `sort_by` …) sorts", &[("sort", Block("hidden::in_a_sort"))]),
    ("an integer that is not its address (xor, compressed, in a file)", &[("xored", Nothing)]),
];

fn make(mistake: &str, suppressed: &str) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["make", mistake]).env("STOPWORLD_SUPPRESS_HIDDEN", suppressed).env("RUST_BACKTRACE", "0");
    command.output().unwrap()
}

/// Makes a mistake, and returns what is wrong with its report.
fn check(mistake: &str, expected: Expected) -> Result<(), String> {
    let output = make(mistake, "");
    let report = String::from_utf8(output.stderr).unwrap();
    let lines: Vec<&str> = report.lines().map(str::trim).collect();
    let claim = |holds: bool, claim: &str| if holds { Ok(()) } else { Err(format!("{mistake}: {claim}:\n{report}")) };
    if matches!(expected, Nothing) {
        return claim(output.status.success() && report.is_empty(), "there should be no report");
    }
    claim(output.status.code() == Some(101), "the program should have panicked")?;
    let first = "stopworld: collection 1 would have freed an object that a hidden reference refers to";
    claim(lines.first() == Some(&first), "the first line should say what was found")?;
    claim(lines[1].contains("hidden::Account, 16 bytes at 0x"), "the report should name the type")?;
    let names = |line: &str, function: &str| line.starts_with(function) && line.contains("examples/hidden.rs:");
    claim(
        names(lines[2], "allocated by mistakes::hidden::open_account ("),
        "the report should name where the object was allocated",
    )?;
    let place = lines.iter().position(|line| line.starts_with("hidden in")).unwrap_or(0);
    match expected {
        Block(function) => {
            claim(lines[place].contains("a block of"), "the reference is in a block")?;
            claim(
                names(lines[place + 1], &format!("allocated by mistakes::{function} (")),
                "the report should name where the block was allocated",
            )
        }
        Object(text, function) => {
            claim(lines[place].ends_with(text), "the reference is in an object of this type")?;
            claim(
                names(lines[place + 1], &format!("allocated by mistakes::{function} (")),
                "the report should name where the object was allocated",
            )
        }
        At(text) => claim(lines[place].ends_with(text), "the report should name the variable"),
        Nothing => Ok(()),
    }
}

fn rows_are_those_of_the_readme() -> Result<(), String> {
    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")).unwrap();
    let table = readme.split("| a `Gc` in |").nth(1).unwrap().split("\n\n").next().unwrap();
    let rows: Vec<&str> = table.lines().skip(2).map(|row| row.split('|').nth(1).unwrap().trim()).collect();
    let tested: Vec<&str> = ROWS.iter().map(|(row, _)| *row).collect();
    if rows == tested { Ok(()) } else { Err(format!("the README has the rows {rows:?}, and this test {tested:?}")) }
}

fn the_corrected_program_has_no_report() -> Result<(), String> {
    let output = make("hash-map-fixed", "");
    match (output.stderr.as_slice(), output.stdout.as_slice()) {
        (b"", b"70\n") => Ok(()),
        _ => Err(format!("the corrected program: {output:?}")),
    }
}

fn the_environment_suppresses_reports() -> Result<(), String> {
    let output = make("hash-map", "nothing::like, hidden::hash*map");
    match (output.stderr.as_slice(), output.stdout.as_slice()) {
        // The object is kept nevertheless.
        (b"", b"70\n") => Ok(()),
        _ => Err(format!("with a suppression: {output:?}")),
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    if let [make, mistake] = arguments.as_slice()
        && make == "make"
    {
        println!("{}", hidden::run(mistake).unwrap());
        return ExitCode::SUCCESS;
    }
    let asked = |name: &str| arguments.is_empty() || arguments.iter().any(|argument| name.contains(argument.as_str()));
    let mistakes = ROWS.iter().flat_map(|(_, mistakes)| *mistakes).filter(|(mistake, _)| asked(mistake));
    let mut results: Vec<(&str, Result<(), String>)> =
        mistakes.map(|(mistake, expected)| (*mistake, check(mistake, *expected))).collect();
    let mut test = |name, test: fn() -> Result<(), String>| {
        if asked(name) {
            results.push((name, test()));
        }
    };
    test("rows_are_those_of_the_readme", rows_are_those_of_the_readme);
    test("the_corrected_program_has_no_report", the_corrected_program_has_no_report);
    test("the_environment_suppresses_reports", the_environment_suppresses_reports);
    for (name, result) in &results {
        println!("test {name} ... {}", if result.is_ok() { "ok" } else { "FAILED" });
    }
    let failures: Vec<&String> = results.iter().filter_map(|(_, result)| result.as_ref().err()).collect();
    failures.iter().for_each(|failure| eprintln!("\n{failure}"));
    println!("\ntest result: {} passed; {} failed", results.len() - failures.len(), failures.len());
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
