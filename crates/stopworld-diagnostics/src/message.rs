//! The messages of the protocol: requests and replies.
//!
//! ```text
//!   0                                14      16   17  18       20
//!   ├─ "DOTNET_IPC_V1" and a NUL ────┼─ size ┼─ set ┼─ id ┼─ 0 ─┼─ payload … ─┤ to `size`, which counts all of it
//! ```
//!
//! All numbers are little-endian. A string is its length in UTF-16 units, including the final NUL, as 32 bits, then the
//! units; length 0 is an absent string. An array is the number of its items, then the items. There is no padding.
//!
//! A client may send any bytes. [`Payload`] returns numbers, strings and items one by one, and never reads beyond the
//! received bytes. It allocates nothing for a length field before it has checked that the bytes exist.

/// The first bytes of a message.
pub(crate) const MAGIC: [u8; 14] = *b"DOTNET_IPC_V1\0";
/// The size of the header before the payload, in bytes.
pub(crate) const HEADER_BYTES: usize = 20;

/// The sets of commands.
pub(crate) mod set {
    pub(crate) const DUMP: u8 = 1;
    pub(crate) const EVENT_PIPE: u8 = 2;
    pub(crate) const PROFILER: u8 = 3;
    pub(crate) const PROCESS: u8 = 4;
    /// The commands that only this project has.
    pub(crate) const STOPWORLD: u8 = 0xf0;
    /// The set of replies: id 0 is success, 0xff is an error.
    pub(crate) const SERVER: u8 = 0xff;
}

/// The ids of [`set::EVENT_PIPE`]; 2 to 7 are the six versions of CollectTracing.
pub(crate) const STOP_TRACING: u8 = 1;
pub(crate) const COLLECT_TRACING: std::ops::RangeInclusive<u8> = 2..=7;
/// The id of [`set::STOPWORLD`] that requests the numbers of the worlds: an array of u64.
pub(crate) const WORLDS: u8 = 0;
/// The id of an error among replies.
const ERROR: u8 = 0xff;

/// The error with which a server refuses a request, with the error numbers of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[repr(u32)]
pub enum Refusal {
    /// The message is too short, or its contents are invalid.
    #[error("the runtime could not parse the request")]
    BadEncoding = 0x8013_1384,
    /// The command does not exist.
    #[error("the runtime does not know the command")]
    UnknownCommand = 0x8013_1385,
    /// The message does not begin with the protocol's magic number.
    #[error("the runtime uses another version of the protocol")]
    UnknownMagic = 0x8013_1386,
    /// The command failed.
    #[error("the runtime failed to execute the command")]
    Fail = 0x8000_4005,
    /// This runtime does not support the command.
    #[error("the runtime does not support the command")]
    NotSupported = 0x8013_1515,
}

/// Encodes a message with this payload. Returns `None` if it is too long.
pub(crate) fn message(set: u8, id: u8, payload: &[u8]) -> Option<Vec<u8>> {
    let size = u16::try_from(HEADER_BYTES + payload.len()).ok()?;
    let mut bytes = Vec::with_capacity(size.into());
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&size.to_le_bytes());
    bytes.extend_from_slice(&[set, id, 0, 0]);
    bytes.extend_from_slice(payload);
    Some(bytes)
}

/// Encodes a successful reply.
pub(crate) fn well(payload: &[u8]) -> Vec<u8> {
    // Replies are short: the longest one has a command line, which is truncated.
    message(set::SERVER, 0, payload).unwrap_or_else(|| refused(Refusal::Fail))
}

/// Encodes an error reply.
pub(crate) fn refused(why: Refusal) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + 4);
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&((HEADER_BYTES + 4) as u16).to_le_bytes());
    bytes.extend_from_slice(&[set::SERVER, ERROR, 0, 0]);
    bytes.extend_from_slice(&(why as u32).to_le_bytes());
    bytes
}

/// The header of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) set: u8,
    pub(crate) id: u8,
    /// The number of bytes of the payload.
    pub(crate) payload: usize,
}

impl Header {
    /// Parses a header. The checks have the same order as in the .NET runtime's server.
    pub(crate) fn parse(bytes: &[u8; HEADER_BYTES]) -> Result<Header, Refusal> {
        // The final NUL and the two reserved bytes are not checked.
        if bytes[..13] != MAGIC[..13] {
            return Err(Refusal::UnknownMagic);
        }
        let size = usize::from(u16::from_le_bytes([bytes[14], bytes[15]]));
        let payload = size.checked_sub(HEADER_BYTES).ok_or(Refusal::BadEncoding)?;
        Ok(Header { set: bytes[16], id: bytes[17], payload })
    }

    /// Returns whether this is the header of an error reply.
    pub(crate) fn is_error(&self) -> bool {
        self.set == set::SERVER && self.id != 0
    }
}

/// The unread rest of a payload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Payload<'a>(&'a [u8]);

