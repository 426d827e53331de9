//! A text profile that is being written: its options, its worlds, and its end.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{hp, prof};
use crate::events::Selection;
use crate::events::record::{Consumer, RecordError};
use crate::formats::complaint::Complaint;
use crate::formats::ongoing::{Ongoing, Place, Progress, methods_of_trace};
use crate::os::clock::now_ns;
use crate::{RecordWorld, Since, World};

/// The kind of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A heap profile, in the `.hp` format.
    Heap,
    /// A time profile, in the `.prof` format.
    Time,
}

/// Options of a text profile.
#[derive(Debug)]
pub struct Options {
    path: PathBuf,
    kind: Kind,
    complaint: Complaint,
}

impl Options {
    /// A profile of this kind, written to this file.
    pub fn new(path: impl Into<PathBuf>, kind: Kind) -> Options {
        Options { path: path.into(), kind, complaint: Complaint::Returned }
    }

    /// Reports a failure of the file immediately, in one line on standard error. `another` is the option with which the user
    /// names another file.
    #[must_use]
    pub fn tell_failures(self, another: &'static str) -> Options {
        Options { complaint: Complaint::Told(another), ..self }
    }

    /// Starts the profile, with no world yet.
    ///
    /// # Errors
    /// The process cannot record events; or the path contains a NUL byte (as `InvalidInput`).
    pub fn start(self) -> Result<Trace, RecordError> {
        let Options { path, kind, complaint } = self;
        let place = Place::new(path, complaint).map_err(|none| io::Error::new(io::ErrorKind::InvalidInput, none))?;
        let progress: Arc<Progress> = Arc::default();
        let words: Vec<_> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
        let (job, began, outlet) = (words.join(" "), now_ns(), place.outlet());
        let consumer: Box<dyn Consumer> = match kind {
            Kind::Heap => Box::new(hp::Writer::new(&job, began, Arc::clone(&progress), outlet)),
            Kind::Time => Box::new(prof::Writer::new(&job, began, Arc::clone(&progress), outlet)),
        };
        Ok(Trace(Arc::new(Parts { ongoing: Ongoing::following(consumer, progress)?, kind, place })))
    }
}

/// A profile that is being written. Cheap to clone; clones share one profile. A time profile is written only when it is finished.
#[derive(Clone)]
pub struct Trace(Arc<Parts>);

struct Parts {
    ongoing: Ongoing,
    kind: Kind,
    place: Place,
}

methods_of_trace!(kind);

impl Trace {
    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        self.0.place.path()
    }
}

impl RecordWorld for Trace {
    /// Writes the world's profile to the file, if the world is profiled.
    fn record_world(&self, world: &World, _since: Since) -> Result<(), RecordError> {
        let Parts { ongoing, kind, .. } = &*self.0;
        let wanted = match kind {
            Kind::Heap => hp::events(),
            Kind::Time => prof::events(),
        };
        let inner = world.inner();
        ongoing.join(inner, |_| ongoing.select(inner, Selection::of(wanted)))
    }
}
