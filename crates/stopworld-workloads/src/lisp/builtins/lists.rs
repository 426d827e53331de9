//! Pairs, lists, equality.

use stopworld::{Gc, GcCell};

use super::super::error::{Outcome, PrimitiveError};
use super::super::numbers;
use super::super::objects::{Pair, Text, Vector};
use super::super::registers::Vm;
use super::super::store::{Allocated, Store, elements, list_length};
use super::super::value::Value;
use super::definition::{ANY, Args, Primitive, length, plain};

pub const ALL: &[Primitive] = &[
    plain("cons", 2, 2, |vm, args| Ok(vm.store.cons(args[0].get(), args[1].get())?)),
    plain("car", 1, 1, |_, args| Ok(pair(args[0].get())?.car.get())),
    plain("cdr", 1, 1, |_, args| Ok(pair(args[0].get())?.cdr.get())),
    plain("caar", 1, 1, |_, args| path(args, "aa")),
    plain("cadr", 1, 1, |_, args| path(args, "da")),
    plain("cdar", 1, 1, |_, args| path(args, "ad")),
    plain("cddr", 1, 1, |_, args| path(args, "dd")),
    plain("caaar", 1, 1, |_, args| path(args, "aaa")),
    plain("caadr", 1, 1, |_, args| path(args, "daa")),
    plain("cadar", 1, 1, |_, args| path(args, "ada")),
    plain("caddr", 1, 1, |_, args| path(args, "dda")),
    plain("cdaar", 1, 1, |_, args| path(args, "aad")),
    plain("cdadr", 1, 1, |_, args| path(args, "dad")),
    plain("cddar", 1, 1, |_, args| path(args, "add")),
    plain("cdddr", 1, 1, |_, args| path(args, "ddd")),
    plain("cadddr", 1, 1, |_, args| path(args, "ddda")),
    plain("cddddr", 1, 1, |_, args| path(args, "dddd")),
    plain("set-car!", 2, 2, |_, args| {
        pair(args[0].get())?.car.set(args[1].get());
        Ok(Value::UNSPECIFIED)
    }),
    plain("set-cdr!", 2, 2, |_, args| {
        pair(args[0].get())?.cdr.set(args[1].get());
        Ok(Value::UNSPECIFIED)
    }),
    plain("pair?", 1, 1, |_, args| Ok(Value::bool(args[0].get().is::<Pair>()))),
    plain("null?", 1, 1, |_, args| Ok(Value::bool(args[0].get() == Value::NIL))),
    plain("list?", 1, 1, |_, args| Ok(Value::bool(list_length(args[0].get()).is_some()))),
    plain("list", 0, ANY, |vm, args| Ok(from_row(&vm.store, args)?)),
    plain("cons*", 1, ANY, |vm, args| {
        let (last, front) = args.split_last().unwrap_or((&args[0], &[]));
        Ok(front.iter().rev().try_fold(last.get(), |rest, item| vm.store.cons(item.get(), rest))?)
    }),
    plain("make-list", 1, 2, |vm, args| {
        let filler = args.get(1).map_or(Value::UNSPECIFIED, GcCell::get);
        Ok((0..length(args[0].get())?).try_fold(Value::NIL, |rest, _| vm.store.cons(filler, rest))?)
    }),
    plain("length", 1, 1, |_, args| {
        let list = args[0].get();
        list_length(list).map(|n| Value::fixnum(n as i64)).ok_or(PrimitiveError::Type("a proper list", list))
    }),
    plain("append", 0, ANY, append),
    plain("reverse", 1, 1, |vm, args| {
        proper(args[0].get())?;
        Ok(reversed(&vm.store, args[0].get())?)
    }),
    plain("append-reverse", 2, 2, |vm, args| Ok(reversed_onto(&vm.store, args[0].get(), args[1].get())?)),
    plain("list-tail", 2, 2, |_, args| tail(args[0].get(), args[1].get())),
    plain("list-ref", 2, 2, |_, args| {
        let rest = tail(args[0].get(), args[1].get())?;
        rest.get::<Pair>().map(|p| p.car.get()).ok_or(PrimitiveError::Type("an index of the list", args[1].get()))
    }),
    plain("list-head", 2, 2, |vm, args| {
        let count = length(args[1].get())?;
        tail(args[0].get(), args[1].get())?;
        let front = elements(args[0].get()).take(count);
        let reverse = front.into_iter().try_fold(Value::NIL, |rest, item| vm.store.cons(item, rest))?;
        Ok(reversed(&vm.store, reverse)?)
    }),
    plain("list-copy", 1, 1, |vm, args| Ok(appended(&vm.store, args[0].get(), Value::NIL)?)),
    plain("last-pair", 1, 1, |vm, args| {
        let mut last = pair(args[0].get())?;
        let mut steps = 0_u32;
        while let Some(next) = last.cdr.get().get::<Pair>() {
            last = next;
            steps = steps.wrapping_add(1);
            if steps.is_multiple_of(1024) {
                vm.store.check_interrupt()?;
            }
        }
        Ok(Value::object(last))
    }),
    plain("memq", 2, 2, |vm, args| member(vm, args, |a, b| Ok(a == b))),
    plain("memv", 2, 2, |vm, args| member(vm, args, |a, b| Ok(eqv(a, b)))),
    plain("%member", 2, 2, |vm, args| {
        let store = vm.store;
        member(vm, args, |a, b| equal(&store, a, b))
    }),
    plain("assq", 2, 2, |vm, args| associated(vm, args, |a, b| Ok(a == b))),
    plain("assv", 2, 2, |vm, args| associated(vm, args, |a, b| Ok(eqv(a, b)))),
    plain("%assoc", 2, 2, |vm, args| {
        let store = vm.store;
        associated(vm, args, |a, b| equal(&store, a, b))
    }),
    plain("eq?", 2, 2, |_, args| Ok(Value::bool(args[0].get() == args[1].get()))),
    plain("eqv?", 2, 2, |_, args| Ok(Value::bool(eqv(args[0].get(), args[1].get())))),
    plain("equal?", 2, 2, |vm, args| Ok(Value::bool(equal(&vm.store, args[0].get(), args[1].get())?))),
];

