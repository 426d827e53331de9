//! The expander: converts data to the tree.
//!
//! A symbol in head position may be a local variable, a local or global macro, a special form, or a global variable;
//! `lookup` determines the meaning, from the innermost scope outwards. Symbols that a macro's template introduced are *aliases*: they are
//! bound under their own identity, so that they cannot collide with the program's names. If nothing binds them, they
//! have the meaning of the symbol in the template (`macros.rs` describes how they are created).
//!
//! Calls to built-in procedures become [`Node::Primitive`] unless the program defines or assigns that name anywhere
//! in its file; the file's top-level definitions are searched before any form is compiled.

use stopworld::Gc;

use super::builtins;
use super::error::SyntaxError;
use super::objects::{Macro, Pair, Symbol};
use super::special::Special;
use super::store::{Store, elements, list_length};
use super::tree::{At, Body, Constant, Lambda, Node, Pool, Returns, Variable, VariableId};
use super::value::Value;

/// The expander's result.
pub type Expand<T = Node> = Result<T, SyntaxError>;

/// The binding of a symbol in a scope.
#[derive(Clone, Copy)]
pub enum Binding {
    Variable(VariableId),
    /// The macro is in the pool.
    Macro(Constant),
}

/// The meaning of a symbol at a point of the program.
pub enum Meaning {
    Local(VariableId),
    Macro(Gc<Macro>),
    Special(Special),
    Global(Gc<Symbol>),
}

/// The compiler's state for one top-level form.
pub struct Expander<'m> {
    pub store: Store<'m>,
    pub pool: Gc<Pool>,
    pub variables: Vec<Variable>,
    /// Bindings by symbol number, the innermost last.
    pub scopes: Vec<(u32, Binding)>,
    /// The place of the form that is being expanded.
    pub at: At,
    /// Whether the form belongs to the prelude, whose references to built-ins are fixed: definitions of the program do not change them.
    pub prelude: bool,
}

impl<'m> Expander<'m> {
    pub fn new(store: Store<'m>, prelude: bool) -> Expand<Self> {
        let pool = Pool::make(&store)?;
        Ok(Self { store, pool, variables: Vec::new(), scopes: Vec::new(), at: (0, 0), prelude })
    }

    /// Returns a syntax error at the current form.
    pub fn wrong<T>(&self, message: impl Into<String>) -> Expand<T> {
        Err(SyntaxError::Syntax { at: self.at, message: message.into(), incomplete: false })
    }

    pub fn constant(&mut self, value: Value) -> Expand {
        if let Some(n) = value.as_fixnum()
            && (-(1 << 23)..1 << 23).contains(&n)
        {
            return Ok(Node::Integer(n as i32));
        }
        Ok(Node::Constant(self.pool.push(&self.store, value)?))
    }

    pub fn variable(&mut self) -> VariableId {
        self.variables.push(Variable {
            mutated: false,
            boxed: false,
            pending: false,
            function: 0,
            slot: 0,
            is_loop: false,
        });
        self.variables.len() - 1
    }

    /// Binds a symbol to a new variable in the innermost scope.
    pub fn bind(&mut self, name: Value) -> Expand<VariableId> {
        let Some(symbol) = name.get::<Symbol>() else {
            return self.wrong(format!("expected a variable's name, found {}", self.show(name)));
        };
        let variable = self.variable();
        self.scopes.push((symbol.number(), Binding::Variable(variable)));
        Ok(variable)
    }

    pub fn show(&self, value: Value) -> String {
        super::printer::brief(&self.store, value)
    }

    pub fn lookup(&self, mut symbol: Gc<Symbol>) -> Meaning {
        loop {
            let number = symbol.number();
            match self.scopes.iter().rev().find(|(bound, _)| *bound == number) {
                Some((_, Binding::Variable(variable))) => return Meaning::Local(*variable),
                Some((_, Binding::Macro(constant))) => {
                    if let Some(found) = self.pool.get(*constant).get::<Macro>() {
                        return Meaning::Macro(found);
                    }
                }
                None => {}
            }
            match symbol.alias_of.get::<Symbol>() {
                Some(original) if symbol.flags.get() & Symbol::MEANS_GLOBAL == 0 => symbol = original,
                _ => break,
            }
        }
        let symbol = Symbol::base(symbol);
        if symbol.flags.get() & Symbol::USER_DEFINED == 0
            && let Some(special) = Special::of_code(symbol.special())
        {
            return Meaning::Special(special);
        }
        match symbol.value.get().get::<Macro>() {
            Some(found) => Meaning::Macro(found),
            None => Meaning::Global(symbol),
        }
    }

    /// Returns whether a value is the symbol of this special form, or an auxiliary keyword, not shadowed by a variable.
    pub fn is_keyword(&self, value: Value, special: Special) -> bool {
        value.get::<Symbol>().is_some_and(|s| matches!(self.lookup(s), Meaning::Special(found) if found == special))
    }

