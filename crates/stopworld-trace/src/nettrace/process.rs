//! The rundown events of the process: its command line, its version, its settings.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use nettrace::clr::write::{GCSettingsRundown, ProcessInfo, RuntimeInformationDCStart};
use nettrace::clr::{SettingBits, Sku, StartupFlags, Text};
use stopworld::World;

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

    /// Returns the event about the process.
    pub(super) fn process_info(&self) -> ProcessInfo<'_> {
        ProcessInfo {
            command_line: Text::cut(&self.command_line, MOST_LETTERS),
            os_information: "Linux".into(),
            arch_information: "x64".into(),
        }
    }

    /// Returns the event about the runtime. There is no class library, so both versions are that of this library.
    pub(super) fn runtime_start(&self) -> RuntimeInformationDCStart<'_> {
        let number = |text: &str| text.parse().unwrap_or(0);
        let major = number(env!("CARGO_PKG_VERSION_MAJOR"));
        let minor = number(env!("CARGO_PKG_VERSION_MINOR"));
        let build = number(env!("CARGO_PKG_VERSION_PATCH"));
        RuntimeInformationDCStart {
            sku: Sku::Core,
            bcl_major: major,
            bcl_minor: minor,
            bcl_build: build,
            bcl_qfe: 0,
            vm_major: major,
            vm_minor: minor,
            vm_build: build,
            vm_qfe: 0,
            // The collector is not concurrent and has no heap per processor.
            startup_flags: StartupFlags::NONE,
            startup_mode: 0,
            command_line: Text::cut(&self.command_line, MOST_LETTERS),
            com_object_guid: [0; 16],
            runtime_dll_path: Text::cut(&self.executable, MOST_LETTERS),
        }
    }
}

/// Returns the event about the settings of a world with this heap limit.
pub(super) fn settings(limit: u64) -> GCSettingsRundown {
    GCSettingsRundown {
        hard_limit: limit as i64,
        loh_threshold: World::MOST_SMALL_BYTES as i64 + 1,
        physical_memory: 0,
        gen0_min: 0,
        gen0_max: 0,
        high_memory_percent: 0,
        bits: SettingBits::HARD_LIMIT,
    }
}
