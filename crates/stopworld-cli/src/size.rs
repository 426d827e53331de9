//! Sizes as people write them: `64MiB`, `1g`, `512k`, `1.5 GiB`, `1048576`.
//!
//! Every unit is a power of 1024, with or without the `i` and the `B`: a user who requests a heap of `64MB` means a
//! multiple of the page size, and two meanings for similar units would cause mistakes.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A number of bytes given on the command line; at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(usize);

impl Size {
    /// Returns the number of bytes.
    pub fn bytes(self) -> usize {
        self.0
    }
}

/// The reason why a size could not be parsed, and what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// The text does not start with a number.
    #[error("a size must start with a number: write 64MiB, 1g, 512k or a number of bytes")]
    NoNumber,
    /// The letters after the number are not a unit.
    #[error("unknown unit '{0}': units are k, m, g and t (or KiB, MiB, GiB, TiB), and none for bytes")]
    Unit(String),
    /// Zero, or a fraction of a byte.
    #[error("a size must be at least one byte")]
    Zero,
    /// More bytes than an address can represent.
    #[error("the size exceeds the address space: the largest size is {}TiB", usize::MAX >> 40)]
    TooLarge,
}

impl FromStr for Size {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Size, SizeError> {
        let text = text.trim();
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let number: Decimal = number.parse()?;
        let shift = match unit.trim_start().to_ascii_lowercase().as_str() {
            "" | "b" => 0,
            "k" | "kb" | "kib" => 10,
            "m" | "mb" | "mib" => 20,
            "g" | "gb" | "gib" => 30,
            "t" | "tb" | "tib" => 40,
            _ => return Err(SizeError::Unit(unit.trim().to_owned())),
        };
        match number.shifted(shift).ok_or(SizeError::TooLarge)? {
            0 => Err(SizeError::Zero),
            bytes => Ok(Size(bytes)),
        }
    }
}

/// A decimal number as `digits / scale`, so that `1.5g` is exact and a plain number of bytes loses no digit to floats.
struct Decimal {
    digits: u128,
    scale: u128,
}

impl Decimal {
    /// Returns this number times 2^`bits`, rounded down, or `None` if it does not fit an address.
    fn shifted(&self, bits: u32) -> Option<usize> {
        let bytes = self.digits.checked_mul(1 << bits)? / self.scale;
        usize::try_from(bytes).ok()
    }
}

impl FromStr for Decimal {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Decimal, SizeError> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        if whole.is_empty() || fraction.contains('.') {
            return Err(SizeError::NoNumber);
        }
        // Twenty digits after the point are more than any size needs; further digits would only overflow the scale.
        let fraction = &fraction[..fraction.len().min(20)];
        let mut digits: u128 = 0;
        for digit in whole.bytes().chain(fraction.bytes()) {
            let next = digits.checked_mul(10).and_then(|d| d.checked_add(u128::from(digit - b'0')));
            digits = next.ok_or(SizeError::TooLarge)?;
        }
        // The fraction has at most 20 digits, and 10^20 fits.
        Ok(Decimal { digits, scale: 10u128.pow(fraction.len() as u32) })
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        stopworld_analysis::report::Bytes(self.0 as u64).fmt(f)
    }
}

/// A hundred days.
const MOST_SECONDS: f64 = 8_640_000.0;

/// Parses a time in seconds.
pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(s) if s > 0.0 && s <= MOST_SECONDS => Ok(Duration::from_secs_f64(s)),
        _ => Err(format!("the time must be a number of seconds above 0 and up to {MOST_SECONDS}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("64MiB", 64 << 20)]
    #[case("64mib", 64 << 20)]
    #[case("64 MB", 64 << 20)]
    #[case("1g", 1 << 30)]
    #[case("512k", 512 << 10)]
    #[case("2T", 2 << 40)]
    #[case("1.5GiB", 3 << 29)]
    #[case("0.5k", 512)]
    #[case("1048577", 1_048_577)]
    #[case("9007199254740993", 9_007_199_254_740_993)]
    #[case("17b", 17)]
    fn a_size_is_read_as_people_write_it(#[case] text: &str, #[case] bytes: usize) {
        assert_eq!(text.parse(), Ok(Size(bytes)));
    }

    #[rstest]
    #[case("", SizeError::NoNumber)]
    #[case("MiB", SizeError::NoNumber)]
    #[case("-1", SizeError::NoNumber)]
    #[case(".5g", SizeError::NoNumber)]
    #[case("1.2.3g", SizeError::NoNumber)]
    #[case("64parsecs", SizeError::Unit("parsecs".into()))]
    #[case("1é", SizeError::Unit("é".into()))]
    #[case("0", SizeError::Zero)]
    #[case("0.0001k", SizeError::Zero)]
    #[case("99999999999t", SizeError::TooLarge)]
    #[case("99999999999999999999999999999999999999999999", SizeError::TooLarge)]
    fn a_bad_size_says_what_is_wrong(#[case] text: &str, #[case] why: SizeError) {
        assert_eq!(text.parse::<Size>(), Err(why));
    }
}
