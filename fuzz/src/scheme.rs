//! The target for the Scheme reader, compiler and virtual machine.

use std::cell::OnceCell;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use stopworld_workloads::lisp::{Interpreter, LispError};
use stopworld::{Mutator, World};

const HEAP_BYTES: usize = 32 << 20;
const STACK_SLOTS: usize = 1 << 16;
/// The time after which a running program is interrupted.
const PATIENCE: Duration = Duration::from_millis(100);

static INTERRUPT: AtomicBool = AtomicBool::new(false);
/// The number of the running program; 0 while none runs.
static RUNNING: AtomicU64 = AtomicU64::new(0);

/// Starts a thread that interrupts a program after it has run for at least `PATIENCE`.
fn watch() {
    std::thread::spawn(|| {
        let mut seen = 0;
        loop {
            std::thread::sleep(PATIENCE);
            let now = RUNNING.load(Ordering::Relaxed);
            if now != 0 && now == seen {
                INTERRUPT.store(true, Ordering::Relaxed);
            }
            seen = now;
        }
    });
}

thread_local! {
    static MUTATOR: OnceCell<&'static Mutator> = const { OnceCell::new() };
}

fn mutator() -> &'static Mutator {
    MUTATOR.with(|cell| {
        *cell.get_or_init(|| {
            watch();
            let world = World::builder().heap_limit(HEAP_BYTES).build().expect("a small world can be made");
            let world: &'static World = Box::leak(Box::new(world));
            // SAFETY: the interpreter keeps its values in collected objects and on this thread's stack.
            let mutator = unsafe { world.attach("fuzz") }.expect("the thread can be attached");
            Box::leak(Box::new(mutator))
        })
    })
}

/// Makes a new interpreter. Occasionally the heap has no room for it, because stale words on the stack keep objects of earlier programs
/// alive.
fn interpreter(mutator: &Mutator) -> Option<Interpreter> {
    static FAILED: AtomicU64 = AtomicU64::new(0);
    match Interpreter::new(mutator) {
        Ok(interpreter) => {
            FAILED.store(0, Ordering::Relaxed);
            Some(interpreter.with_stack_slots(STACK_SLOTS))
        }
        Err(error) => {
            let failed = 1 + FAILED.fetch_add(1, Ordering::Relaxed);
            assert!(failed < 100, "the prelude did not fit into the heap {failed} times in succession: {error}");
            None
        }
    }
}

/// Runs a program in a new interpreter. The message of a syntax error must give line and column.
pub fn scheme(program: &[u8]) {
    static PROGRAMS: AtomicU64 = AtomicU64::new(0);
    let mutator = mutator();
    let text = String::from_utf8_lossy(program);
    let Some(interpreter) = interpreter(mutator) else { return };
    INTERRUPT.store(false, Ordering::Relaxed);
    RUNNING.store(1 + PROGRAMS.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
    let result = interpreter.run_until(mutator, "fuzz.scm", &text, &mut io::sink(), Some(&INTERRUPT));
    RUNNING.store(0, Ordering::Relaxed);
    let Err(error) = result else { return };
    let message = error.to_string();
    assert!(!message.is_empty());
    if let LispError::Syntax { place, .. } = error {
        assert!(message.contains(&format!("fuzz.scm:{}:{}", place.line, place.column)), "{message}");
    }
}
