; One call does a bit of everything, and keeps a record of it among the last 5,000.
(fn (n) (do
  (if (== history null) (set history (array 5000 null)) null)

  ; Counters: closures with a variable of their own.
  (let counter (fn (step) (do (let count 0) (fn () (set count (+ count step))))))
  (let ones (counter 1))
  (let threes (counter 3))
  (let i 0)
  (while (< i 40) (do (ones) (threes) (set i (+ i 1))))

  ; A list of objects, and its sum.
  (let list null)
  (set i 0)
  (while (< i 100) (do (set list (object value (+ i n) below list)) (set i (+ i 1))))
  (let sum 0)
  (let cell list)
  (while (!= cell null) (do (set sum (+ sum (get cell value))) (set cell (get cell below))))

  ; Closures that refer to the array that they are in: a cycle in each call.
  (let all (array 20 null))
  (set i 0)
  (while (< i 20) (do
    (let make (fn (k) (fn () (+ k (length all)))))
    (put all i (make i))
    (set i (+ i 1))))
  (set i 0)
  (while (< i 20) (do (set sum (+ sum ((at all i)))) (set i (+ i 1))))

  ; Recursion.
  (let fib (fn (k) (if (< k 2) k (+ (fib (- k 1)) (fib (- k 2))))))
  (set sum (+ sum (fib 9)))

  ; A record that stays for a while, and refers to an older one.
  (let index (% (* n 7919) 5000))
  (let other (at history (% (+ index 1) 5000)))
  (put history index (object sum sum list (object first list next null) older null count ones))
  (if (== other null) null (set sum (+ sum (get other sum))))
  (+ (+ sum (ones)) (threes))))
