/* accuracy.c: see accuracy.h. */
#include "interp/accuracy.h"

#include "base/trace.h"
#include "interp/compare.h"
#include "interp/reference.h"
#include "ir/interp_impl.h"
#include "wrapper/solve.h"

#include <stdlib.h>
#include <string.h>

/* A line at work: its operands as they were before, and what it is to write in those it writes. */
typedef struct work {
    const hn_line *line; /* NULL: none is at work */
    hn_accuracy_row *row;
    uint32_t first; /* the step at which it begins, */
    uint32_t last;  /* and at whose end it is done */
    uint32_t count; /* operands */
    hn_line_memory *memory;
    bool *is_own;     /* per operand: its memory is to be freed */
    bool is_computed; /* `memory` has the results */
    int64_t reference_ns;
} work;

struct hn_accuracy {
    hn_arena arena;
    const hn_wrapper *w;
    hn_module *module;
    hn_step_hook hook;
    uint32_t *lines; /* per step: its line */
    uint32_t step_count;
    uint32_t forms;                 /* rows of a step, at most */
    hn_accuracy_row *rows, *sorted; /* [step * forms + variant] */
    bool *has_run;                  /* per row */
    bool adds_forms;
    hn_ref_bindings at;
    hn_line whole; /* a call that is several kernels */
    work now;
};

/* ---- one line ---- */

static void end_work(hn_accuracy *a) {
    for (uint32_t k = 0; k < a->now.count; k++)
        if (a->now.is_own[k]) free(a->now.memory[k].bytes);
    free(a->now.memory);
    free(a->now.is_own);
    a->now = (work){0};
}

static hn_accuracy_row *row_of(const hn_accuracy *a, const hn_step_info *step) {
    return &a->rows[step->index * a->forms + (step->variant < a->forms ? step->variant : 0)];
}

/* The operand of a step that is this buffer of the program. */
static hn_status find_operand(const hn_step_info *step, hn_wbuf buffer, hn_step_operand *out,
                              uint32_t *out_number) {
    *out_number = 0;
    for (uint32_t k = 0; k < step->operand_count; k++) {
        HN_TRY(hn_step_operand_get(step, k, out));
        *out_number = k;
        if (out->buffer == buffer) return NULL;
    }
    *out = (hn_step_operand){0};
    return NULL;
}

static bool is_written(const hn_line *line, hn_wbuf buffer) {
    for (uint32_t k = 0; k < line->operand_count; k++)
        if (line->operands[k].written && line->operands[k].buffer == buffer) return true;
    return false;
}

/* Memory of the host is read where it is, if nothing is written there before the end. */
static hn_status take_operand(hn_accuracy *a, const hn_step_info *step, uint32_t k) {
    const hn_woperand *o = &a->now.line->operands[k];
    hn_line_memory *memory = &a->now.memory[k];
    hn_step_operand operand;
    uint32_t number;
    if (!o->buffer) return NULL;
    for (uint32_t e = 0; e < k; e++)
        if (a->now.line->operands[e].buffer == o->buffer && a->now.memory[e].bytes) {
            *memory = a->now.memory[e];
            return NULL;
        }
    HN_TRY(find_operand(step, o->buffer, &operand, &number));
    if (!operand.buffer && step->variant_count > 1) return NULL; /* another form takes it */
    if (!operand.buffer || !operand.has_shape)
        return HN_ERROR(HN_UNSUPPORTED, "the shape of operand %u is not known", k);
    memory->len = operand.data ? operand.bytes : 0;
    if (!memory->len) return NULL;
    if (operand.device.kind == HN_DEVICE_CPU && !is_written(a->now.line, o->buffer) &&
        a->now.first == a->now.last) {
        memory->bytes = operand.data;
        return NULL;
    }
    memory->bytes = malloc((size_t)memory->len);
    if (!memory->bytes) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory for an operand");
    a->now.is_own[k] = true;
    return hn_step_operand_read(step, number, memory->bytes, (size_t)memory->len);
}

