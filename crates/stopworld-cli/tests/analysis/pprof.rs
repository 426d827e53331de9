//! Files of pprof: read by Go's pprof, whose figures must equal our own reports of the same files; and checked against the rules by which
//! Perfetto's importer recognizes and reads them.

use crate::command_support;
use crate::skipped;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use command_support::{directory, run, text};
use rstest::rstest;
use skipped::skipped;
use stopworld_analysis::profstats::{Band, Profiles};

/// Writes the output of a command to a file.
fn export(directory: &Path, arguments: &str) -> PathBuf {
    let output = run(directory, arguments);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let file = directory.join("export.pb.gz");
    fs::write(&file, output.stdout).unwrap();
    file
}

/// Runs Go's pprof; `None`, with a skipped test reported, if there is no Go.
fn go_pprof(file: &Path, options: &[&str]) -> Option<String> {
    let mut command = Command::new("go");
    command.args(["tool", "pprof"]).args(options).arg(file).env("PPROF_TMPDIR", file.parent().unwrap());
    let Ok(output) = command.output() else {
        skipped("go");
        return None;
    };
    assert!(output.status.success(), "{}", text(&output.stderr));
    Some(text(&output.stdout))
}

/// What `go tool pprof -raw` prints: the types of the values, and the samples: frames outermost first, with their values.
#[derive(Debug)]
struct Raw {
    types: Vec<String>,
    samples: BTreeMap<String, Vec<u64>>,
}

fn raw(printed: &str) -> Raw {
    let mut lines = printed.lines().skip_while(|line| *line != "Samples:").skip(1);
    let types = lines.next().unwrap().split_whitespace().map(|name| name.replace("[dflt]", "")).collect();
    let (samples, rest): (Vec<_>, Vec<_>) = lines.partition(|line| line.contains(": ") && !line.contains(": 0x"));
    // A location: `     1: 0x0 M=1 name file:line:0 s=0`. Without mappings in the file, pprof makes one.
    let names: BTreeMap<&str, &str> = rest
        .iter()
        .filter_map(|line| line.split_once(": 0x0 M=1 "))
        .map(|(number, frame)| {
            let (frame, _) = frame.rsplit_once(" s=").unwrap();
            (number.trim(), frame.rsplit_once(' ').map_or(frame, |(name, _)| name))
        })
        .collect();
    let samples = samples.into_iter().map(|line| {
        let (values, locations) = line.rsplit_once(": ").unwrap();
        let mut frames: Vec<&str> = locations.split_whitespace().map(|number| names[number]).collect();
        frames.reverse();
        (frames.join(";"), values.split_whitespace().map(|value| value.parse().unwrap()).collect())
    });
    Raw { types, samples: samples.collect() }
}

/// The total that the first lines of `go tool pprof -top` have: `… of 1234B total`.
fn total(top: &str) -> u64 {
    let before = top.split_once(" total").unwrap().0;
    let total = before.rsplit(' ').next().unwrap();
    total.trim_end_matches(|unit: char| unit.is_ascii_alphabetic()).parse().unwrap()
}

/// The bands of the last sample as the library reads them: frames outermost first, with their objects, if the log has them, and bytes.
fn last_sample(file: &Path) -> BTreeMap<String, Vec<u64>> {
    let (profiles, summary) = Profiles::read(fs::File::open(file).unwrap());
    assert_eq!(summary.damage, None);
    let Profiles { heap, stacks, centres, .. } = &profiles;
    let last = heap.samples.kept().iter().rfind(|sample| !sample.values.is_empty()).unwrap();
    let bands = last.values.iter().enumerate().filter(|(_, (_, bytes))| *bytes > 0).map(|(index, &(band, bytes))| {
        let frames = match &heap.bands[band as usize] {
            Band::Stack(stack) => {
                let mut frames = vec!["MAIN".to_owned()];
                let named = stacks.centres(*stack).map(|centre| {
                    let known = centres.get(centre).unwrap();
                    let has_module = !known.module.is_empty() && known.place != "<built-in>";
                    if has_module { format!("{}.{}", known.module, known.label) } else { known.label.clone() }
                });
                let named: Vec<_> = named.collect();
                frames.extend(named.into_iter().rev());
                frames.join(";")
            }
            Band::Label(label) => label.clone(),
            Band::Others => panic!("there are few bands"),
        };
        (frames, last.objects.get(index).copied().into_iter().chain([bytes]).collect())
    });
    bands.collect()
}

fn fixture(name: &str) -> PathBuf {
    Path::new("../../tests/fixtures/eventlog").canonicalize().unwrap().join(name)
}

fn sum(samples: &BTreeMap<String, Vec<u64>>, value: usize) -> u64 {
    samples.values().map(|values| values[value]).sum()
}

