//! Allocation of cells, the symbol table, and the limit of the Rust stack.
//!
//! All state that a program needs between two top-level forms is reachable from one collected object, the [`Machine`].
//! The [`Interpreter`](super::Interpreter) holds a `Root` of this object, and nothing else in this folder lives longer than a call.
//! The reader, the compiler and the running machine pass a [`Store`] to each other: it is `Copy` and stays on the Rust
//! stack, which the collector scans.

use stopworld::{Array, Gc, GcCell, Mutator, OutOfMemory, traced};
use stopworld_platform::sync::{AtomicBool, Ordering};

use super::error::LispError;
use super::objects::{Boxed, Code, Flonum, Pair, Row, Symbol, Text, Values, Vector};
use super::value::{Kind, Object, Value};

traced! {
    /// The state of one interpreter: its symbols (and in them its global variables) and its stack.
    pub struct Machine {
        pub stack: GcCell<Gc<Row>>,
        /// The symbol table: a hash table with open addressing. Its length is a power of two; free entries are `#f`.
        pub symbols: GcCell<Gc<Row>>,
        pub symbol_count: GcCell<usize>,
        /// The number of symbols created, interned or not.
        pub symbol_numbers: GcCell<usize>,
        /// The prelude's procedures that the machine itself calls.
        pub raise: GcCell<Value>,
        pub throw: GcCell<Value>,
        /// The condition that is raised when there is no memory for a new condition.
        pub out_of_memory: GcCell<Value>,
        /// `#t` after the prelude has been run.
        pub ready: GcCell<Value>,
        /// The destination of `display`: `#t` for the host's sink, or a port.
        pub output: GcCell<Value>,
        /// The top-level forms that are still to be evaluated: part of every continuation.
        pub forms: GcCell<Value>,
        /// The state of `random`.
        pub random: GcCell<usize>,
    }
}

/// Allocation, symbols and the stack's limit.
#[derive(Clone, Copy)]
pub struct Store<'m> {
    pub mutator: &'m Mutator,
    pub machine: Gc<Machine>,
    pub limit: StackLimit,
    /// Returns the name of the primitive with an index. This is a function pointer because this file must not depend on the files of the
    /// primitives.
    pub primitive_name: fn(usize) -> &'static str,
    /// A flag that the host sets when the program must end.
    pub interrupt: &'m AtomicBool,
}

/// The result of an allocation.
pub type Allocated<T> = Result<T, OutOfMemory>;

const FIRST_SYMBOLS: usize = 2048;

impl Machine {
    pub fn make(mutator: &Mutator, stack_slots: usize) -> Allocated<Gc<Self>> {
        let stack = mutator.alloc_array(stack_slots, |_| GcCell::new(Value::UNSPECIFIED))?;
        let symbols = mutator.alloc_array(FIRST_SYMBOLS, |_| GcCell::new(Value::FALSE))?;
        mutator.name_object(stack, "Scheme stack");
        mutator.name_object(symbols, "Scheme symbols");
        mutator.alloc(Self {
            stack: GcCell::new(stack),
            symbols: GcCell::new(symbols),
            symbol_count: GcCell::new(0),
            symbol_numbers: GcCell::new(0),
            raise: GcCell::new(Value::FALSE),
            throw: GcCell::new(Value::FALSE),
            out_of_memory: GcCell::new(Value::FALSE),
            ready: GcCell::new(Value::FALSE),
            output: GcCell::new(Value::TRUE),
            forms: GcCell::new(Value::NIL),
            random: GcCell::new(0x9e37_79b9_7f4a_7c15),
        })
    }
}

