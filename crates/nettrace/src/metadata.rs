//! Descriptions: of the trace, and of each type of event with its fields.
//!
//! A type is described before its first event. What native events of the runtime say of themselves is often only
//! provider, number and version; their names and fields must be known (`clr`). Everything else says what its fields
//! are called and how they lie in the payload.
//!
//! `.format.hostile`: a description may claim a billion fields, or fields in fields without end. What is kept is bounded
//! by the bytes that are there (a field has at least three) and by [`DEEPEST`]; how much all descriptions together may take is
//! bounded by the reader.

use super::Container;
use super::bytes::{Bytes, Stuck};
use super::damage::DamageKind;

/// Objects in objects in objects.
pub(super) const DEEPEST: u32 = 16;
/// The most pairs of words that the description of a trace has.
const MOST_PAIRS: u32 = 4096;

/// A time of day in the calendar, in UTC.
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

/// What a trace says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceInfo {
    /// How the file is written.
    pub container: Container,
    /// When it was begun.
    pub start: Utc,
    /// The same moment by the clock of the events.
    pub start_ticks: i64,
    /// How fast that clock goes. Never 0.
    pub ticks_per_second: i64,
    /// The size of a pointer in payloads and stacks: 4 or 8.
    pub pointer_bytes: u8,
    /// The process, 0 if not known or not one.
    pub process_id: u32,
    /// How many processors it had, 0 if not known.
    pub processors: u32,
    /// How often its threads were to be looked at, in nanoseconds; 0 if not known.
    pub sampling_period_ns: u32,
    /// What else is said (version 6).
    pub pairs: Vec<(String, String)>,
}

/// One type of event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventType {
    /// Its place among the types of this reading: 0 for the first described. No two have the same, even when the file uses an
    /// id again; so it fits for tables on the side.
    pub index: u32,
    /// What the file calls it.
    pub id: u32,
    /// Whose event it is.
    pub provider: String,
    /// Its number there.
    pub event: u32,
    /// Its name, often empty.
    pub name: String,
    /// Of its payload's layout.
    pub version: u32,
    /// How important it is: 1 critical to 5 verbose, 0 always.
    pub level: u32,
    /// The groups that it belongs to.
    pub keywords: u64,
    /// Start, stop or something else.
    pub opcode: Option<u8>,
    /// What its payload has, if the file says so.
    pub fields: Vec<FieldType>,
    /// The provider's GUID, if the file says so (version 6).
    pub provider_guid: Option<[u8; 16]>,
    /// A sentence with holes for the fields (version 6).
    pub message: Option<String>,
    /// What it means (version 6).
    pub description: Option<String>,
    /// What else is said (version 6).
    pub pairs: Vec<(String, String)>,
}

/// One field of a payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldType {
    /// Its name.
    pub name: String,
    /// How it lies there.
    pub kind: Type,
}

/// How a value lies in a payload: packed, little-endian.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// Fields, one after the other.
    Object(Vec<FieldType>),
    /// Four bytes, 0 or 1.
    Bool32,
    /// One byte, 0 or 1.
    Bool8,
    /// Two bytes of UTF-16.
    Utf16Unit,
    /// One byte of UTF-8.
    Utf8Unit,
    /// A signed number of so many bytes: 1, 2, 4 or 8.
    Signed(u8),
    /// An unsigned one.
    Unsigned(u8),
    /// Four bytes of IEEE 754.
    Single,
    /// Eight bytes of it.
    Double,
    /// Sixteen bytes of .NET's `Decimal`.
    Decimal,
    /// Eight numbers of 16 bits as in [`Utc`].
    DateTime,
    /// Sixteen bytes.
    Guid,
    /// UTF-16 up to a NUL.
    Utf16,
    /// A number of 16 bits says how many elements follow.
    Array(Box<Type>),
    /// So many elements.
    FixedArray(Box<Type>, u16),
    /// A signed number of as many bytes as it takes.
    VarInt,
    /// An unsigned one.
    VarUInt,
    /// Two numbers of 16 bits: where the elements are, counted from behind these, and how many bytes they have.
    RelLoc(Box<Type>),
    /// The same, counted from the payload's beginning.
    DataLoc(Box<Type>),
}

impl TraceInfo {
    /// A time of an event as milliseconds since the trace began.
    pub fn milliseconds(&self, ticks: i64) -> f64 {
        ticks.saturating_sub(self.start_ticks) as f64 * 1000.0 / self.ticks_per_second as f64
    }