#[rstest]
#[case::closure_types("leak.hT.eventlog")]
#[case::cost_centres_of_ghc("leak.hc.eventlog")]
#[case::retainers("leak.hr.eventlog")]
#[case::types("leak.hyfilt.eventlog")]
#[case::biographies("life2.hb.eventlog")]
#[case::cost_centres("hc")]
#[case::our_types("hy")]
fn gos_pprof_reads_the_last_sample_of_a_heap_profile(#[case] source: &str) {
    let directory = directory();
    let log = if source.ends_with(".eventlog") {
        fixture(source)
    } else {
        let recorded = run(
            directory.path(),
            &format!("run gcbench --depth 10 --collections 5 --profile {source} --trace run.eventlog"),
        );
        assert_eq!(recorded.status.code(), Some(0), "{}", text(&recorded.stderr));
        directory.path().join("run.eventlog")
    };
    let file = export(directory.path(), &format!("heapprof {} --pprof", log.display()));
    assert_rules_of_perfetto(&file);
    let Some(printed) = go_pprof(&file, &["-raw"]) else { return };
    let read = raw(&printed);
    let types: &[&str] = match source {
        "hc" | "hy" => &["inuse_objects/count", "inuse_space/bytes"],
        _ => &["inuse_space/bytes"],
    };
    assert_eq!(read.types, types);
    let expected = last_sample(&log);
    assert_eq!(read.samples, expected);
    let top = go_pprof(&file, &["-top", "-unit=B", "-nodefraction=0"]).unwrap();
    assert_eq!(total(&top), sum(&expected, types.len() - 1), "{top}");
    if types.len() > 1 {
        let top = go_pprof(&file, &["-top", "-sample_index=inuse_objects", "-nodefraction=0"]).unwrap();
        assert!(top.starts_with("Type: inuse_objects") || top.contains("\nType: inuse_objects"), "{top}");
        assert_eq!(total(&top), sum(&expected, 0), "{top}");
        assert!(sum(&expected, 0) > 100, "{expected:?}");
    }
    if source == "hy" {
        // A node takes a cell of 32 bytes.
        let nodes = &expected["Node"];
        assert_eq!(nodes[1], 32 * nodes[0], "{expected:?}");
    }
}

#[rstest]
#[case("last", 4)]
#[case("peak", 9)]
#[case("2.5", 2)]
fn the_sample_can_be_chosen(#[case] at: &str, #[case] bytes: u64) {
    let directory = directory();
    let samples = [(1, 1), (2, 2), (3, 9), (4, 4)];
    let samples =
        samples.map(|(time, bytes)| format!("BEGIN_SAMPLE {time}\nband\t{bytes}\nEND_SAMPLE {time}\n")).concat();
    let head = "JOB \"program\"\nDATE \"today\"\nSAMPLE_UNIT \"seconds\"\nVALUE_UNIT \"bytes\"\n";
    fs::write(directory.path().join("run.hp"), format!("{head}{samples}")).unwrap();
    let file = export(directory.path(), &format!("heapprof run.hp --pprof --at {at}"));
    assert_eq!(values(&file), [bytes]);
}

#[test]
fn a_time_before_the_first_sample_is_an_error_that_names_the_first() {
    let directory = directory();
    let output =
        run(directory.path(), &format!("heapprof {} --pprof --at 0.000001", fixture("leak.hc.eventlog").display()));
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    let message = text(&output.stderr);
    assert!(message.contains("--at") && message.contains("its first one is at"), "{message}");
}

#[test]
fn gos_pprof_reads_a_time_profile_as_its_folded_stacks() {
    let directory = directory();
    let recorded =
        run(directory.path(), "run gcbench --depth 12 --seconds 4 --time-profile --tick 0.001 --trace run.eventlog");
    assert_eq!(recorded.status.code(), Some(0), "{}", text(&recorded.stderr));
    let file = export(directory.path(), "timeprof run.eventlog --pprof");
    assert_rules_of_perfetto(&file);
    let folded = text(&run(directory.path(), "timeprof run.eventlog --folded").stdout);
    let expected: BTreeMap<String, Vec<u64>> = folded
        .lines()
        .map(|line| {
            let (stack, ticks) = line.rsplit_once(' ').unwrap();
            let ticks: u64 = ticks.parse().unwrap();
            (stack.to_owned(), vec![ticks, ticks * 1_000_000])
        })
        .collect();
    assert!(expected.len() > 1 && sum(&expected, 0) > 100, "{folded}");
    let Some(printed) = go_pprof(&file, &["-raw"]) else { return };
    let read = raw(&printed);
    assert_eq!(read.types, ["samples/count", "time/nanoseconds"]);
    assert_eq!(read.samples, expected);
    assert!(printed.contains("PeriodType: time nanoseconds\nPeriod: 1000000\n"), "{printed}");
    // Without -sample_index, the time is shown.
    let top = go_pprof(&file, &["-top", "-unit=ns", "-nodefraction=0"]).unwrap();
    assert_eq!(total(&top), sum(&expected, 1), "{top}");
}

