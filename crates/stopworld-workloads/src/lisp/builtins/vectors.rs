//! Vectors and records.

use stopworld::{Gc, GcCell};

use super::super::error::{Outcome, PrimitiveError};
use super::super::objects::{Record, RecordType, Row, Vector};
use super::super::store::elements;
use super::super::value::{Kind, Value};
use super::definition::{ANY, Args, Primitive, index_below, index_up_to, length, plain, range};
use super::lists;

pub const ALL: &[Primitive] = &[
    plain("vector?", 1, 1, |_, args| Ok(Value::bool(args[0].get().is::<Vector>()))),
    plain("make-vector", 1, 2, |vm, args| {
        let filler = args.get(1).map_or(Value::UNSPECIFIED, GcCell::get);
        Ok(vm.store.vector(length(args[0].get())?, |_| filler)?)
    }),
    plain("vector", 0, ANY, |vm, args| Ok(vm.store.vector(args.len(), |i| args[i].get())?)),
    plain("vector-length", 1, 1, |_, args| Ok(Value::fixnum(items(args, 0)?.len() as i64))),
    plain("vector-ref", 2, 2, |_, args| {
        let items = items(args, 0)?;
        Ok(items[index_below(args[1].get(), items.len())?].get())
    }),
    plain("vector-set!", 3, 3, |_, args| {
        let items = items(args, 0)?;
        items[index_below(args[1].get(), items.len())?].set(args[2].get());
        Ok(Value::UNSPECIFIED)
    }),
    plain("vector->list", 1, 3, |vm, args| {
        let items = items(args, 0)?;
        Ok(lists::from_row(&vm.store, &items[range(args, 1, items.len())?])?)
    }),
    plain("list->vector", 1, 1, |vm, args| {
        let list = args[0].get();
        let length = super::super::store::list_length(list).ok_or(PrimitiveError::Type("a proper list", list))?;
        let mut walk = elements(list);
        Ok(vm.store.vector(length, |_| walk.next().unwrap_or(Value::UNSPECIFIED))?)
    }),
    plain("vector-fill!", 2, 4, |_, args| {
        let items = items(args, 0)?;
        items[range(args, 2, items.len())?].iter().for_each(|item| item.set(args[1].get()));
        Ok(Value::UNSPECIFIED)
    }),
    plain("vector-copy", 1, 3, |vm, args| {
        let items = items(args, 0)?;
        let range = range(args, 1, items.len())?;
        Ok(vm.store.vector(range.len(), |i| items[range.start + i].get())?)
    }),
    plain("subvector", 3, 3, |vm, args| {
        let items = items(args, 0)?;
        let range = range(args, 1, items.len())?;
        Ok(vm.store.vector(range.len(), |i| items[range.start + i].get())?)
    }),
    plain("vector-copy!", 3, 5, |_, args| {
        let (to, from) = (items(args, 0)?, items(args, 2)?);
        let at = index_up_to(args[1].get(), to.len())?;
        let range = range(args, 3, from.len())?;
        if range.len() > to.len() - at {
            return Err(PrimitiveError::Range(args[1].get(), to.len()));
        }
        let copy = |i: usize| to[at + i].set(from[range.start + i].get());
        // Overlapping parts of one vector are copied in the direction that overwrites no element before it is read.
        if at <= range.start {
            (0..range.len()).for_each(copy)
        } else {
            (0..range.len()).rev().for_each(copy)
        }
        Ok(Value::UNSPECIFIED)
    }),
    plain("vector-append", 0, ANY, |vm, args| {
        let mut total = 0;
        for i in 0..args.len() {
            total += items(args, i)?.len();
        }
        let (mut which, mut offset) = (0, 0);
        Ok(vm.store.vector(total, |_| {
            loop {
                let row = items(args, which).ok();
                if let Some(item) = row.and_then(|row| row.get(offset).map(GcCell::get)) {
                    offset += 1;
                    return item;
                }
                (which, offset) = (which + 1, 0);
            }
        })?)
    }),
    plain("%make-record-type", 2, 2, |vm, args| {
        let (name, fields) = (args[0].get(), args[1].get());
        Ok(vm.store.object(RecordType { head: Kind::RecordType.head(0), name, fields })?)
    }),
    plain("%record", 1, ANY, |vm, args| {
        let kind = record_type(args[0].get())?;
        let fields = vm.store.row(args.len() - 1, |i| args[i + 1].get())?;
        Ok(vm.store.object(Record { head: Kind::Record.head(0), kind, fields })?)
    }),
    plain("%record?", 2, 2, |_, args| {
        let kind = record_type(args[1].get())?;
        Ok(Value::bool(args[0].get().get::<Record>().is_some_and(|r| Gc::ptr_eq(r.kind, kind))))
    }),
    plain("%record-ref", 3, 3, |vm, args| Ok(field(&vm.store, args)?.get())),
    plain("%record-set!", 4, 4, |vm, args| {
        field(&vm.store, args)?.set(args[3].get());
        Ok(Value::UNSPECIFIED)
    }),
];

fn items(args: Args<'_>, index: usize) -> Outcome<Gc<Row>> {
    let value = args[index].get();
    value.get::<Vector>().map(|v| v.items).ok_or(PrimitiveError::Type("a vector", value))
}

fn record_type(value: Value) -> Outcome<Gc<RecordType>> {
    value.get::<RecordType>().ok_or(PrimitiveError::Type("a record type", value))
}

/// Returns the field of a record: `record type index …`.
fn field<'a>(store: &super::super::store::Store<'_>, args: Args<'a>) -> Outcome<&'a GcCell<Value>> {
    let kind = record_type(args[1].get())?;
    let record = args[0].get().get::<Record>().filter(|r| Gc::ptr_eq(r.kind, kind));
    let Some(record) = record else {
        let name = super::super::printer::to_text(store, kind.name, super::super::printer::Style::Display);
        let got = super::super::printer::brief(store, args[0].get());
        return Err(PrimitiveError::Failure("type", format!("expected a {name}, got {got}"), None));
    };
    let index = index_below(args[2].get(), record.fields.len())?;
    let cell: *const GcCell<Value> = &record.fields[index];
    // SAFETY: the cell is in the heap, in the row of a record that `args` holds while the reference is used.
    Ok(unsafe { &*cell })
}
