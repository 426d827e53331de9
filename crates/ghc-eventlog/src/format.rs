//! The layout of an eventlog as data: the markers of its parts and the sizes of its heads.
//!
//! ```text
//!   hdrb
//!     hetb  (etb id, size, description, extra ete)…  hete        the types that the file uses
//!   hdre
//!   datb
//!     id, time, [length,] payload                                an event; the length if the type has no fixed size
//!     …
//!     block: size, end time, capability                          an event that assigns the following events, `size` bytes with itself, to a capability
//!     …
//!   ffff                                                         the end
//! ```
//!
//! Everything is big-endian and unpadded; times are nanoseconds since the program began. A file declares its
//! types with their sizes, so that a reader can skip types that it does not know. [`events`](crate::events) has the table of types.

/// Begins the header.
pub const HEADER_BEGIN: [u8; 4] = *b"hdrb";
/// Ends the header.
pub const HEADER_END: [u8; 4] = *b"hdre";
/// Begins the list of types.
pub const TYPES_BEGIN: [u8; 4] = *b"hetb";
/// Ends the list of types.
pub const TYPES_END: [u8; 4] = *b"hete";
/// Begins the declaration of a type.
pub const TYPE_BEGIN: [u8; 4] = *b"etb\0";
/// Ends the declaration of a type.
pub const TYPE_END: [u8; 4] = *b"ete\0";
/// Begins the events.
pub const DATA_BEGIN: [u8; 4] = *b"datb";
/// Ends the events. It is in the place where an event would have its id.
pub const DATA_END: u16 = 0xffff;
/// The declared size of a type whose events each store their own length.
pub const VARIABLE: u16 = 0xffff;
/// The capability of a block that belongs to no capability.
pub const NO_CAPABILITY: u16 = 0xffff;

/// Bytes before the payload of an event of fixed size: id and time.
pub const FIXED_HEAD: usize = 2 + 8;
/// Bytes before the payload of an event of variable size: id, time and length.
pub const VARIABLE_HEAD: usize = FIXED_HEAD + 2;
/// Bytes of a block marker, which counts in the size of its block.
pub const BLOCK_HEAD: usize = FIXED_HEAD + 14;
/// The longest payload, in bytes.
pub const MOST_PAYLOAD: usize = 0xffff;
/// The deepest stack of cost centres: its depth is a byte.
pub const MOST_CENTRES: usize = 0xff;
/// The number of restrictions of a heap profile.
pub const FILTERS: usize = 7;

/// The size of a type's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Always this many bytes.
    Fixed(u16),
    /// Each event stores its own size.
    Variable,
}
