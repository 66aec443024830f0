/* parse.c: reads the text form of wrapper IR, whose grammar is in docs/wrapper-ir.md, section 2.
 *
 * What the text says is not believed: hn_wrapper_verify comes after. */
#include "wrapper/names.h"

#include "ir/layout_text.h"
#include "ir/lex.h"
#include "ir/text.h"
#include "wrapper/launch_text.h"

enum { MAX_DEPTH = 64, MAX_LIST = 1 << 16 };

typedef struct expr_list {
    hn_expr *items;
    uint32_t count, cap;
} expr_list;

/* What a symbol statement says, applied after the guards: with it they would look proved and be
 * lost. */
typedef struct symbol_facts {
    hn_expr symbol;
    int64_t lo, hi, divisor;
} symbol_facts;

typedef struct parser {
    hn_lex lex;
    hn_arena *arena;
    hn_sym *sym;
    hn_wrapper *w;
    uint32_t depth;
    struct {
        symbol_facts *items;
        uint32_t count, cap;
    } facts;
} parser;

static hn_status fail(parser *ps, const char *what) {
    return hn_lex_fail(&ps->lex, ps->lex.p, what);
}
static hn_status read_expr(parser *ps, hn_expr *out) { return hn_lex_expr(&ps->lex, ps->sym, out); }
static bool accept_word(parser *ps, const char *word) { return hn_lex_accept_word(&ps->lex, word); }

static hn_status read_enclosed_expr(parser *ps, hn_expr *out) {
    HN_TRY(hn_lex_expect(&ps->lex, '('));
    HN_TRY(read_expr(ps, out));
    return hn_lex_expect(&ps->lex, ')');
}

static hn_status read_optional_expr(parser *ps, const char *word, hn_expr *out) {
    return accept_word(ps, word) ? read_enclosed_expr(ps, out) : NULL;
}

static hn_status read_exprs(parser *ps, expr_list *out) {
    *out = (expr_list){0};
    HN_TRY(hn_lex_expect(&ps->lex, '['));
    if (hn_lex_accept(&ps->lex, ']')) return NULL;
    do {
        hn_expr e;
        if (out->count == MAX_LIST) return fail(ps, "the list is too long");
        HN_TRY(read_expr(ps, &e));
        HN_PUSH(ps->arena, out, e);
    } while (hn_lex_accept(&ps->lex, ','));
    return hn_lex_expect(&ps->lex, ']');
}

/* A letter and a number: b12, k3. */
hn_status hn_wrapper_label_parse(hn_lex *lex, char letter, uint32_t *out) {
    hn_str word;
    uint64_t value = 0;
    HN_TRY(hn_lex_word(lex, "expected a label", &word));
    bool ok = word.len > 1 && word.len < 11 && word.ptr[0] == letter &&
              (word.ptr[1] != '0' || word.len == 2);
    for (size_t i = 1; ok && i < word.len; i++) {
        ok = hn_text_is_digit(word.ptr[i]);
        value = value * 10 + (uint64_t)(word.ptr[i] - '0');
    }
    if (!ok || value > UINT32_MAX)
        return hn_lex_fail(lex, word.ptr,
                           letter == 'b' ? "expected a buffer such as b1"
                                         : "expected a kernel such as k1");
    *out = (uint32_t)value;
    return NULL;
}

static hn_status read_label(parser *ps, char letter, uint32_t *out) {
    return hn_wrapper_label_parse(&ps->lex, letter, out);
}

static hn_status read_dtype(parser *ps, hn_dtype *out) {
    hn_str word;
    HN_TRY(hn_lex_word(&ps->lex, "expected a dtype", &word));
    *out = hn_dtype_parse(word);
    return *out ? NULL : hn_lex_fail(&ps->lex, word.ptr, "not a dtype");
}

static hn_status read_choice(parser *ps, const char *const *words, uint32_t count, const char *what,
                             uint32_t *out) {
    hn_str word;
    HN_TRY(hn_lex_word(&ps->lex, what, &word));
    for (*out = 0; *out < count; (*out)++)
        if (hn_str_eq(word, hn_str_of(words[*out]))) return NULL;
    return hn_lex_fail(&ps->lex, word.ptr, what);
}

static hn_status read_name(parser *ps, hn_str *out) {
    *out = HN_STR("");
    return accept_word(ps, "name") ? hn_lex_string(&ps->lex, out) : NULL;
}

