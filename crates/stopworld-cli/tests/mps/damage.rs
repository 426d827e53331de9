//! Telemetry streams of any kind, whole, damaged and random, compared with a naive decoder (`.format.hostile`).
//!
//! `STOPWORLD_RANDOM_STREAMS=10000000` sets the number of random streams; by default it is small.

use crate::mps_support;

use std::sync::LazyLock;

use mps_support::{End, FORMS, Layouts, naive};
use mps_telemetry::Version;
use mps_telemetry::decode::{DecodeError, Form, decode};
use mps_telemetry::notice::{FIRST, Kind, Notice};
use proptest::prelude::*;
use rstest::rstest;

static V1: LazyLock<Layouts> = LazyLock::new(|| Layouts::of(Version::V1));
static V2: LazyLock<Layouts> = LazyLock::new(|| Layouts::of(Version::V2));

fn ours(stream: &[u8], version: Option<Version>, form: Form) -> (Vec<u8>, Result<u64, DecodeError>, Vec<Notice>) {
    let (mut lines, mut notices) = (Vec::new(), Vec::new());
    let result = decode(stream, &mut lines, form, version, &mut |notice| notices.push(*notice));
    (lines, result, notices)
}

/// Everything readable is printed as the naive decoder prints it, and damage at the end is reported with its byte offset.
fn same_as_naive(stream: &[u8], version: Version, form: Form) {
    let (expected, end) = naive(stream, version, form);
    let (lines, result, notices) = ours(stream, Some(version), form);
    assert_eq!(String::from_utf8_lossy(&lines), String::from_utf8_lossy(&expected), "{stream:x?}");
    match (end, result) {
        (End::Clean, Ok(_)) => {}
        (End::Stray(at), Ok(_)) => {
            let told = |notice: &Notice| matches!(notice.kind, Kind::Stray(bytes) if at + bytes == stream.len());
            assert!(notices.iter().any(told), "{notices:?}");
        }
        (End::Damaged(at), Err(DecodeError::Damaged(damage))) => {
            assert_eq!(damage.offset, at as u64);
            assert!(damage.to_string().contains(&format!("byte {at} ")), "{damage}");
        }
        (end, result) => panic!("{end:?} but {result:?}"),
    }
}

#[rstest]
fn every_prefix_of_a_stream_gives_what_is_readable(
    #[files("../../tests/fixtures/mps/model-marksweep.bin")]
    #[files("../../tests/fixtures/mps/teletest-garbage.bin")]
    #[files("../../tests/fixtures/mps/synth-strings.bin")]
    #[files("../../tests/fixtures/mps/synth-doubles.bin")]
    #[files("../../tests/fixtures/mps/v1/teletest-6.bin")]
    file: std::path::PathBuf,
) {
    let version = if file.to_string_lossy().contains("v1") { Version::V1 } else { Version::V2 };
    let stream = std::fs::read(&file).unwrap();
    // All forms for the small streams; the naive decoder is slow.
    let forms = if stream.len() < 3000 { &FORMS[..] } else { &FORMS[..1] };
    for length in 0..stream.len().min(4000) {
        for &form in forms {
            same_as_naive(&stream[..length], version, form);
        }
    }
}

/// The record ends where its string would begin.
#[test]
fn a_missing_string_is_empty() {
    let mut record = [0; 24];
    record[..4].copy_from_slice(&[0x21, 0, 24, 0]);
    record[16] = 3;
    for form in FORMS {
        same_as_naive(&record, Version::V2, form);
    }
}

#[rstest]
#[case("synth-size-long-known.bin", Version::V2)]
#[case("v1/teletest-6.bin", Version::V1)]
fn every_change_of_a_byte_gives_what_is_readable(#[case] file: &str, #[case] version: Version) {
    let mut stream = std::fs::read(format!("../../tests/fixtures/mps/{file}")).unwrap();
    for at in 0..stream.len() {
        let byte = stream[at];
        for changed in (0..=u8::MAX).filter(|&changed| changed != byte) {
            stream[at] = changed;
            same_as_naive(&stream, version, Form::Hex);
        }
        for changed in [0, byte ^ 1, byte ^ 0x80, 0xFF] {
            stream[at] = changed;
            for form in FORMS {
                same_as_naive(&stream, version, form);
            }
        }
        stream[at] = byte;
    }
}

