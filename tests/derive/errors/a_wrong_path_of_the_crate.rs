use stopworld::{Gc, Trace};

mod runtime {
    pub use stopworld as gc;
}

#[derive(Trace)]
#[trace(crate = "self::runtime::gc")]
struct Right(Gc<Right>);

#[derive(Trace)]
#[trace(crate = "self::runtime::stopworld")]
struct Wrong(Gc<Wrong>);

fn main() {}
