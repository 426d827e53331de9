//! The collected objects that a [`Value`] may point to.
//!
//! Each begins with its head, a word that contains its kind and never changes; see `value.rs`. A field that never
//! changes after the object's construction is plain; a field that changes is a `GcCell`.

use stopworld::{Array, Gc, GcCell, traced};

use super::value::{Kind, Object, Value};

macro_rules! objects {
    ($($type:ident = $kind:ident),* $(,)?) => {
        $(
            // SAFETY: declared below with `repr(C)` and `head` first; every constructor writes `Kind::$kind.head(..)`.
            unsafe impl Object for $type { const KIND: Kind = Kind::$kind; }
        )*
    };
}

objects! {
    Pair = Pair, Text = String, Symbol = Symbol, Flonum = Flonum, Bignum = Bignum, Closure = Closure, Vector = Vector,
    Boxed = Box, Code = Code, Continuation = Continuation, Values = Values, Condition = Condition, Try = Try,
    Record = Record, RecordType = RecordType, Promise = Promise, Macro = Macro, Table = Table, Port = Port,
}

/// A mutable row of values.
pub type Row = Array<GcCell<Value>>;

traced! {
    /// A pair; the head stores `line << 24 | column` of its opening parenthesis, 0 if it was created at run time.
    #[repr(C)]
    pub struct Pair {
        pub head: u64,
        pub car: GcCell<Value>,
        pub cdr: GcCell<Value>,
    }
}

traced! {
    /// A string: UTF-8 that is replaced as a whole when a character changes, and its length in characters.
    #[repr(C)]
    pub struct Text {
        pub head: u64,
        pub bytes: GcCell<Gc<Array<u8>>>,
        pub chars: GcCell<usize>,
    }
}

traced! {
    /// A symbol; the head stores its number. It contains its global variable, so that code accesses it in one step.
    ///
    /// `alias_of` is `#f` for a symbol that the reader created. A macro's template gives the symbols that it introduces
    /// a new identity; `alias_of` is then the symbol in the template. See `macros.rs`.
    #[repr(C)]
    pub struct Symbol {
        pub head: u64,
        pub name: Gc<Array<u8>>,
        pub value: GcCell<Value>,
        pub alias_of: Value,
        /// The special form that the symbol names, or 0; with the bit `USER_DEFINED` if the program defines a global with this name.
        pub flags: GcCell<usize>,
    }
}

traced! {
    /// A floating-point number.
    #[repr(C)]
    pub struct Flonum {
        pub head: u64,
        pub value: f64,
    }
}

traced! {
    /// An integer that needs more than 63 bits: magnitude, least significant digit first; the head keeps 1 if negative.
    #[repr(C)]
    pub struct Bignum {
        pub head: u64,
        pub digits: Gc<Array<u32>>,
    }
}

traced! {
    /// A procedure: its code and the values of its captured variables.
    #[repr(C)]
    pub struct Closure {
        pub head: u64,
        pub code: Gc<Code>,
        pub free: Option<Gc<Array<Value>>>,
    }
}

traced! {
    /// A vector.
    #[repr(C)]
    pub struct Vector {
        pub head: u64,
        pub items: Gc<Row>,
    }
}

traced! {
    /// The storage of a variable that is both captured and assigned.
    #[repr(C)]
    pub struct Boxed {
        pub head: u64,
        pub value: GcCell<Value>,
    }
}

traced! {
    /// The compiled body of one `lambda`. The head keeps `rest << 16 | required`.
    #[repr(C)]
    pub struct Code {
        pub head: u64,
        pub words: Gc<Array<u32>>,
        pub constants: Gc<Array<Value>>,
        /// The places in the source of calls and checks: triples of (index into `words`, line, column), in ascending order.
        pub places: Gc<Array<u32>>,
        /// The procedure's name, a symbol, or `#f`.
        pub name: Value,
        /// The file's name, a string; `#f` for the prelude, whose frames errors do not show.
        pub file: Value,
        /// The largest number of stack slots that a call needs.
        pub slots: usize,
        /// The number of the procedure's cost centre, 0 before its first use; see `meter.rs`.
        pub centre: GcCell<usize>,
    }
}

traced! {
    /// A captured continuation: the stack below the call, and the dynamic state.
    #[repr(C)]
    pub struct Continuation {
        pub head: u64,
        pub stack: Gc<Array<Value>>,
        pub resume: Value,
        pub handlers: Value,
        pub winders: Value,
        /// The top-level forms after the form that captured the continuation.
        pub forms: Value,
        /// While the program is profiled: for each waiting call, the cost centre stack that the program returns to; see `meter.rs`.
        pub stacks: Option<Gc<Array<u32>>>,
    }
}

traced! {
    /// Several values at once, or none.
    #[repr(C)]
    pub struct Values {
        pub head: u64,
        pub items: Gc<Array<Value>>,
    }
}