/// A record of this version: usually as in its layout, sometimes shorter, longer, or of an unknown code.
fn record(version: Version) -> impl Strategy<Value = Vec<u8>> {
    let sizes = || version.layouts().iter().map(|layout| (layout.code, layout.size(0))).collect::<Vec<_>>();
    let size = prop_oneof![
        20 => Just(None),
        1 => (16..=288usize).prop_map(Some),
    ];
    let code = prop_oneof![20 => prop::sample::select(sizes()), 1 => any::<u16>().prop_map(|code| (code, 32))];
    // There are only few different numbers, so that clocks are equal and labels recur.
    let word =
        prop_oneof![0..6u64, any::<u64>(), any::<u32>().prop_map(u64::from), any::<f64>().prop_map(f64::to_bits)];
    (
        code,
        size,
        0..4u64,
        prop::collection::vec(word, 36),
        prop::collection::vec(prop::sample::select(&b"ab\"\\\n\xFF "[..]), 0..60),
    )
        .prop_map(move |((code, size), other, clock, words, text)| {
            let is_text = version.layout(code).is_some_and(|layout| layout.name == "Intern");
            let size = other.unwrap_or(if is_text { (24 + text.len() + 4).div_ceil(8) * 8 } else { size });
            let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            if is_text {
                bytes[24..24 + text.len()].copy_from_slice(&text);
                bytes[24 + text.len()] = 0;
            }
            bytes[0..2].copy_from_slice(&code.to_le_bytes());
            bytes[2..4].copy_from_slice(&(size as u16).to_le_bytes());
            bytes[8..16].copy_from_slice(&clock.to_le_bytes());
            bytes.truncate(size);
            bytes
        })
}

fn a_version() -> impl Strategy<Value = Version> {
    prop::sample::select(&Version::ALL[..])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_records_are_printed_as_the_naive_decoder_prints_them(
        (version, stream) in a_version().prop_flat_map(|version| {
            (Just(version), prop::collection::vec(record(version), 0..40).prop_map(|records| records.concat()))
        }),
    ) {
        for form in FORMS {
            same_as_naive(&stream, version, form);
        }
    }

    #[test]
    fn a_stream_that_is_cut_and_changed_anywhere_gives_what_is_readable(
        (version, mut stream) in a_version().prop_flat_map(|version| {
            (Just(version), prop::collection::vec(record(version), 1..20).prop_map(|records| records.concat()))
        }),
        length in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..5),
    ) {
        stream.truncate(1 + length.index(stream.len()));
        for (at, byte) in changes {
            let at = at.index(stream.len());
            stream[at] = byte;
        }
        for form in FORMS {
            same_as_naive(&stream, version, form);
        }
    }
}

