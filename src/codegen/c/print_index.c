/* print_index.c: integer expressions and addresses in C. */
#include "codegen/c/internal.h"

#include "codegen/index.h"

void c_fail_with(printer *pr, hn_status status) {
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

static uint32_t size_argument(printer *pr, hn_expr symbol) {
    uint32_t k = 0;
    hn_status status = find_size(pr, symbol, &k);
    if (status) c_fail_with(pr, status);
    return k;
}

static hn_status find_buffer(printer *pr, hn_buf b, hn_expr offset, uint32_t *out) {
    for (*out = 0; *out < pr->buffers.count; ++*out) {
        if (pr->buffers.items[*out] == b && pr->offsets.items[*out] == offset) return NULL;
    }
    HN_PUSH(pr->arena, &pr->offsets, offset); /* first: every buffer has one, also without memory for more */
    HN_PUSH(pr->arena, &pr->buffers, b);
    return NULL;
}

static uint32_t buffer_argument(printer *pr, hn_buf b, hn_expr offset) {
    uint32_t k = 0;
    hn_status status = find_buffer(pr, b, offset, &k);
    if (status) c_fail_with(pr, status);
    return k;
}

void c_put_base(printer *pr, hn_buf b, hn_expr access) {
    for (uint32_t k = 0; k < pr->k->locals.count; k++) {
        if (pr->k->locals.items[k].buffer != b) continue;
        hn_strbuf_printf(&pr->out, "l%u", k);
        return;
    }
    hn_strbuf_printf(&pr->out, "b%u", buffer_argument(pr, b, hn_cpu_base_of(pr->plan, b, access)));
}

void c_put_element(printer *pr, hn_buf b, hn_expr access, hn_expr index) {
    hn_expr offset = hn_cpu_is_local(pr->plan, b) ? 0 : hn_cpu_base_of(pr->plan, b, access);
    c_put_index(pr, offset ? hn_sym_sub(pr->sym, index, offset) : index);
}

void c_put_address(printer *pr, hn_buf b, hn_expr index) {
    c_put_base(pr, b, index);
    hn_strbuf_puts(&pr->out, " + ");
    c_put_element(pr, b, index, index);
}

/* The body op that binds an indirect symbol; 0 when it is not of this phase. */
static hn_sid binder_of(const printer *pr, hn_expr symbol) {
    const hn_body *body = &pr->at->phase->body;
    for (hn_sid s = 1; s < body->count; s++)
        if (body->items[s].kind == HN_SOP_INDIRECT && body->items[s].index == symbol) return s;
    return 0;
}

/* Whether prefetches of a later row have an index f<s> of their own. Otherwise it is the same for all rows. */
static bool is_ahead(const printer *pr, hn_sid s) {
    for (uint32_t k = 0; k < pr->at->indices_ahead.count; k++)
        if (pr->at->indices_ahead.items[k].op == s) return pr->ahead;
    return false;
}

static void put_symbol(void *user, hn_expr e, hn_strbuf *out) {
    printer *pr = user;
    switch (hn_sym_symbol_kind(pr->sym, e)) {
    case HN_SYMBOL_INDEX:
        if (e == pr->at->lane)
            hn_strbuf_puts(out, pr->in_lane_loop ? "(j + k)" : "j");
        else
            hn_strbuf_printf(out, "i%u", hn_sym_index_ordinal(pr->sym, e));
        return;
    case HN_SYMBOL_INDIRECT: {
        hn_sid s = binder_of(pr, e);
        const char *text = !pr->at->ops[s].varying ? "t%u" : pr->at->ops[s].narrow ? "(ll)t%u[k]" : "t%u[k]";
        hn_strbuf_printf(out, is_ahead(pr, s) ? "f%u" : text, s);
        return;
    }
    default: hn_strbuf_printf(out, "n%u", size_argument(pr, e)); return;
    }
}

void c_put_index(printer *pr, hn_expr e) {
    static const hn_index_words words = {.suffix = "LL", .floordiv = "fdiv", .mod = "fmodll", .min = "imin", .max = "imax"};
    hn_status status = hn_index_put(&(hn_index_printer){pr->sym, &words, put_symbol, pr}, e, &pr->out);
    if (status) c_fail_with(pr, status);
}
