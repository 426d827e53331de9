//! An output that is there when it is whole: written beside what it replaces, and put in its place at the end.
//!
//! A command that fails, or is killed, leaves what was there as it was; one that SIGINT, SIGTERM or SIGHUP ends takes the file
//! beside with it. What is no file (a pipe, a device, standard output) is written as it comes.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Stdout, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::{Context, bail};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tempfile::NamedTempFile;

/// Where bytes go.
pub(super) enum Output {
    Standard(Stdout),
    /// Something that is no file.
    Device(File),
    /// The file beside, and whose place it takes. No message has its name, which would tell nobody anything.
    Beside(NamedTempFile, PathBuf),
}

impl Output {
    /// The output of this name; `-` is standard output.
    pub(super) fn open(path: &Path) -> anyhow::Result<Output> {
        if path.as_os_str() == "-" {
            return Ok(Output::Standard(io::stdout()));
        }
        let name = path.display();
        let there = fs::metadata(path).ok();
        match &there {
            Some(there) if there.is_dir() => bail!("{name} is a directory: name a file in it"),
            Some(there) if !there.is_file() => {
                let device = OpenOptions::new().write(true).open(path);
                return Ok(Output::Device(device.with_context(|| format!("can't write to {name}"))?));
            }
            _ => {}
        }
        // A link stays one.
        let place = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let directory = match place.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        let made = Arc::new(Mutex::new(None));
        remove_with_the_process(Arc::clone(&made));
        // Until it is noted, a signal's thread waits: it would find nothing to take with it.
        let mut noted = made.lock().unwrap_or_else(PoisonError::into_inner);
        let beside = tempfile::Builder::new()
            .prefix(".stopworld-")
            .make_in(&directory, |path| OpenOptions::new().write(true).create_new(true).open(path))
            .with_context(|| {
                format!(
                    "can't write {name}: its directory must be there and writable, or write to `-`, standard output"
                )
            })?;
        *noted = Some(beside.path().to_owned());
        drop(noted);
        if let Some(there) = there {
            // It keeps the permissions that it had, if it may.
            let _ = fs::set_permissions(beside.path(), Permissions::from_mode(there.permissions().mode() & 0o777));
        }
        Ok(Output::Beside(beside, place))
    }

    /// Whether what was there stays as it was until the end.
    pub(super) fn replaces(&self) -> bool {
        matches!(self, Output::Beside(..))
    }

    /// Everything is written: the file takes its place.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        match self {
            Output::Standard(_) | Output::Device(_) => Ok(()),
            Output::Beside(file, place) => file.persist(place).map(drop).map_err(|error| error.error),
        }
    }
}

/// A signal that ends the process takes the file of this name with it, once there is one. (When it has got its own name, there is
/// none of this.)
fn remove_with_the_process(made: Arc<Mutex<Option<PathBuf>>>) {
    // Without a handler the file stays behind, and that is all.
    let Ok(mut signals) = Signals::new([SIGINT, SIGTERM, SIGHUP]) else { return };
    let wait = move || {
        if let Some(signal) = signals.forever().next() {
            if let Some(path) = &*made.lock().unwrap_or_else(PoisonError::into_inner) {
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
            Output::Beside(file, _) => file.as_file_mut().write(bytes),
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
            Output::Beside(file, _) => file.as_file_mut().flush(),
        }
    }
}
