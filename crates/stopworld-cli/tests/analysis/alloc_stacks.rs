//! `run --alloc-stacks`: one profile in each of its formats, each read by its consumer. The figures must equal those of the library.

use crate::command_support;
use crate::pprof::assert_rules_of_perfetto;
use crate::skipped;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{c_int, c_void};
use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::process::Command;

use command_support::{directory, run, text};
use rstest::rstest;
use serde_json::Value;
use skipped::skipped;
use stopworld::profile::allocations::{AllocationSampling, ProgramModule};
use stopworld::profile::census::{Band, Breakdown, CensusRequest};
use stopworld::{Charging, Mutator, World, cost_centre, keep_alive};
use stopworld_analysis::allocations::Allocations;
use stopworld_analysis::pprof;

#[inline(never)]
fn innermost(m: &Mutator, objects: u64) {
    for number in 0..objects {
        black_box(m.alloc(number).unwrap());
    }
    black_box(());
}

#[inline(never)]
fn caller(m: &Mutator) {
    innermost(m, 30_000);
    black_box(());
}

#[inline(never)]
fn arrays(m: &Mutator) -> stopworld::Gc<[u64]> {
    for _ in 0..50 {
        black_box(m.alloc_array(2000, |i| i as u64).unwrap());
    }
    m.alloc_array(2000, |i| i as u64).unwrap()
}

/// A profile of known functions.
fn profile() -> Allocations {
    let sampling = AllocationSampling { seed: 24, ..AllocationSampling::every(1000) };
    let world = World::builder().heap_limit(64 << 20).allocation_sampling(sampling).build().unwrap();
    // SAFETY: this thread keeps each `Gc` on its stack.
    let m = unsafe { world.attach("main") }.unwrap();
    innermost(&m, 10_000);
    caller(&m);
    let kept = arrays(&m);
    m.collect().unwrap();
    let profile = world.allocation_profile().unwrap();
    keep_alive(kept);
    Allocations::of(&profile)
}

fn last(name: &str) -> &str {
    name.rsplit("::").next().unwrap()
}

/// The functions of each call stack, outermost first, with the four values.
fn expected(allocations: &Allocations) -> BTreeMap<Vec<String>, [u64; 4]> {
    let mut stacks: BTreeMap<Vec<String>, [u64; 4]> = BTreeMap::new();
    for site in &allocations.sites {
        let calls = site.frames.iter().flat_map(|frame| &frame.calls);
        let mut names: Vec<String> = calls.map(|call| last(call.function()).to_owned()).collect();
        names.reverse();
        let values = stacks.entry(names).or_default();
        values.iter_mut().zip(site.estimates.values()).for_each(|(value, more)| *value += more);
    }
    stacks
}

#[test]
fn the_functions_of_the_program_have_their_shares() {
    let allocations = profile();
    let stacks = expected(&allocations);
    let sum = |end: &[&str]| -> f64 {
        let of = |(names, values): (&Vec<String>, &[u64; 4])| {
            names.iter().map(String::as_str).collect::<Vec<_>>().ends_with(end).then_some(values[1] as f64)
        };
        stacks.iter().filter_map(of).sum()
    };
    // 16 bytes each; an array of 2000 words is a large object of one block.
    let test = "the_functions_of_the_program_have_their_shares";
    for (end, bytes) in [
        (&["profile", "innermost"][..], 160e3),
        (&["profile", "caller", "innermost"], 480e3),
        (&["profile", "arrays"], 51.0 * 16384.0),
    ] {
        assert!((sum(end) / bytes - 1.0).abs() < 0.6, "{test}: {end:?}: {} of {bytes}: {stacks:?}", sum(end));
    }
    let outermost: BTreeSet<&str> = stacks.keys().map(|names| names[0].as_str()).collect();
    assert!(
        outermost.iter().all(|name| !name.contains("rust_begin_short_backtrace") && *name != "main"),
        "{outermost:?}"
    );
    let in_use: u64 =
        stacks.iter().filter(|(names, _)| names.last().unwrap() == "arrays").map(|(_, values)| values[3]).sum();
    assert!(in_use > 0, "{stacks:?}");
}

/// What `go tool pprof` prints of a file. `None` if there is no go.
fn printed_by_go(arguments: &[&str], file: &Path) -> Option<String> {
    let mut go = Command::new("go");
    go.args(["tool", "pprof"]).args(arguments).arg(file).env("PPROF_TMPDIR", file.parent().unwrap());
    let Ok(output) = go.output() else {
        skipped("go");
        return None;
    };
    assert!(output.status.success(), "{}", text(&output.stderr));
    Some(text(&output.stdout))
}

