//! Reads the blocks of a file, with a buffer that grows only with bytes that are present.
//!
//! ```text
//! version 4 (and "5")                                    version 6
//!   "Nettrace" 20 "!FastSerialization.1"                   "Nettrace" 0 6 minor
//!   5 5 1 version reader length name 6 ┐                   size:24 kind:8 ┐
//!     size, 0 to 3 zeros, size bytes   │ an object           size bytes   ┘ a block
//!   6                                  ┘                   …
//!   … 1                                                    0:24 0:8
//! ```
//!
//! The zeros align an object's bytes to a multiple of four in the file. The trace's description has neither size nor zeros:
//! it is always 48 bytes.
//!
//! A block need not fit into memory: it is read in *windows*, the part of it that the buffer
//! holds, and a window contains one or more whole items (events, descriptions, stacks). The buffer begins with
//! [`BUFFER`] bytes and doubles for an item that does not fit, up to [`LARGEST_ITEM`]; before that, the item's length is compared with the
//! rest of its block. So a length stated in the file allocates no memory by itself, and reading a file of a few bytes takes the memory of a
//! few bytes (`.format.hostile`).

use std::io::{self, Read};

use super::Container;
use super::bytes::ItemError;
use super::damage::{Damage, DamageKind};
use trace_io::source::Source;

/// The number of bytes read at once: so large that the time of the system calls is negligible, and small enough for the second-level cache.
const BUFFER: usize = 256 << 10;
/// The largest item that is read, in bytes: the size of the largest block of version 6.
const LARGEST_ITEM: usize = 16 << 20;

const MAGIC: &[u8; 8] = b"Nettrace";
const SERIALIZER: &[u8; 24] = b"\x14\0\0\0!FastSerialization.1";
/// The bytes of a trace's description in version 4.
const TRACE_4: u64 = 48;

/// The contents of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Trace,
    Event,
    Metadata,
    SequencePoint,
    Stack,
    Thread,
    RemoveThread,
    LabelList,
    Unknown,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Trace => "the description of the trace",
            Kind::Event => "a block of events",
            Kind::Metadata => "a block of descriptions",
            Kind::SequencePoint => "a sequence point",
            Kind::Stack => "a block of stacks",
            Kind::Thread => "a block of threads",
            Kind::RemoveThread => "a block of ended threads",
            Kind::LabelList => "a block of labels",
            Kind::Unknown => "a block of an unknown kind",
        }
    }
}

/// The block that is being read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pub(super) kind: Kind,
    /// The byte offset of its header.
    pub(super) began: u64,
}

/// Why a block could not be read to its end.
#[derive(Clone, Copy, Debug)]
pub(super) enum BlockError {
    /// The rest of the block can't be read; the next one can.
    Block(Damage),
    /// Nothing more can be read.
    File(Damage),
}

/// Reads a file block by block.
#[derive(Debug)]
pub(super) struct File<R> {
    source: Source<R>,
    container: Container,
    block: Block,
    /// The number of bytes of the block that have not been read.
    left: u64,
    /// The number of blocks begun.
    pub(super) blocks: u64,
}

impl<R: Read> File<R> {
    /// Opens a file, and determines its container from its first bytes.
    pub(super) fn open(input: R) -> (File<R>, Result<(), Damage>) {
        let (source, block) = (Source::new(input, BUFFER), Block { kind: Kind::Unknown, began: 0 });
        let mut file = File { source, container: Container::V4, block, left: 0, blocks: 0 };
        let opened = file.first_bytes();
        (file, opened)
    }

    fn first_bytes(&mut self) -> Result<(), Damage> {
        const WHAT: &str = "the file's header";
        let here = |kind| Err(Damage { offset: 0, kind });
        self.has(MAGIC.len() + SERIALIZER.len())?;
        let bytes = self.source.bytes();
        if bytes.starts_with(SERIALIZER) {
            return here(DamageKind::NetPerf);
        }
        if !MAGIC.starts_with(&bytes[..bytes.len().min(MAGIC.len())]) || bytes.is_empty() {
            return here(DamageKind::Magic);
        }
        self.take_header(MAGIC.len(), 0, WHAT)?;
        let [first] = self.number(0, WHAT)?;
        if first != 0 {
            let offset = self.source.offset() - 4;
            let name: [u8; 20] = self.header_bytes(0, WHAT)?;
            if first != 20 || name != SERIALIZER[4..] {
                return Err(Damage { offset, kind: DamageKind::Serializer });
            }
            return Ok(());
        }
        let offset = self.source.offset();
        let [major, _minor] = self.number(0, WHAT)?;
        if major != 6 {
            return Err(Damage { offset, kind: DamageKind::Version(major) });
        }
        self.container = Container::V6;
        Ok(())
    }

