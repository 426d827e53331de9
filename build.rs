//! A debugger finds `stopworld_debugger` by its name (`src/debugger/contract.rs`): programs of this package export it, also when they
//! are stripped. Other programs need no such argument; there the note leads to it.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-link-arg=-Wl,--export-dynamic-symbol=stopworld_debugger");
}
