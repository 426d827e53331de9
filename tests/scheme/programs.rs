//! The Scheme interpreter: programs and their output, expressions and their values, errors and their messages; and all programs again in
//! small paranoid heaps, on several threads, under each stopper.

use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rstest::rstest;

use stopworld::{Mutator, Paranoid, Stopper, World, WorldBuilder};
use stopworld_workloads::lisp::{Interpreter, LispError, Prompt};

const MIB: usize = 1 << 20;

fn in_world<R>(builder: WorldBuilder, f: impl FnOnce(&Mutator) -> R) -> R {
    let world = builder.build().unwrap();
    // SAFETY: the closures of these tests keep no `Gc` at all.
    let m = unsafe { world.attach("test") }.unwrap();
    f(&m)
}

fn ordinary() -> WorldBuilder {
    World::builder().heap_limit(256 * MIB)
}

fn text_of(program: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/scheme").join(program);
    std::fs::read_to_string(path).unwrap()
}

fn output_of(m: &Mutator, program: &str) -> Result<String, LispError> {
    let mut out = Vec::new();
    let result = Interpreter::new(m)?.run_file(m, program, &text_of(program), &mut out);
    let text = String::from_utf8(out).unwrap();
    result.map(|()| text)
}

fn evaluated(expression: &str) -> Result<String, LispError> {
    in_world(ordinary(), |m| Interpreter::new(m)?.evaluate(m, "test.scm", expression))
}

const NQUEENS: &str = "\
4 queens: 2 solutions
5 queens: 10 solutions
6 queens: 4 solutions
7 queens: 40 solutions
8 queens: 92 solutions
 . . . Q . . . .
 . Q . . . . . .
 . . . . . . Q .
 . . Q . . . . .
 . . . . . Q . .
 . . . . . . . Q
 . . . . Q . . .
 Q . . . . . . .
";

const METACIRCULAR: &str = "3628800\n(1 4 9 16 25)\n2584\n(3 1)\n21\n610\n";

