/* cublaslt_standin.c: a library in the place of libcublasLt.so, for tests without a GPU. It checks
 * what it is given, and computes products of matrices that are stored by columns, as the real one
 * does, in plain loops on memory of the host. Written from NVIDIA's documentation; it shares no
 * numbers with src/ops/cuda/cublaslt.h, so that a wrong one shows. */
#include "tests/support/cublaslt_standin.h"

#include "tests/support/standin_work.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum { OK = 0, ALLOC_FAILED = 3, INVALID = 7, FAILED = 13, UNSUPPORTED = 15 };
enum { R_32F = 0, R_64F = 1, R_16F = 2, R_16BF = 14 };
enum { COMPUTE_32F = 68, COMPUTE_64F = 70, COMPUTE_TF32 = 77 };
enum { HANDLE = 0x4c740001, LAYOUT, DESC, PREFERENCE, DEAD };
enum { WORKSPACE = 512, MAGIC = 0x600d, CANDIDATES = 3 };

static cublaslt_standin state;
EXPORT cublaslt_standin *cublasLtStandin(void);
cublaslt_standin *cublasLtStandin(void) { return &state; }

typedef struct object {
    uint32_t kind;
    /* layout */
    int type;
    uint64_t rows, columns;
    int64_t ld, batch_stride;
    int32_t batch_count;
    /* desc */
    int compute, scale;
    int32_t trans_a, trans_b;
    uint32_t epilogue;
    const void *bias;
    int64_t bias_batch_stride;
    /* preference */
    uint64_t workspace;
    uint32_t schemes, align[4];
} object;

typedef struct algo {
    uint64_t magic;
    uint32_t align[4], bias_align;
    uint64_t workspace;
    uint32_t candidate;
    uint32_t rest[5];
} algo;
_Static_assert(sizeof(algo) == 64, "as the real one");

typedef struct result {
    algo algo;
    size_t workspace;
    int status;
    float waves;
    int reserved[4];
} result;

static int misuse(const char *what) {
    if (!state.misuse[0]) snprintf(state.misuse, sizeof state.misuse, "%s", what);
    return INVALID;
}
#define NEED(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) return misuse(#condition);                                               \
    } while (0)
#define MAY_FAIL()                                                                                 \
    do {                                                                                           \
        if (++state.calls == state.fail_at) return (int)state.fail_code;                           \
    } while (0)

/* ---- objects ---- */

static int create(uint32_t kind, void **out) {
    object *o = calloc(1, sizeof *o);
    if (!o) return ALLOC_FAILED;
    o->kind = kind;
    o->batch_count = 1;
    o->epilogue = 1;
    o->schemes = 15;
    for (int k = 0; k < 4; k++) o->align[k] = 256;
    state.objects++;
    *out = o;
    return OK;
}

static int destroy(uint32_t kind, void *handle) {
    object *o = handle;
    NEED(o && o->kind == kind);
    o->kind = DEAD;
    state.objects--;
    free(o);
    return OK;
}

static int set(void *place, size_t bytes, const void *value, size_t given) {
    NEED(value && bytes == given);
    memcpy(place, value, bytes);
    return OK;
}
#define SET(member) set(&o->member, sizeof o->member, value, bytes)

EXPORT int cublasLtCreate(void **out);
int cublasLtCreate(void **out) {
    MAY_FAIL();
    return create(HANDLE, out);
}
EXPORT int cublasLtDestroy(void *handle);
int cublasLtDestroy(void *handle) { return destroy(HANDLE, handle); }

EXPORT size_t cublasLtGetVersion(void);
size_t cublasLtGetVersion(void) { return 130000; }

EXPORT const char *cublasLtGetStatusName(int status);
const char *cublasLtGetStatusName(int status) {
    return status == ALLOC_FAILED  ? "CUBLAS_STATUS_ALLOC_FAILED"
           : status == INVALID     ? "CUBLAS_STATUS_INVALID_VALUE"
           : status == UNSUPPORTED ? "CUBLAS_STATUS_NOT_SUPPORTED"
                                   : "CUBLAS_STATUS_EXECUTION_FAILED";
}

EXPORT int cublasLtMatrixLayoutCreate(void **out, int type, uint64_t rows, uint64_t columns,
                                      int64_t ld);
