//! Descriptions: of the trace, and of each type of event with its fields.
//!
//! A type is described before its first event. The descriptions of the runtime's native events often contain only provider, number and
//! version; the reader must know their names and fields (`clr`). The descriptions of all other events contain the names and types of the
//! fields.
//!
//! `.format.hostile`: a description may claim a billion fields, or unbounded nesting. The size of what is kept is limited
//! by the bytes present (a field has at least three) and by [`DEEPEST`]; the reader limits the size of all descriptions
//! together.

use super::Container;
use super::bytes::{Bytes, ItemError};
use super::damage::DamageKind;

/// The limit for nested objects.
pub(super) const DEEPEST: u32 = 16;
/// The limit for the key-value pairs of a trace's description.
const MOST_PAIRS: u32 = 4096;

/// A calendar time in UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Utc {
    /// The year.
    pub year: u16,
    /// 1 to 12.
    pub month: u16,
    /// 0 is Sunday.
    pub day_of_week: u16,
    /// 1 to 31.
    pub day: u16,
    /// 0 to 23.
    pub hour: u16,
    /// 0 to 59.
    pub minute: u16,
    /// 0 to 60.
    pub second: u16,
    /// 0 to 999.
    pub millisecond: u16,
}

/// The description of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceInfo {
    /// The container of the file.
    pub container: Container,
    /// The time at which the trace began.
    pub start: Utc,
    /// The time at which the trace began, by the clock of the events.
    pub start_ticks: i64,
    /// The frequency of the events' clock. Never 0.
    pub ticks_per_second: i64,
    /// The size of a pointer in payloads and stacks: 4 or 8.
    pub pointer_bytes: u8,
    /// The process id; 0 if unknown or if there are several processes.
    pub process_id: u32,
    /// The number of processors, 0 if unknown.
    pub processors: u32,
    /// The intended time between samples of the traced threads, in nanoseconds; 0 if unknown.
    pub sampling_period_ns: u32,
    /// Further key-value pairs (version 6).
    pub pairs: Vec<(String, String)>,
}

/// A type of event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventType {
    /// Its index among the types of this reading, from 0. Unique even if the file reuses an
    /// id, so it suits side tables.
    pub index: u32,
    /// Its id in the file.
    pub id: u32,
    /// Its provider.
    pub provider: String,
    /// Its number within the provider.
    pub event: u32,
    /// Its name, often empty.
    pub name: String,
    /// The version of its payload's layout.
    pub version: u32,
    /// Its level: 1 critical to 5 verbose, 0 always.
    pub level: u32,
    /// Its keywords, a bit set.
    pub keywords: u64,
    /// Its opcode: start, stop or another.
    pub opcode: Option<u8>,
    /// The fields of its payload, if the file declares them.
    pub fields: Vec<FieldType>,
    /// The provider's GUID, if the file has it (version 6).
    pub provider_guid: Option<[u8; 16]>,
    /// A message template with holes for the fields (version 6).
    pub message: Option<String>,
    /// Its meaning (version 6).
    pub description: Option<String>,
    /// Further key-value pairs (version 6).
    pub pairs: Vec<(String, String)>,
}

/// One field of a payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldType {
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: Type,
}

/// The type of a value: packed, little-endian.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// A struct: fields in order.
    Object(Vec<FieldType>),
    /// Four bytes, 0 or 1.
    Bool32,
    /// One byte, 0 or 1.
    Bool8,
    /// Two bytes of UTF-16.
    Utf16Unit,
    /// One byte of UTF-8.
    Utf8Unit,
    /// A signed number of 1, 2, 4 or 8 bytes.
    Signed(u8),
    /// An unsigned number of 1, 2, 4 or 8 bytes.
    Unsigned(u8),
    /// A 32-bit IEEE 754 number.
    Single,
    /// A 64-bit IEEE 754 number.
    Double,
    /// A .NET `Decimal`, sixteen bytes.
    Decimal,
    /// Eight numbers of 16 bits as in [`Utc`].
    DateTime,
    /// Sixteen bytes.
    Guid,
    /// UTF-16 with a NUL.
    Utf16,
    /// A 16-bit count, then that many elements.
    Array(Box<Type>),
    /// A fixed number of elements.
    FixedArray(Box<Type>, u16),
    /// A signed number of variable length.
    VarInt,
    /// An unsigned number of variable length.
    VarUInt,
    /// Two 16-bit numbers: the offset of the elements, counted from the end of these numbers, and their size in bytes.
    RelLoc(Box<Type>),
    /// The same, with an offset counted from the beginning of the payload.
    DataLoc(Box<Type>),
}

