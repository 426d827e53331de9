//! A heap profile in memory.

use std::collections::HashMap;
use std::io;

use super::centres::{Centres, StackId, Stacks};
use super::thinned::Thinned;
use ghc_eventlog::events::Breakdown as Number;

/// The most values (the bytes of a band in a sample) that are kept, which take 64 MiB. Two numbers of objects count as one value. When there
/// are more, every other sample is dropped.
const MOST_VALUES: usize = 4 << 20;
const MOST_SAMPLES: usize = 64 << 10;
/// Maximum number of bands; all further ones are merged into one band.
const MOST_BANDS: usize = 256 << 10;
/// Maximum size of the bands' names together, in bytes.
const MOST_NAMES: usize = 32 << 20;
/// Maximum number of collections, heap figures and markers.
const MOST_POINTS: usize = 32 << 10;

/// The property of objects by which a heap profile groups live bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Breakdown {
    /// The cost centre stack that allocated the objects.
    CostCentre,
    /// The module of the innermost centre of that stack.
    Module,
    /// The closure description.
    Closure,
    /// The type.
    Type,
    /// The retainer set.
    Retainer,
    /// The stage of life.
    Biography,
    /// The closure type.
    ClosureType,
    /// The info table, which stands for a place in the source.
    InfoTable,
    /// The era of the allocation.
    Era,
    /// Unknown, because the file does not specify it.
    #[default]
    Unknown,
}

impl Breakdown {
    /// Returns the breakdown with this number in the eventlog format.
    pub fn of(number: Number) -> Breakdown {
        match number {
            Number::COST_CENTRE => Breakdown::CostCentre,
            Number::MODULE => Breakdown::Module,
            Number::CLOSURE => Breakdown::Closure,
            Number::TYPE => Breakdown::Type,
            Number::RETAINER => Breakdown::Retainer,
            Number::BIOGRAPHY => Breakdown::Biography,
            Number::CLOSURE_TYPE => Breakdown::ClosureType,
            Number::INFO_TABLE => Breakdown::InfoTable,
            Number::ERA => Breakdown::Era,
            _ => Breakdown::Unknown,
        }
    }

    /// Returns the name, as a column heading.
    pub fn name(self) -> &'static str {
        match self {
            Breakdown::CostCentre => "cost centre stack",
            Breakdown::Module => "module",
            Breakdown::Closure => "closure description",
            Breakdown::Type => "type",
            Breakdown::Retainer => "retainer set",
            Breakdown::Biography => "phase of life",
            Breakdown::ClosureType => "closure type",
            Breakdown::InfoTable => "info table",
            Breakdown::Era => "era",
            Breakdown::Unknown => "band",
        }
    }
}

/// A group of objects that are counted together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Band {
    /// The objects with this label.
    Label(String),
    /// The objects that were allocated under this stack.
    Stack(StackId),
    /// All objects of the bands that were not kept.
    Others,
}

/// The live bytes of each band at one time, and the number of objects if the file has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// The time it describes, in nanoseconds since the start of the program.
    pub time_ns: u64,
    /// Bands by their numbers, with their bytes; each band occurs once.
    pub values: Vec<(u32, u64)>,
    /// The number of objects of each band, in the order of `values`. Empty if the file has no numbers of objects.
    pub objects: Vec<u64>,
}

impl Sample {
    /// Returns the total bytes.
    pub fn total(&self) -> u64 {
        self.values.iter().fold(0, |sum, &(_, bytes)| sum.saturating_add(bytes))
    }

    /// Returns the number of objects of the band at this index of `values`, or `None` if the file does not have it.
    pub fn objects_at(&self, index: usize) -> Option<u64> {
        // Bands after the last one with a number have no entry.
        (!self.objects.is_empty()).then(|| self.objects.get(index).copied().unwrap_or(0))
    }
}

/// A heap figure that is measured from time to time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// The memory that the heap has from the system.
    Size,
    /// The live bytes after a collection.
    Live,
    /// The bytes in the heap's blocks.
    Blocks,
}

impl Figure {
    /// All of them.
    pub const ALL: [Figure; 3] = [Figure::Size, Figure::Live, Figure::Blocks];

    /// Returns the name, for reports.
    pub fn name(self) -> &'static str {
        match self {
            Figure::Size => "heap size",
            Figure::Live => "live bytes",
            Figure::Blocks => "blocks size",
        }
    }
}

/// A marker of the program: a time with a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The time.
    pub time_ns: u64,
    /// The program's text.
    pub text: String,
}

