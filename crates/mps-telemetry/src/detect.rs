//! Which dialect a stream is in.
//!
//! A stream of 2.0.0 begins with an `EventInit` record, if its Arena category is on; there is no such code in 1.0.0. For
//! the others there is nothing to go by but the records themselves: each event has one size (a string's follows from
//! its length), so a record whose code and size fit in one version but not in the other is a vote. Codes were dealt anew
//! between the two, and a dozen records settle it; a stream of two or three may fit both, and is then taken for the newer.
//! Who knows better says so.

use super::format::{EVENT_INIT, HEADER, LARGEST_RECORD, Sort, Version};
use super::record::Record;

/// The version, if the first record says it.
pub(super) fn announced(bytes: &[u8]) -> Option<Version> {
    let &[code_low, code_high, size_low, size_high, ..] = bytes else { return None };
    let code = u16::from_le_bytes([code_low, code_high]);
    let size = usize::from(u16::from_le_bytes([size_low, size_high]));
    let init = Version::V2.layout(EVENT_INIT)?;
    (code == EVENT_INIT && size == init.size(0)).then_some(Version::V2)
}

/// The version that more of these records fit.
pub(super) fn guess(bytes: &[u8]) -> Version {
    if fitting(bytes, Version::V1) > fitting(bytes, Version::V2) { Version::V1 } else { Version::V2 }
}

/// Whether these bytes may be a stream's first: a record begins here that one of the versions knows.
pub fn may_be_a_stream(bytes: &[u8]) -> bool {
    let Some((header, _)) = bytes.split_first_chunk::<HEADER>() else { return false };
    let (code, size) =
        (u16::from_le_bytes([header[0], header[1]]), usize::from(u16::from_le_bytes([header[2], header[3]])));
    let is_known = Version::ALL.into_iter().any(|version| version.layout(code).is_some());
    is_known && (HEADER..=LARGEST_RECORD).contains(&size)
}

/// How many of the records are as this version has them. Damage ends the count.
fn fitting(mut bytes: &[u8], version: Version) -> usize {
    let mut count = 0;
    while let [_, _, low, high, ..] = *bytes {
        let size = usize::from(u16::from_le_bytes([low, high]));
        // `.format.hostile`: a size that moves on, and not beyond what is there.
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
