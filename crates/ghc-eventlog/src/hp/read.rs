//! Reads a file line by line.
//!
//! The reader accepts more than hp2ps does: labels that contain blanks (the number follows the last tab, or
//! else the last blank), a file without the four header lines, and a file that ends inside a sample. A line that it can't
//! parse is skipped and reported with its byte offset; so is a line of more than [`LONGEST_LINE`] bytes.

use std::io::{self, BufRead};

use super::Line;

/// The longest line that is read, in bytes; hp2ps reads labels of a few thousand bytes.
pub const LONGEST_LINE: usize = 64 << 10;

/// Where a file is damaged, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The byte offset of the damaged line.
    pub offset: u64,
    /// Which line, from 1.
    pub line: u64,
    /// The kind of damage.
    pub kind: DamageKind,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "at byte {}, line {}: {}", self.offset, self.line, self.kind)
    }
}

/// The kinds of damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DamageKind {
    /// Reading the file failed.
    #[error("reading the file failed: {0}")]
    Input(io::ErrorKind),
    /// The line is too long.
    #[error("a line of more than {LONGEST_LINE} bytes: it is skipped")]
    Long,
    /// The line is not UTF-8.
    #[error("a line that is not UTF-8: it is skipped")]
    Text,
    /// A label that no number of bytes follows.
    #[error("expected a whole number of bytes at the end of this line: it is skipped")]
    Number,
    /// A time that is not a number of seconds.
    #[error("expected a time after the keyword: the line is skipped")]
    Time,
    /// A text without quotes.
    #[error("expected a quoted text after the keyword: the line is skipped")]
    Quotes,
    /// A label outside of a sample.
    #[error("a label outside of a sample: it is skipped")]
    Outside,
    /// A sample that begins inside another, or an end without a beginning.
    #[error("samples that overlap: {0}")]
    Nesting(&'static str),
    /// A sample with an earlier time than the one before it.
    #[error("a sample with an earlier time than the one before it")]
    Backwards,
    /// The file ends inside a sample.
    #[error("the file ends inside a sample")]
    Cut,
    /// The file is not a heap profile.
    #[error("this is not a heap profile: expected JOB on the first line")]
    Head,
}

/// A summary of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Samples.
    pub samples: u64,
    /// Bytes read.
    pub bytes: u64,
    /// The first damage.
    pub damage: Option<Damage>,
    /// The number of damaged lines.
    pub damages: u64,
}

/// A file that is being read.
struct Reading {
    offset: u64,
    line: u64,
    is_in_sample: bool,
    newest: u64,
    summary: Summary,
}

