//! A Scheme interpreter that allocates every cell as a collected object.
//!
//! It is the main test program of this collector: it runs real programs, with their garbage, on several threads. Pairs,
//! strings, symbols, floats, closures, vectors, the compiled code, the symbol table, and even the machine's stack are
//! objects of the world. Outside the heap the interpreter keeps only one `Root`, and the registers of a running machine on
//! the Rust stack. The safety contract of `World::attach` requires this, so no code in this folder stores a `Value` in a
//! `Vec` or a `Box`.
//!
//! ```text
//!   text ──reader──▶ data ──expand, forms, macros──▶ tree ──resolve──▶ (captures, boxes) ──emit──▶ code ──machine──▶
//! ```
//!
//! **The language** follows R7RS: proper tail calls, first-class continuations that may be entered several times,
//! `dynamic-wind`, `guard` and the condition procedures, `syntax-rules`, records, promises, string ports, hash
//! tables. Integers are exact at any size; there are no exact fractions (`(/ 1 3)` is a float) and no files.
//! Recursion is limited by the interpreter's own stack (4 million slots by default), so infinite recursion is
//! an error that names the procedure, whatever the size of the thread's stack.
//!
//! **Threads.** Each thread creates its own [`Interpreter`], with its own symbols, globals and stack; threads
//! share the heap, not data. The machine polls for a safepoint at each call and each iteration of a loop, so it runs
//! with signals and with safepoints.
//!
//! **Profiles** name a program's own procedures (`meter.rs`).
//!
//! **Errors** end a run with a [`LispError`]: a syntax error before any form of the file is evaluated, with
//! `file:line:column`; an uncaught condition with the place of the call, the procedure, and the waiting calls.
//! A full heap raises a condition like any other failure; a program may catch it and continue.

use std::cell::Cell;
use std::io::Write;
use std::marker::PhantomData;

use stopworld::{Gc, Mutator, Root, cost_centre};
use stopworld_platform::sync::AtomicBool;

mod builtins;
mod code;
mod conditions;
mod control;
mod define;
mod emit;
mod error;
mod expand;
mod forms;
mod machine;
mod macros;
mod meter;
mod numbers;
mod objects;
mod output;
mod printer;
mod reader;
mod registers;
mod repl;
mod resolve;
mod special;
mod stack;
mod store;
mod tree;
mod value;

pub use error::{LispError, SourceLocation, Uncaught};
pub use repl::Prompt;

use error::SyntaxError;
use machine::FIRST_SLOTS;
use objects::{Closure, Condition, Pair};
use output::Output;
use reader::Reader;
use registers::Vm;
use store::{Machine, StackLimit, Store};
use value::{Kind, Value};

const PRELUDE: &str = include_str!("prelude.scm");

/// The interrupt of a program that cannot be interrupted.
static NEVER: AtomicBool = AtomicBool::new(false);

/// The default limit of a machine's stack, in slots: about half a million waiting calls, 32 MiB.
const MOST_SLOTS: usize = 1 << 22;

/// A stack larger than this is not kept from one program to the next.
const LARGE_SLOTS: usize = 1 << 16;

/// A Scheme interpreter for one mutator thread: symbols, global variables, a stack.
///
/// It belongs to the world of the mutator that created it, and must be used only with mutators of that world. It may move
/// to another thread, but two threads can't use it at once: they would push on the same stack.
pub struct Interpreter {
    machine: Root<Machine>,
    most_slots: usize,
    _one_thread_at_a_time: PhantomData<Cell<()>>,
}

impl std::fmt::Debug for Interpreter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Interpreter").field("most_slots", &self.most_slots).finish_non_exhaustive()
    }
}

impl Interpreter {
    /// Creates an interpreter with its symbols, the built-in procedures, and the procedures written in Scheme.
    ///
    /// # Errors
    /// If the heap is full, or the bounds of the thread's stack could not be read.
    pub fn new(mutator: &Mutator) -> Result<Self, LispError> {
        let _cost = cost_centre!("prelude");
        let machine = Machine::make(mutator, FIRST_SLOTS)?;
        let interpreter =
            Self { machine: mutator.root(machine), most_slots: MOST_SLOTS, _one_thread_at_a_time: PhantomData };
        let store = interpreter.store(mutator)?;
        special::Special::install(&store)?;
        builtins::install(&store)?;
        let condition = Condition {
            head: Kind::Condition.head(0),
            kind: store.symbol("memory")?,
            message: store.string("out of memory: the heap is full")?,
            irritants: Value::NIL,
            place: Value::FALSE,
            procedure: Value::FALSE,
            calls: Value::NIL,
        };
        machine.out_of_memory.set(store.object(condition)?);
        let mut nowhere = std::io::sink();
        interpreter.run(&store, Source::Prelude, &mut Output::new(&mut nowhere))?;
        machine.ready.set(Value::TRUE);
        Ok(interpreter)
    }

    /// Limits the stack to this number of slots, but not to fewer than 4096; a call uses four or five.
    #[must_use]
    pub fn with_stack_slots(mut self, slots: usize) -> Self {
        self.most_slots = slots.max(FIRST_SLOTS);
        self
    }

    /// Runs a program: reads all of it, then evaluates it form by form. Errors name it by `name`.
    ///
    /// `(exit)` and `(exit 0)` end it like the end of its last form.
    ///
    /// # Errors
    /// The reason why the program did not reach its end: see [`LispError`].
    pub fn run_file(
        &self,
        mutator: &Mutator,
        name: &str,
        text: &str,
        out: &mut (dyn Write + Send),
    ) -> Result<(), LispError> {
        self.run_until(mutator, name, text, out, None)
    }

