use stopworld::{Gc, Trace};

#[derive(Trace)]
struct Person {
    name: String,
    friend: Option<Gc<Person>>,
}

fn main() {}
