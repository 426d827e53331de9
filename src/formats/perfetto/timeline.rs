//! A timeline: tracks, and on them slices that nest, moments and counters.
//!
//! The format wants the ends of a thread's slices in the reverse order of their beginnings, and in the order of time. Events
//! come from programs that may be stopped anywhere, from traces that begin or end in the middle; so what is open is
//! remembered, an end closes what was begun inside, one without a beginning is none, and a time is never before that
//! of what it belongs to. What is open is bounded: a beginning that finds no place is left out together with its end.

use std::io;

use super::sheet::{Args, Sheet, microseconds, number, text};

/// Slices that are open at once, on all tracks together.
const MOST_OPEN: usize = 1024;

/// What stands before the first row, and behind the last.
pub(crate) const BEGIN: &[u8] = b"[";
pub(crate) const END: &[u8] = b"\n]\n";

/// A thread of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Track {
    pub(crate) process: u64,
    pub(crate) thread: u64,
}

/// What a row is called: a word, or a word and a number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Name<'a>(pub(crate) &'a str, pub(crate) Option<u64>);

impl<'a> From<&'a str> for Name<'a> {
    fn from(word: &'a str) -> Name<'a> {
        Name(word, None)
    }
}

#[derive(Clone, Copy, Debug)]
struct Open<K> {
    track: Track,
    kind: K,
    /// Nothing that follows on the track is before this.
    at: i64,
}

/// See the module's text. Slices are told apart by their kind.
#[derive(Debug)]
pub(crate) struct Timeline<S, K> {
    sheet: S,
    /// The clock at the beginning, and how fast it goes.
    start: i64,
    hz: u64,
    open: Vec<Open<K>>,
    pub(crate) rows: u64,
    /// Beginnings for which there was no place.
    pub(crate) unplaced: u64,
}

impl<S: Sheet, K: Copy + PartialEq> Timeline<S, K> {
    /// Allocates what it will need.
    pub(crate) fn new(sheet: S, start: i64, hz: u64) -> Timeline<S, K> {
        Timeline { sheet, start, hz: hz.max(1), open: Vec::with_capacity(MOST_OPEN), rows: 0, unplaced: 0 }
    }

    pub(crate) fn sheet(&self) -> &S {
        &self.sheet
    }

    pub(crate) fn sheet_mut(&mut self) -> &mut S {
        &mut self.sheet
    }

    /// Before the first row.
    pub(crate) fn begin_file(&mut self) -> io::Result<()> {
        self.sheet.put(BEGIN)
    }

    /// Whether such a slice is open on this track.
    pub(crate) fn is_open(&self, track: Track, kind: K) -> bool {
        self.open.iter().any(|open| open.track == track && open.kind == kind)
    }

    // ---- Names ---------------------------------------------------------------------------------------------------------

    /// Names a process.
    pub(crate) fn name_process(&mut self, process: u64, name: &str) -> io::Result<()> {
        self.name(Track { process, thread: 0 }, "process_name", name)
    }

    /// Names a thread.
    pub(crate) fn name_thread(&mut self, track: Track, name: &str) -> io::Result<()> {
        self.name(track, "thread_name", name)
    }

    fn name(&mut self, track: Track, what: &str, name: &str) -> io::Result<()> {
        self.head(b"M", track)?;
        self.sheet.put(b",\"name\":")?;
        text(&mut self.sheet, what)?;
        self.tail(|args| args.text("name", name))
    }

    // ---- Slices --------------------------------------------------------------------------------------------------------

