//! What is known of a heap profile.

use std::collections::HashMap;
use std::io;

use super::centres::{Centres, StackId, Stacks};
use super::thinned::Thinned;

/// The most numbers (bytes of a band in a sample) that are kept: 64 MiB of them. Beyond it every other sample is dropped.
const MOST_VALUES: usize = 4 << 20;
const MOST_SAMPLES: usize = 64 << 10;
/// The most bands; what comes after them is one more band.
const MOST_BANDS: usize = 256 << 10;
/// The most bytes of their names.
const MOST_NAMES: usize = 32 << 20;
/// The most collections, figures and marks.
const MOST_POINTS: usize = 32 << 10;

/// By what a heap profile counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Breakdown {
    /// The cost centres that allocated it.
    CostCentre,
    /// Their modules.
    Module,
    /// What each closure is described as.
    Closure,
    /// Its type.
    Type,
    /// Who retains it.
    Retainer,
    /// Its phase of life.
    Biography,
    /// What kind of closure it is.
    ClosureType,
    /// The place in the source that makes it.
    InfoTable,
    /// When it was allocated.
    Era,
    /// The file does not say.
    #[default]
    Unknown,
}

impl Breakdown {
    /// The one with GHC's number.
    pub fn of(number: u32) -> Breakdown {
        match number {
            1 => Breakdown::CostCentre,
            2 => Breakdown::Module,
            3 => Breakdown::Closure,
            4 => Breakdown::Type,
            5 => Breakdown::Retainer,
            6 => Breakdown::Biography,
            7 => Breakdown::ClosureType,
            8 => Breakdown::InfoTable,
            9 => Breakdown::Era,
            _ => Breakdown::Unknown,
        }
    }

    /// As a table is headed.
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

/// What of the heap is counted together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Band {
    /// All with this label.
    Label(String),
    /// All that was allocated under this stack.
    Stack(StackId),
    /// All that there was no room for.
    Others,
}

/// How much lives under each band at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// The time that it speaks of, in nanoseconds since the program began.
    pub time_ns: u64,
    /// The number of the band and its bytes, each band once.
    pub values: Vec<(u32, u64)>,
}

impl Sample {
    /// All bytes of it.
    pub fn total(&self) -> u64 {
        self.values.iter().fold(0, |sum, &(_, bytes)| sum.saturating_add(bytes))
    }
}

/// A figure of the heap that is measured now and then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// What the heap takes of the system.
    Size,
    /// What lived after a collection.
    Live,
    /// What is in blocks.
    Blocks,
}

impl Figure {
    /// All of them.
    pub const ALL: [Figure; 3] = [Figure::Size, Figure::Live, Figure::Blocks];

    /// As it is called.
    pub fn name(self) -> &'static str {
        match self {
            Figure::Size => "heap size",
            Figure::Live => "live bytes",
            Figure::Blocks => "blocks size",
        }
    }
}

/// A point in time with a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// When.
    pub time_ns: u64,
    /// What the program says.
    pub text: String,
}

/// A heap profile, and what else its file says of the heap.
#[derive(Clone, Debug)]
pub struct HeapProfile {
    /// The program and its arguments.
    pub program: String,
    /// When it ran, as the file has it.
    pub date: String,
    /// By what is counted.
    pub breakdown: Breakdown,
    /// What is counted only: by what, and which.
    pub filters: Vec<String>,
    /// Nanoseconds between two samples, 0 if the file does not say.
    pub period_ns: u64,
    /// What is counted together.
    pub bands: Vec<Band>,
    /// How much there was of it, in the order of time once it is [finished](Self::finish).
    pub samples: Thinned<Sample>,
    /// Collections: begin and end.
    pub collections: Thinned<(u64, u64)>,
    /// The heap's figures over time, as [`Figure::ALL`] has them.
    pub figures: [Thinned<(u64, u64)>; 3],
    /// What the program marked.
    pub marks: Thinned<Mark>,
    by_label: HashMap<String, u32>,
    by_stack: HashMap<StackId, u32>,
    places: Vec<usize>,
    names: usize,
    values: usize,
    current: Option<Sample>,
    /// Samples are not kept: the last that has ended is here, to be taken.
    hands_out: bool,
    ended: Option<Sample>,
}

/// Tells the samples of a profile that [hands them out](HeapProfile::handing_out), until who is told fails.
pub(super) struct Teller<F> {
    tell: F,
    told: io::Result<()>,
}

impl<F: FnMut(&Sample) -> io::Result<()>> Teller<F> {
    pub(super) fn new(tell: F) -> Teller<F> {
        Teller { tell, told: Ok(()) }
    }

    /// Tells the sample that has ended, if one has.
    pub(super) fn look_at(&mut self, heap: &mut HeapProfile) {
        if let Some(sample) = heap.ended.take()
            && self.told.is_ok()
        {
            self.told = (self.tell)(&sample);
        }
    }

