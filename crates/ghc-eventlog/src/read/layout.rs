//! The layout of a type that a log declares, and the pieces of an event's text.
//!
//! A type of fixed size may have several layouts, since GHC added fields to it. The log's declaration
//! selects the longest layout that is not longer than the declared size; the rest of the payload is skipped. A type that is declared
//! shorter than every layout, or variable where the layout is fixed, is printed with its description only. `ghc-events` does the same.
//!
//! A text is split into pieces when a log is opened, so that printing an event needs no names: a piece has the field's offset in the payload.

use crate::events::{EVENT_TYPES, EventType, Field, FieldKind, Layout};
use crate::format::{FILTERS, Size};

/// Up to [`MOST`](Self::MOST) bytes of an event's text. They are padded: a copy of a length that the compiler knows needs no call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Words {
    padded: [u8; Self::MOST],
    length: u8,
}

impl Words {
    const MOST: usize = 30;

    /// Splits a text.
    fn of(text: &str) -> impl Iterator<Item = Words> {
        text.as_bytes().chunks(Self::MOST).map(|bytes| {
            let mut padded = [0; Self::MOST];
            padded[..bytes.len()].copy_from_slice(bytes);
            Words { padded, length: bytes.len() as u8 }
        })
    }

    /// Appends them to `out`.
    #[inline]
    pub(super) fn append_to(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.padded);
        out.truncate(start + usize::from(self.length));
    }
}

/// A piece of an event's text. Numbers are decimal unless stated otherwise; the `u8` is an offset in the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Say(Words),
    Byte(u8),
    Short(u8),
    Word(u8),
    Long(u8),
    /// Eight bytes; the number printed is greater by one.
    OneMore(u8),
    /// Eight bytes, printed in hexadecimal.
    Hex(u8),
    /// Four bytes, printed in hexadecimal.
    HexWord(u8),
    /// A byte; printed is two to the power of it.
    Power(u8),
    /// The rest of the payload, a UTF-8 text.
    Rest(u8),
    /// The rest of the payload, a Latin-1 text.
    Latin(u8),
    /// The payload before its last four bytes, a Latin-1 text.
    BeforeLast,
    /// The last four bytes.
    LastWord,
    /// Texts separated by zeros, printed as a Haskell list.
    List(u8),
    /// Bytes; those that are not printable text are printed as dots.
    Printable,
    /// The offset at which zero-terminated texts begin.
    From(u8),
    /// The next zero-terminated text.
    Next,
    /// The eight bytes after the texts, printed in hexadecimal; 0 if the event ends before them.
    NextHex,
    /// The flags of a cost centre, which follow its texts.
    Caf,
    /// The breakdown of a heap profile.
    Breakdown(u8),
    /// Several texts; those that are empty are left out.
    Filters,
    /// The source of a closure's description.
    InfoTable,
    /// A number of cost centres, then that many numbers.
    Stack(u8),
    /// Why a thread stopped: the reason and its argument.
    Status(u8),
    /// The kind of a capability set.
    CapsetKind(u8),
    /// The kind of a message that an Eden machine sends ([`MessageTag`](crate::events::MessageTag)).
    Tag(u8),
}

/// Reads this many bytes at this offset; zeros if they are missing.
#[inline(always)]
pub(super) fn bytes_at<const N: usize>(payload: &[u8], at: usize) -> [u8; N] {
    payload.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
}

/// Returns the known layouts, except those of which only the description is printed. The newest layout of a type is the last.
pub(super) fn known() -> impl Iterator<Item = &'static Layout> {
    EVENT_TYPES.iter().flat_map(|known| known.layouts).copied().filter(|layout| layout.text.is_some())
}

/// Returns the layout of a type that is declared with this size. A size of `None` means a variable size.
pub(super) fn declared(id: u16, size: Option<u16>) -> Option<&'static Layout> {
    let mut newest_first = EventType::of(id)?.layouts.iter().rev().copied().filter(|layout| layout.text.is_some());
    newest_first.find(|layout| match (layout.size, size) {
        (Size::Fixed(known), Some(declared)) => known <= declared,
        (Size::Variable, None) => true,
        _ => false,
    })
}

/// Returns whether the fields of these events mark their own ends: a text ends with a zero, a stack begins with its
/// depth. GHC's library reads these events by their fields and ignores the stored length, so it reads
/// a log to the end even if that length is damaged.
pub(super) fn ends_itself(layout: &Layout) -> bool {
    layout.size == Size::Variable && layout.fields.iter().all(|field| field.kind.ends_itself())
}

/// Returns the length of the fields that these bytes begin with; `None` if the fields do not end within them. Only for a layout
/// that [ends itself](ends_itself).
pub(super) fn own_length(layout: &Layout, payload: &[u8]) -> Option<usize> {
    let text = |at: usize| Some(at + payload.get(at..)?.iter().position(|&byte| byte == 0)? + 1);
    let length = layout.fields.iter().try_fold(0, |at, field| match field.kind {
        FieldKind::Ended => text(at),
        FieldKind::Filters => (0..FILTERS).try_fold(at, |at, _| text(at)),
        FieldKind::Stack => Some(at + 1 + size_of::<u32>() * usize::from(*payload.get(at)?)),
        kind => Some(at + usize::from(kind.least())),
    });
    length.filter(|&length| length <= payload.len() && length <= usize::from(u16::MAX))
}

