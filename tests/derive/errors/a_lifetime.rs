use stopworld::Trace;

#[derive(Trace)]
struct Borrowed<'a> {
    text: &'a str,
}

fn main() {}
