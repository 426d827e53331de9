//! The numeric tower: fixnums, integers of any size, floats.
//!
//! Exact integers never overflow: a result that needs more than 63 bits becomes a bignum, and one that fits again
//! becomes a fixnum. There are no exact fractions: `(/ 6 3)` is 2 and `(/ 1 3)` is the float 0.333….
//! The machine adds and compares fixnums itself and calls this module for all other cases.
//!
//! A bignum's digits are a collected array. An operation copies them into a [`BigInt`], computes outside the heap, and copies the
//! result back.

use std::cmp::Ordering;

use num_bigint::{BigInt, Sign};
use num_integer::Integer;
use num_traits::{FromPrimitive, Signed, ToPrimitive};

use super::error::{Outcome, PrimitiveError};
use super::objects::{Bignum, Flonum};
use super::store::Store;
use super::value::{Kind, Value};

/// The most bits of an integer: larger results are refused.
const MOST_BITS: u64 = 1 << 21;

/// The number in a value.
#[derive(Clone, Debug)]
pub enum Number {
    Fix(i64),
    Big(BigInt),
    Float(f64),
}

use Number::{Fix, Float};

impl Number {
    /// Returns the number in a value. Fails if the value is not a number.
    pub fn of(value: Value) -> Outcome<Self> {
        Self::from_value(value).ok_or(PrimitiveError::Type("a number", value))
    }

    pub fn from_value(value: Value) -> Option<Self> {
        if let Some(n) = value.as_fixnum() {
            return Some(Fix(n));
        }
        if let Some(f) = value.get::<Flonum>() {
            return Some(Float(f.value));
        }
        value.get::<Bignum>().map(|b| {
            let sign = if b.head >> 8 == 1 { Sign::Minus } else { Sign::Plus };
            Self::Big(BigInt::from_slice(sign, &b.digits))
        })
    }

    /// Returns the exact integer in a value. Fails if it is anything else.
    pub fn integer(value: Value) -> Outcome<Self> {
        match Self::from_value(value) {
            Some(Float(_)) | None => Err(PrimitiveError::Type("an exact integer", value)),
            Some(n) => Ok(n),
        }
    }

    pub fn to_f64(&self) -> f64 {
        match self {
            Fix(n) => *n as f64,
            Self::Big(b) => integer_to_f64(b),
            Float(f) => *f,
        }
    }

    /// Returns the integer part; 0 if the number has none (infinities and NaN).
    pub fn to_big(&self) -> BigInt {
        match self {
            Fix(n) => BigInt::from(*n),
            Self::Big(b) => b.clone(),
            Float(f) => BigInt::from_f64(*f).unwrap_or_default(),
        }
    }

    pub fn is_exact(&self) -> bool {
        !matches!(self, Float(_))
    }

    pub fn is_zero(&self) -> bool {
        match self {
            Fix(n) => *n == 0,
            Self::Big(_) => false,
            Float(f) => *f == 0.0,
        }
    }

    pub fn is_negative(&self) -> bool {
        match self {
            Fix(n) => *n < 0,
            Self::Big(b) => b.is_negative(),
            Float(f) => *f < 0.0,
        }
    }

    /// Converts the number to a value.
    pub fn value(self, store: &Store<'_>) -> Outcome {
        match self {
            Fix(n) => integer(store, i128::from(n)),
            Self::Big(b) => big(store, b),
            Float(f) => Ok(store.flonum(f)?),
        }
    }
}

/// Converts an exact integer to a value.
pub fn integer(store: &Store<'_>, n: i128) -> Outcome {
    match i64::try_from(n) {
        Ok(small @ Value::FIXNUM_MIN..=Value::FIXNUM_MAX) => Ok(Value::fixnum(small)),
        _ => big(store, BigInt::from(n)),
    }
}

/// Converts an integer of any size to the nearest float.
fn integer_to_f64(b: &BigInt) -> f64 {
    // There is always a nearest float: infinity if the integer is too large.
    b.to_f64().unwrap_or(f64::NAN)
}

