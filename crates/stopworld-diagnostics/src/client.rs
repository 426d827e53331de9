//! The client side: sends requests to a process, of stopworld or of .NET.
//!
//! A connection serves one request. The reply is one message; only the stream of a session follows it. A request on a second
//! connection ends a session. The reply to that request arrives after the stream has been sent to its end, so another thread
//! must continue to read the stream.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use socket2::{Domain, SockAddr, Socket, Type};

use super::address::{self, NoSocket};
use super::message::{HEADER_BYTES, Header, Payload, Refusal, STOP_TRACING, WORLDS, message, put_string, set};
use super::request::WORLD_KEY;

/// The default time limit for a reply. It is long because the end of a session waits until its buffers are sent.
const REPLY_TIME: Duration = Duration::from_secs(30);
/// CollectTracing, version 2: every runtime since .NET Core 3.0 supports it.
const COLLECT_TRACING_2: u8 = 3;
const PROCESS_INFO_3: u8 = 8;
const PROCESS_INFO_2: u8 = 4;
const PROCESS_INFO: u8 = 0;
const NETTRACE: u32 = 1;

/// The reason why a request failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The process has no socket, or it was not found.
    #[error(transparent)]
    NoSocket(#[from] NoSocket),
    /// The socket file exists, but connecting to it failed.
    #[error("can't connect to {path}", path = .path.display())]
    Connect {
        /// The path of the socket.
        path: PathBuf,
        /// The error.
        #[source]
        error: io::Error,
    },
    /// The process refused the request.
    #[error("the process refused the request: {0}")]
    Refused(Refusal),
    /// The process refused to start a session.
    #[error(
        "the process refused the session: a process of stopworld serves at most eight sessions and trace files together; end one, and try \
         again"
    )]
    NoSession,
    /// The process refused the request with an error number that is not one of [`Refusal`].
    #[error("the process refused the request with error {0:#010x}")]
    RefusedBecause(u32),
    /// The reply is malformed.
    #[error("the process sent a malformed reply")]
    Nonsense,
    /// The reply did not arrive in time.
    #[error("process {pid} did not answer within {} s: is it stopped?", .within.as_secs_f64())]
    Silent {
        /// The id of the process.
        pid: u32,
        /// The time limit.
        within: Duration,
    },
    /// The connection broke.
    #[error("the process did not reply")]
    Connection(#[from] io::Error),
    /// The request exceeds the size of a message.
    #[error("the request is too long: request fewer providers")]
    TooLong,
}

/// A provider that a session requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provider {
    /// The name of the provider.
    pub name: String,
    /// The requested keywords: selects events that have one of them.
    pub keywords: u64,
    /// The highest level of the requested events.
    pub level: u32,
    /// Further arguments, as `key=value;key=value`.
    pub arguments: String,
}

impl Provider {
    /// Adds the argument by which the session records, and collects in, only the world with this number. See [`Client::worlds`].
    #[must_use]
    pub fn in_world(mut self, number: u64) -> Provider {
        let separator = if self.arguments.is_empty() { "" } else { ";" };
        self.arguments += &format!("{separator}{WORLD_KEY}={number}");
        self
    }
}

/// Whether a session ends with a rundown: what existed before the session (methods, modules). Readers of stacks need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rundown {
    /// The session ends with a rundown.
    Requested,
    /// The session has no rundown.
    LeftOut,
}

/// The information that a process gives about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessInfo {
    /// The process id, in the process's own namespace.
    pub pid: u64,
    /// The command line with which it was started.
    pub command_line: String,
    /// The operating system.
    pub system: String,
    /// The architecture.
    pub architecture: String,
    /// The name of the program; empty if the runtime is too old to report it.
    pub name: String,
    /// The version of the runtime; empty if the runtime is too old to report it.
    pub version: String,
}

/// A client of one process.
#[derive(Clone, Debug)]
pub struct Client {
    pid: u32,
    path: PathBuf,
    reply_time: Duration,
}

/// A running session. Its stream must be read to the end.
#[derive(Debug)]
pub struct Session {
    /// The id of the session.
    pub id: u64,
    /// The stream, in .nettrace format.
    pub stream: UnixStream,
}

impl Client {
    /// Creates a client of the process with this id.
    ///
    /// # Errors
    /// If the caller can find no socket of the process.
    pub fn of_process(pid: u32) -> Result<Client, ClientError> {
        Ok(Client { pid, path: address::of_process(pid)?, reply_time: REPLY_TIME })
    }

    /// Sets the time limit for each reply, which must not be zero. The default is 30 seconds.
    #[must_use]
    pub fn with_reply_time(self, reply_time: Duration) -> Client {
        Client { reply_time, ..self }
    }

