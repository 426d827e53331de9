use stopworld::Trace;

#[derive(Trace)]
#[repr(align(32))]
struct Vector {
    lanes: [f32; 8],
}

fn main() {}