int cublasLtMatrixLayoutCreate(void **out, int type, uint64_t rows, uint64_t columns, int64_t ld) {
    MAY_FAIL();
    const int status = create(LAYOUT, out);
    if (status) return status;
    object *o = *out;
    o->type = type;
    o->rows = rows;
    o->columns = columns;
    o->ld = ld;
    return OK;
}

EXPORT int cublasLtMatrixLayoutSetAttribute(void *layout, int what, const void *value,
                                            size_t bytes);
int cublasLtMatrixLayoutSetAttribute(void *layout, int what, const void *value, size_t bytes) {
    object *o = layout;
    MAY_FAIL();
    NEED(o && o->kind == LAYOUT);
    switch (what) {
    case 5: return SET(batch_count);
    case 6: return SET(batch_stride);
    default: return misuse("attribute of a layout");
    }
}
EXPORT int cublasLtMatrixLayoutDestroy(void *layout);
int cublasLtMatrixLayoutDestroy(void *layout) { return destroy(LAYOUT, layout); }

EXPORT int cublasLtMatmulDescCreate(void **out, int compute, int scale);
int cublasLtMatmulDescCreate(void **out, int compute, int scale) {
    MAY_FAIL();
    const int status = create(DESC, out);
    if (status) return status;
    object *o = *out;
    o->compute = compute;
    o->scale = scale;
    return OK;
}

EXPORT int cublasLtMatmulDescSetAttribute(void *desc, int what, const void *value, size_t bytes);
int cublasLtMatmulDescSetAttribute(void *desc, int what, const void *value, size_t bytes) {
    object *o = desc;
    MAY_FAIL();
    NEED(o && o->kind == DESC);
    switch (what) {
    case 3: return SET(trans_a);
    case 4: return SET(trans_b);
    case 7: return SET(epilogue);
    case 8: return SET(bias);
    case 10: return SET(bias_batch_stride);
    default: return misuse("attribute of a product");
    }
}
EXPORT int cublasLtMatmulDescDestroy(void *desc);
int cublasLtMatmulDescDestroy(void *desc) { return destroy(DESC, desc); }

EXPORT int cublasLtMatmulPreferenceCreate(void **out);
int cublasLtMatmulPreferenceCreate(void **out) {
    MAY_FAIL();
    return create(PREFERENCE, out);
}

EXPORT int cublasLtMatmulPreferenceSetAttribute(void *preference, int what, const void *value,
                                                size_t bytes);
int cublasLtMatmulPreferenceSetAttribute(void *preference, int what, const void *value,
                                         size_t bytes) {
    object *o = preference;
    MAY_FAIL();
    NEED(o && o->kind == PREFERENCE);
    if (what >= 5 && what <= 8) return SET(align[what - 5]);
    switch (what) {
    case 1: return SET(workspace);
    case 3: return SET(schemes);
    default: return misuse("attribute of a preference");
    }
}
EXPORT int cublasLtMatmulPreferenceDestroy(void *preference);
int cublasLtMatmulPreferenceDestroy(void *preference) { return destroy(PREFERENCE, preference); }

/* ---- what goes together ---- */

static int check_layout(const object *o, int type, int batch_count) {
    NEED(o && o->kind == LAYOUT && o->type == type);
    NEED(o->rows > 0 && o->columns > 0 && o->rows <= INT32_MAX && o->columns <= INT32_MAX);
    NEED(o->ld >= (int64_t)o->rows);
    NEED(o->batch_count == batch_count && batch_count > 0);
    return OK;
}

static int check_types(const object *desc, int type) {
    if (type == R_64F) NEED(desc->compute == COMPUTE_64F && desc->scale == R_64F);
    else if (type == R_32F)
        NEED((desc->compute == COMPUTE_32F || desc->compute == COMPUTE_TF32) &&
             desc->scale == R_32F);
    else {
        NEED(type == R_16F || type == R_16BF);
        NEED(desc->compute == COMPUTE_32F && desc->scale == R_32F);
    }
    return OK;
}

