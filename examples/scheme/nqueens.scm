; The number of ways to place n queens on an n by n board so that none attacks another.
; Each partial board is a list that shares its tail with the board that it grew from.

(define (attacks? row distance board)
  (and (pair? board)
       (or (= (car board) row)
           (= (car board) (+ row distance))
           (= (car board) (- row distance))
           (attacks? row (+ distance 1) (cdr board)))))

(define (solutions n)
  (let place ((column 0) (boards '(())))
    (if (= column n)
        boards
        (place (+ column 1)
               (append-map
                (lambda (board)
                  (filter-map (lambda (row) (and (not (attacks? row 1 board)) (cons row board)))
                              (iota n)))
                boards)))))

(define (show board)
  (for-each
   (lambda (row)
     (for-each (lambda (column) (display (if (= row column) " Q" " ."))) (iota (length board)))
     (newline))
   board))

(for-each
 (lambda (n)
   (display n) (display " queens: ")
   (display (length (solutions n))) (display " solutions") (newline))
 '(4 5 6 7 8))

(show (car (solutions 8)))