/* ---- symbols and guards ---- */

static hn_status read_bound(parser *ps, int64_t missing, int64_t *out) {
    *out = missing;
    return accept_word(ps, "none") ? NULL : hn_lex_i64(&ps->lex, out);
}

static hn_status read_symbol(parser *ps) {
    hn_str name;
    int64_t hint;
    symbol_facts facts = {0};
    bool data = accept_word(ps, "data");
    if (!data) HN_TRY(hn_lex_expect_word(&ps->lex, "size"));
    HN_TRY(hn_lex_word(&ps->lex, "expected the name of a symbol", &name));
    if (!hn_text_is_name(name))
        return hn_lex_fail(&ps->lex, name.ptr, "not a fit name for a symbol");
    facts.symbol = hn_sym_symbol(ps->sym, name, data ? HN_SYMBOL_DATA : HN_SYMBOL_SIZE, HN_SYM_MIN,
                                 HN_SYM_MAX);
    HN_TRY(hn_lex_blame(&ps->lex, name.ptr, hn_sym_status(ps->sym)));
    if (hn_sym_kind(ps->sym, facts.symbol) != HN_EXPR_SYMBOL)
        return hn_lex_fail(&ps->lex, name.ptr, "not a fit name for a symbol");
    HN_TRY(hn_lex_expect_word(&ps->lex, "in"));
    HN_TRY(hn_lex_expect(&ps->lex, '['));
    HN_TRY(read_bound(ps, HN_SYM_MIN, &facts.lo));
    HN_TRY(hn_lex_expect(&ps->lex, ','));
    HN_TRY(read_bound(ps, HN_SYM_MAX, &facts.hi));
    HN_TRY(hn_lex_expect(&ps->lex, ']'));
    if (facts.lo > facts.hi) return fail(ps, "the range is empty");
    if (accept_word(ps, "divisor")) HN_TRY(hn_lex_i64(&ps->lex, &facts.divisor));
    if (facts.divisor < 0) return fail(ps, "a divisor is positive");
    HN_PUSH(ps->arena, &ps->facts, facts);
    if (!accept_word(ps, "hint")) return NULL;
    HN_TRY(hn_lex_i64(&ps->lex, &hint));
    hn_sym_set_hint(ps->sym, facts.symbol, hint);
    return NULL;
}

static bool accept_relation(parser *ps, hn_relation *out) {
    /* <= before < */
    static const hn_relation order[] = {HN_REL_EQ, HN_REL_NE, HN_REL_LE, HN_REL_LT};
    (void)hn_lex_here(&ps->lex);
    for (uint32_t i = 0; i < 4; i++) {
        size_t len = strlen(hn_wrelation_names[order[i]]);
        if ((size_t)(ps->lex.end - ps->lex.p) < len ||
            memcmp(ps->lex.p, hn_wrelation_names[order[i]], len) != 0)
            continue;
        ps->lex.p += len;
        *out = order[i];
        return true;
    }
    return false;
}

static hn_status read_guard(parser *ps) {
    hn_expr lhs, rhs;
    hn_relation relation;
    hn_str reason;
    HN_TRY(read_expr(ps, &lhs));
    if (!accept_relation(ps, &relation)) return fail(ps, "expected a relation");
    HN_TRY(read_expr(ps, &rhs));
    HN_TRY(hn_lex_string(&ps->lex, &reason));
    const char *text = hn_arena_strndup(ps->arena, reason.ptr, reason.len);
    if (!text) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a guard");
    hn_sym_require(ps->sym, relation, lhs, rhs, text);
    return hn_lex_blame(&ps->lex, ps->lex.p, hn_sym_status(ps->sym));
}

static hn_status apply_facts(parser *ps) {
    for (uint32_t i = 0; i < ps->facts.count; i++) {
        const symbol_facts *f = &ps->facts.items[i];
        int64_t lo, hi;
        hn_sym_range(ps->sym, f->symbol, &lo, &hi);
        if (f->lo > hi || f->hi < lo)
            return fail(ps, "the range of a symbol contradicts its guards");
        hn_sym_assume_range(ps->sym, f->symbol, f->lo, f->hi);
        if (f->divisor > 1) hn_sym_assume_divisor(ps->sym, f->symbol, f->divisor);
    }
    return hn_lex_blame(&ps->lex, ps->lex.p, hn_sym_status(ps->sym));
}

