//! Strings, characters, symbols.

use std::cmp::Ordering;

use stopworld::{Gc, GcCell};

use super::super::error::{Outcome, PrimitiveError};
use super::super::objects::{Symbol, Text};
use super::super::registers::Vm;
use super::super::store::elements;
use super::super::value::Value;
use super::definition::{ANY, Args, Primitive, index_below, plain, range};
use super::lists::proper;

pub const ALL: &[Primitive] = &[
    plain("string?", 1, 1, |_, args| Ok(Value::bool(args[0].get().is::<Text>()))),
    plain("string-length", 1, 1, |_, args| Ok(Value::fixnum(text(args, 0)?.chars.get() as i64))),
    plain("string-ref", 2, 2, |_, args| {
        let string = text(args, 0)?;
        let index = index_below(args[1].get(), string.chars.get())?;
        let at = byte_index(string, index);
        Ok(string.text()[at..].chars().next().map_or(Value::EOF, Value::char))
    }),
    plain("string-set!", 3, 3, |vm, args| {
        let string = text(args, 0)?;
        let index = index_below(args[1].get(), string.chars.get())?;
        let c = character(args, 2)?;
        let changed: String =
            string.text().chars().enumerate().map(|(i, old)| if i == index { c } else { old }).collect();
        vm.store.replace_text(string, &changed)?;
        Ok(Value::UNSPECIFIED)
    }),
    plain("make-string", 1, 2, |vm, args| {
        let c = args.get(1).map_or(Ok(' '), |_| character(args, 1))?;
        Ok(vm.store.string(&c.to_string().repeat(text_length(args[0].get())?))?)
    }),
    plain("string", 0, ANY, |vm, args| {
        let mut made = String::new();
        args.iter().for_each(|arg| super::super::printer::print(&vm.store, &mut made, arg.get(), DISPLAY));
        Ok(vm.store.string(&made)?)
    }),
    plain("string-append", 0, ANY, |vm, args| {
        let mut all = String::new();
        for i in 0..args.len() {
            all.push_str(str_of(args, i)?);
        }
        Ok(vm.store.string(&all)?)
    }),
    plain("substring", 2, 3, part),
    plain("string-copy", 1, 3, part),
    plain("string-head", 2, 2, |vm, args| {
        let part = slice(args, 0, 0..index_up_to(args, 1)?)?;
        Ok(vm.store.string(part)?)
    }),
    plain("string-tail", 2, 2, |vm, args| {
        let part = slice(args, 0, index_up_to(args, 1)?..text(args, 0)?.chars.get())?;
        Ok(vm.store.string(part)?)
    }),
    plain("string->list", 1, 3, |vm, args| {
        let part = slice(args, 0, range(args, 1, text(args, 0)?.chars.get())?)?;
        Ok(part.chars().rev().try_fold(Value::NIL, |rest, c| vm.store.cons(Value::char(c), rest))?)
    }),
    plain("list->string", 1, 1, |vm, args| {
        proper(args[0].get())?;
        let characters: Option<String> = elements(args[0].get()).map(Value::as_char).collect();
        let made = characters.ok_or(PrimitiveError::Type("a list of characters", args[0].get()))?;
        Ok(vm.store.string(&made)?)
    }),
    plain("string-join", 1, 2, |vm, args| {
        let between = if args.len() == 2 { str_of(args, 1)? } else { " " };
        proper(args[0].get())?;
        let mut all = String::new();
        for (i, part) in elements(args[0].get()).enumerate() {
            all.push_str(if i > 0 { between } else { "" });
            all.push_str(part.get::<Text>().ok_or(PrimitiveError::Type("a list of strings", args[0].get()))?.text());
        }
        Ok(vm.store.string(&all)?)
    }),
    plain("string-upcase", 1, 1, |vm, args| Ok(vm.store.string(&str_of(args, 0)?.to_uppercase())?)),
    plain("string-downcase", 1, 1, |vm, args| Ok(vm.store.string(&str_of(args, 0)?.to_lowercase())?)),
    plain("string-reverse", 1, 1, |vm, args| {
        let reversed: String = str_of(args, 0)?.chars().rev().collect();
        Ok(vm.store.string(&reversed)?)
    }),
    plain("string-trim", 1, 1, |vm, args| Ok(vm.store.string(str_of(args, 0)?.trim())?)),
    plain("string-null?", 1, 1, |_, args| Ok(Value::bool(text(args, 0)?.chars.get() == 0))),
    plain("string-index", 2, 2, |_, args| {
        let wanted = character(args, 1)?;
        let found = str_of(args, 0)?.chars().position(|c| c == wanted);
        Ok(found.map_or(Value::FALSE, |i| Value::fixnum(i as i64)))
    }),
    plain("string-search-forward", 3, 3, |_, args| {
        let whole = text(args, 1)?;
        let start = super::definition::index_up_to(args[2].get(), whole.chars.get())?;
        let from = byte_index(whole, start);
        let found = whole.text()[from..].find(str_of(args, 0)?);
        Ok(found.map_or(Value::FALSE, |i| Value::fixnum(whole.text()[..from + i].chars().count() as i64)))
    }),
    plain("string-contains", 2, 2, |_, args| {
        let whole = str_of(args, 0)?;
        let found = whole.find(str_of(args, 1)?);
        Ok(found.map_or(Value::FALSE, |i| Value::fixnum(whole[..i].chars().count() as i64)))
    }),
    plain("string-prefix?", 2, 2, |_, args| Ok(Value::bool(str_of(args, 1)?.starts_with(str_of(args, 0)?)))),
    plain("string-suffix?", 2, 2, |_, args| Ok(Value::bool(str_of(args, 1)?.ends_with(str_of(args, 0)?)))),
    plain("string-pad-left", 2, 3, |vm, args| {
        let (count, filler, string) = padding(args)?;
        let cut = string.chars.get().saturating_sub(count);
        let missing = count.saturating_sub(string.chars.get());
        Ok(vm.store.string(&(filler.to_string().repeat(missing) + &string.text()[byte_index(string, cut)..]))?)
    }),
    plain("string-pad-right", 2, 3, |vm, args| {
        let (count, filler, string) = padding(args)?;
        let missing = count.saturating_sub(string.chars.get());
        let kept: String = string.text().chars().take(count).collect();
        Ok(vm.store.string(&(kept + &filler.to_string().repeat(missing)))?)
    }),
    plain("string=?", 1, ANY, |_, args| compare(args, Ordering::is_eq)),
    plain("string<?", 1, ANY, |_, args| compare(args, Ordering::is_lt)),
    plain("string>?", 1, ANY, |_, args| compare(args, Ordering::is_gt)),
    plain("string<=?", 1, ANY, |_, args| compare(args, Ordering::is_le)),
    plain("string>=?", 1, ANY, |_, args| compare(args, Ordering::is_ge)),
    plain("string-ci=?", 2, 2, |_, args| {
        Ok(Value::bool(str_of(args, 0)?.to_lowercase() == str_of(args, 1)?.to_lowercase()))
    }),
    plain("char?", 1, 1, |_, args| Ok(Value::bool(args[0].get().as_char().is_some()))),
    plain("char->integer", 1, 1, |_, args| Ok(Value::fixnum(i64::from(character(args, 0)? as u32)))),
    plain("integer->char", 1, 1, |_, args| {
        let code = args[0].get().as_fixnum().and_then(|n| u32::try_from(n).ok()).and_then(char::from_u32);
        code.map(Value::char).ok_or(PrimitiveError::Type("the code of a character", args[0].get()))
    }),
    plain("char-upcase", 1, 1, |_, args| {
        let c = character(args, 0)?;
        Ok(Value::char(c.to_uppercase().next().unwrap_or(c)))
    }),
    plain("char-downcase", 1, 1, |_, args| {
        let c = character(args, 0)?;
        Ok(Value::char(c.to_lowercase().next().unwrap_or(c)))
    }),
    plain("char-alphabetic?", 1, 1, |_, args| Ok(Value::bool(character(args, 0)?.is_alphabetic()))),
    plain("char-numeric?", 1, 1, |_, args| Ok(Value::bool(character(args, 0)?.is_numeric()))),
    plain("char-whitespace?", 1, 1, |_, args| Ok(Value::bool(character(args, 0)?.is_whitespace()))),
    plain("char-upper-case?", 1, 1, |_, args| Ok(Value::bool(character(args, 0)?.is_uppercase()))),
    plain("char-lower-case?", 1, 1, |_, args| Ok(Value::bool(character(args, 0)?.is_lowercase()))),
    plain("digit-value", 1, 1, |_, args| {
        Ok(character(args, 0)?.to_digit(10).map_or(Value::FALSE, |d| Value::fixnum(i64::from(d))))
    }),
    plain("char=?", 1, ANY, |_, args| compare_chars(args, Ordering::is_eq)),
    plain("char<?", 1, ANY, |_, args| compare_chars(args, Ordering::is_lt)),
    plain("char>?", 1, ANY, |_, args| compare_chars(args, Ordering::is_gt)),
    plain("char<=?", 1, ANY, |_, args| compare_chars(args, Ordering::is_le)),
    plain("char>=?", 1, ANY, |_, args| compare_chars(args, Ordering::is_ge)),
    plain("symbol?", 1, 1, |_, args| Ok(Value::bool(args[0].get().is::<Symbol>()))),
    plain("symbol->string", 1, 1, |vm, args| {
        let symbol = args[0].get().get::<Symbol>().ok_or(PrimitiveError::Type("a symbol", args[0].get()))?;
        Ok(vm.store.string(Symbol::base(symbol).text())?)
    }),
    plain("string->symbol", 1, 1, |vm, args| Ok(vm.store.symbol(str_of(args, 0)?)?)),
    plain("intern", 1, 1, |vm, args| Ok(vm.store.symbol(str_of(args, 0)?)?)),
    plain("symbol-append", 0, ANY, |vm, args| {
        let mut name = String::new();
        for arg in args {
            name.push_str(arg.get().get::<Symbol>().ok_or(PrimitiveError::Type("a symbol", arg.get()))?.text());
        }
        Ok(vm.store.symbol(&name)?)
    }),
    plain("generate-symbol", 0, 1, |vm, _| {
        let name = format!("g{}", vm.store.machine.symbol_numbers.get());
        Ok(Value::object(vm.store.fresh_symbol(&name, Value::FALSE)?))
    }),
];