fn pair(value: Value) -> Outcome<Gc<Pair>> {
    value.get::<Pair>().ok_or(PrimitiveError::Type("a pair", value))
}

pub fn proper(list: Value) -> Outcome<usize> {
    list_length(list).ok_or(PrimitiveError::Type("a proper list", list))
}

/// Follows cars and cdrs; `steps` has them in the order in which they are applied.
fn path(args: Args<'_>, steps: &str) -> Outcome {
    let whole = args[0].get();
    let step = |value: Value, step: u8| {
        let pair = value.get::<Pair>()?;
        Some(if step == b'a' { pair.car.get() } else { pair.cdr.get() })
    };
    steps.bytes().try_fold(whole, step).ok_or(PrimitiveError::Type("a list of that shape", whole))
}

fn tail(list: Value, count: Value) -> Outcome {
    let mut rest = list;
    for _ in 0..length(count)? {
        rest = rest.get::<Pair>().ok_or(PrimitiveError::Type("an index of the list", count))?.cdr.get();
    }
    Ok(rest)
}

fn append(vm: &mut Vm<'_, '_>, args: Args<'_>) -> Outcome {
    let Some((last, front)) = args.split_last() else { return Ok(Value::NIL) };
    let mut all = last.get();
    for list in front.iter().rev() {
        proper(list.get())?;
        all = appended(&vm.store, list.get(), all)?;
    }
    Ok(all)
}

fn member(vm: &Vm<'_, '_>, args: Args<'_>, same: impl Fn(Value, Value) -> Outcome<bool>) -> Outcome {
    let (item, mut rest) = (args[0].get(), args[1].get());
    let mut steps = 0_u32;
    while let Some(pair) = rest.get::<Pair>() {
        if same(item, pair.car.get())? {
            return Ok(rest);
        }
        rest = pair.cdr.get();
        steps = steps.wrapping_add(1);
        if steps.is_multiple_of(1024) {
            vm.store.check_interrupt()?;
        }
    }
    if rest == Value::NIL { Ok(Value::FALSE) } else { Err(PrimitiveError::Type("a proper list", args[1].get())) }
}

