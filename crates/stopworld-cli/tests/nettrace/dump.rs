//! `stopworld dump` compared with what PerfView's library lists of real traces.

use crate::nettrace_support;
use crate::trace_data;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use assert_cmd::cargo::cargo_bin;
use nettrace_support::{Block, Event, Form, Type, Writer};
use rstest::rstest;
use serde_json::Value;
use trace_data::third_party;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/nettrace").join(name)
}

struct Ran {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

fn dump(file: &Path, arguments: &[&str]) -> Ran {
    let output = Command::new(cargo_bin("stopworld")).arg("dump").arg(file).args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// A line of PerfView's list: the number of events of a name, and the first of them.
struct Listed {
    provider: String,
    event: String,
    count: u64,
    attributes: Attributes,
    /// The repeated elements: generations, ranges.
    rows: Vec<Attributes>,
}

type Attributes = Vec<(String, String)>;

/// `provider/event, count, <Event name="value" … </Event>`.
fn listed(line: &str) -> Listed {
    let mut cells = line.trim_start_matches('\u{feff}').splitn(3, ", ");
    let (provider, event) = cells.next().unwrap().split_once('/').unwrap();
    let count = cells.next().unwrap().parse().unwrap();
    let mut elements = cells.next().unwrap().split('<').filter(|element| element.contains('='));
    let attributes = attributes(elements.next().unwrap());
    let rows = elements.map(self::attributes).collect();
    Listed { provider: provider.to_owned(), event: event.to_owned(), count, attributes, rows }
}

/// `Event name="value" name="value"/>…`.
fn attributes(element: &str) -> Attributes {
    let end = element.find('>').unwrap_or(element.len());
    let mut rest = &element[..end];
    let mut attributes = Vec::new();
    while let Some(equals) = rest.find('=') {
        let name = rest[..equals].trim().rsplit(' ').next().unwrap().to_owned();
        let opened = &rest[equals..][rest[equals..].find('"').unwrap() + 1..];
        let closed = opened.find('"').unwrap_or(opened.len());
        let value = opened[..closed].trim().replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"");
        attributes.push((name, value.replace("&apos;", "'").replace("&amp;", "&")));
        rest = opened.get(closed + 1..).unwrap_or_default();
    }
    attributes
}

/// The numbers of the runtime's events whose names PerfView takes from elsewhere.
fn as_listed(event: &str) -> &str {
    match event {
        "GC/IncreaseMemoryPressure" | "GC/DecreaseMemoryPressure" => "GC",
        other => other,
    }
}

/// The events that PerfView's list omits because the library consumes them.
const LEFT_OUT: [&str; 3] = ["Method/ILToNativeMap", "Method/ILToNativeMapDCStop", "Method/DCStopVerbose"];

/// Whether PerfView's text is this value.
fn is_same(theirs: &str, ours: &Value) -> bool {
    let number = || {
        let digits = theirs.replace(',', "");
        match digits.strip_prefix("0x") {
            Some(hex) => i128::from_str_radix(hex, 16).ok(),
            None => digits.parse().ok(),
        }
    };
    match ours {
        // The one enumeration that PerfView shows as a number only.
        Value::String(text) if text == "MarkStack" => theirs == "0",
        Value::String(text) => text.trim() == theirs,
        Value::Array(_) => serde_json::from_str(theirs).is_ok_and(|theirs: Value| theirs == *ours),
        Value::Bool(value) => theirs.eq_ignore_ascii_case(&value.to_string()),
        // The highest bit is set if there is a reason; the other bits are the number of the reason, here the second.
        Value::Number(ours) if theirs == "compact_high_frag" => ours.as_u64() == Some(1 << 31 | 1 << 1),
        Value::Number(ours) if theirs == "not_specified" => ours.as_u64() == Some(0),
        Value::Number(ours) => match (ours.as_i64(), ours.as_u64()) {
            (Some(ours), _) => number() == Some(i128::from(ours)) || number() == Some(i128::from(ours as u32)),
            (_, Some(ours)) => number() == Some(i128::from(ours)),
            _ => theirs.parse::<f64>().is_ok_and(|theirs| {
                let ours = ours.as_f64().unwrap();
                (theirs - ours).abs() <= ours.abs() * 1e-12
            }),
        },
        _ => false,
    }
}

#[rstest]
#[case("eventpipe-dotnetcore3.0-win-x64-objver4", 18)]
#[case("eventpipe-dotnetcore5.0-win-x64-arraytypes", 0)]
#[case("eventpipe-dotnetcore6.0-win-x64-executioncheckpoints", 0)]
fn counts_and_payloads_are_those_that_perfview_lists(#[case] name: &str, #[case] gc_events: usize) {
    let Some(folder) = third_party("nettrace") else { return };
    let trace = folder.join(format!("{name}.nettrace"));
    let baseline = std::fs::read_to_string(folder.join(format!("{name}.nettrace.baseline.txt"))).unwrap();
    let baseline: Vec<Listed> = baseline.lines().filter(|line| !line.trim().is_empty()).map(listed).collect();

    let mut counts = BTreeMap::new();
    let ran = dump(&trace, &["--counts", "--json"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    for line in ran.stdout.lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        let text = |name: &str| row[name].as_str().unwrap().to_owned();
        let event = as_listed(&text("event")).to_owned();
        if !LEFT_OUT.contains(&event.as_str()) {
            *counts.entry((text("provider"), event)).or_insert(0) += row["count"].as_u64().unwrap();
        }
    }
    let expected: BTreeMap<_, _> =
        baseline.iter().map(|row| ((row.provider.clone(), row.event.clone()), row.count)).collect();
    assert_eq!(counts, expected);

    let ran = dump(&trace, &["--json"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    let mut firsts: BTreeMap<(String, String), Value> = BTreeMap::new();
    for line in ran.stdout.lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        let key =
            (event["provider"].as_str().unwrap().to_owned(), as_listed(event["event"].as_str().unwrap()).to_owned());
        firsts.entry(key).or_insert(event);
    }
    let (mut compared, mut gc_compared) = (0, 0);
    for Listed { provider, event, attributes, rows, .. } in &baseline {
        let ours = &firsts[&(provider.clone(), event.clone())];
        if let Some(our_rows) = ours["rows"].as_array() {
            // PerfView's lines have a maximum length, which cuts the last row.
            let whole = if rows.len() < our_rows.len() { rows.len() - 1 } else { our_rows.len() };
            for (ours, theirs) in our_rows.iter().zip(&rows[..whole]) {
                let mut seen = 0;
                for (name, theirs) in theirs {
                    let Some(value) = ours.get(name) else { continue };
                    assert!(is_same(theirs, value), "{event}, {name}: {theirs} but {value}");
                    seen += 1;
                }
                assert!(seen >= 3, "{event}: {ours} but {theirs:?}");
                compared += seen;
            }
        }
        let fields = ours["fields"].as_object().unwrap();
        let mut seen = 0;
        for (name, theirs) in attributes {
            match name.as_str() {
                "MSec" => assert_eq!(format!("{:.4}", ours["ms"].as_f64().unwrap()), *theirs, "{event}"),
                "PID" => assert_eq!(ours["process"].to_string(), *theirs, "{event}"),
                "TID" => assert_eq!(ours["thread"].to_string(), *theirs, "{event}"),
                _ => {
                    let Some(value) = fields.get(name) else { continue };
                    // For events that are not the collector's, PerfView prints names for some values that stopworld prints as numbers.
                    let is_name = !event.starts_with("GC/")
                        && value.is_number()
                        && !theirs.starts_with(|c: char| c.is_ascii_digit());
                    assert!(is_name || is_same(theirs, value), "{event}.{name}: {theirs} but {value}");
                    seen += 1;
                }
            }
        }
        compared += seen;
        if event.starts_with("GC/") {
            // All our fields are in PerfView's list too, or (where it shows nothing) in a table or an addition of ours.
            assert!(seen >= fields.len().min(1), "{event}: {fields:?} but {attributes:?}");
            assert!(!fields.is_empty() && ours.get("bytes").is_none(), "{event}: {ours}");
            gc_compared += 1;
        }
    }
    println!("{name}: {} names, {compared} values compared, {gc_compared} events of the collector", baseline.len());
    assert_eq!(gc_compared, gc_events);
}

const LINES: &str = concat!(
    "       0.0010  Microsoft-Windows-DotNETRuntime/GC/Stop  thread=77 Count=1 Depth=0 ClrInstanceID=0\n",
    "       0.0013  Microsoft-Windows-DotNETRuntime/GC/Stop  thread=77 Count=2 Depth=1 ClrInstanceID=0\n",
);

#[rstest]
#[case::all(&[], LINES)]
#[case::of_its_provider(&["--provider", "microsoft-windows-dotnetruntime"], LINES)]
#[case::by_name(&["--event", "gc/stop"], LINES)]
#[case::by_provider_and_name(&["--event", "microsoft-windows-dotnetruntime/GC/Stop"], LINES)]
#[case::by_number(&["--event", "2"], LINES)]
#[case::from(&["--from", "0.0012"], &LINES[LINES.len() / 2..])]
#[case::to(&["--to", "0.0012"], &LINES[..LINES.len() / 2])]
#[case::counts(&["--counts"], "         2  Microsoft-Windows-DotNETRuntime/GC/Stop\n")]
#[case::counts_in_time(&["--counts", "--to", "0.0012"], "         1  Microsoft-Windows-DotNETRuntime/GC/Stop\n")]
#[case::counts_as_json(
    &["--counts", "--json"],
    "{\"provider\":\"Microsoft-Windows-DotNETRuntime\",\"event\":\"GC/Stop\",\"count\":2}\n"
)]
#[case::as_json(
    &["--json", "--from", "0.0012"],
    "{\"ms\":0.0013,\"provider\":\"Microsoft-Windows-DotNETRuntime\",\"event\":\"GC/Stop\",\"id\":2,\"version\":1,\
     \"process\":7,\"thread\":77,\"processor\":1,\"fields\":{\"Count\":2,\"Depth\":1,\"ClrInstanceID\":0}}\n"
)]
fn events_are_listed_as_requested(#[case] arguments: &[&str], #[case] expected: &str) {
    let ran = dump(&fixture("tiny.nettrace"), arguments);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str(), ran.code), (expected, "", Some(0)));
}

