//! Formats doubles as C does with `%g` and `%G`.
//!
//! The tools print doubles in three ways (`%.10G`, `%#.10G`, `%#8.3g`), and the output must equal theirs byte for byte. The
//! digits come from the standard library, which rounds exactly as C does; this file chooses between `0.0001` and
//! `1E-05`. C chooses by the exponent *after* rounding. The output of the real tools shows one exception: with `#`, a
//! number that rounding makes one digit longer than the precision (999.5 at three digits) keeps the number of decimals
//! of its plain form, which is none: `1.e+03` and not `1.00e+03`.

use std::fmt::{self, Write};

/// The letter of the format, its precision, and whether `#` precedes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// `%.10G`.
    Ten,
    /// `%#.10G`.
    TenWithZeros,
    /// `%#.3g`, in a column eight wide.
    ThreeWithZeros,
}

/// A short text on the stack.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Text {
    bytes: [u8; 32],
    len: usize,
}

impl Text {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes[self.len..][..bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }
}

impl Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.bytes.get_mut(self.len..).and_then(|rest| rest.get_mut(..text.len())).ok_or(fmt::Error)?;
        self.push(text.as_bytes());
        Ok(())
    }
}

/// Formats the value in this style.
pub(super) fn general(value: f64, style: Style) -> Text {
    let (precision, keeps_zeros, upper) = match style {
        Style::Ten => (10, false, true),
        Style::TenWithZeros => (10, true, true),
        Style::ThreeWithZeros => (3, true, false),
    };
    let mut text = Text::default();
    if value.is_sign_negative() {
        text.push(b"-");
    }
    if !value.is_finite() {
        text.push(match (value.is_nan(), upper) {
            (true, true) => b"NAN",
            (true, false) => b"nan",
            (false, true) => b"INF",
            (false, false) => b"inf",
        });
        return text;
    }
    let (digits, exponent) = rounded(value, precision);
    let significant = if keeps_zeros {
        precision
    } else {
        digits[..precision].iter().rposition(|&digit| digit != b'0').map_or(1, |last| last + 1)
    };
    let digits = &digits[..significant];
    if (-4..precision as i32).contains(&exponent) {
        plain(&mut text, digits, exponent, keeps_zeros);
    } else {
        let grew = exponent == precision as i32 && exponent_of(value) < exponent;
        let digits = if keeps_zeros && grew { &digits[..1] } else { digits };
        scientific(&mut text, digits, exponent, keeps_zeros, if upper { b'E' } else { b'e' });
    }
    text
}

/// Returns the digits of the absolute value, rounded to `precision` digits (at most ten), and the power of ten of the first.
fn rounded(value: f64, precision: usize) -> ([u8; 10], i32) {
    let mut text = Text::default();
    // Ten digits, a point and `e-324` fit.
    let _ = write!(text, "{:.*e}", precision - 1, value.abs());
    let mut digits = [b'0'; 10];
    let (mantissa, exponent) = split(text.bytes());
    for (place, digit) in digits.iter_mut().zip(mantissa.iter().filter(|byte| byte.is_ascii_digit())) {
        *place = *digit;
    }
    (digits, exponent)
}

/// Returns the power of ten of the first digit before rounding.
fn exponent_of(value: f64) -> i32 {
    let mut text = Text::default();
    // The shortest text of a double has 17 digits at most.
    let _ = write!(text, "{:e}", value.abs());
    split(text.bytes()).1
}

fn split(text: &[u8]) -> (&[u8], i32) {
    let e = text.iter().position(|&byte| byte == b'e').unwrap_or(text.len());
    let exponent = std::str::from_utf8(text.get(e + 1..).unwrap_or_default()).ok().and_then(|e| e.parse().ok());
    (&text[..e], exponent.unwrap_or(0))
}

fn plain(text: &mut Text, digits: &[u8], exponent: i32, keeps_point: bool) {
    let whole = (exponent + 1).max(0) as usize;
    if whole == 0 {
        text.push(b"0.");
        text.push(&b"000"[..(-1 - exponent) as usize]);
        text.push(digits);
        return;
    }
    text.push(&digits[..whole.min(digits.len())]);
    for _ in digits.len()..whole {
        text.push(b"0");
    }
    let decimals = digits.get(whole..).unwrap_or_default();
    if keeps_point || !decimals.is_empty() {
        text.push(b".");
    }
    text.push(decimals);
}

