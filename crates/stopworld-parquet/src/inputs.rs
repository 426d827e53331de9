//! The traces in files and folders, and what their paths say about them.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// The extensions of all traces.
pub const TRACES: &[&str] = &["nettrace", "eventlog", "mps"];
/// The extension of .NET traces.
pub const NETTRACE: &[&str] = &["nettrace"];

/// What the folders above a trace say about it, by names such as `host=web-1`; or what the user says about all traces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathFacts {
    /// The machine.
    pub host: Option<String>,
    /// The program.
    pub process: Option<String>,
    /// The program's version.
    pub version: Option<String>,
    /// The day on which the trace began, as year, month and day with hyphens.
    pub day: Option<String>,
}

impl PathFacts {
    /// Reads the folders of a path. The innermost folder counts. Values may be escaped as Hive does; a day that is not a date is ignored, because it
    /// would change the type of the column.
    pub fn of(path: &Path) -> PathFacts {
        let mut facts = PathFacts::default();
        for component in path.parent().into_iter().flat_map(Path::components) {
            let Component::Normal(name) = component else { continue };
            let Some((key, value)) = name.to_str().and_then(|name| name.split_once('=')) else { continue };
            let fact = match key {
                "host" => &mut facts.host,
                "process" => &mut facts.process,
                "version" => &mut facts.version,
                "day" => &mut facts.day,
                _ => continue,
            };
            let value = unescaped(value);
            if key != "day" || is_date(&value) {
                *fact = Some(value).filter(|value| !value.is_empty());
            }
        }
        facts
    }

    /// Returns these facts, completed by others.
    #[must_use]
    pub fn or(self, other: PathFacts) -> PathFacts {
        PathFacts {
            host: self.host.or(other.host),
            process: self.process.or(other.process),
            version: self.version.or(other.version),
            day: self.day.or(other.day),
        }
    }
}

/// A trace to convert.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Input {
    /// Its path, as given.
    pub(crate) path: PathBuf,
    /// Its absolute path without symbolic links: its identity.
    absolute: PathBuf,
    pub(crate) bytes: u64,
}

impl Input {
    /// Returns its absolute path without symbolic links.
    pub(crate) fn absolute(&self) -> &Path {
        &self.absolute
    }

    /// Returns the trace's part of the names of its part files: its own name, and a hash of its absolute path. It has a prefix, because Spark skips
    /// files whose names begin with `_` or `.`.
    pub(crate) fn part_name(&self) -> String {
        const LONGEST: usize = 64;
        let stem = self.absolute.file_stem().unwrap_or_default().to_string_lossy();
        let plain = |letter: char| if letter.is_ascii_alphanumeric() || letter == '_' { letter } else { '-' };
        let stem: String = stem.chars().take(LONGEST).map(plain).collect();
        format!("trace-{stem}-{:016x}", hash(self.absolute.as_os_str().as_bytes()))
    }
}

/// Returns a hash that never changes, unlike the hashes of the standard library: FNV-1a.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// Returns a value that the name of a folder has escaped as Hive does: `%` and two hexadecimal digits are a byte. Anything else stays as it is.
fn unescaped(value: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = value.as_bytes();
    while let [first, after @ ..] = rest {
        let digits = after.get(..2).filter(|_| *first == b'%').and_then(|digits| std::str::from_utf8(digits).ok());
        let digits = digits.filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| value.to_owned())
}

/// Returns whether a value is a date, as year, month and day with hyphens.
fn is_date(value: &str) -> bool {
    let [year, month, day] = value.split('-').collect::<Vec<_>>()[..] else { return false };
    let number = |digits: &str, length: usize| {
        let is_number = digits.len() == length && digits.bytes().all(|digit| digit.is_ascii_digit());
        digits.parse::<u32>().ok().filter(|_| is_number)
    };
    let (Some(year), Some(month), Some(day)) = (number(year, 4), number(month, 2), number(day, 2)) else {
        return false;
    };
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        2 => 28 + u32::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    };
    (1..=days).contains(&day)
}

/// The traces to convert.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    /// The largest first, so that no worker is left with a large one at the end.
    pub(crate) files: Vec<Input>,
    /// Files and folders that cannot be found or listed.
    pub(crate) missing: Vec<(PathBuf, String)>,
}

