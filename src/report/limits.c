/* limits.c: what the machine can do at most, and each step beside that. */
#include "report/internal.h"

static void put_level(const hn_ceiling_level *l, hn_strbuf *out) {
    hn_json_open_put(out, '{');
    hn_json_text_put(out, "name", hn_str_of(l->name));
    if (l->bytes != INT64_MAX) hn_json_int_put(out, "bytes", l->bytes);
    hn_json_float_put(out, "read", l->read);
    hn_json_float_put(out, "copy", l->copy);
    hn_json_float_put(out, "fill", l->fill);
    hn_json_close_put(out, '}');
}

/* Bytes, or operations, a nanosecond. */
static void put_ceilings(const hn_ceilings *c, hn_strbuf *out) {
    static const char *const math[HN_CEILING_MATH_COUNT] = {
        [HN_CEILING_ADD] = "additions",
        [HN_CEILING_PRODUCTS] = "products_f32",
        [HN_CEILING_PRODUCTS_HALF] = "products_16_bits",
        [HN_CEILING_PRODUCTS_F64] = "products_f64"};
    hn_json_open_put(out, '{');
    hn_json_text_put(out, "device", hn_str_of(hn_device_name(c->device.kind)));
    hn_json_text_put(out, "name", hn_str_of(c->name));
    hn_json_int_put(out, "threads", c->threads);
    hn_json_float_put(out, "own_share", c->own_share);
    hn_json_int_put(out, "measured_s", c->measured_s);
    hn_json_key_put(out, "levels"), hn_json_open_put(out, '[');
    for (uint32_t k = 0; k < c->level_count; k++) put_level(&c->levels[k], out);
    hn_json_close_put(out, ']');
    hn_json_key_put(out, "math"), hn_json_open_put(out, '{');
    for (int k = 0; k < HN_CEILING_MATH_COUNT; k++)
        if (c->math[k] > 0) hn_json_float_put(out, math[k], c->math[k]);
    hn_json_close_put(out, '}');
    hn_json_close_put(out, '}');
}

static void put_step(const hn_roofline_step *s, hn_strbuf *out) {
    hn_json_open_put(out, '{');
    hn_json_int_put(out, "step", s->step);
    hn_json_int_put(out, "calls", s->calls);
    hn_json_float_put(out, "ns", s->ns);
    if (s->is_known) {
        hn_json_float_put(out, "read_bytes", s->work.read_bytes);
        hn_json_float_put(out, "written_bytes", s->work.written_bytes);
        hn_json_float_put(out, "operations", s->work.operations);
        hn_json_bool_put(out, "is_bound", s->is_bound);
        hn_json_float_put(out, "move_ns", s->roof.move_ns);
        hn_json_float_put(out, "math_ns", s->roof.math_ns);
        hn_json_float_put(out, "ideal_ns", s->roof.ns);
        hn_json_text_put(out, "limit", hn_str_of(s->roof.limit));
        hn_json_float_put(out, "lost_ns", s->lost_ns);
    }
    hn_json_close_put(out, '}');
}

void hn_report_put_roofline(const hn_roofline *r, hn_strbuf *out) {
    hn_json_key_put(out, "roofline"), hn_json_open_put(out, '{');
    hn_json_float_put(out, "ns", r->ns);
    hn_json_float_put(out, "ideal_ns", r->roof_ns);
    hn_json_float_put(out, "lost_ns", r->lost_ns);
    hn_json_float_put(out, "unknown_ns", r->unknown_ns);
    hn_json_float_put(out, "whole_ns", r->whole.ns);
    hn_json_text_put(out, "whole_limit", hn_str_of(r->whole.limit));
    hn_json_key_put(out, "ceilings"), hn_json_open_put(out, '[');
    for (uint32_t d = 0; d < r->device_count; d++) put_ceilings(&r->ceilings[d], out);
    hn_json_close_put(out, ']');
    hn_json_key_put(out, "steps"), hn_json_open_put(out, '[');
    for (uint32_t k = 0; k < r->count; k++) put_step(&r->steps[k], out);
    hn_json_close_put(out, ']');
    hn_json_close_put(out, '}');
}