    pub(super) fn container(&self) -> Container {
        self.container
    }

    /// The byte offset of the next byte.
    pub(super) fn offset(&self) -> u64 {
        self.source.offset()
    }

    /// Returns the next block, skipping the rest of the previous one; `None` at the end marker.
    pub(super) fn next(&mut self) -> Result<Option<Block>, Damage> {
        self.finish()?;
        let began = self.source.offset();
        if !self.has(1)? {
            return Err(Damage { offset: began, kind: DamageKind::NoEnd });
        }
        let kind = match self.container {
            Container::V4 => self.object(began)?,
            Container::V6 => self.block(began)?,
        };
        Ok(kind.map(|kind| {
            self.block = Block { kind, began };
            self.blocks += 1;
            self.block
        }))
    }

    /// Skips the rest of the block, and the tag after it.
    fn finish(&mut self) -> Result<(), Damage> {
        let Block { kind, began } = self.block;
        self.left = self.source.skip(self.left).map_err(|error| self.unreadable(&error))?;
        if self.left > 0 {
            return Err(self.cut(self.left, began, kind.name()));
        }
        if self.container == Container::V4 && self.blocks > 0 {
            self.tag(6, began, "the end of an object")?;
        }
        Ok(())
    }

    /// The header of an object of version 4.
    fn object(&mut self, began: u64) -> Result<Option<Kind>, Damage> {
        const WHAT: &str = "an object's header";
        if self.source.bytes()[0] == 1 {
            self.source.take(1);
            return Ok(None);
        }
        self.tag(5, began, "the beginning of an object, or 1 for the end of the file")?;
        self.tag(5, began, "the beginning of an object's type")?;
        self.tag(1, began, "no type of the type")?;
        let versions = self.source.offset();
        let [version, needs, length] = self.number(began, WHAT)?;
        let names = self.source.offset() - 4;
        let kind = match length {
            5 => (self.header_bytes::<5>(began, WHAT)? == *b"Trace").then_some(Kind::Trace),
            7 => (self.header_bytes::<7>(began, WHAT)? == *b"SPBlock").then_some(Kind::SequencePoint),
            10 => match &self.header_bytes::<10>(began, WHAT)? {
                b"EventBlock" => Some(Kind::Event),
                b"StackBlock" => Some(Kind::Stack),
                _ => None,
            },
            13 => (self.header_bytes::<13>(began, WHAT)? == *b"MetadataBlock").then_some(Kind::Metadata),
            _ => None,
        };
        let kind = kind.ok_or(Damage { offset: names, kind: DamageKind::ObjectType })?;
        let newest = if kind == Kind::Trace { 4 } else { 2 };
        if version != newest || needs > newest {
            let unknown = if needs > newest { needs } else { version };
            return Err(Damage { offset: versions, kind: DamageKind::ObjectVersion(unknown as i32) });
        }
        self.tag(6, began, "the end of an object's type")?;
        if kind == Kind::Trace {
            self.left = TRACE_4;
            return Ok(Some(kind));
        }
        let [size] = self.number(began, WHAT)?;
        let padding = (self.source.offset().wrapping_neg() & 3) as usize;
        self.take_header(padding, began, WHAT)?;
        self.left = u64::from(size);
        Ok(Some(kind))
    }

    /// The header of a block of version 6.
    fn block(&mut self, began: u64) -> Result<Option<Kind>, Damage> {
        let [header] = self.number(began, "a block's header")?;
        self.left = u64::from(header & 0xFF_FFFF);
        Ok(match header >> 24 {
            0 => return Ok(None),
            1 => Some(Kind::Trace),
            2 => Some(Kind::Event),
            3 => Some(Kind::Metadata),
            4 => Some(Kind::SequencePoint),
            5 => Some(Kind::Stack),
            6 => Some(Kind::Thread),
            7 => Some(Kind::RemoveThread),
            8 => Some(Kind::LabelList),
            _ => Some(Kind::Unknown),
        })
    }