static int check_shapes(const object *desc, const object *a, const object *b, const object *c,
                        const object *d) {
    const uint64_t m = desc->trans_a ? a->columns : a->rows,
                   k = desc->trans_a ? a->rows : a->columns;
    const uint64_t n = desc->trans_b ? b->rows : b->columns,
                   own = desc->trans_b ? b->columns : b->rows;
    NEED(k == own && d->rows == m && d->columns == n);
    NEED(c->rows == m && c->columns == n);
    if (d->batch_count > 1) NEED(d->batch_stride > 0 && c->batch_stride > 0);
    return OK;
}

static int check(void *handle, const object *desc, const object *a, const object *b,
                 const object *c, const object *d) {
    const object *all[4] = {a, b, c, d};
    NEED(handle && ((object *)handle)->kind == HANDLE);
    NEED(desc && desc->kind == DESC && d && d->kind == LAYOUT);
    for (int k = 0; k < 4; k++) {
        const int status = check_layout(all[k], d->type, d->batch_count);
        if (status) return status;
    }
    const int status = check_types(desc, d->type);
    return status ? status : check_shapes(desc, a, b, c, d);
}

static uint32_t align_of(const void *address) {
    const uintptr_t at = (uintptr_t)address;
    return at ? (uint32_t)(at & -at & 511) : 256;
}

EXPORT int cublasLtMatmulAlgoGetHeuristic(void *handle, void *desc, void *a, void *b, void *c,
                                          void *d, void *preference, int wanted, result *results,
                                          int *out_count);
int cublasLtMatmulAlgoGetHeuristic(void *handle, void *desc, void *a, void *b, void *c, void *d,
                                   void *preference, int wanted, result *results, int *out_count) {
    const object *p = preference, *e = desc;
    MAY_FAIL();
    const int status = check(handle, desc, a, b, c, d);
    if (status) return status;
    NEED(p && p->kind == PREFERENCE && wanted >= 1);
    const int type = ((object *)d)->type;
    if (type == R_64F && e->epilogue != 1) return UNSUPPORTED; /* the real one has none, either */
    if (type == R_16F || type == R_16BF) NEED(p->schemes == 2);
    if (e->epilogue & 4) NEED(e->bias);
    const uint64_t workspace = p->workspace >= WORKSPACE ? WORKSPACE : 0;
    const int count = wanted < CANDIDATES ? wanted : CANDIDATES;
    for (int k = 0; k < count; k++) {
        results[k] = (result){.algo = {.magic = MAGIC, .workspace = workspace, .candidate = k + 1u},
                              .workspace = workspace};
        memcpy(results[k].algo.align, p->align, sizeof p->align);
        results[k].algo.bias_align = align_of(e->bias);
    }
    state.choices++;
    *out_count = count;
    return OK;
}

/* ---- numbers ---- */

static standin_type kind_of(int type) {
    return type == R_64F   ? STANDIN_F64
           : type == R_32F ? STANDIN_F32
           : type == R_16F ? STANDIN_F16
                           : STANDIN_BF16;
}

static double load(int type, const void *from, int64_t at) {
    return standin_load(kind_of(type), from, at);
}

static void store(int type, void *to, int64_t at, double x) {
    standin_store(kind_of(type), to, at, x);
}

static double finish(uint32_t epilogue, double x) {
    if (epilogue & 2) return x > 0 ? x : 0;
    if (epilogue & 32) return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    return x;
}

/* Column `j`, row `i` of op(X). */
static double element(const object *x, int32_t trans, const void *at, int64_t batch, uint64_t i,
                      uint64_t j) {
    const int64_t row = (int64_t)(trans ? j : i), column = (int64_t)(trans ? i : j);
    return load(x->type, at, batch * x->batch_stride + column * x->ld + row);
}

/* ---- products ---- */

/* A product that a stream has not come to. */
typedef struct product {
    object desc, of[4];
    const void *at[4];
    double alpha, beta;
    uint64_t workspace_bytes;
    void *workspace;
} product;

/* The elements of a matrix and its batches, in bytes. */
static size_t extent(const object *o) {
    const int64_t last = (o->batch_count - 1) * o->batch_stride +
                         (int64_t)(o->columns - 1) * o->ld + (int64_t)o->rows;
    return (size_t)last * standin_bytes(kind_of(o->type));
}