/// Reads a file to its end and passes each line that it can parse to `tell`.
pub fn read(mut input: impl BufRead, mut tell: impl FnMut(Line<'_>)) -> Summary {
    let mut reading = Reading { offset: 0, line: 0, is_in_sample: false, newest: 0, summary: Summary::default() };
    let mut buffer = Vec::new();
    loop {
        buffer.clear();
        reading.line += 1;
        let length = match next_line(&mut input, &mut buffer) {
            Ok(0) => break,
            Ok(length) => length,
            Err(error) => {
                reading.damaged(DamageKind::Input(error.kind()));
                break;
            }
        };
        match reading.line(&buffer, length) {
            Ok(Some(line)) => tell(line),
            Ok(None) => {}
            Err(kind) => reading.damaged(kind),
        }
        reading.offset += length;
        if reading.summary.damage.is_some_and(|damage| damage.kind == DamageKind::Head) {
            break;
        }
    }
    if reading.is_in_sample {
        reading.damaged(DamageKind::Cut);
    }
    Summary { bytes: reading.offset, ..reading.summary }
}

/// Reads the next line into `buffer`, without its line feed, and truncated to the length that is kept. Returns the length of the whole line
/// with its line feed.
fn next_line(input: &mut impl BufRead, buffer: &mut Vec<u8>) -> io::Result<u64> {
    let mut length = 0;
    loop {
        let here = match input.fill_buf() {
            Ok(here) => here,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let end = here.iter().position(|&byte| byte == b'\n');
        let count = end.unwrap_or(here.len());
        let room = (LONGEST_LINE + 1).saturating_sub(buffer.len());
        buffer.extend_from_slice(&here[..count.min(room)]);
        let is_last = end.is_some() || here.is_empty();
        let taken = count + usize::from(end.is_some());
        input.consume(taken);
        length += taken as u64;
        if is_last {
            return Ok(length);
        }
    }
}

impl Reading {
    fn damaged(&mut self, kind: DamageKind) {
        self.summary.damages += 1;
        self.summary.damage.get_or_insert(Damage { offset: self.offset, line: self.line, kind });
    }

    fn line<'a>(&mut self, bytes: &'a [u8], length: u64) -> Result<Option<Line<'a>>, DamageKind> {
        if length as usize > LONGEST_LINE {
            return Err(DamageKind::Long);
        }
        let is_first = self.line == 1;
        let text = str::from_utf8(bytes).map_err(|_| if is_first { DamageKind::Head } else { DamageKind::Text })?;
        let text = text.trim_end_matches('\r');
        if text.trim().is_empty() {
            return Ok(None);
        }
        let (word, rest) = text.split_once([' ', '\t']).unwrap_or((text, ""));
        let line = match word {
            "JOB" => Line::Job(quoted(rest)?),
            "DATE" => Line::Date(quoted(rest)?),
            "SAMPLE_UNIT" => Line::SampleUnit(quoted(rest)?),
            "VALUE_UNIT" => Line::ValueUnit(quoted(rest)?),
            "MARK" => Line::Mark(time(rest)?),
            "BEGIN_SAMPLE" => self.begin(time(rest)?),
            "END_SAMPLE" => self.end(time(rest)?)?,
            _ if is_first && !is_band(text) => return Err(DamageKind::Head),
            _ => self.band(text)?,
        };
        Ok(Some(line))
    }

    fn begin<'a>(&mut self, time: u64) -> Line<'a> {
        if self.is_in_sample {
            self.damaged(DamageKind::Nesting("one begins before the previous one has ended"));
        }
        if time < self.newest {
            self.damaged(DamageKind::Backwards);
        }
        self.is_in_sample = true;
        self.newest = time;
        self.summary.samples += 1;
        Line::Begin(time)
    }

    fn end<'a>(&mut self, time: u64) -> Result<Line<'a>, DamageKind> {
        if !self.is_in_sample {
            return Err(DamageKind::Nesting("one ends that did not begin"));
        }
        self.is_in_sample = false;
        Ok(Line::End(time))
    }

    fn band<'a>(&self, text: &'a str) -> Result<Line<'a>, DamageKind> {
        let (label, bytes) = text.rsplit_once('\t').or_else(|| text.rsplit_once(' ')).ok_or(DamageKind::Number)?;
        let bytes = bytes.trim().parse().map_err(|_| DamageKind::Number)?;
        if self.is_in_sample { Ok(Line::Band(label.trim_end(), bytes)) } else { Err(DamageKind::Outside) }
    }
}

fn is_band(text: &str) -> bool {
    text.rsplit_once('\t').is_some_and(|(_, bytes)| bytes.trim().parse::<u64>().is_ok())
}

/// Returns the text between the quotes. A doubled quote inside stays doubled.
fn quoted(text: &str) -> Result<&str, DamageKind> {
    text.trim().strip_prefix('"').and_then(|text| text.strip_suffix('"')).ok_or(DamageKind::Quotes)
}

