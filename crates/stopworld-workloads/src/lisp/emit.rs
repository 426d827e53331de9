//! The emitter: converts the tree to code.
//!
//! The emitter knows at each point how many values are on the stack above the frame pointer. So a local variable is the slot
//! to which its value was pushed, and no instruction allocates or frees it. The machine checks `slots`, the largest size of a
//! frame, once per call.

use stopworld::{Gc, GcCell};

use super::builtins;
use super::code::{Capture, Op};
use super::expand::Expand;
use super::objects::Code;
use super::resolve::Function;
use super::store::{Store, closure_of};
use super::tree::{At, Constant, Lambda, Let, Node, Pool, Returns, Variable, VariableId};
use super::value::{Kind, Value};

/// The number of slots that the machine may use on top of a frame, to call a handler.
const HEADROOM: usize = 8;

/// Converts trees to code objects, which are stored in the pool like all constants.
pub struct Emitter<'e, 'm> {
    store: Store<'m>,
    pool: Gc<Pool>,
    file: Value,
    variables: &'e mut [Variable],
    functions: &'e [Function],
}

/// A code object under construction.
struct Draft {
    function: usize,
    words: Vec<u32>,
    constants: Vec<Constant>,
    places: Vec<u32>,
    depth: usize,
    most: usize,
}

/// The use of the value of an expression.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    Push,
    Return,
}

impl<'e, 'm> Emitter<'e, 'm> {
    pub fn new(
        store: Store<'m>,
        pool: Gc<Pool>,
        file: Value,
        variables: &'e mut [Variable],
        functions: &'e [Function],
    ) -> Self {
        Self { store, pool, file, variables, functions }
    }

    /// Returns the code of a top-level form, as a procedure without parameters.
    pub fn toplevel(&mut self, node: &Node) -> Expand<Gc<Code>> {
        let mut draft = Draft::new(0, 0);
        // The form is not a tail call: its own frame shows the place of an error.
        self.node(&mut draft, node, Then::Push)?;
        draft.emit(Op::Return, 0);
        self.finish(draft, Value::FALSE, 0, false)
    }

    fn finish(&mut self, draft: Draft, name: Value, required: usize, rest: bool) -> Expand<Gc<Code>> {
        let mutator = self.store.mutator;
        let words = mutator.alloc_array(draft.words.len(), |i| draft.words[i])?;
        let places = mutator.alloc_array(draft.places.len(), |i| draft.places[i])?;
        let constants = self.store.fixed_row(draft.constants.len(), |i| self.pool.get(draft.constants[i]))?;
        Ok(mutator.alloc(Code {
            head: Kind::Code.head(u64::from(rest) << 16 | required as u64),
            words,
            constants,
            places,
            name,
            file: self.file,
            slots: draft.most + HEADROOM,
            centre: GcCell::new(0),
        })?)
    }

    fn lambda_code(&mut self, lambda: &Lambda) -> Expand<Gc<Code>> {
        let count = lambda.parameters.len();
        let mut draft = Draft::new(lambda.function, count);
        for (slot, &v) in lambda.parameters.iter().enumerate() {
            self.variables[v].slot = slot;
            if self.variables[v].boxed {
                draft.emit(Op::MakeBox, slot);
            }
        }
        draft.place(lambda.at);
        self.node(&mut draft, &lambda.body, Then::Return)?;
        let name = lambda.name.map_or(Value::FALSE, |name| self.pool.get(name));
        self.finish(draft, name, count - usize::from(lambda.rest), lambda.rest)
    }

