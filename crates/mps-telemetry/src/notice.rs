//! Notices about a stream: facts that its lines do not show.
//!
//! The real tools warn about some things, ignore others, and abort at a few (an assertion, a segmentation
//! fault) although the rest of the stream can be read. Here every loss of information causes a notice
//! that says how it was handled, and reading continues wherever possible.
//!
//! A stream of a billion unknown events would cause a billion notices. So the first [`FIRST`] of each [`Kind`] are reported, and the
//! rest is counted (`.format.hostile`).

use std::fmt;

/// The number of notices of a kind that are reported one by one.
pub const FIRST: u64 = 10;

/// A notice about a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The clock of the record that caused it.
    pub clock: u64,
    /// The byte offset of that record; `None` once records are sorted.
    pub offset: Option<u64>,
    /// The kind of notice.
    pub kind: Kind,
}

/// The kinds of notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Kind {
    /// `EventInit` states a version that differs from the one by which the stream is read.
    #[error("Event log version does not match: {}.{}.{} vs 2.0.0", .0[0], .0[1], .0[2])]
    Version([u32; 3]),
    /// `EventInit` announces codes that are unknown here.
    #[error("Event log may contain unknown events with codes from {known} to {max}", known = .known + 1)]
    NewerCodes {
        /// The largest known code.
        known: u16,
        /// The largest code announced.
        max: u32,
    },
    /// `EventInit` states that words are not 64 bits wide.
    #[error("Event log has incompatible word width: {0} instead of 64")]
    WordWidth(u32),
    /// A code that no known event has. The line of such a record has no parameters.
    #[error("Unknown event code {0}")]
    UnknownCode(u16),
    /// A record that is too short for all its parameters. The missing ones are not printed.
    #[error("{event} with {size} bytes lacks parameters: only what is there is printed")]
    Short {
        /// The event's name.
        event: &'static str,
        /// The record's size.
        size: usize,
    },
    /// A string without a NUL. It is printed up to the end of the record.
    #[error("the string of {event} has no end: it is cut where its record ends")]
    Unterminated {
        /// The event's name.
        event: &'static str,
    },
    /// Bytes at the end of the stream that are too few for the header of a record.
    #[error("{0} stray bytes at the end, where a record begins, are left out")]
    Stray(usize),
    /// A string id that had a text already. The newer text is used from this record on.
    #[error("string id {0:X} is interned again: from here on it means the newer text")]
    InternedAgain(u64),
    /// More labels or texts than are kept.
    #[error("more than {0} labels or texts: those from here on are not resolved")]
    TooManyLabels(usize),
    /// The number of notices of one kind that were not reported one by one.
    #[error("{count} more like this: {example}")]
    More {
        /// The number of these notices.
        count: u64,
        /// A description of the kind.
        example: &'static str,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Warning @{:016X} {}", self.clock, self.kind)?;
        self.offset.map_or(Ok(()), |offset| write!(f, " (at byte {offset})"))
    }
}

/// The kinds of notices of which a stream may cause any number.
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

/// Passes on the first few notices of each kind.
pub(super) struct Notices<'a> {
    report: &'a mut dyn FnMut(&Notice),
    counts: [u64; ENDLESS.len()],
}

impl<'a> Notices<'a> {
    pub(super) fn new(report: &'a mut dyn FnMut(&Notice)) -> Notices<'a> {
        Notices { report, counts: [0; ENDLESS.len()] }
    }

    #[cold]
    pub(super) fn report(&mut self, notice: Notice) {
        if let Some(kind) = notice.kind.endless() {
            self.counts[kind] += 1;
            if self.counts[kind] > FIRST || matches!(notice.kind, Kind::TooManyLabels(_)) && self.counts[kind] > 1 {
                return;
            }
        }
        (self.report)(&notice);
    }

    /// Reports the number of notices that were not passed on.
    pub(super) fn finish(&mut self, clock: u64) {
        for (&example, count) in ENDLESS.iter().zip(self.counts) {
            if count > FIRST {
                let kind = Kind::More { count: count - FIRST, example };
                (self.report)(&Notice { clock, offset: None, kind });
            }
        }
    }
}
