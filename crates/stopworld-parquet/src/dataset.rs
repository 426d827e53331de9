//! The folder with all part files.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use parquet::file::reader::{FileReader, SerializedFileReader};
use stopworld_analysis::tables::Table;
use tempfile::{TempDir, TempPath};

use super::inputs::hash;

/// The name of a partition without a value, as Hive, Spark and DuckDB read it.
const NULL: &str = "__HIVE_DEFAULT_PARTITION__";

/// The beginning of the name of a folder with files that are being written. It stays behind if the process is killed.
const STAGING: &str = ".stopworld-";

/// Part files by table and trace. The lock is held while the part files of a trace are moved.
type Earlier = HashMap<(Table, String), Vec<PathBuf>>;

/// A folder with a dataset.
#[derive(Debug)]
pub struct Dataset {
    root: PathBuf,
    /// Has the files that are being written. It is beside the tables, so that a file can be renamed.
    staging: TempDir,
    /// The part files of earlier conversions, by table and [the trace's part of their names](super::inputs::Input::part_name).
    earlier: Arc<Mutex<Earlier>>,
    permissions: Permissions,
}

/// Ends the writing of a dataset before all traces are converted, from a thread that waits for signals. Traces that are in the dataset remain, as a
/// whole.
#[derive(Clone, Debug)]
pub struct Abandon {
    staging: PathBuf,
    earlier: Arc<Mutex<Earlier>>,
}

impl Abandon {
    /// Waits until no part file is being moved, forbids that for ever, and removes the files that are being written. A conversion that has not ended
    /// will not end: the process must exit.
    pub fn abandon(self) {
        /// A thread that creates a file at the same time can delay the removal, but not often.
        const TRIES: usize = 1000;
        std::mem::forget(self.earlier.lock().unwrap_or_else(PoisonError::into_inner));
        for _ in 0..TRIES {
            match fs::remove_dir_all(&self.staging) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => thread::yield_now(),
                _ => break,
            }
        }
    }
}

/// A partition; a value that is not known is null.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Partition {
    pub(crate) host: Option<String>,
    pub(crate) process: Option<String>,
    pub(crate) day: Option<String>,
}

impl Dataset {
    /// Returns whether [`open`](Self::open) would open a dataset or create one: whether a folder has only tables, and files that were
    /// being written, or is empty, or does not exist. A table is a folder that has only partitions. Names that begin with a dot or an
    /// underscore do not count: other engines ignore them, and Spark writes `_SUCCESS`.
    ///
    /// # Errors
    ///
    /// The folder cannot be listed.
    pub fn is_possible(root: &Path) -> io::Result<bool> {
        let has_only = |folder: &Path, is_part: &dyn Fn(&OsStr) -> bool| -> io::Result<bool> {
            for entry in fs::read_dir(folder)? {
                let name = entry?.file_name();
                if !name.as_encoded_bytes().starts_with(b".")
                    && !name.as_encoded_bytes().starts_with(b"_")
                    && !is_part(&name)
                {
                    return Ok(false);
                }
            }
            Ok(true)
        };
        let is_table = |name: &OsStr| Table::ALL.iter().any(|table| name == table.name());
        match has_only(root, &is_table) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
            Ok(true) => {}
            other => return other,
        }
        let is_partition = |name: &OsStr| name.as_encoded_bytes().starts_with(b"host=");
        for folder in Table::ALL.iter().map(|table| root.join(table.name())) {
            match has_only(&folder, &is_partition) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Ok(false),
                Ok(true) => {}
                other => return other,
            }
        }
        Ok(true)
    }

    /// Opens a dataset. If the folder does not exist, it is created.
    ///
    /// # Errors
    ///
    /// The folder cannot be created, written or listed.
    pub fn open(root: &Path) -> io::Result<Dataset> {
        fs::create_dir_all(root)?;
        let mut earlier = HashMap::new();
        for table in Table::ALL {
            let folder = root.join(table.name());
            if folder.is_dir() {
                list(&folder, &mut |name, path| earlier.entry((table, name)).or_insert_with(Vec::new).push(path))?;
            }
        }
        let staging = tempfile::Builder::new().prefix(STAGING).tempdir_in(root)?;
        // What a new file gets is not known otherwise: it depends on the umask of the process.
        let probe = staging.path().join("probe");
        let permissions = fs::File::create(&probe)?.metadata()?.permissions();
        fs::remove_file(probe)?;
        let earlier = Arc::new(Mutex::new(earlier));
        Ok(Dataset { root: root.to_owned(), staging, earlier, permissions: Permissions::from_mode(permissions.mode()) })
    }

    /// Returns what ends the writing when a signal ends the process.
    pub fn on_signal(&self) -> Abandon {
        Abandon { staging: self.staging().to_owned(), earlier: Arc::clone(&self.earlier) }
    }

    /// Returns the folder with the files that are being written.
    pub(crate) fn staging(&self) -> &Path {
        self.staging.path()
    }

    /// Returns the folder of a partition of a table.
    pub(crate) fn folder(&self, table: Table, partition: &Partition) -> PathBuf {
        let Partition { host, process, day } = partition;
        let mut folder = self.root.join(table.name());
        for (name, value) in [("host", host), ("process", process), ("day", day)] {
            let value = value.as_deref().filter(|value| !value.is_empty());
            folder.push(format!("{name}={}", value.map_or(NULL.to_owned(), escape)));
        }
        folder
    }

    /// Returns the number of rows of these tables that an earlier conversion of a trace wrote. A file that cannot be read has none.
    pub(crate) fn earlier_rows(&self, tables: &[Table], part_name: &str) -> u64 {
        let earlier = self.earlier.lock().unwrap_or_else(PoisonError::into_inner);
        let parts = tables.iter().filter_map(|table| earlier.get(&(*table, part_name.to_owned()))).flatten();
        let rows = |path: &PathBuf| {
            let reader = SerializedFileReader::new(fs::File::open(path).ok()?).ok()?;
            u64::try_from(reader.metadata().file_metadata().num_rows()).ok()
        };
        parts.filter_map(rows).sum()
    }

    /// Moves the part files of a trace to their places, and removes those of these tables that an earlier conversion of the trace wrote and that are
    /// not replaced. Returns the bytes moved. If a file cannot be moved, those moved before are removed.
    pub(crate) fn move_in(
        &self,
        complete: Vec<(TempPath, PathBuf)>,
        tables: &[Table],
        part_name: &str,
    ) -> io::Result<u64> {
        let mut bytes = 0;
        for (temporary, path) in &complete {
            bytes += temporary.metadata()?.len();
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder)?;
            }
            // A temporary file can be read only by its owner.
            fs::set_permissions(temporary, self.permissions.clone())?;
        }
        let mut earlier = self.earlier.lock().unwrap_or_else(PoisonError::into_inner);
        let mut moved: Vec<PathBuf> = Vec::new();
        for (temporary, path) in complete {
            if let Err(error) = temporary.persist(&path) {
                // Without one of its tables, a trace would contradict itself.
                moved.iter().for_each(|path| drop(fs::remove_file(path)));
                return Err(error.error);
            }
            moved.push(path);
        }
        let stale = tables.iter().filter_map(|table| earlier.remove(&(*table, part_name.to_owned()))).flatten();
        for path in stale.filter(|path| !moved.contains(path)) {
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(bytes)
    }
}

