//! The first events of a log, which describe the process and the beginning of the log.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::time::{SystemTime, UNIX_EPOCH};

use super::blocks::Blocks;
use super::text::cut;
use crate::os::thread::getpid;
use ghc_eventlog::events::{self as ghc, CapsetKind, Items};
use ghc_eventlog::format::NO_CAPABILITY;
use stopworld::events::clock::{Clock, Relation};

/// The capability set of the process, with all capabilities.
pub(super) const PROCESS: u32 = 0;
/// The capability set of the clock. It has the same capabilities, because their times are from one clock.
pub(super) const CLOCK: u32 = 1;
/// The first free capability set.
pub(super) const FIRST_SET: u32 = 2;

/// The maximum size of the arguments in bytes. The first argument that does not fit and all later ones are left out.
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

    /// Converts ticks to time in the log. A time before the log began is converted to the time of its beginning.
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
    for (capset, kind) in [(PROCESS, CapsetKind::OS_PROCESS), (CLOCK, CapsetKind::CLOCK_DOMAIN)] {
        to.write(NO_CAPABILITY, &ghc::CapsetCreate { capset, kind })?;
    }
    let (seconds, nanoseconds) = (head.utc_ns / 1_000_000_000, (head.utc_ns % 1_000_000_000) as u32);
    to.write(NO_CAPABILITY, &ghc::WallClockTime { capset: CLOCK, seconds, nanoseconds })?;
    to.write(NO_CAPABILITY, &ghc::OsProcessPid { capset: PROCESS, pid: getpid() as u32 })?;
    to.write(NO_CAPABILITY, &ghc::OsProcessPpid { capset: PROCESS, pid: std::os::unix::process::parent_id() })?;
    let name = concat!("stopworld ", env!("CARGO_PKG_VERSION")).into();
    to.write(NO_CAPABILITY, &ghc::RtsIdentifier { capset: PROCESS, name })?;
    to.write(NO_CAPABILITY, &ghc::ProgramArgs { capset: PROCESS, args: Items(&arguments()) })
}

/// Returns the program's name and arguments, each terminated by a zero.
fn arguments() -> Vec<u8> {
    let (mut arguments, mut left) = (Vec::new(), MOST_ARGUMENTS);
    for argument in std::env::args_os() {
        let text = String::from_utf8_lossy(argument.as_bytes());
        left = left.saturating_sub(text.len() + 1);
        if left == 0 {
            break;
        }
        arguments.extend_from_slice(cut(&text).as_bytes());
        arguments.push(0);
    }
    arguments
}