fn scientific(text: &mut Text, digits: &[u8], exponent: i32, keeps_point: bool, letter: u8) {
    text.push(&digits[..1]);
    if keeps_point || digits.len() > 1 {
        text.push(b".");
    }
    text.push(&digits[1..]);
    text.push(&[letter]);
    let sign = if exponent < 0 { '-' } else { '+' };
    // A sign and three digits fit.
    let _ = write!(text, "{sign}{:02}", exponent.unsigned_abs());
}

/// Returns the value after a round trip through `%.10G`, as between `mpseventcnv` and `mpseventtxt`.
pub(super) fn through_text(value: f64) -> f64 {
    if !value.is_finite() {
        return value;
    }
    let text = general(value, Style::Ten);
    std::str::from_utf8(text.bytes()).ok().and_then(|text| text.parse().ok()).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    /// Formats with C's own `snprintf`.
    fn by_c(value: f64, style: Style) -> Vec<u8> {
        let format = match style {
            Style::Ten => c"%.10G",
            Style::TenWithZeros => c"%#.10G",
            Style::ThreeWithZeros => c"%#.3g",
        };
        let mut text = [0u8; 64];
        // SAFETY: the buffer and its length are passed together; the format takes one double.
        let len = unsafe { libc::snprintf(text.as_mut_ptr().cast(), text.len(), format.as_ptr(), value) };
        text[..len as usize].to_vec()
    }

    const STYLES: [Style; 3] = [Style::Ten, Style::TenWithZeros, Style::ThreeWithZeros];

    fn same_as_c(value: f64) {
        for style in STYLES {
            let ours = general(value, style);
            let ours = String::from_utf8_lossy(ours.bytes());
            assert_eq!(ours, String::from_utf8_lossy(&by_c(value, style)), "{value:e} {style:?}");
        }
    }

    #[rstest]
    fn the_edges_are_printed_as_c_prints_them(
        #[values(
            0.0,
            1.0,
            0.1,
            1e-4,
            1e-5,
            9.9996e-5,
            999.4,
            123456789.0,
            9999999999.0,
            1e10,
            1e15,
            1e22,
            1e23,
            1e100,
            5e-324,
            f64::MAX,
            f64::MIN_POSITIVE,
            f64::INFINITY,
            f64::NAN,
            0.5,
            2.5,
            0.125,
            9995.0,
            99.95,
            9.995,
            0.00012345678905
        )]
        value: f64,
    ) {
        same_as_c(value);
        same_as_c(-value);
    }

    /// Newer C libraries have fixed this error; the tools whose output must be matched were built with older ones.
    #[rstest]
    #[case(999.5, Style::ThreeWithZeros, "1.e+03")]
    #[case(-999.75, Style::ThreeWithZeros, "-1.e+03")]
    #[case(9999999999.5, Style::TenWithZeros, "1.E+10")]
    #[case(9995.0, Style::ThreeWithZeros, "1.00e+04")]
    #[case(99999999999.5, Style::TenWithZeros, "1.000000000E+11")]
    fn a_number_that_rounding_makes_too_long_loses_its_decimals(
        #[case] value: f64,
        #[case] style: Style,
        #[case] text: &str,
    ) {
        assert_eq!(general(value, style).bytes(), text.as_bytes());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]
        #[test]
        fn any_double_is_printed_as_c_prints_it(bits in any::<u64>(), scaled in -1e12..1e12f64, shift in 0..17i32) {
            for value in [f64::from_bits(bits), scaled, scaled / 10f64.powi(shift)] {
                // The exception with `#` has a test of its own, since it depends on the C library.
                let grows = |precision: usize| rounded(value, precision).1 == precision as i32;
                if value.is_finite() && (grows(3) || grows(10)) {
                    continue;
                }
                same_as_c(value);
            }
        }
    }
}