fn big(store: &Store<'_>, b: BigInt) -> Outcome {
    if let Some(small @ Value::FIXNUM_MIN..=Value::FIXNUM_MAX) = b.to_i64() {
        return Ok(Value::fixnum(small));
    }
    if b.bits() > MOST_BITS {
        return Err(PrimitiveError::Failure("arithmetic", "an integer of more than 600,000 digits".to_owned(), None));
    }
    let digits = b.magnitude().to_u32_digits();
    let digits = store.mutator.alloc_array(digits.len(), |i| digits[i])?;
    Ok(store.object(Bignum { head: Kind::Bignum.head(u64::from(b.is_negative())), digits })?)
}

/// An operation on two numbers, for the larger of their two types.
struct Operation {
    fix: fn(i128, i128) -> i128,
    big: fn(&BigInt, &BigInt) -> BigInt,
    float: fn(f64, f64) -> f64,
}

/// Runs an operation on large numbers, which are in malloc memory, in such a way that a collection need not wait for its end.
fn unhurried<R: Send>(store: &Store<'_>, operands: &[&BigInt], work: impl FnOnce() -> R + Send) -> R {
    const LARGE_BITS: u64 = 2048;
    if operands.iter().all(|b| b.bits() < LARGE_BITS) { work() } else { store.mutator.blocking(work) }
}

fn operate(store: &Store<'_>, a: Value, b: Value, op: &Operation) -> Outcome {
    match (Number::of(a)?, Number::of(b)?) {
        (Fix(a), Fix(b)) => integer(store, (op.fix)(i128::from(a), i128::from(b))),
        (a, b) if a.is_exact() && b.is_exact() => {
            let (a, b) = (a.to_big(), b.to_big());
            big(store, unhurried(store, &[&a, &b], || (op.big)(&a, &b)))
        }
        (a, b) => Ok(store.flonum((op.float)(a.to_f64(), b.to_f64()))?),
    }
}

pub fn add(store: &Store<'_>, a: Value, b: Value) -> Outcome {
    operate(store, a, b, &Operation { fix: |a, b| a + b, big: |a, b| a + b, float: |a, b| a + b })
}

pub fn subtract(store: &Store<'_>, a: Value, b: Value) -> Outcome {
    operate(store, a, b, &Operation { fix: |a, b| a - b, big: |a, b| a - b, float: |a, b| a - b })
}

pub fn multiply(store: &Store<'_>, a: Value, b: Value) -> Outcome {
    operate(store, a, b, &Operation { fix: |a, b| a * b, big: |a, b| a * b, float: |a, b| a * b })
}

pub fn divide(store: &Store<'_>, a: Value, b: Value) -> Outcome {
    let (x, y) = (Number::of(a)?, Number::of(b)?);
    if !(x.is_exact() && y.is_exact()) {
        return Ok(store.flonum(x.to_f64() / y.to_f64())?);
    }
    let (quotient, remainder) = split(store, &x, &y)?;
    if remainder.is_zero() { quotient.value(store) } else { Ok(store.flonum(x.to_f64() / y.to_f64())?) }
}

fn division_by_zero() -> PrimitiveError {
    PrimitiveError::Failure("arithmetic", "division by zero".to_owned(), None)
}

/// Returns the quotient, rounded towards zero, and the remainder of two exact integers.
fn split(store: &Store<'_>, a: &Number, b: &Number) -> Outcome<(Number, Number)> {
    if b.is_zero() {
        return Err(division_by_zero());
    }
    if let (Fix(a), Fix(b)) = (a, b) {
        return Ok((Fix(a / b), Fix(a % b)));
    }
    let (a, b) = (a.to_big(), b.to_big());
    let (quotient, remainder) = unhurried(store, &[&a, &b], || a.div_rem(&b));
    let small = |b: BigInt| b.to_i64().map_or(Number::Big(b), Fix);
    Ok((small(quotient), small(remainder)))
}

