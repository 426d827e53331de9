//! Frames, and the array that they lie in.
//!
//! The array begins small and doubles; a frame's room is checked once, when its procedure is called. At its end
//! some slots are kept back: when a recursion went too deep, handlers get them to run in.
//!
//! Slots above the stack pointer keep what was last in them and would keep it alive, so the machine clears the part
//! that was in use every few thousand calls; those are also the moments at which it looks whether the host wants it
//! to end.

use stopworld::Gc;

use super::error::{Outcome, Trouble};
use super::objects::{Closure, Code};
use super::registers::Vm;
use super::value::Value;

/// How often the machine looks at things that can wait.
const CALLS_BETWEEN_CHORES: u32 = 4096;

/// What is left for handlers when the recursion has gone too deep.
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

    /// The arguments beyond the required ones become a list, or there are too many or too few.
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
        // With an empty rest this is the slot above the arguments, which every frame has.
        self.push(rest);
        Ok(())
    }

    /// Moves the procedure and its arguments from the top down over the running frame.
    #[inline(always)]
    pub fn replace_frame(&mut self, count: usize) {
        let (from, to) = (self.sp - count - 1, self.fp - 1);
        for i in 0..=count {
            self.stack[to + i].set(self.stack[from + i].get());
        }
        self.sp = to + count + 1;
    }

    /// Gives the value to whom waits below the frame at `base`. True if nobody does: the run is over.
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
        if self.calls >= CALLS_BETWEEN_CHORES { self.chores() } else { Ok(()) }
    }

    #[cold]
    #[inline(never)]
    fn chores(&mut self) -> Outcome<()> {
        self.calls = 0;
        self.clear_unused();
        self.out.flush_if_late(self.store.mutator)?;
        Ok(self.store.breathe()?)
    }

    /// Forgets what lies above the stack pointer. The frame's own room above `sp` is still needed as slots, not values.
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

    /// Makes the stack usable up to `slots`.
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

    /// Room for `count` more slots than are in use now.
    pub fn need(&mut self, count: usize) -> Outcome<()> {
        let closure = self.closure;
        if self.sp + count > self.high { self.reach(self.sp + count, &closure) } else { Ok(()) }
    }

    #[cold]
    fn too_deep(&mut self, closure: &Gc<Closure>, why: &str) -> Trouble {
        let frames = self.depth();
        self.reserve = 0;
        let name = super::printer::to_text(&self.store, closure.code.name, super::printer::Style::Display);
        let name = if closure.code.name.is_true() { name } else { "an unnamed procedure".to_owned() };
        let message = format!("recursion too deep in {name}: {frames} calls are waiting{why}");
        Trouble::Failure("recursion", message, None)
    }
}

impl Code {
    /// Whether a call with this many arguments is right.
    #[inline(always)]
    pub fn accepts(&self, count: usize) -> bool {
        count == self.required() || count > self.required() && self.has_rest()
    }
}

/// Where to go on in the caller: its pc and its fp, which is never 0 but for the outermost call.
#[inline(always)]
pub fn return_word(pc: usize, fp: usize) -> Value {
    Value::fixnum((pc << 32 | fp) as i64)
}

#[inline(always)]
pub fn caller_of(word: Value) -> (usize, usize) {
    let word = word.bits() >> 1;
    (word >> 32, word & 0xffff_ffff)
}