/// The types that consist of a code only, in the order of their codes.
static SIMPLE: [Type; 16] = [
    Type::Bool32,
    Type::Utf16Unit,
    Type::Signed(1),
    Type::Unsigned(1),
    Type::Signed(2),
    Type::Unsigned(2),
    Type::Signed(4),
    Type::Unsigned(4),
    Type::Signed(8),
    Type::Unsigned(8),
    Type::Single,
    Type::Double,
    Type::Decimal,
    Type::DateTime,
    Type::Guid,
    Type::Utf16,
];
/// The code of the first type in [`SIMPLE`].
const FIRST_SIMPLE: u8 = 3;

impl TraceInfo {
    /// Converts the time of an event to milliseconds since the trace began.
    pub fn milliseconds(&self, ticks: i64) -> f64 {
        ticks.saturating_sub(self.start_ticks) as f64 * 1000.0 / self.ticks_per_second as f64
    }

    pub(super) fn read(container: Container, bytes: &mut Bytes<'_>) -> Result<TraceInfo, ItemError> {
        let start = Utc::read(bytes)?;
        let start_ticks = bytes.long()? as i64;
        let ticks_per_second = bytes.long()? as i64;
        let pointer_bytes = match bytes.word()? {
            4 => 4,
            8 => 8,
            _ => return Err(ItemError::Wrong(DamageKind::Trace("a pointer has 4 or 8 bytes"))),
        };
        if ticks_per_second <= 0 {
            return Err(ItemError::Wrong(DamageKind::Trace("its clock has no ticks")));
        }
        let mut info = TraceInfo {
            container,
            start,
            start_ticks,
            ticks_per_second,
            pointer_bytes,
            process_id: 0,
            processors: 0,
            sampling_period_ns: 0,
            pairs: Vec::new(),
        };
        match container {
            Container::V4 => {
                info.process_id = bytes.word()?;
                info.processors = bytes.word()?;
                info.sampling_period_ns = bytes.word()?;
            }
            Container::V6 => info.read_pairs(bytes)?,
        }
        Ok(info)
    }

    fn read_pairs(&mut self, bytes: &mut Bytes<'_>) -> Result<(), ItemError> {
        let count = bytes.word()?;
        if count > MOST_PAIRS {
            return Err(ItemError::Wrong(DamageKind::Trace("it has too many pairs of words")));
        }
        for _ in 0..count {
            let (key, value) = (bytes.utf8()?, bytes.utf8()?);
            let number = value.trim().parse().unwrap_or(0);
            match key.as_str() {
                "ProcessId" => self.process_id = number,
                "HardwareThreadCount" => self.processors = number,
                "ExpectedCPUSamplingRate" => self.sampling_period_ns = number,
                _ => {}
            }
            self.pairs.push((key, value));
        }
        Ok(())
    }
}

impl Utc {
    pub(super) fn read(bytes: &mut Bytes<'_>) -> Result<Utc, ItemError> {
        Ok(Utc {
            year: bytes.short()?,
            month: bytes.short()?,
            day_of_week: bytes.short()?,
            day: bytes.short()?,
            hour: bytes.short()?,
            minute: bytes.short()?,
            second: bytes.short()?,
            millisecond: bytes.short()?,
        })
    }

    /// Returns the time that is this many nanoseconds after the beginning of 1970.
    pub fn at(since_1970_ns: u64) -> Utc {
        let (ms, days) = (since_1970_ns / 1_000_000, since_1970_ns / 86_400_000_000_000);
        // Count years from March, in eras of 400 years, so that a leap day is the last day of its year.
        let shifted = days + 719_468;
        let (era, of_era) = (shifted / 146_097, shifted % 146_097);
        let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let march_month = (5 * of_year + 2) / 153;
        let day = of_year - (153 * march_month + 2) / 5 + 1;
        let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
        let year = era * 400 + year_of_era + u64::from(month <= 2);
        let (hour, minute, second) = (ms / 3_600_000 % 24, ms / 60_000 % 60, ms / 1_000 % 60);
        let parts = [year, month, (days + 4) % 7, day, hour, minute, second, ms % 1_000];
        let [year, month, day_of_week, day, hour, minute, second, millisecond] = parts.map(|part| part as u16);
        Utc { year, month, day_of_week, day, hour, minute, second, millisecond }
    }

    /// Returns its numbers, in the order that they have in a file.
    pub fn parts(&self) -> [u16; 8] {
        let Utc { year, month, day_of_week, day, hour, minute, second, millisecond } = *self;
        [year, month, day_of_week, day, hour, minute, second, millisecond]
    }

