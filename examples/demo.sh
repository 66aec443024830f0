#!/bin/sh
# `make demo`: builds the examples and ends with the digits classifier on real images. Arguments go to it: --all, --ascii.
set -eu
cd "$(dirname "$0")/.."
build=${BUILD:-build}
cmake --build "$build" --target examples henry >/dev/null
dir=examples/data/digits
echo "\$ henry inspect $dir/model.pt2"
"$build/henry" inspect "$dir/model.pt2"
echo
echo "\$ digits $dir"
exec "$build/examples/digits" "$dir" "$@"
