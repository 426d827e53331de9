//! The process, its runtime, and the collector's settings, for the header of a report.

use super::template::{accessors, fields, read, templates, value_of};

templates! {
    /// The traced process. Newer runtimes added the fields after the first.
    ProcessInfo = EventPipe [1] 0 "ProcessInfo" {
        0 command_line "CommandLine" Z16 then after_command_line;
        1 os_information "OSInformation" Z16 then after_os_information;
        1 arch_information "ArchInformation" Z16;
    }

    /// The runtime: fired when it starts, or at the end of a trace that began later.
    RuntimeStart = Runtime | Rundown [187] 0 "Runtime/Start" {
        0 clr_instance_id "ClrInstanceID" U16;
        0 sku "Sku" U16;
        0 bcl_major "BclMajorVersion" U16;
        0 bcl_minor "BclMinorVersion" U16;
        0 bcl_build "BclBuildNumber" U16;
        0 bcl_qfe "BclQfeNumber" U16;
        0 vm_major "VMMajorVersion" U16;
        0 vm_minor "VMMinorVersion" U16;
        0 vm_build "VMBuildNumber" U16;
        0 vm_qfe "VMQfeNumber" U16;
        0 startup_flags "StartupFlags" U32 as STARTUP_FLAGS;
        0 startup_mode "StartupMode" U8;
        0 command_line "CommandLine" Z16 then after_command_line;
        0 com_object_guid "ComObjectGUID" Guid;
        0 runtime_dll_path "RuntimeDllPath" Z16;
    }

    /// The collector's settings.
    GcSettings = Rundown [10] 0 "GC/SettingsRundown" {
        0 hard_limit "HardLimit" I64;
        0 loh_threshold "LOHThreshold" I64;
        0 physical_memory "PhysicalMemoryConfig" I64;
        0 gen0_min "Gen0MinBudgetConfig" I64;
        0 gen0_max "Gen0MaxBudgetConfig" I64;
        0 high_memory_percent "HighMemPercentConfig" I32;
        0 bits "BitSettings" U32;
        0 clr_instance_id "ClrInstanceID" U16;
    }
}