/* ---- tables ---- */

static hn_status read_buffer(parser *ps) {
    uint32_t label, kind, zeroed, made;
    int64_t offset = 0;
    hn_wbuffer b = {0};
    HN_TRY(read_label(ps, 'b', &label));
    if (label != ps->w->buffers.count) return fail(ps, "buffers are numbered from b1 in order");
    HN_TRY(hn_lex_expect(&ps->lex, ':'));
    HN_TRY(read_choice(ps, hn_wbuf_kind_names, HN_WBUF_KIND_COUNT, "expected the kind of a buffer",
                       &kind));
    b.kind = (hn_wbuf_kind)kind;
    HN_TRY(read_dtype(ps, &b.dtype));
    HN_TRY(hn_text_read_layout(&ps->lex, ps->sym, &b.rank, &b.sizes, &b.strides));
    HN_TRY(hn_text_read_device(&ps->lex, &b.device));
    if (accept_word(ps, "source")) HN_TRY(hn_lex_u32(&ps->lex, &b.source));
    if (accept_word(ps, "offset")) HN_TRY(hn_lex_i64(&ps->lex, &offset));
    if (offset < 0) return fail(ps, "an offset is not negative");
    b.byte_offset = (uint64_t)offset;
    HN_TRY(read_optional_expr(ps, "bytes", &b.bytes));
    if (accept_word(ps, "zeroed")) {
        HN_TRY(read_choice(ps, hn_wzeroed_names, HN_WZEROED_COUNT, "expected never, once or each",
                           &zeroed));
        b.zeroed = (hn_wzeroed)zeroed;
    }
    HN_TRY(read_name(ps, &b.name));
    return hn_wrapper_add_buffer(ps->w, b, &made);
}

static hn_status read_kernel(parser *ps) {
    uint32_t label, made;
    hn_wkernel_info k = {0};
    HN_TRY(read_label(ps, 'k', &label));
    if (label != ps->w->kernels.count) return fail(ps, "kernels are numbered from k1 in order");
    HN_TRY(hn_lex_expect(&ps->lex, ':'));
    HN_TRY(hn_lex_expect_word(&ps->lex, "object"));
    HN_TRY(hn_lex_u32(&ps->lex, &k.object));
    HN_TRY(read_name(ps, &k.name));
    return hn_wrapper_add_kernel(ps->w, k, &made);
}

/* ---- inputs and outputs ---- */

static hn_status read_float(parser *ps, double *out) {
    HN_TRY(hn_lex_expect(&ps->lex, '('));
    hn_str text = hn_lex_expr_text(&ps->lex);
    if (!hn_text_read_float(text, out)) return hn_lex_fail(&ps->lex, ps->lex.p, "expected a float");
    ps->lex.p = text.ptr + text.len;
    return hn_lex_expect(&ps->lex, ')');
}

/* False in `*out_found` when no scalar stands here. */
static hn_status read_scalar(parser *ps, hn_arg *out, bool *out_found) {
    *out_found = true;
    *out = hn_arg_none();
    if (accept_word(ps, "int")) {
        out->kind = HN_ARG_INT;
        return read_enclosed_expr(ps, &out->as.expr);
    }
    if (accept_word(ps, "float")) {
        out->kind = HN_ARG_FLOAT;
        return read_float(ps, &out->as.f);
    }
    if (accept_word(ps, "string")) {
        out->kind = HN_ARG_STRING;
        return hn_lex_string(&ps->lex, &out->as.s);
    }
    if (accept_word(ps, "true")) *out = hn_arg_bool(true);
    else if (accept_word(ps, "false")) *out = hn_arg_bool(false);
    else *out_found = accept_word(ps, "none");
    return NULL;
}

static hn_status read_tensor(parser *ps, hn_dtype *dtype, uint32_t *rank, const hn_expr **sizes,
                             const hn_expr **strides) {
    expr_list first, second;
    HN_TRY(read_dtype(ps, dtype));
    HN_TRY(read_exprs(ps, &first));
    HN_TRY(hn_lex_expect_word(&ps->lex, "strides"));
    HN_TRY(read_exprs(ps, &second));
    if (first.count != second.count || first.count > HN_MAX_RANK)
        return fail(ps, "sizes and strides do not fit together");
    *rank = first.count;
    *sizes = first.items;
    *strides = second.items;
    return NULL;
}