const STRINGS: &str = r##"("allocate" "mark" "sweep" "restart")
"allocate -> mark -> sweep -> restart"
"Gur Tneontr Pbyyrpgbe Unf Orra Pnyyrq"
"The Garbage Collector Has Been Called"
(#t #f)
("MCMLVIII" "MCMLX" "MMVI" "MMXXV")
"1 \"two\" #\\3 4.5 "
("  7" "234" "ÜBER" 4)
245760
335383
"##;

const MCCARTHY: &str = "\
y          = (plus (times x (times x y)) (times (plus x three) x))
dy/dx      = (plus (plus (times (times x y) one) (times x (plus (times y one) (times x zero)))) (plus (times x (plus \
one zero)) (times (plus x three) one)))
simplified = (plus (plus (times x y) (times x y)) (plus x (plus x three)))
by eval1   = (plus (plus (times x y) (times x y)) (plus x (plus x three)))
label      = (a b c d e)
storey 2   = (the garbage collector)
storey 3   = (has been called)
again      = #t
";

const GC_BENCH: &str = "\
stretch tree: 131071 nodes
2114 + 2114 trees of depth 4
516 + 516 trees of depth 6
128 + 128 trees of depth 8
32 + 32 trees of depth 10
8 + 8 trees of depth 12
2 + 2 trees of depth 14
(20 5995)
long-lived tree: 32767 nodes, array[1000] = 0.000999000999000999
";

const CONTINUATIONS: &str = "\
(24 0)
(#t #f)
(6 8 10)
a0 b0 a1 b1 a2 
(in body out in body out in body out)
";

const ERRORS: &str = r##"3
(error "car: expected a pair, got a-symbol")
(error "vector-ref: the index 3 is out of range, the length is 3")
(error "the message: irritant \"another\" 3.5")
(symbol a-symbol)
(string "text" #t)
(error "undefined-procedure is not defined")
(error "an unnamed procedure expects 1 argument, got 0")
(error "quotient: division by zero")
(error "\"not a procedure\" is not a procedure")
(error "assertion failed: (< 2 1)")
(error "string-ref: the index 10 is out of range, the length is 3")
recursion
(symbol not-a-number)
41
"in out caught "
(4 (cannot "divide by zero:" (12)) 2.4)
"##;

const TOUR: &str = "\
15511210043330985984000000
870 3.142857142857143 4 1267650600228229401496703205376
2.0 3 ff 1000.0
#t
200000
70 insufficient funds 70
((ada was born 143 years before) (grace was born 52 years before) (john was born 31 years before))
(1 4 9 16 #(a 2) . end)
1906 (1 2 3) 9
(apple fig pear) (c d) 10
#(0 1 4 9 16 25 36 49 64 81) #(0 0 2 4 8 12 18 24 32 40)
(2 3 5 7 11 13 17 19 23 29 31 37 41 43 47 53 59)
#<point x=30 y=4> #t#f 34
215
(2 3 5 7 11 13 17 19 23 29 31 37)
-4 1
40
((be . 2) (not . 1) (or . 1) (to . 2))
((a b) 12 c)
#0=(1 2 3 . #0#)
";

#[rstest]
#[case("nqueens.scm", NQUEENS)]
#[case("metacircular.scm", METACIRCULAR)]
#[case("strings.scm", STRINGS)]
#[case("mccarthy.scm", MCCARTHY)]
#[case("gc-bench.scm", GC_BENCH)]
#[case("continuations.scm", CONTINUATIONS)]
#[case("errors.scm", ERRORS)]
#[case("tour.scm", TOUR)]
fn a_program_prints_what_it_should(#[case] program: &str, #[case] expected: &str) {
    let printed = in_world(ordinary(), |m| output_of(m, program)).unwrap();
    assert_eq!(printed, expected, "{program}");
}

/// Small heaps collect often; poisoned cells reveal a reachable object that was freed.
#[rstest]
fn programs_survive_a_small_paranoid_heap_on_four_threads(
    #[values(Stopper::Signals, Stopper::Safepoints)] stopper: Stopper,
) {
    let world = World::builder()
        .heap_limit(24 * MIB)
        .initial_heap(MIB)
        .markers(2)
        .stopper(stopper)
        .paranoid(Paranoid::On)
        .build()
        .unwrap();
    let programs = [("nqueens.scm", NQUEENS), ("strings.scm", STRINGS), ("continuations.scm", CONTINUATIONS)];
    let threads: Vec<_> = (0..4)
        .map(|i| {
            let work = move |m: &Mutator| {
                for (program, expected) in programs.iter().cycle().skip(i).take(3) {
                    assert_eq!(output_of(m, program).unwrap(), *expected, "{program}");
                }
            };
            // SAFETY: the interpreter keeps values on its stack and in the heap, and the rest of the closure has none.
            unsafe { world.spawn(&format!("scheme {i}"), work) }.unwrap()
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert!(world.totals().collections > 8, "{} collections are too few to show anything", world.totals().collections);
}

/// The programs are stopped at any instruction, not only at allocations.
#[rstest]
fn programs_are_not_affected_by_constant_stops(#[values(Stopper::Signals, Stopper::Safepoints)] stopper: Stopper) {
    let world = World::builder().heap_limit(256 * MIB).stopper(stopper).paranoid(Paranoid::On).build().unwrap();
    let programs = [("nqueens.scm", NQUEENS), ("mccarthy.scm", MCCARTHY), ("tour.scm", TOUR)];
    let mut stops = 0;
    // The program runs once, or more often if there were too few stops for a meaningful test.
    while stops <= 50 {
        let threads = programs.map(|(program, expected)| {
            let work = move |m: &Mutator| assert_eq!(output_of(m, program).unwrap(), expected, "{program}");
            // SAFETY: as above.
            unsafe { world.spawn(program, work) }.unwrap()
        });
        while threads.iter().any(|thread| !thread.is_finished()) {
            world.collect().unwrap();
            stops += 1;
            // The programs need time to make progress, too.
            std::thread::sleep(std::time::Duration::from_micros(200));
        }
        for thread in threads {
            thread.join().unwrap();
        }
    }
}

#[test]
fn a_leak_is_caught_once_and_ends_the_program_the_second_time() {
    in_world(World::builder().heap_limit(16 * MIB), |m| {
        let mut out = Vec::new();
        let error = Interpreter::new(m).unwrap().run_file(m, "leak.scm", &text_of("leak.scm"), &mut out).unwrap_err();
        assert_eq!(String::from_utf8(out).unwrap(), "caught: #t\nand on it goes: 10000000\nnow for good\n");
        let message = error.to_string();
        assert!(message.starts_with("leak.scm:11:21: out of memory: "), "{message}");
        assert!(message.contains("the heap limit is 16.0 MiB"), "{message}");
        assert_eq!(error.exit_code(), 1);
    });
}

#[rstest]
// Numbers.
#[case("(+ 1 2 3)", "6")]
#[case("(- 5)", "-5")]
#[case("(* 4611686018427387903 2)", "9223372036854775806")]
#[case("(- -4611686018427387904 1)", "-4611686018427387905")]
#[case("(- (+ 4611686018427387903 1) 1)", "4611686018427387903")]
#[case("(quotient (expt 10 40) (expt 10 38))", "100")]
#[case("(list (quotient -7 2) (remainder -7 2) (modulo -7 2))", "(-3 -1 1)")]
#[case("(list (modulo (- (expt 10 20)) 7) (remainder (- (expt 10 20)) 7))", "(5 -2)")]
#[case("(list (/ 6 3) (/ 1 4) (/ 1.0 3))", "(2 0.25 0.3333333333333333)")]
#[case("(list 1.0 -0.5 1e21 1e-10 100.0 (sqrt -0.0))", "(1.0 -0.5 1e21 1e-10 100.0 -0.0)")]
#[case("(list (exact->inexact 1e400) (- 1e400) (- 1e400 1e400))", "(+inf.0 -inf.0 +nan.0)")]
#[case("(list (sqrt 16) (sqrt 2) (sqrt (expt 10 40)))", "(4 1.4142135623730951 100000000000000000000)")]
#[case("(list #xff #b101 #e1e3 #i5 (string->number \"zz\" 36))", "(255 5 1000 5.0 1295)")]
#[case("(list (string->number \"abc\") (string->number \"-12\") (string->number \"1.5e2\"))", "(#f -12 150.0)")]
#[case("(string->number \"1_000\")", "#f")]
#[case("(list (round 2.5) (round 3.5) (truncate -2.7) (exact (floor 2.7)))", "(2.0 4.0 -2.0 2)")]
#[case("(list (< 1 2 3) (< 1 3 2) (= 1 1.0) (max 1 2.0) (min 1 2))", "(#t #f #t 2.0 1)")]
#[case("(list (gcd 12 18) (lcm 4 6) (even? 10) (odd? -3) (abs -5) (expt 2 0.5))", "(6 12 #t #t 5 1.4142135623730951)")]
#[case("(list (eqv? 1 1) (eqv? 1 1.0) (eqv? 1.5 1.5) (eqv? (expt 2 70) (expt 2 70)) (eq? 'a 'a))", "(#t #f #t #t #t)")]
// Lists.
#[case("'(1 (2 . 3) #(4 \"five\" #\\6) . seven)", "(1 (2 . 3) #(4 \"five\" #\\6) . seven)")]
#[case("(append '(1) '(2 3) '() 4)", "(1 2 3 . 4)")]
#[case("(list (list-tail '(1 2 3) 1) (list-ref '(1 2 3) 2) (length '(1 2)) (reverse '(1 2 3)))", "((2 3) 3 2 (3 2 1))")]
#[case(
    "(list (memq 'c '(a b c d)) (member \"b\" '(\"a\" \"b\")) (assv 2 '((1 . a) (2 . b))))",
    "((c d) (\"b\") (2 . b))"
)]
#[case("(map + '(1 2 3) '(10 20 30 40))", "(11 22 33)")]
#[case("(let ((n 0)) (for-each (lambda (a b) (set! n (+ n (* a b)))) '(1 2) '(3 4)) n)", "11")]
#[case(
    "(list (fold-left - 0 '(1 2 3)) (fold-right - 0 '(1 2 3)) (fold cons '() '(1 2)) (reduce + 0 '()))",
    "(-6 2 (2 1) 0)"
)]
#[case(
    "(list (filter odd? '(1 2 3)) (delete 2 '(1 2 3)) (any even? '(1 2)) (every even? '(2 3)))",
    "((1 3) (1 3) #t #f)"
)]
#[case("(call-with-values (lambda () (partition even? '(1 2 3 4))) list)", "((2 4) (1 3))")]
#[case("(sort '(3 1 2) >)", "(3 2 1)")]
#[case("(sort (vector 3 1 2) <)", "#(1 2 3)")]
#[case("(map car (sort '((b . 1) (a . 1) (c . 0)) (lambda (x y) (< (cdr x) (cdr y)))))", "(c b a)")]
#[case(
    "(list (iota 3) (iota 3 1) (list-copy '(1 2)) (last-pair '(1 2)) (apply max '(1 3 2)))",
    "((0 1 2) (1 2 3) (1 2) (2) 3)"
)]
#[case("(equal? '(1 #(2 \"x\")) (list 1 (vector 2 (string #\\x))))", "#t")]
// Syntax.
#[case("(let* ((x 1) (y (+ x 1))) (define z (* y 2)) (list x y z))", "(1 2 4)")]
#[case(
    "(letrec ((e? (lambda (n) (or (= n 0) (o? (- n 1))))) (o? (lambda (n) (and (> n 0) (e? (- n 1)))))) (e? 101))",
    "#f"
)]
#[case(
    "(let loop ((i 0) (l '())) (if (= i 3) l (loop (+ i 1) (cons (lambda () i) l))))",
    "(#<procedure> #<procedure> #<procedure>)"
)]
#[case(
    "(map (lambda (f) (f)) (let loop ((i 0) (l '())) (if (= i 3) l (loop (+ i 1) (cons (lambda () i) l)))))",
    "(2 1 0)"
)]
#[case(
    "(map (lambda (f) (f)) (do ((i 0 (+ i 1)) (l '() (cons (lambda () (set! i (+ i 10)) i) l))) ((= i 2) l)))",
    "(11 10)"
)]
#[case(
    "(let loop ((i 0)) (if (< i 10) (begin (let inner ((j 0)) (if (< j 3) (inner (+ j 1)))) (loop (+ i 1))) i))",
    "10"
)]
#[case("(let f ((n 5)) (if (= n 0) 1 (* n (f (- n 1)))))", "120")]
#[case("(do ((v (make-vector 5)) (i 0 (+ i 1))) ((= i 5) v) (vector-set! v i i))", "#(0 1 2 3 4)")]
#[case("(cond ((assv 'b '((a 1) (b 2))) => cadr) (else 'none))", "2")]
#[case(
    "(list (case 3 ((1 2) 'low) ((3 4) 'mid) (else 'high)) (case 'x ((x) => list) (else 1)) (case 9 ((1) 1) (else => list)))",
    "(mid (x) (9))"
)]
#[case("(list (and) (or) (and 1 2) (or #f 3) (when #f 1) (unless #f 1 2))", "(#t #f 2 3 #<unspecified> 2)")]
#[case("`(1 ,@(list 2 3) ,(+ 2 2) (nested `(,(a ,(+ 1 4)))))", "(1 2 3 4 (nested `(,(a 5))))")]
#[case("`#(1 ,@(list 2 3))", "#(1 2 3)")]
#[case("`(1 . ,(+ 1 1))", "(1 . 2)")]
#[case("((lambda (a b . rest) (list a b rest)) 1 2 3 4)", "(1 2 (3 4))")]
#[case("((lambda all all))", "()")]
#[case("(define x 1) (set! x (+ x 1)) x", "2")]
#[case("(define (outer) (define a 1) (define (b) (* a 10)) (set! a 5) (b)) (outer)", "50")]
#[case("(define ((adder n) m) (+ n m)) ((adder 3) 4)", "7")]
#[case("(define-values (q r) (floor/ 7 2)) (list q r)", "(3 1)")]
#[case("(let*-values (((a b) (values 1 2)) ((c . d) (values a b 3))) (list a b c d))", "(1 2 1 (2 3))")]
#[case("(receive (a . rest) (values 1 2 3) (list a rest))", "(1 (2 3))")]
#[case(
    "(define f (case-lambda ((a) (list 'one a)) ((a b) (list 'two a b)) ((a . r) (list 'more a r)))) (list (f 1) (f 1 2) (f 1 2 3))",
    "((one 1) (two 1 2) (more 1 (2 3)))"
)]
#[case("(define p (make-parameter 1 (lambda (x) (* x 2)))) (list (p) (parameterize ((p 5)) (p)) (p))", "(2 10 2)")]
#[case("(let ((n 0)) (define p (delay (begin (set! n (+ n 1)) n))) (list (force p) (force p)))", "(1 1)")]
#[case("(eval '(let ((x 2)) (* x 21)) (interaction-environment))", "42")]
#[case("(define list 3) (define (car x) 'mine) (cons list (car '(1)))", "(3 . mine)")]
#[case("(define (g) (cadr '(1 2))) (define (cadr x) 'mine) (g)", "mine")]
#[case("(define (reverse l) 'mine) (map (lambda (x) x) '(1 2))", "(1 2)")]
#[case("(let ((if list)) (if 1 2 3))", "(1 2 3)")]
// Macros.
#[case(
    "(define-syntax swap! (syntax-rules () ((_ a b) (let ((tmp a)) (set! a b) (set! b tmp))))) (let ((tmp 1) (x 2)) (swap! tmp x) (list tmp x))",
    "(2 1)"
)]
#[case(
    "(define-syntax my-or (syntax-rules () ((_) #f) ((_ e) e) ((_ e r ...) (let ((t e)) (if t t (my-or r ...)))))) (let ((t 5)) (my-or #f t))",
    "5"
)]
#[case(
    "(define-syntax my-if (syntax-rules () ((_ c a b) (cond (c a) (else b))))) (let ((else #f)) (my-if #f 1 2))",
    "2"
)]
#[case(
    "(define-syntax my-let (syntax-rules () ((_ ((n v) ...) b ...) ((lambda (n ...) b ...) v ...)))) (my-let ((a 1) (b 2)) (+ a b))",
    "3"
)]
#[case("(define-syntax flat (syntax-rules () ((_ (a ...) ...) '(a ... ...)))) (flat (1 2) () (3))", "(1 2 3)")]
#[case("(define-syntax last (syntax-rules () ((_ a ... z) 'z))) (last 1 2 3)", "3")]
#[case(
    "(define-syntax for (syntax-rules (in) ((_ x in l b ...) (map (lambda (x) b ...) l)))) (for y in '(1 2) (* y y))",
    "(1 4)"
)]
#[case("(define-syntax q (syntax-rules () ((_ x) '(x hidden #(also x))))) (q a)", "(a hidden #(also a))")]
#[case(
    "(define-syntax be-like (syntax-rules () ((_ name) (define-syntax name (syntax-rules () ((_ x (... ...)) (list x (... ...)))))))) (be-like lst) (lst 1 2)",
    "(1 2)"
)]
#[case("(let-syntax ((two (syntax-rules () ((_ x) (list x x))))) (two 3))", "(3 3)")]
#[case("(define (f) (define-syntax twice (syntax-rules () ((_ x) (* 2 x)))) (define y 4) (twice y)) (f)", "8")]
// Control.
#[case("(+ 1 (call/cc (lambda (k) (* 10 (k 1)))))", "2")]
#[case(
    "(define k #f) (define n 0) (define l '()) (set! l (cons (call/cc (lambda (c) (set! k c) 0)) l)) (set! n (+ n 1)) (if (< n 4) (k n)) (list l n)",
    "((3 2 1 0) 4)"
)]
#[case("(call-with-values (lambda () (call/cc (lambda (k) (k 1 2)))) cons)", "(1 . 2)")]
#[case(
    "(let ((path '())) (dynamic-wind (lambda () (set! path (cons 'in path))) (lambda () (call/cc (lambda (k) (k 1))) (set! path (cons 'body path))) (lambda () (set! path (cons 'out path)))) (reverse path))",
    "(in body out)"
)]
#[case("(guard (e ((assq 'a e) => cdr) ((assq 'b e))) (raise (list (cons 'a 42))))", "42")]
#[case("(guard (e ((assq 'a e) => cdr) ((assq 'b e))) (raise (list (cons 'b 23))))", "(b . 23)")]
#[case("(guard (e (#t (list 'outer e))) (guard (e ((number? e) 'inner)) (raise 'sym)))", "(outer sym)")]
#[case(
    "(guard (e (#t (list 'again e))) (with-exception-handler (lambda (e) (raise (list 'wrapped e))) (lambda () (raise 1))))",
    "(again (wrapped 1))"
)]
#[case("(with-exception-handler (lambda (e) 10) (lambda () (+ 1 (raise-continuable 'c))))", "11")]
#[case(
    "(guard (e (#t (list (error-object? e) (error-object-message e) (error-object-irritants e)))) (error \"m\" 1 2))",
    "(#t \"m\" (1 2))"
)]
#[case("(guard (e (#t (error-object-place e))) (+ 1 (car '())))", "\"test.scm:1:45\"")]
#[case("(guard (e ((string? e) e)) (dynamic-wind (lambda () #f) (lambda () (raise \"s\")) (lambda () #f)))", "\"s\"")]
#[case("(let loop ((i 0)) (if (< i 100000) (begin (guard (e (#t 'ok)) (raise 'x)) (loop (+ i 1))) i))", "100000")]
#[case("(apply apply (list + (list 1 2)))", "3")]
#[case("(define (f n) (if (= n 0) 'done (apply f (list (- n 1))))) (f 100000)", "done")]
#[case("(define (f n) (cond ((= n 0) 'done) (else (and #t (or #f (when #t (f (- n 1)))))))) (f 1000000)", "done")]
// Text.
#[case(
    "(list (string-append \"a\" \"b\") (substring \"hello\" 1 3) (string-length \"λx\") (string-ref \"λx\" 1))",
    "(\"ab\" \"el\" 2 #\\x)"
)]
#[case("(let ((s (make-string 3 #\\a))) (string-set! s 1 #\\λ) s)", "\"aλa\"")]
#[case(
    "(list (string->list \"abc\") (list->string '(#\\a #\\b)) (string->symbol \"x y\") (symbol->string 'q))",
    "((#\\a #\\b #\\c) \"ab\" |x y| \"q\")"
)]
#[case(
    "(list (string<? \"a\" \"b\" \"c\") (string=? \"a\" \"a\") (char<? #\\a #\\b) (char-upcase #\\a) (char->integer #\\A))",
    "(#t #t #t #\\A 65)"
)]
#[case(
    "(list #\\space #\\newline #\\x41 #\\( \"tab\\there\" \"\\x41;\")",
    "(#\\space #\\newline #\\A #\\( \"tab\\there\" \"A\")"
)]
#[case(
    "(list (string-search-forward \"l\" \"hello\" 0) (string-index \"hello\" #\\o) (string-join '(\"a\" \"b\") \"-\"))",
    "(2 4 \"a-b\")"
)]
#[case("(call-with-output-string (lambda (p) (write 'a p) (display \" b\" p)))", "\"a b\"")]
#[case(
    "(let ((p (open-input-string \"ab\\ncd\"))) (list (read-char p) (peek-char p) (read-line p) (read-line p) (eof-object? (read-line p))))",
    "(#\\a #\\b \"b\" \"cd\" #t)"
)]
// Vectors, records, tables.
#[case(
    "(list (vector-map square #(1 2 3)) (vector->list #(1 2 3) 1) (vector-fill! (make-vector 2 0) 7) (vector-append #(1) #(2)))",
    "(#(1 4 9) (2 3) #<unspecified> #(1 2))"
)]
#[case("(let ((v (vector 1 2 3 4 5))) (vector-copy! v 1 v 0 3) v)", "#(1 1 2 3 5)")]
#[case(
    "(define-record-type <node> (node key) node? (key node-key) (next node-next set-node-next!)) (let ((n (node 1))) (set-node-next! n 2) (list (node-key n) (node-next n) (node? n) (node? 1) n))",
    "(1 2 #t #f #<<node> key=1 next=2>)"
)]
#[case(
    "(define t (make-equal-hash-table)) (hash-table-set! t '(1) 'a) (hash-table-set! t \"k\" 'b) (hash-table-set! t 1.5 'c) (list (hash-table-ref t (list 1) (lambda () 'no)) (hash-table-ref/default t \"k\" 0) (hash-table-ref/default t 1.5 0) (hash-table-ref/default t 2 'none) (hash-table-count t))",
    "(a b c none 3)"
)]
#[case(
    "(define t (make-strong-eqv-hash-table)) (do ((i 0 (+ i 1))) ((= i 1000)) (hash-table-set! t i (* i i))) (do ((i 0 (+ i 2))) ((= i 1000)) (hash-table-delete! t i)) (list (hash-table-count t) (hash-table-ref/default t 999 #f) (hash-table-ref/default t 998 #f))",
    "(500 998001 #f)"
)]
// Reading.
#[case("#| block #| nested |# |# (list 1 #;(skipped) 2) ; line", "(1 2)")]
#[case("'[a (b . [c])]", "(a (b c))")]
#[case("'|odd symbol|", "|odd symbol|")]
#[case("(let ((l (list 1 2))) (set-cdr! (cdr l) l) (set-car! l l) l)", "#0=(#0# 2 . #0#)")]
fn an_expression_evaluates_to(#[case] expression: &str, #[case] expected: &str) {
    assert_eq!(evaluated(expression).unwrap(), expected, "{expression}");
}