    /// Does the same as [`run_file`](Self::run_file), and ends with [`LispError::Interrupted`] soon after the flag is set.
    ///
    /// # Errors
    /// The reason why the program did not reach its end: see [`LispError`].
    pub fn run_until(
        &self,
        mutator: &Mutator,
        name: &str,
        text: &str,
        out: &mut (dyn Write + Send),
        interrupt: Option<&AtomicBool>,
    ) -> Result<(), LispError> {
        let store = Store { interrupt: interrupt.unwrap_or(&NEVER), ..self.store(mutator)? };
        let mut out = Output::new(out);
        let result = self.run(&store, Source::File { name, text }, &mut out);
        out.flush(mutator)?;
        match result {
            Err(LispError::Exit(0)) => Ok(()),
            Err(error) => Err(error),
            Ok(_) => Ok(()),
        }
    }

    /// Evaluates a text. Returns the value of its last form, as `write` prints it. What the text displays is discarded.
    ///
    /// # Errors
    /// The reason why the evaluation did not reach its end: see [`LispError`]. `(exit 0)` is [`LispError::Exit`], too.
    pub fn evaluate(&self, mutator: &Mutator, name: &str, text: &str) -> Result<String, LispError> {
        let store = self.store(mutator)?;
        let mut nowhere = std::io::sink();
        let value = self.run(&store, Source::File { name, text }, &mut Output::new(&mut nowhere))?;
        Ok(printer::to_text(&store, value, printer::Style::Write))
    }

    fn store<'m>(&self, mutator: &'m Mutator) -> Result<Store<'m>, LispError> {
        Ok(Store {
            mutator,
            machine: self.machine.get(mutator),
            limit: StackLimit::of_this_thread()?,
            primitive_name: builtins::name,
            interrupt: &NEVER,
        })
    }

    fn run(&self, store: &Store<'_>, source: Source<'_>, out: &mut Output<'_>) -> Result<Value, LispError> {
        let (file, forms) = match source {
            Source::Prelude => (Value::FALSE, read_all(store, "prelude", PRELUDE)?),
            Source::File { name, text } => (store.string(name)?, read_all(store, name, text)?),
        };
        define::claim_definitions(if file.is_true() { forms } else { Value::NIL });
        store.machine.output.set(Value::TRUE);
        if store.machine.stack.get().len() > LARGE_SLOTS {
            // The last program recursed deeply and has ended; the next one begins with a small stack.
            store.machine.stack.set(store.row(FIRST_SLOTS, |_| Value::UNSPECIFIED)?);
        }
        let mut last = Value::UNSPECIFIED;
        store.machine.forms.set(forms);
        while let Some(pair) = store.machine.forms.get().get::<Pair>() {
            let form = pair.car.get();
            store.machine.forms.set(pair.cdr.get());
            let name = if let Source::File { name, .. } = source { name } else { "prelude" };
            let compiled = compile(store, form, pair.place(), file).map_err(|error| place_error(error, name))?;
            if let Some(closure) = compiled.get::<Closure>() {
                last = Vm::new(*store, out, closure, self.most_slots).run(closure)?;
            }
        }
        Ok(last)
    }
}

/// Runs a program in a new interpreter: see [`Interpreter::run_file`].
///
/// # Errors
/// The reason why the program did not reach its end: see [`LispError`].
pub fn run_file(mutator: &Mutator, name: &str, text: &str, out: &mut (dyn Write + Send)) -> Result<(), LispError> {
    Interpreter::new(mutator)?.run_file(mutator, name, text, out)
}

#[derive(Clone, Copy)]
enum Source<'t> {
    Prelude,
    File { name: &'t str, text: &'t str },
}

/// Reads all forms of a text into a list.
fn read_all(store: &Store<'_>, name: &str, text: &str) -> Result<Value, LispError> {
    let _cost = cost_centre!("read");
    let mut reader = Reader::new(*store, text);
    let mut forms = Value::NIL;
    let mut last: Option<Gc<Pair>> = None;
    while let Some(form) = reader.next().map_err(|error| place_error(error, name))? {
        let pair = store.cons_at(form, Value::NIL, reader.place())?;
        match last {
            Some(last) => last.cdr.set(pair),
            None => forms = pair,
        }
        last = pair.get::<Pair>();
    }
    Ok(forms)
}

/// Compiles a top-level form to a procedure without parameters. The file is `#f` for the prelude, and for forms given to
/// `eval`.
fn compile(store: &Store<'_>, form: Value, at: (u32, u32), file: Value) -> Result<Value, SyntaxError> {
    let _cost = cost_centre!("compile");
    let prelude = !store.machine.ready.get().is_true();
    let mut expander = expand::Expander::new(*store, prelude)?;
    expander.at = at;
    let mut node = expander.toplevel(form)?;
    let functions = resolve::resolve(&mut node, &mut expander.variables);
    let mut emitter = emit::Emitter::new(*store, expander.pool, file, &mut expander.variables, &functions);
    let code = emitter.toplevel(&node)?;
    Ok(store::closure_of(store, code)?)
}

fn place_error(error: SyntaxError, file: &str) -> LispError {
    match error {
        SyntaxError::Memory(error) => LispError::OutOfMemory(error),
        SyntaxError::Syntax { at: (line, column), message, incomplete } => {
            LispError::Syntax { place: SourceLocation { file: file.to_owned(), line, column }, message, incomplete }
        }
    }
}
