# For scripts that build and run C projects for CUDA; they source it in the root.
# shellcheck shell=bash
data=tests/cli/data
flags="-O1 -Wall -Wextra -Werror"

# What .npy files hold behind their heads, which may be written differently.
content() { tail -c "+$((11 + $(od -An -tu2 -j8 -N2 "$1")))" "$1"; }

# describe NAME: sets file, inputs and expected of a shared model, or of a small one of tests/cli/data
describe() {
    local dir=$HENRY_TEST_MODELS/models/$1 f
    inputs=() expected=()
    [ -d "tests/models/$1" ] && dir=tests/models/$1
    if [ -d "$dir" ]; then
        file=$dir/model.pt2
        for f in $(ls "$dir"/input_*.npy | sort -V); do inputs+=(-i "$f"); done
        for f in $(ls "$dir"/output_*.npy | sort -V); do expected+=(-e "$f"); done
        return
    fi
    file=$data/$1.pt2
    for f in $(ls $data/"$1"_in*.npy $data/"$1"_x.npy $data/"$1"_y.npy 2>/dev/null | sort -V); do inputs+=(-i "$f"); done
    for f in $(ls $data/"$1"_out*.npy 2>/dev/null | sort -V); do expected+=(-e "$f"); done
}

# The model in `file` as a project in the folder `folder`, for a target; `options` of the compilation.
options=()
emit() { "$build/henry" compile "$file" --target "$1" --emit source -q -o "$folder" "${options[@]}"; }
build_project() { make -s -j2 -C "$folder" CFLAGS="$flags" "$@" example; }
