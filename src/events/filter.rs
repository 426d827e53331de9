//! Reads the value of `MPS_TELEMETRY_CONTROL` as the MPS does, and reports mistakes in the value, which the MPS does not.
//!
//! A value is first read as a number, by the rules of `strtoul` with base 0: white space, a sign, then hexadecimal
//! (`0x`), octal (`0`) or decimal digits up to the first other character. If the number is not 0, it is the filter, and the rest of
//! the value is ignored: `6 Arena` is 6. Otherwise the value consists of words, separated by spaces. Each word is the name of a category,
//! spelled as the MPS spells it, or `all`.
//!
//! With `arena` or `Arena,Pool` the MPS writes an empty trace without a message. [`Filter::parse`] returns the words that name no
//! category, each once, with the most similar name.

use super::state::{Categories, Category};
use stopworld_platform::suggest::nearest;

/// Only this many bytes of a value are read.
pub const LONGEST_VALUE: usize = 255;

/// The word that means every category, and every bit that may become one later.
const ALL: &str = "all";

/// The meaning of a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// The categories.
    pub categories: Categories,
    /// The words that name no category, in their order, each once.
    pub unknown: Vec<UnknownWord>,
}

/// A word that names no category.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{word}' is none of the categories Arena Pool Trace Seg Ref Object User, nor all{}", guess(.nearest))]
pub struct UnknownWord {
    /// The word.
    pub word: String,
    /// The name that was probably meant.
    pub nearest: Option<&'static str>,
}

fn guess(nearest: &Option<&str>) -> String {
    nearest.map_or(String::new(), |name| format!(": did you mean '{name}'?"))
}

impl Filter {
    /// Reads a value.
    pub fn parse(value: &str) -> Filter {
        let value = &value[..value.floor_char_boundary(LONGEST_VALUE)];
        let (number, rest) = strtoul(value);
        if number != 0 {
            return Filter { categories: Categories(number), unknown: Vec::new() };
        }
        let mut filter = Filter::default();
        // A plain 0 is a valid number: it selects nothing, and there is no word to report.
        let words = if rest.is_empty() { "" } else { value };
        for word in words.split(' ').filter(|word| !word.is_empty()) {
            match meaning(word) {
                Some(categories) => filter.categories.0 |= categories.0,
                None => filter.complain(word),
            }
        }
        filter
    }

    fn complain(&mut self, word: &str) {
        if self.unknown.iter().all(|known| known.word != word) {
            let names = Category::ALL.iter().map(|category| category.name()).chain([ALL]);
            self.unknown.push(UnknownWord { word: word.to_owned(), nearest: nearest(word.trim(), names) });
        }
    }
}

fn meaning(word: &str) -> Option<Categories> {
    if word == ALL {
        return Some(Categories::ALL);
    }
    Category::ALL.iter().find(|category| category.name() == word).map(|category| Categories::of(&[*category]))
}

