use stopworld::{Gc, Trace};

#[derive(Trace)]
struct Node<T: Copy, const N: usize> {
    next: Option<Gc<Node<T, N>>>,
    values: [T; N],
}

impl<T: Copy, const N: usize> Drop for Node<T, N> {
    fn drop(&mut self) {}
}

fn main() {}
