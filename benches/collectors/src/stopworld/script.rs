//! The interpreter: collected values and scopes.

use stopworld::{Gc, GcHashMap, GcMutex, GcVec, Mutator, Trace, World};

use crate::language::{Expr, Function, HISTORY, Op, Symbol, SymbolHash, apply};
use crate::work::{Meter, Script, Size, drive_script, program};

#[derive(Clone, Copy, Trace)]
enum Value {
    Null,
    Number(f64),
    Array(Gc<GcMutex<GcVec<Value>>>),
    Object(Gc<GcMutex<GcHashMap<Symbol, Value, SymbolHash>>>),
    Closure(&'static Function, Gc<Scope>),
}

#[derive(Trace)]
struct Scope {
    variables: GcMutex<GcHashMap<Symbol, Value, SymbolHash>>,
    outer: Option<Gc<Scope>>,
}

struct Interpreter<'m> {
    m: &'m Mutator,
    program: Value,
}

impl Value {
    fn number(self) -> f64 {
        if let Value::Number(number) = self { number } else { panic!("not a number") }
    }

    fn array(self) -> Gc<GcMutex<GcVec<Value>>> {
        if let Value::Array(array) = self { array } else { panic!("not an array") }
    }

    fn object(self) -> Gc<GcMutex<GcHashMap<Symbol, Value, SymbolHash>>> {
        if let Value::Object(object) = self { object } else { panic!("not an object") }
    }
}

fn scope(m: &Mutator, outer: Option<Gc<Scope>>) -> Gc<Scope> {
    m.alloc(Scope { variables: GcMutex::new(GcHashMap::default()), outer }).unwrap()
}

/// Calls `f` with a variable.
fn with<R>(m: &Mutator, mut scope: Gc<Scope>, name: Symbol, f: impl FnOnce(&mut Value) -> R) -> R {
    loop {
        if let Some(value) = scope.variables.lock(m).get_mut(&name) {
            return f(value);
        }
        scope = scope.outer.expect("a variable of this name");
    }
}

fn call(m: &Mutator, function: Value, arguments: GcVec<Value>) -> Value {
    let Value::Closure(function, outer) = function else { panic!("not a function") };
    let inner = scope(m, Some(outer));
    inner.variables.lock(m).extend(m, function.parameters.iter().copied().zip(arguments)).unwrap();
    eval(m, &function.body, inner)
}

fn eval(m: &Mutator, expr: &'static Expr, at: Gc<Scope>) -> Value {
    match expr {
        Expr::Null => Value::Null,
        Expr::Number(number) => Value::Number(*number),
        Expr::Variable(name) => with(m, at, *name, |value| *value),
        Expr::Let(name, value) => {
            let value = eval(m, value, at);
            at.variables.lock(m).insert(m, *name, value).unwrap();
            value
        }
        Expr::Set(name, value) => {
            let value = eval(m, value, at);
            with(m, at, *name, |place| *place = value);
            value
        }
        Expr::If(condition, then, otherwise) => {
            eval(m, if eval(m, condition, at).number() != 0.0 { then } else { otherwise }, at)
        }
        Expr::While(condition, body) => {
            while eval(m, condition, at).number() != 0.0 {
                eval(m, body, at);
            }
            Value::Null
        }
        Expr::Do(body) => {
            let inner = scope(m, Some(at));
            body.iter().fold(Value::Null, |_, expr| eval(m, expr, inner))
        }
        Expr::Function(function) => Value::Closure(function, at),
        Expr::Binary(op, left, right) => Value::Number(match (op, eval(m, left, at), eval(m, right, at)) {
            (op, Value::Number(left), Value::Number(right)) => apply(*op, left, right),
            (Op::Equal, left, right) => f64::from(matches!((left, right), (Value::Null, Value::Null))),
            (_, left, right) => f64::from(!matches!((left, right), (Value::Null, Value::Null))),
        }),
        Expr::Array(length, element) => {
            let (length, element) = (eval(m, length, at).number() as usize, eval(m, element, at));
            let array = GcVec::from_iter(m, std::iter::repeat_n(element, length)).unwrap();
            Value::Array(m.alloc(GcMutex::new(array)).unwrap())
        }
        Expr::At(array, index) => {
            let (array, index) = (eval(m, array, at).array(), eval(m, index, at).number());
            array.lock(m)[index as usize]
        }
        Expr::Put(array, index, value) => {
            let (array, index) = (eval(m, array, at).array(), eval(m, index, at).number());
            let value = eval(m, value, at);
            array.lock(m)[index as usize] = value;
            value
        }
        Expr::Length(array) => Value::Number(eval(m, array, at).array().lock(m).len() as f64),
        Expr::Object(fields) => {
            let mut object = GcHashMap::default();
            for (name, value) in fields {
                object.insert(m, *name, eval(m, value, at)).unwrap();
            }
            Value::Object(m.alloc(GcMutex::new(object)).unwrap())
        }
        Expr::Get(object, name) => eval(m, object, at).object().lock(m)[name],
        Expr::Call(function, arguments) => {
            let function = eval(m, function, at);
            call(m, function, GcVec::from_iter(m, arguments.iter().map(|argument| eval(m, argument, at))).unwrap())
        }
    }
}

impl Script for Interpreter<'_> {
    fn call(&mut self, argument: f64) -> f64 {
        call(self.m, self.program, GcVec::from_iter(self.m, [Value::Number(argument)]).unwrap()).number()
    }
}

pub fn run(world: &World, size: Size) -> Meter {
    // SAFETY: this thread keeps every `Gc` and every collection in local variables and in collected objects.
    let m = &unsafe { world.attach("main") }.unwrap();
    let globals = scope(m, None);
    globals.variables.lock(m).insert(m, HISTORY, Value::Null).unwrap();
    drive_script(size, &mut Interpreter { m, program: Value::Closure(program(), globals) })
}
