//! Decodes a whole stream into lines, with notices of what is wrong with it.
//!
//! ```
//! use mps_telemetry::decode::{Form, decode};
//!
//! // PoolAlloc, 40 bytes, at clock 0x1001.
//! let mut stream = vec![0x2A, 0, 40, 0, 0, 0, 0, 0];
//! for word in [0x1001u64, 1, 2, 3] {
//!     stream.extend_from_slice(&word.to_le_bytes());
//! }
//! let mut lines = Vec::new();
//! decode(&stream[..], &mut lines, Form::Hex, None, &mut |notice| eprintln!("{notice}"))?;
//! assert_eq!(lines, b"0000000000001001   2A 1 2 3\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Memory does not depend on the stream's length. The unsorted forms have an input and an output buffer, and write
//! the output before they wait for more input, so a stream can be followed through a pipe. The named form must be
//! sorted, so it prints nothing before the end of the stream; `sort` explains how that works in memory of fixed size.

use std::io::{self, Read, Write};
use std::path::PathBuf;

use super::format::{Layout, Sort, Version};
use super::labels::Labels;
use super::line::{Line, Output};
pub use super::manual::Style;
use super::notice::{Kind, Notice, Notices};
use super::reader::{Damage, End, Reader, Record};
use super::sort::{Failed, Limits, Sorter};
use super::typed::TypedRecord;
use super::v2::EventInit;
use super::{hex, manual, named};

/// The form of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `mpseventcnv`: hexadecimal, in stream order.
    Hex,
    /// `mpseventtxt` after a sort: named and labelled, in clock order.
    Named,
    /// The manual's `eventcnv`, in stream order.
    Manual(Style),
}

/// The reason why a stream was not decoded to its end. Everything before is in the output.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The stream is damaged.
    #[error("{0}")]
    Damaged(Damage),
    /// Reading the stream failed.
    #[error("I/O error reading log at byte {offset}: {error}")]
    Input {
        /// The byte offset up to which the stream was read.
        offset: u64,
        /// The operating system's error.
        error: io::Error,
    },
    /// Writing the lines failed.
    #[error("writing the output failed: {0}")]
    Output(io::Error),
    /// The temporary files for sorting can't be written.
    #[error("no room to sort in {}, which takes as much as the log: {error}; TMPDIR names another directory", .directory.display())]
    Room {
        /// The directory of the files.
        directory: PathBuf,
        /// The operating system's error.
        error: io::Error,
    },
}

/// Prints every record of a stream, and returns the clock of the last. Without a `version`, it is taken from the stream's `EventInit`
/// or guessed from the first records.
pub fn decode(
    input: impl Read,
    output: impl Write,
    form: Form,
    version: Option<Version>,
    report: &mut dyn FnMut(&Notice),
) -> Result<u64, DecodeError> {
    let mut notices = Notices::new(report);
    let mut reader = Reader::new(input);
    let mut output = Output::new(output);
    let version = match version {
        Some(version) => version,
        None => reader.detect().map_err(|error| DecodeError::Input { offset: 0, error })?,
    };
    let decoded = match form {
        Form::Hex => stream(&mut reader, &mut output, version, &mut notices, hex::print),
        Form::Manual(style) => stream(&mut reader, &mut output, version, &mut notices, |line, layout, record| {
            manual::print(line, style, layout, record);
        }),
        Form::Named => sorted(&mut reader, &mut output, version, &mut notices),
    };
    notices.finish(reader.clock());
    decoded.map(|()| reader.clock())
}

/// Prints the records in stream order.
fn stream<R: Read, W: Write>(
    reader: &mut Reader<R>,
    output: &mut Output<W>,
    version: Version,
    notices: &mut Notices<'_>,
    print: impl Fn(&mut Line<'_>, Option<&Layout>, &Record<'_>),
) -> Result<(), DecodeError> {
    let read = each(reader, version, notices, |event| match event {
        Step::Record(record, layout) => output.line(|line| print(line, layout, record)).map_err(DecodeError::Output),
        Step::Wait => output.flush().map_err(DecodeError::Output),
    });
    // Even after damage, everything before it is printed.
    output.flush().map_err(DecodeError::Output).and(read)
}

