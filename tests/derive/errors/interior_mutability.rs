use std::cell::Cell;

use stopworld::{GcCell, Trace};

#[derive(Trace)]
struct Counter {
    count: Cell<u32>,
    words: GcCell<(u64, u64)>,
}

fn main() {}
