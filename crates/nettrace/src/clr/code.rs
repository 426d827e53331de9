//! The code of the process, at the end of a trace: its functions and the files that contain them. A reader finds the names of the
//! addresses in stacks here; see [`Functions`](crate::functions::Functions).

templates! {
    /// A compiled function, with its name.
    MethodDCStopVerbose = Rundown [144] 0 "Method/DCStopVerbose"
        written MethodDCEndVerbose<'a>(Rundown 144 v 2 op 40 METHOD_RUNDOWN Informational)
    {
        0 method_id "MethodID" U64 ([Address] "the function");
        0 module_id "ModuleID" U64 ([Address] "its module");
        0 start_address "MethodStartAddress" U64 ([Address] "the address of its first instruction");
        0 size "MethodSize" U32 ([Bytes] "the length of its code");
        0 token "MethodToken" U32 ("its number in the module's metadata; 0 if it has none");
        0 flags "MethodFlags" U32 ("how it was compiled, a bit set");
        0 namespace "MethodNamespace" Z16 then after_namespace ("the path of its name");
        0 name "MethodName" Z16 then after_name ("the last part of its name");
        0 signature "MethodSignature" Z16 then after_signature ("its parameters and result");
        1 clr_instance_id "ClrInstanceID" U16;
        2 rejit_id "ReJITID" U64 ("how often it was compiled again");
    }

    /// A module: a file with code.
    ModuleDCStop = Rundown [154] 0 "Loader/ModuleDCStop"
        written ModuleDCEnd<'a>(Rundown 154 v 2 op 36 LOADER_RUNDOWN Informational)
    {
        0 module_id "ModuleID" U64 ([Address] "the module");
        0 assembly_id "AssemblyID" U64 ([Address] "its assembly");
        0 flags "ModuleFlags" U32 ("the kind of module, a bit set");
        0 reserved "Reserved1" U32;
        0 il_path "ModuleILPath" Z16 then after_il_path ("the file of the module");
        0 native_path "ModuleNativePath" Z16 then after_native_path ("the file with the code that was compiled before the run");
        1 clr_instance_id "ClrInstanceID" U16;
        2 managed_pdb_signature "ManagedPdbSignature" Guid ("the symbol file of the module");
        2 managed_pdb_age "ManagedPdbAge" U32 ("its age");
        2 managed_pdb_path "ManagedPdbBuildPath" Z16 then after_managed_pdb ("its path");
        2 native_pdb_signature "NativePdbSignature" Guid ("the symbol file of the native code");
        2 native_pdb_age "NativePdbAge" U32 ("its age");
        2 native_pdb_path "NativePdbBuildPath" Z16 ("its path");
    }
}
