//! Hash tables.
//!
//! Objects do not move, so `eq?` keys hash by address. A bucket is an association list; the table doubles when it
//! has more entries than buckets.

use stopworld::{Gc, GcCell};

use super::super::error::{Outcome, PrimitiveError};
use super::super::numbers::Number;
use super::super::objects::{Pair, Table, Text, Vector};
use super::super::registers::Vm;
use super::super::store::{Store, elements, hash};
use super::super::value::{Kind, Value};
use super::definition::{Args, Primitive, plain};
use super::lists;

pub const ALL: &[Primitive] = &[
    plain("make-equal-hash-table", 0, 1, |vm, _| make(&vm.store, 1)),
    plain("make-strong-eqv-hash-table", 0, 1, |vm, _| make(&vm.store, 0)),
    plain("make-hash-table", 0, 4, |vm, _| make(&vm.store, 1)),
    plain("hash-table?", 1, 1, |_, args| Ok(Value::bool(args[0].get().is::<Table>()))),
    plain("%hash-table-ref", 3, 3, |vm, args| {
        let found = find(&vm.store, args)?;
        Ok(found.map_or(args[2].get(), |entry| entry.cdr.get()))
    }),
    plain("hash-table-ref/default", 3, 3, |vm, args| {
        let found = find(&vm.store, args)?;
        Ok(found.map_or(args[2].get(), |entry| entry.cdr.get()))
    }),
    plain("hash-table-contains?", 2, 2, |vm, args| Ok(Value::bool(find(&vm.store, args)?.is_some()))),
    plain("hash-table-exists?", 2, 2, |vm, args| Ok(Value::bool(find(&vm.store, args)?.is_some()))),
    plain("hash-table-set!", 3, 3, set),
    plain("hash-table-delete!", 2, 2, delete),
    plain("hash-table-size", 1, 1, |_, args| Ok(Value::fixnum(table(args)?.count.get() as i64))),
    plain("hash-table-count", 1, 1, |_, args| Ok(Value::fixnum(table(args)?.count.get() as i64))),
    plain("hash-table-clear!", 1, 1, |vm, args| {
        let table = table(args)?;
        table.buckets.set(vm.store.row(FIRST_BUCKETS, |_| Value::NIL)?);
        table.count.set(0);
        Ok(Value::UNSPECIFIED)
    }),
    plain("hash-table->alist", 1, 1, |vm, args| {
        let store = vm.store;
        collect(args, |entry| store.cons(entry.car.get(), entry.cdr.get()), &store)
    }),
    plain("hash-table-keys", 1, 1, |vm, args| collect(args, |entry| Ok(entry.car.get()), &vm.store)),
    plain("hash-table-values", 1, 1, |vm, args| collect(args, |entry| Ok(entry.cdr.get()), &vm.store)),
];

const FIRST_BUCKETS: usize = 16;

fn make(store: &Store<'_>, by_equal: u64) -> Outcome {
    let buckets = GcCell::new(store.row(FIRST_BUCKETS, |_| Value::NIL)?);
    Ok(store.object(Table { head: Kind::Table.head(by_equal), buckets, count: GcCell::new(0) })?)
}

fn table(args: Args<'_>) -> Outcome<Gc<Table>> {
    args[0].get().get::<Table>().ok_or(PrimitiveError::Type("a hash table", args[0].get()))
}

/// Returns the hash code of a key. Equal keys have equal codes, which are computed from the text of a string, the value of a number, and
/// the first elements of a list.
fn code(key: Value, deep: bool, depth: usize) -> usize {
    let mix = |n: usize| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    if let Some(number) = Number::from_value(key).filter(|_| !key.is_fixnum()) {
        return mix(number.to_f64().to_bits() as usize);
    }
    if deep && depth < 4 {
        if let Some(text) = key.get::<Text>() {
            return hash(text.text().as_bytes());
        }
        if key.is::<Pair>() {
            return elements(key).take(8).fold(1, |h, item| mix(h * 31 + code(item, deep, depth + 1)));
        }
    }
    if deep && (key.is::<Pair>() || key.is::<Vector>() || key.is::<Text>()) {
        return 0;
    }
    mix(key.bits())
}

fn bucket(table: Gc<Table>, buckets: &[GcCell<Value>], key: Value) -> usize {
    code(key, table.head >> 8 == 1, 0) & (buckets.len() - 1)
}

fn find(store: &Store<'_>, args: Args<'_>) -> Outcome<Option<Gc<Pair>>> {
    let table = table(args)?;
    let (buckets, key) = (table.buckets.get(), args[1].get());
    let by_equal = table.head >> 8 == 1;
    let entries = elements(buckets[bucket(table, &buckets, key)].get());
    for entry in entries.filter_map(|e| e.get::<Pair>()) {
        let found = entry.car.get();
        if lists::eqv(found, key) || by_equal && lists::equal(store, found, key)? {
            return Ok(Some(entry));
        }
    }
    Ok(None)
}

fn set(vm: &mut Vm<'_, '_>, args: Args<'_>) -> Outcome {
    let store = vm.store;
    if let Some(entry) = find(&store, args)? {
        entry.cdr.set(args[2].get());
        return Ok(Value::UNSPECIFIED);
    }
    let table = table(args)?;
    let count = table.count.get() + 1;
    if count > table.buckets.get().len() {
        grow(&store, table)?;
    }
    let buckets = table.buckets.get();
    let slot = &buckets[bucket(table, &buckets, args[1].get())];
    let entry = store.cons(args[1].get(), args[2].get())?;
    slot.set(store.cons(entry, slot.get())?);
    table.count.set(count);
    Ok(Value::UNSPECIFIED)
}

fn grow(store: &Store<'_>, table: Gc<Table>) -> Outcome<()> {
    let old = table.buckets.get();
    let new = store.row(old.len() * 2, |_| Value::NIL)?;
    for entry in old.iter().flat_map(|slot| elements(slot.get())) {
        let key = entry.get::<Pair>().map_or(Value::NIL, |e| e.car.get());
        let slot = &new[bucket(table, &new, key)];
        slot.set(store.cons(entry, slot.get())?);
    }
    table.buckets.set(new);
    Ok(())
}

fn delete(vm: &mut Vm<'_, '_>, args: Args<'_>) -> Outcome {
    let Some(found) = find(&vm.store, args)? else { return Ok(Value::UNSPECIFIED) };
    let table = table(args)?;
    let buckets = table.buckets.get();
    let slot = &buckets[bucket(table, &buckets, args[1].get())];
    let mut kept = Value::NIL;
    for entry in elements(slot.get()).filter(|e| *e != Value::object(found)) {
        kept = vm.store.cons(entry, kept)?;
    }
    slot.set(kept);
    table.count.set(table.count.get() - 1);
    Ok(Value::UNSPECIFIED)
}

fn collect(
    args: Args<'_>,
    part: impl Fn(Gc<Pair>) -> super::super::store::Allocated<Value>,
    store: &Store<'_>,
) -> Outcome {
    let buckets = table(args)?.buckets.get();
    let mut all = Value::NIL;
    for entry in buckets.iter().flat_map(|slot| elements(slot.get())).filter_map(|e| e.get::<Pair>()) {
        all = store.cons(part(entry)?, all)?;
    }
    Ok(all)
}
