use stopworld::{Local, Trace};

#[derive(Trace)]
struct Borrowed<'a> {
    text: &'a str,
    name: Local<'a, str>,
}

fn main() {}
