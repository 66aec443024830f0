/* verify.c: checks wrapper IR: every buffer known, every use after a definition, no use after free,
 * operands and counts right; and of a plan that no two live buffers share bytes. */
#include "wrapper/lifetime.h"

#include "base/checked.h"
#include "base/map.h"
#include "wrapper/names.h"
#include "wrapper/donate.h"
#include "wrapper/reuse.h"
#include "wrapper/slots.h"
#include "wrapper/variants.h"
#include "wrapper/verify_buffers.h"
#include "wrapper/verify_devices.h"
#include "wrapper/workspaces.h"

#define BAD(...) HN_ERROR(HN_INTERNAL, "wrapper: " __VA_ARGS__)

/* GIVEN: the memory went to another buffer; that only the next line still reads it is checked in
 * reuse.c. */
typedef enum buffer_state { UNSEEN, ALLOCATED, DEFINED, FREED, GIVEN } buffer_state;

typedef struct verifier {
    const hn_wrapper *w;
    hn_arena *arena;
    bool has_memory_lines;
    /* DATA symbols that some line defines -> where their state stands, behind the buffers' */
    hn_map data;
} verifier;

/* Whether every DATA symbol of `e` has its value. */
static hn_status check_expr(const verifier *v, const uint8_t *state, hn_expr e, uint32_t line) {
    hn_sym *sym = v->w->sym;
    hn_expr symbols[64];
    if (!hn_wrapper_is_data(sym, e)) return NULL;
    uint32_t count = hn_sym_symbols(sym, e, symbols, 64);
    if (count > 64) return BAD("line %u: an expression of %u symbols", line, count);
    for (uint32_t k = 0; k < count; k++) {
        if (hn_sym_symbol_kind(sym, symbols[k]) != HN_SYMBOL_DATA) continue;
        const uint64_t *at = hn_map_get(&v->data, symbols[k]);
        if (!at || state[*at] != DEFINED)
            return HN_ERROR(
                HN_UNSUPPORTED, "size '" HN_STR_FMT "' depends on data and is used %s (line %u)",
                HN_STR_ARG(hn_sym_symbol_name(sym, symbols[k])),
                at ? "before it is known" : "but nothing in the program defines it", line);
    }
    return NULL;
}

static hn_status check_exprs(const verifier *v, const uint8_t *state, const hn_expr *list,
                             uint32_t count, uint32_t line) {
    for (uint32_t k = 0; list && k < count; k++) HN_TRY(check_expr(v, state, list[k], line));
    return NULL;
}

static hn_status check_known(const hn_wrapper *w, hn_wbuf buffer, uint32_t line) {
    if (!buffer || buffer >= w->buffers.count)
        return BAD("line %u: unknown buffer %u", line, buffer);
    return NULL;
}

/* The buffer that has the memory; a view must have been made. */
static hn_status find_root(const verifier *v, const uint8_t *state, hn_wbuf b, uint32_t line,
                           hn_wbuf *out) {
    HN_TRY(check_known(v->w, b, line));
    *out = hn_wrapper_root(v->w, b);
    return *out != b && state[b] != DEFINED
               ? BAD("line %u: view %u is used before its line", line, b)
               : NULL;
}

static hn_status check_use(verifier *v, const uint8_t *state, hn_wbuf b, uint32_t line) {
    hn_wbuf buffer;
    HN_TRY(find_root(v, state, b, line, &buffer));
    if (state[buffer] == DEFINED || state[buffer] == GIVEN) return NULL;
    return BAD("line %u: buffer %u is used %s", line, buffer,
               state[buffer] == FREED ? "after it was freed" : "before it is written");
}

static hn_status check_define(verifier *v, uint8_t *state, hn_wbuf to, uint32_t line) {
    hn_wbuf buffer;
    HN_TRY(find_root(v, state, to, line, &buffer));
    hn_wbuf_kind kind = v->w->buffers.items[buffer].kind;
    if (kind == HN_WBUF_INPUT || kind == HN_WBUF_CONSTANT)
        return BAD("line %u: writes to buffer %u, which is read only", line, buffer);
    if (state[buffer] == FREED || state[buffer] == GIVEN)
        return BAD("line %u: buffer %u is written after it was freed", line, buffer);
    if (v->has_memory_lines && state[buffer] == UNSEEN)
        return BAD("line %u: buffer %u is written before it is allocated", line, buffer);
    const hn_wzeroed zeroed = v->w->buffers.items[buffer].zeroed;
    if (v->has_memory_lines && zeroed && state[buffer] != DEFINED)
        return BAD("line %u: workspace %u is used before it is zeroed", line, buffer);
    state[buffer] = zeroed == HN_WZEROED_EACH ? ALLOCATED : DEFINED;
    const hn_wbuffer *b = &v->w->buffers.items[buffer];
    HN_TRY(check_expr(v, state, b->bytes, line));
    HN_TRY(check_exprs(v, state, b->sizes, b->rank, line));
    return check_exprs(v, state, b->strides, b->rank, line);
}

