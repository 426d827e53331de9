//! Prints a log as text, as `ghc-events show` and `ghc-events inc` do.
//!
//! [`Form::Whole`] prints the types of the header, then the events by time, then an empty line. [`Form::Events`]
//! prints the events only, in file order. Each event is a line: its time, its capability, and its text. An event of an
//! unknown type is printed with its type's description (with its number in [`Form::Events`]).
//!
//! `ghc-events` fails, and prints nothing at all, for some events with invalid payloads: a text that is not UTF-8, a number without a
//! meaning. Here the line contains what can be printed, and [`Show::finish`] returns the first such damage.

use std::io::{self, Write};

use super::damage::{Damage, DamageKind, LastGood};
use super::event::Event;
use super::haskell;
use super::layout::{Piece, bytes_at};
use super::types::EventType;
use super::visitor::Visitor;
use crate::events::{Breakdown, CapsetKind, CentreFlags, MessageTag, StopReason};
use crate::format::FILTERS;

/// The number of digits of the largest number.
const MOST_DIGITS: usize = 20;
/// Output is buffered up to this many bytes.
const BUFFER: usize = 64 << 10;

/// The parts of a log that are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Types and events: `ghc-events show`.
    Whole,
    /// Events only: `ghc-events inc`.
    Events,
}

/// Prints a log.
#[derive(Debug)]
pub struct Show<W> {
    output: W,
    form: Form,
    out: Vec<u8>,
    begun: Begun,
    failed: Option<io::Error>,
    /// The last event, as long as there is no damage and events come in file order.
    last: Option<LastGood>,
    damage: Option<Damage>,
    damages: u64,
}

/// The parts of a whole log that have been printed so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begun {
    Nothing,
    Types,
    Events,
}

impl<W: Write> Show<W> {
    /// Prints to `out`, which need not be buffered.
    pub fn new(output: W, form: Form) -> Show<W> {
        let out = Vec::with_capacity(2 * BUFFER);
        Show { output, form, out, begun: Begun::Nothing, failed: None, last: None, damage: None, damages: 0 }
    }

    /// Ends the text. Returns the first damage in payloads and the number of damaged payloads. For a whole log, whose events come by
    /// time, [`last_before`](super::last_before) finds the last good event before it.
    ///
    /// # Errors
    ///
    /// Writing the text failed.
    pub fn finish(mut self) -> io::Result<(Option<Damage>, u64)> {
        if self.begun == Begun::Events {
            self.out.push(b'\n');
        }
        self.flush();
        match self.failed {
            Some(error) => Err(error),
            None => self.output.flush().map(|()| (self.damage, self.damages)),
        }
    }

    /// Prints the heading of the types; nothing if the header can't be read.
    fn begin_types(&mut self) {
        if self.begun == Begun::Nothing {
            self.begun = Begun::Types;
            say(&mut self.out, "Event Types:\n");
        }
    }

    fn flush(&mut self) {
        if self.failed.is_none()
            && let Err(error) = self.output.write_all(&self.out)
        {
            self.failed = Some(error);
        }
        self.out.clear();
    }

    #[cold]
    fn damaged(&mut self, offset: u64, kind: DamageKind) {
        self.damages += 1;
        self.damage.get_or_insert(Damage { offset, kind, last_good: self.last });
    }
}

impl<W: Write> Visitor for Show<W> {
    fn event_type(&mut self, kind: &EventType) {
        if self.form == Form::Whole {
            self.begin_types();
            decimal(&mut self.out, kind.id.into());
            say(&mut self.out, ": ");
            say(&mut self.out, &kind.description);
            match kind.size {
                Some(size) => {
                    say(&mut self.out, " (size ");
                    decimal(&mut self.out, size.into());
                }
                None => say(&mut self.out, " (size variable"),
            }
            say(&mut self.out, ")\n");
        }
    }

    fn begin_events(&mut self) {
        if self.form == Form::Whole {
            self.begin_types();
            self.begun = Begun::Events;
            say(&mut self.out, "\nEvents:\n");
        }
    }

