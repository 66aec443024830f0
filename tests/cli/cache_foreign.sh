# A cache never takes over a folder that is not its own: files of a project called kernel/ and graph/ stay.
mkdir -m 700 -p project/kernel/ab project/graph
echo "int main;" >project/kernel/foo.c
echo "mine" >project/kernel/ab/notes
echo "nodes" >project/graph/nodes.txt
cp -a project before
for action in stats verify gc "gc --max-bytes 0" clear; do
    if "$HENRY" cache $action --cache-dir project 2>err; then echo "$action was not refused"; fi
    sed "s|'/[^']*/project'|'.../project'|; s|holds '[^']*'|holds '...'|" err
done
: >export
if "$HENRY" cache import export --cache-dir project 2>/dev/null; then echo "import was not refused"; fi
"$HENRY" run "$DATA/model.pt2" -i "$DATA/input_0.npy" --cache-dir project --quiet 2>err
grep -c 'compiling without a cache on disk' err
grep -c 'name an empty or a new folder' err
diff -r before project && echo "the project is as it was"

# Inside a cache, what is not the cache's own stays as well.
"$HENRY" run "$DATA/model.pt2" -i "$DATA/input_0.npy" --cache-dir cache --quiet
cp -a project/kernel/foo.c cache/kernel/foo.c
mkdir -p cache/graph/mine cache/tmp && echo "mine" >cache/graph/mine/nodes.txt && echo "mine" >cache/tmp/.henry-tmp-0123456789abcdef
"$HENRY" cache export "$DATA/model.pt2" -o out.henry --cache-dir cache >/dev/null
"$HENRY" cache verify --cache-dir cache | sed 's|.*/cache: [0-9]*||'
"$HENRY" cache gc --max-bytes 1 --cache-dir cache >/dev/null
"$HENRY" cache import out.henry --cache-dir cache >/dev/null
"$HENRY" cache clear --cache-dir cache >/dev/null
"$HENRY" cache stats --cache-dir cache | grep -c ' 0 entries'
cat cache/kernel/foo.c cache/graph/mine/nodes.txt cache/tmp/.henry-tmp-0123456789abcdef

# The marker says what a folder is to programs that make backups; a newer layout is not touched.
head -1 cache/CACHEDIR.TAG
sed -i 's/layout: 1/layout: 2/' cache/CACHEDIR.TAG
if "$HENRY" cache clear --cache-dir cache 2>err; then echo "a newer layout was not refused"; fi
sed "s|'/[^']*/cache'|'.../cache'|" err
