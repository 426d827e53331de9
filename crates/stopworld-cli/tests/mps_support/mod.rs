//! A naive decoder of MPS telemetry for comparison: the layouts are read from the tables generated from the MPS's headers, everything is
//! kept in memory, numbers are printed by the standard library and doubles by C's printf.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::collections::HashMap;
use std::fmt::Write;

use mps_telemetry::Version;
use mps_telemetry::decode::{Form, Style};

/// A parameter: sort, name, first byte, bit.
pub type Param = (char, String, usize, Option<u8>);

pub struct Layout {
    pub name: String,
    pub params: Vec<Param>,
}

pub struct Layouts(pub HashMap<u16, Layout>);

impl Layouts {
    pub fn of(version: Version) -> Layouts {
        let tsv = match version {
            Version::V1 => include_str!("../../../mps-telemetry/testdata/events-v1.0.0-seed.tsv"),
            Version::V2 => include_str!("../../../mps-telemetry/testdata/events-v2.0.0.tsv"),
        };
        let row = |line: &str| {
            let cells: Vec<&str> = line.split('\t').collect();
            let param = |text: &str| {
                let (name, place) = text[2..].split_once('@').unwrap();
                let (offset, bit) = place.split_once('.').map_or((place, None), |(o, b)| (o, b.parse().ok()));
                (text.chars().next().unwrap(), name.to_owned(), offset.parse().unwrap(), bit)
            };
            let params = cells[5].split_whitespace().map(param).collect();
            (u16::from_str_radix(&cells[0][2..], 16).unwrap(), Layout { name: cells[1].to_owned(), params })
        };
        Layouts(tsv.lines().filter(|line| !line.starts_with('#')).map(row).collect())
    }
}

/// How a stream ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Clean,
    Stray(usize),
    Damaged(usize),
}

/// The records, and how the stream ends.
pub fn records(stream: &[u8]) -> (Vec<&[u8]>, End) {
    let (mut found, mut at) = (Vec::new(), 0);
    loop {
        match stream.len() - at {
            0 => return (found, End::Clean),
            1..16 => return (found, End::Stray(at)),
            rest => {
                let size = usize::from(u16::from_le_bytes([stream[at + 2], stream[at + 3]]));
                if !(16..=288).contains(&size) || size > rest {
                    return (found, End::Damaged(at));
                }
                found.push(&stream[at..at + size]);
                at += size;
            }
        }
    }
}

fn code(record: &[u8]) -> u16 {
    u16::from_le_bytes([record[0], record[1]])
}

fn clock(record: &[u8]) -> u64 {
    u64::from_le_bytes(record[8..16].try_into().unwrap())
}

/// The values of the parameters that are present.
#[derive(Clone, Debug)]
enum Value {
    Number(u64),
    Double(f64),
    Text(Vec<u8>),
}

fn values<'a>(layout: &'a Layout, record: &[u8]) -> Vec<(&'a Param, Value)> {
    let mut found = Vec::new();
    for param in &layout.params {
        let &(sort, _, offset, bit) = param;
        let size = match sort {
            'U' => 4,
            'B' => 1,
            'S' => 0,
            _ => 8,
        };
        if offset + size > record.len() {
            break;
        }
        let mut bytes = [0; 8];
        bytes[..size].copy_from_slice(&record[offset..offset + size]);
        let number = u64::from_le_bytes(bytes);
        found.push((
            param,
            match sort {
                'D' => Value::Double(f64::from_bits(number)),
                'S' => Value::Text(record[offset..].iter().copied().take_while(|&byte| byte != 0).collect()),
                'B' => Value::Number(bit.map_or(number, |bit| number >> bit & 1)),
                _ => Value::Number(number),
            },
        ));
    }
    found
}

