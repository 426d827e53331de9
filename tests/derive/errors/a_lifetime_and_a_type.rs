use stopworld::{Local, Trace};

#[derive(Trace)]
struct Named<'gc, T: Trace> {
    name: Local<'gc, str>,
    value: T,
}

fn main() {}