/* As many operands and parameters as the kind has, those there that it needs, those marked that it
 * writes. */
static hn_status check_extern(const hn_wrapper *w, const hn_line *line, uint32_t i) {
#define FACTS(kind, name, operands, needed, written, params)                                       \
    [kind] = {name, operands, needed, written, params},
    static const struct {
        const char *name;
        uint32_t operands, needed, written, params;
    } kinds[HN_EXTERN_KIND_COUNT] = {HN_EXTERN_KINDS(FACTS)};
#undef FACTS
    if (line->extern_kind <= HN_EXTERN_NONE || line->extern_kind >= HN_EXTERN_KIND_COUNT)
        return BAD("line %u: unknown extern operation %d", i, (int)line->extern_kind);
    uint32_t operands = kinds[line->extern_kind].operands, params = kinds[line->extern_kind].params;
    if (line->operand_count != operands || line->param_count != params)
        return BAD("line %u: extern call with %u operands and %u parameters, must be %u and %u", i,
                   line->operand_count, line->param_count, operands, params);
    for (uint32_t k = 0; k < operands; k++) {
        if (k < kinds[line->extern_kind].needed && !line->operands[k].buffer)
            return BAD("line %u: %s needs operand %u", i, kinds[line->extern_kind].name, k);
        if (line->operands[k].written != (k < kinds[line->extern_kind].written))
            return BAD("line %u: %s %s operand %u", i, kinds[line->extern_kind].name,
                       line->operands[k].written ? "does not write" : "writes", k);
    }
    if (line->kernel >= w->kernels.count) return BAD("line %u: unknown kernel %u", i, line->kernel);
    return line->kernel && !line->extent ? BAD("line %u: kernel call without extent", i) : NULL;
}

/* An element that the program itself reads to decide what it does. */
static hn_status check_element(const hn_line *line, uint32_t i) {
    if (line->operand_count != 1)
        return BAD("line %u: one operand wanted, has %u", i, line->operand_count);
    const hn_woperand *o = &line->operands[0];
    if (o->written) return BAD("line %u: its operand is read, not written", i);
    if (line->kind == HN_LINE_DEFINE) {
        if (o->dtype < HN_DTYPE_COUNT && hn_dtype_is_float(o->dtype))
            return BAD("line %u: a symbol from a %s", i, hn_dtype_facts(o->dtype)->name);
    } else if (o->dtype != HN_DTYPE_BOOL) {
        return BAD("line %u: the condition must be bool", i);
    }
    return NULL;
}

static hn_status check_operand_shape(const hn_wrapper *w, const hn_line *line, uint32_t i) {
    if (line->kind == HN_LINE_KERNEL) {
        if (!line->kernel || line->kernel >= w->kernels.count)
            return BAD("line %u: unknown kernel %u", i, line->kernel);
        if (!line->extent) return BAD("line %u: kernel call without extent", i);
    }
    if (line->kind == HN_LINE_EXTERN) HN_TRY(check_extern(w, line, i));
    if (line->kind == HN_LINE_DEFINE &&
        (!line->symbol || hn_sym_kind(w->sym, line->symbol) != HN_EXPR_SYMBOL ||
         hn_sym_symbol_kind(w->sym, line->symbol) != HN_SYMBOL_DATA))
        return BAD("line %u: defines no data-dependent symbol", i);
    if (line->kind == HN_LINE_ASSERT || line->kind == HN_LINE_DEFINE ||
        line->kind == HN_LINE_COND || (line->kind == HN_LINE_LOOP && !line->rounds))
        HN_TRY(check_element(line, i));
    for (uint32_t k = 0; k < line->param_count; k++)
        if (!line->params[k]) return BAD("line %u: parameter %u is missing", i, k);
    return NULL;
}

static hn_status check_over(const hn_line *line, uint32_t i, uint32_t k) {
    const hn_woperand *o = &line->operands[k];
    for (uint32_t r = o->over_first; o->over && r < o->over_first + 64; r++) {
        if (!hn_woperand_is_over(o, r)) continue;
        if (line->kind != HN_LINE_KERNEL || !o->written || r >= line->operand_count ||
            line->operands[r].written || line->operands[r].dtype != o->dtype)
            return BAD("line %u: operand %u cannot be over operand %u", i, k, r);
    }
    return NULL;
}

