//! Arithmetic, apart from the operations that the machine performs in place.

use std::cmp::Ordering;

use super::super::error::{Outcome, PrimitiveError};
use super::super::numbers::{self, Division, Number};
use super::super::objects::Text;
use super::super::registers::Vm;
use super::super::value::Value;
use super::definition::{ANY, Args, Primitive, plain};

pub const ALL: &[Primitive] = &[
    plain("+", 0, ANY, |vm, args| {
        let store = vm.store;
        if let [one] = args {
            Number::of(one.get())?;
        }
        fold(args, Value::fixnum(0), |a, b| numbers::add(&store, a, b))
    }),
    plain("*", 0, ANY, |vm, args| {
        let store = vm.store;
        if let [one] = args {
            Number::of(one.get())?;
        }
        fold(args, Value::fixnum(1), |a, b| numbers::multiply(&store, a, b))
    }),
    plain("-", 1, ANY, |vm, args| {
        let store = vm.store;
        match args {
            [one] => numbers::subtract(&store, Value::fixnum(0), one.get()),
            [first, rest @ ..] => {
                rest.iter().try_fold(first.get(), |sum, next| numbers::subtract(&store, sum, next.get()))
            }
            [] => Ok(Value::UNSPECIFIED),
        }
    }),
    plain("/", 1, ANY, |vm, args| {
        let store = vm.store;
        match args {
            [one] => numbers::divide(&store, Value::fixnum(1), one.get()),
            [first, rest @ ..] => {
                rest.iter().try_fold(first.get(), |sum, next| numbers::divide(&store, sum, next.get()))
            }
            [] => Ok(Value::UNSPECIFIED),
        }
    }),
    plain("=", 1, ANY, |_, args| ordered(args, |o| o == Ordering::Equal)),
    plain("<", 1, ANY, |_, args| ordered(args, |o| o == Ordering::Less)),
    plain(">", 1, ANY, |_, args| ordered(args, |o| o == Ordering::Greater)),
    plain("<=", 1, ANY, |_, args| ordered(args, |o| o != Ordering::Greater)),
    plain(">=", 1, ANY, |_, args| ordered(args, |o| o != Ordering::Less)),
    plain("quotient", 2, 2, |vm, args| division(vm, args, Division::Quotient)),
    plain("remainder", 2, 2, |vm, args| division(vm, args, Division::Remainder)),
    plain("modulo", 2, 2, |vm, args| division(vm, args, Division::Modulo)),
    plain("truncate-quotient", 2, 2, |vm, args| division(vm, args, Division::Quotient)),
    plain("truncate-remainder", 2, 2, |vm, args| division(vm, args, Division::Remainder)),
    plain("floor-remainder", 2, 2, |vm, args| division(vm, args, Division::Modulo)),
    plain("floor-quotient", 2, 2, |vm, args| {
        let modulo = numbers::integer_division(&vm.store, Division::Modulo, args[0].get(), args[1].get())?;
        let whole = numbers::subtract(&vm.store, args[0].get(), modulo)?;
        numbers::integer_division(&vm.store, Division::Quotient, whole, args[1].get())
    }),
    plain("gcd", 0, ANY, |vm, args| args.iter().try_fold(Value::fixnum(0), |a, b| gcd(vm, a, b.get()))),
    plain("lcm", 0, ANY, |vm, args| {
        args.iter().try_fold(Value::fixnum(1), |a, b| {
            let divisor = gcd(vm, a, b.get())?;
            if divisor == Value::fixnum(0) {
                return Ok(divisor);
            }
            let product = numbers::multiply(&vm.store, a, b.get())?;
            let multiple = numbers::integer_division(&vm.store, Division::Quotient, product, divisor)?;
            magnitude(vm, multiple)
        })
    }),
    plain("abs", 1, 1, |vm, args| magnitude(vm, args[0].get())),
    plain("magnitude", 1, 1, |vm, args| magnitude(vm, args[0].get())),
    plain("max", 1, ANY, |vm, args| extreme(vm, args, Ordering::Greater)),
    plain("min", 1, ANY, |vm, args| extreme(vm, args, Ordering::Less)),
    plain("1+", 1, 1, |vm, args| numbers::add(&vm.store, args[0].get(), Value::fixnum(1))),
    plain("-1+", 1, 1, |vm, args| numbers::subtract(&vm.store, args[0].get(), Value::fixnum(1))),
    plain("number?", 1, 1, |_, args| Ok(Value::bool(Number::from_value(args[0].get()).is_some()))),
    plain("complex?", 1, 1, |_, args| Ok(Value::bool(Number::from_value(args[0].get()).is_some()))),
    plain("real?", 1, 1, |_, args| Ok(Value::bool(Number::from_value(args[0].get()).is_some()))),
    plain("rational?", 1, 1, |_, args| {
        Ok(Value::bool(Number::from_value(args[0].get()).is_some_and(|n| n.to_f64().is_finite() || n.is_exact())))
    }),
    plain("integer?", 1, 1, |_, args| {
        let whole = |n: &Number| n.is_exact() || n.to_f64().fract() == 0.0;
        Ok(Value::bool(Number::from_value(args[0].get()).is_some_and(|n| whole(&n))))
    }),
    plain("exact?", 1, 1, |_, args| Ok(Value::bool(Number::of(args[0].get())?.is_exact()))),
    plain("inexact?", 1, 1, |_, args| Ok(Value::bool(!Number::of(args[0].get())?.is_exact()))),
    plain("exact-integer?", 1, 1, |_, args| {
        Ok(Value::bool(Number::from_value(args[0].get()).is_some_and(|n| n.is_exact())))
    }),
    plain("exact-rational?", 1, 1, |_, args| {
        Ok(Value::bool(Number::from_value(args[0].get()).is_some_and(|n| n.is_exact())))
    }),
    plain("nan?", 1, 1, |_, args| Ok(Value::bool(Number::of(args[0].get())?.to_f64().is_nan()))),
    plain("zero?", 1, 1, |_, args| Ok(Value::bool(Number::of(args[0].get())?.is_zero()))),
    plain("negative?", 1, 1, |_, args| Ok(Value::bool(Number::of(args[0].get())?.is_negative()))),
    plain("positive?", 1, 1, |_, args| {
        let n = Number::of(args[0].get())?;
        Ok(Value::bool(!n.is_zero() && !n.is_negative() && !n.to_f64().is_nan()))
    }),
    plain("even?", 1, 1, |vm, args| Ok(Value::bool(!is_odd(vm, args)?))),
    plain("odd?", 1, 1, |vm, args| Ok(Value::bool(is_odd(vm, args)?))),
    plain("floor", 1, 1, |vm, args| rounded(vm, args, f64::floor)),
    plain("ceiling", 1, 1, |vm, args| rounded(vm, args, f64::ceil)),
    plain("truncate", 1, 1, |vm, args| rounded(vm, args, f64::trunc)),
    plain("round", 1, 1, |vm, args| rounded(vm, args, f64::round_ties_even)),
    plain("exact", 1, 1, |vm, args| numbers::to_exact(&vm.store, args[0].get())),
    plain("inexact->exact", 1, 1, |vm, args| numbers::to_exact(&vm.store, args[0].get())),
    plain("inexact", 1, 1, |vm, args| Ok(vm.store.flonum(Number::of(args[0].get())?.to_f64())?)),
    plain("exact->inexact", 1, 1, |vm, args| Ok(vm.store.flonum(Number::of(args[0].get())?.to_f64())?)),
    plain("sqrt", 1, 1, |vm, args| numbers::square_root(&vm.store, args[0].get())),
    plain("expt", 2, 2, |vm, args| numbers::power(&vm.store, args[0].get(), args[1].get())),
    plain("exp", 1, 1, |vm, args| real(vm, args, f64::exp)),
    plain("log", 1, 2, |vm, args| {
        let base = if args.len() == 2 { Number::of(args[1].get())?.to_f64().ln() } else { 1.0 };
        Ok(vm.store.flonum(Number::of(args[0].get())?.to_f64().ln() / base)?)
    }),
    plain("sin", 1, 1, |vm, args| real(vm, args, f64::sin)),
    plain("cos", 1, 1, |vm, args| real(vm, args, f64::cos)),
    plain("tan", 1, 1, |vm, args| real(vm, args, f64::tan)),
    plain("asin", 1, 1, |vm, args| real(vm, args, f64::asin)),
    plain("acos", 1, 1, |vm, args| real(vm, args, f64::acos)),
    plain("atan", 1, 2, |vm, args| match args {
        [y, x] => Ok(vm.store.flonum(Number::of(y.get())?.to_f64().atan2(Number::of(x.get())?.to_f64()))?),
        _ => real(vm, args, f64::atan),
    }),
    plain("number->string", 1, 2, |vm, args| {
        let radix = radix(args)?;
        let text = numbers::to_text(&vm.store, args[0].get(), radix);
        let text = text.ok_or(PrimitiveError::Type("a number", args[0].get()))?;
        Ok(vm.store.string(&text)?)
    }),
    plain("string->number", 1, 2, |vm, args| {
        let radix = radix(args)?;
        let text = args[0].get().get::<Text>().ok_or(PrimitiveError::Type("a string", args[0].get()))?;
        Ok(numbers::parse(&vm.store, text.text(), radix)?.unwrap_or(Value::FALSE))
    }),
    plain("bitwise-and", 2, 2, |_, args| bits(args, |a, b| a & b)),
    plain("bitwise-or", 2, 2, |_, args| bits(args, |a, b| a | b)),
    plain("bitwise-xor", 2, 2, |_, args| bits(args, |a, b| a ^ b)),
    plain("arithmetic-shift", 2, 2, |vm, args| {
        let shift = args[1].get().as_fixnum().ok_or(PrimitiveError::Type("a number of bits", args[1].get()))?;
        let two = numbers::power(&vm.store, Value::fixnum(2), Value::fixnum(shift.abs()))?;
        if shift >= 0 {
            return numbers::multiply(&vm.store, args[0].get(), two);
        }
        let modulo = numbers::integer_division(&vm.store, Division::Modulo, args[0].get(), two)?;
        let whole = numbers::subtract(&vm.store, args[0].get(), modulo)?;
        numbers::integer_division(&vm.store, Division::Quotient, whole, two)
    }),
];

