/* plan_cpu.c: kernels of the schedule as forms for processors with vectors and caches. */
#include "kernel/plan_cpu.h"

#include "kernel/cost.h"
#include "kernel/cpu_emitter.h"
#include "kernel/segments.h"

static hn_status emit_body(hn_emitter *em) {
    switch (em->plan->form) {
    case HN_CPU_FLAT: return hn_form_flat(em);
    case HN_CPU_ROWS: return hn_form_rows(em);
    case HN_CPU_ROWS_PIPELINED: return hn_form_pipelined(em);
    case HN_CPU_ROWS_SPLIT: return hn_form_split(em);
    case HN_CPU_ROWS_SLABS: return hn_form_slabs(em);
    case HN_CPU_COLUMNS_NARROW: return hn_form_columns_narrow(em);
    case HN_CPU_COLUMNS_WIDE: return hn_form_columns_wide(em);
    case HN_CPU_TILES: return hn_form_tiles(em);
    case HN_CPU_TILES_WIDE: return hn_form_tiles_wide(em);
    }
    return NULL;
}

/* ---- memories ---- */

/* What builders marked may only have been prefetched. */
static void mark_accesses(hn_form *f) {
    for (hn_fmem m = 1; m < f->memories.count; m++)
        f->memories.items[m].is_read = f->memories.items[m].is_written = false;
    for (hn_fid s = 1; s < f->stmts.count; s++) {
        const hn_form_stmt *stmt = &f->stmts.items[s];
        if (stmt->kind == HN_FORM_VALUE && stmt->op.kind == HN_SOP_LOAD)
            f->memories.items[stmt->op.buffer].is_read = true;
        if (stmt->kind == HN_FORM_STORE) f->memories.items[stmt->memory].is_written = true;
        if (stmt->kind == HN_FORM_STORE && stmt->mode != HN_STORE_SET)
            f->memories.items[stmt->memory].is_read = true;
        if (stmt->kind != HN_FORM_TRANSPOSE) continue;
        f->memories.items[stmt->memory].is_written = true;
        f->memories.items[stmt->transpose->from].is_read = true;
    }
}

/* Which arguments may lie in the same memory. */
static hn_status mark_in_place(hn_emitter *em) {
    hn_form *f = em->f;
    hn_fmem *arguments;
    hn_buf *buffers;
    uint64_t *may_alias;
    uint32_t count = 0;
    HN_NEW(em->scratch, arguments, f->memories.count);
    HN_NEW(em->scratch, buffers, f->memories.count);
    HN_NEW(em->scratch, may_alias, f->memories.count);
    for (hn_fmem m = 1; m < f->memories.count; m++) {
        if (f->memories.items[m].space != HN_SPACE_ARGUMENT) continue;
        arguments[count] = m;
        buffers[count++] = f->memories.items[m].buffer;
    }
    hn_cpu_in_place(em->plan, buffers, count, may_alias);
    for (uint32_t k = 0; k < count; k++)
        if (f->memories.items[arguments[k]].is_written)
            f->memories.items[arguments[k]].may_alias = may_alias[k];
    return NULL;
}

/* ---- the whole ---- */

static hn_status form_of(const hn_cpu_plan *plan, hn_arena *arena, hn_arena *scratch,
                         hn_form **out) {
    hn_emitter em;
    HN_TRY(hn_emitter_begin(plan, arena, scratch, &em));
    HN_TRY(emit_body(&em));
    if (!em.f->failed) mark_accesses(em.f);
    HN_TRY(mark_in_place(&em));
    HN_TRY(hn_form_set_segments(em.f, plan->kernel));
    *out = em.f;
    return hn_form_end(em.f);
}

/* On one core: memory and arithmetic go on at once. */
static hn_form_cost cost_of(const hn_form_cost *work, const hn_cpu_facts *facts, double speed) {
    double memory = work->bytes / facts->bytes_per_ns,
           compute = work->operations / facts->ops_per_ns;
    hn_form_cost cost = *work;
    cost.ns = (memory > compute ? memory : compute) / speed;
    return cost;
}

static const char *const shapes[] = {
    [HN_CPU_FLAT] = "flat",
    [HN_CPU_ROWS] = "rows",
    [HN_CPU_ROWS_PIPELINED] = "rows, pipelined",
    [HN_CPU_ROWS_SPLIT] = "rows, split",
    [HN_CPU_ROWS_SLABS] = "slabs of rows",
    [HN_CPU_COLUMNS_NARROW] = "columns",
    [HN_CPU_COLUMNS_WIDE] = "strips of columns",
    [HN_CPU_TILES] = "tiles",
    [HN_CPU_TILES_WIDE] = "wide tiles",
};

hn_status hn_form_plans_cpu(const hn_program *program, const hn_kernel *kernel,
                            uint32_t vector_bytes, const hn_cpu_facts *facts, uint32_t most,
                            hn_arena *arena, hn_arena *scratch, hn_form **out,
                            uint32_t *out_count) {
    const hn_form_cost work = hn_kernel_work(program, kernel);
    for (*out_count = 0; *out_count < most; ++*out_count) {
        hn_cpu_plan *plan;
        HN_TRY(hn_cpu_plan_begin(program, kernel, vector_bytes, facts, scratch, &plan));
        if (*out_count == plan->candidate_count) break;
        const hn_cpu_candidate *candidate = &plan->candidates[*out_count];
        HN_TRY(hn_cpu_plan_complete(plan, candidate->form));
        HN_TRY(form_of(plan, arena, scratch, &out[*out_count]));
        out[*out_count]->cost = cost_of(&work, facts, candidate->speed);
        out[*out_count]->shape = shapes[candidate->form];
    }
    return NULL;
}

hn_status hn_form_plan_cpu(const hn_program *program, const hn_kernel *kernel,
                           uint32_t vector_bytes, const hn_cpu_facts *facts, hn_arena *arena,
                           hn_arena *scratch, hn_form **out) {
    uint32_t count;
    return hn_form_plans_cpu(program, kernel, vector_bytes, facts, 1, arena, scratch, out, &count);
}
