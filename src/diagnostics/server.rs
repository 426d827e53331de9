//! Who listens at the socket, and what is done with each message.
//!
//! A thread accepts; each connection has a thread of its own, which reads one message, answers, and closes, or becomes
//! the sender of a session. So a client that sends half a message, or stops reading, keeps nobody waiting but itself (`.live.no-wait`): a message
//! must be there within [`REQUEST_TIME`], and there are at most [`MOST_CONNECTIONS`] connections.
//!
//! The threads are the process's, not a world's: no mutators, never stopped, with all signals blocked, so that no handler runs there.
//!
//! **What is refused** (`.live.owner`). Whoever can connect can do all of this: there is no more access control than the mode of the socket's
//! file. So only what watches is done. Dumps of memory, profilers, environment variables (to read or to set), start-up hooks are answered
//! with the protocol's "not supported".

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::message::{COLLECT_TRACING, HEADER_BYTES, Header, Payload, Refusal, STOP_TRACING, refused, set, well};
use super::process;
use super::request::Collect;
use super::session::{Control, Session, collect_if_asked};
use super::worlds::Worlds;
use crate::events::record::{RecordError, as_blocking, locked};
use crate::os::signals;
use crate::os::socket::Socket;
use crate::os::thread::getpid;
use crate::runtime::Inner;
use crate::sync::{AtomicBool, AtomicU32, Ordering};

/// A request must have come within this time.
const REQUEST_TIME: Duration = Duration::from_secs(5);
/// An answer must have been taken within this time.
const ANSWER_TIME: Duration = Duration::from_secs(5);
/// How long a wait lasts before it is looked whether the server is to end.
const SLICE_MS: i32 = 50;
/// Connections at once. Those beyond are closed as they come.
const MOST_CONNECTIONS: u32 = 64;
/// How long a stop waits for the session's end: longer than a session gives a client that does not read.
const STOP_TIME: Duration = Duration::from_secs(10);

/// The server. Its threads share it.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) path: PathBuf,
    /// The socket's file, by device and number: another of its name is not ours to remove.
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

    /// Not so in the child of a fork: it has neither the threads nor the socket (`.fork.services`).
    pub(super) fn is_ours(&self) -> bool {
        self.pid == getpid()
    }

    fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Relaxed)
    }

    fn unlink(&self) {
        let is_the_same = fs::symlink_metadata(&self.path).is_ok_and(|found| (found.dev(), found.ino()) == self.file);
        if is_the_same {
            // Whoever removed it meanwhile has done our work.
            let _ = fs::remove_file(&self.path);
        }
    }

    /// Serves this world, too: sessions that run get its events.
    pub(super) fn watch(&self, world: &Arc<Inner>) {
        if !self.is_ours() || !self.worlds.add(world) {
            return;
        }
        let running: Vec<_> = locked(&self.sessions, |sessions| sessions.running.values().cloned().collect());
        for control in running {
            // One that has ended meanwhile, or a world too many for the recorder: it is not seen.
            let _ = control.join(world);
        }
    }

    /// `.live.end`: ends all sessions in order, removes the file, and waits so long for clients to take their ends.
    pub(super) fn close(&self, within: Duration) {
        if !self.is_ours() || self.ending.swap(true, Ordering::Relaxed) {
            return;
        }
        self.unlink();
        self.listener.stop_listening();
        locked(&self.sessions, |sessions| sessions.running.values().for_each(|control| control.stop()));
        let deadline = Instant::now() + within;
        // Acquire: pairs with the release of `Connection`'s drop; what it did is done.
        as_blocking(|| {
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
                // No descriptors, for example: it may be better soon.
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }

    /// One who cannot be served is hung up on.
    fn welcome(self: &Arc<Server>, socket: Socket) {
        if self.connections.load(Ordering::Relaxed) >= MOST_CONNECTIONS {
            return;
        }
        self.connections.fetch_add(1, Ordering::Relaxed);
        let connection = Connection { server: Arc::clone(self), socket: Arc::new(socket) };
        // If there is no thread the connection is dropped with the closure.
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

/// A file of exactly our name is that of a process that had our number and is gone: nobody else starts at the same moment
/// with the same number. What is no socket is not removed.
fn remove_stale(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => fs::remove_file(path),
        Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
        Err(_) => Ok(()),
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    // The new thread has this one's mask from its first instruction on.
    let _blocked = signals::block_all();
    std::thread::Builder::new().name(name.into()).spawn(run).map(drop)
}

/// One who has connected.
struct Connection {
    server: Arc<Server>,
    socket: Arc<Socket>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Bytes that nobody read would make the client's end an error.
        let mut rest = [0; 4096];
        self.socket.end();
        while self.socket.receive(&mut rest).is_ok_and(|count| count > 0) {}
        // Release: pairs with the acquire of `Server::close`.
        self.server.connections.fetch_sub(1, Ordering::Release);
    }
}

/// What is done with a request.
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

    /// Fills the buffer, or says that the message is too short: it ended, or no more has come in time.
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
                // As real runtimes do: whether there was one or not.
                self.server.stop(session);
                reply(&session.to_le_bytes())
            }
            (set::EVENT_PIPE, version) if COLLECT_TRACING.contains(&version) => {
                Ok(Answer::Collect(Collect::parse(version - 1, payload)?))
            }
            (set::PROCESS, 0) => reply(&process::info(1)),
            // ResumeRuntime: nothing was held back.
            (set::PROCESS, 1) => reply(&[]),
            (set::PROCESS, 4) => reply(&process::info(2)),
            (set::PROCESS, 8) => reply(&process::info(3)),
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
        // One that comes later finds the session and joins it; who is in both joins twice, which is once.
        for world in self.server.worlds.living() {
            if let Err(error) = control.join(&world) {
                locked(&self.server.sessions, |sessions| sessions.running.remove(&id));
                return Err(error);
            }
        }
        Ok(session)
    }

    fn reply(&self, bytes: &[u8]) {
        // Who does not take it has hung up.
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
