/* cublaslt_matmul.c: see cublaslt_matmul.h. A call has descriptors, which stay, and what the
 * heuristic has chosen for the alignment of its addresses. That is known when a call is prepared,
 * as far as a program lays out its memory; a caller's may be aligned to an element only, for which
 * there is a second choice, made when it is needed. */
#include "ops/cuda/cublaslt_matmul.h"

#include "base/checked.h"
#include "henry/tensor.h"
#include "ops/cuda/alignment.h"
#include "ops/cuda/product.h"

#include <stdlib.h>
#include <string.h>

/* What the heuristic was told and has said. */
typedef struct choice {
    bool is_made;
    uint32_t candidate;                              /* of its list, from 1 on */
    uint32_t align[HN_PRODUCT_MATRICES], bias_align; /* bytes */
    hn_lt_algo algo;
    size_t workspace_bytes;
} choice;

/* What a choice was made for. */
typedef struct choice_key {
    hn_product product;
    int64_t epilogue;
    uint8_t dtype;
    bool tf32;
    uint64_t workspace;
    uint32_t align[HN_PRODUCT_MATRICES], bias_align, candidate;
} choice_key;

struct hn_lt_known {
    choice_key key;
    choice made;
};

struct hn_lt_matmul {
    const hn_cublaslt *lt;
    void *handle;
    const hn_ext_call *call;
    hn_product product;
    uint32_t elem_bytes;
    void *desc, *layouts[HN_PRODUCT_MATRICES];
    choice aligned, any;
};

/* ---- numbers of the library ---- */

typedef struct dtype_row {
    int type, compute, scale;
    uint32_t elem_bytes;
} dtype_row;

static const dtype_row dtypes[] = {
    [HN_F64] = {HN_LT_R_64F, HN_LT_COMPUTE_64F, HN_LT_R_64F, 8},
    [HN_F32] = {HN_LT_R_32F, HN_LT_COMPUTE_32F, HN_LT_R_32F, 4},
    [HN_F16] = {HN_LT_R_16F, HN_LT_COMPUTE_32F, HN_LT_R_32F, 2},
    [HN_BF16] = {HN_LT_R_16BF, HN_LT_COMPUTE_32F, HN_LT_R_32F, 2},
};

static bool is_half(const hn_lt_matmul *m) { return m->elem_bytes == 2; }

static hn_status epilogue_of(const hn_lt_matmul *m, uint32_t *out) {
    const uint32_t bias = m->product.bias ? HN_LT_EPILOGUE_BIAS : 0;
    switch ((hn_epilogue)m->call->params[HN_MATMUL_EPILOGUE]) {
    case HN_EPILOGUE_NONE: *out = bias ? bias : HN_LT_EPILOGUE_DEFAULT; return NULL;
    case HN_EPILOGUE_RELU: *out = HN_LT_EPILOGUE_RELU | bias; return NULL;
    case HN_EPILOGUE_GELU_TANH: /* its tanh is an instruction: good enough for 16-bit results */
        *out = HN_LT_EPILOGUE_GELU | bias;
        if (is_half(m)) return NULL;
        break;
    default: break;
    }
    return HN_ERROR(HN_UNSUPPORTED, "cuBLASLt does not end a product with this function");
}

/* ---- descriptors ---- */

#define LT(m, call, ...) hn_cublaslt_status((m)->lt, (m)->lt->call(__VA_ARGS__), #call)
#define DESC(m, what, value)                                                                       \
    LT(m, cublasLtMatmulDescSetAttribute, (m)->desc, what, &(value), sizeof(value))
#define LAYOUT(m, layout, what, value)                                                             \
    LT(m, cublasLtMatrixLayoutSetAttribute, layout, what, &(value), sizeof(value))
#define PREFER(m, preference, what, value)                                                         \
    LT(m, cublasLtMatmulPreferenceSetAttribute, preference, what, &(value), sizeof(value))

static hn_status make_layout(hn_lt_matmul *m, int type, const hn_product_layout *l, void **out) {
    const int32_t count = (int32_t)m->product.batch_count;
    HN_TRY(LT(m, cublasLtMatrixLayoutCreate, out, type, (uint64_t)l->rows, (uint64_t)l->columns,
              l->ld));
    if (count == 1) return NULL;
    HN_TRY(LAYOUT(m, *out, HN_LT_LAYOUT_BATCH_COUNT, count));
    return LAYOUT(m, *out, HN_LT_LAYOUT_BATCH_STRIDE, l->batch_stride);
}