    fn node(&mut self, draft: &mut Draft, node: &Node, then: Then) -> Expand<()> {
        match node {
            Node::Constant(constant) => draft.emit_constant(Op::Constant, *constant, 1),
            Node::Integer(n) => {
                draft.emit(Op::Integer, (*n as u32 & 0xff_ffff) as usize);
                draft.pushed(1);
            }
            Node::Reference(variable) => self.read(draft, *variable),
            Node::Global(constant, at) => {
                draft.place(*at);
                draft.emit_constant(Op::Global, *constant, 1);
            }
            Node::Assign(variable, value) => {
                self.node(draft, value, Then::Push)?;
                self.write(draft, *variable);
                self.unspecified(draft)?;
            }
            Node::AssignGlobal(constant, value, at) => {
                self.node(draft, value, Then::Push)?;
                draft.place(*at);
                draft.emit_constant(Op::SetGlobal, *constant, 0);
                draft.popped(1);
                self.unspecified(draft)?;
            }
            Node::Define(constant, value) => {
                self.node(draft, value, Then::Push)?;
                draft.emit_constant(Op::DefineGlobal, *constant, 0);
            }
            Node::If(parts) => return self.choice(draft, parts, then),
            Node::Or(parts) => return self.either(draft, parts, then),
            Node::Sequence(nodes) => {
                if let Some((last, before)) = nodes.split_last() {
                    self.for_effect(draft, before)?;
                    return self.node(draft, last, then);
                }
            }
            Node::Lambda(lambda) => self.closure(draft, lambda)?,
            Node::Let(form) => return self.bindings(draft, form, then),
            Node::Body(body) => {
                for &v in &body.variables {
                    let unassigned = self.pool.push(&self.store, Value::UNASSIGNED)?;
                    let slot = draft.depth;
                    self.variables[v].slot = slot;
                    draft.emit_constant(Op::Constant, unassigned, 1);
                    if self.variables[v].boxed {
                        draft.emit(Op::MakeBox, slot);
                    }
                }
                let (before, last) = body.items.split_at(body.items.len() - 1);
                for (target, node) in before {
                    match target {
                        Some(v) => {
                            self.node(draft, node, Then::Push)?;
                            self.write(draft, *v);
                        }
                        None => self.for_effect(draft, std::slice::from_ref(node))?,
                    }
                }
                self.node(draft, &last[0].1, then)?;
                draft.slide(body.variables.len(), then);
                return Ok(());
            }
            Node::Primitive(index, arguments, at) => self.primitive(draft, *index, arguments, *at)?,
            Node::Call(procedure, arguments, at, returns) => {
                if let Node::Reference(label) = **procedure
                    && self.variables[label].is_loop
                {
                    return self.again(draft, label, arguments);
                }
                let tail = then == Then::Return && *returns == Returns::Maybe;
                self.call(draft, procedure, arguments, *at, tail)?;
                if tail {
                    return Ok(());
                }
            }
        }
        if then == Then::Return {
            draft.emit(Op::Return, 0);
        }
        Ok(())
    }

    fn for_effect(&mut self, draft: &mut Draft, nodes: &[Node]) -> Expand<()> {
        for node in nodes {
            self.node(draft, node, Then::Push)?;
            draft.emit(Op::Pop, 0);
            draft.popped(1);
        }
        Ok(())
    }

    fn unspecified(&mut self, draft: &mut Draft) -> Expand<()> {
        let constant = self.pool.push(&self.store, Value::UNSPECIFIED)?;
        draft.emit_constant(Op::Constant, constant, 1);
        Ok(())
    }

    fn capture(&self, function: usize, variable: VariableId) -> Capture {
        if self.variables[variable].function == function {
            return Capture::Local(self.variables[variable].slot);
        }
        let function = &self.functions[function];
        if function.itself == Some(variable) {
            return Capture::Itself;
        }
        // The resolver has listed the variable among the captures, because this expression mentions it.
        let index = function.captures.iter().position(|&v| v == variable);
        Capture::Free(index.expect("the resolver lists every variable that a function captures"))
    }

    fn read(&mut self, draft: &mut Draft, variable: VariableId) {
        let boxed = self.variables[variable].boxed;
        match self.capture(draft.function, variable) {
            Capture::Local(slot) => draft.emit(if boxed { Op::LocalBox } else { Op::Local }, slot),
            Capture::Free(index) => draft.emit(if boxed { Op::FreeBox } else { Op::Free }, index),
            Capture::Itself => draft.emit(Op::Itself, 0),
        }
        draft.pushed(1);
    }

    fn write(&mut self, draft: &mut Draft, variable: VariableId) {
        let boxed = self.variables[variable].boxed;
        match self.capture(draft.function, variable) {
            Capture::Local(slot) => draft.emit(if boxed { Op::SetLocalBox } else { Op::SetLocal }, slot),
            // Only `set!` writes from another function, and then the variable is boxed and not `itself`.
            Capture::Free(index) => draft.emit(Op::SetFreeBox, index),
            Capture::Itself => draft.emit(Op::Halt, 0),
        }
        draft.popped(1);
    }

    fn choice(&mut self, draft: &mut Draft, [test, consequent, alternative]: &[Node; 3], then: Then) -> Expand<()> {
        self.node(draft, test, Then::Push)?;
        let to_alternative = draft.jump(Op::JumpIfFalse);
        draft.popped(1);
        let depth = draft.depth;
        self.node(draft, consequent, then)?;
        let to_end = (then == Then::Push).then(|| draft.jump(Op::Jump));
        draft.land(to_alternative);
        draft.depth = depth;
        self.node(draft, alternative, then)?;
        if let Some(jump) = to_end {
            draft.land(jump);
        }
        draft.depth = depth + 1;
        Ok(())
    }

    fn either(&mut self, draft: &mut Draft, [first, second]: &[Node; 2], then: Then) -> Expand<()> {
        self.node(draft, first, Then::Push)?;
        let to_end = draft.jump(Op::JumpIfTrueElsePop);
        draft.popped(1);
        let depth = draft.depth;
        self.node(draft, second, then)?;
        draft.land(to_end);
        draft.depth = depth + 1;
        if then == Then::Return {
            draft.emit(Op::Return, 0);
        }
        Ok(())
    }