    /// Continues with the block: passes a window of it to `each` (with the file offset of the window's first byte, and the number of bytes
    /// from there to the end of the block), which returns how many bytes it has read. Returns false at the end of the block.
    #[inline]
    pub(super) fn window(
        &mut self,
        what: &'static str,
        each: impl FnOnce(&[u8], u64, u64) -> Result<usize, ItemError>,
    ) -> Result<bool, BlockError> {
        if self.left == 0 {
            return Ok(false);
        }
        let bytes = self.source.bytes();
        let bytes = &bytes[..bytes.len().min(usize::try_from(self.left).unwrap_or(usize::MAX))];
        let offset = self.source.offset();
        let stuck = match each(bytes, offset, self.left) {
            Ok(read) => {
                debug_assert!(0 < read && read <= bytes.len());
                self.source.take(read);
                self.left -= read as u64;
                return Ok(true);
            }
            Err(stuck) => stuck,
        };
        let present = bytes.len();
        match stuck {
            ItemError::Wrong(kind) => Err(BlockError::Block(Damage { offset, kind })),
            ItemError::Short if present as u64 == self.left => {
                Err(BlockError::Block(Damage { offset, kind: DamageKind::Overrun(what) }))
            }
            ItemError::Short if present >= LARGEST_ITEM => {
                Err(BlockError::Block(Damage { offset, kind: DamageKind::TooLarge(what) }))
            }
            ItemError::Short => {
                if self.source.more().map_err(|error| BlockError::File(self.unreadable(&error)))? {
                    return Ok(true);
                }
                let missing = self.left - present as u64;
                Err(BlockError::File(self.cut(missing, self.block.began, self.block.kind.name())))
            }
        }
    }

    /// Reads a fixed number of bytes.
    pub(super) fn fixed<T>(
        &mut self,
        what: &'static str,
        mut read: impl FnMut(&mut super::bytes::Bytes<'_>) -> Result<T, ItemError>,
    ) -> Result<T, BlockError> {
        let mut value = None;
        while value.is_none() {
            let went_on = self.window(what, |window, _, _| {
                let mut bytes = super::bytes::Bytes::new(window);
                value = Some(read(&mut bytes)?);
                Ok(window.len() - bytes.len())
            })?;
            if !went_on {
                let damage = Damage { offset: self.offset(), kind: DamageKind::Overrun(what) };
                return Err(BlockError::Block(damage));
            }
        }
        value.ok_or(BlockError::Block(Damage { offset: self.offset(), kind: DamageKind::Overrun(what) }))
    }

    fn cut(&self, missing: u64, began: u64, what: &'static str) -> Damage {
        Damage { offset: self.source.reached(), kind: DamageKind::Cut { what, began, missing } }
    }

    fn unreadable(&self, error: &io::Error) -> Damage {
        Damage { offset: self.source.reached(), kind: DamageKind::Input(error.kind()) }
    }

    fn has(&mut self, count: usize) -> Result<bool, Damage> {
        self.source.has(count).map_err(|error| self.unreadable(&error))
    }

    fn take_header(&mut self, count: usize, began: u64, what: &'static str) -> Result<&[u8], Damage> {
        if !self.has(count)? {
            let missing = count - self.source.bytes().len();
            return Err(self.cut(missing as u64, began, what));
        }
        Ok(self.source.take(count))
    }

    fn header_bytes<const N: usize>(&mut self, began: u64, what: &'static str) -> Result<[u8; N], Damage> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.take_header(N, began, what)?);
        Ok(bytes)
    }

    fn number<const N: usize>(&mut self, began: u64, what: &'static str) -> Result<[u32; N], Damage> {
        let mut numbers = [0; N];
        for number in &mut numbers {
            *number = u32::from_le_bytes(self.header_bytes(began, what)?);
        }
        Ok(numbers)
    }

    fn tag(&mut self, expected: u8, began: u64, what: &'static str) -> Result<(), Damage> {
        let offset = self.source.offset();
        let [found] = self.header_bytes(began, what)?;
        if found == expected { Ok(()) } else { Err(Damage { offset, kind: DamageKind::Tag { expected, found, what } }) }
    }
}
