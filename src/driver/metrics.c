/* metrics.c: what a compilation counts, from what it has made: nothing is read back from text. */
#include "driver/driver.h"

#include "base/compiler.h"

/* What of all kernels may be counted one by one (kernel/traffic.h): at 7 instructions an element a
 * tenth of a millisecond, where the smallest compilations take three. */
enum { TRAFFIC_POINTS = 20000 };

static void count(hn_driver *d, hn_metric_id id, int64_t by) {
    hn_metrics_count(&d->metrics, id, by);
}

static void count_phases(hn_driver *d, const hn_kernel *kernel) {
    if (kernel->phases.count > 1) {
        count(d, HN_METRIC_KERNELS_OF_PHASES, 1);
        count(d, HN_METRIC_PHASES, kernel->phases.count);
    }
    for (uint32_t f = 0; f < kernel->phases.count; f++) {
        const hn_kernel_phase *phase = &kernel->phases.items[f];
        count(d, HN_METRIC_REDUCTIONS_MIXED, phase->columns.count);
        for (hn_sid s = 1; s < phase->body.count; s++)
            count(d, HN_METRIC_CASTS, phase->body.items[s].kind == HN_SOP_CAST);
    }
}

static void count_variants(hn_driver *d, const hn_kernel_code *code) {
    count(d, HN_METRIC_KERNELS_PICKED, code->is_picked);
    if (!code->variant_count) return;
    count(d, HN_METRIC_KERNELS_OF_VARIANTS, 1);
    count(d, HN_METRIC_KERNEL_VARIANTS, code->variant_count + 1);
}

static void count_kernel(hn_driver *d, const hn_kernel *kernel, const hn_kernel_code *code,
                         const hn_work_record *work) {
    count(d, HN_METRIC_KERNELS_GENERATED, 1);
    count(d, HN_METRIC_KERNELS_VECTORIZED, code->record.is_vectorized);
    if (kernel->loop_count > 1) count(d, HN_METRIC_LOOPS_FUSED, kernel->loop_count);
    count(d, HN_METRIC_KERNELS_OF_SEGMENTS, kernel->segments.count != 0);
    count(d, HN_METRIC_SEGMENTS, kernel->segments.count);
    count(d, HN_METRIC_LOCAL_BUFFERS, kernel->locals.count);
    count_variants(d, code);
    count(d, HN_METRIC_BYTES_READ, work->traffic.read_bytes);
    count(d, HN_METRIC_BYTES_WRITTEN, work->traffic.written_bytes);
    count(d, HN_METRIC_OPERATIONS, work->operations);
    count(d, HN_METRIC_PREDICTED_NS, (int64_t)code->record.cost.ns);
    count_phases(d, kernel);
}

/* Kernels of equal text and equal buffers do the same: the layers of a model. */
typedef struct known_work {
    hn_strmap steps; /* what tells them from others -> their first step */
    hn_strbuf key;
    int64_t points; /* that traffic may look at, see kernel/traffic.h */
} known_work;

static void put_exprs(hn_strbuf *key, const hn_expr *exprs, uint32_t count) {
    if (count) hn_strbuf_append(key, (const char *)exprs, count * sizeof *exprs);
}

/* Of a buffer, what traffic may depend on (kernel/traffic.c) and the text does not say: of an input
 * its sizes and strides, of others how far they reach, and sizes of the run. */
static void put_buffer(const hn_driver *d, const hn_buffer *b, hn_strbuf *key) {
    const bool is_input = b->kind == HN_BUFFER_INPUT;
    const hn_expr facts[] = {is_input, b->dtype, b->rank, b->extent};
    int64_t known;
    put_exprs(key, facts, HN_COUNT_OF(facts));
    if (is_input || !hn_sym_is_int(d->sym, b->extent, &known)) put_exprs(key, b->sizes, b->rank);
    if (is_input) put_exprs(key, b->strides, b->rank);
}

/* The text, which names buffers and sizes by their positions, and what stands there. */
static void put_key(const hn_driver *d, const hn_kernel_code *code, hn_strbuf *key) {
    hn_strbuf_reset(key);
    hn_strbuf_append(key, (const char *)code->digest.bytes, sizeof code->digest.bytes);
    put_exprs(key, code->sizes, code->size_count);
    put_exprs(key, code->offsets, code->buffer_count);
    for (uint32_t k = 0; k < code->buffer_count; k++)
        put_buffer(d, &d->program->buffers.items[code->buffers[k]], key);
}

static hn_status find_work(hn_driver *d, uint32_t k, known_work *known) {
    const hn_kernel *kernel = d->schedule.steps.items[k].kernel;
    put_key(d, &d->levels[0].step_kernels[k], &known->key);
    HN_TRY(hn_strbuf_status(&known->key));
    const uint64_t *same = hn_strmap_get(&known->steps, hn_strbuf_str(&known->key));
    if (same) {
        d->work[k] = d->work[*same];
        d->work[k].fused_loops = kernel->loop_count;
        return NULL;
    }
    const char *key = hn_arena_strndup(&d->arena, known->key.ptr, known->key.len);
    if (!key) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory while counting kernels");
    HN_TRY(hn_strmap_put(&known->steps, (hn_str){key, known->key.len}, k));
    hn_status status = hn_kernel_record_of(d->program, kernel, &d->arena, &d->scratch,
                                           &known->points, &d->work[k]);
    hn_arena_reset(&d->scratch);
    return status;
}

