//! An output that is there when it is whole: written beside what it replaces, and put in its place at the end.
//!
//! A command that fails, or is killed, leaves what was there as it was. What is no file (a pipe, a device, standard output) is
//! written as it comes.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Stdout, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use tempfile::NamedTempFile;

/// Where bytes go.
pub(super) enum Output {
    Standard(Stdout),
    /// Something that is no file.
    Device(File),
    /// The file beside, and whose place it takes.
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
        let mode = there.map_or(0o666, |there| there.permissions().mode() & 0o777);
        let beside = tempfile::Builder::new()
            .prefix(".stopworld-")
            .permissions(Permissions::from_mode(mode))
            .tempfile_in(&directory)
            .with_context(|| {
                format!(
                    "can't write {name}: its directory must be there and writable, or write to `-`, standard output"
                )
            })?;
        Ok(Output::Beside(beside, place))
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

impl Write for &mut Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Output::Standard(stdout) => stdout.write(bytes),
            Output::Device(file) => file.write(bytes),
            Output::Beside(file, _) => file.write(bytes),
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
            Output::Beside(file, _) => file.flush(),
        }
    }
}
