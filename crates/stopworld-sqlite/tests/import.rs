//! Databases of real streams, read by Python's sqlite3: tables and rows are those of the real mpseventsql.

#[path = "../../../tests/skipped/mod.rs"]
mod skipped;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use mps_telemetry::encode::Encoder;
use mps_telemetry::{Version, v2};
use rusqlite::Connection;
use rusqlite::types::Value;
use skipped::skipped;
use stopworld_sqlite::{Imported, Source, import};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/mps")
}

fn imported(stream: &[u8], folder: &Path) -> (Imported, PathBuf) {
    let database = folder.join("run.sqlite");
    let source = Source { name: "run.mps", bytes: stream.len() as u64, modified: 7 };
    (import(stream, &database, &source).unwrap(), database)
}

/// The lines of Debian's Python for a query, or `None` if there is none.
fn python(database: &Path, sql: &str) -> Option<Vec<String>> {
    const SCRIPT: &str = "\
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
for row in connection.execute(sys.argv[2]): print(*row, sep='|')";
    let Ok(output) = Command::new("python3").args(["-c", SCRIPT]).arg(database).arg(sql).output() else {
        skipped("python3");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect())
}

/// Lists the tables with their columns and rows. The row of `event_log`, and the columns with descriptions, are left out: they are no facts of the stream.
fn listed(database: &Path) -> Vec<String> {
    let connection = Connection::open(database).unwrap();
    let texts = |sql: &str| {
        let mut statement = connection.prepare(sql).unwrap();
        let columns = statement.column_count();
        let rows = statement.query_map([], |row| (0..columns).map(|column| row.get(column)).collect()).unwrap();
        rows.collect::<Result<Vec<Vec<Value>>, _>>().unwrap()
    };
    let shown = |value: &Value| match value {
        Value::Null => "None".to_owned(),
        Value::Integer(number) => number.to_string(),
        Value::Real(number) => format!("{number:?}"),
        Value::Text(text) => text.clone(),
        Value::Blob(_) => unreachable!("no column has blobs"),
    };
    let mut lines = Vec::new();
    for name in texts("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name")
    {
        let name = shown(&name[0]);
        let columns = texts(&format!("SELECT name, type, pk FROM pragma_table_info('{name}')"));
        let key = |column: &[Value]| if column[2] == Value::Integer(0) { "" } else { ":key" };
        let heads = columns.iter().map(|column| format!(" {}:{}{}", shown(&column[0]), shown(&column[1]), key(column)));
        lines.push(format!("{name}{}", heads.collect::<String>()));
        if name == "event_log" {
            continue;
        }
        let is_fact = |index: usize| !["description", "doc"].contains(&shown(&columns[index][0]).as_str());
        for row in texts(&format!("SELECT * FROM {name} ORDER BY rowid")) {
            let values = row.iter().enumerate().filter(|(index, _)| is_fact(*index));
            lines.push(values.fold(" ".to_owned(), |line, (_, value)| format!("{line}|{}", shown(value))));
        }
    }
    lines
}

/// The fixture lists the database that the real mpseventsql made of the same stream (of its text by mpseventcnv).
#[test]
fn tables_and_rows_are_those_of_mpseventsql() {
    let folder = tempfile::tempdir().unwrap();
    let stream = fs::read(fixtures().join("model-marksweep.bin")).unwrap();
    let (imported, database) = imported(&stream, folder.path());
    let real = fs::read_to_string(fixtures().join("model-marksweep.mpseventsql")).unwrap();
    // mpseventsql keeps the quotation mark before a string.
    let real: Vec<String> = real.lines().map(|line| line.replace("|\"", "|")).collect();
    let ours = listed(&database);
    for (ours, real) in ours.iter().zip(&real) {
        assert_eq!(ours, real);
    }
    assert_eq!(ours.len(), real.len());
    assert_eq!(imported, Imported { events: 295, unknown: 0, damage: None });
}

#[test]
fn another_reader_finds_the_same_numbers_of_events() {
    let folder = tempfile::tempdir().unwrap();
    let stream = fs::read(fixtures().join("model-marksweep.bin")).unwrap();
    let (imported, database) = imported(&stream, folder.path());
    let Some(log) = python(&database, "SELECT name, size, modtime, completed, serial FROM event_log") else { return };
    assert_eq!(log, [format!("run.mps|{}|7|{}|1", stream.len(), imported.events)]);
    // The description of the tables leads to the tables.
    let types = python(&database, "SELECT t.name FROM event_type t JOIN event_kind k ON t.kind = k.enum ORDER BY code")
        .unwrap();
    assert_eq!(types, Version::V2.layouts().iter().map(|layout| layout.name).collect::<Vec<_>>());
    let counts: Vec<String> = types.iter().map(|name| format!("SELECT count(*) AS n FROM EVENT_{name}")).collect();
    let sum = python(&database, &format!("SELECT sum(n) FROM ({})", counts.join(" UNION ALL "))).unwrap();
    assert_eq!(sum, [imported.events.to_string()]);
}

#[test]
fn values_of_each_sort_are_stored() {
    let mut encoder = Encoder::new(Vec::new());
    encoder.event(1, &v2::ArenaSetSpare { arena: u64::MAX, spare: 0.75 }).unwrap();
    encoder.event(2, &v2::Intern { stringId: 9, string: b"a \"quoted\" text" }).unwrap();
    encoder.event(3, &v2::ArenaSetEmergency { arena: 5, emergency: true }).unwrap();
    let mut stream = encoder.end().unwrap();
    let whole = stream.len();
    // A record of an unknown code, and one that is cut.
    stream.extend([0xFF, 0x7F, 16, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0]);
    stream.extend_from_within(..20);
    let folder = tempfile::tempdir().unwrap();
    let (imported, database) = imported(&stream, folder.path());
    assert_eq!((imported.events, imported.unknown), (3, 1));
    assert!(imported.damage.unwrap().contains(&format!("byte {}", whole + 16)));
    let sql = "SELECT arena, spare, time FROM EVENT_ArenaSetSpare UNION ALL SELECT stringId, string, time FROM EVENT_Intern \
               UNION ALL SELECT arena, emergency, time FROM EVENT_ArenaSetEmergency";
    let Some(rows) = python(&database, sql) else { return };
    assert_eq!(rows, [format!("{}|0.75|1", i64::MAX), "9|a \"quoted\" text|2".to_owned(), "5|1|3".to_owned()]);
}