const DISPLAY: super::super::printer::Style = super::super::printer::Style::Display;

/// Returns the argument with this index, which must be a string.
pub fn text(args: Args<'_>, index: usize) -> Outcome<Gc<Text>> {
    let value = args[index].get();
    value.get::<Text>().ok_or(PrimitiveError::Type("a string", value))
}

/// Returns the text of an argument, which must be a string.
pub fn str_of(args: Args<'_>, index: usize) -> Outcome<&str> {
    let string = text(args, index)?;
    let whole: *const str = string.text();
    // SAFETY: the text is in the heap, owned by the string that a cell of `args` holds while this slice is used;
    // the only primitive that replaces a string's text, `string-set!`, copies it before.
    Ok(unsafe { &*whole })
}

pub fn character(args: Args<'_>, index: usize) -> Outcome<char> {
    let value = args[index].get();
    value.as_char().ok_or(PrimitiveError::Type("a character", value))
}

fn index_up_to(args: Args<'_>, index: usize) -> Outcome<usize> {
    super::definition::index_up_to(args[index].get(), text(args, 0)?.chars.get())
}

/// Returns the byte offset of the character with this index; in constant time for strings of one-byte characters.
fn byte_index(string: Gc<Text>, index: usize) -> usize {
    let text = string.text();
    if text.len() == string.chars.get() {
        return index.min(text.len());
    }
    text.char_indices().nth(index).map_or(text.len(), |(at, _)| at)
}