static hn_status read_input(parser *ps) {
    hn_winput in = {0};
    HN_TRY(hn_lex_string(&ps->lex, &in.name));
    in.is_donated = accept_word(ps, "donated");
    HN_TRY(hn_lex_expect(&ps->lex, ':'));
    HN_TRY(read_scalar(ps, &in.scalar, &in.is_scalar));
    if (!in.is_scalar) HN_TRY(read_tensor(ps, &in.dtype, &in.rank, &in.sizes, &in.strides));
    if (!in.is_scalar && accept_word(ps, "in")) HN_TRY(read_label(ps, 'b', &in.buffer));
    HN_PUSH(ps->arena, &ps->w->inputs, in);
    return NULL;
}

static hn_status read_output(parser *ps) {
    static const char *const kinds[] = {[HN_WOUTPUT_TENSOR] = "tensor",
                                        [HN_WOUTPUT_MUTATION] = "mutation",
                                        [HN_WOUTPUT_SCALAR] = "scalar"};
    uint32_t kind, target;
    bool found;
    hn_woutput o = {.target_input = -1};
    HN_TRY(read_choice(ps, kinds, 3, "expected the kind of an output", &kind));
    o.kind = (hn_woutput_kind)kind;
    HN_TRY(hn_lex_string(&ps->lex, &o.name));
    if (o.kind == HN_WOUTPUT_MUTATION && accept_word(ps, "target")) {
        HN_TRY(hn_lex_u32(&ps->lex, &target));
        if (target > INT32_MAX) return fail(ps, "no such input");
        o.target_input = (int32_t)target;
    }
    HN_TRY(hn_lex_expect(&ps->lex, ':'));
    if (o.kind == HN_WOUTPUT_SCALAR) {
        HN_TRY(read_scalar(ps, &o.scalar, &found));
        if (!found) return fail(ps, "expected a scalar");
    } else {
        HN_TRY(read_tensor(ps, &o.dtype, &o.rank, &o.sizes, &o.strides));
        HN_TRY(hn_lex_expect_word(&ps->lex, "in"));
        HN_TRY(read_label(ps, 'b', &o.buffer));
    }
    HN_PUSH(ps->arena, &ps->w->outputs, o);
    return NULL;
}

/* ---- lines ---- */

/* The first of them is the least. */
static hn_status read_over(parser *ps, hn_woperand *o) {
    HN_TRY(hn_lex_expect(&ps->lex, '['));
    do {
        uint32_t k;
        HN_TRY(hn_lex_u32(&ps->lex, &k));
        if (!o->over && k >= 64) o->over_first = k;
        if (k < o->over_first || k - o->over_first >= 64)
            return fail(ps, "operands that are written over lie too far apart");
        o->over |= (uint64_t)1 << (k - o->over_first);
    } while (hn_lex_accept(&ps->lex, ','));
    return hn_lex_expect(&ps->lex, ']');
}

static hn_status read_operands(parser *ps, hn_line *line) {
    struct {
        hn_woperand *items;
        uint32_t count, cap;
    } list = {0};
    HN_TRY(hn_lex_expect(&ps->lex, '('));
    while (!hn_lex_accept(&ps->lex, ')')) {
        hn_woperand o = {0};
        if (list.count) HN_TRY(hn_lex_expect(&ps->lex, ','));
        if (list.count == MAX_LIST) return fail(ps, "too many operands");
        if (!accept_word(ps, "none")) {
            o.written = accept_word(ps, "out");
            HN_TRY(read_label(ps, 'b', &o.buffer));
            HN_TRY(read_dtype(ps, &o.dtype));
            HN_TRY(read_optional_expr(ps, "at", &o.offset_elems));
            if (accept_word(ps, "over")) HN_TRY(read_over(ps, &o));
        }
        HN_PUSH(ps->arena, &list, o);
    }
    line->operands = list.items;
    line->operand_count = list.count;
    return NULL;
}

static void set_launch(hn_line *line, const hn_wlaunch *l) {
    line->order = l->order;
    line->arg_count = l->arg_count;
    line->form = l->form;
    line->params = l->params;
    line->param_count = l->param_count;
    line->extent = l->extent;
    line->grain = l->grain;
    line->threads = l->threads;
    line->shared_bytes = l->shared_bytes;
    line->scratch_bytes = l->scratch_bytes;
}