    /// A slice begins, inside those that are open on its track.
    pub(crate) fn begin(
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

    /// The slice of this kind ends that was begun last on this track, with all that was begun inside. Without one nothing happens.
    pub(crate) fn end(
        &mut self,
        track: Track,
        kind: K,
        ticks: i64,
        fill: impl FnOnce(&mut Args<'_, S>),
    ) -> io::Result<()> {
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

    /// Ends whatever is open, on all tracks.
    pub(crate) fn end_all(&mut self, ticks: i64) -> io::Result<()> {
        while let Some(last) = self.open.pop() {
            let at = ticks.max(last.at);
            self.raise(last.track, at);
            self.timed(b"E", last.track, at)?;
            self.tail(|_| {})?;
        }
        Ok(())
    }

    /// A time on a track: not before what is open there began, nor before what was inside ended.
    fn raise(&mut self, track: Track, ticks: i64) -> i64 {
        match self.open.iter_mut().rev().find(|open| open.track == track) {
            Some(open) => {
                open.at = open.at.max(ticks);
                open.at
            }
            None => ticks,
        }
    }

    // ---- Moments, counters, what belongs to no thread ------------------------------------------------------------------

    /// Something happens at a moment.
    pub(crate) fn instant(
        &mut self,
        track: Track,
        ticks: i64,
        (category, name): (&str, Name<'_>),
        fill: impl FnOnce(&mut Args<'_, S>),
    ) -> io::Result<()> {
        self.timed(b"i", track, ticks)?;
        self.sheet.put(b",\"s\":\"t\"")?;
        self.called(category, name)?;
        self.tail(fill)
    }

    /// What is counted has these values from now on.
    pub(crate) fn counter(
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

    /// Something begins, or ends, that goes on whatever the threads do; by its number among those of its name.
    #[cfg(feature = "readers")]
    pub(crate) fn meanwhile(
        &mut self,
        track: Track,
        ticks: i64,
        (category, name, id): (&str, Name<'_>, u64),
        begins: bool,
        fill: impl FnOnce(&mut Args<'_, S>),
    ) -> io::Result<()> {
        self.timed(if begins { b"b" } else { b"e" }, track, ticks)?;
        self.sheet.put(b",\"id\":")?;
        number(&mut self.sheet, id)?;
        self.called(category, name)?;
        self.tail(fill)
    }

    // ---- Rows ----------------------------------------------------------------------------------------------------------

    fn head(&mut self, ph: &[u8; 1], track: Track) -> io::Result<()> {
        self.sheet.put(if self.rows == 0 { b"\n{\"ph\":\"" } else { b",\n{\"ph\":\"" })?;
        self.rows += 1;
        self.sheet.put(ph)?;
        self.sheet.put(b"\",\"pid\":")?;
        number(&mut self.sheet, track.process)?;
        self.sheet.put(b",\"tid\":")?;
        number(&mut self.sheet, track.thread)
    }

    fn timed(&mut self, ph: &[u8; 1], track: Track, ticks: i64) -> io::Result<()> {
        self.head(ph, track)?;
        self.sheet.put(b",\"ts\":")?;
        let ns = (i128::from(ticks) - i128::from(self.start)) * 1_000_000_000 / i128::from(self.hz);
        microseconds(&mut self.sheet, ns.clamp(i64::MIN.into(), i64::MAX.into()) as i64)
    }

    fn called(&mut self, category: &str, Name(word, count): Name<'_>) -> io::Result<()> {
        self.sheet.put(b",\"cat\":")?;
        text(&mut self.sheet, category)?;
        self.sheet.put(b",\"name\":")?;
        let Some(count) = count else { return text(&mut self.sheet, word) };
        // Words that are numbered are ours, and need no care.
        self.sheet.put(b"\"")?;
        self.sheet.put(word.as_bytes())?;
        self.sheet.put(b" ")?;
        number(&mut self.sheet, count)?;
        self.sheet.put(b"\"")
    }

    fn tail(&mut self, fill: impl FnOnce(&mut Args<'_, S>)) -> io::Result<()> {
        self.sheet.put(b",\"args\":")?;
        Args::object(&mut self.sheet, fill)?;
        self.sheet.put(b"}")?;
        self.sheet.end_row()
    }
}
