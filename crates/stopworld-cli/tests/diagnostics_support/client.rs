//! A client of the protocol, written byte by byte.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

pub const RUNTIME: &str = "Microsoft-Windows-DotNETRuntime";
pub const PRIVATE: &str = "Microsoft-Windows-DotNETRuntimePrivate";
pub const OWN: &str = "stopworld";

pub const BAD_ENCODING: u32 = 0x8013_1384;
pub const UNKNOWN_COMMAND: u32 = 0x8013_1385;
pub const UNKNOWN_MAGIC: u32 = 0x8013_1386;
pub const FAIL: u32 = 0x8000_4005;
pub const NOT_SUPPORTED: u32 = 0x8013_1515;

/// A time limit longer than any step takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(300);

pub fn message(set: u8, id: u8, payload: &[u8]) -> Vec<u8> {
    let size = (20 + payload.len()) as u16;
    [&b"DOTNET_IPC_V1\0"[..], &size.to_le_bytes(), &[set, id, 0, 0], payload].concat()
}

pub fn error(number: u32) -> Vec<u8> {
    message(0xff, 0xff, &number.to_le_bytes())
}

pub fn text(text: &str) -> Vec<u8> {
    let units: Vec<u16> = text.encode_utf16().chain([0]).collect();
    let mut bytes = (units.len() as u32).to_le_bytes().to_vec();
    units.iter().for_each(|unit| bytes.extend(unit.to_le_bytes()));
    bytes
}

/// A provider in a request.
#[derive(Clone, Debug)]
pub struct Ask {
    pub name: &'static str,
    pub keywords: u64,
    pub level: u32,
    pub arguments: &'static str,
    /// The event ids of the filter. If the flag is true, only these events are wanted; otherwise all except these.
    pub filter: (bool, Vec<u32>),
}

pub fn ask(name: &'static str, keywords: u64, level: u32) -> Ask {
    Ask { name, keywords, level, arguments: "", filter: (false, Vec::new()) }
}

/// The payload of CollectTracing of this version.
pub fn collect(version: u8, megabytes: u32, rundown: bool, providers: &[Ask]) -> Vec<u8> {
    let mut bytes = Vec::new();
    if version >= 5 {
        bytes.extend([0; 4]);
    }
    bytes.extend(megabytes.to_le_bytes());
    bytes.extend(1u32.to_le_bytes());
    match version {
        1 => {}
        2 => bytes.push(rundown.into()),
        3 => bytes.extend([rundown.into(), 0]),
        _ => {
            bytes.extend(if rundown { 0x8002_0139u64 } else { 0 }.to_le_bytes());
            bytes.push(0);
        }
    }
    bytes.extend((providers.len() as u32).to_le_bytes());
    for Ask { name, keywords, level, arguments, filter } in providers {
        bytes.extend(keywords.to_le_bytes());
        bytes.extend(level.to_le_bytes());
        bytes.extend(text(name));
        bytes.extend(if arguments.is_empty() { vec![0; 4] } else { text(arguments) });
        if version >= 5 {
            bytes.push(filter.0.into());
            bytes.extend((filter.1.len() as u32).to_le_bytes());
            filter.1.iter().for_each(|id| bytes.extend(id.to_le_bytes()));
        }
    }
    if version >= 6 {
        bytes.extend([0; 4]);
    }
    bytes
}

/// A client of one socket.
#[derive(Clone, Debug)]
pub struct Client(pub PathBuf);

/// A session whose stream is read in the background.
pub struct Session {
    pub id: u64,
    pub reading: JoinHandle<Vec<u8>>,
}

impl Client {
    pub fn at(path: &Path) -> Client {
        Client(path.to_owned())
    }

    pub fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(&self.0).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Sends these bytes, and returns everything up to the end of the connection.
    pub fn exchange(&self, request: &[u8]) -> Vec<u8> {
        let mut stream = self.connect();
        stream.write_all(request).unwrap();
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply).unwrap();
        reply
    }

    /// Like [`exchange`](Self::exchange), for a request that announces more bytes than it has. After it, the client closes its half of the
    /// connection.
    pub fn exchange_cut(&self, request: &[u8]) -> Vec<u8> {
        let mut stream = self.connect();
        stream.write_all(request).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply).unwrap();
        reply
    }

    /// Starts a session; returns its number, and the connection after the reply.
    pub fn open(&self, version: u8, payload: &[u8]) -> (u64, UnixStream) {
        let mut stream = self.connect();
        stream.write_all(&message(2, version + 1, payload)).unwrap();
        let mut reply = [0; 28];
        stream.read_exact(&mut reply).unwrap();
        assert_eq!(reply[..20], *[&b"DOTNET_IPC_V1\0"[..], &[28, 0, 0xff, 0, 0, 0]].concat(), "{reply:02x?}");
        (u64::from_le_bytes(reply[20..].try_into().unwrap()), stream)
    }

    pub fn begin(&self, version: u8, payload: &[u8]) -> Session {
        let (id, mut stream) = self.open(version, payload);
        let reading = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            // A process that is killed resets the connection.
            let _ = stream.read_to_end(&mut bytes);
            bytes
        });
        Session { id, reading }
    }

    /// Starts a session with these providers, without rundown.
    pub fn watch(&self, providers: &[Ask]) -> Session {
        self.begin(2, &collect(2, 64, false, providers))
    }

    pub fn stop(&self, session: u64) {
        let reply = self.exchange(&message(2, 1, &session.to_le_bytes()));
        assert_eq!(reply, message(0xff, 0, &session.to_le_bytes()));
    }

    /// Stops a session, and returns its whole stream.
    pub fn end(&self, session: Session) -> Vec<u8> {
        self.stop(session.id);
        session.reading.join().unwrap()
    }
}
