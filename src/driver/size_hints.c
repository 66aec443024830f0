/* size_hints.c: "s0=64,256,4096": the sizes at which forms of kernels are compared. */
#include "driver/picked.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { VALUES_MAX = 32 };

static hn_status refuse(const char *text) {
    return HN_ERROR(HN_INVALID_ARGUMENT,
                    "sizes are given as NAME=N,N,..., at most %d of one name, not '%s'", VALUES_MAX,
                    text);
}

static hn_status parse_values(hn_driver *d, const char *all, const char *text, hn_size_hint *out) {
    int64_t *values;
    HN_NEW(&d->arena, values, VALUES_MAX);
    for (out->values = values; out->count < VALUES_MAX;) {
        char *end;
        errno = 0;
        const long long value = strtoll(text, &end, 10);
        if (end == text || errno || value < 0 || (*end && *end != ',')) return refuse(all);
        values[out->count++] = value;
        if (!*end) return NULL;
        text = end + 1;
    }
    return refuse(all);
}

hn_status hn_size_hints_parse(hn_driver *d, hn_size_hints *out) {
    const char *const *texts = HN_OPT(&d->options, tune_hints);
    const uint32_t count = HN_OPT(&d->options, tune_hint_count);
    hn_size_hint *items;
    *out = (hn_size_hints){.count = count};
    HN_NEW(&d->arena, items, count + 1u);
    for (uint32_t k = 0; k < count; k++) {
        const char *equals = texts[k] ? strchr(texts[k], '=') : NULL;
        if (!equals || equals == texts[k]) return refuse(texts[k] ? texts[k] : "");
        items[k].symbol = (hn_str){texts[k], (size_t)(equals - texts[k])};
        HN_TRY(parse_values(d, texts[k], equals + 1, &items[k]));
    }
    out->items = items;
    return NULL;
}
