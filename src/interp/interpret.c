/* interpret.c: see interpret.h. */
#include "interp/interpret.h"

#include "interp/memory.h"
#include "wrapper/solve.h"

#include <string.h>

/* A call that is several kernels: its operands as they are before the first one. */
typedef struct pending {
    hn_line line;
    uint32_t last; /* the line at whose end the call is done */
    hn_line_memory *memory;
} pending;

typedef struct interpreter {
    hn_arena *arena; /* of this run */
    const hn_wrapper *w;
    const hn_interpret_how *how;
    hn_ref_bindings at;
    hn_imem memory;
    pending *call; /* NULL: none is under way */
} interpreter;

/* ---- sizes ---- */

static hn_status bind_symbol(interpreter *r, const hn_wsymbol *s, const hn_ref_tensor *inputs) {
    const hn_ref_tensor *from = &inputs[s->input];
    int64_t rest, value;
    if (s->dim == HN_WDIM_VALUE) {
        if (from->dtype != HN_DTYPE_I64 || from->rank)
            return HN_ERROR(HN_INVALID_ARGUMENT, "input %u is no whole number", s->input);
        value = from->data.i[0];
    } else {
        if (s->dim >= from->rank)
            return HN_ERROR(HN_INVALID_ARGUMENT, "input %u has no dimension %u", s->input, s->dim);
        value = from->sizes[s->dim];
    }
    HN_TRY(hn_ref_eval(&r->at, s->rest, &rest));
    if ((value - rest) % s->coeff)
        return HN_ERROR(HN_INVALID_ARGUMENT, "dimension %u of input %u does not fit", s->dim,
                        s->input);
    return hn_ref_bind(&r->at, s->symbol, (value - rest) / s->coeff, "a size of an input");
}

static hn_status bind_sizes(interpreter *r, const hn_ref_tensor *inputs) {
    hn_wsymbols symbols;
    HN_TRY(hn_wrapper_solve(r->w, r->arena, &symbols));
    for (uint32_t k = 0; k < symbols.solved_count; k++)
        HN_TRY(bind_symbol(r, &symbols.items[k], inputs));
    return hn_ref_check_guards(&r->at, 0);
}

static hn_status set_inputs(interpreter *r, const hn_ref_tensor *inputs) {
    for (uint32_t k = 0; k < r->w->inputs.count; k++)
        if (!r->w->inputs.items[k].is_scalar) HN_TRY(hn_imem_set_input(&r->memory, k, &inputs[k]));
    return NULL;
}

/* ---- calls ---- */

static bool meet(const hn_line_memory *a, const hn_line_memory *b) {
    return a->bytes < b->bytes + b->len && b->bytes < a->bytes + a->len;
}

/* A reference reads everything first; the program's own kernel may not. */
static hn_status check_apart(const hn_line *line, const hn_line_memory *memory) {
    for (uint32_t k = 0; k < line->operand_count; k++)
        for (uint32_t e = 0; e < line->operand_count; e++) {
            const hn_woperand *to = &line->operands[k], *from = &line->operands[e];
            if (!to->written || to->buffer == from->buffer || !meet(&memory[k], &memory[e]) ||
                hn_woperand_is_over(to, e))
                continue;
            return HN_ERROR(HN_INTERNAL, "operand %u is written over operand %u", k, e);
        }
    return NULL;
}

static hn_status operands_of(interpreter *r, const hn_line *line, hn_line_memory **out) {
    HN_NEW(r->arena, *out, line->operand_count);
    for (uint32_t k = 0; k < line->operand_count; k++)
        HN_TRY(hn_imem_get(&r->memory, line->operands[k].buffer, &(*out)[k]));
    return check_apart(line, *out);
}

static hn_status run_reference(const interpreter *r, const hn_line *line,
                               const hn_line_memory *memory) {
    const hn_reference_how how = {.sizes = {.symbols = r->at.symbols.items,
                                            .values = r->at.values.items,
                                            .count = r->at.symbols.count},
                                  .is_wide = r->how->is_wide};
    return hn_line_reference(line, &how, memory);
}

/* What the call reads is gone, or changed, when its last kernel runs: that is its memory's end. */
static hn_status begin_call(interpreter *r, uint32_t i) {
    HN_NEW(r->arena, r->call, 1);
    HN_TRY(hn_line_whole_call(r->w, i, r->arena, &r->call->line, &r->call->last));
    const hn_line *line = &r->call->line;
    HN_NEW(r->arena, r->call->memory, line->operand_count);
    for (uint32_t k = 0; k < line->operand_count; k++) {
        hn_line_memory *kept = &r->call->memory[k], now;
        if (line->operands[k].written || !line->operands[k].buffer) continue;
        HN_TRY(hn_imem_get(&r->memory, line->operands[k].buffer, &now));
        HN_NEW(r->arena, kept->bytes, now.len);
        memcpy(kept->bytes, now.bytes, (size_t)now.len);
        kept->len = now.len;
    }
    return NULL;
}

