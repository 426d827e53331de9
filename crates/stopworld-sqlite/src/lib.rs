//! Telemetry streams of the Memory Pool System as SQLite databases, with the tables of mpseventsql.
//!
//! ```text
//!   event_kind   name, description, enum                      the categories of events
//!   event_type   name, code, used, kind                       the types of events
//!   event_param  type, param_index, sort, ident, doc          their parameters
//!   event_log    name, size, modtime, completed, serial       the stream; completed is the number of its events
//!   EVENT_NAME   a column for each parameter, time, log_serial
//! ```
//!
//! Columns, types and keys are those of mpseventsql, and so is a number above 2⁶³ − 1: it is stored as 2⁶³ − 1, the largest number of SQLite. These differ:
//!
//! | | here | mpseventsql |
//! |---|---|---|
//! | a string | as it is | begins with a quotation mark, and quotation marks in it have a backslash |
//! | a record with an unknown code | left out, and counted | ends the import |
//! | a record that is too short | null in the columns that it lacks | ends the import |
//! | `description` and `doc` | descriptions by this project | the comments of the Memory Pool System |

use std::io::{self, Read};
use std::path::Path;

use mps_telemetry::reader::{End, Reader, Record};
use mps_telemetry::{Category, Layout, Param, Sort, Version};
use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{Connection, Statement, ToSql, Transaction, params};

/// The stream, for the row of `event_log`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its size.
    pub bytes: u64,
    /// When it was last modified, in seconds since 1970.
    pub modified: i64,
}

/// The result of an import.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// The number of events in the database.
    pub events: u64,
    /// The number of records that were left out because their code is unknown.
    pub unknown: u64,
    /// The damage at which the stream ended, with its offset.
    pub damage: Option<String>,
}

/// The reason why an import failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// Reading the stream failed.
    #[error("cannot read the stream at byte {offset}: {error}")]
    Input {
        /// The number of bytes read before the error.
        offset: u64,
        /// The error of the read.
        error: io::Error,
    },
    /// Writing the database failed.
    #[error("cannot write the database: {0}")]
    Database(#[from] rusqlite::Error),
}

/// The description of a category.
fn description(category: Category) -> &'static str {
    match category {
        Category::Arena => "arenas: memory from the operating system",
        Category::Pool => "pools",
        Category::Trace => "collections",
        Category::Seg => "segments, and their scanning",
        Category::Ref => "references",
        Category::Object => "objects",
        Category::User => "names and labels from the program",
    }
}

/// The letter of a sort, and the type of its columns.
fn sort_of(sort: Sort) -> (&'static str, &'static str) {
    match sort {
        Sort::P => ("P", "INTEGER"),
        Sort::A => ("A", "INTEGER"),
        Sort::W => ("W", "INTEGER"),
        Sort::U => ("U", "INTEGER"),
        Sort::B => ("B", "INTEGER"),
        Sort::D => ("D", "REAL"),
        Sort::S => ("S", "TEXT"),
    }
}

/// Imports a stream into a new database at this path.
///
/// # Errors
///
/// The stream cannot be read, or the database cannot be written; then an incomplete file may be left.
pub fn import<R: Read>(input: R, database: &Path, source: &Source<'_>) -> Result<Imported, ImportError> {
    let mut connection = Connection::open(database)?;
    // The file is not used until it is complete.
    connection.execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")?;
    let transaction = connection.transaction()?;
    let mut reader = Reader::new(input);
    let version = reader.detect().map_err(|error| ImportError::Input { offset: 0, error })?;
    create(&transaction, version)?;
    transaction.execute(
        "INSERT INTO event_log (name, size, modtime, completed) VALUES (?, ?, ?, 0)",
        params![source.name, clamped(source.bytes), source.modified],
    )?;
    let serial = transaction.last_insert_rowid();
    let imported = events(&transaction, &mut reader, version, serial)?;
    transaction
        .execute("UPDATE event_log SET completed = ? WHERE serial = ?", params![clamped(imported.events), serial])?;
    transaction.commit()?;
    connection.close().map_err(|(_, error)| error)?;
    Ok(imported)
}

