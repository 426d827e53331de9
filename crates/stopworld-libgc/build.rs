//! Links the shared library as `libgc.so.1`.
//!
//! cargo names a shared library after its crate, and programs look for `libgc.so.1`. So the library gets that name as its SONAME, and the
//! folder `libgc` of the profile (`target/release/libgc`) gets a symbolic link of that name, to which LD_LIBRARY_PATH can lead. It leads to
//! the folder `deps`, into which cargo writes the library for tests and benchmarks, too.
//!
//! What makes the library small in memory: the code that programs run is in one place ([`order_of_code`]), and most of the addresses that
//! the loader has to fill in are a list of bits (`DT_RELR`), if the C library of this machine can read it. Both are left out for linkers
//! that have neither, and if `STOPWORLD_PLAIN_LINK` is set.

#[cfg(target_env = "gnu")]
use std::ffi::CStr;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libgc.so.1");
    // The library has threads and a signal handler, so it cannot be unloaded.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo:rerun-if-changed=first.txt");
    println!("cargo:rerun-if-env-changed=STOPWORLD_PLAIN_LINK");
    println!("cargo:rustc-check-cfg=cfg(ordered_code)");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    if is_gnu_or_lld() && env::var_os("STOPWORLD_PLAIN_LINK").is_none() {
        if reads_packed_relocations() {
            println!("cargo:rustc-cdylib-link-arg=-Wl,-z,pack-relative-relocs");
        }
        let script = out.join("order.ld");
        fs::write(&script, order_of_code(include_str!("first.txt"))).expect("cargo's folder can be written");
        println!("cargo:rustc-cdylib-link-arg=-T");
        println!("cargo:rustc-cdylib-link-arg={}", script.display());
        println!("cargo:rustc-cfg=ordered_code");
    }
    // Such a folder is <profile>/build/<package>-<hash>/out.
    let profile = out.ancestors().nth(3).expect("the folder of the profile");
    let folder = profile.join("libgc");
    let link = folder.join("libgc.so.1");
    let target = Path::new("../deps/libstopworld_gc.so");
    if fs::read_link(&link).is_ok_and(|before| before == target) {
        return;
    }
    let _ = fs::remove_file(&link);
    match fs::create_dir_all(&folder).and_then(|()| symlink(target, &link)) {
        // Another build has made it at the same time.
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            println!("cargo:warning=can't make {}: {error}", link.display());
        }
        _ => {}
    }
}

/// Whether the loader of this machine, for which the library is built, knows `DT_RELR`: that of the GNU C library does since version 2.36.
#[cfg(target_env = "gnu")]
fn reads_packed_relocations() -> bool {
    // SAFETY: the function returns a constant string.
    let version = unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) }.to_string_lossy();
    let mut numbers = version.split('.').map(str::parse);
    let is_new =
        matches!((numbers.next(), numbers.next()), (Some(Ok(major)), Some(Ok(minor))) if (major, minor) >= (2, 36));
    is_new && env::var_os("HOST") == env::var_os("TARGET")
}

#[cfg(not(target_env = "gnu"))]
fn reads_packed_relocations() -> bool {
    false
}

/// Whether the linker is lld, as rustc's default is, or that of GNU: mold and gold, which the user may have chosen, read no such scripts.
fn is_gnu_or_lld() -> bool {
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let linker = env::var("RUSTC_LINKER").unwrap_or_default();
    let of_flags = flags.split('\x1f').filter(|flag| flag.contains("fuse-ld=") || flag.contains("linker="));
    !of_flags.chain([linker.as_str()]).any(|choice| ["mold", "gold"].iter().any(|linker| choice.contains(linker)))
}

/// Returns a linker script that puts the code of the listed functions into a section before all other code.
///
/// rustc gives each function a section, `.text.` or `.text.unlikely.` and its mangled name. In that name, each part of the path has its
/// length before it. In the older scheme the name ends with `17h` and a hash, closures have `28_` and more, and an implementation of a trait
/// begins with the path of its type, with dots.
fn order_of_code(functions: &str) -> String {
    let mut script = "SECTIONS { .text.first : { *libc_nonshared.a:*(.text)\n".to_owned();
    let lines = functions.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    for line in lines {
        let (module, names) = line.split_once(": ").expect("a line is `module: function function`");
        let path: String = module.split("::").map(with_length).collect();
        let dotted = module.replace("::", "..");
        for name in names.split(' ') {
            match module {
                "exported" => script += &format!("*(.text.{name})\n"),
                "dropped" => {
                    let of_type = name.replace("::", "..");
                    script += &format!("*(.text.*_ZN4core3ptr*drop_in_place*{of_type}*)\n");
                }
                _ => {
                    let name = if name == "*" { name.to_owned() } else { format!("*{}", with_length(name)) };
                    for end in ["17h*", "28_*"] {
                        script += &format!("*(.text.*_ZN{path}{name}{end} .text.*_ZN*_?LT?{dotted}{name}{end})\n");
                    }
                    script += &format!("*(.text.*_R*{path}{name}*)\n");
                }
            }
        }
    }
    script + "} } INSERT BEFORE .text;\n"
}

fn with_length(part: &str) -> String {
    // In the newer scheme, a name that begins with `_` is separated from its length.
    format!("{}{}{part}", part.len(), if part.starts_with('_') { "_" } else { "" })
}
