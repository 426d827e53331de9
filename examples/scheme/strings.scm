; Builds, splits and drops strings, to exercise the collector's leaf objects.

(define (join strings between)
  (if (null? strings)
      ""
      (fold-left (lambda (sum s) (string-append sum between s)) (car strings) (cdr strings))))

(define (split text at)
  (let loop ((rest (string->list text)) (word '()) (words '()))
    (define (close) (cons (list->string (reverse word)) words))
    (cond ((null? rest) (reverse (close)))
          ((char=? (car rest) at) (loop (cdr rest) '() (close)))
          (else (loop (cdr rest) (cons (car rest) word) words)))))

(define (caesar text key)
  (define (turn c base)
    (integer->char (+ base (modulo (+ key (- (char->integer c) base)) 26))))
  (string-map (lambda (c)
                (cond ((char<=? #\a c #\z) (turn c 97))
                      ((char<=? #\A c #\Z) (turn c 65))
                      (else c)))
              text))

(define (palindrome? text)
  (let ((letters (filter char-alphabetic? (string->list (string-downcase text)))))
    (equal? letters (reverse letters))))

(define (roman n)
  (let loop ((n n) (table '((1000 "M") (900 "CM") (500 "D") (400 "CD") (100 "C") (90 "XC") (50 "L")
                            (40 "XL") (10 "X") (9 "IX") (5 "V") (4 "IV") (1 "I")))
             (text ""))
    (cond ((= n 0) text)
          ((>= n (caar table)) (loop (- n (caar table)) table (string-append text (cadar table))))
          (else (loop n (cdr table) text)))))

; All dead objects here are strings, half of them longer than a block.
(define (doubling n)
  (let loop ((i 0) (text "stop the world "))
    (if (= i n) (string-length text) (loop (+ i 1) (string-append text text)))))

(define (churn rounds)
  (do ((i 0 (+ i 1))
       (total 0 (+ total (string-length (string-append (number->string (* i i)) ":" (roman (+ 1 (modulo i 3999))))))))
      ((= i rounds) total)))

(define secret (caesar "The Garbage Collector Has Been Called" 13))

(write (split "allocate,mark,sweep,restart" #\,)) (newline)
(write (join (split "allocate,mark,sweep,restart" #\,) " -> ")) (newline)
(write secret) (newline)
(write (caesar secret 13)) (newline)
(write (map palindrome? '("A man, a plan, a canal: Panama" "stop-the-world"))) (newline)
(write (map roman '(1958 1960 2006 2025))) (newline)
(write (with-output-to-string (lambda () (for-each (lambda (n) (write n) (display " ")) '(1 "two" #\3 4.5))))) (newline)
(write (list (string-pad-left "7" 3) (string-pad-left "1234" 3) (string-upcase "über") (string-length "λx.x"))) (newline)
(write (doubling 14)) (newline)
(write (churn 20000)) (newline)
