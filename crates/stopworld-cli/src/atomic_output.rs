//! Atomic replacement of an output file: the output is written to a temporary file in the same directory, which is renamed
//! at the end.
//!
//! If the command fails or is killed, the existing file is unchanged. If SIGINT, SIGTERM or SIGHUP ends the command, the
//! temporary file is removed. An output that is not a regular file (a pipe, a device, standard output) is written directly.

use std::cell::Cell;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Stdout, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::{Context, anyhow, bail};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tempfile::NamedTempFile;

/// Returns whether two names are those of one regular file, which may not exist yet. `-` is no file.
pub(super) fn is_same_file(a: &Path, b: &Path) -> bool {
    if [a, b].iter().any(|path| path.as_os_str() == "-") {
        return false;
    }
    let place = |path: &Path| {
        let target = target_of(path.to_owned());
        let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Some((fs::canonicalize(folder).ok()?, target.file_name()?.to_owned()))
    };
    match (fs::metadata(a), fs::metadata(b)) {
        (Ok(a), Ok(b)) => a.is_file() && (a.dev(), a.ino()) == (b.dev(), b.ino()),
        (Err(_), Err(_)) => place(a).is_some_and(|a| place(b) == Some(a)),
        _ => false,
    }
}

/// The destination of the output.
pub(super) enum Output {
    Standard(Stdout),
    /// A pipe, a device, or anything else that is not a regular file.
    Device(File),
    /// The temporary file, and the path that it replaces at the end. Messages name the path, never the temporary file.
    Replacement(NamedTempFile, PathBuf),
}

impl Output {
    /// Checks that an output with this name can be opened later.
    pub(super) fn check(path: &Path) -> anyhow::Result<()> {
        let name = path.display();
        match fs::metadata(path) {
            Ok(existing) if existing.is_dir() => bail!("{name} is a directory: name a file in it"),
            Ok(existing) if !existing.is_file() => Ok(()),
            _ => temporary_beside(&target_of(path.to_owned()), path).map(drop),
        }
    }

    /// Opens the output with this name; `-` is standard output.
    pub(super) fn open(path: &Path) -> anyhow::Result<Output> {
        if path.as_os_str() == "-" {
            return Ok(Output::Standard(io::stdout()));
        }
        let name = path.display();
        let existing = fs::metadata(path).ok();
        match &existing {
            Some(existing) if existing.is_dir() => bail!("{name} is a directory: name a file in it"),
            Some(existing) if !existing.is_file() => {
                let device = OpenOptions::new().write(true).open(path);
                return Ok(Output::Device(device.with_context(|| format!("can't write to {name}"))?));
            }
            _ => {}
        }
        let target = target_of(path.to_owned());
        let temporary = Arc::new(Mutex::new(None));
        remove_with_the_process(Arc::clone(&temporary));
        // The signal thread waits for this lock until the name of the temporary file is known; otherwise it would remove nothing.
        let mut name_of_temporary = temporary.lock().unwrap_or_else(PoisonError::into_inner);
        let file = temporary_beside(&target, path)?;
        *name_of_temporary = Some(file.path().to_owned());
        drop(name_of_temporary);
        if let Some(existing) = existing {
            // Keep the permissions of the existing file. A failure is ignored.
            let _ = fs::set_permissions(file.path(), Permissions::from_mode(existing.permissions().mode() & 0o777));
        }
        Ok(Output::Replacement(file, target))
    }

    /// Returns whether there is a file that the output replaces at its [end](Output::finish), and that is unchanged until then.
    pub(super) fn replaces(&self) -> bool {
        matches!(self, Output::Replacement(_, target) if target.exists())
    }

    /// Ends the output: flushes it, and renames the temporary file to the path that it replaces.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        match self {
            Output::Standard(_) | Output::Device(_) => Ok(()),
            Output::Replacement(file, target) => file.persist(target).map(drop).map_err(|error| error.error),
        }
    }
}

/// Creates a temporary file in the directory of `target`. Its error names `path`.
fn temporary_beside(target: &Path, path: &Path) -> anyhow::Result<NamedTempFile> {
    let directory = match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    // The error of `make_in` names the temporary file, which the user does not know, and has no number.
    let failed = Cell::new(None);
    let create = |path: &Path| {
        let created = OpenOptions::new().write(true).create_new(true).open(path);
        created.inspect_err(|error| failed.set(error.raw_os_error()))
    };
    tempfile::Builder::new().prefix(".stopworld-").make_in(directory, create).map_err(|error| {
        let (name, reason) = (path.display(), failed.get().map_or(error, io::Error::from_raw_os_error));
        anyhow!(
            "can't write {name}: {reason}; its directory must exist and be writable: create it, or name another file"
        )
    })
}

/// Returns the file to replace. A symbolic link stays: the file that it points to is replaced, or created if there is none.
fn target_of(mut path: PathBuf) -> PathBuf {
    /// As in the kernel; more links are a circle.
    const MOST_LINKS: usize = 40;
    for _ in 0..MOST_LINKS {
        let Ok(link) = fs::read_link(&path) else { break };
        path = path.parent().unwrap_or(Path::new("")).join(link);
    }
    path
}

/// Starts a thread that, when a signal ends the process, first removes the file with this name if there is one. (After the
/// rename, no file has this name.)
fn remove_with_the_process(temporary: Arc<Mutex<Option<PathBuf>>>) {
    // Without a handler the temporary file remains in the directory; nothing else changes.
    let Ok(mut signals) = Signals::new([SIGINT, SIGTERM, SIGHUP]) else { return };
    let wait = move || {
        if let Some(signal) = signals.forever().next() {
            if let Some(path) = &*temporary.lock().unwrap_or_else(PoisonError::into_inner) {
                let _ = fs::remove_file(path);
            }
            std::process::exit(128 + signal);
        }
    };
    let _ = thread::Builder::new().name("signals".to_owned()).spawn(wait);
}

impl Write for &mut Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Output::Standard(stdout) => stdout.write(bytes),
            Output::Device(file) => file.write(bytes),
            Output::Replacement(file, _) => file.as_file_mut().write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        (**self).flush()
    }
}

impl Output {
    fn flush(&mut self) -> io::Result<()> {
        match self {
            Output::Standard(stdout) => stdout.flush(),
            Output::Device(file) => file.flush(),
            Output::Replacement(file, _) => file.as_file_mut().flush(),
        }
    }
}
