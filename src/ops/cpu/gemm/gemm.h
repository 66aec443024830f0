/* gemm.h: float matrix products out = epilogue(a b + bias + residual), blocked, packed and
 * threaded.
 *
 * Fill a hn_ext_gemm with sizes and strides, plan it, and run it as often as wanted. b may be
 * packed once beforehand (weights). The plan is plain data: copy it freely. */
#ifndef HN_OPS_CPU_GEMM_GEMM_H
#define HN_OPS_CPU_GEMM_GEMM_H

#include "base/team.h"
#include "ops/cpu/ext.h"
#include "ops/cpu/kernels.h"

enum { HN_EXT_GEMM_DIMS = HN_EXTERN_BATCH + 2 };

typedef struct hn_ext_gemm {
    /* Given. Strides in elements: [batch dims, row, column]. */
    int64_t batch[HN_EXTERN_BATCH];
    int64_t m, n, k;
    int64_t a[HN_EXT_GEMM_DIMS], b[HN_EXT_GEMM_DIMS], out[HN_EXT_GEMM_DIMS], bias[HN_EXT_GEMM_DIMS],
        residual[HN_EXT_GEMM_DIMS];
    bool has_bias, has_residual;
    bool has_scale; /* column k of a is multiplied by scale[k * scale_k] first; without a batch */
    int64_t scale_k;
    bool prepack_b; /* run gets b as packed by hn_ext_gemm_pack_b */
    hn_epilogue epilogue;
    const hn_ext_kernels *kernels; /* NULL: plan chooses */
    /* into how many tasks work is cut; plan makes it 1 for small work */
    int threads;
    const hn_ext_form *form; /* NULL: plan decides all of it */

    /* Planned. */
    bool swapped; /* out^T = b^T a^T is what is computed */
    /* a thread does whole items of the batch; else all threads share each item */
    bool by_batch;
    bool pack_a;
    /* a thread packs the rows that it alone reads, instead of all threads all rows */
    bool own_rows;
    int64_t items;                     /* of the batch */
    int64_t k_step;                    /* k of one pass of the tiles */
    int64_t k_block, m_block, n_block; /* what is packed at a time */
    int64_t packed_batch[HN_EXTERN_BATCH];
    int64_t tile_group; /* row tiles in a group */
    /* scratch: of a (of each thread with own_rows, of a team else), of b of a team */
    int64_t a_floats, b_floats;
    /* scratch of each thread: what it reads of b at a time; 0: b is packed from where it lies */
    int64_t read_floats;
} hn_ext_gemm;

/* How b comes near, when it is read once: `count` floats side by side, into `buffer` or where they
 * are. Threads: any. */
typedef struct hn_ext_gemm_reader {
    const float *(*read)(const void *user, const float *from, int64_t count, float *buffer);
    const void *user;
} hn_ext_gemm_reader;

/* Sizes must not be negative. Planning may merge the batch into the rows and exchange the roles of
 * a and b; run and pack_b still take the operands as given. */
void hn_ext_gemm_plan(hn_ext_gemm *g);
/* A plan like `packed`, which was planned with prepack_b, that takes b as given, for one run: b is
 * read in the order of its memory, by args->reader when there is one. False when its sums would be
 * rounded in another order: then there is none. */
bool hn_ext_gemm_plan_unpacked(const hn_ext_gemm *packed, hn_ext_gemm *out);
size_t hn_ext_gemm_scratch_bytes(const hn_ext_gemm *g);

/* All of b in panels: [distinct items][panel][k][columns of a tile]. */
size_t hn_ext_gemm_packed_bytes(const hn_ext_gemm *g);
void hn_ext_gemm_pack_b(const hn_ext_gemm *g, hn_team *team, const float *b, float *packed);

/* The operands of one run. bias, residual and scale: read only with has_bias, has_residual and
 * has_scale. out must not overlap the others. */
typedef struct hn_ext_gemm_args {
    float *out;
    const float *a, *b, *bias, *residual, *scale;
    /* of b, for a plan of plan_unpacked; {0}: b is read at its address */
    hn_ext_gemm_reader reader;
    hn_team *team; /* that runs the g->threads tasks; NULL: the calling thread alone */
} hn_ext_gemm_args;

/* scratch: 64-byte aligned, scratch_bytes of it. */
void hn_ext_gemm_run(const hn_ext_gemm *g, const hn_ext_gemm_args *args, void *scratch);

#endif
