/* product.c: see product.h. Batch dimensions that lie in a row are one; one that only a and out
 * have is more rows of a; of what is left the largest is the library's batch, and the others are
 * loops of calls. */
#include "ops/cuda/product.h"

#include "base/checked.h"

enum { CALLS_MAX = 16 }; /* for one product: from there on a kernel does it sooner */
enum { OUT, A, B, BIAS, RESIDUAL };

static hn_status refuse(const char *why) {
    return HN_ERROR(HN_UNSUPPORTED, "the product is not one of the library's: %s", why);
}

/* The call's dimensions, of which those of size 1 are left out of the batch. */
typedef struct space {
    bool is_there[HN_PRODUCT_OPERANDS];
    int64_t m, n, k;
    /* strides: of the first and the second dimension of the operand's matrix */
    int64_t first[HN_PRODUCT_OPERANDS], second[HN_PRODUCT_OPERANDS];
    uint32_t batches;
    hn_product_loop batch[HN_EXTERN_BATCH];
} space;

/* ---- reading the call ---- */

static void read_batch(const hn_ext_call *call, const uint32_t *at, space *s) {
    const int64_t *p = call->params;
    for (uint32_t d = 0; d < HN_EXTERN_BATCH; d++) {
        if (p[HN_MATMUL_BATCH + d] == 1) continue;
        hn_product_loop *b = &s->batch[s->batches++];
        b->size = p[HN_MATMUL_BATCH + d];
        for (uint32_t k = 0; k < HN_PRODUCT_OPERANDS; k++)
            b->strides[k] = s->is_there[k] ? p[at[k] + d] : 0;
    }
}

static void read_call(const hn_ext_call *call, space *s) {
    static const uint32_t at[HN_PRODUCT_OPERANDS] = {HN_MATMUL_OUT, HN_MATMUL_A, HN_MATMUL_B,
                                                     HN_MATMUL_BIAS, HN_MATMUL_RESIDUAL};
    const int64_t *p = call->params;
    *s = (space){.m = p[HN_MATMUL_M], .n = p[HN_MATMUL_N], .k = p[HN_MATMUL_K]};
    for (uint32_t k = 0; k < HN_PRODUCT_OPERANDS; k++) {
        s->is_there[k] = call->dtypes[k] != 0;
        if (!s->is_there[k]) continue;
        s->first[k] = p[at[k] + HN_EXTERN_BATCH];
        s->second[k] = p[at[k] + HN_EXTERN_BATCH + 1];
    }
    read_batch(call, at, s);
}

static bool is_empty(const space *s) {
    for (uint32_t d = 0; d < s->batches; d++)
        if (!s->batch[d].size) return true;
    return !s->m || !s->n;
}

/* ---- fewer dimensions ---- */

/* Whether the strides of `outer` are `size` times those of `inner`, for each operand. */
static bool continues(const space *s, const int64_t *outer, const int64_t *inner, int64_t size) {
    for (uint32_t k = 0; k < HN_PRODUCT_OPERANDS; k++) {
        int64_t step;
        if (s->is_there[k] && (!hn_mul_i64(inner[k], size, &step) || outer[k] != step))
            return false;
    }
    return true;
}

static void merge_batches(space *s) {
    uint32_t count = 0;
    for (uint32_t d = 0; d < s->batches; d++) {
        hn_product_loop *last = count ? &s->batch[count - 1] : NULL;
        const hn_product_loop *b = &s->batch[d];
        if (!last || !continues(s, last->strides, b->strides, b->size)) {
            s->batch[count++] = *b;
            continue;
        }
        const int64_t size = last->size * b->size; /* elements of out: fits */
        *last = *b;
        last->size = size;
    }
    s->batches = count;
}

/* The innermost batch as rows of a: b does not move with it. */
static bool merge_rows(space *s) {
    if (!s->batches) return false;
    const hn_product_loop *b = &s->batch[s->batches - 1];
    int64_t rows[HN_PRODUCT_OPERANDS];
    for (uint32_t k = 0; k < HN_PRODUCT_OPERANDS; k++) rows[k] = k == B ? 0 : s->first[k];
    if (!continues(s, b->strides, rows, s->m)) return false;
    s->m *= b->size;
    s->batches--;
    return true;
}

/* ---- matrices ---- */

/* A matrix of p x q numbers, whose strides are sp and sq, as it is stored. A dimension of one
 * element has any stride. */
static bool store(int64_t p, int64_t q, int64_t sp, int64_t sq, bool may_transpose,
                  hn_product_layout *out) {
    const bool columns = (p == 1 || sp == 1) && (q == 1 || sq >= p);
    const bool rows = may_transpose && (q == 1 || sq == 1) && (p == 1 || sp >= q);
    if (!columns && !rows) return false;
    out->transposed = rows && (!columns || (p == 1 && q > 1));
    out->rows = out->transposed ? q : p;
    out->columns = out->transposed ? p : q;
    out->ld = out->columns == 1 ? out->rows : out->transposed ? sp : sq;
    return out->rows <= INT32_MAX && out->columns <= INT32_MAX;
}

