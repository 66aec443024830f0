/* form_run.c: see the header. */
#include "tests/support/form_run.h"

#include "kernel/interp.h"
#include "kernel/traffic.h"
#include "lower/lower.h"
#include "tests/support/random_graph.h"

#include <string.h>

/* A program being run, and what its kernels become. */
typedef struct runner {
    const hn_forms_check *how;
    hn_program_run run;
    hn_arena scratch;
    hn_forms_count count;
} runner;

enum { POINTS_MAX = 1 << 22 };

static hn_status check_fits(const runner *r, const hn_form *f, const hn_gpu_facts *facts) {
    int64_t bytes = 0, elems;
    for (hn_fmem m = 1; m < f->memories.count; m++) {
        const hn_form_memory *memory = &f->memories.items[m];
        if (memory->space != HN_SPACE_SHARED) continue;
        HN_TRY(hn_ref_eval(&r->run.at, memory->elems, &elems));
        bytes += elems * hn_dtype_facts(memory->dtype)->size_bytes;
    }
    if (f->threads / f->blocks > facts->threads_max || f->blocks > facts->blocks_max)
        return HN_ERROR(HN_INTERNAL, "a group of %u threads in %u blocks", f->threads, f->blocks);
    if (bytes > facts->shared_bytes)
        return HN_ERROR(HN_INTERNAL, "%lld bytes of shared memory", (long long)bytes);
    return NULL;
}

/* --- in place --- */

/* Whether the form would find other inputs when it runs again. */
static bool changes_inputs(const hn_form *f) {
    for (hn_fmem m = 1; m < f->memories.count; m++)
        for (hn_fmem e = 1; e < f->memories.count; e++) {
            const hn_form_memory *a = &f->memories.items[m], *b = &f->memories.items[e];
            bool arguments = a->space == HN_SPACE_ARGUMENT && b->space == HN_SPACE_ARGUMENT;
            if (arguments && a->buffer == b->buffer && a->is_written && b->is_read) return true;
        }
    return false;
}

/* Whether what the second run wrote is what is there. Other steps may have written other
 * elements. */
static bool is_same(const hn_ref_buffer *again, const hn_ref_buffer *real) {
    for (int64_t k = 0; k < again->elems; k++) {
        if (!again->is_set[k]) continue;
        if (!real->is_set[k]) return false;
        if (memcmp(&again->items[k], &real->items[k], sizeof again->items[k]) != 0) return false;
    }
    return true;
}

/* Runs a form again that has run, with `to` in the memory of `from`. */
static hn_status run_over(runner *r, const hn_form *f, hn_buf to, hn_buf from) {
    const hn_ref_sizes sizes = hn_program_run_sizes(&r->run);
    const hn_ref_buffer *real = r->run.buffers;
    const int64_t elems = real[from].elems;
    hn_ref_buffer *buffers;
    bool ignored;
    HN_NEW(&r->scratch, buffers, r->run.p->buffers.count);
    memcpy(buffers, real, r->run.p->buffers.count * sizeof *buffers);
    HN_TRY(hn_ref_buffer_init(&r->scratch, real[from].dtype, elems, &buffers[from]));
    HN_TRY(hn_ref_buffer_init(&r->scratch, real[to].dtype, elems, &buffers[to]));
    memcpy(buffers[from].items, real[from].items, (size_t)elems * sizeof *real->items);
    memcpy(buffers[from].is_set, real[from].is_set, (size_t)elems * sizeof *real->is_set);
    buffers[to].items = buffers[from].items;
    HN_TRY(hn_form_run(f, &sizes, buffers, &ignored));
    return is_same(&buffers[to], &real[to])
               ? NULL
               : HN_ERROR(HN_INTERNAL, "b%u over b%u has other elements", to, from);
}

/* The form names the buffers of the first segment: whether another one has this one, too. */
static bool is_in_other_segments(const hn_form *f, hn_buf b) {
    const uint32_t count = hn_form_argument_count(f);
    for (uint32_t s = 1; s < f->segments.count; s++)
        for (uint32_t k = 0; k < count; k++)
            if (f->segments.items[s].buffers[k] == b) return true;
    return false;
}

/* Each argument that may lie where another one does, which no other segment reads. */
static hn_status run_in_place(runner *r, const hn_form *f) {
    const hn_ref_buffer *buffers = r->run.buffers;
    if (changes_inputs(f)) return NULL;
    for (hn_fmem m = 1; m < f->memories.count; m++) {
        const hn_form_memory *to = &f->memories.items[m];
        for (hn_fmem e = 1, k = 0; to->may_alias && e < f->memories.count; e++) {
            const hn_form_memory *from = &f->memories.items[e];
            if (from->space != HN_SPACE_ARGUMENT || !(to->may_alias >> k++ & 1)) continue;
            const hn_ref_buffer *a = &buffers[to->buffer], *b = &buffers[from->buffer];
            if (a->elems != b->elems || a->dtype != b->dtype) continue;
            if (is_in_other_segments(f, from->buffer)) continue;
            HN_TRY(run_over(r, f, to->buffer, from->buffer));
        }
    }
    return NULL;
}