/* A view begins at an element of the operand. */
static hn_status check_whole(const hn_wrapper *w, const hn_woperand *o, uint32_t i, uint32_t k) {
    const hn_wbuffer *b = &w->buffers.items[o->buffer];
    const uint32_t own = hn_dtype_facts(b->dtype)->size_bytes,
                   bytes = hn_dtype_facts(o->dtype)->size_bytes;
    if (b->kind != HN_WBUF_VIEW || !b->offset_elems || own == bytes) return NULL;
    const hn_expr begin = hn_sym_mul(w->sym, b->offset_elems, hn_sym_int(w->sym, own));
    return hn_sym_divisor(w->sym, begin) % bytes
               ? BAD("line %u: operand %u may begin inside an element of view %u", i, k, o->buffer)
               : NULL;
}

static hn_status check_launch(const verifier *v, const uint8_t *state, const hn_line *line,
                              uint32_t i, uint32_t variant) {
    const hn_wlaunch l = hn_line_launch(line, variant, 0);
    HN_TRY(check_exprs(v, state, l.params, l.param_count, i));
    HN_TRY(check_expr(v, state, l.extent, i));
    HN_TRY(check_expr(v, state, l.scratch_bytes, i));
    if (variant || !line->choices) return NULL;
    return check_exprs(v, state, line->choices->axes, line->choices->head.axis_count, i);
}

/* What one variant writes and another one does not has no content behind the line. A workspace that
 * is left alone is as it was. */
static void forget_partial(const verifier *v, uint8_t *state, const hn_line *line) {
    for (uint32_t k = 0; k < line->operand_count; k++) {
        const hn_woperand *o = &line->operands[k];
        const hn_wbuf b = hn_wrapper_root(v->w, o->buffer);
        if (!o->written || v->w->buffers.items[b].kind == HN_WBUF_WORKSPACE) continue;
        bool always = false; /* another operand may be the same buffer */
        for (uint32_t j = 0; j < line->operand_count && !always; j++)
            always = line->operands[j].written && line->operands[j].buffer == o->buffer &&
                     hn_line_always_takes(v->w, line, j);
        if (!always) state[b] = v->has_memory_lines ? ALLOCATED : UNSEEN;
    }
}

/* Reads first, then writes: a line's operands may be updated in place only when they were defined
 * before. */
static hn_status check_operands(verifier *v, uint8_t *state, const hn_line *line, uint32_t i) {
    HN_TRY(check_operand_shape(v->w, line, i));
    for (uint32_t k = 0; k < line->operand_count; k++) {
        const hn_woperand *o = &line->operands[k];
        if (!o->buffer && line->kind == HN_LINE_EXTERN) continue;
        HN_TRY(check_known(v->w, o->buffer, i));
        if (o->dtype == HN_DTYPE_NONE || o->dtype >= HN_DTYPE_COUNT)
            return BAD("line %u: operand %u has no dtype", i, k);
        HN_TRY(check_over(line, i, k));
        HN_TRY(check_expr(v, state, o->offset_elems, i));
        HN_TRY(check_whole(v->w, o, i, k));
        if (!o->written) HN_TRY(check_use(v, state, o->buffer, i));
    }
    for (uint32_t x = 0; x < hn_line_variants(line); x++)
        HN_TRY(check_launch(v, state, line, i, x));
    for (uint32_t k = 0; k < line->operand_count; k++)
        if (line->operands[k].written) HN_TRY(check_define(v, state, line->operands[k].buffer, i));
    if (line->kind == HN_LINE_KERNEL && line->variant_count) forget_partial(v, state, line);
    return line->workspace ? check_define(v, state, line->workspace, i) : NULL;
}

static bool is_held(uint8_t state) { return state == ALLOCATED || state == DEFINED; }

/* Its sizes are known when it is made, and so is the memory that it looks at. */
static hn_status check_view(verifier *v, uint8_t *state, const hn_line *line, uint32_t i) {
    HN_TRY(check_known(v->w, line->buffer, i));
    const hn_wbuffer *b = &v->w->buffers.items[line->buffer];
    if (b->kind != HN_WBUF_VIEW || b->root != line->from)
        return BAD("line %u: buffer %u is no view of buffer %u", i, line->buffer, line->from);
    if (state[line->buffer] != UNSEEN)
        return BAD("line %u: view %u is made twice", i, line->buffer);
    if (v->has_memory_lines ? state[b->root] == UNSEEN : false)
        return BAD("line %u: buffer %u is looked at before it is allocated", i, b->root);
    if (state[b->root] >= FREED)
        return BAD("line %u: buffer %u is looked at after it was freed", i, b->root);
    HN_TRY(check_expr(v, state, b->offset_elems, i));
    HN_TRY(check_exprs(v, state, b->sizes, b->rank, i));
    HN_TRY(check_exprs(v, state, b->strides, b->rank, i));
    state[line->buffer] = DEFINED;
    return NULL;
}