/* `operand`, which the call has as first x second; by columns of out^T if `by_rows`. */
static bool place(const space *s, uint32_t operand, int64_t first, int64_t second, bool by_rows,
                  bool may_transpose, hn_product_layout *out) {
    out->operand = operand;
    return by_rows
               ? store(second, first, s->second[operand], s->first[operand], may_transpose, out)
               : store(first, second, s->first[operand], s->second[operand], may_transpose, out);
}

/* Whether an operand is one number for each row of D, one after the other, in all of its columns. */
static bool is_of_rows(const space *s, uint32_t operand, bool by_rows) {
    const int64_t along = by_rows ? s->second[operand] : s->first[operand],
                  across = by_rows ? s->first[operand] : s->second[operand];
    const int64_t rows = by_rows ? s->n : s->m, columns = by_rows ? s->m : s->n;
    return (rows == 1 || along == 1) && (columns == 1 || across == 0);
}

/* The bias as a column, or as C if nothing else is. */
static bool place_sums(const space *s, bool by_rows, hn_product *out) {
    uint32_t c = s->is_there[RESIDUAL] ? RESIDUAL : 0;
    out->bias = 0;
    if (s->is_there[BIAS] && is_of_rows(s, BIAS, by_rows)) out->bias = BIAS;
    else if (s->is_there[BIAS] && c) return false;
    else if (s->is_there[BIAS]) c = BIAS;
    out->has_c = c != 0;
    out->of[HN_PRODUCT_C] = out->of[HN_PRODUCT_D];
    return !c || place(s, c, s->m, s->n, by_rows, false, &out->of[HN_PRODUCT_C]);
}

static bool place_all(const space *s, bool by_rows, hn_product *out) {
    const hn_product_matrix a = by_rows ? HN_PRODUCT_B : HN_PRODUCT_A,
                            b = by_rows ? HN_PRODUCT_A : HN_PRODUCT_B;
    return place(s, OUT, s->m, s->n, by_rows, false, &out->of[HN_PRODUCT_D]) &&
           place(s, A, s->m, s->k, by_rows, true, &out->of[a]) &&
           place(s, B, s->k, s->n, by_rows, true, &out->of[b]) && place_sums(s, by_rows, out);
}

/* ---- batches ---- */

/* The one that the library counts: the largest. */
static void take_batch(space *s, hn_product *out) {
    uint32_t best = 0;
    out->batch_count = 1;
    if (!s->batches) return;
    for (uint32_t d = 1; d < s->batches; d++)
        if (s->batch[d].size > s->batch[best].size) best = d;
    const hn_product_loop batch = s->batch[best];
    for (uint32_t d = best; d + 1 < s->batches; d++) s->batch[d] = s->batch[d + 1];
    s->batches--;
    out->batch_count = batch.size;
    for (uint32_t k = 0; k < HN_PRODUCT_MATRICES; k++)
        out->of[k].batch_stride = batch.strides[out->of[k].operand];
    out->bias_batch_stride = out->bias ? batch.strides[out->bias] : 0;
}

static bool take_loops(const space *s, hn_product *out) {
    out->call_count = 1;
    for (uint32_t d = 0; d < s->batches; d++) {
        if (s->batch[d].size > CALLS_MAX / out->call_count) return false;
        out->call_count *= s->batch[d].size;
        out->loops[out->loop_count++] = s->batch[d];
    }
    return true;
}

static bool has_negative(const space *s) {
    for (uint32_t k = 0; k < HN_PRODUCT_OPERANDS; k++)
        for (uint32_t d = 0; d < s->batches; d++)
            if (s->batch[d].strides[k] < 0) return true;
    return false;
}

/* Results of one batch on top of another, or a sum that is the same for several: not every version
 * takes these. */
static bool has_good_batch(const hn_product *p) {
    return p->batch_count == 1 ||
           (p->of[HN_PRODUCT_D].batch_stride > 0 && p->of[HN_PRODUCT_C].batch_stride > 0 &&
            p->batch_count <= INT32_MAX);
}

hn_status hn_product_of(const hn_ext_call *call, hn_product *out) {
    space s;
    read_call(call, &s);
    *out = (hn_product){.is_empty = is_empty(&s), .batch_count = 1, .call_count = 1};
    if (out->is_empty) return NULL;
    if (!s.k) return refuse("it adds nothing up");
    merge_batches(&s);
    while (merge_rows(&s)) {
    }
    if (has_negative(&s)) return refuse("a stride is negative");
    if (!place_all(&s, true, out) && !place_all(&s, false, out))
        return refuse("an operand is stored neither by rows nor by columns");
    take_batch(&s, out);
    if (!has_good_batch(out)) return refuse("the batch has no stride of its own");
    return take_loops(&s, out) ? NULL : refuse("too many batches");
}
