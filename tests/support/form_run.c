/* form_run.c: see the header. */
#include "tests/support/form_run.h"

#include "kernel/interp.h"
#include "lower/lower.h"
#include "tests/support/random_graph.h"

/* A program being run, and what its kernels become. */
typedef struct runner {
    const hn_forms_check *how;
    hn_program_run run;
    hn_arena scratch;
    uint32_t kernels;
} runner;

static hn_status check_fits(const runner *r, const hn_form *f, const hn_gpu_facts *facts) {
    int64_t bytes = 0, elems;
    for (hn_fmem m = 1; m < f->memories.count; m++) {
        const hn_form_memory *memory = &f->memories.items[m];
        if (memory->space != HN_SPACE_SHARED) continue;
        HN_TRY(hn_ref_eval(&r->run.at, memory->elems, &elems));
        bytes += elems * hn_dtype_facts(memory->dtype)->size_bytes;
    }
    if (f->threads > facts->threads_max)
        return HN_ERROR(HN_INTERNAL, "a group of %u threads", f->threads);
    if (bytes > facts->shared_bytes)
        return HN_ERROR(HN_INTERNAL, "%lld bytes of shared memory", (long long)bytes);
    return NULL;
}

static hn_status run_kernel(runner *r, const hn_kernel *kernel) {
    const hn_ref_sizes sizes = hn_program_run_sizes(&r->run);
    bool index_fault;
    hn_form *f;
    r->kernels++;
    hn_arena_reset(&r->scratch);
    HN_TRY(r->how->plan(r->how->context, r->run.p, kernel, r->run.arena, &r->scratch, &f));
    if (r->how->facts) HN_TRY(check_fits(r, f, r->how->facts));
    if (!hn_program_run_is_active(&r->run)) return NULL;
    HN_TRY(hn_form_run(f, &sizes, r->run.buffers, &index_fault));
    return index_fault ? HN_ERROR(HN_INTERNAL, "a checked index is outside") : NULL;
}

static hn_status run_steps(runner *r, const hn_schedule *schedule) {
    for (uint32_t k = 0; k < schedule->steps.count; k++) {
        const hn_step *step = &schedule->steps.items[k];
        bool is_kernel = step->kind == HN_STEP_KERNEL;
        hn_status status =
            is_kernel ? run_kernel(r, step->kernel) : hn_program_run_item(&r->run, step->item);
        if (status) return hn_status_annotate(status, "step %u", k);
    }
    return NULL;
}

static hn_status run_scheduled(runner *r, hn_arena *arena, hn_program *p, hn_graph *graph,
                               const hn_ref_tensor *inputs, uint32_t input_count,
                               hn_ref_tensor *out_outputs) {
    hn_schedule schedule;
    HN_TRY(hn_schedule_program(p, &r->how->schedule, arena, &r->scratch, &schedule));
    HN_TRY(hn_program_run_begin(arena, p, graph, inputs, input_count, &r->run));
    HN_TRY(run_steps(r, &schedule));
    return hn_program_run_outputs(&r->run, out_outputs);
}

/* The program is lowered twice: scheduling takes its loops apart. */
static hn_status check(runner *r, hn_arena *arena, hn_graph *graph, const hn_ref_tensor *inputs,
                       const double *tolerance) {
    hn_ref_tensor expected[HN_RANDOM_MAX_TENSORS], actual[HN_RANDOM_MAX_TENSORS];
    uint32_t input_count = graph->inputs.count; /* folding adds constants to them */
    hn_program *p;
    HN_TRY(hn_program_of_graph(graph, arena, &p));
    hn_status status = hn_program_run_all(arena, p, graph, inputs, input_count, expected);
    if (status) return hn_status_annotate(status, "interpreter of loops");
    HN_TRY(hn_lower(graph, arena, &r->scratch, &p));
    hn_arena_reset(&r->scratch);
    HN_TRY(run_scheduled(r, arena, p, graph, inputs, input_count, actual));
    return hn_outputs_compare(actual, expected, tolerance, graph->outputs.count);
}

hn_status hn_check_forms(hn_graph *graph, const hn_ref_tensor *inputs, const double *tolerance,
                         const hn_forms_check *how, uint32_t *out_kernels) {
    runner r = {.how = how};
    hn_arena arena;
    hn_arena_init(&arena);
    hn_arena_init(&r.scratch);
    hn_status status = check(&r, &arena, graph, inputs, tolerance);
    *out_kernels = r.kernels;
    hn_arena_deinit(&r.scratch);
    hn_arena_deinit(&arena);
    return status;
}