impl Inputs {
    /// Finds the traces in these files and folders. A file that is named is taken whatever its name is; from a folder, and the folders in it, those with
    /// one of these extensions. Hidden files and folders, symbolic links to folders, and pipes and devices are left out; so is the folder `except`.
    pub fn find(paths: &[PathBuf], except: &Path, extensions: &[&str]) -> Inputs {
        let mut inputs = Inputs::default();
        let except = fs::canonicalize(except).ok();
        for path in paths {
            if path.is_dir() {
                inputs.folder(path, except.as_deref(), extensions);
            } else {
                inputs.file(path.clone());
            }
        }
        let mut seen = BTreeSet::new();
        inputs.files.retain(|input| seen.insert(input.absolute.clone()));
        inputs.files.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.path.cmp(&b.path)));
        inputs
    }

    /// Returns the number of traces.
    pub fn len(&self) -> usize {
        self.files.len() + self.missing.len()
    }

    /// Returns the paths, in alphabetical order, including those that cannot be found.
    pub fn into_paths(self) -> Vec<PathBuf> {
        let missing = self.missing.into_iter().map(|(path, _)| path);
        let mut paths: Vec<PathBuf> = self.files.into_iter().map(|input| input.path).chain(missing).collect();
        paths.sort();
        paths
    }

    /// Returns whether there is no trace.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn file(&mut self, path: PathBuf) {
        let found = fs::canonicalize(&path).and_then(|absolute| Ok((fs::metadata(&absolute)?, absolute)));
        match found {
            Ok((metadata, absolute)) => self.files.push(Input { path, absolute, bytes: metadata.len() }),
            Err(error) => self.missing.push((path, error.to_string())),
        }
    }

    fn folder(&mut self, folder: &Path, except: Option<&Path>, extensions: &[&str]) {
        if except.is_some() && fs::canonicalize(folder).ok().as_deref() == except {
            return;
        }
        let entries = fs::read_dir(folder).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let mut entries = match entries {
            Ok(entries) => entries,
            Err(error) => return self.missing.push((folder.to_owned(), error.to_string())),
        };
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let path = entry.path();
            let is_hidden = entry.file_name().as_bytes().starts_with(b".");
            let extension = path.extension().and_then(|extension| extension.to_str());
            if is_hidden {
                continue;
            }
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                self.folder(&path, except, extensions);
            } else if extension.is_some_and(|extension| extensions.contains(&extension))
                // What cannot be examined is reported.
                && fs::metadata(&path).map_or(true, |metadata| metadata.is_file())
            {
                self.file(path);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("host=a/process=b/version=1.2/day=2026-11-26/x.nettrace", [Some("a"), Some("b"), Some("1.2"), Some("2026-11-26")])]
    #[case("host=a/host=b/x", [Some("b"), None, None, None])]
    #[case("host=/x", [None; 4])]
    #[case("a/host=b", [None; 4])]
    #[case("host=a%20b%2F%C2%B5/process=50%/version=%zz/x", [Some("a b/µ"), Some("50%"), Some("%zz"), None])]
    #[case("day=yesterday/x", [None; 4])]
    #[case("day=2026-02-29/x", [None; 4])]
    #[case("day=2028-02-29/x", [None, None, None, Some("2028-02-29")])]
    #[case("day=2026-1-01/x", [None; 4])]
    #[case("day=/x", [None; 4])]
    #[case("hosts=a/x", [None; 4])]
    fn folders_are_facts(#[case] path: &str, #[case] expected: [Option<&str>; 4]) {
        let PathFacts { host, process, version, day } = PathFacts::of(Path::new(path));
        assert_eq!([host.as_deref(), process.as_deref(), version.as_deref(), day.as_deref()], expected);
    }

    #[test]
    fn traces_are_found_once_and_largest_first() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for inner in ["deep/er", ".hidden", "out"] {
            fs::create_dir_all(at(inner)).unwrap();
        }
        let files = [("a.nettrace", 1), ("deep/er/b.eventlog", 3), ("c.mps", 2), ("d.txt", 9), (".hidden/e.mps", 9)];
        for (name, bytes) in files.into_iter().chain([("out/f.mps", 9), (".g.mps", 9)]) {
            fs::write(at(name), vec![0; bytes]).unwrap();
        }
        std::os::unix::fs::symlink(folder.path(), at("deep/loop.mps")).unwrap();
        let given = [folder.path().to_owned(), at("c.mps"), at("d.txt"), at("none")];
        let inputs = Inputs::find(&given, &at("out"), TRACES);
        let found: Vec<_> = inputs.files.iter().map(|input| input.path.clone()).collect();
        assert_eq!(found, ["d.txt", "deep/er/b.eventlog", "c.mps", "a.nettrace"].map(at));
        assert_eq!(inputs.missing.iter().map(|(path, _)| path.clone()).collect::<Vec<_>>(), [at("none")]);
    }

    #[test]
    fn traces_of_one_name_have_different_part_names() {
        let input = |path: &str| Input { path: path.into(), absolute: path.into(), bytes: 0 };
        let names = ["/a/run.nettrace", "/b/run.nettrace", "/a/run.nettrace"].map(|path| input(path).part_name());
        assert_eq!(names[0], names[2]);
        assert_ne!(names[0], names[1]);
        assert!(names.iter().all(|name| name.starts_with("trace-run-") && name.len() == 26), "{names:?}");
    }

    #[test]
    fn a_trace_has_one_part_name_whatever_link_leads_to_it() {
        let input = |path: &str| Input { path: path.into(), absolute: "/a/run.nettrace".into(), bytes: 0 };
        assert_eq!(input("/b/latest.nettrace").part_name(), input("/a/run.nettrace").part_name());
    }

    #[rstest]
    #[case("/a/_run.nettrace")]
    #[case("/a/..nettrace")]
    fn engines_skip_no_part_name(#[case] path: &str) {
        let name = Input { path: path.into(), absolute: path.into(), bytes: 0 }.part_name();
        assert!(!name.starts_with(['_', '.']), "{name}");
    }
}
