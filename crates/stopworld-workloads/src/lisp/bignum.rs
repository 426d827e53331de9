//! Integers of any size: sign and magnitude, base 2³², schoolbook algorithms.
//!
//! This file does not use the heap: the machine copies a collected magnitude into a [`Big`], computes, and
//! copies the result back. This is slow for huge numbers, and simple for the numbers in typical programs, such as factorials.

use std::cmp::Ordering;

/// An integer. The most significant digit is not 0; zero has no digits and is not negative.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Big {
    negative: bool,
    digits: Vec<u32>,
}

/// The largest number of digits: larger results are refused.
pub const MOST_DIGITS: usize = 1 << 16;

impl Big {
    pub fn new(negative: bool, mut digits: Vec<u32>) -> Self {
        while digits.last() == Some(&0) {
            digits.pop();
        }
        Self { negative: negative && !digits.is_empty(), digits }
    }

    /// Returns the integer part of a finite float.
    pub fn from_f64(value: f64) -> Self {
        let bits = value.abs().to_bits();
        let exponent = (bits >> 52) as i32 - 1075;
        let mantissa = u128::from(bits & ((1 << 52) - 1) | 1 << 52);
        let magnitude = if exponent < -63 {
            Self::from(0)
        } else if exponent < 0 {
            Self::from((mantissa >> -exponent) as i128)
        } else {
            Self::from(mantissa as i128).shifted_left(exponent as usize)
        };
        Self::new(value < 0.0, magnitude.digits)
    }

    pub fn is_negative(&self) -> bool {
        self.negative
    }

    pub fn is_zero(&self) -> bool {
        self.digits.is_empty()
    }

    pub fn digits(&self) -> &[u32] {
        &self.digits
    }

    /// Returns the number if it fits.
    pub fn to_i64(&self) -> Option<i64> {
        if self.digits.len() > 2 {
            return None;
        }
        let magnitude = self.digits.iter().rev().fold(0_i128, |n, &d| n << 32 | i128::from(d));
        i64::try_from(if self.negative { -magnitude } else { magnitude }).ok()
    }

    pub fn to_f64(&self) -> f64 {
        let n = self.digits.len();
        // The three leading digits hold at least 65 significant bits; a sticky bit keeps the rounding right.
        let cut = n.saturating_sub(3);
        let mut top = self.digits[cut..].iter().rev().fold(0_u128, |t, &d| t << 32 | u128::from(d));
        top |= u128::from(self.digits[..cut].iter().any(|&d| d != 0));
        let magnitude = top as f64 * 2_f64.powi(32 * i32::try_from(cut).unwrap_or(i32::MAX / 32));
        if self.negative { -magnitude } else { magnitude }
    }

    pub fn negated(mut self) -> Self {
        self.negative = !self.negative && !self.digits.is_empty();
        self
    }

    pub fn plus(&self, other: &Self) -> Self {
        if self.negative == other.negative {
            return Self::new(self.negative, add(&self.digits, &other.digits));
        }
        match compare(&self.digits, &other.digits) {
            Ordering::Less => Self::new(other.negative, subtract(&other.digits, &self.digits)),
            _ => Self::new(self.negative, subtract(&self.digits, &other.digits)),
        }
    }

    pub fn times(&self, other: &Self) -> Self {
        let mut product = vec![0_u32; self.digits.len() + other.digits.len()];
        for (i, &a) in self.digits.iter().enumerate() {
            let mut carry = 0_u64;
            for (j, &b) in other.digits.iter().enumerate() {
                let sum = u64::from(a) * u64::from(b) + u64::from(product[i + j]) + carry;
                product[i + j] = sum as u32;
                carry = sum >> 32;
            }
            product[i + other.digits.len()] = carry as u32;
        }
        Self::new(self.negative != other.negative, product)
    }

    /// Returns the quotient, rounded towards zero, and the remainder with the sign of `self`. The divisor must not be zero.
    pub fn divided_by(&self, divisor: &Self) -> (Self, Self) {
        let (quotient, remainder) = divide(&self.digits, &divisor.digits);
        (Self::new(self.negative != divisor.negative, quotient), Self::new(self.negative, remainder))
    }

    fn shifted_left(&self, bits: usize) -> Self {
        let mut digits = vec![0; bits / 32];
        digits.extend(shift_left(&self.digits, (bits % 32) as u32));
        Self::new(self.negative, digits)
    }

