//! Links the shared library as `libgc.so.1`.
//!
//! cargo names a shared library after its crate, and programs look for `libgc.so.1`. So the library gets that name as its SONAME, and the
//! folder `libgc` of the profile (`target/release/libgc`) gets a symbolic link of that name, to which LD_LIBRARY_PATH can lead.

use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
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
    let made = fs::create_dir_all(&folder).and_then(|()| symlink("../libstopworld_gc.so", folder.join("libgc.so.1")));
    match made {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            println!("cargo:warning=can't make {}/libgc.so.1: {error}", folder.display());
        }
        _ => {}
    }
}