impl Store<'_> {
    /// Polls for a safepoint and for the host's interrupt. Long work that does not allocate must call it.
    pub fn check_interrupt(&self) -> Result<(), LispError> {
        self.mutator.safepoint();
        if self.is_interrupted() { Err(LispError::Interrupted) } else { Ok(()) }
    }

    #[inline(always)]
    pub fn is_interrupted(&self) -> bool {
        self.interrupt.load(Ordering::Relaxed)
    }

    pub fn cons(&self, car: Value, cdr: Value) -> Allocated<Value> {
        self.cons_at(car, cdr, (0, 0))
    }

    /// Allocates a pair that records the place where it was read.
    #[inline]
    pub fn cons_at(&self, car: Value, cdr: Value, (line, column): (u32, u32)) -> Allocated<Value> {
        let head = Kind::Pair.head(u64::from(line) << 24 | u64::from(column & 0xff_ffff));
        Ok(Value::object(self.mutator.alloc(Pair { head, car: GcCell::new(car), cdr: GcCell::new(cdr) })?))
    }

    /// Allocates a list of these values that ends in `tail`.
    pub fn list_with(&self, items: &[Value], tail: Value) -> Allocated<Value> {
        items.iter().rev().try_fold(tail, |rest, &item| self.cons(item, rest))
    }

    pub fn list(&self, items: &[Value]) -> Allocated<Value> {
        self.list_with(items, Value::NIL)
    }

    #[inline]
    pub fn flonum(&self, value: f64) -> Allocated<Value> {
        Ok(Value::object(self.mutator.alloc(Flonum { head: Kind::Flonum.head(0), value })?))
    }

    pub fn bytes(&self, text: &str) -> Allocated<Gc<Array<u8>>> {
        let bytes = text.as_bytes();
        self.mutator.alloc_array(bytes.len(), |i| bytes[i])
    }

    pub fn string(&self, text: &str) -> Allocated<Value> {
        let bytes = GcCell::new(self.bytes(text)?);
        let chars = GcCell::new(text.chars().count());
        Ok(Value::object(self.mutator.alloc(Text { head: Kind::String.head(0), bytes, chars })?))
    }

    /// Replaces the contents of an existing string.
    pub fn replace_text(&self, string: Gc<Text>, text: &str) -> Allocated<()> {
        let bytes = self.bytes(text)?;
        string.chars.set(text.chars().count());
        string.bytes.set(bytes);
        Ok(())
    }

    pub fn row(&self, len: usize, mut item: impl FnMut(usize) -> Value) -> Allocated<Gc<Row>> {
        self.mutator.alloc_array(len, |i| GcCell::new(item(i)))
    }

    pub fn fixed_row(&self, len: usize, item: impl FnMut(usize) -> Value) -> Allocated<Gc<Array<Value>>> {
        self.mutator.alloc_array(len, item)
    }

    pub fn vector(&self, len: usize, item: impl FnMut(usize) -> Value) -> Allocated<Value> {
        let items = self.row(len, item)?;
        self.object(Vector { head: Kind::Vector.head(0), items })
    }

    /// Combines several values into one object; returns a single value as it is.
    pub fn values(&self, items: &[GcCell<Value>]) -> Allocated<Value> {
        if let [one] = items {
            return Ok(one.get());
        }
        let items = self.fixed_row(items.len(), |i| items[i].get())?;
        self.object(Values { head: Kind::Values.head(0), items })
    }

    pub fn boxed(&self, value: Value) -> Allocated<Value> {
        self.object(Boxed { head: Kind::Box.head(0), value: GcCell::new(value) })
    }

    #[inline]
    pub fn object<T: Object>(&self, object: T) -> Allocated<Value> {
        Ok(Value::object(self.mutator.alloc(object)?))
    }

    /// Returns the symbol with this name.
    pub fn intern(&self, name: &str) -> Allocated<Gc<Symbol>> {
        let table = self.machine.symbols.get();
        let mask = table.len() - 1;
        let mut at = hash(name.as_bytes()) & mask;
        while let Some(symbol) = table[at].get().get::<Symbol>() {
            if symbol.text() == name {
                return Ok(symbol);
            }
            at = (at + 1) & mask;
        }
        let symbol = self.fresh_symbol(name, Value::FALSE)?;
        table[at].set(Value::object(symbol));
        let count = self.machine.symbol_count.get() + 1;
        self.machine.symbol_count.set(count);
        if count * 2 > table.len() {
            self.grow_symbols(&table)?;
        }
        Ok(symbol)
    }

    pub fn symbol(&self, name: &str) -> Allocated<Value> {
        self.intern(name).map(Value::object)
    }

    fn grow_symbols(&self, old: &[GcCell<Value>]) -> Allocated<()> {
        let table = self.row(old.len() * 2, |_| Value::FALSE)?;
        let mask = table.len() - 1;
        for symbol in old.iter().filter_map(|slot| slot.get().get::<Symbol>()) {
            let mut at = hash(symbol.text().as_bytes()) & mask;
            while table[at].get().is_true() {
                at = (at + 1) & mask;
            }
            table[at].set(Value::object(symbol));
        }
        self.machine.symbols.set(table);
        Ok(())
    }

    /// Allocates an uninterned symbol: a macro's renaming of `alias_of`, or (if that is `#f`) a generated symbol.
    pub fn fresh_symbol(&self, name: &str, alias_of: Value) -> Allocated<Gc<Symbol>> {
        let number = self.machine.symbol_numbers.get() + 1;
        self.machine.symbol_numbers.set(number);
        let name = self.bytes(name)?;
        self.mutator.alloc(Symbol {
            head: Kind::Symbol.head(number as u64),
            name,
            value: GcCell::new(Value::UNBOUND),
            alias_of,
            flags: GcCell::new(0),
        })
    }
}

