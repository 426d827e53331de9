//! The layout of a line.
//!
//! hp2ps ends a label at its first blank and parses a label that begins with a digit as a number. So in a [`Label`] blanks are
//! underscores, and an underscore precedes a label that does not begin with a letter or with the `(` of a stack's number.
//!
//! A line is formatted without an allocation.

use std::fmt::{self, Display, Formatter, Write};

use super::{LONGEST_LINE, Line};

/// Returns the four lines at the beginning of a file of which the times are seconds.
pub fn head<'a>(job: &'a str, date: &'a str) -> [Line<'a>; 4] {
    [Line::Job(job), Line::Date(date), Line::SampleUnit("seconds"), Line::ValueUnit("bytes")]
}

/// The line as it is in a file, without its line feed. Quotes, backslashes and line feeds in texts become underscores.
impl Display for Line<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match *self {
            Line::Job(text) => quoted("JOB", text, f),
            Line::Date(text) => quoted("DATE", text, f),
            Line::SampleUnit(text) => quoted("SAMPLE_UNIT", text, f),
            Line::ValueUnit(text) => quoted("VALUE_UNIT", text, f),
            Line::Mark(time) => seconds("MARK", time, f),
            Line::Begin(time) => seconds("BEGIN_SAMPLE", time, f),
            Line::End(time) => seconds("END_SAMPLE", time, f),
            Line::Band(label, bytes) => write!(f, "{label}\t{bytes}"),
        }
    }
}

/// A text is cut where its line would be longer than readers accept.
fn quoted(keyword: &str, text: &str, f: &mut Formatter<'_>) -> fmt::Result {
    let text = &text[..text.floor_char_boundary(LONGEST_LINE - 32)];
    write!(f, "{keyword} \"")?;
    text.chars().try_for_each(|letter| f.write_char(if "\"\n\\".contains(letter) { '_' } else { letter }))?;
    f.write_char('"')
}

/// GHC writes six decimals.
fn seconds(keyword: &str, ns: u64, f: &mut Formatter<'_>) -> fmt::Result {
    let us = ns / 1_000;
    write!(f, "{keyword} {}.{:06}", us / 1_000_000, us % 1_000_000)
}

/// Builds labels that hp2ps accepts, in memory that it allocates once.
#[derive(Debug)]
pub struct Label(String);

impl Default for Label {
    fn default() -> Label {
        // Room for the largest label, with the underscore before it.
        Label(String::with_capacity(Label::MOST_BYTES + 8))
    }
}

impl Label {
    /// A label is cut to this many bytes.
    const MOST_BYTES: usize = 120;

    /// Returns the label of something with this name.
    pub fn name(&mut self, name: &str) -> &str {
        self.0.clear();
        if !name.starts_with(|first: char| first.is_alphabetic() || first == '(') {
            self.0.push('_');
        }
        self.letters(name, Label::MOST_BYTES);
        &self.0
    }

    /// Returns the label of the cost centre stack with this number. The names of its centres are passed innermost first.
    pub fn stack<'a>(&mut self, number: u32, centres: impl Iterator<Item = &'a str>) -> &str {
        self.0.clear();
        // Writing to a string does not fail.
        let _ = write!(self.0, "({number})");
        for (index, centre) in centres.enumerate() {
            let left = Label::MOST_BYTES.saturating_sub(self.0.len() + 1);
            if left == 0 {
                break;
            }
            if index > 0 {
                self.0.push('/');
            }
            self.letters(centre, left);
        }
        &self.0
    }

    /// Appends at most `most` bytes of a text, with blanks and control characters replaced by underscores.
    fn letters(&mut self, text: &str, most: usize) {
        let is_blank = |letter: char| letter.is_whitespace() || letter.is_control();
        let letters = text[..text.floor_char_boundary(most)].chars();
        self.0.extend(letters.map(|letter| if is_blank(letter) { '_' } else { letter }));
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("Tree", "Tree")]
    #[case("(12)a,b", "(12)a,b")]
    #[case("[u8; 4]", "_[u8;_4]")]
    #[case("42", "_42")]
    #[case("a\tb\n", "a_b_")]
    fn labels_contain_no_blanks_and_do_not_begin_like_numbers(#[case] name: &str, #[case] expected: &str) {
        assert_eq!(Label::default().name(name), expected);
    }

    #[test]
    fn a_long_label_is_cut_between_characters_and_not_allocated_again() {
        let mut label = Label::default();
        let before = label.0.capacity();
        let long = "\u{df}".repeat(200);
        assert_eq!(label.name(&long).len(), 120);
        assert_eq!(label.name(&format!("4{long}")).len(), 1 + 119);
        let stack = label.stack(u32::MAX, ["inner", &*long, "outer"].into_iter()).to_owned();
        assert!(stack.starts_with("(4294967295)inner/\u{df}"), "{stack}");
        assert!(stack.len() <= 120 && !stack.contains("outer"), "{stack}");
        assert_eq!(label.0.capacity(), before);
    }

    #[test]
    fn a_text_stays_within_its_line() {
        let job = "a\"b\n".repeat(LONGEST_LINE);
        let line = Line::Job(&job).to_string();
        assert!(line.len() <= LONGEST_LINE && line.starts_with("JOB \"a_b_a") && line.ends_with('"'));
    }
}
