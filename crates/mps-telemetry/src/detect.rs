//! Detects the version of a stream.
//! If the Arena category is on, a stream of version 2.0.0 begins with an `EventInit` record, whose code no event of version 1.0.0 has. The
//! version of other streams is detected from their records: every event has one size (with a string, the size follows from the string's
//! length), so a record whose code and size fit only one version counts for that version. Most codes denote different events in the two
//! versions, so a dozen records are enough. Two or three records may fit both versions; the stream then counts as 2.0.0.
//! A caller that knows the version passes it.

use super::format::{HEADER, LARGEST_RECORD, Sort, Version};
use super::record::Record;
use super::typed::TypedRecord;
use super::v2::EventInit;

/// Returns the version, if the first record states it.
pub(super) fn announced(bytes: &[u8]) -> Option<Version> {
    let &[code_low, code_high, size_low, size_high, ..] = bytes else { return None };
    let code = u16::from_le_bytes([code_low, code_high]);
    let size = usize::from(u16::from_le_bytes([size_low, size_high]));
    (code == EventInit::CODE && size == EventInit::LAYOUT.size(0)).then_some(Version::V2)
}

/// Returns the version that more of these records fit.
pub(super) fn guess(bytes: &[u8]) -> Version {
    if fitting(bytes, Version::V1) > fitting(bytes, Version::V2) { Version::V1 } else { Version::V2 }
}

/// Returns whether these bytes may begin a stream: one of the versions has an event with the first record's code and size.
pub fn may_be_a_stream(bytes: &[u8]) -> bool {
    let Some((header, _)) = bytes.split_first_chunk::<HEADER>() else { return false };
    let (code, size) =
        (u16::from_le_bytes([header[0], header[1]]), usize::from(u16::from_le_bytes([header[2], header[3]])));
    let is_known = Version::ALL.into_iter().any(|version| version.layout(code).is_some());
    is_known && (HEADER..=LARGEST_RECORD).contains(&size)
}

/// Counts the records that fit this version, up to the first damage.
fn fitting(mut bytes: &[u8], version: Version) -> usize {
    let mut count = 0;
    while let [_, _, low, high, ..] = *bytes {
        let size = usize::from(u16::from_le_bytes([low, high]));
        // `.format.hostile`: a size must advance, and must not exceed the bytes that are there.
        if !(HEADER..=LARGEST_RECORD.min(bytes.len())).contains(&size) {
            break;
        }
        let (record, rest) = bytes.split_at(size);
        count += usize::from(fits(Record::kept(record), version));
        bytes = rest;
    }
    count
}

fn fits(record: Record<'_>, version: Version) -> bool {
    let Some(layout) = version.layout(record.code()) else { return false };
    let string = match layout.params.last() {
        Some(last) if last.sort == Sort::S => record.string(usize::from(last.offset)).map_or(0, <[u8]>::len),
        _ => 0,
    };
    record.bytes().len() == layout.size(string)
}
