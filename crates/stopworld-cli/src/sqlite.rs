//! `stopworld convert run.mps run.sqlite`: a telemetry stream as a database with the tables of mpseventsql.
//!
//! SQLite is compiled from C, and this command must not need a C compiler. So the conversion is in the feature `sqlite`; without it the command reports
//! how to get it.

use std::path::Path;

use super::exit::Failure;

/// The extension of a database.
pub(super) const EXTENSION: &str = "sqlite";

/// Converts a stream.
#[cfg(not(feature = "sqlite"))]
pub(super) fn run(_input: &Path, output: &Path) -> Result<u8, Failure> {
    Err(Failure::Usage(format!(
        "{}: this stopworld was built without SQLite, which needs a C compiler: \
         `cargo install --path crates/stopworld-cli --features sqlite` builds it with SQLite",
        output.display()
    )))
}

/// Converts a stream. The database replaces an existing file only when it is complete.
#[cfg(feature = "sqlite")]
pub(super) fn run(input: &Path, output: &Path) -> Result<u8, Failure> {
    use std::fs::{self, File};
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use anyhow::{Context, anyhow};
    use stopworld_sqlite::{Imported, Source, import};

    use super::exit::FAILED;

    let (name, target) = (input.display(), output.display());
    if input.as_os_str() == "-" || output.as_os_str() == "-" {
        return Err(Failure::Usage("a database is made of a file, and is a file: name both".to_owned()));
    }
    let file = File::open(input).with_context(|| format!("can't open {name}"))?;
    let metadata = file.metadata().with_context(|| format!("can't read {name}"))?;
    let mut head = [0; 64];
    let read =
        std::os::unix::fs::FileExt::read_at(&file, &mut head, 0).with_context(|| format!("can't read {name}"))?;
    if !mps_telemetry::detect::may_be_a_stream(&head[..read]) {
        return Err(
            anyhow!("{name}: only a telemetry stream of the Memory Pool System can be converted to SQLite").into()
        );
    }
    let folder = output.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    builder.prefix(".stopworld-").permissions(fs::Permissions::from_mode(0o666));
    let temporary = builder.tempfile_in(folder).with_context(|| format!("can't write {target}"))?.into_temp_path();
    let source = Source { name: &name.to_string(), bytes: metadata.len(), modified: metadata.mtime() };
    let imported = import(file, &temporary, &source).map_err(|error| anyhow!("{name}: {error}"))?;
    temporary.persist(output).with_context(|| format!("can't write {target}"))?;
    let Imported { events, unknown, damage } = imported;
    if unknown > 0 {
        eprintln!(
            "convert: {name}: {events} events are in {target}; {unknown} records with unknown codes are left out"
        );
    }
    match damage {
        Some(damage) => {
            eprintln!("convert: {name}: {damage}; everything that could be read is converted");
            Ok(FAILED)
        }
        None => Ok(0),
    }
}
