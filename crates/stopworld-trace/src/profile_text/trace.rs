//! A text profile: its kind, and the state that it shares with its writer.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::writer_settings::WriterSettings;
use super::{hp, prof};
use crate::format::Format;
use crate::os::clock::now_ns;
use crate::progress::Progress;
use crate::target::Target;
use stopworld::events::Selection;
use stopworld::events::record::{Consumer, Policy};

/// The kind of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A heap profile, in the `.hp` format.
    Heap,
    /// A time profile, in the `.prof` format.
    Time,
}

/// The formats of text profiles.
#[derive(Debug)]
pub struct Profile {
    kind: Kind,
    settings: WriterSettings,
}

/// Options of a text profile.
pub type Options = crate::Options<Profile>;

/// A text profile that is being written. It contains only worlds for which profiling is on. A time profile is written only when it is
/// finished.
pub type Trace = crate::Trace<Profile>;

impl Options {
    /// Creates the options of a profile of this kind, which is written to this file.
    pub fn new(path: impl Into<PathBuf>, kind: Kind) -> Options {
        Options::with_file(path.into(), kind)
    }
}

impl Format for Profile {
    type Settings = Kind;

    fn begin(kind: Kind, policy: Policy) -> Profile {
        let words: Vec<_> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
        let settings = WriterSettings { job: words.join(" "), began_ns: now_ns(), policy, progress: Arc::default() };
        Profile { kind, settings }
    }

    fn progress(&self) -> &Arc<Progress> {
        &self.settings.progress
    }

    fn writer(&self, target: Target) -> io::Result<Box<dyn Consumer>> {
        let settings = self.settings.clone();
        Ok(match self.kind {
            Kind::Heap => Box::new(hp::Writer::new(settings, target.trace_output())),
            Kind::Time => Box::new(prof::Writer::new(settings, target.trace_output())),
        })
    }

    fn selection(&self) -> Selection {
        Selection::of(match self.kind {
            Kind::Heap => hp::events(),
            Kind::Time => prof::events(),
        })
    }
}
