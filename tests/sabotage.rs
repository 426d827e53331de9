//! Each guard of a hazard, taken out: the test that is named for it must then fail, or it proves nothing.
//!
//! ```sh
//! RUSTFLAGS='--cfg stopworld_sabotage' CARGO_TARGET_DIR=target/guards cargo test --no-default-features --test sabotage
//! ```
//!
//! (which is `.ci/guards`). The cfg compiles a switch into every guard (`src/sabotage.rs`), the environment variable
//! `STOPWORLD_SABOTAGE` opens one of them. For each row a test here runs the named test twice, each time in a process of
//! its own: with all guards in place it must pass; with the one taken out it must fail, crash, or hang until it is
//! ended. In the ordinary build this file is empty.
//!
//! Guards of pure protocols are caught by the model checker instead: `loom-tests` takes them out of the same files.
#![cfg(stopworld_sabotage)]

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

macro_rules! rows {
    ($($name:ident = $guard:literal: $binary:literal, $test:literal;)*) => {
        /// `(guard, test binary, test)`
        const ROWS: &[(&str, &str, &str)] = &[$(($guard, $binary, $test)),*];

        $(#[test] fn $name() {
            must_fail_without($guard, $binary, $test);
        })*
    };
}

rows! {
    stop_no_malloc = "stop.no-malloc": "no_malloc",
        "a_collection_with_everything_in_it_calls_no_malloc::by_1_By__Signals::markers_1_1";
    stop_locks = "stop.locks": "no_malloc",
        "a_collection_with_everything_in_it_calls_no_malloc::by_1_By__Signals::markers_1_1";
    stop_mid_alloc = "stop.mid-alloc": "stop_threads",
        "what_a_half_built_object_refers_to_survives::by_1_By__Signals";
    stop_registers = "stop.registers": "stop_registers",
        "an_object_whose_only_reference_is_in_a_general_register_survives::case_09_r12::by_1_By__Signals";
    stop_registers_under_the_debugger = "stop.registers": "stop_registers",
        "an_object_whose_only_reference_is_in_a_vector_register_survives::case_1_xmm0::by_2_By__Debugger";
    stop_red_zone = "stop.red-zone": "stop_registers",
        "an_object_whose_only_reference_is_in_the_red_zone_survives::case_2_far::by_1_By__Signals";
    stop_interior = "stop.interior": "stop_registers",
        "an_object_whose_only_reference_points_into_it_survives::case_2_in_the_middle::by_1_By__Signals";
    stop_one_past_end = "stop.one-past-end": "stop_registers",
        "an_object_whose_only_reference_points_one_past_its_end_survives::by_1_By__Signals";
    stop_own_stack = "stop.own-stack": "stop_registers",
        "an_object_whose_only_reference_is_in_a_register_of_the_collecting_thread_survives::caller_3_call_with_r12::by_1_By__Signals";
    stop_lost = "stop.lost": "user_meets",
        "a_thread_that_masks_the_signal_is_named_and_stops_again_when_it_unmasks";
    stop_eintr = "stop.eintr": "user_meets",
        "a_read_that_stops_interrupt_goes_on::by_1_By__Signals";
    stop_errno = "stop.errno": "user_meets",
        "errno_is_what_it_was_and_a_previous_handler_is_called_for_signals_that_are_not_ours";
    stop_exit_race = "stop.exit-race": "stop_threads",
        "a_thread_that_ends_without_detaching_is_no_thread_of_the_world_any_more";
    stop_two_collectors = "stop.two-collectors": "stop_threads",
        "threads_that_collect_at_the_same_time_take_turns::by_2_By__Safepoints";
    stop_fork = "stop.fork": "user_meets",
        "the_child_of_a_fork_from_four_allocating_threads_collects::by_1_By__Signals::forking_1___attached__";
    stop_altstack = "stop.altstack": "user_meets",
        "of_a_thread_caught_on_its_alternate_stack_both_stacks_are_scanned";
    stop_jobcontrol = "stop.jobcontrol": "user_meets",
        "a_stop_of_the_whole_process_in_mid_collection_is_not_reported";
    stop_coroutine = "stop.coroutine": "user_meets",
        "a_coroutines_stack_is_an_error_until_it_is_registered_and_then_scanned::by_1_By__Signals";
    fork_services = "fork.services": "user_meets",
        "the_child_of_a_fork_marks_without_its_parents_markers";
    final_thread = "final.thread": "stop_threads",
        "the_finalizers_after_one_that_panics_still_run";
    final_order = "final.order": "stop_threads",
        "a_finalizer_sees_the_objects_it_reaches_before_they_are_dropped";
    weak_clear = "weak.clear": "stop_threads",
        "a_weak_reference_to_a_dead_object_is_cleared";
    mark_overflow = "mark.overflow": "heap_marking",
        "a_mark_stack_that_overflows_marks_everything_all_the_same::limit_1_64::markers_1_1";
    heap_limit = "heap.limit": "stop_threads",
        "the_heap_limit_is_an_error_and_the_world_runs_on";
    vtable_exact_restore = "vtable.exact-restore": "stop_vtable",
        "a_thread_that_the_debugger_froze_stays_frozen_after_a_collection_and_the_others_run";
    vtable_nested = "vtable.nested": "stop_threads",
        "a_thread_stopped_by_the_user_stays_stopped_after_a_collection::by_1_By__Signals";
    vtable_created_under_lock = "vtable.created-under-lock": "stop_vtable",
        "no_stop_begins_while_the_vtable_is_told_of_a_thread";
    vtable_exited_before_free = "vtable.exited-before-free": "stop_vtable",
        "the_vtable_hears_of_an_exit_while_the_record_is_still_the_threads";
    vtable_attach = "vtable.attach": "stop_vtable",
        "a_debugger_that_attaches_is_told_of_all_threads::by_1_By__Signals";
    debug_frozen_owner = "debug.frozen-owner": "stop_vtable",
        "a_frozen_thread_that_holds_a_lock_of_the_world_is_named";
}

