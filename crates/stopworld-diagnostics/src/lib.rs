//! The .NET diagnostics socket: `dotnet-trace`, `dotnet-counters` and similar tools find this process, and observe its
//! collections live.
//!
//! ```text
//!   dotnet-trace, dotnet-counters,          a socket in $TMPDIR,            a thread per connection
//!   `stopworld trace`, `stopworld counters` ──► its owner's only ──► request ──► answer
//!                                                                       └─────► session: a .nettrace stream
//! ```
//!
//! The socket is opened only on request: a program calls `Diagnostics::open()` and
//! [records its worlds](stopworld::WorldBuilder::record_to) to the result; a user of the command passes `--diagnostics`. The
//! environment variables that turn off the .NET socket turn off this one, too. docs/diagnostics.md describes its use and the
//! refused requests.
//!
//! | file | part |
//! |---|---|
//! | `address` | the path of a process's socket |
//! | `message` | the format of requests and replies |
//! | `request` | the parser of session requests |
//! | `process` | the information that the process gives about itself |
//! | `server` | accepts connections, replies to requests or refuses them |
//! | `session`, `queue`, `ring`, `stream` | one client's events, from the recorder to its connection |
//! | `counters` | the values that `dotnet-counters` shows |
//! | `worlds` | the worlds that are served |
//! | `client`, `watched` | the client side, for the command: sends requests to a process, reads its counters |

pub mod address;
pub mod client;
mod counters;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
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

use stopworld_platform::{os, sabotage, sync};

use self::server::Server;
use crate::os::exit::at_exit;
use crate::os::socket::LONGEST_PATH;
use stopworld::events::record::{RecordError, locked};
use stopworld::{RecordWorld, Since, World};

/// The time that clients have, when the process ends, to read the ends of their sessions.
const FAREWELL: Duration = Duration::from_secs(10);

/// The environment variables that turn .NET's diagnostics socket off if their value is 0.
const SWITCHES: [&str; 4] = [
    "DOTNET_EnableDiagnostics",
    "DOTNET_EnableDiagnostics_IPC",
    "COMPlus_EnableDiagnostics",
    "COMPlus_EnableDiagnostics_IPC",
];

/// The reason why the socket could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// An environment variable turns it off.
    #[error("{0}=0 in the environment turns the diagnostics socket off")]
    SwitchedOff(&'static str),
    /// The path is longer than a socket address can hold.
    #[error(
        "the diagnostics socket's path has {length} bytes; at most {longest} are allowed: set TMPDIR to a shorter directory ({path})",
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
    #[error("can't open the diagnostics socket {path}: {error}", path = .path.display())]
    System {
        /// The path of the socket.
        path: PathBuf,
        /// The error.
        #[source]
        error: io::Error,
    },
}

/// A handle to the process's diagnostics socket. Cheap to clone; all clones refer to the same socket. When the last handle is
/// dropped, and when the process exits, all sessions are ended cleanly and the socket file is removed.
#[derive(Clone)]
pub struct Diagnostics(Arc<Open>);

struct Open(Arc<Server>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.close(FAREWELL);
    }
}

/// The open socket, for further calls of `open` and for the end of the process.
static OPEN: Mutex<Weak<Open>> = Mutex::new(Weak::new());
static SERVER: Mutex<Weak<Server>> = Mutex::new(Weak::new());

impl Diagnostics {
    /// Opens the socket. There is at most one per process: a further call returns a handle to the same socket.
    ///
    /// # Errors
    /// If the environment turns the socket off, its path is too long, or the system refuses.
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

    /// Returns the path of the socket file.
    pub fn path(&self) -> &Path {
        &self.0.0.path
    }

    /// Ends all sessions cleanly and removes the file. Later connections fail.
    pub fn close(&self) {
        self.0.0.close(FAREWELL);
    }
}

/// Registers a function that closes the socket when the process exits, by returning from `main` or by `exit`.
fn close_at_exit() -> io::Result<()> {
    extern "C" fn close() {
        // In a forked child, the thread that held the lock may not exist.
        let server = SERVER.try_lock().ok().and_then(|server| server.upgrade());
        if let Some(server) = server {
            server.close(FAREWELL);
        }
    }
    static REGISTERED: OnceLock<()> = OnceLock::new();
    if REGISTERED.get().is_none() {
        at_exit(close)?;
        // Registering it twice is harmless: the second call finds the socket closed.
        let _ = REGISTERED.set(());
    }
    Ok(())
}

/// Clients receive the events and the counters of the worlds that are recorded to the socket.
impl RecordWorld for Diagnostics {
    fn record_world(&self, world: &World, _since: Since) -> Result<(), RecordError> {
        self.0.0.watch(world);
        Ok(())
    }
}

impl fmt::Debug for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Diagnostics").field("path", &self.path()).finish_non_exhaustive()
    }
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
