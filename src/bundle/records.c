/* records.c: what steps are made of: checking, finding and printing records. */
#include "bundle/internal.h"

#include "henry/record.h"

#include <inttypes.h>

/* ---- checking ---- */

static bool text_ok(const hn_bundle *b, hnb_str s) {
    const uint64_t end = (uint64_t)s.offset + s.len;
    return !s.len || (end < b->strings_bytes && b->strings[end] == 0);
}

static bool is_before(const hnb_record *a, const hnb_record *b) {
    return a->step < b->step || (a->step == b->step && a->target < b->target);
}

static bool record_ok(const hn_bundle *b, const hnb_record *r) {
    if (r->step >= b->steps_count || (r->target && r->target >= b->targets_count)) return false;
    const uint32_t kind = b->steps[r->step].kind;
    if (kind != HNB_STEP_KERNEL && kind != HNB_STEP_EXTERN) return false;
    return r->rank <= 2 * HNB_MAX_RANK && r->row_rank <= r->rank &&
           (uint64_t)r->dims + r->rank <= b->dims_count && r->read_expr < b->nodes_count &&
           r->written_expr < b->nodes_count && r->operations_expr < b->nodes_count &&
           text_ok(b, r->form);
}

hn_status hn_bundle_check_records(const hn_bundle *b) {
    for (uint32_t k = 0; k < b->records_count; k++)
        if (!record_ok(b, &b->records[k]) || (k && !is_before(&b->records[k - 1], &b->records[k])))
            return HN_ERROR(HN_CORRUPT, "bundle is damaged: record %u", k);
    return NULL;
}

/* ---- finding ---- */

/* The first record that is not before `wanted`. */
static uint32_t lower_bound(const hn_bundle *b, const hnb_record *wanted) {
    uint32_t first = 0, count = b->records_count;
    while (count) {
        const uint32_t half = count / 2;
        if (is_before(&b->records[first + half], wanted)) first += half + 1, count -= half + 1;
        else count = half;
    }
    return first;
}

static const hnb_record *find(const hn_bundle *b, uint32_t step, uint32_t target) {
    const hnb_record wanted = {.step = step, .target = target};
    const uint32_t at = lower_bound(b, &wanted);
    if (at == b->records_count || is_before(&wanted, &b->records[at])) return NULL;
    return &b->records[at];
}

const hnb_record *hn_bundle_record_find(const hn_bundle *b, uint32_t step, uint32_t target) {
    const hnb_record *own = find(b, step, target);
    return own || !target ? own : find(b, step, 0);
}

const char *hn_step_category_name(hn_step_category category) {
    switch (category) {
#define NAME(id, name, number)                                                                     \
    case HN_CATEGORY_##id: return name;
        HN_STEP_CATEGORIES(NAME)
#undef NAME
    }
    return "unknown";
}

/* ---- printing ---- */

static void put_text(hn_strbuf *out, const char *key, hn_str text) {
    hn_strbuf_printf(out, ",\"%s\":", key), hn_strbuf_json(out, text);
}
static void put_number(hn_strbuf *out, const char *key, int64_t value) {
    hn_strbuf_printf(out, ",\"%s\":%" PRId64, key, value);
}
static void put_bool(hn_strbuf *out, const char *key, bool value) {
    hn_strbuf_printf(out, ",\"%s\":%s", key, value ? "true" : "false");
}

/* A number, or a string for an expression. */
static void put_expr(const hn_bundle *b, hn_strbuf *out, uint32_t node) {
    int64_t value;
    hn_strbuf text;
    if (hn_bundle_expr_const(b, node, &value)) {
        hn_strbuf_i64(out, value);
        return;
    }
    hn_strbuf_init(&text);
    hn_bundle_expr_print(b, node, &text);
    hn_strbuf_json(out, hn_strbuf_str(&text));
    out->failed |= text.failed;
    hn_strbuf_deinit(&text);
}

static void put_sizes(const hn_bundle *b, const hnb_record *r, hn_strbuf *out) {
    hn_strbuf_puts(out, ",\"rows\":[");
    for (uint32_t k = 0; k < r->rank; k++) {
        if (k == r->row_rank) hn_strbuf_puts(out, "],\"inner\":[");
        else if (k) hn_strbuf_putc(out, ',');
        put_expr(b, out, b->dims[r->dims + k]);
    }
    if (r->row_rank == r->rank) hn_strbuf_puts(out, "],\"inner\":[");
    hn_strbuf_putc(out, ']');
}

static void put_form(const hn_bundle *b, const hnb_record *r, hn_strbuf *out) {
    static const char *const directions[] = {"inner", "flat", "outer"};
    const uint32_t known = sizeof directions / sizeof *directions;
    put_text(out, "form", hn_bundle_str(b, r->form));
    put_text(out, "direction", hn_str_of(r->direction < known ? directions[r->direction] : "?"));
    put_bool(out, "vectorized", r->flags & HNB_RECORD_VECTORIZED);
    put_number(out, "fused_loops", r->fused_loops);
    put_number(out, "phases", r->phases);
    put_number(out, "local_buffers", r->local_buffers);
    put_number(out, "arguments", r->arguments);
    put_number(out, "loads", r->loads);
    put_number(out, "stores", r->stores);
    put_number(out, "atomics", r->atomics);
    put_number(out, "loops", r->loops);
    put_number(out, "barriers", r->barriers);
    put_number(out, "reductions", r->reductions);
    put_number(out, "lanes", r->lanes);
    put_number(out, "threads", r->threads);
    put_number(out, "accessed_bytes", r->accessed_bytes);
    put_number(out, "predicted_ns", r->predicted_ns);
    put_sizes(b, r, out);
}

/* A number of bytes or operations at the hints, and for other sizes where that is not a number. */
static void put_quantity(const hn_bundle *b, hn_strbuf *out, const char *key, int64_t value,
                         uint32_t node) {
    int64_t ignored;
    put_number(out, key, value);
    if (!node || hn_bundle_expr_const(b, node, &ignored)) return;
    hn_strbuf_printf(out, ",\"%s_expr\":", key);
    put_expr(b, out, node);
}

static void put_record(const hn_bundle *b, const hnb_record *r, hn_strbuf *out) {
    const hn_step_category category = (hn_step_category)r->category;
    hn_strbuf_printf(out, "{\"step\":%u", r->step);
    if (b->targets_count > 1) put_text(out, "target", hn_bundle_str(b, b->targets[r->target].name));
    put_text(out, "category", hn_str_of(hn_step_category_name(category)));
    put_number(out, "part", r->part);
    put_quantity(b, out, "read_bytes", r->read_bytes, r->read_expr);
    put_quantity(b, out, "written_bytes", r->written_bytes, r->written_expr);
    put_bool(out, "is_bound", r->flags & HNB_RECORD_BOUND);
    put_quantity(b, out, "operations", r->operations, r->operations_expr);
    if (r->flags & HNB_RECORD_HAS_FORM) put_form(b, r, out);
    hn_strbuf_putc(out, '}');
}

void hn_bundle_records_json(const hn_bundle *b, hn_strbuf *out) {
    hn_strbuf_puts(out, ",\"records\":[");
    for (uint32_t k = 0; k < b->records_count; k++) {
        if (k) hn_strbuf_putc(out, ',');
        put_record(b, &b->records[k], out);
    }
    hn_strbuf_putc(out, ']');
}