/* What each step moves and computes, and what the step of a kernel counts. */
static hn_status count_step(hn_driver *d, uint32_t k, known_work *known) {
    const hn_step *step = &d->schedule.steps.items[k];
    hn_work_record *work = &d->work[k];
    count(d, HN_METRIC_STEPS, 1);
    count(d, HN_METRIC_KERNELS_EXTERN, step->kind == HN_STEP_EXTERN);
    if (step->kind == HN_STEP_EXTERN)
        hn_call_record_of(d->program, d->program->items.items[step->item].ext, work);
    if (step->kind != HN_STEP_KERNEL) return NULL;
    HN_TRY(find_work(d, k, known));
    count_kernel(d, step->kernel, &d->levels[0].step_kernels[k], work);
    return NULL;
}

static void count_fusions(hn_driver *d) {
    const hn_schedule *schedule = &d->schedule;
    count(d, HN_METRIC_FUSIONS_REFUSED, schedule->refusals.count);
    for (uint32_t k = 0; k < schedule->refusals.count; k++)
        count(d, HN_METRIC_FUSIONS_FOR_MEMORY,
              schedule->refusals.items[k].why == HN_REFUSED_MEMORY);
    count(d, HN_METRIC_BYTES_SAVED, schedule->saved_bytes);
}

static void count_rewrites(hn_driver *d) {
    const uint32_t *of = d->schedule.rewrites;
    count(d, HN_METRIC_LOOPS_REORDERED,
          (int64_t)of[HN_SCHED_ORDER_LOOP] + of[HN_SCHED_ORDER_KERNEL]);
    count(d, HN_METRIC_KERNELS_MERGED, of[HN_SCHED_MERGE]);
    count(d, HN_METRIC_COMPUTED_AGAIN,
          (int64_t)of[HN_SCHED_PIECES] + of[HN_SCHED_CROSSED] + of[HN_SCHED_REMADE]);
    count(d, HN_METRIC_REDUCTIONS_SPLIT, (int64_t)of[HN_SCHED_SPLIT] + of[HN_SCHED_SCAN]);
}

hn_status hn_driver_count(hn_driver *d) {
    known_work known = {.points = TRAFFIC_POINTS};
    HN_NEW(&d->arena, d->work, d->schedule.steps.count);
    hn_strmap_init(&known.steps, &d->arena);
    hn_strbuf_init(&known.key);
    hn_status status = NULL;
    for (uint32_t k = 0; k < d->schedule.steps.count && !status; k++)
        status = count_step(d, k, &known);
    hn_strbuf_deinit(&known.key);
    if (status) return status;
    count_fusions(d);
    count_rewrites(d);
    hn_driver_weights_count(d);
    count(d, HN_METRIC_SCATTERS_SELECTED, d->program->scatters_selected);
    count(d, HN_METRIC_CATS_CUT, d->program->cats_cut);
    count(d, HN_METRIC_LAYOUTS_PADDED, d->program->layouts_padded);
    count(d, HN_METRIC_NODES_IMPORTED, d->stats.nodes_imported);
    count(d, HN_METRIC_NODES, d->stats.nodes);
    count(d, HN_METRIC_LOOPS, d->stats.loops);
    count(d, HN_METRIC_KERNELS_UNIQUE, d->stats.kernels_unique);
    return NULL;
}

void hn_compiled_count(hn_compiled *c) {
    const hn_compile_stats *s = &c->stats;
    hn_metrics *m = &c->metrics;
    hn_metrics_count(m, HN_METRIC_COMPILATIONS, 1);
    hn_metrics_count(m, HN_METRIC_GRAPH_HITS, s->graph_cache == HN_CACHE_HIT);
    hn_metrics_count(m, HN_METRIC_GRAPH_MISSES, s->graph_cache == HN_CACHE_MISS);
    hn_metrics_count(m, HN_METRIC_GRAPH_REMOTE_HITS, s->graph_remote);
    hn_metrics_count(m, HN_METRIC_KERNELS_COMPILED, s->kernels_compiled);
    hn_metrics_count(m, HN_METRIC_KERNELS_CACHED, s->kernels_cached);
    hn_metrics_count(m, HN_METRIC_KERNELS_REMOTE, s->kernels_remote);
    for (int k = 0; k < HN_BYPASS_COUNT; k++)
        hn_metrics_count(m, HN_METRIC_CACHE_BYPASSES, (int64_t)s->bypasses[k]);
    hn_metrics_count(m, HN_METRIC_COMPILE_NS, s->total_ns);
    hn_metrics_count(m, HN_METRIC_SAVED_NS, s->time_saved_ns);
}

void hn_service_count(hn_service *service, hn_metrics *out) {
    hn_service_stats stats;
    if (!service) return;
    hn_service_stats_get(service, &stats);
    hn_metrics_count(out, HN_METRIC_JOBS, (int64_t)stats.enqueued);
    hn_metrics_count(out, HN_METRIC_JOBS_FAILED, (int64_t)stats.failed);
    hn_metrics_count(out, HN_METRIC_JOBS_CRASHED, (int64_t)stats.crashed);
    hn_metrics_count(out, HN_METRIC_JOBS_TIMED_OUT, (int64_t)stats.timed_out);
}
