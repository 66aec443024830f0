/* print_index.c: integer expressions and addresses in C. */
#include "codegen/c/internal.h"

void fail_with(printer *pr, hn_status status) {
    if (pr->failed)
        hn_status_free(status);
    else
        pr->failed = status;
}

static hn_status find_size(printer *pr, hn_expr symbol, uint32_t *out) {
    for (*out = 0; *out < pr->sizes.count; ++*out)
        if (pr->sizes.items[*out] == symbol) return NULL;
    HN_PUSH(pr->arena, &pr->sizes, symbol);
    return NULL;
}

uint32_t size_argument(printer *pr, hn_expr symbol) {
    uint32_t k = 0;
    hn_status status = find_size(pr, symbol, &k);
    if (status) fail_with(pr, status);
    return k;
}

static hn_status find_buffer(printer *pr, hn_buf b, hn_expr offset, bool written, uint32_t *out) {
    for (*out = 0; *out < pr->buffers.count; ++*out) {
        if (pr->buffers.items[*out] != b || pr->offsets.items[*out] != offset) continue;
        pr->written.items[*out] |= written;
        return NULL;
    }
    HN_PUSH(pr->arena, &pr->written, written); /* first: every buffer has its marks, also without memory for more */
    HN_PUSH(pr->arena, &pr->offsets, offset);
    HN_PUSH(pr->arena, &pr->buffers, b);
    return NULL;
}

static uint32_t buffer_argument(printer *pr, hn_buf b, hn_expr offset, bool written) {
    uint32_t k = 0;
    hn_status status = find_buffer(pr, b, offset, written, &k);
    if (status) fail_with(pr, status);
    return k;
}

bool is_local(const printer *pr, hn_buf b) {
    for (uint32_t k = 0; k < pr->k->locals.count; k++)
        if (pr->k->locals.items[k].buffer == b) return true;
    return false;
}

void put_base(printer *pr, hn_buf b, hn_expr access, bool written) {
    for (uint32_t k = 0; k < pr->k->locals.count; k++) {
        if (pr->k->locals.items[k].buffer != b) continue;
        hn_strbuf_printf(&pr->out, "l%u", k);
        return;
    }
    hn_strbuf_printf(&pr->out, "b%u", buffer_argument(pr, b, base_of(pr, b, access), written));
}

void put_element(printer *pr, hn_buf b, hn_expr access, hn_expr index) {
    hn_expr offset = is_local(pr, b) ? 0 : base_of(pr, b, access);
    put_index(pr, offset ? hn_sym_sub(pr->sym, index, offset) : index);
}

void put_address(printer *pr, hn_buf b, hn_expr index, bool written) {
    put_base(pr, b, index, written);
    hn_strbuf_puts(&pr->out, " + ");
    put_element(pr, b, index, index);
}

/* The body op that binds an indirect symbol; 0 when it is not of this phase. */
static hn_sid binder_of(const printer *pr, hn_expr symbol) {
    const hn_body *body = &pr->phase->body;
    for (hn_sid s = 1; s < body->count; s++)
        if (body->items[s].kind == HN_SOP_INDIRECT && body->items[s].index == symbol) return s;
    return 0;
}

static void put_symbol(printer *pr, hn_expr e) {
    switch (hn_sym_symbol_kind(pr->sym, e)) {
    case HN_SYMBOL_INDEX:
        if (e == pr->lane)
            hn_strbuf_puts(&pr->out, pr->in_lane_loop ? "(j + k)" : "j");
        else
            hn_strbuf_printf(&pr->out, "i%u", hn_sym_index_ordinal(pr->sym, e));
        return;
    case HN_SYMBOL_INDIRECT: {
        hn_sid s = binder_of(pr, e);
        const char *text = !pr->varying[s] ? "t%u" : is_narrow_index(pr, s) ? "(ll)t%u[k]" : "t%u[k]";
        hn_strbuf_printf(&pr->out, pr->ahead ? "f%u" : text, s);
        return;
    }
    default: hn_strbuf_printf(&pr->out, "n%u", size_argument(pr, e)); return;
    }
}

static void put_int(printer *pr, int64_t value) {
    if (value == INT64_MIN)
        hn_strbuf_puts(&pr->out, "(-9223372036854775807LL - 1)");
    else
        hn_strbuf_i64(&pr->out, value);
    if (value > INT32_MAX || (value < INT32_MIN && value != INT64_MIN)) hn_strbuf_puts(&pr->out, "LL");
}

