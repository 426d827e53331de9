//! Reads counters from a stream, on the client side: all events named `EventCounters`, in either layout.
//!
//! The events describe themselves. Fields may be nested in objects. An object adds no bytes of its own, so a payload consists of the
//! fields that are not objects, one after the other.

use std::time::Duration;

use nettrace::{EventType, FieldType, Interest, NetEvent, Type, Visitor};

/// A counter's value, as reported by an event.
#[derive(Clone, Debug, PartialEq)]
pub struct CounterValue {
    /// The name of the provider.
    pub provider: String,
    /// The name of the counter.
    pub name: String,
    /// The name to display.
    pub display: String,
    /// The units; may be empty.
    pub units: String,
    /// The value.
    pub value: f64,
    /// If the value is an increment: the time over which it grew. `None` if it is the current value.
    pub grown_in: Option<Duration>,
    /// The timestamp of the event, in ticks: equal, or nearly equal, for counters that were sampled together.
    pub time: i64,
}

/// A visitor of a stream that passes on each counter.
pub struct CounterVisitor<F> {
    /// The function that is called with each counter.
    pub on_counter: F,
}

impl<F: FnMut(CounterValue)> Visitor for CounterVisitor<F> {
    fn event_type(&mut self, kind: &EventType) -> Interest {
        if kind.name == "EventCounters" { Interest::Deliver } else { Interest::Skip }
    }

    fn event(&mut self, event: &NetEvent<'_>) {
        if let Some(counter) = read(event) {
            (self.on_counter)(counter);
        }
    }
}

/// The value of a counter's field.
enum Value {
    Text(String),
    Number(f64),
}

/// Returns the counter that an event named `EventCounters` reports; `None` if the event is damaged or of another layout.
pub fn read(event: &NetEvent<'_>) -> Option<CounterValue> {
    let mut fields = Vec::new();
    leaves(&event.kind.fields, &mut fields);
    let mut rest = event.payload;
    let mut counter = CounterValue {
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
            ("Name", Value::Text(text)) => counter.name = text,
            ("DisplayName", Value::Text(text)) => counter.display = text,
            ("DisplayUnits", Value::Text(text)) => counter.units = text,
            ("Mean", Value::Number(number)) => counter.value = number,
            ("Increment", Value::Number(number)) => {
                counter.value = number;
                counter.grown_in = Some(Duration::ZERO);
            }
            ("IntervalSec", Value::Number(number)) => interval = number,
            _ => {}
        }
    }
    if counter.grown_in.is_some() {
        counter.grown_in = Duration::try_from_secs_f64(interval).ok();
    }
    Some(counter).filter(|counter| !counter.name.is_empty() && !counter.value.is_nan())
}

/// Collects the fields that have bytes.
fn leaves<'a>(fields: &'a [FieldType], to: &mut Vec<&'a FieldType>) {
    for field in fields {
        match &field.kind {
            Type::Object(inner) => leaves(inner, to),
            _ => to.push(field),
        }
    }
}

/// Reads the next value. Returns `None` at the end of the bytes, and for a type that no counter has.
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