/// What `go tool pprof -raw` prints of the samples, by call stack.
fn read_by_go(file: &Path) -> Option<BTreeMap<Vec<String>, [u64; 4]>> {
    let printed = printed_by_go(&["-raw"], file)?;
    let mut parts = printed.split_once("Samples:\n").unwrap().1.split("Locations\n");
    let (samples, rest) = (parts.next().unwrap(), parts.next().unwrap());
    let (locations, mappings) = rest.split_once("Mappings\n").unwrap();
    assert!(mappings.lines().any(|line| line.contains("analysis")), "the test program is a mapping: {mappings}");
    // `     1: 0x55d0 M=1 name file:line:0 s=0`; the lines of the functions into which it is inlined follow, without a number.
    let mut names: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut number = "";
    for line in locations.lines() {
        let rest = match line.split_once(": 0x") {
            Some((begin, rest)) => {
                number = begin.trim();
                rest.split_once(' ').unwrap().1.trim_start_matches(|c: char| c == 'M' || c == '=' || c.is_ascii_digit())
            }
            None => line,
        };
        let (frame, _) = rest.trim().rsplit_once(" s=").unwrap();
        let (name, _) = frame.rsplit_once(' ').unwrap();
        names.entry(number).or_default().push(last(name).to_owned());
    }
    let mut stacks: BTreeMap<Vec<String>, [u64; 4]> = BTreeMap::new();
    let mut lines = samples.lines();
    assert_eq!(
        lines.next().unwrap().trim(),
        "alloc_objects/count alloc_space/bytes inuse_objects/count inuse_space/bytes[dflt]"
    );
    // A sample, and the lines of its labels.
    for (values, locations) in lines
        .filter(|line| !line.trim().starts_with("bytes:") && !line.trim().starts_with("cost_centre:"))
        .filter_map(|line| line.rsplit_once(": "))
    {
        let mut calls: Vec<String> = locations.split_whitespace().flat_map(|number| names[number].clone()).collect();
        calls.reverse();
        let sum = stacks.entry(calls).or_default();
        sum.iter_mut().zip(values.split_whitespace()).for_each(|(sum, value)| *sum += value.parse::<u64>().unwrap());
    }
    Some(stacks)
}

#[test]
fn gos_pprof_reads_the_stacks_and_all_four_values() {
    let allocations = profile();
    let directory = directory();
    let file = directory.path().join("run.pb.gz");
    pprof::allocations(&allocations, &mut fs::File::create(&file).unwrap()).unwrap();
    assert!(assert_rules_of_perfetto(&file).mapped > 0);
    let Some(read) = read_by_go(&file) else { return };
    assert_eq!(read, expected(&allocations));
}

/// The objects and bytes that `go tool pprof` shows of the samples with a label.
fn shown_by_go(file: &Path, value: &str, label: &str, is: &str) -> Option<u64> {
    let focus = format!("-tagfocus={label}=^{is}$");
    let top = printed_by_go(&["-top", &format!("-sample_index={value}"), "-unit=B", "-nodefraction=0", &focus], file)?;
    // `Showing nodes accounting for 1234B, 10% of 12340B total`
    let (_, after) = top.split_once("accounting for ").unwrap();
    Some(after.split(',').next().unwrap().trim_end_matches('B').parse().unwrap())
}

/// With an interval of one byte practically every object is sampled, so what is in use is what a census counts.
#[test]
fn gos_pprof_divides_all_four_values_by_cost_centre_and_type() {
    let sampling = AllocationSampling { seed: 3, ..AllocationSampling::every(1) };
    let builder = World::builder().heap_limit(64 << 20).allocation_sampling(sampling).charge_allocations(Charging::On);
    let world = builder.build().unwrap();
    // SAFETY: this thread keeps its references in roots.
    let m = unsafe { world.attach("main") }.unwrap();
    let mut numbers = vec![m.root(m.alloc(0_u64).unwrap())];
    let fractions: Vec<_> = {
        let _outer = cost_centre!("outer");
        numbers.extend((1..=100_u64).map(|number| m.root(m.alloc(number).unwrap())));
        let _inner = cost_centre!("inner");
        innermost(&m, 500);
        (0..30_u8).map(|number| m.root(m.alloc(f64::from(number)).unwrap())).collect()
    };
    let directory = directory();
    let file = directory.path().join("run.pb.gz");
    for (label, by) in [("cost_centre_stack", Breakdown::CostCentre), ("type", Breakdown::Type)] {
        // Each census is a collection, after which fewer objects may be in use.
        let census = world.census(&CensusRequest::by(by)).unwrap();
        let allocations = Allocations::of(&world.allocation_profile().unwrap());
        pprof::allocations(&allocations, &mut fs::File::create(&file).unwrap()).unwrap();
        assert_rules_of_perfetto(&file);
        let text = allocations.text();
        assert!(text.contains("inner/outer (u64)"), "{text}");
        assert!(census.bands.len() > 1, "{census:?}");
        for Band { label: band, bytes, objects, stack } in &census.bands {
            let name = if *stack == Some(0) { "MAIN" } else { band.as_str() };
            let Some(seen) = shown_by_go(&file, "inuse_space", label, name) else { return };
            assert_eq!(seen, *bytes, "{label} {name}");
            assert_eq!(shown_by_go(&file, "inuse_objects", label, name), Some(*objects), "{label} {name}");
        }
    }
    drop((numbers, fractions));
    let module = module_path!();
    for (value, expected) in [("alloc_objects", [1, 100, 530]), ("alloc_space", [16, 1600, 530 * 16])] {
        let names = ["MAIN".to_owned(), format!("{module}.outer"), format!("{module}.inner")];
        for (name, expected) in names.into_iter().zip(expected) {
            assert_eq!(shown_by_go(&file, value, "cost_centre", &name), Some(expected), "{value} of {name}");
        }
    }
    let top = printed_by_go(&["-top", "-sample_index=inuse_objects", "-tagroot=cost_centre,type"], &file).unwrap();
    assert!(top.contains(&format!("{module}.inner")), "{top}");
}

