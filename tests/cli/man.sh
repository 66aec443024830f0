# The manual page: made from the same tables as --help, and without a warning from those who print it.
"$HENRY" help --man >henry.1
cmp henry.1 "${HENRY%/*}/henry.1" && echo "the build has the same"
for command in $("$HENRY" --help | sed -n 's/^  \([a-z]*\) .*/\1/p'); do grep -q "^\.SS henry $command" henry.1 || echo "$command is missing"; done
for option in $("$HENRY" run --help | grep -o ' --[a-z-]*' | sort -u); do grep -q -e "$(echo "$option" | sed 's/-/\\\\-/g')" henry.1 || echo "$option is missing"; done
# Each variable of the overview is explained.
for name in $("$HENRY" --help | grep -o 'HENRY_[A-Z_]*'); do grep -q "^\.B $name" henry.1 || echo "$name is missing"; done
command -v groff >/dev/null || command -v mandoc >/dev/null || { echo "no groff and no mandoc" >&2; exit 78; }
if command -v groff >/dev/null; then groff -man -Tutf8 -ww henry.1 2>&1 >page | head -3; fi
if command -v mandoc >/dev/null; then mandoc -T lint -W warning henry.1 | grep -v 'missing date' | head -3; fi
if [ -s page ]; then sed 's/\x1b\[[0-9;]*m//g' page | tr -s ' ' | grep -m1 'henry - compile'; else mandoc henry.1 | tr -s ' ' | grep -m1 -o 'compile and run'; fi >/dev/null && echo "it can be read"