/// Creates all tables, and fills those that describe the events.
fn create(transaction: &Transaction<'_>, version: Version) -> Result<(), rusqlite::Error> {
    transaction.execute_batch(
        "CREATE TABLE event_kind (name TEXT, description TEXT, enum INTEGER PRIMARY KEY);
         CREATE TABLE event_type (name TEXT, code INTEGER PRIMARY KEY, used INTEGER, kind INTEGER,
             FOREIGN KEY (kind) REFERENCES event_kind (enum));
         CREATE TABLE event_param (type INTEGER, param_index INTEGER, sort TEXT, ident TEXT, doc TEXT,
             FOREIGN KEY (type) REFERENCES event_type (code));
         CREATE TABLE event_log (name TEXT, size INTEGER, modtime INTEGER, completed INTEGER,
             serial INTEGER PRIMARY KEY AUTOINCREMENT);",
    )?;
    for category in Category::ALL {
        let row = params![category.name(), description(category), category as u8];
        transaction.execute("INSERT INTO event_kind (name, description, enum) VALUES (?, ?, ?)", row)?;
    }
    for layout in version.layouts() {
        let row = params![layout.name, layout.code, layout.category as u8];
        transaction.execute("INSERT INTO event_type (name, code, used, kind) VALUES (?, ?, 1, ?)", row)?;
        let mut columns = String::new();
        for (index, param) in layout.params.iter().enumerate() {
            let (sort, kind) = sort_of(param.sort);
            columns += &format!("\"{}\" {kind}, ", param.name);
            let doc = param.unit.map_or(String::new(), |unit| format!("{unit:?}"));
            transaction.execute(
                "INSERT INTO event_param (type, param_index, sort, ident, doc) VALUES (?, ?, ?, ?, ?)",
                params![layout.code, index as i64, sort, param.name, doc],
            )?;
        }
        transaction.execute_batch(&format!(
            "CREATE TABLE EVENT_{} ({columns}time INTEGER, log_serial INTEGER)",
            layout.name
        ))?;
    }
    Ok(())
}

/// Imports the records in the order of the stream.
fn events<R: Read>(
    transaction: &Transaction<'_>,
    reader: &mut Reader<R>,
    version: Version,
    serial: i64,
) -> Result<Imported, ImportError> {
    let layouts = version.layouts();
    let mut statements: Vec<Option<Statement<'_>>> = layouts.iter().map(|_| None).collect();
    let mut imported = Imported::default();
    let end = loop {
        match reader.buffered() {
            Ok(Some(record)) => {
                let Some(index) = layouts.iter().position(|layout| layout.code == record.code()) else {
                    imported.unknown += 1;
                    continue;
                };
                let statement = match &mut statements[index] {
                    Some(statement) => statement,
                    none => none.insert(transaction.prepare(&insert(&layouts[index]))?),
                };
                row(statement, &layouts[index], &record, serial)?;
                imported.events += 1;
            }
            Ok(None) => {
                let offset = reader.offset();
                if !reader.fill().map_err(|error| ImportError::Input { offset, error })? {
                    break reader.end();
                }
            }
            Err(damage) => break Err(damage),
        }
    };
    imported.damage = match end {
        Ok(End::Clean) => None,
        Ok(End::Stray { offset, bytes }) => {
            Some(format!("{bytes} stray bytes at byte {offset}, where a record should begin"))
        }
        Err(damage) => Some(damage.to_string()),
    };
    Ok(imported)
}

fn insert(layout: &Layout) -> String {
    let columns: String = layout.params.iter().map(|param| format!("\"{}\", ", param.name)).collect();
    format!(
        "INSERT INTO EVENT_{} ({columns}time, log_serial) VALUES ({}?, ?)",
        layout.name,
        "?, ".repeat(layout.params.len())
    )
}

fn row(
    statement: &mut Statement<'_>,
    layout: &Layout,
    record: &Record<'_>,
    serial: i64,
) -> Result<(), rusqlite::Error> {
    for (index, param) in layout.params.iter().enumerate() {
        statement.raw_bind_parameter(index + 1, cell(param, record))?;
    }
    let params = layout.params.len();
    statement.raw_bind_parameter(params + 1, clamped(record.clock()))?;
    statement.raw_bind_parameter(params + 2, serial)?;
    statement.raw_execute().map(drop)
}

/// A parameter's value in its column.
struct Cell<'a>(ToSqlOutput<'a>);

impl ToSql for Cell<'_> {
    fn to_sql(&self) -> Result<ToSqlOutput<'_>, rusqlite::Error> {
        Ok(self.0.clone())
    }
}

fn cell<'a>(param: &Param, record: &Record<'a>) -> Cell<'a> {
    let at = usize::from(param.offset);
    let number =
        |value: Option<u64>| ToSqlOutput::Owned(value.map_or(Value::Null, |value| Value::Integer(clamped(value))));
    Cell(match param.sort {
        Sort::P | Sort::A | Sort::W => number(record.word(at)),
        Sort::U => number(record.unsigned(at).map(u64::from)),
        Sort::B => number(record.boolean(param).map(u64::from)),
        Sort::D => ToSqlOutput::Owned(record.word(at).map_or(Value::Null, |bits| Value::Real(f64::from_bits(bits)))),
        Sort::S => match record.string(at) {
            Some(text) => ToSqlOutput::Borrowed(ValueRef::Text(text)),
            None => ToSqlOutput::Owned(Value::Null),
        },
    })
}

/// Converts a number; one that SQLite does not have becomes its largest.
fn clamped(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Runs the examples of the README as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
