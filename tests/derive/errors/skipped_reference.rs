use stopworld::{Gc, Trace};

#[derive(Trace)]
struct Hidden {
    #[trace(skip = "not needed")]
    next: Option<Gc<Hidden>>,
}

#[derive(Trace)]
struct AlsoHidden<T> {
    #[trace(skip = "not needed")]
    next: Option<Gc<T>>,
}

fn main() {}
