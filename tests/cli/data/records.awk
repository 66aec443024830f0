# Made-up times: of each record of `henry tune`, at 1, 4, 16, ... 4096 rows (s0) another form is the fastest, the first, the last or a middle
# one.
function number(rows) { return rows <= 16 ? 1 : rows <= 64 ? count : int((count + 1) / 2) }
{
    begin = index($0, "\"forms\":[") + 9
    rest = substr($0, begin)
    end = index(rest, "]")
    all = split(substr(rest, 1, end - 1), forms, "},{")
    count = 0
    for (k = 1; k <= all; k++) {
        if (forms[k] ~ /"extra":true/) continue # found by a search
        match(forms[k], /"form":"[^"]*"/); name[++count] = substr(forms[k], RSTART + 8, RLENGTH - 9)
        words[count] = ""
        if (match(forms[k], /"parameters":"[^"]*"/)) words[count] = substr(forms[k], RSTART + 14, RLENGTH - 15)
    }
    for (rows = 1; rows <= 4096; rows *= 4) {
        head = substr($0, 1, begin - 1)
        sub(/"s0":[0-9]*/, "\"s0\":" rows, head)
        fastest = number(rows)
        sub(/"pick":"[^"]*"/, "\"pick\":\"" name[fastest] (words[fastest] == "" ? "" : " " words[fastest]) "\"", head)
        line = head
        for (k = 1; k <= count; k++) {
            ns = k == fastest ? 100 : 200
            line = line (k > 1 ? "," : "") "{\"form\":\"" name[k] "\",\"parameters\":\"" words[k] "\",\"median_ns\":" ns ",\"low_ns\":" ns \
                ",\"high_ns\":" ns ",\"samples\":9}"
        }
        print line substr(rest, end)
    }
}
