//! The rundown events of the process: its command line, its version, its settings.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use stopworld::World;
use trace_io::bytes::Bytes;

/// A command line is cut to this many UTF-16 units.
const MOST_LETTERS: usize = 8_000;

/// The command line and the executable of this process.
#[derive(Debug)]
pub(super) struct About {
    command_line: String,
    executable: String,
}

impl About {
    pub(super) fn this_process() -> About {
        let arguments: Vec<OsString> = std::env::args_os().collect();
        let words: Vec<_> = arguments.iter().map(|word| String::from_utf8_lossy(word.as_bytes())).collect();
        let executable = std::env::current_exe().unwrap_or_default();
        About { command_line: words.join(" "), executable: executable.display().to_string() }
    }

    /// Writes the payload of ProcessInfo.
    pub(super) fn process_info(&self, to: &mut Bytes) {
        to.utf16(&self.command_line, MOST_LETTERS);
        to.utf16("Linux", MOST_LETTERS);
        to.utf16("x64", MOST_LETTERS);
    }

    /// Writes the payload of RuntimeInformationDCStart: versions and flags. There is no class library, so both versions are that of
    /// this library.
    pub(super) fn runtime_start(&self, to: &mut Bytes) {
        const CORE_CLR: u16 = 2;
        to.u16(0);
        to.u16(CORE_CLR);
        let number = |text: &str| text.parse().unwrap_or(0);
        let version =
            [env!("CARGO_PKG_VERSION_MAJOR"), env!("CARGO_PKG_VERSION_MINOR"), env!("CARGO_PKG_VERSION_PATCH"), "0"];
        for _ in 0..2 {
            version.iter().for_each(|part| to.u16(number(part)));
        }
        // Flags: the collector is not concurrent and has no heap per processor.
        to.u32(0);
        to.u8(0);
        to.utf16(&self.command_line, MOST_LETTERS);
        to.put(&[0; 16]);
        to.utf16(&self.executable, MOST_LETTERS);
    }
}

/// Writes the payload of GCSettingsRundown for a world with this heap limit.
pub(super) fn settings(to: &mut Bytes, limit: u64, world: u16) {
    const HAS_HARD_LIMIT: u32 = 8;
    to.u64(limit);
    to.u64(World::MOST_SMALL_BYTES as u64 + 1);
    [0, 0, 0].into_iter().for_each(|word| to.u64(word));
    to.u32(0);
    to.u32(HAS_HARD_LIMIT);
    to.u16(world);
}
