#!/bin/sh
# Removes an installed copy of Henry:  uninstall.sh PREFIX
# The installation wrote the names of its files, relative to the prefix, to share/henry/files: these go, and folders
# of Henry's own that are empty then. Nothing else is touched.
set -eu
prefix=${1:?usage: uninstall.sh PREFIX}
list=$prefix/share/henry/files
[ -f "$list" ] || { echo "uninstall: '$prefix' holds no installed Henry: '$list' is missing" >&2; exit 1; }
if grep -qE '(^|/)\.\.(/|$)|^/' "$list"; then echo "uninstall: '$list' names files outside '$prefix'; nothing was removed" >&2; exit 1; fi
count=0
while IFS= read -r name; do
    rm -f "$prefix/$name"
    count=$((count + 1))
done <"$list"
folders=$(sed -n 's|/[^/]*$||p' "$list" | grep -E '(^|/)henry(/|$)' | sort -ur)
rm -f "$list"
for folder in $folders share/henry; do rmdir "$prefix/$folder" 2>/dev/null || true; done
echo "removed $count files below $prefix"