    /// Compiles an expression.
    pub fn expression(&mut self, mut form: Value) -> Expand {
        if !self.store.limit.has_room() {
            return self.wrong("the program is nested too deeply to be compiled");
        }
        loop {
            if let Some(symbol) = form.get::<Symbol>() {
                return self.reference(symbol);
            }
            let Some(pair) = form.get::<Pair>() else {
                return match form {
                    Value::NIL => self.wrong("() is not an expression; the empty list is written '()"),
                    _ => self.constant(form),
                };
            };
            let outer = self.at;
            if pair.place().0 > 0 {
                self.at = pair.place();
            }
            if list_length(form).is_none() {
                return self.wrong("a combination must be a proper list");
            }
            if let Some(head) = pair.car.get().get::<Symbol>() {
                match self.lookup(head) {
                    Meaning::Special(special) => {
                        let node = self.special(special, form)?;
                        self.at = outer;
                        return Ok(node);
                    }
                    Meaning::Macro(found) => {
                        form = self.expand_macro(found, form)?;
                        continue;
                    }
                    Meaning::Global(symbol) => {
                        let node = self.call_of_global(symbol, pair)?;
                        self.at = outer;
                        return Ok(node);
                    }
                    Meaning::Local(_) => {}
                }
            }
            let at = self.at;
            let procedure = self.expression(pair.car.get())?;
            let arguments = self.expressions(pair.cdr.get())?;
            self.at = outer;
            return Ok(Node::Call(Box::new(procedure), arguments, at, Returns::Maybe));
        }
    }

    /// Compiles the expressions of a list, in order.
    pub fn expressions(&mut self, list: Value) -> Expand<Vec<Node>> {
        elements(list).map(|form| self.expression(form)).collect()
    }

    fn reference(&mut self, symbol: Gc<Symbol>) -> Expand {
        match self.lookup(symbol) {
            Meaning::Local(variable) => Ok(Node::Reference(variable)),
            Meaning::Global(symbol) => self.global(symbol),
            Meaning::Macro(_) | Meaning::Special(_) => {
                self.wrong(format!("{} is syntax and has no value", Symbol::base(symbol).text()))
            }
        }
    }

    fn global(&mut self, symbol: Gc<Symbol>) -> Expand {
        let value = symbol.value.get();
        if self.prelude && value != Value::UNBOUND {
            return self.constant(value);
        }
        Ok(Node::Global(self.pool.push(&self.store, Value::object(symbol))?, self.at))
    }

    fn call_of_global(&mut self, symbol: Gc<Symbol>, form: Gc<Pair>) -> Expand {
        let at = self.at;
        let arguments = self.expressions(form.cdr.get())?;
        if symbol.flags.get() & Symbol::USER_DEFINED != 0 {
            return Ok(Node::Call(Box::new(self.global(symbol)?), arguments, at, Returns::Maybe));
        }
        if let Some(index) = symbol.value.get().as_primitive()
            && builtins::primitive(index).takes_inline(arguments.len())
        {
            return Ok(fold_arithmetic(index, arguments, at));
        }
        let never = matches!(symbol.text(), "error" | "raise" | "exit" | "%assertion-failed");
        let returns = if never { Returns::Never } else { Returns::Maybe };
        Ok(Node::Call(Box::new(self.global(symbol)?), arguments, at, returns))
    }

    /// Returns a call of a built-in procedure, for forms that expand into calls.
    pub fn primitive_call(&self, name: &'static str, arguments: Vec<Node>) -> Node {
        Node::Primitive(builtins::index_of(name), arguments, self.at)
    }

    /// Compiles `(lambda parameters body…)`.
    pub fn lambda(&mut self, name: Option<Value>, parameters: Value, body: Value) -> Expand {
        let at = self.at;
        let name = match name.and_then(|n| n.get::<Symbol>()) {
            Some(symbol) => Some(self.pool.push(&self.store, Value::object(Symbol::base(symbol)))?),
            None => None,
        };
        let mark = self.scopes.len();
        let mut bound = Vec::new();
        let mut list = elements(parameters);
        for parameter in list.by_ref() {
            if elements(parameters).take(bound.len()).any(|earlier| earlier == parameter) {
                return self.wrong(format!("the parameter {} appears twice", self.show(parameter)));
            }
            bound.push(self.bind(parameter)?);
        }
        let rest = list.rest() != Value::NIL;
        if rest {
            bound.push(self.bind(list.rest())?);
        }
        if bound.len() > 255 {
            return self.wrong("a procedure can have at most 255 parameters");
        }
        let body = self.body(body)?;
        self.scopes.truncate(mark);
        Ok(Node::Lambda(Box::new(Lambda { name, parameters: bound, rest, body, function: 0, at })))
    }

