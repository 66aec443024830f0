/* steps.c: walking the resolved steps. */
#include "runtime/kernels.h"

#include "base/checked.h"
#include "base/compiler.h"
#include "runtime/index_fault.h"

#include <inttypes.h>

typedef struct chunk_job {
    const hn_run_step *s;
    uint8_t *scratch;
    size_t stride; /* from the scratch memory of one chunk to the next */
    int failed;
} chunk_job;

static void run_chunk(void *context, int k) {
    chunk_job *j = context;
    const hn_run_step *s = j->s;
    const long long chunks = s->chunks, part = s->extent / chunks, more = s->extent % chunks;
    const long long begin = k * part + (k < more ? k : more), end = begin + part + (k < more);
    const int rc = s->fn(s->args, s->params, begin, end, j->scratch + (size_t)k * j->stride);
    if (HN_UNLIKELY(rc)) __atomic_store_n(&j->failed, rc, __ATOMIC_RELAXED);
}

/* There are never more chunks than the module has threads, for which there is scratch memory. */
static int run_parallel(hn_context *c, const hn_run_step *s) {
    chunk_job job = {.s = s, .scratch = c->scratch, .stride = c->bounds[0]->scratch_stride};
    hn_team_run(&c->team, (int)s->chunks, run_chunk, &job);
    return job.failed;
}

static hn_status node_error(const hn_module *m, const hn_run_step *s, uint32_t at, hn_status status) {
    const hnb_origin *origin = &m->view.origins[at];
    const char *node = hn_bundle_text(&m->view, origin->node), *source = hn_bundle_text(&m->view, origin->source);
    if (!*node && !*source) return hn_status_annotate(status, "step %u", s->index);
    return hn_status_annotate(status, "node '%s'%s%s%s", node, *source ? " (" : "", source, *source ? ")" : "");
}

static hn_status step_error(const hn_module *m, const hn_run_step *s, hn_status status) {
    return node_error(m, s, m->view.steps[s->index].origin, status);
}

/* A kernel says that an index was bad, not which: its checks are made again here, one after the other. */
static hn_status kernel_error(const hn_module *m, const hn_context *c, const hn_run_step *s) {
    const hnb_step *step = &m->view.steps[s->index];
    for (uint32_t k = 0; k + HNB_CHECK_PARAMS <= step->param_count; k += HNB_CHECK_PARAMS) {
        hn_index_fault fault;
        if (!hn_index_fault_find(m, c, s, k, &fault)) continue;
        hn_status status = fault.is_found ? HN_ERROR(HN_INVALID_ARGUMENT, "index %" PRId64 "%s%s%s is out of bounds; valid indices are %" PRId64 " to %" PRId64,
                                                     fault.value, *fault.input ? " in input '" : "", fault.input, *fault.input ? "'" : "", fault.lo, fault.hi)
                                          : HN_ERROR(HN_INVALID_ARGUMENT, "an index is out of bounds; valid indices are %" PRId64 " to %" PRId64, fault.lo, fault.hi);
        return node_error(m, s, fault.origin, status);
    }
    return step_error(m, s, HN_ERROR(HN_INVALID_ARGUMENT, "an index is out of bounds"));
}

static hn_status assert_error(const hn_module *m, const hn_run_step *s) {
    const char *text = hn_bundle_text(&m->view, m->view.steps[s->index].text);
    return step_error(m, s, HN_ERROR(HN_INVALID_ARGUMENT, "assertion failed%s%s", *text ? ": " : "", text));
}

static hn_status run_extern(const hn_module *m, const hn_context *c, const hn_run_step *s) {
    for (uint32_t k = 0; k < HN_EXT_MAX_OPERANDS; k++)
        if (s->ext->dtypes[k]) s->ext->operands[k] = s->args[k];
    hn_status status = hn_ext_run(s->ext, s->ext->scratch_bytes ? c->scratch : NULL);
    return HN_UNLIKELY(status != NULL) ? step_error(m, s, status) : NULL;
}

