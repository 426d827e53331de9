//! Exports the symbol `stopworld_debugger` from the programs of this package, so that debuggers find it by name even after
//! stripping (`src/debugger/descriptor.rs`). Programs of other packages need no linker argument: debuggers find the descriptor by its ELF note.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-link-arg=-Wl,--export-dynamic-symbol=stopworld_debugger");
}