static hn_status check_memory_line(verifier *v, uint8_t *state, const hn_line *line, uint32_t i) {
    HN_TRY(check_known(v->w, line->buffer, i));
    if (v->w->buffers.items[line->buffer].kind == HN_WBUF_VIEW)
        return BAD("line %u: view %u has no memory of its own", i, line->buffer);
    const hn_wbuf_kind kind = v->w->buffers.items[line->buffer].kind;
    if (line->kind == HN_LINE_FREE && !hn_wbuf_is_inner(kind))
        return BAD("line %u: buffer %u is no temporary and cannot be freed", i, line->buffer);
    if (line->kind == HN_LINE_ALLOCATE) {
        if (state[line->buffer] != UNSEEN)
            return BAD("line %u: buffer %u is allocated twice", i, line->buffer);
        state[line->buffer] = ALLOCATED;
    } else if (line->kind == HN_LINE_FREE) {
        if (state[line->buffer] != ALLOCATED && state[line->buffer] != DEFINED)
            return BAD("line %u: buffer %u is not there to be freed", i, line->buffer);
        state[line->buffer] = FREED;
    } else {
        HN_TRY(check_use(v, state, line->from, i));
        if (state[line->buffer] != UNSEEN)
            return BAD("line %u: buffer %u already has memory", i, line->buffer);
        state[line->from] = GIVEN;
        state[line->buffer] = ALLOCATED;
    }
    return NULL;
}

/* From here on the content of a workspace is known. */
static hn_status check_zero(const verifier *v, uint8_t *state, const hn_line *line, uint32_t i) {
    HN_TRY(check_known(v->w, line->buffer, i));
    if (!v->w->buffers.items[line->buffer].zeroed)
        return BAD("line %u: buffer %u is no workspace that is zeroed", i, line->buffer);
    if (!is_held(state[line->buffer]))
        return BAD("line %u: workspace %u is zeroed and has no memory", i, line->buffer);
    state[line->buffer] = DEFINED;
    return NULL;
}

static hn_status check_block(verifier *v, uint8_t *state, uint32_t first, uint32_t end,
                             uint32_t depth);

static hn_status check_symbol(verifier *v, uint8_t *state, const hn_line *line, uint32_t i) {
    HN_TRY(check_operands(v, state, line, i));
    state[*hn_map_get(&v->data, line->symbol)] = DEFINED;
    return NULL;
}

/* What has memory in front of a conditional has it behind both bodies or behind none; what gets it
 * in a body has none behind it. Without memory lines: defined only when both bodies define it. */
static hn_status join_buffer(const verifier *v, uint8_t before, uint8_t *state, uint8_t other,
                             hn_wbuf b, uint32_t i) {
    const bool is_inner = hn_wbuf_is_inner(v->w->buffers.items[b].kind);
    if (b && v->has_memory_lines && is_inner) {
        if (is_held(before) && is_held(*state) != is_held(other))
            return BAD("line %u: buffer %u is freed in one body of the conditional only", i, b);
        if (before == UNSEEN && (is_held(*state) || is_held(other)))
            return BAD("line %u: buffer %u is allocated in a body and not freed in it", i, b);
    }
    if (*state >= FREED || other >= FREED) *state = FREED;
    else if (other < *state) *state = other;
    return NULL;
}

/* After a conditional a buffer is in the lesser state of both bodies. What a body has defined of
 * symbols ends with it. */
static hn_status check_cond(verifier *v, uint8_t *state, const hn_line *line, uint32_t i,
                            uint32_t end, uint32_t depth) {
    uint32_t count = v->w->buffers.count, middle = i + 1 + line->then_count;
    uint32_t all = count + v->data.count;
    uint8_t *other, *before;
    if (depth >= 64 || (uint64_t)middle + line->otherwise_count > end)
        return BAD("line %u: bodies of the conditional do not nest", i);
    HN_NEW(v->arena, other, all);
    HN_NEW(v->arena, before, all);
    memcpy(other, state, all);
    memcpy(before, state, all);
    HN_TRY(check_block(v, state, i + 1, middle, depth + 1));
    HN_TRY(check_block(v, other, middle, middle + line->otherwise_count, depth + 1));
    for (uint32_t b = 0; b < count; b++)
        HN_TRY(join_buffer(v, before[b], &state[b], other[b], b, i));
    memcpy(state + count, before + count, v->data.count);
    return NULL;
}