    /// Returns the path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Requests information about the process, in the newest version that it supports.
    ///
    /// # Errors
    /// If the process does not reply, or supports no version, as .NET Core 3.
    pub fn process_info(&self) -> Result<ProcessInfo, ClientError> {
        let mut answer = Err(ClientError::Refused(Refusal::UnknownCommand));
        for id in [PROCESS_INFO_3, PROCESS_INFO_2, PROCESS_INFO] {
            answer = self.ask(set::PROCESS, id, &[]);
            match answer {
                Err(ClientError::Refused(Refusal::UnknownCommand)) => {}
                Ok((_, reply)) => return info(id, &reply).map_err(|_| ClientError::Nonsense),
                Err(error) => return Err(error),
            }
        }
        answer.and(Err(ClientError::Nonsense))
    }

    /// Requests the numbers of the worlds that are recorded to the socket, the newest first. `None` if the process has no worlds, as that of
    /// .NET.
    ///
    /// # Errors
    /// If the process does not reply.
    pub fn worlds(&self) -> Result<Option<Vec<u64>>, ClientError> {
        const NUMBER_BYTES: usize = 8;
        let reply = match self.ask(set::STOPWORLD, WORLDS, &[]) {
            Ok((_, reply)) => reply,
            Err(ClientError::Refused(_) | ClientError::RefusedBecause(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut reply = Payload::of(&reply);
        let count = reply.count(NUMBER_BYTES, usize::MAX).map_err(|_| ClientError::Nonsense)?;
        let numbers: Result<Vec<u64>, Refusal> = (0..count).map(|_| reply.u64()).collect();
        numbers.map(Some).map_err(|_| ClientError::Nonsense)
    }

    /// Requests the command line of the process; empty if the process does not report it.
    ///
    /// # Errors
    /// If the process does not answer in time: it would not answer another request, either.
    pub fn command_line(&self) -> Result<String, ClientError> {
        match self.process_info() {
            Ok(info) => Ok(info.command_line),
            Err(error @ ClientError::Silent { .. }) => Err(error),
            Err(_) => Ok(String::new()),
        }
    }

    /// Starts a session, for which the process reserves a buffer of `megabytes`.
    ///
    /// # Errors
    /// If the process does not reply, or refuses the request.
    pub fn collect(&self, providers: &[Provider], megabytes: u32, rundown: Rundown) -> Result<Session, ClientError> {
        let mut payload = Vec::new();
        payload.extend_from_slice(&megabytes.to_le_bytes());
        payload.extend_from_slice(&NETTRACE.to_le_bytes());
        payload.push(u8::from(rundown == Rundown::Requested));
        payload.extend_from_slice(&(providers.len() as u32).to_le_bytes());
        for provider in providers {
            payload.extend_from_slice(&provider.keywords.to_le_bytes());
            payload.extend_from_slice(&provider.level.to_le_bytes());
            put_string(&mut payload, &provider.name);
            put_string(&mut payload, &provider.arguments);
        }
        let (stream, reply) = self.ask(set::EVENT_PIPE, COLLECT_TRACING_2, &payload).map_err(|error| match error {
            ClientError::Refused(Refusal::Fail) => ClientError::NoSession,
            error => error,
        })?;
        // From here on the stream may be silent for any time: there may be no events.
        stream.set_read_timeout(None)?;
        let id = Payload::of(&reply).u64().map_err(|_| ClientError::Nonsense)?;
        Ok(Session { id, stream })
    }

    /// Ends a session. Returns after its stream has been sent to the end: another thread must read it meanwhile.
    ///
    /// # Errors
    /// If the process does not reply.
    pub fn stop(&self, session: u64) -> Result<(), ClientError> {
        self.ask(set::EVENT_PIPE, STOP_TRACING, &session.to_le_bytes()).map(drop)
    }

    fn ask(&self, set: u8, id: u8, payload: &[u8]) -> Result<(UnixStream, Vec<u8>), ClientError> {
        let request = message(set, id, payload).ok_or(ClientError::TooLong)?;
        let mut stream = self.connect().map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => self.broken(error),
            _ => ClientError::Connect { path: self.path.clone(), error },
        })?;
        stream.set_read_timeout(Some(self.reply_time))?;
        stream.write_all(&request).map_err(|error| self.broken(error))?;
        let mut head = [0; HEADER_BYTES];
        stream.read_exact(&mut head).map_err(|error| self.broken(error))?;
        let header = Header::parse(&head).map_err(|_| ClientError::Nonsense)?;
        let mut reply = vec![0; header.payload];
        stream.read_exact(&mut reply).map_err(|error| self.broken(error))?;
        if header.set != set::SERVER {
            return Err(ClientError::Nonsense);
        }
        if header.is_error() {
            return Err(refusal(Payload::of(&reply).u32().unwrap_or_default()));
        }
        Ok((stream, reply))
    }

    /// Connects, within the time limit, which also applies to what is written then.
    fn connect(&self) -> io::Result<UnixStream> {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        // Before it connects: the queue of a process that is stopped may be full, and then connecting waits for a place in it.
        socket.set_write_timeout(Some(self.reply_time))?;
        socket.connect(&SockAddr::unix(&self.path)?)?;
        Ok(socket.into())
    }

    /// Returns the error for a connection that failed, or whose time limit expired.
    fn broken(&self, error: io::Error) -> ClientError {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                ClientError::Silent { pid: self.pid, within: self.reply_time }
            }
            _ => ClientError::Connection(error),
        }
    }
}

