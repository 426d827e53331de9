//! The first events of a log: its process, and when it began.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::time::{SystemTime, UNIX_EPOCH};

use super::blocks::Blocks;
use super::payload::Payload;
use crate::os::thread::getpid;
use ghc_eventlog::format::{NO_CAPABILITY, capset, id};
use stopworld::events::clock::{Clock, Relation};

/// The capability set of the process, with all capabilities.
pub(super) const PROCESS: u32 = 0;
/// The capability set of the clock, with the same capabilities: their times are from one clock.
pub(super) const CLOCK: u32 = 1;
/// The first free capability set.
pub(super) const FIRST_SET: u32 = 2;

/// Maximum bytes of arguments. The first argument that does not fit, and those after it, are left out.
const MOST_ARGUMENTS: usize = 40_000;

/// The moment at which a log begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    relation: Relation,
    utc_ns: u64,
}

impl Head {
    /// Returns the current moment.
    pub(super) fn now() -> Head {
        let relation = Clock::of_process().relation();
        let utc = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Head { relation, utc_ns: utc.as_nanos() as u64 }
    }

    /// Converts ticks to time in the log. Times before the log began become its beginning.
    pub(super) fn time(&self, ticks: u64) -> u64 {
        self.since(self.relation.ns_of(ticks))
    }

    /// Converts CLOCK_MONOTONIC nanoseconds to time in the log.
    pub(super) fn since(&self, ns: u64) -> u64 {
        ns.saturating_sub(self.relation.ns)
    }
}

/// Writes the events that describe the process. Allocates.
pub(super) fn introduce(to: &mut Blocks, head: &Head) -> io::Result<()> {
    for (set, kind) in [(PROCESS, capset::OS_PROCESS), (CLOCK, capset::CLOCK_DOMAIN)] {
        to.put(NO_CAPABILITY, id::CAPSET_CREATE, |to| {
            to.word32(set);
            to.word16(kind);
        })?;
    }
    to.put(NO_CAPABILITY, id::WALL_CLOCK_TIME, |to| {
        to.word32(CLOCK);
        to.word64(head.utc_ns / 1_000_000_000);
        to.word32((head.utc_ns % 1_000_000_000) as u32);
    })?;
    let of_process = |event: u16, number: u32, to: &mut Blocks| {
        to.put(NO_CAPABILITY, event, |to| {
            to.word32(PROCESS);
            to.word32(number);
        })
    };
    of_process(id::OSPROCESS_PID, getpid() as u32, to)?;
    of_process(id::OSPROCESS_PPID, std::os::unix::process::parent_id(), to)?;
    to.put(NO_CAPABILITY, id::RTS_IDENTIFIER, |to| {
        to.word32(PROCESS);
        to.text(concat!("stopworld ", env!("CARGO_PKG_VERSION")));
    })?;
    let arguments: Vec<OsString> = std::env::args_os().collect();
    to.put(NO_CAPABILITY, id::PROGRAM_ARGS, |to| {
        to.word32(PROCESS);
        let mut left = MOST_ARGUMENTS;
        for argument in &arguments {
            let text = String::from_utf8_lossy(argument.as_bytes());
            left = left.saturating_sub(text.len() + 1);
            if left == 0 {
                break;
            }
            to.ended(&text);
        }
    })
}