/// The three integer divisions.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Division {
    Quotient,
    Remainder,
    Modulo,
}

pub fn integer_division(store: &Store<'_>, which: Division, a: Value, b: Value) -> Outcome {
    let (x, y) = (Number::of(a)?, Number::of(b)?);
    if !(x.is_exact() && y.is_exact()) {
        let (Some(x), Some(y)) = (whole(&x), whole(&y)) else {
            return Err(PrimitiveError::Type("an integer", if whole(&x).is_none() { a } else { b }));
        };
        if y == 0.0 {
            return Err(division_by_zero());
        }
        return Ok(store.flonum(match which {
            Division::Quotient => (x / y).trunc(),
            Division::Remainder => x % y,
            Division::Modulo => x - y * (x / y).floor(),
        })?);
    }
    let (quotient, remainder) = split(store, &x, &y)?;
    match which {
        Division::Quotient => quotient.value(store),
        Division::Modulo if !remainder.is_zero() && remainder.is_negative() != y.is_negative() => {
            big(store, remainder.to_big() + y.to_big())
        }
        _ => remainder.value(store),
    }
}

/// Returns the value of a number that has no fraction.
fn whole(n: &Number) -> Option<f64> {
    let f = n.to_f64();
    (f.fract() == 0.0).then_some(f)
}

/// Compares two numbers. Returns `None` if one of them is NaN.
pub fn compare(a: Value, b: Value) -> Outcome<Option<Ordering>> {
    Ok(match (Number::of(a)?, Number::of(b)?) {
        (Fix(a), Fix(b)) => Some(a.cmp(&b)),
        (a, b) if a.is_exact() && b.is_exact() => Some(a.to_big().cmp(&b.to_big())),
        (a, b) => a.to_f64().partial_cmp(&b.to_f64()),
    })
}

/// `eqv?` on two values that are not the same word: equal numbers of the same exactness.
pub fn same(a: Value, b: Value) -> bool {
    match (Number::from_value(a), Number::from_value(b)) {
        (Some(Float(a)), Some(Float(b))) => a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()),
        (Some(Number::Big(a)), Some(Number::Big(b))) => a == b,
        _ => false,
    }
}

/// Returns `base` to the power of `exponent`.
pub fn power(store: &Store<'_>, base: Value, exponent: Value) -> Outcome {
    let (b, e) = (Number::of(base)?, Number::of(exponent)?);
    match (&b, &e) {
        (Float(_), _) | (_, Float(_)) => Ok(store.flonum(b.to_f64().powf(e.to_f64()))?),
        (_, e) if e.is_negative() => Ok(store.flonum(b.to_f64().powf(e.to_f64()))?),
        (_, Number::Big(_)) => match b {
            Fix(0 | 1) => Ok(base),
            _ => Err(PrimitiveError::Failure("arithmetic", "the exponent is too large".to_owned(), Some(exponent))),
        },
        (_, Fix(e)) => {
            let mut result = Value::fixnum(1);
            for bit in (0..64 - e.leading_zeros()).rev() {
                result = multiply(store, result, result)?;
                if e >> bit & 1 == 1 {
                    result = multiply(store, result, base)?;
                }
            }
            Ok(result)
        }
    }
}

/// Returns the square root, exact if possible.
pub fn square_root(store: &Store<'_>, value: Value) -> Outcome {
    let n = Number::of(value)?;
    if let Fix(n @ 0..) = n
        && n.isqrt() * n.isqrt() == n
    {
        return Ok(Value::fixnum(n.isqrt()));
    }
    if n.is_negative() {
        return Err(PrimitiveError::Type("a number that is not negative", value));
    }
    let root = n.to_f64().sqrt();
    if let Number::Big(square) = &n
        && root.is_finite()
    {
        let whole = Number::Float(root).to_big();
        if &whole * &whole == *square {
            return big(store, whole);
        }
    }
    Ok(store.flonum(root)?)
}

