//! Programs of Debian that use bdwgc, each with work for it: eight programs, from three imported functions (mmv) to fifty-two (guile).
//!
//! The output of each depends on nothing but its input, so that it must be the same with every collector.

use std::env;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program, and how to give it work.
pub struct Program {
    pub name: &'static str,
    /// The package of Debian that has it; the rest of the message `skipped: needs …`.
    pub package: &'static str,
    executable: &'static str,
    prepare: fn(&mut Command, &Path, Size) -> io::Result<()>,
}

/// How much work a program gets.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// Tens of milliseconds with bdwgc, half a second for the compiler.
    Small,
    /// Up to a few seconds with bdwgc.
    Large,
}

impl Size {
    fn pick<T>(self, small: T, large: T) -> T {
        match self {
            Size::Small => small,
            Size::Large => large,
        }
    }
}

pub const PROGRAMS: &[Program] = &[
    Program { name: "mmv", package: "mmv", executable: "mmv", prepare: mmv },
    Program { name: "w3m", package: "w3m", executable: "w3m", prepare: w3m },
    Program { name: "nix", package: "nix-bin", executable: "nix-instantiate", prepare: nix },
    Program { name: "poke", package: "poke", executable: "poke", prepare: poke },
    Program { name: "asymptote", package: "asymptote", executable: "asy", prepare: asymptote },
    Program { name: "crystal", package: "crystal", executable: "crystal", prepare: crystal },
    Program { name: "ecl", package: "ecl", executable: "ecl", prepare: ecl },
    Program { name: "guile", package: "guile-3.0", executable: "guile-3.0", prepare: guile },
];

impl Program {
    pub fn named(name: &str) -> &'static Program {
        PROGRAMS.iter().find(|program| program.name == name).unwrap_or_else(|| panic!("there is no program {name}"))
    }

    /// Returns the program's path: from `PATH`, or from the folder into which `.ci/debian-programs` unpacks packages. `None` if it is in
    /// neither.
    pub fn path(&self) -> Option<PathBuf> {
        let path = env::var_os("PATH").unwrap_or_default();
        let folders = env::split_paths(&path).chain([unpacked().join("usr/bin")]);
        folders.map(|folder| folder.join(self.executable)).find(|path| path.is_file())
    }

    /// Writes the program's input to an empty folder, and returns the command that reads it; `None` if the program is not installed. The
    /// command neither reads nor writes the home of the user.
    ///
    /// # Errors
    /// The input cannot be written.
    pub fn command(&self, folder: &Path, size: Size) -> io::Result<Option<Command>> {
        let Some(path) = self.path() else { return Ok(None) };
        let mut command = Command::new(&path);
        command.current_dir(folder).env("HOME", folder).env("LC_ALL", "C.UTF-8").env("TZ", "UTC");
        for inherited in ["LD_LIBRARY_PATH", "LD_PRELOAD", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"] {
            command.env_remove(inherited);
        }
        for (name, _) in env::vars_os() {
            if ["GC_", "STOPWORLD_"].iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
                command.env_remove(name);
            }
        }
        if path.starts_with(unpacked()) {
            command.env("LD_LIBRARY_PATH", unpacked().join("usr/lib/x86_64-linux-gnu"));
        }
        (self.prepare)(&mut command, folder, size)?;
        Ok(Some(command))
    }
}

/// The folder into which `.ci/debian-programs` unpacks what is too large to install.
fn unpacked() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("debian-programs");
    env::var_os("STOPWORLD_PROGRAMS").map_or(target, PathBuf::from)
}

/// Renames files. `-v` prints each of the names.
fn mmv(command: &mut Command, folder: &Path, size: Size) -> io::Result<()> {
    for number in 0..size.pick(300, 3000) {
        fs::write(folder.join(format!("file-{number}.c")), "")?;
    }
    command.args(["-v", "file-*.c", "#1.cc"]);
    Ok(())
}

/// Formats a page of tables and paragraphs: 10 MB, or 200 KB. The programs allocate, reallocate and free strings.
fn w3m(command: &mut Command, folder: &Path, size: Size) -> io::Result<()> {
    let mut state = 7_u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % 1_000_000
    };
    let mut page = BufWriter::new(File::create(folder.join("big.html"))?);
    writeln!(page, "<html><head><title>big</title></head><body>")?;
    for section in 0..size.pick(800, 40_000) {
        let link = random();
        write!(page, "<h2>Section {section}</h2><table border=1><tr><td>{section}</td>")?;
        write!(page, "<td><a href=\"#{section}\">link 0.{link:06}{link:06}</a></td></tr></table><p>")?;
        for _ in 0..20 {
            write!(page, "{} ", random())?;
        }
        writeln!(page, "</p>")?;
    }
    writeln!(page, "</body></html>")?;
    page.flush()?;
    command.args(["-dump", "-T", "text/html", "big.html"]);
    Ok(())
}

