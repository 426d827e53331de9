//! An interpreter for a small language like JavaScript, with closures.
//!
//!     cargo run --release --example script                 run `examples/script/tour.script`
//!     cargo run --release --example script -- FILE         run a program
//!
//! What to look at: the syntax tree, the values and the environments are enums and structs with `#[derive(Trace)]`, and refer to each other as
//! they like. A closure is a function and an environment, which usually refers back to the closure. Nothing is cloned, borrowed or
//! counted, and no type has a lifetime. The last line, on standard error, says what the collector did.
//!
//! Everything is an expression: numbers, strings, `true`, `false`, `null`, arrays `[e, e]`, objects `{k: e}`, functions `fn(x, y) e`, calls,
//! `a[i]`, `o.k`, `let x = e`, `x = e`, `if (e) e else e`, `while (e) e`, blocks `{ e; e }`, and `|| && == != < <= > >= + - * / % !`. Functions of
//! the interpreter: `print`, `len`, `push`, `keys`.

mod parser;

use std::error::Error;
use std::fmt::Write as _;
use std::io::Write;
use std::process::ExitCode;

use stopworld::{ByAddress, Gc, GcHashMap, GcMutex, GcVec, Mutator, Trace, World, WorldBuilder};

/// The program that runs if there is no other.
pub const TOUR: &str = include_str!("tour.script");
const USAGE: &str = "usage: script [FILE]";
/// How deep expressions and calls may be nested, and the stack that the interpreter's thread needs for that without optimisation.
const DEEPEST: usize = 2000;
const STACK_BYTES: usize = 64 << 20;

/// A program, and each part of it.
#[derive(Trace)]
enum Expr {
    Constant(Value),
    Variable(Gc<str>),
    Let(Gc<str>, Gc<Expr>),
    Assign(Gc<Expr>, Gc<Expr>),
    If(Gc<Expr>, Gc<Expr>, Gc<Expr>),
    While(Gc<Expr>, Gc<Expr>),
    Block(Gc<[Gc<Expr>]>),
    Array(Gc<[Gc<Expr>]>),
    Object(Gc<[(Gc<str>, Gc<Expr>)]>),
    Function(Gc<Function>),
    Binary(Op, Gc<Expr>, Gc<Expr>),
    Index(Gc<Expr>, Gc<Expr>),
    Call(Gc<Expr>, Gc<[Gc<Expr>]>),
}

#[derive(Trace)]
struct Function {
    parameters: Gc<[Gc<str>]>,
    body: Gc<Expr>,
}

#[derive(Clone, Copy, PartialEq, Debug, Trace)]
#[rustfmt::skip]
enum Op { Or, And, Eq, Ne, Lt, Le, Gt, Ge, Add, Sub, Mul, Div, Rem }

/// A value of a program. Arrays, objects and functions are compared by identity.
#[derive(Clone, Copy, PartialEq, Trace)]
enum Value {
    Null,
    Bool(bool),
    Number(f64),
    Text(Gc<str>),
    Array(ByAddress<GcMutex<GcVec<Value>>>),
    Object(ByAddress<GcMutex<GcHashMap<Gc<str>, Value>>>),
    Closure(ByAddress<Function>, ByAddress<Scope>),
    Native(Native),
}

#[derive(Clone, Copy, PartialEq, Debug, Trace)]
#[rustfmt::skip]
enum Native { Print, Len, Push, Keys }
const NATIVES: [(&str, Native); 4] =
    [("print", Native::Print), ("len", Native::Len), ("push", Native::Push), ("keys", Native::Keys)];

/// The variables of a block or a call, and the scope around it.
#[derive(Trace)]
struct Scope {
    variables: GcMutex<GcHashMap<Gc<str>, Value>>,
    outer: Option<Gc<Scope>>,
}

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

impl Scope {
    fn new(m: &Mutator, outer: Option<Gc<Scope>>) -> Outcome<Gc<Scope>> {
        Ok(m.alloc(Scope { variables: GcMutex::new(GcHashMap::new()), outer })?)
    }

