//! Formats an event as text or JSON, with the names of its fields as far as they are known.

use std::fmt::{self, Write};

use super::clr::{self, FieldValue, Kind, Payload, Provider};
use super::fields::{self, Decoded, Text, Value};
use super::{NetEvent, Utc};
use trace_io::json::Quoted;

/// The fields of an event.
#[derive(Default)]
pub struct Shown<'a> {
    fields: Vec<(&'a str, Item<'a>)>,
    /// The rows.
    rows: Vec<Vec<(&'a str, Item<'a>)>>,
    /// Bytes that belong to no field.
    rest: &'a [u8],
}

/// A field's value.
enum Item<'a> {
    Value(Value<'a>),
    /// A number that is an address or an identifier.
    Address(u64),
    /// A number that has a name.
    Named(String),
    Numbers(Vec<u64>),
}

/// Decodes the fields of an event: by its template, or by the type that the file declares.
///
/// A template describes more than a file can: names for the values of numbers, and repeated rows. If it does not cover the whole payload
/// and the file declares fields, the file's declaration is used.
pub fn shown<'a>(event: &NetEvent<'a>, pointer_bytes: u8) -> Shown<'a> {
    let kind = event.kind;
    let version = event.version();
    let template = Provider::named(&kind.provider).and_then(|provider| clr::find(provider, kind.event, version));
    if let Some(template) = template {
        let (shown, bytes) = by_template(template, event, pointer_bytes);
        if kind.fields.is_empty() || bytes == event.payload.len() {
            return shown;
        }
    }
    let Decoded { fields, rest, .. } = fields::decode(&kind.fields, event.payload);
    let fields = fields.into_iter().map(|(name, value)| (name, Item::Value(value))).collect();
    Shown { fields, rows: Vec::new(), rest }
}

/// Decodes the fields by this template. Also returns the number of bytes decoded.
fn by_template<'a>(template: &'static clr::Template, event: &NetEvent<'a>, pointer_bytes: u8) -> (Shown<'a>, usize) {
    let mut shown = Shown::default();
    let payload = Payload::new(event.payload, pointer_bytes);
    let bytes = template.decode(event.version(), payload, |row, field, value| {
        let item = match field.label(&value) {
            Some(name) => Item::Named(name),
            None => item(field, value),
        };
        match row {
            None => shown.fields.push((field.name, item)),
            Some(row) => {
                let row = row as usize;
                if row >= shown.rows.len() {
                    shown.rows.resize_with(row + 1, Vec::new);
                }
                shown.rows[row].push((field.name, item));
            }
        }
    });
    (shown, bytes)
}

fn item<'a>(field: &clr::Field, value: FieldValue<'a>) -> Item<'a> {
    match value {
        FieldValue::Unsigned(number) if is_address(field) => Item::Address(number),
        FieldValue::Unsigned(number) => Item::Value(Value::Unsigned(number)),
        FieldValue::Signed(number) => Item::Value(Value::Signed(number)),
        FieldValue::Text(text) => Item::Value(Value::Text(Text::Utf16(text.bytes()))),
        FieldValue::Guid(guid) => Item::Value(Value::Guid(guid)),
        FieldValue::Bytes(bytes) => Item::Value(Value::Bytes(bytes)),
        FieldValue::U64s(bytes) => {
            Item::Numbers(bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect())
        }
    }
}

/// Returns whether a number is usually read in hexadecimal.
fn is_address(field: &clr::Field) -> bool {
    let endings = ["ID", "Address", "Start", "End", "Base", "Node", "Value", "Key"];
    matches!(field.kind, Kind::Word | Kind::U64) && endings.iter().any(|ending| field.name.ends_with(ending))
}

/// Writes a line of text.
pub fn text(line: &mut String, event: &NetEvent<'_>, title: &str, milliseconds: f64, shown: &Shown<'_>) {
    let provider = &event.kind.provider;
    let _ = write!(line, "{milliseconds:>13.4}  {provider}/{title}  thread={}", event.thread);
    for (name, item) in &shown.fields {
        let _ = write!(line, " {name}=");
        item.write(line, Form::Text);
    }
    for row in &shown.rows {
        line.push_str(" [");
        for (index, (name, item)) in row.iter().enumerate() {
            let _ = write!(line, "{}{name}=", if index > 0 { " " } else { "" });
            item.write(line, Form::Text);
        }
        line.push(']');
    }
    if !shown.rest.is_empty() {
        line.push_str(" bytes=");
        hex(line, shown.rest);
    }
}