/// FNV-1a hash: suits short names, needs no state, and gives the same values in each run.
pub fn hash(bytes: &[u8]) -> usize {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, &b| (h ^ usize::from(b)).wrapping_mul(0x100_0000_01b3))
}

/// An iterator over a list's elements. Stops at anything that is not a pair; see [`Elements::rest`].
#[derive(Clone, Copy)]
pub struct Elements {
    rest: Value,
}

/// Iterates over a list.
pub fn elements(list: Value) -> Elements {
    Elements { rest: list }
}

impl Elements {
    /// Returns the rest of the list: `()` at the end of a proper list.
    pub fn rest(&self) -> Value {
        self.rest
    }
}

impl Iterator for Elements {
    type Item = Value;

    fn next(&mut self) -> Option<Value> {
        let pair = self.rest.get::<Pair>()?;
        self.rest = pair.cdr.get();
        Some(pair.car.get())
    }
}

/// Returns the length of a proper list, or `None` for anything else, including circular lists.
pub fn list_length(list: Value) -> Option<usize> {
    let (mut slow, mut walk) = (elements(list), elements(list));
    let mut length = 0;
    while walk.next().is_some() {
        length += 1;
        if length % 2 == 0 {
            slow.next();
            if slow.rest() == walk.rest() && walk.rest().is::<Pair>() {
                return None;
            }
        }
    }
    (walk.rest() == Value::NIL).then_some(length)
}

/// The limit of Rust's recursion on this thread: reader, compiler, printer and `equal?` follow nested data.
///
/// Scheme's own recursion does not use the Rust stack at all; see `machine.rs`.
#[derive(Clone, Copy)]
pub struct StackLimit {
    lowest: usize,
}

/// The reserve for the collector's signal handler with its signal frame, and for called functions.
const MARGIN: usize = 192 << 10;

impl StackLimit {
    /// Returns the limit for the calling thread, from the actual bounds of its stack.
    pub fn of_this_thread() -> std::io::Result<Self> {
        let bounds = stopworld_platform::os::thread::current_stack()?;
        Ok(Self { lowest: bounds.low + MARGIN })
    }

    /// Returns whether there is room for another level of recursion.
    #[inline]
    pub fn has_room(self) -> bool {
        let here = 0_u8;
        &raw const here as usize > self.lowest
    }
}

/// Allocates a closure for code without free variables.
pub fn closure_of(store: &Store<'_>, code: Gc<Code>) -> Allocated<Value> {
    store.object(super::objects::Closure { head: Kind::Closure.head(0), code, free: None })
}
