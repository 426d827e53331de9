; A tour of the language: what a program of a few hundred lines uses.

(define (show . parts) (for-each display parts) (newline))

; numbers: exact at any size, floats where needed
(define (fact n) (if (= n 0) 1 (* n (fact (- n 1)))))
(show (fact 25))
(show (quotient (fact 30) (fact 28)) " " (exact->inexact (/ 22 7)) " " (sqrt 16) " " (expt 2 100))
(show (round 2.5) " " (exact (floor 3.7)) " " (number->string 255 16) " " (string->number "1e3"))

; tail calls: a loop of a million calls uses no stack
(define (even-steps? n) (if (= n 0) #t (odd-steps? (- n 1))))
(define (odd-steps? n) (if (= n 0) #f (even-steps? (- n 1))))
(show (even-steps? 1000000))

; and deep recursion is not limited by the thread's stack
(define (count-up n) (if (= n 0) 0 (+ 1 (count-up (- n 1)))))
(show (count-up 200000))

; closures and state
(define (make-account balance)
  (define (withdraw amount)
    (if (> amount balance) "insufficient funds" (begin (set! balance (- balance amount)) balance)))
  (define (dispatch message . arguments)
    (case message
      ((withdraw) (apply withdraw arguments))
      ((balance) balance)
      (else (error "unknown request" message))))
  dispatch)
(define account (make-account 100))
(show (account 'withdraw 30) " " (account 'withdraw 80) " " (account 'balance))

; quasiquotation, association lists, higher-order procedures
(define people '((ada . 1815) (grace . 1906) (john . 1927)))
(show (map (lambda (p) `(,(car p) was born ,(- 1958 (cdr p)) years before)) people))
(show `(1 ,@(map square '(2 3 4)) #(a ,(+ 1 1)) . end))
(show (cdr (assq 'grace people)) " " (fold-right cons '() '(1 2 3)) " " (reduce max 0 '(3 9 4)))
(show (sort '("pear" "apple" "fig") string<?) " " (list-tail '(a b c d) 2) " " (apply + 1 2 '(3 4)))

; vectors
(define squares (make-initialized-vector 10 square))
(show squares " " (vector-map (lambda (x) (quotient x 2)) squares))
(define (sieve n)
  (let ((composite (make-vector (+ n 1) #f)))
    (let loop ((i 2) (primes '()))
      (cond ((> i n) (reverse primes))
            ((vector-ref composite i) (loop (+ i 1) primes))
            (else
             (do ((j (* i i) (+ j i))) ((> j n)) (vector-set! composite j #t))
             (loop (+ i 1) (cons i primes)))))))
(show (sieve 60))

; records
(define-record-type point (make-point x y) point? (x point-x set-point-x!) (y point-y))
(define p (make-point 3 4))
(set-point-x! p 30)
(show p " " (point? p) (point? 'p) " " (+ (point-x p) (point-y p)))

; macros with fresh names
(define-syntax swap!
  (syntax-rules () ((_ a b) (let ((tmp a)) (set! a b) (set! b tmp)))))
(define-syntax while
  (syntax-rules () ((_ test body ...) (let again () (when test body ... (again))))))
(define tmp 1)
(define other 2)
(swap! tmp other)
(define n 0)
(while (< n 5) (set! n (+ n 1)))
(show tmp other n)

; streams
(define (integers n) (cons-stream n (integers (+ n 1))))
(define (stream-filter keep? s)
  (if (keep? (stream-car s))
      (cons-stream (stream-car s) (stream-filter keep? (stream-cdr s)))
      (stream-filter keep? (stream-cdr s))))
(define (sieve-stream s)
  (cons-stream (stream-car s)
               (sieve-stream (stream-filter (lambda (n) (not (= 0 (remainder n (stream-car s)))))
                                            (stream-cdr s)))))
(show (stream-head (sieve-stream (integers 2)) 12))

; values, parameters, hash tables, string ports
(call-with-values (lambda () (floor/ -7 2)) (lambda (q r) (show q " " r)))
(define depth (make-parameter 0))
(define (nested n) (if (= n 0) (depth) (parameterize ((depth (+ 1 (depth)))) (nested (- n 1)))))
(show (nested 4) (depth))
(define words (make-equal-hash-table))
(for-each (lambda (w) (hash-table-update!/default words w (lambda (n) (+ n 1)) 0))
          '("to" "be" "or" "not" "to" "be"))
(show (sort (hash-table->alist words) (lambda (a b) (string<? (car a) (car b)))))
(define port (open-input-string "(a b) 12 \"c\""))
(show (let loop ((datum (read port)) (all '())) (if (eof-object? datum) (reverse all) (loop (read port) (cons datum all)))))

; data that contains itself
(define ring (list 1 2 3))
(set-cdr! (cddr ring) ring)
(write ring) (newline)
