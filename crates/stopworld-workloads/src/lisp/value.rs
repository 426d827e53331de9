//! The representation of a Scheme value: one tagged word.
//!
//! ```text
//!   …nnnnnnnn nnnnnnn1   fixnum, 63 bits
//!   …pppppppp sssss010   immediate: s = 0 special (#f, #t, (), …), 1 character, 2 primitive; p = payload
//!   …aaaaaaaa aaaaa000   address of a collected object, whose first word is its head
//! ```
//!
//! The heap traces a [`Value`] as one word that *may* be a reference and checks it in its address map. This is sound
//! because every encoding that is not a reference has one of its three low bits set, and objects are at multiples
//! of eight: no number is ever mistaken for an object.
//!
//! The heap knows the type of each object but does not expose it, so each Scheme object begins with its own *head*:
//! the [`Kind`] in the low byte, and above it 56 bits whose use depends on the kind. A pair that was read from a file
//! stores line and column there, so that an error in a macro's expansion can name its place in the source. This costs
//! no memory, because three words fill the same cell as two and a half.

use std::marker::PhantomData;

use stopworld::{Gc, Layout, Trace, Word};

/// A Scheme value: one word. See the module documentation for the encoding.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct Value {
    bits: usize,
    /// Makes the type `!Send`: a value may be a reference, so it must stay on a thread whose stack the collector scans.
    not_send: PhantomData<*mut ()>,
}

// SAFETY: `from_bits` inverts `to_bits`; the word is the address of an object exactly when its low three bits are 0.
unsafe impl Word for Value {
    const MAY_REFER: bool = true;

    #[inline(always)]
    fn to_bits(self) -> usize {
        self.bits
    }

    #[inline(always)]
    unsafe fn from_bits(bits: usize) -> Self {
        Self::from_raw(bits)
    }
}

// SAFETY: one word, which is a reference or a word that no object's address equals (its low three bits are not 0).
unsafe impl Trace for Value {
    const NAME: &'static str = "Value";
    const LAYOUT: Layout = Layout::WORD;
}

const IMMEDIATE: usize = 0b010;
const SPECIAL: usize = IMMEDIATE;
const CHARACTER: usize = 1 << 3 | IMMEDIATE;
const PRIMITIVE: usize = 2 << 3 | IMMEDIATE;

impl Value {
    pub const FALSE: Self = Self::special(0);
    pub const TRUE: Self = Self::special(1);
    pub const NIL: Self = Self::special(2);
    pub const UNSPECIFIED: Self = Self::special(3);
    pub const EOF: Self = Self::special(4);
    /// The value of a symbol's global variable before `define`.
    pub const UNBOUND: Self = Self::special(5);
    /// The value of a `letrec` variable before its initialisation.
    pub const UNASSIGNED: Self = Self::special(6);

    /// The largest fixnum: a fixnum has 63 bits, including the sign.
    pub const FIXNUM_MAX: i64 = i64::MAX >> 1;
    /// The smallest fixnum.
    pub const FIXNUM_MIN: i64 = i64::MIN >> 1;

    #[inline(always)]
    const fn from_raw(bits: usize) -> Self {
        Self { bits, not_send: PhantomData }
    }

    const fn special(which: usize) -> Self {
        Self::from_raw(which << 8 | SPECIAL)
    }

    #[inline(always)]
    pub const fn bits(self) -> usize {
        self.bits
    }

    #[inline(always)]
    pub const fn bool(b: bool) -> Self {
        if b { Self::TRUE } else { Self::FALSE }
    }

    #[inline(always)]
    pub fn is_true(self) -> bool {
        self != Self::FALSE
    }

    /// Creates a fixnum from a number that is known to fit (an index, a length, a checked sum).
    #[inline(always)]
    pub const fn fixnum(n: i64) -> Self {
        debug_assert!(n >= Self::FIXNUM_MIN && n <= Self::FIXNUM_MAX);
        Self::from_raw((n << 1 | 1) as usize)
    }