/// A test that has not ended by then hangs.
const PATIENCE: Duration = Duration::from_secs(90);

/// Guards whose known-bad variants the model checker catches, in the files that it shares with the library.
const MODELLED: &[&str] = &[
    "stop.late",
    "stop.create-race",
    "stop.publish-first",
    "stop.blocking",
    "stop.stale-permit",
    "stop.interrupted",
    "sync.lost-wake",
    "sync.timed-out",
    "mark.termination",
    "mark.glance",
    "vtable.swap",
    "event.gate",
    "event.exact",
];

#[test]
fn every_guard_has_a_test_that_needs_it() {
    let guards = guards();
    assert!(guards.len() > 30, "{guards:?}");
    for (variant, tag) in &guards {
        let here = ROWS.iter().any(|(guard, ..)| guard == tag);
        assert!(here != MODELLED.contains(&tag.as_str()), "{tag} must have a row here or be modelled, not both");
        if !here {
            let models = include_str!("../loom-tests/src/sabotage.rs");
            assert!(models.split_whitespace().any(|word| word == variant), "{variant} is not known to loom-tests");
        }
    }
    for (tag, ..) in ROWS {
        assert!(guards.iter().any(|(_, guard)| guard == tag), "there is no guard {tag}");
    }
}

/// Variants and tags, from the list itself.
fn guards() -> Vec<(String, String)> {
    let source = include_str!("../src/sabotage.rs");
    let list = source.split("guards! {").nth(1).and_then(|rest| rest.split("\n}").next()).expect("a list of guards");
    let row = |line: &str| {
        let (variant, tag) = line.trim().trim_end_matches(',').split_once(" = ")?;
        Some((variant.to_owned(), tag.trim_matches('"').to_owned()))
    };
    list.lines().filter_map(row).collect()
}

/// How a run of a test ended.
#[derive(Debug, PartialEq, Eq)]
enum Ended {
    Passed,
    Failed,
    Hung,
}

fn must_fail_without(guard: &str, binary: &str, test: &str) {
    let begin = Instant::now();
    let (ended, text) = run(binary, test, None);
    assert_eq!(ended, Ended::Passed, "{test} fails with all guards in place:\n{text}");
    let (ended, text) = run(binary, test, Some(guard));
    assert_ne!(ended, Ended::Passed, "{test} passes without {guard}: it proves nothing\n{text}");
    println!("{guard}: {test} {ended:?} without it ({:.1} s)", begin.elapsed().as_secs_f64());
}

fn run(binary: &str, test: &str, without: Option<&str>) -> (Ended, String) {
    let mut command = Command::new(&binaries()[binary]);
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]);
    command.env_remove("STOPWORLD_SABOTAGE").env("RUST_BACKTRACE", "0");
    if let Some(guard) = without {
        command.env("STOPWORLD_SABOTAGE", guard);
    }
    let output = tempfile::tempfile().unwrap();
    command.stdout(output.try_clone().unwrap()).stderr(output.try_clone().unwrap()).stdin(Stdio::null());
    let mut child = command.spawn().unwrap();
    let begin = Instant::now();
    let ended = loop {
        match child.try_wait().unwrap() {
            Some(status) if status.success() => break Ended::Passed,
            Some(_) => break Ended::Failed,
            None if begin.elapsed() > PATIENCE => {
                child.kill().unwrap();
                child.wait().unwrap();
                break Ended::Hung;
            }
            None => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    let text = contents(output);
    assert!(text.contains("running 1 test"), "no test of {binary} is called {test}:\n{text}");
    (ended, text)
}

fn contents(mut file: std::fs::File) -> String {
    use std::io::{Read, Seek};
    let mut bytes = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The test binaries that the rows name, built with the same flags as this one.
fn binaries() -> &'static HashMap<&'static str, PathBuf> {
    static BINARIES: OnceLock<HashMap<&'static str, PathBuf>> = OnceLock::new();
    BINARIES.get_or_init(|| {
        let mut names: Vec<_> = ROWS.iter().map(|(_, binary, _)| *binary).collect();
        names.sort_unstable();
        names.dedup();
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["test", "--no-run", "--no-default-features", "--message-format=json", "--quiet"]);
        cargo.current_dir(env!("CARGO_MANIFEST_DIR")).stderr(Stdio::inherit());
        names.iter().for_each(|name| drop(cargo.args(["--test", name])));
        let messages = cargo.output().unwrap();
        assert!(messages.status.success(), "the tests do not build");
        let messages = String::from_utf8(messages.stdout).unwrap();
        let built = |line: &str| {
            let path = line.split_once("\"executable\":\"")?.1.split_once('"')?.0;
            let path = PathBuf::from(path);
            let stem = path.file_name()?.to_str()?.rsplit_once('-')?.0.to_owned();
            Some((*names.iter().find(|name| **name == stem)?, path))
        };
        let binaries: HashMap<_, _> = messages.lines().filter_map(built).collect();
        assert_eq!(binaries.len(), names.len(), "{binaries:?}");
        binaries
    })
}