    fn closure(&mut self, draft: &mut Draft, lambda: &Lambda) -> Expand<()> {
        let captures = &self.functions[lambda.function].captures;
        let words: Vec<u32> = captures.iter().map(|&v| self.capture(draft.function, v).word()).collect();
        let code = self.lambda_code(lambda)?;
        if words.is_empty() {
            let closure = closure_of(&self.store, code)?;
            draft.emit_constant(Op::Constant, self.pool.push(&self.store, closure)?, 1);
            return Ok(());
        }
        draft.emit_constant(Op::Closure, self.pool.push(&self.store, Value::object(code))?, 1);
        draft.words.push(words.len() as u32);
        draft.words.extend(words);
        Ok(())
    }

    fn bindings(&mut self, draft: &mut Draft, form: &Let, then: Then) -> Expand<()> {
        let base = draft.depth;
        for value in &form.values {
            self.node(draft, value, Then::Push)?;
        }
        for (i, &v) in form.variables.iter().enumerate() {
            self.variables[v].slot = base + i;
        }
        if let Some(label) = form.label {
            // The label records where its loop begins: the slot of the first variable, and the code after the initial values.
            self.variables[label].slot = base << 32 | draft.words.len();
        }
        for &v in &form.variables {
            if self.variables[v].boxed {
                draft.emit(Op::MakeBox, self.variables[v].slot);
            }
        }
        self.node(draft, &form.body, then)?;
        draft.slide(form.variables.len(), then);
        Ok(())
    }

    fn again(&mut self, draft: &mut Draft, label: VariableId, arguments: &[Node]) -> Expand<()> {
        let depth = draft.depth;
        for argument in arguments {
            self.node(draft, argument, Then::Push)?;
        }
        let start = self.variables[label].slot;
        draft.emit(Op::Again, arguments.len());
        draft.words.extend([(start >> 32) as u32, start as u32]);
        // This point is never reached, but the code that follows expects one value.
        draft.depth = depth + 1;
        Ok(())
    }

    fn primitive(&mut self, draft: &mut Draft, index: usize, arguments: &[Node], at: At) -> Expand<()> {
        for argument in arguments {
            self.node(draft, argument, Then::Push)?;
        }
        draft.place(at);
        let count = arguments.len();
        match Op::of_primitive(builtins::primitive(index).name, count) {
            Some(op) => draft.emit(op, index),
            None => draft.emit(Op::Primitive, index | count << 12),
        }
        draft.popped(count);
        draft.pushed(1);
        Ok(())
    }

    fn call(&mut self, draft: &mut Draft, procedure: &Node, arguments: &[Node], at: At, tail: bool) -> Expand<()> {
        let depth = draft.depth;
        match procedure {
            Node::Global(constant, place) if !tail => {
                draft.place(*place);
                draft.emit_constant(Op::FrameGlobal, *constant, 2);
            }
            _ => {
                if !tail {
                    draft.emit(Op::Frame, 0);
                    draft.pushed(1);
                }
                self.node(draft, procedure, Then::Push)?;
            }
        }
        for argument in arguments {
            self.node(draft, argument, Then::Push)?;
        }
        draft.place(at);
        draft.emit(if tail { Op::TailCall } else { Op::Call }, arguments.len());
        draft.depth = depth + 1;
        Ok(())
    }
}

impl Draft {
    fn new(function: usize, depth: usize) -> Self {
        Self { function, words: Vec::new(), constants: Vec::new(), places: Vec::new(), depth, most: depth }
    }

    fn emit(&mut self, op: Op, operand: usize) {
        self.words.push(op.word(operand));
    }

    fn emit_constant(&mut self, op: Op, constant: Constant, pushes: usize) {
        self.constants.push(constant);
        self.emit(op, self.constants.len() - 1);
        self.pushed(pushes);
    }

    fn pushed(&mut self, count: usize) {
        self.depth += count;
        self.most = self.most.max(self.depth);
    }

    fn popped(&mut self, count: usize) {
        self.depth -= count;
    }

    /// Records the place in the source of the next word.
    fn place(&mut self, (line, column): At) {
        if self.places.len() < 3 || self.places[self.places.len() - 2..] != [line, column] {
            self.places.extend([self.words.len() as u32, line, column]);
        }
    }

    fn jump(&mut self, op: Op) -> usize {
        self.emit(op, 0);
        self.words.len() - 1
    }

    /// Sets the target of the jump at this index to the next word.
    fn land(&mut self, jump: usize) {
        self.words[jump] |= (self.words.len() as u32) << 8;
    }

    /// Drops `count` values below the result, if the values below it are used later.
    fn slide(&mut self, count: usize, then: Then) {
        if then == Then::Push && count > 0 {
            self.emit(Op::Slide, count);
            self.depth -= count;
        }
    }
}
