//! Samples of allocations in .nettrace files, with their call stacks and the names at the end.

use crate::command_support;
use crate::nettrace_rules;
use crate::patience;
use crate::writer_support;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{c_int, c_void};
use std::fs;
use std::hint::black_box;
use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use command_support::{directory, run, stopworld, text, wait_until};
use nettrace::clr::{Payload, gc::AllocationTick};
use nettrace::encode::{Encoder, Header, OnStack, Written};
use nettrace::functions::Functions;
use nettrace::{EventType, NetEvent, Reader, Summary, TraceInfo, Utc, Visitor};
use nettrace_rules::{Trace as Parsed, check};
use patience::Watchdog;
use proptest::prelude::*;
use rstest::rstest;
use stopworld::profile::allocations::{AllocationProfile, AllocationSampling};
use stopworld::{Mutator, Stopper, World, WorldBuilder};
use stopworld_trace::nettrace::{Container, Destination, Options, Providers, Trace};
use writer_support::{File, end, small, start};

const INTERVAL: u64 = 4096;

fn sampling() -> WorldBuilder {
    small().allocation_sampling(AllocationSampling { seed: 24, ..AllocationSampling::every(INTERVAL) })
}

fn options(file: &File) -> Options {
    Options::new(file.path()).providers(Providers::with_allocations())
}

#[inline(never)]
fn innermost(m: &Mutator, objects: u64) {
    for number in 0..objects {
        black_box(m.alloc([number; 5]).unwrap());
    }
    black_box(());
}

#[inline(never)]
fn nested(m: &Mutator, depth: usize) {
    match depth {
        0 => innermost(m, 2_000),
        _ => nested(m, depth - 1),
    }
    black_box(());
}

#[inline(never)]
fn arrays(m: &Mutator) {
    for _ in 0..50 {
        black_box(m.alloc_array(20_000, |i| i as u64).unwrap());
    }
    black_box(());
}

/// Allocates with many different call stacks, and flushes the trace several times.
fn work(world: &World, trace: &Trace) {
    // SAFETY: this thread keeps no `Gc`.
    let m = unsafe { world.attach("main") }.unwrap();
    for depth in 0..30 {
        nested(&m, depth % 11);
        if depth % 7 == 0 {
            trace.flush().unwrap();
        }
    }
    arrays(&m);
}

/// A sample in a file.
#[derive(Clone, Debug)]
struct Sample {
    stack: Vec<u64>,
    type_name: String,
    object_bytes: u64,
    amount: i64,
    kind: u32,
}

/// The allocation ticks of a trace, with their stacks.
#[derive(Default)]
struct Samples {
    process: u64,
    samples: Vec<Sample>,
}

impl Visitor for Samples {
    fn event(&mut self, event: &NetEvent<'_>) {
        self.process = event.process;
        if event.kind.name != "GCAllocationTick" {
            return;
        }
        let tick = AllocationTick::new(event.version(), Payload::new(event.payload, 8));
        self.samples.push(Sample {
            stack: event.stack.addresses().collect(),
            type_name: tick.type_name().unwrap().to_string(),
            object_bytes: tick.object_size().unwrap(),
            amount: tick.bytes().unwrap(),
            kind: tick.kind().unwrap(),
        });
    }
}

fn samples(bytes: &[u8]) -> Samples {
    let mut samples = Samples::default();
    let summary = Reader::new(bytes).with_stacks().read(&mut samples);
    assert_eq!((summary.damage, summary.lost, summary.ended_orderly), (None, 0, true));
    samples
}

fn functions(bytes: &[u8]) -> Functions {
    let mut functions = Functions::default();
    Reader::new(bytes).read(&mut functions);
    functions
}

/// Returns the last parts of the names of a stack's functions, `?` for an address without a name.
fn names<'a>(functions: &'a Functions, process: u64, stack: &'a [u64]) -> Vec<&'a str> {
    let name = |address: &u64| functions.at(process, *address).map_or("?", |function| &*function.name);
    stack.iter().map(name).collect()
}

/// The number of samples and the sum of what they stand for, by stack, type and size.
type Sums = BTreeMap<(Vec<u64>, String, u64), (u64, u64)>;

