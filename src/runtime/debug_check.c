/* debug_check.c: CHECK: which element is the fault of which step. */
#include "runtime/debug.h"

#include "runtime/tensor_stats.h"

#include <math.h>

bool hn_debug_has_bad(hn_scalar_type type) {
    return type == HN_F64 || type == HN_F32 || type == HN_F16 || type == HN_BF16;
}

static bool is_bad(const hn_debug *d, const hn_tensor_stats *s) {
    return (s->nan_count && !d->options.ignore_nan) || (s->inf_count && !d->options.ignore_inf);
}

bool hn_debug_check_reads(const hn_debug *d, const hn_tensor_stats *s, bool has_before) {
    const bool is_ignored =
        isnan(s->first_bad_value) ? d->options.ignore_nan : d->options.ignore_inf;
    return is_bad(d, s) && (has_before || is_ignored);
}

/* The first element that is bad, in row-major order, and that is not as it was `before`, which may
 * be NULL; -1: there is none. Slow, and asked only when there are bad ones. */
static int64_t find_bad(const hn_debug *d, const hn_debug_tensor *t, const uint8_t *before,
                        double *out_value) {
    const hn_step_operand *o = t->operand;
    const size_t bytes = hn_scalar_type_bytes(o->type);
    for (int64_t k = 0; k < t->seen->stats.count; k++) {
        int64_t rest = k, offset = 0;
        hn_tensor_stats one;
        for (uint32_t i = o->rank; i-- > 0; rest /= o->sizes[i])
            offset += rest % o->sizes[i] * o->strides[i];
        offset *= (int64_t)bytes;
        const uint8_t *at = (const uint8_t *)t->data + offset;
        if (before && memcmp(at, before + offset, bytes) == 0) continue;
        hn_tensor_stats_get(&(hn_stats_tensor){.type = o->type, .data = at}, NULL, 1, &one);
        *out_value = one.first_bad_value;
        if (is_bad(d, &one)) return k;
    }
    return -1;
}

/* What the step has to do with the bad element. */
static const char *verb_of(const hn_debug_tensor *t, bool is_old) {
    if (t->when != HN_DEBUG_AFTER) return "is given";
    return is_old ? "or an earlier step has written" : "has written";
}

static hn_status check_error(const hn_debug_tensor *t, int64_t index, double value, bool is_old) {
    const hn_tensor_stats *s = &t->seen->stats;
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_debug_print_name(t->operand, &text);
    hn_strbuf_puts(&text, " at ");
    hn_debug_print_index(t->operand, index, &text);
    hn_status status = HN_ERROR(
        HN_INVALID_ARGUMENT,
        "'%s' (step %u of %s %llu) %s %g %s %s: of %lld elements (%s) %lld are NaN and %lld infinite",
        t->step->name, t->step->index, *t->step->program ? t->step->program : "call",
        (unsigned long long)t->call, verb_of(t, is_old), isnan(value) ? (double)NAN : value,
        t->when == HN_DEBUG_AFTER ? "to" : "in", hn_strbuf_str(&text).ptr, (long long)s->count,
        hn_scalar_type_name(t->operand->type), (long long)s->nan_count, (long long)s->inf_count);
    hn_strbuf_deinit(&text);
    return status;
}

/* Of a tensor that several steps write, an element that the step has changed is the step's. When
 * all parts are written the others count, too: the memory may have had the same bits before. */
hn_status hn_debug_check(const hn_debug *d, const hn_debug_tensor *t, const void *before) {
    const hn_tensor_stats *s = &t->seen->stats;
    double value = s->first_bad_value;
    bool is_old = false;
    if (!is_bad(d, s)) return NULL;
    int64_t index = s->first_bad;
    if (hn_debug_check_reads(d, s, before != NULL)) index = find_bad(d, t, before, &value);
    if (index < 0 && before && !t->operand->is_partial) {
        index = find_bad(d, t, NULL, &value);
        is_old = true;
    }
    return index < 0 ? NULL : check_error(t, index, value, is_old);
}
