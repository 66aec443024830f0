/* record_kernel.c: what a kernel of the schedule does: see record.h. */
#include "ir/sop.h"
#include "kernel/quantity.h"
#include "kernel/record.h"

static hn_quantity extent_of(hn_sym *sym, hn_expr var) {
    return hn_quantity_of(sym, hn_sym_symbol_extent(sym, var));
}

static hn_quantity product(hn_sym *sym, const hn_expr *vars, uint32_t count) {
    hn_quantity all = hn_quantity_int(1);
    for (uint32_t d = 0; d < count; d++) all = hn_quantity_mul(sym, all, extent_of(sym, vars[d]));
    return all;
}

/* Of one element, in additions. */
static int64_t cost_of(const hn_sop *op) {
    switch (op->kind) {
    case HN_SOP_ELEM: return hn_op_facts(op->op)->cost;
    case HN_SOP_CAST: return hn_op_facts(HN_OP_CAST)->cost;
    case HN_SOP_RANDOM: return hn_op_facts(HN_OP_RANDOM)->cost;
    default: return 0;
    }
}

/* How many inner loops an index is in: that of the innermost variable that it has, or that a symbol
 * of it is bound in (`levels`, of the ops before). */
static uint32_t level_of_index(hn_sym *sym, const hn_kernel_phase *phase, hn_expr index,
                               const uint32_t *levels, hn_sid before) {
    uint32_t level = 0;
    for (uint32_t d = 0; d < phase->rank; d++)
        if (hn_sym_uses(sym, index, phase->vars[d])) level = d + 1;
    for (hn_sid s = 1; s < before && level < phase->rank; s++) {
        const hn_sop *op = &phase->body.items[s];
        if (op->kind == HN_SOP_INDIRECT && levels[s] > level && hn_sym_uses(sym, index, op->index))
            level = levels[s];
    }
    return level;
}

static uint32_t level_of(hn_sym *sym, const hn_kernel_phase *phase, const uint32_t *levels,
                         hn_sid s) {
    const hn_sop *op = &phase->body.items[s];
    uint32_t level = 0;
    if (op->kind == HN_SOP_RESULT) return phase->scan ? phase->rank : 0;
    if (hn_sop_has_index(op)) level = level_of_index(sym, phase, op->index, levels, s);
    for (int a = 0; a < 3; a++)
        if (op->args[a] && levels[op->args[a]] > level) level = levels[op->args[a]];
    return level;
}

/* What does not change in an inner loop is computed in front of it. */
static hn_status add_phase(hn_sym *sym, const hn_kernel_phase *phase, hn_quantity rows,
                           hn_arena *scratch, hn_quantity *all) {
    int64_t costs[HN_MAX_RANK + 1] = {0};
    uint32_t *levels;
    HN_NEW(scratch, levels, phase->body.count);
    costs[phase->rank] = (int64_t)phase->reduces.count + phase->columns.count;
    for (hn_sid s = 1; s < phase->body.count; s++) {
        levels[s] = level_of(sym, phase, levels, s);
        costs[levels[s]] += cost_of(&phase->body.items[s]);
    }
    for (uint32_t level = 0; level <= phase->rank; level++) {
        const hn_quantity points = hn_quantity_mul(sym, rows, product(sym, phase->vars, level)),
                          cost = hn_quantity_int(costs[level]);
        if (costs[level]) *all = hn_quantity_add(sym, *all, hn_quantity_mul(sym, points, cost));
    }
    return NULL;
}

static hn_status add_operations(hn_sym *sym, const hn_kernel *kernel, hn_arena *scratch,
                                hn_quantity *all) {
    const hn_quantity rows = product(sym, kernel->vars, kernel->rank);
    for (uint32_t f = 0; f < kernel->phases.count; f++)
        HN_TRY(add_phase(sym, &kernel->phases.items[f], rows, scratch, all));
    return NULL;
}

static hn_status operations_of(hn_sym *sym, const hn_kernel *kernel, hn_arena *scratch,
                               hn_quantity *out) {
    *out = hn_quantity_int(0);
    if (!kernel->segments.count) return add_operations(sym, kernel, scratch, out);
    for (uint32_t s = 0; s < kernel->segments.count; s++)
        HN_TRY(add_operations(sym, kernel->segments.items[s].alone, scratch, out));
    return NULL;
}

