; An error is an object that the program can inspect.

(define (attempt thunk)
  (guard (e ((error-object? e) (list 'error (condition/report-string e)))
            ((symbol? e) (list 'symbol e))
            ((string? e) => (lambda (yes) (list 'string e yes))))
    (thunk)))

(define-syntax try (syntax-rules () ((_ e) (begin (write (attempt (lambda () e))) (newline)))))

(try (+ 1 2))
(try (car 'a-symbol))
(try (vector-ref (vector 1 2 3) 3))
(try (error "the message:" 'irritant "another" 3.5))
(try (raise 'a-symbol))
(try (raise "text"))
(try (undefined-procedure 1))
(try ((lambda (x) x)))
(try (quotient 1 0))
(try ("not a procedure"))
(try (assert (< 2 1)))
(try (string-ref "abc" 10))
(try (guard (e (#t (error-object-kind e))) (let loop ((n 0)) (+ 1 (loop n)))))

; A guard without a matching clause passes the object on.
(try (guard (e ((number? e) 'number)) (raise 'not-a-number)))

; Handlers run where the error occurs; raise-continuable returns their value.
(write (with-exception-handler
        (lambda (e) (* e 10))
        (lambda () (+ 1 (raise-continuable 4)))))
(newline)

; dynamic-wind's thunks run when an error leaves.
(write (with-output-to-string
        (lambda ()
          (guard (e (#t (display "caught ")))
            (dynamic-wind
             (lambda () (display "in "))
             (lambda () (error "out of here"))
             (lambda () (display "out ")))))))
(newline)

(define (safe-divide a b)
  (call/cc
   (lambda (k)
     (with-exception-handler
      (lambda (e) (k (list 'cannot (error-object-message e) (error-object-irritants e))))
      (lambda () (if (= b 0) (error "divide by zero:" a) (/ a b)))))))
(write (map (lambda (b) (safe-divide 12 b)) '(3 0 5))) (newline)