static hn_status read_call(parser *ps, hn_line *line) {
    hn_wlaunch launch = {0};
    HN_TRY(read_operands(ps, line));
    HN_TRY(hn_launch_parse(&ps->lex, ps->sym, &launch));
    set_launch(line, &launch);
    if (accept_word(ps, "in")) HN_TRY(read_label(ps, 'b', &line->workspace));
    if (line->kind == HN_LINE_DEFINE) {
        HN_TRY(hn_lex_expect_word(&ps->lex, "symbol"));
        HN_TRY(read_enclosed_expr(ps, &line->symbol));
    }
    if (line->kind != HN_LINE_KERNEL && line->kind != HN_LINE_EXTERN) return NULL;
    HN_TRY(hn_text_read_device(&ps->lex, &line->device));
    return hn_variants_parse(&ps->lex, ps->sym, line);
}

static hn_status read_pair(parser *ps, hn_line *line) {
    HN_TRY(read_label(ps, 'b', &line->buffer));
    HN_TRY(hn_lex_expect_word(&ps->lex, "from"));
    return read_label(ps, 'b', &line->from);
}

/* What the line says is kept with the buffer. */
static hn_status read_view(parser *ps, hn_line *line) {
    HN_TRY(read_label(ps, 'b', &line->buffer));
    HN_TRY(hn_lex_expect_word(&ps->lex, "of"));
    HN_TRY(read_label(ps, 'b', &line->from));
    if (line->buffer >= ps->w->buffers.count ||
        ps->w->buffers.items[line->buffer].kind != HN_WBUF_VIEW)
        return fail(ps, "the buffer is no view");
    hn_wbuffer *view = &ps->w->buffers.items[line->buffer];
    if (view->root) return fail(ps, "the view has a line already");
    view->root = line->from;
    return read_optional_expr(ps, "at", &view->offset_elems);
}

/* False in `*out_found` when no line starts here. */
static hn_status read_head(parser *ps, hn_line *line, bool *out_found) {
    *out_found = true;
    uint32_t kind;
    if (accept_word(ps, "comment")) {
        line->kind = HN_LINE_COMMENT;
    } else if (accept_word(ps, "allocate")) {
        line->kind = HN_LINE_ALLOCATE;
        return read_label(ps, 'b', &line->buffer);
    } else if (accept_word(ps, "free")) {
        line->kind = HN_LINE_FREE;
        return read_label(ps, 'b', &line->buffer);
    } else if (accept_word(ps, "zero")) {
        line->kind = HN_LINE_ZERO;
        return read_label(ps, 'b', &line->buffer);
    } else if (accept_word(ps, "reuse")) {
        line->kind = HN_LINE_REUSE;
        return read_pair(ps, line);
    } else if (accept_word(ps, "view")) {
        line->kind = HN_LINE_VIEW;
        return read_view(ps, line);
    } else if (accept_word(ps, "copy")) {
        line->kind = HN_LINE_COPY;
        return read_pair(ps, line);
    } else if (accept_word(ps, "wait")) {
        line->kind = HN_LINE_WAIT;
        return hn_text_read_device_name(&ps->lex, &line->device);
    } else if (accept_word(ps, "call")) {
        line->kind = HN_LINE_KERNEL;
        HN_TRY(read_label(ps, 'k', &line->kernel));
        return read_call(ps, line);
    } else if (accept_word(ps, "extern")) {
        line->kind = HN_LINE_EXTERN;
        HN_TRY(read_choice(ps, hn_wextern_names, HN_EXTERN_KIND_COUNT,
                           "expected an extern operation", &kind));
        line->extern_kind = (hn_extern_kind)kind;
        if (accept_word(ps, "or")) HN_TRY(read_label(ps, 'k', &line->kernel));
        return read_call(ps, line);
    } else if (accept_word(ps, "assert")) {
        line->kind = HN_LINE_ASSERT;
        return read_call(ps, line);
    } else if (accept_word(ps, "define")) {
        line->kind = HN_LINE_DEFINE;
        return read_call(ps, line);
    } else if (accept_word(ps, "loop")) {
        line->kind = HN_LINE_LOOP;
        return read_optional_expr(ps, "rounds", &line->rounds);
    } else if (accept_word(ps, "cond")) {
        line->kind = HN_LINE_COND;
        return read_call(ps, line);
    } else {
        *out_found = false;
    }
    return NULL;
}

