use stopworld::{Gc, Trace};

#[derive(Trace)]
#[repr(C, packed)]
struct Packed {
    flag: u8,
    next: Option<Gc<Packed>>,
}

fn main() {}
