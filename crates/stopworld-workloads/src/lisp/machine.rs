//! The machine: runs code on a stack that is a collected array.
//!
//! Scheme calls do not use the Rust stack. So recursion is limited by `most_slots` and by the heap, not by the
//! thread; a tail call needs no space; `call/cc` copies the array, and its continuation can be entered at any time; and the
//! collector finds every temporary of a stopped thread by tracing one object. The machine keeps its registers outside this
//! array, in [`Vm`] on the Rust stack, which is scanned conservatively.
//!
//! The machine polls for a safepoint at every call and at every iteration of a loop.

use stopworld::{Array, Gc};

use super::builtins::{self, Action};
use super::code::{Capture, Op};
use super::error::{LispError, Outcome, PrimitiveError};
use super::meter::Meter;
use super::objects::{Boxed, Closure, Code, Pair, Row, Symbol, Vector};
use super::output::Output;
use super::registers::Vm;
use super::stack::{RESERVE, return_word};
use super::store::Store;
use super::value::{Kind, Value};

/// The number of slots of a machine's first stack.
pub const FIRST_SLOTS: usize = 4096;

impl<'v, 'o> Vm<'v, 'o> {
    /// Creates a machine to run `closure`, a procedure without parameters.
    pub fn new(store: Store<'v>, out: &'v mut Output<'o>, closure: Gc<Closure>, most_slots: usize) -> Self {
        let stack = store.machine.stack.get();
        Self {
            store,
            out,
            stack,
            sp: 0,
            fp: 0,
            pc: 0,
            closure,
            handlers: Value::NIL,
            winders: Value::NIL,
            most_slots,
            reserve: RESERVE,
            high: 0,
            calls: 0,
            primitive: 0,
            memory: None,
            meter: Meter::new(store.mutator),
        }
    }

    /// Calls a procedure without arguments on an empty stack and runs until it returns.
    pub fn run(&mut self, closure: Gc<Closure>) -> Result<Value, LispError> {
        (self.sp, self.fp, self.pc) = (0, 0, 0);
        self.closure = closure;
        self.meter.call(0);
        self.push(Value::fixnum(0));
        self.push(Value::object(closure));
        let mut step = self.call(0);
        loop {
            let failure = match step {
                Ok(Some(value)) => return Ok(value),
                Ok(None) => match self.execute() {
                    Ok(value) => return Ok(value),
                    Err(failure) => failure,
                },
                Err(failure) => failure,
            };
            step = self.signal(failure).map(|()| Ok(None)).map_err(|error| *error)?;
        }
    }

    #[inline(always)]
    pub fn push(&mut self, value: Value) {
        self.stack[self.sp].set(value);
        self.sp += 1;
    }

    #[inline(always)]
    pub fn pop(&mut self) -> Value {
        self.sp -= 1;
        self.stack[self.sp].get()
    }

    #[inline(always)]
    fn top(&self) -> Value {
        self.stack[self.sp - 1].get()
    }

    #[inline(always)]
    fn set_top(&self, value: Value) {
        self.stack[self.sp - 1].set(value);
    }

    /// Replaces the top two values by one.
    #[inline(always)]
    fn combine(&mut self, value: Value) {
        self.sp -= 1;
        self.set_top(value);
    }

    #[inline(always)]
    pub fn code(&self) -> Gc<Code> {
        self.closure.code
    }

    #[inline(always)]
    fn constant(&self, index: usize) -> Value {
        self.closure.code.constants[index]
    }

    #[inline(always)]
    fn free(&self, index: usize) -> Value {
        // Code with `Free` operations runs only in closures that have a row of captured values.
        self.closure.free.map_or(Value::UNASSIGNED, |row| row[index])
    }

    #[inline(always)]
    pub fn words(&self) -> Gc<Array<u32>> {
        self.closure.code.words
    }

