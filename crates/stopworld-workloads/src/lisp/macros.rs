//! `syntax-rules`: matches a form against patterns, and fills in templates.
//!
//! Hygiene works by renaming. Each symbol that a template introduces becomes, in that one expansion, a fresh *alias*:
//! an uninterned symbol that refers to the original. If the expansion binds it, the alias is bound, so
//! `(let ((tmp a)) …)` in a template never captures the program's `tmp`. If nothing binds it, `lookup` uses the original
//! symbol, and quoted data get their original symbols back. A macro that was defined at top level uses the
//! global meaning of its free symbols even where the program has a local variable with that name.
//!
//! The result of a match is an association list in the collected heap: `(variable depth . value)`, where depth
//! is the number of ellipses after the variable's pattern, and the value is a list nested to that depth.

use stopworld::Gc;

use super::builtins::lists;
use super::expand::{Expand, Expander, Meaning};
use super::forms::{car, cdr};
use super::objects::{Macro, Pair, Symbol, Vector};
use super::special::Special;
use super::store::{elements, list_length};
use super::value::{Kind, Value};

impl Expander<'_> {
    /// Creates a macro from `(syntax-rules …)`.
    pub fn transformer(&mut self, form: Value, toplevel: Value) -> Expand<Value> {
        if !self.is_keyword(car(form), Special::SyntaxRules) {
            return self.wrong("expected (syntax-rules (literal …) (pattern template) …)");
        }
        let mut rest = cdr(form);
        let mut ellipsis = self.store.symbol("...")?;
        if car(rest).is::<Symbol>() {
            ellipsis = car(rest);
            rest = cdr(rest);
        }
        let (literals, rules) = (car(rest), cdr(rest));
        let good = |rule: Value| list_length(rule) == Some(2) && car(rule).is::<Pair>();
        if list_length(literals).is_none() || !elements(rules).all(good) {
            return self.wrong("expected (syntax-rules (literal …) (pattern template) …)");
        }
        let head = Kind::Macro.head(0);
        Ok(self.store.object(Macro { head, ellipsis, literals, rules, toplevel })?)
    }

    /// Expands a use of a macro.
    pub fn expand_macro(&mut self, found: Gc<Macro>, form: Value) -> Expand<Value> {
        if !self.store.limit.has_room() {
            return self.wrong("macros expand into each other endlessly");
        }
        for rule in elements(found.rules) {
            let mut bindings = Value::NIL;
            // The head of the pattern is the keyword itself, and is not matched.
            if self.matches(found, cdr(car(rule)), cdr(form), &mut bindings)? {
                let mut filling = Filling { found, renamed: Value::NIL, literal: false };
                return self.fill(&mut filling, car(cdr(rule)), bindings);
            }
        }
        self.wrong(format!("no rule of the macro {} matches {}", self.show(car(form)), self.show(form)))
    }

    fn matches(&mut self, found: Gc<Macro>, pattern: Value, form: Value, bindings: &mut Value) -> Expand<bool> {
        if let Some(symbol) = pattern.get::<Symbol>() {
            if elements(found.literals).any(|l| l == pattern) {
                return Ok(self.same_keyword(symbol, form));
            }
            if Symbol::base(symbol).text() != "_" {
                self.push_binding(bindings, pattern, 0, form)?;
            }
            return Ok(true);
        }
        if let Some(pair) = pattern.get::<Pair>() {
            let rest = pair.cdr.get();
            if car(rest) == found.ellipsis && rest.is::<Pair>() {
                return self.matches_many(found, pair.car.get(), cdr(rest), form, bindings);
            }
            let Some(actual) = form.get::<Pair>() else { return Ok(false) };
            return Ok(self.matches(found, pair.car.get(), actual.car.get(), bindings)?
                && self.matches(found, rest, actual.cdr.get(), bindings)?);
        }
        if let Some(vector) = pattern.get::<Vector>() {
            let Some(actual) = form.get::<Vector>() else { return Ok(false) };
            let pattern = lists::from_row(&self.store, &vector.items)?;
            let form = lists::from_row(&self.store, &actual.items)?;
            return self.matches(found, pattern, form, bindings);
        }
        Ok(lists::equal(&self.store, pattern, form)?)
    }

    /// Matches `pattern …` followed by `tail`: the pattern takes all elements except those that the tail needs.
    fn matches_many(
        &mut self,
        found: Gc<Macro>,
        pattern: Value,
        tail: Value,
        mut form: Value,
        bindings: &mut Value,
    ) -> Expand<bool> {
        let Some(repeated) = elements(form).count().checked_sub(elements(tail).count()) else { return Ok(false) };
        let mut matched = Value::NIL;
        for _ in 0..repeated {
            let mut inner = Value::NIL;
            if !self.matches(found, pattern, car(form), &mut inner)? {
                return Ok(false);
            }
            matched = self.store.cons(inner, matched)?;
            form = cdr(form);
        }
        self.collect(found, pattern, 1, matched, bindings)?;
        self.matches(found, tail, form, bindings)
    }

    /// Binds each variable of a repeated pattern to the list of the data that it matched. `matched` has the last match first.
    fn collect(
        &mut self,
        found: Gc<Macro>,
        pattern: Value,
        depth: i64,
        matched: Value,
        bindings: &mut Value,
    ) -> Expand<()> {
        if let Some(symbol) = pattern.get::<Symbol>() {
            let literal = elements(found.literals).any(|l| l == pattern);
            if literal || pattern == found.ellipsis || Symbol::base(symbol).text() == "_" {
                return Ok(());
            }
            let mut values = Value::NIL;
            for inner in elements(matched) {
                if let Some((_, value)) = binding_of(inner, pattern) {
                    values = self.store.cons(value, values)?;
                }
            }
            return self.push_binding(bindings, pattern, depth, values);
        }
        if let Some(vector) = pattern.get::<Vector>() {
            let list = lists::from_row(&self.store, &vector.items)?;
            return self.collect(found, list, depth, matched, bindings);
        }
        if let Some(pair) = pattern.get::<Pair>() {
            let repeated = car(pair.cdr.get()) == found.ellipsis && pair.cdr.get().is::<Pair>();
            self.collect(found, pair.car.get(), depth + i64::from(repeated), matched, bindings)?;
            return self.collect(found, pair.cdr.get(), depth, matched, bindings);
        }
        Ok(())
    }

    fn push_binding(&mut self, bindings: &mut Value, name: Value, depth: i64, value: Value) -> Expand<()> {
        let entry = self.store.cons(name, self.store.cons(Value::fixnum(depth), value)?)?;
        *bindings = self.store.cons(entry, *bindings)?;
        Ok(())
    }

    fn same_keyword(&self, literal: Gc<Symbol>, form: Value) -> bool {
        let Some(symbol) = form.get::<Symbol>() else { return false };
        match (self.lookup(literal), self.lookup(symbol)) {
            (Meaning::Local(a), Meaning::Local(b)) => a == b,
            (_, Meaning::Local(_)) | (Meaning::Local(_), _) => false,
            _ => Gc::ptr_eq(Symbol::base(symbol), Symbol::base(literal)),
        }
    }

    fn fill(&mut self, filling: &mut Filling, template: Value, bindings: Value) -> Expand<Value> {
        if !self.store.limit.has_room() {
            return self.wrong("this template is nested too deeply");
        }
        if let Some(symbol) = template.get::<Symbol>() {
            return match binding_of(bindings, template) {
                Some((0, value)) => Ok(value),
                Some(_) => self.wrong(format!("{} needs an ellipsis in this template", Symbol::base(symbol).text())),
                None => self.renamed(filling, symbol),
            };
        }
        if let Some(vector) = template.get::<Vector>() {
            let list = lists::from_row(&self.store, &vector.items)?;
            let filled = self.fill(filling, list, bindings)?;
            let mut items = elements(filled);
            return Ok(self.store.vector(items.count(), |_| items.next().unwrap_or(Value::NIL))?);
        }
        let Some(pair) = template.get::<Pair>() else { return Ok(template) };
        let (first, mut rest) = (pair.car.get(), pair.cdr.get());
        let ellipsis = filling.found.ellipsis;
        if !filling.literal && first == ellipsis && rest.is::<Pair>() {
            // In `(... template)` ellipses are ordinary symbols.
            filling.literal = true;
            let filled = self.fill(filling, car(rest), bindings);
            filling.literal = false;
            return filled;
        }
        let mut repeats = 0;
        while !filling.literal && rest.is::<Pair>() && car(rest) == ellipsis {
            repeats += 1;
            rest = cdr(rest);
        }
        if repeats == 0 {
            let first = self.fill(filling, first, bindings)?;
            let rest = self.fill(filling, rest, bindings)?;
            return Ok(self.store.cons_at(first, rest, self.at)?);
        }
        let filled = self.fill_many(filling, first, bindings, repeats)?;
        let rest = self.fill(filling, rest, bindings)?;
        Ok(lists::appended(&self.store, filled, rest)?)
    }

    /// Fills in the template once for each element of its repeated variables.
    fn fill_many(&mut self, filling: &mut Filling, template: Value, bindings: Value, repeats: usize) -> Expand<Value> {
        let mut length = None;
        for entry in elements(bindings) {
            if depth_of(entry) > 0 && mentions(template, car(entry)) {
                let count = elements(cdr(cdr(entry))).count();
                length = Some(length.map_or(count, |shortest: usize| shortest.min(count)));
            }
        }
        let Some(length) = length else {
            return self.wrong("an ellipsis follows a template without repeated variables");
        };
        let mut all = Value::NIL;
        let mut remaining = bindings;
        for _ in 0..length {
            let (mut inner, mut next) = (Value::NIL, Value::NIL);
            for entry in elements(remaining) {
                let (depth, value) = (depth_of(entry), cdr(cdr(entry)));
                if depth > 0 && mentions(template, car(entry)) {
                    self.push_binding(&mut inner, car(entry), depth - 1, car(value))?;
                    self.push_binding(&mut next, car(entry), depth, cdr(value))?;
                } else {
                    inner = self.store.cons(entry, inner)?;
                    next = self.store.cons(entry, next)?;
                }
            }
            remaining = next;
            if repeats > 1 {
                let many = self.fill_many(filling, template, inner, repeats - 1)?;
                all = lists::appended(&self.store, lists::reversed(&self.store, many)?, all)?;
            } else {
                let filled = self.fill(filling, template, inner)?;
                all = self.store.cons(filled, all)?;
            }
        }
        Ok(lists::reversed(&self.store, all)?)
    }

    fn renamed(&mut self, filling: &mut Filling, symbol: Gc<Symbol>) -> Expand<Value> {
        for entry in elements(filling.renamed) {
            if car(entry) == Value::object(symbol) {
                return Ok(cdr(entry));
            }
        }
        let alias = self.store.fresh_symbol(Symbol::base(symbol).text(), Value::object(symbol))?;
        if filling.found.toplevel.is_true() {
            alias.flags.set(Symbol::MEANS_GLOBAL);
        }
        let entry = self.store.cons(Value::object(symbol), Value::object(alias))?;
        filling.renamed = self.store.cons(entry, filling.renamed)?;
        Ok(Value::object(alias))
    }

    /// Replaces aliases in quoted data by the original symbols.
    pub fn without_aliases(&mut self, datum: Value) -> Expand<Value> {
        if !has_alias(&self.store, datum) {
            return Ok(datum);
        }
        if let Some(symbol) = datum.get::<Symbol>() {
            return Ok(Value::object(Symbol::base(symbol)));
        }
        if let Some(vector) = datum.get::<Vector>() {
            let list = lists::from_row(&self.store, &vector.items)?;
            let list = self.without_aliases(list)?;
            let mut items = elements(list);
            return Ok(self.store.vector(items.count(), |_| items.next().unwrap_or(Value::NIL))?);
        }
        let mut plain = Value::NIL;
        let mut walk = elements(datum);
        for element in walk.by_ref() {
            let element = self.without_aliases(element)?;
            plain = self.store.cons(element, plain)?;
        }
        let tail = self.without_aliases(walk.rest())?;
        Ok(lists::reversed_onto(&self.store, plain, tail)?)
    }
}