/// Prints the records in clock order.
fn sorted<R: Read, W: Write>(
    reader: &mut Reader<R>,
    output: &mut Output<W>,
    version: Version,
    notices: &mut Notices<'_>,
) -> Result<(), DecodeError> {
    let directory = std::env::temp_dir();
    let room = |error| DecodeError::Room { directory: directory.clone(), error };
    let mut sorter = Sorter::new(version, &directory, Limits::default());
    let read = each(reader, version, notices, |event| match event {
        Step::Record(record, _) => sorter.add(record).map_err(room),
        Step::Wait => Ok(()),
    });
    // Without temporary files nothing can be printed; after damage, everything before it can.
    if matches!(read, Err(DecodeError::Room { .. })) {
        return read;
    }
    let mut labels = Labels::default();
    let printed = sorter.finish(|record| {
        let layout = version.layout(record.code());
        if let Some(kind) = labels.learn(version, record) {
            notices.report(Notice { clock: record.clock(), offset: None, kind });
        }
        output.line(|line| named::print(line, layout, record, &labels))
    });
    match printed {
        Err(Failed::Files(error)) => Err(room(error)),
        Err(Failed::Each(error)) => Err(DecodeError::Output(error)),
        Ok(()) => output.flush().map_err(DecodeError::Output).and(read),
    }
}

/// A step of reading a stream.
enum Step<'a> {
    /// A record, with its layout if its code is known.
    Record(&'a Record<'a>, Option<&'static Layout>),
    /// The buffer is empty, and the next read may block.
    Wait,
}

/// Reads a stream to its end.
fn each<R: Read>(
    reader: &mut Reader<R>,
    version: Version,
    notices: &mut Notices<'_>,
    mut each: impl FnMut(Step<'_>) -> Result<(), DecodeError>,
) -> Result<(), DecodeError> {
    loop {
        while let Some(record) = reader.buffered().map_err(DecodeError::Damaged)? {
            let layout = version.layout(record.code());
            if layout.is_none_or(|layout| !plain(layout, &record)) {
                examine(version, layout, &record, notices);
            }
            each(Step::Record(&record, layout))?;
        }
        each(Step::Wait)?;
        if !reader.fill().map_err(|error| DecodeError::Input { offset: reader.offset(), error })? {
            break;
        }
    }
    if let End::Stray { offset, bytes } = reader.end().map_err(DecodeError::Damaged)? {
        notices.report(Notice { clock: reader.clock(), offset: Some(offset), kind: Kind::Stray(bytes) });
    }
    Ok(())
}

fn is_string(param: &super::Param) -> bool {
    param.sort == Sort::S
}

/// Returns `true` only for a record that certainly causes no notice. After `false`, [`examine`] decides whether the record causes one.
#[inline]
fn plain(layout: &Layout, record: &Record<'_>) -> bool {
    record.has_all(layout) && layout.code != EventInit::CODE && !layout.params.last().is_some_and(is_string)
}

/// Reports the notices that a record causes.
#[cold]
fn examine(version: Version, layout: Option<&Layout>, record: &Record<'_>, notices: &mut Notices<'_>) {
    let mut report = |kind| notices.report(Notice { clock: record.clock(), offset: Some(record.offset), kind });
    let Some(layout) = layout else { return report(Kind::UnknownCode(record.code())) };
    let event = layout.name;
    if !record.has_all(layout) {
        report(Kind::Short { event, size: record.bytes().len() });
    } else if let Some(string) = layout.params.last().filter(|param| is_string(param)) {
        let from = usize::from(string.offset);
        if record.string(from).is_some_and(|text| from + text.len() == record.bytes().len()) {
            report(Kind::Unterminated { event });
        }
    }
    if version == Version::V2 && layout.code == EventInit::CODE {
        let number = |name| layout.param(name).and_then(|param| record.unsigned(usize::from(param.offset)));
        if let [Some(major), Some(median), Some(minor)] = ["major", "median", "minor"].map(number)
            && [major, median, minor] != version.numbers()
        {
            report(Kind::Version([major, median, minor]));
        }
        if let Some(max) = number("maxCode").filter(|&max| max > u32::from(version.max_code())) {
            report(Kind::NewerCodes { known: version.max_code(), max });
        }
        if let Some(width) = number("wordWidth").filter(|&width| width != 64) {
            report(Kind::WordWidth(width));
        }
    }
}