/// A heap profile, and the other facts about the heap in its file.
#[derive(Clone, Debug)]
pub struct HeapProfile {
    /// The program and its arguments.
    pub program: String,
    /// The date of the run, as the file has it.
    pub date: String,
    /// The property by which the objects are grouped.
    pub breakdown: Breakdown,
    /// The filters; each text has the kind and the accepted names.
    pub filters: Vec<String>,
    /// Nanoseconds between two samples; 0 if the file does not specify it.
    pub period_ns: u64,
    /// The bands.
    pub bands: Vec<Band>,
    /// Whether the file has numbers of objects.
    pub has_objects: bool,
    /// The samples; sorted by time once the profile is [finished](Self::finish).
    pub samples: Thinned<Sample>,
    /// Begin and end of each collection.
    pub collections: Thinned<(u64, u64)>,
    /// The heap figures over time, in the order of [`Figure::ALL`].
    pub figures: [Thinned<(u64, u64)>; 3],
    /// The program's markers.
    pub marks: Thinned<Mark>,
    by_label: HashMap<String, u32>,
    by_stack: HashMap<StackId, u32>,
    places: Vec<usize>,
    names: usize,
    values: usize,
    current: Option<Sample>,
    /// The index in the sample of the band that was added last.
    latest: Option<usize>,
    /// Whether samples are passed to a callback instead of kept. Then `ended` has the latest complete sample.
    hands_out: bool,
    ended: Option<Sample>,
}

/// Returns the memory of a sample, as a number of values.
fn numbers(sample: &Sample) -> usize {
    sample.values.len() + sample.objects.len() / 2
}

/// Passes the samples of a profile that [hands them out](HeapProfile::handing_out) to a callback, until the callback fails.
pub(super) struct SampleForwarder<F> {
    forward: F,
    result: io::Result<()>,
}

impl<F: FnMut(&Sample) -> io::Result<()>> SampleForwarder<F> {
    pub(super) fn new(forward: F) -> SampleForwarder<F> {
        SampleForwarder { forward, result: Ok(()) }
    }

    /// Passes on the complete sample, if there is one.
    pub(super) fn forward_complete(&mut self, heap: &mut HeapProfile) {
        if let Some(sample) = heap.ended.take()
            && self.result.is_ok()
        {
            self.result = (self.forward)(&sample);
        }
    }

    pub(super) fn has_failed(&self) -> bool {
        self.result.is_err()
    }

    /// Passes on the last sample. Returns the error of the callback, if it has failed.
    pub(super) fn finish(&mut self, heap: &mut HeapProfile) -> io::Result<()> {
        heap.finish();
        self.forward_complete(heap);
        std::mem::replace(&mut self.result, Ok(()))
    }
}

impl Default for HeapProfile {
    fn default() -> HeapProfile {
        HeapProfile {
            program: String::new(),
            date: String::new(),
            breakdown: Breakdown::Unknown,
            filters: Vec::new(),
            period_ns: 0,
            bands: Vec::new(),
            has_objects: false,
            samples: Thinned::new(MOST_SAMPLES),
            collections: Thinned::new(MOST_POINTS),
            figures: std::array::from_fn(|_| Thinned::new(MOST_POINTS)),
            marks: Thinned::new(MOST_POINTS),
            by_label: HashMap::new(),
            by_stack: HashMap::new(),
            places: Vec::new(),
            names: 0,
            values: 0,
            current: None,
            latest: None,
            hands_out: false,
            ended: None,
        }
    }
}

impl HeapProfile {
    /// Creates a profile that keeps no samples: a [`SampleForwarder`] takes each complete one.
    pub(super) fn handing_out() -> HeapProfile {
        HeapProfile { hands_out: true, ..HeapProfile::default() }
    }

    /// Returns whether there were more bands, or longer names, than are kept. The last band then contains all other bands.
    pub fn has_others(&self) -> bool {
        self.bands.last() == Some(&Band::Others)
    }

    /// Returns whether the profile has no bands.
    pub fn is_empty(&self) -> bool {
        self.bands.is_empty()
    }

    /// Begins a sample; ends the previous one if it is still open.
    pub fn begin_sample(&mut self, time_ns: u64) {
        self.end_sample();
        self.latest = None;
        self.current = Some(Sample { time_ns, values: Vec::new(), objects: Vec::new() });
    }

    /// Ends the sample.
    pub fn end_sample(&mut self) {
        let Some(sample) = self.current.take() else { return };
        if self.hands_out {
            self.ended = Some(sample);
            return;
        }
        self.values += numbers(&sample);
        self.samples.push(sample);
        if self.values > MOST_VALUES {
            self.samples.halve();
            self.values = self.samples.kept().iter().map(numbers).sum();
        }
    }

    /// Adds bytes to the sample under a label.
    pub fn add_label(&mut self, label: &str, bytes: u64) {
        let known = self.by_label.get(label).copied();
        let band = known.unwrap_or_else(|| {
            let band = self.new_band(Band::Label(label.to_owned()), label.len());
            if self.bands[band as usize] != Band::Others {
                self.by_label.insert(label.to_owned(), band);
            }
            band
        });
        self.add(band, bytes);
    }

    /// Adds bytes to the sample under a stack.
    pub fn add_stack(&mut self, stack: StackId, bytes: u64) {
        let known = self.by_stack.get(&stack).copied();
        let band = known.unwrap_or_else(|| {
            let band = self.new_band(Band::Stack(stack), 0);
            if self.bands[band as usize] != Band::Others {
                self.by_stack.insert(stack, band);
            }
            band
        });
        self.add(band, bytes);
    }