/// One expansion.
struct Filling {
    found: Gc<Macro>,
    /// `((symbol . alias) …)`.
    renamed: Value,
    /// Whether the template is inside `(... template)`.
    literal: bool,
}

fn depth_of(entry: Value) -> i64 {
    car(cdr(entry)).as_fixnum().unwrap_or(0)
}

fn binding_of(bindings: Value, name: Value) -> Option<(i64, Value)> {
    elements(bindings).find(|entry| car(*entry) == name).map(|entry| (depth_of(entry), cdr(cdr(entry))))
}

fn mentions(template: Value, name: Value) -> bool {
    let mut walk = elements(template);
    if template == name || walk.by_ref().any(|element| mentions(element, name)) {
        return true;
    }
    let tail = walk.rest();
    tail == name || template.get::<Vector>().is_some_and(|v| v.items.iter().any(|item| mentions(item.get(), name)))
}

fn has_alias(store: &super::store::Store<'_>, datum: Value) -> bool {
    if !store.limit.has_room() {
        return false;
    }
    if let Some(symbol) = datum.get::<Symbol>() {
        return symbol.alias_of.is_true();
    }
    if let Some(vector) = datum.get::<Vector>() {
        return vector.items.iter().any(|item| has_alias(store, item.get()));
    }
    let mut walk = elements(datum);
    walk.by_ref().any(|element| has_alias(store, element))
        || walk.rest().get::<Symbol>().is_some_and(|s| s.alias_of.is_true())
}