    /// Runs the interpreter's loop until the outermost frame returns, or an error occurs.
    fn execute(&mut self) -> Outcome {
        let mut words = self.words();
        loop {
            let word = words[self.pc];
            self.pc += 1;
            let a = (word >> 8) as usize;
            match Op::of(word) {
                Op::Constant => self.push(self.constant(a)),
                Op::Integer => self.push(Value::fixnum(i64::from(word as i32 >> 8))),
                Op::Local => self.push(self.stack[self.fp + a].get()),
                Op::SetLocal => {
                    let value = self.pop();
                    self.stack[self.fp + a].set(value);
                }
                Op::LocalBox => {
                    let value = self.unbox(self.stack[self.fp + a].get())?;
                    self.push(value);
                }
                Op::SetLocalBox => {
                    let value = self.pop();
                    set_box(self.stack[self.fp + a].get(), value);
                }
                Op::MakeBox => {
                    let slot = self.fp + a;
                    let boxed = self.store.boxed(self.stack[slot].get())?;
                    self.stack[slot].set(boxed);
                }
                Op::Free => self.push(self.free(a)),
                Op::FreeBox => {
                    let value = self.unbox(self.free(a))?;
                    self.push(value);
                }
                Op::SetFreeBox => {
                    let value = self.pop();
                    set_box(self.free(a), value);
                }
                Op::Itself => self.push(Value::object(self.closure)),
                Op::Global => {
                    let value = self.global(a)?;
                    self.push(value);
                }
                Op::FrameGlobal => {
                    let value = self.global(a)?;
                    self.sp += 1;
                    self.push(value);
                }
                Op::SetGlobal => self.set_global(a)?,
                Op::DefineGlobal => {
                    if let Some(symbol) = self.constant(a).get::<Symbol>() {
                        symbol.value.set(self.top());
                        self.set_top(Value::object(symbol));
                    }
                }
                Op::Pop => self.sp -= 1,
                Op::Slide => {
                    let value = self.top();
                    self.sp -= a;
                    self.set_top(value);
                }
                Op::Jump => self.pc = a,
                Op::JumpIfFalse => {
                    if !self.pop().is_true() {
                        self.pc = a;
                    }
                }
                Op::JumpIfTrueElsePop => {
                    if self.top().is_true() {
                        self.pc = a;
                    } else {
                        self.sp -= 1;
                    }
                }
                Op::Closure => self.make_closure(a)?,
                Op::Frame => self.sp += 1,
                Op::Call => {
                    let base = self.sp - a;
                    let callee = self.stack[base - 1].get();
                    if let Some(closure) = callee.get::<Closure>() {
                        self.stack[base - 2].set(return_word(self.pc, self.fp));
                        self.meter.call(base - 2);
                        self.enter(closure, base, a)?;
                        words = self.words();
                    } else if let Some(index) = callee.as_primitive()
                        && let Action::Plain(function) = builtins::primitive(index).action
                    {
                        let value = self.plain(index, function, a)?;
                        self.sp = base - 1;
                        self.set_top(value);
                    } else {
                        self.stack[base - 2].set(return_word(self.pc, self.fp));
                        self.meter.call(base - 2);
                        if let Some(value) = self.call(a)? {
                            return Ok(value);
                        }
                        words = self.words();
                    }
                }
                Op::TailCall => {
                    let base = self.sp - a;
                    let callee = self.stack[base - 1].get();
                    if let Some(closure) = callee.get::<Closure>()
                        && closure.code.accepts(a)
                    {
                        self.replace_frame(a);
                        self.enter(closure, self.fp, a)?;
                        words = self.words();
                    } else if let Some(index) = callee.as_primitive()
                        && let Action::Plain(function) = builtins::primitive(index).action
                    {
                        let value = self.plain(index, function, a)?;
                        if self.return_to(self.fp, value) {
                            return Ok(value);
                        }
                        words = self.words();
                    } else {
                        self.check_applicable(callee, a)?;
                        self.replace_frame(a);
                        if let Some(value) = self.call(a)? {
                            return Ok(value);
                        }
                        words = self.words();
                    }
                }
                Op::Return => {
                    let value = self.top();
                    if self.return_to(self.fp, value) {
                        return Ok(value);
                    }
                    words = self.words();
                }
                Op::Primitive => {
                    let (index, count) = (a & 0xfff, a >> 12);
                    if let Action::Plain(function) = builtins::primitive(index).action {
                        let value = self.plain(index, function, count)?;
                        self.sp -= count;
                        self.push(value);
                    }
                }
                Op::Again => {
                    let to = self.fp + words[self.pc] as usize;
                    let from = self.sp - a;
                    for i in 0..a {
                        self.stack[to + i].set(self.stack[from + i].get());
                    }
                    self.sp = to + a;
                    self.pc = words[self.pc + 1] as usize;
                    self.poll()?;
                }
                Op::Car => match self.top().get::<Pair>() {
                    Some(pair) => self.set_top(pair.car.get()),
                    None => self.slowly(a, 1)?,
                },
                Op::Cdr => match self.top().get::<Pair>() {
                    Some(pair) => self.set_top(pair.cdr.get()),
                    None => self.slowly(a, 1)?,
                },
                Op::Caar => match self.top().get::<Pair>().and_then(|p| p.car.get().get::<Pair>()) {
                    Some(pair) => self.set_top(pair.car.get()),
                    None => self.slowly(a, 1)?,
                },
                Op::Cadr => match self.top().get::<Pair>().and_then(|p| p.cdr.get().get::<Pair>()) {
                    Some(pair) => self.set_top(pair.car.get()),
                    None => self.slowly(a, 1)?,
                },
                Op::Cddr => match self.top().get::<Pair>().and_then(|p| p.cdr.get().get::<Pair>()) {
                    Some(pair) => self.set_top(pair.cdr.get()),
                    None => self.slowly(a, 1)?,
                },
                Op::Cons => {
                    let pair = self.store.cons(self.stack[self.sp - 2].get(), self.top())?;
                    self.combine(pair);
                }
                Op::IsNull => self.set_top(Value::bool(self.top() == Value::NIL)),
                Op::IsPair => self.set_top(Value::bool(self.top().is::<Pair>())),
                Op::Not => self.set_top(Value::bool(!self.top().is_true())),
                Op::IsEq => self.combine(Value::bool(self.stack[self.sp - 2].get() == self.top())),
                Op::Add => match self.two_fixnums().and_then(|(x, y)| small(x + y)) {
                    Some(sum) => self.combine(sum),
                    None => self.slowly(a, 2)?,
                },
                Op::Subtract => match self.two_fixnums().and_then(|(x, y)| small(x - y)) {
                    Some(difference) => self.combine(difference),
                    None => self.slowly(a, 2)?,
                },
                Op::Multiply => match self.two_fixnums().and_then(|(x, y)| x.checked_mul(y)).and_then(small) {
                    Some(product) => self.combine(product),
                    None => self.slowly(a, 2)?,
                },
                Op::Remainder => match self.two_fixnums() {
                    Some((x, y)) if y != 0 => self.combine(Value::fixnum(x % y)),
                    _ => self.slowly(a, 2)?,
                },
                Op::Quotient => match self.two_fixnums().filter(|&(_, y)| y != 0).and_then(|(x, y)| small(x / y)) {
                    Some(quotient) => self.combine(quotient),
                    None => self.slowly(a, 2)?,
                },
                Op::Equal => self.comparison(a, |x, y| x == y)?,
                Op::Less => self.comparison(a, |x, y| x < y)?,
                Op::Greater => self.comparison(a, |x, y| x > y)?,
                Op::LessOrEqual => self.comparison(a, |x, y| x <= y)?,
                Op::GreaterOrEqual => self.comparison(a, |x, y| x >= y)?,
                Op::VectorRef => match self.element(self.sp - 2) {
                    Some((items, i)) => self.combine(items[i].get()),
                    None => self.slowly(a, 2)?,
                },
                Op::VectorSet => match self.element(self.sp - 3) {
                    Some((items, i)) => {
                        items[i].set(self.top());
                        self.sp -= 2;
                        self.set_top(Value::UNSPECIFIED);
                    }
                    None => self.slowly(a, 3)?,
                },
                Op::Halt => return Err(PrimitiveError::Failure("machine", "invalid instruction".to_owned(), None)),
            }
        }
    }

