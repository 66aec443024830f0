/* graph_run.c: see the header. */
#include "opencl/graph_run.h"

#include "base/map.h"
#include "codegen/codegen.h"
#include "kernel/plan_gpu.h"

#include <string.h>

typedef struct runner {
    opencl_host *host;
    hn_target target;
    hn_target_kind kind; /* the target's, perhaps with other facts */
    hn_arena *arena, scratch;
    hn_program *p;
    hn_schedule schedule;
    hn_kernel_code *codes; /* per step of the schedule */
    struct {
        const hn_kernel_code **items;
        uint32_t count, cap;
    } unique; /* one a distinct text */
    opencl_program *program;
    hn_program_run run;
    graph_how how;
    graph_counts counts;
} runner;

/* ---- compiling ---- */

static bool reduces(const hn_kernel *k) {
    for (uint32_t f = 0; f < k->phases.count; f++)
        if (k->phases.items[f].reduces.count && !k->phases.items[f].scan) return true;
    return false;
}

/* Whether threads of a group combine registers. */
static bool adds_together(const hn_form *f) {
    bool meets = false;
    for (hn_fid s = 1; s < f->stmts.count; s++) meets |= f->stmts.items[s].kind == HN_FORM_ACROSS;
    return meets && f->threads > 1;
}

static hn_status plan(runner *r, const hn_kernel *kernel, hn_form **out) {
    hn_form *plans[HN_GPU_PLANS_MAX];
    uint32_t count = 0, most = r->how.any_plan ? HN_GPU_PLANS_MAX : 1;
    HN_TRY(
        hn_form_plans_gpu(r->p, kernel, r->target.gpu, most, r->arena, &r->scratch, plans, &count));
    if (!count) return HN_ERROR(HN_INTERNAL, "the planner offers nothing");
    *out = plans[r->how.any_plan ? r->how.choice++ % count : 0];
    hn_arena_reset(&r->scratch);
    return NULL;
}

static hn_status print_kernel(runner *r, const hn_kernel *kernel, hn_kernel_code *out) {
    hn_form *form = NULL;
    HN_TRY(plan(r, kernel, &form));
    r->counts.kernels++;
    r->counts.reductions += reduces(kernel);
    r->counts.together += reduces(kernel) && adds_together(form);
    hn_status status = hn_target_print_form(&r->target, form, r->arena, &r->scratch, out);
    hn_arena_reset(&r->scratch);
    return status;
}

/* The kernel that the target has for a call; what it lacks the interpreter does. */
static hn_status print_operation(const runner *r, hn_item item, hn_kernel_code *out) {
    const hn_extern *call = r->p->items.items[item].ext;
    return r->kind.operation && hn_operation_of(r->kind.limits->operations, r->p, call)
               ? r->kind.operation(r->p, call, r->arena, out)
               : NULL;
}

/* The kernels of a step that no other step has. */
static hn_status add_different(runner *r, const hn_kernel_code *first, hn_strmap *known) {
    for (const hn_kernel_code *code = first; code && code->text.ptr; code = code->next) {
        hn_str key = {(const char *)code->digest.bytes, sizeof code->digest.bytes};
        if (hn_strmap_get(known, key)) continue;
        HN_TRY(hn_strmap_put(known, key, 1));
        HN_PUSH(r->arena, &r->unique, code);
    }
    return NULL;
}

/* Every kernel, and of equal ones the first. */
static hn_status print_kernels(runner *r) {
    hn_strmap known;
    hn_strmap_init(&known, r->arena);
    for (uint32_t k = 0; k < r->schedule.steps.count; k++) {
        const hn_step *step = &r->schedule.steps.items[k];
        if (step->kind == HN_STEP_EXTERN) HN_TRY(print_operation(r, step->item, &r->codes[k]));
        else if (step->kind == HN_STEP_KERNEL) HN_TRY(print_kernel(r, step->kernel, &r->codes[k]));
        r->counts.calls += step->kind == HN_STEP_EXTERN && !r->codes[k].text.ptr;
        HN_TRY(add_different(r, &r->codes[k], &known));
    }
    return NULL;
}

static hn_status compile(runner *r, hn_graph *graph) {
    const hn_sched_options sched = {.threads = hn_target_threads(&r->target, 1),
                                    .limits = r->kind.limits,
                                    .no_fusion = r->how.no_fusion,
                                    .deterministic = r->how.deterministic};
    HN_TRY(hn_program_of_graph(graph, r->arena, &r->p));
    HN_TRY(hn_schedule_program(r->p, &sched, r->arena, &r->scratch, &r->schedule));
    hn_arena_reset(&r->scratch);
    HN_NEW(r->arena, r->codes, r->schedule.steps.count);
    HN_TRY(print_kernels(r));
    r->counts.different += r->unique.count;
    return r->unique.count ? kernel_build(r->host, r->unique.items, r->unique.count, &r->program)
                           : NULL;
}

/* ---- memory ---- */

/* All of a buffer's elements. */
static hn_ref_tensor elements_of(const hn_ref_buffer *b) {
    hn_ref_tensor t = {.dtype = b->dtype, .rank = 1, .sizes = {b->elems}, .numel = b->elems};
    if (hn_dtype_is_float(b->dtype)) t.data.f = &b->items->f;
    else t.data.i = &b->items->i;
    return t;
}