static hn_status read_lines(parser *ps);

static hn_status read_body(parser *ps) {
    HN_TRY(hn_lex_expect(&ps->lex, '{'));
    HN_TRY(read_lines(ps));
    return hn_lex_expect(&ps->lex, '}');
}

/* What stands between the bodies: of a loop what its test gives. */
static hn_status read_middle(parser *ps, uint32_t at) {
    hn_line line = ps->w->lines.items[at];
    if (line.kind == HN_LINE_COND) return hn_lex_expect_word(&ps->lex, "else");
    HN_TRY(hn_lex_expect_word(&ps->lex, "while"));
    HN_TRY(read_operands(ps, &line));
    ps->w->lines.items[at].operands = line.operands;
    ps->w->lines.items[at].operand_count = line.operand_count;
    return NULL;
}

static hn_status read_bodies(parser *ps, uint32_t at) {
    if (++ps->depth > MAX_DEPTH) return fail(ps, "conditionals and loops are nested too deeply");
    if (!ps->w->lines.items[at].rounds) {
        HN_TRY(read_body(ps));
        ps->w->lines.items[at].then_count = ps->w->lines.count - at - 1;
        HN_TRY(read_middle(ps, at));
    }
    uint32_t middle = ps->w->lines.count;
    HN_TRY(read_body(ps));
    ps->w->lines.items[at].otherwise_count = ps->w->lines.count - middle;
    ps->depth--;
    return NULL;
}

static hn_status read_origins(parser *ps, hn_line *line) {
    struct {
        uint32_t *items;
        uint32_t count, cap;
    } list = {0};
    HN_TRY(hn_lex_expect(&ps->lex, '['));
    do {
        uint32_t origin;
        if (list.count == MAX_LIST) return fail(ps, "the list is too long");
        HN_TRY(hn_lex_u32(&ps->lex, &origin));
        HN_PUSH(ps->arena, &list, origin);
    } while (hn_lex_accept(&ps->lex, ','));
    line->origins = list.items;
    line->origin_count = list.count;
    return hn_lex_expect(&ps->lex, ']');
}

static hn_status read_lines(parser *ps) {
    for (;;) {
        hn_line line = {0};
        bool found;
        HN_TRY(read_head(ps, &line, &found));
        if (!found) return NULL;
        if (accept_word(ps, "origin")) HN_TRY(hn_lex_u32(&ps->lex, &line.origin));
        if (accept_word(ps, "origins")) HN_TRY(read_origins(ps, &line));
        if (accept_word(ps, "text")) HN_TRY(hn_lex_string(&ps->lex, &line.text));
        uint32_t at = ps->w->lines.count;
        HN_TRY(hn_wrapper_add_line(ps->w, line));
        if (hn_line_has_bodies(line.kind)) HN_TRY(read_bodies(ps, at));
    }
}

static hn_status read_wrapper(parser *ps) {
    HN_TRY(hn_lex_expect_word(&ps->lex, "wrapper"));
    HN_TRY(hn_lex_expect(&ps->lex, '{'));
    while (accept_word(ps, "symbol")) HN_TRY(read_symbol(ps));
    while (accept_word(ps, "guard")) HN_TRY(read_guard(ps));
    HN_TRY(apply_facts(ps));
    while (accept_word(ps, "buffer")) HN_TRY(read_buffer(ps));
    while (accept_word(ps, "kernel")) HN_TRY(read_kernel(ps));
    while (accept_word(ps, "input")) HN_TRY(read_input(ps));
    HN_TRY(read_lines(ps));
    while (accept_word(ps, "output")) HN_TRY(read_output(ps));
    HN_TRY(hn_lex_expect(&ps->lex, '}'));
    if (hn_lex_peek(&ps->lex)) return fail(ps, "expected the end of the text");
    return hn_sym_status(ps->sym);
}

hn_status hn_wrapper_parse(hn_arena *arena, hn_sym *sym, hn_str text, hn_wrapper **out) {
    parser ps = {
        .lex = {.arena = arena, .start = text.ptr, .p = text.ptr, .end = text.ptr + text.len},
        .arena = arena,
        .sym = sym};
    HN_TRY(hn_wrapper_create(arena, sym, NULL, &ps.w));
    HN_TRY(read_wrapper(&ps));
    *out = ps.w;
    return NULL;
}