fn c_double(format: &str, value: f64) -> String {
    let format = std::ffi::CString::new(format).unwrap();
    let mut text = [0u8; 64];
    // SAFETY: the buffer and its length are passed together; the formats used here take one double.
    let len = unsafe { libc::snprintf(text.as_mut_ptr().cast(), text.len(), format.as_ptr(), value) };
    String::from_utf8(text[..len as usize].to_vec()).unwrap()
}

/// Text as bytes: each character is one byte.
fn text(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| char::from(byte)).collect()
}

fn quoted(bytes: &[u8]) -> String {
    format!("\"{}\"", text(bytes).replace('\\', "\\\\").replace('"', "\\\""))
}

fn hex_line(layouts: &Layouts, record: &[u8]) -> String {
    let mut line = format!("{:016X} {:4X}", clock(record), code(record));
    for (_, value) in layouts.0.get(&code(record)).map(|layout| values(layout, record)).unwrap_or_default() {
        match value {
            Value::Number(number) => write!(line, " {number:X}").unwrap(),
            Value::Double(value) => line += &(" ".to_owned() + &c_double("%.10G", value)),
            Value::Text(bytes) => line += &(" ".to_owned() + &quoted(&bytes)),
        }
    }
    line
}

#[derive(Default)]
struct Labels {
    texts: HashMap<u64, Vec<u8>>,
    /// In the order in which they were given: namespace, address, id.
    given: Vec<(char, u64, u64)>,
}

impl Labels {
    fn of(&self, sort: char, address: u64) -> String {
        match self.given.iter().rev().find(|given| (given.0, given.1) == (sort, address)) {
            None => String::new(),
            Some((.., id)) => match self.texts.get(id) {
                None => format!("[unknown label {id:X}]"),
                Some(text) => format!("[{}]", quoted(text)),
            },
        }
    }
}

fn named_line(layouts: &Layouts, record: &[u8], labels: &mut Labels) -> String {
    let start = format!("{:016X} {:04X} ", clock(record), code(record));
    let Some(layout) = layouts.0.get(&code(record)) else {
        return start + &format!("{:<19} Unknown event.", "[Unknown]");
    };
    let values = values(layout, record);
    match (layout.name.as_str(), &values[..]) {
        ("Intern", [(_, Value::Number(id)), (_, Value::Text(text))]) => _ = labels.texts.insert(*id, text.clone()),
        ("Label", [(_, Value::Number(address)), (_, Value::Number(id))]) => labels.given.push(('A', *address, *id)),
        ("LabelPointer", [(_, Value::Number(address)), (_, Value::Number(id))]) => {
            labels.given.push(('P', *address, *id));
        }
        _ => {}
    }
    let mut line = start + &format!("{:<19} ", layout.name);
    for ((sort, name, ..), value) in values {
        line += &match (sort, value) {
            ('U', Value::Number(number)) => format!("{name}:{number} "),
            ('B', Value::Number(number)) => format!("{name}:{} ", if number == 0 { "False" } else { "True" }),
            (sort, Value::Number(number)) => format!("{name}:{number:016X}{} ", labels.of(*sort, number)),
            (_, Value::Text(bytes)) => format!("{name}:{} ", quoted(&bytes)),
            (_, Value::Double(value)) => {
                let read = if value.is_finite() { c_double("%.10G", value).parse().unwrap() } else { value };
                format!("{name}:{} ", c_double("%#8.3g", read))
            }
        };
    }
    line
}