/// A generator of pseudo-random numbers (xorshift), so that a run can be repeated.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// Random bytes, random records, and a real stream with random damage, in every form and with the version detected.
#[test]
fn random_streams_are_read_without_a_panic_and_in_bounded_memory() {
    let count = std::env::var("STOPWORLD_RANDOM_STREAMS").ok().and_then(|n| n.parse().ok()).unwrap_or(100_000u64);
    let real = std::fs::read("../../tests/fixtures/mps/teletest-garbage.bin").unwrap();
    let mut numbers = Numbers(0x5EED_5EED_5EED_5EED);
    let mut stream = Vec::new();
    for round in 0..count {
        stream.clear();
        match round % 3 {
            0 => (0..numbers.next() % 64).for_each(|_| stream.extend(numbers.next().to_le_bytes())),
            1 => {
                for _ in 0..numbers.next() % 12 {
                    let size = 16 + numbers.next() % 40;
                    stream.extend((numbers.next() as u16 % 0x78).to_le_bytes());
                    stream.extend((size as u16).to_le_bytes());
                    (4..size).for_each(|_| stream.push(numbers.next() as u8));
                }
            }
            _ => {
                let from = numbers.next() as usize % real.len();
                stream.extend_from_slice(&real[from..real.len().min(from + 400)]);
                for _ in 0..numbers.next() % 4 {
                    let at = numbers.next() as usize % stream.len();
                    stream[at] = numbers.next() as u8;
                }
            }
        }
        let form = FORMS[numbers.next() as usize % FORMS.len()];
        let version = [None, Some(Version::V1), Some(Version::V2)][numbers.next() as usize % 3];
        let (lines, result, _) = ours(&stream, version, form);
        let (records, end) = mps_support::records(&stream);
        assert_eq!(matches!(result, Err(DecodeError::Damaged(_))), matches!(end, End::Damaged(_)), "{stream:x?}");
        // Every record has a line; a line feed inside a string adds lines.
        assert!(lines.iter().filter(|&&byte| byte == b'\n').count() >= records.len(), "{stream:x?}");
    }
}

#[test]
fn endless_warnings_are_counted_instead() {
    let unknown = [0xFFu8, 0xFF, 16, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];
    let (lines, result, notices) = ours(&unknown.repeat(1000), None, Form::Hex);
    assert!(result.is_ok());
    assert_eq!(lines, b"0000000000000001 FFFF\n".repeat(1000));
    assert_eq!(notices.len() as u64, FIRST + 1);
    assert!(notices.last().unwrap().to_string().contains("990 more like this: unknown event codes"));
}

#[test]
fn a_record_without_room_for_its_parameters_shows_those_that_it_has() {
    let mut stream = vec![0x2A, 0, 30, 0, 0, 0, 0, 0];
    stream.extend(1u64.to_le_bytes());
    stream.extend([7, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0]);
    let (lines, result, notices) = ours(&stream, Some(Version::V2), Form::Hex);
    assert!(result.is_ok());
    assert_eq!(lines, b"0000000000000001   2A 7\n");
    let [notice] = &notices[..] else { panic!("{notices:?}") };
    assert_eq!(notice.kind, Kind::Short { event: "PoolAlloc", size: 30 });
    assert_eq!(notice.offset, Some(0));
}

#[test]
fn a_string_without_an_end_is_cut_where_its_record_ends() {
    let mut stream = vec![0x21, 0, 32, 0, 0, 0, 0, 0];
    stream.extend([1u64.to_le_bytes(), 5u64.to_le_bytes(), *b"for ever"].concat());
    let (lines, _, notices) = ours(&stream, Some(Version::V2), Form::Hex);
    assert_eq!(lines, b"0000000000000001   21 5 \"for ever\"\n");
    assert_eq!(notices[0].kind, Kind::Unterminated { event: "Intern" });
}

/// The longest possible line has names, and five labels of the longest string, with every byte escaped.
#[test]
fn the_longest_line_fits() {
    let mut stream = vec![0x21, 0, 0x20, 1, 0, 0, 0, 0];
    stream.extend([1u64.to_le_bytes(), 1u64.to_le_bytes()].concat());
    stream.extend([b'"'; 264]);
    let word = 0x1234u64.to_le_bytes();
    for (code, clock) in [(0x22u8, 2u64), (0x23, 2), (0x08, 3), (0x54, 3), (0x38, 3)] {
        let is_label = code == 0x22 || code == 0x23;
        let size: u8 = if is_label { 32 } else { 128 };
        stream.extend([code, 0, size, 0, 0, 0, 0, 0]);
        stream.extend(clock.to_le_bytes());
        let second = if is_label { 1u64.to_le_bytes() } else { word };
        stream.extend([word, second].concat());
        (32..size).step_by(8).for_each(|_| stream.extend(word));
    }
    for form in FORMS {
        same_as_naive(&stream, Version::V2, form);
    }
}

#[test]
fn the_naive_decoder_knows_all_layouts() {
    assert_eq!((V1.0.len(), V2.0.len()), (86, 92));
}
