use stopworld::{Local, Trace};

#[derive(Trace)]
struct Pair<'one, 'other> {
    one: Local<'one, str>,
    other: Local<'other, str>,
}

fn main() {}
