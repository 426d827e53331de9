//! Runs one program with one collector: `contender COLLECTOR PROGRAM [small]`. Prints a line of `key=value` pairs.

mod dumpster;
mod gc;
mod gc_arena;
mod language;
mod rc;
mod start;
mod stopworld;
mod work;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ::stopworld::{Paranoid, World};

fn main() {
    start::on_a_deep_stack(|collector, program, size| {
        let meter = match (collector, program) {
            ("stopworld" | "stopworld-paranoid", _) => return ours(collector == "stopworld-paranoid", program, size),
            ("gc", "cache") => gc::cache::run(size),
            ("gc", "script") => gc::script::run(size),
            ("gc", "graph") => gc::graph::run(size),
            ("dumpster", "cache") => dumpster::cache::run(size),
            ("dumpster", "script") => dumpster::script::run(size),
            ("dumpster", "graph") => dumpster::graph::run(size),
            ("gc-arena", "cache") => gc_arena::cache::run(size),
            ("gc-arena", "script") => gc_arena::script::run(size),
            ("gc-arena", "graph") => gc_arena::graph::run(size),
            ("rc", "cache") => rc::cache::run(size),
            ("rc", "script") => rc::script::run(size),
            ("rc", "graph") => rc::graph::run(size),
            _ => return None,
        };
        Some(meter.line())
    });
}

/// Runs a program of stopworld, and adds what its collector reports. `paranoid` worlds check themselves, and collect often.
fn ours(paranoid: bool, program: &str, size: work::Size) -> Option<String> {
    let longest = Arc::new(AtomicU64::new(0));
    let noted = Arc::clone(&longest);
    let mut builder = World::builder().on_collection(move |report| {
        noted.fetch_max(report.pause_ns, Ordering::Relaxed);
    });
    if paranoid {
        builder = builder.paranoid(Paranoid::On).collect_every(64 << 10);
    }
    let world = builder.build().expect("a world");
    let meter = match program {
        "cache" => stopworld::cache::run(&world, size),
        "script" => stopworld::script::run(&world, size),
        "graph" => stopworld::graph::run(&world, size),
        _ => return None,
    };
    assert_eq!(world.damage(), None);
    let pause = longest.load(Ordering::Relaxed) as f64 / 1e6;
    Some(format!("{} pause_ms={pause:.3} collections={}", meter.line(), world.totals().collections))
}
