//! Writes a timeline to any output.

use std::io::{self, BufWriter, Write};

use stopworld_trace::perfetto::phases::CollectorTimeline;
use trace_event::Output;
use trace_event::{END, Timeline};

/// An output for a timeline's rows: buffers them and writes them to `W`.
#[derive(Debug)]
pub(super) struct Page<W: Write>(BufWriter<W>);

impl<W: Write> Output for Page<W> {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    fn end_row(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Begins a timeline whose times are counted from `start`.
pub(super) fn begin<W: Write>(output: W, start: i64, hz: u64) -> io::Result<CollectorTimeline<Page<W>>> {
    let mut timeline = Timeline::new(Page(BufWriter::with_capacity(64 << 10, output)), start, hz);
    timeline.begin_file()?;
    Ok(timeline)
}

/// Ends a timeline, and all slices that are open.
pub(super) fn end<W: Write>(mut timeline: CollectorTimeline<Page<W>>, ticks: i64) -> io::Result<()> {
    timeline.end_all(ticks)?;
    let page = timeline.output_mut();
    page.0.write_all(END)?;
    page.0.flush()
}