static hn_status end_call(interpreter *r) {
    pending *call = r->call;
    r->call = NULL;
    for (uint32_t k = 0; k < call->line.operand_count; k++)
        if (call->line.operands[k].written)
            HN_TRY(hn_imem_get(&r->memory, call->line.operands[k].buffer, &call->memory[k]));
    return run_reference(r, &call->line, call->memory);
}

static hn_status run_call(interpreter *r, const hn_line *line, uint32_t i) {
    hn_line_memory *memory;
    HN_TRY(operands_of(r, line, &memory));
    if (line->meaning && line->meaning->call && line->meaning->count > 1) {
        if (line->meaning->number == 0) HN_TRY(begin_call(r, i));
        return r->call && i == r->call->last ? end_call(r) : NULL;
    }
    return run_reference(r, line, memory);
}

/* ---- other lines ---- */

static hn_status read_element(interpreter *r, const hn_woperand *o, int64_t *out) {
    const int64_t size = hn_dtype_facts(o->dtype)->size_bytes;
    hn_line_memory memory;
    int64_t offset = 0;
    HN_TRY(hn_imem_get(&r->memory, o->buffer, &memory));
    const hn_expr begin = hn_woperand_offset(r->w, o);
    if (begin) HN_TRY(hn_ref_eval(&r->at, begin, &offset));
    if (offset < 0 || (offset + 1) * size > memory.len)
        return HN_ERROR(HN_INTERNAL, "element %lld of buffer %u is outside of it",
                        (long long)offset, o->buffer);
    *out = hn_ref_elem_read(o->dtype, memory.bytes + offset * size).i;
    return NULL;
}

static hn_status copy(interpreter *r, const hn_line *line) {
    hn_line_memory to, from;
    HN_TRY(hn_imem_get(&r->memory, line->from, &from));
    HN_TRY(hn_imem_get(&r->memory, line->buffer, &to));
    const int64_t len = to.len < from.len ? to.len : from.len;
    if (len) memmove(to.bytes, from.bytes, (size_t)len);
    return NULL;
}

static hn_status zero(interpreter *r, const hn_line *line) {
    hn_line_memory memory;
    HN_TRY(hn_imem_get(&r->memory, line->buffer, &memory));
    if (memory.len) memset(memory.bytes, 0, (size_t)memory.len);
    return NULL;
}

static hn_status assert_true(interpreter *r, const hn_line *line) {
    int64_t truth;
    HN_TRY(read_element(r, &line->operands[0], &truth));
    return truth ? NULL : HN_ERROR(HN_INVALID_ARGUMENT, HN_STR_FMT, HN_STR_ARG(line->text));
}

static hn_status define(interpreter *r, const hn_line *line) {
    int64_t value;
    HN_TRY(read_element(r, &line->operands[0], &value));
    HN_TRY(hn_ref_bind(&r->at, line->symbol, value, "a number that the data gives"));
    return hn_imem_defined(&r->memory, line->symbol);
}

static hn_status run_lines(interpreter *r, uint32_t first, uint32_t end);

/* Recursion is as deep as the verifier allows. */
static hn_status branch(interpreter *r, const hn_line *line, uint32_t i) {
    const uint32_t middle = i + 1 + line->then_count;
    int64_t truth;
    HN_TRY(read_element(r, &line->operands[0], &truth));
    return truth ? run_lines(r, i + 1, middle)
                 : run_lines(r, middle, middle + line->otherwise_count);
}

/* The symbols that lines [first, end) define have no value. */
static void forget_symbols(interpreter *r, uint32_t first, uint32_t end) {
    for (uint32_t i = first; i < end; i++)
        if (r->w->lines.items[i].kind == HN_LINE_DEFINE)
            hn_ref_unbind(&r->at, r->w->lines.items[i].symbol);
}

/* Rounds, or as often as the test says. */
static hn_status run_rounds(interpreter *r, const hn_line *line, uint32_t i) {
    const uint32_t middle = i + 1 + line->then_count;
    int64_t rounds = 0, truth = 1;
    if (line->rounds) HN_TRY(hn_ref_eval(&r->at, line->rounds, &rounds));
    for (int64_t n = 0; !line->rounds || n < rounds; n++) {
        forget_symbols(r, i + 1, middle);
        HN_TRY(run_lines(r, i + 1, middle));
        if (!line->rounds) HN_TRY(read_element(r, &line->operands[0], &truth));
        if (!truth) break;
        forget_symbols(r, middle, middle + line->otherwise_count);
        HN_TRY(run_lines(r, middle, middle + line->otherwise_count));
    }
    return NULL;
}

static hn_status loop(interpreter *r, const hn_line *line, uint32_t i) {
    HN_TRY(run_rounds(r, line, i));
    forget_symbols(r, i + 1, i + 1 + line->then_count + line->otherwise_count);
    return NULL;
}