/// Splits the text of an event into its pieces.
pub(super) fn pieces(layout: &Layout) -> Box<[Piece]> {
    let (mut pieces, mut rest) = (Vec::new(), layout.text.unwrap_or_default());
    while let Some((words, opened)) = rest.split_once('{') {
        let (name, behind) = opened.split_once('}').unwrap_or((opened, ""));
        pieces.extend(Words::of(words).map(Piece::Say));
        let (name, notation) = name.split_once(':').unwrap_or((name, ""));
        let field = layout.fields.iter().position(|field| field.name == name);
        match field {
            Some(field) => pieces.extend(pieces_of(layout.fields, field, notation)),
            None => pieces.extend((notation == "ipe").then_some(Piece::InfoTable)),
        }
        rest = behind;
    }
    pieces.extend(Words::of(rest).map(Piece::Say));
    pieces.into()
}

/// Returns the pieces that print a field: two for the first text of several, `None` if the field has no such notation.
fn pieces_of(fields: &[Field], index: usize, notation: &str) -> impl Iterator<Item = Piece> + use<> {
    let before = &fields[..index];
    let at = before.iter().map(|field| field.kind.least()).sum::<u16>() as u8;
    // After the first text, offsets are not fixed.
    let is_first = before.iter().all(|field| field.kind.is_fixed());
    let follows_leading = before.last().is_some_and(|field| field.kind == FieldKind::Leading);
    let piece = match (fields[index].kind, notation) {
        (FieldKind::U8, "") => Some(Piece::Byte(at)),
        (FieldKind::U8, "2^") => Some(Piece::Power(at)),
        (FieldKind::U16, "") => Some(Piece::Short(at)),
        (FieldKind::U32, "") if follows_leading => Some(Piece::LastWord),
        (FieldKind::U32, "") => Some(Piece::Word(at)),
        (FieldKind::U32, "hex") => Some(Piece::HexWord(at)),
        (FieldKind::U32, "low16") => Some(Piece::Short(at + 2)),
        (FieldKind::U64, "") => Some(Piece::Long(at)),
        (FieldKind::U64, "hex") => Some(Piece::Hex(at)),
        (FieldKind::U64, "+1") => Some(Piece::OneMore(at)),
        (FieldKind::StopReason, "") => Some(Piece::Status(at)),
        (FieldKind::CapsetKind, "") => Some(Piece::CapsetKind(at)),
        (FieldKind::Breakdown, "") => Some(Piece::Breakdown(at)),
        (FieldKind::MessageTag, "") => Some(Piece::Tag(at)),
        (FieldKind::Text, "") => Some(Piece::Rest(at)),
        (FieldKind::Text, "latin") => Some(Piece::Latin(at)),
        (FieldKind::Raw, "") => Some(Piece::Printable),
        (FieldKind::Items, "") => Some(Piece::List(at)),
        (FieldKind::Leading, "") => Some(Piece::BeforeLast),
        (FieldKind::Ended, "") => Some(Piece::Next),
        (FieldKind::Filters, "") => Some(Piece::Filters),
        (FieldKind::CentreFlags, "") => Some(Piece::Caf),
        (FieldKind::OptionalU64, "hex") => Some(Piece::NextHex),
        (FieldKind::Stack, "") => Some(Piece::Stack(at)),
        _ => None,
    };
    let begins_texts = is_first && matches!(fields[index].kind, FieldKind::Ended | FieldKind::Filters);
    begins_texts.then_some(Piece::From(at)).into_iter().chain(piece)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::{GcStats, GcStatsV1, Payload, id};

    /// If a text contained a name or a notation that no field has, nothing would be printed for it.
    #[test]
    fn each_pair_of_braces_in_a_text_is_a_field() {
        for layout in known() {
            let pieces = pieces(layout);
            let of_fields = pieces.iter().filter(|piece| !matches!(piece, Piece::Say(_) | Piece::From(_))).count();
            assert_eq!(of_fields, layout.text.unwrap().matches('{').count(), "{}", layout.name);
        }
    }

    /// Terminated texts are printed one after the other, so the text of a layout must name them in the order of the fields.
    #[test]
    fn terminated_texts_are_printed_in_their_order() {
        for layout in known().filter(|layout| !layout.text.unwrap().contains(":ipe}")) {
            let texts = layout.fields.iter().filter(|field| field.kind == FieldKind::Ended);
            let places: Vec<_> =
                texts.map(|field| layout.text.unwrap().find(&format!("{{{}}}", field.name)).unwrap()).collect();
            assert!(places.is_sorted(), "{}", layout.name);
        }
    }

    /// A log's declaration selects the longest layout that is not longer than the declared size.
    #[test]
    fn a_declared_size_chooses_the_layout() {
        let stats = |size| declared(id::GC_STATS_GHC, size);
        assert_eq!(stats(Some(49)), None);
        assert_eq!(stats(Some(50)), Some(GcStatsV1::LAYOUT));
        assert_eq!(stats(Some(57)), Some(GcStatsV1::LAYOUT));
        assert_eq!(stats(Some(70)), Some(GcStats::LAYOUT));
        assert_eq!(stats(None), None);
        assert!(declared(id::LOG_MSG, Some(4)).is_none() && declared(id::LOG_MSG, None).is_some());
        assert!(declared(id::HACK_BUG_T9003, Some(0)).is_none(), "its description is printed");
    }
}
