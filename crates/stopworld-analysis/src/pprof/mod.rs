//! Profiles in the format of pprof: the message `Profile` of profile.proto, compressed by gzip.
//!
//! `go tool pprof` and Perfetto read it; the files were not tried with Pyroscope and Parca. A profile is a list of samples: a stack, and one
//! value for each of the profile's sample types. All texts are in one table, to which everything else refers by index; index 0 is the empty text.
//!
//! | profile | stack | values |
//! |---|---|---|
//! | time | cost centres, innermost first, then `MAIN`; `GC` and other activities outside the program alone | `samples` (ticks), `time` |
//! | heap, of one sample | the cost centres, or one frame with the name of the band | `inuse_objects` (if the log has them), `inuse_space` |
//! | objects of a snapshot | one frame with the name of the type | `inuse_objects`, `inuse_space` |
//! | allocations | the call stack, with addresses, inlined functions and lines; the labels `type`, `bytes`, `cost_centre` and `cost_centre_stack` | `alloc_objects`, `alloc_space`, `inuse_objects`, `inuse_space` |
//!
//! What is not written: an eventlog of GHC and a `.hp` file have no numbers of objects, so their heap profiles have only `inuse_space`. No heap
//! profile has what was allocated in total: there is no `alloc_objects` and no `alloc_space`. Only locations of allocations have addresses and
//! mappings: cost centres have none.
//!
//! Perfetto identifies a location without a mapping and an address by the name of its function, and go's pprof groups by that name. So the
//! name contains the module of a cost centre. A function has no `system_name`: if it equals the name, go's pprof takes the name for one of C++
//! and removes what is between angle brackets.

mod allocations;
mod messages;

use std::collections::HashMap;
use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;

use crate::profstats::folded::full_name;
use crate::profstats::{Band, Centres, Profiles, Sample as HeapSample, StackId, TimeProfile};
use crate::snapshot::TypeRow;
pub use allocations::allocations;
use messages::{Function, Line, Location, Profile, Sample, ValueType};

/// The outermost frame of the program's own stacks.
const MAIN: &str = "MAIN";

/// Writes a time profile: the ticks of each stack, and the time that they stand for, if the log specifies the length of a tick.
///
/// # Errors
/// Writing failed.
pub fn time(profiles: &Profiles, out: &mut dyn Write) -> io::Result<()> {
    let Profiles { time, stacks, centres, .. } = profiles;
    let mut builder = Builder::of(profiles);
    let has_time = time.interval_ns > 0;
    builder.sample_type("samples", "count");
    if has_time {
        builder.sample_type("time", "nanoseconds");
        let period = builder.value_type("time", "nanoseconds");
        (builder.profile.period_type, builder.profile.period) = (Some(period), as_value(time.interval_ns));
        builder.profile.default_sample_type = period.r#type;
    }
    for (stack, ticks) in time.stacks(stacks) {
        let frames = match TimeProfile::outside_activity(stack, stacks, centres) {
            Some(name) => vec![builder.frame(name, "")],
            None => builder.stack(stack, profiles),
        };
        let nanoseconds = has_time.then(|| as_value(ticks.saturating_mul(time.interval_ns)));
        builder.sample(frames, [as_value(ticks)].into_iter().chain(nanoseconds));
    }
    builder.write(out)
}

/// Writes a sample of a heap profile: the live bytes of each band, and the number of objects if the file has it.
///
/// # Errors
/// Writing failed.
pub fn heap(profiles: &Profiles, sample: &HeapSample, out: &mut dyn Write) -> io::Result<()> {
    let mut builder = Builder::of(profiles);
    let has_objects = !sample.objects.is_empty();
    if has_objects {
        builder.sample_type("inuse_objects", "count");
    }
    builder.profile.default_sample_type = builder.sample_type("inuse_space", "bytes").r#type;
    let seconds = sample.time_ns as f64 / 1e9;
    builder.comment(&format!("live bytes by {} at {seconds:.6} s", profiles.heap.breakdown.name()));
    // Readers drop samples whose values are 0.
    for (index, &(band, bytes)) in sample.values.iter().enumerate().filter(|(_, (_, bytes))| *bytes > 0) {
        let frames = match &profiles.heap.bands[band as usize] {
            Band::Stack(stack) => builder.stack(*stack, profiles),
            Band::Label(label) => vec![builder.frame(label, "")],
            Band::Others => vec![builder.frame("(others)", "")],
        };
        let objects = sample.objects_at(index).map(as_value);
        builder.sample(frames, objects.into_iter().chain([as_value(bytes)]));
    }
    builder.write(out)
}

/// Writes the objects of a heap snapshot: number and bytes of each type.
///
/// # Errors
/// Writing failed.
pub fn objects(census: &[TypeRow], out: &mut dyn Write) -> io::Result<()> {
    let mut builder = Builder::new();
    builder.sample_type("inuse_objects", "count");
    let bytes = builder.sample_type("inuse_space", "bytes");
    builder.profile.default_sample_type = bytes.r#type;
    for TypeRow { name, count, bytes, .. } in census {
        let frame = builder.frame(name, "");
        builder.sample(vec![frame], [as_value(*count), as_value(*bytes)]);
    }
    builder.write(out)
}

