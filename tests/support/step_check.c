/* step_check.c: see the header. */
#include "tests/support/step_check.h"

#include "base/hash.h"

#include <inttypes.h>
#include <stdlib.h>

/* The memory of an operand. */
typedef struct span {
    const uint8_t *begin;
    size_t len;
    bool is_written;
    uint64_t hash; /* before the step */
} span;

static size_t extent_of(const hn_step_operand *o) {
    int64_t last = 1;
    for (uint32_t d = 0; d < o->rank; d++) {
        if (o->sizes[d] == 0) return 0;
        last += (o->sizes[d] - 1) * o->strides[d];
    }
    return (size_t)last * hn_scalar_type_bytes(o->type);
}

/* Wherever the memory is. */
static hn_status hash_of(const hn_step_info *step, uint32_t k, span *out) {
    void *copy = malloc(out->len);
    if (!copy) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory");
    hn_status status = hn_step_operand_read(step, k, copy, out->len);
    if (!status) out->hash = hn_hash64(copy, out->len, 0);
    free(copy);
    return status;
}

static hn_status span_of(const hn_step_info *step, uint32_t k, bool reads, span *out) {
    hn_step_operand o;
    HN_TRY(hn_step_operand_get(step, k, &o));
    *out = (span){.is_written = o.is_written};
    if (!o.buffer)
        return step->kind == HN_MODULE_STEP_EXTERN
                   ? NULL
                   : HN_ERROR(HN_INTERNAL, "operand %u of step %u is absent", k, step->index);
    if (!o.has_shape || !hn_scalar_type_bytes(o.type))
        return HN_ERROR(HN_INTERNAL, "operand %u of step %u is not described", k, step->index);
    out->len = extent_of(&o);
    out->begin = o.data;
    if (reads && out->len && !o.data)
        return HN_ERROR(HN_INTERNAL, "operand %u of step %u has no memory", k, step->index);
    return reads && out->len && !o.is_written ? hash_of(step, k, out) : NULL;
}

static hn_status before(void *user, const hn_step_info *step, uint64_t *note) {
    (void)user;
    span *spans = calloc(step->operand_count + 1u, sizeof *spans);
    hn_status status = spans ? NULL : HN_ERROR(HN_OUT_OF_MEMORY, "out of memory");
    for (uint32_t k = 0; k < step->operand_count && !status; k++)
        status = span_of(step, k, step->kind != HN_MODULE_STEP_LOOP, &spans[k]);
    if (status) free(spans);
    else *note = (uint64_t)(uintptr_t)spans;
    return status;
}

/* Whether the step may have written there: in memory that has no further use a step may put its
 * result. */
static bool is_shared(const span *spans, uint32_t count, const span *of) {
    for (uint32_t k = 0; k < count; k++)
        if (spans[k].is_written && spans[k].begin < of->begin + of->len &&
            of->begin < spans[k].begin + spans[k].len)
            return true;
    return false;
}

static hn_status check(const hn_step_info *step, const span *spans) {
    const bool reads = step->kind != HN_MODULE_STEP_COND && step->kind != HN_MODULE_STEP_LOOP &&
                       step->kind != HN_MODULE_STEP_DEFINE;
    for (uint32_t k = 0; k < step->operand_count; k++) {
        span now;
        HN_TRY(span_of(step, k, reads, &now));
        if (!reads || now.is_written || is_shared(spans, step->operand_count, &spans[k])) continue;
        if (now.begin != spans[k].begin || now.len != spans[k].len || now.hash != spans[k].hash)
            return HN_ERROR(HN_INTERNAL, "step %u has changed its operand %u, which it reads",
                            step->index, k);
    }
    return NULL;
}

static hn_status after(void *user, const hn_step_info *step, uint64_t *note) {
    (void)user;
    span *spans = (span *)(uintptr_t)*note;
    hn_status status = step->has_failed ? NULL : check(step, spans);
    free(spans);
    return status;
}

hn_status hn_test_steps_check(hn_module *module) {
    hn_step_hook hook = {.before = before, .after = after};
    hn_status status = hn_module_hook_remove(module, &hook); /* of an earlier run of this module */
    hn_status_free(status);
    return hn_module_hook_add(module, &hook);
}
