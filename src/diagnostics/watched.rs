//! Counters as a client reads them from a stream: any events called `EventCounters`, in either layout.
//!
//! The events describe themselves. The fields may lie in objects within objects; those add no bytes, so the leaves are
//! the layout.

use std::time::Duration;

use nettrace::{EventType, FieldType, Interest, NetEvent, Type, Visitor};

/// A counter's value, as an event told it.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    /// Its provider.
    pub provider: String,
    /// Its name.
    pub name: String,
    /// The name that is shown.
    pub display: String,
    /// In these units; may be empty.
    pub units: String,
    /// The value.
    pub value: f64,
    /// If the value is by how much it has grown: over which time. As it is now if `None`.
    pub grown_in: Option<Duration>,
    /// The events' own time stamp, in ticks: the same for all that were read together, or nearly so.
    pub time: i64,
}

/// Hands on counters as they come.
pub struct Watching<F> {
    /// Is called with each.
    pub told: F,
}

impl<F: FnMut(Told)> Visitor for Watching<F> {
    fn event_type(&mut self, kind: &EventType) -> Interest {
        if kind.name == "EventCounters" { Interest::Deliver } else { Interest::Skip }
    }

    fn event(&mut self, event: &NetEvent<'_>) {
        if let Some(told) = read(event) {
            (self.told)(told);
        }
    }
}

/// A value of a field that counters have.
enum Value {
    Text(String),
    Number(f64),
}

fn read(event: &NetEvent<'_>) -> Option<Told> {
    let mut fields = Vec::new();
    leaves(&event.kind.fields, &mut fields);
    let mut rest = event.payload;
    let mut told = Told {
        provider: event.kind.provider.clone(),
        name: String::new(),
        display: String::new(),
        units: String::new(),
        value: f64::NAN,
        grown_in: None,
        time: event.time,
    };
    let mut interval = 0.0;
    for field in fields {
        match (field.name.as_str(), value(&field.kind, &mut rest)?) {
            ("Name", Value::Text(text)) => told.name = text,
            ("DisplayName", Value::Text(text)) => told.display = text,
            ("DisplayUnits", Value::Text(text)) => told.units = text,
            ("Mean", Value::Number(number)) => told.value = number,
            ("Increment", Value::Number(number)) => {
                told.value = number;
                told.grown_in = Some(Duration::ZERO);
            }
            ("IntervalSec", Value::Number(number)) => interval = number,
            _ => {}
        }
    }
    if told.grown_in.is_some() {
        told.grown_in = Duration::try_from_secs_f64(interval).ok();
    }
    Some(told).filter(|told| !told.name.is_empty() && !told.value.is_nan())
}

/// The fields that have bytes.
fn leaves<'a>(fields: &'a [FieldType], to: &mut Vec<&'a FieldType>) {
    for field in fields {
        match &field.kind {
            Type::Object(inner) => leaves(inner, to),
            _ => to.push(field),
        }
    }
}

/// The next value. `None` at the end of the bytes, and for what no counter has.
fn value(kind: &Type, rest: &mut &[u8]) -> Option<Value> {
    fn take<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
        let (first, behind) = rest.split_at_checked(count)?;
        *rest = behind;
        Some(first)
    }
    Some(match kind {
        Type::Double => Value::Number(f64::from_le_bytes(take(rest, 8)?.try_into().ok()?)),
        Type::Single => Value::Number(f32::from_le_bytes(take(rest, 4)?.try_into().ok()?).into()),
        Type::Signed(4) => Value::Number(i32::from_le_bytes(take(rest, 4)?.try_into().ok()?).into()),
        Type::Utf16 => {
            let end = rest.chunks_exact(2).position(|unit| unit == [0, 0])?;
            let units: Vec<u16> =
                take(rest, 2 * end)?.chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]])).collect();
            take(rest, 2)?;
            Value::Text(String::from_utf16_lossy(&units))
        }
        _ => return None,
    })
}
