#!/bin/sh
# Checks that no code asks which of two ops, or of two classes of ops, has the larger number, nor counts on from one: the order
# of the rows of ir/ops.def and ir/aten.def means nothing. Only the ends of the numbers may be compared with. Prints the
# offenders.
cd "$(dirname "$0")/.." || exit 2
ends='HN_(OP_NONE|OP_COUNT|ATEN_FIRST)\b'
name='HN_(OP|OPC|ATEN)_[A-Za-z_0-9]+'
checked=0
bad=0
for file in $(grep -rlE "\b$name" --include='*.[ch]' src); do
    checked=$((checked + 1))
    found=$(sed -E "s/\b$ends/END/g" "$file" | grep -nE "([^<>][<>]=?|\+|[^-]-) *$name|\b$name *([<>]=?|\+|-[^>])" | grep -vE '^[0-9]+: *(/\*|\*)')
    [ "$found" ] || continue
    echo "$file orders ops by their numbers; ask for a fact of ir/op.h"
    echo "$found"
    bad=$((bad + 1))
done
[ $checked -gt 10 ] || { echo "only $checked files found"; bad=1; }
echo "$((checked - bad)) passed, $bad failed"
[ $bad = 0 ]