fn refusal(number: u32) -> ClientError {
    use Refusal::{BadEncoding, Fail, NotSupported, UnknownCommand, UnknownMagic};
    let known = [BadEncoding, UnknownCommand, UnknownMagic, Fail, NotSupported];
    match known.into_iter().find(|refusal| *refusal as u32 == number) {
        Some(refusal) => ClientError::Refused(refusal),
        None => ClientError::RefusedBecause(number),
    }
}

pub(super) fn info(id: u8, reply: &[u8]) -> Result<ProcessInfo, Refusal> {
    let mut reply = Payload::of(reply);
    if id == PROCESS_INFO_3 {
        reply.u32()?;
    }
    let pid = reply.u64()?;
    reply.bytes::<16>()?;
    let (command_line, system, architecture) = (reply.string()?, reply.string()?, reply.string()?);
    let (name, version) = if id == PROCESS_INFO { Default::default() } else { (reply.string()?, reply.string()?) };
    Ok(ProcessInfo { pid, command_line, system, architecture, name, version })
}

#[cfg(test)]
mod tests {
    use std::error::Error;
    use std::os::unix::net::UnixListener;

    use super::*;

    /// The listener accepts no connection, as a stopped process.
    #[test]
    fn a_process_that_does_not_answer_is_named_after_the_time_limit() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let _listener = UnixListener::bind(&path).unwrap();
        let client = Client { pid: 12, path, reply_time: REPLY_TIME }.with_reply_time(Duration::from_millis(1_250));
        for silent in [client.command_line().map(drop), client.stop(1)].map(Result::unwrap_err) {
            assert_eq!(silent.to_string(), "process 12 did not answer within 1.25 s: is it stopped?");
            assert!(silent.source().is_none());
        }
    }

    #[test]
    fn a_process_whose_queue_of_connections_is_full_is_named_after_the_time_limit() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let socket = || Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        let address = SockAddr::unix(&path).unwrap();
        let listener = socket();
        listener.bind(&address).unwrap();
        listener.listen(1).unwrap();
        let waiting = std::iter::repeat_with(|| {
            let socket = socket();
            socket.set_nonblocking(true).unwrap();
            socket.connect(&address).map(|()| socket)
        });
        let _waiting: Vec<Socket> = waiting.map_while(Result::ok).collect();
        let client = Client { pid: 12, path, reply_time: Duration::from_millis(250) };
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || sender.send(client.stop(1)));
        let answer = receiver.recv_timeout(Duration::from_secs(60)).expect("the time limit applies");
        assert_eq!(answer.unwrap_err().to_string(), "process 12 did not answer within 0.25 s: is it stopped?");
    }

    #[test]
    fn a_refused_session_names_the_limit() {
        use super::super::message::refused;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let client = Client { pid: 12, path: path.clone(), reply_time: REPLY_TIME };
        let listener = UnixListener::bind(&path).unwrap();
        let serving = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut head = [0; HEADER_BYTES];
            stream.read_exact(&mut head).unwrap();
            stream.read_exact(&mut vec![0; Header::parse(&head).unwrap().payload]).unwrap();
            stream.write_all(&refused(Refusal::Fail)).unwrap();
        });
        let refused = client.collect(&[], 1, Rundown::LeftOut).unwrap_err().to_string();
        serving.join().unwrap();
        assert!(refused.contains("at most eight sessions and trace files"), "{refused}");
    }

    /// Callers print an error with its sources, so each text must occur once.
    #[test]
    fn the_text_of_an_error_does_not_repeat_its_source() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let client = Client { pid: 12, path: path.clone(), reply_time: REPLY_TIME };
        let refused = client.process_info().unwrap_err();
        assert_eq!(refused.to_string(), format!("can't connect to {}", path.display()));
        assert!(refused.source().is_some());
        let listener = UnixListener::bind(&path).unwrap();
        let closing = std::thread::spawn(move || drop(listener.accept().unwrap()));
        let broken = client.process_info().unwrap_err();
        closing.join().unwrap();
        assert_eq!(broken.to_string(), "the process did not reply");
        assert!(broken.source().is_some());
    }
}
