//! Finds lldb.

use std::process::Command;

use super::skipped::skipped;

/// Returns a command for the newest lldb whose Python works.
pub fn lldb() -> Option<Command> {
    for (name, modules) in
        [("lldb", None), ("lldb-14", Some("/usr/lib/llvm-14/lib/python3.11/dist-packages")), ("lldb-14", None)]
    {
        let mut lldb = Command::new(name);
        if let Some(modules) = modules {
            lldb.env("PYTHONPATH", modules);
        }
        let probe = lldb.args(["--no-lldbinit", "--batch", "-o", "script import lldb; print(\"python\" + \" works\")"]);
        if probe.output().is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("python works")) {
            let mut lldb = Command::new(name);
            if let Some(modules) = modules {
                lldb.env("PYTHONPATH", modules);
            }
            lldb.args(["--no-lldbinit", "--no-use-colors", "--batch"]);
            return Some(lldb);
        }
    }
    skipped("lldb with Python");
    None
}
