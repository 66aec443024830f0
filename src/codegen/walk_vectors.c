/* walk_vectors.c: forms of ranges: loops over lanes; values and stores that are vectors. */
#include "codegen/walk_internal.h"

static const hn_vector_words *words(const walk *w) { return w->l->vectors; }

/* ---- accesses ---- */

static const char *pick(bool masked, hn_vector_texts texts) {
    return masked ? texts.masked : texts.whole;
}

/* Whether lanes that do not count keep out of a memory. */
static bool masks(const walk *w, hn_fmem memory, hn_access how) {
    return walk_is_masked(w) &&
           !(how == HN_ACCESS_CONTIGUOUS && w->f->memories.items[memory].padded);
}

static bool is_as_wide_as_lanes(hn_dtype d) {
    return d == HN_DTYPE_F32 || d == HN_DTYPE_I32 || d == HN_DTYPE_F64 || d == HN_DTYPE_I64;
}

static void put_gather(walk *w, const hn_sop *op) {
    bool direct = is_as_wide_as_lanes(op->dtype);
    const char *text = pick(walk_is_masked(w),
                            direct ? words(w)->loads[HN_ACCESS_GATHER] : words(w)->narrow_gather);
    walk_put(w, text, op->dtype,
             OPERANDS(TEXT(walk_memory(op->buffer).text), INDEX_OF_LANE(op->index, "k"),
                      TEXT(w->l->elements[op->dtype])));
}

static void put_run(walk *w, const hn_sop *op, hn_expr index, hn_access how, hn_expr stride) {
    walk_put(w, pick(masks(w, op->buffer, how), words(w)->loads[how]), op->dtype,
             OPERANDS(TEXT(walk_memory(op->buffer).text), INDEX(index), INDEX(stride)));
}

/* "if (a == b && a' == b') v = whole vector; else v = gather;" where a and b are those of the first
 * lane, a' and b' of the last. */
static void put_clamped(walk *w, const hn_sop *op, const hn_form_clamp *c) {
    char last[12];
    name value = walk_name('v', w->value_count++);
    snprintf(last, sizeof last, "%u", w->f->lanes - 1);
    walk_put_line(w, "$0 $1;", HN_DTYPE_NONE,
                  OPERANDS(TEXT(w->l->types.of[walk_class(op->dtype)]), TEXT(value.text)));
    walk_begin_line(w);
    walk_put(w, "if ($0 == $1 && $2 == $3) ", HN_DTYPE_NONE,
             OPERANDS(INDEX(c->clamp), INDEX(c->inside), INDEX_OF_LANE(c->clamp, last),
                      INDEX_OF_LANE(c->inside, last)));
    hn_strbuf_printf(&w->out, "%s = ", value.text);
    put_run(w, op, c->plain, c->access, c->stride);
    hn_strbuf_printf(&w->out, "; else %s = ", value.text);
    put_gather(w, op);
    hn_strbuf_puts(&w->out, ";\n");
}

bool walk_put_clamped_load(walk *w, hn_fid s) {
    const hn_form_stmt *stmt = &w->f->stmts.items[s];
    if (!w->in_vector || walk_is_masked(w) || stmt->op.kind != HN_SOP_LOAD || !stmt->in_lanes.clamp)
        return false;
    w->values[s] = w->value_count;
    put_clamped(w, &stmt->op, stmt->in_lanes.clamp);
    return true;
}

static hn_access access_of(const walk *w, const hn_form_stmt *s) {
    return w->in_vector ? s->in_lanes.access : HN_ACCESS_UNIFORM;
}

void walk_put_vector_load(walk *w, hn_fid s) {
    const hn_form_stmt *stmt = &w->f->stmts.items[s];
    hn_access how = access_of(w, stmt);
    if (how == HN_ACCESS_GATHER) put_gather(w, &stmt->op);
    else put_run(w, &stmt->op, stmt->op.index, how, stmt->in_lanes.stride);
}