static void put_call(printer *pr, const char *name, hn_expr a, hn_expr b) {
    hn_strbuf_printf(&pr->out, "%s(", name);
    put_index(pr, a);
    hn_strbuf_puts(&pr->out, ", ");
    put_index(pr, b);
    hn_strbuf_putc(&pr->out, ')');
}

static void put_pair(printer *pr, hn_expr e, const char *name) {
    uint32_t count;
    const hn_expr *args = hn_sym_args(pr->sym, e, &count);
    put_call(pr, name, args[0], args[1]);
}

/* C's / and % truncate: they are floor only for operands that cannot be negative. */
static void put_division(printer *pr, hn_expr e, const char *op, const char *floor_name) {
    uint32_t count;
    const hn_expr *args = hn_sym_args(pr->sym, e, &count);
    hn_expr a = args[0], b = args[1];
    int64_t lo_a, lo_b, hi;
    hn_sym_range(pr->sym, a, &lo_a, &hi);
    hn_sym_range(pr->sym, b, &lo_b, &hi);
    if (lo_a < 0 || lo_b < 0) {
        put_call(pr, floor_name, a, b);
        return;
    }
    hn_strbuf_putc(&pr->out, '(');
    put_index(pr, a);
    hn_strbuf_printf(&pr->out, " %s ", op);
    put_index(pr, b);
    hn_strbuf_putc(&pr->out, ')');
}

static void put_sum(printer *pr, hn_expr e) {
    hn_sum sum = hn_sym_sum(pr->sym, e);
    hn_strbuf_putc(&pr->out, '(');
    for (uint32_t k = 0; k < sum.count; k++) {
        if (k) hn_strbuf_puts(&pr->out, " + ");
        if (sum.coeffs[k] != 1) {
            put_int(pr, sum.coeffs[k]);
            hn_strbuf_puts(&pr->out, " * ");
        }
        put_index(pr, sum.terms[k]);
    }
    if (sum.constant) {
        hn_strbuf_puts(&pr->out, " + ");
        put_int(pr, sum.constant);
    }
    hn_strbuf_putc(&pr->out, ')');
}

static void put_product(printer *pr, hn_expr e) {
    uint32_t count;
    const hn_expr *args = hn_sym_args(pr->sym, e, &count);
    hn_strbuf_putc(&pr->out, '(');
    for (uint32_t k = 0; k < count; k++) {
        if (k) hn_strbuf_puts(&pr->out, " * ");
        put_index(pr, args[k]);
    }
    hn_strbuf_putc(&pr->out, ')');
}

void put_index(printer *pr, hn_expr e) {
    int64_t value;
    switch (hn_sym_kind(pr->sym, e)) {
    case HN_EXPR_CONST:
        (void)hn_sym_is_int(pr->sym, e, &value);
        put_int(pr, value);
        return;
    case HN_EXPR_SYMBOL: put_symbol(pr, e); return;
    case HN_EXPR_ADD: put_sum(pr, e); return;
    case HN_EXPR_MUL: {
        hn_sum sum = hn_sym_sum(pr->sym, e);
        if (sum.count == 1 && sum.terms[0] != e)
            put_sum(pr, e);
        else
            put_product(pr, e);
        return;
    }
    case HN_EXPR_FLOORDIV: put_division(pr, e, "/", "fdiv"); return;
    case HN_EXPR_MOD: put_division(pr, e, "%", "fmodll"); return;
    case HN_EXPR_MIN: put_pair(pr, e, "imin"); return;
    case HN_EXPR_MAX: put_pair(pr, e, "imax"); return;
    default: fail_with(pr, HN_ERROR(HN_INTERNAL, "an invalid index expression reached the C printer")); return;
    }
}

bool uses_lane(printer *pr, hn_expr e) {
    if (pr->lane && hn_sym_uses(pr->sym, e, pr->lane)) return true;
    const hn_body *body = &pr->phase->body;
    for (hn_sid s = 1; s < body->count; s++)
        if (body->items[s].kind == HN_SOP_INDIRECT && pr->varying[s] && hn_sym_uses(pr->sym, e, body->items[s].index))
            return true;
    return false;
}

lane_walk walk_of(printer *pr, hn_expr e, hn_expr *out_step) {
    hn_expr rest;
    if (!uses_lane(pr, e)) return WALK_FIXED;
    if (!pr->lane || !hn_sym_affine(pr->sym, e, pr->lane, out_step, &rest) || uses_lane(pr, rest) || uses_lane(pr, *out_step))
        return WALK_GATHER;
    return hn_sym_is_value(pr->sym, *out_step, 1) ? WALK_ONE : WALK_STRIDE;
}
