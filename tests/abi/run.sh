#!/usr/bin/env bash
# What others see of Henry: headers, libraries, an installed copy, bundles that travel.
set -u
cd "$(dirname "$0")/../.." || exit 2
root=$PWD
build=${HENRY_TEST_BUILD:-$root/build}
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix
data=$root/examples/data/digits
export HENRY_CACHE_DIR=$work/cache
passed=0 failed=0
for file in libhenry.so libhenry_rt.so libhenry.a henry henry-worker; do
    [ -e "$build/$file" ] || { echo "'$build/$file' is not built"; echo "0 passed, 1 failed"; exit 1; }
done

# check NAME COMMAND...: one test
check() {
    local out
    if out=$("${@:2}" 2>&1); then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAILED $1: $out"; fi
}

strict="-Wall -Wextra -Werror -pedantic -Wshadow -Wstrict-prototypes -Iinclude -fsyntax-only"
for header in $(cd include && ls henry/*.h henry/abi/*.h); do
    echo "#include <$header>" >"$work/one.c"
    cp "$work/one.c" "$work/one.cpp"
    # shellcheck disable=SC2086 # options are words
    check "$header alone as C17" cc -std=c17 $strict "$work/one.c"
    check "$header alone as C++17" c++ -std=c++17 ${strict/-Wstrict-prototypes/} "$work/one.cpp"
done

# shellcheck disable=SC2086
check "structs grow at the end only" cc -std=c17 ${strict} tests/abi/layout.c

# The face for C++, with and without exceptions; a program may have files of both kinds.
compilers=c++
command -v clang++ >/dev/null && compilers="c++ clang++"
for header in henry/henry.hpp henry/kernel.hpp; do
    echo "#include <$header>" >"$work/one.cpp"
    for cxx in $compilers; do
        for mode in "" -fno-exceptions -DHENRY_EXPECTED=1 -std=c++20; do
            # shellcheck disable=SC2086
            check "$header alone, $cxx $mode" $cxx -std=c++17 $mode ${strict/-Wstrict-prototypes/} -Wconversion "$work/one.cpp"
        done
    done
done

cpp_of() { sed -n '/^```cpp$/,/^```$/p' "$1" | grep -v '^```'; } # the C++ in a page of documentation
documented() {
    cpp_of "$1" >"$work/page"
    grep -q henry:: "$work/page" || { echo "no C++ in $1"; return 1; }
    { echo '#include <henry/henry.hpp>'; echo 'void f(std::vector<float> &x, std::vector<float> &image) { (void)x, (void)image;'; grep -v '^#include' "$work/page"; echo '}'; } >"$work/one.cpp"
    c++ -std=c++17 -Iinclude -fsyntax-only "$work/one.cpp"
}
check "the C++ of README.md" documented README.md
check "the C++ of quick-start.md" documented docs/quick-start.md

# henry.h is for models: a program that includes it may use the names of the compile service for its own things.
printf '#include <henry/henry.h>\ntypedef int hn_service, hn_scope, hn_future, hn_artifact;\nhn_status both(void) { hn_module *m; hn_compiled *c; HN_TRY(hn_compile_file("m.pt2", NULL, &c)); return hn_compiled_load(c, NULL, &m); }\n' >"$work/one.c"
# shellcheck disable=SC2086
check "henry.h leaves the compile service out" cc -std=c17 ${strict} "$work/one.c"

# Names: the shared libraries export hn_ only, and the runtime has nothing of the compiler.
exports() { nm -D --defined-only "$1" | awk '{print $3}' | sed 's/@.*//'; }
only_our_names() { exports "$1" | grep -q '^hn_' && ! exports "$1" | grep -v '^hn_'; }
check "libhenry exports hn_ names only" only_our_names "$build/libhenry.so"
check "libhenry_rt exports hn_ names only" only_our_names "$build/libhenry_rt.so"
no_compiler_in_runtime() { ! exports "$build/libhenry_rt.so" | grep -E '^hn_compile|^hn_service'; }
check "libhenry_rt has no compiler" no_compiler_in_runtime
all_declared() { # every function of the public headers is there
    local name missing=0
    for name in $(sed -n 's/^HN_API .*[ *]\(hn_[a-z0-9_]*\)(.*/\1/p' include/henry/*.h); do
        exports "$build/libhenry.so" | grep -qx "$name" || { echo "libhenry lacks $name"; missing=1; }
    done
    return $missing
}
check "libhenry has every public function" all_declared

# An installed copy, moved afterwards: nothing in it may need the place where it was built or installed.
check "install" cmake --install "$build" --prefix "$work/first"
mv "$work/first" "$prefix" || { echo "$passed passed, $((failed + 1)) failed"; exit 1; }
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig LD_LIBRARY_PATH=$prefix/lib
unset HENRY_WORKER
with_pkg_config() { cc -std=c17 -pedantic -Wall -Wextra -Werror "$2" $(pkg-config --cflags --libs "$1") -o "$3"; }
version_matches() {
    printf '#include <henry/version.h>\n#include <stdio.h>\n#include <string.h>\nint main(void) { puts(HENRY_VERSION_STRING); return !(strcmp(HENRY_VERSION_STRING, hn_version_string()) == 0 && HENRY_VERSION == hn_version_number() && hn_version_bundle_format() > 0 && HENRY_VERSION >= HENRY_VERSION_OF(0, 1, 0)); }\n' >"$work/version.c"
    with_pkg_config henry_rt "$work/version.c" "$work/version" && [ "$("$work/version")" = "$(pkg-config --modversion henry)" ] &&
        "$prefix/bin/henry" version | grep -qx "henry $("$work/version")"
}
check "versions agree" version_matches
for example in terse explained digits api compile_service; do
    check "example $example through pkg-config" with_pkg_config henry "examples/$example.c" "$work/$example"
done
face() { # NAME FLAG: the checks of face.cpp, built with this flag
    # shellcheck disable=SC2046
    c++ -std=c++17 -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror $2 tests/abi/face.cpp $(pkg-config --cflags --libs henry) -o "$work/$1" &&
        mkdir "$work/$1.d" && HENRY_CACHE_DIR=$work/$1.cache "$work/$1" "$data/model.pt2" "$work/$1.d"
}
check "henry.hpp with exceptions" face face_throwing -O1
check "henry.hpp without exceptions" face face_expected -fno-exceptions
check "henry.hpp with results, exceptions on" face face_results -DHENRY_EXPECTED=1
both_styles() {
    printf '#include <henry/henry.hpp>\nstd::string other() { return henry::Module::load("/none").error().what(); }\n' >"$work/a.cpp"
    printf '#include <henry/henry.hpp>\n#include <cstdio>\nstd::string other();\nint main() { try { henry::Module::load("/none"); } catch (const henry::Error &e) { return other() != e.what(); } return 2; }\n' >"$work/b.cpp"
    # shellcheck disable=SC2046
    c++ -std=c++17 $(pkg-config --cflags henry) -DHENRY_EXPECTED=1 -c "$work/a.cpp" -o "$work/a.o" &&
        c++ -std=c++17 $(pkg-config --cflags henry) "$work/b.cpp" "$work/a.o" $(pkg-config --libs henry) -o "$work/both" && "$work/both"
}
check "files of both styles in one program" both_styles
# shellcheck disable=SC2046
check "example terse.cpp through pkg-config" c++ -std=c++17 -Wall -Wextra -Wpedantic -Wconversion -Werror examples/terse.cpp $(pkg-config --cflags --libs henry) -o "$work/terse_cpp"
same_as_c() { "$work/terse_cpp" "$data/model.pt2" >"$work/a" && "$work/terse" "$data/model.pt2" | cmp - "$work/a"; }
check "terse.cpp prints what terse.c does" same_as_c
check "terse runs" "$work/terse" "$data/model.pt2"
api_runs() { "$work/api" "$data/model.pt2" "$work/api.hnb" | tee /dev/stderr | grep -q '^a batch of 5 gives 5 x 10$'; }
check "api runs" api_runs
# The code in docs/api.md is that of the example: each block stands there, line for line.
api_page() {
    example="$(cat examples/api.c)" awk '
        /^```c$/ { in_block = 1; block = ""; next }
        /^```$/ { if (in_block && (blocks += 1) && !index(ENVIRON["example"] "\n", block)) { print "not in examples/api.c:\n" block; bad = 1 } in_block = 0 }
        in_block { block = block $0 "\n" }
        END { exit bad || blocks < 10 }' docs/api.md
}
check "docs/api.md shows the example's code" api_page
check "explained runs" "$work/explained" "$data/model.pt2" "$work/explained.hnb"
digits_right() { "$work/digits" "$data" --ascii | tee /dev/stderr | grep -q '^32 of 32 digits'; }
check "digits are read" digits_right
ten_kernels() { "$work/compile_service" | tee /dev/stderr | grep -c '^power_sum_' | grep -qx 10 && "$work/compile_service" 2>/dev/null | grep -qx 'power_sum_3: 225'; }
check "ten kernels of two languages" ten_kernels
# A library is silent: a cache that cannot be written, wrong numbers of threads and a missing worker cost speed, not lines.
silent() { "$@" >/dev/null 2>"$work/stderr"; local code=$?; cat "$work/stderr"; [ $code = 0 ] && [ ! -s "$work/stderr" ]; }
check "nothing on standard error" silent env HENRY_CACHE_DIR=/dev/null/cache HENRY_THREADS=x HENRY_COMPILE_THREADS=x "$work/terse" "$data/model.pt2"
asked_for() { env HENRY_CACHE_DIR=/dev/null/cache HENRY_LOG=cache:warn "$work/terse" "$data/model.pt2" 2>&1 | grep -q '^henry: cache: warning: '; }
check "lines that HENRY_LOG asks for" asked_for
wrong_levels() { HENRY_LOG=lots "$work/terse" "$data/model.pt2" 2>&1 >/dev/null | grep -qx "henry: log: warning: HENRY_LOG is 'lots': unknown log level 'lots'.*; ignored"; }
check "unknown names in HENRY_LOG are told" wrong_levels
demo() { silent env -u LD_LIBRARY_PATH BUILD="$build" examples/demo.sh --ascii; }
check "make demo leaves standard error empty" demo
check "installed doctor" "$prefix/bin/henry" doctor
worker_installed() { "$prefix/bin/henry" doctor | grep -q "worker.*$prefix/libexec/henry/henry-worker"; }
check "installed worker is found" worker_installed
# Beside the library, or where the installation has it as seen from the library, however the loader was told of that.
workers_are() { (cd "$1" && env HENRY_LOG=service:info HENRY_CACHE_DIR="$work/cache_worker" LD_LIBRARY_PATH="$2" PATH=/usr/bin:/bin "$work/compile_service" 2>&1) | grep -F "compile workers are '$3'"; }
check "worker of the installed library" workers_are / "$prefix/lib" "$prefix/libexec/henry/henry-worker"
check "worker of a library named by a relative path" workers_are "$prefix" lib "$prefix/libexec/henry/henry-worker"
mkdir "$work/beside" && cp -P "$build"/libhenry.so* "$build/henry-worker" "$work/beside"
check "worker beside the library" workers_are / "$work/beside" "$work/beside/henry-worker"
no_place_of_the_build() { local at; at=$(sed -n 's/^CMAKE_INSTALL_PREFIX:PATH=//p' "$build/CMakeCache.txt"); ! grep -qF -e "$at/libexec" -e "$build/henry-worker" "$prefix"/lib/libhenry.so "$prefix/bin/henry"; }
check "no path of the build is looked at" no_place_of_the_build

# pkg-config: nothing of the private libraries for somebody who links the shared one, whose packages may be missing.
no_private_flags() {
    local flags
    flags=$(PKG_CONFIG_LIBDIR=$prefix/lib/pkgconfig PKG_CONFIG_PATH='' pkg-config --cflags --libs henry) || return 1
    echo "$flags"
    for word in $flags; do case $word in -I*/include | -L*/lib | -lhenry) ;; *) return 1 ;; esac; done
}
check "pkg-config needs and prints no private libraries" no_private_flags
static_with_pkg_config() { # as README.md says
    local libs
    libs=$(pkg-config --static --libs "$1" | sed "s/-l$1 /-l:lib$1.a /")
    cc -std=c17 "$2" $(pkg-config --cflags "$1") $libs -o "$3" && ! ldd "$3" | grep libhenry
}
check "static linking through pkg-config, henry" static_with_pkg_config henry examples/terse.c "$work/terse_static"
check "terse runs, linked statically" env -u LD_LIBRARY_PATH "$work/terse_static" "$data/model.pt2"
check "static linking through pkg-config, henry_rt" static_with_pkg_config henry_rt tests/abi/run_bundle.c "$work/run_static"