/* A copy is of whole buffers. */
static hn_status check_copy(const hn_wrapper *w, const hn_line *line, uint32_t i) {
    HN_TRY(check_known(w, line->buffer, i));
    HN_TRY(check_known(w, line->from, i));
    if (hn_wrapper_root(w, line->buffer) != line->buffer ||
        hn_wrapper_root(w, line->from) != line->from)
        return BAD("line %u copies a view", i);
    return line->buffer == line->from ? BAD("line %u copies buffer %u to itself", i, line->from)
                                      : NULL;
}

/* Nodes in the order of the model, each once. */
static hn_status check_origins(const hn_line *line, uint32_t i) {
    if (line->origin_count && line->kind != HN_LINE_COMMENT && line->kind != HN_LINE_KERNEL &&
        line->kind != HN_LINE_EXTERN)
        return BAD("line %u lists nodes, and is no call and no comment", i);
    if (line->kind == HN_LINE_COMMENT && !line->origin_count && !line->text.len)
        return BAD("line %u: a comment that says nothing", i);
    for (uint32_t k = 0, before = 0; k < line->origin_count; before = line->origins[k++])
        if (line->origins[k] <= before)
            return BAD("line %u: its nodes are not in ascending order", i);
    return NULL;
}

/* A round begins in the state in which the loop was met: what it allocates it frees again, what
 * came from outside it leaves there. */
static hn_status check_round_end(const verifier *v, const uint8_t *before, const uint8_t *after,
                                 uint32_t i) {
    for (uint32_t b = 1; b < v->w->buffers.count; b++) {
        if (before[b] != UNSEEN && before[b] < FREED && after[b] >= FREED)
            return BAD("line %u: the loop gives the memory of buffer %u away in its first round", i,
                       b);
        const bool is_inner = hn_wbuf_is_inner(v->w->buffers.items[b].kind);
        if (v->has_memory_lines && is_inner && before[b] == UNSEEN && is_held(after[b]))
            return BAD("line %u: the loop allocates buffer %u in each round", i, b);
    }
    return NULL;
}

/* A symbol that lines [first, end) of a loop define is another number in each round, and no number
 * in front of the loop. */
static hn_status check_new_symbols(const verifier *v, const uint8_t *before, uint32_t first,
                                   uint32_t end) {
    for (uint32_t k = first; k < end; k++) {
        const hn_line *line = &v->w->lines.items[k];
        if (line->kind != HN_LINE_DEFINE) continue;
        const uint64_t *at = hn_map_get(&v->data, line->symbol);
        if (at && before[*at] == DEFINED)
            return BAD("line %u: a loop defines a symbol that was defined before it", k);
    }
    return NULL;
}

/* The test of a loop runs first; it may be all that runs. Behind the loop nothing more is there
 * than before. The symbols that the test or the body defines end with it. */
static hn_status check_loop(verifier *v, const uint8_t *before, const hn_line *line, uint32_t i,
                            uint32_t end, uint32_t depth) {
    const uint32_t all = v->w->buffers.count + v->data.count;
    const uint32_t middle = i + 1 + line->then_count;
    uint8_t *state;
    if (depth >= 64 || (uint64_t)middle + line->otherwise_count > end)
        return BAD("line %u: the bodies of the loop do not nest", i);
    if (line->rounds ? line->then_count || line->operand_count : !line->operand_count)
        return BAD("line %u: a loop has either rounds or a test", i);
    HN_TRY(check_new_symbols(v, before, i + 1, middle + line->otherwise_count));
    HN_TRY(check_expr(v, before, line->rounds, i));
    HN_NEW(v->arena, state, all);
    memcpy(state, before, all);
    HN_TRY(check_block(v, state, i + 1, middle, depth + 1));
    HN_TRY(check_operands(v, state, line, i));
    memcpy(state + v->w->buffers.count, before + v->w->buffers.count, v->data.count);
    HN_TRY(check_block(v, state, middle, middle + line->otherwise_count, depth + 1));
    return check_round_end(v, before, state, i);
}