/// Parses a number of seconds with decimals; returns nanoseconds.
fn time(text: &str) -> Result<u64, DamageKind> {
    let (whole, decimals) = text.trim().split_once('.').unwrap_or((text.trim(), ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(decimals) {
        return Err(DamageKind::Time);
    }
    let seconds: u64 = whole.parse().map_err(|_| DamageKind::Time)?;
    let nanoseconds = format!("{decimals:0<9}")[..9].parse::<u64>().map_err(|_| DamageKind::Time)?;
    seconds.checked_mul(1_000_000_000).and_then(|time| time.checked_add(nanoseconds)).ok_or(DamageKind::Time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    fn lines(text: &[u8]) -> (Vec<String>, Summary) {
        let mut lines = Vec::new();
        let summary = read(text, |line| lines.push(format!("{line:?}")));
        (lines, summary)
    }

    #[test]
    fn a_profile_is_read() {
        let text = b"JOB \"p \"\"x\"\"\"\nDATE \"d\"\nSAMPLE_UNIT \"seconds\"\nVALUE_UNIT \"bytes\"\nMARK 0.5\n\
            BEGIN_SAMPLE 1.25\na\t1\nb c\t2\nd 3\nEND_SAMPLE 1.25\n";
        let (lines, summary) = lines(text);
        let expected = [
            r#"Job("p \"\"x\"\"")"#,
            r#"Date("d")"#,
            r#"SampleUnit("seconds")"#,
            r#"ValueUnit("bytes")"#,
            "Mark(500000000)",
            "Begin(1250000000)",
            r#"Band("a", 1)"#,
            r#"Band("b c", 2)"#,
            r#"Band("d", 3)"#,
            "End(1250000000)",
        ];
        assert_eq!(lines, expected);
        assert_eq!(summary, Summary { samples: 1, bytes: text.len() as u64, ..Summary::default() });
    }

    #[rstest]
    #[case("\x7fELF", 0, DamageKind::Head)]
    #[case("JOB \"j\"\na\t1\n", 8, DamageKind::Outside)]
    #[case("JOB \"j\"\nBEGIN_SAMPLE x\n", 8, DamageKind::Time)]
    #[case("JOB j\n", 0, DamageKind::Quotes)]
    #[case("BEGIN_SAMPLE 1\na\t1.5\nEND_SAMPLE 1\n", 15, DamageKind::Number)]
    #[case("BEGIN_SAMPLE 1\na\t-1\nEND_SAMPLE 1\n", 15, DamageKind::Number)]
    #[case("BEGIN_SAMPLE 1\na\nEND_SAMPLE 1\n", 15, DamageKind::Number)]
    #[case("BEGIN_SAMPLE 1\na\t1\n", 19, DamageKind::Cut)]
    #[case("BEGIN_SAMPLE 2\nEND_SAMPLE 2\nBEGIN_SAMPLE 1\nEND_SAMPLE 1\n", 28, DamageKind::Backwards)]
    #[case("END_SAMPLE 2\n", 0, DamageKind::Nesting("one ends that did not begin"))]
    fn damage_is_told_with_its_byte(#[case] text: &str, #[case] offset: u64, #[case] kind: DamageKind) {
        let damage = lines(text.as_bytes()).1.damage.unwrap();
        assert_eq!((damage.offset, damage.kind), (offset, kind), "{damage}");
    }

    #[test]
    fn a_line_without_end_is_left_out_and_takes_no_memory() {
        let mut text = b"JOB \"j\"\n".to_vec();
        text.resize(1 << 20, b'x');
        text.extend(b"\nMARK 1\n");
        let (lines, summary) = lines(&text);
        assert_eq!(lines, [r#"Job("j")"#, "Mark(1000000000)"]);
        assert_eq!(summary.damage.unwrap().kind, DamageKind::Long);
    }

    proptest! {
        #[test]
        fn random_text_is_survived(text in "(JOB \"|BEGIN_SAMPLE |END_SAMPLE |MARK |[a-z]{0,3}|\t|\n|[0-9.]{0,22}|\\PC){0,60}") {
            let (_, summary) = lines(text.as_bytes());
            prop_assert!(summary.bytes <= text.len() as u64);
        }
    }
}
