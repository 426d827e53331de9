//! `stopworld convert`: conversions of traces from one format to another.

use crate::command_support;
use crate::mps_stream;
use crate::nettrace_rules;
use crate::timeline_rules;
use crate::trace_data;

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use command_support::{STOPWORLD, directory, run, signal, text, wait_until};
use mps_telemetry::decode::{Form, decode};
use nettrace::{Container, NetEvent, Reader, Summary, Visitor};
use nix::sys::signal::Signal;
use rstest::rstest;
use stopworld_analysis::convert::{Conversion, ConvertError, ConvertOptions, Target, convert};

fn converted(input: &[u8], target: Target) -> Result<(Vec<u8>, Conversion), ConvertError> {
    let mut output = Vec::new();
    let conversion = convert(input, &mut output, target, &ConvertOptions::default())?;
    Ok((output, conversion))
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

fn left_out(conversion: &Conversion, what: &str) -> u64 {
    conversion.left_out.rows().iter().filter(|row| row.what == what).map(|row| row.count).sum()
}

/// The number of events of each name in a trace.
#[derive(Default)]
struct Counts {
    names: BTreeMap<String, u64>,
    for_gc: u64,
}

impl Visitor for Counts {
    fn event(&mut self, event: &NetEvent<'_>) {
        *self.names.entry(format!("{}/{}", event.kind.provider, event.kind.event)).or_default() += 1;
        let is_suspension = event.kind.provider == RUNTIME && event.kind.event == 9;
        // The reason is the first field: 1 for a collection, 6 for the preparation of one.
        self.for_gc += u64::from(is_suspension && matches!(event.payload.first(), Some(1 | 6)));
    }
}

const RUNTIME: &str = "Microsoft-Windows-DotNETRuntime";

fn counted(trace: &[u8]) -> (Counts, Summary) {
    let mut counts = Counts::default();
    let summary = Reader::new(trace).read(&mut counts);
    (counts, summary)
}

impl Counts {
    fn of(&self, event: u32) -> u64 {
        self.names.get(&format!("{RUNTIME}/{event}")).copied().unwrap_or(0)
    }
}

/// The lines of a stream as its tools print them, in order.
fn lines(stream: &[u8]) -> Vec<String> {
    let mut output = Vec::new();
    let _ = decode(stream, &mut output, Form::Hex, None, &mut |_| {});
    String::from_utf8_lossy(&output).lines().map(str::to_owned).collect()
}

/// The number of records in a stream. (Not the number of lines: a text may contain newlines.)
fn records(stream: &[u8]) -> u64 {
    let mut reader = mps_telemetry::reader::Reader::new(stream);
    let mut count = 0;
    loop {
        match reader.buffered().map(|record| record.is_some()) {
            Ok(true) => count += 1,
            Ok(false) if reader.fill().unwrap() => {}
            _ => return count,
        }
    }
}

// ---- All traces of the fixtures ----------------------------------------------------------------------------------------

#[test]
fn every_trace_of_dotnet_becomes_a_timeline_that_obeys_the_rules() {
    for path in trace_data::nettraces() {
        let trace = fs::read(&path).unwrap();
        let (counts, summary) = counted(&trace);
        let (json, conversion) = converted(&trace, Target::Json).unwrap();
        let timeline = timeline_rules::check(&json);
        assert_eq!((conversion.carried, conversion.damage.is_some()), (summary.events, summary.damage.is_some()));
        assert_eq!(timeline.named("collection").len() as u64, counts.for_gc, "{}", name(&path));
        assert_eq!(timeline.counters.get("heap").map_or(0, Vec::len) as u64, counts.of(4), "{}", name(&path));
        // Each event becomes an instant, or the beginning or the end of a slice.
        let suspensions = counts.of(9);
        let at_most = timeline.rows.len() as u64;
        assert!(at_most >= summary.events, "{} rows for {} events", at_most, summary.events);
        assert!(timeline.slices.len() as u64 >= suspensions);
    }
}

#[test]
fn every_trace_of_dotnet_becomes_a_stream_and_what_does_not_is_listed() {
    for path in trace_data::nettraces() {
        let trace = fs::read(&path).unwrap();
        let (counts, summary) = counted(&trace);
        let (stream, conversion) = converted(&trace, Target::Mps).unwrap();
        let listed: u64 = conversion.left_out.rows().iter().map(|row| row.count).sum();
        assert_eq!(conversion.carried + listed, summary.events, "{}\n{}", name(&path), conversion.left_out);
        let entries = mps_stream::parse(&stream);
        assert!(entries.is_sorted_by_key(|entry| entry.clock), "{}", name(&path));
        let count = |wanted: &str| entries.iter().filter(|entry| entry.name == wanted).count() as u64;
        assert_eq!(count("ArenaPollBegin"), counts.for_gc, "{}", name(&path));
        assert_eq!(count("TraceCreate"), counts.of(1), "{}", name(&path));
        assert_eq!(count("VMMap"), counts.of(5), "{}", name(&path));
    }
}

#[test]
fn every_rewritten_stream_reads_the_same_in_its_tools() {
    for path in trace_data::streams() {
        let original = fs::read(&path).unwrap();
        let Ok((anew, conversion)) = converted(&original, Target::Mps) else {
            assert!(lines(&original).is_empty() || original.len() < 16 || original[0] == b'T', "{}", name(&path));
            continue;
        };
        if !path.components().any(|part| part.as_os_str() == "v1") {
            assert_eq!(lines(&original), lines(&anew), "{}", name(&path));
            assert_eq!(conversion.carried, records(&original), "{}", name(&path));
        }
        // A second conversion changes nothing.
        assert!(converted(&anew, Target::Mps).unwrap().0 == anew, "{}", name(&path));
    }
}

/// If a stream is converted to a .nettrace file and back, every record is the same again, except those of unknown kinds.
#[rstest]
fn every_stream_survives_a_conversion_to_a_trace_and_back(
    #[values(Container::V4, Container::V6)] container: Container,
) {
    for path in trace_data::streams() {
        let original = fs::read(&path).unwrap();
        let Ok((trace, conversion)) = converted(&original, Target::Nettrace(container)) else { continue };
        let (counts, summary) = counted(&trace);
        assert_eq!((summary.damage, summary.lost, summary.ended_orderly), (None, 0, true));
        // Clocks of more than 63 bits are read as times before all others.
        let is_odd = lines(&original).iter().any(|line| line.as_bytes()[0] >= b'8');
        assert!(summary.late == 0 || is_odd, "{}: {}", name(&path), summary.late);
        let records: u64 =
            counts.names.iter().filter(|(name, _)| name.starts_with("MPS-Telemetry/")).map(|(_, count)| count).sum();
        assert_eq!(conversion.carried, records, "{}", name(&path));
        if path.components().any(|part| part.as_os_str() == "v1") {
            continue;
        }
        let unknown: u64 = conversion.left_out.rows().iter().filter(|row| row.what != STRAY).map(|row| row.count).sum();
        let anew = converted(&original, Target::Mps).unwrap().0;
        let mut expected = lines(&anew);
        assert_eq!(records + unknown, self::records(&anew), "{}\n{}", name(&path), conversion.left_out);
        let (back, _) = converted(&trace, Target::Mps).unwrap();
        let mut came_back = lines(&back);
        expected.sort();
        came_back.sort();
        if unknown == 0 {
            assert_eq!(came_back, expected, "{}", name(&path));
        } else {
            assert!(came_back.iter().all(|line| expected.binary_search(line).is_ok()), "{}", name(&path));
            assert_eq!(self::records(&back), records, "{}", name(&path));
        }
    }
}

const STRAY: &str = "stray bytes at the end";

#[test]
fn every_stream_becomes_a_timeline_that_obeys_the_rules() {
    for path in trace_data::streams() {
        let original = fs::read(&path).unwrap();
        let Ok((json, conversion)) = converted(&original, Target::Json) else { continue };
        let timeline = timeline_rules::check(&json);
        if !path.components().any(|part| part.as_os_str() == "v1") {
            assert_eq!(conversion.carried, records(&original), "{}", name(&path));
        }
        assert!(timeline.rows.len() as u64 >= conversion.carried / 2, "{}", name(&path));
        if name(&path) == "model-marksweep.bin" {
            assert!(!timeline.named("poll").is_empty(), "{:?}", timeline.slices);
            assert!(timeline.slices.iter().any(|slice| slice.name.starts_with("trace: ")), "{:?}", timeline.slices);
            assert!(!timeline.named("flip").is_empty() && !timeline.named("reclaim").is_empty());
        }
    }
}

/// GHC's own logs from the repository's data: whole or cut, threads and collections become slices.
#[test]
fn every_eventlog_becomes_a_timeline_that_obeys_the_rules() {
    let mut all = trace_data::files(&trace_data::fixtures("eventlog"), "eventlog");
    all.extend(
        trace_data::outside_activity("data/eventlog")
            .into_iter()
            .flat_map(|folder| trace_data::files(&folder, "eventlog")),
    );
    for path in &all {
        let log = fs::read(path).unwrap();
        let (json, conversion) = match converted(&log, Target::Json) {
            Ok(converted) => converted,
            Err(ConvertError::Unreadable(_) | ConvertError::Empty) => continue,
            Err(error) => panic!("{}: {error}", path.display()),
        };
        let timeline = timeline_rules::check(&json);
        let mut told = Events::default();
        let summary = ghc_eventlog::read::by_time(&log[..], &mut told);
        assert_eq!(conversion.damage.is_some(), summary.damage.is_some(), "{}", name(path));
        assert_eq!(conversion.carried, told.events, "{}", name(path));
        assert_eq!(timeline.named("gc").len() as u64, told.collections, "{}", name(path));
        assert!(matches!(converted(&log, Target::Mps), Err(ConvertError::Eventlog)));
    }
    assert!(all.len() > 3);
}

/// The number of events in a log, and of collections that begin in it.
#[derive(Default)]
struct Events {
    events: u64,
    collections: u64,
}

impl ghc_eventlog::read::Visitor for Events {
    fn event(&mut self, event: &ghc_eventlog::read::Event<'_>) {
        self.events += 1;
        self.collections += u64::from(event.kind.id == 9);
    }
}

/// Events with the same name have different codes in versions 1.0.0 and 2.0.0.
#[test]
fn a_stream_of_2012_becomes_one_of_today_by_the_names_of_its_events() {
    let original = fs::read(trace_data::fixtures("mps/v1").join("sampler.bin")).unwrap();
    let (anew, conversion) = converted(&original, Target::Mps).unwrap();
    let entries = mps_stream::parse(&anew);
    assert_eq!(entries[0].name, "EventInit");
    let listed: u64 = conversion
        .left_out
        .rows()
        .iter()
        .filter(|row| row.why == "version 2.0.0 has no such event")
        .map(|row| row.count)
        .sum();
    assert_eq!(entries.len() as u64 - 1, conversion.carried);
    assert!(conversion.carried > 100 && listed < conversion.carried, "{}", conversion.left_out);
    let texts =
        |name: &str| entries.iter().filter(|entry| entry.name == name).filter_map(|entry| entry.text.clone()).count();
    assert!(texts("Intern") > 0, "strings stay strings");
}

// ---- stopworld's own traces --------------------------------------------------------------------------------------------

/// A run's trace with all events of the stopworld provider is converted to a stream that passes the checks for streams that stopworld
/// writes.
#[test]
fn our_own_trace_becomes_a_stream_that_its_strictest_reader_takes() {
    let directory = directory();
    let providers = "Microsoft-Windows-DotNETRuntime:0x1:4,Microsoft-Windows-DotNETRuntimePrivate:1:4,stopworld::5";
    let arguments = format!("run churn --collections 3 --threads 2 --trace t.nettrace --providers {providers}");
    assert_eq!(run(directory.path(), &arguments).status.code(), Some(0));
    let trace = fs::read(directory.path().join("t.nettrace")).unwrap();
    let (stream, conversion) = converted(&trace, Target::Mps).unwrap();
    let told = mps_stream::check(&stream, u64::MAX);
    assert_eq!((told.count("TraceCreate"), told.count("TraceDestroy")), (3, 3), "{}", conversion.left_out);
    assert_eq!((told.count("ArenaPollBegin"), told.count("ArenaPollEnd")), (3, 3));
    assert!(told.count("PoolAlloc") > 1_000 && told.count("SegAlloc") > 0, "{:?}", told.counts);
    assert!(told.names.contains("main"), "{:?}", told.names);
    assert_eq!(left_out(&conversion, "stopworld/ObjectAllocated"), 0);
    // In either container, the converted trace obeys the rules for traces that stopworld writes.
    for container in [Container::V4, Container::V6] {
        let (anew, conversion) = converted(&trace, Target::Nettrace(container)).unwrap();
        assert!(conversion.left_out.is_empty());
        assert_eq!(nettrace_rules::check(&nettrace_rules::Trace::parse(&anew)).len(), 3);
    }
    let timeline = timeline_rules::check(&converted(&trace, Target::Json).unwrap().0);
    assert_eq!(
        (timeline.named("collection").len(), timeline.named("roots").len(), timeline.named("sweep").len()),
        (3, 3, 3)
    );
    assert!(timeline.threads.values().any(|name| name == "main"));
}

/// The .NET tools find the collections of a converted stream, with the stream's clock rate.
#[test]
fn our_own_stream_becomes_a_trace_in_which_the_collections_are_seen() {
    let directory = directory();
    assert_eq!(run(directory.path(), "run churn --collections 3 --trace t.mps").status.code(), Some(0));
    let output = run(directory.path(), "convert t.mps t.nettrace");
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
    let csv = text(&run(directory.path(), "gcstats t.nettrace --csv").stdout);
    assert_eq!(csv.lines().count(), 1 + 3, "{csv}");
    // PerfView computes a negative length for a suspension without an end.
    let like_perfview = text(&run(directory.path(), "gcstats t.nettrace --csv --like-perfview").stdout);
    for line in like_perfview.lines().skip(1) {
        let suspended: f64 = line.rsplit(',').next().unwrap().parse().unwrap();
        let paused: f64 = line.split(',').nth(4).unwrap().parse().unwrap();
        assert!((0.0..=paused).contains(&suspended), "{line}");
    }
    let mut counts = Counts::default();
    Reader::new(fs::File::open(directory.path().join("t.nettrace")).unwrap()).read(&mut counts);
    let count = |number| counts.names.get(&format!("{RUNTIME}/{number}")).copied();
    assert_eq!([9, 8, 3].map(count), [Some(3); 3], "suspensions, their ends, restarts");
    let output = run(directory.path(), "convert t.mps t.json");
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
    let timeline = timeline_rules::check(&fs::read(directory.path().join("t.json")).unwrap());
    assert_eq!((timeline.named("poll").len(), timeline.named("trace: full").len()), (3, 3), "{:?}", timeline.slices);
    for poll in timeline.named("poll") {
        assert!(poll.until - poll.from < 60_000_000.0, "a poll of a minute: {poll:?}");
    }
}

// ---- Damage ----------------------------------------------------------------------------------------------------------

/// `.format.hostile`: if a trace is cut or changed at any place, everything readable is converted to any format, or an error gives the
/// reason why nothing is.
#[rstest]
#[case("nettrace/tiny.nettrace")]
#[case("nettrace/handmade-v6-3gcs.nettrace")]
#[case("mps/synth-doubles.bin")]
fn the_conversion_of_a_damaged_trace_ends_in_order(#[case] file: &str) {
    let whole = fs::read(trace_data::fixtures(file)).unwrap();
    let targets = [Target::Mps, Target::Nettrace(Container::V4), Target::Nettrace(Container::V6), Target::Json];
    let step = (whole.len() / 400).max(1);
    for at in (0..whole.len()).step_by(step) {
        let mut changed = whole.clone();
        changed[at] ^= 0x81;
        for input in [&whole[..at], &changed[..]] {
            for target in targets {
                let Ok((output, _)) = converted(input, target) else { continue };
                match target {
                    Target::Json => drop(timeline_rules::check(&output)),
                    Target::Nettrace(_) => {
                        let summary = counted(&output).1;
                        // Damage to a file's types, threads or labels is carried over.
                        assert!(summary.ended_orderly, "byte {at}: {:?}", summary.damage);
                    }
                    Target::Mps => drop(lines(&output)),
                }
            }
        }
    }
}

// ---- The command -----------------------------------------------------------------------------------------------------

fn fixture(name: &str) -> String {
    trace_data::fixtures(name).display().to_string()
}

fn convert_with(directory: &Path, arguments: &[&str]) -> Output {
    Command::new(STOPWORLD).arg("convert").args(arguments).current_dir(directory).stdin(Stdio::null()).output().unwrap()
}

#[rstest]
#[case(&["out.nettrace"], b"Nettrace\x14")]
#[case(&["out.x", "--format", "nettrace6"], b"Nettrace\0\0\0\0\x06")]
#[case(&["out.json"], b"[\n{\"ph\":")]
#[case(&["out.mps"], b"\x1D\0\x30\0")]
#[case(&["-", "--format", "json"], b"[\n{\"ph\":")]
fn the_format_follows_from_the_outputs_name_or_is_asked_for(#[case] output: &[&str], #[case] begins: &[u8]) {
    let directory = directory();
    let input = fixture("nettrace/handmade-v4-3gcs.nettrace");
    let ran = convert_with(directory.path(), &[&[input.as_str()], output].concat());
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    let written = if output[0] == "-" { ran.stdout } else { fs::read(directory.path().join(output[0])).unwrap() };
    assert!(written.starts_with(begins), "{:?}", &written[..16]);
    let left: Vec<PathBuf> = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(left.len() <= 1, "{left:?}");
}

#[test]
fn its_help_has_the_formats_that_it_writes() {
    let help = text(&run(directory().path(), "convert --help").stdout);
    let listed = help.lines().filter_map(|line| line.trim().strip_prefix("- ")?.split_once(':'));
    let formats = ["mps", "nettrace", "nettrace6", "json", "parquet", "sqlite"];
    assert_eq!(listed.map(|(name, _)| name).collect::<Vec<_>>(), formats, "{help}");
}

/// The format of the input does not depend on the file's name.
#[test]
fn the_input_is_known_by_its_content() {
    let directory = directory();
    fs::copy(fixture("nettrace/tiny.nettrace"), directory.path().join("trace.mps")).unwrap();
    fs::copy(fixture("mps/synth-ok2.bin"), directory.path().join("stream.nettrace")).unwrap();
    for (input, output) in [("trace.mps", "a.nettrace"), ("stream.nettrace", "b.mps")] {
        assert_eq!(convert_with(directory.path(), &[input, output]).status.code(), Some(0));
    }
    assert!(fs::read(directory.path().join("a.nettrace")).unwrap().starts_with(b"Nettrace"));
    // The same conversion from standard input to standard output.
    let file = fs::File::open(fixture("nettrace/tiny.nettrace")).unwrap();
    let ran = Command::new(STOPWORLD).args(["convert", "-", "-", "--format", "nettrace"]).stdin(file).output().unwrap();
    assert!(ran.status.success() && ran.stdout.starts_with(b"Nettrace"));
}

#[test]
fn what_is_left_out_is_a_table_on_standard_error() {
    let directory = directory();
    let input = fixture("nettrace/gcapp-3.1-gc-info.nettrace");
    let ran = convert_with(directory.path(), &[&input, "out.mps"]);
    let said = text(&ran.stderr);
    assert_eq!(ran.status.code(), Some(0));
    let mut rows = said.lines();
    assert!(rows.next().unwrap().ends_with("204 events are in out.mps; left out or changed:"), "{said}");
    for row in rows {
        assert!(row.starts_with("  ") && row.trim_start().split(' ').next().unwrap().parse::<u64>().is_ok(), "{row}");
    }
    assert!(said.contains("GC/Triggered") && said.contains("the Memory Pool System has no record for it"), "{said}");
}

#[rstest]
#[case(&["IN", "out"], 2, "end it in .mps, .nettrace or .json, or add --format")]
#[case(&["IN", "-"], 2, "add --format")]
#[case(&["IN", "out.mps", "--format", "csv"], 2, "possible values")]
#[case(&["IN", "out.mps", "--format", "eventlog"], 2, "[possible values: mps, nettrace, nettrace6, json, parquet, sqlite]")]
#[case(&["IN", "out.hp"], 2, "out.hp: convert does not write eventlogs and GHC profiles")]
#[case(&["IN", "out.mps", "--ticks-per-second", "0"], 2, "'--ticks-per-second <HZ>'")]
#[case(&["IN"], 2, "`stopworld convert IN OUT` needs both")]
#[case(&["/does/not/exist", "out.mps"], 1, "can't open /does/not/exist")]
#[case(&["Cargo.toml", "out.mps"], 1, "unknown format: the file begins with \"[package\"")]
#[case(&["empty", "out.mps"], 1, "the file is empty")]
#[case(&["timeline.json", "out.mps"], 1, "JSON timelines cannot be read back")]
#[case(&["hdrb", "out.mps"], 1, "can only be converted to a timeline")]
#[case(&["hdrb", "out.json"], 1, "at byte 4: ")]
#[case(&["cut", "out.mps"], 1, "at byte 8: the file ends here")]
#[case(&["IN", "no/such/out.mps"], 1, "its directory must exist")]
#[case(&["IN", "directory.json"], 1, "is a directory")]
#[case(&[".", "out.mps"], 2, ".: a folder is only converted to a Parquet dataset, not to out.mps: name the output DIR.parquet")]
#[case(&["IN", "out.parquet", "--jobs", "0"], 2, "the number of jobs must be a whole number from 1 to 65535")]
#[case(&["IN", "-", "--format", "parquet"], 2, "a Parquet dataset is a folder, which can't be written to standard output")]
#[case(&["IN", "empty", "--format", "parquet"], 1, "Not a directory (os error 20); its path has a file where a directory must be")]
#[case(&["heap.hprof", "out.mps"], 1, "this is a heap snapshot, not a trace: `stopworld heap FILE` prints it")]
#[case(&["heap.heapsnapshot", "out.mps"], 1, "this is a heap snapshot, not a trace: `stopworld heap FILE` prints it")]
fn what_cannot_be_converted_is_one_line_and_the_old_file_stays(
    #[case] arguments: &[&str],
    #[case] code: i32,
    #[case] told: &str,
) {
    let directory = directory();
    let put = |name: &str, bytes: &[u8]| fs::write(directory.path().join(name), bytes).unwrap();
    put("empty", b"");
    put("Cargo.toml", b"[package]\nname");
    put("timeline.json", b"[\n{\"ph\":\"M\"}\n]\n");
    put("heap.hprof", b"JAVA PROFILE 1.0.2\0");
    put("heap.heapsnapshot", b"{\"snapshot\":{}}");
    put("hdrb", b"hdrb\0\0\0\0");
    put("cut", b"Nettrace");
    put("out.mps", b"what was there");
    fs::create_dir(directory.path().join("directory.json")).unwrap();
    let input = fixture("nettrace/tiny.nettrace");
    let arguments: Vec<&str> =
        arguments.iter().map(|argument| if *argument == "IN" { input.as_str() } else { argument }).collect();
    let files = fs::read_dir(directory.path()).unwrap().count();
    let ran = convert_with(directory.path(), &arguments);
    let said = text(&ran.stderr);
    assert_eq!((ran.status.code(), said.lines().count()), (Some(code), 1), "{said}");
    assert!(said.contains(told) && !said.contains(".stopworld-"), "{said}");
    assert_eq!(fs::read(directory.path().join("out.mps")).unwrap(), b"what was there");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), files, "no other file remains");
}