void walk_put_vector_index(walk *w, hn_fid s) {
    const hn_form_stmt *stmt = &w->f->stmts.items[s];
    hn_access how = access_of(w, stmt);
    const char *text = words(w)->indices[how].of[walk_class(stmt->op.dtype)];
    if (!text)
        walk_fail(w, HN_ERROR(HN_INTERNAL, "an index of %s has no %s",
                              hn_dtype_facts(stmt->op.dtype)->name, w->l->name));
    else
        walk_put(w, text, stmt->op.dtype,
                 OPERANDS(INDEX_OF_LANE(stmt->op.index, how == HN_ACCESS_GATHER ? "k" : NULL),
                          INDEX(stmt->in_lanes.stride)));
}

/* ---- checked indices ---- */

static void put_check_of_lanes(walk *w, const hn_sop *op, name value, bool is_narrow) {
    const hn_vector_words *v = words(w);
    bool wraps = op->imm.i & 1;
    hn_expr extent = hn_sym_symbol_extent(w->f->sym, op->index);
    int64_t lo, hi;
    hn_sym_range(w->f->sym, extent, &lo, &hi);
    hn_vector_texts texts = is_narrow ? (wraps ? v->narrow_checks_wrapped : v->narrow_checks)
                            : wraps   ? v->checks_wrapped
                                      : v->checks;
    const char *size = walk_index_text(w, extent);
    name index = walk_define(w, op->index, is_narrow ? SYMBOL_NARROW_ARRAY : SYMBOL_ARRAY);
    walk_put_line(w, pick(walk_is_masked(w), texts), HN_DTYPE_NONE,
                  OPERANDS(TEXT(index.text), TEXT(value.text), TEXT(size),
                           TEXT(lo <= 0 ? v->no_extent : "")));
    w->checks_narrow |= is_narrow;
}

void walk_put_vector_check(walk *w, hn_fid s) {
    const hn_form_stmt *stmt = &w->f->stmts.items[s];
    const hn_sop *op = &stmt->op;
    name value = walk_value(w, op->args[0]);
    if (w->in_vector && stmt->in_lanes.varies) {
        put_check_of_lanes(w, op, value, walk_op_of(w, op->args[0])->dtype == HN_DTYPE_I32);
        return;
    }
    const char *text = stmt->quiet     ? words(w)->check_quiet
                       : op->imm.i & 1 ? words(w)->check_wrapped
                                       : words(w)->check;
    const char *size = walk_index_text(w, hn_sym_symbol_extent(w->f->sym, op->index));
    name index = walk_define(w, op->index, SYMBOL_NUMBER);
    walk_put_line(w, text, HN_DTYPE_NONE, OPERANDS(TEXT(index.text), TEXT(value.text), TEXT(size)));
}

/* ---- stores ---- */

static void put_in_order(walk *w, const hn_form_stmt *s, hn_dtype dtype) {
    char lanes[12];
    const hn_vector_words *v = words(w);
    snprintf(lanes, sizeof lanes, "%u", w->in_vector ? w->f->lanes : 1);
    walk_begin_line(w);
    walk_put(w, v->in_order, dtype,
             OPERANDS(TEXT(walk_is_masked(w) ? "(int)n" : lanes), TEXT(w->l->elements[dtype]),
                      TEXT(walk_memory(s->memory).text), INDEX_OF_LANE(s->index, "k"),
                      TEXT(w->l->types.of[walk_class(dtype)])));
    const char *rest = walk_open(w, v->splat.of[walk_class(dtype)], dtype);
    hn_strbuf_printf(&w->out, "%s[k]%s", walk_value(w, s->value).text, rest);
    rest = walk_open(w, v->in_order_end, dtype);
    if (s->mode == HN_STORE_SET) hn_strbuf_puts(&w->out, "y");
    else
        walk_put_op(w, walk_store_op(s->mode), dtype, HN_DTYPE_NONE,
                    OPERANDS(TEXT("x"), TEXT("y")));
    hn_strbuf_printf(&w->out, "%s\n", rest);
}

