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

/// The bits of the first byte of a compressed event header. Each states which fields follow; the others equal those of the previous
/// event in the block.
pub mod header_bit {
    /// The type.
    pub const KIND: u8 = 0x01;
    /// The increase of the sequence number minus 1, the capturing thread, and the processor.
    pub const CAPTURE: u8 = 0x02;
    /// The thread.
    pub const THREAD: u8 = 0x04;
    /// The stack.
    pub const STACK: u8 = 0x08;
    /// The activity in version 4, the label list in version 6.
    pub const ACTIVITY: u8 = 0x10;
    /// The related activity; version 4 only.
    pub const RELATED: u8 = 0x20;
    /// No later event of the file has an earlier time. This bit adds no field.
    pub const SORTED: u8 = 0x40;
    /// The size of the payload.
    pub const LENGTH: u8 = 0x80;
}

/// The processor of an event whose processor is not known.
pub const NO_PROCESSOR: u32 = u32::MAX;