static hn_status check_block(verifier *v, uint8_t *state, uint32_t first, uint32_t end,
                             uint32_t depth) {
    for (uint32_t i = first; i < end; i++) {
        const hn_line *line = &v->w->lines.items[i];
        HN_TRY(check_origins(line, i));
        switch (line->kind) {
        case HN_LINE_COMMENT: break;
        case HN_LINE_ALLOCATE:
        case HN_LINE_REUSE:
        case HN_LINE_FREE: HN_TRY(check_memory_line(v, state, line, i)); break;
        case HN_LINE_VIEW: HN_TRY(check_view(v, state, line, i)); break;
        case HN_LINE_COPY:
            HN_TRY(check_copy(v->w, line, i));
            HN_TRY(check_use(v, state, line->from, i));
            HN_TRY(check_define(v, state, line->buffer, i));
            break;
        case HN_LINE_ZERO: HN_TRY(check_zero(v, state, line, i)); break;
        case HN_LINE_WAIT: break;
        case HN_LINE_KERNEL:
        case HN_LINE_EXTERN:
        case HN_LINE_ASSERT: HN_TRY(check_operands(v, state, line, i)); break;
        case HN_LINE_DEFINE: HN_TRY(check_symbol(v, state, line, i)); break;
        case HN_LINE_COND:
            HN_TRY(check_operands(v, state, line, i));
            HN_TRY(check_cond(v, state, line, i, end, depth));
            i += line->then_count + line->otherwise_count;
            break;
        case HN_LINE_LOOP:
            HN_TRY(check_loop(v, state, line, i, end, depth));
            i += line->then_count + line->otherwise_count;
            break;
        default: return BAD("line %u is of unknown kind %d", i, (int)line->kind);
        }
    }
    return NULL;
}

/* A mutation of an input keeps its dtype and rank. */
static hn_status check_target(const hn_wrapper *w, const hn_woutput *o, uint32_t i) {
    const hn_winput *in =
        (uint32_t)o->target_input < w->inputs.count ? &w->inputs.items[o->target_input] : NULL;
    if (!in || in->is_scalar)
        return BAD("output %u changes input %d, which is no tensor input", i, o->target_input);
    if (in->dtype != o->dtype || in->rank != o->rank)
        return BAD("output %u changes dtype or rank of input %d", i, o->target_input);
    return NULL;
}

/* What is returned is there, and lies in the buffer as far as that can be said. */
static hn_status check_output_buffer(verifier *v, const uint8_t *state, const hn_woutput *o,
                                     uint32_t i) {
    const hn_wrapper *w = v->w;
    const hn_wbuf root = hn_wrapper_root(w, o->buffer);
    const bool is_known = root && root < w->buffers.count;
    if (!is_known || state[root] != DEFINED || state[o->buffer] != DEFINED)
        return BAD("output %u is in buffer %u, which is %s", i, o->buffer,
                   is_known && state[root] >= FREED ? "freed" : "never written");
    hn_wbuffer tensor = {.kind = HN_WBUF_VIEW,
                         .dtype = o->dtype,
                         .root = root,
                         .rank = o->rank,
                         .sizes = o->sizes,
                         .strides = o->strides,
                         .offset_elems = hn_woutput_offset(w, o)};
    return hn_status_annotate(hn_wrapper_shape_verify(w, &tensor, o->buffer), "output %u", i);
}

static hn_status check_outputs(verifier *v, const uint8_t *state) {
    const hn_wrapper *w = v->w;
    for (uint32_t i = 0; i < w->outputs.count; i++) {
        const hn_woutput *o = &w->outputs.items[i];
        if ((uint32_t)o->kind > HN_WOUTPUT_SCALAR)
            return BAD("output %u is of unknown kind %d", i, (int)o->kind);
        if (o->kind == HN_WOUTPUT_SCALAR) {
            if (o->scalar.kind == HN_ARG_INT)
                HN_TRY(check_expr(v, state, o->scalar.as.expr, w->lines.count));
            continue;
        }
        HN_TRY(check_exprs(v, state, o->sizes, o->rank, w->lines.count));
        HN_TRY(check_exprs(v, state, o->strides, o->rank, w->lines.count));
        if (o->rank > HN_MAX_RANK) return BAD("output %u has rank %u", i, o->rank);
        HN_TRY(check_output_buffer(v, state, o, i));
        if (o->kind == HN_WOUTPUT_MUTATION && o->target_input >= 0) HN_TRY(check_target(w, o, i));
    }
    return NULL;
}

/* All but what lives to the end: outputs, and memory of the host that a device still copies. */
static hn_status check_freed(const verifier *v, const uint8_t *state) {
    hn_wlives lives;
    HN_TRY(hn_wrapper_lives(v->w, v->arena, &lives));
    for (hn_wbuf b = 1; b < v->w->buffers.count; b++)
        if (hn_wbuf_is_inner(v->w->buffers.items[b].kind) && is_held(state[b]) &&
            lives.buffers[b].used && lives.buffers[b].last != v->w->lines.count)
            return BAD("buffer %u is never freed", b);
    return NULL;
}

static hn_status check_donated(const hn_wrapper *w) {
    for (uint32_t i = 0; i < w->inputs.count; i++) {
        const char *why = w->inputs.items[i].is_donated ? hn_wrapper_donate_objection(w, i) : NULL;
        if (why) return BAD("input %u cannot be donated: %s", i, why);
    }
    return NULL;
}

