//! Links the shared library as `libgc.so.1`.
//!
//! cargo names a shared library after its crate, and programs look for `libgc.so.1`. So the library gets that name as its SONAME, and the
//! folder `libgc` of the profile (`target/release/libgc`) gets a symbolic link of that name, to which LD_LIBRARY_PATH can lead. It leads to
//! the folder `deps`, into which cargo writes the library for tests and benchmarks, too.

use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libgc.so.1");
    // The library has threads and a signal handler, so it cannot be unloaded.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // Such a folder is <profile>/build/<package>-<hash>/out.
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
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
