//! A process that plays a trace: a diagnostics socket whose sessions get the bytes of a file, whatever they request.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::mpsc::{Sender, channel};
use std::thread;

use crate::diagnostics_support::client::{UNKNOWN_COMMAND, error, message};

/// A process without a runtime, and the socket that a test serves in its name.
pub struct Played {
    child: Child,
    /// Dropping it ends the sessions.
    hold: Option<Sender<()>>,
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
        let (hold, held) = channel::<()>();
        let (stop, stopped) = channel::<()>();
        thread::spawn(move || {
            // The threads of sessions wait for a channel that is closed when the test drops its end.
            let _ = held.recv();
            drop(stop);
        });
        let stopped = std::sync::Arc::new(std::sync::Mutex::new(stopped));
        thread::spawn(move || {
            for connection in listener.incoming().map_while(Result::ok) {
                let (bytes, stopped) = (bytes.clone(), std::sync::Arc::clone(&stopped));
                thread::spawn(move || serve(connection, &bytes, || _ = stopped.lock().unwrap().recv()));
            }
        });
        Played { child, hold: Some(hold), _directory: directory }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends the process, and with it its sessions.
    pub fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.hold = None;
    }
}

impl Drop for Played {
    fn drop(&mut self) {
        self.end();
    }
}

/// Answers one request.
fn serve(mut connection: UnixStream, trace: &[u8], wait_for_the_end: impl FnOnce()) {
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
            if send(&message(0xff, 0, &1u64.to_le_bytes())) && send(trace) {
                wait_for_the_end();
            }
        }
        (2, 1) => _ = send(&message(0xff, 0, &1u64.to_le_bytes())),
        // As .NET Core 3, it does not describe itself.
        _ => _ = send(&error(UNKNOWN_COMMAND)),
    }
}