#[rstest]
// The reader.
#[case("(define (f)\n  (display \"hi\")\n", "test.scm:1:1: this ( is never closed")]
#[case("(list 1\n  (list 2\n    3)", "test.scm:1:1: this ( is never closed")]
#[case("(display\n \"no end", "test.scm:2:2: this string is never closed")]
#[case("(list 1 2))", "test.scm:1:11: unexpected ): no list is open here")]
#[case("(list [1 2)", "test.scm:1:11: ) found where ] should close the [ of 1:7")]
#[case("\n\n   #\\nosuch", "test.scm:3:4: unknown character name #\\nosuch")]
#[case("'(1 . 2 3)", "test.scm:1:9: more than one datum after a dot")]
#[case("(a . )", "test.scm:1:4: a dot with nothing after it")]
#[case("\"\\q\"", "test.scm:1:2: unknown escape \\q")]
#[case("#<what>", "test.scm:1:1: unknown syntax #<what>")]
#[case("(+ 1/2 1)", "test.scm:1:4: 1/2: there are no exact fractions; write a decimal number or a division")]
#[case("(f #| ", "test.scm:1:4: this #| comment is never closed by |#")]
// The compiler.
#[case("(display 1)\n(define (f x)\n  (if))", "test.scm:3:3: expected (if test consequent alternative)")]
#[case("(let ((x)) x)", "test.scm:1:1: expected a binding (variable expression), found (x)")]
#[case("(lambda (x x) 1)", "test.scm:1:1: the parameter x appears twice")]
#[case(
    "(+ 1 (define x 2))",
    "test.scm:1:6: a definition belongs at top level or in a body, not where a value is expected"
)]
#[case("(let ()\n (1 . 2))", "test.scm:2:2: a combination must be a proper list")]
#[case("(list if)", "test.scm:1:1: if is syntax and has no value")]
#[case("(display 'before) ()", "test.scm:1:19: () is not an expression; the empty list is written '()")]
#[case(
    "(define-syntax m (syntax-rules () ((_ a) a)))\n  (m 1 2)",
    "test.scm:2:3: no rule of the macro m matches (m 1 2)"
)]
fn a_syntax_error_names_its_place(#[case] program: &str, #[case] expected: &str) {
    let error = evaluated(program).unwrap_err();
    assert!(matches!(error, LispError::Syntax { .. }), "{error:?}");
    assert_eq!(error.to_string(), expected, "{program}");
}