    /// Expands a body: definitions (found through `begin` and macros, and accepted anywhere), then expressions.
    ///
    /// All names are bound before any form is expanded, so the forms wait in a collected list:
    /// `(variable-index . expression)` for a definition, `(#f . expression)` otherwise.
    pub fn body(&mut self, forms: Value) -> Expand {
        if list_length(forms).is_none_or(|n| n == 0) {
            return self.wrong("a body needs at least one expression");
        }
        let outer = self.at;
        let mark = self.scopes.len();
        let mut waiting = Value::NIL;
        let mut variables = Vec::new();
        let mut pending = forms;
        while let Some(pair) = pending.get::<Pair>() {
            let form = self.expand_head(pair.car.get())?;
            pending = pair.cdr.get();
            if let Some((special, inner)) = self.definition_in(form) {
                match special {
                    Special::Begin => pending = self.splice(inner.cdr.get(), pending)?,
                    Special::DefineRecordType => {
                        let definitions = self.record_definitions(form)?;
                        pending = self.store.cons(definitions, pending)?;
                    }
                    Special::DefineSyntax => self.define_local_syntax(inner)?,
                    _ => {
                        let (name, value) = self.definition(form)?;
                        let variable = match self.bound_here(name, mark) {
                            Some(again) => again,
                            None => {
                                variables.push(self.bind(name)?);
                                self.variables.len() - 1
                            }
                        };
                        let entry = self.store.cons(Value::fixnum(variable as i64), value)?;
                        waiting = self.store.cons(entry, waiting)?;
                    }
                }
            } else {
                let entry = self.store.cons(Value::FALSE, form)?;
                waiting = self.store.cons(entry, waiting)?;
            }
        }
        let node = self.body_items(variables, waiting)?;
        self.scopes.truncate(mark);
        self.at = outer;
        Ok(node)
    }

    fn bound_here(&self, name: Value, mark: usize) -> Option<VariableId> {
        let number = name.get::<Symbol>()?.number();
        self.scopes[mark..].iter().find_map(|entry| match entry {
            (bound, Binding::Variable(variable)) if *bound == number => Some(*variable),
            _ => None,
        })
    }

    fn body_items(&mut self, variables: Vec<VariableId>, waiting: Value) -> Expand {
        let mut items = Vec::new();
        let forms = super::builtins::lists::reversed(&self.store, waiting)?;
        for entry in elements(forms).filter_map(|e| e.get::<Pair>()) {
            let variable = entry.car.get().as_index();
            items.push((variable, self.expression(entry.cdr.get())?));
        }
        if !matches!(items.last(), Some((None, _))) {
            let nothing = self.constant(Value::UNSPECIFIED)?;
            items.push((None, nothing));
        }
        if variables.is_empty() {
            let mut nodes: Vec<Node> = items.into_iter().map(|(_, node)| node).collect();
            return Ok(if nodes.len() == 1 { nodes.remove(0) } else { Node::Sequence(nodes) });
        }
        Ok(Node::Body(Box::new(Body { variables, items })))
    }

    /// Expands macros at the head of a form until it is something else.
    pub fn expand_head(&mut self, mut form: Value) -> Expand<Value> {
        while let Some(pair) = form.get::<Pair>()
            && let Some(head) = pair.car.get().get::<Symbol>()
            && let Meaning::Macro(found) = self.lookup(head)
        {
            if pair.place().0 > 0 {
                self.at = pair.place();
            }
            form = self.expand_macro(found, form)?;
        }
        Ok(form)
    }

    /// Returns the form if it is a definition, in a body or at top level, or a `begin` that may contain one.
    pub fn definition_in(&self, form: Value) -> Option<(Special, Gc<Pair>)> {
        let pair = form.get::<Pair>()?;
        let Meaning::Special(special) = self.lookup(pair.car.get().get::<Symbol>()?) else { return None };
        let defines = [Special::Begin, Special::Define, Special::DefineSyntax, Special::DefineRecordType];
        (defines.contains(&special) && list_length(form).is_some()).then_some((special, pair))
    }

    fn splice(&mut self, front: Value, back: Value) -> Expand<Value> {
        Ok(super::builtins::lists::appended(&self.store, front, back)?)
    }
}

/// Converts `(+ a b c)` to two additions of two numbers, which the machine does in place.
fn fold_arithmetic(index: usize, arguments: Vec<Node>, at: At) -> Node {
    if !matches!(builtins::primitive(index).name, "+" | "*" | "-") || arguments.len() < 3 {
        return Node::Primitive(index, arguments, at);
    }
    let mut rest = arguments.into_iter();
    let Some(first) = rest.next() else { return Node::Primitive(index, Vec::new(), at) };
    rest.fold(first, |sum, next| Node::Primitive(index, vec![sum, next], at))
}
