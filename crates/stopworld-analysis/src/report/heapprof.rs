//! A heap profile as tables for a terminal, and as CSV.
//!
//! There are two tables: general facts, and one line per band, sorted by the band's total over the run, with a small chart of the band over
//! time, scaled to the band's own peak. Cells never wrap, so that `grep` and `awk` work on the output. [`csv`] writes all values: one line
//! for each band of each sample.

use std::borrow::Cow;
use std::io::{self, Write};

use comfy_table::Table;

use super::Bytes;
use super::layout::{align_right, empty};
use crate::profstats::heap::Row;
use crate::profstats::{HeapProfile, Profiles, Sample};

/// Characters in a band's chart.
const PLACES: usize = 32;
/// Names are cut to this many characters.
const LONGEST_NAME: usize = 72;
/// The most bytes of names kept for [`Csv`]. The name of a stack contains the names of all its centres, and a file of a few
/// megabytes can have hundreds of thousands of deep stacks. Names that do not fit this limit are built again for each line.
const MOST_NAMES: usize = 32 << 20;

/// Formats the tables for printing, with at most `most` bands; no newline at the end.
pub fn render(profiles: &Profiles, most: usize) -> String {
    format!("{}\n{}", figures(profiles), bands(profiles, most))
}

fn figures(profiles: &Profiles) -> Table {
    let Profiles { heap, .. } = profiles;
    let mut table = empty();
    let mut row = |name: &str, value: String| {
        if !value.is_empty() {
            table.add_row([name.to_owned(), value]);
        }
    };
    row("program", heap.program.clone());
    row("date", heap.date.clone());
    row("written by", profiles.runtime.clone());
    row("breakdown", heap.breakdown.name().to_owned());
    row("filters", heap.filters.join("; "));
    row("samples", samples(heap));
    row("bands", heap.bands.len().to_string());
    if let Some(peak) = heap.samples.kept().iter().max_by_key(|sample| sample.total()) {
        row("peak", format!("{} at {} s", Bytes(peak.total()), seconds(peak.time_ns)));
    }
    if heap.collections.seen() > 0 {
        let paused: u128 = heap.collections.kept().iter().map(|(begin, end)| u128::from(end - begin)).sum();
        let paused = paused * u128::from(heap.collections.stride());
        row("collections", format!("{}, {:.3} s in total", heap.collections.seen(), paused as f64 / 1e9));
    }
    row("markers", if heap.marks.seen() > 0 { heap.marks.seen().to_string() } else { String::new() });
    table
}

fn samples(heap: &HeapProfile) -> String {
    let kept = heap.samples.kept();
    let [Some(first), Some(last)] = [kept.first(), kept.last()] else { return "none".to_owned() };
    let every = match heap.samples.stride() {
        1 => String::new(),
        stride => format!(", one of {stride} kept"),
    };
    format!("{} from {} to {} s{every}", heap.samples.seen(), seconds(first.time_ns), seconds(last.time_ns))
}

fn bands(profiles: &Profiles, most: usize) -> Table {
    let Profiles { heap, stacks, centres, .. } = profiles;
    let rows = heap.rows();
    let all: u128 = rows.iter().map(|row| row.sum).sum();
    let mut table = empty();
    let mut heads = vec![heap.breakdown.name(), "mean", "peak", "at, s", "last"];
    heads.extend(heap.has_objects.then_some("objects"));
    heads.extend(["share, %", "over time"]);
    table.set_header(&heads);
    let pictures = Pictures::of(heap, &rows[..most.min(rows.len())]);
    for (index, row) in rows.iter().take(most).enumerate() {
        let name = heap.name(row.band, stacks, centres);
        let [mean, peak, last] = [row.mean, row.peak, row.last].map(|bytes| Bytes(bytes).to_string());
        let share = format!("{:.1}", share(row.sum, all));
        let mut cells = vec![cut(&name), mean, peak, seconds(row.peak_ns), last];
        cells.extend(heap.has_objects.then(|| row.last_objects.to_string()));
        cells.extend([share, pictures.line(index, row.peak)]);
        table.add_row(cells);
    }
    if let Some(rest) = rows.get(most..).filter(|rest| !rest.is_empty()) {
        let sum = |of: fn(&Row) -> u64| rest.iter().map(of).fold(0, u64::saturating_add);
        let bytes = |of: fn(&Row) -> u64| Bytes(sum(of)).to_string();
        let share = format!("{:.1}", share(rest.iter().map(|row| row.sum).sum(), all));
        let name = format!("{} more", rest.len());
        let mut cells = vec![name, bytes(|row| row.mean), String::new(), String::new(), bytes(|row| row.last)];
        cells.extend(heap.has_objects.then(|| sum(|row| row.last_objects).to_string()));
        cells.extend([share, String::new()]);
        table.add_row(cells);
    }
    align_right(&mut table, 1..heads.len() - 1);
    table
}

/// The maximum of each band in each interval of its small chart.
struct Pictures {
    most: Vec<[u64; PLACES]>,
}