# A prefix that the loader does not know: the rpath that README.md advises.
with_rpath() {
    local rpath
    rpath=$(sed -n 's/.*\(-Wl,-rpath,.*henry)\).*/\1/p' README.md | head -1)
    [ "$rpath" ] && eval "cc examples/terse.c \$(pkg-config --cflags --libs henry) $rpath -o $work/terse_rpath" &&
        env -u LD_LIBRARY_PATH "$work/terse_rpath" "$data/model.pt2"
}
check "the advised rpath" with_rpath

# What is installed can be taken away again, and nothing else goes.
uninstalled() {
    local target=$work/staged/opt/h
    DESTDIR=$work/staged cmake --install "$build" --prefix /opt/h >/dev/null || return 1
    echo mine >"$target/lib/mine"
    echo mine >"$target/include/henry/mine.h"
    make -s uninstall DESTDIR="$work/staged" PREFIX=/opt/h || return 1
    [ "$(cd "$target" && find . -type f | sort | xargs)" = "./include/henry/mine.h ./lib/mine" ] || { find "$target" -type f; return 1; }
    [ ! -e "$target/libexec/henry" ] && [ ! -e "$target/share/henry" ] || { find "$target"; return 1; }
    ! make -s uninstall DESTDIR="$work/staged" PREFIX=/opt/h 2>"$work/stderr" && grep -q "holds no installed Henry" "$work/stderr"
}
check "make uninstall" uninstalled
helped() { # every target has its sentence
    local target
    make -s help >"$work/help" || return 1
    for target in $(sed -n 's/^\.PHONY: //p' Makefile); do grep -q "^$target  *[a-z]" "$work/help" || { echo "no line for '$target'"; return 1; }; done
}
check "make help" helped

