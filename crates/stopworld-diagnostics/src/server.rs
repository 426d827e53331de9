//! The server: accepts connections at the socket and handles each message.
//!
//! One thread accepts connections. Each connection has its own thread, which reads one message, replies and closes the
//! connection, or sends the stream of a session. So a client that sends half a message, or stops reading, blocks only itself
//! (`.live.no-wait`). A message must arrive within [`REQUEST_TIME`], and there are at most [`MOST_CONNECTIONS`] connections.
//!
//! The threads belong to the process, not to a world: they are not mutators and never stopped. All signals are blocked, so that
//! no handler runs on them.
//!
//! **Refused requests** (`.live.owner`). The only access control is the mode of the socket file: any client that can connect
//! can send every request. So the server supports only requests that observe the process. It replies "not supported" to
//! requests for memory dumps, profilers, environment variables (reading or setting) and start-up hooks.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::message::{
    COLLECT_TRACING, HEADER_BYTES, Header, Payload, Refusal, STOP_TRACING, WORLDS, refused, set, well,
};
use super::process;
use super::request::Collect;
use super::session::{Control, Session, collect_if_asked};
use super::worlds::Worlds;
use crate::os::signals;
use crate::os::socket::Socket;
use crate::os::thread::getpid;
use crate::sync::{AtomicBool, AtomicU32, Ordering};
use stopworld::World;
use stopworld::events::record::{RecordError, in_blocking_region, locked};

/// The time limit for receiving a request.
const REQUEST_TIME: Duration = Duration::from_secs(5);
/// The time limit for sending a reply.
const ANSWER_TIME: Duration = Duration::from_secs(5);
/// The longest single wait, after which the thread checks whether the server is ending.
const SLICE_MS: i32 = 50;
/// The largest number of simultaneous connections. Further connections are closed at once.
const MOST_CONNECTIONS: u32 = 64;
/// The time for which a stop waits for the end of the session: longer than a session waits for a client that does not read.
const STOP_TIME: Duration = Duration::from_secs(10);

/// The server. Its threads share it.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) path: PathBuf,
    /// The device and inode of the socket file: another file with the same name must not be removed.
    file: (u64, u64),
    pid: i32,
    listener: Socket,
    ending: AtomicBool,
    connections: AtomicU32,
    pub(super) worlds: Arc<Worlds>,
    sessions: Mutex<Sessions>,
}

#[derive(Debug, Default)]
struct Sessions {
    begun: u64,
    running: HashMap<u64, Arc<Control>>,
}

impl Server {
    /// Opens the socket and serves it.
    pub(super) fn start(path: PathBuf) -> io::Result<Arc<Server>> {
        remove_stale(&path)?;
        let listener = Socket::listen(&path)?;
        let found = fs::symlink_metadata(&path)?;
        let server = Arc::new(Server {
            file: (found.dev(), found.ino()),
            path,
            pid: getpid(),
            listener,
            ending: AtomicBool::new(false),
            connections: AtomicU32::new(0),
            worlds: Arc::default(),
            sessions: Mutex::default(),
        });
        let serving = Arc::clone(&server);
        let started = spawn("stopworld-diag", move || serving.listen());
        if started.is_err() {
            server.unlink();
        }
        started.map(|()| server)
    }

    /// Returns whether this process opened the socket. A forked child has neither the threads nor the socket
    /// (`.fork.services`).
    pub(super) fn is_ours(&self) -> bool {
        self.pid == getpid()
    }

    fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Relaxed)
    }

    fn unlink(&self) {
        let is_the_same = fs::symlink_metadata(&self.path).is_ok_and(|found| (found.dev(), found.ino()) == self.file);
        if is_the_same {
            // If this fails, the file has already been removed.
            let _ = fs::remove_file(&self.path);
        }
    }

    /// Serves this world, too: running sessions receive its events.
    pub(super) fn watch(&self, world: &World) {
        if !self.is_ours() || !self.worlds.add(world) {
            return;
        }
        let running: Vec<_> = locked(&self.sessions, |sessions| sessions.running.values().cloned().collect());
        for control in running {
            // Joining fails if the session has ended meanwhile, or if the recorder can't take another world: then the session does not
            // report this world.
            let _ = control.join(world);
        }
    }

    /// `.live.end`: ends all sessions cleanly, removes the file, and waits at most `within` for clients to read the ends.
    pub(super) fn close(&self, within: Duration) {
        if !self.is_ours() || self.ending.swap(true, Ordering::Relaxed) {
            return;
        }
        self.unlink();
        self.listener.stop_listening();
        locked(&self.sessions, |sessions| sessions.running.values().for_each(|control| control.stop()));
        let deadline = Instant::now() + within;
        // Acquire: pairs with the release of `Connection`'s drop; the effects of the connection are visible.
        in_blocking_region(|| {
            while self.connections.load(Ordering::Acquire) > 0 && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(1));
            }
        });
    }

    fn listen(self: Arc<Server>) {
        while !self.is_ending() {
            if !self.listener.wait_to_read(1000).ready {
                continue;
            }
            match self.listener.accept() {
                Ok(socket) => self.welcome(socket),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // For example, no file descriptor is free: try again later.
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }

    /// Starts a thread for the connection, or closes it if it can't be served.
    fn welcome(self: &Arc<Server>, socket: Socket) {
        if self.connections.load(Ordering::Relaxed) >= MOST_CONNECTIONS {
            return;
        }
        self.connections.fetch_add(1, Ordering::Relaxed);
        let connection = Connection { server: Arc::clone(self), socket: Arc::new(socket) };
        // If the thread can't be started, the connection is dropped with the closure.
        let _ = spawn("stopworld-client", move || connection.serve());
    }

    fn stop(&self, session: u64) {
        let control = locked(&self.sessions, |sessions| sessions.running.get(&session).cloned());
        if let Some(control) = control {
            control.stop();
            control.wait_for_the_end(STOP_TIME);
        }
    }
}

/// Removes a stale socket with the name of this process's socket. It belonged to a process that has ended, because no two
/// processes have the same id and the same start time. A file that is not a socket is not removed.
fn remove_stale(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => fs::remove_file(path),
        Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
        Err(_) => Ok(()),
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    // The new thread inherits this thread's signal mask.
    let _blocked = signals::block_all();
    std::thread::Builder::new().name(name.into()).spawn(run).map(drop)
}

/// A connection of a client.
struct Connection {
    server: Arc<Server>,
    socket: Arc<Socket>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Unread bytes would turn the close into a connection reset for the client.
        let mut rest = [0; 4096];
        self.socket.end();
        while self.socket.receive(&mut rest).is_ok_and(|count| count > 0) {}
        // Release: pairs with the acquire of `Server::close`.
        self.server.connections.fetch_sub(1, Ordering::Release);
    }
}

