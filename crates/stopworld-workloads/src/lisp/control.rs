//! Calls that rearrange the stack: `apply`, continuations, leaving a `guard`, `eval`.
//!
//! All of them rearrange the stack so that an ordinary call follows, and then make that call; none
//! calls back into the machine. So a continuation may be captured anywhere and entered any number of times.
//!
//! A continuation is a copy of the part of the stack below the call that captured it, with the return word. It also contains
//! `dynamic-wind`'s list of open extents. If that list differs from the current one, the prelude's
//! `%throw` runs the thunks between them and then reinstates the continuation. A `guard` needs no copy: it is
//! active only inside its own extent, so its frame still exists, and leaving it cuts the stack back to that frame.

use stopworld::Gc;

use super::builtins::{self, Action, Control};
use super::error::{LispError, Outcome, PrimitiveError, SyntaxError};
use super::objects::{Closure, Continuation, Try, Values};
use super::registers::Vm;
use super::stack::caller_of;
use super::store::elements;
use super::value::{Kind, Value};

impl Vm<'_, '_> {
    /// Calls the procedure below the top `count` values. Its return word is on the stack already. Returns `Some` if the run is over.
    pub fn call(&mut self, mut count: usize) -> Outcome<Option<Value>> {
        loop {
            let base = self.sp - count;
            let callee = self.stack[base - 1].get();
            if let Some(closure) = callee.get::<Closure>() {
                self.enter(closure, base, count)?;
                return Ok(None);
            }
            if let Some(continuation) = callee.get::<Continuation>() {
                let value = self.top_as_one(count)?;
                if continuation.winders == self.winders {
                    return self.reinstate(continuation, value);
                }
                self.sp = base;
                self.stack[base - 1].set(self.store.machine.throw.get());
                self.need(2)?;
                self.push(callee);
                self.push(value);
                count = 2;
                continue;
            }
            let Some(index) = callee.as_primitive() else { return Err(self.not_applicable(callee)) };
            let primitive = builtins::primitive(index);
            self.primitive = index;
            if count < primitive.least || count > primitive.most {
                return Err(self.wrong_count(callee, count));
            }
            match primitive.action {
                Action::Plain(function) => {
                    let stack = self.stack;
                    let value = function(self, &stack[base..self.sp])?;
                    return Ok(self.return_to(base, value).then_some(value));
                }
                Action::Control(control) => match control {
                    Control::Apply => count = self.spread(base, count)?,
                    Control::ApplyValues => count = self.spread_values(base)?,
                    Control::CallCc => self.capture(base)?,
                    Control::Reinstate => {
                        let value = self.stack[base + 1].get();
                        let continuation = self.stack[base].get().get::<Continuation>();
                        let wrong = PrimitiveError::Type("a continuation", self.stack[base].get());
                        return self.reinstate(continuation.ok_or(wrong)?, value);
                    }
                    Control::Unwind => {
                        let guard = self.stack[base].get().get::<Try>();
                        let guard = guard.ok_or(PrimitiveError::Type("a guard", self.stack[base].get()))?;
                        self.unwind(guard, self.stack[base + 1].get());
                        count = 1;
                    }
                    Control::Eval => {
                        let form = self.stack[base].get();
                        let closure = super::compile(&self.store, form, (0, 0), Value::FALSE)
                            .map_err(PrimitiveError::from_syntax)?;
                        self.stack[base - 1].set(closure);
                        self.sp = base;
                        count = 0;
                    }
                },
            }
        }
    }

    /// Checks that a call is possible, before its caller's frame is discarded.
    pub fn check_applicable(&self, callee: Value, count: usize) -> Outcome<()> {
        if let Some(closure) = callee.get::<Closure>() {
            return if closure.code.accepts(count) { Ok(()) } else { Err(self.wrong_count(callee, count)) };
        }
        match callee.as_primitive().map(builtins::primitive) {
            Some(p) if count < p.least || count > p.most => Err(self.wrong_count(callee, count)),
            None if !callee.is::<Continuation>() => Err(self.not_applicable(callee)),
            _ => Ok(()),
        }
    }

    /// Combines the arguments of a continuation into the value that its receiver gets.
    fn top_as_one(&self, count: usize) -> Outcome {
        Ok(self.store.values(&self.stack[self.sp - count..self.sp])?)
    }

    /// Converts `(apply f a … list)` at `base` to a call of `f`. Returns the number of its arguments.
    fn spread(&mut self, base: usize, count: usize) -> Outcome<usize> {
        let list = self.stack[self.sp - 1].get();
        let Some(length) = super::store::list_length(list) else { return Err(PrimitiveError::Type("a list", list)) };
        for i in 0..count - 1 {
            self.stack[base - 1 + i].set(self.stack[base + i].get());
        }
        self.sp -= 2;
        self.need(length + 1)?;
        elements(list).for_each(|value| self.push(value));
        Ok(count - 2 + length)
    }