#[rstest]
#[case("(car 5)", "test.scm:1:1: car: expected a pair, got 5")]
#[case(
    "(define (first-of l)\n  (car l))\n(define (f)\n  (+ 1 (first-of 'x)))\n(f)",
    "test.scm:2:3: car: expected a pair, got x, in first-of\n    called at test.scm:4:8 in f\n    called at test.scm:5:1"
)]
#[case(
    "(define (check n)\n  (if (< n 0)\n    (error \"negative:\" n 'really)))\n(check -1)",
    "test.scm:3:5: negative: -1 really, in check\n    called at test.scm:4:1"
)]
#[case("(+ 1 (nowhere))", "test.scm:1:6: nowhere is not defined")]
#[case("(set! nowhere 1)", "test.scm:1:1: nowhere is not defined")]
#[case("(define (f a b) a)\n(f 1)", "test.scm:2:1: f expects 2 arguments, got 1")]
#[case("((lambda (a . r) a))", "test.scm:1:1: an unnamed procedure expects at least 1 argument, got 0")]
#[case("(string-ref \"abc\")", "test.scm:1:1: string-ref expects 2 arguments, got 1")]
#[case("(5 5)", "test.scm:1:1: 5 is not a procedure")]
#[case("(+ 'a 1)", "test.scm:1:1: +: expected a number, got a")]
#[case("(vector-ref (vector 1 2) 2)", "test.scm:1:1: vector-ref: the index 2 is out of range, the length is 2")]
#[case("(quotient 1 0)", "test.scm:1:1: quotient: division by zero")]
#[case("(raise (list 1 2))", "test.scm:1:1: uncaught object (1 2)")]
#[case("(assert (= 1 2))", "test.scm:1:1: assertion failed: (= 1 2)")]
#[case("(map (lambda (x) (* x 'y)) '(1))", "test.scm:1:18: *: expected a number, got y\n    called at test.scm:1:1")]
#[case(
    "(letrec ((a (lambda () b)) (c (a)) (b 1)) c)",
    "test.scm:1:13: a variable of this body is used before its definition, in a\n    called at test.scm:1:31"
)]
#[case(
    "(define-record-type p (make-p x) p? (x p-x)) (p-x 5)",
    "test.scm:1:1: expected a p, got 5, in p-x\n    called at test.scm:1:46"
)]
#[case(
    "(exact 2.5)",
    "test.scm:1:1: exact: expected a number without a fraction (there are no exact fractions), got 2.5"
)]
#[case(
    "(with-exception-handler (lambda (e) 'ignored) (lambda () (raise 'oops)))",
    "test.scm:1:58: a handler returned from raise; the object was oops\n    called at test.scm:1:1"
)]
fn a_run_time_error_names_place_and_procedure(#[case] program: &str, #[case] expected: &str) {
    let error = evaluated(program).unwrap_err();
    assert!(matches!(error, LispError::Uncaught(_)), "{error:?}");
    assert_eq!(error.to_string(), expected, "{program}");
}

