/* choice.c: decision tables over sizes: evaluating, checking and printing them. */
#include "base/choice.h"

#include "base/json_put.h"

#include <inttypes.h>

/* ---- evaluating ---- */

/* Both bounds by one comparison: below `lo`, the difference is larger than any width. */
static inline bool is_within(int64_t value, int64_t lo, int64_t hi) {
    return (uint64_t)value - (uint64_t)lo <= (uint64_t)hi - (uint64_t)lo;
}

uint32_t hn_choice_find(const hn_choice *c, const hn_choice_box *boxes, const int64_t *values) {
    int64_t v[HN_CHOICE_AXES] = {0};
    for (uint32_t d = 0; d < c->axis_count; d++) v[d] = values[d];
    for (const hn_choice_box *b = boxes, *end = boxes + c->box_count; b < end; b++)
        if (is_within(v[0], b->lo[0], b->hi[0]) && is_within(v[1], b->lo[1], b->hi[1]) &&
            is_within(v[2], b->lo[2], b->hi[2]))
            return b->variant;
    return c->fallback;
}

/* ---- checking ---- */

static hn_status check_box(const hn_choice *c, const hn_choice_box *box, uint32_t number) {
    if (box->variant >= c->variant_count)
        return HN_ERROR(HN_CORRUPT, "box %u of a decision table has variant %u of %u", number,
                        box->variant, c->variant_count);
    if (box->reserved)
        return HN_ERROR(HN_CORRUPT, "box %u of a decision table has an unknown mark", number);
    for (uint32_t d = 0; d < HN_CHOICE_AXES; d++) {
        if (d >= c->axis_count && (box->lo[d] || box->hi[d]))
            return HN_ERROR(HN_CORRUPT, "box %u of a decision table has more than %u sizes", number,
                            c->axis_count);
        if (box->lo[d] > box->hi[d])
            return HN_ERROR(HN_CORRUPT, "box %u of a decision table is empty", number);
    }
    return NULL;
}

static bool overlap(const hn_choice_box *a, const hn_choice_box *b) {
    for (int d = 0; d < HN_CHOICE_AXES; d++)
        if (a->hi[d] < b->lo[d] || b->hi[d] < a->lo[d]) return false;
    return true;
}

/* By the lower bounds, the first axis first. */
static bool is_before(const hn_choice_box *a, const hn_choice_box *b) {
    for (int d = 0; d < HN_CHOICE_AXES; d++)
        if (a->lo[d] != b->lo[d]) return a->lo[d] < b->lo[d];
    return false;
}

static hn_status check_head(const hn_choice *c) {
    if (c->axis_count > HN_CHOICE_AXES || c->box_count > HN_CHOICE_BOXES)
        return HN_ERROR(HN_CORRUPT, "a decision table has %u sizes and %u boxes; %d and %d may be",
                        c->axis_count, c->box_count, HN_CHOICE_AXES, HN_CHOICE_BOXES);
    if (!c->axis_count && c->box_count)
        return HN_ERROR(HN_CORRUPT, "a decision table has boxes, but no sizes");
    if (c->variant_count > HN_CHOICE_VARIANTS || c->fallback >= c->variant_count)
        return HN_ERROR(HN_CORRUPT, "a decision table falls back on variant %u of %u", c->fallback,
                        c->variant_count);
    return NULL;
}

hn_status hn_choice_check(const hn_choice *c, const hn_choice_box *boxes) {
    HN_TRY(check_head(c));
    for (uint32_t k = 0; k < c->box_count; k++) {
        HN_TRY(check_box(c, &boxes[k], k));
        for (uint32_t j = 0; j < k; j++)
            if (overlap(&boxes[j], &boxes[k]))
                return HN_ERROR(HN_CORRUPT, "boxes %u and %u of a decision table overlap", j, k);
        if (k && !is_before(&boxes[k - 1], &boxes[k]))
            return HN_ERROR(HN_CORRUPT, "box %u of a decision table is not behind the one before",
                            k);
    }
    return NULL;
}

/* ---- printing ---- */

static bool is_bounded(const hn_choice_box *box, uint32_t d) {
    return box->lo[d] != INT64_MIN || box->hi[d] != INT64_MAX;
}

static void print_range(const hn_choice_box *box, uint32_t d, hn_strbuf *out) {
    if (!is_bounded(box, d)) {
        hn_strbuf_putc(out, '*');
        return;
    }
    if (box->lo[d] != INT64_MIN) hn_strbuf_i64(out, box->lo[d]);
    if (box->lo[d] == box->hi[d]) return;
    hn_strbuf_puts(out, "..");
    if (box->hi[d] != INT64_MAX) hn_strbuf_i64(out, box->hi[d]);
}

void hn_choice_print(const hn_choice *c, const hn_choice_box *boxes, const hn_choice_names *names,
                     hn_strbuf *out) {
    for (uint32_t k = 0; k < c->box_count; k++) {
        for (uint32_t d = 0; d < c->axis_count; d++) {
            hn_strbuf_printf(out, "%s" HN_STR_FMT " ", d ? ", " : "", HN_STR_ARG(names->axes[d]));
            print_range(&boxes[k], d, out);
        }
        hn_strbuf_printf(out, ": " HN_STR_FMT "\n", HN_STR_ARG(names->variants[boxes[k].variant]));
    }
    hn_strbuf_printf(out, "%s: " HN_STR_FMT "\n", c->box_count ? "all others" : "all",
                     HN_STR_ARG(names->variants[c->fallback]));
}

static void put_bound(int64_t bound, int64_t none, hn_strbuf *out) {
    hn_json_item_put(out);
    if (bound == none) hn_strbuf_puts(out, "null");
    else hn_strbuf_i64(out, bound);
}

/* [lo, hi] for each axis. */
static void put_box(const hn_choice *c, const hn_choice_box *box, const hn_choice_names *names,
                    hn_strbuf *out) {
    hn_json_open_put(out, '{');
    hn_json_text_put(out, "variant", names->variants[box->variant]);
    hn_json_key_put(out, "sizes");
    hn_json_open_put(out, '[');
    for (uint32_t d = 0; d < c->axis_count; d++) {
        hn_json_open_put(out, '[');
        put_bound(box->lo[d], INT64_MIN, out);
        put_bound(box->hi[d], INT64_MAX, out);
        hn_json_close_put(out, ']');
    }
    hn_json_close_put(out, ']');
    hn_json_close_put(out, '}');
}

void hn_choice_json(const hn_choice *c, const hn_choice_box *boxes, const hn_choice_names *names,
                    hn_strbuf *out) {
    hn_json_open_put(out, '{');
    hn_json_key_put(out, "axes");
    hn_json_open_put(out, '[');
    for (uint32_t d = 0; d < c->axis_count; d++)
        hn_json_item_put(out), hn_strbuf_json(out, names->axes[d]);
    hn_json_close_put(out, ']');
    hn_json_text_put(out, "fallback", names->variants[c->fallback]);
    hn_json_key_put(out, "boxes");
    hn_json_open_put(out, '[');
    for (uint32_t k = 0; k < c->box_count; k++) put_box(c, &boxes[k], names, out);
    hn_json_close_put(out, ']');
    hn_json_close_put(out, '}');
}
