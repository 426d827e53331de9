//! The arguments, and the thread on which the program runs.

use crate::work::Size;

/// `gc` and `dumpster` trace by recursion: a list of 100,000 entries needs so deep a stack. Only the part that is used takes memory.
const STACK_BYTES: usize = 4 << 30;

/// Runs `run` with the collector, the program and its size on a thread with a deep stack, and prints its result.
pub fn on_a_deep_stack(run: impl FnOnce(&str, &str, Size) -> Option<String> + Send) {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let line = std::thread::scope(|threads| {
        let work = || match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            [collector, program] => run(collector, program, Size::Full),
            [collector, program, "small"] => run(collector, program, Size::Small),
            _ => None,
        };
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(threads, work);
        thread.expect("a thread").join().expect("the program ends")
    });
    match line {
        Some(line) => println!("{line}"),
        None => {
            eprintln!("usage: contender COLLECTOR cache|script|graph [small]");
            std::process::exit(2);
        }
    }
    // The values that are alive at the end are not dropped: that is not part of what is measured.
    std::process::exit(0);
}
