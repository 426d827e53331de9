//! The machine's instructions.
//!
//! A word holds the operation in its low byte and an operand `a` of 24 bits above it; a few operations have more
//! words. The stack holds a frame per waiting call:
//!
//! ```text
//!            fp-2              fp-1       fp …                                  sp
//!   … │ pc and fp of the caller │ closure │ arguments │ locals │ temporaries │ free …
//! ```
//!
//! The word below the closure is a fixnum, so the stack is an ordinary array of values and the collector
//! needs no knowledge of frames. `Frame` reserves a slot for that word; the procedure and its arguments follow.
//! A tail call moves procedure and arguments down over the frame that it replaces.

macro_rules! operations {
    ($($(#[doc = $doc:literal])* $name:ident),* $(,)?) => {
        /// An operation of the Scheme machine.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Op { $($(#[doc = $doc])* $name),* }

        const OPERATIONS: [Op; 64] = {
            let mut all = [Op::Halt; 64];
            $(all[Op::$name as usize] = Op::$name;)*
            all
        };
    };
}

operations! {
    /// An operation that is never emitted.
    Halt,
    /// Push constant `a`.
    Constant,
    /// Push the fixnum `a`, signed.
    Integer,
    /// Push the slot `a` of the frame.
    Local,
    /// Pop into slot `a`.
    SetLocal,
    /// Push the contents of the box in slot `a`; an error if it has no value yet.
    LocalBox,
    /// Pop into the box in slot `a`.
    SetLocalBox,
    /// Replace the value of slot `a` by a new box that contains it.
    MakeBox,
    /// Push the captured value `a` of the closure.
    Free,
    /// Push the contents of the captured box `a` of the closure.
    FreeBox,
    /// Pop into the captured box `a` of the closure.
    SetFreeBox,
    /// Push the running closure.
    Itself,
    /// Push the global variable of the symbol in constant `a`.
    Global,
    /// Pop into a global variable that exists.
    SetGlobal,
    /// Give a global variable its first value; on the stack, the variable's symbol replaces the value.
    DefineGlobal,
    /// Drop the top value.
    Pop,
    /// Drop the `a` values below the top.
    Slide,
    /// Go to `a`.
    Jump,
    /// Pop; go to `a` if it was `#f`.
    JumpIfFalse,
    /// Go to `a` if the top value is not `#f`, else pop it.
    JumpIfTrueElsePop,
    /// Make a closure of the code in constant `a`; next word: the number of captures, then a word for each.
    Closure,
    /// Reserve a slot for the return word.
    Frame,
    /// `Frame`, then `Global a`.
    FrameGlobal,
    /// Call with `a` arguments.
    Call,
    /// Call with `a` arguments in place of this frame.
    TailCall,
    /// Return the top value.
    Return,
    /// Call the primitive `a & 0xfff` with `a >> 12` arguments.
    Primitive,
    /// The next iteration of a loop: move the top `a` values to the slot in the next word, go to the target in the word after it.
    Again,
    /// This and the following operations are primitives that the machine performs itself for common arguments. `a` is the primitive that
    /// handles all other cases, including errors.
    Car,
    Cdr,
    Cons,
    IsNull,
    IsPair,
    Not,
    IsEq,
    Add,
    Subtract,
    Multiply,
    Equal,
    Less,
    Greater,
    LessOrEqual,
    GreaterOrEqual,
    VectorRef,
    VectorSet,
    Remainder,
    Quotient,
    Caar,
    Cadr,
    Cddr,
}

impl Op {
    #[inline(always)]
    pub fn of(word: u32) -> Self {
        OPERATIONS[(word & 63) as usize]
    }

    pub fn word(self, operand: usize) -> u32 {
        (operand as u32) << 8 | self as u32
    }

    /// Returns the operation that performs this primitive in place, for this number of arguments.
    pub fn of_primitive(name: &str, arguments: usize) -> Option<Self> {
        Some(match (name, arguments) {
            ("car", 1) => Self::Car,
            ("cdr", 1) => Self::Cdr,
            ("cons", 2) => Self::Cons,
            ("null?", 1) => Self::IsNull,
            ("pair?", 1) => Self::IsPair,
            ("not", 1) => Self::Not,
            ("eq?", 2) => Self::IsEq,
            ("+", 2) => Self::Add,
            ("-", 2) => Self::Subtract,
            ("*", 2) => Self::Multiply,
            ("=", 2) => Self::Equal,
            ("<", 2) => Self::Less,
            (">", 2) => Self::Greater,
            ("<=", 2) => Self::LessOrEqual,
            (">=", 2) => Self::GreaterOrEqual,
            ("vector-ref", 2) => Self::VectorRef,
            ("vector-set!", 3) => Self::VectorSet,
            ("remainder", 2) => Self::Remainder,
            ("quotient", 2) => Self::Quotient,
            ("caar", 1) => Self::Caar,
            ("cadr", 1) => Self::Cadr,
            ("cddr", 1) => Self::Cddr,
            _ => return None,
        })
    }
}

/// The source of a closure's captured value, in the words after `Closure`.
#[derive(Clone, Copy)]
pub enum Capture {
    Local(usize),
    Free(usize),
    Itself,
}

impl Capture {
    pub fn word(self) -> u32 {
        match self {
            Self::Local(slot) => (slot as u32) << 2,
            Self::Free(index) => (index as u32) << 2 | 1,
            Self::Itself => 2,
        }
    }

    #[inline(always)]
    pub fn of(word: u32) -> Self {
        match word & 3 {
            0 => Self::Local((word >> 2) as usize),
            1 => Self::Free((word >> 2) as usize),
            _ => Self::Itself,
        }
    }
}