    fn event(&mut self, event: &Event<'_>) {
        decimal(&mut self.out, event.time);
        say(&mut self.out, ": ");
        if let Some(cap) = event.cap {
            say(&mut self.out, "cap ");
            decimal(&mut self.out, cap.into());
            say(&mut self.out, ": ");
        }
        match event.kind.layout {
            Some(_) => {
                if let Some(kind) = text(&mut self.out, event.kind, event.payload) {
                    self.damaged(event.offset, kind);
                }
            }
            None if self.form == Form::Whole => say(&mut self.out, &event.kind.description),
            None => {
                say(&mut self.out, "Unknown Event (ref: ");
                decimal(&mut self.out, event.kind.id.into());
                say(&mut self.out, ")");
            }
        }
        if self.form == Form::Events && self.damages == 0 {
            self.last = Some(LastGood::after(self.last, event));
        }
        self.out.push(b'\n');
        if self.out.len() >= BUFFER {
            self.flush();
        }
    }

    fn is_done(&self) -> bool {
        self.failed.is_some()
    }
}

/// Appends the text of one event, as `ghc-events` prints it. Returns the damage in its payload, if any.
pub fn text(out: &mut Vec<u8>, kind: &EventType, payload: &[u8]) -> Option<DamageKind> {
    if kind.layout.is_some_and(|layout| payload.len() < layout.least.into()) {
        return Some(too_short(out, kind.id, payload));
    }
    let mut line = Line { out, id: kind.id, payload, next: 0, complaint: None };
    for piece in &kind.text {
        line.piece(piece);
    }
    line.complaint
}

#[cold]
fn too_short(out: &mut Vec<u8>, id: u16, payload: &[u8]) -> DamageKind {
    say(out, "an event of ");
    decimal(out, payload.len() as u64);
    say(out, " bytes, too short for its type ");
    decimal(out, id.into());
    DamageKind::Short { id, bytes: payload.len() }
}

/// The text of an event that is being written.
struct Line<'a> {
    out: &'a mut Vec<u8>,
    id: u16,
    payload: &'a [u8],
    /// The offset of the next text.
    next: usize,
    complaint: Option<DamageKind>,
}

impl<'a> Line<'a> {
    #[inline]
    fn piece(&mut self, piece: &Piece) {
        match *piece {
            Piece::Say(words) => words.append_to(self.out),
            Piece::Byte(at) => decimal(self.out, u8::from_be_bytes(self.bytes(at)).into()),
            Piece::Short(at) => decimal(self.out, u16::from_be_bytes(self.bytes(at)).into()),
            Piece::Word(at) => decimal(self.out, u32::from_be_bytes(self.bytes(at)).into()),
            Piece::Long(at) => decimal(self.out, u64::from_be_bytes(self.bytes(at))),
            Piece::Rest(at) => self.utf8(self.payload.get(usize::from(at)..).unwrap_or_default()),
            Piece::From(at) => self.next = at.into(),
            Piece::Next => {
                let bytes = self.next_text();
                self.utf8(bytes);
            }
            Piece::Stack(at) => self.stack(at.into()),
            rare => self.rare(rare),
        }
    }

    #[inline(never)]
    fn rare(&mut self, piece: Piece) {
        match piece {
            Piece::OneMore(at) => decimal(self.out, u64::from_be_bytes(self.bytes(at)).wrapping_add(1)),
            Piece::Hex(at) => hexadecimal(self.out, u64::from_be_bytes(self.bytes(at))),
            Piece::HexWord(at) => hexadecimal(self.out, u32::from_be_bytes(self.bytes(at)).into()),
            Piece::Power(at) => {
                let power = 1u16.checked_shl(u8::from_be_bytes(self.bytes(at)).into());
                decimal(self.out, power.unwrap_or(0).into());
            }
            Piece::Latin(at) => latin(self.out, self.payload.get(usize::from(at)..).unwrap_or_default()),
            Piece::BeforeLast => latin(self.out, self.payload.split_last_chunk::<4>().map_or(&[], |(text, _)| text)),
            Piece::LastWord => {
                decimal(self.out, u32::from_be_bytes(*self.payload.last_chunk().unwrap_or(&[0; 4])).into())
            }
            Piece::List(at) => self.list(at.into()),
            Piece::Printable => printable(self.out, self.payload),
            Piece::NextHex => {
                let is_there = self.next < self.payload.len();
                hexadecimal(self.out, if is_there { u64::from_be_bytes(bytes_at(self.payload, self.next)) } else { 0 });
            }
            Piece::Caf => {
                let [flags] = bytes_at(self.payload, self.next);
                say(self.out, if CentreFlags(flags).is_caf() { " CAF" } else { "" });
            }
            Piece::Breakdown(at) => self.breakdown(at),
            Piece::Filters => self.filters(),
            Piece::InfoTable => self.info_table(),
            Piece::Status(at) => self.status(at),
            Piece::CapsetKind(at) => {
                let kind = CapsetKind(u16::from_be_bytes(self.bytes(at)));
                say(self.out, kind.text().unwrap_or("CapsetUnknown"));
            }
            Piece::Tag(at) => self.tag(at),
            _ => unreachable!("the others are not rare"),
        }
    }

