{ trees, numbers }:
let
  range = a: b: builtins.genList (n: a + n) (b - a + 1);
  mk = n: if n == 0 then { } else { l = mk (n - 1); r = mk (n - 1); s = toString n; };
  size = t: if t == { } then 0 else 1 + size t.l + size t.r;
  sorted = builtins.sort (a: b: a < b) (map (n: (n * 7919) - (n * 7919 / 100003) * 100003) (range 0 numbers));
in
{
  trees = map (n: size (mk (if numbers > 50000 then 14 else 10))) (range 1 trees);
  head = builtins.elemAt sorted 5;
  text = builtins.stringLength (builtins.concatStringsSep "," (map toString sorted));
}
