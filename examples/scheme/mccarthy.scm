; LISP in LISP: the universal function of "Recursive Functions of Symbolic Expressions and Their Computation by
; Machine, Part I" (1960), in the form that LISP 1.5 gave it.
;
; `definitions` below is data: a list of names and lambda expressions in the pure subset, which has atoms, pairs,
; five elementary functions (atom, eq, car, cdr, cons), quote, cond, lambda, and label. The list is used three times:
;
;   1. Scheme compiles it, and differentiates a polynomial with it;
;   2. the compiled evaluator evaluates the same list, and differentiates the same polynomial;
;   3. the evaluator evaluates itself evaluating itself evaluating a small program.
;
; At the third level a single `car` allocates hundreds of pairs, all of them garbage at once. McCarthy's machine, an
; IBM 704, had some 15,000 words of free storage when it first demonstrated this to an audience.

(define definitions
  '((caar (lambda (x) (car (car x))))
    (cadr (lambda (x) (car (cdr x))))
    (cdar (lambda (x) (cdr (car x))))
    (caddr (lambda (x) (car (cdr (cdr x)))))
    (cadar (lambda (x) (car (cdr (car x)))))
    (null (lambda (x) (eq x nil)))
    (list3 (lambda (x y z) (cons x (cons y (cons z nil)))))

    (pairlis (lambda (x y a)
      (cond ((null x) a)
            (t (cons (cons (car x) (car y)) (pairlis (cdr x) (cdr y) a))))))

    (sassoc (lambda (x a)
      (cond ((eq (caar a) x) (car a))
            (t (sassoc x (cdr a))))))

    (eval1 (lambda (e a)
      (cond ((atom e) (cdr (sassoc e a)))
            ((eq (car e) (quote quote)) (cadr e))
            ((eq (car e) (quote cond)) (evcon (cdr e) a))
            (t (apply1 (car e) (evlis (cdr e) a) a)))))

    (apply1 (lambda (f x a)
      (cond ((atom f)
             (cond ((eq f (quote car)) (caar x))
                   ((eq f (quote cdr)) (cdar x))
                   ((eq f (quote cons)) (cons (car x) (cadr x)))
                   ((eq f (quote atom)) (atom (car x)))
                   ((eq f (quote eq)) (eq (car x) (cadr x)))
                   (t (apply1 (cdr (sassoc f a)) x a))))
            ((eq (car f) (quote lambda)) (eval1 (caddr f) (pairlis (cadr f) x a)))
            ((eq (car f) (quote label))
             (apply1 (caddr f) x (cons (cons (cadr f) (caddr f)) a))))))

    (evcon (lambda (c a)
      (cond ((eval1 (caar c) a) (eval1 (cadar c) a))
            (t (evcon (cdr c) a)))))

    (evlis (lambda (m a)
      (cond ((null m) nil)
            (t (cons (eval1 (car m) a) (evlis (cdr m) a))))))

    (diff (lambda (y x)
      (cond ((atom y) (cond ((eq y x) (quote one)) (t (quote zero))))
            ((eq (car y) (quote plus))
             (list3 (quote plus) (diff (cadr y) x) (diff (caddr y) x)))
            ((eq (car y) (quote times))
             (list3 (quote plus)
                    (list3 (quote times) (caddr y) (diff (cadr y) x))
                    (list3 (quote times) (cadr y) (diff (caddr y) x)))))))

    (simplify (lambda (e)
      (cond ((atom e) e)
            (t (combine (car e) (simplify (cadr e)) (simplify (caddr e)))))))

    (combine (lambda (op x y)
      (cond ((eq op (quote plus))
             (cond ((eq x (quote zero)) y) ((eq y (quote zero)) x) (t (list3 op x y))))
            ((eq x (quote zero)) x)
            ((eq y (quote zero)) y)
            ((eq x (quote one)) y)
            ((eq y (quote one)) x)
            (t (list3 op x y)))))))

; The procedures that the subset assumes.
(define t #t)
(define nil '())
(define (atom x) (not (pair? x)))
(define (eq x y) (eq? x y))

; 1. The definitions, compiled.
(for-each
 (lambda (d) (eval (list 'define (car d) (cadr d)) (interaction-environment)))
 definitions)

(define polynomial '(plus (times x (times x y)) (times (plus x three) x)))

(display "y          = ") (write polynomial) (newline)
(display "dy/dx      = ") (write (diff polynomial 'x)) (newline)
(display "simplified = ") (write (simplify (diff polynomial 'x))) (newline)

; 2. The definitions, evaluated: an environment is an association list.
(define environment
  (append (map (lambda (d) (cons (car d) (cadr d))) definitions)
          (list (cons 't #t) (cons 'nil '()))))

(define derivative
  (eval1 (list 'simplify (list 'diff (list 'quote polynomial) ''x)) environment))
(display "by eval1   = ") (write derivative) (newline)

; Recursion without a global name: label.
(define append-pure
  '(label app (lambda (x y) (cond ((eq x nil) y) (t (cons (car x) (app (cdr x) y)))))))
(display "label      = ")
(write (eval1 (list append-pure ''(a b c) ''(d e)) environment))
(newline)

; 3. The evaluator, evaluating its own definition, evaluating its own definition, evaluating `append-pure`.
(define (quoted x) (list 'quote x))
(define (storey e) (list 'eval1 (quoted e) (quoted environment)))

(display "storey 2   = ")
(write (eval1 (storey (list append-pure ''(the garbage) ''(collector))) environment))
(newline)
(display "storey 3   = ")
(write (eval1 (storey (storey (list append-pure ''(has) ''(been called)))) environment))
(newline)
(display "again      = ")
(write (equal? derivative
               (eval1 (storey (list 'simplify (list 'diff (quoted polynomial) ''x))) environment)))
(newline)
