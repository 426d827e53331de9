; A leak on purpose: a cache that is never emptied. Run it against a heap limit:
;
;     stopworld run lisp --heap-limit 16MiB examples/scheme/leak.scm
;
; The first part fills the heap, catches the condition, drops the cache, and continues: the leaked memory is free
; again. The second part leaks without a handler, and the program ends with an error message.

(define cache '())

(define (remember! n)
  (set! cache (cons (make-vector 100 n) cache))
  (remember! (+ n 1)))

(define first-failure
  (call/cc
   (lambda (return)
     (with-exception-handler
      (lambda (condition)
        (set! cache '())
        (return condition))
      (lambda () (remember! 0))))))

(display "caught: ")
(display (eq? 'memory (error-object-kind first-failure)))
(newline)

(define (sum-of-garbage rounds)
  (do ((i 0 (+ i 1)) (sum 0 (+ sum (vector-length (make-vector 100 i))))) ((= i rounds) sum)))

(display "and on it goes: ")
(display (sum-of-garbage 100000))
(newline)

(display "now for good")
(newline)
(remember! 0)