/// Returns part of an argument that is a string, by character indices that have been checked.
fn slice(args: Args<'_>, index: usize, range: std::ops::Range<usize>) -> Outcome<&str> {
    let string = text(args, index)?;
    Ok(&str_of(args, index)?[byte_index(string, range.start)..byte_index(string, range.end)])
}

fn part(vm: &mut Vm<'_, '_>, args: Args<'_>) -> Outcome {
    let part = slice(args, 0, range(args, 1, text(args, 0)?.chars.get())?)?;
    Ok(vm.store.string(part)?)
}

/// Returns the length of a string to create, which is limited.
fn text_length(value: Value) -> Outcome<usize> {
    value.as_index().filter(|&n| n <= 1 << 28).ok_or(PrimitiveError::Type("the length of a string", value))
}

fn padding(args: Args<'_>) -> Outcome<(usize, char, Gc<Text>)> {
    let filler = if args.len() == 3 { character(args, 2)? } else { ' ' };
    Ok((text_length(args[1].get())?, filler, text(args, 0)?))
}

fn compare(args: Args<'_>, holds: fn(Ordering) -> bool) -> Outcome {
    for i in 0..args.len() {
        text(args, i)?;
    }
    let pair = |two: &[GcCell<Value>]| Some(two[0].get().get::<Text>()?.text().cmp(two[1].get().get::<Text>()?.text()));
    Ok(Value::bool(args.windows(2).all(|two| pair(two).is_some_and(holds))))
}

fn compare_chars(args: Args<'_>, holds: fn(Ordering) -> bool) -> Outcome {
    for i in 0..args.len() {
        character(args, i)?;
    }
    Ok(Value::bool(args.windows(2).all(|two| holds(two[0].get().as_char().cmp(&two[1].get().as_char())))))
}
