use stopworld::{GcCell, Local, Trace};

trait Hides {
    type Out;
}

#[derive(Trace)]
struct Evil<'gc> {
    text: <Self as Hides>::Out,
    next: GcCell<Option<Local<'gc, str>>>,
}

impl<'gc> Hides for Evil<'gc> {
    type Out = &'gc str;
}

fn main() {}
