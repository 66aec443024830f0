# Levels of messages that do not exist are wrong usage, wherever they stand.
try() { if "$@" >out 2>err; then code=0; else code=$?; fi; echo "$code $(cat err)"; }
try env HENRY_LOG=lots "$HENRY" version
try env HENRY_LOG=cahce:debug "$HENRY" version
try "$HENRY" version --log cache:loud
try env HENRY_LOG=lots "$HENRY" version --log warn
# The command line shows warnings without being asked.
HENRY_THREADS=many "$HENRY" run "$DATA/model.pt2" -i "$DATA/input_0.npy" -q 2>&1 | grep -c '^henry: run: warning: HENRY_THREADS'
try env HENRY_LOG=off HENRY_THREADS=many "$HENRY" run "$DATA/model.pt2" -i "$DATA/input_0.npy" -q