/// The response to a request.
enum Answer {
    Reply(Vec<u8>),
    Collect(Collect),
}

impl Connection {
    fn serve(self) {
        let answer = self.request().and_then(|(header, payload)| self.answer(header, &payload));
        match answer {
            Ok(Answer::Reply(reply)) => self.reply(&reply),
            Ok(Answer::Collect(collect)) => self.collect(&collect),
            Err(refusal) => self.reply(&refused(refusal)),
        }
    }

    fn request(&self) -> Result<(Header, Vec<u8>), Refusal> {
        let deadline = Instant::now() + REQUEST_TIME;
        let mut head = [0; HEADER_BYTES];
        self.read(&mut head, deadline)?;
        let header = Header::parse(&head)?;
        let mut payload = vec![0; header.payload];
        self.read(&mut payload, deadline)?;
        Ok((header, payload))
    }

    /// Fills the buffer. Fails if the message is too short: it ended, or the rest did not arrive in time.
    fn read(&self, buffer: &mut [u8], deadline: Instant) -> Result<(), Refusal> {
        let mut have = 0;
        while have < buffer.len() {
            match self.socket.receive(&mut buffer[have..]) {
                Ok(0) => return Err(Refusal::BadEncoding),
                Ok(count) => have += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if Instant::now() >= deadline || self.server.is_ending() {
                        return Err(Refusal::BadEncoding);
                    }
                    self.socket.wait_to_read(SLICE_MS);
                }
                Err(_) => return Err(Refusal::BadEncoding),
            }
        }
        Ok(())
    }

    fn answer(&self, header: Header, payload: &[u8]) -> Result<Answer, Refusal> {
        let reply = |payload: &[u8]| Ok(Answer::Reply(well(payload)));
        match (header.set, header.id) {
            (set::EVENT_PIPE, STOP_TRACING) => {
                let session = Payload::of(payload).u64()?;
                // Like the .NET runtime, reply whether or not the session exists.
                self.server.stop(session);
                reply(&session.to_le_bytes())
            }
            (set::EVENT_PIPE, version) if COLLECT_TRACING.contains(&version) => {
                Ok(Answer::Collect(Collect::parse(version - 1, payload)?))
            }
            (set::PROCESS, 0) => reply(&process::info(1)),
            // ResumeRuntime: this runtime never starts suspended.
            (set::PROCESS, 1) => reply(&[]),
            (set::PROCESS, 4) => reply(&process::info(2)),
            (set::PROCESS, 8) => reply(&process::info(3)),
            (set::STOPWORLD, WORLDS) => reply(&self.server.worlds.list()),
            // Dumps; profilers; the environment, performance maps, start-up hooks.
            (set::DUMP, 1..=3) | (set::PROFILER, 1..=2) | (set::PROCESS, 2 | 3 | 5..=7) => Err(Refusal::NotSupported),
            _ => Err(Refusal::UnknownCommand),
        }
    }

    fn collect(&self, collect: &Collect) {
        match self.begin(collect) {
            Ok(session) => {
                let id = session.control().id;
                if self.write(&well(&id.to_le_bytes())).is_ok() {
                    collect_if_asked(collect, &self.server.worlds);
                    session.serve(&self.socket);
                } else {
                    drop(session);
                }
                locked(&self.server.sessions, |sessions| sessions.running.remove(&id));
            }
            Err(_) => self.reply(&refused(Refusal::Fail)),
        }
    }

    fn begin(&self, collect: &Collect) -> Result<Session, RecordError> {
        let id = locked(&self.server.sessions, |sessions| {
            sessions.begun += 1;
            sessions.begun
        });
        let session = Session::begin(id, collect, &self.socket, &self.server.worlds)?;
        let control = Arc::clone(session.control());
        locked(&self.server.sessions, |sessions| sessions.running.insert(id, Arc::clone(&control)));
        if self.server.is_ending() {
            control.stop();
        }
        // A world that is added from now on finds the session and joins it. A world may join twice, which has no effect.
        for world in self.server.worlds.living() {
            if let Err(error) = control.join(&world) {
                locked(&self.server.sessions, |sessions| sessions.running.remove(&id));
                return Err(error);
            }
        }
        Ok(session)
    }

    fn reply(&self, bytes: &[u8]) {
        // If this fails, the client has closed the connection.
        let _ = self.write(bytes);
    }

    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let deadline = Instant::now() + ANSWER_TIME;
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.socket.send(rest) {
                Ok(count) => rest = &rest[count..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && Instant::now() < deadline => {
                    self.socket.wait_to_write(SLICE_MS);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
