//! The folder with all part files.

use std::collections::HashMap;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use stopworld_analysis::tables::Table;
use tempfile::TempDir;

/// The name of a partition without a value, as Hive, Spark and DuckDB read it.
const NULL: &str = "__HIVE_DEFAULT_PARTITION__";

/// A folder with a dataset.
#[derive(Debug)]
pub struct Dataset {
    root: PathBuf,
    /// Has the files that are being written. It is beside the tables, so that a file can be renamed.
    staging: TempDir,
    /// The part files of earlier conversions, by table and [the trace's part of their names](super::inputs::Input::part_name).
    earlier: Mutex<HashMap<(Table, String), Vec<PathBuf>>>,
    permissions: Permissions,
}

/// A partition; a value that is not known is null.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Partition {
    pub(crate) host: Option<String>,
    pub(crate) process: Option<String>,
    pub(crate) day: Option<String>,
}

impl Dataset {
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
        let staging = tempfile::Builder::new().prefix(".stopworld-").tempdir_in(root)?;
        // What a new file gets is not known otherwise: it depends on the umask of the process.
        let probe = staging.path().join("probe");
        let permissions = fs::File::create(&probe)?.metadata()?.permissions();
        fs::remove_file(probe)?;
        let earlier = Mutex::new(earlier);
        Ok(Dataset { root: root.to_owned(), staging, earlier, permissions: Permissions::from_mode(permissions.mode()) })
    }

    /// Returns the folder with the files that are being written, for a program that removes it when a signal ends the process.
    pub fn staging(&self) -> &Path {
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

    pub(crate) fn make_readable(&self, file: &Path) -> io::Result<()> {
        fs::set_permissions(file, self.permissions.clone())
    }

    /// Removes the part files of these tables that an earlier conversion of a trace wrote, except these.
    pub(crate) fn remove_stale(&self, tables: &[Table], part_name: &str, except: &[PathBuf]) -> io::Result<()> {
        let mut earlier = self.earlier.lock().unwrap_or_else(PoisonError::into_inner);
        let stale = tables.iter().filter_map(|table| earlier.remove(&(*table, part_name.to_owned()))).flatten();
        stale.filter(|path| !except.contains(path)).try_for_each(fs::remove_file)
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

/// Escapes a value for the name of a folder, as Hive does: `%` and two hexadecimal digits.
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
            break;
        }
        escaped += &next;
    }
    escaped
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

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
        let escaped = escape(&"µ".repeat(100));
        assert_eq!(escaped, "%C2%B5".repeat(33));
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
