use stopworld::{Local, Trace};

#[derive(Trace)]
struct Hidden<'gc> {
    #[trace(skip = "it is alive anyway")]
    name: Local<'gc, str>,
}

fn main() {}
