use stopworld::{Gc, Leaf, Trace};

#[derive(Trace)]
enum Entry<T>
where
    T: std::hash::Hash + 'static,
{
    Named { name: Leaf<String>, value: Gc<T> },
    Absent,
}

fn main() {}