void walk_put_vector_store(walk *w, const hn_form_stmt *s) {
    const hn_vector_words *v = words(w);
    hn_dtype dtype = w->f->memories.items[s->memory].dtype;
    if (s->in_order || s->mode != HN_STORE_SET) {
        put_in_order(w, s, dtype);
        return;
    }
    hn_access how = access_of(w, s);
    bool streams = s->streams && w->in_vector && !walk_is_masked(w);
    const char *text = !streams        ? pick(masks(w, s->memory, how), v->stores[how])
                       : s->is_aligned ? v->streams_aligned
                                       : v->streams;
    w->streams |= streams;
    walk_put_line(w, text, dtype,
                  OPERANDS(TEXT(walk_memory(s->memory).text),
                           INDEX_OF_LANE(s->index, how == HN_ACCESS_GATHER ? "k" : NULL),
                           INDEX(s->in_lanes.stride),
                           TEXT(walk_value(w, walk_before_cast(w, s->value, dtype)).text)));
}

/* ---- prefetches and transposes ---- */

void walk_put_prefetch(walk *w, const hn_form_stmt *s) {
    if (walk_is_masked(w) || (w->in_vector && w->copy % s->every)) return;
    walk_put_line(w, words(w)->prefetch[s->fetch], HN_DTYPE_NONE,
                  OPERANDS(TEXT(walk_memory(s->memory).text), INDEX(s->index)));
}

void walk_put_transpose(walk *w, const hn_form_stmt *s) {
    const hn_form_transpose *t = s->transpose;
    hn_dtype dtype = w->f->memories.items[s->memory].dtype;
    bool is_square = hn_sym_is_value(w->f->sym, t->rows, w->f->lanes) &&
                     hn_sym_is_value(w->f->sym, t->columns, w->f->lanes);
    walk_begin_line(w);
    walk_put(w, is_square ? words(w)->transpose_square : words(w)->transpose, dtype,
             OPERANDS(TEXT(walk_memory(t->from).text), INDEX(t->from_index), INDEX(t->stride),
                      INDEX(t->rows), INDEX(t->columns)));
    walk_put(w, ", $0 + $1, $2);\n", HN_DTYPE_NONE,
             OPERANDS(TEXT(walk_memory(s->memory).text), INDEX(s->index),
                      INDEX(hn_sym_int(w->f->sym, t->pitch))));
}

/* ---- LANES ---- */

/* How many vectors of each register a block works on. */
static void count_in(walk *w, hn_fid first, uint32_t unroll) {
    for (hn_fid at = first; at; at = w->f->stmts.items[at].next) {
        const hn_form_stmt *s = &w->f->stmts.items[at];
        uint32_t inner = s->kind == HN_FORM_LANES ? s->unroll : unroll;
        bool works = s->kind == HN_FORM_INIT || s->kind == HN_FORM_STEP || s->kind == HN_FORM_SET;
        if (works && w->vectors[s->reg] < unroll) w->vectors[s->reg] = unroll;
        count_in(w, s->body, inner);
        count_in(w, s->otherwise, inner);
    }
}

hn_status walk_count_vectors(walk *w) {
    HN_NEW(w->scratch, w->vectors, w->f->registers.count);
    for (hn_freg r = 1; r < w->f->registers.count; r++) w->vectors[r] = 1;
    count_in(w, w->f->body, 1);
    return NULL;
}

/* A loop, or an if, of the steps that begin while `condition` holds. */
static void put_steps(walk *w, const hn_form_stmt *s, const char *head, lane_step step) {
    step.lanes = s;
    walk_begin_line(w);
    hn_strbuf_puts(&w->out, head);
    hn_strbuf_puts(&w->out, " {\n");
    if (step.is_masked && !step.has_own_count) {
        w->depth++;
        walk_begin_line(w);
        hn_strbuf_printf(&w->out, "const %s n = %s(%u, hi - at);\n", walk_index_type(w),
                         w->l->index_words.min, w->f->lanes);
        w->depth--;
    }
    w->step = step;
    walk_put_inner(w, s->body);
    w->step = (lane_step){0};
    walk_put_line(w, "}", HN_DTYPE_NONE, NULL);
}

/* In whole steps of `vectors` vectors. */
static void put_whole_steps(walk *w, const hn_form_stmt *s, uint32_t vectors) {
    char head[64];
    uint32_t elems = vectors * w->f->lanes;
    snprintf(head, sizeof head, "for (; at + %u <= hi; at += %u)", elems, elems);
    put_steps(w, s, head, (lane_step){.vectors = vectors});
}

