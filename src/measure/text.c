/* text.c: ceilings as text. */
#include "measure/ceilings.h"

#include "base/json.h"

#include <math.h>

/* The numbers of a level behind its name; of the whole behind the levels. */
static void print_number(double value, hn_strbuf *out) { hn_strbuf_printf(out, ", %.17g", value); }

void hn_ceilings_print(const hn_ceilings *c, hn_strbuf *out) {
    hn_strbuf_puts(out, "{\"name\": ");
    hn_strbuf_json(out, hn_str_of(c->name));
    hn_strbuf_printf(out, ", \"device\": [%d, %u], \"threads\": %d, \"levels\": [",
                     (int)c->device.kind, c->device.number, c->threads);
    for (uint32_t k = 0; k < c->level_count; k++) {
        const hn_ceiling_level *l = &c->levels[k];
        hn_strbuf_puts(out, k ? ", [" : "[");
        hn_strbuf_json(out, hn_str_of(l->name));
        hn_strbuf_printf(out, ", %lld", (long long)l->bytes);
        print_number(l->read, out), print_number(l->copy, out), print_number(l->fill, out);
        hn_strbuf_putc(out, ']');
    }
    hn_strbuf_printf(out, "], \"numbers\": [%lld", (long long)c->measured_s);
    print_number(c->own_share, out);
    for (int k = 0; k < HN_CEILING_MATH_COUNT; k++) print_number(c->math[k], out);
    hn_strbuf_puts(out, "]}\n");
}

/* ---- reading ---- */

static hn_status read_name(hn_json *json, char *out, size_t bytes) {
    hn_str text;
    HN_TRY(hn_json_string(json, &text));
    if (text.len >= bytes) return hn_json_error(json, "a longer name than any device has");
    snprintf(out, bytes, HN_STR_FMT, HN_STR_ARG(text));
    return NULL;
}

static hn_status read_item(hn_json *json) {
    return hn_json_item(json) ? NULL : hn_json_error(json, "a number is missing");
}

static hn_status read_int(hn_json *json, int64_t least, int64_t *out) {
    HN_TRY(read_item(json));
    HN_TRY(hn_json_int(json, out));
    return *out < least ? hn_json_error(json, "a number is too small") : NULL;
}

static hn_status read_rate(hn_json *json, double *out) {
    HN_TRY(read_item(json));
    HN_TRY(hn_json_float(json, out));
    return isfinite(*out) && *out >= 0 ? NULL : hn_json_error(json, "no rate");
}

static hn_status end_list(hn_json *json) {
    return hn_json_item(json) ? hn_json_error(json, "a number too many") : hn_json_status(json);
}

static hn_status read_level(hn_json *json, hn_ceiling_level *out) {
    HN_TRY(hn_json_array(json));
    HN_TRY(read_item(json));
    HN_TRY(read_name(json, out->name, sizeof out->name));
    HN_TRY(read_int(json, 1, &out->bytes));
    double *const rates[] = {&out->read, &out->copy, &out->fill};
    for (int k = 0; k < 3; k++) {
        HN_TRY(read_rate(json, rates[k]));
        if (*rates[k] == 0) return hn_json_error(json, "no rate");
    }
    return end_list(json);
}

static hn_status read_levels(hn_json *json, hn_ceilings *out) {
    HN_TRY(hn_json_array(json));
    while (hn_json_item(json)) {
        if (out->level_count == HN_CEILING_LEVELS) return hn_json_error(json, "too many levels");
        HN_TRY(read_level(json, &out->levels[out->level_count++]));
    }
    return hn_json_status(json);
}

static hn_status read_numbers(hn_json *json, hn_ceilings *out) {
    HN_TRY(hn_json_array(json));
    HN_TRY(read_int(json, 0, &out->measured_s));
    HN_TRY(read_rate(json, &out->own_share));
    if (out->own_share > 1) return hn_json_error(json, "no share");
    for (int k = 0; k < HN_CEILING_MATH_COUNT; k++) HN_TRY(read_rate(json, &out->math[k]));
    return end_list(json);
}

static hn_status read_device(hn_json *json, hn_ceilings *out) {
    int64_t kind, number;
    HN_TRY(hn_json_array(json));
    HN_TRY(read_int(json, 0, &kind));
    HN_TRY(read_int(json, 0, &number));
    if (kind >= HN_DEVICE_KIND_COUNT || number > INT32_MAX) return hn_json_error(json, "no device");
    out->device = (hn_device){.kind = (hn_device_kind)kind, .number = (uint32_t)number};
    return end_list(json);
}

static hn_status read_threads(hn_json *json, hn_ceilings *out) {
    int64_t threads;
    HN_TRY(hn_json_int(json, &threads));
    if (threads < 0 || threads > INT32_MAX) return hn_json_error(json, "no number of threads");
    out->threads = (int)threads;
    return NULL;
}

static hn_status read_all(hn_json *json, hn_ceilings *out) {
    HN_TRY(hn_json_object(json));
    for (hn_str key; hn_json_key(json, &key);) {
        if (hn_str_eq(key, HN_STR("name"))) HN_TRY(read_name(json, out->name, sizeof out->name));
        else if (hn_str_eq(key, HN_STR("device"))) HN_TRY(read_device(json, out));
        else if (hn_str_eq(key, HN_STR("threads"))) HN_TRY(read_threads(json, out));
        else if (hn_str_eq(key, HN_STR("levels"))) HN_TRY(read_levels(json, out));
        else if (hn_str_eq(key, HN_STR("numbers"))) HN_TRY(read_numbers(json, out));
        else return hn_json_error(json, "an unknown key");
    }
    HN_TRY(hn_json_finish(json));
    if (!out->level_count || out->levels[out->level_count - 1].bytes != INT64_MAX || !out->math[0])
        return hn_json_error(json, "no ceilings of memory or of additions");
    return NULL;
}

hn_status hn_ceilings_parse(hn_str text, hn_ceilings *out) {
    hn_arena arena;
    hn_json json;
    *out = (hn_ceilings){.threads = 0};
    hn_arena_init(&arena);
    hn_json_init(&json, &arena, text);
    hn_status status = read_all(&json, out);
    hn_arena_deinit(&arena);
    return status;
}
