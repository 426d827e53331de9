//! The line of `mpseventtxt`: every parameter with its name, and addresses with their current labels.
//!
//! ```text
//! 0000021DE7DE693F 0023 LabelPointer        pointer:000055565C0509A0["InstClass"] stringId:0000000000000002
//! ```
//! The real tool reads the lines of `mpseventcnv` after `sort`. This has two effects on its output: events of the
//! same clock have the order of those lines, and a double has been rounded to ten decimal digits.

use super::double::{self, Style};
use super::format::{Layout, Sort};
use super::labels::{Label, Labels, Namespace};
use super::line::{Line, Pad};
use super::reader::Record;

/// Prints one record, with its line feed. Parameters that the record lacks are not printed.
pub(super) fn print(line: &mut Line<'_>, layout: Option<&Layout>, record: &Record<'_>, labels: &Labels) {
    line.hex_wide(record.clock(), 16, Pad::Zero);
    line.byte(b' ');
    line.hex_wide(u64::from(record.code()), 4, Pad::Zero);
    line.byte(b' ');
    line.padded(layout.map_or("[Unknown]", |layout| layout.name).as_bytes(), 19);
    line.byte(b' ');
    match layout {
        // `.format.hostile`: each parameter checks that the record extends that far.
        Some(layout) => _ = params(line, layout, record, labels),
        None => line.bytes(b"Unknown event."),
    }
    line.byte(b'\n');
}

fn params(line: &mut Line<'_>, layout: &Layout, record: &Record<'_>, labels: &Labels) -> Option<()> {
    for param in layout.params {
        let offset = usize::from(param.offset);
        // A missing parameter and its name are not printed. A string is always printed as far as the record has it, even if it is empty,
        // because `mpseventcnv` prints it in this way and the real `mpseventtxt` reads that output.
        let needs = if param.sort == Sort::S { 0 } else { param.sort.size() };
        let there = record.bytes().get(offset..offset + needs)?;
        line.bytes(param.name.as_bytes());
        line.byte(b':');
        match param.sort {
            Sort::P => labelled(line, record.word(offset)?, labels, Namespace::Pointers),
            Sort::A => labelled(line, record.word(offset)?, labels, Namespace::Addresses),
            Sort::W => line.hex_wide(record.word(offset)?, 16, Pad::Zero),
            Sort::U => line.decimal(u64::from(record.unsigned(offset)?)),
            Sort::B => line.bytes(if record.boolean(param)? != 0 { b"True" } else { b"False" }),
            Sort::S => line.quoted(record.string(offset)?),
            Sort::D => {
                let value = double::through_text(f64::from_bits(u64::from_le_bytes(there.try_into().ok()?)));
                line.right(double::general(value, Style::ThreeWithZeros).bytes(), 8);
            }
        }
        line.byte(b' ');
    }
    Some(())
}

fn labelled(line: &mut Line<'_>, address: u64, labels: &Labels, namespace: Namespace) {
    line.hex_wide(address, 16, Pad::Zero);
    match labels.of(namespace, address) {
        None => {}
        Some(Label::Text(text)) => {
            line.byte(b'[');
            line.quoted(text);
            line.byte(b']');
        }
        Some(Label::Unknown(id)) => {
            line.bytes(b"[unknown label ");
            line.hex(id);
            line.byte(b']');
        }
    }
}