#[rstest]
#[case("(define (f n) (+ 1 (f n)))\n(f 1)", "test.scm:1:20: recursion too deep in f: ")]
#[case("(define (ping n) (list (pong n)))\n(define (pong n) (list (ping n)))\n(ping 1)", "recursion too deep in p")]
#[case("(map (lambda (x) (let down ((n x)) (cons n (down (+ n 1))))) '(1))", "recursion too deep in down: ")]
fn endless_recursion_is_an_error_that_names_the_procedure(#[case] program: &str, #[case] expected: &str) {
    let message = evaluated(program).unwrap_err().to_string();
    assert!(message.contains(expected), "{message}");
    assert!(message.contains("calls are waiting"), "{message}");
}

/// The reader, the compiler, `equal?` and the printer recurse on the thread's own stack.
#[rstest]
#[case(format!("{}1{}", "(".repeat(200_000), ")".repeat(200_000)), "deep.scm:1:")]
#[case(format!("(length '{}1{})", "(".repeat(2_000), ")".repeat(2_000)), "1")]
#[case(format!("{NEST} (list (equal? (nest 1000000 'a) (nest 1000000 'a)) (equal? (nest 1000000 'a) (nest 1000000 'b)))"), "(#t #f)")]
#[case(format!("{NEST} (< 1000 (string-length (with-output-to-string (lambda () (write (nest 1000000 'a))))))"), "#t")]
#[case(format!("{NEST} (eval (nest 1000000 '+) 1)"), "deep.scm:1:92: the program is nested too deeply to be compiled")]
fn deep_data_never_overflow_the_threads_stack(#[case] program: String, #[case] expected: &str) {
    let world = ordinary().build().unwrap();
    let work = move |m: &Mutator| Interpreter::new(m).and_then(|i| i.evaluate(m, "deep.scm", &program));
    // SAFETY: the closure keeps no `Gc`; the interpreter's are on its stack and in the heap.
    let thread = unsafe { world.spawn("deep", work) }.unwrap();
    let said = thread.join().unwrap().unwrap_or_else(|error| error.to_string());
    assert!(said.starts_with(expected), "{said:.200}");
    assert!(!expected.starts_with("deep") || said.contains("too deeply"), "{said:.200}");
}

