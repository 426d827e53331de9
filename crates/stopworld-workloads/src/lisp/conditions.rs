//! Converts a [`PrimitiveError`] to a condition for handlers, and an unhandled condition to the host's error.
//!
//! A condition is created where the error occurs, while the stack still shows how the program got there. It records the
//! place of the innermost call in the program's own text (procedures of the prelude are skipped), the procedure around it,
//! and a few of the waiting calls.

use stopworld::{Gc, OutOfMemory};

use super::error::{LispError, PrimitiveError, Uncaught};
use super::objects::{Closure, Condition, Symbol, Text, Try};
use super::printer::{Style, brief, condition_text, to_text};
use super::registers::Vm;
use super::stack::{caller_of, return_word};
use super::store::{Allocated, elements};
use super::value::{Kind, Value};

/// The largest number of waiting calls that an error shows.
const SHOWN_CALLS: usize = 6;

/// The program's position at an error, as text for the message: the place in the source, the procedure, and the waiting calls.
pub struct ErrorContext {
    pub place: Option<String>,
    pub procedure: Option<String>,
    pub calls: Vec<String>,
}

impl Vm<'_, '_> {
    /// Passes a failure of a primitive to the program's handlers: the machine runs the prelude's `raise` next. Returns an error if there is
    /// no handler, or if calling `raise` is impossible.
    pub fn signal(&mut self, failure: PrimitiveError) -> Result<(), Box<LispError>> {
        let object = match failure {
            PrimitiveError::Halt(error) => return Err(error),
            PrimitiveError::Memory(error) => self.out_of_memory(error),
            other => match self.condition_of(other) {
                Ok(condition) => condition,
                Err(error) => self.out_of_memory(error),
            },
        };
        if self.handlers == Value::NIL {
            return Err(Box::new(self.uncaught(object)));
        }
        if let Some(guard) = super::forms::car(self.handlers).get::<Try>().filter(|guard| guard.winders == self.winders)
        {
            // Do what the prelude's `raise` would do, without stack and memory.
            self.unwind(guard, object);
            return match self.call(1) {
                Ok(_) => Ok(()),
                Err(_) => Err(Box::new(self.uncaught(object))),
            };
        }
        let word = return_word(self.pc, self.fp);
        if self.need(3).is_err() {
            return Err(Box::new(self.uncaught(object)));
        }
        self.meter.call(self.sp);
        self.push(word);
        self.push(self.store.machine.raise.get());
        self.push(object);
        match self.call(1) {
            Ok(_) => Ok(()),
            Err(_) => Err(Box::new(self.uncaught(object))),
        }
    }

    /// Returns the condition that was allocated in advance, because the heap may have no room for a new one.
    fn out_of_memory(&mut self, error: OutOfMemory) -> Value {
        self.memory = Some(error);
        self.store.machine.out_of_memory.get()
    }

    fn condition_of(&mut self, failure: PrimitiveError) -> Allocated<Value> {
        let name = (self.store.primitive_name)(self.primitive);
        let (kind, message) = match failure {
            PrimitiveError::Type(expected, got) => {
                ("type", format!("{name}: expected {expected}, got {}", brief(&self.store, got)))
            }
            PrimitiveError::Range(index, length) => {
                let index = brief(&self.store, index);
                ("range", format!("{name}: the index {index} is out of range, the length is {length}"))
            }
            PrimitiveError::Failure(kind @ ("arithmetic" | "value"), message, about) => {
                let about = about.map_or_else(String::new, |v| format!(" {}", brief(&self.store, v)));
                (kind, format!("{name}: {message}{about}"))
            }
            PrimitiveError::Failure(kind, message, about) => {
                let about = about.map_or_else(String::new, |v| format!(" {}", brief(&self.store, v)));
                (kind, format!("{message}{about}"))
            }
            PrimitiveError::Memory(_) | PrimitiveError::Halt(_) => return Ok(self.store.machine.out_of_memory.get()),
        };
        self.condition(kind, &message, Value::NIL)
    }

    /// Creates a condition for the current position.
    pub fn condition(&mut self, kind: &str, message: &str, irritants: Value) -> Allocated<Value> {
        let store = self.store;
        let here = self.whereabouts();
        let text = |text: &Option<String>| text.as_ref().map_or(Ok(Value::FALSE), |t| store.string(t));
        let mut calls = Value::NIL;
        for call in here.calls.iter().rev() {
            calls = store.cons(store.string(call)?, calls)?;
        }
        store.object(Condition {
            head: Kind::Condition.head(0),
            kind: store.symbol(kind)?,
            message: store.string(message)?,
            irritants,
            place: text(&here.place)?,
            procedure: text(&here.procedure)?,
            calls,
        })
    }

    /// Returns the host's error for an object that no handler handles.
    pub fn uncaught(&self, object: Value) -> LispError {
        let text = |value: Value| value.get::<Text>().map(|t| t.text().to_owned());
        let Some(condition) = object.get::<Condition>() else {
            let here = self.whereabouts();
            let message = format!("uncaught object {}", brief(&self.store, object));
            let ErrorContext { place, procedure, calls } = here;
            return LispError::Uncaught(Box::new(Uncaught { place, message, procedure, calls }));
        };
        let here = (!condition.place.is_true()).then(|| self.whereabouts());
        let mut message = condition_text(&self.store, condition);
        if let Some(error) = self.memory.filter(|_| object == self.store.machine.out_of_memory.get()) {
            message = error.to_string();
        }
        LispError::Uncaught(Box::new(match here {
            Some(ErrorContext { place, procedure, calls }) => Uncaught { place, message, procedure, calls },
            None => Uncaught {
                place: text(condition.place),
                message,
                procedure: text(condition.procedure),
                calls: elements(condition.calls).filter_map(text).collect(),
            },
        }))
    }

    /// Returns the number of waiting calls.
    pub fn depth(&self) -> usize {
        let mut depth = 0;
        self.each_frame(|_, _| {
            depth += 1;
            true
        });
        depth
    }

    /// Visits the running procedure and then each waiting one, with the index of its current word, until `visit` returns
    /// `false`.
    fn each_frame(&self, mut visit: impl FnMut(Gc<Closure>, usize) -> bool) {
        let (mut pc, mut fp, mut closure) = (self.pc, self.fp, self.closure);
        while fp > 1 && visit(closure, pc.saturating_sub(1)) {
            (pc, fp) = caller_of(self.stack[fp - 2].get());
            match fp.checked_sub(1).and_then(|slot| self.stack[slot].get().get::<Closure>()) {
                Some(caller) => closure = caller,
                None => return,
            }
        }
    }

    pub fn whereabouts(&self) -> ErrorContext {
        let mut here = ErrorContext { place: None, procedure: None, calls: Vec::new() };
        let mut more = 0;
        self.each_frame(|closure, pc| {
            let code = closure.code;
            let Some(file) = code.file.get::<Text>() else { return true };
            if here.calls.len() == SHOWN_CALLS {
                more += 1;
                return true;
            }
            let place = code.place(pc).map(|(line, column)| format!("{}:{line}:{column}", file.text()));
            let name = code.name.get::<Symbol>().map(|s| to_text(&self.store, Value::object(s), Style::Display));
            if here.place.is_none() {
                here.place = place;
                here.procedure = name;
            } else {
                let name = name.map_or_else(String::new, |n| format!(" in {n}"));
                here.calls.extend(place.map(|place| format!("called at {place}{name}")));
            }
            true
        });
        if more > 0 {
            here.calls.push(format!("… and {more} more calls"));
        }
        here
    }
}
