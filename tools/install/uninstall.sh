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
# All folders above the files, those below first.
folders=$(awk -F/ '{ path = $1; for (k = 2; k <= NF; k++) { print path; path = path "/" $k } }' "$list" | grep -E '(^|/)henry(/|$)' | sort -ur)
rm -rf "$prefix/share/henry/python/henry/__pycache__" # Python's own
rm -f "$list"
for folder in $folders; do rmdir "$prefix/$folder" 2>/dev/null || true; done
echo "removed $count files below $prefix"
