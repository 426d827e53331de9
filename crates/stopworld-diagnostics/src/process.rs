//! The information that a process gives about itself: the three versions of ProcessInfo.
//!
//! A tool requests the newest version, and an older one if that is refused. The process id is that in the process's own
//! namespace; the cookie is generated once per process. There is no managed assembly and no common language runtime: the name
//! is that of the executable, and the version is that of this crate. Tools compare it with .NET versions and treat the runtime
//! as an old one, which is intended.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::OnceLock;
use std::{env, fs};

use super::message::put_string;
use crate::os::{clock, thread};

const SYSTEM: &str = "Linux";
const ARCHITECTURE: &str = "x64";
const PORTABLE: &str = if cfg!(target_env = "musl") { "linux-musl-x64" } else { "linux-x64" };
/// The largest number of bytes of a command line in a reply: a command line can be longer than a message.
const LONGEST_TEXT: usize = 8 << 10;

/// Encodes the payload of the reply to ProcessInfo, version 1, 2 or 3.
pub(crate) fn info(version: u8) -> Vec<u8> {
    let mut to = Vec::with_capacity(512);
    if version == 3 {
        to.extend_from_slice(&1u32.to_le_bytes());
    }
    to.extend_from_slice(&u64::from(std::process::id()).to_le_bytes());
    to.extend_from_slice(&cookie());
    [&command_line()[..], SYSTEM, ARCHITECTURE].into_iter().for_each(|text| put_string(&mut to, text));
    if version >= 2 {
        put_string(&mut to, &name());
        put_string(&mut to, env!("CARGO_PKG_VERSION"));
    }
    if version == 3 {
        put_string(&mut to, PORTABLE);
    }
    to
}

/// Returns the words of the command line, separated by spaces.
fn command_line() -> String {
    let words = fs::read("/proc/self/cmdline").unwrap_or_default();
    let words = words.strip_suffix(b"\0").unwrap_or(&words);
    let line: Vec<u8> = words.iter().map(|byte| if *byte == 0 { b' ' } else { *byte }).collect();
    let mut line = OsString::from_vec(line).to_string_lossy().into_owned();
    line.truncate(line.floor_char_boundary(LONGEST_TEXT));
    line
}

fn name() -> String {
    let path = env::current_exe().unwrap_or_default();
    path.file_name().map_or_else(String::new, |name| String::from_utf8_lossy(name.as_bytes()).into_owned())
}

/// Returns a unique number of this process, as a random GUID.
fn cookie() -> [u8; 16] {
    static COOKIE: OnceLock<[u8; 16]> = OnceLock::new();
    *COOKIE.get_or_init(|| {
        let mut bytes = [0; 16];
        if thread::random(&mut bytes).is_err() {
            // The kernel has no random numbers yet: use the time and the process id, which are unique enough.
            bytes[..8].copy_from_slice(&clock::now_ns().to_le_bytes());
            bytes[8..12].copy_from_slice(&std::process::id().to_le_bytes());
        }
        bytes[7] = bytes[7] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        bytes
    })
}

#[cfg(test)]
mod tests {
    use super::super::message::Payload;
    use super::*;

    #[test]
    fn each_version_adds_to_the_one_before() {
        for version in 1..=3 {
            let bytes = info(version);
            let mut payload = Payload::of(&bytes);
            if version == 3 {
                assert_eq!(payload.u32(), Ok(1));
            }
            assert_eq!(payload.u64(), Ok(u64::from(std::process::id())));
            assert_eq!(payload.bytes::<16>(), Ok(cookie()));
            assert_eq!(payload.string(), Ok(command_line()));
            assert_eq!((payload.string().unwrap().as_str(), payload.string().unwrap().as_str()), ("Linux", "x64"));
            if version >= 2 {
                assert_eq!(payload.string(), Ok(name()));
                assert_eq!(payload.string().unwrap(), env!("CARGO_PKG_VERSION"));
            }
            if version == 3 {
                assert_eq!(payload.string().unwrap(), PORTABLE);
            }
            assert!(payload.u8().is_err(), "nothing follows");
        }
    }
}
