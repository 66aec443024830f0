# What the machine does at most is measured once, and kept.
"$HENRY" bench --roofline --threads 1 --json >first.json
"$HENRY" bench --roofline --threads 1 --json >second.json
cmp first.json second.json && echo "the same again"
grep -c '"read_gb_s": [0-9.e+]*,$' first.json | sed 's/^[2-4]$/levels/'
grep -q '"bytes": null' first.json && echo "memory"
grep -o '"additions"\|"products_[a-z0-9_]*"' first.json
"$HENRY" bench --roofline --threads 1 | grep -c ' L1$\| memory$\|GB/s$'
"$HENRY" cache stats --json | grep -A1 '"tuning"' | tr -d ' \n'; echo
# What has no effect is refused, and so is nothing to do.
for options in "" "--measure" "--limit 3" "--roofline --repeat 3" "--roofline --profile"; do
    if "$HENRY" bench $options 2>&1; then echo "taken"; fi
done
if "$HENRY" bench --roofline --device opencl:4000 2>err; then echo "taken"; fi
wc -l <err
