# C++ and Python texts that begin with the same #include lines share a precompiled header; results are what they are without it.
export HENRY_CXX=g++
command -v g++ >/dev/null || { echo "g++ is not installed" >&2; exit 77; }
for k in 1 2 3; do printf '#include <vector>\nint f(int x) { return (int)std::vector<int>(%s).size() + x; }\n' $k >m$k.cc; done
for k in 1 2 3; do
    "$HENRY" kernel compile m$k.cc --language python --entry 'i32 f(i32)' -o m$k.so >/dev/null
    echo "$(ls "$HENRY_CACHE_DIR"/pch/*/pch.h.gch 2>/dev/null | wc -l) precompiled"
done
"$HENRY" cache verify >/dev/null && echo "the cache is sound"
mkdir other
for k in 1 2 3; do HENRY_CACHE_DIR=$PWD/other/$k "$HENRY" kernel compile m$k.cc --language python --entry 'i32 f(i32)' -o n$k.so >/dev/null; cmp m$k.so n$k.so; done
mkdir "$HENRY_CACHE_DIR/pch/mine" # a folder of the user's stays
"$HENRY" cache clear >/dev/null
ls "$HENRY_CACHE_DIR/pch"
rmdir "$HENRY_CACHE_DIR/pch/mine"
"$HENRY" cache clear >/dev/null
ls "$HENRY_CACHE_DIR" | grep -c pch || true
