//! A library with threads, and with a signal handler that the process keeps, must not be unloaded (`.host.resident`).

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
