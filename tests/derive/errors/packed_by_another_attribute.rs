use stopworld::{Gc, Trace};

#[derive(Trace)]
#[cfg_attr(all(), repr(C, packed(4)))]
struct Packed {
    flag: u8,
    next: Option<Gc<Packed>>,
}

fn main() {}
