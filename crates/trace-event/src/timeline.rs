//! A timeline: tracks with nested slices, instants and counters.
//!
//! The format requires that the slices of a thread nest: the slice begun last ends first, and times do not decrease. The events may
//! come from a program that was stopped anywhere, or from a trace that begins or ends in the middle. So the timeline remembers
//! the open slices. The end of a slice also ends the slices inside it; an end without a beginning is ignored; no time is before the
//! beginning of the enclosing slice. The number of open slices is limited: further slices are left out with their ends.

use std::io;

use super::json::{Args, Output, microseconds, number, text};

/// The maximum number of slices that are open at once, on all tracks together.
const MOST_OPEN: usize = 1024;
const NS_PER_SECOND: u64 = 1_000_000_000;

/// The text before the first row.
pub const BEGIN: &[u8] = b"[";
/// The text after the last row.
pub const END: &[u8] = b"\n]\n";

/// A thread of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Track {
    /// The value of `pid` in the rows.
    pub process: u64,
    /// The value of `tid` in the rows.
    pub thread: u64,
}

/// The name of a row: a word, or a word and a number.
#[derive(Clone, Copy, Debug)]
pub struct Name<'a>(pub &'a str, pub Option<u64>);

impl<'a> From<&'a str> for Name<'a> {
    fn from(word: &'a str) -> Name<'a> {
        Name(word, None)
    }
}

#[derive(Clone, Copy, Debug)]
struct Open<K> {
    track: Track,
    kind: K,
    /// The earliest time that a later row of the track may have.
    at: i64,
}

/// A timeline that is being written. See the module documentation. The slices of a track are distinguished by their kind, of type `K`.
#[derive(Debug)]
pub struct Timeline<S, K> {
    output: S,
    /// The value of the clock at the beginning.
    start: i64,
    /// The frequency of the clock.
    hz: u64,
    open: Vec<Open<K>>,
    /// Number of rows written.
    pub rows: u64,
    /// Number of slices left out because too many were open.
    pub unplaced: u64,
}

impl<S: Output, K: Copy + PartialEq> Timeline<S, K> {
    /// Creates a timeline. Time 0 is the moment at which the clock had the value `start`; the clock has `hz` ticks per second. Allocates
    /// all memory that the timeline will need.
    ///
    /// Every function that writes returns the error of the output.
    pub fn new(output: S, start: i64, hz: u64) -> Timeline<S, K> {
        Timeline { output, start, hz: hz.max(1), open: Vec::with_capacity(MOST_OPEN), rows: 0, unplaced: 0 }
    }

    /// Returns the output.
    pub fn output(&self) -> &S {
        &self.output
    }

    /// Returns the output, so that the caller can write other text between rows.
    pub fn output_mut(&mut self) -> &mut S {
        &mut self.output
    }

    /// Writes the beginning of the file. Call it before the first row.
    ///
    /// # Errors
    /// The output failed.
    pub fn begin_file(&mut self) -> io::Result<()> {
        self.output.put(BEGIN)
    }

    /// Returns whether a slice of this kind is open on this track.
    pub fn is_open(&self, track: Track, kind: K) -> bool {
        self.open.iter().any(|open| open.track == track && open.kind == kind)
    }

    // ---- Names ---------------------------------------------------------------------------------------------------------

    /// Names a process.
    ///
    /// # Errors
    /// The output failed.
    pub fn name_process(&mut self, process: u64, name: &str) -> io::Result<()> {
        self.name(Track { process, thread: 0 }, "process_name", name)
    }

    /// Names a thread.
    ///
    /// # Errors
    /// The output failed.
    pub fn name_thread(&mut self, track: Track, name: &str) -> io::Result<()> {
        self.name(track, "thread_name", name)
    }

    fn name(&mut self, track: Track, what: &str, name: &str) -> io::Result<()> {
        self.head(b"M", track)?;
        self.output.put(b",\"name\":")?;
        text(&mut self.output, what)?;
        self.tail(|args| args.text("name", name))
    }

    // ---- Slices --------------------------------------------------------------------------------------------------------

