//! Procedures, conditions, promises, the dynamic state, time, and the collector itself.

use std::time::{SystemTime, UNIX_EPOCH};

use stopworld::{Gc, GcCell};

use super::super::error::{LispError, Outcome, PrimitiveError};
use super::super::objects::{Boxed, Closure, Condition, Continuation, Promise, Symbol, Try};
use super::super::printer::{Style, condition_text};
use super::super::registers::Vm;
use super::super::value::{Kind, Value};
use super::definition::{ANY, Action, Args, Control, Primitive, plain};

const fn control(name: &'static str, least: usize, most: usize, what: Control) -> Primitive {
    Primitive { name, least, most, action: Action::Control(what) }
}

pub const ALL: &[Primitive] = &[
    control("apply", 2, ANY, Control::Apply),
    control("%apply-values", 2, 2, Control::ApplyValues),
    control("call-with-current-continuation", 1, 1, Control::CallCc),
    control("call/cc", 1, 1, Control::CallCc),
    control("%reinstate", 2, 2, Control::Reinstate),
    control("%unwind", 2, 2, Control::Unwind),
    control("eval", 1, 2, Control::Eval),
    plain("procedure?", 1, 1, |_, args| {
        let value = args[0].get();
        let procedure = value.is::<Closure>() || value.is::<Continuation>() || value.as_primitive().is_some();
        Ok(Value::bool(procedure))
    }),
    plain("boolean?", 1, 1, |_, args| Ok(Value::bool(matches!(args[0].get(), Value::TRUE | Value::FALSE)))),
    plain("not", 1, 1, |_, args| Ok(Value::bool(!args[0].get().is_true()))),
    plain("values", 0, ANY, |vm, args| Ok(vm.store.values(args)?)),
    plain("default-object?", 1, 1, |_, args| Ok(Value::bool(args[0].get() == Value::UNSPECIFIED))),
    plain("unspecific", 0, 0, |_, _| Ok(Value::UNSPECIFIED)),
    plain("void", 0, ANY, |_, _| Ok(Value::UNSPECIFIED)),
    plain("interaction-environment", 0, 0, |_, _| Ok(Value::UNSPECIFIED)),
    plain("system-global-environment", 0, 0, |_, _| Ok(Value::UNSPECIFIED)),
    plain("box", 1, 1, |vm, args| Ok(vm.store.boxed(args[0].get())?)),
    plain("unbox", 1, 1, |_, args| Ok(boxed(args)?.value.get())),
    plain("set-box!", 2, 2, |_, args| {
        boxed(args)?.value.set(args[1].get());
        Ok(Value::UNSPECIFIED)
    }),
    // The dynamic state.
    plain("%handlers", 0, 0, |vm, _| Ok(vm.handlers)),
    plain("%set-handlers!", 1, 1, |vm, args| {
        vm.handlers = args[0].get();
        Ok(Value::UNSPECIFIED)
    }),
    plain("%winders", 0, 0, |vm, _| Ok(vm.winders)),
    plain("%set-winders!", 1, 1, |vm, args| {
        vm.winders = args[0].get();
        Ok(Value::UNSPECIFIED)
    }),
    plain("%continuation-winders", 1, 1, |_, args| {
        let value = args[0].get();
        value.get::<Continuation>().map(|c| c.winders).ok_or(PrimitiveError::Type("a continuation", value))
    }),
    plain("%make-try", 1, 1, |vm, args| {
        Ok(vm.store.object(Try {
            head: Kind::Try.head(0),
            frame: vm.fp,
            handler: args[0].get(),
            handlers: vm.handlers,
            winders: vm.winders,
        })?)
    }),
    plain("%try?", 1, 1, |_, args| Ok(Value::bool(args[0].get().is::<Try>()))),
    plain("%try-winders", 1, 1, |_, args| {
        args[0].get().get::<Try>().map(|t| t.winders).ok_or(PrimitiveError::Type("a guard", args[0].get()))
    }),
    plain("%install", 2, 2, |vm, args| {
        vm.store.machine.raise.set(args[0].get());
        vm.store.machine.throw.set(args[1].get());
        Ok(Value::UNSPECIFIED)
    }),
    plain("%uncaught", 1, 1, |vm, args| Err(vm.uncaught(args[0].get()).into())),
    // Conditions.
    plain("%condition", 3, 3, |vm, args| {
        let kind = args[0].get().get::<Symbol>().ok_or(PrimitiveError::Type("a symbol", args[0].get()))?;
        let message = super::super::printer::to_text(&vm.store, args[1].get(), Style::Display);
        Ok(vm.condition(kind.text(), &message, args[2].get())?)
    }),
    plain("error-object?", 1, 1, |_, args| Ok(Value::bool(args[0].get().is::<Condition>()))),
    plain("condition?", 1, 1, |_, args| Ok(Value::bool(args[0].get().is::<Condition>()))),
    plain("error?", 1, 1, |_, args| Ok(Value::bool(args[0].get().is::<Condition>()))),
    plain("error-message-string", 1, 1, |vm, args| {
        Ok(vm.store.string(&condition_text(&vm.store, condition(args)?))?)
    }),
    plain("condition/report-string", 1, 1, |vm, args| {
        Ok(vm.store.string(&condition_text(&vm.store, condition(args)?))?)
    }),
    plain("error-object-message", 1, 1, |_, args| Ok(condition(args)?.message)),
    plain("error-message", 1, 1, |_, args| Ok(condition(args)?.message)),
    plain("error-object-irritants", 1, 1, |_, args| Ok(condition(args)?.irritants)),
    plain("error-irritants", 1, 1, |_, args| Ok(condition(args)?.irritants)),
    plain("error-object-kind", 1, 1, |_, args| Ok(condition(args)?.kind)),
    plain("error-object-place", 1, 1, |_, args| Ok(condition(args)?.place)),
    plain("error-object-procedure", 1, 1, |_, args| Ok(condition(args)?.procedure)),
    plain("read-error?", 1, 1, |vm, args| {
        let read = vm.store.symbol("read")?;
        Ok(Value::bool(args[0].get().get::<Condition>().is_some_and(|c| c.kind == read)))
    }),
    plain("file-error?", 1, 1, |_, _| Ok(Value::FALSE)),
    // Promises.
    plain("%delayed", 1, 1, |vm, args| promise(vm, Value::FALSE, args[0].get())),
    plain("make-promise", 1, 1, |vm, args| {
        if args[0].get().is::<Promise>() { Ok(args[0].get()) } else { promise(vm, Value::TRUE, args[0].get()) }
    }),
    plain("promise?", 1, 1, |_, args| Ok(Value::bool(args[0].get().is::<Promise>()))),
    plain("%promise-done?", 1, 1, |_, args| Ok(the_promise(args)?.done.get())),
    plain("%promise-value", 1, 1, |_, args| Ok(the_promise(args)?.value.get())),
    plain("%promise-settle!", 3, 3, |_, args| {
        let promise = the_promise(args)?;
        promise.done.set(args[1].get());
        promise.value.set(args[2].get());
        Ok(Value::UNSPECIFIED)
    }),
    // The environment of the interpreter.
    plain("exit", 0, 1, |vm, args| {
        vm.out.flush(vm.store.mutator)?;
        Err(LispError::Exit(exit_code(args.first())).into())
    }),
    plain("runtime", 0, 0, |vm, _| {
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64());
        Ok(vm.store.flonum(seconds)?)
    }),
    plain("current-second", 0, 0, |vm, _| {
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64());
        Ok(vm.store.flonum(seconds)?)
    }),
    plain("current-jiffy", 0, 0, |_, _| {
        let micros = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_micros());
        Ok(Value::fixnum(i64::try_from(micros).unwrap_or(Value::FIXNUM_MAX)))
    }),
    plain("jiffies-per-second", 0, 0, |_, _| Ok(Value::fixnum(1_000_000))),
    plain("random", 1, 1, random),
    plain("gc", 0, 0, |vm, _| {
        vm.clear_unused();
        match vm.store.mutator.collect() {
            Ok(report) => Ok(Value::fixnum(i64::from(report.number))),
            Err(error) => Err(PrimitiveError::Failure("memory", format!("the collection failed: {error:?}"), None)),
        }
    }),
];