/// The cost centres of a workload, in the file that the command writes.
#[test]
fn a_run_has_the_cost_centres_of_its_workload() {
    let directory = directory();
    let output = run(directory.path(), "run gcbench --depth 12 --alloc-interval 4KiB --alloc-stacks run.pb.gz");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let file = directory.path().join("run.pb.gz");
    let centres =
        ["top down", "bottom up", "long-lived data"].map(|name| format!("stopworld_workloads::gcbench.{name}"));
    for centre in centres {
        let Some(bytes) = shown_by_go(&file, "alloc_space", "cost_centre", &centre) else { return };
        assert!(bytes > 0, "{centre}");
    }
}

unsafe extern "C" {
    fn bsearch(
        key: *const c_void,
        base: *const c_void,
        count: usize,
        size: usize,
        compare: unsafe extern "C" fn(*const c_void, *const c_void) -> c_int,
    ) -> *mut c_void;
}

unsafe extern "C" fn allocating(key: *const c_void, _: *const c_void) -> c_int {
    // SAFETY: the key is the mutator.
    innermost(unsafe { &*key.cast() }, 1);
    0
}

/// A reader looks up the names of a mapping itself if the profile has none: those of libc, which has no line tables, are names only.
#[test]
fn a_mapping_says_what_is_known_of_its_functions() {
    let world = World::builder().allocation_sampling(AllocationSampling::every(1)).build().unwrap();
    // SAFETY: this thread keeps no `Gc`.
    let m = unsafe { world.attach("main") }.unwrap();
    // SAFETY: a search in one byte. The comparison takes its key for the mutator.
    unsafe { bsearch((&raw const m).cast(), [0_u8].as_ptr().cast(), 1, 1, allocating) };
    let allocations = Allocations::of(&world.allocation_profile().unwrap());
    let frames: Vec<_> = allocations.sites.iter().flat_map(|site| &site.frames[..]).collect();
    let functions: Vec<_> = frames.iter().flat_map(|frame| &frame.calls).map(|call| last(call.function())).collect();
    assert_eq!(functions[..3], ["innermost", "allocating", "bsearch"], "{functions:?}");

    let directory = directory();
    let file = directory.path().join("run.pb.gz");
    pprof::allocations(&allocations, &mut fs::File::create(&file).unwrap()).unwrap();
    let Some(printed) = printed_by_go(&["-raw"], &file) else { return };
    let (_, mappings) = printed.split_once("Mappings\n").unwrap();
    let has_lines = |module: &ProgramModule| {
        let within = frames.iter().filter(|frame| module.range.contains(&(frame.address as usize)));
        within.flat_map(|frame| &frame.calls).map(|call| call.line().is_some()).reduce(|a, b| a || b)
    };
    let flags = |module| Some((module, if has_lines(module)? { "[FN][FL][LN][IN]" } else { "[FN]" }));
    let expected: Vec<_> = allocations.modules.iter().filter_map(flags).collect();
    // `1: 0x55d0/0x55f0/0x0 /path build-id [FN][FL][LN][IN]`, for mappings with locations.
    let lines: Vec<&str> = mappings.lines().filter(|line| line.contains("/0x0 ")).collect();
    assert_eq!(lines.len(), expected.len(), "{mappings}");
    for (line, (module, flags)) in lines.iter().zip(expected) {
        assert!(line.contains(&*module.path.to_string_lossy()), "{line}: {module:?}");
        assert_eq!(line.find('[').map_or("", |at| line[at..].trim()), flags, "{line}");
    }
    assert_eq!(has_lines(&allocations.modules[0]), Some(true), "the test program has line tables");
}

