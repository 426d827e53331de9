use stopworld::{GcVec, Leaf, Trace};

#[derive(Trace)]
struct Names {
    names: GcVec<Leaf<String>>,
}

fn main() {}