fn as_value(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A profile that is being made.
struct Builder {
    profile: Profile,
    texts: HashMap<String, i64>,
    /// The locations by name and place. The location and the function of a frame have the same number.
    frames: HashMap<(i64, i64), u64>,
}

impl Builder {
    fn new() -> Builder {
        let profile = Profile { string_table: vec![String::new()], ..Profile::default() };
        Builder { profile, texts: HashMap::from([(String::new(), 0)]), frames: HashMap::new() }
    }

    /// Creates a profile with the program's name as a comment.
    fn of(profiles: &Profiles) -> Builder {
        let mut builder = Builder::new();
        for text in [&profiles.heap.program, &profiles.runtime] {
            builder.comment(text);
        }
        builder
    }

    fn comment(&mut self, text: &str) {
        if !text.is_empty() {
            let text = self.text(text);
            self.profile.comment.push(text);
        }
    }

    /// Returns the index of a text.
    fn text(&mut self, text: &str) -> i64 {
        if let Some(index) = self.texts.get(text) {
            return *index;
        }
        let index = self.profile.string_table.len() as i64;
        self.profile.string_table.push(text.to_owned());
        self.texts.insert(text.to_owned(), index);
        index
    }

    fn value_type(&mut self, r#type: &str, unit: &str) -> ValueType {
        ValueType { r#type: self.text(r#type), unit: self.text(unit) }
    }

    fn sample_type(&mut self, r#type: &str, unit: &str) -> ValueType {
        let value_type = self.value_type(r#type, unit);
        self.profile.sample_type.push(value_type);
        value_type
    }

    /// Returns the location of a frame with this name and this place in the source.
    fn frame(&mut self, name: &str, place: &str) -> u64 {
        let (file, line) = file_and_line(place);
        let key = (self.text(name), self.text(place));
        let filename = self.text(file);
        *self.frames.entry(key).or_insert_with(|| {
            let id = self.profile.function.len() as u64 + 1;
            let (name, start_line) = (key.0, line);
            self.profile.function.push(Function { id, name, filename, start_line });
            self.profile.location.push(Location {
                id,
                mapping_id: 0,
                address: 0,
                line: vec![Line { function_id: id, line }],
            });
            id
        })
    }

    /// Returns the locations of a stack, innermost first.
    fn stack(&mut self, stack: StackId, profiles: &Profiles) -> Vec<u64> {
        let Profiles { stacks, centres, .. } = profiles;
        let mut frames: Vec<u64> = stacks.centres(stack).map(|centre| self.centre(centre, centres)).collect();
        frames.push(self.frame(MAIN, ""));
        frames
    }

    fn centre(&mut self, centre: u32, centres: &Centres) -> u64 {
        let place = centres.get(centre).map_or("", |known| known.place.as_str());
        self.frame(&full_name(centre, centres), place)
    }

    fn sample(&mut self, location_id: Vec<u64>, value: impl IntoIterator<Item = i64>) {
        self.profile.sample.push(Sample { location_id, value: value.into_iter().collect(), label: Vec::new() });
    }

    fn write(self, out: &mut dyn Write) -> io::Result<()> {
        let mut compressed = GzEncoder::new(out, Compression::default());
        compressed.write_all(&self.profile.encode_to_vec())?;
        compressed.finish()?.flush()
    }
}

/// Splits a place in the source: `src/main.rs:12:5`, `Main.hs:12:1-20` or `Main.hs:(3,1)-(5,2)`. The line is 0 if there is none.
fn file_and_line(place: &str) -> (&str, i64) {
    for (index, _) in place.match_indices(':') {
        let rest = place[index + 1..].trim_start_matches('(');
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let is_end = matches!(rest[digits..].chars().next(), None | Some(':' | ',' | '-'));
        if digits > 0
            && is_end
            && let Ok(line) = rest[..digits].parse()
        {
            return (&place[..index], line);
        }
    }
    (place, 0)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("", "", 0)]
    #[case("<built-in>", "<built-in>", 0)]
    #[case("src/main.rs:12", "src/main.rs", 12)]
    #[case("src/main.rs:12:5", "src/main.rs", 12)]
    #[case("Main.hs:12:1-20", "Main.hs", 12)]
    #[case("Main.hs:(3,1)-(5,2)", "Main.hs", 3)]
    #[case("a:b.scm:7:1", "a:b.scm", 7)]
    #[case("odd:name", "odd:name", 0)]
    #[case("x:99999999999999999999", "x:99999999999999999999", 0)]
    fn the_file_and_the_line_are_read_from_a_place(#[case] place: &str, #[case] file: &str, #[case] line: i64) {
        assert_eq!(file_and_line(place), (file, line));
    }

    #[test]
    fn values_too_large_for_the_format_are_the_largest() {
        assert_eq!((as_value(7), as_value(u64::MAX)), (7, i64::MAX));
    }
}