fn sums_of_profile(profile: &AllocationProfile) -> Sums {
    let mut sums = Sums::new();
    for site in &profile.sites {
        let stack = site.call_stack.unwrap().return_addresses().map(|address| address as u64 - 1);
        let sum = sums.entry((stack.collect(), site.type_info.name().to_owned(), site.object_bytes)).or_default();
        *sum = (sum.0 + site.samples, sum.1 + site.allocated_bytes() as u64);
    }
    sums
}

fn sums_of_trace(samples: &[Sample]) -> Sums {
    let mut sums = Sums::new();
    for Sample { stack, type_name, object_bytes, amount, .. } in samples.iter().cloned() {
        let sum = sums.entry((stack, type_name, object_bytes)).or_default();
        *sum = (sum.0 + 1, sum.1 + amount as u64);
    }
    sums
}

/// Asserts that a trace has the samples of a profile, to the byte.
fn are_the_profile(samples: &[Sample], profile: &AllocationProfile) {
    assert_eq!((profile.dropped, samples.is_empty()), (0, false));
    let (expected, seen) = (sums_of_profile(profile), sums_of_trace(samples));
    assert_eq!(seen.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    for (of, (count, bytes)) in &expected {
        let (seen_count, seen_bytes) = seen[of];
        assert_eq!(seen_count, *count, "{of:?}");
        assert_eq!(seen_bytes, *bytes, "{of:?}");
    }
}

#[rstest]
fn a_trace_has_the_samples_of_the_profile_with_their_call_stacks(
    #[values(Container::V4, Container::V6)] container: Container,
) {
    let file = File::new();
    let trace = start(|| options(&file).container(container));
    let world = sampling().record_to(&trace).build().unwrap();
    work(&world, &trace);
    let profile = world.allocation_profile().unwrap();
    end(world);
    let finished = trace.finish().unwrap();
    assert!(finished.is_complete(), "{finished:?}");

    let bytes = file.bytes();
    assert_eq!(finished.bytes, bytes.len() as u64 - if container == Container::V4 { 1 } else { 4 });
    let parsed = Parsed::parse(&bytes);
    check(&parsed);
    assert!(parsed.points > 3);
    let Samples { process, samples } = samples(&bytes);
    are_the_profile(&samples, &profile);
    // Another reader finds the same stacks.
    let others = parsed.named("GCAllocationTick").map(|tick| &tick.stack);
    assert!(others.eq(samples.iter().map(|sample| &sample.stack)));
    let functions = functions(&bytes);
    let (mut deepest, mut large) = (0, 0);
    for Sample { stack, type_name, kind, .. } in &samples {
        let names = names(&functions, process, stack);
        match (*kind, type_name.as_str()) {
            (0, "u64[5]") => {
                let own: Vec<_> = names.iter().skip_while(|name| **name != "innermost").collect();
                let depth = own[1..].iter().take_while(|name| ***name == "nested").count();
                assert_eq!((own.first(), *own[depth + 1]), (Some(&&"innermost"), "work"), "{names:?}");
                deepest = deepest.max(depth);
            }
            (1, "u64[]") => {
                assert!(names.contains(&"arrays"), "{names:?}");
                large += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(deepest, 11);
    assert_eq!(large, 50);
    let function = samples[0]
        .stack
        .iter()
        .find_map(|address| functions.at(process, *address).filter(|function| function.name == "innermost"));
    let function = function.unwrap();
    assert!(function.to_string().ends_with("stacks::innermost"), "{function}");
    let program = std::env::current_exe().unwrap();
    assert_eq!(functions.module(process, function.module), Some(&*program.display().to_string()));
}

/// Readers add up the amounts of the ticks, so a world has only one sort of them.
#[rstest]
#[case::only_ticks(small(), false)]
#[case::only_samples(sampling(), true)]
fn a_world_reports_ticks_or_samples(#[case] builder: WorldBuilder, #[case] is_sampled: bool) {
    let file = File::new();
    let providers = Providers::parse("Microsoft-Windows-DotNETRuntime:0x2000001:5").unwrap();
    let trace = start(|| options(&file).providers(providers.clone()));
    let world = builder.record_to(&trace).build().unwrap();
    work(&world, &trace);
    end(world);
    trace.finish().unwrap();
    let bytes = file.bytes();
    let parsed = Parsed::parse(&bytes);
    let Samples { samples, .. } = samples(&bytes);
    assert!(!samples.is_empty());
    assert!(samples.iter().all(|sample| sample.stack.is_empty() != is_sampled));
    // A tick is also a sampled allocation.
    assert!(parsed.named("GCSampledObjectAllocationLow").count() > 0);
    assert_eq!(functions(&bytes).is_empty(), !is_sampled);
    let allocated: i64 = samples.iter().map(|sample| sample.amount).sum();
    // 60,000 arrays of 5 words, and 50 of 20,000, with their headers.
    assert!((9_000_000..14_000_000).contains(&allocated), "{allocated}");
}

/// The file of a process that is killed: what was flushed, with the stacks, and without names.
#[test]
fn a_trace_without_its_end_has_the_addresses() {
    let file = File::new();
    let trace = start(|| options(&file));
    let world = sampling().record_to(&trace).build().unwrap();
    work(&world, &trace);
    trace.flush().unwrap();
    let bytes = file.bytes();
    are_the_profile(&samples(&bytes).samples, &world.allocation_profile().unwrap());
    assert!(functions(&bytes).is_empty());
    end(world);
    trace.finish().unwrap();
    assert!(!functions(&file.bytes()).is_empty());
}

/// A process that is killed with SIGKILL while it records leaves the samples up to the last flush. Their stacks are addresses, and `dump` says so.
#[test]
fn a_process_that_is_killed_leaves_samples_without_names() {
    const ENOUGH: u64 = 300_000;
    let directory = directory();
    let file = directory.path().join("run.nettrace");
    let line = "run gcbench --seconds 600 --alloc-interval 16KiB --events GC@Verbose --trace run.nettrace";
    let mut command = stopworld(directory.path(), line);
    let mut process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("it records samples", || fs::metadata(&file).is_ok_and(|file| file.len() > ENOUGH));
    process.kill().unwrap();
    assert_eq!(process.wait().unwrap().signal(), Some(libc::SIGKILL));

    let output = run(directory.path(), "dump run.nettrace --stacks --event GC/AllocationTick");
    let (lines, complaints) = (text(&output.stdout), text(&output.stderr));
    let frames: Vec<_> = lines.lines().filter(|line| line.starts_with("               ")).collect();
    assert!(frames.len() > 1000, "{lines}");
    assert!(frames.iter().all(|frame| frame.trim_start().starts_with("0x") && !frame.trim().contains(' ')), "{lines}");
    assert!(
        complaints.contains("the file names no functions, so stacks are addresses: the process was killed"),
        "{complaints}"
    );
    // Only what was being written may be damaged.
    let mut found = Samples::default();
    let summary = Reader::new(&fs::read(&file).unwrap()[..]).with_stacks().read(&mut found);
    assert!(summary.damages <= 1 && summary.lost == 0, "{summary:?}");
    assert!(summary.damage.is_none_or(|damage| damage.offset + 1_000_000 > summary.bytes), "{summary:?}");
    assert!(found.samples.iter().all(|sample| !sample.stack.is_empty() && sample.amount > 0));
}

/// Allocates in the child of a fork.
#[inline(never)]
fn in_child(world: &World, trace: &Trace) -> Option<()> {
    // SAFETY: this thread keeps no `Gc`.
    let m = unsafe { world.attach("child") }.ok()?;
    nested(&m, 3);
    // The child has no part in the recording, so this does nothing, or fails.
    let _ = (trace.flush(), trace.finish());
    nested(&m, 3);
    Some(())
}

/// `.fork.services`: children that are forked while samples are recorded, which then allocate, leave their parent's file alone.
#[test]
fn the_child_of_a_fork_does_not_damage_the_samples_of_its_parent() {
    const CHILDREN: usize = 20;
    let _watchdog = Watchdog::new("a child of the fork does not end", 300, 20);
    let file = File::new();
    let trace = start(|| options(&file));
    let world = sampling().record_to(&trace).build().unwrap();
    let is_over = AtomicBool::new(false);
    let failed = std::thread::scope(|scope| {
        scope.spawn(|| {
            // SAFETY: this thread keeps no `Gc`.
            let m = unsafe { world.attach("worker") }.unwrap();
            while !is_over.load(Ordering::Relaxed) {
                nested(&m, 5);
            }
        });
        let failed = (0..CHILDREN).map(|_| forked(|| in_child(&world, &trace))).find(|status| *status != 0);
        is_over.store(true, Ordering::Relaxed);
        failed
    });
    assert_eq!(failed, None, "the status of a child");
    let profile = world.allocation_profile().unwrap();
    end(world);
    assert!(trace.finish().unwrap().is_complete());

    let bytes = file.bytes();
    check(&Parsed::parse(&bytes));
    let Samples { process, samples } = samples(&bytes);
    are_the_profile(&samples, &profile);
    let functions = functions(&bytes);
    let all: BTreeSet<_> = samples.iter().flat_map(|sample| names(&functions, process, &sample.stack)).collect();
    assert!(all.contains("nested") && !all.contains("in_child"), "{all:?}");
}

/// Forks. Returns how the child ended: 0 if `work` returned something.
fn forked(work: impl FnOnce() -> Option<()>) -> i32 {
    // SAFETY: the child runs code of this process on its one thread, as programs that fork do, and never returns.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "{}", io::Error::last_os_error());
    if child == 0 {
        let worked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        // SAFETY: ends the child without the parent's destructors.
        unsafe { libc::_exit(if matches!(worked, Ok(Some(()))) { 0 } else { 1 }) };
    }
    let mut status = 0;
    // SAFETY: a child of this process.
    while unsafe { libc::waitpid(child, &mut status, 0) } != child {}
    status
}

#[test]
fn a_flight_recorder_keeps_samples_and_writes_their_names() {
    let file = File::new();
    let trace = start(|| options(&file).flight_recorder(8 << 20));
    let world = sampling().record_to(&trace).build().unwrap();
    work(&world, &trace);
    trace.write_flight().unwrap();
    let bytes = file.bytes();
    let Samples { process, samples } = samples(&bytes);
    are_the_profile(&samples, &world.allocation_profile().unwrap());
    assert!(names(&functions(&bytes), process, &samples[0].stack).contains(&"innermost"));
    end(world);
}

/// A destination that fails if it gets this text in UTF-16.
#[derive(Clone, Debug)]
struct FailingAt(&'static str);

impl Destination for FailingAt {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        let text: Vec<u8> = self.0.encode_utf16().flat_map(u16::to_le_bytes).collect();
        if bytes.windows(text.len()).any(|window| window == text) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }
}

#[rstest]
#[case::all_is_written("nothing has this text", false, false)]
#[case::the_names_fail("MethodDCEndVerbose", true, false)]
#[case::the_samples_fail("GCAllocationTick", true, true)]
fn losses_are_counted(#[case] text: &'static str, #[case] fails: bool, #[case] are_lost: bool) {
    let trace = start(|| Options::to(Box::new(FailingAt(text))).providers(Providers::with_allocations()));
    let world = sampling().record_to(&trace).build().unwrap();
    // SAFETY: this thread keeps no `Gc`.
    let m = unsafe { world.attach("main") }.unwrap();
    innermost(&m, 3_000);
    let finished = trace.finish().unwrap();
    drop(m);
    end(world);
    assert_eq!(finished.error.is_some(), fails, "{finished:?}");
    let totals = finished.totals;
    assert_eq!((totals.lost > 0, totals.fired), (are_lost, totals.written + totals.lost + totals.dropped));
}

/// Everything that the two containers have in common.
#[derive(Debug, Default, PartialEq)]
struct Everything(Vec<(String, i64, Vec<u64>, Vec<u8>)>);

impl Visitor for Everything {
    fn event(&mut self, event: &NetEvent<'_>) {
        let stack = event.stack.addresses().collect();
        self.0.push((event.kind.name.clone(), event.time, stack, event.payload.to_vec()));
    }
}

#[rstest]
fn a_conversion_keeps_stacks_and_names(#[values("nettrace", "nettrace6")] to: &str) {
    let directory = directory();
    let from = if to == "nettrace" { "nettrace6" } else { "nettrace" };
    for line in [
        format!("run gcbench --depth 10 --trace a.nettrace --format {from} --events GC@Verbose --alloc-interval 16KiB"),
        format!("convert a.nettrace b.nettrace --format {to}"),
        "gcstats b.nettrace".to_owned(),
    ] {
        let output = run(directory.path(), &line);
        assert!(output.status.success(), "{line}: {}", text(&output.stderr));
    }
    let [before, after] = ["a.nettrace", "b.nettrace"].map(|name| {
        let mut everything = Everything::default();
        let bytes = fs::read(directory.path().join(name)).unwrap();
        Reader::new(&bytes[..]).with_stacks().read(&mut everything);
        assert!(!functions(&bytes).is_empty());
        everything
    });
    assert!(before.0.iter().any(|(_, _, stack, _)| !stack.is_empty()));
    assert_eq!(before, after);
}

/// The samples of the trace and those of `--alloc-stacks` are the same, so their sums are, except for rounding.
#[test]
fn a_run_has_the_samples_in_both_files() {
    let directory = directory();
    let options = "--alloc-interval 16KiB --alloc-seed 24 --alloc-stacks run.folded --trace run.nettrace";
    let output = run(directory.path(), &format!("run gcbench --depth 12 {options}"));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let folded = fs::read_to_string(directory.path().join("run.folded")).unwrap();
    let bytes_of = |line: &str| line.rsplit_once(' ').unwrap().1.parse::<i64>().unwrap();
    let expected: i64 = folded.lines().map(bytes_of).sum();
    let Samples { process, samples } = samples(&fs::read(directory.path().join("run.nettrace")).unwrap());
    let seen: i64 = samples.iter().map(|sample| sample.amount).sum();
    let rounding = samples.len() + folded.lines().count();
    assert!((seen - expected).unsigned_abs() <= rounding as u64, "{seen} of {expected} bytes, {rounding}");
    assert!(process > 0 && samples.len() > 50, "{}", samples.len());
}

#[rstest]
#[case::requested("--trace run.nettrace --events GC@Verbose --alloc-interval 16KiB", true)]
#[case::by_a_provider(
    "--trace run.nettrace --providers Microsoft-Windows-DotNETRuntime:1:5 --alloc-interval 16KiB",
    true
)]
#[case::by_default("--trace run.nettrace --alloc-stacks run.txt --alloc-interval 16KiB", true)]
#[case::not_requested("--trace run.nettrace --events GC --alloc-stacks run.txt --alloc-interval 16KiB", false)]
fn the_events_of_a_run_decide_whether_its_trace_has_samples(#[case] options: &str, #[case] expected: bool) {
    let directory = directory();
    let output = run(directory.path(), &format!("run gcbench --depth 10 {options}"));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let bytes = fs::read(directory.path().join("run.nettrace")).unwrap();
    assert_eq!(!samples(&bytes).samples.is_empty(), expected);
    assert_eq!(!functions(&bytes).is_empty(), expected);
}

/// Runs `dump --stacks` on a file, or on a pipe.
fn dumped(file: &Path, options: &str, is_piped: bool) -> (String, String) {
    let name = if is_piped { "-".to_owned() } else { file.display().to_string() };
    let mut command = stopworld(file.parent().unwrap(), &format!("dump {name} --stacks {options}"));
    if is_piped {
        let (reader, mut writer) = io::pipe().unwrap();
        command.stdin(reader);
        let bytes = fs::read(file).unwrap();
        std::thread::spawn(move || writer.write_all(&bytes));
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    (text(&output.stdout), text(&output.stderr))
}

#[rstest]
fn dump_prints_stacks_with_names(#[values(false, true)] is_piped: bool) {
    let file = File::new();
    let trace = start(|| options(&file));
    let world = sampling().record_to(&trace).build().unwrap();
    work(&world, &trace);
    trace.flush().unwrap();
    // The file of a killed process.
    let (lines, complaints) = dumped(&file.path(), "", is_piped);
    assert!(lines.contains("\n               0x") && !lines.contains("innermost"), "{lines}");
    assert!(complaints.contains("the file names no functions"), "{complaints}");
    end(world);
    trace.finish().unwrap();

    let (lines, complaints) = dumped(&file.path(), "--event GC/AllocationTick", is_piped);
    assert_eq!(complaints, "");
    let mut frames = lines.lines().skip_while(|line| !line.ends_with("stacks::innermost")).skip(1);
    assert!(frames.next().unwrap().ends_with("stacks::nested"), "{lines}");
    let samples = samples(&file.bytes()).samples;
    let expected: usize = samples.iter().map(|sample| 1 + sample.stack.len()).sum();
    assert_eq!(lines.lines().count(), expected);
    let (lines, _) = dumped(&file.path(), "--json", is_piped);
    let objects = lines.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let stacks = objects.filter(|object| object["event"] == "GC/AllocationTick");
    let stacks: Vec<_> = stacks.map(|object| object["stack"].as_array().unwrap().len()).collect();
    assert_eq!(stacks, samples.iter().map(|sample| sample.stack.len()).collect::<Vec<_>>());
}

#[test]
fn control_characters_in_a_name_do_not_reach_the_terminal() {
    let file = File::new();
    let trace = start(|| options(&file));
    let world = sampling().record_to(&trace).build().unwrap();
    work(&world, &trace);
    end(world);
    trace.finish().unwrap();
    let in_file = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    let mut bytes = file.bytes();
    let name = in_file("innermost");
    let at = bytes.windows(name.len()).position(|window| window == name).expect("the name of the function");
    bytes[at..at + name.len()].copy_from_slice(&in_file("\u{1b}nnermost"));
    fs::write(file.path(), bytes).unwrap();
    let (lines, _) = dumped(&file.path(), "", false);
    assert!(lines.contains("::\u{fffd}nnermost") && !lines.contains('\u{1b}'), "{lines}");
}

/// What the threads of the deadlock test wait for.
struct Meeting {
    holds: mpsc::Sender<()>,
    has_collected: mpsc::Receiver<()>,
    is_called: bool,
}

/// Holds the lock of the dynamic loader until a collection has ended.
extern "C" fn until_collected(_: *mut libc::dl_phdr_info, _: usize, meeting: *mut c_void) -> c_int {
    // SAFETY: the caller passes its `Meeting`, which outlives the call.
    let meeting = unsafe { &mut *meeting.cast::<Meeting>() };
    if !std::mem::replace(&mut meeting.is_called, true) {
        meeting.holds.send(()).unwrap();
        meeting.has_collected.recv().unwrap();
    }
    0
}

/// `.event.names`: `finish`, and the writing of a flight recorder, need the lock of the dynamic loader for the names. The thread that holds it
/// waits for a collection, and that for the recorder: if the caller of `finish` held the recorder's lock, or counted as a running thread, none of
/// the three would go on.
#[rstest]
fn finish_does_not_keep_a_collection_from_the_thread_that_holds_the_loader(
    #[values(Stopper::Safepoints, Stopper::Signals)] stopper: Stopper,
    #[values(false, true)] is_flight_recorder: bool,
) {
    let _watchdog = Watchdog::new("`finish` and a collection wait for each other", 60, 60);
    let file = File::new();
    let trace = start(|| {
        let options = options(&file);
        if is_flight_recorder { options.flight_recorder(1 << 20) } else { options }
    });
    let world = sampling().stopper(stopper).record_to(&trace).build().unwrap();
    let (holds, is_held) = mpsc::channel();
    let (collected, has_collected) = mpsc::channel();
    let is_finished = AtomicBool::new(false);
    let (ready, are_ready) = mpsc::channel();
    let (go, may_go) = mpsc::channel();
    std::thread::scope(|scope| {
        let (world, trace, is_finished) = (&world, &trace, &is_finished);
        scope.spawn(move || {
            // SAFETY: this thread keeps no `Gc`.
            let m = unsafe { world.attach("finishing") }.unwrap();
            innermost(&m, 2_000);
            m.blocking(move || {
                ready.send(()).unwrap();
                may_go.recv().unwrap();
            });
            if is_flight_recorder {
                trace.write_flight().unwrap();
            } else {
                trace.finish().unwrap();
            }
            is_finished.store(true, Ordering::Relaxed);
        });
        are_ready.recv().unwrap();
        scope.spawn(move || {
            let mut meeting = Meeting { holds, has_collected, is_called: false };
            // SAFETY: the function matches its argument, which outlives the call.
            unsafe { libc::dl_iterate_phdr(Some(until_collected), (&raw mut meeting).cast()) };
        });
        is_held.recv().unwrap();
        go.send(()).unwrap();
        // Time to get to the loader's lock, which is not free.
        std::thread::sleep(Duration::from_millis(300));
        assert!(!is_finished.load(Ordering::Relaxed), "`finish` has not needed the loader's lock");
        // The collection, and what needs the recorder's lock.
        world.collect().unwrap();
        trace.flush().unwrap();
        collected.send(()).unwrap();
    });
    assert!(is_finished.load(Ordering::Relaxed));
    assert!(!functions(&file.bytes()).is_empty());
    end(world);
}

/// Collects stacks.
#[derive(Default)]
struct Stacks(Vec<Vec<u64>>);

impl Visitor for Stacks {
    fn event(&mut self, event: &NetEvent<'_>) {
        self.0.push(event.stack.addresses().collect());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// The oracle: the list of the stacks. Each event has one of a few stacks, which are written again after each sequence point.
    #[test]
    fn stacks_are_read_as_written(
        is_v6 in any::<bool>(),
        stacks in prop::collection::vec(prop::collection::vec(any::<u64>(), 0..600), 1..8),
        steps in prop::collection::vec((0..8_usize, any::<bool>(), 0..2_000_usize), 0..60),
    ) {
        let container = if is_v6 { Container::V6 } else { Container::V4 };
        let info = TraceInfo {
            container,
            start: Utc::default(),
            start_ticks: 0,
            ticks_per_second: 1_000,
            pointer_bytes: 8,
            process_id: 1,
            processors: 1,
            sampling_period_ns: 0,
            pairs: Vec::new(),
        };
        let kind = EventType { provider: "p".into(), event: 1, name: "e".into(), level: 4, ..EventType::default() };
        let mut encoder: Encoder<_, OnStack> = Encoder::new(Vec::new(), container);
        let _ = encoder.trace(&info).unwrap();
        if is_v6 {
            encoder.thread(1, (1, 1), "", &[]).unwrap();
        }
        let _ = encoder.event_type(1, &kind).unwrap();
        let (mut ids, mut expected) = (Vec::new(), Vec::new());
        for ((stack, is_point, payload), number) in steps.into_iter().zip(1..) {
            let stack = stack % (stacks.len() + 1);
            // The stack after the last one is none.
            let id = if stack == stacks.len() { 0 } else {
                match ids.iter().position(|known| *known == stack) {
                    Some(at) => at as u32 + 1,
                    None => {
                        ids.push(stack);
                        let bytes: Vec<u8> = stacks[stack].iter().flat_map(|word| word.to_le_bytes()).collect();
                        encoder.stack(ids.len() as u32, &bytes).unwrap();
                        ids.len() as u32
                    }
                }
            };
            let header = Header {
                kind: 1,
                sequence: number,
                thread: 1,
                capture: 1,
                processor: None,
                time: number.into(),
                sorted: true,
                context: OnStack(id),
            };
            prop_assert_eq!(encoder.event(&header, &vec![0; payload]).unwrap(), Written::Yes);
            expected.push(stacks.get(stack).cloned().unwrap_or_default());
            if is_point {
                encoder.last_number(1, number);
                encoder.sequence_point(number.into(), 0).unwrap();
                ids.clear();
            }
        }
        let bytes = encoder.end().unwrap();
        let mut read = Stacks::default();
        let Summary { damage, lost, .. } = Reader::new(&bytes[..]).with_stacks().read(&mut read);
        prop_assert_eq!((damage, lost), (None, 0));
        prop_assert_eq!(read.0, expected);
    }
}