const NEST: &str = "(define (nest n x) (let loop ((i 0) (l (list x))) (if (= i n) l (loop (+ i 1) (list l)))))";

#[rstest]
#[case("(exit)", 0)]
#[case("(exit #t)", 0)]
#[case("(exit 7)", 7)]
#[case("(exit #f)", 1)]
fn exit_ends_the_program_with_its_code(#[case] program: &str, #[case] expected: u8) {
    let mut out = Vec::new();
    let program = format!("(display \"before\") {program} (display \"after\")");
    let result = in_world(ordinary(), |m| Interpreter::new(m)?.run_file(m, "exit.scm", &program, &mut out));
    assert_eq!(result.map_or_else(|error| error.exit_code(), |()| 0), expected);
    assert_eq!(out, b"before");
}

#[rstest]
#[case("(let loop () (guard (e (#t 'caught)) (loop)))")]
#[case("(let ((ring (list 1 2))) (set-cdr! (cdr ring) ring) (memq 3 ring))")]
#[case("(let ((a (list 1)) (b (list 1))) (set-cdr! a a) (set-cdr! b b) (equal? a b))")]
fn an_interrupt_ends_a_program_that_runs_for_ever(#[case] program: &str) {
    let flag = AtomicBool::new(true);
    let result = in_world(ordinary(), |m| {
        Interpreter::new(m)?.run_until(m, "forever.scm", program, &mut std::io::sink(), Some(&flag))
    });
    assert!(matches!(result, Err(LispError::Interrupted)), "{result:?}");
}