static hn_status make_desc(hn_lt_matmul *m, const dtype_row *type, bool tf32) {
    const hn_product *p = &m->product;
    const int32_t a = p->of[HN_PRODUCT_A].transposed ? HN_LT_OP_T : HN_LT_OP_N,
                  b = p->of[HN_PRODUCT_B].transposed ? HN_LT_OP_T : HN_LT_OP_N;
    const int compute =
        tf32 && type->type == HN_LT_R_32F ? HN_LT_COMPUTE_32F_FAST_TF32 : type->compute;
    uint32_t epilogue;
    HN_TRY(epilogue_of(m, &epilogue));
    HN_TRY(LT(m, cublasLtMatmulDescCreate, &m->desc, compute, type->scale));
    HN_TRY(DESC(m, HN_LT_DESC_TRANSA, a));
    HN_TRY(DESC(m, HN_LT_DESC_TRANSB, b));
    HN_TRY(DESC(m, HN_LT_DESC_EPILOGUE, epilogue));
    if (!p->bias || p->batch_count == 1) return NULL;
    return DESC(m, HN_LT_DESC_BIAS_BATCH_STRIDE, p->bias_batch_stride);
}

/* ---- alignment ---- */

static uint32_t smaller(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* Of an operand: its place in memory, and the steps of loops. */
static uint32_t alignment_of(const hn_lt_matmul *m, uint32_t operand) {
    uint32_t align = hn_align_of_operand(m->call, operand, m->elem_bytes);
    for (uint32_t d = 0; d < m->product.loop_count; d++) {
        const int64_t step = m->product.loops[d].strides[operand] & (HN_ALIGN_MAX - 1);
        align = smaller(align, hn_align_of(step * m->elem_bytes & (HN_ALIGN_MAX - 1)));
    }
    return align > m->elem_bytes ? align : m->elem_bytes;
}

/* ---- the heuristic ---- */

static hn_status set_preferences(const hn_lt_matmul *m, const choice *c, uint64_t workspace,
                                 void *preference) {
    HN_TRY(PREFER(m, preference, HN_LT_PREF_MAX_WORKSPACE, workspace));
    for (uint32_t k = 0; k < HN_PRODUCT_MATRICES; k++)
        HN_TRY(PREFER(m, preference, HN_LT_PREF_ALIGNMENT_A + (int)k, c->align[k]));
    /* parts of sums are not rounded to 16 bits */
    const uint32_t schemes = HN_LT_REDUCE_IN_COMPUTE_TYPE;
    return is_half(m) ? PREFER(m, preference, HN_LT_PREF_REDUCTION_SCHEMES, schemes) : NULL;
}

static hn_status ask(const hn_lt_matmul *m, void *preference, choice *c) {
    hn_lt_heuristic results[HN_LT_CANDIDATES_MAX] = {{.workspace_bytes = 0}};
    void *const *l = m->layouts;
    int count = 0;
    HN_TRY(LT(m, cublasLtMatmulAlgoGetHeuristic, m->handle, m->desc, l[HN_PRODUCT_A],
              l[HN_PRODUCT_B], l[HN_PRODUCT_C], l[HN_PRODUCT_D], preference, (int)c->candidate,
              results, &count));
    if (c->candidate > 1 && count < (int)c->candidate)
        return HN_ERROR(HN_UNSUPPORTED, "cuBLASLt has %d ways for the product, not %u", count,
                        c->candidate);
    hn_lt_heuristic *result = &results[c->candidate - 1];
    if (!count) result->state = HN_LT_NOT_SUPPORTED;
    HN_TRY(hn_cublaslt_status(m->lt, result->state, "cublasLtMatmulAlgoGetHeuristic"));
    c->algo = result->algo;
    c->workspace_bytes = result->workspace_bytes;
    c->is_made = true;
    return NULL;
}

/* The heuristic reads from the address of the bias how it is aligned. */
static hn_status choose(hn_lt_matmul *m, uint64_t workspace, choice *c) {
    void *preference = NULL;
    if (m->product.bias) {
        const void *bias = (const void *)(uintptr_t)(4096 + c->bias_align);
        HN_TRY(DESC(m, HN_LT_DESC_BIAS_POINTER, bias));
    }
    HN_TRY(LT(m, cublasLtMatmulPreferenceCreate, &preference));
    hn_status status = set_preferences(m, c, workspace, preference);
    if (!status) status = ask(m, preference, c);
    hn_status_free(LT(m, cublasLtMatmulPreferenceDestroy, preference));
    return status;
}

/* ---- choices that calls share: models repeat their layers ---- */

enum { CHOICES_MAX = 256 };

void hn_lt_choices_init(hn_lt_choices *c) {
    *c = (hn_lt_choices){.items = NULL};
    pthread_mutex_init(&c->lock, NULL);
}

void hn_lt_choices_deinit(hn_lt_choices *c) {
    pthread_mutex_destroy(&c->lock);
    free(c->items);
}

static void describe(const hn_lt_matmul *m, const hn_lt_options *options, const choice *c,
                     choice_key *out) {
    memset(out, 0, sizeof *out); /* keys are compared by bytes */
    memcpy(&out->product, &m->product, sizeof out->product);
    out->epilogue = m->call->params[HN_MATMUL_EPILOGUE];
    out->dtype = m->call->dtypes[0];
    out->tf32 = options->tf32;
    out->workspace = options->workspace_bytes;
    memcpy(out->align, c->align, sizeof out->align);
    out->bias_align = c->bias_align;
    out->candidate = c->candidate;
}

static bool find_choice(hn_lt_choices *all, const choice_key *key, choice *out) {
    uint32_t k = 0;
    pthread_mutex_lock(&all->lock);
    while (k < all->count && memcmp(&all->items[k].key, key, sizeof *key) != 0) k++;
    const bool is_known = k < all->count;
    if (is_known) *out = all->items[k].made;
    pthread_mutex_unlock(&all->lock);
    return is_known;
}

/* Without memory it is not kept. With the lock held. */
static void put_choice(hn_lt_choices *all, const choice_key *key, const choice *made) {
    if (!all->items) all->items = calloc(CHOICES_MAX, sizeof *all->items);
    if (!all->items) return;
    const uint32_t at = all->next;
    all->next = (at + 1) % CHOICES_MAX;
    if (all->count < CHOICES_MAX) all->count++;
    memcpy(&all->items[at].key, key, sizeof *key);
    all->items[at].made = *made;
}

static hn_status choose_once(hn_lt_matmul *m, const hn_lt_options *options, choice *c) {
    choice_key key;
    if (!options->choices) return choose(m, options->workspace_bytes, c);
    describe(m, options, c, &key);
    if (find_choice(options->choices, &key, c)) return NULL;
    HN_TRY(choose(m, options->workspace_bytes, c));
    pthread_mutex_lock(&options->choices->lock);
    put_choice(options->choices, &key, c);
    pthread_mutex_unlock(&options->choices->lock);
    return NULL;
}

static hn_status choose_aligned(hn_lt_matmul *m, const hn_lt_options *options) {
    choice *c = &m->aligned;
    c->candidate = options->candidate ? options->candidate : 1;
    for (uint32_t k = 0; k < HN_PRODUCT_MATRICES; k++)
        c->align[k] = alignment_of(m, m->product.of[k].operand);
    c->bias_align = m->product.bias ? alignment_of(m, m->product.bias) : HN_ALIGN_MAX;
    return choose_once(m, options, c);
}

/* With the scratch memory that there is; the list is another one, of which the first is taken. */
static hn_status choose_any(hn_lt_matmul *m) {
    choice *c = &m->any;
    c->candidate = 1;
    for (uint32_t k = 0; k < HN_PRODUCT_MATRICES; k++) c->align[k] = m->elem_bytes;
    c->bias_align = m->elem_bytes;
    return choose(m, m->aligned.workspace_bytes, c);
}

static hn_status choice_for(hn_lt_matmul *m, void *const *args, const choice **out) {
    const hn_product *p = &m->product;
    bool good = !p->bias || hn_align_fits(m->aligned.bias_align, args[p->bias]);
    for (uint32_t k = 0; k < HN_PRODUCT_MATRICES; k++)
        good = good && hn_align_fits(m->aligned.align[k], args[p->of[k].operand]);
    if (!good && !m->any.is_made) HN_TRY(choose_any(m));
    *out = good ? &m->aligned : &m->any;
    return NULL;
}

/* ---- the life of a call ---- */

static hn_status make(hn_lt_matmul *m, const hn_lt_options *options) {
    const dtype_row *type = &dtypes[m->call->dtypes[0]];
    HN_TRY(make_desc(m, type, options->tf32));
    for (uint32_t k = 0; k < HN_PRODUCT_MATRICES; k++)
        HN_TRY(make_layout(m, type->type, &m->product.of[k], &m->layouts[k]));
    return choose_aligned(m, options);
}

hn_status hn_lt_matmul_create(const hn_cublaslt *lt, void *handle, const hn_lt_options *options,
                              const hn_ext_call *call, hn_lt_matmul **out) {
    if (call->dtypes[0] < HN_F64 || call->dtypes[0] > HN_BF16)
        return HN_ERROR(HN_UNSUPPORTED, "cuBLASLt multiplies floats only");
    if (options->candidate > HN_LT_CANDIDATES_MAX)
        return HN_ERROR(HN_UNSUPPORTED, "cuBLASLt is asked for %d ways at most, not %u",
                        HN_LT_CANDIDATES_MAX, options->candidate);
    hn_lt_matmul *m = calloc(1, sizeof *m);
    if (!m) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a product");
    m->lt = lt;
    m->handle = handle;
    m->call = call;
    m->elem_bytes = dtypes[call->dtypes[0]].elem_bytes;
    hn_status status = hn_product_of(call, &m->product);
    if (!status && !m->product.is_empty) status = make(m, options);
    if (status) {
        hn_lt_matmul_destroy(m);
        return status;
    }
    *out = m;
    return NULL;
}

void hn_lt_matmul_destroy(hn_lt_matmul *m) {
    if (!m) return;
    for (uint32_t k = 0; k < HN_PRODUCT_MATRICES; k++)
        if (m->layouts[k]) (void)m->lt->cublasLtMatrixLayoutDestroy(m->layouts[k]);
    if (m->desc) (void)m->lt->cublasLtMatmulDescDestroy(m->desc);
    free(m);
}

size_t hn_lt_matmul_scratch_bytes(const hn_lt_matmul *m) { return m->aligned.workspace_bytes; }

/* ---- runs ---- */

static void *address_of(const hn_lt_matmul *m, void *const *args, const int64_t *offsets,
                        uint32_t operand) {
    return (uint8_t *)args[operand] + offsets[operand] * m->elem_bytes;
}

static hn_status multiply(hn_lt_matmul *m, const choice *c, void *const *args,
                          const int64_t *offsets, void *scratch, void *stream) {
    static const float one = 1, zero = 0;
    static const double one64 = 1, zero64 = 0;
    const hn_product *p = &m->product;
    const bool is_f64 = m->elem_bytes == 8;
    const void *alpha = is_f64 ? (const void *)&one64 : &one, *beta = p->has_c ? alpha
                                                                      : is_f64
                                                                          ? (const void *)&zero64
                                                                          : &zero;
    void *at[HN_PRODUCT_MATRICES];
    for (uint32_t k = 0; k < HN_PRODUCT_MATRICES; k++)
        at[k] = address_of(m, args, offsets, p->of[k].operand);
    if (p->bias) {
        void *bias = address_of(m, args, offsets, p->bias);
        HN_TRY(DESC(m, HN_LT_DESC_BIAS_POINTER, bias));
    }
    return LT(m, cublasLtMatmul, m->handle, m->desc, alpha, at[HN_PRODUCT_A],
              m->layouts[HN_PRODUCT_A], at[HN_PRODUCT_B], m->layouts[HN_PRODUCT_B], beta,
              at[HN_PRODUCT_C], m->layouts[HN_PRODUCT_C], at[HN_PRODUCT_D],
              m->layouts[HN_PRODUCT_D], &c->algo, scratch, c->workspace_bytes, stream);
}

hn_status hn_lt_matmul_run(hn_lt_matmul *m, void *const *args, void *scratch, void *stream) {
    const hn_product *p = &m->product;
    const choice *c;
    if (p->is_empty) return NULL;
    HN_TRY(choice_for(m, args, &c));
    for (int64_t i = 0; i < p->call_count; i++) {
        int64_t offsets[HN_PRODUCT_OPERANDS] = {0}, rest = i;
        for (uint32_t d = p->loop_count; d-- > 0; rest /= p->loops[d].size)
            for (uint32_t k = 0; k < HN_PRODUCT_OPERANDS; k++)
                offsets[k] += rest % p->loops[d].size * p->loops[d].strides[k];
        HN_TRY(multiply(m, c, args, offsets, scratch, stream));
    }
    return NULL;
}