/// The .NET events that a run of ours fires have the same event and field names as those of a real runtime, whatever names the file gives
/// them.
#[test]
fn our_events_of_dotnet_are_listed_as_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("own.nettrace");
    let providers = "Microsoft-Windows-DotNETRuntime:0x180003:4,Microsoft-Windows-DotNETRuntimePrivate:1:4";
    let mut run = Command::new(cargo_bin("stopworld"));
    run.args(["run", "churn", "--collections", "2", "--providers", providers, "--trace"]).arg(&file);
    assert!(run.output().unwrap().status.success());

    let counts = dump(&file, &["--counts"]).stdout;
    // A heap dump also has DumpStack events, and collections have the names of threads: both of the provider `stopworld`.
    let own = ["  stopworld/DumpStack", "  stopworld/ThreadAttached"];
    let of_dotnet = counts.lines().filter(|line| !own.iter().any(|own| line.ends_with(own)));
    let names = of_dotnet.map(|line| line.split_once("Microsoft-").unwrap().1);
    let (of_runtime, others): (Vec<&str>, Vec<&str>) = names.partition(|name| name.contains("-DotNETRuntime/"));
    assert!(of_runtime.iter().all(|name| name.contains("/GC/") || name.ends_with("/Type/BulkType")), "{counts}");
    for name in ["Start", "Stop", "SuspendEEStart", "RestartEEStop", "HeapStats", "PerHeapHistory", "BulkNode"] {
        assert!(of_runtime.contains(&format!("Windows-DotNETRuntime/GC/{name}").as_str()), "{name}: {counts}");
    }
    let expected = [
        "DotNETCore-EventPipe/ProcessInfo",
        "Windows-DotNETRuntimePrivate/GC/Settings",
        "Windows-DotNETRuntimeRundown/GC/SettingsRundown",
        "Windows-DotNETRuntimeRundown/Runtime/Start",
    ];
    assert_eq!(others, expected);

    for (event, words) in [
        ("GC/Start", "Count=1 Depth=2 Reason=Induced Type="),
        ("GCStart", " Reason=Induced "),
        ("GC/SuspendEEStart", " Reason=SuspendForGC "),
        ("GC/GlobalHeapHistory", " GlobalMechanisms=Promotion "),
        ("GC/PerHeapHistory", " Count=5 [SizeBefore="),
        ("GC/MarkWithType", " Type=MarkStack "),
        ("Type/BulkType", " TypeName=\"stopworld_workloads::churn::"),
    ] {
        let listed = dump(&file, &["--event", event]).stdout;
        assert!(listed.lines().next().is_some_and(|line| line.contains(words)), "{event}: {listed}");
    }
    assert!(!dump(&file, &[]).stdout.contains(" bytes="), "every byte belongs to a field");
}

