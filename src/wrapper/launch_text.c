/* launch_text.c: see launch_text.h. The grammar is in docs/wrapper-ir.md, section 2. */
#include "wrapper/launch_text.h"

#include "ir/text.h"

enum { MAX_LIST = 1 << 16 };

/* ---- printing ---- */

/* Broken IR is printed, too: only a verifier error will parse it. */
static void put_expr(const hn_wrapper *w, hn_expr e, hn_strbuf *out) {
    if (e) hn_text_print_expr(w->sym, e, out);
    else hn_strbuf_putc(out, '?');
}

static void put_field(const hn_wrapper *w, const char *word, hn_expr e, hn_strbuf *out) {
    if (!e) return;
    hn_strbuf_printf(out, " %s(", word);
    put_expr(w, e, out);
    hn_strbuf_putc(out, ')');
}

static void put_exprs(const hn_wrapper *w, const hn_expr *list, uint32_t count, hn_strbuf *out) {
    for (uint32_t k = 0; k < count; k++) {
        if (k) hn_strbuf_puts(out, ", ");
        put_expr(w, list[k], out);
    }
}

static void put_number(const char *word, int64_t value, hn_strbuf *out) {
    if (!value) return;
    hn_strbuf_printf(out, " %s ", word);
    hn_strbuf_i64(out, value);
}

static void put_order(const hn_wlaunch *l, hn_strbuf *out) {
    if (!l->order) return;
    hn_strbuf_puts(out, " takes [");
    for (uint32_t k = 0; k < l->arg_count; k++)
        hn_strbuf_printf(out, k ? ", %u" : "%u", l->order[k]);
    hn_strbuf_putc(out, ']');
}

void hn_launch_print(const hn_wrapper *w, const hn_wlaunch *l, hn_strbuf *out) {
    put_order(l, out);
    if (l->param_count) {
        hn_strbuf_puts(out, " params [");
        put_exprs(w, l->params, l->param_count, out);
        hn_strbuf_putc(out, ']');
    }
    put_field(w, "extent", l->extent, out);
    put_number("grain", l->grain, out);
    put_number("threads", l->threads, out);
    put_number("shared", l->shared_bytes, out);
    put_field(w, "scratch", l->scratch_bytes, out);
    if (!l->form.len) return;
    hn_strbuf_puts(out, " form ");
    hn_text_print_string(l->form, out);
}

static void put_bound(int64_t bound, int64_t none, hn_strbuf *out) {
    if (bound == none) hn_strbuf_puts(out, "none");
    else hn_strbuf_i64(out, bound);
}

static void put_box(const hn_choice *c, const hn_choice_box *box, hn_strbuf *out) {
    hn_strbuf_printf(out, "%u in", box->variant);
    for (uint32_t d = 0; d < c->axis_count && d < HN_CHOICE_AXES; d++) {
        hn_strbuf_puts(out, d ? " and [" : " [");
        put_bound(box->lo[d], INT64_MIN, out);
        hn_strbuf_puts(out, ", ");
        put_bound(box->hi[d], INT64_MAX, out);
        hn_strbuf_putc(out, ']');
    }
}

static void put_choice(const hn_wrapper *w, const hn_sym_choice *c, hn_strbuf *out) {
    hn_strbuf_puts(out, " choose [");
    put_exprs(w, c->axes, c->head.axis_count < HN_CHOICE_AXES ? c->head.axis_count : HN_CHOICE_AXES,
              out);
    hn_strbuf_printf(out, "] else %u [", c->head.fallback);
    for (uint32_t k = 0; k < c->head.box_count; k++) {
        if (k) hn_strbuf_puts(out, ", ");
        put_box(&c->head, &c->boxes[k], out);
    }
    hn_strbuf_putc(out, ']');
}

void hn_variants_print(const hn_wrapper *w, const hn_line *line, hn_strbuf *out) {
    for (uint32_t v = 1; v < hn_line_variants(line); v++) {
        hn_strbuf_puts(out, " or");
        if (hn_line_kernel(line, v)) hn_strbuf_printf(out, " k%u", hn_line_kernel(line, v));
        if (line->variants[v - 1].launches)
            hn_launch_print(w, &line->variants[v - 1].launches[0], out);
    }
    if (line->choices) put_choice(w, line->choices, out);
}

/* ---- reading ---- */

typedef struct expr_list {
    hn_expr *items;
    uint32_t count, cap;
} expr_list;

typedef struct number_list {
    uint32_t *items;
    uint32_t count, cap;
} number_list;

static hn_status fail(const hn_lex *lex, const char *what) {
    return hn_lex_fail(lex, lex->p, what);
}

static hn_status read_field(hn_lex *lex, hn_sym *sym, const char *word, hn_expr *out) {
    if (!hn_lex_accept_word(lex, word)) return NULL;
    HN_TRY(hn_lex_expect(lex, '('));
    HN_TRY(hn_lex_expr(lex, sym, out));
    return hn_lex_expect(lex, ')');
}

static hn_status read_exprs(hn_lex *lex, hn_sym *sym, expr_list *out) {
    HN_TRY(hn_lex_expect(lex, '['));
    if (hn_lex_accept(lex, ']')) return NULL;
    do {
        hn_expr e;
        if (out->count == MAX_LIST) return fail(lex, "the list is too long");
        HN_TRY(hn_lex_expr(lex, sym, &e));
        HN_PUSH(lex->arena, out, e);
    } while (hn_lex_accept(lex, ','));
    return hn_lex_expect(lex, ']');
}