fn fold(args: Args<'_>, start: Value, mut step: impl FnMut(Value, Value) -> Outcome) -> Outcome {
    match args {
        [] => Ok(start),
        [first, rest @ ..] => rest.iter().try_fold(first.get(), |sum, next| step(sum, next.get())),
    }
}

fn ordered(args: Args<'_>, holds: fn(Ordering) -> bool) -> Outcome {
    let mut all = true;
    if let [one] = args {
        Number::of(one.get())?;
    }
    for two in args.windows(2) {
        all &= numbers::compare(two[0].get(), two[1].get())?.is_some_and(holds);
    }
    Ok(Value::bool(all))
}

fn division(vm: &mut Vm<'_, '_>, args: Args<'_>, which: Division) -> Outcome {
    numbers::integer_division(&vm.store, which, args[0].get(), args[1].get())
}

fn magnitude(vm: &mut Vm<'_, '_>, value: Value) -> Outcome {
    if Number::of(value)?.is_negative() { numbers::subtract(&vm.store, Value::fixnum(0), value) } else { Ok(value) }
}

fn gcd(vm: &mut Vm<'_, '_>, mut a: Value, mut b: Value) -> Outcome {
    Number::integer(a)?;
    while !Number::integer(b)?.is_zero() {
        (a, b) = (b, numbers::integer_division(&vm.store, Division::Remainder, a, b)?);
    }
    magnitude(vm, a)
}