static hn_status run(verifier *v) {
    const hn_wrapper *w = v->w;
    uint8_t *state;
    HN_TRY(hn_wrapper_buffers_verify(w));
    HN_TRY(hn_wrapper_variants_verify(w));
    HN_TRY(check_donated(w));
    hn_map_init(&v->data, v->arena);
    for (uint32_t i = 0; i < w->lines.count; i++) {
        const hn_line *line = &w->lines.items[i];
        if (line->kind == HN_LINE_DEFINE && line->symbol && !hn_map_get(&v->data, line->symbol))
            HN_TRY(hn_map_put(&v->data, line->symbol, w->buffers.count + v->data.count));
    }
    HN_NEW(v->arena, state, w->buffers.count + v->data.count);
    for (uint32_t b = 1; b < w->buffers.count; b++)
        if (w->buffers.items[b].kind == HN_WBUF_INPUT ||
            w->buffers.items[b].kind == HN_WBUF_CONSTANT)
            state[b] = DEFINED;
    for (uint32_t i = 0; i < w->lines.count; i++)
        v->has_memory_lines |= w->lines.items[i].kind == HN_LINE_ALLOCATE;
    HN_TRY(check_block(v, state, 0, w->lines.count, 0));
    HN_TRY(check_outputs(v, state));
    HN_TRY(hn_wrapper_workspaces_verify(w, v->arena));
    HN_TRY(hn_wrapper_devices_verify(w, v->arena));
    HN_TRY(hn_wrapper_reuse_verify(w, v->arena));
    return v->has_memory_lines ? check_freed(v, state) : NULL;
}

hn_status hn_wrapper_verify(const hn_wrapper *w) {
    hn_arena arena;
    hn_arena_init(&arena);
    verifier v = {.w = w, .arena = &arena};
    hn_status status = run(&v);
    hn_arena_deinit(&arena);
    return status;
}

/* ---- plans ---- */

typedef struct placed {
    hn_wbuf buffer;
    uint32_t space;
    int64_t at, end;
    const hn_wlife *life;
} placed;

/* The bytes of each workspace, then of each pool, and where they begin in the list below. */
static hn_status eval_spaces(const hn_wrapper *w, const hn_memory_plan *plan,
                             const hn_expr *symbols, const int64_t *values, uint32_t count,
                             int64_t *out) {
    for (uint32_t d = 0; d < HN_DEVICE_KIND_COUNT; d++)
        if (!hn_sym_eval(w->sym, plan->workspaces[d], symbols, values, count, &out[d]))
            return BAD("workspace size has no value");
    for (uint32_t k = 0; k < plan->pool_list.count; k++)
        if (!hn_sym_eval(w->sym, plan->pool_list.items[k].bytes, symbols, values, count,
                         &out[HN_DEVICE_KIND_COUNT + k]))
            return BAD("the size of pool %u has no value", k);
    return NULL;
}

static uint32_t space_of(const hn_wrapper *w, const hn_memory_plan *plan, hn_wbuf b) {
    return plan->pools[b] ? HN_DEVICE_KIND_COUNT + plan->pools[b] - 1
                          : (uint32_t)w->buffers.items[b].device;
}

/* Donated inputs are at the beginning of their pool until their last use. */
static hn_status place_inputs(const hn_wrapper *w, const hn_memory_plan *plan,
                              const hn_wlives *lives, const int64_t *spaces, hn_arena *arena,
                              placed *items, uint32_t *count) {
    for (uint32_t k = 0; k < plan->pool_list.count; k++) {
        const hn_wbuf b = plan->pool_list.items[k].input;
        hn_wlife *life;
        if (!b) continue;
        if (!hn_wrapper_is_donated(w, b)) return BAD("input buffer %u is not donated", b);
        if (!lives->buffers[b].used) continue;
        HN_NEW(arena, life, 1);
        *life = (hn_wlife){.used = true, .end = hn_wrapper_input_end(lives, b)};
        items[(*count)++] = (placed){.buffer = b,
                                     .space = HN_DEVICE_KIND_COUNT + k,
                                     .end = spaces[HN_DEVICE_KIND_COUNT + k],
                                     .life = life};
    }
    return NULL;
}

/* Whether the plan is to say where the buffer lies. */
static bool is_placed(const hn_wrapper *w, const hn_memory_plan *plan, hn_wbuf b) {
    const hn_wbuf_kind kind = w->buffers.items[b].kind;
    return (hn_wbuf_is_inner(kind) && !plan->slots[b]) ||
           (kind == HN_WBUF_OUTPUT && plan->pools[b]);
}