    #[inline(always)]
    fn bytes<const N: usize>(&self, at: u8) -> [u8; N] {
        bytes_at(self.payload, at.into())
    }

    /// Keeps the first damage.
    #[cold]
    fn complain(&mut self, kind: DamageKind) {
        self.complaint.get_or_insert(kind);
    }

    #[inline]
    fn utf8(&mut self, bytes: &[u8]) {
        if std::str::from_utf8(bytes).is_ok() {
            self.out.extend_from_slice(bytes);
        } else {
            self.out.extend_from_slice(String::from_utf8_lossy(bytes).as_bytes());
            self.complain(DamageKind::Text(self.id));
        }
    }

    /// Returns the text up to the next zero.
    fn next_text(&mut self) -> &'a [u8] {
        let rest = self.payload.get(self.next..).unwrap_or_default();
        match rest.iter().position(|&byte| byte == 0) {
            Some(length) => {
                self.next += length + 1;
                &rest[..length]
            }
            None => {
                self.complain(DamageKind::Unended(self.id));
                self.next = self.payload.len();
                rest
            }
        }
    }

    fn stack(&mut self, at: usize) {
        let [depth] = bytes_at(self.payload, at);
        let centres = self.payload.get(at + 1..).unwrap_or_default();
        if centres.len() < 4 * usize::from(depth) {
            self.complain(DamageKind::Short { id: self.id, bytes: self.payload.len() });
        }
        let (centres, _) = centres.as_chunks();
        for (index, centre) in centres.iter().take(depth.into()).enumerate() {
            if index > 0 {
                say(self.out, ", ");
            }
            decimal(self.out, u32::from_be_bytes(*centre).into());
        }
    }

    fn list(&mut self, at: usize) {
        let bytes = self.payload.get(at..).unwrap_or_default();
        let text = String::from_utf8_lossy(bytes);
        if text.contains('\u{fffd}') && std::str::from_utf8(bytes).is_err() {
            self.complain(DamageKind::Text(self.id));
        }
        for (index, item) in text.trim_end_matches('\0').split('\0').enumerate() {
            self.out.push(if index == 0 { b'[' } else { b',' });
            haskell::literal(self.out, item);
        }
        self.out.push(b']');
    }

    fn breakdown(&mut self, at: u8) {
        let breakdown = Breakdown(u32::from_be_bytes(self.bytes(at)));
        self.code(breakdown.text(), "breakdown", breakdown.0.into());
    }

    fn filters(&mut self) {
        let mut is_first = true;
        for _ in 0..FILTERS {
            let filter = self.next_text();
            if !filter.is_empty() {
                say(self.out, if is_first { " filtered by " } else { "" });
                is_first = false;
                self.utf8(filter);
                say(self.out, ", ");
            }
        }
    }

    fn info_table(&mut self) {
        self.next = 8;
        let texts: [&[u8]; 6] = std::array::from_fn(|_| self.next_text());
        let [name, closure, _type, _label, _module, place] = texts;
        say(self.out, "Info Table: ");
        hexadecimal(self.out, u64::from_be_bytes(self.bytes(0)));
        say(self.out, ":");
        let digits = closure.iter().take_while(|byte| byte.is_ascii_digit());
        let closure_type = digits.fold(0u64, |sum, digit| sum.wrapping_mul(10).wrapping_add(u64::from(digit - b'0')));
        if !closure.first().is_some_and(u8::is_ascii_digit) {
            self.complain(DamageKind::Value { id: self.id, what: "closure type", value: 0 });
        }
        decimal(self.out, closure_type);
        say(self.out, ":");
        self.utf8(name);
        say(self.out, " - ");
        self.utf8(place);
    }

    fn status(&mut self, at: u8) {
        let reason = StopReason(u16::from_be_bytes(self.bytes(at)));
        self.code(reason.text(), "reason to stop", reason.0.into());
        if [StopReason::STACK_OVERFLOW, StopReason::BLACK_HOLE].contains(&reason) {
            say(self.out, " ");
            decimal(self.out, u32::from_be_bytes(self.bytes(at + 2)).into());
        }
    }

    fn tag(&mut self, at: u8) {
        let tag = MessageTag(u8::from_be_bytes(self.bytes(at)));
        self.code(tag.text(), "kind of message", tag.0.into());
    }

    /// Prints a number that has a meaning.
    fn code(&mut self, text: Option<&str>, what: &'static str, value: u64) {
        match text {
            Some(text) => say(self.out, text),
            None => self.unknown(what, value),
        }
    }

    #[cold]
    fn unknown(&mut self, what: &'static str, value: u64) {
        say(self.out, "unknown ");
        say(self.out, what);
        say(self.out, " ");
        decimal(self.out, value);
        self.complain(DamageKind::Value { id: self.id, what, value });
    }
}

