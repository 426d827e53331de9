use stopworld::Trace;

#[derive(Trace)]
enum Void {}

fn main() {}