/* The element as int64; what types there may be is checked when the bundle is opened. */
int64_t hn_number_read(const void *element, uint32_t type) {
    int32_t i32;
    int16_t i16;
    int64_t i64;
    switch (type) {
    case HN_I32: memcpy(&i32, element, sizeof i32); return i32;
    case HN_I16: memcpy(&i16, element, sizeof i16); return i16;
    case HN_I8: return *(const int8_t *)element;
    case HN_U8: return *(const uint8_t *)element;
    case HN_BOOL: return *(const uint8_t *)element != 0;
    default: memcpy(&i64, element, sizeof i64); return i64;
    }
}

static hn_status run_define(hn_module *m, hn_context *c, const hn_run_step *s) {
    const hnb_step *step = &m->view.steps[s->index];
    int64_t value = hn_number_read(s->args[0], m->view.operands[step->operands].dtype);
    hn_status status = hn_bound_define(m, c, step->symbol, value);
    return status ? step_error(m, s, status) : NULL;
}

/* The kernel's function, wanted for the first time by this bound. */
static hn_status find_function(hn_module *m, hn_run_step *s) {
    hn_status status = hn_kernels_get(m, m->view.steps[s->index].kernel, &s->fn);
    return status ? step_error(m, s, status) : NULL;
}

static hn_status run_range(hn_module *m, hn_context *c, uint32_t first, uint32_t end);

/* Conditionals nest at most HNB_MAX_COND_DEPTH deep. */
static hn_status run_branch(hn_module *m, hn_context *c, const hn_run_step *s) {
    const uint32_t first = s->index + 1, otherwise = first + s->then_count;
    const bool taken = *(const uint8_t *)s->args[0] != 0;
    return taken ? run_range(m, c, first, otherwise)
                 : run_range(m, c, otherwise, first + s->body_count);
}

static inline hn_status run_step(hn_module *m, hn_context *c, hn_run_step *s) {
    int rc;
    switch (s->kind) {
    case HNB_STEP_KERNEL:
        if (s->extent == 0) return NULL;
        if (HN_UNLIKELY(!s->fn)) HN_TRY(find_function(m, s));
        rc = s->chunks > 1 ? run_parallel(c, s) : s->fn(s->args, s->params, 0, s->extent, c->scratch);
        return HN_LIKELY(rc == 0) ? NULL : kernel_error(m, c, s);
    case HNB_STEP_EXTERN: return run_extern(m, c, s);
    case HNB_STEP_COPY:
        if (s->bytes) memmove(s->args[0], s->args[1], s->bytes); /* of no bytes, either may be NULL */
        return NULL;
    case HNB_STEP_ASSERT: return *(const uint8_t *)s->args[0] ? NULL : assert_error(m, s);
    case HNB_STEP_COND: return run_branch(m, c, s);
    case HNB_STEP_DEFINE: return run_define(m, c, s);
    default: return HN_ERROR(HN_INTERNAL, "step of kind %u", s->kind);
    }
}

static hn_status run_hooked(hn_module *m, hn_context *c, hn_run_step *s) {
    hn_step_run run;
    hn_status status = hn_hooks_before(m, c, s, &run);
    status = status ? step_error(m, s, status) : run_step(m, c, s);
    hn_status after = hn_hooks_after(&run, status != NULL);
    if (!after || status) {
        hn_status_free(after);
        return status;
    }
    return step_error(m, s, after);
}

/* Steps [first, end). */
static hn_status run_range(hn_module *m, hn_context *c, uint32_t first, uint32_t end) {
    hn_run_step *steps = c->bounds[0]->steps;
    const bool is_hooked = c->hooks.count != 0;
    for (uint32_t k = first; k < end; k += 1 + steps[k].body_count) {
        hn_run_step *s = &steps[k];
        if (HN_UNLIKELY(c->cancel != NULL) && hn_cancel_is_set(c->cancel))
            return step_error(m, s, HN_ERROR(HN_CANCELLED, "the run was cancelled before this step"));
        HN_TRY(HN_UNLIKELY(is_hooked) ? run_hooked(m, c, s) : run_step(m, c, s));
    }
    return NULL;
}

hn_status hn_steps_run(hn_module *m, hn_context *c) {
    hn_bound *bound = c->bounds[0];
    for (uint32_t k = 0; k < bound->io_patches.count; k++) {
        const hn_run_patch *patch = &bound->io_patches.items[k];
        *patch->slot = hn_address(c->io[patch->io], patch->offset_bytes);
    }
    return run_range(m, c, 0, m->view.steps_count);
}