static hn_status run_line(interpreter *r, uint32_t i) {
    const hn_line *line = &r->w->lines.items[i];
    hn_line_memory ignored;
    switch (line->kind) {
    case HN_LINE_COMMENT:
    case HN_LINE_WAIT: return NULL;
    case HN_LINE_ALLOCATE:
    case HN_LINE_REUSE:
    case HN_LINE_FREE: return hn_imem_line(&r->memory, line);
    case HN_LINE_VIEW: return hn_imem_get(&r->memory, line->from, &ignored); /* it is there */
    case HN_LINE_KERNEL:
    case HN_LINE_EXTERN: return run_call(r, line, i);
    case HN_LINE_COPY: return copy(r, line);
    case HN_LINE_ZERO: return zero(r, line);
    case HN_LINE_ASSERT: return assert_true(r, line);
    case HN_LINE_DEFINE: return define(r, line);
    case HN_LINE_COND: return branch(r, line, i);
    case HN_LINE_LOOP: return loop(r, line, i);
    }
    return HN_ERROR(HN_INTERNAL, "a line of unknown kind %d", (int)line->kind);
}

static hn_status run_lines(interpreter *r, uint32_t first, uint32_t end) {
    for (uint32_t i = first; i < end; i++) {
        const hn_line *line = &r->w->lines.items[i];
        HN_TRY(hn_status_annotate(run_line(r, i), "line %u", i));
        if (hn_line_has_bodies(line->kind)) i += line->then_count + line->otherwise_count;
    }
    return NULL;
}

/* ---- outputs ---- */

static hn_status read_output(interpreter *r, const hn_woutput *o, hn_arena *arena,
                             hn_ref_tensor *out) {
    const int64_t size = hn_dtype_facts(o->dtype)->size_bytes;
    int64_t sizes[HN_MAX_RANK], strides[HN_MAX_RANK], at[HN_MAX_RANK] = {0}, first = 0;
    hn_line_memory memory;
    HN_TRY(hn_imem_get(&r->memory, o->buffer, &memory));
    HN_TRY(hn_ref_eval_sizes(&r->at, o->rank, o->sizes, sizes));
    HN_TRY(hn_ref_eval_sizes(&r->at, o->rank, o->strides, strides));
    const hn_expr begin = hn_woutput_offset(r->w, o);
    if (begin) HN_TRY(hn_ref_eval(&r->at, begin, &first));
    HN_TRY(hn_ref_tensor_init(arena, o->dtype, o->rank, sizes, out));
    for (int64_t n = 0; n < out->numel; n++, hn_ref_next(at, sizes, o->rank)) {
        int64_t place = first;
        for (uint32_t d = 0; d < o->rank; d++) place += at[d] * strides[d];
        if (place < 0 || (place + 1) * size > memory.len)
            return HN_ERROR(HN_INTERNAL, "element %lld is outside of buffer %u", (long long)n,
                            o->buffer);
        hn_ref_set(out, n, hn_ref_elem_read(o->dtype, memory.bytes + place * size));
    }
    return NULL;
}

static hn_status read_outputs(interpreter *r, hn_arena *arena, hn_ref_tensor *out) {
    for (uint32_t k = 0; k < r->w->outputs.count; k++) {
        const hn_woutput *o = &r->w->outputs.items[k];
        out[k] = (hn_ref_tensor){.dtype = HN_DTYPE_NONE};
        if (o->kind != HN_WOUTPUT_SCALAR)
            HN_TRY(hn_status_annotate(read_output(r, o, arena, &out[k]), "output %u", k));
    }
    return NULL;
}

/* ---- the program ---- */

static hn_status run(interpreter *r, const hn_ref_tensor *inputs) {
    HN_TRY(bind_sizes(r, inputs));
    HN_TRY(hn_imem_init(&r->memory, r->w, r->how->plan, &r->at, r->arena));
    HN_TRY(set_inputs(r, inputs));
    return run_lines(r, 0, r->w->lines.count);
}

hn_status hn_wrapper_interpret(hn_arena *arena, const hn_wrapper *w, const hn_interpret_how *how,
                               const hn_ref_tensor *inputs, uint32_t input_count,
                               hn_ref_tensor *out_outputs) {
    hn_arena own;
    if (input_count != w->inputs.count)
        return HN_ERROR(HN_INVALID_ARGUMENT, "%u inputs given, must be %u", input_count,
                        w->inputs.count);
    hn_arena_init(&own);
    interpreter r = {.arena = &own, .w = w, .how = how, .at = {.arena = &own, .sym = w->sym}};
    hn_status status = run(&r, inputs);
    if (!status) status = read_outputs(&r, arena, out_outputs);
    if (!status) status = hn_imem_check_freed(&r.memory);
    hn_imem_deinit(&r.memory);
    hn_arena_deinit(&own);
    return status;
}
