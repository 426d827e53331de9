//! The target for the Scheme reader, compiler and virtual machine.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use stopworld_workloads::lisp::{Interpreter, LispError};
use stopworld::{Mutator, World};

const HEAP_BYTES: usize = 32 << 20;
const STACK_SLOTS: usize = 1 << 16;
/// The size of the main thread's stack.
const STACK_BYTES: usize = 8 << 20;
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

fn world() -> &'static World {
    static WORLD: OnceLock<World> = OnceLock::new();
    WORLD.get_or_init(|| {
        watch();
        World::builder().heap_limit(HEAP_BYTES).build().expect("a small world can be made")
    })
}

/// Makes a new interpreter. Occasionally the heap has no room for it, because stale words on the stack keep objects of an earlier
/// program alive.
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
///
/// The program gets a thread of its own: in the frames of the fuzzer, which never return, one stale word could keep the objects of an
/// earlier program alive for ever.
pub fn scheme(program: &[u8]) {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, || run(program));
        if let Err(panic) = thread.expect("a thread can be started").join() {
            std::panic::resume_unwind(panic);
        }
    });
}

fn run(program: &[u8]) {
    static PROGRAMS: AtomicU64 = AtomicU64::new(0);
    // SAFETY: the interpreter keeps its values in collected objects and on this thread's stack.
    let mutator = &unsafe { world().attach("fuzz") }.expect("the thread can be attached");
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