    pub(super) fn has_failed(&self) -> bool {
        self.told.is_err()
    }

    /// Tells the last one. Whether who was told has failed.
    pub(super) fn finish(&mut self, heap: &mut HeapProfile) -> io::Result<()> {
        heap.finish();
        self.look_at(heap);
        std::mem::replace(&mut self.told, Ok(()))
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
            hands_out: false,
            ended: None,
        }
    }
}

impl HeapProfile {
    /// One that keeps no samples: a [`Teller`] takes each when it has ended.
    pub(super) fn handing_out() -> HeapProfile {
        HeapProfile { hands_out: true, ..HeapProfile::default() }
    }

    /// Whether there were more bands, or longer names, than are kept: what came last of them is one band.
    pub fn has_others(&self) -> bool {
        self.bands.last() == Some(&Band::Others)
    }

    /// Whether no sample has any band.
    pub fn is_empty(&self) -> bool {
        self.bands.is_empty()
    }

    /// A sample begins; one that has not ended, ends.
    pub fn begin_sample(&mut self, time_ns: u64) {
        self.end_sample();
        self.current = Some(Sample { time_ns, values: Vec::new() });
    }

    /// The sample ends.
    pub fn end_sample(&mut self) {
        let Some(sample) = self.current.take() else { return };
        if self.hands_out {
            self.ended = Some(sample);
            return;
        }
        self.values += sample.values.len();
        self.samples.push(sample);
        if self.values > MOST_VALUES {
            self.samples.halve();
            self.values = self.samples.kept().iter().map(|sample| sample.values.len()).sum();
        }
    }

    /// Bytes of the sample under a label.
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

    /// Bytes of the sample under a stack.
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

    /// Adds bytes to a band of the sample. GHC writes two bands of its own alike now and then: they are one.
    fn add(&mut self, band: u32, bytes: u64) {
        let Some(sample) = &mut self.current else { return };
        let index = band as usize;
        if index >= self.places.len() {
            self.places.resize(index + 1, 0);
        }
        // Where the band may be in this sample; what an earlier sample left there is told by the band's number.
        match sample.values.get_mut(self.places[index]) {
            Some((there, value)) if *there == band => *value = value.saturating_add(bytes),
            _ => {
                self.places[index] = sample.values.len();
                sample.values.push((band, bytes));
            }
        }
    }

    /// The number of a new band, or of the one that has all that there is no room for.
    fn new_band(&mut self, band: Band, name: usize) -> u32 {
        let has_room = self.bands.len() < MOST_BANDS && self.names + name <= MOST_NAMES;
        if !has_room && self.has_others() {
            return self.bands.len() as u32 - 1;
        }
        // Once there was no room, there is none for shorter names either.
        self.names = if has_room { self.names + name } else { MOST_NAMES };
        self.bands.push(if has_room { band } else { Band::Others });
        self.bands.len() as u32 - 1
    }

    /// Brings everything into the order of time.
    pub fn finish(&mut self) {
        self.end_sample();
        self.samples.kept_mut().sort_by_key(|sample| sample.time_ns);
        self.collections.kept_mut().sort_unstable();
        self.figures.iter_mut().for_each(|figure| figure.kept_mut().sort_by_key(|point| point.0));
        self.marks.kept_mut().sort_by_key(|mark| mark.time_ns);
    }

    /// How a band is called.
    pub fn name(&self, band: u32, stacks: &Stacks, centres: &Centres) -> String {
        match &self.bands[band as usize] {
            Band::Label(label) => label.clone(),
            Band::Stack(stack) => stacks.path(*stack, centres),
            Band::Others => "(others)".to_owned(),
        }
    }

    /// What there is to say of each band over all samples, the largest area first.
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
            last.values.iter().for_each(|&(band, bytes)| rows[band as usize].last = bytes);
        }
        rows.sort_by_key(|row| (std::cmp::Reverse(row.sum), row.band));
        rows
    }
}

/// A band over all samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its number.
    pub band: u32,
    /// Its bytes in all samples together.
    pub sum: u128,
    /// Its bytes in a sample, on average.
    pub mean: u64,
    /// The most in one.
    pub peak: u64,
    /// When that was.
    pub peak_ns: u64,
    /// Its bytes in the last sample that has any.
    pub last: u64,
}

impl Row {
    fn of(band: u32) -> Row {
        Row { band, sum: 0, mean: 0, peak: 0, peak_ns: 0, last: 0 }
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

    /// What is written under a number of ours is read back as what it is.
    #[test]
    fn breakdowns_are_found_by_their_numbers() {
        let read = census::Breakdown::ALL.map(|ours| Breakdown::of(ours as u32));
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
        assert_eq!((Breakdown::of(8), Breakdown::of(9)), (Breakdown::InfoTable, Breakdown::Era));
        assert_eq!((Breakdown::of(0), Breakdown::of(10)), (Breakdown::Unknown, Breakdown::Unknown));
    }
}
