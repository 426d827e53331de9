//! The three styles of the old manual's `eventcnv`: `-S` for reading, `-SL` for Lisp, `-SC` for spreadsheets.
//!
//! ```text
//! -S   000007DC7DC1655516E TraceFix             7FFF583001D0 7FFF583000D8 107AFAB20        1
//! -SL  (000007DC7DC1655516E TraceFix             7FFF583001D0 7FFF583000D8 107AFAB20 1)
//! -SC  000007DC7DC1655516E, 38, 140734672929232, 140734672928984, 4423920416, 1
//! ```
//! The styles reproduce the output of the tool of October 2012, including its errors. The upper half of the clock is followed not by the
//! lower half but by the whole clock (the manual's own example shows it: its clock is 7DC1655516E). True prints as −1. For `Label` the tool
//! was meant to print the text, but it never stored a text; it prints the text's number as a symbol, after which `-SC` has one quote too
//! many. Meters are printed as mean and deviation. The output is not sorted.

use super::double;
use super::format::{Layout, Param, Sort};
use super::line::{Line, Pad};
use super::reader::Record;

/// The styles, by the letter after `-S`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// `-S`: a line in columns for each event.
    Human,
    /// `-SL`: a list for each event.
    Lisp,
    /// `-SC`: decimal numbers separated by commas.
    Commas,
}

/// Prints one record, with its line feed. Parameters that the record lacks are not printed.
pub(super) fn print(line: &mut Line<'_>, style: Style, layout: Option<&Layout>, record: &Record<'_>) {
    if style == Style::Lisp {
        line.byte(b'(');
    }
    line.hex_wide(record.clock() >> 32, 8, Pad::Zero);
    line.hex_wide(record.clock(), 8, Pad::Zero);
    match (style, layout) {
        (Style::Commas, _) => {
            line.bytes(b", ");
            line.decimal(u64::from(record.code()));
        }
        (_, Some(layout)) => {
            line.byte(b' ');
            line.padded(layout.name.as_bytes(), 19);
            line.byte(b' ');
        }
        // For an unknown code, the real tool stops here.
        (_, None) => {
            line.bytes(b" [Unknown 0x");
            line.hex_wide(u64::from(record.code()), 4, Pad::Zero);
            line.bytes(b"]    ");
        }
    }
    if let Some(layout) = layout {
        // `.format.hostile`: each parameter checks that the record extends that far.
        let _ = match layout.name {
            "Label" | "LabelPointer" => label(line, style, layout, record),
            "MeterValues" => meter(line, style, layout, record),
            _ => layout.params.iter().try_for_each(|param| one(line, style, layout, param, record)),
        };
    }
    if style == Style::Lisp {
        line.byte(b')');
    }
    line.byte(b'\n');
}

fn one(line: &mut Line<'_>, style: Style, layout: &Layout, param: &Param, record: &Record<'_>) -> Option<()> {
    let offset = usize::from(param.offset);
    match param.sort {
        Sort::A => address(line, style, record.word(offset)?),
        // A pointer that the tool meant to label.
        Sort::P if layout.name == "PoolInit" && param.name == "poolClass" => address(line, style, record.word(offset)?),
        Sort::P | Sort::W => number(line, style, record.word(offset)?),
        Sort::U => number(line, style, u64::from(record.unsigned(offset)?)),
        Sort::B => number(line, style, truth(param, record.boolean(param)?)),
        Sort::D => real(line, style, f64::from_bits(record.word(offset)?)),
        Sort::S => {
            let string = record.string(offset)?;
            separate(line, style);
            if style == Style::Human { line.bytes(string) } else { line.quoted(string) }
        }
    }
    Some(())
}

/// Returns the value of a Boolean as the tool prints it: a signed bit is −1 when set.
fn truth(param: &Param, value: u8) -> u64 {
    if param.bit.is_some() { u64::from(value).wrapping_neg() } else { u64::from(value) }
}

fn separate(line: &mut Line<'_>, style: Style) {
    line.bytes(if style == Style::Commas { b", " } else { b" " });
}

fn number(line: &mut Line<'_>, style: Style, value: u64) {
    separate(line, style);
    match style {
        Style::Human => line.hex_wide(value, 8, Pad::Space),
        Style::Lisp => line.hex(value),
        Style::Commas => line.decimal(value),
    }
}

fn address(line: &mut Line<'_>, style: Style, value: u64) {
    separate(line, style);
    match style {
        Style::Human => line.hex_wide(value, 8, Pad::Zero),
        Style::Lisp => line.hex(value),
        Style::Commas => line.decimal(value),
    }
}

fn real(line: &mut Line<'_>, style: Style, value: f64) {
    separate(line, style);
    match style {
        Style::Human => line.right(double::general(value, double::Style::ThreeWithZeros).bytes(), 8),
        Style::Lisp => line.bytes(double::general(value, double::Style::TenWithZeros).bytes()),
        Style::Commas => line.bytes(double::general(value, double::Style::Ten).bytes()),
    }
}

/// Prints an address and the number of its label.
fn label(line: &mut Line<'_>, style: Style, layout: &Layout, record: &Record<'_>) -> Option<()> {
    let word = |index: usize| record.word(usize::from(layout.params.get(index)?.offset));
    address(line, style, word(0)?);
    let id = word(1)?;
    separate(line, style);
    match style {
        Style::Human => {
            line.bytes(b"sym ");
            line.hex_wide(id, 5, Pad::Zero);
        }
        Style::Lisp => line.hex(id),
        Style::Commas => {
            line.bytes(b"sym ");
            line.hex(id);
            line.byte(b'"');
        }
    }
    Some(())
}

/// Prints a meter: its mean, its count and its extremes. Only the lower halves of the count and the extremes are printed.
fn meter(line: &mut Line<'_>, style: Style, layout: &Layout, record: &Record<'_>) -> Option<()> {
    let word = |index: usize| record.word(usize::from(layout.params.get(index)?.offset));
    // If one parameter is missing, nothing is printed: the columns of `-S` are computed from several parameters.
    let (meter, total, mean_squared) = (word(0)?, f64::from_bits(word(1)?), f64::from_bits(word(2)?));
    let counts = [word(3)?, word(4)?, word(5)?];
    let lower = counts.map(|count| count & u64::from(u32::MAX));
    address(line, style, meter);
    if style == Style::Human {
        if counts[0] == 0 {
            line.bytes(b"        0      N/A      N/A      N/A      N/A");
        } else {
            for count in lower {
                line.byte(b' ');
                line.decimal_wide(count, 8);
            }
            let mean = total / counts[0] as f64;
            real(line, style, mean);
            real(line, style, (mean_squared - mean * mean).abs().sqrt());
        }
        address(line, style, meter);
    } else {
        real(line, style, total);
        real(line, style, mean_squared);
        lower.into_iter().for_each(|count| number(line, style, count));
    }
    Some(())
}
