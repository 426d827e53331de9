use stopworld::Trace;

#[derive(Trace, Clone, Copy)]
union Either {
    number: u64,
    float: f64,
}

fn main() {}
