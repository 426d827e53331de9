//! A process that plays a trace: a diagnostics socket whose sessions get the bytes of a trace, whatever they request.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::diagnostics_support::client::{UNKNOWN_COMMAND, error, message};
use crate::diagnostics_support::subject::until;

/// A process without a runtime, and the socket that a test serves in its name.
pub struct Played {
    child: Child,
    sessions: Sessions,
    _directory: tempfile::TempDir,
}

/// Returns the path of a trace of .NET in this repository.
pub fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/nettrace").join(name)
}

impl Played {
    /// Starts the process; each session gets this trace, and stays open until the process ends.
    pub fn start(trace: &Path) -> Played {
        Played::start_with(std::fs::read(trace).unwrap())
    }

    /// As above, with the bytes of the trace.
    pub fn start_with(mut bytes: Vec<u8>) -> Played {
        // Without the end tag, which a session sends when it is stopped.
        assert_eq!(bytes.pop(), Some(1), "a whole trace of version 4");
        let directory = tempfile::tempdir().unwrap();
        let child = Command::new("sleep").arg("600").env("TMPDIR", directory.path()).spawn().unwrap();
        let socket = directory.path().join(format!("dotnet-diagnostic-{}-1-socket", child.id()));
        let listener = UnixListener::bind(socket).unwrap();
        // The kernel lets `spawn` return a moment before the process has its environment, which names the directory.
        let environment = format!("/proc/{}/environ", child.id());
        until("the process has its environment", || !std::fs::read(&environment).unwrap().is_empty());
        let sessions = Sessions::default();
        let (bytes, serving) = (Arc::new(bytes), sessions.clone());
        thread::spawn(move || {
            for connection in listener.incoming().map_while(Result::ok) {
                let (bytes, sessions) = (Arc::clone(&bytes), serving.clone());
                thread::spawn(move || serve(connection, &bytes, &sessions));
            }
        });
        Played { child, sessions, _directory: directory }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends the process, and with it its sessions.
    pub fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.sessions.0.lock().unwrap().clear();
    }
}

impl Drop for Played {
    fn drop(&mut self) {
        self.end();
    }
}

/// The sessions by their ids. A session ends when its sender is dropped.
#[derive(Clone, Default)]
struct Sessions(Arc<Mutex<BTreeMap<u64, Sender<()>>>>);

/// Answers one request.
fn serve(mut connection: UnixStream, trace: &[u8], sessions: &Sessions) {
    let mut head = [0; 20];
    if connection.read_exact(&mut head).is_err() {
        return;
    }
    let mut payload = vec![0; usize::from(u16::from_le_bytes([head[14], head[15]])) - head.len()];
    connection.read_exact(&mut payload).unwrap();
    // A client that goes away gets no more.
    let mut send = |bytes: &[u8]| connection.write_all(bytes).is_ok();
    match (head[16], head[17]) {
        (2, 2..=6) => {
            static LAST: AtomicU64 = AtomicU64::new(0);
            let (id, (hold, held)) = (1 + LAST.fetch_add(1, Ordering::Relaxed), channel());
            sessions.0.lock().unwrap().insert(id, hold);
            if send(&message(0xff, 0, &id.to_le_bytes())) && send(trace) {
                let _ = held.recv();
            }
        }
        (2, 1) => {
            sessions.0.lock().unwrap().remove(&u64::from_le_bytes(payload[..8].try_into().unwrap()));
            send(&message(0xff, 0, &payload));
        }
        // As .NET Core 3, it does not describe itself.
        _ => _ = send(&error(UNKNOWN_COMMAND)),
    }
}