static hn_status pack(hn_arena *arena, const hn_ref_buffer *b, kernel_memory *out) {
    size_t size = hn_dtype_facts(b->dtype)->size_bytes;
    const hn_ref_tensor t = elements_of(b);
    out->size = (size_t)b->elems * size;
    HN_TRY(hn_arena_array(arena, out->size + 1, 1, &out->bytes));
    hn_ref_tensor_store(&t, out->bytes);
    for (int64_t k = 0; k < b->elems; k++)
        if (!b->is_set[k]) memset((char *)out->bytes + (size_t)k * size, 0xff, size);
    return NULL;
}

static hn_status unpack(hn_arena *arena, const kernel_memory *memory, hn_ref_buffer *b) {
    hn_ref_tensor t;
    HN_TRY(hn_ref_tensor_load(arena, b->dtype, 1, &b->elems, NULL, memory->bytes, &t));
    for (int64_t k = 0; k < b->elems; k++) b->items[k] = hn_ref_get(&t, k), b->is_set[k] = true;
    return NULL;
}

/* Of the kernels of an operation; as the one of buffer 0, with garbage in it. */
static hn_status add_workspace(const hn_program *p, const hn_kernel_code *code,
                               const hn_ref_sizes *sizes, hn_arena *scratch, kernel_memory *out) {
    int64_t bytes;
    if (!code->workspace_bytes) return NULL;
    if (!hn_sym_eval(p->sym, code->workspace_bytes, sizes->symbols, sizes->values, sizes->count,
                     &bytes))
        return HN_ERROR(HN_INTERNAL, "nobody knows how large a workspace is");
    out->size = (size_t)bytes;
    HN_TRY(hn_arena_array(scratch, out->size + 1, 1, &out->bytes));
    memset(out->bytes, 0xa5, out->size);
    return NULL;
}

/* One kernel on buffers of elements. An index that is outside is the error of kernel_run. */
static hn_status run_code(opencl_program *program, const hn_kernel_code *code, const hn_program *p,
                          const hn_ref_sizes *sizes, hn_ref_buffer *buffers,
                          kernel_memory *memories, hn_arena *scratch) {
    for (uint32_t k = 0; k < code->buffer_count; k++) {
        hn_buf b = code->buffers[k];
        if (!b) continue; /* an operand that a call does not have */
        if (!buffers[b].items) return HN_ERROR(HN_INTERNAL, "buffer b%u has no memory", b);
        if (!memories[b].bytes) HN_TRY(pack(scratch, &buffers[b], &memories[b]));
    }
    HN_TRY(kernel_run(program, code,
                      &(kernel_env){p, memories, sizes->symbols, sizes->values, sizes->count}));
    for (uint32_t k = 0; k < code->buffer_count; k++)
        if (code->written[k] && code->buffers[k])
            HN_TRY(unpack(scratch, &memories[code->buffers[k]], &buffers[code->buffers[k]]));
    return NULL;
}

/* ---- running ---- */

static hn_status run_step(runner *r, uint32_t k) {
    const hn_step *step = &r->schedule.steps.items[k];
    const hn_ref_sizes sizes = hn_program_run_sizes(&r->run);
    if (!r->codes[k].text.ptr) return hn_program_run_item(&r->run, step->item);
    if (!hn_program_run_is_active(&r->run)) return NULL;
    hn_arena_reset(&r->scratch);
    kernel_memory *memories;
    HN_NEW(&r->scratch, memories, r->p->buffers.count);
    HN_TRY(add_workspace(r->p, &r->codes[k], &sizes, &r->scratch, &memories[0]));
    for (const hn_kernel_code *code = &r->codes[k]; code; code = code->next)
        HN_TRY(run_code(r->program, code, r->p, &sizes, r->run.buffers, memories, &r->scratch));
    return NULL;
}

static hn_status choose_target(runner *r) {
    HN_TRY(kernel_target(&r->target));
    r->kind = *r->target.kind;
    if (r->how.facts) r->target.gpu = r->how.facts, r->kind.limits = &r->how.facts->limits;
    r->target.kind = &r->kind;
    return NULL;
}

static hn_status run_all(runner *r, hn_graph *graph, const hn_ref_tensor *inputs,
                         uint32_t input_count, hn_ref_tensor *out_outputs) {
    HN_TRY(choose_target(r));
    HN_TRY(compile(r, graph));
    HN_TRY(hn_program_run_begin(r->arena, r->p, graph, inputs, input_count, &r->run));
    for (uint32_t k = 0; k < r->schedule.steps.count; k++) HN_TRY(run_step(r, k));
    return hn_program_run_outputs(&r->run, out_outputs);
}

hn_status graph_run(opencl_host *host, hn_arena *arena, hn_graph *graph, const graph_how *how,
                    const hn_ref_tensor *inputs, uint32_t input_count, hn_ref_tensor *out_outputs,
                    graph_counts *counts) {
    runner r = {.host = host, .arena = arena, .how = *how};
    if (counts) r.counts = *counts;
    hn_arena_init(&r.scratch);
    hn_status status = run_all(&r, graph, inputs, input_count, out_outputs);
    if (counts) *counts = r.counts;
    opencl_program_free(r.program);
    hn_arena_deinit(&r.scratch);
    return status;
}