/* A form may read what all rows need before it knows that there are none. */
static bool has_rows(const runner *r, const hn_kernel *kernel) {
    const hn_sym *sym = r->run.p->sym;
    for (uint32_t d = 0; d < kernel->rank; d++)
        if (hn_sym_hint(sym, hn_sym_symbol_extent(sym, kernel->vars[d]), 1) == 0) return false;
    return true;
}

static bool is_right(const runner *r, const hn_kernel *kernel, const hn_traffic *said,
                     const hn_form_moved *moved) {
    if ((r->how->reads_all || !has_rows(r, kernel)) && said->read_bytes < moved->read_bytes)
        return said->written_bytes == moved->written_bytes;
    if (said->is_bound)
        return said->read_bytes >= moved->read_bytes && said->written_bytes >= moved->written_bytes;
    return said->read_bytes == moved->read_bytes && said->written_bytes == moved->written_bytes;
}

/* Traffic is told at the hints of the sizes. */
static bool are_as_hinted(const runner *r) {
    const hn_ref_sizes sizes = hn_program_run_sizes(&r->run);
    for (uint32_t k = 0; k < sizes.count; k++)
        if (hn_sym_hint(r->run.p->sym, sizes.symbols[k], 0) != sizes.values[k]) return false;
    return true;
}

/* What the kernel is said to move is what its form has moved; and without looking at accesses one
 * by one, that or more. */
static hn_status check_traffic(runner *r, const hn_kernel *kernel, const hn_form_moved *moved) {
    for (int by_formula = 0; by_formula < 2 && are_as_hinted(r); by_formula++) {
        int64_t points = by_formula ? 0 : POINTS_MAX;
        hn_traffic said;
        HN_TRY(hn_kernel_traffic(r->run.p, kernel, &r->scratch, &points, &said));
        if (!by_formula) r->count.bounds += said.is_bound;
        if (!is_right(r, kernel, &said, moved))
            return HN_ERROR(HN_INTERNAL,
                            "said to move %s%lld bytes in and %lld out, moved %lld and %lld",
                            said.is_bound ? "at most " : "", (long long)said.read_bytes,
                            (long long)said.written_bytes, (long long)moved->read_bytes,
                            (long long)moved->written_bytes);
    }
    return NULL;
}

static hn_status run_kernel(runner *r, const hn_kernel *kernel) {
    const hn_ref_sizes sizes = hn_program_run_sizes(&r->run);
    hn_form_moved moved;
    bool index_fault;
    hn_form *f;
    r->count.kernels++;
    r->count.of_phases += kernel->phases.count > 1;
    r->count.with_locals += kernel->locals.count > 0;
    hn_arena_reset(&r->scratch);
    HN_TRY(r->how->plan(r->how->context, r->run.p, kernel, r->run.arena, &r->scratch, &f));
    if (r->how->facts) HN_TRY(check_fits(r, f, r->how->facts));
    if (!hn_program_run_is_active(&r->run)) return NULL;
    HN_TRY(hn_form_run_counted(f, &sizes, r->run.buffers, &index_fault, &moved));
    HN_TRY(check_traffic(r, kernel, &moved));
    HN_TRY(run_in_place(r, f));
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
    r->count.scatters_selected = p->scatters_selected;
    r->count.cats_cut = p->cats_cut;
    memcpy(r->count.rewrites, schedule.rewrites, sizeof schedule.rewrites);
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
    hn_status status =
        hn_program_run_all(arena, p, graph, inputs, input_count, HN_RUN_OPERATIONS, expected);
    if (status) return hn_status_annotate(status, "interpreter of loops");
    HN_TRY(hn_lower(graph, NULL, arena, &r->scratch, &p));
    hn_arena_reset(&r->scratch);
    HN_TRY(run_scheduled(r, arena, p, graph, inputs, input_count, actual));
    return hn_outputs_compare(actual, expected, tolerance, graph->outputs.count);
}

hn_status hn_check_forms(hn_graph *graph, const hn_ref_tensor *inputs, const double *tolerance,
                         const hn_forms_check *how, hn_forms_count *out) {
    runner r = {.how = how};
    hn_arena arena;
    hn_arena_init(&arena);
    hn_arena_init(&r.scratch);
    hn_status status = check(&r, &arena, graph, inputs, tolerance);
    *out = r.count;
    hn_arena_deinit(&r.scratch);
    hn_arena_deinit(&arena);
    return status;
}