    /// Nanoseconds since 1970; `None` if there is no such time.
    pub fn since_1970_ns(&self) -> Option<i64> {
        let month_is_one = (1..=12).contains(&self.month) && (1..=31).contains(&self.day);
        let time_is_one = self.hour < 24 && self.minute < 60 && self.second <= 60 && self.millisecond < 1000;
        if !month_is_one || !time_is_one {
            return None;
        }
        // If years begin in March, the leap day is the last day of a year.
        let (year, month) = (i64::from(self.year), i64::from(self.month));
        let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
        let day = (153 * month + 2) / 5 + i64::from(self.day) - 1;
        let days = 365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + day - 719_468;
        let seconds =
            days * 86_400 + i64::from(self.hour) * 3600 + i64::from(self.minute) * 60 + i64::from(self.second);
        (seconds * 1000 + i64::from(self.millisecond)).checked_mul(1_000_000)
    }
}

impl EventType {
    /// Reads a description of version 4, which takes all of these bytes. Also returns damage at its end, if any: an event
    /// whose fields can't be read is still an event.
    pub(super) fn read_4(bytes: &mut Bytes<'_>) -> Result<(EventType, Option<DamageKind>), ItemError> {
        let mut kind = EventType { id: bytes.word()?, provider: bytes.utf16()?, ..EventType::default() };
        kind.event = bytes.word()?;
        kind.name = bytes.utf16()?;
        kind.keywords = bytes.long()?;
        kind.version = bytes.word()?;
        kind.level = bytes.word()?;
        let rest = kind.rest_4(bytes);
        kind.checked(rest)
    }

