/* grouped.c: HN_EXTERN_GROUPED_MATMUL: rows sorted by group, each group with a matrix of its own
 * (the experts of a mixture).
 *
 * How many rows a group has is known in the run only, so a group's product is bound then, as a
 * matmul of its own: it takes the way that suits its rows, and a constant matrix is packed for the
 * module at its second use, those of groups without rows never. Binding takes two small allocations
 * for each group with rows. The work space is what a product of all rows needs with a matrix that
 * changes; where one group needs more (the first use of a constant matrix can), it is allocated. */
#include "ops/cpu/gemm/grouped.h"

#include "henry/tensor.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { OUT = 0, A = 1, B = 2, ENDS = 3, ROW = HN_EXTERN_BATCH, COL = HN_EXTERN_BATCH + 1 };

/* The product of `rows` rows from row `first` on with matrix `group`. */
typedef struct part {
    hn_ext_call call;
    int64_t params[HN_MATMUL_PARAM_COUNT];
} part;

static char *element(const hn_ext_call *call, int operand, int64_t at) {
    char *base = call->operands[operand];
    return base ? base + at * (int64_t)hn_scalar_type_bytes((hn_scalar_type)call->dtypes[operand])
                : NULL;
}

static hn_status part_prepare(const hn_ext_call *call, int64_t group, int64_t rows, part *out) {
    const int64_t *p = call->params;
    *out = (part){.call = {.kind = HN_EXTERN_MATMUL,
                           .param_count = HN_MATMUL_PARAM_COUNT,
                           .threads = call->threads,
                           .team = call->team,
                           .shared = call->shared}};
    for (int i = OUT; i <= B; i++) out->call.dtypes[i] = call->dtypes[i];
    out->call.is_constant[B] = call->is_constant[B] && call->operands[B];
    if (out->call.is_constant[B]) out->call.operands[B] = element(call, B, group * p[HN_GROUPED_B]);
    for (int d = 0; d < HN_EXTERN_BATCH; d++) out->params[HN_MATMUL_BATCH + d] = 1;
    out->params[HN_MATMUL_M] = rows, out->params[HN_MATMUL_N] = p[HN_GROUPED_N],
    out->params[HN_MATMUL_K] = p[HN_GROUPED_K];
    memcpy(out->params + HN_MATMUL_A + ROW, p + HN_GROUPED_A, 2 * sizeof *p);
    memcpy(out->params + HN_MATMUL_B + ROW, p + HN_GROUPED_B + 1, 2 * sizeof *p);
    out->params[HN_MATMUL_OUT + ROW] = p[HN_GROUPED_N], out->params[HN_MATMUL_OUT + COL] = 1;
    out->params[HN_MATMUL_B_CONSTANT] = p[HN_GROUPED_B_CONSTANT];
    out->call.params = out->params;
    return hn_ext_prepare(&out->call);
}

static hn_status part_run(const hn_ext_call *call, part *x, int64_t group, int64_t first,
                          void *scratch) {
    void *own = NULL;
    x->call.operands[OUT] = element(call, OUT, first * call->params[HN_GROUPED_N]);
    x->call.operands[A] = element(call, A, first * call->params[HN_GROUPED_A]);
    x->call.operands[B] = element(call, B, group * call->params[HN_GROUPED_B]);
    if (x->call.scratch_bytes > call->scratch_bytes) {
        if (x->call.scratch_bytes > SIZE_MAX - 63 ||
            !(own = aligned_alloc(64, (x->call.scratch_bytes + 63) / 64 * 64)))
            return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for %zu bytes of work space",
                            x->call.scratch_bytes);
        scratch = own;
    }
    hn_status status = hn_ext_run(&x->call, scratch);
    free(own);
    return status;
}

static hn_status run_group(const hn_ext_call *call, int64_t group, int64_t first, int64_t rows,
                           void *scratch) {
    part x;
    HN_TRY(part_prepare(call, group, rows, &x));
    hn_status status = part_run(call, &x, group, first, scratch);
    hn_ext_release(&x.call);
    return status;
}

/* Before anything is written. */
static hn_status check_ends(const int64_t *ends, int64_t groups, int64_t m) {
    for (int64_t g = 0, begin = 0; g < groups; begin = ends[g++])
        if (ends[g] < begin || ends[g] > m)
            return HN_ERROR(HN_INVALID_ARGUMENT,
                            "group %" PRId64 " ends at row %" PRId64 ", must end in [%" PRId64
                            ", %" PRId64 "]",
                            g, ends[g], begin, m);
    return NULL;
}

static hn_status grouped_run(const hn_ext_call *call, void *scratch) {
    const int64_t *p = call->params, *ends = call->operands[ENDS], m = p[HN_GROUPED_M],
                  n = p[HN_GROUPED_N];
    const size_t row_bytes = (size_t)n * hn_scalar_type_bytes((hn_scalar_type)call->dtypes[OUT]);
    int64_t first = 0;
    HN_TRY(check_ends(ends, p[HN_GROUPED_GROUPS], m));
    if (m == 0 || n == 0) return NULL;
    for (int64_t g = 0; g < p[HN_GROUPED_GROUPS]; first = ends[g++])
        if (ends[g] > first) HN_TRY(run_group(call, g, first, ends[g] - first, scratch));
    if (first < m)
        memset((char *)call->operands[OUT] + (size_t)first * row_bytes, 0,
               (size_t)(m - first) * row_bytes);
    return NULL;
}

static hn_status grouped_prepare(hn_ext_call *call) {
    hn_ext_call inner = *call;
    part all;
    /* As for a matrix that changes: a constant one would be packed here, whether it is used or
     * not. */
    inner.is_constant[B] = false;
    HN_TRY(part_prepare(&inner, 0, call->params[HN_GROUPED_M], &all));
    call->scratch_bytes = all.call.scratch_bytes;
    hn_ext_release(&all.call);
    return NULL;
}

const hn_ext_impl hn_ext_grouped_matmul = {
    .name = "grouped matmul", .prepare = grouped_prepare, .run = grouped_run};