#[test]
fn a_damaged_trace_is_converted_as_far_as_it_goes_and_ends_with_1() {
    let directory = directory();
    let whole = fs::read(fixture("nettrace/tiny.nettrace")).unwrap();
    fs::write(directory.path().join("cut"), &whole[..0x150]).unwrap();
    let ran = convert_with(directory.path(), &["cut", "out.nettrace"]);
    assert_eq!(
        (ran.status.code(), text(&ran.stderr).as_str()),
        (
            Some(1),
            "convert: cut: at byte 336: the file ends here, inside a block of events that begins at byte 255: 4 bytes more \
             were expected; everything that could be read is converted\n"
        )
    );
    let (counts, summary) = counted(&fs::read(directory.path().join("out.nettrace")).unwrap());
    assert_eq!((counts.of(2), summary.damage), (1, None));
}

/// `.event.full-disk`: the old file is unchanged.
#[test]
fn an_output_without_room_leaves_the_old_file() {
    let directory = directory();
    fs::write(directory.path().join("out.json"), "what was there").unwrap();
    let input = fixture("nettrace/gcapp-3.1-collect-default.nettrace");
    let line = format!("ulimit -f 20; exec {STOPWORLD} convert {input} out.json");
    let ran = Command::new("sh").args(["-c", &line]).current_dir(directory.path()).output().unwrap();
    let said = text(&ran.stderr);
    assert_eq!((ran.status.code(), said.lines().count()), (Some(1), 1), "{said}");
    assert!(
        said.contains(
            "out.json: File too large (os error 27); the existing file is unchanged; raise the limit of a file's size (ulimit -f), or name another file"
        ),
        "{said}"
    );
    assert_eq!(fs::read(directory.path().join("out.json")).unwrap(), b"what was there");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    let ran = convert_with(directory.path(), &[&input, "/dev/full", "--format", "json"]);
    assert_eq!(ran.status.code(), Some(1));
    let said = text(&ran.stderr);
    assert!(
        said.contains("/dev/full: No space left on device (os error 28); make room, or name another file"),
        "{said}"
    );
}