check "CMake project configures" cmake -S tests/abi/project -B "$work/project" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_BUILD_TYPE=Release
check "CMake project builds" cmake --build "$work/project"

# A bundle made in one process and run in others, with the model, the cache and the compiler out of reach.
cp "$data/model.pt2" "$work/model.pt2"
check "C++ program compiles" "$work/project/compile_cxx" "$work/model.pt2" "$work/one.hnb"
check "henry compiles" "$prefix/bin/henry" compile "$work/model.pt2" -o "$work/two.hnb"
rm -rf "$work/model.pt2" "$HENRY_CACHE_DIR"
mkdir "$work/elsewhere"
mv "$work/one.hnb" "$work/two.hnb" "$work/elsewhere"
no_compiler() { env PATH="$work/elsewhere" HENRY_CC=/nonexistent "$@"; }
check "run by the runtime" no_compiler "$work/project/run_bundle" "$work/elsewhere/one.hnb" 3 1 8 8
check "run by the static runtime" no_compiler "$work/project/run_bundle_static" "$work/elsewhere/one.hnb" 3 1 8 8
same_results() {
    no_compiler "$work/project/run_bundle" "$work/elsewhere/one.hnb" 3 1 8 8 >"$work/a"
    no_compiler "$work/project/run_bundle_static" "$work/elsewhere/two.hnb" 3 1 8 8 >"$work/b"
    cmp "$work/a" "$work/b" && [ -s "$work/a" ]
}
check "both bundles give the same bits" same_results
check "with_pkg_config henry_rt" with_pkg_config henry_rt tests/abi/run_bundle.c "$work/run_rt"

echo "$passed passed, $failed failed"
[ $failed = 0 ]
