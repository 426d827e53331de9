//! The interpreter: collected values and scopes. It is recursive, so the collector works only between two calls of the script.

use std::cell::RefMut;
use std::collections::HashMap;

use gc_arena::barrier::unlock;
use gc_arena::lock::RefLock;
use gc_arena::{Arena, Collect, Gc, Mutation, Rootable};

use super::DEBT_GCS;
use crate::language::{Expr, Function, HISTORY, Op, Symbol, SymbolHash, apply};
use crate::work::{Meter, Script, Size, drive_script, program};

type Array<'gc> = Gc<'gc, RefLock<Vec<Value<'gc>>>>;
type Object<'gc> = Gc<'gc, RefLock<HashMap<Symbol, Value<'gc>, SymbolHash>>>;

#[derive(Clone, Copy, Collect)]
#[collect(no_drop)]
enum Value<'gc> {
    Null,
    Number(f64),
    Array(Array<'gc>),
    Object(Object<'gc>),
    Closure(&'static Function, Gc<'gc, Scope<'gc>>),
}

#[derive(Collect)]
#[collect(no_drop)]
struct Scope<'gc> {
    variables: RefLock<HashMap<Symbol, Value<'gc>, SymbolHash>>,
    outer: Option<Gc<'gc, Scope<'gc>>>,
}

struct Interpreter {
    arena: Arena<Rootable![Value<'_>]>,
}

impl<'gc> Value<'gc> {
    fn number(self) -> f64 {
        if let Value::Number(number) = self { number } else { panic!("not a number") }
    }

    fn array(self) -> Array<'gc> {
        if let Value::Array(array) = self { array } else { panic!("not an array") }
    }

    fn object(self) -> Object<'gc> {
        if let Value::Object(object) = self { object } else { panic!("not an object") }
    }
}

fn scope<'gc>(mc: &Mutation<'gc>, outer: Option<Gc<'gc, Scope<'gc>>>) -> Gc<'gc, Scope<'gc>> {
    Gc::new(mc, Scope { variables: RefLock::new(HashMap::default()), outer })
}

/// Returns the scope that has a variable.
fn owner<'gc>(mut scope: Gc<'gc, Scope<'gc>>, name: Symbol) -> Gc<'gc, Scope<'gc>> {
    while !scope.variables.borrow().contains_key(&name) {
        scope = scope.outer.expect("a variable of this name");
    }
    scope
}

fn variables<'gc>(
    mc: &Mutation<'gc>,
    scope: Gc<'gc, Scope<'gc>>,
) -> RefMut<'gc, HashMap<Symbol, Value<'gc>, SymbolHash>> {
    unlock!(Gc::write(mc, scope), Scope, variables).borrow_mut()
}

fn call<'gc>(mc: &Mutation<'gc>, function: Value<'gc>, arguments: Vec<Value<'gc>>) -> Value<'gc> {
    let Value::Closure(function, outer) = function else { panic!("not a function") };
    let inner = scope(mc, Some(outer));
    variables(mc, inner).extend(function.parameters.iter().copied().zip(arguments));
    eval(mc, &function.body, inner)
}

fn eval<'gc>(mc: &Mutation<'gc>, expr: &'static Expr, at: Gc<'gc, Scope<'gc>>) -> Value<'gc> {
    match expr {
        Expr::Null => Value::Null,
        Expr::Number(number) => Value::Number(*number),
        Expr::Variable(name) => owner(at, *name).variables.borrow()[name],
        Expr::Let(name, value) => {
            let value = eval(mc, value, at);
            variables(mc, at).insert(*name, value);
            value
        }
        Expr::Set(name, value) => {
            let value = eval(mc, value, at);
            variables(mc, owner(at, *name)).insert(*name, value);
            value
        }
        Expr::If(condition, then, otherwise) => {
            eval(mc, if eval(mc, condition, at).number() != 0.0 { then } else { otherwise }, at)
        }
        Expr::While(condition, body) => {
            while eval(mc, condition, at).number() != 0.0 {
                eval(mc, body, at);
            }
            Value::Null
        }
        Expr::Do(body) => {
            let inner = scope(mc, Some(at));
            body.iter().fold(Value::Null, |_, expr| eval(mc, expr, inner))
        }
        Expr::Function(function) => Value::Closure(function, at),
        Expr::Binary(op, left, right) => Value::Number(match (op, eval(mc, left, at), eval(mc, right, at)) {
            (op, Value::Number(left), Value::Number(right)) => apply(*op, left, right),
            (Op::Equal, left, right) => f64::from(matches!((left, right), (Value::Null, Value::Null))),
            (_, left, right) => f64::from(!matches!((left, right), (Value::Null, Value::Null))),
        }),
        Expr::Array(length, element) => {
            let (length, element) = (eval(mc, length, at).number() as usize, eval(mc, element, at));
            Value::Array(Gc::new(mc, RefLock::new(vec![element; length])))
        }
        Expr::At(array, index) => {
            let (array, index) = (eval(mc, array, at).array(), eval(mc, index, at).number());
            array.borrow()[index as usize]
        }
        Expr::Put(array, index, value) => {
            let (array, index) = (eval(mc, array, at).array(), eval(mc, index, at).number());
            let value = eval(mc, value, at);
            array.borrow_mut(mc)[index as usize] = value;
            value
        }
        Expr::Length(array) => Value::Number(eval(mc, array, at).array().borrow().len() as f64),
        Expr::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| (*name, eval(mc, value, at)));
            Value::Object(Gc::new(mc, RefLock::new(fields.collect())))
        }
        Expr::Get(object, name) => eval(mc, object, at).object().borrow()[name],
        Expr::Call(function, arguments) => {
            let function = eval(mc, function, at);
            call(mc, function, arguments.iter().map(|argument| eval(mc, argument, at)).collect())
        }
    }
}

impl Script for Interpreter {
    fn call(&mut self, argument: f64) -> f64 {
        let result = self.arena.mutate(|mc, program| call(mc, *program, vec![Value::Number(argument)]).number());
        if self.arena.metrics().allocation_debt() > DEBT_GCS {
            self.arena.collect_debt();
        }
        result
    }
}

pub fn run(size: Size) -> Meter {
    let arena = Arena::new(|mc| {
        let globals = scope(mc, None);
        variables(mc, globals).insert(HISTORY, Value::Null);
        Value::Closure(program(), globals)
    });
    drive_script(size, &mut Interpreter { arena })
}