/// The file keeps its permissions, a symbolic link remains a symbolic link, and a trace may be converted in place.
#[test]
fn the_output_takes_the_place_of_what_it_replaces() {
    let directory = directory();
    let (file, link) = (directory.path().join("real.nettrace"), directory.path().join("link.nettrace"));
    fs::copy(fixture("nettrace/handmade-v6-3gcs.nettrace"), &file).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    std::os::unix::fs::symlink("real.nettrace", &link).unwrap();
    let ran = convert_with(directory.path(), &["link.nettrace", "link.nettrace"]);
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
    assert!(fs::read(&file).unwrap().starts_with(b"Nettrace\x14"));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
}

/// Another format has no place for all that is in a trace.
#[rstest]
#[case(&["a.nettrace", "a.nettrace", "--format", "json"], Some(2))]
#[case(&["a.nettrace", "--output", "./a.nettrace", "--format", "mps"], Some(2))]
#[case(&["a.nettrace", "link.json"], Some(2))]
#[case(&["a.nettrace", "a.nettrace", "--format", "nettrace6"], Some(0))]
#[case::no_extension(&["trace", "trace", "--format", "nettrace6"], Some(0))]
#[case::no_extension_to_another(&["trace", "trace", "--format", "json"], Some(2))]
fn a_trace_is_not_replaced_by_its_conversion_to_another_format(#[case] arguments: &[&str], #[case] code: Option<i32>) {
    let directory = directory();
    let file = directory.path().join("a.nettrace");
    fs::copy(fixture("nettrace/handmade-v6-3gcs.nettrace"), &file).unwrap();
    fs::copy(&file, directory.path().join("trace")).unwrap();
    std::os::unix::fs::symlink("a.nettrace", directory.path().join("link.json")).unwrap();
    let ran = convert_with(directory.path(), arguments);
    let said = text(&ran.stderr);
    assert_eq!(ran.status.code(), code, "{said}");
    assert_eq!(said.contains("it is the trace itself"), code == Some(2), "{said}");
    assert!(fs::read(&file).unwrap().starts_with(b"Nettrace"));
}

