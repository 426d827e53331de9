; Prints nothing that depends on what a conservative collector keeps by accident.
(use-modules (ice-9 threads))
(define depth (string->number (getenv "DEPTH")))
(define (make n) (if (= n 0) #f (cons (make (- n 1)) (make (- n 1)))))
(define keep (make depth))
(let loop ((i 0)) (if (< i 30) (begin (make (- depth 2)) (loop (+ i 1)))))

(define weak (make-weak-key-hash-table))
(define keys (map list (iota 1000)))
(for-each (lambda (key) (hashq-set! weak key (car key))) keys)
(let loop ((i 0)) (if (< i 10000) (begin (hashq-set! weak (cons i i) i) (loop (+ i 1)))))

(define guardian (make-guardian))
(let loop ((i 0)) (if (< i 1000) (begin (guardian (list i)) (loop (+ i 1)))))
(gc)
(gc)
(format #t "guarded > 900: ~a\n" (let loop ((n 0)) (if (guardian) (loop (+ n 1)) (> n 900))))
(format #t "weak < 2000: ~a\n" (< (hash-fold (lambda (key value n) (+ n 1)) 0 weak) 2000))
(format #t "kept keys: ~a\n" (and-map (lambda (key) (eqv? (hashq-ref weak key) (car key))) keys))

(define threads
  (map (lambda (k) (call-with-new-thread (lambda () (let loop ((i 0)) (if (< i 10) (begin (make (- depth 4)) (loop (+ i 1))) k)))))
       '(1 2 3 4)))
(format #t "threads: ~a\n" (map join-thread threads))
(format #t "nodes: ~a\n" (let count ((tree keep)) (if tree (+ 1 (count (car tree)) (count (cdr tree))) 0)))