    /// Calls `f` with the variable of this name in this scope or in those around it.
    fn with<R>(&self, m: &Mutator, name: Gc<str>, f: impl FnOnce(&mut Value) -> R) -> Outcome<R> {
        let mut scope = self;
        loop {
            if let Some(value) = scope.variables.lock(m).get_mut(&*name) {
                return Ok(f(value));
            }
            match &scope.outer {
                Some(outer) => scope = outer,
                None => return Err(format!("there is no variable {name}").into()),
            }
        }
    }
}

struct Interpreter<'a> {
    m: &'a Mutator,
    out: &'a mut dyn Write,
    depth: usize,
}

impl Interpreter<'_> {
    fn eval(&mut self, expr: Gc<Expr>, scope: Gc<Scope>) -> Outcome<Value> {
        if self.depth == DEEPEST {
            return Err(format!("calls are nested more than {DEEPEST} deep").into());
        }
        self.depth += 1;
        let value = self.eval_nested(expr, scope);
        self.depth -= 1;
        value
    }

    fn eval_all(&mut self, exprs: &[Gc<Expr>], scope: Gc<Scope>) -> Outcome<GcVec<Value>> {
        let mut values = GcVec::with_capacity(self.m, exprs.len())?;
        for &expr in exprs {
            values.push(self.m, self.eval(expr, scope)?)?;
        }
        Ok(values)
    }

    fn eval_nested(&mut self, expr: Gc<Expr>, scope: Gc<Scope>) -> Outcome<Value> {
        let m = self.m;
        Ok(match *expr {
            Expr::Constant(value) => value,
            Expr::Variable(name) => scope.with(m, name, |value| *value)?,
            Expr::Let(name, value) => {
                let value = self.eval(value, scope)?;
                scope.variables.lock(m).insert(m, name, value)?;
                value
            }
            Expr::Assign(place, value) => {
                let value = self.eval(value, scope)?;
                self.assign(place, value, scope)?;
                value
            }
            Expr::If(condition, then, otherwise) => {
                let branch = if self.eval(condition, scope)?.is_true() { then } else { otherwise };
                self.eval(branch, scope)?
            }
            Expr::While(condition, body) => {
                while self.eval(condition, scope)?.is_true() {
                    self.eval(body, scope)?;
                }
                Value::Null
            }
            Expr::Block(body) => {
                let inner = Scope::new(m, Some(scope))?;
                let mut last = Value::Null;
                for &expr in body.iter() {
                    last = self.eval(expr, inner)?;
                }
                last
            }
            Expr::Array(elements) => Value::Array(ByAddress(m.alloc(GcMutex::new(self.eval_all(&elements, scope)?))?)),
            Expr::Object(fields) => {
                let mut object = GcHashMap::new();
                for &(key, field) in fields.iter() {
                    object.insert(m, key, self.eval(field, scope)?)?;
                }
                Value::Object(ByAddress(m.alloc(GcMutex::new(object))?))
            }
            Expr::Function(function) => Value::Closure(ByAddress(function), ByAddress(scope)),
            Expr::Binary(op, left, right) => match (op, self.eval(left, scope)?) {
                (Op::And, left) if !left.is_true() => left,
                (Op::Or, left) if left.is_true() => left,
                (Op::And | Op::Or, _) => self.eval(right, scope)?,
                (_, left) => left.combine(m, op, self.eval(right, scope)?)?,
            },
            Expr::Index(container, index) => match (self.eval(container, scope)?, self.eval(index, scope)?) {
                (Value::Object(object), Value::Text(key)) => object.lock(m).get(&*key).copied().unwrap_or(Value::Null),
                (Value::Array(array), Value::Number(index)) => {
                    let element = position(index).and_then(|position| array.lock(m).get(position).copied());
                    element.ok_or_else(|| format!("the array has no element {index}"))?
                }
                (container, index) => return Err(format!("{}[{}]", container.text(m)?, index.text(m)?).into()),
            },
            Expr::Call(function, arguments) => {
                let (function, arguments) = (self.eval(function, scope)?, self.eval_all(&arguments, scope)?);
                match function {
                    Value::Closure(function, outer) if arguments.len() == function.parameters.len() => {
                        let inner = Scope::new(m, Some(*outer))?;
                        let named = function.parameters.iter().copied().zip(arguments);
                        inner.variables.lock(m).extend(m, named)?;
                        self.eval(function.body, inner)?
                    }
                    Value::Native(native) => self.native(native, &arguments)?,
                    _ => return Err(format!("{} called with {} arguments", function.text(m)?, arguments.len()).into()),
                }
            }
        })
    }

    fn assign(&mut self, place: Gc<Expr>, value: Value, scope: Gc<Scope>) -> Outcome<()> {
        let m = self.m;
        match *place {
            Expr::Variable(name) => return scope.with(m, name, |variable| *variable = value),
            Expr::Index(container, index) => match (self.eval(container, scope)?, self.eval(index, scope)?) {
                (Value::Array(array), Value::Number(index)) => {
                    let set = |position| array.lock(m).get_mut(position).map(|element| *element = value);
                    position(index).and_then(set).ok_or_else(|| format!("the array has no element {index}"))?;
                }
                (Value::Object(object), Value::Text(key)) => _ = object.lock(m).insert(m, key, value)?,
                (container, index) => return Err(format!("{}[{}] = …", container.text(m)?, index.text(m)?).into()),
            },
            _ => return Err("only a variable, an element or a field can be assigned to".into()),
        }
        Ok(())
    }

    fn native(&mut self, native: Native, arguments: &[Value]) -> Outcome<Value> {
        let m = self.m;
        Ok(match (native, arguments) {
            (Native::Print, values) => {
                let texts = values.iter().map(|value| value.text(m)).collect::<Outcome<Vec<String>>>()?;
                writeln!(self.out, "{}", texts.join(" "))?;
                Value::Null
            }
            (Native::Len, [Value::Array(array)]) => Value::Number(array.lock(m).len() as f64),
            (Native::Len, [Value::Text(text)]) => Value::Number(text.chars().count() as f64),
            (Native::Push, [Value::Array(array), value]) => {
                array.lock(m).push(m, *value)?;
                *value
            }
            (Native::Keys, [Value::Object(object)]) => {
                let keys = GcVec::from_iter(m, object.lock(m).keys().map(|&key| Value::Text(key)))?;
                Value::Array(ByAddress(m.alloc(GcMutex::new(keys))?))
            }
            _ => return Err(format!("{native:?} has other arguments").into()),
        })
    }
}

