//! From a GHC eventlog to a timeline.
//!
//! Each capability, which runs Haskell code, has a track. On this track, running threads and collections are slices. Events that belong to
//! no capability are on a separate track. Heap sizes are counters, and so is each sample of a heap profile, with one value per band. All
//! other events are instants, with the text that `ghc-events` prints for them. Events are sorted by time; for that, the input is spooled to
//! an unnamed temporary file.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::io::{self, Read, Write};
use std::mem;

use super::detect::unreadable;
use super::pages::{self, Page};
use super::{Conversion, ConvertError};
use ghc_eventlog::events::{Record, RunThread};
use ghc_eventlog::read::{Event, Visitor, by_time, show};
use stopworld_trace::perfetto::phases::{CollectorTimeline, Slice};
use trace_event::{Name, Track};

/// The placeholder for the process id if the log does not contain it.
const PROCESS: u64 = 1;
/// The track for events that belong to no capability; the tracks of capabilities follow.
const PROGRAM: u64 = 1;
/// The maximum number of threads whose names are remembered.
const MOST_THREADS: usize = 1 << 16;
/// The maximum number of bands of a sample that are shown.
const MOST_BANDS: usize = 1 << 12;
/// The reason why bands are left out.
const TOO_MANY_BANDS: &str = "a sample on a timeline has at most 4096 bands";

pub(super) fn convert<R: Read, W: Write>(mut input: R, output: W, to: &mut Conversion) -> Result<(), ConvertError> {
    let spooled = spool(&mut input)?;
    let timeline = pages::begin(output, 0, 1_000_000_000).map_err(ConvertError::Output)?;
    let mut drawing = Drawing {
        timeline,
        threads: HashMap::new(),
        caps: vec![false; 1 << 16],
        bands: Vec::new(),
        band_of: HashMap::new(),
        bands_left_out: 0,
        sample: None,
        text: Vec::new(),
        last: 0,
        carried: 0,
        begun: false,
        failed: None,
    };
    drawing.failed = drawing.names().err();
    let summary = by_time(&spooled, &mut drawing);
    if let Some(damage) = summary.damage {
        if !drawing.begun {
            return Err(ConvertError::Unreadable(damage.to_string()));
        }
        to.damage = Some(damage.to_string());
    }
    let sample = drawing.end_sample();
    if let Some(error) = drawing.failed.take().or(sample.err()) {
        return Err(ConvertError::Output(error));
    }
    to.carried = drawing.carried - drawing.bands_left_out;
    to.left_out.add("bands of samples of a heap profile", TOO_MANY_BANDS, drawing.bands_left_out);
    let last = drawing.last;
    pages::end(drawing.timeline, last).map_err(ConvertError::Output)
}

