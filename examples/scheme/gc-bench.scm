; Boehm's GCBench in Scheme: short-lived trees of many sizes, and long-lived data that must survive.

(define (make-tree depth)
  (if (= depth 0) (cons '() '()) (cons (make-tree (- depth 1)) (make-tree (- depth 1)))))

(define (tree-size tree)
  (if (null? (car tree)) 1 (+ 1 (tree-size (car tree)) (tree-size (cdr tree)))))

; Top down: the parents are older than the children.
(define (populate! depth node)
  (if (> depth 0)
      (begin
        (set-car! node (cons '() '()))
        (set-cdr! node (cons '() '()))
        (populate! (- depth 1) (car node))
        (populate! (- depth 1) (cdr node)))))

(define (nodes depth) (- (expt 2 (+ depth 1)) 1))

(define stretch 16)
(define long-lived-depth 14)
(define smallest 4)
(define largest 14)

(define (rounds depth) (quotient (* 2 (nodes stretch)) (* 4 (nodes depth))))

(define (time-construction depth)
  (let ((n (rounds depth)))
    (do ((i 0 (+ i 1)) (seen 0 (+ seen (tree-size (make-tree depth)))))
        ((= i n) (if (not (= seen (* n (nodes depth)))) (error "bottom up: lost nodes" seen))))
    (do ((i 0 (+ i 1)))
        ((= i n))
      (let ((tree (cons '() '())))
        (populate! depth tree)
        (if (not (= (tree-size tree) (nodes depth))) (error "top down: lost nodes"))))
    (display n) (display " + ") (display n)
    (display " trees of depth ") (display depth) (newline)))

(display "stretch tree: ") (display (tree-size (make-tree stretch))) (display " nodes") (newline)

(define long-lived (make-tree long-lived-depth))
(define array (make-vector 50000 0.5))
(do ((i 0 (+ i 1))) ((= i 25000)) (vector-set! array i (/ 1.0 (+ i 1))))

(do ((depth smallest (+ depth 2))) ((> depth largest)) (time-construction depth))

; Lists, closures, strings and floats of every age.
(define (shuffle-work rounds)
  (let loop ((i 0) (kept '()) (sum 0))
    (if (= i rounds)
        (list (length kept) sum)
        (let* ((numbers (iota 50))
               (adders (map (lambda (n) (lambda (x) (+ x n))) numbers))
               (total (fold-left + 0 (map (lambda (add) (add i)) adders))))
          (loop (+ i 1)
                (if (= 0 (modulo i 100)) (cons (number->string total) kept) kept)
                (+ sum (modulo total 7)))))))
(write (shuffle-work 2000)) (newline)

(display "long-lived tree: ") (display (tree-size long-lived)) (display " nodes, array[1000] = ")
(write (vector-ref array 1000)) (newline)