impl Value {
    fn is_true(self) -> bool {
        !matches!(self, Value::Null | Value::Bool(false))
    }

    fn combine(self, m: &Mutator, op: Op, other: Value) -> Outcome<Value> {
        Ok(match (op, self, other) {
            (Op::Eq, ..) => Value::Bool(self == other),
            (Op::Ne, ..) => Value::Bool(self != other),
            (Op::Add, Value::Number(a), Value::Number(b)) => Value::Number(a + b),
            (Op::Sub, Value::Number(a), Value::Number(b)) => Value::Number(a - b),
            (Op::Mul, Value::Number(a), Value::Number(b)) => Value::Number(a * b),
            (Op::Div, Value::Number(a), Value::Number(b)) => Value::Number(a / b),
            (Op::Rem, Value::Number(a), Value::Number(b)) => Value::Number(a % b),
            (Op::Lt, Value::Number(a), Value::Number(b)) => Value::Bool(a < b),
            (Op::Le, Value::Number(a), Value::Number(b)) => Value::Bool(a <= b),
            (Op::Gt, Value::Number(a), Value::Number(b)) => Value::Bool(a > b),
            (Op::Ge, Value::Number(a), Value::Number(b)) => Value::Bool(a >= b),
            (Op::Add, a, b) => Value::Text(m.alloc_str(&format!("{}{}", a.text(m)?, b.text(m)?))?),
            (op, a, b) => return Err(format!("{op:?} of {} and {}", a.text(m)?, b.text(m)?).into()),
        })
    }