/// Writes a line of JSON.
pub fn json(line: &mut String, event: &NetEvent<'_>, title: &str, milliseconds: f64, shown: &Shown<'_>) {
    let kind = event.kind;
    let _ = write!(
        line,
        "{{\"ms\":{milliseconds:.4},\"provider\":{},\"event\":{},\"id\":{},\"version\":{},\"process\":{},\"thread\":{}",
        Quoted(&kind.provider),
        Quoted(title),
        kind.event,
        event.version(),
        event.process,
        event.thread
    );
    if let Some(processor) = event.processor {
        let _ = write!(line, ",\"processor\":{processor}");
    }
    line.push_str(",\"fields\":");
    object(line, &shown.fields);
    if !shown.rows.is_empty() {
        line.push_str(",\"rows\":[");
        for (index, row) in shown.rows.iter().enumerate() {
            if index > 0 {
                line.push(',');
            }
            object(line, row);
        }
        line.push(']');
    }
    if !shown.rest.is_empty() {
        line.push_str(",\"bytes\":\"");
        hex(line, shown.rest);
        line.push('"');
    }
    line.push('}');
}

impl Shown<'_> {
    /// Passes each member with its value in JSON: the fields, then `rows`, and the bytes that belong to no field.
    pub fn members(&self, mut each: impl FnMut(&str, &str)) {
        let mut value = String::new();
        for (name, item) in &self.fields {
            value.clear();
            item.write(&mut value, Form::Json);
            each(name, &value);
        }
        if !self.rows.is_empty() {
            value.clear();
            for (index, row) in self.rows.iter().enumerate() {
                value.push(if index > 0 { ',' } else { '[' });
                object(&mut value, row);
            }
            value.push(']');
            each("rows", &value);
        }
        if !self.rest.is_empty() {
            value.clear();
            value.push('"');
            hex(&mut value, self.rest);
            value.push('"');
            each("rest", &value);
        }
    }
}

fn object(line: &mut String, fields: &[(&str, Item<'_>)]) {
    line.push('{');
    for (index, (name, item)) in fields.iter().enumerate() {
        let _ = write!(line, "{}{}:", if index > 0 { "," } else { "" }, Quoted(name));
        item.write(line, Form::Json);
    }
    line.push('}');
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Text,
    Json,
}

impl Item<'_> {
    fn write(&self, line: &mut String, form: Form) {
        let _ = match self {
            Item::Value(value) => return write_value(line, value, form),
            Item::Address(number) if form == Form::Text => write!(line, "{number:#x}"),
            Item::Address(number) => write!(line, "{number}"),
            Item::Named(name) if form == Form::Text && !name.contains(' ') => write!(line, "{name}"),
            Item::Named(name) => write!(line, "{}", Quoted(name)),
            Item::Numbers(numbers) => {
                let numbers: Vec<Value<'_>> = numbers.iter().map(|&number| Value::Unsigned(number)).collect();
                return write_value(line, &Value::List(numbers), form);
            }
        };
    }
}

fn write_value(line: &mut String, value: &Value<'_>, form: Form) {
    let quoted = if form == Form::Json { "\"" } else { "" };
    let _ = match value {
        Value::Bool(value) => write!(line, "{value}"),
        Value::Signed(number) => write!(line, "{number}"),
        Value::Unsigned(number) => write!(line, "{number}"),
        // JSON has no notation for numbers that are not finite.
        Value::Single(number) if form == Form::Json && !number.is_finite() => write!(line, "\"{number}\""),
        Value::Double(number) if form == Form::Json && !number.is_finite() => write!(line, "\"{number}\""),
        Value::Single(number) => write!(line, "{number}"),
        Value::Double(number) => write!(line, "{number}"),
        Value::DateTime(utc) => write!(line, "{quoted}{}{quoted}", Moment(utc)),
        Value::Guid(guid) => write!(line, "{quoted}{}{quoted}", Guid(guid)),
        Value::Text(text) => write!(line, "{}", Quoted(&text.to_string())),
        Value::Bytes(bytes) => {
            line.push_str(quoted);
            hex(line, bytes);
            line.push_str(quoted);
            Ok(())
        }
        Value::List(values) => {
            line.push('[');
            for (index, value) in values.iter().enumerate() {
                if index > 0 {
                    line.push_str(if form == Form::Json { "," } else { ", " });
                }
                write_value(line, value, form);
            }
            line.push(']');
            Ok(())
        }
        Value::Object(fields) => {
            line.push('{');
            for (index, (name, value)) in fields.iter().enumerate() {
                let _ = match form {
                    Form::Json => write!(line, "{}{}:", if index > 0 { "," } else { "" }, Quoted(name)),
                    Form::Text => write!(line, "{}{name}=", if index > 0 { " " } else { "" }),
                };
                write_value(line, value, form);
            }
            line.push('}');
            Ok(())
        }
    };
}

fn hex(line: &mut String, bytes: &[u8]) {
    for byte in bytes {
        let _ = write!(line, "{byte:02x}");
    }
}

/// A GUID in its usual notation.
struct Guid<'a>(&'a [u8; 16]);

impl fmt::Display for Guid<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The first three parts are little-endian numbers.
        const ORDER: [usize; 16] = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
        for (index, &place) in ORDER.iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                f.write_char('-')?;
            }
            write!(f, "{:02x}", self.0[place])?;
        }
        Ok(())
    }
}

/// A time in ISO 8601.
struct Moment<'a>(&'a Utc);

impl fmt::Display for Moment<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Utc { year, month, day, hour, minute, second, millisecond, .. } = self.0;
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millisecond:03}Z")
    }
}