#[test]
fn gos_pprof_reads_the_objects_of_a_snapshot() {
    let directory = directory();
    let recorded = run(directory.path(), "run gcbench --depth 10 --collections 2 --snapshot heap.hprof");
    assert_eq!(recorded.status.code(), Some(0), "{}", text(&recorded.stderr));
    let file = export(directory.path(), "heap heap.hprof --pprof");
    assert_rules_of_perfetto(&file);
    // The table: │ type ┆ objects ┆ bytes ┆ retained │
    let table = text(&run(directory.path(), "heap heap.hprof --top 1000").stdout);
    let types =
        table.lines().skip_while(|line| !line.contains("┆ objects ┆")).skip(2).take_while(|line| line.contains('┆'));
    let expected: BTreeMap<String, Vec<u64>> = types
        .map(|line| {
            let cells: Vec<&str> = line.trim_matches('│').split('┆').map(str::trim).collect();
            (cells[0].to_owned(), cells[1..3].iter().map(|cell| cell.parse().unwrap()).collect())
        })
        .collect();
    assert!(!expected.is_empty(), "{table}");
    let Some(printed) = go_pprof(&file, &["-raw"]) else { return };
    let read = raw(&printed);
    assert_eq!(
        (read.types, read.samples),
        (vec!["inuse_objects/count".to_owned(), "inuse_space/bytes".to_owned()], expected)
    );
}

/// One field of a message: its number, and its bytes or its number.
enum Field {
    Bytes(u64, Vec<u8>),
    Number(u64, u64),
}

/// Splits a message into its fields.
fn fields(message: &[u8]) -> Vec<Field> {
    let mut rest = message;
    let varint = |rest: &mut &[u8]| {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (byte, after) = rest.split_first().unwrap();
            *rest = after;
            value |= u64::from(byte & 127) << shift;
            if byte & 128 == 0 {
                return value;
            }
        }
        panic!("a number has more than 10 bytes");
    };
    let mut fields = Vec::new();
    while !rest.is_empty() {
        let key = varint(&mut rest);
        let value = varint(&mut rest);
        match key & 7 {
            0 => fields.push(Field::Number(key >> 3, value)),
            2 => {
                let (bytes, after) = rest.split_at(value as usize);
                rest = after;
                fields.push(Field::Bytes(key >> 3, bytes.to_vec()));
            }
            other => panic!("wire type {other}"),
        }
    }
    fields
}

fn uncompressed(file: &Path) -> Vec<Field> {
    let mut message = Vec::new();
    flate2::read::GzDecoder::new(fs::File::open(file).unwrap()).read_to_end(&mut message).unwrap();
    fields(&message)
}

/// The messages in the fields with this number.
fn messages(all: &[Field], number: u64) -> impl Iterator<Item = &[u8]> {
    all.iter().filter_map(move |field| match field {
        Field::Bytes(at, bytes) if *at == number => Some(&bytes[..]),
        _ => None,
    })
}

/// The numbers in the fields with this number, single or packed.
fn numbers(message: &[u8], number: u64) -> Vec<u64> {
    let mut numbers = Vec::new();
    for field in fields(message) {
        match field {
            Field::Number(at, value) if at == number => numbers.push(value),
            Field::Bytes(at, packed) if at == number => {
                let mut value = 0;
                let mut shift = 0;
                for byte in packed {
                    value |= u64::from(byte & 127) << shift;
                    shift += 7;
                    if byte & 128 == 0 {
                        numbers.push(value);
                        (value, shift) = (0, 0);
                    }
                }
            }
            _ => {}
        }
    }
    numbers
}

/// The first values of all samples.
fn values(file: &Path) -> Vec<u64> {
    messages(&uncompressed(file), 2).map(|sample| numbers(sample, 2)[0]).collect()
}

/// What the locations of a profile have.
pub(crate) struct Locations {
    /// The number that are in a mapping.
    pub(crate) mapped: usize,
    /// The number with the lines of several functions: all but the last are inlined.
    pub(crate) inlined: usize,
}

/// Checks the rules of the importer of Perfetto: it recognizes a file by the wire types of the fields of `Profile`, needs a table of
/// texts, and silently leaves out samples without a location, frames whose location or function it does not find, and mappings that it does
/// not find.
pub(crate) fn assert_rules_of_perfetto(file: &Path) -> Locations {
    assert_rules(&uncompressed(file))
}

