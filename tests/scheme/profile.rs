//! A profile of a Scheme program names its procedures: live objects that a procedure has allocated are charged to it, on the stack of the
//! procedures that wait for it, whatever the program does with its stack.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::stack_support::scrub_stack;
use rstest::rstest;
use stopworld::events::{Event, EventId, Labels, MemorySink, NullSink, Selection, payload};
use stopworld::profile::{CentreId, StackId, TickClock, TimeProfile};
use stopworld::testing::charged_to_address;
use stopworld::{Charging, Mutator, Paranoid, World};
use stopworld_workloads::lisp::Interpreter;

/// Returns the labels of the stack's cost centres that are in this source file, outermost first.
fn names(stack: StackId, file: &str) -> String {
    let mut names: Vec<_> = stack.centres().filter(|centre| centre.module() == file).map(CentreId::label).collect();
    names.reverse();
    names.join(" > ")
}

/// Runs a program and returns the live bytes of pairs that its procedures have allocated, by stack.
fn alive(file: &str, program: &str) -> BTreeMap<String, u64> {
    let sink = Arc::new(MemorySink::with_capacity(1 << 16).unwrap());
    let world = World::builder().heap_limit(64 << 20).initial_heap(1 << 20);
    // This gives the types their names.
    let world = world.listen(Arc::new(NullSink), Selection::of([EventId::Labelled].into_iter().collect()));
    let world = world.charge_allocations(Charging::On).paranoid(Paranoid::On).build().unwrap();
    // SAFETY: no references at all.
    let m = unsafe { world.attach("scheme") }.unwrap();
    let interpreter = Interpreter::new(&m).unwrap();
    let stack = m.cost_stack();
    interpreter.run_file(&m, file, program, &mut std::io::sink()).unwrap();
    assert_eq!(m.cost_stack(), stack, "a program must restore the stack");
    // The machine clears the unused part of its stack every few thousand calls.
    let forget = "(define (spin n) (if (> n 0) (spin (- n 1)))) (spin 10000)";
    interpreter.run_file(&m, "forget.scm", forget, &mut std::io::sink()).unwrap();
    scrub_stack();
    world.events().listen(sink.clone(), Selection::of([EventId::DumpNode].into_iter().collect())).unwrap();
    m.collect().unwrap();
    assert_eq!(sink.dropped(), 0);
    sum(&m, &sink, file)
}

fn sum(m: &Mutator, sink: &MemorySink, file: &str) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for record in sink.drain() {
        let Event::DumpNode(payload::DumpNode { addr, bytes, type_addr, .. }) = record.event() else { continue };
        if !Labels::of_the_process().text_of(type_addr).is_some_and(|name| name.ends_with("Pair")) {
            continue;
        }
        let names = names(charged_to_address(m, addr).unwrap(), file);
        if !names.is_empty() {
            *sums.entry(names).or_default() += bytes as u64;
        }
    }
    sums
}

/// The size of a pair in the heap.
const PAIR: u64 = 32;

#[rstest]
#[case::calls(
    "(define (fill n) (if (= n 0) '() (cons n (fill (- n 1)))))
     (define (both) (let ((a (fill 100)) (b (fill 20))) (cons a b)))
     (define kept (both))
     (define more (fill 3))",
    &[("both", 1), ("both > fill", 120), ("fill", 3)]
)]
#[case::what_has_no_name_is_charged_to_whom_it_works_for(
    "(define (outer) (map (lambda (n) (cons n n)) '(1 2 3 4 5)))
     (define kept (outer))",
    &[("outer", 10)]
)]
#[case::a_tail_call_takes_the_place_of_its_caller(
    "(define (ping n all) (if (= n 0) all (pong (- n 1) (cons n all))))
     (define (pong n all) (if (= n 0) all (ping (- n 1) (cons n all))))
     (define (start) (let ((all (ping 101 '()))) (cons all all)))
     (define kept (start))",
    &[("start", 1), ("start > ping", 51), ("start > pong", 50)]
)]
#[case::recursion_goes_back_to_where_it_was(
    "(define (a n) (if (= n 0) '() (let ((rest (b (- n 1)))) (cons n rest))))
     (define (b n) (if (= n 0) '() (let ((rest (a (- n 1)))) (cons n rest))))
     (define kept (a 10))",
    &[("a", 5), ("a > b", 5)]
)]
#[case::an_escape_leaves_what_it_leaves(
    "(define out #f)
     (define (deep n) (if (= n 0) (out 'done) (cons n (deep (- n 1)))))
     (define (top)
       (let ((result (call/cc (lambda (k) (set! out k) (deep 50)))))
         (list result result)))
     (define kept (top))
     (set! out #f)",
    &[("top", 2)]
)]
#[case::a_continuation_that_is_entered_again_has_its_own_stack(
    "(define again #f)
     (define count 0)
     (define kept '())
     (define (inner) (call/cc (lambda (k) (set! again k) 0)) (set! kept (cons 1 kept)) 1)
     (define (first) (let ((n (inner))) (set! kept (cons n kept)) n))
     (define (second) (if (< count 3) (begin (set! count (+ count 1)) (again count))))
     (first)
     (second)
     (set! again #f)",
    // The continuation includes the rest of the program, so entering it runs the forms after the one that captured it once more.
    &[("first", 4), ("first > inner", 4)]
)]
#[case::an_error_cuts_the_stack_back_to_its_guard(
    "(define (fails n) (if (= n 0) (car 'nothing) (cons n (fails (- n 1)))))
     (define (safe) (let ((got (guard (e (#t (list 1 2 3))) (fails 30)))) (cons got got)))
     (define kept (safe))",
    &[("safe", 4)]
)]
fn live_objects_are_charged_to_the_procedures_that_allocated_them(
    #[case] program: &str,
    #[case] pairs: &[(&str, u64)],
) {
    let file = "shape.scm";
    let expected: BTreeMap<String, u64> =
        pairs.iter().map(|(stack, pairs)| ((*stack).to_owned(), pairs * PAIR)).collect();
    assert_eq!(alive(file, program), expected);
}

#[test]
fn a_procedure_has_its_name_its_file_and_its_line() {
    let file = "lines.scm";
    alive(file, "\n\n(define (here) (cons 1 2))\n(define kept (here))");
    let centre = stopworld::profile::centres().find(|centre| centre.module() == file).unwrap();
    assert_eq!(centre.label(), "here");
    assert!(centre.place().starts_with("lines.scm:3:"), "{}", centre.place());
}

#[test]
fn a_time_profile_names_the_procedures_too() {
    let sink = Arc::new(MemorySink::with_capacity(1 << 16).unwrap());
    let wanted = Selection::of([EventId::Tick].into_iter().collect());
    let profile = TimeProfile { interval: std::time::Duration::from_micros(100), clock: TickClock::Cpu };
    let world = World::builder().heap_limit(64 << 20).listen(sink.clone(), wanted).time_profile(profile);
    let world = world.build().unwrap();
    // SAFETY: no references at all.
    let m = unsafe { world.attach("scheme") }.unwrap();
    let program =
        "(define (fib n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2))))) (define (work) (+ 1 (fib 24))) (work)";
    let interpreter = Interpreter::new(&m).unwrap();
    // On a busy machine the ticker may sleep through a run.
    let is_seen = (0..500).any(|_| {
        interpreter.run_file(&m, "fib.scm", program, &mut std::io::sink()).unwrap();
        sink.drain().any(|record| match record.event() {
            Event::Tick(payload::Tick { stack, .. }) => names(StackId::from_raw(stack), "fib.scm") == "work > fib",
            _ => false,
        })
    });
    assert!(is_seen);
}
