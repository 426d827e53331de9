//! The types of a log's events, and the length of an event.

use super::layout::{self, Piece};
use crate::events::{Layout, id};
use crate::format::{DATA_END, FIXED_HEAD, Size, VARIABLE_HEAD};

/// The limit for all descriptions together, in bytes.
const MOST_TEXT: usize = 8 << 20;

/// A type of event.
#[derive(Clone, Debug)]
pub struct EventType {
    /// Its number.
    pub id: u16,
    /// The bytes of its payload; `None` if each event stores its own size.
    pub size: Option<u16>,
    /// Its description in the header. Empty if the header does not declare the type.
    pub description: String,
    /// Whether the header declares it.
    pub is_declared: bool,
    pub(super) layout: Option<&'static Layout>,
    /// The text of its events.
    pub(super) text: Box<[Piece]>,
}

impl EventType {
    pub(super) fn declared(id: u16, size: Option<u16>, description: String) -> EventType {
        let layout = layout::declared(id, size);
        let text = layout.map(layout::pieces).unwrap_or_default();
        EventType { id, size, description, is_declared: true, layout, text }
    }

    /// Creates a type that GHC has and the header does not declare.
    fn known(layout: &'static Layout) -> EventType {
        let size = match layout.size {
            Size::Fixed(bytes) => Some(bytes),
            Size::Variable => None,
        };
        let (id, text) = (layout.id, layout::pieces(layout));
        EventType { id, size, description: String::new(), is_declared: false, layout: Some(layout), text }
    }

    /// Returns whether its events begin blocks.
    fn is_block_marker(&self) -> bool {
        self.id == id::BLOCK_MARKER && self.layout.is_some()
    }
}

/// The item with which some bytes begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// An event of `length` bytes; its payload begins after `head` bytes.
    Event { length: usize, head: usize, row: Row },
    /// The end marker: two bytes.
    End,
    /// An event of an unknown type.
    Unknown(u16),
    /// An item that has at least this many bytes.
    More(usize),
}

/// The properties of a type that the scan needs; they are in one table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Row {
    /// The index among the kinds plus one; 0 if there is no such type.
    kind: u32,
    size: u16,
    is_variable: bool,
    pub(super) is_marker: bool,
    pub(super) is_declared: bool,
    /// Whether the fields mark their own ends, so that the length in the event's head is not needed.
    pub(super) ends_itself: bool,
}

/// The types of a log, and the types of GHC that the log does not declare.
#[derive(Debug)]
pub(super) struct Types {
    kinds: Vec<EventType>,
    rows: Vec<Row>,
    text: usize,
}

impl Types {
    /// Creates a table with all types of GHC. Declarations in the header replace them.
    pub(super) fn new() -> Types {
        let mut types = Types { kinds: Vec::new(), rows: Vec::new(), text: 0 };
        // The newest layout of a number is the last.
        for known in layout::known() {
            types.put(EventType::known(known));
        }
        types
    }

    /// Adds a type that the header declares. Returns false if there is no room for more.
    pub(super) fn declare(&mut self, kind: EventType) -> bool {
        self.text += kind.description.len();
        let has_room = self.text <= MOST_TEXT;
        if has_room {
            self.put(kind);
        }
        has_room
    }

    fn put(&mut self, kind: EventType) {
        let index = usize::from(kind.id);
        if index >= self.rows.len() {
            self.rows.resize(index + 1, Row::default());
        }
        let row = &mut self.rows[index];
        let place = if row.kind == 0 { self.kinds.len() } else { row.kind as usize - 1 };
        *row = Row {
            kind: place as u32 + 1,
            size: kind.size.unwrap_or(0),
            is_variable: kind.size.is_none(),
            is_marker: kind.is_block_marker(),
            is_declared: kind.is_declared,
            ends_itself: kind.layout.is_some_and(layout::ends_itself),
        };
        match self.kinds.get_mut(place) {
            Some(older) => *older = kind,
            None => self.kinds.push(kind),
        }
    }

    /// Returns the type of a row that [`step`](Self::step) returned.
    #[inline]
    pub(super) fn kind(&self, row: Row) -> &EventType {
        &self.kinds[row.kind as usize - 1]
    }

    /// Returns the type of the event whose head these bytes begin with, and the length stored in that head.
    pub(super) fn head(&self, bytes: &[u8]) -> Option<(Row, usize)> {
        let id = u16::from_be_bytes(*bytes.first_chunk()?);
        let row = self.rows.get(usize::from(id)).copied().filter(|row| row.kind != 0)?;
        let &[.., high, low] = bytes.first_chunk::<VARIABLE_HEAD>()?;
        Some((row, if row.is_variable { u16::from_be_bytes([high, low]) } else { row.size }.into()))
    }

    /// Returns what these bytes begin with.
    #[inline]
    pub(super) fn step(&self, bytes: &[u8]) -> Step {
        let Some(&id) = bytes.first_chunk() else { return Step::More(2) };
        let id = u16::from_be_bytes(id);
        let row = self.rows.get(usize::from(id)).copied().unwrap_or_default();
        if row.kind == 0 {
            return if id == DATA_END { Step::End } else { Step::Unknown(id) };
        }
        let (head, size) = if row.is_variable {
            let Some(&[.., high, low]) = bytes.first_chunk::<VARIABLE_HEAD>() else { return Step::More(VARIABLE_HEAD) };
            (VARIABLE_HEAD, u16::from_be_bytes([high, low]))
        } else {
            (FIXED_HEAD, row.size)
        };
        let length = head + usize::from(size);
        if length <= bytes.len() { Step::Event { length, head, row } } else { Step::More(length) }
    }
}