/* What is taken is a list also where it is empty. */
static hn_status read_order(hn_lex *lex, hn_wlaunch *l) {
    number_list list = {0};
    if (!hn_lex_accept_word(lex, "takes")) return NULL;
    HN_TRY(hn_lex_expect(lex, '['));
    HN_PUSH(lex->arena, &list, 0);
    list.count = 0;
    if (!hn_lex_accept(lex, ']')) {
        do {
            uint32_t operand;
            if (list.count == MAX_LIST) return fail(lex, "the list is too long");
            HN_TRY(hn_lex_u32(lex, &operand));
            HN_PUSH(lex->arena, &list, operand);
        } while (hn_lex_accept(lex, ','));
        HN_TRY(hn_lex_expect(lex, ']'));
    }
    l->order = list.items;
    l->arg_count = list.count;
    return NULL;
}

hn_status hn_launch_parse(hn_lex *lex, hn_sym *sym, hn_wlaunch *out) {
    expr_list params = {0};
    HN_TRY(read_order(lex, out));
    if (hn_lex_accept_word(lex, "params")) HN_TRY(read_exprs(lex, sym, &params));
    out->params = params.items;
    out->param_count = params.count;
    HN_TRY(read_field(lex, sym, "extent", &out->extent));
    if (hn_lex_accept_word(lex, "grain")) HN_TRY(hn_lex_i64(lex, &out->grain));
    if (hn_lex_accept_word(lex, "threads")) HN_TRY(hn_lex_u32(lex, &out->threads));
    if (hn_lex_accept_word(lex, "shared")) HN_TRY(hn_lex_u32(lex, &out->shared_bytes));
    HN_TRY(read_field(lex, sym, "scratch", &out->scratch_bytes));
    return hn_lex_accept_word(lex, "form") ? hn_lex_string(lex, &out->form) : NULL;
}

static hn_status read_bound(hn_lex *lex, int64_t none, int64_t *out) {
    *out = none;
    return hn_lex_accept_word(lex, "none") ? NULL : hn_lex_i64(lex, out);
}

static hn_status read_box(hn_lex *lex, uint32_t axis_count, hn_choice_box *out) {
    *out = (hn_choice_box){.variant = 0};
    HN_TRY(hn_lex_u32(lex, &out->variant));
    HN_TRY(hn_lex_expect_word(lex, "in"));
    for (uint32_t d = 0; d < axis_count; d++) {
        if (d) HN_TRY(hn_lex_expect_word(lex, "and"));
        HN_TRY(hn_lex_expect(lex, '['));
        HN_TRY(read_bound(lex, INT64_MIN, &out->lo[d]));
        HN_TRY(hn_lex_expect(lex, ','));
        HN_TRY(read_bound(lex, INT64_MAX, &out->hi[d]));
        HN_TRY(hn_lex_expect(lex, ']'));
    }
    return NULL;
}

static hn_status read_boxes(hn_lex *lex, hn_sym_choice *choice) {
    struct {
        hn_choice_box *items;
        uint32_t count, cap;
    } boxes = {0};
    HN_TRY(hn_lex_expect(lex, '['));
    if (hn_lex_accept(lex, ']')) return NULL;
    do {
        hn_choice_box box;
        if (boxes.count == HN_CHOICE_BOXES) return fail(lex, "the table has too many ranges");
        HN_TRY(read_box(lex, choice->head.axis_count, &box));
        HN_PUSH(lex->arena, &boxes, box);
    } while (hn_lex_accept(lex, ','));
    choice->boxes = boxes.items;
    choice->head.box_count = boxes.count;
    return hn_lex_expect(lex, ']');
}

static hn_status read_choice(hn_lex *lex, hn_sym *sym, hn_line *line) {
    expr_list axes = {0};
    hn_sym_choice *choice;
    if (!hn_lex_accept_word(lex, "choose")) return NULL;
    HN_NEW(lex->arena, choice, 1);
    HN_TRY(read_exprs(lex, sym, &axes));
    if (axes.count > HN_CHOICE_AXES) return fail(lex, "the table has too many sizes");
    for (uint32_t d = 0; d < axes.count; d++) choice->axes[d] = axes.items[d];
    choice->head.axis_count = axes.count;
    choice->head.variant_count = hn_line_variants(line);
    HN_TRY(hn_lex_expect_word(lex, "else"));
    HN_TRY(hn_lex_u32(lex, &choice->head.fallback));
    line->choices = choice;
    return read_boxes(lex, choice);
}

static hn_status read_variant(hn_lex *lex, hn_sym *sym, const hn_line *line, hn_wvariant *out) {
    hn_wlaunch *launch;
    if (line->kind == HN_LINE_KERNEL) HN_TRY(hn_wrapper_label_parse(lex, 'k', &out->kernel));
    HN_NEW(lex->arena, launch, 1);
    launch->arg_count = line->operand_count;
    out->launches = launch;
    return hn_launch_parse(lex, sym, launch);
}

hn_status hn_variants_parse(hn_lex *lex, hn_sym *sym, hn_line *line) {
    struct {
        hn_wvariant *items;
        uint32_t count, cap;
    } list = {0};
    while (hn_lex_accept_word(lex, "or")) {
        hn_wvariant variant = {0};
        if (list.count == HN_CHOICE_VARIANTS) return fail(lex, "the call has too many variants");
        HN_TRY(read_variant(lex, sym, line, &variant));
        HN_PUSH(lex->arena, &list, variant);
    }
    line->variants = list.items;
    line->variant_count = list.count;
    return read_choice(lex, sym, line);
}