    #[inline(always)]
    fn two_fixnums(&self) -> Option<(i64, i64)> {
        let (x, y) = (self.stack[self.sp - 2].get(), self.top());
        (x.bits() & y.bits() & 1 == 1).then(|| (x.bits() as i64 >> 1, y.bits() as i64 >> 1))
    }

    #[inline(always)]
    fn comparison(&mut self, primitive: usize, holds: fn(i64, i64) -> bool) -> Outcome<()> {
        match self.two_fixnums() {
            Some((x, y)) => {
                self.combine(Value::bool(holds(x, y)));
                Ok(())
            }
            None => self.slowly(primitive, 2),
        }
    }

    /// Returns the vector and the index in the stack's slots `at` and `at + 1`, if the index is valid.
    #[inline(always)]
    fn element(&self, at: usize) -> Option<(Gc<Row>, usize)> {
        let items = self.stack[at].get().get::<Vector>()?.items;
        let index = self.stack[at + 1].get().as_fixnum()? as usize;
        (index < items.len()).then_some((items, index))
    }

    /// Handles the uncommon case of an operation: calls the primitive, which performs it or returns the error.
    #[cold]
    #[inline(never)]
    fn slowly(&mut self, index: usize, count: usize) -> Outcome<()> {
        if let Action::Plain(function) = builtins::primitive(index).action {
            let value = self.plain(index, function, count)?;
            self.sp -= count;
            self.push(value);
        }
        Ok(())
    }