/// Evaluates trees of attribute sets, and sorts numbers. Interior pointers and the data of shared libraries do not count; cells come in
/// lists.
fn nix(command: &mut Command, folder: &Path, size: Size) -> io::Result<()> {
    fs::write(folder.join("big.nix"), include_str!("../programs/inputs/big.nix"))?;
    for name in ["CONF", "STORE", "STATE", "LOG", "LOCALSTATE"] {
        command.env(format!("NIX_{name}_DIR"), folder.join(name.to_lowercase()));
    }
    let (trees, numbers) = size.pick(("10", "20000"), ("20", "200000"));
    command.args(["--eval", "--strict", "--store", "dummy://", "big.nix"]);
    command.args(["--arg", "trees", trees, "--arg", "numbers", numbers]);
    command.env("GC_INITIAL_HEAP_SIZE", size.pick("4M", "32M"));
    Ok(())
}

/// Concatenates arrays and formats strings: roots that are added and removed, finalizers without order.
fn poke(command: &mut Command, folder: &Path, size: Size) -> io::Result<()> {
    let rounds = size.pick(1000, 20_000);
    let script = format!(
        "var i = 0;\nvar sum = 0;\nwhile (i < {rounds})\n  {{\n    var a = [1,2,3] + [4,i];\n    var s = format (\"%i32d\", \
         i);\n    sum = sum + a[4] + s'length as int<32>;\n    i++;\n  }}\nprintf \"%i32d %i32d\\n\", i, sum;\n"
    );
    fs::write(folder.join("p.pk"), script)?;
    command.args(["-q", "-L", "p.pk"]);
    Ok(())
}

/// Grows and cuts an array of pairs: vectors with pointers to their beginning, finalizers of C++ objects.
fn asymptote(command: &mut Command, folder: &Path, size: Size) -> io::Result<()> {
    let pushes = size.pick(20_000, 300_000);
    let script = format!(
        "pair[] kept;\nreal sum;\nfor (int i = 0; i < {pushes}; ++i) {{\n  kept.push((i, sqrt(i)));\n  string text = \
         format(\"%d\", i);\n  sum += length(text);\n  if (kept.length > 1000)\n    kept.delete(0, 299);\n}}\n\
         write(kept.length);\nwrite(sum);\nwrite(kept[0]);\n"
    );
    fs::write(folder.join("push.asy"), script)?;
    if self_is_unpacked(command) {
        command.arg("-dir").arg(unpacked().join("usr/share/asymptote"));
    }
    command.env("ASYMPTOTE_HOME", folder).args(["-noV", "push.asy"]);
    Ok(())
}

fn self_is_unpacked(command: &Command) -> bool {
    Path::new(command.get_program()).starts_with(unpacked())
}

/// Checks a program, and prints the types of its variables: fibers that move the end of the main stack.
fn crystal(command: &mut Command, folder: &Path, size: Size) -> io::Result<()> {
    let documents = include_str!("../programs/inputs/documents.cr");
    let program = include_str!("../programs/inputs/trees.cr");
    fs::write(folder.join("trees.cr"), format!("{}{program}", size.pick("", documents)))?;
    command.args(["tool", "types", "--no-color", "trees.cr"]);
    command.env("CRYSTAL_CACHE_DIR", folder.join("cache"));
    Ok(())
}

/// Trees, finalizers, threads, and a weak hash table. The runtime's own function is the only source of roots.
fn ecl(command: &mut Command, folder: &Path, size: Size) -> io::Result<()> {
    fs::write(folder.join("trees.lisp"), include_str!("../programs/inputs/trees.lisp"))?;
    command.env("DEPTH", size.pick("9", "16")).args(["--norc", "--eval", "(load \"trees.lisp\" :verbose nil)"]);
    Ok(())
}

/// Trees, a weak hash table, a guardian, and threads: kinds with mark procedures, links, finalizers on demand.
fn guile(command: &mut Command, folder: &Path, size: Size) -> io::Result<()> {
    fs::write(folder.join("trees.scm"), include_str!("../programs/inputs/trees.scm"))?;
    command.env("DEPTH", size.pick("10", "18")).env("GUILE_AUTO_COMPILE", "0");
    command.args(["--no-auto-compile", "trees.scm"]);
    Ok(())
}
