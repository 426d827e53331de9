; Prints nothing that depends on what a conservative collector keeps by accident.
(defvar *depth* (parse-integer (ext:getenv "DEPTH")))
(defun make (n) (if (= n 0) nil (cons (make (- n 1)) (make (- n 1)))))
(defun size (tree) (if tree (+ 1 (size (car tree)) (size (cdr tree))) 0))
(defvar *keep* (make *depth*))
(dotimes (i 20) (make (- *depth* 2)))

(defvar *finalized* 0)
(dotimes (i 200) (si:set-finalizer (list i) (lambda (x) (declare (ignore x)) (incf *finalized*))))
(si:gc t)
(si:gc t)
(format t "finalized > 150: ~a~%" (> *finalized* 150))

(let ((threads (loop for k from 1 to 4
                     collect (let ((k k)) (mp:process-run-function 'worker (lambda () (dotimes (i 5) (make (- *depth* 4))) k))))))
  (format t "joined: ~a~%" (mapcar #'mp:process-join threads)))

(let ((table (make-hash-table :weakness :key))
      (kept (loop for i from 0 to 99 collect (list i))))
  (dolist (key kept) (setf (gethash key table) (car key)))
  (dotimes (i 1000) (setf (gethash (list i) table) i))
  (si:gc t)
  (format t "kept keys: ~a~%" (loop for key in kept always (eql (gethash key table) (car key)))))

(format t "nodes: ~a~%" (size *keep*))
(ext:quit)
