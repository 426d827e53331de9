//! Names of threads as plain data.
//!
//! The report of a collection names the slowest thread. It is made in the stopped world, where nothing may be
//! allocated (`.stop.no-malloc`). So a name is an array of bytes, copied at attach.

use std::fmt;

/// A thread's name: at most 31 bytes of UTF-8. `Copy`, and allocates nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct ThreadName {
    length: u8,
    bytes: [u8; 31],
}

impl ThreadName {
    /// The empty name.
    pub const EMPTY: Self = Self { length: 0, bytes: [0; 31] };

    /// Copies a name. A name longer than 31 bytes is cut at a character boundary.
    pub fn new(name: &str) -> Self {
        let mut length = name.len().min(31);
        while !name.is_char_boundary(length) {
            length -= 1;
        }
        let mut bytes = [0; 31];
        bytes[..length].copy_from_slice(&name.as_bytes()[..length]);
        Self { length: length as u8, bytes }
    }

    pub(crate) fn to_words(self) -> [u64; 4] {
        let mut raw = [0; 32];
        raw[0] = self.length;
        raw[1..].copy_from_slice(&self.bytes);
        let (words, _) = raw.as_chunks::<8>();
        std::array::from_fn(|i| u64::from_ne_bytes(words[i]))
    }

    pub(crate) fn from_words(words: [u64; 4]) -> Self {
        let mut raw = [0; 32];
        for (bytes, word) in raw.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *bytes = word.to_ne_bytes();
        }
        let [length, bytes @ ..] = raw;
        Self { length, bytes }
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        // Only `new` makes names with bytes, and it cuts at character boundaries. The fallback is for a name that a debugger
        // has overwritten.
        std::str::from_utf8(&self.bytes[..usize::from(self.length).min(31)]).unwrap_or("?")
    }
}

impl Default for ThreadName {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl From<&str> for ThreadName {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}

impl fmt::Display for ThreadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for ThreadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::ThreadName;
    use rstest::rstest;

    #[rstest]
    #[case("main", "main")]
    #[case("", "")]
    #[case("exactly-thirty-one-bytes-long-x", "exactly-thirty-one-bytes-long-x")]
    #[case("thirty-bytes-and-then-a-letter-é", "thirty-bytes-and-then-a-letter-")]
    fn a_name_is_cut_at_a_character(#[case] given: &str, #[case] kept: &str) {
        assert_eq!(ThreadName::new(given).as_str(), kept);
        assert_eq!(ThreadName::from_words(ThreadName::new(given).to_words()).as_str(), kept);
    }
}