fn extreme(vm: &mut Vm<'_, '_>, args: Args<'_>, wanted: Ordering) -> Outcome {
    let mut best = args[0].get();
    let mut exact = Number::of(best)?.is_exact();
    for next in &args[1..] {
        let next = next.get();
        exact &= Number::of(next)?.is_exact();
        if numbers::compare(next, best)? == Some(wanted) {
            best = next;
        }
    }
    if exact { Ok(best) } else { Ok(vm.store.flonum(Number::of(best)?.to_f64())?) }
}

fn is_odd(vm: &mut Vm<'_, '_>, args: Args<'_>) -> Outcome<bool> {
    let remainder = numbers::integer_division(&vm.store, Division::Remainder, args[0].get(), Value::fixnum(2))?;
    Ok(!Number::of(remainder)?.is_zero())
}

fn rounded(vm: &mut Vm<'_, '_>, args: Args<'_>, how: fn(f64) -> f64) -> Outcome {
    match Number::of(args[0].get())? {
        Number::Float(f) => Ok(vm.store.flonum(how(f))?),
        _ => Ok(args[0].get()),
    }
}

fn real(vm: &mut Vm<'_, '_>, args: Args<'_>, function: fn(f64) -> f64) -> Outcome {
    Ok(vm.store.flonum(function(Number::of(args[0].get())?.to_f64()))?)
}

fn radix(args: Args<'_>) -> Outcome<u32> {
    let Some(radix) = args.get(1) else { return Ok(10) };
    match radix.get().as_fixnum() {
        Some(n @ 2..=36) => Ok(n as u32),
        _ => Err(PrimitiveError::Type("a radix from 2 to 36", radix.get())),
    }
}

fn bits(args: Args<'_>, operation: fn(i64, i64) -> i64) -> Outcome {
    match (args[0].get().as_fixnum(), args[1].get().as_fixnum()) {
        (Some(a), Some(b)) => Ok(Value::fixnum(operation(a, b))),
        (a, _) => Err(PrimitiveError::Type("an integer of at most 63 bits", args[usize::from(a.is_some())].get())),
    }
}
