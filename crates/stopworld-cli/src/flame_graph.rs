//! Flame graphs of folded stacks.

use std::io::{self, Write};

/// Draws folded stacks.
pub(super) fn draw(lines: &[String], unit: &str, title: &str, out: &mut dyn Write) -> io::Result<()> {
    let mut options = inferno::flamegraph::Options::default();
    options.title = title.to_owned();
    options.count_name = unit.to_owned();
    inferno::flamegraph::from_lines(&mut options, lines.iter().map(String::as_str), out).map_err(io::Error::other)
}
