//! Targets that compare two readings: of a file and its conversion, or of a file and a beginning of it.

use ghc_eventlog::hp;
use ghc_eventlog::read::in_file_order;
use ghc_eventlog::read::show::{Form as ShowForm, Show};
use mps_telemetry::Version;
use mps_telemetry::decode::{Form, Style, decode};
use mps_telemetry::reader::{End, Reader as Records};
use nettrace::{Container, EventType, Interest, NetEvent, Reader, Summary, ThreadInfo, TraceInfo, Visitor};
use stopworld_analysis::convert::{Conversion, ConvertOptions, Source, Target, convert};

use crate::formats::not_converted;
use crate::{limited, names_a_byte};

const MIB: usize = 1 << 20;

fn converted(input: &[u8], target: Target) -> Option<(Vec<u8>, Conversion)> {
    let mut output = Vec::new();
    match convert(input, &mut output, target, &ConvertOptions::default()) {
        Ok(conversion) => {
            if let Some(damage) = &conversion.damage {
                names_a_byte(damage);
            }
            Some((output, conversion))
        }
        Err(error) => {
            not_converted(&error);
            None
        }
    }
}

/// The parts of an event that must be the same in both containers.
#[derive(Debug, PartialEq)]
struct ComparedEvent {
    kind: EventType,
    time: i64,
    thread: u64,
    processor: Option<u32>,
    activity: [u8; 16],
    related: [u8; 16],
    stack: Vec<u64>,
    sorted: bool,
    payload: Vec<u8>,
}

#[derive(Default)]
struct Listener {
    trace: Option<TraceInfo>,
    events: Vec<ComparedEvent>,
    threads: u64,
}

impl Visitor for Listener {
    fn trace(&mut self, trace: &TraceInfo) {
        self.trace = Some(trace.clone());
    }

    fn event_type(&mut self, _: &EventType) -> Interest {
        Interest::Deliver
    }

    fn thread(&mut self, _: &ThreadInfo<'_>) {
        self.threads += 1;
    }

    fn event(&mut self, event: &NetEvent<'_>) {
        self.events.push(ComparedEvent {
            // Numbers are specific to the file.
            kind: EventType { index: 0, id: 0, ..event.kind.clone() },
            time: event.time,
            thread: event.thread,
            processor: event.processor,
            activity: event.activity,
            related: event.related,
            stack: event.stack.addresses().collect(),
            sorted: event.in_file.sorted,
            payload: event.payload.to_vec(),
        });
    }
}

fn listen(file: &[u8]) -> (Listener, Summary) {
    let mut listener = Listener::default();
    let summary = Reader::new(file).with_stacks().in_file_order().read(&mut listener);
    (listener, summary)
}

/// Converts a .NET trace to either container and to a telemetry stream. The output is undamaged if the input is; if in addition nothing is
/// left out, it has the same events.
pub fn convert_nettrace(trace: &[u8]) {
    limited(256 * MIB, || {
        for container in [Container::V4, Container::V6] {
            let Some((output, conversion)) = converted(trace, Target::Nettrace(container)) else { continue };
            let (there, summary) = listen(&output);
            // Events of a thread that the input never declared remain such events, which is damage.
            assert!(summary.damage.is_none() || conversion.damage.is_some(), "{:?}", summary.damage);
            assert!(summary.ended_orderly);
            if conversion.source != Source::Nettrace {
                // Each record of a telemetry stream becomes an event that describes it, and often a .NET event as well.
                assert!(summary.events >= conversion.carried);
                continue;
            }
            assert_eq!(summary.events, conversion.carried);
            if conversion.damage.is_none() && conversion.left_out.is_empty() {
                let (here, of_here) = listen(trace);
                assert_eq!((of_here.events, of_here.lost), (summary.events, summary.lost));
                assert_eq!(here.events, there.events);
            }
        }
        if let Some((output, _)) = converted(trace, Target::Mps) {
            has_whole_records(&output);
        }
    });
}

/// Asserts that a stream is undamaged.
fn has_whole_records(stream: &[u8]) {
    let mut reader = Records::new(stream);
    while reader.buffered().expect("a record that was just written").is_some() || reader.fill().unwrap() {}
    assert_eq!(reader.end(), Ok(End::Clean));
}

