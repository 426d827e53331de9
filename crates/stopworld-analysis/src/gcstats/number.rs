//! Numbers formatted as .NET Core 3.0 and later do in the invariant culture.
//!
//! `F3` has three decimals; `N3` also has commas between thousands. Digits are those of the exact value of the double, and ties are
//! rounded to even: 0.125 is 0.12 with two decimals. A negative number that rounds to zero keeps its sign. Rust's formatting does
//! the same, so this module only adds commas and the names of infinities and NaN.

use std::fmt;

/// A number with a given number of decimals.
#[derive(Clone, Copy, Debug)]
pub struct Fixed(pub f64, pub usize);

impl fmt::Display for Fixed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fixed(value, decimals) = *self;
        match name(value) {
            Some(name) => f.write_str(name),
            None => write!(f, "{value:.decimals$}"),
        }
    }
}

/// A number with a given number of decimals, and commas between thousands.
#[derive(Clone, Copy, Debug)]
pub struct Grouped(pub f64, pub usize);

impl fmt::Display for Grouped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Grouped(value, decimals) = *self;
        match name(value) {
            Some(name) => f.write_str(name),
            None => group(f, &format!("{value:.decimals$}")),
        }
    }
}

/// A whole number with commas between thousands.
#[derive(Clone, Copy, Debug)]
pub struct GroupedInteger(pub i64);

impl fmt::Display for GroupedInteger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        group(f, &self.0.to_string())
    }
}

/// Returns the name of an infinity or NaN.
fn name(value: f64) -> Option<&'static str> {
    if value.is_nan() {
        Some("NaN")
    } else if value.is_infinite() {
        Some(if value > 0.0 { "Infinity" } else { "-Infinity" })
    } else {
        None
    }
}

fn group(f: &mut fmt::Formatter<'_>, digits: &str) -> fmt::Result {
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits), |rest| ("-", rest));
    let (whole, fraction) = digits.split_at(digits.find('.').unwrap_or(digits.len()));
    f.write_str(sign)?;
    for (index, digit) in whole.char_indices() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            f.write_str(",")?;
        }
        write!(f, "{digit}")?;
    }
    f.write_str(fraction)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(0.0, 3, "0.000")]
    #[case(0.5, 0, "0")]
    #[case(1.5, 0, "2")]
    #[case(2.5, 0, "2")]
    #[case(0.125, 2, "0.12")]
    #[case(65747.125, 2, "65,747.12")]
    #[case(0.005, 2, "0.01")]
    #[case(0.0046, 2, "0.00")]
    #[case(-0.0001, 3, "-0.000")]
    #[case(-1234.5, 1, "-1,234.5")]
    #[case(999.9996, 3, "1,000.000")]
    #[case(1_844_674_407_370_955.2, 2, "1,844,674,407,370,955.25")]
    #[case(f64::NAN, 3, "NaN")]
    #[case(f64::INFINITY, 0, "Infinity")]
    #[case(f64::NEG_INFINITY, 0, "-Infinity")]
    fn numbers_are_shown_as_dotnet_shows_them(#[case] value: f64, #[case] decimals: usize, #[case] expected: &str) {
        assert_eq!(Grouped(value, decimals).to_string(), expected);
        assert_eq!(Fixed(value, decimals).to_string(), expected.replace(',', ""));
    }

    #[rstest]
    #[case(0, "0")]
    #[case(-1, "-1")]
    #[case(999, "999")]
    #[case(83_886_080, "83,886,080")]
    #[case(i64::MIN, "-9,223,372,036,854,775,808")]
    fn whole_numbers_have_commas(#[case] value: i64, #[case] expected: &str) {
        assert_eq!(GroupedInteger(value).to_string(), expected);
    }
}
