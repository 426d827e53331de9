//! `run --snapshot`: a heap snapshot of the program's own data, taken by one of its collections.
//!
//! At the end of a run nothing is alive any more. So a heap dump is recorded to a temporary file while the program runs, by each
//! collection up to the one that is wanted; then the recording ends, and later collections are not slowed down. The snapshot is written from
//! that file at the end of the run.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use anyhow::{Context, anyhow, bail};
use tempfile::NamedTempFile;

use super::arguments::Settings;
use super::atomic_output::Output;
use super::exit::Failure;
use super::snapshot::{Opened, format_of, temporary_is_full, write};
use stopworld_analysis::snapshot::{DumpChoice, SnapshotFormat};
use stopworld_trace::nettrace::{Options, Providers, Trace};

/// The events of a heap dump: GC, Type and GCHeapDump, at level Informational.
const HEAP_DUMP: &str = "Microsoft-Windows-DotNETRuntime:0x180001:4";

/// The snapshot of a run.
pub(super) struct RunSnapshot {
    pub(super) trace: Trace,
    dump: NamedTempFile,
    path: PathBuf,
    format: SnapshotFormat,
    wanted: u32,
    progress: Arc<Progress>,
    /// Ends the recording, and returns why the temporary file is incomplete. `None` after it has been joined.
    recorder: Mutex<Option<JoinHandle<Option<io::Error>>>>,
}

/// How many collections are over, and whether the run is.
#[derive(Default)]
struct Progress {
    collections: Mutex<(u32, bool)>,
    changed: Condvar,
}

impl Progress {
    fn lock(&self) -> MutexGuard<'_, (u32, bool)> {
        // A panic under this lock leaves a valid number.
        self.collections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_for(&self, collections: u32) {
        let mut state = self.lock();
        while state.0 < collections && !state.1 {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl RunSnapshot {
    /// Starts to record, if a snapshot is requested. Checks that the output can be written.
    pub(super) fn start(settings: &Settings) -> anyhow::Result<Option<RunSnapshot>> {
        let Some(path) = &settings.snapshot else { return Ok(None) };
        let format = format_of(path)?;
        Output::check(path)?;
        let no_room = "--snapshot: can't create a temporary file: set TMPDIR to a directory with room";
        let dump = tempfile::Builder::new().prefix("stopworld-").suffix(".nettrace").tempfile().context(no_room)?;
        let providers = Providers::parse(HEAP_DUMP)?;
        let trace =
            Options::new(dump.path()).providers(providers).start().map_err(|error| anyhow!("{no_room} ({error})"))?;
        let progress = Arc::new(Progress::default());
        let (recorded, wanted, all) = (trace.clone(), settings.snapshot_at.get(), Arc::clone(&progress));
        let recorder = thread::Builder::new().name("snapshot".into()).spawn(move || {
            all.wait_for(wanted);
            // Only this thread finishes the trace.
            recorded.finish().ok().and_then(|finished| finished.error)
        })?;
        let recorder = Mutex::new(Some(recorder));
        Ok(Some(RunSnapshot { trace, dump, path: path.clone(), format, wanted, progress, recorder }))
    }

    /// Returns a function that counts a collection.
    pub(super) fn counter(&self) -> impl Fn() + Send + Sync + 'static {
        let progress = Arc::clone(&self.progress);
        move || {
            progress.lock().0 += 1;
            progress.changed.notify_all();
        }
    }

    /// Ends the recording, and writes the snapshot.
    pub(super) fn finish(&self) -> anyhow::Result<()> {
        self.progress.lock().1 = true;
        self.progress.changed.notify_all();
        let recorder = self.recorder.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A panic of the thread leaves a file without an end, which is reported when it is read.
        if let Some(error) = recorder.and_then(|recorder| recorder.join().ok().flatten()) {
            return Err(temporary_is_full(&error).context("--snapshot"));
        }
        let name = self.path.display();
        let dump = File::open(self.dump.path()).context("--snapshot: can't read the temporary file")?;
        let collections = self.progress.lock().0;
        if collections == 0 {
            bail!(
                "--snapshot: {name} is not written, because the run ended before its first collection: make the run longer \
                 (--seconds), or the first collection earlier (--initial-heap)"
            );
        }
        // Collections after the wanted one may have been recorded, too.
        let wanted = collections.min(self.wanted) as i32;
        let opened = Opened::new(dump, DumpChoice { collection: Some(wanted), world: None })
            .map_err(|error| anyhow!("--snapshot: {error}"))?;
        match write(opened, Output::open(&self.path)?, &self.path, self.format) {
            Ok(_) => Ok(()),
            Err(Failure::Usage(line)) => Err(anyhow!(line)),
            Err(Failure::Run(error)) => Err(error.context("--snapshot")),
        }
    }
}
