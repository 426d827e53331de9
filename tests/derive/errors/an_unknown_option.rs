use stopworld::Trace;

#[derive(Trace)]
#[trace(name = "Node")]
struct Node(u64);

fn main() {}
