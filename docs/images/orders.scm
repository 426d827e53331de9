; A shop whose load rises and falls, and whose audit log is never emptied: the program of the pictures.

(define-record-type product (make-product name price) product? (name product-name) (price product-price))
(define-record-type session (make-session basket) session? (basket session-basket set-session-basket!))

(define catalogue
  (make-initialized-vector 2000
    (lambda (n) (make-product (string-append "product " (number->string n)) (+ 0.99 n)))))

(define seed 1)
(define (random-below n)
  (set! seed (modulo (+ (* seed 1103515245) 12345) 2147483648))
  (modulo (quotient seed 65536) n))

(define sessions (make-equal-hash-table))
(define audit-log '())

(define (open-session! id)
  (hash-table-set! sessions id (make-session '())))

(define (add-to-basket! id)
  (let ((session (hash-table-ref sessions id (lambda () #f)))
        (product (vector-ref catalogue (random-below 2000))))
    (set-session-basket! session (cons (cons product (* 1.19 (product-price product))) (session-basket session)))))

(define (line->string line)
  (string-append (product-name (car line)) ": " (number->string (cdr line))))

(define (invoice basket)
  (fold-left (lambda (text line) (string-append text (line->string line) "; "))
             ""
             (sort basket (lambda (a b) (< (cdr a) (cdr b))))))

(define (check-out! id)
  (let* ((basket (session-basket (hash-table-ref sessions id (lambda () #f)))) (text (invoice basket)))
    (hash-table-delete! sessions id)
    (set! audit-log (cons (string-append "order " (number->string id) ": " (number->string (string-length text))) audit-log))))

; A customer arrives at each step. In a rush hour customers stay ten times longer.
(define (serve! arrived left steps)
  (when (< arrived steps)
    (open-session! arrived)
    (do ((n 0 (+ n 1))) ((= n 8)) (add-to-basket! arrived))
    (let ((staying (if (< (modulo arrived 12000) 6000) 400 4000)))
      (let leave ((left left))
        (if (> (- arrived left) staying)
            (begin (check-out! left) (check-out! (+ left 1)) (leave (+ left 2)))
            (serve! (+ arrived 1) left steps))))))

(serve! 0 0 60000)
(display (length audit-log))
(newline)
