/* matmul.c: HN_EXTERN_MATMUL of floats: a constant b is packed once for the module.
 *
 * It is packed when it is used for the second time. The first use packs blocks on the way, as for a
 * b that is no constant, with the same result to the bit: a process that runs a model once never
 * holds its weights twice, and need not wait until all of them are copied. What is in a file is
 * read from it then, not through its map: pages that are used once cost more to map and to unmap
 * than to copy. After the second use the original leaves memory when it is in a file. */
#include "ops/cpu/gemm/matmul.h"

#include "henry/tensor.h"
#include "ops/cpu/gemm/gemm.h"
#include "ops/cpu/pack_cache.h"

#include <stdlib.h>
#include <string.h>

enum { OUT = 0, A = 1, B = 2, BIAS = 3, RESIDUAL = 4 };

typedef struct matmul_state {
    hn_ext_gemm gemm;
    const float *packed_b; /* of the module; NULL: b is an operand of run */
    /* Until b is packed. */
    bool is_waiting;
    hn_ext_gemm first;
    hn_ext_pack_key key;
    atomic_bool *seen; /* a run has used b: the next one packs it */
} matmul_state;

static bool is_supported(const hn_ext_call *call) {
    for (int i = 0; i < BIAS; i++)
        if (call->dtypes[i] != HN_F32) return false;
    for (int i = BIAS; i <= RESIDUAL; i++)
        if (call->dtypes[i] != HN_F32 && call->dtypes[i] != HN_NO_TYPE) return false;
    return true;
}

/* Element counts of all three matrices stay far below what overflows. */
static bool is_small_enough(const hn_ext_gemm *g) {
    const double most = 0x1p58;
    double batch = 1;
    for (int d = 0; d < HN_EXTERN_BATCH; d++) batch *= (double)g->batch[d] + 1;
    return batch * ((double)g->m + 64) * ((double)g->k + 1) < most &&
           batch * ((double)g->n + 64) * ((double)g->k + 1) < most &&
           batch * (double)g->m * (double)g->n < most;
}

static hn_ext_gemm describe(const hn_ext_call *call) {
    const int64_t *p = call->params;
    hn_ext_gemm g = {.m = p[HN_MATMUL_M],
                     .n = p[HN_MATMUL_N],
                     .k = p[HN_MATMUL_K],
                     .threads = hn_ext_tasks(call),
                     .form = call->form,
                     .has_bias = call->dtypes[BIAS] != HN_NO_TYPE,
                     .has_residual = call->dtypes[RESIDUAL] != HN_NO_TYPE,
                     .epilogue = (hn_epilogue)p[HN_MATMUL_EPILOGUE]};
    memcpy(g.batch, p + HN_MATMUL_BATCH, sizeof g.batch);
    memcpy(g.a, p + HN_MATMUL_A, sizeof g.a);
    memcpy(g.b, p + HN_MATMUL_B, sizeof g.b);
    memcpy(g.out, p + HN_MATMUL_OUT, sizeof g.out);
    if (g.has_bias) memcpy(g.bias, p + HN_MATMUL_BIAS, sizeof g.bias);
    if (g.has_residual) memcpy(g.residual, p + HN_MATMUL_RESIDUAL, sizeof g.residual);
    bool empty = g.m == 0 || g.n == 0 || g.k == 0;
    for (int d = 0; d < HN_EXTERN_BATCH; d++) empty |= g.batch[d] == 0;
    g.prepack_b = !(call->form && call->form->repacks) && call->is_constant[B] &&
                  call->operands[B] && p[HN_MATMUL_B_CONSTANT] && g.n > 1 && !empty;
    return g;
}

typedef struct pack_job {
    const hn_ext_gemm *gemm;
    const hn_ext_shared *shared;
    hn_team *team;
    const float *b;
} pack_job;

static void fill_packed(void *user, void *memory) {
    const pack_job *job = user;
    const hn_ext_gemm *g = job->gemm;
    int64_t floats =
        1 + (g->n - 1) * g->b[HN_EXTERN_BATCH + 1] + (g->k - 1) * g->b[HN_EXTERN_BATCH];
    hn_ext_gemm_pack_b(g, job->team, job->b, memory);
    for (int d = 0; d < HN_EXTERN_BATCH; d++)
        floats += g->packed_batch[d] ? (g->batch[d] - 1) * g->b[d] : 0;
    if (floats > 0) hn_ext_shared_drop(job->shared, job->b, (size_t)floats * sizeof(float));
}

