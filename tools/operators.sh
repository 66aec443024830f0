#!/bin/sh
# Writes docs/operators.md from the tables, so that the page cannot differ from the code:
#
#     tools/operators.sh            writes the page
#     tools/operators.sh --check    says whether the page is what would be written (a part of `make test`)
#
# Overloads are the rows of src/ir/aten.def. Element types are those of the stored cases in tests/ops/cases (the type of the
# first tensor). Limits are the texts that the row's function, or a function that it calls in the same file, gives to m_require and
# hn_dec_unsupported.
set -eu
cd "$(dirname "$0")/.."
page=docs/operators.md

rows() {
    sed -n 's/^HN_ATEN([^,]*, "\([^"]*\)", \([A-Za-z0-9_]*\), "\(.*\)", "\(.*\)")$/\1\t\2\t\3/p' src/ir/aten.def
}

# "OP<tab>type type": all types that a case has as its first tensor, in the order of the list.
tested_types() {
    cat tests/ops/cases/*.txt | awk '
        match($0, /"op":"[^"]*"/) { op = substr($0, RSTART + 6, RLENGTH - 7) }
        match($0, /"d":"[^"]*"/) { type = substr($0, RSTART + 5, RLENGTH - 6); seen[op, type] = 1; ops[op] = 1 }
        END {
            count = split("f32 f64 bf16 f16 i64 i32 i16 i8 u8 bool", order, " ")
            for (op in ops) {
                line = op "\t"
                for (k = 1; k <= count; k++) if (seen[op, order[k]]) line = line order[k] " "
                print line
            }
        }'
}

# "FUNCTION<tab>limit; limit": what a decomposition refuses, with what the helpers refuse that it calls.
limits() {
    for file in src/opt/decompose/*.c; do
        awk '
            /^[a-z].*\) \{ .*\}$/ { if (match($0, /[a-z0-9_]+\(/)) body[substr($0, RSTART, RLENGTH - 1)] = $0; next }
            /^[a-z].*\)[ ]*\{$/ || /^(static )?[a-z_]+ \**[a-z0-9_]+\(.*,$/ { if (match($0, /[a-z0-9_]+\(/)) name = substr($0, RSTART, RLENGTH - 1) }
            { body[name] = body[name] " " $0 }
            /^\}/ { name = "" }
            function texts(text,   list, part) {
                while (match(text, /(m_require|hn_dec_unsupported)\(/)) {
                    text = substr(text, RSTART + RLENGTH)
                    if (!match(text, /(^|, *)"[^"]+"\)/)) break
                    part = substr(text, RSTART, RLENGTH - 2)
                    sub(/^,? *"/, "", part)
                    list = list (list ? "\n" : "") part
                    text = substr(text, RSTART + RLENGTH)
                }
                return list
            }
            function collect(name, depth,   other) {
                if (depth > 4 || done[name]) return
                done[name] = 1
                if (own[name]) found = found (found ? "\n" : "") own[name]
                for (other in body) if (other && other != name && index(body[name], other "(")) collect(other, depth + 1)
            }
            END {
                for (name in body) own[name] = texts(body[name])
                for (name in body) {
                    if (name !~ /^hn_dec_/) continue
                    split("", done); split("", once); found = ""; line = ""
                    collect(name, 0)
                    count = split(found, list, "\n")
                    for (k = 1; k <= count; k++) if (!once[list[k]]++ && list[k] !~ /out of memory|^the recorded/) line = line (line ? "; " : "") list[k]
                    if (line) print name "\t" line
                }
            }' "$file"
    done
}

write_page() {
    cat <<TEXT
# Operators

What Henry accepts in a \`.pt2\`: $(rows | wc -l) overloads of ATen. Written by \`tools/operators.sh\` from the tables; do not edit.

- *Types*: element types of the first tensor for which PyTorch's answers are stored in \`tests/ops/cases\`, and which every
  \`make test\` compares, interpreted and compiled. Other types usually work: arithmetic is defined on all of f64, f32, f16, bf16,
  i64, i32, i16, i8, u8 and bool as in PyTorch. Complex, 8-bit float and quantized tensors are not supported.
- A dash in place of types: no stored case of its own; the operator shares its code with one that has some.
- *In place* operators, and \`out=\` forms where listed, become the operator without the underscore and a write to the operand.
- *Refused*: what Henry says when a use is not supported. A dimension list holds at most 16 dimensions everywhere.
- Control flow: \`torch.cond\`; \`while_loop\`, \`map\`, \`scan\` and \`associative_scan\`, of any number of rounds. What a loop carries are tensors of
  sizes that stay the same, and whole numbers; its body may have sizes and numbers that depend on data. PyTorch 2.11 exports \`associative_scan\` with
  \`combine_mode="pointwise"\` as an operator; "generic" and \`torch.vmap\` as steps that \`ExportedProgram.run_decompositions\` turns into operators.
  It does not save a Python literal among carried tensors, as in \`(0, x)\`. \`while_loop_stack_output\` runs its rounds twice if only the data tells
  how many there are, as their results have no memory before that is known; random numbers in them are refused.

\`henry inspect MODEL.pt2\` lists the operators of a model that are not in this table.

| operator | types | refused |
|---|---|---|
TEXT
    types=$(mktemp) limits=$(mktemp)
    tested_types >"$types"
    limits >"$limits"
    rows | awk -F '\t' -v types="$types" -v limits="$limits" '
        BEGIN {
            while ((getline line < types) > 0) { split(line, part, "\t"); sub(/ $/, "", part[2]); type[part[1]] = part[2] }
            while ((getline line < limits) > 0) { split(line, part, "\t"); limit[part[1]] = part[2] }
        }
        function what() { return type[$1] ? type[$1] : $3 ~ /!/ ? "in place" : $2 == "hn_dec_none" ? "not supported yet" : "-" }
        { name = $1; sub(/^aten\./, "", name); print "| `" name "` | " what() " | " limit[$2] " |" }' | LC_ALL=C sort -f
    rm -f "$types" "$limits"
}

if [ "${1:-}" = --check ]; then
    if write_page | cmp -s - $page; then echo "1 passed, 0 failed"; else echo "$page is not what tools/operators.sh writes"; echo "0 passed, 1 failed"; exit 1; fi
else
    write_page >$page.new
    mv $page.new $page
fi
