//! Targets for the readers of files, each used as in its command.

use std::io;

use ghc_eventlog::hp::{self, Line};
use ghc_eventlog::read::show::{Form as ShowForm, Show};
use ghc_eventlog::read::{by_time, in_file_order, last_before};
use mps_telemetry::Version;
use mps_telemetry::decode::{DecodeError, Form, Style, decode};
use nettrace::Reader;
use stopworld_analysis::convert::{ConvertError, ConvertOptions, Target, convert};
use stopworld_analysis::gcstats::{Rules, analyse};
use stopworld_analysis::profstats::{Profiles, folded, speedscope, text};
use stopworld_analysis::report::{collections, heap_page, heapprof as heap_table, page, timeprof as time_table};
use stopworld_cli::fuzzing;

use crate::{limited, names_a_byte};

const MIB: usize = 1 << 20;

/// Decodes a telemetry stream in all forms of `eventcnv`.
pub fn mps_decode(stream: &[u8]) {
    let style = |style| (Form::Manual(style), None);
    let forms = [
        (Form::Hex, None),
        (Form::Hex, Some(Version::V1)),
        (Form::Named, Some(Version::V1)),
        (Form::Named, Some(Version::V2)),
        style(Style::Human),
        style(Style::Lisp),
        style(Style::Commas),
    ];
    for (form, version) in forms {
        limited(48 * MIB, || {
            let told = &mut |notice: &_| assert!(!format!("{notice}").is_empty());
            match decode(stream, io::sink(), form, version, told) {
                Err(error @ DecodeError::Damaged(_)) => names_a_byte(&error.to_string()),
                result => assert!(result.is_ok(), "{result:?}"),
            }
        });
    }
}

/// `dump` as text, as JSON, and as counts.
pub fn nettrace_dump(trace: &[u8]) {
    for options in [&[][..], &["--json"], &["--counts"]] {
        limited(96 * MIB, || {
            let (output, summary) = fuzzing::dump(trace, options);
            if let Some(damage) = summary.damage {
                names_a_byte(&damage.to_string());
            }
            assert!(summary.bytes <= trace.len() as u64);
            if options == ["--json"] {
                are_json(&output);
            }
        });
    }
}

fn are_json(lines: &[u8]) {
    for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let read: Result<serde_json::Value, _> = serde_json::from_slice(line);
        assert!(read.is_ok(), "{read:?}: {}", String::from_utf8_lossy(line));
    }
}

/// `gcstats` with both sets of rules: tables, page, exports.
pub fn gcstats(trace: &[u8]) {
    for rules in [Rules::Ours, Rules::LikePerfView] {
        limited(192 * MIB, || {
            let (processes, summary) = analyse(Reader::new(trace), rules).expect("the temporary files can be used");
            if let Some(damage) = summary.damage {
                names_a_byte(&damage.to_string());
            }
            for process in processes.iter().take(8) {
                process.write_csv(&mut io::sink()).unwrap();
                process.write_per_generation_csv(&mut io::sink()).unwrap();
                process.write_xml(&mut io::sink()).unwrap();
                collections::render(process).unwrap();
                page::render(process).unwrap();
            }
        });
    }
}

/// `convert` from any format to a timeline.
pub fn convert_json(trace: &[u8]) {
    limited(192 * MIB, || {
        let mut output = Vec::new();
        match convert(trace, &mut output, Target::Json, &ConvertOptions::default()) {
            Ok(conversion) => {
                if let Some(damage) = &conversion.damage {
                    names_a_byte(damage);
                }
                let _ = conversion.left_out.to_string();
                let read: Result<serde_json::Value, _> = serde_json::from_slice(&output);
                assert!(read.is_ok(), "{read:?}");
            }
            Err(error) => not_converted(&error),
        }
    });
}

pub(crate) fn not_converted(error: &ConvertError) {
    match error {
        ConvertError::Unreadable(message) => names_a_byte(message),
        ConvertError::Empty
        | ConvertError::Unknown(_)
        | ConvertError::Heap
        | ConvertError::Timeline
        | ConvertError::Eventlog => {}
        error => panic!("{error}"),
    }
}

/// `eventlog show`.
pub fn eventlog_show(log: &[u8]) {
    limited(64 * MIB, || {
        let mut show = Show::new(io::sink(), ShowForm::Whole);
        let summary = by_time(log, &mut show);
        let (unclear, _) = show.finish().unwrap();
        for damage in summary.damage.into_iter().chain(unclear) {
            names_a_byte(&damage.to_string());
            let _ = last_before(log, damage.offset);
        }
    });
}

/// `eventlog show --inc`.
pub fn eventlog_inc(log: &[u8]) {
    limited(16 * MIB, || {
        let mut show = Show::new(io::sink(), ShowForm::Events);
        let summary = in_file_order(log, &mut show);
        let (unclear, _) = show.finish().unwrap();
        summary.damage.into_iter().chain(unclear).for_each(|damage| names_a_byte(&damage.to_string()));
    });
}

fn profiles(file: &[u8]) -> Profiles {
    let (profiles, damage) = if file.starts_with(b"hdrb") {
        let (profiles, summary) = Profiles::read(file);
        (profiles, summary.damage.map(|damage| damage.to_string()))
    } else {
        let (profiles, summary) = text::read(file);
        (profiles, summary.damage.map(|damage| damage.to_string()))
    };
    damage.iter().for_each(|damage| names_a_byte(damage));
    profiles
}

/// `heapprof` for an eventlog or a `.hp` file, in all output forms.
pub fn heapprof(file: &[u8]) {
    limited(160 * MIB, || {
        let profiles = profiles(file);
        let _ = (heap_table::render(&profiles, 0), heap_table::render(&profiles, 10));
        heap_table::csv(&profiles, &mut io::sink()).unwrap();
        let _ = heap_page::render(&profiles, "file");
        let mut samples = 0;
        let count = |_: &_| {
            samples += 1;
            Ok(())
        };
        if file.starts_with(b"hdrb") {
            Profiles::each_sample(file, count).unwrap();
        } else {
            text::each_sample(file, count).unwrap();
        }
        assert!(samples >= profiles.heap.samples.kept().len(), "more samples are kept than the file has");
    });
}

/// `timeprof` in all output forms.
pub fn timeprof(log: &[u8]) {
    limited(160 * MIB, || {
        let profiles = profiles(log);
        if !profiles.has_time {
            return;
        }
        let _ = time_table::render(&profiles);
        fuzzing::flame_graph(&profiles, &mut io::sink());
        folded::write(&mut io::sink(), &profiles.time, &profiles.stacks, &profiles.centres).unwrap();
        let mut output = Vec::new();
        speedscope::write(&mut output, &profiles, "title").unwrap();
        are_json(&output.iter().map(|byte| if *byte == b'\n' { b' ' } else { *byte }).collect::<Vec<_>>());
    });
}

/// Checks the reader of `.hp` files alone: it reads no more bytes than the file has, and delivers at least the samples that it counts.
pub fn hp(file: &[u8]) {
    limited(4 * MIB, || {
        let mut samples = 0;
        let summary = hp::read(file, |line| {
            if let Line::Begin(_) = line {
                samples += 1;
            }
        });
        if let Some(damage) = summary.damage {
            names_a_byte(&damage.to_string());
            assert!(damage.offset <= file.len() as u64);
        }
        assert!(samples >= summary.samples && summary.bytes <= file.len() as u64);
    });
}