    /// Formats the number in this radix, 2 to 36.
    pub fn to_text(&self, radix: u32) -> String {
        if self.is_zero() {
            return "0".to_owned();
        }
        let (chunk, width) = chunk_of(radix);
        let mut text = Vec::new();
        let mut rest = self.digits.clone();
        while !rest.is_empty() {
            let mut remainder = divide_small(&mut rest, chunk);
            for _ in 0..width {
                if rest.is_empty() && remainder == 0 {
                    break;
                }
                text.push(char::from_digit(remainder % radix, radix).unwrap_or('?'));
                remainder /= radix;
            }
        }
        if self.negative {
            text.push('-');
        }
        text.into_iter().rev().collect()
    }

    /// Parses digits after an optional sign.
    pub fn parse(text: &str, radix: u32) -> Option<Self> {
        let (negative, digits) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        if digits.is_empty() {
            return None;
        }
        let mut magnitude: Vec<u32> = Vec::new();
        for c in digits.chars() {
            let mut carry = u64::from(c.to_digit(radix)?);
            for digit in &mut magnitude {
                let sum = u64::from(*digit) * u64::from(radix) + carry;
                *digit = sum as u32;
                carry = sum >> 32;
            }
            if carry > 0 {
                magnitude.push(carry as u32);
            }
        }
        Some(Self::new(negative, magnitude))
    }
}

impl From<i128> for Big {
    fn from(n: i128) -> Self {
        let mut magnitude = n.unsigned_abs();
        let mut digits = Vec::new();
        while magnitude > 0 {
            digits.push(magnitude as u32);
            magnitude >>= 32;
        }
        Self::new(n < 0, digits)
    }
}

impl Ord for Big {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.negative, other.negative) {
            (false, true) => Ordering::Greater,
            (true, false) => Ordering::Less,
            (false, false) => compare(&self.digits, &other.digits),
            (true, true) => compare(&other.digits, &self.digits),
        }
    }
}

