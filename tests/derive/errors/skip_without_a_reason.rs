use stopworld::Trace;

#[derive(Trace)]
struct Reasonless {
    #[trace(skip)]
    count: u32,
}

#[derive(Trace)]
struct Unknown {
    #[trace(ignore = "misspelt")]
    count: u32,
}

#[derive(Trace)]
#[trace(bounds = "T: Trace")]
struct UnknownOfType<T>(T);

fn main() {}
