//! The printer: converts data to text, for `display` and `write`.
//!
//! Lists are printed in a loop, other nested data by recursion, within the limit of the thread's stack.
//! Cyclic data are printed with labels, as R7RS requires: `#0=(1 . #0#)`. Finding cycles needs a walk with a table, so a
//! cheap bounded walk comes first: a datum whose walk ends within a few thousand steps has no cycle.

use std::collections::HashMap;
use std::fmt::Write as _;

use stopworld::Gc;

use super::numbers;
use super::objects::{
    Closure, Code, Condition, Pair, Promise, Record, RecordType, Row, Symbol, Table, Text, Values, Vector,
};
use super::reader::name_of_character;
use super::store::{Store, elements};
use super::value::{Kind, Value};

/// Whether strings and characters are printed as plain text or in the syntax of the reader.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Style {
    Display,
    Write,
}

/// Appends a value to the text.
pub fn print(store: &Store<'_>, text: &mut String, value: Value, style: Style) {
    let labels = if ends_soon(value) { HashMap::new() } else { cycles(store, value) };
    Printer { store, text, style, labels, next: 0 }.value(value);
}

/// Formats a value as a new string.
pub fn to_text(store: &Store<'_>, value: Value, style: Style) -> String {
    let mut text = String::new();
    print(store, &mut text, value, style);
    text
}

/// Formats a value, truncated to fit into one line of an error message.
pub fn brief(store: &Store<'_>, value: Value) -> String {
    let text = to_text(store, value, Style::Write);
    match text.char_indices().nth(96) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text,
    }
}

struct Printer<'a, 'm> {
    store: &'a Store<'m>,
    text: &'a mut String,
    style: Style,
    /// The addresses of objects that contain themselves, and the label of each that has been printed.
    labels: HashMap<usize, Option<usize>>,
    next: usize,
}

impl Printer<'_, '_> {
    fn value(&mut self, value: Value) {
        self.store.mutator.safepoint();
        if !self.store.limit.has_room() {
            self.text.push('…');
            return;
        }
        if self.refers_back(value) {
            return;
        }
        if let Some(n) = value.as_fixnum() {
            // Writing to a String cannot fail.
            let _ = write!(self.text, "{n}");
        } else if let Some(c) = value.as_char() {
            self.character(c);
        } else if let Some(index) = value.as_primitive() {
            let _ = write!(self.text, "#<procedure {}>", (self.store.primitive_name)(index));
        } else if let Some(kind) = value.kind() {
            self.object(value, kind);
        } else {
            self.text.push_str(match value {
                Value::TRUE => "#t",
                Value::FALSE => "#f",
                Value::NIL => "()",
                Value::EOF => "#<eof>",
                Value::UNSPECIFIED => "#<unspecified>",
                _ => "#<unassigned>",
            });
        }
    }

    /// Prints `#n#` for an object whose label is known, `#n=` before one that needs a label.
    fn refers_back(&mut self, value: Value) -> bool {
        let Some(label) = self.labels.get_mut(&value.bits()) else { return false };
        if let Some(n) = label {
            let _ = write!(self.text, "#{n}#");
            return true;
        }
        *label = Some(self.next);
        let _ = write!(self.text, "#{}=", self.next);
        self.next += 1;
        false
    }

    fn object(&mut self, value: Value, kind: Kind) {
        if let Some(pair) = value.get::<Pair>() {
            self.list(pair);
        } else if let Some(string) = value.get::<Text>() {
            self.string(string.text());
        } else if let Some(symbol) = value.get::<Symbol>() {
            self.symbol(Symbol::base(symbol).text());
        } else if let Some(vector) = value.get::<Vector>() {
            self.text.push('#');
            self.row(&vector.items);
        } else if let Some(closure) = value.get::<Closure>() {
            self.named("procedure", closure.code.name);
        } else if let Some(code) = value.get::<Code>() {
            self.named("code", code.name);
        } else if let Some(record) = value.get::<Record>() {
            self.record(record);
        } else if let Some(kind) = value.get::<RecordType>() {
            self.named("record-type", kind.name);
        } else if let Some(condition) = value.get::<Condition>() {
            let _ = write!(self.text, "#<condition {}>", condition_text(self.store, condition));
        } else if let Some(values) = value.get::<Values>() {
            let mut between = "";
            for &value in values.items.iter() {
                self.text.push_str(between);
                self.value(value);
                between = " ";
            }
        } else if let Some(promise) = value.get::<Promise>() {
            self.text.push_str(if promise.done.get().is_true() { "#<promise, forced>" } else { "#<promise>" });
        } else if let Some(table) = value.get::<Table>() {
            let _ = write!(self.text, "#<hash-table {}>", table.count.get());
        } else {
            match numbers::to_text(self.store, value, 10) {
                Some(digits) => self.text.push_str(&digits),
                None => {
                    let _ = write!(self.text, "#<{}>", format!("{kind:?}").to_lowercase());
                }
            }
        }
    }

    fn named(&mut self, what: &str, name: Value) {
        match name.get::<Symbol>() {
            Some(symbol) => {
                let _ = write!(self.text, "#<{what} {}>", Symbol::base(symbol).text());
            }
            None => {
                let _ = write!(self.text, "#<{what}>");
            }
        }
    }

    fn list(&mut self, first: Gc<Pair>) {
        if let Some((mark, datum)) = quotation(first) {
            self.text.push_str(mark);
            self.value(datum);
            return;
        }
        self.text.push('(');
        self.value(first.car.get());
        let mut rest = first.cdr.get();
        while let Some(pair) = rest.get::<Pair>() {
            if self.labels.contains_key(&rest.bits()) {
                break;
            }
            self.text.push(' ');
            self.value(pair.car.get());
            rest = pair.cdr.get();
        }
        if rest != Value::NIL {
            self.text.push_str(" . ");
            self.value(rest);
        }
        self.text.push(')');
    }

