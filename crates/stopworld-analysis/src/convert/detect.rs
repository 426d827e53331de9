//! Detects the format of a trace from its first bytes.

use std::io::{self, Cursor, Read};

use super::conversion::{ConvertError, FirstBytes, Source, Target};
use mps_telemetry::detect::may_be_a_stream;
use nettrace::Container;

/// The number of bytes that are examined.
const HEAD: usize = 64;
/// The number of these bytes that an error message shows.
const SHOWN: usize = 8;

/// Returns the format, and the input, which can still be read from its first byte.
pub(crate) fn detect<R: Read>(mut input: R) -> Result<(Source, impl Read), ConvertError> {
    let mut head = Vec::with_capacity(HEAD);
    let read = input.by_ref().take(HEAD as u64).read_to_end(&mut head);
    read.map_err(|error| ConvertError::Input { offset: head.len() as u64, error })?;
    let source = of(&head)?;
    Ok((source, Cursor::new(head).chain(input)))
}

/// Returns the format of a trace among those that [`convert`](super::convert) writes; `None` for a GHC eventlog.
///
/// # Errors
/// The input can't be read, or is not a trace.
pub fn target_of<R: Read>(input: R) -> Result<Option<Target>, ConvertError> {
    Ok(match detect(input)?.0 {
        // The container may be either.
        Source::Nettrace => Some(Target::Nettrace(Container::V4)),
        Source::Mps => Some(Target::Mps),
        Source::Eventlog => None,
    })
}

fn of(head: &[u8]) -> Result<Source, ConvertError> {
    const NETTRACE: &[u8] = b"Nettrace";
    const HPROF: &[u8] = b"JAVA PROFILE 1.0";
    const V8: &[u8] = b"{\"snapshot\"";
    const NETPERF: &[u8] = b"\x14\0\0\0!FastSerialization.1";
    let mut marks = head.iter().filter(|byte| !byte.is_ascii_whitespace());
    match (marks.next(), marks.next()) {
        _ if head.is_empty() => Err(ConvertError::Empty),
        _ if head.starts_with(NETTRACE) => Ok(Source::Nettrace),
        // An old format: the .nettrace reader gives the best error for it.
        _ if head.starts_with(NETPERF) => Ok(Source::Nettrace),
        _ if head.starts_with(HPROF) || head.starts_with(V8) => Err(ConvertError::Heap),
        _ if head.starts_with(b"hdrb") => Ok(Source::Eventlog),
        _ if may_be_a_stream(head) => Ok(Source::Mps),
        (Some(b'['), Some(b'{' | b']')) | (Some(b'{'), Some(b'"')) => Err(ConvertError::Timeline),
        _ => Err(ConvertError::Unknown(FirstBytes(head[..head.len().min(SHOWN)].to_owned()))),
    }
}

/// Wraps a read error of the input.
pub(crate) fn unreadable(offset: u64, error: io::Error) -> ConvertError {
    ConvertError::Input { offset, error }
}
