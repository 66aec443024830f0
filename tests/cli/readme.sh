# The commands of README.md print what stands below them, but for numbers.
readme=$DATA/../../../README.md
without_numbers() { sed -E 's/[0-9]+(\.[0-9]+)?(e-?[0-9]+)?/N/g'; }
mkdir -p build examples/data tests/cli
ln -s "$HENRY" build/henry
ln -s "$DATA" examples/data/digits
ln -s "$DATA/../../../tests/cli/data" tests/cli/data
sed -n '/^```$/,/^```$/p' "$readme" | sed -n 's/^\$ //p' >commands
[ "$(wc -l <commands)" -ge 3 ]
sed -n '/^\$ /,/^```$/p' "$readme" | grep -v -e '^\$ ' -e '^```$' | without_numbers >wanted
bash -eu commands | without_numbers >got
diff wanted got
