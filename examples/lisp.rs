//! Runs Scheme programs whose every cell is a collected object.
fn main() {
    let mut limit = 1 << 30;
    let mut files = vec![];
    for a in std::env::args().skip(1) {
        if let Ok(n) = a.parse::<usize>() { limit = n << 20 } else { files.push(a) }
    }
    let world = stopworld::World::builder().heap_limit(limit).build().unwrap();
    let m = unsafe { world.attach("main") }.unwrap();
    let t = std::time::Instant::now();
    let i = stopworld::workloads::lisp::Interpreter::new(&m).unwrap_or_else(|e| {
        println!("{e}");
        std::process::exit(1)
    });
    eprintln!("start {:?}", t.elapsed());
    for f in files {
        let t = std::time::Instant::now();
        if let Some(e) = f.strip_prefix("-e") {
            match i.evaluate(&m, "expr", e) {
                Ok(v) => println!("{v}"),
                Err(e) => println!("{e}"),
            }
            continue;
        }
        let text = std::fs::read_to_string(&f).unwrap();
        let r = i.run_file(&m, &f, &text, &mut std::io::stdout());
        eprintln!("{f}: {:?} {:?}", r.map_err(|e| e.to_string()), t.elapsed());
    }
}