/// A symbolic link to a file that does not exist yet remains a link, and the file is created.
#[test]
fn the_output_of_a_symbolic_link_is_created_where_the_link_leads() {
    let directory = directory();
    let (folder, link) = (directory.path().join("results"), directory.path().join("out.nettrace"));
    fs::create_dir(&folder).unwrap();
    std::os::unix::fs::symlink("results/new.nettrace", &link).unwrap();
    let input = fixture("nettrace/handmade-v6-3gcs.nettrace");
    let ran = convert_with(directory.path(), &[&input, "out.nettrace"]);
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink(), "the link was replaced");
    assert!(fs::read(folder.join("new.nettrace")).unwrap().starts_with(b"Nettrace\x14"));
}

/// A conversion ended by a signal leaves the old file and no temporary file.
#[rstest]
#[case(Signal::SIGINT, 130)]
#[case(Signal::SIGTERM, 143)]
fn a_conversion_that_is_ended_leaves_no_file(#[case] asked: Signal, #[case] code: i32) {
    let directory = directory();
    fs::write(directory.path().join("out.json"), "what was there").unwrap();
    let mut child = Command::new(STOPWORLD)
        .args(["convert", "-", "out.json"])
        .current_dir(directory.path())
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The conversion waits for more input.
    let mut input = child.stdin.take().unwrap();
    input.write_all(&fs::read(fixture("nettrace/tiny.nettrace")).unwrap()[..300]).unwrap();
    let files = || fs::read_dir(directory.path()).unwrap().count();
    wait_until("the temporary file exists", || files() == 2);
    signal(&child, asked);
    let ended = child.wait().unwrap();
    drop(input);
    assert_eq!((ended.code(), files()), (Some(code), 1));
    assert_eq!(fs::read(directory.path().join("out.json")).unwrap(), b"what was there");
}

#[test]
fn a_closed_pipe_is_no_error() {
    let mut child = Command::new(STOPWORLD)
        .args(["convert", &fixture("nettrace/gcapp-3.1-collect-default.nettrace"), "-", "--format", "json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut head = [0; 10];
    child.stdout.take().unwrap().read_exact(&mut head).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(141), ""));
}
