//! Numbers and texts, appended to a row or a block.

use crate::clr::Sink;

/// The limit for the name of a thread, in bytes.
pub(super) const LONGEST_NAME: usize = 1 << 15;

pub(super) fn varint(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

pub(super) fn utf8(to: &mut Vec<u8>, text: &str) {
    varint(to, text.len() as u64);
    to.extend_from_slice(text.as_bytes());
}

/// Appends UTF-16 and a NUL.
pub(super) fn utf16(to: &mut Vec<u8>, text: &str) {
    Sink::text(to, text.into());
}
