# All nodes of the model that a step does, not only the one that it is named after: in a bundle, and in the comments of a C project.
"$HENRY" compile "$DATA/model.pt2" -o model.hnb -q
"$HENRY" inspect model.hnb | grep '^step' | sed 's/ *\(k_[0-9a-f]*\)*(.* ; / ; /'
"$HENRY" inspect model.hnb --json | tr -d ' \n' | grep -o '"origins":\[[^]]*\]' | head -3
"$HENRY" compile "$DATA/model.pt2" --emit source -o project -q
grep '^ */\* .*, .* \*/$' project/model.c