fn assert_rules(all: &[Field]) -> Locations {
    for field in all {
        match field {
            Field::Bytes(number, _) => assert!([1, 2, 3, 4, 5, 6, 11, 13].contains(number), "field {number}"),
            Field::Number(number, _) => {
                assert!((7..=10).chain(12..=14).any(|known| known == *number), "field {number}")
            }
        }
    }
    let texts: Vec<String> = messages(all, 6).map(text).collect();
    assert_eq!(texts[0], "");
    let is_text = |index: u64| (1..texts.len() as u64).contains(&index);
    // A number that is 0 is not in the file.
    let number = |message: &[u8], field| numbers(message, field).first().copied().unwrap_or(0);
    let functions: BTreeMap<u64, u64> = messages(all, 5).map(|f| (number(f, 1), number(f, 2))).collect();
    assert!(functions.iter().all(|(id, name)| *id > 0 && is_text(*name)));
    assert!(messages(all, 5).all(|function| number(function, 4) < texts.len() as u64));
    let mappings: BTreeMap<u64, &[u8]> = messages(all, 3).map(|mapping| (number(mapping, 1), mapping)).collect();
    assert!(mappings.iter().all(|(id, mapping)| *id > 0 && is_text(number(mapping, 5))));
    let mut ids = BTreeSet::new();
    let mut found = Locations { mapped: 0, inlined: 0 };
    for location in messages(all, 4) {
        let location_fields = fields(location);
        let lines: Vec<u64> = messages(&location_fields, 4).map(|line| number(line, 1)).collect();
        assert!(!lines.is_empty() && lines.iter().all(|function| functions.contains_key(function)), "{lines:?}");
        found.inlined += usize::from(lines.len() > 1);
        let (mapping, address) = (number(location, 2), number(location, 3));
        if mapping > 0 {
            let mapping = mappings.get(&mapping).unwrap_or_else(|| panic!("no mapping {mapping}"));
            assert!((number(mapping, 2)..number(mapping, 3)).contains(&address), "{address:#x}");
            found.mapped += 1;
        }
        let id = number(location, 1);
        assert!(id > 0 && ids.insert(id), "location {id}");
    }
    let types =
        messages(all, 1).inspect(|value| assert!(is_text(numbers(value, 1)[0]) && is_text(numbers(value, 2)[0])));
    let types = types.count();
    let mut samples = 0;
    for sample in messages(all, 2) {
        let stack = numbers(sample, 1);
        assert!(!stack.is_empty() && stack.iter().all(|location| ids.contains(location)));
        assert_eq!(numbers(sample, 2).len(), types);
        samples += 1;
    }
    assert!(samples > 0);
    found
}

/// A message: for each field its number, with a number or with bytes. All of them are short.
fn message(numbers: &[(u8, u8)], parts: &[(u8, &[u8])]) -> Vec<u8> {
    let numbers = numbers.iter().flat_map(|(field, value)| [field << 3, *value]);
    let parts = parts.iter().flat_map(|(field, bytes)| [&[field << 3 | 2, bytes.len() as u8], *bytes].concat());
    numbers.chain(parts).collect()
}

/// A profile with one function, one mapping (from 16 to 32) and one location with two lines: what is wrong in it is found.
#[rstest]
#[case::right(1, 20, [1, 1], true)]
#[case::no_mapping(0, 20, [1, 1], true)]
#[case::unknown_mapping(2, 20, [1, 1], false)]
#[case::outside_of_its_mapping(1, 40, [1, 1], false)]
#[case::unknown_first_function(1, 20, [2, 1], false)]
#[case::unknown_second_function(1, 20, [1, 2], false)]
fn the_rules_refuse_a_wrong_location(
    #[case] mapping: u8,
    #[case] address: u8,
    #[case] functions: [u8; 2],
    #[case] is_right: bool,
) {
    let lines = functions.map(|function| message(&[(1, function)], &[]));
    let profile = [
        (1, message(&[(1, 1), (2, 1)], &[])),
        (2, message(&[(1, 1), (2, 5)], &[])),
        (3, message(&[(1, 1), (2, 16), (3, 32), (5, 1)], &[])),
        (4, message(&[(1, 1), (2, mapping), (3, address)], &[(4, &lines[0]), (4, &lines[1])])),
        (5, message(&[(1, 1), (2, 1)], &[])),
        (6, vec![]),
        (6, b"name".to_vec()),
    ];
    let profile: Vec<Field> = profile.into_iter().map(|(number, bytes)| Field::Bytes(number, bytes)).collect();
    let found = std::panic::catch_unwind(|| assert_rules(&profile));
    assert_eq!(found.is_ok(), is_right);
    if let Ok(found) = found {
        assert_eq!((found.mapped, found.inlined), (usize::from(mapping > 0), 1));
    }
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    let directory = directory();
    for arguments in
        ["heapprof x --pprof --csv", "timeprof x --pprof --folded", "heap x --pprof --html", "heapprof x --at peak"]
    {
        let output = run(directory.path(), arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments}");
    }
}