#[test]
fn folded_and_speedscope_have_the_same_bytes() {
    let allocations = profile();
    let expected = expected(&allocations);
    let folded: BTreeMap<Vec<String>, u64> = allocations
        .folded_lines()
        .iter()
        .map(|line| {
            let (names, bytes) = line.rsplit_once(' ').unwrap();
            (names.split(';').map(|name| last(name).to_owned()).collect(), bytes.parse().unwrap())
        })
        .collect();
    assert_eq!(folded.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    assert!(folded.iter().all(|(stack, bytes)| *bytes == expected[stack][1]), "{folded:?} {expected:?}");

    let mut written = Vec::new();
    allocations.speedscope("run", &mut written).unwrap();
    let file: Value = serde_json::from_slice(&written).unwrap();
    let name = |index: &Value| {
        last(file["shared"]["frames"][index.as_u64().unwrap() as usize]["name"].as_str().unwrap()).to_owned()
    };
    for (profile, value) in file["profiles"].as_array().unwrap().iter().zip([1, 3]) {
        let (samples, weights) = (profile["samples"].as_array().unwrap(), profile["weights"].as_array().unwrap());
        assert_eq!(samples.len(), weights.len());
        for (stack, weight) in samples.iter().zip(weights) {
            let stack: Vec<String> = stack.as_array().unwrap().iter().map(name).collect();
            assert_eq!(weight.as_u64(), Some(expected[&stack][value]), "{stack:?}");
        }
        let sum: u64 = weights.iter().map(|weight| weight.as_u64().unwrap()).sum();
        assert_eq!(profile["endValue"].as_u64(), Some(sum));
    }
}

/// The command, with a workload: each format has the functions of the workload.
#[rstest]
#[case::folded("run.folded")]
#[case::drawn("run.svg")]
#[case::speedscope("run.json")]
#[case::table("run.txt")]
#[case::pprof("run.pb.gz")]
fn a_run_writes_the_stacks_of_its_workload(#[case] name: &str) {
    let directory = directory();
    let output = run(directory.path(), &format!("run gcbench --depth 12 --alloc-interval 4KiB --alloc-stacks {name}"));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let file = directory.path().join(name);
    if name.ends_with(".pb.gz") {
        let locations = assert_rules_of_perfetto(&file);
        assert!(locations.mapped > 0 && locations.inlined > 0, "{} and {}", locations.mapped, locations.inlined);
        let Some(stacks) = read_by_go_functions(&file) else { return };
        assert!(stacks.contains("stopworld_workloads::gcbench"), "{stacks}");
        return;
    }
    let written = fs::read_to_string(file).unwrap();
    assert!(written.contains("stopworld_workloads::gcbench"), "{written}");
    assert!(!written.contains("Mutator::refill"), "the collector's own frames are left out: {written}");
}

#[rstest]
#[case::folded("run.folded", "")]
#[case::drawn("run.svg", "(no samples)")]
#[case::table("run.txt", "total")]
fn a_run_without_samples_writes_an_empty_profile(#[case] name: &str, #[case] expected: &str) {
    let directory = directory();
    let options = format!("run gcbench --depth 4 --alloc-interval 64GiB --alloc-stacks {name}");
    let output = run(directory.path(), &options);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let written = fs::read_to_string(directory.path().join(name)).unwrap();
    assert!(written.contains(expected), "{written}");
}

/// The functions that `go tool pprof -top` lists.
fn read_by_go_functions(file: &Path) -> Option<String> {
    printed_by_go(&["-top", "-sample_index=alloc_space", "-nodefraction=0"], file)
}

#[rstest]
#[case("--alloc-stacks run.gz", 2, "end it with one of")]
#[case("--alloc-stacks missing/run.folded", 1, "its directory must exist")]
#[case("--alloc-interval 1k", 2, "--alloc-stacks")]
#[case("--alloc-seed 1", 2, "--alloc-stacks")]
#[case("--alloc-stacks run.folded --alloc-interval 0", 2, "at least one byte")]
fn a_wrong_option_is_refused_before_the_run(#[case] options: &str, #[case] code: i32, #[case] complaint: &str) {
    let directory = directory();
    let output = run(directory.path(), &format!("run gcbench --depth 12 {options}"));
    assert_eq!(output.status.code(), Some(code));
    assert!(text(&output.stderr).contains(complaint), "{}", text(&output.stderr));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}