    /// Runs a primitive on the top `count` values, which stay on the stack.
    #[inline(always)]
    pub fn plain(&mut self, index: usize, function: builtins::Function, count: usize) -> Outcome {
        self.primitive = index;
        let primitive = builtins::primitive(index);
        if count < primitive.least || count > primitive.most {
            return Err(self.wrong_count(Value::primitive(index), count));
        }
        let stack = self.stack;
        function(self, &stack[self.sp - count..self.sp])
    }

    #[inline(always)]
    fn global(&self, constant: usize) -> Outcome {
        match self.constant(constant).get::<Symbol>() {
            Some(symbol) if symbol.value.get() != Value::UNBOUND => Ok(symbol.value.get()),
            _ => Err(self.unbound(constant)),
        }
    }

    #[cold]
    fn unbound(&self, constant: usize) -> PrimitiveError {
        let name = super::printer::brief(&self.store, self.constant(constant));
        PrimitiveError::Failure("unbound", format!("{name} is not defined"), None)
    }

    fn set_global(&mut self, constant: usize) -> Outcome<()> {
        self.global(constant)?;
        let value = self.pop();
        if let Some(symbol) = self.constant(constant).get::<Symbol>() {
            symbol.value.set(value);
        }
        Ok(())
    }

    fn unbox(&self, slot: Value) -> Outcome {
        match slot.get::<Boxed>().map(|b| b.value.get()) {
            Some(Value::UNASSIGNED) | None => {
                let message = "a variable of this body is used before its definition".to_owned();
                Err(PrimitiveError::Failure("unbound", message, None))
            }
            Some(value) => Ok(value),
        }
    }

    fn make_closure(&mut self, constant: usize) -> Outcome<()> {
        let words = self.words();
        let count = words[self.pc] as usize;
        let first = self.pc + 1;
        self.pc = first + count;
        let free = self.store.fixed_row(count, |i| match Capture::of(words[first + i]) {
            Capture::Local(slot) => self.stack[self.fp + slot].get(),
            Capture::Free(index) => self.free(index),
            Capture::Itself => Value::object(self.closure),
        })?;
        if let Some(code) = self.constant(constant).get::<Code>() {
            let closure = self.store.object(Closure { head: Kind::Closure.head(0), code, free: Some(free) })?;
            self.push(closure);
        }
        Ok(())
    }
}

#[inline(always)]
fn small(n: i64) -> Option<Value> {
    (Value::FIXNUM_MIN..=Value::FIXNUM_MAX).contains(&n).then(|| Value::fixnum(n))
}

fn set_box(slot: Value, value: Value) {
    if let Some(boxed) = slot.get::<Boxed>() {
        boxed.value.set(value);
    }
}
