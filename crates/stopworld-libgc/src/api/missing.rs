//! The functions that this library does not have. Each ends the process with its own name, and what to do instead: a program that found
//! them in another libgc would have two heaps.

use crate::print;

macro_rules! missing {
    ($($name:ident: $advice:literal;)*) => {$(
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $name() {
            print::abort(concat!(stringify!($name), " is not available: ", $advice))
        }
    )*};
}

missing! {
    GC_start_world_external: "let the functions that the collector calls in the stopped world do the work (GC_set_push_other_roots)";
    GC_stop_world_external: "let the functions that the collector calls in the stopped world do the work (GC_set_push_other_roots)";
}