/// Converts a telemetry stream to the newer version, and to a .NET trace of each version and back. The records must not change.
pub fn convert_mps(stream: &[u8]) {
    limited(256 * MIB, || {
        let Some((direct, conversion)) = converted(stream, Target::Mps) else { return };
        has_whole_records(&direct);
        for container in [Container::V4, Container::V6] {
            let Some((trace, by_trace)) = converted(stream, Target::Nettrace(container)) else { continue };
            let (_, summary) = listen(&trace);
            assert_eq!(summary.damage, None);
            assert!(summary.ended_orderly);
            let Some((back, _)) = converted(&trace, Target::Mps) else { panic!("a trace that was just written") };
            has_whole_records(&back);
            if conversion.left_out.is_empty() && by_trace.left_out.is_empty() && stream.starts_with(b"\0\0") {
                assert_eq!(lines(&direct), lines(&back));
            }
        }
    });
}

/// Returns the records as sorted text lines: a trace is ordered by time, and the order of records with equal times is unspecified.
fn lines(stream: &[u8]) -> Vec<String> {
    let mut output = Vec::new();
    decode(stream, &mut output, Form::Hex, Some(Version::V2), &mut |_| {}).expect("an undamaged stream");
    let text = String::from_utf8_lossy(&output).into_owned();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

/// Asserts that the data read from the beginning of a file is a prefix of the data read from the whole file.
pub(crate) fn is_prefix<T: PartialEq + std::fmt::Debug>(part: &[T], whole: &[T]) {
    let differs = part.iter().zip(whole).position(|(one, other)| one != other).unwrap_or(part.len().min(whole.len()));
    assert!(
        whole.starts_with(part),
        "the data read from the part is not a prefix of the data read from the whole: item {differs} is {:?} in the part, {:?} in the whole",
        part.get(differs),
        whole.get(differs)
    );
}

/// Truncates a file: the data read from it must be a prefix of the data read from the whole file. The input's first two bytes give the
/// length.
pub fn cut(input: &[u8]) {
    let Some((at, whole)) = input.split_first_chunk::<2>() else { return };
    let at = usize::from(u16::from_le_bytes(*at)) % (whole.len() + 1);
    let part = &whole[..at];
    limited(128 * MIB, || {
        if whole.starts_with(b"Nettrace") {
            cut_trace(part, whole);
        } else if whole.starts_with(b"hdrb") {
            cut_log(part, whole);
        } else if whole.starts_with(b"JOB") {
            cut_profile(part, whole);
        } else {
            cut_stream(part, whole);
        }
    });
}

fn cut_trace(part: &[u8], whole: &[u8]) {
    let ((part, of_part), (whole, of_whole)) = (listen(part), listen(whole));
    is_prefix(&part.events, &whole.events);
    assert!(part.threads <= whole.threads && of_part.events <= of_whole.events);
    assert!(part.trace.is_none() || part.trace == whole.trace);
    // If the truncated trace was read to an earlier end, its damage is reported.
    assert!(of_part.bytes == of_whole.bytes || of_part.damage.is_some());
}

fn cut_log(part: &[u8], whole: &[u8]) {
    let show = |log: &[u8]| {
        let mut output = Vec::new();
        let mut show = Show::new(&mut output, ShowForm::Events);
        let summary = in_file_order(log, &mut show);
        show.finish().unwrap();
        (output, summary)
    };
    let ((part, _), (whole, summary)) = (show(part), show(whole));
    // Where a reader resumes after damage depends on the bytes there.
    if summary.damage.is_none() {
        is_prefix(part.strip_suffix(b"\n").unwrap_or(&part), &whole);
    }
}

fn cut_profile(part: &[u8], whole: &[u8]) {
    let lines = |file: &[u8]| {
        let mut lines = Vec::new();
        hp::read(file, |line| lines.push(format!("{line:?}")));
        lines
    };
    let (mut part, whole) = (lines(part), lines(whole));
    // Drops the last line: a truncated number is still a number, and a truncated word still a label.
    part.pop();
    is_prefix(&part, &whole);
}

fn cut_stream(part: &[u8], whole: &[u8]) {
    for (form, version) in [(Form::Hex, Version::V2), (Form::Manual(Style::Human), Version::V1)] {
        let print = |stream: &[u8]| {
            let mut output = Vec::new();
            let _ = decode(stream, &mut output, form, Some(version), &mut |_| {});
            output
        };
        is_prefix(&print(part), &print(whole));
    }
}
