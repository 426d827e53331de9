//! Output, and string ports.
//!
//! An output port keeps the strings written so far as a list, the last one first; an input port keeps the
//! text and the position up to which it has been read.

use stopworld::{Gc, GcCell};

use super::super::error::{Outcome, PrimitiveError, SyntaxError};
use super::super::objects::{Port, Text};
use super::super::printer::{self, Style};
use super::super::reader::Reader;
use super::super::registers::Vm;
use super::super::store::elements;
use super::super::value::{Kind, Value};
use super::definition::{Args, Primitive, length, plain};
use super::text::{character, str_of};

pub const ALL: &[Primitive] =
    &[
        plain("display", 1, 2, |vm, args| print(vm, args, Style::Display)),
        plain("write", 1, 2, |vm, args| print(vm, args, Style::Write)),
        plain("write-shared", 1, 2, |vm, args| print(vm, args, Style::Write)),
        plain("write-simple", 1, 2, |vm, args| print(vm, args, Style::Write)),
        plain("write-string", 1, 2, |vm, args| {
            str_of(args, 0)?;
            print(vm, args, Style::Display)
        }),
        plain("write-char", 1, 2, |vm, args| {
            character(args, 0)?;
            print(vm, args, Style::Display)
        }),
        plain("newline", 0, 1, |vm, args| put(vm, args.first(), "\n")),
        plain("fresh-line", 0, 1, |vm, args| {
            if vm.out.at_line_start { Ok(Value::UNSPECIFIED) } else { put(vm, args.first(), "\n") }
        }),
        plain("flush-output", 0, 1, |vm, _| {
            vm.out.flush(vm.store.mutator)?;
            Ok(Value::UNSPECIFIED)
        }),
        plain("flush-output-port", 0, 1, |vm, _| {
            vm.out.flush(vm.store.mutator)?;
            Ok(Value::UNSPECIFIED)
        }),
        plain("%set-output!", 1, 1, |vm, args| {
            let old = vm.store.machine.output.get();
            vm.store.machine.output.set(args[0].get());
            Ok(old)
        }),
        plain("current-output-port", 0, 0, |vm, _| Ok(vm.store.machine.output.get())),
        plain("open-output-string", 0, 0, |vm, _| open(vm, 0, Value::NIL)),
        plain("open-input-string", 1, 1, |vm, args| {
            let copy = vm.store.string(str_of(args, 0)?)?;
            open(vm, 1, copy)
        }),
        plain("get-output-string", 1, 1, |vm, args| {
            let port = port(args.first(), 0)?;
            let mut all = String::new();
            let pieces = super::lists::reversed(&vm.store, port.text.get())?;
            elements(pieces).filter_map(|p| p.get::<Text>()).for_each(|piece| all.push_str(piece.text()));
            Ok(vm.store.string(&all)?)
        }),
        plain("read-char", 1, 1, |_, args| {
            let port = port(args.first(), 1)?;
            let next = rest(port, |rest| rest.chars().next());
            port.position.set(port.position.get() + next.map_or(0, char::len_utf8));
            Ok(next.map_or(Value::EOF, Value::char))
        }),
        plain("peek-char", 1, 1, |_, args| {
            let next = rest(port(args.first(), 1)?, |rest| rest.chars().next());
            Ok(next.map_or(Value::EOF, Value::char))
        }),
        plain("read-line", 1, 1, |vm, args| {
            let port = port(args.first(), 1)?;
            let first = |rest: &str| rest.split_inclusive('\n').next().map(str::to_owned);
            let Some(line) = rest(port, first) else { return Ok(Value::EOF) };
            port.position.set(port.position.get() + line.len());
            Ok(vm.store.string(line.strip_suffix('\n').unwrap_or(&line))?)
        }),
        plain("read-string", 2, 2, |vm, args| {
            let port = port(args.get(1), 1)?;
            let count = length(args[0].get())?;
            let part = rest(port, |rest| rest.chars().take(count).collect::<String>());
            port.position.set(port.position.get() + part.len());
            if part.is_empty() { Ok(Value::EOF) } else { Ok(vm.store.string(&part)?) }
        }),
        plain("read", 1, 1, |vm, args| {
            let port = port(args.first(), 1)?;
            let text = rest(port, str::to_owned);
            let mut reader = Reader::new(vm.store, &text);
            let datum = reader.next();
            port.position.set(port.position.get() + reader.position());
            match datum {
                Ok(datum) => Ok(datum.unwrap_or(Value::EOF)),
                Err(SyntaxError::Memory(error)) => Err(PrimitiveError::Memory(error)),
                Err(SyntaxError::Syntax { message, .. }) => Err(PrimitiveError::Failure("read", message, None)),
            }
        }),
        plain("eof-object", 0, 0, |_, _| Ok(Value::EOF)),
        plain("eof-object?", 1, 1, |_, args| Ok(Value::bool(args[0].get() == Value::EOF))),
        plain("port?", 1, 1, |_, args| Ok(Value::bool(args[0].get().is::<Port>()))),
    ];

fn open(vm: &mut Vm<'_, '_>, input: u64, text: Value) -> Outcome {
    let head = Kind::Port.head(input);
    Ok(vm.store.object(Port { head, text: GcCell::new(text), position: GcCell::new(0) })?)
}

fn port(argument: Option<&GcCell<Value>>, input: u64) -> Outcome<Gc<Port>> {
    let value = argument.map_or(Value::UNSPECIFIED, GcCell::get);
    let expected = if input == 1 { "an input port" } else { "a string port for output" };
    value.get::<Port>().filter(|p| p.head >> 8 == input).ok_or(PrimitiveError::Type(expected, value))
}

/// Calls a function with the unread rest of an input port.
fn rest<R>(port: Gc<Port>, look: impl FnOnce(&str) -> R) -> R {
    match port.text.get().get::<Text>() {
        Some(text) => look(&text.text()[port.position.get()..]),
        None => look(""),
    }
}

fn print(vm: &mut Vm<'_, '_>, args: Args<'_>, style: Style) -> Outcome {
    let mut text = String::new();
    printer::print(&vm.store, &mut text, args[0].get(), style);
    put(vm, args.get(1), &text)
}

/// Writes to the given port, or to the current one; `#t` is the host's sink.
fn put(vm: &mut Vm<'_, '_>, target: Option<&GcCell<Value>>, text: &str) -> Outcome {
    let target = target.map_or(vm.store.machine.output.get(), GcCell::get);
    if target == Value::TRUE {
        vm.out.write(vm.store.mutator, text)?;
        return Ok(Value::UNSPECIFIED);
    }
    let port = port(Some(&GcCell::new(target)), 0)?;
    let piece = vm.store.string(text)?;
    port.text.set(vm.store.cons(piece, port.text.get())?);
    Ok(Value::UNSPECIFIED)
}
