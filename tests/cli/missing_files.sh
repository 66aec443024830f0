# Files that are not there or are no models: one line, exit status 1.
try() {
    if "$HENRY" "$@" >out 2>err; then code=0; else code=$?; fi
    [ ! -s out ] || echo "output: $(cat out)"
    [ "$(wc -l <err)" = 1 ] || echo "not one line: $(cat err)"
    echo "$code $(cat err)"
}
: >empty
echo text >text
head -c 5000 "$DATA/model.pt2" >half.pt2
for command in run inspect bench "compile -o x.hnb"; do
    # shellcheck disable=SC2086 # words
    for file in absent empty text; do try $command $file; done
done
try run half.pt2
try run "$DATA/model.pt2" --input absent.npy
try run "$DATA/model.pt2" --input text
try opt absent.hnir
try kernel compile absent.c -o x.so
ls