fn manual_line(layouts: &Layouts, record: &[u8], style: Style) -> String {
    let (high, whole) = (clock(record) >> 32, clock(record));
    let mut line = format!("{high:08X}{whole:08X}");
    let layout = layouts.0.get(&code(record));
    let (between, plain): (_, fn(u64) -> String) = match style {
        Style::Human => (" ", |n| format!("{n:8X}")),
        Style::Lisp => (" ", |n| format!("{n:X}")),
        Style::Commas => (", ", |n| format!("{n}")),
    };
    let address = |n: u64| if style == Style::Human { format!("{n:08X}") } else { plain(n) };
    let double = |value| match style {
        Style::Human => c_double("%#8.3g", value),
        Style::Lisp => c_double("%#.10G", value),
        Style::Commas => c_double("%.10G", value),
    };
    match (style, layout) {
        (Style::Commas, _) => write!(line, ", {}", code(record)).unwrap(),
        (_, Some(layout)) => write!(line, " {:<19} ", layout.name).unwrap(),
        (_, None) => write!(line, " {:<19} ", format!("[Unknown 0x{:04X}]", code(record))).unwrap(),
    }
    let values = layout.map(|layout| values(layout, record)).unwrap_or_default();
    let name = layout.map_or("", |layout| &layout.name);
    let words: Vec<u64> = values
        .iter()
        .map(|(_, value)| match value {
            Value::Number(number) => *number,
            Value::Double(value) => value.to_bits(),
            Value::Text(_) => 0,
        })
        .collect();
    let mut cells: Vec<String> = Vec::new();
    match (name, &words[..]) {
        ("Label" | "LabelPointer", _) => {
            cells.extend(words.first().map(|&n| address(n)));
            cells.extend(words.get(1).map(|&id| match style {
                Style::Human => format!("sym {id:05X}"),
                Style::Lisp => format!("{id:X}"),
                Style::Commas => format!("sym {id:X}\""),
            }));
        }
        ("MeterValues", &[meter, total, mean_squared, count, max, min]) => {
            let (total, mean_squared) = (f64::from_bits(total), f64::from_bits(mean_squared));
            let low = |n: u64| n as u32;
            cells.push(address(meter));
            match style {
                Style::Human if count == 0 => cells.push("       0      N/A      N/A      N/A      N/A".to_owned()),
                Style::Human => {
                    let mean = total / count as f64;
                    cells.extend([count, max, min].map(|n| format!("{:8}", low(n))));
                    cells.extend([mean, (mean_squared - mean * mean).abs().sqrt()].map(double));
                }
                _ => {
                    cells.extend([total, mean_squared].map(double));
                    cells.extend([count, max, min].map(|n| plain(u64::from(low(n)))));
                }
            }
            if style == Style::Human {
                cells.push(address(meter));
            }
        }
        ("MeterValues", _) => {}
        _ => {
            for ((sort, param, _, bit), value) in &values {
                cells.push(match value {
                    Value::Double(value) => double(*value),
                    Value::Text(bytes) if style == Style::Human => text(bytes),
                    Value::Text(bytes) => quoted(bytes),
                    Value::Number(number) if *sort == 'A' || (name, param.as_str()) == ("PoolInit", "poolClass") => {
                        address(*number)
                    }
                    Value::Number(1) if bit.is_some() => plain(u64::MAX),
                    Value::Number(number) => plain(*number),
                });
            }
        }
    }
    for cell in cells {
        line += between;
        line += &cell;
    }
    if style == Style::Lisp { format!("({line})") } else { line }
}

/// Returns the expected output, and how the stream ends.
pub fn naive(stream: &[u8], version: Version, form: Form) -> (Vec<u8>, End) {
    let layouts = Layouts::of(version);
    let (mut records, end) = records(stream);
    let mut labels = Labels::default();
    if form == Form::Named {
        records.sort_by_cached_key(|record| hex_line(&layouts, record));
    }
    let mut lines = String::new();
    for record in records {
        lines += &match form {
            Form::Hex => hex_line(&layouts, record),
            Form::Named => named_line(&layouts, record, &mut labels),
            Form::Manual(style) => manual_line(&layouts, record, style),
        };
        lines.push('\n');
    }
    (lines.chars().map(|c| c as u8).collect(), end)
}

/// All output forms.
pub const FORMS: [Form; 5] =
    [Form::Hex, Form::Named, Form::Manual(Style::Human), Form::Manual(Style::Lisp), Form::Manual(Style::Commas)];
