; An evaluator for Scheme in Scheme, after "Structure and Interpretation of Computer Programs",
; that runs a few programs, one of which is an evaluator that runs a program.

; --- environments: a list of frames, each an association list with a header, so that it can grow

(define (make-frame names values)
  (list (map cons names values)))

(define (frame-entry frame name) (assq name (car frame)))

(define (extend names values env)
  (if (= (length names) (length values))
      (cons (make-frame names values) env)
      (error "wrong number of arguments for" names)))

(define (entry name env)
  (cond ((null? env) (error "unbound variable" name))
        ((frame-entry (car env) name) => (lambda (found) found))
        (else (entry name (cdr env)))))

(define (define-in! name value env)
  (let ((found (frame-entry (car env) name)))
    (if found
        (set-cdr! found value)
        (set-car! (car env) (cons (cons name value) (caar env))))))

; --- expressions

(define (self-evaluating? e) (or (number? e) (string? e) (boolean? e) (char? e)))
(define (tagged? e tag) (and (pair? e) (eq? (car e) tag)))

(define (m-eval e env)
  (cond ((self-evaluating? e) e)
        ((symbol? e) (cdr (entry e env)))
        ((tagged? e 'quote) (cadr e))
        ((tagged? e 'if)
         (if (m-eval (cadr e) env) (m-eval (caddr e) env)
             (if (null? (cdddr e)) #f (m-eval (cadddr e) env))))
        ((tagged? e 'lambda) (list 'procedure (cadr e) (cddr e) env))
        ((tagged? e 'define)
         (if (pair? (cadr e))
             (define-in! (caadr e) (list 'procedure (cdadr e) (cddr e) env) env)
             (define-in! (cadr e) (m-eval (caddr e) env) env))
         'ok)
        ((tagged? e 'set!) (set-cdr! (entry (cadr e) env) (m-eval (caddr e) env)) 'ok)
        ((tagged? e 'begin) (eval-sequence (cdr e) env))
        ((tagged? e 'cond) (m-eval (cond->if (cdr e)) env))
        ((tagged? e 'let)
         (m-eval (cons (cons 'lambda (cons (map car (cadr e)) (cddr e))) (map cadr (cadr e))) env))
        ((tagged? e 'and) (eval-and (cdr e) env))
        ((tagged? e 'or) (eval-or (cdr e) env))
        (else (m-apply (m-eval (car e) env)
                       (map (lambda (operand) (m-eval operand env)) (cdr e))))))

(define (eval-sequence body env)
  (cond ((null? (cdr body)) (m-eval (car body) env))
        (else (m-eval (car body) env) (eval-sequence (cdr body) env))))

(define (eval-and tests env)
  (cond ((null? tests) #t)
        ((null? (cdr tests)) (m-eval (car tests) env))
        ((m-eval (car tests) env) (eval-and (cdr tests) env))
        (else #f)))

(define (eval-or tests env)
  (if (null? tests) #f (or (m-eval (car tests) env) (eval-or (cdr tests) env))))

(define (cond->if clauses)
  (cond ((null? clauses) #f)
        ((eq? (caar clauses) 'else) (cons 'begin (cdar clauses)))
        (else (list 'if (caar clauses) (cons 'begin (cdar clauses)) (cond->if (cdr clauses))))))

(define (m-apply procedure arguments)
  (cond ((tagged? procedure 'primitive) (apply (cadr procedure) arguments))
        ((tagged? procedure 'procedure)
         (eval-sequence (caddr procedure)
                        (extend (cadr procedure) arguments (cadddr procedure))))
        (else (error "not applicable" procedure))))

(define (make-global)
  (let ((primitives (list (cons '+ +) (cons '- -) (cons '* *) (cons '= =) (cons '< <)
                          (cons 'car car) (cons 'cdr cdr) (cons 'cons cons) (cons 'list list)
                          (cons 'null? null?) (cons 'pair? pair?) (cons 'eq? eq?) (cons 'not not)
                          (cons 'symbol? symbol?) (cons 'number? number?))))
    (extend (map car primitives)
            (map (lambda (p) (list 'primitive (cdr p))) primitives)
            '())))

(define global (make-global))
(define (run e)
  (let ((value (m-eval e global)))
    (if (not (eq? value 'ok)) (begin (write value) (newline)))))

; --- programs

(for-each run
 '((define (fact n) (if (= n 0) 1 (* n (fact (- n 1)))))
   (fact 10)
   (define (map1 f l) (if (null? l) '() (cons (f (car l)) (map1 f (cdr l)))))
   (map1 (lambda (x) (* x x)) '(1 2 3 4 5))
   (define (fib n) (cond ((< n 2) n) (else (+ (fib (- n 1)) (fib (- n 2))))))
   (fib 18)
   (define (make-counter) (let ((n 0)) (lambda () (set! n (+ n 1)) n)))
   (define c (make-counter))
   (begin (c) (c) (list (c) ((make-counter))))
   (define (ackermann m n)
     (cond ((= m 0) (+ n 1))
           ((= n 0) (ackermann (- m 1) 1))
           (else (ackermann (- m 1) (ackermann m (- n 1))))))
   (ackermann 2 9)))

; --- the evaluator evaluates a smaller evaluator, which evaluates a program

(for-each run
 '((define (look name env)
     (cond ((null? env) name)
           ((eq? name (car (car env))) (cdr (car env)))
           (else (look name (cdr env)))))
   (define (zip names values env)
     (if (null? names) env
         (cons (cons (car names) (car values)) (zip (cdr names) (cdr values) env))))
   (define (tiny e env)
     (cond ((symbol? e) (look e env))
           ((number? e) e)
           ((eq? (car e) 'if) (tiny (if (tiny (second e) env) (third e) (fourth e)) env))
           ((eq? (car e) 'lambda) (list 'closure (second e) (third e) env))
           (else (tiny-apply (tiny (car e) env) (map1 (lambda (x) (tiny x env)) (cdr e))))))
   (define (tiny-apply f arguments)
     (cond ((eq? f '+) (+ (car arguments) (second arguments)))
           ((eq? f '-) (- (car arguments) (second arguments)))
           ((eq? f '<) (< (car arguments) (second arguments)))
           (else (tiny (third f) (zip (second f) arguments (fourth f))))))
   (define (second l) (car (cdr l)))
   (define (third l) (car (cdr (cdr l))))
   (define (fourth l) (car (cdr (cdr (cdr l)))))
   (tiny '((lambda (fib) (fib fib 15))
           (lambda (fib n) (if (< n 2) n (+ (fib fib (- n 1)) (fib fib (- n 2))))))
         '())))