/// Copies the input to a file, which allows random access.
fn spool<R: Read>(input: &mut R) -> Result<File, ConvertError> {
    let room = |error| ConvertError::Room { directory: std::env::temp_dir().display().to_string(), error };
    let mut spooled = tempfile::tempfile().map_err(room)?;
    let mut buffer = vec![0; 64 << 10];
    let mut offset = 0;
    loop {
        match input.read(&mut buffer) {
            Ok(0) => return Ok(spooled),
            Ok(read) => {
                spooled.write_all(&buffer[..read]).map_err(room)?;
                offset += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(unreadable(offset, error)),
        }
    }
}

struct Drawing<W: Write> {
    timeline: CollectorTimeline<Page<W>>,
    threads: HashMap<u32, String>,
    /// Whether the track of each capability has been named.
    caps: Vec<bool>,
    /// The bands of the current sample with their bytes; `sample` is its time.
    bands: Vec<(String, u64)>,
    /// The index of each band in `bands`, by its label.
    band_of: HashMap<String, usize>,
    /// The number of bands for which a sample had no room.
    bands_left_out: u64,
    sample: Option<i64>,
    text: Vec<u8>,
    last: i64,
    carried: u64,
    begun: bool,
    failed: Option<io::Error>,
}

impl<W: Write> Drawing<W> {
    fn names(&mut self) -> io::Result<()> {
        self.timeline.name_process(PROCESS, "GHC eventlog")?;
        self.timeline.name_thread(Track { process: PROCESS, thread: PROGRAM }, "program")
    }

    fn track(&mut self, cap: Option<u16>) -> io::Result<Track> {
        let thread = cap.map_or(PROGRAM, |cap| PROGRAM + 1 + u64::from(cap));
        let track = Track { process: PROCESS, thread };
        if let Some(cap) = cap.filter(|cap| !mem::replace(&mut self.caps[usize::from(*cap)], true)) {
            self.timeline.name_thread(track, &format!("cap {cap}"))?;
        }
        Ok(track)
    }

    fn draw(&mut self, event: &Event<'_>) -> io::Result<()> {
        let track = self.track(event.cap)?;
        let ticks = event.time as i64;
        self.last = self.last.max(ticks);
        match Record::of(event) {
            Some(Record::ProgramArgs(program)) => {
                let words: Vec<_> = program.args.texts().map(String::from_utf8_lossy).collect();
                self.timeline.name_process(PROCESS, words.join(" ").trim_end())?;
            }
            Some(Record::GcStart(_)) => {
                let called = ("gc", Name("gc", None));
                return self.timeline.begin(track, Slice::Pause, ticks, called, |_| {});
            }
            Some(Record::GcEnd(_)) if self.timeline.is_open(track, Slice::Pause) => {
                return self.timeline.end(track, Slice::Pause, ticks, |_| {});
            }
            Some(Record::HeapSize(heap)) => return self.count(track, ticks, "heap size", heap.bytes),
            Some(Record::HeapLive(heap)) => return self.count(track, ticks, "heap live", heap.bytes),
            Some(Record::BlocksSize(heap)) => return self.count(track, ticks, "blocks", heap.bytes),
            Some(Record::HeapAllocated(heap)) => {
                let name =
                    format!("allocated by {}", event.cap.map_or("the program".into(), |cap| format!("cap {cap}")));
                return self.count(track, ticks, &name, heap.bytes);
            }
            Some(Record::HeapProfSampleBegin(_)) => self.begin_sample(ticks)?,
            Some(Record::HeapBioProfSampleBegin(sample)) => self.begin_sample(sample.time as i64)?,
            Some(Record::HeapProfSampleString(band)) if self.sample.is_some() => {
                self.add_band(String::from_utf8_lossy(&band.label).into_owned(), band.residency);
                return Ok(());
            }
            Some(Record::HeapProfSampleEnd(_)) if self.sample.is_some() => return self.end_sample(),
            Some(Record::ThreadLabel(named)) if self.threads.len() < MOST_THREADS => {
                self.threads.insert(named.thread, String::from_utf8_lossy(&named.label).into_owned());
            }
            Some(Record::RunThread(RunThread { thread })) => {
                let name = match self.threads.get(&thread) {
                    Some(label) => format!("thread {thread} {label}"),
                    None => format!("thread {thread}"),
                };
                self.timeline.end(track, Slice::Work, ticks, |_| {})?;
                return self.timeline.begin(track, Slice::Work, ticks, ("thread", name.as_str().into()), |_| {});
            }
            Some(Record::StopThread(_)) if self.timeline.is_open(track, Slice::Work) => {
                let text = text_of(&mut self.text, event);
                return self.timeline.end(track, Slice::Work, ticks, |args| args.text("says", &text));
            }
            _ => {}
        }
        let text = text_of(&mut self.text, event);
        let name = if event.kind.description.is_empty() { "event" } else { &event.kind.description };
        self.timeline.instant(track, ticks, ("event", name.into()), |args| {
            args.number("id", event.kind.id.into());
            args.text("says", &text);
        })
    }

    fn count(&mut self, track: Track, ticks: i64, name: &str, bytes: u64) -> io::Result<()> {
        self.timeline.counter(track, ticks, ("heap", name.into()), |args| args.count("bytes", bytes))
    }

    fn begin_sample(&mut self, ticks: i64) -> io::Result<()> {
        self.end_sample()?;
        self.sample = Some(ticks);
        Ok(())
    }

    /// Adds a band to the sample. GHC sometimes writes two bands with the same label: they are merged, because a row can have each
    /// name only once.
    fn add_band(&mut self, label: String, bytes: u64) {
        let count = self.bands.len();
        match self.band_of.entry(label) {
            Entry::Occupied(known) => {
                let (_, sum) = &mut self.bands[*known.get()];
                *sum = sum.saturating_add(bytes);
            }
            Entry::Vacant(new) if count < MOST_BANDS => {
                self.bands.push((new.key().clone(), bytes));
                new.insert(count);
            }
            Entry::Vacant(_) => self.bands_left_out += 1,
        }
    }

    /// Ends the sample: writes one row with all its bands.
    fn end_sample(&mut self) -> io::Result<()> {
        self.band_of.clear();
        let (Some(ticks), bands) = (self.sample.take(), mem::take(&mut self.bands)) else { return Ok(()) };
        if bands.is_empty() {
            return Ok(());
        }
        let track = Track { process: PROCESS, thread: PROGRAM };
        self.timeline.counter(track, ticks, ("heap", "heap profile".into()), |args| {
            bands.iter().for_each(|(label, bytes)| args.count(label, *bytes));
        })
    }
}

/// Returns the text that `ghc-events` prints for an event, in the memory of `text` if it is UTF-8.
fn text_of<'t>(text: &'t mut Vec<u8>, event: &Event<'_>) -> Cow<'t, str> {
    text.clear();
    show::text(text, event.kind, event.payload);
    String::from_utf8_lossy(text)
}

impl<W: Write> Visitor for Drawing<W> {
    fn begin_events(&mut self) {
        self.begun = true;
    }

    fn event(&mut self, event: &Event<'_>) {
        if self.failed.is_none() {
            match self.draw(event) {
                Ok(()) => self.carried += 1,
                Err(error) => self.failed = Some(error),
            }
        }
    }

    fn is_done(&self) -> bool {
        self.failed.is_some()
    }
}

#[cfg(test)]
mod tests {
    use ghc_eventlog::events::{HeapProfSampleBegin, HeapProfSampleEnd, HeapProfSampleString};
    use ghc_eventlog::write::Log;

    use super::super::{ConvertOptions, Target, convert};
    use super::*;

    /// Converts a log with one sample, which has these bands, all of one byte.
    fn converted(labels: impl Iterator<Item = String>) -> (String, Conversion) {
        let mut log = Log::new(Vec::new());
        log.set_time(1_000);
        log.write(None, &HeapProfSampleBegin { era: 0 }).unwrap();
        for label in labels {
            log.write(None, &HeapProfSampleString { profile: 0, residency: 1, label: label.as_str().into() }).unwrap();
        }
        log.write(None, &HeapProfSampleEnd { era: 0 }).unwrap();
        let mut timeline = Vec::new();
        let conversion =
            convert(&*log.finish().unwrap(), &mut timeline, Target::Json, &ConvertOptions::default()).unwrap();
        (String::from_utf8(timeline).unwrap(), conversion)
    }

    #[test]
    fn bands_with_the_same_label_are_merged() {
        let (timeline, conversion) = converted(["Tree", "List", "Tree"].map(str::to_owned).into_iter());
        assert!(timeline.contains(r#""Tree":2,"List":1"#), "{timeline}");
        assert!(conversion.left_out.is_empty());
    }

    #[test]
    fn bands_without_room_are_listed_as_left_out() {
        let with_bands = |count: usize| converted((0..count).map(|number| number.to_string())).1;
        let (full, conversion) = (with_bands(MOST_BANDS), with_bands(MOST_BANDS + 3));
        let rows = conversion.left_out.rows();
        assert_eq!((rows.len(), rows[0].count, rows[0].why), (1, 3, TOO_MANY_BANDS));
        assert!(full.left_out.is_empty());
        assert_eq!(conversion.carried, full.carried);
    }
}