/* Of a call that is several kernels: what only later ones have, such as its result. */
static hn_status take_operands(hn_accuracy *a, const hn_step_info *step) {
    const bool is_first = step->index == a->now.first;
    for (uint32_t k = 0; k < a->now.count; k++) {
        const bool written = a->now.line->operands[k].written;
        if (is_first && a->now.first != a->now.last && written) continue;
        if (!is_first && !written) continue;
        HN_TRY(take_operand(a, step, k));
    }
    return NULL;
}

static hn_status compute(hn_accuracy *a) {
    const hn_reference_how how = {.sizes = {.symbols = a->at.symbols.items,
                                            .values = a->at.values.items,
                                            .count = a->at.symbols.count},
                                  .is_wide = true};
    const int64_t begin = hn_now_ns();
    HN_TRY(hn_line_reference(a->now.line, &how, a->now.memory));
    a->now.reference_ns = hn_now_ns() - begin;
    a->now.is_computed = true;
    return NULL;
}

/* The line of a step, or the whole call of which it is the first kernel; false: none begins
 * here. */
static hn_status choose_line(hn_accuracy *a, const hn_step_info *info, bool *out_begins) {
    const uint32_t step = info->index;
    const hn_line *line = &a->w->lines.items[a->lines[step]];
    const hn_wmeaning *meaning = line->meaning;
    uint32_t last = a->lines[step];
    *out_begins = true;
    if (meaning && meaning->call && meaning->count > 1) {
        *out_begins = meaning->number == 0;
        if (!*out_begins) return NULL;
        HN_TRY(hn_line_whole_call(a->w, a->lines[step], &a->arena, &a->whole, &last));
        line = &a->whole;
    }
    const char *missing = hn_line_reference_missing(line);
    if (missing) return HN_ERROR(HN_UNSUPPORTED, "%s", missing);
    a->now = (work){.line = line,
                    .row = row_of(a, info),
                    .first = step,
                    .last = step,
                    .count = line->operand_count};
    while (a->lines[a->now.last] != last) a->now.last++;
    a->now.memory = calloc(line->operand_count + 1u, sizeof *a->now.memory);
    a->now.is_own = calloc(line->operand_count + 1u, sizeof *a->now.is_own);
    return a->now.memory && a->now.is_own ? NULL : HN_ERROR(HN_OUT_OF_MEMORY, "out of memory");
}

static hn_status begin_line(hn_accuracy *a, const hn_step_info *step) {
    bool begins = false;
    if (!a->now.line) HN_TRY(choose_line(a, step, &begins));
    if (!a->now.line) return NULL;
    HN_TRY(take_operands(a, step));
    return step->index == a->now.last ? compute(a) : NULL;
}

/* ---- what came out ---- */

static void take_worse(hn_accuracy_row *row, const hn_comparison *c, uint32_t operand,
                       const hn_step_operand *o) {
    const bool is_first = row->dtype == HN_DTYPE_NONE;
    row->mean_ulp = (row->mean_ulp * (double)row->elems + c->sum_ulp) /
                    (double)(row->elems + c->elems ? row->elems + c->elems : 1);
    row->elems += c->elems;
    if (!is_first && !(c->rel_ulp > row->rel_ulp)) return;
    row->dtype = (hn_dtype)o->type;
    row->operand = operand;
    row->max_ulp = c->max_ulp, row->max_rel = c->max_rel, row->rel_ulp = c->rel_ulp;
    row->got = c->got, row->want = c->want;
    row->rank = o->rank;
    hn_comparison_index(c->worst, o->rank, o->sizes, o->strides, row->index);
}

static hn_status compare_operand(hn_accuracy *a, const hn_step_info *step, uint32_t k) {
    hn_line_memory got;
    hn_step_operand operand;
    hn_comparison c;
    uint32_t number;
    HN_TRY(find_operand(step, a->now.line->operands[k].buffer, &operand, &number));
    got.len = a->now.memory[k].len;
    if (!got.len) return NULL;
    got.bytes = malloc((size_t)got.len);
    if (!got.bytes) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory for an operand");
    hn_status status = hn_step_operand_read(step, number, got.bytes, (size_t)got.len);
    if (!status) {
        hn_compare_memory((hn_dtype)operand.type, got.bytes, a->now.memory[k].bytes, got.len, &c);
        take_worse(a->now.row, &c, number, &operand);
    }
    free(got.bytes);
    return status;
}