    fn row(&mut self, items: &Row) {
        self.text.push('(');
        for (i, item) in items.iter().enumerate() {
            if i > 0 {
                self.text.push(' ');
            }
            self.value(item.get());
        }
        self.text.push(')');
    }

    fn record(&mut self, record: Gc<Record>) {
        self.text.push_str("#<");
        self.value(record.kind.name);
        for (name, field) in elements(record.kind.fields).zip(record.fields.iter()) {
            self.text.push(' ');
            self.value(name);
            self.text.push('=');
            self.value(field.get());
        }
        self.text.push('>');
    }

    fn character(&mut self, c: char) {
        if self.style == Style::Display {
            self.text.push(c);
            return;
        }
        self.text.push_str("#\\");
        match name_of_character(c) {
            Some(name) => self.text.push_str(name),
            None if c.is_control() => {
                let _ = write!(self.text, "x{:x}", c as u32);
            }
            None => self.text.push(c),
        }
    }

    fn string(&mut self, string: &str) {
        if self.style == Style::Display {
            self.text.push_str(string);
            return;
        }
        self.text.push('"');
        for c in string.chars() {
            match c {
                '"' => self.text.push_str("\\\""),
                '\\' => self.text.push_str("\\\\"),
                '\n' => self.text.push_str("\\n"),
                '\t' => self.text.push_str("\\t"),
                '\r' => self.text.push_str("\\r"),
                c if c.is_control() => {
                    let _ = write!(self.text, "\\x{:x};", c as u32);
                }
                c => self.text.push(c),
            }
        }
        self.text.push('"');
    }

    fn symbol(&mut self, name: &str) {
        let odd =
            |c: char| c.is_whitespace() || matches!(c, '(' | ')' | '[' | ']' | '"' | ';' | '\'' | '`' | ',' | '|');
        if self.style == Style::Write && (name.is_empty() || name.chars().any(odd)) {
            let _ = write!(self.text, "|{}|", name.replace('\\', "\\\\").replace('|', "\\|"));
        } else {
            self.text.push_str(name);
        }
    }
}

/// Returns the prefix and the datum of `(quote x)` and similar forms, which are printed as `'x`.
fn quotation(pair: Gc<Pair>) -> Option<(&'static str, Value)> {
    let mark = match pair.car.get().get::<Symbol>()?.text() {
        "quote" => "'",
        "quasiquote" => "`",
        "unquote" => ",",
        "unquote-splicing" => ",@",
        _ => return None,
    };
    let argument = pair.cdr.get().get::<Pair>()?;
    (argument.cdr.get() == Value::NIL).then(|| (mark, argument.car.get()))
}

/// Formats a condition: the message and its irritants.
pub fn condition_text(store: &Store<'_>, condition: Gc<Condition>) -> String {
    let mut text = to_text(store, condition.message, Style::Display);
    for irritant in elements(condition.irritants) {
        text.push(' ');
        text.push_str(&brief(store, irritant));
    }
    text
}

const FEW: usize = 4000;

/// Returns whether a walk over the datum ends within a few thousand steps, so that it has no cycle.
fn ends_soon(value: Value) -> bool {
    fn walk(mut value: Value, budget: &mut usize, depth: usize) {
        loop {
            if *budget == 0 || depth > 100 {
                *budget = 0;
                return;
            }
            *budget -= 1;
            if let Some(pair) = value.get::<Pair>() {
                walk(pair.car.get(), budget, depth + 1);
                value = pair.cdr.get();
                continue;
            }
            if let Some(items) = row_of(value) {
                items.iter().for_each(|item| walk(item.get(), budget, depth + 1));
            }
            return;
        }
    }
    let mut budget = FEW;
    walk(value, &mut budget, 0);
    budget > 0
}

fn row_of(value: Value) -> Option<Gc<Row>> {
    value.get::<Vector>().map(|v| v.items).or_else(|| value.get::<Record>().map(|r| r.fields))
}

/// Finds the objects that contain themselves.
///
/// The table holds addresses, which keep nothing alive; the objects are reachable from `value` during the walk.
fn cycles(store: &Store<'_>, value: Value) -> HashMap<usize, Option<usize>> {
    #[derive(PartialEq)]
    enum Visit {
        Open,
        Done,
    }
    fn walk(
        store: &Store<'_>,
        mut value: Value,
        seen: &mut HashMap<usize, Visit>,
        found: &mut HashMap<usize, Option<usize>>,
    ) {
        let mut opened = Vec::new();
        while store.limit.has_room() && (value.is::<Pair>() || row_of(value).is_some()) {
            store.mutator.safepoint();
            match seen.get(&value.bits()) {
                Some(Visit::Open) => {
                    found.insert(value.bits(), None);
                    break;
                }
                Some(Visit::Done) => break,
                None => {}
            }
            seen.insert(value.bits(), Visit::Open);
            opened.push(value.bits());
            if let Some(pair) = value.get::<Pair>() {
                walk(store, pair.car.get(), seen, found);
                value = pair.cdr.get();
            } else if let Some(items) = row_of(value) {
                items.iter().for_each(|item| walk(store, item.get(), seen, found));
                break;
            }
        }
        for address in opened {
            seen.insert(address, Visit::Done);
        }
    }
    let mut found = HashMap::new();
    walk(store, value, &mut HashMap::new(), &mut found);
    found
}
