# A bundle says what its program was compiled under, and in which fields this machine differs.
why() { "$HENRY" cache why model.hnb "$@" | sed 's/[0-9a-f]\{64\}/DIGEST/g'; }
"$HENRY" compile "$DATA/model.pt2" -o model.hnb --threads 2 --target-cpu generic --quiet
why --threads 2 --target-cpu generic | head -1
why --threads 2 --target-cpu generic | grep -o "^field '[a-z_]*'" | sort
why --threads 2 --target-cpu generic | grep "'threads'"
echo differs
why --threads 3 --target-cpu generic --no-fusion
why --threads 3 --target-cpu generic --json | grep -c "field 'threads' was '2', is '3'"
# The folder of the model is nobody's business, and a cache has no part in it.
mkdir elsewhere && cp "$DATA/model.pt2" elsewhere/ && touch elsewhere/model.pt2
"$HENRY" compile elsewhere/model.pt2 -o other.hnb --threads 2 --target-cpu generic --quiet --no-cache
cmp model.hnb other.hnb && echo "the same bytes"
head -c 300 model.hnb >cut.hnb
if "$HENRY" cache why cut.hnb 2>err; then echo "no error"; fi
grep -c "cannot tell the key of 'cut.hnb': " err
