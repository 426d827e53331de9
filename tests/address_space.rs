//! Worlds in processes with a limited address space (RLIMIT_AS, `ulimit -v`).

use std::panic::AssertUnwindSafe;
use std::process::Command;

use rstest::rstest;
use stopworld::{BuildError, Charging, Exhausted, GcCell, Mutator, World, WorldBuilder, traced};

traced! {
    struct Link { next: GcCell<Option<stopworld::Gc<Link>>>, value: u64 }
}

/// The environment variable with the heap limit that the limited process requests, in MiB; 0 for the default.
const PART: &str = "STOPWORLD_ADDRESS_SPACE";

/// The environment variable with the limit of the process that fills its tables, in MiB.
const TABLES: &str = "STOPWORLD_TABLES";

/// Does the work of a small program: threads, collections, finalizers, names and events.
fn work(world: &World) {
    let build = |m: &Mutator| {
        let mut list = None;
        for value in 0..50_000 {
            list = Some(m.alloc(Link { next: GcCell::new(list), value }).unwrap());
        }
        m.set_finalizer(list.unwrap(), |_, _| ()).unwrap();
        m.collect().unwrap();
        list.unwrap().value
    };
    // SAFETY: every Gc is a local variable.
    let threads: Vec<_> = (0..2).map(|_| unsafe { world.spawn("worker", build) }.unwrap()).collect();
    threads.into_iter().for_each(|thread| assert_eq!(thread.join().unwrap(), 49_999));
    world.verify().unwrap();
}

fn limit(mib: u64) {
    let limit = libc::rlimit { rlim_cur: mib << 20, rlim_max: mib << 20 };
    // SAFETY: a fully initialised limit, for this process only.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
}

/// The limited process; not a test by itself.
#[test]
fn the_limited_process() {
    let Ok(part) = std::env::var(PART) else { return };
    let mut words = part.split(' ');
    let mut next = || words.next().unwrap().parse::<u64>().unwrap();
    let (limit_mib, heap_mib, charges) = (next(), next(), next());
    if limit_mib != 0 {
        limit(limit_mib);
    }
    let mut builder = World::builder();
    if heap_mib != 0 {
        builder = builder.heap_limit((heap_mib << 20) as usize);
    }
    if charges != 0 {
        builder = builder.charge_allocations(Charging::On);
    }
    match builder.build() {
        Ok(world) => {
            work(&world);
            println!("\n:{} MiB", world.heap_limit() >> 20);
        }
        Err(error) => {
            println!("\n:{}{error}", if matches!(error, BuildError::AddressSpace { .. }) { "" } else { "? " })
        }
    }
}

/// The limited process that fills the tables; not a test by itself.
#[test]
fn the_process_that_fills_its_tables() {
    let Ok(limit_mib) = std::env::var(TABLES) else { return };
    limit(limit_mib.parse().unwrap());
    let world = World::builder().build().unwrap();
    // SAFETY: every Gc is a local variable.
    let m = unsafe { world.attach("main") }.unwrap();
    let object = m.alloc(7_u64).unwrap();
    let mut roots = Vec::new();
    let fill = AssertUnwindSafe(|| (0..4_194_304).for_each(|_| roots.push(m.root(object))));
    let text = std::panic::catch_unwind(fill).expect_err("the table is smaller").downcast::<String>().unwrap();
    println!("\n:{} roots: {text}", roots.len());
    drop(roots);
    let mut registered = 0;
    let error = loop {
        match m.set_finalizer(object, |_, _| ()) {
            Ok(()) => registered += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error.exhausted, Exhausted::Finalizers { entries: registered });
    println!(":{registered} finalizers: {error}");
}

/// Returns the output of the limited process.
fn limited(limit_mib: u64, heap_mib: u64, charges: u64) -> String {
    run("the_limited_process", PART, &format!("{limit_mib} {heap_mib} {charges}"))
}

fn run(process: &str, variable: &str, value: &str) -> String {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", process, "--nocapture", "--test-threads=1"])
        .env(variable, value)
        // Each further arena of glibc's malloc reserves 64 MiB, and the rest is too small for one arena per thread.
        .env("MALLOC_ARENA_MAX", "1")
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<_> = said.lines().filter_map(|line| line.strip_prefix(':')).collect();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !lines.is_empty(), "{}: {said}{errors}", output.status);
    lines.join("\n")
}

#[rstest]
fn a_world_with_default_options_fits_into_the_address_space(
    #[values(256, 512, 1024, 2048, 4096, 0)] limit_mib: u64,
    #[values(0, 1)] charges: u64,
) {
    let said = limited(limit_mib, 0, charges);
    let heap: u64 = said.strip_suffix(" MiB").unwrap_or_else(|| panic!("{said}")).parse().unwrap();
    let usual = (WorldBuilder::default_heap_limit() >> 20) as u64;
    // The reservation is not much smaller than the space that is available.
    let least = if limit_mib == 0 { usual } else { (limit_mib / 10).max(16).min(usual) };
    assert!(heap >= least && heap <= usual, "{heap} MiB");
}

#[rstest]
#[case::that_fits(512, 256)]
#[case::that_fits_just(1024, 800)]
#[case::without_a_limit(0, 100_000)]
fn a_heap_limit_set_by_the_program_is_not_changed(#[case] limit_mib: u64, #[case] heap_mib: u64) {
    assert_eq!(limited(limit_mib, heap_mib, 0), format!("{heap_mib} MiB"));
}

#[test]
fn a_heap_limit_without_address_space_is_an_error_with_a_remedy() {
    let said = limited(2048, 4096, 0);
    let wanted = ["the heap limit of 4096 MiB", "2048 MiB (RLIMIT_AS, `ulimit -v`)", "--heap-limit) to about "];
    for part in wanted {
        assert!(said.contains(part), "no {part:?} in: {said}");
    }
    // The remedy that the error names works.
    let advised = said.split("to about ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!(advised > 512);
    assert_eq!(limited(2048, advised, 0), format!("{advised} MiB"));
}

/// The tables of a world in a limited address space are smaller than usual: the errors give the actual numbers.
#[test]
fn a_full_table_reports_how_many_entries_it_has() {
    let said = run("the_process_that_fills_its_tables", TABLES, "256");
    let (said, finalizers) = said.split_once('\n').unwrap();
    let (entries, text) = finalizers.split_once(" finalizers: ").unwrap();
    assert!(entries.parse::<u32>().unwrap() < 4_194_304, "{finalizers}");
    assert!(text.starts_with(&format!("the table of finalizers is full: {entries} finalizers")), "{text}");
    let (roots, text) = said.split_once(" roots: ").unwrap();
    assert!(roots.parse::<u32>().unwrap() < 4_194_304, "{said}");
    assert_eq!(text, format!("all {roots} root handles of the world are in use: drop some of them"));
}
