use stopworld::{Local, Trace};

trait Hides {
    type Out;
}

macro_rules! hidden {
    () => { <Self as Hides>::Out };
}

#[derive(Trace)]
enum Evil<'gc> {
    Text(hidden!()),
    Name(Local<'gc, str>),
}

impl<'gc> Hides for Evil<'gc> {
    type Out = &'gc str;
}

fn main() {}
