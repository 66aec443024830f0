/* ext_matmul.c: HN_EXTERN_MATMUL of floats: a constant b is packed once for the module. */
#include "runtime/ext_matmul.h"

#include "henry/tensor.h"
#include "runtime/ext_gemm.h"
#include "runtime/ext_pack_cache.h"

#include <stdlib.h>
#include <string.h>

enum { OUT = 0, A = 1, B = 2, BIAS = 3, OPERANDS = 4 };

typedef struct matmul_state {
    hn_ext_gemm gemm;
    const float *packed_b; /* of the module; NULL: b is an operand of run */
} matmul_state;

static bool is_supported(const hn_ext_call *call) {
    for (int i = 0; i < BIAS; i++)
        if (call->dtypes[i] != HN_F32) return false;
    return call->dtypes[BIAS] == HN_F32 || call->dtypes[BIAS] == HN_NO_TYPE;
}

/* Element counts of all three matrices stay far below what overflows. */
static bool is_small_enough(const hn_ext_gemm *g) {
    const double most = 0x1p58;
    double batch = 1;
    for (int d = 0; d < HN_EXTERN_BATCH; d++) batch *= (double)g->batch[d] + 1;
    return batch * ((double)g->m + 64) * ((double)g->k + 1) < most && batch * ((double)g->n + 64) * ((double)g->k + 1) < most &&
           batch * (double)g->m * (double)g->n < most;
}

static hn_ext_gemm describe(const hn_ext_call *call) {
    const int64_t *p = call->params;
    hn_ext_gemm g = {.m = p[HN_MATMUL_M], .n = p[HN_MATMUL_N], .k = p[HN_MATMUL_K], .threads = call->threads,
                     .has_bias = call->dtypes[BIAS] != HN_NO_TYPE, .epilogue = (hn_epilogue)p[HN_MATMUL_EPILOGUE]};
    memcpy(g.batch, p + HN_MATMUL_BATCH, sizeof g.batch);
    memcpy(g.a, p + HN_MATMUL_A, sizeof g.a);
    memcpy(g.b, p + HN_MATMUL_B, sizeof g.b);
    memcpy(g.out, p + HN_MATMUL_OUT, sizeof g.out);
    if (g.has_bias) memcpy(g.bias, p + HN_MATMUL_BIAS, sizeof g.bias);
    bool empty = g.m == 0 || g.n == 0 || g.k == 0;
    for (int d = 0; d < HN_EXTERN_BATCH; d++) empty |= g.batch[d] == 0;
    g.prepack_b = call->is_constant[B] && call->operands[B] && p[HN_MATMUL_B_CONSTANT] && g.n > 1 && !empty;
    return g;
}

typedef struct pack_job {
    const hn_ext_gemm *gemm;
    const float *b;
} pack_job;

static void fill_packed(void *user, void *memory) {
    const pack_job *job = user;
    hn_ext_gemm_pack_b(job->gemm, job->b, memory);
}

static hn_status pack_weights(hn_ext_call *call, matmul_state *s) {
    const hn_ext_gemm *g = &s->gemm;
    hn_ext_pack_key key = {.words = {HN_EXT_PACK_GEMM_B, (int64_t)(intptr_t)call->operands[B], g->n, g->k, g->b[4], g->b[5],
                                     g->kernels->tile_cols}};
    for (int d = 0; d < HN_EXTERN_BATCH; d++)
        key.words[8 + d] = g->packed_batch[d] ? g->batch[d] : 1, key.words[12 + d] = g->packed_batch[d] ? g->b[d] : 0;
    void *packed = NULL;
    HN_TRY(hn_ext_pack_get(call, &key, hn_ext_gemm_packed_bytes(g), fill_packed,
                           &(pack_job){.gemm = g, .b = call->operands[B]}, &packed));
    s->packed_b = packed;
    return NULL;
}

static hn_status matmul_prepare(hn_ext_call *call) {
    if (!is_supported(call)) return HN_ERROR(HN_UNSUPPORTED, "blocked matmul is for f32");
    hn_ext_gemm g = describe(call);
    if (!is_small_enough(&g)) return HN_ERROR(HN_INVALID_ARGUMENT, "matmul is too large");
    matmul_state *s = malloc(sizeof *s);
    if (!s) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a matmul");
    *s = (matmul_state){.gemm = g};
    hn_ext_gemm_plan(&s->gemm);
    hn_status status = g.prepack_b ? pack_weights(call, s) : NULL;
    if (status) {
        free(s);
        return status;
    }
    call->state = s;
    call->scratch_bytes = hn_ext_gemm_scratch_bytes(&s->gemm);
    return NULL;
}

static hn_status matmul_run(const hn_ext_call *call, void *scratch) {
    const matmul_state *s = call->state;
    const float *b = s->packed_b ? s->packed_b : call->operands[B];
    hn_ext_gemm_run(&s->gemm, call->operands[OUT], call->operands[A], b, s->gemm.has_bias ? call->operands[BIAS] : NULL, scratch);
    return NULL;
}

static void state_free(hn_ext_call *call) {
    free(call->state);
    call->state = NULL;
}

const hn_ext_impl hn_ext_matmul_f32 = {.name = "gemm", .prepare = matmul_prepare, .run = matmul_run, .release = state_free};
