/* print_index.c: integer expressions and addresses in C. */
#include "codegen/c/internal.h"

#include "codegen/index.h"

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

static void put_symbol(void *user, hn_expr e, hn_strbuf *out) {
    printer *pr = user;
    switch (hn_sym_symbol_kind(pr->sym, e)) {
    case HN_SYMBOL_INDEX:
        if (e == pr->lane)
            hn_strbuf_puts(out, pr->in_lane_loop ? "(j + k)" : "j");
        else
            hn_strbuf_printf(out, "i%u", hn_sym_index_ordinal(pr->sym, e));
        return;
    case HN_SYMBOL_INDIRECT: {
        hn_sid s = binder_of(pr, e);
        const char *text = !pr->varying[s] ? "t%u" : is_narrow_index(pr, s) ? "(ll)t%u[k]" : "t%u[k]";
        hn_strbuf_printf(out, pr->ahead ? "f%u" : text, s);
        return;
    }
    default: hn_strbuf_printf(out, "n%u", size_argument(pr, e)); return;
    }
}

void put_index(printer *pr, hn_expr e) {
    static const hn_index_words words = {.suffix = "LL", .floordiv = "fdiv", .mod = "fmodll", .min = "imin", .max = "imax"};
    hn_status status = hn_index_put(&(hn_index_printer){pr->sym, &words, put_symbol, pr}, e, &pr->out);
    if (status) fail_with(pr, status);
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
