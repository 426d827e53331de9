//! The path of a process's diagnostics socket, and the errors of looking for it.
//!
//! ```text
//!   $TMPDIR or /tmp  /  dotnet-diagnostic-{pid}-{start}-socket
//! ```
//!
//! `start` is the time at which the process was started, in clock ticks since boot: field 22 of `/proc/PID/stat`. It
//! distinguishes a process from an earlier one with the same id. Tools ignore it; they accept any socket with the process id.
//!
//! A tool searches the directory that was the *process's* TMPDIR when it started, read from its environment in /proc. For
//! a process in a container it searches below `/proc/PID/root`, for the process id inside the container.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use std::{env, fs, io};

const OTHERWISE: &str = "/tmp";

/// Returns the path of this process's own socket.
pub(crate) fn of_this_process() -> io::Result<PathBuf> {
    let directory = env::var_os("TMPDIR").filter(|value| !value.is_empty()).unwrap_or_else(|| OTHERWISE.into());
    let stat = fs::read("/proc/self/stat")?;
    let start = start_time(&stat).ok_or(io::ErrorKind::InvalidData)?;
    Ok(Path::new(&directory).join(name(std::process::id(), start)))
}

fn name(pid: u32, start: u64) -> String {
    format!("dotnet-diagnostic-{pid}-{start}-socket")
}

/// Returns field 22 of a stat file. The second field is the program's name in parentheses and may contain any character, so
/// fields are counted from the last parenthesis.
pub(super) fn start_time(stat: &[u8]) -> Option<u64> {
    let behind = stat.iter().rposition(|byte| *byte == b')')? + 1;
    let rest = std::str::from_utf8(&stat[behind..]).ok()?;
    // The first field of the rest is field 3.
    rest.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// The reason why the socket of a process was not found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NoSocket {
    /// The process does not exist.
    #[error("there is no process {0}")]
    Process(u32),
    /// The process belongs to another user.
    #[error("process {0} belongs to another user: only that user and root can reach its socket")]
    NotOurs(u32),
    /// A file by which the socket is found can't be read.
    #[error(
        "process {pid}: can't read {path}: {error}; the system permits it only to a process that may trace this one (capability SYS_PTRACE)",
        path = .path.display()
    )]
    Unreadable {
        /// The id of the process.
        pid: u32,
        /// The file.
        path: PathBuf,
        /// The error.
        error: io::Error,
    },
    /// The process has no socket.
    #[error(
        "process {pid} has no diagnostics socket in {directory}: start it with `stopworld run --diagnostics`, or open one in \
         the program with `Diagnostics::open`",
        directory = .directory.display()
    )]
    None {
        /// The id of the process.
        pid: u32,
        /// The directory that was searched.
        directory: PathBuf,
    },
}

/// Returns the path of another process's socket.
///
/// # Errors
/// If the caller can find no socket of this process.
pub fn of_process(pid: u32) -> Result<PathBuf, NoSocket> {
    let proc = PathBuf::from(format!("/proc/{pid}"));
    let stat = fs::read(proc.join("stat")).map_err(|_| NoSocket::Process(pid))?;
    let environment = match fs::read(proc.join("environ")) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let owner = |path: &Path| fs::metadata(path).map_or(0, |found| found.uid());
            return Err(denied(pid, error, owner(&proc), owner(Path::new("/proc/self"))));
        }
        // The process is just ending.
        Err(_) => return Err(NoSocket::Process(pid)),
        Ok(environment) => environment,
    };
    let directory = temporary(&environment);
    let inner = innermost(&fs::read(proc.join("status")).unwrap_or_default()).unwrap_or(pid);
    // The directory has the same path here, unless the process has another root file system.
    let root = proc.join("root");
    let directory = if inner == pid && !differ(&root, Path::new("/")) {
        directory
    } else {
        root.join(directory.strip_prefix("/").unwrap_or(&directory))
    };
    let exact = start_time(&stat).map(|start| directory.join(name(inner, start)));
    match exact.filter(|path| is_socket(path)) {
        Some(path) => Ok(path),
        None => newest(&directory, inner).ok_or(NoSocket::None { pid, directory }),
    }
}

/// Returns the error for an environment that can't be read, of a process of `owner`, by `user`.
fn denied(pid: u32, error: io::Error, owner: u32, user: u32) -> NoSocket {
    const ROOT: u32 = 0;
    if user == owner || user == ROOT {
        return NoSocket::Unreadable { pid, path: format!("/proc/{pid}/environ").into(), error };
    }
    NoSocket::NotOurs(pid)
}

