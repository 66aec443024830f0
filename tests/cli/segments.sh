# Updates of several sizes are one kernel of a step; results take the memory of parameters that are given up.
cat >step.hnir <<'END'
graph @g {
  input user %p : f32[1000, 64] "p"
  input user %q : f32[64] "q"
  input user %r : f32[10] "r"
  input user %g : f32[1000, 64] "g"
  input user %h : f32[64] "h"
  input user %i : f32[10] "i"
  %a = sub(%p, %g)
  %b = sub(%q, %h)
  %c = sub(%r, %i)
  output user %a "a"
  output user %b "b"
  output user %c "c"
}
END
"$HENRY" compile step.hnir -o step.hnb --donate p --donate q --quiet
"$HENRY" inspect step.hnb | grep "^step" | sed 's/k_[0-9a-f]*/K/; s/grain.*//'
"$HENRY" inspect step.hnb | grep " pool "