    #[inline(always)]
    pub const fn is_fixnum(self) -> bool {
        self.bits & 1 == 1
    }

    #[inline(always)]
    pub fn as_fixnum(self) -> Option<i64> {
        self.is_fixnum().then_some(self.bits as i64 >> 1)
    }

    /// Returns the value of a fixnum that is a valid `usize`: an index, a count.
    pub fn as_index(self) -> Option<usize> {
        self.as_fixnum().and_then(|n| usize::try_from(n).ok())
    }

    pub const fn char(c: char) -> Self {
        Self::from_raw((c as usize) << 8 | CHARACTER)
    }

    pub fn as_char(self) -> Option<char> {
        (self.bits & 0xff == CHARACTER).then(|| char::from_u32((self.bits >> 8) as u32)).flatten()
    }

    pub const fn primitive(index: usize) -> Self {
        Self::from_raw(index << 8 | PRIMITIVE)
    }

    #[inline(always)]
    pub fn as_primitive(self) -> Option<usize> {
        (self.bits & 0xff == PRIMITIVE).then_some(self.bits >> 8)
    }

    #[inline(always)]
    pub const fn is_object(self) -> bool {
        self.bits & 0b111 == 0
    }

    /// Returns the kind of the object, if this value is a reference.
    #[inline(always)]
    pub fn kind(self) -> Option<Kind> {
        self.is_object().then(|| Kind::of_head(self.head()))
    }

    /// Returns the head of the object. Callers must have checked `is_object`.
    #[inline(always)]
    fn head(self) -> u64 {
        debug_assert!(self.is_object());
        // SAFETY: a value whose low bits are 0 was made by `Value::object` and so points to an `Object`, which is
        // repr(C) with its head first and never changed; the object lives because this value is on the stack.
        unsafe { *(self.bits as *const u64) }
    }

    #[inline(always)]
    pub fn is<T: Object>(self) -> bool {
        self.is_object() && self.head() as u8 == T::KIND as u8
    }

    /// Returns the object if it has this type.
    #[inline(always)]
    pub fn get<T: Object>(self) -> Option<Gc<T>> {
        // SAFETY: the head says that the object is a `T` (Object's contract), and the word is its address.
        self.is::<T>().then(|| unsafe { <Gc<T> as Word>::from_bits(self.bits) })
    }

    #[inline(always)]
    pub fn object<T: Object>(gc: Gc<T>) -> Self {
        Self::from_raw(Word::to_bits(gc))
    }
}

/// The kind of an object; the low byte of its head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    Pair,
    String,
    Symbol,
    Flonum,
    Bignum,
    Closure,
    Vector,
    Box,
    Code,
    Continuation,
    Values,
    Condition,
    Try,
    Record,
    RecordType,
    Promise,
    Macro,
    Table,
    Port,
}

impl Kind {
    const ALL: [Self; 19] = [
        Self::Pair,
        Self::String,
        Self::Symbol,
        Self::Flonum,
        Self::Bignum,
        Self::Closure,
        Self::Vector,
        Self::Box,
        Self::Code,
        Self::Continuation,
        Self::Values,
        Self::Condition,
        Self::Try,
        Self::Record,
        Self::RecordType,
        Self::Promise,
        Self::Macro,
        Self::Table,
        Self::Port,
    ];

    fn of_head(head: u64) -> Self {
        Self::ALL[(head & 0xff) as usize]
    }

    /// Creates a head for an object of this kind, with `more` (56 bits) above the kind.
    #[inline(always)]
    pub const fn head(self, more: u64) -> u64 {
        more << 8 | self as u64
    }
}

/// A collected object that a [`Value`] may point to.
///
/// # Safety
/// The type is `repr(C)`, and its first field is a `u64` that never changes. In each object the low byte of this field is `KIND`, which no
/// other type has.
pub unsafe trait Object: Trace {
    /// The kind that marks this type.
    const KIND: Kind;
}