/// Returns the TMPDIR of an environment in the format of /proc, or the default.
pub(super) fn temporary(environment: &[u8]) -> PathBuf {
    let value = environment.split(|byte| *byte == 0).find_map(|entry| entry.strip_prefix(b"TMPDIR="));
    match value {
        Some(value) if !value.is_empty() => OsString::from_vec(value.to_vec()).into(),
        _ => OTHERWISE.into(),
    }
}

/// Returns the process id in the innermost PID namespace of the process.
pub(super) fn innermost(status: &[u8]) -> Option<u32> {
    let status = String::from_utf8_lossy(status);
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_ascii_whitespace().last()?.parse().ok()
}

/// Returns whether two paths are different directories. Paths that can't be read count as equal.
fn differ(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| fs::metadata(path).map(|found| (found.dev(), found.ino()));
    matches!((identity(one), identity(other)), (Ok(one), Ok(other)) if one != other)
}

fn is_socket(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.file_type().is_socket())
}

/// Returns the newest socket of a process, whatever start time is in its name.
fn newest(directory: &Path, pid: u32) -> Option<PathBuf> {
    let candidates = fs::read_dir(directory).ok()?.flatten().filter_map(|entry| {
        let path = entry.path();
        let fits = is_name_of(entry.file_name().as_bytes(), pid) && is_socket(&path);
        fits.then(|| (entry.metadata().and_then(|found| found.modified()).unwrap_or(SystemTime::UNIX_EPOCH), path))
    });
    candidates.max().map(|(_, path)| path)
}

fn is_name_of(name: &[u8], pid: u32) -> bool {
    let key = name
        .strip_prefix(format!("dotnet-diagnostic-{pid}-").as_bytes())
        .and_then(|rest| rest.strip_suffix(b"-socket"));
    key.is_some_and(|key| !key.is_empty() && key.iter().all(u8::is_ascii_digit))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("30431 (demo) S 1 30431 30431 0 -1 4194304 900 0 0 0 5 2 0 0 20 0 6 0 747587 2904 7 8 9", Some(747_587))]
    #[case("7 (a) b) c) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 99 20 21", Some(99))]
    #[case("7 (short) S 1 2", None)]
    #[case("", None)]
    fn the_start_is_field_22_whatever_the_program_is_called(#[case] stat: &str, #[case] start: Option<u64>) {
        assert_eq!(start_time(stat.as_bytes()), start);
    }

    #[rstest]
    #[case("dotnet-diagnostic-7-1-socket", true)]
    #[case("dotnet-diagnostic-7-747587-socket", true)]
    #[case("dotnet-diagnostic-77-1-socket", false)]
    #[case("dotnet-diagnostic-7--socket", false)]
    #[case("dotnet-diagnostic-7-1a-socket", false)]
    #[case("dotnet-diagnostic-7-1-socket.old", false)]
    fn only_names_with_the_process_id_match(#[case] name: &str, #[case] fits: bool) {
        assert_eq!(is_name_of(name.as_bytes(), 7), fits);
    }

    #[test]
    fn the_directory_and_the_number_are_those_of_the_process() {
        assert_eq!(temporary(b"A=b\0TMPDIR=/var/tmp\0C=d"), Path::new("/var/tmp"));
        assert_eq!(temporary(b"XTMPDIR=/var/tmp\0TMPDIR=\0"), Path::new("/tmp"));
        assert_eq!(innermost(b"Name:\tx\nNSpid:\t4711\t12\t1\nNSpgid:\t1\n"), Some(1));
    }

    #[rstest]
    #[case::of_another_user(1000, 1001, "process 7 belongs to another user")]
    #[case::of_root(0, 1001, "process 7 belongs to another user")]
    #[case::own(1000, 1000, "process 7: can't read /proc/7/environ: permission denied; the system permits it only")]
    #[case::root(1000, 0, "process 7: can't read /proc/7/environ: permission denied; the system permits it only")]
    fn an_environment_that_is_denied_is_not_always_that_of_another_user(
        #[case] owner: u32,
        #[case] user: u32,
        #[case] expected: &str,
    ) {
        let error = denied(7, io::ErrorKind::PermissionDenied.into(), owner, user).to_string();
        assert!(error.starts_with(expected), "{error}");
    }

    #[test]
    fn a_missing_process_is_named() {
        let error = of_process(u32::MAX).unwrap_err();
        assert_eq!(error.to_string(), format!("there is no process {}", u32::MAX));
    }
}
