//! Maps the events of a .nettrace to the rows of the table of events.
//!
//! Three kinds of events are known: those of the stopworld provider, whose numbers are those of the table; those of the runtime,
//! which the table pairs with the collector's phases; and records of a telemetry stream, which a conversion stored as events (see
//! `telemetry`). A `GCDynamicEvent` is mapped to the event whose name it contains. Payloads are read by the fields that the file describes,
//! or by the template for the event's number.

use super::telemetry;
use mps_telemetry::Layout;
use nettrace::clr::gc::Dynamic;
use nettrace::clr::history::MarkWithType;
use nettrace::clr::{self, FieldValue, MarkRoot, Payload, SuspendReason};
use nettrace::fields::{self, Value};
use nettrace::names::{PRIVATE, RUNTIME};
use nettrace::{EventType, NetEvent};
use stopworld::events::table::Unit;
use stopworld::events::{DESCRIPTORS, EventId, Provider};

/// The name of the stopworld provider.
const OWN: &str = "stopworld";

/// The meaning of an event type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum EventMeaning {
    /// An event of the stopworld provider.
    Own(EventId),
    /// An event of the runtime that corresponds to a row of the table.
    Net(EventId),
    /// A `GCDynamicEvent`: the name in its payload selects the row.
    Dynamic,
    /// A telemetry record.
    Telemetry(&'static Layout),
    /// None of these.
    Unknown,
}

/// Returns the meaning of an event type.
pub(crate) fn meaning(kind: &EventType) -> EventMeaning {
    let provider = match kind.provider.as_str() {
        OWN => {
            let row = kind.event.checked_sub(1).and_then(|index| EventId::from_index(index as usize));
            // The event's name selects the row, because rows may have been added or moved since the file was written.
            let by_name = || DESCRIPTORS.iter().find(|row| row.name == kind.name).map(|row| row.id);
            let row = row.filter(|id| id.descriptor().name == kind.name).or_else(by_name);
            return row.map_or(EventMeaning::Unknown, EventMeaning::Own);
        }
        telemetry::PROVIDER => {
            return telemetry::layout_of(kind).map_or(EventMeaning::Unknown, EventMeaning::Telemetry);
        }
        RUNTIME => Provider::Default,
        PRIVATE => Provider::Private,
        _ => return EventMeaning::Unknown,
    };
    if provider == Provider::Default && kind.event == Dynamic::EVENT {
        return EventMeaning::Dynamic;
    }
    let is_it = |row: &&stopworld::events::Descriptor| {
        row.net.iter().any(|net| u32::from(net.id) == kind.event && net.provider == provider)
    };
    DESCRIPTORS.iter().find(is_it).map_or(EventMeaning::Unknown, |row| EventMeaning::Net(row.id))
}

/// The decoded numbers and texts of an event, by field name.
#[derive(Debug, Default)]
pub(crate) struct DecodedFields {
    numbers: Vec<(String, u64)>,
    texts: Vec<(String, String)>,
}

impl DecodedFields {
    /// Returns the number in this field, if the event has one.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.numbers.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
    }

    /// Returns the text in this field, if the event has one.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.texts.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    fn add(&mut self, name: &str, value: &Value<'_>) {
        match value {
            Value::Unsigned(number) => self.numbers.push((name.to_owned(), *number)),
            Value::Signed(number) => self.numbers.push((name.to_owned(), *number as u64)),
            Value::Bool(value) => self.numbers.push((name.to_owned(), u64::from(*value))),
            Value::Text(text) => self.texts.push((name.to_owned(), text.to_string())),
            _ => {}
        }
    }
}

/// Decodes an event.
pub(crate) fn fields(event: &NetEvent<'_>, pointer_bytes: u8) -> DecodedFields {
    let kind = event.kind;
    let mut fields = DecodedFields::default();
    if !kind.fields.is_empty() {
        let decoded = fields::decode(&kind.fields, event.payload);
        decoded.fields.iter().for_each(|(name, value)| fields.add(name, value));
        return fields;
    }
    let version = event.version();
    let template = clr::Provider::named(&kind.provider).and_then(|provider| clr::find(provider, kind.event, version));
    if let Some(template) = template {
        template.decode(version, Payload::new(event.payload, pointer_bytes), |row, field, value| {
            if row.is_some() {
                return;
            }
            match value {
                FieldValue::Unsigned(number) => fields.numbers.push((field.name.to_owned(), number)),
                FieldValue::Signed(number) => fields.numbers.push((field.name.to_owned(), number as u64)),
                FieldValue::Text(text) => fields.texts.push((field.name.to_owned(), text.to_string())),
                _ => {}
            }
        });
    }
    fields
}

/// Returns whether the runtime suspends its threads for a collection or its preparation, given the reason of a suspension.
pub(crate) fn is_for_collection(reason: u64) -> bool {
    let reason = u32::try_from(reason).ok().and_then(SuspendReason::of);
    matches!(reason, Some(SuspendReason::SuspendForGC | SuspendReason::SuspendForGCPrep))
}

/// Returns the row of an event, given its decoded fields.
pub(crate) fn id_of(meaning: EventMeaning, kind: &EventType, fields: &DecodedFields) -> Option<EventId> {
    match meaning {
        // Two rows of the table correspond to this event.
        EventMeaning::Net(_) if kind.event == MarkWithType::EVENT && kind.provider == RUNTIME => {
            let of_finalizers = fields.number("Type") == Some(MarkRoot::MarkNewFQ.code().into());
            Some(if of_finalizers { EventId::WeakEnd } else { EventId::MarkEnd })
        }
        EventMeaning::Own(id) | EventMeaning::Net(id) => Some(id),
        EventMeaning::Dynamic => {
            let name = fields.text("Name")?;
            DESCRIPTORS.iter().find(|row| row.name == name).map(|row| row.id)
        }
        EventMeaning::Telemetry(_) | EventMeaning::Unknown => None,
    }
}

/// Decodes the numbers of a `GCDynamicEvent` that has the name of a row: its data is that event's payload, in order.
pub(crate) fn dynamic_fields(id: EventId, payload: &[u8]) -> Vec<(&'static str, u64)> {
    // The pointer size does not matter, because the event contains no pointers.
    let data = Dynamic::new(0, Payload::new(payload, 8)).data().unwrap_or_default();
    let mut at = 0;
    let mut fields = Vec::new();
    for field in id.descriptor().fields {
        let bytes = field.kind.bytes();
        let Some(value) = data.get(at..at + bytes) else { break };
        let mut word = [0; 8];
        word[..bytes].copy_from_slice(value);
        if field.unit != Unit::Label {
            fields.push((field.name, u64::from_le_bytes(word)));
        }
        at += bytes;
    }
    fields
}