/* All lanes count, or not. */
static void put_one_step(walk *w, const hn_form_stmt *s) {
    char head[64];
    snprintf(head, sizeof head, "if (at + %u <= hi)", s->unroll * w->f->lanes);
    if (s->lanes.whole) put_steps(w, s, head, (lane_step){.vectors = s->unroll});
    put_steps(w, s, s->lanes.whole ? "else" : "if (at < hi)",
              (lane_step){.vectors = s->unroll, .is_masked = true, .has_own_count = true});
}

static void put_rest(walk *w, const hn_form_stmt *s) {
    char loop[64];
    snprintf(loop, sizeof loop, "for (; at < hi; at += %u)", w->f->lanes);
    if (s->lanes.rest == HN_FORM_REST_MASKED)
        put_steps(w, s, s->lanes.single ? "if (at < hi)" : loop,
                  (lane_step){.vectors = 1, .is_masked = true});
    if (s->lanes.rest == HN_FORM_REST_OVERLAPPING)
        put_steps(w, s, loop, (lane_step){.vectors = 1, .overlaps = true});
}

static void put_all_steps(walk *w, const hn_form_stmt *s) {
    if (s->lanes.rest == HN_FORM_REST_MASKED_STEP) {
        put_one_step(w, s);
        return;
    }
    if (s->lanes.whole) put_whole_steps(w, s, s->unroll);
    if (s->lanes.single) put_whole_steps(w, s, 1);
    put_rest(w, s);
}

void walk_put_lanes(walk *w, const hn_form_stmt *s) {
    uint32_t before = w->defined.count, numbers = w->index_count;
    const char *type = walk_index_type(w);
    walk_put_line(w, "{", HN_DTYPE_NONE, NULL);
    w->depth++;
    walk_put_line(w, "const $0 hi = $1;", HN_DTYPE_NONE, OPERANDS(TEXT(type), INDEX(s->end)));
    walk_put_line(w, "$0 at = $1;", HN_DTYPE_NONE, OPERANDS(TEXT(type), INDEX(s->begin)));
    walk_define(w, s->var, SYMBOL_LANES);
    put_all_steps(w, s);
    w->depth--;
    walk_put_line(w, "}", HN_DTYPE_NONE, NULL);
    w->defined.count = before;
    w->index_count = numbers;
}

/* ---- VECTOR ---- */

static bool needs_live(const walk *w, const hn_form_stmt *s) {
    for (hn_fid at = s->body; at && w->step.is_masked; at = w->f->stmts.items[at].next) {
        const hn_form_stmt *inner = &w->f->stmts.items[at];
        if (inner->kind == HN_FORM_STEP && w->f->registers.items[inner->reg].across) return true;
    }
    return false;
}

/* The number of its first lane; how many lanes count. */
static void put_head(walk *w, const hn_form_stmt *s) {
    const hn_index_words *index = &w->l->index_words;
    const name lanes = walk_number(w->f->lanes), before = walk_number(w->copy * w->f->lanes);
    const operand *operands =
        OPERANDS(TEXT(walk_index_type(w)), INDEX(w->step.lanes->var), TEXT(lanes.text),
                 TEXT(before.text), TEXT(index->min), TEXT(index->max));
    const char *head = w->step.overlaps ? "const $0 $1 = $4(at, hi - $2);"
                       : w->copy        ? "const $0 $1 = at + $3;"
                                        : "const $0 $1 = at;";
    walk_put_line(w, head, HN_DTYPE_NONE, operands);
    if (w->step.has_own_count)
        walk_put_line(w, "const $0 n = $5(0, $4($2, hi - at - $3));", HN_DTYPE_NONE, operands);
    if (needs_live(w, s)) walk_put_line(w, words(w)->live, HN_DTYPE_NONE, NULL);
}

void walk_put_vector(walk *w, const hn_form_stmt *s) {
    w->in_vector = true;
    for (w->copy = 0; w->copy < w->step.vectors; w->copy++) {
        walk_put_line(w, "{", HN_DTYPE_NONE, NULL);
        w->depth++;
        put_head(w, s);
        w->depth--;
        walk_put_inner(w, s->body);
        walk_put_line(w, "}", HN_DTYPE_NONE, NULL);
    }
    w->copy = 0;
    w->in_vector = false;
}
