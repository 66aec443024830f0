#!/bin/sh
# Checks that each folder includes only what docs/ARCHITECTURE.md allows. Prints the offenders.
cd "$(dirname "$0")/.." || exit 2
# The folders, and the single headers of others, that the files of a folder may include.
allowed() {
    case "$1" in
    base) echo "" ;;
    sym) echo "base" ;;
    ir) echo "base sym" ;;
    front | opt | lower) echo "base sym ir" ;;
    sched) echo "base sym ir" ;;
    kernel) echo "base sym ir sched" ;;
    codegen) echo "base sym ir sched kernel" ;;
    wrapper) echo "base sym ir sched codegen/codegen.h bundle" ;;
    bundle) echo "base" ;;
    ops) echo "base" ;;
    runtime) echo "base bundle ops" ;;
    cache) echo "base" ;;
    toolchain) echo "base bundle cache" ;;
    service) echo "base cache toolchain" ;;
    metrics) echo "base" ;;
    driver) echo "base sym ir front opt lower sched kernel codegen wrapper toolchain service cache bundle ops runtime metrics" ;;
    esac
}
bad=0
checked=0
for dir in src/*/; do
    folder=$(basename "$dir")
    ok=" $folder henry $(allowed "$folder") "
    for file in $(find "$dir" -name '*.[ch]'); do
        checked=$((checked + 1))
        for include in $(sed -n 's/^ *#include "\([a-z]*\/[^"]*\)".*/\1/p' "$file"); do
            case "$ok" in *" ${include%%/*} "* | *" $include "*) ;; *) echo "$file includes $include"; bad=$((bad + 1)) ;; esac
        done
    done
done
# An importer is named by the table of importers alone. Tests may use the parts of one.
for dir in src/front/*/; do
    importer=${dir#src/} importer=${importer%/}
    for file in $(grep -rl "#include \"$importer/" src tools bench examples | grep -v "^$dir"); do
        checked=$((checked + 1))
        [ "$file" = src/front/importer.c ] || { echo "$file includes $importer/, which only src/front/importer.c may name"; bad=$((bad + 1)); }
    done
done
echo "$((checked - bad)) passed, $bad failed"
[ "$bad" = 0 ]