    fn text(self, m: &Mutator) -> Outcome<String> {
        let mut text = String::new();
        self.write(m, &mut text, 3)?;
        Ok(text)
    }

    /// Appends this value. An object may contain itself, so only `levels` levels of what it contains are appended.
    fn write(self, m: &Mutator, to: &mut String, levels: usize) -> Outcome<()> {
        match self {
            Value::Null => to.push_str("null"),
            Value::Bool(truth) => _ = write!(to, "{truth}"),
            Value::Number(number) => _ = write!(to, "{number}"),
            Value::Text(text) => to.push_str(&text),
            Value::Closure(..) | Value::Native(_) => to.push_str("function"),
            Value::Array(_) | Value::Object(_) if levels == 0 => to.push('…'),
            // A lock is held for one statement only, so the elements are copied.
            Value::Array(array) => {
                to.push('[');
                let elements = GcVec::from_iter(m, array.lock(m).iter().copied())?;
                for (index, element) in elements.into_iter().enumerate() {
                    to.push_str(if index > 0 { ", " } else { "" });
                    element.write(m, to, levels - 1)?;
                }
                to.push(']');
            }
            Value::Object(object) => {
                to.push('{');
                let fields = GcVec::from_iter(m, object.lock(m).iter().map(|(&key, &value)| (key, value)))?;
                for (index, (key, value)) in fields.into_iter().enumerate() {
                    _ = write!(to, "{}{key}: ", if index > 0 { ", " } else { "" });
                    value.write(m, to, levels - 1)?;
                }
                to.push('}');
            }
        }
        Ok(())
    }
}

/// Returns the position in an array that a number means, if it means one: -1, 0.5 and what is not a number do not.
fn position(index: f64) -> Option<usize> {
    (index >= 0.0 && index.fract() == 0.0).then_some(index as usize)
}

/// Runs a program. It prints to `out`.
fn interpret(m: &Mutator, program: &str, out: &mut dyn Write) -> Outcome<()> {
    let program = parser::parse(m, program)?;
    let globals = Scope::new(m, None)?;
    for (name, native) in NATIVES {
        globals.variables.lock(m).insert(m, m.alloc_str(name)?, Value::Native(native))?;
    }
    Interpreter { m, out, depth: 0 }.eval(program, globals)?;
    Ok(())
}

/// Runs a program in a new world, on a thread with a large stack.
pub fn run(builder: WorldBuilder, program: &str, out: &mut (impl Write + Send)) -> Outcome<()> {
    let world = builder.build()?;
    let work = || -> Outcome<()> {
        // SAFETY: this thread keeps every `Gc` and every collection in local variables and in collected objects.
        let m = unsafe { world.attach("script") }?;
        interpret(&m, program, out)
    };
    std::thread::scope(|threads| {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(threads, work)?;
        thread.join().map_err(|_| "the interpreter panicked")?
    })?;
    let totals = world.totals();
    eprintln!("{} bytes allocated, {} collections", totals.allocated_bytes, totals.collections);
    Ok(())
}

/// Runs the interpreter with these arguments. Returns its exit status.
pub fn start(builder: WorldBuilder, arguments: &[&str], out: &mut (impl Write + Send)) -> Outcome<u8> {
    match *arguments {
        [] => run(builder, TOUR, out)?,
        ["--help"] => writeln!(out, "{USAGE}")?,
        [file] if !file.starts_with('-') => {
            let program = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
            run(builder, &program, out)?;
        }
        _ => {
            eprintln!("{USAGE}");
            return Ok(2);
        }
    }
    Ok(0)
}

fn main() -> Outcome<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    Ok(start(World::builder().heap_limit(256 << 20), &arguments, &mut std::io::stdout())?.into())
}
