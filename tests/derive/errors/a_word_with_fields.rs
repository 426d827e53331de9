//! Only an enum without fields is a word.

#[derive(Clone, Copy, stopworld::Word)]
enum Shape {
    Point,
    Circle(u32),
}

#[derive(Clone, Copy, stopworld::Word)]
struct Pair(u32, u32);

fn main() {}
