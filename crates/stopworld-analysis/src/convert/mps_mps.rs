//! Rewrites a telemetry stream.
//!
//! Records keep their order and their parameters. Bytes that a writer leaves undefined (padding, those after a string's end, those
//! after the last parameter) become 0 or are removed. Records that cannot be decoded (an unknown code, missing parameters) are copied. A
//! stream of version 1.0.0 is converted to version 2.0.0: records and parameters are mapped by name.

use std::io::{BufWriter, Read, Write};

use super::detect::unreadable;
use super::telemetry::{CLOCKS_PER_SECOND, Newer, leave_out, values_of};
use super::{Conversion, ConvertError, stream};
use mps_telemetry::encode::{Encoder, LONGEST_STRING, Value};
use mps_telemetry::reader::{Reader, Record};
use mps_telemetry::{Layout, Version, v2};

pub(super) fn convert<R: Read, W: Write>(input: R, output: W, to: &mut Conversion) -> Result<(), ConvertError> {
    let mut reader = Reader::new(input);
    let version = reader.detect().map_err(|error| unreadable(0, error))?;
    let mut writing =
        Writing { encoder: Encoder::new(BufWriter::with_capacity(64 << 10, output)), version, newer: Newer::new() };
    stream::each(&mut reader, to, |record, to| writing.take(record, to))?;
    writing.encoder.end().map(drop).map_err(ConvertError::Output)
}

struct Writing<W> {
    encoder: Encoder<W>,
    version: Version,
    newer: Newer,
}

impl<W: Write> Writing<W> {
    fn take(&mut self, record: &Record<'_>, to: &mut Conversion) -> Result<(), ConvertError> {
        let layout = self.version.layout(record.code());
        let is_short = |value: &Value<'_>| !matches!(value, Value::Text(text) if text.len() > LONGEST_STRING);
        let values = layout.and_then(|layout| Some((layout, values_of(layout, record)?)));
        let values = values.filter(|(_, values)| values.iter().all(is_short));
        let written = match (self.version, values) {
            (Version::V2, Some((layout, values))) => self.encoder.record(layout, record.clock(), &values).map(|_| true),
            // The record is copied, because a newer reader may know its code.
            (Version::V2, None) => self.encoder.raw(record.bytes()).map(|()| true),
            (Version::V1, Some((layout, values))) => self.newer(record, layout, &values, to),
            (Version::V1, None) => {
                leave_out(&mut to.left_out, record, layout, "it is not a complete record of version 1.0.0");
                Ok(false)
            }
        };
        to.carried += u64::from(written.map_err(ConvertError::Output)?);
        Ok(())
    }

    /// Writes a record of version 1.0.0 as one of 2.0.0.
    fn newer(
        &mut self,
        record: &Record<'_>,
        old: &'static Layout,
        values: &[Value<'_>],
        to: &mut Conversion,
    ) -> std::io::Result<bool> {
        if self.encoder.records == 0 {
            self.announce(record.clock())?;
        }
        let Some((new, places)) = self.newer.of(old) else {
            to.left_out.add(old.name, "version 2.0.0 has no such event", 1);
            return Ok(false);
        };
        let lacks = places.iter().filter(|place| place.is_none()).count();
        to.left_out.add(new.name, "parameters that version 1.0.0 does not have are 0", u64::from(lacks > 0));
        let lost = (0..old.params.len()).any(|index| !places.contains(&Some(index)));
        to.left_out.add(old.name, "version 2.0.0 has no place for one of its parameters", u64::from(lost));
        let values: Vec<Value<'_>> =
            places.iter().map(|place| place.map_or(Value::Word(0), |index| values[index])).collect();
        self.encoder.record(new, record.clock(), &values).map(|_| true)
    }

    /// Writes the `EventInit` that begins a stream of 2.0.0 and is missing in 1.0.0.
    fn announce(&mut self, clock: u64) -> std::io::Result<()> {
        self.encoder.event(clock, &v2::EventInit::new(CLOCKS_PER_SECOND)).map(drop)
    }
}
