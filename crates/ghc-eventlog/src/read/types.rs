//! The types of a log's events, and how long an event is.

use super::layout::{self, BLOCK_MARKER, Layout, Piece, Size};
use crate::format::{DATA_END, FIXED_HEAD, VARIABLE_HEAD};

/// Memory for all descriptions.
const MOST_TEXT: usize = 8 << 20;

/// A type of event.
#[derive(Clone, Debug)]
pub struct EventType {
    /// Its number.
    pub id: u16,
    /// The bytes of its payload; none if each event says how many it has.
    pub size: Option<u16>,
    /// What the header calls it. Empty for one that the header does not declare.
    pub description: String,
    /// Whether the header has it.
    pub is_declared: bool,
    pub(super) layout: Option<&'static Layout>,
    /// What is said of its events.
    pub(super) text: Box<[Piece]>,
}

impl EventType {
    pub(super) fn declared(id: u16, size: Option<u16>, description: String) -> EventType {
        let layout = layout::declared(id, size);
        let text = layout.map(Layout::pieces).unwrap_or_default();
        EventType { id, size, description, is_declared: true, layout, text }
    }

    /// One of GHC's that no header declares.
    fn known(layout: &'static Layout) -> EventType {
        let size = match layout.size {
            Size::Fixed(bytes) => Some(bytes),
            Size::AtLeast(_) => None,
        };
        let (id, text) = (layout.id, layout.pieces());
        EventType { id, size, description: String::new(), is_declared: false, layout: Some(layout), text }
    }

    /// Whether its events begin blocks.
    fn is_block_marker(&self) -> bool {
        self.id == BLOCK_MARKER && self.layout.is_some()
    }
}

/// What there is at the beginning of some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// An event of so many bytes, of which so many stand before its payload.
    Event { length: usize, head: usize, row: Row },
    /// The mark of the end: two bytes.
    End,
    /// An event of a type that nobody knows.
    Unknown(u16),
    /// The beginning of something that has so many bytes at least.
    More(usize),
}

/// What must be known of a type at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Row {
    /// One more than its place among the kinds; 0 if there is no such type.
    kind: u32,
    size: u16,
    is_variable: bool,
    pub(super) is_marker: bool,
    pub(super) is_declared: bool,
    /// Its fields say where they end, whatever the event's head says.
    pub(super) ends_itself: bool,
}

/// The types of a log, and those of GHC's that it does not declare.
#[derive(Debug)]
pub(super) struct Types {
    kinds: Vec<EventType>,
    rows: Vec<Row>,
    text: usize,
}

impl Types {
    /// Those of GHC's. What a header declares takes their places.
    pub(super) fn new() -> Types {
        let mut types = Types { kinds: Vec::new(), rows: Vec::new(), text: 0 };
        // Of one number the newest is the last.
        for known in layout::KNOWN {
            types.put(EventType::known(known));
        }
        types
    }

    /// Adds a type that the header declares; false if there is no room for more.
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
            ends_itself: kind.size.is_none() && kind.layout.is_some() && layout::ends_itself(kind.id),
        };
        match self.kinds.get_mut(place) {
            Some(older) => *older = kind,
            None => self.kinds.push(kind),
        }
    }

    /// The type of a row that [`step`](Self::step) gave.
    #[inline]
    pub(super) fn kind(&self, row: Row) -> &EventType {
        &self.kinds[row.kind as usize - 1]
    }

    /// The type of the event whose head these bytes begin with, and the length that the head says.
    pub(super) fn head(&self, bytes: &[u8]) -> Option<(Row, usize)> {
        let id = u16::from_be_bytes(*bytes.first_chunk()?);
        let row = self.rows.get(usize::from(id)).copied().filter(|row| row.kind != 0)?;
        let &[.., high, low] = bytes.first_chunk::<VARIABLE_HEAD>()?;
        Some((row, if row.is_variable { u16::from_be_bytes([high, low]) } else { row.size }.into()))
    }

    /// What there is at the beginning of these bytes.
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
