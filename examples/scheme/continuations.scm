; Continuations: early exits, generators, backtracking, coroutines. Each captures the stack and enters it again.

(define (product numbers)
  (call/cc
   (lambda (return)
     (fold-left (lambda (p n) (if (= n 0) (return 0) (* p n))) 1 numbers))))
(write (list (product '(1 2 3 4)) (product '(1 0 oops)))) (newline)

; A generator walks a tree and returns its leaves one by one.
(define (leaves tree)
  (define return #f)
  (define (walk tree)
    (cond ((null? tree) 'nothing)
          ((pair? tree) (walk (car tree)) (walk (cdr tree)))
          (else (call/cc (lambda (resume)
                           (set! continue (lambda () (resume 'go)))
                           (return tree))))))
  (define (continue) (walk tree) (return 'done))
  (lambda () (call/cc (lambda (r) (set! return r) (continue)))))

(define (same-fringe? a b)
  (let ((next-a (leaves a)) (next-b (leaves b)))
    (let loop ()
      (let ((x (next-a)) (y (next-b)))
        (cond ((not (eqv? x y)) #f) ((eq? x 'done) #t) (else (loop)))))))
(write (list (same-fringe? '((1 2) (3 (4))) '(1 (2 3) 4)) (same-fringe? '(1 2 3) '(1 3 2)))) (newline)

; amb: chooses a value, and backtracks to the next one on failure.
(define fail #f)
(define (amb choices)
  (call/cc
   (lambda (k)
     (let ((outer fail))
       (for-each (lambda (choice)
                   (call/cc (lambda (next)
                              (set! fail (lambda () (next 'try-the-next)))
                              (k choice))))
                 choices)
       (set! fail outer)
       (fail)))))
(define (require condition) (if (not condition) (fail)))

(define (pythagoras limit)
  (call/cc
   (lambda (k)
     (set! fail (lambda () (k 'none)))
     (let* ((a (amb (iota limit 1))) (b (amb (iota limit a))) (c (amb (iota limit b))))
       (require (= (+ (* a a) (* b b)) (* c c)))
       (require (> a 5))
       (list a b c)))))
(write (pythagoras 20)) (newline)

; Two coroutines take turns.
(define queue '())
(define (enqueue! thunk) (set! queue (append queue (list thunk))))
(define (yield) (call/cc (lambda (k) (enqueue! (lambda () (k 'back))) (next!))))
(define (next!) (if (pair? queue) (let ((thunk (car queue))) (set! queue (cdr queue)) (thunk))))
(define (worker name n)
  (lambda ()
    (do ((i 0 (+ i 1))) ((= i n)) (display name) (display i) (display " ") (yield))
    (next!)))
(call/cc (lambda (done)
  (enqueue! (worker 'a 3))
  (enqueue! (worker 'b 2))
  (enqueue! (lambda () (yield) (yield) (yield) (yield) (done 'all)))
  (next!)))
(newline)

; dynamic-wind runs its thunks at every entry and exit.
(define trace '())
(define (note x) (set! trace (cons x trace)))
(define again #f)
(define times 0)
(dynamic-wind
 (lambda () (note 'in))
 (lambda () (call/cc (lambda (k) (set! again k))) (note 'body))
 (lambda () (note 'out)))
(set! times (+ times 1))
(if (< times 3) (again 'x))
(write (reverse trace)) (newline)
