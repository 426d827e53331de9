//! The interpreter: counted values and scopes.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use crate::language::{Expr, Function, HISTORY, Op, Symbol, SymbolHash, apply};
use crate::work::{Meter, Script, Size, drive_script, program};

#[derive(Clone)]
enum Value {
    Null,
    Number(f64),
    Array(Rc<RefCell<Vec<Value>>>),
    Object(Rc<RefCell<HashMap<Symbol, Value, SymbolHash>>>),
    Closure(&'static Function, Rc<Scope>),
}

struct Scope {
    variables: RefCell<HashMap<Symbol, Value, SymbolHash>>,
    outer: Option<Rc<Scope>>,
}

struct Interpreter {
    program: Value,
}

impl Value {
    fn number(&self) -> f64 {
        if let Value::Number(number) = self { *number } else { panic!("not a number") }
    }

    fn array(&self) -> &Rc<RefCell<Vec<Value>>> {
        if let Value::Array(array) = self { array } else { panic!("not an array") }
    }

    fn object(&self) -> &Rc<RefCell<HashMap<Symbol, Value, SymbolHash>>> {
        if let Value::Object(object) = self { object } else { panic!("not an object") }
    }
}

fn scope(outer: Option<&Rc<Scope>>) -> Rc<Scope> {
    Rc::new(Scope { variables: RefCell::new(HashMap::default()), outer: outer.cloned() })
}

/// Calls `f` with a variable.
fn with<R>(mut scope: &Rc<Scope>, name: Symbol, f: impl FnOnce(&mut Value) -> R) -> R {
    loop {
        if let Some(value) = scope.variables.borrow_mut().get_mut(&name) {
            return f(value);
        }
        scope = scope.outer.as_ref().expect("a variable of this name");
    }
}

fn call(function: &Value, arguments: Vec<Value>) -> Value {
    let Value::Closure(function, outer) = function else { panic!("not a function") };
    let inner = scope(Some(outer));
    inner.variables.borrow_mut().extend(function.parameters.iter().copied().zip(arguments));
    eval(&function.body, &inner)
}

fn eval(expr: &'static Expr, at: &Rc<Scope>) -> Value {
    match expr {
        Expr::Null => Value::Null,
        Expr::Number(number) => Value::Number(*number),
        Expr::Variable(name) => with(at, *name, |value| value.clone()),
        Expr::Let(name, value) => {
            let value = eval(value, at);
            at.variables.borrow_mut().insert(*name, value.clone());
            value
        }
        Expr::Set(name, value) => {
            let value = eval(value, at);
            with(at, *name, |place| *place = value.clone());
            value
        }
        Expr::If(condition, then, otherwise) => {
            eval(if eval(condition, at).number() != 0.0 { then } else { otherwise }, at)
        }
        Expr::While(condition, body) => {
            while eval(condition, at).number() != 0.0 {
                eval(body, at);
            }
            Value::Null
        }
        Expr::Do(body) => {
            let inner = scope(Some(at));
            body.iter().fold(Value::Null, |_, expr| eval(expr, &inner))
        }
        Expr::Function(function) => Value::Closure(function, Rc::clone(at)),
        Expr::Binary(op, left, right) => Value::Number(match (op, eval(left, at), eval(right, at)) {
            (op, Value::Number(left), Value::Number(right)) => apply(*op, left, right),
            (Op::Equal, left, right) => f64::from(matches!((left, right), (Value::Null, Value::Null))),
            (_, left, right) => f64::from(!matches!((left, right), (Value::Null, Value::Null))),
        }),
        Expr::Array(length, element) => {
            let (length, element) = (eval(length, at).number() as usize, eval(element, at));
            Value::Array(Rc::new(RefCell::new(vec![element; length])))
        }
        Expr::At(array, index) => {
            let (array, index) = (eval(array, at), eval(index, at).number());
            array.array().borrow()[index as usize].clone()
        }
        Expr::Put(array, index, value) => {
            let (array, index) = (eval(array, at), eval(index, at).number());
            let value = eval(value, at);
            array.array().borrow_mut()[index as usize] = value.clone();
            value
        }
        Expr::Length(array) => Value::Number(eval(array, at).array().borrow().len() as f64),
        Expr::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| (*name, eval(value, at)));
            Value::Object(Rc::new(RefCell::new(fields.collect())))
        }
        Expr::Get(object, name) => eval(object, at).object().borrow()[name].clone(),
        Expr::Call(function, arguments) => {
            let function = eval(function, at);
            call(&function, arguments.iter().map(|argument| eval(argument, at)).collect())
        }
    }
}

impl Script for Interpreter {
    fn call(&mut self, argument: f64) -> f64 {
        call(&self.program, vec![Value::Number(argument)]).number()
    }
}

pub fn run(size: Size) -> Meter {
    let globals = scope(None);
    globals.variables.borrow_mut().insert(HISTORY, Value::Null);
    drive_script(size, &mut Interpreter { program: Value::Closure(program(), globals) })
}
