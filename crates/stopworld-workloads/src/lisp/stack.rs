//! Frames, and the array that contains them.
//!
//! The array begins small and doubles. The room for a frame is checked once, when its procedure is called. Some slots at the
//! end are reserved for the handlers of the error "recursion too deep".
//!
//! Slots above the stack pointer still contain their last values, which would keep objects alive. So every few thousand calls the machine
//! clears the slots that were in use; at the same time it checks whether the host has requested the end of the program.

use stopworld::Gc;

use super::error::{Outcome, PrimitiveError};
use super::objects::{Closure, Code};
use super::registers::Vm;
use super::value::Value;

/// The number of calls between two periodic checks.
const CALLS_BETWEEN_CHORES: u32 = 4096;

/// The number of slots reserved for handlers after a too deep recursion.
pub const RESERVE: usize = 512;

impl Vm<'_, '_> {
    /// Starts a closure whose `count` arguments begin at `base`.
    #[inline(always)]
    pub fn enter(&mut self, closure: Gc<Closure>, base: usize, count: usize) -> Outcome<()> {
        let code = closure.code;
        let required = code.required();
        if count != required || code.has_rest() {
            self.gather_rest(closure, count)?;
        }
        if base + code.slots > self.high {
            self.reach(base + code.slots, &closure)?;
        }
        self.closure = closure;
        self.fp = base;
        self.pc = 0;
        self.meter.enter(&code, base - 2);
        self.poll()
    }

    /// Collects the arguments beyond the required ones into a list. Fails if there are too many or too few.
    #[inline(never)]
    fn gather_rest(&mut self, closure: Gc<Closure>, count: usize) -> Outcome<()> {
        if !closure.code.accepts(count) {
            return Err(self.wrong_count(Value::object(closure), count));
        }
        let mut rest = Value::NIL;
        for _ in closure.code.required()..count {
            let value = self.pop();
            rest = self.store.cons(value, rest)?;
        }
        // If the rest is empty, it is pushed to the slot above the arguments, which every frame has.
        self.push(rest);
        Ok(())
    }

    /// Moves the procedure and its arguments from the top of the stack down over the running frame.
    #[inline(always)]
    pub fn replace_frame(&mut self, count: usize) {
        let (from, to) = (self.sp - count - 1, self.fp - 1);
        for i in 0..=count {
            self.stack[to + i].set(self.stack[from + i].get());
        }
        self.sp = to + count + 1;
    }

    /// Returns from the frame at `base`, with the top value, to the caller below it. Returns `true` if there is no caller, so that the run
    /// is over.
    #[inline(always)]
    pub fn return_to(&mut self, base: usize, value: Value) -> bool {
        let (pc, fp) = caller_of(self.stack[base - 2].get());
        self.sp = base - 2;
        (self.pc, self.fp) = (pc, fp);
        self.meter.return_to(base - 2);
        if fp == 0 {
            return true;
        }
        self.push(value);
        if let Some(closure) = self.stack[fp - 1].get().get::<Closure>() {
            self.closure = closure;
        }
        false
    }

    #[inline(always)]
    pub fn poll(&mut self) -> Outcome<()> {
        self.store.mutator.safepoint();
        self.calls += 1;
        // The interrupt is looked at for each call: when the heap is almost full, each call may collect.
        if self.calls >= CALLS_BETWEEN_CHORES || self.store.is_interrupted() { self.handle_requests() } else { Ok(()) }
    }

    #[cold]
    #[inline(never)]
    fn handle_requests(&mut self) -> Outcome<()> {
        self.calls = 0;
        self.clear_unused();
        self.out.flush_if_late(self.store.mutator)?;
        Ok(self.store.check_interrupt()?)
    }

    /// Clears the slots above the stack pointer. The frame may use these slots later, but it does not need their values.
    pub fn clear_unused(&mut self) {
        for slot in &self.stack[self.sp..self.high] {
            slot.set(Value::UNSPECIFIED);
        }
        let needed = self.fp + self.code().slots;
        self.high = needed.max(self.sp).min(self.stack.len());
        if self.sp < self.stack.len() / 2 {
            self.reserve = RESERVE;
        }
    }

    /// Makes the stack usable up to this number of slots.
    #[cold]
    #[inline(never)]
    fn reach(&mut self, slots: usize, closure: &Gc<Closure>) -> Outcome<()> {
        let needed = slots + self.reserve;
        if needed <= self.stack.len() {
            self.high = (slots + 64).min(self.stack.len() - self.reserve);
            return Ok(());
        }
        if needed > self.most_slots || self.reserve == 0 {
            return Err(self.too_deep(closure, ""));
        }
        let old = self.stack;
        let length = (old.len() * 2).max(needed).min(self.most_slots);
        let larger = self.store.row(length, |i| if i < self.sp { old[i].get() } else { Value::UNSPECIFIED });
        let Ok(larger) = larger else { return Err(self.too_deep(closure, ", and the heap has no room for more")) };
        self.stack = larger;
        self.store.machine.stack.set(larger);
        self.high = slots;
        Ok(())
    }

    /// Ensures that there is room for `count` more slots than are in use.
    pub fn need(&mut self, count: usize) -> Outcome<()> {
        let closure = self.closure;
        if self.sp + count > self.high { self.reach(self.sp + count, &closure) } else { Ok(()) }
    }

    #[cold]
    fn too_deep(&mut self, closure: &Gc<Closure>, why: &str) -> PrimitiveError {
        let frames = self.depth();
        self.reserve = 0;
        let name = super::printer::to_text(&self.store, closure.code.name, super::printer::Style::Display);
        let name = if closure.code.name.is_true() { name } else { "an unnamed procedure".to_owned() };
        let message = format!("recursion too deep in {name}: {frames} calls are waiting{why}");
        PrimitiveError::Failure("recursion", message, None)
    }
}

impl Code {
    /// Returns whether the procedure accepts this number of arguments.
    #[inline(always)]
    pub fn accepts(&self, count: usize) -> bool {
        count == self.required() || count > self.required() && self.has_rest()
    }
}

/// Encodes the place where the caller continues: its pc and its fp, which is 0 only for the outermost call.
#[inline(always)]
pub fn return_word(pc: usize, fp: usize) -> Value {
    Value::fixnum((pc << 32 | fp) as i64)
}

#[inline(always)]
pub fn caller_of(word: Value) -> (usize, usize) {
    let word = word.bits() >> 1;
    (word >> 32, word & 0xffff_ffff)
}