/// The built-in layout of an event does not hide fields that a newer runtime adds and describes.
#[rstest]
#[case(0, " Count=7 Depth=2 ClrInstanceID=0\n")]
#[case(4, " Count=7 Depth=2 ClrInstanceID=0 Added=5\n")]
fn fields_described_only_by_the_file_are_listed(#[case] more: usize, #[case] listed: &str) {
    let (u16_type, u32_type) = (8, 10);
    let fields = [("Count", u32_type), ("Depth", u32_type), ("ClrInstanceID", u16_type), ("Added", u32_type)];
    let mut writer = Writer::new(Form::V4, 8);
    writer.add(&Block::Types(vec![Type {
        id: 1,
        provider: "Microsoft-Windows-DotNETRuntime".into(),
        event: 2,
        name: "GCEnd".into(),
        version: 1,
        fields: fields.map(|(name, kind)| (name.to_owned(), kind)).into(),
        ..Type::default()
    }]));
    let payload = [&[7, 0, 0, 0, 2, 0, 0, 0, 0, 0], &[5, 0, 0, 0][..more]].concat();
    writer.add(&Block::Events(vec![Event {
        kind: 1,
        sequence: 1,
        thread: 4,
        capture: 4,
        payload,
        ..Event::default()
    }]));
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("newer.nettrace");
    std::fs::write(&file, writer.end()).unwrap();
    let ran = dump(&file, &[]);
    assert!(ran.stdout.contains("/GC/Stop ") && ran.stdout.ends_with(listed), "{}{}", ran.stdout, ran.stderr);
}