/// Sets a flag when something is written.
struct Interrupts<'a>(&'a AtomicBool);

impl Write for Interrupts<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.store(true, Ordering::Relaxed);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// In a heap that is almost full, each call may collect: thousands of calls would take a minute.
#[test]
fn an_interrupt_ends_a_program_at_the_next_call() {
    const PROGRAM: &str = "(define calls 0)
        (define (count) (set! calls (+ calls 1)) (count))
        (display 1) (flush-output) (count)";
    let flag = AtomicBool::new(false);
    in_world(ordinary(), |m| {
        let interpreter = Interpreter::new(m).unwrap();
        let result = interpreter.run_until(m, "forever.scm", PROGRAM, &mut Interrupts(&flag), Some(&flag));
        assert!(matches!(result, Err(LispError::Interrupted)), "{result:?}");
        let calls: u32 = interpreter.evaluate(m, "calls.scm", "calls").unwrap().parse().unwrap();
        assert!(calls <= 1, "{calls} calls after the interrupt");
    });
}

#[test]
fn a_repl_asks_for_the_rest_of_a_form_and_goes_on_after_an_error() {
    let lines =
        ["(define (f x)", "  (* x 2))", "(f 21)", "(car 1)", "(display \"hi\")", "\"text\"", "(exit 3)", "lost"];
    let mut lines = lines.iter();
    let mut prompts = Vec::new();
    let mut out = Vec::new();
    let code = in_world(ordinary(), |m| {
        let mut next = |prompt| {
            prompts.push(prompt);
            Ok(lines.next().map(|line| (*line).to_owned()))
        };
        Interpreter::new(m).unwrap().repl(m, &mut next, &mut out).unwrap()
    });
    assert_eq!(code, 3);
    let expected = "f\n42\nrepl:1:1: car: expected a pair, got 1\nhi\n\"text\"\n";
    assert_eq!(String::from_utf8(out).unwrap(), expected);
    assert_eq!(prompts[..3], [Prompt::Fresh, Prompt::More, Prompt::Fresh]);
}

#[test]
fn an_interpreter_remembers_between_programs_and_survives_a_collection() {
    in_world(ordinary(), |m| {
        let interpreter = Interpreter::new(m).unwrap();
        interpreter.evaluate(m, "one.scm", "(define kept (list 1 \"two\" 'three))").unwrap();
        for _ in 0..3 {
            m.collect().unwrap();
            assert_eq!(interpreter.evaluate(m, "two.scm", "kept").unwrap(), "(1 \"two\" three)");
        }
    });
}