static void compute(const void *work) {
    const product *p = work;
    const object *e = &p->desc, *a = &p->of[0], *b = &p->of[1], *c = &p->of[2], *d = &p->of[3];
    const uint64_t depth = e->trans_a ? a->rows : a->columns;
    if (p->workspace_bytes) memset(p->workspace, 0xa5, p->workspace_bytes);
    for (int64_t batch = 0; batch < d->batch_count; batch++)
        for (uint64_t j = 0; j < d->columns; j++)
            for (uint64_t i = 0; i < d->rows; i++) {
                double sum = 0;
                for (uint64_t k = 0; k < depth; k++)
                    sum += element(a, e->trans_a, p->at[0], batch, i, k) *
                           element(b, e->trans_b, p->at[1], batch, k, j);
                sum *= p->alpha;
                if (p->beta != 0) sum += p->beta * element(c, 0, p->at[2], batch, i, j);
                if (e->epilogue & 4)
                    sum += load(d->type, e->bias, batch * e->bias_batch_stride + (int64_t)i);
                store(d->type, (void *)(uintptr_t)p->at[3],
                      batch * d->batch_stride + (int64_t)j * d->ld + (int64_t)i,
                      finish(e->epilogue, sum));
            }
}

/* On a device: the addresses are not the host's. */
static void compute_there(const void *user, cuda_standin_bytes_fn bytes_at) {
    product p = *(const product *)user;
    const object *d = &p.of[3];
    const int64_t bias = (d->batch_count - 1) * p.desc.bias_batch_stride + (int64_t)d->rows;
    for (int k = 0; k < 4; k++) p.at[k] = bytes_at((uint64_t)(uintptr_t)p.at[k], extent(&p.of[k]));
    if (p.desc.epilogue & 4)
        p.desc.bias = bytes_at((uint64_t)(uintptr_t)p.desc.bias,
                               (size_t)bias * standin_bytes(kind_of(d->type)));
    if (p.workspace_bytes)
        p.workspace = bytes_at((uint64_t)(uintptr_t)p.workspace, p.workspace_bytes);
    compute(&p);
}

static int check_run(const object *desc, const void *const *at, const algo *choice,
                     const void *workspace, size_t workspace_bytes) {
    NEED(choice && choice->magic == MAGIC);
    for (int k = 0; k < 4; k++) NEED(at[k] && (uintptr_t)at[k] % choice->align[k] == 0);
    if (desc->epilogue & 4) NEED(desc->bias && (uintptr_t)desc->bias % choice->bias_align == 0);
    NEED(workspace_bytes >= choice->workspace);
    if (choice->workspace) NEED(workspace && (uintptr_t)workspace % 256 == 0);
    return OK;
}

EXPORT int cublasLtMatmul(void *handle, void *desc, const void *alpha, const void *a,
                          void *a_layout, const void *b, void *b_layout, const void *beta,
                          const void *c, void *c_layout, void *d, void *d_layout,
                          const algo *choice, void *workspace, size_t workspace_bytes,
                          void *stream);
int cublasLtMatmul(void *handle, void *desc, const void *alpha, const void *a, void *a_layout,
                   const void *b, void *b_layout, const void *beta, const void *c, void *c_layout,
                   void *d, void *d_layout, const algo *choice, void *workspace,
                   size_t workspace_bytes, void *stream) {
    const object *e = desc, *layouts[4] = {a_layout, b_layout, c_layout, d_layout};
    product p = {.at = {a, b, c, d}, .workspace = workspace};
    MAY_FAIL();
    int status = check(handle, desc, a_layout, b_layout, c_layout, d_layout);
    if (!status) status = check_run(e, p.at, choice, workspace, workspace_bytes);
    if (status) return status;
    p.desc = *e;
    for (int k = 0; k < 4; k++) p.of[k] = *layouts[k];
    p.alpha = load(e->scale, alpha, 0);
    p.beta = load(e->scale, beta, 0);
    p.workspace_bytes = choice->workspace;
    if (standin_give(stream, compute_there, compute, &p, sizeof p) != OK) return FAILED;
    state.products++;
    state.compute_type = e->compute;
    state.last_batch_count = p.of[3].batch_count;
    state.last_epilogue = e->epilogue;
    state.last_align_a = choice->align[0];
    state.last_candidate = choice->candidate;
    return OK;
}