fn boxed(args: Args<'_>) -> Outcome<Gc<Boxed>> {
    args[0].get().get::<Boxed>().ok_or(PrimitiveError::Type("a box", args[0].get()))
}

fn condition(args: Args<'_>) -> Outcome<Gc<Condition>> {
    args[0].get().get::<Condition>().ok_or(PrimitiveError::Type("an error object", args[0].get()))
}

fn the_promise(args: Args<'_>) -> Outcome<Gc<Promise>> {
    args[0].get().get::<Promise>().ok_or(PrimitiveError::Type("a promise", args[0].get()))
}

fn promise(vm: &mut Vm<'_, '_>, done: Value, value: Value) -> Outcome {
    let (done, value) = (GcCell::new(done), GcCell::new(value));
    Ok(vm.store.object(Promise { head: Kind::Promise.head(0), done, value })?)
}

fn exit_code(argument: Option<&GcCell<Value>>) -> u8 {
    match argument.map(GcCell::get) {
        None | Some(Value::TRUE) => 0,
        Some(code) => code.as_fixnum().and_then(|n| u8::try_from(n).ok()).unwrap_or(1),
    }
}

/// Returns a random number below the argument, which is exact if the argument is exact. The generator is a xorshift, the same in each run.
fn random(vm: &mut Vm<'_, '_>, args: Args<'_>) -> Outcome {
    let machine = vm.store.machine;
    let mut x = machine.random.get();
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    machine.random.set(x);
    match args[0].get().as_fixnum() {
        Some(limit @ 1..) => Ok(Value::fixnum(((x as u128 * limit as u128) >> 64) as i64)),
        Some(_) => Err(PrimitiveError::Type("a positive number", args[0].get())),
        None => {
            let limit = super::super::numbers::Number::of(args[0].get())?.to_f64();
            Ok(vm.store.flonum(limit * ((x >> 11) as f64 / (1_u64 << 53) as f64))?)
        }
    }
}
