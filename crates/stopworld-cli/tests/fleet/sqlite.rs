//! `stopworld convert run.mps run.sqlite`, in a build with SQLite and in one without.

use super::command_support::{directory, run, text};
use super::fixture;

use std::fs;

#[cfg(not(feature = "sqlite"))]
#[test]
fn sqlite_is_missing_in_a_build_with_rust_only() {
    let here = directory();
    fs::copy(fixture("mps/model-marksweep.bin"), here.path().join("run.mps")).unwrap();
    for arguments in ["convert run.mps run.sqlite", "convert run.mps run --format sqlite"] {
        let output = run(here.path(), arguments);
        let said = text(&output.stderr);
        assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
        assert!(said.contains("--features sqlite"), "{said}");
    }
    assert_eq!(fs::read_dir(here.path()).unwrap().count(), 1, "something was written");
}

/// Python's sqlite3 finds as many events of each type as `eventcnv` prints.
#[cfg(feature = "sqlite")]
#[test]
fn sqlite_databases_have_the_events_of_a_real_run() {
    use super::{skipped::skipped, succeeded};
    use std::collections::BTreeMap;
    use std::process::Command;

    let here = directory();
    succeeded(&run(here.path(), "run binary-trees --collections 3 --trace run.mps"));
    fs::write(here.path().join("run.sqlite"), "replaced").unwrap();
    succeeded(&run(here.path(), "convert run.mps run.sqlite"));
    let mut expected: BTreeMap<String, u64> = BTreeMap::new();
    for line in text(&run(here.path(), "eventcnv -f run.mps").stdout).lines() {
        *expected.entry(line.split_whitespace().nth(1).unwrap().to_owned()).or_default() += 1;
    }
    const SCRIPT: &str = "\
import sqlite3
connection = sqlite3.connect('run.sqlite')
for (name,) in connection.execute('SELECT name FROM event_type').fetchall():
    print(name, *connection.execute(f'SELECT count(*) FROM EVENT_{name}').fetchone())
print('completed', *connection.execute('SELECT completed FROM event_log').fetchone())";
    let Ok(output) = Command::new("python3").args(["-c", SCRIPT]).current_dir(here.path()).output() else {
        return skipped("python3");
    };
    succeeded(&output);
    let mut found: BTreeMap<String, u64> = BTreeMap::new();
    for line in text(&output.stdout).lines() {
        let (name, count) = line.split_once(' ').unwrap();
        found.insert(name.to_owned(), count.parse().unwrap());
    }
    assert_eq!(found.remove("completed"), Some(expected.values().sum()));
    found.retain(|_, count| *count > 0);
    assert_eq!(found, expected);
    assert!(found.len() > 10, "{found:?}");

    // Only a stream can be converted.
    fs::copy(fixture("nettrace/bgc-srv.nettrace"), here.path().join("run.nettrace")).unwrap();
    let output = run(here.path(), "convert run.nettrace other.sqlite");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("only a telemetry stream"));
    assert_eq!(fs::read_dir(here.path()).unwrap().count(), 3, "a temporary file is left");
}