/// `exact`: returns the integer with the same value.
pub fn to_exact(store: &Store<'_>, value: Value) -> Outcome {
    match Number::of(value)? {
        Float(f) if f.is_finite() && f.fract() == 0.0 => big(store, Float(f).to_big()),
        Float(_) => Err(PrimitiveError::Type("a number without a fraction (there are no exact fractions)", value)),
        _ => Ok(value),
    }
}

/// Formats a number. Returns `None` if the value is not a number.
pub fn to_text(store: &Store<'_>, value: Value, radix: u32) -> Option<String> {
    Some(match Number::from_value(value)? {
        Fix(n) if radix == 10 => n.to_string(),
        Float(f) => float_text(f),
        n => {
            let n = n.to_big();
            unhurried(store, &[&n], || n.to_str_radix(radix))
        }
    })
}

fn float_text(f: f64) -> String {
    if f.is_nan() {
        return "+nan.0".to_owned();
    }
    if f.is_infinite() {
        return if f > 0.0 { "+inf.0" } else { "-inf.0" }.to_owned();
    }
    let text = if f != 0.0 && !(1e-7..1e21).contains(&f.abs()) { format!("{f:e}") } else { format!("{f}") };
    if text.contains(['.', 'e']) { text } else { text + ".0" }
}

/// The longest token that is parsed as a number.
const MOST_CHARACTERS: usize = 1 << 20;

/// Parses a token as a number. Returns `None` if it is not a number.
pub fn parse(store: &Store<'_>, token: &str, radix: u32) -> Outcome<Option<Value>> {
    let (token, radix) = match token.get(..2) {
        Some("#x" | "#X") => (&token[2..], 16),
        Some("#b" | "#B") => (&token[2..], 2),
        Some("#o" | "#O") => (&token[2..], 8),
        Some("#d" | "#D") => (&token[2..], 10),
        Some("#e" | "#i") => return parse_with_exactness(store, token),
        _ => (token, radix),
    };
    let digits = token.strip_prefix(['+', '-']).unwrap_or(token);
    if let Some(float) = match token {
        "+inf.0" => Some(f64::INFINITY),
        "-inf.0" => Some(f64::NEG_INFINITY),
        "+nan.0" | "-nan.0" => Some(f64::NAN),
        _ => None,
    } {
        return Ok(Some(store.flonum(float)?));
    }
    if !digits.starts_with(|c: char| c.is_digit(radix) || c == '.') {
        return Ok(None);
    }
    if digits.len() > MOST_CHARACTERS {
        return Err(PrimitiveError::Failure("arithmetic", "a number of more than 600,000 digits".to_owned(), None));
    }
    // `BigInt` also accepts underscores.
    if digits.chars().all(|c| c.is_digit(radix))
        && let Some(number) = BigInt::parse_bytes(token.as_bytes(), radix)
    {
        return big(store, number).map(Some);
    }
    let plain = |c: char| c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '+' | '-');
    if radix != 10 || !digits.chars().all(plain) || !digits.contains(|c: char| c.is_ascii_digit()) {
        return Ok(None);
    }
    match token.parse::<f64>() {
        Ok(float) => Ok(Some(store.flonum(float)?)),
        Err(_) => Ok(None),
    }
}

fn parse_with_exactness(store: &Store<'_>, token: &str) -> Outcome<Option<Value>> {
    let Some(value) = parse(store, &token[2..], 10)? else { return Ok(None) };
    match Number::from_value(value) {
        Some(n) if token.starts_with("#i") => Ok(Some(store.flonum(n.to_f64())?)),
        Some(Float(f)) if f.fract() == 0.0 => Ok(to_exact(store, value).ok()),
        Some(n) => Ok(n.is_exact().then_some(value)),
        None => Ok(None),
    }
}