/// C's `strtoul(value, &rest, 0)`: returns the number, and the text that follows it. Without digits it returns 0 and the whole value. A
/// number too large for 64 bits becomes the largest number of 64 bits, also if it is negative; any other negative number wraps.
fn strtoul(value: &str) -> (u64, &str) {
    let is_space = |c: char| matches!(c, ' ' | '\t' | '\n' | '\x0b' | '\x0c' | '\r');
    let unsigned = value.trim_start_matches(is_space);
    let (negative, digits) = match unsigned.as_bytes() {
        [b'-', ..] => (true, &unsigned[1..]),
        [b'+', ..] => (false, &unsigned[1..]),
        _ => (false, unsigned),
    };
    let (base, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', digit, ..] if digit.is_ascii_hexdigit() => (16, &digits[2..]),
        [b'0', ..] => (8, digits),
        _ => (10, digits),
    };
    let end = digits.find(|c: char| !c.is_digit(base)).unwrap_or(digits.len());
    if end == 0 {
        return (0, value);
    }
    let add = |sum: u64, digit: char| sum.checked_mul(base.into())?.checked_add(digit.to_digit(base)?.into());
    let number = match digits[..end].chars().try_fold(0, add) {
        None => u64::MAX,
        Some(number) if negative => number.wrapping_neg(),
        Some(number) => number,
    };
    (number, &digits[end..])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    /// The expected values were observed with the real MPS. Its two versions differ: for `all` they are those of the newer version, for
    /// letter case those of the older one.
    #[rstest]
    #[case("", 0)]
    #[case("0", 0)]
    #[case("garbage", 0)]
    #[case("Arena,Pool", 0)]
    #[case("0x", 0)]
    #[case("08", 0)]
    #[case("0b11", 0)]
    #[case("127", 0x7f)]
    #[case("0x7F", 0x7f)]
    #[case("64", 0x40)]
    #[case("0x40", 0x40)]
    #[case("0100", 0x40)]
    #[case("-1", u64::MAX)]
    #[case("1e3", 1)]
    #[case("6 Arena", 6)]
    #[case("127 Arena", 127)]
    #[case("+3", 3)]
    #[case("99999999999999999999999", u64::MAX)]
    #[case("-99999999999999999999999", u64::MAX)]
    #[case("Arena Pool Trace", 7)]
    #[case("arena pool trace", 0)]
    #[case("all", u64::MAX)]
    #[case("Pool all", u64::MAX)]
    #[case("Pool 127", 2)]
    #[case("\tPool", 0)]
    #[case("  User   Ref ", 0x50)]
    #[case("\t 12", 12)]
    fn a_value_is_read_as_the_mps_reads_it(#[case] value: &str, #[case] filter: u64) {
        assert_eq!(Filter::parse(value).categories, Categories(filter));
    }

    #[rstest]
    #[case("arena Pool arena", &[("arena", Some("Arena"))])]
    #[case("Arena,Pool", &[("Arena,Pool", None)])]
    #[case("Trase Objects", &[("Trase", Some("Trace")), ("Objects", Some("Object"))])]
    #[case("\tPool", &[("\tPool", Some("Pool"))])]
    #[case("Pool 127", &[("127", None)])]
    #[case("ALL", &[("ALL", Some("all"))])]
    #[case("garbage", &[("garbage", None)])]
    #[case("08", &[("08", None)])]
    #[case("0", &[])]
    #[case("0x0", &[])]
    #[case("", &[])]
    #[case("6 Nonsense", &[])]
    fn an_unknown_word_is_reported_once_with_the_nearest_name(
        #[case] value: &str,
        #[case] expected: &[(&str, Option<&str>)],
    ) {
        let unknown = Filter::parse(value).unknown;
        let found: Vec<_> = unknown.iter().map(|word| (word.word.as_str(), word.nearest)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn only_the_first_255_bytes_count() {
        let value = |spaces: usize| format!("{}Pool", " ".repeat(spaces));
        assert_eq!(Filter::parse(&value(251)).categories, Categories(2));
        assert_eq!(Filter::parse(&value(252)).categories, Categories(0));
        assert_eq!(Filter::parse(&"é".repeat(200)).categories, Categories(0));
    }

    proptest! {
        /// The oracle is the C library.
        #[test]
        fn numbers_are_read_as_strtoul_reads_them(value in "[ \t]{0,2}[-+]?(0[xX]?)?[0-9a-fA-F]{0,22}[ gx]{0,3}") {
            let text = std::ffi::CString::new(value.clone()).unwrap();
            let mut end = std::ptr::null_mut();
            // SAFETY: the string ends with 0, and `end` receives a pointer.
            let number = unsafe { libc::strtoul(text.as_ptr(), &mut end, 0) };
            // SAFETY: `end` points into the string.
            let used = unsafe { end.offset_from(text.as_ptr()) } as usize;
            prop_assert_eq!(strtoul(&value), (number, &value[used..]));
        }
    }
}