impl PartialOrd for Big {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

fn chunk_of(radix: u32) -> (u32, u32) {
    let mut width = 1;
    let mut chunk = radix;
    while let Some(larger) = chunk.checked_mul(radix) {
        chunk = larger;
        width += 1;
    }
    (chunk, width)
}

fn compare(a: &[u32], b: &[u32]) -> Ordering {
    a.len().cmp(&b.len()).then_with(|| a.iter().rev().cmp(b.iter().rev()))
}

fn add(a: &[u32], b: &[u32]) -> Vec<u32> {
    let (long, short) = if a.len() >= b.len() { (a, b) } else { (b, a) };
    let mut carry = 0_u64;
    let mut sum: Vec<u32> = Vec::with_capacity(long.len() + 1);
    for (i, &digit) in long.iter().enumerate() {
        carry += u64::from(digit) + u64::from(short.get(i).copied().unwrap_or(0));
        sum.push(carry as u32);
        carry >>= 32;
    }
    sum.push(carry as u32);
    sum
}

/// Returns `a - b`. `a` must not be smaller than `b`.
fn subtract(a: &[u32], b: &[u32]) -> Vec<u32> {
    let mut borrow = 0_i64;
    let mut difference = Vec::with_capacity(a.len());
    for (i, &digit) in a.iter().enumerate() {
        borrow += i64::from(digit) - i64::from(b.get(i).copied().unwrap_or(0));
        difference.push(borrow as u32);
        borrow >>= 32;
    }
    difference
}

/// Divides in place and returns the remainder.
fn divide_small(digits: &mut Vec<u32>, divisor: u32) -> u32 {
    let mut remainder = 0_u64;
    for digit in digits.iter_mut().rev() {
        let dividend = remainder << 32 | u64::from(*digit);
        *digit = (dividend / u64::from(divisor)) as u32;
        remainder = dividend % u64::from(divisor);
    }
    while digits.last() == Some(&0) {
        digits.pop();
    }
    remainder as u32
}

fn shift_left(digits: &[u32], bits: u32) -> Vec<u32> {
    let mut carry = 0_u64;
    let mut shifted: Vec<u32> = Vec::with_capacity(digits.len() + 1);
    for &digit in digits {
        carry |= u64::from(digit) << bits;
        shifted.push(carry as u32);
        carry >>= 32;
    }
    shifted.push(carry as u32);
    shifted
}

/// Knuth's algorithm D: estimate each quotient digit from the leading two, correct it at most twice.
fn divide(a: &[u32], b: &[u32]) -> (Vec<u32>, Vec<u32>) {
    if compare(a, b) == Ordering::Less {
        return (Vec::new(), a.to_vec());
    }
    if let [small] = b {
        let mut quotient = a.to_vec();
        let remainder = divide_small(&mut quotient, *small);
        return (quotient, vec![remainder]);
    }
    // Normalised so that the divisor's leading bit is set, which bounds the error of the estimate.
    let shift = b[b.len() - 1].leading_zeros();
    let mut rest = shift_left(a, shift);
    let mut divisor = shift_left(b, shift);
    divisor.truncate(b.len());
    let n = divisor.len();
    let (first, second) = (u64::from(divisor[n - 1]), u64::from(divisor[n - 2]));
    let mut quotient = vec![0; rest.len() - n];
    for j in (0..quotient.len()).rev() {
        let leading = u64::from(rest[j + n]) << 32 | u64::from(rest[j + n - 1]);
        let mut estimate = leading / first;
        let mut left = leading % first;
        while estimate >> 32 != 0 || estimate * second > (left << 32 | u64::from(rest[j + n - 2])) {
            estimate -= 1;
            left += first;
            if left >> 32 != 0 {
                break;
            }
        }
        if take_multiple(&mut rest[j..=j + n], &divisor, estimate) {
            estimate -= 1;
            add_back(&mut rest[j..=j + n], &divisor);
        }
        quotient[j] = estimate as u32;
    }
    rest.truncate(n);
    let mut carry = 0_u64;
    for digit in rest.iter_mut().rev() {
        let wide = carry << 32 | u64::from(*digit);
        *digit = (wide >> shift) as u32;
        carry = wide & ((1 << shift) - 1);
    }
    (quotient, rest)
}

/// Computes `window -= divisor * factor`. Returns whether the result is below zero.
fn take_multiple(window: &mut [u32], divisor: &[u32], factor: u64) -> bool {
    let mut borrow = 0_i64;
    let mut carry = 0_u64;
    for (digit, &d) in window.iter_mut().zip(divisor.iter().chain(std::iter::once(&0))) {
        let product = factor * u64::from(d) + carry;
        carry = product >> 32;
        let difference = i64::from(*digit) - i64::from(product as u32) + borrow;
        *digit = difference as u32;
        borrow = difference >> 32;
    }
    borrow < 0
}

fn add_back(window: &mut [u32], divisor: &[u32]) {
    let mut carry = 0_u64;
    for (digit, &d) in window.iter_mut().zip(divisor.iter().chain(std::iter::once(&0))) {
        carry += u64::from(*digit) + u64::from(d);
        *digit = carry as u32;
        carry >>= 32;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Big;

    fn big(n: i128) -> Big {
        Big::from(n)
    }

    proptest! {
        #[test]
        fn small_results_agree_with_the_machine(a in -(1_i128 << 120)..1_i128 << 120, b in -(1_i128 << 120)..1_i128 << 120) {
            prop_assert_eq!(big(a).plus(&big(b)), big(a + b));
            prop_assert_eq!(big(a).cmp(&big(b)), a.cmp(&b));
            prop_assert_eq!(big(a).to_text(10), a.to_string());
            prop_assert_eq!(Big::parse(&a.to_string(), 10), Some(big(a)));
            prop_assert_eq!(big(a).to_f64(), a as f64);
            if b != 0 {
                prop_assert_eq!(big(a).divided_by(&big(b)), (big(a / b), big(a % b)));
            }
        }

        #[test]
        fn products_divide_back(a in prop::collection::vec(any::<u32>(), 0..12), b in prop::collection::vec(any::<u32>(), 1..9), r in any::<u32>()) {
            let (a, b, r) = (Big::new(true, a), Big::new(false, b), Big::from(i128::from(r)));
            prop_assume!(!b.is_zero());
            let (r, _) = (r.divided_by(&b).1, ());
            let sum = a.times(&b).plus(&r.clone().negated());
            let (quotient, remainder) = sum.divided_by(&b);
            prop_assert_eq!(quotient.times(&b).plus(&remainder), sum);
        }
    }
}