static hn_status end_line(hn_accuracy *a, const hn_step_info *step) {
    hn_accuracy_row *row = a->now.row;
    for (uint32_t k = 0; k < a->now.count; k++)
        if (a->now.line->operands[k].written && a->now.memory[k].bytes)
            HN_TRY(compare_operand(a, step, k));
    row->calls++;
    row->reference_ns += a->now.reference_ns;
    return NULL;
}

/* ---- sizes ---- */

static hn_status set_symbol(hn_accuracy *a, hn_expr symbol, int64_t value) {
    for (uint32_t k = 0; k < a->at.symbols.count; k++)
        if (a->at.symbols.items[k] == symbol) {
            a->at.values.items[k] = value;
            return NULL;
        }
    return hn_ref_bind(&a->at, symbol, value, "a size");
}

/* A whole number in memory of the host. */
static int64_t number_at(hn_dtype dtype, const uint8_t *bytes) {
    return hn_ref_elem_read(dtype, bytes).i;
}

static hn_status bind_inputs(hn_accuracy *a, hn_tensor *const *inputs, uint32_t count) {
    hn_wsymbols symbols;
    HN_TRY(hn_wrapper_solve(a->w, &a->arena, &symbols));
    for (uint32_t k = 0; k < symbols.solved_count; k++) {
        const hn_wsymbol *s = &symbols.items[k];
        const hn_tensor *from = s->input < count ? inputs[s->input] : NULL;
        int64_t rest, value;
        if (!from) return HN_ERROR(HN_INVALID_ARGUMENT, "input %u is missing", s->input);
        value = s->dim == HN_WDIM_VALUE
                    ? number_at((hn_dtype)hn_tensor_type(from), hn_tensor_data(from))
                    : hn_tensor_sizes(from)[s->dim];
        HN_TRY(hn_ref_eval(&a->at, s->rest, &rest));
        HN_TRY(set_symbol(a, s->symbol, (value - rest) / s->coeff));
    }
    return NULL;
}

static hn_status define(hn_accuracy *a, const hn_step_info *step) {
    hn_step_operand o;
    uint8_t bytes[8];
    HN_TRY(hn_step_operand_get(step, 0, &o));
    const size_t size = hn_scalar_type_bytes(o.type);
    if (!o.data || (int64_t)size > o.bytes)
        return HN_ERROR(HN_UNSUPPORTED, "a size of the data is not known");
    HN_TRY(hn_step_operand_read(step, 0, bytes, size));
    return set_symbol(a, a->w->lines.items[a->lines[step->index]].symbol,
                      number_at((hn_dtype)o.type, bytes));
}

/* ---- the hook ---- */

static bool is_work(const hn_step_info *step) {
    return step->kind == HN_MODULE_STEP_KERNEL || step->kind == HN_MODULE_STEP_EXTERN;
}

/* What cannot be compared is told in its row; the run goes on. */
static void note_failure(hn_accuracy *a, const hn_step_info *step, hn_status status) {
    if (!status) return;
    hn_accuracy_row *row = a->now.line ? a->now.row : row_of(a, step);
    snprintf(row->missing, sizeof row->missing, "%s", hn_status_message(status));
    hn_status_free(status);
    end_work(a);
}

/* Later kernels of an operation are told of with the first one. */
static bool is_later_part(const hn_accuracy *a, uint32_t step) {
    const hn_wmeaning *meaning = a->w->lines.items[a->lines[step]].meaning;
    return meaning && meaning->call && meaning->number > 0;
}

static void describe(hn_accuracy *a, const hn_step_info *step, hn_accuracy_row *row) {
    row->program = step->program;
    row->step = step->index;
    row->name = step->name, row->node = step->node, row->source = step->source;
    row->variant = step->variant, row->variant_count = step->variant_count;
    row->form = step->form;
    row->is_picked = !a->adds_forms;
    row->call = step->call;
    a->has_run[row - a->rows] = !is_later_part(a, step->index);
}

/* From an earlier run; a step may run several times in one. */
static bool is_known(const hn_accuracy_row *row, const hn_step_info *step) {
    return row->call && row->call != step->call;
}

