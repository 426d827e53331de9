use stopworld::{Gc, Trace};

#[derive(Trace)]
struct File {
    next: Option<Gc<File>>,
}

impl Drop for File {
    fn drop(&mut self) {}
}

fn main() {}
