use std::marker::PhantomData;

use stopworld::Trace;

/// Its `Drop` would run on another thread.
#[derive(Trace)]
struct OfItsThread {
    number: u64,
    of_its_thread: PhantomData<*mut u8>,
}

fn main() {}