/* All values for one assignment of the symbols. */
static hn_status place_all(const hn_wrapper *w, const hn_memory_plan *plan, const hn_wlives *lives,
                           const hn_expr *symbols, const int64_t *values, uint32_t count,
                           hn_arena *arena, placed **out, uint32_t *out_count) {
    int64_t *spaces, bytes;
    placed *items;
    HN_NEW(arena, items, (size_t)w->buffers.count + plan->pool_list.count);
    HN_NEW(arena, spaces, (size_t)HN_DEVICE_KIND_COUNT + plan->pool_list.count);
    *out_count = 0;
    HN_TRY(eval_spaces(w, plan, symbols, values, count, spaces));
    HN_TRY(place_inputs(w, plan, lives, spaces, arena, items, out_count));
    for (uint32_t b = 1; b < w->buffers.count; b++) {
        placed p = {.buffer = b, .space = space_of(w, plan, b), .life = &lives->buffers[b]};
        if (!is_placed(w, plan, b) || !p.life->used) continue;
        if (!plan->offsets[b]) return BAD("temporary buffer %u has no place", b);
        if (plan->pools[b] &&
            plan->pool_list.items[plan->pools[b] - 1].device != w->buffers.items[b].device)
            return BAD("buffer %u lies in a pool of another device", b);
        if (!hn_sym_eval(w->sym, plan->offsets[b], symbols, values, count, &p.at) ||
            !hn_sym_eval(w->sym, w->buffers.items[b].bytes, symbols, values, count, &bytes) ||
            !hn_add_i64(p.at, bytes, &p.end))
            return BAD("the place of buffer %u has no value", b);
        const int64_t workspace = spaces[p.space];
        if (p.at % 64 || p.at < 0 || p.end > workspace)
            return BAD("buffer %u lies at %lld..%lld in a workspace of %lld", b, (long long)p.at,
                       (long long)p.end, (long long)workspace);
        items[(*out_count)++] = p;
    }
    *out = items;
    return NULL;
}

static bool joined_by_reuse(const hn_wrapper *w, hn_wbuf a, hn_wbuf b) {
    for (uint32_t i = 0; i < w->lines.count; i++) {
        const hn_line *line = &w->lines.items[i];
        if (line->kind == HN_LINE_REUSE &&
            ((line->buffer == a && line->from == b) || (line->buffer == b && line->from == a)))
            return true;
    }
    return false;
}

static hn_status check_apart(const hn_wrapper *w, const placed *items, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t j = i + 1; j < count; j++) {
            const placed *a = &items[i], *b = &items[j];
            if (a->at >= b->end || b->at >= a->end || a->life->first > b->life->end ||
                b->life->first > a->life->end || a->space != b->space)
                continue;
            if (a->at != b->at || !joined_by_reuse(w, a->buffer, b->buffer))
                return BAD("buffers %u and %u are alive together and share bytes", a->buffer,
                           b->buffer);
        }
    }
    return NULL;
}

static hn_status check_at(const hn_wrapper *w, const hn_memory_plan *plan, const hn_wlives *lives,
                          const hn_expr *symbols, const int64_t *values, uint32_t count,
                          hn_arena *arena) {
    placed *items = NULL;
    uint32_t item_count = 0;
    HN_TRY(place_all(w, plan, lives, symbols, values, count, arena, &items, &item_count));
    return check_apart(w, items, item_count);
}

enum { PLAN_TRIALS = 4 };

static hn_status check_plan(const hn_wrapper *w, const hn_memory_plan *plan, hn_arena *arena) {
    hn_wlives lives;
    hn_expr *symbols;
    int64_t *values;
    uint32_t count;
    HN_TRY(hn_wrapper_lives(w, arena, &lives));
    HN_TRY(hn_wrapper_reuse_verify(w, arena)); /* what is joined below may be */
    HN_TRY(hn_wrapper_symbols(w, arena, &symbols, &count));
    HN_NEW(arena, values, count);
    /* The hints, then small and large values that the ranges allow: a plan must hold for every
     * size. */
    for (uint32_t trial = 0; trial < (count ? PLAN_TRIALS : 1); trial++) {
        static const int64_t samples[PLAN_TRIALS] = {0, 1, 3, 1000};
        for (uint32_t k = 0; k < count; k++) {
            int64_t lo, hi, value = trial ? samples[trial] + k : hn_sym_hint(w->sym, symbols[k], 8);
            hn_sym_range(w->sym, symbols[k], &lo, &hi);
            values[k] = value < lo ? lo : value > hi ? hi : value;
        }
        HN_TRY(check_at(w, plan, &lives, symbols, values, count, arena));
    }
    return NULL;
}

hn_status hn_wrapper_plan_verify(const hn_wrapper *w, const hn_memory_plan *plan) {
    hn_arena arena;
    hn_arena_init(&arena);
    hn_status status = check_plan(w, plan, &arena);
    hn_arena_deinit(&arena);
    return status;
}
