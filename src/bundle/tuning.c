/* tuning.c: tuning records in a bundle: what tools show of them. They are lines of JSON that this
 * folder does not understand; it shows those fields that every version of them has. */
#include "bundle/internal.h"

#include "base/json.h"

bool hn_bundle_tuning_next(const hn_bundle *b, uint64_t *at, hn_str *out_line) {
    while (*at < b->tuning_bytes) {
        const char *begin = b->tuning + *at;
        const size_t left = (size_t)(b->tuning_bytes - *at);
        const char *end = memchr(begin, '\n', left);
        const size_t len = end ? (size_t)(end - begin) : left;
        *at += len + (end != NULL);
        *out_line = (hn_str){begin, len};
        if (len) return true;
    }
    return false;
}

/* ---- fields ---- */

typedef struct shown {
    hn_str kernel, sizes, pick, how;
} shown;

static hn_status read_shown(hn_json *json, shown *out) {
    HN_TRY(hn_json_object(json));
    for (hn_str key; hn_json_key(json, &key);) {
        if (hn_str_eq(key, HN_STR("kernel"))) HN_TRY(hn_json_string(json, &out->kernel));
        else if (hn_str_eq(key, HN_STR("pick"))) HN_TRY(hn_json_string(json, &out->pick));
        else if (hn_str_eq(key, HN_STR("how"))) HN_TRY(hn_json_string(json, &out->how));
        else if (hn_str_eq(key, HN_STR("sizes"))) {
            (void)hn_json_peek(json); /* white space in front of it */
            out->sizes.ptr = json->at;
            HN_TRY(hn_json_skip(json));
            out->sizes.len = (size_t)(json->at - out->sizes.ptr);
        } else HN_TRY(hn_json_skip(json));
    }
    return hn_json_finish(json);
}

static bool look_at(hn_arena *arena, hn_str line, shown *out) {
    hn_json json;
    *out = (shown){.kernel = HN_STR("")};
    hn_json_init(&json, arena, line);
    hn_status status = read_shown(&json, out);
    hn_status_free(status);
    return !status;
}

static void put_line(const shown *s, hn_strbuf *out) {
    hn_strbuf_puts(out, "tuning '");
    hn_strbuf_clean(out, s->kernel, true);
    hn_strbuf_puts(out, "' ");
    hn_strbuf_clean(out, s->sizes, true);
    hn_strbuf_puts(out, ": ");
    hn_strbuf_clean(out, s->pick, true);
    hn_strbuf_puts(out, ", ");
    hn_strbuf_clean(out, s->how, true);
    hn_strbuf_putc(out, '\n');
}

/* ---- both forms ---- */

void hn_bundle_tuning_text(const hn_bundle *b, hn_strbuf *out) {
    hn_arena arena;
    hn_str line;
    shown s;
    hn_arena_init(&arena);
    for (uint64_t at = 0; hn_bundle_tuning_next(b, &at, &line);) {
        if (look_at(&arena, line, &s)) put_line(&s, out);
        else hn_strbuf_puts(out, "tuning: a damaged record\n");
        hn_arena_reset(&arena);
    }
    hn_arena_deinit(&arena);
}

static void put_field(hn_strbuf *out, const char *key, hn_str text) {
    hn_strbuf_printf(out, "%s\"%s\":", *key == 'k' ? "{" : ",", key);
    hn_strbuf_json(out, text);
}

/* The record itself as a string: it may be of a version that nobody here can check. */
void hn_bundle_tuning_json(const hn_bundle *b, hn_strbuf *out) {
    hn_arena arena;
    hn_str line;
    shown s;
    const char *comma = "";
    if (!b->tuning_bytes) return;
    hn_arena_init(&arena);
    hn_strbuf_puts(out, ",\"tuning\":[");
    for (uint64_t at = 0; hn_bundle_tuning_next(b, &at, &line);) {
        if (!look_at(&arena, line, &s)) continue;
        hn_strbuf_puts(out, comma), comma = ",";
        put_field(out, "kernel", s.kernel);
        put_field(out, "pick", s.pick);
        put_field(out, "how", s.how);
        put_field(out, "record", line);
        hn_strbuf_putc(out, '}');
        hn_arena_reset(&arena);
    }
    hn_strbuf_putc(out, ']');
    hn_arena_deinit(&arena);
}