    pub(super) fn read(container: Container, bytes: &mut Bytes<'_>) -> Result<TraceInfo, Stuck> {
        let start = Utc::read(bytes)?;
        let start_ticks = bytes.long()? as i64;
        let ticks_per_second = bytes.long()? as i64;
        let pointer_bytes = match bytes.word()? {
            4 => 4,
            8 => 8,
            _ => return Err(Stuck::Wrong(DamageKind::Trace("a pointer has 4 or 8 bytes"))),
        };
        if ticks_per_second <= 0 {
            return Err(Stuck::Wrong(DamageKind::Trace("its clock has no ticks")));
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

    fn read_pairs(&mut self, bytes: &mut Bytes<'_>) -> Result<(), Stuck> {
        let count = bytes.word()?;
        if count > MOST_PAIRS {
            return Err(Stuck::Wrong(DamageKind::Trace("it has too many pairs of words")));
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
    pub(super) fn read(bytes: &mut Bytes<'_>) -> Result<Utc, Stuck> {
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

    /// Nanoseconds since 1970, none if there is no such time.
    pub fn since_1970_ns(&self) -> Option<i64> {
        let month_is_one = (1..=12).contains(&self.month) && (1..=31).contains(&self.day);
        let time_is_one = self.hour < 24 && self.minute < 60 && self.second <= 60 && self.millisecond < 1000;
        if !month_is_one || !time_is_one {
            return None;
        }
        // Years that begin in March have their leap day at the end.
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
    /// A description of version 4, which is all of these bytes. With what is wrong with its end, if something is: an event
    /// whose fields can't be read is an event still.
    pub(super) fn read_4(bytes: &mut Bytes<'_>) -> Result<(EventType, Option<DamageKind>), Stuck> {
        let mut kind = EventType { id: bytes.word()?, provider: bytes.utf16()?, ..EventType::default() };
        kind.event = bytes.word()?;
        kind.name = bytes.utf16()?;
        kind.keywords = bytes.long()?;
        kind.version = bytes.word()?;
        kind.level = bytes.word()?;
        let rest = kind.rest_4(bytes);
        kind.checked(rest)
    }

    fn rest_4(&mut self, bytes: &mut Bytes<'_>) -> Result<(), Stuck> {
        self.fields = fields_4(bytes, 0)?;
        // The first writers had nothing behind the fields; a tag is a length, a kind, and so many bytes.
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

    /// A description of version 6, which is all of these bytes.
    pub(super) fn read_6(bytes: &mut Bytes<'_>) -> Result<(EventType, Option<DamageKind>), Stuck> {
        let mut kind = EventType { id: bytes.var32()?, provider: bytes.utf8()?, ..EventType::default() };
        kind.event = bytes.var32()?;
        kind.name = bytes.utf8()?;
        let rest = kind.rest_6(bytes);
        kind.checked(rest)
    }

    fn rest_6(&mut self, bytes: &mut Bytes<'_>) -> Result<(), Stuck> {
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
                // How long it is nobody knows; what was read counts.
                _ => break,
            }
        }
        Ok(())
    }

    fn checked(self, rest: Result<(), Stuck>) -> Result<(EventType, Option<DamageKind>), Stuck> {
        if self.id == 0 {
            return Err(Stuck::Wrong(DamageKind::Type("its id is 0")));
        }
        let wrong = rest.err().map(|stuck| match stuck {
            Stuck::Short => DamageKind::Type("it ends too early; what it said before counts"),
            Stuck::Wrong(kind) => kind,
        });
        Ok((self, wrong))
    }

    /// About how much memory it takes.
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
    fn cost(&self) -> usize {
        match self {
            Type::Object(fields) => fields.iter().map(FieldType::cost).sum(),
            Type::Array(of) | Type::FixedArray(of, _) | Type::RelLoc(of) | Type::DataLoc(of) => {
                size_of::<Type>() + of.cost()
            }
            _ => 0,
        }
    }

    /// Types that are a code and nothing else.
    fn simple(code: u32) -> Option<Type> {
        Some(match code {
            3 => Type::Bool32,
            4 => Type::Utf16Unit,
            5 => Type::Signed(1),
            6 => Type::Unsigned(1),
            7 => Type::Signed(2),
            8 => Type::Unsigned(2),
            9 => Type::Signed(4),
            10 => Type::Unsigned(4),
            11 => Type::Signed(8),
            12 => Type::Unsigned(8),
            13 => Type::Single,
            14 => Type::Double,
            15 => Type::Decimal,
            16 => Type::DateTime,
            17 => Type::Guid,
            18 => Type::Utf16,
            _ => return None,
        })
    }
}

fn deeper(depth: u32) -> Result<u32, Stuck> {
    if depth < DEEPEST { Ok(depth + 1) } else { Err(Stuck::Wrong(DamageKind::Type("its fields are nested too deep"))) }
}

fn unknown_code<T>() -> Result<T, Stuck> {
    Err(Stuck::Wrong(DamageKind::Type("a field has an unknown type")))
}

/// Fields as version 4 has them: type, then name.
fn fields_4(bytes: &mut Bytes<'_>, depth: u32) -> Result<Vec<FieldType>, Stuck> {
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

/// Fields as the tag that came with .NET 5 has them: size, name, then type, which may be an array.
fn fields_5(bytes: &mut Bytes<'_>, depth: u32) -> Result<Vec<FieldType>, Stuck> {
    let count = bytes.word()?;
    let mut fields = Vec::new();
    for _ in 0..count {
        let size = bytes.word()?;
        let size = size.checked_sub(4).ok_or(Stuck::Wrong(DamageKind::Type("a field is shorter than its size")))?;
        let mut field = bytes.part(size as usize)?;
        let name = field.utf16()?;
        fields.push(FieldType { name, kind: type_5(&mut field, depth)? });
    }
    Ok(fields)
}

fn type_5(bytes: &mut Bytes<'_>, depth: u32) -> Result<Type, Stuck> {
    match bytes.word()? {
        1 => Ok(Type::Object(fields_5(bytes, deeper(depth)?)?)),
        19 => Ok(Type::Array(Box::new(type_5(bytes, deeper(depth)?)?))),
        code => Type::simple(code).map_or_else(unknown_code, Ok),
    }
}

/// Fields of version 6: size, name, type.
fn fields_6(bytes: &mut Bytes<'_>, depth: u32) -> Result<Vec<FieldType>, Stuck> {
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

fn type_6(bytes: &mut Bytes<'_>, depth: u32) -> Result<Type, Stuck> {
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
