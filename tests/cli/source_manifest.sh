# A project is written into a folder of the user's without loss: the manifest says which files are Henry's.
data=$DATA/../../../tests/cli/data
emit() { "$HENRY" compile "$1" --emit source --target-cpu generic -o "$2" >out 2>err; }
# refused: nothing is written, and the message names the files
refused() {
    if emit "$1" "$2"; then echo "was not refused"; fi
    sed 's/.*: these files/these files/' err
}
snapshot() { (cd "$1" && find . -type f -o -type l | sort | xargs sha256sum 2>&1) >"$2"; }
echo "--- a folder with files of the user's own"
mkdir mine && echo 'int main(void) { return 0; }' >mine/main.c && echo all: >mine/Makefile && echo mine >mine/notes.txt
snapshot mine before
refused "$data/sizes.pt2" mine
snapshot mine after && cmp before after && ls mine
rm mine/main.c mine/Makefile
emit "$data/sizes.pt2" mine && grep -e main.c -e Makefile -e weights.bin out
[ "$(grep -c '^written ' out)" = "$(grep -vc '^#' mine/henry-manifest.txt)" ] || echo "the list is not the manifest"
tail -1 out | sed 's/[0-9]* files/all files/'
(cd mine && b2sum -l 256 --quiet -c henry-manifest.txt && cat notes.txt)
echo "--- again: nothing changes; build products and outputs are not in the way"
make -s -j2 -C mine CFLAGS=-O0 example && touch mine/out_0.npy && stat -c %y mine/model.c >time
emit "$data/sizes.pt2" mine && sed 's/[0-9]* unchanged/all unchanged/' out && stat -c %y mine/model.c | cmp - time
echo "--- an edited file"
echo '// my own' >>mine/main.c
refused "$data/mutate.pt2" mine
cp mine/main.c edited && rm mine/main.c
echo "--- another model: files that are not needed any more go, if they were not edited"
emit "$DATA/model.pt2" mine && grep lib/ops/cpu/gemm/gemm.c out && echo '// my own' >>mine/lib/ops/cpu/gemm/gemm.c
emit "$data/sizes.pt2" mine && grep -e removed -e kept out | grep -e gemm/gemm -e conv/conv.c
tail -1 mine/lib/ops/cpu/gemm/gemm.c && refused "$DATA/model.pt2" mine && rm mine/lib/ops/cpu/gemm/gemm.c
echo "--- links are not followed"
mkdir outside && echo theirs >outside/main.c && cp outside/main.c theirs
mkdir links && ln -s ../outside/main.c links/main.c && ln -s ../outside links/lib
refused "$data/sizes.pt2" links | grep -o "'main.c' ([^)]*)"
rm links/main.c && refused "$data/sizes.pt2" links | grep -o "'lib/runtime/copy.c' ([^)]*)"
cmp outside/main.c theirs && ls outside && ls links
ln -s ../outside/list links/henry-manifest.txt
refused "$data/sizes.pt2" links | sed "s/.*'links': //"
echo "--- a manifest of somebody else's"
mkdir other && echo "my manifest" >other/henry-manifest.txt
refused "$data/sizes.pt2" other | sed "s/.*'other': //"
printf '%064d  ../edited\n' 0 >other/henry-manifest.txt
refused "$data/sizes.pt2" other | sed "s/.*'other': //"
echo "--- cut off in the middle: no Makefile, and the next export takes the folder over"
emit "$data/sizes.pt2" cut
if (ulimit -f 40; emit "$DATA/model.pt2" cut); then echo "the limit did not bite"; fi
[ -e cut/Makefile ] && echo "a Makefile is left"
echo left >cut/.henry-tmp-project
emit "$DATA/model.pt2" cut && (cd cut && b2sum -l 256 --quiet -c henry-manifest.txt && ! find . -name '.henry-tmp*' | grep .)
ls cut/Makefile