#[rstest]
#[case("--from", "nan")]
#[case("--to", "inf")]
#[case("--from", "soon")]
fn an_invalid_time_is_refused(#[case] option: &str, #[case] time: &str) {
    let ran = dump(&fixture("tiny.nettrace"), &[option, time]);
    assert_eq!((ran.stdout.as_str(), ran.code, ran.stderr.lines().count()), ("", Some(2), 1), "{}", ran.stderr);
    for part in
        [&format!("'{time}' for '{option} <MS>'"), "a number of milliseconds since the trace began, such as 12.5"]
    {
        assert!(ran.stderr.contains(part), "{}", ran.stderr);
    }
}

/// If no event matches, that is not an error. It is reported with the most similar name, and with the contents of the trace.
#[rstest]
#[case(&["--provider", "Other"], &["no provider 'Other'; `--counts` alone"])]
#[case(&["--provider", "Microsoft-Windows-DotNETRuntim"], &["did you mean 'Microsoft-Windows-DotNETRuntime'?"])]
#[case(&["--event", "GC/Start"], &["no event 'GC/Start'", "did you mean 'GC/Stop'?"])]
#[case(&["--event", "NoSuch"], &["no event 'NoSuch'; `--counts` alone lists"])]
#[case(&["--event", "Microsoft-Windows-DotNETRuntimeGC/Stop"], &["no event 'Microsoft-Windows-DotNETRuntimeGC/Stop'"])]
#[case(&["--event", "Microsoft-Windows-DotNETRuntime/GC/Stopp"], &["did you mean 'GC/Stop'?"])]
#[case(&["--event", "stopworld/GC/Stop"], &["no event 'stopworld/GC/Stop'"])]
#[case(&["--counts", "--event", "9"], &["no event '9'"])]
#[case(&["--provider", "microsoft-windows-dotnetruntime", "--event", "GC/Stopp"], &["of provider", "'GC/Stop'"])]
#[case(&["--from", "7"], &["from 7 ms on", "at 0.0010 to 0.0013 ms"])]
#[case(&["--to=-1"], &["up to -1 ms", "at 0.0010 to 0.0013 ms"])]
#[case(&["--from", "5", "--to", "4", "--event", "GC/Stop"], &["from 5 ms on up to 4 ms"])]
fn no_match_is_one_line_with_a_hint(#[case] arguments: &[&str], #[case] told: &[&str]) {
    let ran = dump(&fixture("tiny.nettrace"), arguments);
    assert_eq!((ran.stdout.as_str(), ran.code), ("", Some(0)));
    assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    for part in ["dump: ", "tiny.nettrace: no event matches"].iter().chain(told) {
        assert!(ran.stderr.contains(part), "'{}' does not say {part}", ran.stderr);
    }
}