#[inline(always)]
fn say(out: &mut Vec<u8>, words: &str) {
    out.extend_from_slice(words.as_bytes());
}

fn latin(out: &mut Vec<u8>, bytes: &[u8]) {
    let mut buffer = [0; 4];
    for &byte in bytes {
        out.extend_from_slice(char::from(byte).encode_utf8(&mut buffer).as_bytes());
    }
}

/// Writes bytes as text, with a dot for each character that is not printable and for each byte that is not UTF-8.
fn printable(out: &mut Vec<u8>, bytes: &[u8]) {
    let mut buffer = [0; 4];
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            let shown = if haskell::is_printable(character) { character } else { '.' };
            out.extend_from_slice(shown.encode_utf8(&mut buffer).as_bytes());
        }
        out.resize(out.len() + chunk.invalid().len(), b'.');
    }
}

/// The two digits of each number below a hundred.
static PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut number = 0;
    while number < 100 {
        pairs[number] = [b'0' + number as u8 / 10, b'0' + number as u8 % 10];
        number += 1;
    }
    pairs
};

/// Appends a number. The digits are written in place: a copy of a length that the compiler does not know is a call.
#[inline]
fn decimal(out: &mut Vec<u8>, mut number: u64) {
    let start = out.len();
    out.extend_from_slice(&[b'0'; MOST_DIGITS]);
    let mut at = number.checked_ilog10().map_or(1, |log| log as usize + 1);
    out.truncate(start + at);
    let digits = &mut out[start..];
    while at >= 2 {
        at -= 2;
        digits[at..at + 2].copy_from_slice(&PAIRS[(number % 100) as usize]);
        number /= 100;
    }
    if at == 1 {
        digits[0] = b'0' + number as u8;
    }
}

fn hexadecimal(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(format!("{number:x}").as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_are_printed_as_rust_prints_them(number: u64, shift in 0..64_u32) {
            let mut out = b"before ".to_vec();
            let number = number >> shift;
            decimal(&mut out, number);
            prop_assert_eq!(String::from_utf8(out).unwrap(), format!("before {number}"));
        }
    }

    #[test]
    fn each_power_of_ten_and_its_neighbours_are_printed() {
        for power in (0..20).map(|power| 10_u64.pow(power)) {
            for number in [power - 1, power, power + 1] {
                let mut out = Vec::new();
                decimal(&mut out, number);
                assert_eq!(String::from_utf8(out).unwrap(), number.to_string());
            }
        }
    }
}
