/* plan_cpu.c: kernels of the schedule as forms for processors with vectors and caches. */
#include "kernel/plan_cpu.h"

#include "kernel/cost.h"
#include "kernel/cpu_costs.h"
#include "kernel/cpu_emitter.h"
#include "kernel/segments.h"

#include <stdio.h>
#include <string.h>

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

/* The form of a plan that is complete, with its name. */
static hn_status named_form(const hn_cpu_plan *plan, hn_arena *arena, hn_arena *scratch,
                            hn_form **out) {
    const hn_cpu_choice choice = hn_cpu_choice_of(plan);
    hn_strbuf text;
    HN_TRY(form_of(plan, arena, scratch, out));
    hn_strbuf_init(&text);
    hn_cpu_choice_print(&choice, &text);
    hn_status status = hn_strbuf_status(&text);
    if (!status) {
        (*out)->parameters = hn_arena_strndup(arena, text.len ? text.ptr : "", text.len);
        if (!(*out)->parameters) status = HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a form");
    }
    hn_strbuf_deinit(&text);
    (*out)->shape = shapes[plan->form];
    return status;
}

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
        HN_TRY(named_form(plan, arena, scratch, &out[*out_count]));
        out[*out_count]->cost = cost_of(&work, facts, candidate->speed);
    }
    return NULL;
}

static hn_status refuse(const hn_cpu_plan *plan, hn_str form) {
    char known[128] = "";
    for (uint32_t k = 0; k < plan->candidate_count; k++) {
        const size_t at = strlen(known);
        snprintf(known + at, sizeof known - at, "%s%s", at ? ", " : "",
                 hn_cpu_form_name(plan->candidates[k].form));
    }
    return HN_ERROR(HN_NOT_FOUND, "the kernel has no form '" HN_STR_FMT "'; it has %s",
                    HN_STR_ARG(form), known);
}

static hn_status refuse_choice(const hn_cpu_plan *plan, const hn_cpu_choice *choice) {
    return refuse(plan, hn_str_of(hn_cpu_form_name(choice->form)));
}

hn_status hn_cpu_refuse_form(const hn_program *program, const hn_kernel *kernel,
                             uint32_t vector_bytes, const hn_cpu_facts *facts, hn_str name,
                             hn_arena *scratch) {
    hn_cpu_plan *plan;
    HN_TRY(hn_cpu_plan_begin(program, kernel, vector_bytes, facts, scratch, &plan));
    return refuse(plan, name);
}

static const hn_cpu_candidate *candidate_of(const hn_cpu_plan *plan, hn_cpu_form form) {
    for (uint32_t k = 0; k < plan->candidate_count; k++)
        if (plan->candidates[k].form == form) return &plan->candidates[k];
    return NULL;
}

hn_status hn_form_plan_cpu_as(const hn_program *program, const hn_kernel *kernel,
                              uint32_t vector_bytes, const hn_cpu_facts *facts,
                              const hn_cpu_choice *choice, hn_arena *arena, hn_arena *scratch,
                              hn_form **out) {
    const hn_form_cost work = hn_kernel_work(program, kernel);
    hn_cpu_plan *plan;
    HN_TRY(hn_cpu_plan_begin(program, kernel, vector_bytes, facts, scratch, &plan));
    const hn_cpu_candidate *candidate = candidate_of(plan, choice->form);
    if (!candidate) return refuse_choice(plan, choice);
    HN_TRY(hn_cpu_plan_complete_as(plan, choice));
    HN_TRY(named_form(plan, arena, scratch, out));
    (*out)->cost = cost_of(&work, facts, candidate->speed);
    return NULL;
}

hn_status hn_cpu_expect(const hn_program *program, const hn_kernel *kernel, uint32_t vector_bytes,
                        const hn_cpu_facts *facts, uint32_t threads, hn_arena *scratch,
                        hn_cpu_variant *v) {
    hn_cpu_plan *plan;
    HN_TRY(hn_cpu_plan_begin(program, kernel, vector_bytes, facts, scratch, &plan));
    if (!candidate_of(plan, v->choice.form)) return refuse_choice(plan, &v->choice);
    HN_TRY(hn_cpu_plan_complete_as(plan, &v->choice));
    v->ns = hn_cpu_predicted_ns(plan, threads);
    return NULL;
}

static bool is_listed(const hn_cpu_variant *list, uint32_t count, const hn_cpu_choice *c) {
    for (uint32_t k = 0; k < count; k++)
        if (hn_cpu_choice_eq(&list[k].choice, c)) return true;
    return false;
}

/* In front of those that are expected to take longer; of equals the first stays. */
static void keep(hn_cpu_variant *list, uint32_t *count, hn_cpu_variant v) {
    uint32_t at = (*count)++;
    for (; at > 0 && list[at - 1].ns > v.ns; at--) list[at] = list[at - 1];
    list[at] = v;
}

hn_status hn_cpu_variants(const hn_program *program, const hn_kernel *kernel, uint32_t vector_bytes,
                          const hn_cpu_facts *facts, uint32_t threads, hn_arena *scratch,
                          hn_cpu_variant out[HN_CPU_CHOICES_MAX], uint32_t *out_count) {
    hn_cpu_choice choices[HN_CPU_CHOICES_MAX];
    hn_cpu_plan *plan;
    HN_TRY(hn_cpu_plan_begin(program, kernel, vector_bytes, facts, scratch, &plan));
    const uint32_t count = hn_cpu_choices_list(plan, choices);
    *out_count = 0;
    for (uint32_t k = 0; k < count; k++) {
        HN_TRY(hn_cpu_plan_begin(program, kernel, vector_bytes, facts, scratch, &plan));
        HN_TRY(hn_cpu_plan_complete_as(plan, &choices[k]));
        const hn_cpu_variant v = {.choice = hn_cpu_choice_of(plan),
                                  .ns = hn_cpu_predicted_ns(plan, threads)};
        if (!is_listed(out, *out_count, &v.choice)) keep(out, out_count, v);
    }
    return NULL;
}

hn_status hn_form_plan_cpu(const hn_program *program, const hn_kernel *kernel,
                           uint32_t vector_bytes, const hn_cpu_facts *facts, hn_arena *arena,
                           hn_arena *scratch, hn_form **out) {
    uint32_t count;
    return hn_form_plans_cpu(program, kernel, vector_bytes, facts, 1, arena, scratch, out, &count);
}
