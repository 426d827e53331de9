//! The line of `mpseventcnv`: hexadecimal numbers without names, meant to be sorted and read by programs.
//!
//! ```text
//! 0000021DE7DAC2AB   21 1 "@(#)Ravenbrook MPS"
//! clock            code parameters
//! ```

use super::double::{self, Style};
use super::format::{Layout, Sort};
use super::line::{Line, Pad};
use super::reader::Record;

/// Prints one record, with its line feed. Parameters that the record lacks are not printed.
#[inline]
pub(super) fn print(line: &mut Line<'_>, layout: Option<&Layout>, record: &Record<'_>) {
    line.hex_wide(record.clock(), 16, Pad::Zero);
    line.byte(b' ');
    line.hex_wide(u64::from(record.code()), 4, Pad::Space);
    // `.format.hostile`: each parameter checks that the record extends that far.
    let _ = params(line, layout, record);
    line.byte(b'\n');
}

#[inline]
fn params(line: &mut Line<'_>, layout: Option<&Layout>, record: &Record<'_>) -> Option<()> {
    for param in layout?.params {
        let offset = usize::from(param.offset);
        let number = match param.sort {
            Sort::P | Sort::A | Sort::W => record.word(offset)?,
            Sort::U => u64::from(record.unsigned(offset)?),
            Sort::B => u64::from(record.boolean(param)?),
            Sort::D => {
                let value = f64::from_bits(record.word(offset)?);
                line.byte(b' ');
                line.bytes(double::general(value, Style::Ten).bytes());
                continue;
            }
            Sort::S => {
                let string = record.string(offset)?;
                line.byte(b' ');
                line.quoted(string);
                continue;
            }
        };
        line.byte(b' ');
        line.hex(number);
    }
    Some(())
}