/// The result of reading a value: an error if the payload is too short or invalid.
type Read<T> = Result<T, Refusal>;

impl<'a> Payload<'a> {
    pub(crate) fn of(bytes: &'a [u8]) -> Payload<'a> {
        Payload(bytes)
    }

    fn take<const N: usize>(&mut self) -> Read<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk().ok_or(Refusal::BadEncoding)?;
        self.0 = rest;
        Ok(*first)
    }

    pub(crate) fn u8(&mut self) -> Read<u8> {
        Ok(self.take::<1>()?[0])
    }

    pub(crate) fn u32(&mut self) -> Read<u32> {
        self.take().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Read<u64> {
        self.take().map(u64::from_le_bytes)
    }

    pub(crate) fn bytes<const N: usize>(&mut self) -> Read<[u8; N]> {
        self.take()
    }

    /// Reads a Boolean: one byte.
    pub(crate) fn bool(&mut self) -> Read<bool> {
        Ok(self.u8()? != 0)
    }

    /// Reads a string. An absent string is returned as an empty one.
    pub(crate) fn string(&mut self) -> Read<String> {
        let units = self.u32()? as usize;
        if units == 0 {
            return Ok(String::new());
        }
        let bytes = units.checked_mul(2).filter(|bytes| *bytes <= self.0.len()).ok_or(Refusal::BadEncoding)?;
        let (text, rest) = self.0.split_at(bytes);
        self.0 = rest;
        let mut units: Vec<u16> = text.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
        if units.pop() != Some(0) {
            return Err(Refusal::BadEncoding);
        }
        Ok(String::from_utf16_lossy(&units))
    }

    /// Reads the number of items of an array. Fails if it exceeds `most`, or if the rest of the payload is too short for that
    /// many items of `least` bytes each.
    pub(crate) fn count(&mut self, least: usize, most: usize) -> Read<usize> {
        let count = self.u32()? as usize;
        let fits = count <= most && count.checked_mul(least).is_some_and(|bytes| bytes <= self.0.len());
        if fits { Ok(count) } else { Err(Refusal::BadEncoding) }
    }
}

/// Appends a string with its NUL. An empty string has length 1, because real clients do not accept length 0 in a reply.
pub(crate) fn put_string(to: &mut Vec<u8>, text: &str) {
    let units: Vec<u16> = text.encode_utf16().filter(|unit| *unit != 0).chain([0]).collect();
    to.extend_from_slice(&(units.len() as u32).to_le_bytes());
    units.iter().for_each(|unit| to.extend_from_slice(&unit.to_le_bytes()));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The bytes are the examples in the documentation of the protocol.
    #[test]
    fn replies_are_the_documented_bytes() {
        let begin = b"DOTNET_IPC_V1\0";
        assert_eq!(well(&[]), [&begin[..], &[0x14, 0, 0xff, 0, 0, 0]].concat());
        assert_eq!(
            refused(Refusal::UnknownCommand),
            [&begin[..], &[0x18, 0, 0xff, 0xff, 0, 0, 0x85, 0x13, 0x13, 0x80]].concat()
        );
    }

    #[test]
    fn an_absent_string_and_an_empty_one_are_both_empty() {
        assert_eq!(Payload::of(&[0; 4]).string(), Ok(String::new()));
        assert_eq!(Payload::of(&[1, 0, 0, 0, 0, 0]).string(), Ok(String::new()));
        let mut written = Vec::new();
        put_string(&mut written, "");
        assert_eq!(written, [1, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn a_string_longer_than_the_payload_is_refused() {
        for bytes in [&[2, 0, 0, 0, 0, 0][..], &[0xff; 8], &[0, 0, 0, 0x80, 0, 0], &[1, 0, 0, 0, 0x61, 0]] {
            assert_eq!(Payload::of(bytes).string(), Err(Refusal::BadEncoding), "{bytes:?}");
        }
    }

    #[test]
    fn a_message_that_is_too_long_is_not_encoded() {
        assert!(message(4, 0, &[0; 65_535 - HEADER_BYTES]).is_some());
        assert!(message(4, 0, &[0; 65_536 - HEADER_BYTES]).is_none());
    }

    proptest! {
        #[test]
        fn written_values_are_read_back(text in "[^\0]{0,40}", number: u64) {
            let mut bytes = Vec::new();
            put_string(&mut bytes, &text);
            bytes.extend_from_slice(&number.to_le_bytes());
            let mut payload = Payload::of(&bytes);
            prop_assert_eq!(payload.string(), Ok(text));
            prop_assert_eq!(payload.u64(), Ok(number));
            prop_assert_eq!(payload.u8(), Err(Refusal::BadEncoding));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let mut payload = Payload::of(&bytes);
            while payload.string().is_ok() && payload.count(12, 1000).is_ok() && payload.u8().is_ok() {}
        }
    }
}