static hn_status before(void *user, const hn_step_info *step, uint64_t *note) {
    hn_accuracy *a = user;
    (void)note;
    if (step->kind == HN_MODULE_STEP_DEFINE) return define(a, step);
    if (!is_work(step)) return NULL;
    hn_accuracy_row *row = row_of(a, step);
    if (a->adds_forms && is_known(row, step)) return NULL;
    describe(a, step, row);
    note_failure(a, step, begin_line(a, step));
    return NULL;
}

static hn_status after(void *user, const hn_step_info *step, uint64_t *note) {
    hn_accuracy *a = user;
    (void)note;
    if (!is_work(step) || !a->now.line || step->index != a->now.last) return NULL;
    if (a->now.is_computed && !step->has_failed) note_failure(a, step, end_line(a, step));
    end_work(a);
    return NULL;
}

/* ---- a module ---- */

static hn_status number_steps(hn_accuracy *a) {
    const hn_wrapper *w = a->w;
    a->step_count = hn_wrapper_count_steps(w, 0, w->lines.count);
    if (a->step_count != hn_module_step_count(a->module))
        return HN_ERROR(HN_INVALID_ARGUMENT, "the module is of another program");
    HN_NEW(&a->arena, a->lines, a->step_count + 1);
    a->forms = 1;
    for (uint32_t i = 0, step = 0; i < w->lines.count; i++) {
        const hn_line *line = &w->lines.items[i];
        if (!hn_line_is_step(line->kind)) continue;
        a->lines[step++] = i;
        if (line->kind == HN_LINE_KERNEL && hn_line_variants(line) > a->forms)
            a->forms = hn_line_variants(line);
    }
    const size_t rows = (size_t)a->step_count * a->forms + 1;
    HN_NEW(&a->arena, a->rows, rows);
    HN_NEW(&a->arena, a->sorted, rows);
    HN_NEW(&a->arena, a->has_run, rows);
    return NULL;
}

hn_status hn_accuracy_create(const hn_wrapper *w, hn_module *module, hn_tensor *const *inputs,
                             uint32_t input_count, hn_accuracy **out) {
    hn_accuracy *a = calloc(1, sizeof *a);
    if (!a) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory for the errors of steps");
    hn_arena_init(&a->arena);
    a->w = w;
    a->at = (hn_ref_bindings){.arena = &a->arena, .sym = w->sym};
    a->module = hn_module_retain(module);
    hn_status status = number_steps(a);
    if (!status) status = bind_inputs(a, inputs, input_count);
    const hn_step_hook hook = {.before = before, .after = after, .user = a};
    if (!status) status = hn_module_hook_add(module, &hook);
    if (!status) a->hook = hook;
    if (status) hn_accuracy_destroy(a);
    else *out = a;
    return status;
}

void hn_accuracy_destroy(hn_accuracy *a) {
    if (!a) return;
    if (a->hook.user) hn_status_free(hn_module_hook_remove(a->module, &a->hook));
    end_work(a);
    hn_module_release(a->module);
    hn_arena_deinit(&a->arena);
    free(a);
}

static int worst_first(const void *x, const void *y) {
    const hn_accuracy_row *a = x, *b = y;
    if (!a->calls != !b->calls) return a->calls ? -1 : 1;
    if (a->rel_ulp != b->rel_ulp) return a->rel_ulp > b->rel_ulp ? -1 : 1;
    if (a->max_ulp != b->max_ulp) return a->max_ulp > b->max_ulp ? -1 : 1;
    if (a->step != b->step) return a->step < b->step ? -1 : 1;
    return a->variant < b->variant ? -1 : a->variant > b->variant;
}

uint32_t hn_accuracy_forms(const hn_accuracy *a) { return a->forms; }

void hn_accuracy_add_forms(hn_accuracy *a) { a->adds_forms = true; }

void hn_accuracy_sort(hn_accuracy_row *rows, uint32_t count) {
    qsort(rows, count, sizeof *rows, worst_first);
}

const hn_accuracy_row *hn_accuracy_rows(hn_accuracy *a, uint32_t *out_count) {
    uint32_t count = 0;
    for (uint32_t k = 0; k < a->step_count * a->forms; k++)
        if (a->has_run[k]) a->sorted[count++] = a->rows[k];
    hn_accuracy_sort(a->sorted, count);
    *out_count = count;
    return a->sorted;
}
