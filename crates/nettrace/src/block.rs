//! The kinds of blocks, and what those of events and of descriptions begin with.

/// A kind: its number is version 6's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "readers"), allow(dead_code, reason = "a trace of our own has neither stacks nor labels"))]
pub(super) enum Block {
    Trace = 1,
    Event = 2,
    Metadata = 3,
    SequencePoint = 4,
    Stack = 5,
    Thread = 6,
    RemoveThread = 7,
    LabelList = 8,
}

impl Block {
    /// Its name in version 4.
    pub(super) fn name(self) -> &'static str {
        match self {
            Block::Trace => "Trace",
            Block::Event => "EventBlock",
            Block::Metadata => "MetadataBlock",
            Block::SequencePoint => "SPBlock",
            Block::Stack => "StackBlock",
            // Only version 6 has them.
            Block::Thread | Block::RemoveThread | Block::LabelList => "",
        }
    }
}

/// The length of the head of a block of events or of descriptions, as all writers make it.
pub(super) const BLOCK_HEADER: u16 = 20;
/// Its flag for blobs with short headers.
pub(super) const COMPRESSED: u16 = 1;
