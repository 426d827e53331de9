//! The kinds of blocks, and the header of event and metadata blocks.

/// The kind of a block. The discriminant is its number in version 6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Block {
    /// Properties of the trace: clock, process, machine.
    Trace = 1,
    /// Events.
    Event = 2,
    /// Descriptions of event types.
    Metadata = 3,
    /// The sequence numbers of all threads at one moment; ids defined before it are not used after it.
    SequencePoint = 4,
    /// Stacks, by id.
    Stack = 5,
    /// Descriptions of threads. Version 6 only.
    Thread = 6,
    /// Threads that ended. Version 6 only.
    RemoveThread = 7,
    /// Lists of labels, by id. Version 6 only.
    LabelList = 8,
}

impl Block {
    /// The object type's name in version 4; empty for kinds that only version 6 has.
    pub fn name(self) -> &'static str {
        match self {
            Block::Trace => "Trace",
            Block::Event => "EventBlock",
            Block::Metadata => "MetadataBlock",
            Block::SequencePoint => "SPBlock",
            Block::Stack => "StackBlock",
            Block::Thread | Block::RemoveThread | Block::LabelList => "",
        }
    }
}

/// The length in bytes of the header of an event or metadata block.
pub const BLOCK_HEADER: u16 = 20;
/// The header's flag for compressed event headers.
pub const COMPRESSED: u16 = 1;
