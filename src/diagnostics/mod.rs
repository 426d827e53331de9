//! The diagnostics socket of .NET: `dotnet-trace`, `dotnet-counters` and their like find this process, and see its collections live.
//!
//! ```text
//!   dotnet-trace, dotnet-counters,          a socket in $TMPDIR,            a thread per connection
//!   `stopworld trace`, `stopworld counters` ──► its owner's only ──► request ──► answer
//!                                                                       └─────► session: a .nettrace stream
//! ```
//!
//! Nothing is there unless somebody asks: a program says `Diagnostics::open()` and builds its worlds
//! [`diagnosed_by`](crate::WorldBuilder::diagnosed_by) it; the command is told `--diagnostics`. The environment variables by
//! which .NET's own socket is turned off turn this one off as well. docs/diagnostics.md says how to use it, and what is
//! refused.
//!
//! | file | part |
//! |---|---|
//! | `address` | which path a process's socket has |
//! | `message` | messages, both ways |
//! | `request` | what a session is to have |
//! | `process` | what the process says of itself |
//! | `server` | who listens, answers, refuses |
//! | `session`, `queue`, `ring`, `stream` | one client's events, from the recorder to its connection |
//! | `counters` | the numbers that `dotnet-counters` shows |
//! | `worlds` | the worlds that are served |
//! | `client`, `watched` | the other end, for the command: asking a process, reading its counters |

pub mod address;
pub mod client;
mod counters;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod message;
mod process;
mod queue;
mod request;
mod ring;
mod server;
mod session;
mod stream;
pub mod watched;
mod worlds;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

pub use message::Refusal;

use self::server::Server;
use crate::events::record::locked;
use crate::os::exit::at_exit;
use crate::os::socket::LONGEST_PATH;
use crate::{World, WorldBuilder};

/// How long clients may take, when the process ends, to take their ends.
const FAREWELL: Duration = Duration::from_secs(10);

/// What turns the sockets of .NET off when it is 0.
const SWITCHES: [&str; 4] = [
    "DOTNET_EnableDiagnostics",
    "DOTNET_EnableDiagnostics_IPC",
    "COMPlus_EnableDiagnostics",
    "COMPlus_EnableDiagnostics_IPC",
];

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The environment says that there is to be none.
    #[error("{0}=0 in the environment turns the diagnostics socket off")]
    SwitchedOff(&'static str),
    /// No address of a socket is so long.
    #[error(
        "the diagnostics socket's path has {length} bytes and may have {longest}: set TMPDIR to a shorter directory ({path})",
        longest = LONGEST_PATH,
        path = .path.display()
    )]
    TooLong {
        /// The path.
        path: PathBuf,
        /// Its length.
        length: usize,
    },
    /// The system refused.
    #[error("the diagnostics socket {path} could not be opened: {error}", path = .path.display())]
    System {
        /// Where it was to be.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
}

/// The process's diagnostics socket. Cheap to clone; clones are the same. When the last one goes, and when the process exits,
/// sessions are ended in order and the file is removed.
#[derive(Clone)]
pub struct Diagnostics(Arc<Open>);

struct Open(Arc<Server>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.close(FAREWELL);
    }
}

/// The one that is open, for who opens it again and for the end of the process.
static OPEN: Mutex<Weak<Open>> = Mutex::new(Weak::new());
static SERVER: Mutex<Weak<Server>> = Mutex::new(Weak::new());

impl Diagnostics {
    /// Opens the socket: at most one per process; who opens it again gets the same.
    ///
    /// # Errors
    /// The environment turns it off, its path is too long, or the system refuses.
    pub fn open() -> Result<Diagnostics, OpenError> {
        let is_off = |name: &&&str| std::env::var(name).is_ok_and(|value| value.trim() == "0");
        if let Some(name) = SWITCHES.iter().find(is_off) {
            return Err(OpenError::SwitchedOff(name));
        }
        locked(&OPEN, |open| {
            if let Some(open) = open.upgrade().filter(|open| open.0.is_ours()) {
                return Ok(Diagnostics(open));
            }
            let path = address::of_this_process()
                .map_err(|error| OpenError::System { path: "/proc/self/stat".into(), error })?;
            let length = path.as_os_str().len();
            if length > LONGEST_PATH {
                return Err(OpenError::TooLong { path, length });
            }
            let failed = |error| OpenError::System { path: path.clone(), error };
            close_at_exit().map_err(failed)?;
            let server = Server::start(path.clone()).map_err(failed)?;
            *SERVER.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(&server);
            let opened = Arc::new(Open(server));
            *open = Arc::downgrade(&opened);
            Ok(Diagnostics(opened))
        })
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        &self.0.0.path
    }

    /// Serves this world: clients see its events and its counters. Who builds a world and wants clients to see all of its events
    /// says [`WorldBuilder::diagnosed_by`].
    pub fn watch(&self, world: &World) {
        self.0.0.watch(world.inner());
    }

    /// Ends all sessions in order and removes the file. What comes later finds nobody.
    pub fn close(&self) {
        self.0.0.close(FAREWELL);
    }
}

/// However the process exits: by returning from `main`, or by `exit`.
fn close_at_exit() -> io::Result<()> {
    extern "C" fn close() {
        // In the child of a fork whoever held the lock may not exist.
        let server = SERVER.try_lock().ok().and_then(|server| server.upgrade());
        if let Some(server) = server {
            server.close(FAREWELL);
        }
    }
    static REGISTERED: OnceLock<()> = OnceLock::new();
    if REGISTERED.get().is_none() {
        at_exit(close)?;
        // Twice does no harm: the second finds it closed.
        let _ = REGISTERED.set(());
    }
    Ok(())
}

impl WorldBuilder {
    /// Lets clients of the socket see the world, from its first event on.
    #[must_use]
    pub fn diagnosed_by(self, diagnostics: &Diagnostics) -> Self {
        let diagnostics = diagnostics.clone();
        self.before_first_event(move |world| {
            diagnostics.watch(world);
            Ok(())
        })
    }
}

impl fmt::Debug for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Diagnostics").field("path", &self.path()).finish_non_exhaustive()
    }
}