impl Pictures {
    fn of(heap: &HeapProfile, rows: &[Row]) -> Pictures {
        let mut place_of = vec![usize::MAX; heap.bands.len()];
        rows.iter().enumerate().for_each(|(index, row)| place_of[row.band as usize] = index);
        let mut most = vec![[0; PLACES]; rows.len()];
        let kept = heap.samples.kept();
        let (first, last) =
            (kept.first().map_or(0, |sample| sample.time_ns), kept.last().map_or(0, |sample| sample.time_ns));
        let width = (u128::from(last - first) + 1).div_ceil(PLACES as u128);
        for sample in kept {
            let place = (u128::from(sample.time_ns - first) / width) as usize;
            for &(band, bytes) in &sample.values {
                if let Some(places) = most.get_mut(place_of[band as usize]) {
                    places[place] = bytes.max(places[place]);
                }
            }
        }
        // Between two samples the value of the earlier one holds.
        let has_sample: Vec<bool> = {
            let mut has_sample = vec![false; PLACES];
            kept.iter().for_each(|sample| has_sample[(u128::from(sample.time_ns - first) / width) as usize] = true);
            has_sample
        };
        for places in &mut most {
            for place in 1..PLACES {
                if !has_sample[place] {
                    places[place] = places[place - 1];
                }
            }
        }
        Pictures { most }
    }

    fn line(&self, index: usize, peak: u64) -> String {
        const LEVELS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
        let level = |bytes: u64| (u128::from(bytes) * 8).div_ceil(u128::from(peak.max(1))) as usize;
        self.most[index].iter().map(|&bytes| LEVELS[level(bytes).min(8)]).collect()
    }
}

/// Writes one line for each band of each sample: time in seconds, band, bytes, and the number of objects if the file has numbers of objects.
///
/// # Errors
///
/// Writing failed.
pub fn csv(profiles: &Profiles, out: &mut dyn Write) -> io::Result<()> {
    let csv = Csv::begin(profiles, out)?;
    profiles.heap.samples.kept().iter().try_for_each(|sample| csv.sample(sample, out))
}

/// Like [`csv`], for samples that arrive one by one because they are too many to be kept.
#[derive(Debug)]
pub struct Csv<'p> {
    profiles: &'p Profiles,
    /// The CSV cells with the names of as many bands as fit [`MOST_NAMES`].
    names: Vec<String>,
}

impl<'p> Csv<'p> {
    /// Writes the heading line. The names of the bands must be known by now.
    ///
    /// # Errors
    ///
    /// Writing failed.
    pub fn begin(profiles: &'p Profiles, out: &mut dyn Write) -> io::Result<Csv<'p>> {
        writeln!(out, "time_s,band,bytes{}", if profiles.heap.has_objects { ",objects" } else { "" })?;
        let mut csv = Csv { profiles, names: Vec::new() };
        let mut kept = 0;
        while kept < MOST_NAMES
            && let Some(name) = csv.name(csv.names.len() as u32)
        {
            kept += size_of::<String>() + name.len();
            let name = name.into_owned();
            csv.names.push(name);
        }
        Ok(csv)
    }

    /// Returns the CSV cell with the name of a band, if the profile has the band.
    fn name(&self, band: u32) -> Option<Cow<'_, str>> {
        if let Some(name) = self.names.get(band as usize) {
            return Some(name.into());
        }
        let Profiles { heap, stacks, centres, .. } = self.profiles;
        ((band as usize) < heap.bands.len()).then(|| cell(&heap.name(band, stacks, centres)).into())
    }

    /// Writes the lines of a sample. If the file has grown since it was first read, a sample may have bands without names; they are left
    /// out.
    ///
    /// # Errors
    ///
    /// Writing failed.
    pub fn sample(&self, sample: &Sample, out: &mut dyn Write) -> io::Result<()> {
        let time = sample.time_ns;
        for (index, (band, bytes)) in sample.values.iter().enumerate() {
            let Some(name) = self.name(*band) else { continue };
            write!(out, "{}.{:09},{name},{bytes}", time / 1_000_000_000, time % 1_000_000_000)?;
            if self.profiles.heap.has_objects {
                out.write_all(b",")?;
                sample.objects_at(index).map_or(Ok(()), |objects| write!(out, "{objects}"))?;
            }
            out.write_all(b"\n")?;
        }
        Ok(())
    }
}

/// Formats a CSV cell, quoted if necessary.
pub(super) fn cell(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

pub(super) fn cut(name: &str) -> String {
    let printable = name.chars().map(|character| if character.is_control() { ' ' } else { character });
    if name.chars().count() <= LONGEST_NAME {
        return printable.collect();
    }
    printable.take(LONGEST_NAME - 1).chain(['…']).collect()
}

fn seconds(nanoseconds: u64) -> String {
    format!("{:.3}", nanoseconds as f64 / 1e9)
}

fn share(part: u128, whole: u128) -> f64 {
    if whole > 0 { 100.0 * part as f64 / whole as f64 } else { 0.0 }
}