/// Passes on the part files in a folder and the folders below it, each with the trace's part of its name.
fn list(folder: &Path, each: &mut impl FnMut(String, PathBuf)) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            list(&path, each)?;
        } else if let Some(name) = entry.file_name().to_str().and_then(|name| name.strip_suffix(".parquet"))
            && let Some((trace, _)) = name.rsplit_once('-')
        {
            each(trace.to_owned(), path);
        }
    }
    Ok(())
}

/// Escapes a value for the name of a folder, as Hive does: `%` and two hexadecimal digits. A value that is too long is cut, and ends with a hash of
/// itself, so that no two values share a folder.
fn escape(value: &str) -> String {
    /// The longest name of a folder is 255 bytes.
    const MOST: usize = 200;
    let mut escaped = String::new();
    for letter in value.chars() {
        let is_plain = letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-' | '+' | ' ' | '@' | ',');
        let mut bytes = [0; 4];
        let next: String = match is_plain {
            true => letter.to_string(),
            false => letter.encode_utf8(&mut bytes).bytes().map(|byte| format!("%{byte:02X}")).collect(),
        };
        if escaped.len() + next.len() > MOST {
            return format!("{escaped}-{:016x}", hash(value.as_bytes()));
        }
        escaped += &next;
    }
    escaped
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use tempfile::NamedTempFile;

    use super::*;

    #[rstest]
    #[case("web-1", "web-1")]
    #[case("a/b", "a%2Fb")]
    #[case("a=b%c", "a%3Db%25c")]
    #[case("µ", "%C2%B5")]
    fn values_become_names_of_folders(#[case] value: &str, #[case] expected: &str) {
        assert_eq!(escape(value), expected);
    }

    #[test]
    fn a_long_value_is_cut_between_letters() {
        let (long, other) = (escape(&"µ".repeat(100)), escape(&"µ".repeat(101)));
        assert!(long.starts_with(&format!("{}-", "%C2%B5".repeat(33))) && long.len() == 198 + 17, "{long}");
        assert_ne!(long, other);
    }

    #[test]
    fn an_abandoned_dataset_has_no_files_that_were_being_written() {
        let folder = tempfile::tempdir().unwrap();
        let dataset = Dataset::open(folder.path()).unwrap();
        let staging = dataset.staging().to_owned();
        let writer = thread::spawn(move || {
            (0..).take_while(|name| fs::write(staging.join(format!("{name}")), "").is_ok()).count()
        });
        while fs::read_dir(dataset.staging()).unwrap().count() < 100 {
            thread::yield_now();
        }
        dataset.on_signal().abandon();
        assert!(writer.join().unwrap() >= 100);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_file_that_cannot_be_moved_leaves_no_other_file_of_its_trace() {
        let folder = tempfile::tempdir().unwrap();
        let dataset = Dataset::open(folder.path()).unwrap();
        let places = ["traces/a/1.parquet", "events/a/1.parquet"].map(|place| folder.path().join(place));
        // A file cannot replace a folder.
        fs::create_dir_all(places[1].join("folder")).unwrap();
        let temporary = || NamedTempFile::new_in(dataset.staging()).unwrap().into_temp_path();
        let complete = places.iter().map(|place| (temporary(), place.clone())).collect();
        assert!(dataset.move_in(complete, &Table::ALL, "trace-a").is_err());
        assert!(!places[0].exists());
        assert_eq!(fs::read_dir(dataset.staging()).unwrap().count(), 0);
    }

    #[test]
    fn unknown_values_are_null() {
        let folder = tempfile::tempdir().unwrap();
        let dataset = Dataset::open(folder.path()).unwrap();
        let partition = Partition { host: None, process: Some(String::new()), day: Some("2026-11-26".to_owned()) };
        let expected = format!("events/host={NULL}/process={NULL}/day=2026-11-26");
        assert_eq!(dataset.folder(Table::Events, &partition), folder.path().join(expected));
    }
}
