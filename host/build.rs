//! Links the library so that dlclose does not unload it: it has threads and installs a signal handler (`.host.resident`).

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
