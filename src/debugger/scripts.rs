//! The scripts by which gdb and lldb take part in collections.
//!
//! Each script is one file for its user, and is assembled here: the common part (`script/`), then the part for one debugger
//! (`gdb/stopworld.py` and others, `lldb/stopworld_lldb.py`). `stopworld gdb-script` and `stopworld lldb-script` print them.
//!
//! # Every program contains the gdb script
//! gdb looks for a section `.debug_gdb_scripts` in each program and library that it loads, and runs the Python text in it if its user
//! trusts the file (`add-auto-load-safe-path`). So the script always fits the library. Despite its name the section is allocated, not debug
//! information: `strip` does not remove it with any option. `keep` refers to it from code that every program with a world has, since
//! `--gc-sections` discards sections without a reference. It costs its size on disk; pages of it that are never read are never loaded.
//!
//! lldb has no such section. Its script is imported by hand, or from `~/.lldbinit`.

macro_rules! gdb_script {
    () => {
        concat!(
            "import sys\nimport types\n\n\ndef _stopworld(text):\n",
            "    if \"stopworld\" not in sys.modules:\n",
            "        module = types.ModuleType(\"stopworld\")\n",
            "        exec(compile(text, \"stopworld.py\", \"exec\"), module.__dict__)\n",
            "        sys.modules[\"stopworld\"] = module\n",
            "        module.install()\n\n\n",
            "_stopworld(r'''",
            include_str!("script/contract.py"),
            "\n\n",
            include_str!("script/inspection.py"),
            "\n\n",
            include_str!("script/post_mortem.py"),
            "\n\n",
            include_str!("gdb/stopworld.py"),
            "\n\n",
            include_str!("gdb/outliving.py"),
            "\n\n",
            include_str!("gdb/commands.py"),
            "\n\n",
            include_str!("gdb/stepping.py"),
            "\n\n",
            include_str!("gdb/printers.py"),
            "''')\n",
        )
    };
}

/// The script for gdb: `source` it, or let gdb find it by itself.
///
/// It is a separate Python module, so that its names do not collide with the user's names.
pub const GDB: &str = gdb_script!();

/// The script for lldb: `command script import` it, under any name.
pub const LLDB: &str = concat!(
    include_str!("script/contract.py"),
    "\n\n",
    include_str!("script/inspection.py"),
    "\n\n",
    include_str!("script/post_mortem.py"),
    "\n\n",
    include_str!("lldb/stopworld_lldb.py"),
);

/// An entry of the section: its kind (4: a Python text), its name, the text.
const ENTRY: &str = concat!("\x04stopworld\n", gdb_script!(), "\0");

#[used]
#[unsafe(link_section = ".debug_gdb_scripts")]
static SECTION: [u8; ENTRY.len()] = match ENTRY.as_bytes().first_chunk() {
    Some(bytes) => *bytes,
    None => unreachable!(),
};

/// Keeps the section in the program.
pub(crate) fn keep() {
    std::hint::black_box(&SECTION);
}
