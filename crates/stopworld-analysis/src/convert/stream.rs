//! Reads a telemetry stream of the Memory Pool System in the order of time, and determines the rate of its clock.
//!
//! A stream is written category by category, and each category backwards, so it must be sorted. Its timestamps are ticks of a
//! processor's counter, and nothing in the format gives their rate. The stream only contains occasional `EventClockSync` records with the
//! processor time of the process. Streams written by stopworld contain the rate in an interned text. Without that text and without the
//! option, the rate is estimated as the monitor of the Memory Pool System does: it is assumed that the ticks between the first and the last
//! sync took as long as the processor time between these syncs. This is a rough estimate for a process that waits much or has many threads,
//! so the rate used is reported. The ticks themselves stay exact wherever the other format can hold them.

use std::io::Read;

use super::detect::unreadable;
use super::telemetry;
use super::{Conversion, ConvertError, ConvertOptions};
use mps_telemetry::reader::{End, Reader, Record};
use mps_telemetry::sort::{Failed, Limits, Sorter};
use mps_telemetry::v2::{self, Event};
use mps_telemetry::{Layout, Version};
use stopworld_trace::mps::CLOCK_TEXT;

/// The rate that is used if none is known: a tick is a nanosecond.
const BY_DEFAULT: u64 = 1_000_000_000;
/// Plausible clock rates, in ticks per second.
const CREDIBLE: std::ops::RangeInclusive<u64> = 1_000..=1_000_000_000_000;

/// A stream that has been read.
pub(crate) struct Stream {
    pub(crate) version: Version,
    pub(crate) ticks_per_second: u64,
    /// The clock of the first record.
    pub(crate) first: u64,
    pub(crate) last: u64,
    sorter: Sorter,
}

/// The facts in the stream about its clock.
#[derive(Debug, Default)]
struct Clocks {
    /// The unit of the processor time in the syncs, as `EventInit` states it.
    per_second: Option<u64>,
    /// The rate that a text of the stream states.
    stated: Option<u64>,
    /// The first and the last sync: clock, and processor time.
    syncs: Option<[(u64, u64); 2]>,
}

impl Clocks {
    fn learn(&mut self, version: Version, record: &Record<'_>) {
        match telemetry::event(version, record) {
            Some(Event::Intern(v2::Intern { string, .. })) => {
                let number = string.strip_prefix(CLOCK_TEXT.as_bytes());
                let number = number.and_then(|number| std::str::from_utf8(number).ok()?.parse().ok());
                self.stated = self.stated.or(number.filter(|number| CREDIBLE.contains(number)));
            }
            Some(Event::EventInit(init)) => self.per_second = Some(init.clocksPerSec),
            Some(Event::EventClockSync(v2::EventClockSync { clock })) => {
                let sync = (record.clock(), clock);
                let [first, last] = self.syncs.unwrap_or([sync, sync]);
                self.syncs = Some([first.min(sync), last.max(sync)]);
            }
            _ => {}
        }
    }

    /// Estimates the rate from the first and the last sync. Returns `None` if they are missing, or if the result is not plausible.
    fn estimated(&self) -> Option<u64> {
        let [(from_ticks, from), (until_ticks, until)] = self.syncs?;
        let (ticks, clocks) = (until_ticks.checked_sub(from_ticks)?, until.checked_sub(from)?);
        let per_second = u128::from(self.per_second.unwrap_or(1_000_000));
        let rate = (u128::from(ticks) * per_second).checked_div(u128::from(clocks))?;
        u64::try_from(rate).ok().filter(|rate| CREDIBLE.contains(rate))
    }
}

/// Calls `each` with the records in stream order. Damage ends the stream and is noted in `to`.
pub(crate) fn each<R: Read>(
    reader: &mut Reader<R>,
    to: &mut Conversion,
    mut each: impl FnMut(&Record<'_>, &mut Conversion) -> Result<(), ConvertError>,
) -> Result<(), ConvertError> {
    let damage = loop {
        match reader.buffered() {
            Ok(Some(record)) => each(&record, to)?,
            Ok(None) => {
                if !reader.fill().map_err(|error| unreadable(0, error))? {
                    break reader.end();
                }
            }
            Err(damage) => break Err(damage),
        }
    };
    match damage {
        Ok(End::Clean) => {}
        Ok(End::Stray { offset, bytes }) => {
            to.left_out.add("stray bytes at the end", "too few to be a record", bytes as u64);
            to.notes.push(format!("{bytes} stray bytes at byte {offset}, where a record should begin, are left out"));
        }
        Err(damage) => to.damage = Some(damage.to_string()),
    }
    Ok(())
}

/// Reads a stream to its end.
pub(crate) fn read<R: Read>(input: R, options: &ConvertOptions, to: &mut Conversion) -> Result<Stream, ConvertError> {
    let mut reader = Reader::new(input);
    let version = reader.detect().map_err(|error| unreadable(0, error))?;
    let directory = std::env::temp_dir();
    let room = |error| ConvertError::Room { directory: directory.display().to_string(), error };
    let mut sorter = Sorter::new(version, &directory, Limits::default());
    let mut clocks = Clocks::default();
    let (mut first, mut last) = (u64::MAX, 0);
    each(&mut reader, to, |record, _| {
        (first, last) = (first.min(record.clock()), last.max(record.clock()));
        clocks.learn(version, record);
        sorter.add(record).map_err(room)
    })?;
    let known = options.ticks_per_second.or(clocks.stated);
    let estimated = clocks.estimated();
    let ticks_per_second = known.or(estimated).unwrap_or(BY_DEFAULT);
    if known.is_none() {
        let by = match estimated {
            Some(_) => "estimated from the processor time between its first and last EventClockSync",
            None => "assumed because its EventClockSync records do not determine it",
        };
        to.notes.push(format!(
            "clock rate: {ticks_per_second} ticks per second, {by}; use --ticks-per-second to set the exact rate"
        ));
    }
    Ok(Stream { version, ticks_per_second, first: first.min(last), last, sorter })
}

impl Stream {
    /// Calls `each` with all records, sorted by time.
    pub(crate) fn finish(
        self,
        mut each: impl FnMut(&Record<'_>, Option<&'static Layout>) -> Result<(), ConvertError>,
    ) -> Result<(), ConvertError> {
        let version = self.version;
        let finished = self.sorter.finish(|record| each(record, version.layout(record.code())));
        finished.map_err(|failed| match failed {
            Failed::Each(error) => error,
            Failed::Files(error) => ConvertError::Room { directory: std::env::temp_dir().display().to_string(), error },
        })
    }
}