static hn_ext_pack_key key_of(const hn_ext_call *call, const hn_ext_gemm *g) {
    hn_ext_pack_key key = {.words = {HN_EXT_PACK_GEMM_B, (int64_t)(intptr_t)call->operands[B], g->n,
                                     g->k, g->b[4], g->b[5], g->kernels->tile_cols}};
    for (int d = 0; d < HN_EXTERN_BATCH; d++)
        key.words[8 + d] = g->packed_batch[d] ? g->batch[d] : 1,
                      key.words[12 + d] = g->packed_batch[d] ? g->b[d] : 0;
    return key;
}

static hn_status pack_weights(const hn_ext_call *call, matmul_state *s) {
    hn_ext_call own = *call;
    void *packed = NULL;
    HN_TRY(hn_ext_pack_get(
        &own, &s->key, hn_ext_gemm_packed_bytes(&s->gemm), fill_packed,
        &(pack_job){
            .gemm = &s->gemm, .shared = call->shared, .team = call->team, .b = call->operands[B]},
        &packed));
    s->packed_b = packed;
    s->is_waiting = false;
    return NULL;
}

static hn_status prepare_weights(hn_ext_call *call, matmul_state *s) {
    s->key = key_of(call, &s->gemm);
    HN_TRY(hn_ext_pack_flag(call, &s->key, &s->seen));
    s->is_waiting = !atomic_load(s->seen) && hn_ext_gemm_plan_unpacked(&s->gemm, &s->first);
    return s->is_waiting ? NULL : pack_weights(call, s);
}

static hn_status matmul_prepare(hn_ext_call *call) {
    if (!is_supported(call)) return HN_ERROR(HN_UNSUPPORTED, "blocked matmul is for f32");
    hn_ext_gemm g = describe(call);
    if (!is_small_enough(&g)) return HN_ERROR(HN_INVALID_ARGUMENT, "matmul is too large");
    matmul_state *s = malloc(sizeof *s);
    if (!s) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a matmul");
    *s = (matmul_state){.gemm = g};
    hn_ext_gemm_plan(&s->gemm);
    hn_status status = g.prepack_b ? prepare_weights(call, s) : NULL;
    if (status) {
        free(s);
        return status;
    }
    s->gemm.form = s->first.form = NULL; /* it may live no longer than this */
    call->state = s;
    call->scratch_bytes = hn_ext_gemm_scratch_bytes(&s->gemm);
    if (s->is_waiting && hn_ext_gemm_scratch_bytes(&s->first) > call->scratch_bytes)
        call->scratch_bytes = hn_ext_gemm_scratch_bytes(&s->first);
    return NULL;
}

static const float *read_weights(const void *user, const float *from, int64_t count,
                                 float *buffer) {
    return hn_ext_shared_read(user, from, (size_t)count * sizeof *from, buffer);
}

static hn_status matmul_run(const hn_ext_call *call, void *scratch) {
    matmul_state *s = call->state;
    if (s->is_waiting && atomic_exchange(s->seen, true)) HN_TRY(pack_weights(call, s));
    const hn_ext_gemm *g = s->is_waiting ? &s->first : &s->gemm;
    hn_ext_gemm_run(g,
                    &(hn_ext_gemm_args){.out = call->operands[OUT],
                                        .a = call->operands[A],
                                        .b = s->packed_b ? s->packed_b : call->operands[B],
                                        .bias = call->operands[BIAS],
                                        .residual = call->operands[RESIDUAL],
                                        .reader = {.read = s->is_waiting ? read_weights : NULL,
                                                   .user = call->shared},
                                        .team = call->team},
                    scratch);
    return NULL;
}

const hn_ext_impl hn_ext_matmul_f32 = {
    .name = "gemm", .prepare = matmul_prepare, .run = matmul_run, .release = hn_ext_state_free};
