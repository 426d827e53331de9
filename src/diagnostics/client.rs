//! The other end: asking a process, ours or one of .NET's.
//!
//! A connection is for one request. Its reply is one message; what follows it is nothing, or the stream of a session. A session
//! is ended by a request on a second connection, whose reply comes when the stream has been sent to its end: so somebody must
//! go on reading.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::address::{self, NoSocket};
use super::message::{HEADER_BYTES, Header, Payload, Refusal, STOP_TRACING, message, put_string, set};

/// How long a reply may take: a session's end waits for what is in its buffers.
const REPLY_TIME: Duration = Duration::from_secs(30);
/// CollectTracing, version 2: every runtime since .NET Core 3.0 knows it.
const COLLECT_TRACING_2: u8 = 3;
const PROCESS_INFO_3: u8 = 8;
const PROCESS_INFO_2: u8 = 4;
const PROCESS_INFO: u8 = 0;
const NETTRACE: u32 = 1;

/// Why a process could not be asked, or what it answered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// There is nobody to ask.
    #[error(transparent)]
    NoSocket(#[from] NoSocket),
    /// There is a file, but nobody listens.
    #[error("nobody listens at {path}: {error}", path = .path.display())]
    Connect {
        /// The socket.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// It refused.
    #[error("the process refused: {0}")]
    Refused(Refusal),
    /// It refused for a reason of its own.
    #[error("the process refused, with error {0:#010x}")]
    RefusedBecause(u32),
    /// It answered, but not as it should.
    #[error("the process's answer makes no sense")]
    Nonsense,
    /// The connection broke.
    #[error("the process did not answer: {0}")]
    Connection(#[from] io::Error),
    /// More than a message holds.
    #[error("the request is too long: ask for fewer providers")]
    TooLong,
}

/// One provider, as a session asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provider {
    /// Its name.
    pub name: String,
    /// Which of its events: those with one of these keywords,
    pub keywords: u64,
    /// and up to this level.
    pub level: u32,
    /// What else it is told, as `key=value;key=value`.
    pub arguments: String,
}

/// Whether a session ends with what the process knows from before it (methods, modules): readers of stacks need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rundown {
    /// It does.
    Wanted,
    /// It does not.
    LeftOut,
}

/// What a process says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessInfo {
    /// Its number, as it sees it.
    pub pid: u64,
    /// The words by which it was started.
    pub command_line: String,
    /// Its operating system.
    pub system: String,
    /// And its architecture.
    pub architecture: String,
    /// The name of its program; empty from a runtime that is older than that.
    pub name: String,
    /// The version of its runtime; empty from one that is older than that.
    pub version: String,
}

/// A process that can be asked.
#[derive(Clone, Debug)]
pub struct Client {
    path: PathBuf,
}

/// A session that runs: its stream, to be read to its end.
#[derive(Debug)]
pub struct Session {
    /// Its number.
    pub id: u64,
    /// A .nettrace stream.
    pub stream: UnixStream,
}

impl Client {
    /// The process of this number.
    ///
    /// # Errors
    /// It has no socket that we could see.
    pub fn of_process(pid: u32) -> Result<Client, ClientError> {
        Ok(Client { path: address::of_process(pid)? })
    }

    /// Its socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it is, in the newest words that it knows.
    ///
    /// # Errors
    /// It does not answer, or knows none of them, as .NET Core 3.
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

    /// Starts a session, for which the process sets so many megabytes aside.
    ///
    /// # Errors
    /// It does not answer, or refuses.
    pub fn collect(&self, providers: &[Provider], megabytes: u32, rundown: Rundown) -> Result<Session, ClientError> {
        let mut payload = Vec::new();
        payload.extend_from_slice(&megabytes.to_le_bytes());
        payload.extend_from_slice(&NETTRACE.to_le_bytes());
        payload.push(u8::from(rundown == Rundown::Wanted));
        payload.extend_from_slice(&(providers.len() as u32).to_le_bytes());
        for provider in providers {
            payload.extend_from_slice(&provider.keywords.to_le_bytes());
            payload.extend_from_slice(&provider.level.to_le_bytes());
            put_string(&mut payload, &provider.name);
            put_string(&mut payload, &provider.arguments);
        }
        let (stream, reply) = self.ask(set::EVENT_PIPE, COLLECT_TRACING_2, &payload)?;
        // From here on silence is no fault: there may be nothing to tell.
        stream.set_read_timeout(None)?;
        let id = Payload::of(&reply).u64().map_err(|_| ClientError::Nonsense)?;
        Ok(Session { id, stream })
    }

    /// Ends a session. Returns when its stream has been sent to the end: somebody must read it meanwhile.
    ///
    /// # Errors
    /// The process does not answer.
    pub fn stop(&self, session: u64) -> Result<(), ClientError> {
        self.ask(set::EVENT_PIPE, STOP_TRACING, &session.to_le_bytes()).map(drop)
    }

    fn ask(&self, set: u8, id: u8, payload: &[u8]) -> Result<(UnixStream, Vec<u8>), ClientError> {
        let request = message(set, id, payload).ok_or(ClientError::TooLong)?;
        let mut stream =
            UnixStream::connect(&self.path).map_err(|error| ClientError::Connect { path: self.path.clone(), error })?;
        stream.set_read_timeout(Some(REPLY_TIME))?;
        stream.set_write_timeout(Some(REPLY_TIME))?;
        stream.write_all(&request)?;
        let mut head = [0; HEADER_BYTES];
        stream.read_exact(&mut head)?;
        let header = Header::parse(&head).map_err(|_| ClientError::Nonsense)?;
        let mut reply = vec![0; header.payload];
        stream.read_exact(&mut reply)?;
        if header.set != set::SERVER {
            return Err(ClientError::Nonsense);
        }
        if header.is_error() {
            return Err(refusal(Payload::of(&reply).u32().unwrap_or_default()));
        }
        Ok((stream, reply))
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