    /// Converts `(%apply-values f v)` to a call of `f` with the values in `v`.
    fn spread_values(&mut self, base: usize) -> Outcome<usize> {
        let (consumer, value) = (self.stack[base].get(), self.stack[base + 1].get());
        self.stack[base - 1].set(consumer);
        self.sp = base;
        let Some(values) = value.get::<Values>() else {
            self.push(value);
            return Ok(1);
        };
        self.need(values.items.len() + 1)?;
        values.items.iter().for_each(|&value| self.push(value));
        Ok(values.items.len())
    }

    /// Converts `(%call/cc f)` to a call of `f` with the continuation of the call.
    fn capture(&mut self, base: usize) -> Outcome<()> {
        let stack = self.store.fixed_row(base - 2, |i| self.stack[i].get())?;
        let continuation = self.store.object(Continuation {
            head: Kind::Continuation.head(0),
            stack,
            resume: self.stack[base - 2].get(),
            handlers: self.handlers,
            winders: self.winders,
            forms: self.store.machine.forms.get(),
            stacks: self.meter.capture(base - 2)?,
        })?;
        self.stack[base - 1].set(self.stack[base].get());
        self.stack[base].set(continuation);
        Ok(())
    }

    fn reinstate(&mut self, continuation: Gc<Continuation>, value: Value) -> Outcome<Option<Value>> {
        let saved = continuation.stack;
        if saved.len() > self.sp {
            self.need(saved.len() - self.sp + 1)?;
        }
        saved.iter().enumerate().for_each(|(i, &value)| self.stack[i].set(value));
        self.sp = saved.len();
        self.handlers = continuation.handlers;
        self.winders = continuation.winders;
        self.store.machine.forms.set(continuation.forms);
        self.meter.reinstate(continuation);
        let (pc, fp) = caller_of(continuation.resume);
        (self.pc, self.fp) = (pc, fp);
        if fp == 0 {
            return Ok(Some(value));
        }
        if let Some(closure) = self.stack[fp - 1].get().get::<Closure>() {
            self.closure = closure;
        }
        // Ensure that the stack has all the room that the frame may need.
        self.need(closure_room(self) + 1)?;
        self.push(value);
        Ok(None)
    }

    /// `(%unwind try object)`: replaces the frame of the `guard` by a call of its handler.
    pub fn unwind(&mut self, guard: Gc<Try>, object: Value) {
        self.handlers = guard.handlers;
        self.winders = guard.winders;
        self.fp = guard.frame;
        self.sp = guard.frame;
        self.meter.return_to(guard.frame - 2);
        self.stack[self.fp - 1].set(guard.handler);
        self.push(object);
    }

    #[cold]
    fn not_applicable(&self, callee: Value) -> PrimitiveError {
        let shown = super::printer::brief(&self.store, callee);
        PrimitiveError::Failure("type", format!("{shown} is not a procedure"), None)
    }

    #[cold]
    pub fn wrong_count(&self, callee: Value, count: usize) -> PrimitiveError {
        let (least, most, name) = match callee.get::<Closure>() {
            Some(closure) => {
                let required = closure.code.required();
                let most = if closure.code.has_rest() { usize::MAX } else { required };
                let name = closure.code.name;
                let unnamed = "an unnamed procedure".to_owned();
                (required, most, if name.is_true() { super::printer::brief(&self.store, name) } else { unnamed })
            }
            None => match callee.as_primitive().map(builtins::primitive) {
                Some(p) => (p.least, p.most, p.name.to_owned()),
                None => (0, 0, String::new()),
            },
        };
        let s = if least == 1 { "" } else { "s" };
        let expected = match most {
            _ if most == least => format!("{least} argument{s}"),
            usize::MAX => format!("at least {least} argument{s}"),
            _ => format!("{least} to {most} arguments"),
        };
        PrimitiveError::Failure("arity", format!("{name} expects {expected}, got {count}"), None)
    }
}

fn closure_room(vm: &Vm<'_, '_>) -> usize {
    (vm.fp + vm.closure.code.slots).saturating_sub(vm.sp)
}

impl PrimitiveError {
    /// Converts the syntax error of a form given to `eval`.
    fn from_syntax(error: SyntaxError) -> Self {
        match error {
            SyntaxError::Memory(error) => Self::Memory(error),
            SyntaxError::Syntax { message, .. } => Self::Failure("syntax", message, None),
        }
    }
}

impl From<std::io::Error> for PrimitiveError {
    fn from(error: std::io::Error) -> Self {
        LispError::from(error).into()
    }
}
