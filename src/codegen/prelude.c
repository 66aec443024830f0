/* prelude.c: see the header. */
#include "codegen/prelude.h"

static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static void put_one(int number, const hn_snippet_source *source, uint8_t *done, hn_strbuf *out) {
    hn_strbuf own;
    hn_strbuf_init(&own);
    source->expand(number, &own);
    hn_prelude_put(hn_strbuf_str(&own), source, done, out);
    hn_strbuf_append(out, own.ptr ? own.ptr : "", own.len);
    out->failed |= own.failed;
    hn_strbuf_deinit(&own);
}

void hn_prelude_put(hn_str text, const hn_snippet_source *source, uint8_t *done, hn_strbuf *out) {
    for (size_t k = 0; k < text.len;) {
        if (!is_word(text.ptr[k])) {
            k++;
            continue;
        }
        size_t first = k;
        while (k < text.len && is_word(text.ptr[k])) k++;
        if (k >= text.len || text.ptr[k] != '(') continue;
        int number = source->find(text.ptr + first, k - first);
        if (number < 0 || done[number]) continue;
        done[number] = 1;
        put_one(number, source, done, out);
    }
}
