#![forbid(unsafe_code)]

use stopworld::{Gc, Trace};

mod fake {
    pub use stopworld::{Layout, Scoped, Trace};

    pub mod __private {
        pub fn has_no_references<T>(_: &T) {}
    }
}

#[derive(Trace)]
#[trace(crate = "crate::fake")]
struct Hides {
    #[trace(skip = "not looked at")]
    hidden: Gc<u64>,
}

fn main() {}
