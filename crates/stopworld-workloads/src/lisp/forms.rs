//! The special forms.
//!
//! This file has the forms that the compiler must know (they bind, branch or define) and those that need efficient code
//! (`do`, `case`, named `let`). `guard`, `parameterize`, `delay`, `case-lambda` and other derived forms are `syntax-rules`
//! macros in `prelude.scm`.
//!
//! A named `let` whose name is only called, with the right number of arguments, in tail position, is compiled as a
//! loop: no procedure is made, and the variables stay in the frame of the function around it.

use stopworld::Gc;

use super::expand::{Binding, Expand, Expander};
use super::objects::{Pair, Symbol, Vector};
use super::special::Special;
use super::store::{elements, list_length};
use super::tree::{Let, Node, Returns, VariableId, only_loops};
use super::value::Value;

impl Expander<'_> {
    /// Compiles a form whose head is this keyword. The form must be a proper list.
    pub fn special(&mut self, special: Special, form: Value) -> Expand {
        let arguments = cdr(form);
        let count = list_length(arguments).unwrap_or(0);
        let required = |least: usize, most: usize, shape: &str| match (least..=most).contains(&count) {
            true => Ok(()),
            false => self.wrong(format!("expected {shape}")),
        };
        let any = usize::MAX;
        match special {
            Special::Quote => {
                required(1, 1, "(quote datum)")?;
                let datum = self.without_aliases(car(arguments))?;
                self.constant(datum)
            }
            Special::Quasiquote => {
                required(1, 1, "(quasiquote template)")?;
                self.quasiquote(car(arguments), 1)
            }
            Special::Lambda => {
                required(2, any, "(lambda parameters body …)")?;
                self.lambda(None, car(arguments), cdr(arguments))
            }
            Special::NamedLambda => {
                required(2, any, "(named-lambda (name . parameters) body …)")?;
                let header = car(arguments);
                self.lambda(Some(car(header)), cdr(header), cdr(arguments))
            }
            Special::Set => {
                required(2, 2, "(set! variable expression)")?;
                self.assignment(car(arguments), car(cdr(arguments)))
            }
            Special::If => {
                required(2, 3, "(if test consequent alternative)")?;
                let test = self.expression(car(arguments))?;
                let consequent = self.expression(car(cdr(arguments)))?;
                let alternative = match count {
                    3 => self.expression(car(cdr(cdr(arguments))))?,
                    _ => self.constant(Value::UNSPECIFIED)?,
                };
                Ok(choice(test, consequent, alternative))
            }
            Special::Cond => self.cond(arguments),
            Special::Case => {
                required(1, any, "(case key clause …)")?;
                self.case(arguments)
            }
            Special::And => self.and(arguments),
            Special::Or => self.or(arguments),
            Special::When | Special::Unless => {
                required(2, any, "(when test expression …)")?;
                let test = self.expression(car(arguments))?;
                let body = self.sequence(cdr(arguments))?;
                let nothing = self.constant(Value::UNSPECIFIED)?;
                Ok(if special == Special::When { choice(test, body, nothing) } else { choice(test, nothing, body) })
            }
            Special::Begin => self.sequence(arguments),
            Special::Let => {
                required(2, any, "(let ((variable expression) …) body …)")?;
                if car(arguments).is::<Symbol>() {
                    required(3, any, "(let name ((variable expression) …) body …)")?;
                    return self.named_let(car(arguments), car(cdr(arguments)), cdr(cdr(arguments)));
                }
                self.plain_let(car(arguments), cdr(arguments))
            }
            Special::LetStar => {
                required(2, any, "(let* ((variable expression) …) body …)")?;
                self.nested_let(car(arguments), cdr(arguments))
            }
            Special::Letrec | Special::LetrecStar => {
                required(2, any, "(letrec ((variable expression) …) body …)")?;
                self.letrec(car(arguments), cdr(arguments))
            }
            Special::Do => {
                required(2, any, "(do ((variable init step) …) (test expression …) body …)")?;
                self.do_loop(car(arguments), car(cdr(arguments)), cdr(cdr(arguments)))
            }
            Special::LetSyntax | Special::LetrecSyntax => {
                required(2, any, "(let-syntax ((keyword transformer) …) body …)")?;
                self.let_syntax(car(arguments), cdr(arguments))
            }
            Special::Delay => {
                required(1, 1, "(delay expression)")?;
                let thunk = self.lambda(None, Value::NIL, arguments)?;
                Ok(self.primitive_call("%delayed", vec![thunk]))
            }
            Special::Define | Special::DefineSyntax | Special::DefineRecordType => {
                self.wrong("a definition belongs at top level or in a body, not where a value is expected")
            }
            Special::Unquote | Special::UnquoteSplicing => self.wrong("unquote outside a quasiquote"),
            Special::Else | Special::Arrow | Special::SyntaxRules => {
                self.wrong(format!("{} is not an expression here", self.show(car(form))))
            }
        }
    }

    fn sequence(&mut self, forms: Value) -> Expand {
        let mut nodes = self.expressions(forms)?;
        match nodes.len() {
            0 => self.constant(Value::UNSPECIFIED),
            1 => Ok(nodes.remove(0)),
            _ => Ok(Node::Sequence(nodes)),
        }
    }

    fn assignment(&mut self, name: Value, value: Value) -> Expand {
        let Some(symbol) = name.get::<Symbol>() else {
            return self.wrong(format!("set! needs a variable, found {}", self.show(name)));
        };
        let value = Box::new(self.expression(value)?);
        match self.lookup(symbol) {
            super::expand::Meaning::Local(variable) => {
                self.variables[variable].mutated = true;
                Ok(Node::Assign(variable, value))
            }
            super::expand::Meaning::Global(symbol) => {
                symbol.flags.set(symbol.flags.get() | Symbol::USER_DEFINED);
                Ok(Node::AssignGlobal(self.pool.push(&self.store, Value::object(symbol))?, value, self.at))
            }
            _ => self.wrong(format!("{} is syntax and cannot be assigned", Symbol::base(symbol).text())),
        }
    }

    fn and(&mut self, forms: Value) -> Expand {
        if forms == Value::NIL {
            return self.constant(Value::TRUE);
        }
        let first = self.expression(car(forms))?;
        if cdr(forms) == Value::NIL {
            return Ok(first);
        }
        let rest = self.and(cdr(forms))?;
        let no = self.constant(Value::FALSE)?;
        Ok(choice(first, rest, no))
    }

    fn or(&mut self, forms: Value) -> Expand {
        if forms == Value::NIL {
            return self.constant(Value::FALSE);
        }
        let first = self.expression(car(forms))?;
        if cdr(forms) == Value::NIL {
            return Ok(first);
        }
        Ok(Node::Or(Box::new([first, self.or(cdr(forms))?])))
    }

    fn cond(&mut self, clauses: Value) -> Expand {
        let Some(pair) = clauses.get::<Pair>() else { return self.constant(Value::UNSPECIFIED) };
        let clause = self.clause(pair.car.get())?;
        let (test, body) = (car(clause), cdr(clause));
        if self.is_keyword(test, Special::Else) {
            return self.sequence(body);
        }
        let test = self.expression(test)?;
        if body == Value::NIL {
            let rest = self.cond(pair.cdr.get())?;
            return Ok(Node::Or(Box::new([test, rest])));
        }
        if self.is_keyword(car(body), Special::Arrow) {
            let variable = self.variable();
            let consequent = self.receiver(body, variable)?;
            let rest = self.cond(pair.cdr.get())?;
            let body = choice(Node::Reference(variable), consequent, rest);
            return Ok(bind_in(variable, test, body));
        }
        let consequent = self.sequence(body)?;
        Ok(choice(test, consequent, self.cond(pair.cdr.get())?))
    }

    /// Compiles `=> receiver`, applied to a variable.
    fn receiver(&mut self, arrow: Value, variable: VariableId) -> Expand {
        if list_length(arrow) != Some(2) {
            return self.wrong("expected => and one expression");
        }
        let receiver = self.expression(car(cdr(arrow)))?;
        Ok(Node::Call(Box::new(receiver), vec![Node::Reference(variable)], self.at, Returns::Maybe))
    }

    fn clause(&mut self, clause: Value) -> Expand<Value> {
        match list_length(clause) {
            Some(1..) => Ok(clause),
            _ => self.wrong(format!("expected a clause (test expression …), found {}", self.show(clause))),
        }
    }

    fn case(&mut self, arguments: Value) -> Expand {
        let key = self.expression(car(arguments))?;
        let variable = self.variable();
        let clauses = self.case_clauses(variable, cdr(arguments))?;
        Ok(bind_in(variable, key, clauses))
    }

    fn case_clauses(&mut self, key: VariableId, clauses: Value) -> Expand {
        let Some(pair) = clauses.get::<Pair>() else { return self.constant(Value::UNSPECIFIED) };
        let clause = self.clause(pair.car.get())?;
        let (data, body) = (car(clause), cdr(clause));
        let consequent = match body.get::<Pair>() {
            Some(first) if self.is_keyword(first.car.get(), Special::Arrow) => self.receiver(body, key)?,
            _ => self.sequence(body)?,
        };
        if self.is_keyword(data, Special::Else) {
            return Ok(consequent);
        }
        if list_length(data).is_none() {
            return self.wrong(format!("expected a list of data or else, found {}", self.show(data)));
        }
        let data = self.without_aliases(data)?;
        let test = if cdr(data) == Value::NIL && data != Value::NIL {
            let datum = self.constant(car(data))?;
            self.primitive_call("eqv?", vec![Node::Reference(key), datum])
        } else {
            let data = self.constant(data)?;
            self.primitive_call("memv", vec![Node::Reference(key), data])
        };
        Ok(choice(test, consequent, self.case_clauses(key, pair.cdr.get())?))
    }

    /// Splits a binding `(name expression)` into its name and its expression.
    fn binding(&mut self, binding: Value) -> Expand<(Value, Value)> {
        match list_length(binding) {
            Some(2) => Ok((car(binding), car(cdr(binding)))),
            _ => self.wrong(format!("expected a binding (variable expression), found {}", self.show(binding))),
        }
    }

    fn initial_values(&mut self, bindings: Value) -> Expand<Vec<Node>> {
        if list_length(bindings).is_none() {
            return self.wrong(format!("expected a list of bindings, found {}", self.show(bindings)));
        }
        elements(bindings)
            .map(|binding| {
                let (name, value) = self.binding(binding)?;
                let node = self.expression(value)?;
                self.named(node, name)
            })
            .collect()
    }

    /// Names an unnamed lambda after the variable to which it is bound.
    pub fn named(&mut self, mut node: Node, name: Value) -> Expand {
        if let Node::Lambda(lambda) = &mut node
            && lambda.name.is_none()
            && let Some(symbol) = name.get::<Symbol>()
        {
            lambda.name = Some(self.pool.push(&self.store, Value::object(Symbol::base(symbol)))?);
        }
        Ok(node)
    }

    fn bind_all(&mut self, bindings: Value) -> Expand<Vec<VariableId>> {
        elements(bindings).map(|binding| self.bind(car(binding))).collect()
    }

    fn plain_let(&mut self, bindings: Value, body: Value) -> Expand {
        let values = self.initial_values(bindings)?;
        let mark = self.scopes.len();
        let variables = self.bind_all(bindings)?;
        let body = self.body(body)?;
        self.scopes.truncate(mark);
        Ok(Node::Let(Box::new(Let { label: None, variables, values, body })))
    }

    fn nested_let(&mut self, bindings: Value, body: Value) -> Expand {
        if cdr(bindings) == Value::NIL {
            return self.plain_let(bindings, body);
        }
        let (name, value) = self.binding(car(bindings))?;
        let node = self.expression(value)?;
        let value = self.named(node, name)?;
        let mark = self.scopes.len();
        let variable = self.bind(name)?;
        let body = self.nested_let(cdr(bindings), body)?;
        self.scopes.truncate(mark);
        Ok(bind_in(variable, value, body))
    }

    fn letrec(&mut self, bindings: Value, body: Value) -> Expand {
        if list_length(bindings).is_none() {
            return self.wrong(format!("expected a list of bindings, found {}", self.show(bindings)));
        }
        let mark = self.scopes.len();
        for binding in elements(bindings) {
            self.binding(binding)?;
        }
        let variables = self.bind_all(bindings)?;
        let values = self.initial_values(bindings)?;
        let mut items: Vec<_> = variables.iter().map(|v| Some(*v)).zip(values).collect();
        items.push((None, self.body(body)?));
        self.scopes.truncate(mark);
        Ok(Node::Body(Box::new(super::tree::Body { variables, items })))
    }

    fn named_let(&mut self, name: Value, bindings: Value, body: Value) -> Expand {
        let at = self.at;
        let values = self.initial_values(bindings)?;
        let mark = self.scopes.len();
        let label = self.bind(name)?;
        let parameters = self.bind_all(bindings)?;
        let body = self.body(body)?;
        self.scopes.truncate(mark);
        if only_loops(&body, label, parameters.len(), true) {
            self.variables[label].is_loop = true;
            return Ok(Node::Let(Box::new(Let { label: Some(label), variables: parameters, values, body })));
        }
        let lambda = super::tree::Lambda { name: None, parameters, rest: false, body, function: 0, at };
        let procedure = self.named(Node::Lambda(Box::new(lambda)), name)?;
        let call = Node::Call(Box::new(Node::Reference(label)), values, at, Returns::Maybe);
        let items = vec![(Some(label), procedure), (None, call)];
        Ok(Node::Body(Box::new(super::tree::Body { variables: vec![label], items })))
    }

    fn do_loop(&mut self, bindings: Value, exit: Value, body: Value) -> Expand {
        for binding in elements(bindings) {
            if !matches!(list_length(binding), Some(2 | 3)) {
                return self.wrong(format!("expected (variable init step), found {}", self.show(binding)));
            }
        }
        let values = elements(bindings).map(|b| self.expression(car(cdr(b)))).collect::<Expand<Vec<_>>>()?;
        let mark = self.scopes.len();
        let label = self.variable();
        self.variables[label].is_loop = true;
        let variables = self.bind_all(bindings)?;
        let exit = self.clause(exit)?;
        let test = self.expression(car(exit))?;
        let result = self.sequence(cdr(exit))?;
        let mut nodes = self.expressions(body)?;
        let mut steps = Vec::new();
        for (binding, &variable) in elements(bindings).zip(&variables) {
            let step = cdr(cdr(binding));
            steps.push(if step == Value::NIL { Node::Reference(variable) } else { self.expression(car(step))? });
        }
        nodes.push(Node::Call(Box::new(Node::Reference(label)), steps, self.at, Returns::Maybe));
        self.scopes.truncate(mark);
        let body = choice(test, result, Node::Sequence(nodes));
        Ok(Node::Let(Box::new(Let { label: Some(label), variables, values, body })))
    }

    fn let_syntax(&mut self, bindings: Value, body: Value) -> Expand {
        let mark = self.scopes.len();
        for binding in elements(bindings) {
            let (name, rules) = self.binding(binding)?;
            self.bind_macro(name, rules)?;
        }
        let body = self.body(body)?;
        self.scopes.truncate(mark);
        Ok(body)
    }

    fn bind_macro(&mut self, name: Value, rules: Value) -> Expand<()> {
        let Some(symbol) = name.get::<Symbol>() else { return self.wrong("expected the name of a macro") };
        let transformer = self.transformer(rules, Value::FALSE)?;
        let constant = self.pool.push(&self.store, transformer)?;
        self.scopes.push((symbol.number(), Binding::Macro(constant)));
        Ok(())
    }

    pub fn define_local_syntax(&mut self, form: Gc<Pair>) -> Expand<()> {
        let arguments = form.cdr.get();
        self.bind_macro(car(arguments), car(cdr(arguments)))
    }

    fn quasiquote(&mut self, template: Value, depth: usize) -> Expand {
        if !self.store.limit.has_room() {
            return self.wrong("this quasiquote is nested too deeply");
        }
        if let Some(vector) = template.get::<Vector>() {
            let items = vector.items;
            let mut list = Value::NIL;
            for item in items.iter().rev() {
                list = self.store.cons(item.get(), list)?;
            }
            let list = self.quasiquote(list, depth)?;
            return Ok(self.primitive_call("list->vector", vec![list]));
        }
        let Some(pair) = template.get::<Pair>() else {
            let datum = self.without_aliases(template)?;
            return self.constant(datum);
        };
        let (head, rest) = (pair.car.get(), pair.cdr.get());
        if list_length(rest) == Some(1) {
            if self.is_keyword(head, Special::Unquote) {
                return if depth == 1 { self.expression(car(rest)) } else { self.requote("unquote", rest, depth - 1) };
            }
            if self.is_keyword(head, Special::Quasiquote) {
                return self.requote("quasiquote", rest, depth + 1);
            }
        }
        if depth == 1 && self.is_keyword(car(head), Special::UnquoteSplicing) && list_length(head) == Some(2) {
            let spliced = self.expression(car(cdr(head)))?;
            if rest == Value::NIL {
                return Ok(spliced);
            }
            let rest = self.quasiquote(rest, depth)?;
            return Ok(self.primitive_call("append", vec![spliced, rest]));
        }
        let first = if self.is_keyword(car(head), Special::UnquoteSplicing) && list_length(head) == Some(2) {
            self.requote("unquote-splicing", cdr(head), depth - 1)?
        } else {
            self.quasiquote(head, depth)?
        };
        let rest = self.quasiquote(rest, depth)?;
        if matches!((&first, &rest), (Node::Constant(_) | Node::Integer(_), Node::Constant(_) | Node::Integer(_))) {
            let datum = self.without_aliases(template)?;
            return self.constant(datum);
        }
        Ok(self.primitive_call("cons", vec![first, rest]))
    }

    fn requote(&mut self, keyword: &str, rest: Value, depth: usize) -> Expand {
        let keyword = self.store.symbol(keyword)?;
        let keyword = self.constant(keyword)?;
        let rest = self.quasiquote(rest, depth)?;
        Ok(self.primitive_call("cons", vec![keyword, rest]))
    }
}

fn choice(test: Node, consequent: Node, alternative: Node) -> Node {
    Node::If(Box::new([test, consequent, alternative]))
}

fn bind_in(variable: VariableId, value: Node, body: Node) -> Node {
    Node::Let(Box::new(Let { label: None, variables: vec![variable], values: vec![value], body }))
}

/// Returns the car, or `()` if the value is not a pair. For forms whose shape has been checked.
pub fn car(value: Value) -> Value {
    value.get::<Pair>().map_or(Value::NIL, |pair| pair.car.get())
}

/// Returns the cdr, or `()` if the value is not a pair.
pub fn cdr(value: Value) -> Value {
    value.get::<Pair>().map_or(Value::NIL, |pair| pair.cdr.get())
}