#[rstest]
#[case(0x150, "4 bytes more were expected")]
#[case(0x153, "1 byte more was expected")]
fn a_file_that_is_cut_is_listed_as_far_as_it_goes_and_ends_with_1(#[case] length: usize, #[case] missing: &str) {
    let whole = std::fs::read(fixture("tiny.nettrace")).unwrap();
    let mut cut = tempfile::NamedTempFile::new().unwrap();
    std::io::Write::write_all(&mut cut, &whole[..length]).unwrap();
    let ran = dump(cut.path(), &[]);
    assert_eq!((ran.stdout.as_str(), ran.code), (&LINES[..LINES.len() / 2], Some(1)));
    let told = format!(
        "dump: {}, at byte {length}: the file ends here, inside a block of events that begins at byte 255: {missing}\n",
        cut.path().display()
    );
    assert_eq!(ran.stderr, told);
}

#[test]
fn events_are_read_from_standard_input_too() {
    let file = std::fs::File::open(fixture("tiny.nettrace")).unwrap();
    let output = Command::new(cargo_bin("stopworld")).args(["dump", "-"]).stdin(file).output().unwrap();
    assert_eq!((String::from_utf8(output.stdout).unwrap().as_str(), output.status.code()), (LINES, Some(0)));
}

#[test]
fn a_closed_pipe_is_no_error() {
    let mut child = Command::new(cargo_bin("stopworld"))
        .arg("dump")
        .arg(fixture("gcapp-3.1-collect-default.nettrace"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert!(first.contains("Microsoft-"), "{first}");
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap().as_str()), (Some(141), ""));
}

#[rstest]
#[case(&["dump"], 2)]
#[case(&["dump", "/does/not/exist"], 1)]
#[case(&["dump", "/"], 1)]
#[case(&["dump", "Cargo.toml"], 1)]
#[case(&["dump", "x", "--from", "now"], 2)]
fn what_cannot_be_listed_is_one_line(#[case] arguments: &[&str], #[case] code: i32) {
    let output = Command::new(cargo_bin("stopworld")).args(arguments).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), stderr.lines().count()), (Some(code), 1), "{stderr}");
    assert!(output.stdout.is_empty());
}
