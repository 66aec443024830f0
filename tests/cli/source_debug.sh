# The tensor debugger of an emitted project: it finds a NaN by kernel, tensor and index, and is not there unless it is built in.
data=$DATA/../../../tests/cli/data
"$HENRY" compile "$data/nan.pt2" --emit source --target-cpu generic -q -o p
build() { make -s -j2 -C p CFLAGS="-O0 -Wall -Wextra -Werror" "$@" example; }
run() { HENRY_DEBUG_TENSORS=$1 p/example -w p/weights.bin -i "$data/$2" 2>&1 >/dev/null | sed 's/k_[0-9a-f]\{16\}/K/g'; }
build DEBUG=1
echo "names"
run names nan_x.npy
echo "stats"
run stats,kernel='k_*' nan_bad.npy
echo "check"
run check nan_x.npy
run check nan_bad.npy
run check,inf=ok,node='linear*' nan_bad.npy
# the same lines and errors as the module's: same TEXT INPUT [FILE, which the text names]
same() {
    local lines=/dev/null
    [ $# = 3 ] && lines=$3
    rm -f of_module.txt of_project.txt "${3:-none}"
    "$HENRY" run "$data/nan.pt2" -i "$data/$2" -n 3 -q --target-cpu generic --debug-tensors "$1" 2>&1 >/dev/null | sed 's/^henry: //' >of_module.txt
    cat "$lines" >>of_module.txt
    rm -f "${3:-none}"
    HENRY_DEBUG_TENSORS=$1 p/example -n 3 -w p/weights.bin -i "$data/$2" 2>&1 >/dev/null | sed 's/^example: //; s/HENRY_DEBUG_TENSORS: //' >of_project.txt
    cat "$lines" >>of_project.txt
    cmp of_module.txt of_project.txt && echo "$1: $(wc -l <of_module.txt) lines are the same"
}
echo "as the module"
same names nan_x.npy
same names,node=sqrt nan_x.npy
same names,calls=2- nan_x.npy
same stats nan_bad.npy
same stats,calls=1 nan_bad.npy
same stats,arg=b5 nan_x.npy
same stats,arg=x nan_x.npy
same 'stats,kernel=matmul,arg=*weight|cat' nan_x.npy
same stats,node=linear_1 nan_x.npy
same stats,to=lines,calls=2 nan_x.npy lines
same check nan_bad.npy
same check,inf=ok,node='linear*' nan_bad.npy
same stats,foo=1 nan_x.npy
same stats,arg nan_x.npy
same stats,calls=2-1 nan_x.npy
same check,inf=no nan_x.npy
echo "save"
echo "save"
# the same files as the module's: same_tensors FOLDER FOLDER, where tensors that later calls complete may differ
same_tensors() {
    cmp "$1/manifest.json" "$2/manifest.json" || return
    for f in $(sed -n 's/.*"complete": true, "file": "\(.*\)".*/\1/p' "$1/manifest.json" | sort -u); do cmp "$1/$f" "$2/$f" || return; done
    [ "$(cd "$1" && ls)" = "$(cd "$2" && ls)" ] && echo "$(ls "$1" | wc -l) files are the same"
}
"$HENRY" run "$data/nan.pt2" -i "$data/nan_x.npy" -n 2 -q --target-cpu generic --debug-tensors save,to=of_module >/dev/null
HENRY_DEBUG_TENSORS=save,to=of/project p/example -n 2 -w p/weights.bin -i "$data/nan_x.npy" >/dev/null
same_tensors of_module of/project
"$HENRY" run "$data/nan.pt2" -i "$data/nan_x.npy" -q --target-cpu generic --compare of/project && echo "and the same values"
run save,to=of/project,node=linear_1 nan_x.npy
ls of/project.2
run save,to=/proc/nowhere nan_x.npy
echo "what it refuses"
run statistics nan_x.npy
run save nan_x.npy
run off,kernel=nobody nan_x.npy
echo "without it"
build
run check nan_bad.npy
if nm p/libmodel.a 2>/dev/null | grep debug_begin; then echo "the debugger is there"; fi
"$HENRY" run "$data/nan.pt2" -i "$data/nan_x.npy" -d . -q --target-cpu generic
p/example -w p/weights.bin -i "$data/nan_x.npy" -e output_0.npy -e output_1.npy --rtol 0 --atol 0 >/dev/null && echo "equal"
# sizes that only the data tells, branches, changed buffers; types that .npy lacks
"$HENRY" compile "$data/data.pt2" --emit source --target-cpu generic -q -o p
build DEBUG=1
# the lines are those of the module, copies, branches and numbers included, but for tensors that are not complete: nothing has written
# to the rest of them
stats_of_both() {
    "$HENRY" run "$1" "${@:2}" -q --target-cpu generic --debug-tensors stats 2>&1 >/dev/null | grep -v 'later steps write' >of_module.txt
    HENRY_DEBUG_TENSORS=stats p/example -w p/weights.bin "${@:2}" 2>&1 >/dev/null | grep -v 'later steps write' >of_project.txt
    cmp of_module.txt of_project.txt && sed 's/.* step [0-9]* \(kernel \|extern \|\)\([a-z]*\).*/\1\2/; s/.*: input.*/input/; s/kernel.*/kernel/' of_module.txt | sort | uniq -c
}
stats_of_both "$data/data.pt2" -i "$data/data_in0.npy" -i "$data/data_in1.npy" -i "$data/data_in2.npy"
data_x="-i $data/data_in0.npy -i $data/data_in1.npy -i $data/data_in2.npy"
"$HENRY" run "$data/data.pt2" $data_x -q --target-cpu generic --debug-tensors save,to=data_of_module >/dev/null
HENRY_DEBUG_TENSORS=save,to=data_of_project p/example -w p/weights.bin $data_x >/dev/null
same_tensors data_of_module data_of_project
"$HENRY" compile "$data/bf16.pt2" --emit source --target-cpu generic -q -o p
build DEBUG=1
HENRY_DEBUG_TENSORS=stats p/example -w p/weights.bin -i "$data/bf16_x.npy" -i "$data/bf16_y.npy" 2>&1 >/dev/null | grep -o 'before b1.*'
"$HENRY" compile "$data/number.pt2" --emit source --target-cpu generic -q -o p
build DEBUG=1
stats_of_both "$data/number.pt2" -i "$data/number_in0.npy" -i "$data/number_in1.npy"
"$HENRY" compile "$data/loop_numbers.pt2" --emit source --target-cpu generic -q -o p
build DEBUG=1
stats_of_both "$data/loop_numbers.pt2" -i "$data/loop_numbers_in0.npy" -i "$data/loop_numbers_in1.npy"