fn associated(vm: &Vm<'_, '_>, args: Args<'_>, same: impl Fn(Value, Value) -> Outcome<bool>) -> Outcome {
    let key = args[0].get();
    let mut walk = elements(args[1].get());
    let mut steps = 0_u32;
    for entry in walk.by_ref() {
        let Some(pair) = entry.get::<Pair>() else {
            return Err(PrimitiveError::Type("a list of pairs", args[1].get()));
        };
        if same(key, pair.car.get())? {
            return Ok(entry);
        }
        steps = steps.wrapping_add(1);
        if steps.is_multiple_of(1024) {
            vm.store.check_interrupt()?;
        }
    }
    if walk.rest() == Value::NIL {
        Ok(Value::FALSE)
    } else {
        Err(PrimitiveError::Type("a list of pairs", args[1].get()))
    }
}

/// Returns the list's elements in reverse order.
pub fn reversed(store: &Store<'_>, list: Value) -> Allocated<Value> {
    reversed_onto(store, list, Value::NIL)
}

/// Returns the list's elements in reverse order, followed by `tail`.
pub fn reversed_onto(store: &Store<'_>, list: Value, tail: Value) -> Allocated<Value> {
    elements(list).try_fold(tail, |rest, item| store.cons(item, rest))
}

/// Returns a copy of `front` that continues with `back`; the copied pairs keep their places in the source.
pub fn appended(store: &Store<'_>, front: Value, back: Value) -> Allocated<Value> {
    let mut head = back;
    let mut last: Option<Gc<Pair>> = None;
    let mut rest = front;
    while let Some(pair) = rest.get::<Pair>() {
        let copy = store.cons_at(pair.car.get(), back, pair.place())?;
        match last {
            Some(last) => last.cdr.set(copy),
            None => head = copy,
        }
        last = copy.get::<Pair>();
        rest = pair.cdr.get();
    }
    Ok(head)
}

/// Returns a list of these cells' values.
pub fn from_row(store: &Store<'_>, items: &[GcCell<Value>]) -> Allocated<Value> {
    items.iter().rev().try_fold(Value::NIL, |rest, item| store.cons(item.get(), rest))
}

/// `eqv?`.
pub fn eqv(a: Value, b: Value) -> bool {
    a == b || numbers::same(a, b)
}

/// `equal?`: compares lists in a loop and other data by recursion as far as the thread's stack allows. Deeper data wait in a
/// collected list.
pub fn equal(store: &Store<'_>, a: Value, b: Value) -> Outcome<bool> {
    let mut waiting = Value::NIL;
    let mut same = equal_so_far(store, a, b, &mut waiting)?;
    while let Some(pair) = waiting.get::<Pair>().filter(|_| same) {
        waiting = pair.cdr.get();
        if let Some(two) = pair.car.get().get::<Pair>() {
            same = equal_so_far(store, two.car.get(), two.cdr.get(), &mut waiting)?;
        }
    }
    Ok(same)
}

fn equal_so_far(store: &Store<'_>, mut a: Value, mut b: Value, waiting: &mut Value) -> Outcome<bool> {
    if !store.limit.has_room() {
        *waiting = store.cons(store.cons(a, b)?, *waiting)?;
        return Ok(true);
    }
    let mut steps = 0_u32;
    while let (Some(x), Some(y)) = (a.get::<Pair>(), b.get::<Pair>()) {
        if a == b {
            return Ok(true);
        }
        if !equal_so_far(store, x.car.get(), y.car.get(), waiting)? {
            return Ok(false);
        }
        (a, b) = (x.cdr.get(), y.cdr.get());
        steps = steps.wrapping_add(1);
        if steps.is_multiple_of(1024) {
            // Lists may be long or circular.
            store.check_interrupt()?;
        }
    }
    if let (Some(x), Some(y)) = (a.get::<Text>(), b.get::<Text>()) {
        return Ok(x.text() == y.text());
    }
    let (Some(x), Some(y)) = (a.get::<Vector>(), b.get::<Vector>()) else { return Ok(eqv(a, b)) };
    if x.items.len() != y.items.len() {
        return Ok(false);
    }
    for (x, y) in x.items.iter().zip(y.items.iter()) {
        if !equal_so_far(store, x.get(), y.get(), waiting)? {
            return Ok(false);
        }
    }
    Ok(true)
}
