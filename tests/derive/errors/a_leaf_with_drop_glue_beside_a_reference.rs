use stopworld::{Gc, Leaf, Trace};

#[derive(Trace)]
struct Person {
    name: Leaf<String>,
    friend: Option<Gc<Person>>,
}

#[derive(Trace)]
enum Shape {
    Empty,
    Named { name: Leaf<String>, next: Gc<Shape> },
}

fn main() {}