    /// Adds bytes to a band of the sample. GHC sometimes writes two bands with the same label: they are merged.
    fn add(&mut self, band: u32, bytes: u64) {
        let Some(sample) = &mut self.current else { return };
        let index = band as usize;
        if index >= self.places.len() {
            self.places.resize(index + 1, 0);
        }
        // `places` has the index that the band may have in this sample. If the index is from an earlier sample, the comparison of the
        // bands' numbers fails.
        match sample.values.get_mut(self.places[index]) {
            Some((known, value)) if *known == band => *value = value.saturating_add(bytes),
            _ => {
                self.places[index] = sample.values.len();
                sample.values.push((band, bytes));
            }
        }
        self.latest = Some(self.places[index]);
    }

    /// Adds objects to the band that was added last.
    pub fn add_objects(&mut self, objects: u64) {
        let (Some(sample), Some(index)) = (&mut self.current, self.latest) else { return };
        self.has_objects = true;
        sample.objects.resize(sample.values.len(), 0);
        sample.objects[index] = sample.objects[index].saturating_add(objects);
    }

    /// Returns the number of a new band, or of the band for the rest if there is no room.
    fn new_band(&mut self, band: Band, name: usize) -> u32 {
        let has_room = self.bands.len() < MOST_BANDS && self.names + name <= MOST_NAMES;
        if !has_room && self.has_others() {
            return self.bands.len() as u32 - 1;
        }
        // After the first name for which there is no room, shorter names are not kept either.
        self.names = if has_room { self.names + name } else { MOST_NAMES };
        self.bands.push(if has_room { band } else { Band::Others });
        self.bands.len() as u32 - 1
    }

    /// Ends the profile: sorts everything by time.
    pub fn finish(&mut self) {
        self.end_sample();
        self.samples.kept_mut().sort_by_key(|sample| sample.time_ns);
        self.collections.kept_mut().sort_unstable();
        self.figures.iter_mut().for_each(|figure| figure.kept_mut().sort_by_key(|point| point.0));
        self.marks.kept_mut().sort_by_key(|mark| mark.time_ns);
    }

    /// Returns the name of a band.
    pub fn name(&self, band: u32, stacks: &Stacks, centres: &Centres) -> String {
        match &self.bands[band as usize] {
            Band::Label(label) => label.clone(),
            Band::Stack(stack) => stacks.path(*stack, centres),
            Band::Others => "(others)".to_owned(),
        }
    }

    /// Returns the figures of each band over all samples, largest area first.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows: Vec<Row> = (0..self.bands.len() as u32).map(Row::of).collect();
        for sample in self.samples.kept() {
            for &(band, bytes) in &sample.values {
                rows[band as usize].add(sample.time_ns, bytes);
            }
        }
        let count = self.samples.kept().len().max(1) as u64;
        rows.iter_mut().for_each(|row| row.mean = (row.sum / u128::from(count)) as u64);
        if let Some(last) = self.samples.kept().iter().rev().find(|sample| !sample.values.is_empty()) {
            for (index, &(band, bytes)) in last.values.iter().enumerate() {
                rows[band as usize].last = bytes;
                rows[band as usize].last_objects = last.objects_at(index).unwrap_or(0);
            }
        }
        rows.sort_by_key(|row| (std::cmp::Reverse(row.sum), row.band));
        rows
    }
}

/// The figures of a band over all samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The number of the band.
    pub band: u32,
    /// The sum of its bytes over all samples.
    pub sum: u128,
    /// The mean of its bytes per sample.
    pub mean: u64,
    /// The maximum in a sample.
    pub peak: u64,
    /// The time of the sample with that maximum.
    pub peak_ns: u64,
    /// Its bytes in the last sample that has any band.
    pub last: u64,
    /// Its objects in that sample; 0 if the file has no numbers of objects.
    pub last_objects: u64,
}

impl Row {
    fn of(band: u32) -> Row {
        Row { band, sum: 0, mean: 0, peak: 0, peak_ns: 0, last: 0, last_objects: 0 }
    }

    fn add(&mut self, time_ns: u64, bytes: u64) {
        self.sum += u128::from(bytes);
        if bytes > self.peak {
            (self.peak, self.peak_ns) = (bytes, time_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stopworld::profile::census;

    /// The number that the census writes for each of its breakdowns is read as the breakdown with the same meaning.
    #[test]
    fn breakdowns_are_found_by_their_numbers() {
        let read = census::Breakdown::ALL.map(|ours| Breakdown::of(Number(ours as u32)));
        assert_eq!(
            read,
            [
                Breakdown::CostCentre,
                Breakdown::Module,
                Breakdown::Closure,
                Breakdown::Type,
                Breakdown::Retainer,
                Breakdown::Biography,
                Breakdown::ClosureType
            ]
        );
        assert_eq!((Breakdown::of(Number(8)), Breakdown::of(Number(9))), (Breakdown::InfoTable, Breakdown::Era));
        assert_eq!((Breakdown::of(Number(0)), Breakdown::of(Number(10))), (Breakdown::Unknown, Breakdown::Unknown));
    }
}