    /// Begins a slice inside those that are open on its track.
    ///
    /// # Errors
    /// The output failed.
    pub fn begin(
        &mut self,
        track: Track,
        kind: K,
        ticks: i64,
        (category, name): (&str, Name<'_>),
        fill: impl FnOnce(&mut Args<'_, S>),
    ) -> io::Result<()> {
        if self.open.len() == MOST_OPEN {
            self.unplaced += 1;
            return Ok(());
        }
        let at = self.raise(track, ticks);
        self.open.push(Open { track, kind, at });
        self.timed(b"B", track, at)?;
        self.called(category, name)?;
        self.tail(fill)
    }

    /// Ends the slice of this kind that was begun last on this track, and all slices inside it. Does nothing if there is no such slice.
    ///
    /// # Errors
    /// The output failed.
    pub fn end(&mut self, track: Track, kind: K, ticks: i64, fill: impl FnOnce(&mut Args<'_, S>)) -> io::Result<()> {
        let Some(place) = self.open.iter().rposition(|open| open.track == track && open.kind == kind) else {
            return Ok(());
        };
        let at = self.raise(track, ticks);
        while let Some(inside) = self.open[place + 1..].iter().rposition(|open| open.track == track) {
            self.open.remove(place + 1 + inside);
            self.timed(b"E", track, at)?;
            self.tail(|_| {})?;
        }
        self.open.remove(place);
        self.raise(track, at);
        self.timed(b"E", track, at)?;
        self.tail(fill)
    }

    /// Ends all open slices on all tracks.
    ///
    /// # Errors
    /// The output failed.
    pub fn end_all(&mut self, ticks: i64) -> io::Result<()> {
        while let Some(last) = self.open.pop() {
            let at = ticks.max(last.at);
            self.raise(last.track, at);
            self.timed(b"E", last.track, at)?;
            self.tail(|_| {})?;
        }
        Ok(())
    }

    /// Returns `ticks`, or a later time if `ticks` is before the beginning of the innermost open slice of the track, or before the end of a
    /// slice that was inside that slice.
    fn raise(&mut self, track: Track, ticks: i64) -> i64 {
        match self.open.iter_mut().rev().find(|open| open.track == track) {
            Some(open) => {
                open.at = open.at.max(ticks);
                open.at
            }
            None => ticks,
        }
    }

    // ---- Instants, counters, what belongs to no thread -----------------------------------------------------------------

    /// Writes an instant.
    ///
    /// # Errors
    /// The output failed.
    pub fn instant(
        &mut self,
        track: Track,
        ticks: i64,
        (category, name): (&str, Name<'_>),
        fill: impl FnOnce(&mut Args<'_, S>),
    ) -> io::Result<()> {
        self.timed(b"i", track, ticks)?;
        self.output.put(b",\"s\":\"t\"")?;
        self.called(category, name)?;
        self.tail(fill)
    }

    /// Writes new values of a counter.
    ///
    /// # Errors
    /// The output failed.
    pub fn counter(
        &mut self,
        track: Track,
        ticks: i64,
        (category, name): (&str, Name<'_>),
        fill: impl FnOnce(&mut Args<'_, S>),
    ) -> io::Result<()> {
        self.timed(b"C", track, ticks)?;
        self.called(category, name)?;
        self.tail(fill)
    }

    /// Writes the beginning or end of an activity that is independent of threads. `id` distinguishes activities of the same name.
    ///
    /// # Errors
    /// The output failed.
    pub fn meanwhile(
        &mut self,
        track: Track,
        ticks: i64,
        (category, name, id): (&str, Name<'_>, u64),
        begins: bool,
        fill: impl FnOnce(&mut Args<'_, S>),
    ) -> io::Result<()> {
        self.timed(if begins { b"b" } else { b"e" }, track, ticks)?;
        self.output.put(b",\"id\":")?;
        number(&mut self.output, id)?;
        self.called(category, name)?;
        self.tail(fill)
    }

    // ---- Rows ----------------------------------------------------------------------------------------------------------

    fn head(&mut self, ph: &[u8; 1], track: Track) -> io::Result<()> {
        self.output.put(if self.rows == 0 { b"\n{\"ph\":\"" } else { b",\n{\"ph\":\"" })?;
        self.rows += 1;
        self.output.put(ph)?;
        self.output.put(b"\",\"pid\":")?;
        number(&mut self.output, track.process)?;
        self.output.put(b",\"tid\":")?;
        number(&mut self.output, track.thread)
    }

    fn timed(&mut self, ph: &[u8; 1], track: Track, ticks: i64) -> io::Result<()> {
        self.head(ph, track)?;
        self.output.put(b",\"ts\":")?;
        let ns = if self.hz == NS_PER_SECOND {
            // Avoids the division of 128 bits, which is slow.
            ticks.saturating_sub(self.start)
        } else {
            let ns = (i128::from(ticks) - i128::from(self.start)) * i128::from(NS_PER_SECOND) / i128::from(self.hz);
            ns.clamp(i64::MIN.into(), i64::MAX.into()) as i64
        };
        microseconds(&mut self.output, ns)
    }

    fn called(&mut self, category: &str, Name(word, count): Name<'_>) -> io::Result<()> {
        self.output.put(b",\"cat\":")?;
        text(&mut self.output, category)?;
        self.output.put(b",\"name\":")?;
        let Some(count) = count else { return text(&mut self.output, word) };
        // Numbered names are constants of this program, so they need no escaping.
        self.output.put(b"\"")?;
        self.output.put(word.as_bytes())?;
        self.output.put(b" ")?;
        number(&mut self.output, count)?;
        self.output.put(b"\"")
    }

    fn tail(&mut self, fill: impl FnOnce(&mut Args<'_, S>)) -> io::Result<()> {
        self.output.put(b",\"args\":")?;
        Args::object(&mut self.output, fill)?;
        self.output.put(b"}")?;
        self.output.end_row()
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::nanoseconds(NS_PER_SECOND, 500, 1_750, "1.250")]
    #[case::before_the_start(NS_PER_SECOND, 1_000, 0, "-1.000")]
    #[case::latest(NS_PER_SECOND, i64::MIN, i64::MAX, "9223372036854775.807")]
    #[case::earliest(NS_PER_SECOND, i64::MAX, i64::MIN, "-9223372036854775.808")]
    #[case::other_clock(2 * NS_PER_SECOND, 500, 1_750, "0.625")]
    #[case::latest_of_other_clock(1, i64::MIN, i64::MAX, "9223372036854775.807")]
    fn a_time_is_microseconds_since_the_start(
        #[case] hz: u64,
        #[case] start: i64,
        #[case] ticks: i64,
        #[case] expected: &str,
    ) {
        let mut timeline: Timeline<Vec<u8>, ()> = Timeline::new(Vec::new(), start, hz);
        timeline.instant(Track::default(), ticks, ("c", "n".into()), |_| {}).unwrap();
        let row = String::from_utf8(timeline.output().clone()).unwrap();
        assert!(row.contains(&format!("\"ts\":{expected},")), "{row}");
    }
}
