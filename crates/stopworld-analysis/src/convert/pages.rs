//! A timeline on any output.

use std::io::{self, BufWriter, Write};

use crate::formats::perfetto::phases::Sheets;
use crate::formats::perfetto::sheet::Sheet;
use crate::formats::perfetto::timeline::{END, Timeline};

/// Rows on their way to an output.
#[derive(Debug)]
pub(super) struct Page<W: Write>(BufWriter<W>);

impl<W: Write> Sheet for Page<W> {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    fn end_row(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An empty timeline, whose times are counted from `start` on.
pub(super) fn begin<W: Write>(output: W, start: i64, hz: u64) -> io::Result<Sheets<Page<W>>> {
    let mut timeline = Timeline::new(Page(BufWriter::with_capacity(64 << 10, output)), start, hz);
    timeline.begin_file()?;
    Ok(timeline)
}

/// The end of a timeline: what is open ends with it.
pub(super) fn end<W: Write>(mut timeline: Sheets<Page<W>>, ticks: i64) -> io::Result<()> {
    timeline.end_all(ticks)?;
    let page = timeline.sheet_mut();
    page.0.write_all(END)?;
    page.0.flush()
}