static bool has_scan(const hn_kernel *kernel) {
    for (uint32_t f = 0; f < kernel->phases.count; f++)
        if (kernel->phases.items[f].scan) return true;
    return false;
}

static bool has_scatter(const hn_kernel *kernel) {
    for (uint32_t f = 0; f < kernel->phases.count; f++)
        for (uint32_t s = 0; s < kernel->phases.items[f].stores.count; s++)
            if (kernel->phases.items[f].stores.items[s].mode != HN_STORE_SET) return true;
    return kernel->serial;
}

static hn_step_category category_of(const hn_kernel *kernel) {
    uint32_t reduces = 0;
    for (uint32_t f = 0; f < kernel->phases.count; f++)
        reduces += kernel->phases.items[f].reduces.count;
    if (kernel->segments.count) return HN_CATEGORY_FOREACH;
    if (has_scatter(kernel)) return HN_CATEGORY_SCATTER;
    if (has_scan(kernel)) return HN_CATEGORY_SCAN;
    if (kernel->slabs) return reduces ? HN_CATEGORY_MIXED_REDUCTION : HN_CATEGORY_COLUMN_REDUCTION;
    return reduces ? HN_CATEGORY_REDUCTION : HN_CATEGORY_POINTWISE;
}

static const hn_kernel_phase *longest_phase(hn_sym *sym, const hn_kernel *kernel) {
    const hn_kernel_phase *longest = NULL;
    int64_t most = -1;
    for (uint32_t f = 0; f < kernel->phases.count; f++) {
        const hn_kernel_phase *phase = &kernel->phases.items[f];
        const int64_t points = product(sym, phase->vars, phase->rank).hint;
        if (points > most) most = points, longest = phase;
    }
    return longest;
}

/* Of all segments together, where they have lengths of their own. */
static hn_expr size_of(hn_sym *sym, const hn_kernel *kernel, hn_expr var) {
    const hn_expr extent = hn_sym_symbol_extent(sym, var);
    if (!kernel->segment_length || extent != kernel->segment_length) return extent;
    hn_expr all = hn_sym_int(sym, 0);
    for (uint32_t s = 0; s < kernel->segments.count; s++)
        all = hn_sym_add(sym, all, kernel->segments.items[s].length);
    return all;
}

static hn_status list_sizes(hn_sym *sym, const hn_kernel *kernel, hn_arena *arena,
                            hn_work_record *out) {
    const hn_kernel_phase *phase = longest_phase(sym, kernel);
    const uint32_t inner = phase ? phase->rank : 0;
    /* segments that are the same size are one more loop */
    const bool repeats = kernel->segments.count && !kernel->segment_length;
    hn_expr *sizes;
    HN_NEW(arena, sizes, kernel->rank + inner + 1);
    out->sizes = sizes;
    out->row_rank = kernel->rank + repeats;
    out->rank = out->row_rank + inner;
    if (repeats) *sizes++ = hn_sym_int(sym, kernel->segments.count);
    for (uint32_t d = 0; d < kernel->rank; d++) *sizes++ = size_of(sym, kernel, kernel->vars[d]);
    for (uint32_t d = 0; d < inner; d++) *sizes++ = size_of(sym, kernel, phase->vars[d]);
    return NULL;
}

_Static_assert((int)HN_VECTOR_INNER == (int)HN_DIRECTION_INNER &&
                   (int)HN_VECTOR_FLAT == (int)HN_DIRECTION_FLAT &&
                   (int)HN_VECTOR_OUTER == (int)HN_DIRECTION_OUTER,
               "directions are the scheduler's modes");

hn_status hn_kernel_record_of(const hn_program *program, const hn_kernel *kernel, hn_arena *arena,
                              hn_arena *scratch, int64_t *points, hn_work_record *out) {
    hn_quantity operations;
    HN_TRY(operations_of(program->sym, kernel, scratch, &operations));
    *out = (hn_work_record){.category = category_of(kernel),
                            .direction = (hn_step_direction)kernel->mode,
                            .operations = operations.hint,
                            .operations_expr = hn_quantity_expr(program->sym, operations),
                            .fused_loops = kernel->loop_count,
                            .phases = kernel->phases.count,
                            .locals = kernel->locals.count};
    HN_TRY(list_sizes(program->sym, kernel, arena, out));
    return hn_kernel_traffic(program, kernel, scratch, points, &out->traffic);
}