traced! {
    /// The object that `error` and the machine's own checks raise.
    #[repr(C)]
    pub struct Condition {
        pub head: u64,
        /// A symbol: `user`, `type`, `arity`, `range`, `unbound`, `arithmetic`, `recursion`, `memory`, `read`, `assert`.
        pub kind: Value,
        pub message: Value,
        pub irritants: Value,
        /// `file:line:column` as a string, or `#f`.
        pub place: Value,
        /// The name of the procedure in which the error occurred, or `#f`.
        pub procedure: Value,
        /// The calls that were waiting, as a list of strings.
        pub calls: Value,
    }
}

traced! {
    /// An active `guard`: the slot to which the stack is cut, and the dynamic state to restore.
    #[repr(C)]
    pub struct Try {
        pub head: u64,
        pub frame: usize,
        pub handler: Value,
        pub handlers: Value,
        pub winders: Value,
    }
}

traced! {
    /// An instance of a record type.
    #[repr(C)]
    pub struct Record {
        pub head: u64,
        pub kind: Gc<RecordType>,
        pub fields: Gc<Row>,
    }
}

traced! {
    /// A record type.
    #[repr(C)]
    pub struct RecordType {
        pub head: u64,
        pub name: Value,
        /// The names of the fields, a list of symbols.
        pub fields: Value,
    }
}

traced! {
    /// A promise: the value, or the procedure that computes it.
    #[repr(C)]
    pub struct Promise {
        pub head: u64,
        pub done: GcCell<Value>,
        pub value: GcCell<Value>,
    }
}

traced! {
    /// A `syntax-rules` transformer.
    #[repr(C)]
    pub struct Macro {
        pub head: u64,
        pub ellipsis: Value,
        pub literals: Value,
        /// A list of `(pattern template)`.
        pub rules: Value,
        /// `#t` if the macro was defined at top level; the free symbols of its template then refer to globals.
        pub toplevel: Value,
    }
}

traced! {
    /// A hash table: buckets of association lists. The head keeps 1 if keys are compared with `equal?`.
    #[repr(C)]
    pub struct Table {
        pub head: u64,
        pub buckets: GcCell<Gc<Row>>,
        pub count: GcCell<usize>,
    }
}

traced! {
    /// A string port. The head keeps 1 for input, 0 for output.
    #[repr(C)]
    pub struct Port {
        pub head: u64,
        /// Input: the string that is read. Output: the strings written so far, the last one first.
        pub text: GcCell<Value>,
        /// Input: the number of bytes read.
        pub position: GcCell<usize>,
    }
}

impl Pair {
    /// Line and column of the opening parenthesis; (0, 0) for a pair that did not come from a file.
    pub fn place(&self) -> (u32, u32) {
        ((self.head >> 32) as u32, (self.head >> 8) as u32 & 0xff_ffff)
    }
}

impl Symbol {
    /// Bit of `flags`: the program defines or assigns this global, so calls must look it up.
    pub const USER_DEFINED: usize = 1 << 8;
    /// Bit of `flags`: an alias from a top-level macro, which sees the global variables only.
    pub const MEANS_GLOBAL: usize = 1 << 9;

    pub fn number(&self) -> u32 {
        (self.head >> 8) as u32
    }

    pub fn text(&self) -> &str {
        utf8(&self.name)
    }

    /// Returns the symbol in the text of the program: the original, if macros renamed this symbol; otherwise this symbol.
    pub(super) fn base(mut symbol: Gc<Self>) -> Gc<Self> {
        while let Some(original) = symbol.alias_of.get::<Self>() {
            symbol = original;
        }
        symbol
    }

    /// Returns the code of the special form that this symbol names, or 0.
    pub fn special(&self) -> u8 {
        self.flags.get() as u8
    }
}

impl Text {
    pub fn text(&self) -> &str {
        let bytes = self.bytes.get();
        // `self` keeps the array alive until it is replaced, which only this thread can do.
        let slice: &[u8] = &bytes;
        // SAFETY: the slice lies in the heap, not in the local handle; the object that owns it is reachable from
        // `self` until `string-set!` and the like replace it, which this thread does only between primitives'
        // borrows, and even then the interior pointer on this stack keeps the array (`.stop.interior`).
        utf8(unsafe { std::slice::from_raw_parts(slice.as_ptr(), slice.len()) })
    }
}

impl Code {
    pub fn required(&self) -> usize {
        (self.head >> 8 & 0xffff) as usize
    }

    pub fn has_rest(&self) -> bool {
        self.head >> 24 & 1 == 1
    }

    /// Returns the line and column of the word at or before `pc`.
    pub fn place(&self, pc: usize) -> Option<(u32, u32)> {
        let entries = self.places.chunks_exact(3);
        entries.take_while(|e| e[0] as usize <= pc).last().map(|e| (e[1], e[2])).filter(|&(line, _)| line > 0)
    }
}

/// Returns the text of bytes that were copied from a `str`.
fn utf8(bytes: &[u8]) -> &str {
    // SAFETY: every constructor of `Text` and `Symbol` copies the bytes of a `str`, and nothing writes into them.
    unsafe { std::str::from_utf8_unchecked(bytes) }
}
