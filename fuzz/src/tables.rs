//! The target that stores the tables of a trace: as Parquet files, and as a SQLite database.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use parquet::file::reader::SerializedFileReader;
use rusqlite::{Connection, OpenFlags};
use stopworld_parquet::{Dataset, FleetError, FleetOptions, Inputs, Table, Written};

use super::formats::not_converted;
use super::memory::limited;
use super::names_a_byte;

const MIB: usize = 1 << 20;

/// Writes the tables of a trace, and reads back as many rows.
pub fn tables(trace: &[u8]) {
    // The files are in memory, if there is a file system for that.
    let parent =
        Some(Path::new("/dev/shm")).filter(|path| path.is_dir()).map_or_else(std::env::temp_dir, Path::to_owned);
    let folder = tempfile::Builder::new().prefix("stopworld-fuzz-").tempdir_in(parent).expect("a folder for the files");
    let input = folder.path().join("trace.mps");
    fs::write(&input, trace).expect("the trace can be written");
    limited(256 * MIB, || parquet_files(&input, &folder.path().join("dataset")));
    if trace.starts_with(b"\0\0") {
        limited(64 * MIB, || database(trace, &folder.path().join("trace.sqlite")));
    }
    let left: BTreeSet<_> =
        entries(folder.path()).into_iter().map(|path| path.file_name().map(ToOwned::to_owned)).collect();
    let expected = ["trace.mps", "dataset", "trace.sqlite"].map(|name| Some(name.into()));
    assert!(left.iter().all(|name| expected.contains(name)), "{left:?}");
}

fn parquet_files(input: &Path, root: &Path) {
    let written = converted(input, root);
    let Some(first) = written else { return };
    let rows = rows_of(root);
    assert_eq!(rows, first.rows, "the rows that were read back, and those that were written");
    // A second conversion replaces the files.
    let again = converted(input, root).expect("it was converted before");
    assert_eq!((&again.rows, again.bytes_written), (&first.rows, first.bytes_written));
    assert_eq!(rows_of(root), first.rows);
}

fn converted(input: &Path, root: &Path) -> Option<Written> {
    let dataset = Dataset::open(root).expect("a dataset in memory");
    let options = FleetOptions { jobs: NonZeroUsize::MIN, ..FleetOptions::default() };
    let inputs = Inputs::find(&[input.to_owned()], root, &[]);
    let mut outcome = None;
    stopworld_parquet::convert(&inputs, &dataset, &options, |file| outcome = Some(file.result));
    match outcome.expect("one trace") {
        Ok(written) => {
            if let Some(damage) = &written.damage {
                names_a_byte(damage);
            }
            Some(written)
        }
        Err(FleetError::Convert(error)) => {
            not_converted(&error);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Returns the number of rows of each table of a dataset, which are read one by one.
fn rows_of(root: &Path) -> BTreeMap<Table, u64> {
    let mut rows = BTreeMap::new();
    for table in Table::ALL {
        let folder = root.join(table.name());
        // host=…/process=…/day=…/PART.parquet
        let mut files = if folder.is_dir() { vec![folder] } else { Vec::new() };
        for _ in 0..4 {
            files = files.iter().flat_map(|folder| entries(folder)).collect();
        }
        for file in files {
            let reader = SerializedFileReader::new(File::open(&file).expect("a part file"))
                .expect("a part file that was just written");
            let count = reader.into_iter().map(|row| row.expect("a row that was just written")).count();
            *rows.entry(table).or_default() += count as u64;
        }
    }
    rows
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder of the dataset");
    entries.map(|entry| entry.expect("an entry of the folder").path()).collect()
}

fn database(stream: &[u8], path: &Path) {
    let source = stopworld_sqlite::Source { name: "trace.mps", bytes: stream.len() as u64, modified: 0 };
    let imported = stopworld_sqlite::import(stream, path, &source).expect("a database in memory");
    if let Some(damage) = &imported.damage {
        names_a_byte(damage);
    }
    let database =
        Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).expect("a database that was just written");
    let number = |query: &str| -> i64 { database.query_row(query, [], |row| row.get(0)).expect(query) };
    assert_eq!(number("SELECT completed FROM event_log"), imported.events as i64);
    let mut names = database.prepare("SELECT name FROM event_type").expect("the table of types");
    let names: Vec<String> =
        names.query_map([], |row| row.get(0)).expect("names").map(|name| name.expect("a name")).collect();
    let rows: i64 = names.iter().map(|name| number(&format!("SELECT count(*) FROM EVENT_{name}"))).sum();
    assert_eq!(rows, imported.events as i64);
}
