//! What to tell about a stream beside its lines.
//!
//! The real tools warn about some things, are silent about others, and end at a few more (an assertion, a segmentation
//! fault) although the stream can be read on. Here everything that makes the lines less than the stream is told, in
//! words that say what was done about it, and reading goes on wherever that is possible.
//!
//! A stream of a billion unknown events would be a billion warnings; so each [`Kind`] is told [`FIRST`] times, and the
//! rest is counted (`.format.hostile`).

use std::fmt;

/// How often a kind of notice is told in full.
pub const FIRST: u64 = 10;

/// One thing to know about a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The clock of the record that it is about.
    pub clock: u64,
    /// Where that record begins; unknown once the records are sorted.
    pub offset: Option<u64>,
    /// What it is.
    pub kind: Kind,
}

/// What there is to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Kind {
    /// `EventInit` names another version than the one by which the stream is read.
    #[error("Event log version does not match: {}.{}.{} vs 2.0.0", .0[0], .0[1], .0[2])]
    Version([u32; 3]),
    /// `EventInit` announces codes that are not known here.
    #[error("Event log may contain unknown events with codes from {known} to {max}", known = .known + 1)]
    NewerCodes {
        /// The largest code that is known.
        known: u16,
        /// The largest one announced.
        max: u32,
    },
    /// `EventInit` tells of words that are not 64 bits wide.
    #[error("Event log has incompatible word width: {0} instead of 64")]
    WordWidth(u32),
    /// A code that is no event: its line has no parameters.
    #[error("Unknown event code {0}")]
    UnknownCode(u16),
    /// A record without room for all its parameters: those that are missing are not printed.
    #[error("{event} with {size} bytes lacks parameters: only what is there is printed")]
    Short {
        /// The event's name.
        event: &'static str,
        /// The record's size.
        size: usize,
    },
    /// A string without a NUL: what is printed ends with the record.
    #[error("the string of {event} has no end: it is cut where its record ends")]
    Unterminated {
        /// The event's name.
        event: &'static str,
    },
    /// The stream ends with these bytes, too few for a record's beginning.
    #[error("{0} stray bytes at the end, where a record begins, are left out")]
    Stray(usize),
    /// A string id that had a text already: the newer text counts from here on.
    #[error("string id {0:X} is interned again: from here on it means the newer text")]
    InternedAgain(u64),
    /// More labels than are remembered.
    #[error("more than {0} labels or texts: those from here on are not resolved")]
    TooManyLabels(usize),
    /// How many notices of one kind were not told one by one.
    #[error("{count} more like this: {example}")]
    More {
        /// How many.
        count: u64,
        /// What the kind is about.
        example: &'static str,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Warning @{:016X} {}", self.clock, self.kind)?;
        self.offset.map_or(Ok(()), |offset| write!(f, " (at byte {offset})"))
    }
}

/// The kinds that may come without end.
const ENDLESS: [&str; 8] = [
    "version mismatches",
    "announcements of unknown codes",
    "announcements of other word widths",
    "unknown event codes",
    "records that lack parameters",
    "strings without an end",
    "strings interned again",
    "labels too many",
];

impl Kind {
    fn endless(&self) -> Option<usize> {
        match self {
            Kind::Version(_) => Some(0),
            Kind::NewerCodes { .. } => Some(1),
            Kind::WordWidth(_) => Some(2),
            Kind::UnknownCode(_) => Some(3),
            Kind::Short { .. } => Some(4),
            Kind::Unterminated { .. } => Some(5),
            Kind::InternedAgain(_) => Some(6),
            Kind::TooManyLabels(_) => Some(7),
            Kind::Stray(_) | Kind::More { .. } => None,
        }
    }
}

/// Passes notices on, of each kind the first few.
pub(super) struct Notices<'a> {
    tell: &'a mut dyn FnMut(&Notice),
    counts: [u64; ENDLESS.len()],
}

impl<'a> Notices<'a> {
    pub(super) fn new(tell: &'a mut dyn FnMut(&Notice)) -> Notices<'a> {
        Notices { tell, counts: [0; ENDLESS.len()] }
    }

    #[cold]
    pub(super) fn tell(&mut self, notice: Notice) {
        if let Some(kind) = notice.kind.endless() {
            self.counts[kind] += 1;
            if self.counts[kind] > FIRST || matches!(notice.kind, Kind::TooManyLabels(_)) && self.counts[kind] > 1 {
                return;
            }
        }
        (self.tell)(&notice);
    }

    /// Tells how much was not told.
    pub(super) fn finish(&mut self, clock: u64) {
        for (&example, count) in ENDLESS.iter().zip(self.counts) {
            if count > FIRST {
                let kind = Kind::More { count: count - FIRST, example };
                (self.tell)(&Notice { clock, offset: None, kind });
            }
        }
    }
}
