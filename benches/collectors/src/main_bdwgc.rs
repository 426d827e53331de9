//! Runs one program with bdwgc as the allocator: `contender-bdwgc COLLECTOR PROGRAM [small]`. Prints a line of `key=value` pairs.

mod bdwgc;
mod language;
mod work;

use bdwgc_alloc::Allocator;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

fn main() {
    // SAFETY: this is the main thread, and there is no other.
    unsafe { Allocator::initialize() };
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let size = if arguments.get(2).is_some_and(|size| size == "small") { work::Size::Small } else { work::Size::Full };
    let meter = match arguments.get(1).map(String::as_str) {
        Some("cache") => bdwgc::cache::run(size),
        Some("script") => bdwgc::script::run(size),
        Some("graph") => bdwgc::graph::run(size),
        _ => {
            eprintln!("usage: contender-bdwgc bdwgc-alloc cache|script|graph [small]");
            std::process::exit(2);
        }
    };
    println!("{}", meter.line());
}