    fn rest_4(&mut self, bytes: &mut Bytes<'_>) -> Result<(), ItemError> {
        self.fields = fields_4(bytes, 0)?;
        // The first runtimes wrote nothing after the fields. Later ones append tags: a length, a kind, and that many bytes.
        while bytes.len() >= 5 {
            let length = bytes.word()?;
            let tag = bytes.byte()?;
            let mut tagged = bytes.part(length as usize)?;
            match tag {
                1 => self.opcode = Some(tagged.byte()?),
                2 => self.fields = fields_5(&mut tagged, 0)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Reads a description of version 6, which takes all of these bytes.
    pub(super) fn read_6(bytes: &mut Bytes<'_>) -> Result<(EventType, Option<DamageKind>), ItemError> {
        let mut kind = EventType { id: bytes.var32()?, provider: bytes.utf8()?, ..EventType::default() };
        kind.event = bytes.var32()?;
        kind.name = bytes.utf8()?;
        let rest = kind.rest_6(bytes);
        kind.checked(rest)
    }

    fn rest_6(&mut self, bytes: &mut Bytes<'_>) -> Result<(), ItemError> {
        self.fields = fields_6(bytes, 0)?;
        let length = bytes.short()?;
        let mut more = bytes.part(usize::from(length))?;
        while !more.is_empty() {
            match more.byte()? {
                1 => self.opcode = Some(more.byte()?),
                3 => self.keywords = more.long()?,
                4 => self.message = Some(more.utf8()?),
                5 => self.description = Some(more.utf8()?),
                6 => self.pairs.push((more.utf8()?, more.utf8()?)),
                7 => self.provider_guid = Some(more.array()?),
                8 => self.level = u32::from(more.byte()?),
                9 => self.version = u32::from(more.byte()?),
                // The length of an item of an unknown kind is unknown, so reading ends here; everything read before is kept.
                _ => break,
            }
        }
        Ok(())
    }

    fn checked(self, rest: Result<(), ItemError>) -> Result<(EventType, Option<DamageKind>), ItemError> {
        if self.id == 0 {
            return Err(ItemError::Wrong(DamageKind::Type("its id is 0")));
        }
        let wrong = rest.err().map(|stuck| match stuck {
            ItemError::Short => DamageKind::Type("it ends too early; what it said before counts"),
            ItemError::Wrong(kind) => kind,
        });
        Ok((self, wrong))
    }

    /// An estimate of its memory in bytes.
    pub(super) fn cost(&self) -> usize {
        let texts = [Some(&self.message), Some(&self.description)].into_iter().flatten().flatten().map(String::len);
        let pairs = self.pairs.iter().map(|(key, value)| size_of::<(String, String)>() + key.len() + value.len());
        let fields: usize = self.fields.iter().map(FieldType::cost).sum();
        size_of::<EventType>()
            + self.provider.len()
            + self.name.len()
            + fields
            + texts.sum::<usize>()
            + pairs.sum::<usize>()
    }
}

impl FieldType {
    fn cost(&self) -> usize {
        size_of::<FieldType>() + self.name.len() + self.kind.cost()
    }
}

impl Type {
    /// Its code in a file, if it consists of a code only.
    pub fn code(&self) -> Option<u8> {
        let place = SIMPLE.iter().position(|simple| simple == self)?;
        Some(place as u8 + FIRST_SIMPLE)
    }

    fn cost(&self) -> usize {
        match self {
            Type::Object(fields) => fields.iter().map(FieldType::cost).sum(),
            Type::Array(of) | Type::FixedArray(of, _) | Type::RelLoc(of) | Type::DataLoc(of) => {
                size_of::<Type>() + of.cost()
            }
            _ => 0,
        }
    }

    /// The type with this code, if it consists of a code only.
    fn simple(code: u32) -> Option<Type> {
        SIMPLE.get(code.checked_sub(FIRST_SIMPLE.into())? as usize).cloned()
    }
}

fn deeper(depth: u32) -> Result<u32, ItemError> {
    if depth < DEEPEST {
        Ok(depth + 1)
    } else {
        Err(ItemError::Wrong(DamageKind::Type("its fields are nested too deep")))
    }
}

fn unknown_code<T>() -> Result<T, ItemError> {
    Err(ItemError::Wrong(DamageKind::Type("a field has an unknown type")))
}

/// Reads fields as in version 4: type, then name.
fn fields_4(bytes: &mut Bytes<'_>, depth: u32) -> Result<Vec<FieldType>, ItemError> {
    let count = bytes.word()?;
    let mut fields = Vec::new();
    for _ in 0..count {
        let kind = match bytes.word()? {
            1 => Type::Object(fields_4(bytes, deeper(depth)?)?),
            code => Type::simple(code).map_or_else(unknown_code, Ok)?,
        };
        fields.push(FieldType { kind, name: bytes.utf16()? });
    }
    Ok(fields)
}

/// Reads fields as in the tag that .NET 5 added: size, name, then type, which may be an array.
fn fields_5(bytes: &mut Bytes<'_>, depth: u32) -> Result<Vec<FieldType>, ItemError> {
    let count = bytes.word()?;
    let mut fields = Vec::new();
    for _ in 0..count {
        let size = bytes.word()?;
        let size = size.checked_sub(4).ok_or(ItemError::Wrong(DamageKind::Type("a field is shorter than its size")))?;
        let mut field = bytes.part(size as usize)?;
        let name = field.utf16()?;
        fields.push(FieldType { name, kind: type_5(&mut field, depth)? });
    }
    Ok(fields)
}

fn type_5(bytes: &mut Bytes<'_>, depth: u32) -> Result<Type, ItemError> {
    match bytes.word()? {
        1 => Ok(Type::Object(fields_5(bytes, deeper(depth)?)?)),
        19 => Ok(Type::Array(Box::new(type_5(bytes, deeper(depth)?)?))),
        code => Type::simple(code).map_or_else(unknown_code, Ok),
    }
}

/// Reads fields of version 6: size, name, type.
fn fields_6(bytes: &mut Bytes<'_>, depth: u32) -> Result<Vec<FieldType>, ItemError> {
    let count = bytes.short()?;
    let mut fields = Vec::new();
    for _ in 0..count {
        let size = bytes.short()?;
        let mut field = bytes.part(usize::from(size))?;
        let name = field.utf8()?;
        fields.push(FieldType { name, kind: type_6(&mut field, depth)? });
    }
    Ok(fields)
}

fn type_6(bytes: &mut Bytes<'_>, depth: u32) -> Result<Type, ItemError> {
    let element = |bytes: &mut Bytes<'_>| type_6(bytes, deeper(depth)?).map(Box::new);
    Ok(match bytes.byte()? {
        1 => Type::Object(fields_6(bytes, deeper(depth)?)?),
        19 => Type::Array(element(bytes)?),
        20 => Type::VarInt,
        21 => Type::VarUInt,
        22 => Type::FixedArray(element(bytes)?, bytes.short()?),
        23 => Type::Utf8Unit,
        24 => Type::RelLoc(element(bytes)?),
        25 => Type::DataLoc(element(bytes)?),
        26 => Type::Bool8,
        code => Type::simple(u32::from(code)).map_or_else(unknown_code, Ok)?,
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(0, [1970, 1, 4, 1, 0, 0, 0, 0])]
    #[case(951_826_154_321, [2000, 2, 2, 29, 12, 9, 14, 321])]
    #[case(1_767_787_200_000, [2026, 1, 3, 7, 12, 0, 0, 0])]
    #[case(4_107_542_399_999, [2100, 2, 0, 28, 23, 59, 59, 999])]
    fn dates_follow_the_gregorian_calendar(#[case] ms: u64, #[case] expected: [u16; 8]) {
        let utc = Utc::at(ms * 1_000_000);
        assert_eq!(utc.parts(), expected);
        assert_eq!(utc.since_1970_ns(), Some(ms as i64 * 1_000_000));
    }
}
