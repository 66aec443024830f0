/* judge.c: see judge.h. */
#include "reduce/judge.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- inputs --- */

/* In the memory layout that the graph records, where that is known and no elements share a
 * place. */
static bool recorded_strides(const hn_graph *g, const hn_value_info *info, const int64_t *sizes,
                             int64_t *strides) {
    if (!info->strides) return false;
    for (uint32_t d = 0; d < info->rank; d++)
        if (!hn_sym_is_int(g->sym, info->strides[d], &strides[d]) ||
            (strides[d] == 0 && sizes[d] > 1))
            return false;
    return true;
}

static hn_status make_input(const hn_graph *g, const hn_input *input, hn_tensor **out) {
    const hn_value_info *info = hn_graph_value(g, input->value);
    const hn_example *e = input->example;
    int64_t strides[HN_MAX_RANK];
    if (!e)
        return HN_ERROR(HN_INVALID_ARGUMENT, "input '" HN_STR_FMT "' has no value",
                        HN_STR_ARG(input->name));
    hn_tensor_desc desc = {.type = (hn_scalar_type)info->dtype, .rank = e->rank, .sizes = e->sizes};
    if (recorded_strides(g, info, e->sizes, strides)) desc.strides = strides;
    HN_TRY(hn_tensor_create(&desc, out));
    return e->size_bytes ? hn_tensor_copy_in(*out, e->bytes) : NULL;
}

hn_status hn_slice_inputs(const hn_slice *slice, hn_arena *arena, hn_tensor *const **out,
                          uint32_t *out_count) {
    hn_graph *g;
    hn_tensor **tensors;
    hn_status status = NULL;
    HN_TRY(hn_slice_graph(slice, arena, &g));
    *out_count = 0;
    status = hn_arena_array(arena, g->inputs.count + 1u, sizeof *tensors, &tensors);
    for (uint32_t k = 0; k < g->inputs.count && !status; k++)
        if (g->inputs.items[k].kind == HN_INPUT_USER)
            status = make_input(g, &g->inputs.items[k], &tensors[(*out_count)++]);
    *out = tensors;
    hn_graph_deinit(g);
    return status;
}

/* --- outputs --- */

static double largest_of(const hn_ref_tensor *t) {
    double largest = 0;
    for (int64_t k = 0; hn_dtype_is_float(t->dtype) && k < t->numel; k++)
        if (isfinite(t->data.f[k])) largest = fmax(largest, fabs(t->data.f[k]));
    return largest;
}

/* The first element that is not finite and should be; -1: none. */
static int64_t find_not_finite(const hn_ref_tensor *got, const hn_ref_tensor *want) {
    if (!hn_dtype_is_float(got->dtype) || got->numel != want->numel) return -1;
    for (int64_t k = 0; k < got->numel; k++)
        if (!isfinite(got->data.f[k]) && isfinite(want->data.f[k])) return k;
    return -1;
}

static bool is_right(const hn_ref_tensor *got, const hn_ref_tensor *want, const hn_trial_options *o,
                     hn_strbuf *why) {
    const hn_dtype_info *facts = hn_dtype_facts(want->dtype);
    if (o->rtol < 0 && o->atol < 0)
        return hn_ref_compare(got, want, 0, hn_subject_tolerance(want->dtype, largest_of(want)),
                              why);
    return hn_ref_compare(got, want, o->rtol < 0 ? facts->rtol : o->rtol,
                          o->atol < 0 ? facts->atol : o->atol, why);
}

static void note(hn_failure *out, hn_failure_kind kind, uint32_t output, hn_str text) {
    *out = (hn_failure){.kind = kind};
    snprintf(out->text, sizeof out->text, "output %u: " HN_STR_FMT, output, HN_STR_ARG(text));
}

static void judge_one(uint32_t output, const hn_ref_tensor *got, const hn_ref_tensor *want,
                      const hn_trial_options *o, hn_failure *out) {
    char text[100];
    hn_strbuf why;
    const int64_t bad = find_not_finite(got, want);
    if (bad >= 0) {
        snprintf(text, sizeof text, "element %lld of %lld is %g, expected %.9g", (long long)bad,
                 (long long)got->numel, got->data.f[bad], want->data.f[bad]);
        note(out, HN_FAILURE_NOT_FINITE, output, hn_str_of(text));
        return;
    }
    hn_strbuf_init(&why);
    if (!is_right(got, want, o, &why)) note(out, HN_FAILURE_DIFFERS, output, hn_strbuf_str(&why));
    hn_strbuf_deinit(&why);
}

void hn_judge(const hn_results *got, const hn_results *want, const hn_trial_options *options,
              hn_failure *out) {
    for (uint32_t k = 0; k < want->count && k < got->count && !out->kind; k++)
        if (got->items[k].dtype && want->items[k].dtype)
            judge_one(k, &got->items[k], &want->items[k], options, out);
}
