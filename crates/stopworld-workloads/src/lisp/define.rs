//! Definitions: top-level forms, `define`, `define-record-type`, and the names that the program redefines.
//!
//! A name that the program defines or assigns at top level is *claimed* before any form of the file is compiled, so
//! that no call to it, not even one before the definition, is compiled as the built-in procedure with that name.

use stopworld::Gc;

use super::builtins::lists;
use super::expand::{Expand, Expander};
use super::forms::{car, cdr};
use super::objects::{Macro, Pair, Symbol};
use super::special::Special;
use super::store::{elements, list_length};
use super::tree::Node;
use super::value::Value;

impl Expander<'_> {
    /// Compiles a form at top level, which may be a definition.
    pub fn toplevel(&mut self, form: Value) -> Expand {
        let form = self.expand_head(form)?;
        let Some((special, pair)) = self.definition_in(form) else { return self.expression(form) };
        if pair.place().0 > 0 {
            self.at = pair.place();
        }
        match special {
            Special::Begin => {
                let mut nodes = elements(pair.cdr.get()).map(|f| self.toplevel(f)).collect::<Expand<Vec<_>>>()?;
                match nodes.len() {
                    0 => self.constant(Value::UNSPECIFIED),
                    1 => Ok(nodes.remove(0)),
                    _ => Ok(Node::Sequence(nodes)),
                }
            }
            Special::DefineRecordType => {
                let definitions = self.record_definitions(form)?;
                self.toplevel(definitions)
            }
            Special::DefineSyntax => {
                let arguments = pair.cdr.get();
                let Some(symbol) = car(arguments).get::<Symbol>().filter(|_| list_length(arguments) == Some(2)) else {
                    return self.wrong("expected (define-syntax name (syntax-rules …))");
                };
                let transformer = self.transformer(car(cdr(arguments)), Value::TRUE)?;
                let symbol = Symbol::base(symbol);
                if symbol.special() != 0 {
                    symbol.flags.set(symbol.flags.get() | Symbol::USER_DEFINED);
                }
                symbol.value.set(transformer);
                self.constant(Value::object(symbol))
            }
            _ => {
                let (name, value) = self.definition(form)?;
                let Some(symbol) = name.get::<Symbol>().map(Symbol::base) else {
                    return self.wrong(format!("expected a name to define, found {}", self.show(name)));
                };
                if !self.prelude {
                    claim(symbol);
                }
                let node = self.expression(value)?;
                let node = self.named(node, name)?;
                Ok(Node::Define(self.pool.push(&self.store, Value::object(symbol))?, Box::new(node)))
            }
        }
    }

    /// Returns the name and the expression of a `define`.
    pub fn definition(&mut self, form: Value) -> Expand<(Value, Value)> {
        let at = form.get::<Pair>().map_or(self.at, |pair| pair.place());
        if at.0 > 0 {
            self.at = at;
        }
        let arguments = cdr(form);
        let (mut target, body) = (car(arguments), cdr(arguments));
        if !target.is::<Pair>() {
            return match list_length(body) {
                Some(0) if target.is::<Symbol>() => Ok((target, self.unspecified_form()?)),
                Some(1) => Ok((target, car(body))),
                _ => self.wrong("expected (define name expression) or (define (name . parameters) body …)"),
            };
        }
        if body == Value::NIL {
            return self.wrong("a procedure's definition needs a body");
        }
        // (define ((f a) b) …) is (define (f a) (lambda (b) …)), as in older books.
        let mut body = body;
        while car(target).is::<Pair>() {
            let lambda = self.store.symbol("lambda")?;
            let inner = self.store.cons(lambda, self.store.cons(cdr(target), body)?)?;
            body = self.store.list(&[inner])?;
            target = car(target);
        }
        let head = self.store.symbol("named-lambda")?;
        let value = self.store.cons_at(head, self.store.cons(target, body)?, self.at)?;
        Ok((car(target), value))
    }

    fn unspecified_form(&self) -> Expand<Value> {
        let quote = self.store.symbol("quote")?;
        Ok(self.store.list(&[quote, Value::UNSPECIFIED])?)
    }

    /// Converts `define-record-type` to definitions.
    pub fn record_definitions(&mut self, form: Value) -> Expand<Value> {
        let shape = "expected (define-record-type name (constructor field …) predicate (field accessor modifier) …)";
        let arguments = cdr(form);
        if list_length(arguments).is_none_or(|n| n < 3) {
            return self.wrong(shape);
        }
        let (name, constructor, predicate) = (car(arguments), car(cdr(arguments)), car(cdr(cdr(arguments))));
        let name = if name.is::<Pair>() { car(name) } else { name };
        let specs = cdr(cdr(cdr(arguments)));
        let store = self.store;
        let symbol = |text: &str| store.symbol(text);
        let (begin, define, quote) = (symbol("begin")?, symbol("define")?, symbol("quote")?);
        let (r, v) = (symbol("record")?, symbol("value")?);
        let procedure = |head: &[Value], body: Value| store.list(&[define, store.list(head)?, body]);
        let mut fields = Value::NIL;
        for spec in elements(lists::reversed(&store, specs)?) {
            fields = store.cons(if spec.is::<Pair>() { car(spec) } else { spec }, fields)?;
        }
        let made =
            store.list(&[symbol("%make-record-type")?, store.list(&[quote, name])?, store.list(&[quote, fields])?])?;
        let mut all = store.list(&[store.list(&[define, name, made])?])?;
        if constructor.is_true() {
            let whole = constructor.is::<Symbol>();
            let (maker, given) = if whole { (constructor, fields) } else { (car(constructor), cdr(constructor)) };
            let mut values = Value::NIL;
            for field in elements(lists::reversed(&store, fields)?) {
                let known = elements(given).any(|g| g == field);
                values = store.cons(if known { field } else { Value::FALSE }, values)?;
            }
            let body = store.cons(symbol("%record")?, store.cons(name, values)?)?;
            all = store.cons(store.list(&[define, store.cons(maker, given)?, body])?, all)?;
        }
        if predicate.is_true() {
            let body = store.list(&[symbol("%record?")?, r, name])?;
            all = store.cons(procedure(&[predicate, r], body)?, all)?;
        }
        for (i, spec) in elements(specs).enumerate() {
            let index = Value::fixnum(i as i64);
            let mut rest = elements(cdr(spec));
            if let Some(accessor) = rest.next() {
                let body = store.list(&[symbol("%record-ref")?, r, name, index])?;
                all = store.cons(procedure(&[accessor, r], body)?, all)?;
            }
            if let Some(modifier) = rest.next() {
                let body = store.list(&[symbol("%record-set!")?, r, name, index, v])?;
                all = store.cons(procedure(&[modifier, r, v], body)?, all)?;
            }
        }
        Ok(store.cons_at(begin, lists::reversed(&store, all)?, self.at)?)
    }
}

/// Records that the program defines this global.
pub fn claim(symbol: Gc<Symbol>) {
    symbol.flags.set(symbol.flags.get() | Symbol::USER_DEFINED);
    if symbol.value.get().is::<Macro>() {
        symbol.value.set(Value::UNBOUND);
    }
}

/// Claims the names that the top-level forms of a file define or assign, so that no call to them is compiled as a built-in.
pub fn claim_definitions(forms: Value) {
    for form in elements(forms) {
        let Some(head) = car(form).get::<Symbol>() else { continue };
        let mut target = car(cdr(form));
        match head.text() {
            "define" | "set!" => {
                while target.is::<Pair>() {
                    target = car(target);
                }
                if let Some(symbol) = target.get::<Symbol>() {
                    claim(symbol);
                }
            }
            "begin" => claim_definitions(cdr(form)),
            _ => {}
        }
    }
}
