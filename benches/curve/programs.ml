(* The programs of benches/peers in OCaml: programs gcbench, programs bintrees DEPTH.

   The memory is set in the environment: OCAMLRUNPARAM=o=PERCENT, the dead memory that the major heap may have for the live one. There is no
   limit. The young objects have a heap of their own of 256 k words. *)

(* A node of binary-trees. *)
type pair = No_pair | Pair of pair * pair

let rec build depth =
  if depth = 0 then Pair (No_pair, No_pair)
  else
    let left = build (depth - 1) in
    Pair (left, build (depth - 1))

let rec count = function
  | No_pair -> 0
  | Pair (left, right) -> 1 + count left + count right

let bintrees max_depth =
  let sum = ref (count (build (max_depth + 1))) in
  let long_lived = build max_depth in
  let depth = ref 4 in
  while !depth <= max_depth do
    for _ = 1 to 1 lsl (max_depth - !depth + 4) do
      sum := !sum + count (build !depth)
    done;
    depth := !depth + 4
  done;
  !sum + count long_lived

(* A node of gcbench. *)
type node =
  | No_node
  | Node of { mutable left : node; mutable right : node; mutable i : int; mutable j : int }

let stretch_depth = 18
let long_lived_depth = 16
let array_length = 500_000
let new_node left right = Node { left; right; i = 0; j = 0 }

let rec populate depth node =
  match node with
  | Node node when depth > 0 ->
      node.left <- new_node No_node No_node;
      node.right <- new_node No_node No_node;
      populate (depth - 1) node.left;
      populate (depth - 1) node.right
  | _ -> ()

let rec make_tree depth =
  if depth = 0 then new_node No_node No_node
  else
    let left = make_tree (depth - 1) in
    new_node left (make_tree (depth - 1))

let short_lived depth =
  let tree_size depth = (1 lsl (depth + 1)) - 1 in
  let trees = 2 * tree_size stretch_depth / tree_size depth in
  for _ = 1 to trees do
    populate depth (Sys.opaque_identity (new_node No_node No_node))
  done;
  for _ = 1 to trees do
    ignore (Sys.opaque_identity (make_tree depth))
  done

let gcbench () =
  ignore (Sys.opaque_identity (make_tree stretch_depth));
  let long_lived = new_node No_node No_node in
  populate long_lived_depth long_lived;
  let value i = if i < array_length / 2 then 1. /. float_of_int (i + 1) else 0. in
  let array = Array.init array_length value in
  let depth = ref 4 in
  while !depth <= 16 do
    short_lived !depth;
    depth := !depth + 2
  done;
  (match Sys.opaque_identity long_lived with
  | Node { left = Node _; _ } when array.(1000) = 1. /. 1001. -> ()
  | _ -> failwith "a long-lived object was lost");
  0

let peak_mb () =
  let status = open_in "/proc/self/status" in
  let rec find () =
    match Scanf.sscanf (input_line status) "VmHWM: %f" (fun kilobytes -> kilobytes /. 1024.) with
    | megabytes -> megabytes
    | exception Scanf.Scan_failure _ -> find ()
  in
  find ()

let () =
  let start = Unix.gettimeofday () in
  let check =
    match Sys.argv with
    | [| _; "gcbench" |] -> gcbench ()
    | [| _; "bintrees"; depth |] -> bintrees (int_of_string depth)
    | _ ->
        prerr_endline "usage: programs gcbench | programs bintrees DEPTH";
        exit 2
  in
  let wall = Unix.gettimeofday () -. start in
  Printf.printf "wall_ms=%.2f cpu_s=%.3f peak_rss_mb=%.1f collections=%d check=%d\n" (wall *. 1e3) (Sys.time ())
    (peak_mb ()) (Gc.quick_stat ()).major_collections check
