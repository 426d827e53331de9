//! The process, its runtime, and the collector's settings, for the header of a report.

templates! {
    /// The traced process. Newer runtimes added the fields after the first.
    ProcessInfo = EventPipe [1] 0 "ProcessInfo" written ProcessInfo<'a>(EventPipe 1 v 1 op 0 NONE LogAlways) {
        0 command_line "CommandLine" Z16 then after_command_line ("the command line of the process");
        1 os_information "OSInformation" Z16 then after_os_information ("the operating system");
        1 arch_information "ArchInformation" Z16 ("the processor's architecture");
    }

    /// The runtime: fired when it starts, or at the end of a trace that began later.
    RuntimeStart = Runtime | Rundown [187] 0 "Runtime/Start"
        written RuntimeInformationDCStart<'a>(Rundown 187 v 0 op 1 NONE Informational)
    {
        0 clr_instance_id "ClrInstanceID" U16;
        0 sku "Sku" U16 (like Sku "the edition of the runtime");
        0 bcl_major "BclMajorVersion" U16 ("the version of the class library");
        0 bcl_minor "BclMinorVersion" U16 ("its second number");
        0 bcl_build "BclBuildNumber" U16 ("its third number");
        0 bcl_qfe "BclQfeNumber" U16 ("its fourth number");
        0 vm_major "VMMajorVersion" U16 ("the version of the runtime");
        0 vm_minor "VMMinorVersion" U16 ("its second number");
        0 vm_build "VMBuildNumber" U16 ("its third number");
        0 vm_qfe "VMQfeNumber" U16 ("its fourth number");
        0 startup_flags "StartupFlags" U32 (as StartupFlags "the flags that it was started with");
        0 startup_mode "StartupMode" U8 ("how it was started, a bit set");
        0 command_line "CommandLine" Z16 then after_command_line ("the command line of the process");
        0 com_object_guid "ComObjectGUID" Guid (file "ComObjectGuid" "the COM object by which it was started");
        0 runtime_dll_path "RuntimeDllPath" Z16 ("the file of the runtime");
    }

    /// The collector's settings.
    GcSettings = Rundown [10] 0 "GC/SettingsRundown" written GCSettingsRundown(Rundown 10 v 0 op 10 GC Informational) {
        0 hard_limit "HardLimit" I64 ([Bytes] "the heap limit");
        0 loh_threshold "LOHThreshold" I64 ([Bytes] "the smallest size of a large object");
        0 physical_memory "PhysicalMemoryConfig" I64 ([Bytes] "the memory that it assumes to exist");
        0 gen0_min "Gen0MinBudgetConfig" I64 ([Bytes] "the smallest budget of generation 0");
        0 gen0_max "Gen0MaxBudgetConfig" I64 ([Bytes] "the largest budget of generation 0");
        0 high_memory_percent "HighMemPercentConfig" I32 ([Percent] "the load of memory that counts as high");
        0 bits "BitSettings" U32 (like SettingBits file I32 "settings that are on or off");
        0 clr_instance_id "ClrInstanceID" U16;
    }
}
