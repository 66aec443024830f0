/* check.c: checks a bound extern call, of any device.
 *
 * Parameters come from a stored program and from the sizes of a caller's tensors: nothing here is
 * trusted. What the checks promise to every implementation: sizes are not negative, the number of
 * elements of each operand and the distance in bytes between any two of its elements fit 63 bits,
 * all of them lie in the memory of the operand, operands that the kind needs are there, their
 * dtypes fit each other, and constants have addresses. Strides may have any sign, or be 0. */
#include "ops/cpu/ext.h"

#include "base/checked.h"
#include "henry/tensor.h"

#include <inttypes.h>

enum { MAX_DIMS = HN_EXTERN_BATCH + 2 };

typedef struct kind_facts {
    const char *name;
    uint32_t operand_count, needed_count, written_count, param_count;
} kind_facts;

static hn_status check_matmul(const hn_ext_call *call);
static hn_status check_conv(const hn_ext_call *call);
static hn_status check_attention(const hn_ext_call *call);
static hn_status check_sort(const hn_ext_call *call);
static hn_status check_nonzero(const hn_ext_call *call);
static hn_status check_grouped(const hn_ext_call *call);
static hn_status check_nms(const hn_ext_call *call);
static hn_status check_attention_backward(const hn_ext_call *call);
static hn_status check_combine(const hn_ext_call *call);

#define FACTS(kind, name, operands, needed, written, params)                                       \
    [kind] = {name, operands, needed, written, params},
static const kind_facts kinds[HN_EXTERN_KIND_COUNT] = {HN_EXTERN_KINDS(FACTS)};
#undef FACTS

static hn_status (*const checks[HN_EXTERN_KIND_COUNT])(const hn_ext_call *call) = {
    [HN_EXTERN_MATMUL] = check_matmul,
    [HN_EXTERN_CONV] = check_conv,
    [HN_EXTERN_ATTENTION] = check_attention,
    [HN_EXTERN_SORT] = check_sort,
    [HN_EXTERN_TOPK] = check_sort,
    [HN_EXTERN_NONZERO] = check_nonzero,
    [HN_EXTERN_GROUPED_MATMUL] = check_grouped,
    [HN_EXTERN_NMS] = check_nms,
    [HN_EXTERN_ATTENTION_BACKWARD] = check_attention_backward,
    [HN_EXTERN_COMBINE_SORTED] = check_combine,
};

/* NULL for an unknown kind. */
static const kind_facts *facts_of(hn_extern_kind kind) {
    bool known = (uint32_t)kind < HN_EXTERN_KIND_COUNT && kinds[kind].name;
    return known ? &kinds[kind] : NULL;
}

uint32_t hn_ext_operand_count(hn_extern_kind kind) {
    const kind_facts *facts = facts_of(kind);
    return facts ? facts->operand_count : 0;
}

uint32_t hn_ext_param_count(hn_extern_kind kind) {
    const kind_facts *facts = facts_of(kind);
    return facts ? facts->param_count : 0;
}

/* ---- parts of checks ---- */

static hn_status check_range(const hn_ext_call *call, uint32_t first, uint32_t count, int64_t low,
                             int64_t high) {
    for (uint32_t p = first; p < first + count; p++)
        if (call->params[p] < low || call->params[p] > high)
            return HN_ERROR(HN_INVALID_ARGUMENT,
                            "parameter %u is %" PRId64 ", must be in [%" PRId64 ", %" PRId64 "]", p,
                            call->params[p], low, high);
    return NULL;
}

static hn_status check_sizes(const hn_ext_call *call, uint32_t first, uint32_t count) {
    return check_range(call, first, count, 0, INT64_MAX);
}

/* An operand as memory: sizes (not negative) and strides. */
typedef struct extent {
    uint32_t rank;
    int64_t sizes[MAX_DIMS], strides[MAX_DIMS];
} extent;

static bool is_empty(const extent *e) {
    for (uint32_t d = 0; d < e->rank; d++)
        if (e->sizes[d] == 0) return true;
    return false;
}

/* Number of elements and distance between the outermost ones, both as bytes, fit 63 bits. An empty
 * dimension counts as 1: offsets along the other ones are computed all the same. `out`: where the
 * outermost bytes lie, from the operand's address. */
static bool fits_memory(const extent *e, int64_t elem_bytes, hn_ext_room *out) {
    int64_t numel = elem_bytes, low = 0, high = 0, step;
    for (uint32_t d = 0; d < e->rank; d++) {
        int64_t size = e->sizes[d] ? e->sizes[d] : 1;
        if (!hn_mul_i64(numel, size, &numel) || !hn_mul_i64(size - 1, e->strides[d], &step))
            return false;
        if (!(step < 0 ? hn_add_i64(low, step, &low) : hn_add_i64(high, step, &high))) return false;
    }
    int64_t span;
    if (!hn_sub_i64(high, low, &span) || !hn_add_i64(span, 1, &span) ||
        !hn_mul_i64(span, elem_bytes, &span))
        return false;
    *out = (hn_ext_room){.before = -low * elem_bytes, .behind = (high + 1) * elem_bytes};
    return true;
}

static hn_status check_extent(const hn_ext_call *call, uint32_t operand, extent e) {
    hn_scalar_type type = (hn_scalar_type)call->dtypes[operand];
    if (type == HN_NO_TYPE) return NULL;
    hn_ext_room need;
    if (!fits_memory(&e, (int64_t)hn_scalar_type_bytes(type), &need))
        return HN_ERROR(HN_INVALID_ARGUMENT, "operand %u is too large: its bytes exceed 63 bits",
                        operand);
    const hn_ext_room *room = call->knows_rooms ? &call->rooms[operand] : &need;
    if (!is_empty(&e) && (need.before > room->before || need.behind > room->behind))
        return HN_ERROR(HN_CORRUPT, "operand %u reaches beyond its buffer", operand);
    if (call->is_constant[operand] && !call->operands[operand] && !is_empty(&e))
        return HN_ERROR(HN_INVALID_ARGUMENT, "constant operand %u has no address", operand);
    return NULL;
}

static bool is_float(uint8_t dtype) { return dtype >= HN_F64 && dtype <= HN_BF16; }

static hn_status check_same_dtype(const hn_ext_call *call, uint32_t operand) {
    if (call->dtypes[operand] == call->dtypes[0] || call->dtypes[operand] == HN_NO_TYPE)
        return NULL;
    return HN_ERROR(HN_INVALID_ARGUMENT, "operand %u is %s, but operand 0 is %s", operand,
                    hn_scalar_type_name((hn_scalar_type)call->dtypes[operand]),
                    hn_scalar_type_name((hn_scalar_type)call->dtypes[0]));
}

static hn_status check_operands(const hn_ext_call *call, const kind_facts *facts) {
    for (uint32_t k = 0; k < HN_EXT_MAX_OPERANDS; k++) {
        uint8_t dtype = call->dtypes[k];
        if (dtype >= HN_SCALAR_TYPE_COUNT)
            return HN_ERROR(HN_INVALID_ARGUMENT, "operand %u has the unknown dtype %u", k, dtype);
        if (k < facts->needed_count && dtype == HN_NO_TYPE)
            return HN_ERROR(HN_INVALID_ARGUMENT, "operand %u is missing", k);
        if (k >= facts->operand_count && dtype != HN_NO_TYPE)
            return HN_ERROR(HN_INVALID_ARGUMENT, "operand %u is one too many", k);
        if (k < facts->written_count && call->is_constant[k])
            return HN_ERROR(HN_INVALID_ARGUMENT, "operand %u is written, but marked constant", k);
    }
    return NULL;
}

/* Only ReLU has a meaning for whole numbers. */
static hn_status check_epilogue(const hn_ext_call *call, uint32_t param) {
    HN_TRY(check_range(call, param, 1, HN_EPILOGUE_NONE, HN_EPILOGUE_HARDSIGMOID));
    if (call->params[param] > HN_EPILOGUE_RELU && !is_float(call->dtypes[0]))
        return HN_ERROR(HN_INVALID_ARGUMENT, "epilogue %" PRId64 " needs floats, operand 0 is %s",
                        call->params[param], hn_scalar_type_name((hn_scalar_type)call->dtypes[0]));
    return NULL;
}

/* ---- matmul ---- */

/* The batch, then two dimensions of these sizes; strides from parameter `strides` on. */
static extent matmul_extent(const int64_t *p, int64_t rows, int64_t columns, uint32_t strides) {
    extent e = {.rank = HN_EXTERN_BATCH + 2};
    for (uint32_t d = 0; d < HN_EXTERN_BATCH; d++) e.sizes[d] = p[HN_MATMUL_BATCH + d];
    e.sizes[HN_EXTERN_BATCH] = rows;
    e.sizes[HN_EXTERN_BATCH + 1] = columns;
    for (uint32_t d = 0; d < e.rank; d++) e.strides[d] = p[strides + d];
    return e;
}

static hn_status check_matmul(const hn_ext_call *call) {
    const int64_t *p = call->params;
    HN_TRY(check_sizes(call, HN_MATMUL_BATCH, HN_EXTERN_BATCH + 3));
    HN_TRY(check_range(call, HN_MATMUL_B_CONSTANT, 1, 0, 1));
    HN_TRY(check_epilogue(call, HN_MATMUL_EPILOGUE));
    for (uint32_t k = 1; k < 5; k++) HN_TRY(check_same_dtype(call, k));
    HN_TRY(check_extent(call, 0, matmul_extent(p, p[HN_MATMUL_M], p[HN_MATMUL_N], HN_MATMUL_OUT)));
    HN_TRY(check_extent(call, 1, matmul_extent(p, p[HN_MATMUL_M], p[HN_MATMUL_K], HN_MATMUL_A)));
    HN_TRY(check_extent(call, 2, matmul_extent(p, p[HN_MATMUL_K], p[HN_MATMUL_N], HN_MATMUL_B)));
    HN_TRY(check_extent(call, 3, matmul_extent(p, p[HN_MATMUL_M], p[HN_MATMUL_N], HN_MATMUL_BIAS)));
    return check_extent(call, 4,
                        matmul_extent(p, p[HN_MATMUL_M], p[HN_MATMUL_N], HN_MATMUL_RESIDUAL));
}

/* ---- convolution ---- */

static extent conv_extent(const int64_t *p, int64_t first, int64_t second, uint32_t spatial,
                          uint32_t strides) {
    extent e = {.rank = 5, .sizes = {first, second, p[spatial], p[spatial + 1], p[spatial + 2]}};
    for (uint32_t d = 0; d < 5; d++) e.strides[d] = p[strides + d];
    return e;
}

/* Positions of spatial dimension `d` that implementations compute stay in 63 bits, and, unless
 * transposed, every window lies in the padded input. */
static hn_status check_conv_dim(const int64_t *p, uint32_t d) {
    const int64_t stride = p[HN_CONV_STRIDE + d], padding = p[HN_CONV_PADDING + d],
                  out = p[HN_CONV_OUTSIZE + d];
    int64_t span, padded, reach;
    bool fits = hn_mul_i64(p[HN_CONV_DILATION + d], p[HN_CONV_KERNEL + d] - 1, &span) &&
                hn_add_i64(span, 1, &span) && hn_mul_i64(padding, 2, &padded) &&
                hn_add_i64(padded, p[HN_CONV_IN + d], &padded) &&
                hn_mul_i64(p[HN_CONV_TRANSPOSED] ? p[HN_CONV_IN + d] : out, stride, &reach) &&
                hn_add_i64(reach, span, &reach) && hn_add_i64(reach, padding, &reach) &&
                hn_add_i64(reach, out, &reach) && hn_add_i64(reach, padded, &reach);
    if (!fits)
        return HN_ERROR(HN_INVALID_ARGUMENT, "positions of spatial dimension %u exceed 63 bits", d);
    if (p[HN_CONV_TRANSPOSED] || out == 0 || (out - 1) * stride <= padded - span) return NULL;
    return HN_ERROR(HN_INVALID_ARGUMENT,
                    "output size %" PRId64
                    " of spatial dimension %u is too large for an input of %" PRId64,
                    out, d, p[HN_CONV_IN + d]);
}

static hn_status check_conv_channels(const int64_t *p) {
    int64_t groups = p[HN_CONV_GROUPS];
    if (p[HN_CONV_C] % groups == 0 && p[HN_CONV_O] % groups == 0) return NULL;
    return HN_ERROR(HN_INVALID_ARGUMENT,
                    "%" PRId64 " input and %" PRId64 " output channels do not split into %" PRId64
                    " groups",
                    p[HN_CONV_C], p[HN_CONV_O], groups);
}

static hn_status check_conv(const hn_ext_call *call) {
    const int64_t *p = call->params;
    HN_TRY(check_sizes(call, HN_CONV_N, 3));
    HN_TRY(check_range(call, HN_CONV_GROUPS, 1, 1, INT64_MAX));
    HN_TRY(check_sizes(call, HN_CONV_IN, 3));
    HN_TRY(check_range(call, HN_CONV_KERNEL, 3, 1, INT64_MAX));
    HN_TRY(check_sizes(call, HN_CONV_OUTSIZE, 3));
    HN_TRY(check_range(call, HN_CONV_STRIDE, 3, 1, INT64_MAX));
    HN_TRY(check_sizes(call, HN_CONV_PADDING, 3));
    HN_TRY(check_range(call, HN_CONV_DILATION, 3, 1, INT64_MAX));
    HN_TRY(check_range(call, HN_CONV_TRANSPOSED, 1, 0, 1));
    HN_TRY(check_range(call, HN_CONV_W_CONSTANT, 1, 0, 1));
    HN_TRY(check_range(call, HN_CONV_SCALE_OUT, 1, 0, 1));
    HN_TRY(check_epilogue(call, HN_CONV_EPILOGUE));
    HN_TRY(check_conv_channels(p));
    for (uint32_t d = 0; d < 3; d++) HN_TRY(check_conv_dim(p, d));
    for (uint32_t k = 1; k < 6; k++) HN_TRY(check_same_dtype(call, k));
    const int64_t c = p[HN_CONV_C], o = p[HN_CONV_O], groups = p[HN_CONV_GROUPS];
    const bool transposed = p[HN_CONV_TRANSPOSED];
    HN_TRY(check_extent(call, 0, conv_extent(p, p[HN_CONV_N], o, HN_CONV_OUTSIZE, HN_CONV_OUT)));
    HN_TRY(check_extent(call, 1, conv_extent(p, p[HN_CONV_N], c, HN_CONV_IN, HN_CONV_X)));
    HN_TRY(check_extent(call, 2,
                        conv_extent(p, transposed ? c : o, (transposed ? o : c) / groups,
                                    HN_CONV_KERNEL, HN_CONV_W)));
    HN_TRY(check_extent(call, 3, (extent){.rank = 1, .sizes = {o}, .strides = {1}}));
    HN_TRY(
        check_extent(call, 4, conv_extent(p, p[HN_CONV_N], o, HN_CONV_OUTSIZE, HN_CONV_RESIDUAL)));
    if (p[HN_CONV_SCALE_OUT])
        return check_extent(call, 5,
                            (extent){.rank = 1, .sizes = {o}, .strides = {p[HN_CONV_SCALE + 1]}});
    return check_extent(call, 5,
                        (extent){.rank = 2,
                                 .sizes = {p[HN_CONV_N], c},
                                 .strides = {p[HN_CONV_SCALE], p[HN_CONV_SCALE + 1]}});
}

/* ---- attention ---- */

static extent attention_extent(const int64_t *p, int64_t heads, int64_t rows, int64_t columns,
                               uint32_t strides) {
    extent e = {.rank = 4, .sizes = {p[HN_ATTENTION_BATCH], heads, rows, columns}};
    for (uint32_t d = 0; d < 4; d++) e.strides[d] = p[strides + d];
    return e;
}

/* The mask is the last operand. */
static hn_status check_attention_dtypes(const hn_ext_call *call, uint32_t mask_operand) {
    uint8_t mask = call->dtypes[mask_operand];
    for (uint32_t k = 1; k < mask_operand; k++) HN_TRY(check_same_dtype(call, k));
    if (!is_float(call->dtypes[0]))
        return HN_ERROR(HN_INVALID_ARGUMENT, "attention needs floats, operand 0 is %s",
                        hn_scalar_type_name((hn_scalar_type)call->dtypes[0]));
    if (mask != HN_NO_TYPE && mask != HN_BOOL && !is_float(mask))
        return HN_ERROR(HN_INVALID_ARGUMENT, "the mask is %s, must be bool or float",
                        hn_scalar_type_name((hn_scalar_type)mask));
    return NULL;
}

static hn_status check_heads(const hn_ext_call *call) {
    const int64_t heads = call->params[HN_ATTENTION_BATCH + 1],
                  kv_heads = call->params[HN_ATTENTION_KV_HEADS];
    HN_TRY(check_sizes(call, HN_ATTENTION_BATCH, 7));
    if (heads && (kv_heads == 0 || heads % kv_heads))
        return HN_ERROR(HN_INVALID_ARGUMENT,
                        "%" PRId64 " heads are no multiple of %" PRId64 " key heads", heads,
                        kv_heads);
    return NULL;
}

static hn_status check_attention(const hn_ext_call *call) {
    const int64_t *p = call->params;
    const int64_t heads = p[HN_ATTENTION_BATCH + 1], kv_heads = p[HN_ATTENTION_KV_HEADS];
    const int64_t m = p[HN_ATTENTION_M], n = p[HN_ATTENTION_N], d = p[HN_ATTENTION_D],
                  dv = p[HN_ATTENTION_DV];
    HN_TRY(check_heads(call));
    HN_TRY(check_range(call, HN_ATTENTION_CAUSAL, 1, 0, 1));
    HN_TRY(check_attention_dtypes(call, 4));
    HN_TRY(check_extent(call, 0, attention_extent(p, heads, m, dv, HN_ATTENTION_OUT)));
    HN_TRY(check_extent(call, 1, attention_extent(p, heads, m, d, HN_ATTENTION_Q)));
    HN_TRY(check_extent(call, 2, attention_extent(p, kv_heads, n, d, HN_ATTENTION_K)));
    HN_TRY(check_extent(call, 3, attention_extent(p, kv_heads, n, dv, HN_ATTENTION_V)));
    return check_extent(call, 4, attention_extent(p, heads, m, n, HN_ATTENTION_MASK));
}

/* Operands: d_q, d_k, d_v, grad, q, k, v, out, mask. Sizes are where ATTENTION has them. */
static hn_status check_attention_backward(const hn_ext_call *call) {
    enum { STRIDES = 8, MASK = 8 };
    static const uint8_t strides[STRIDES] = {HN_ATTENTION_BACKWARD_D_Q, HN_ATTENTION_BACKWARD_D_K,
                                             HN_ATTENTION_BACKWARD_D_V, HN_ATTENTION_BACKWARD_GRAD,
                                             HN_ATTENTION_BACKWARD_Q,   HN_ATTENTION_BACKWARD_K,
                                             HN_ATTENTION_BACKWARD_V,   HN_ATTENTION_BACKWARD_OUT};
    const int64_t *p = call->params;
    const int64_t heads = p[HN_ATTENTION_BATCH + 1], kv_heads = p[HN_ATTENTION_KV_HEADS];
    const int64_t m = p[HN_ATTENTION_M], n = p[HN_ATTENTION_N], d = p[HN_ATTENTION_D],
                  dv = p[HN_ATTENTION_DV];
    const int64_t sizes[STRIDES][3] = {{heads, m, d},     {kv_heads, n, d}, {kv_heads, n, dv},
                                       {heads, m, dv},    {heads, m, d},    {kv_heads, n, d},
                                       {kv_heads, n, dv}, {heads, m, dv}};
    HN_TRY(check_heads(call));
    HN_TRY(check_range(call, HN_ATTENTION_BACKWARD_CAUSAL, 1, 0, 1));
    HN_TRY(check_attention_dtypes(call, MASK));
    for (uint32_t k = 0; k < STRIDES; k++)
        HN_TRY(check_extent(
            call, k, attention_extent(p, sizes[k][0], sizes[k][1], sizes[k][2], strides[k])));
    return check_extent(call, MASK, attention_extent(p, heads, m, n, HN_ATTENTION_BACKWARD_MASK));
}

/* ---- sort and top-k ---- */

/* A contiguous array. Where the product exceeds 63 bits, the number of elements does, too, which
 * the check refuses. */
static extent sort_extent(const int64_t *p, int64_t length) {
    const int64_t inner = p[HN_SORT_INNER], row = (int64_t)((uint64_t)length * (uint64_t)inner);
    return (extent){
        .rank = 3, .sizes = {p[HN_SORT_OUTER], length, inner}, .strides = {row, inner, 1}};
}

static hn_status check_sort(const hn_ext_call *call) {
    const int64_t *p = call->params;
    HN_TRY(check_sizes(call, HN_SORT_OUTER, 3));
    HN_TRY(check_range(call, HN_SORT_K, 1, call->kind == HN_EXTERN_SORT ? p[HN_SORT_N] : 0,
                       p[HN_SORT_N]));
    HN_TRY(check_range(call, HN_SORT_DESCENDING, 2, 0, 1));
    HN_TRY(check_same_dtype(call, 2));
    if (call->dtypes[1] != HN_I64)
        return HN_ERROR(HN_INVALID_ARGUMENT, "the indices are %s, must be i64",
                        hn_scalar_type_name((hn_scalar_type)call->dtypes[1]));
    HN_TRY(check_extent(call, 0, sort_extent(p, p[HN_SORT_K])));
    HN_TRY(check_extent(call, 1, sort_extent(p, p[HN_SORT_K])));
    return check_extent(call, 2, sort_extent(p, p[HN_SORT_N]));
}

/* ---- nonzero ---- */

static hn_status check_nonzero(const hn_ext_call *call) {
    const int64_t *p = call->params;
    int64_t numel = 1;
    HN_TRY(check_sizes(call, HN_NONZERO_COUNT, 1));
    HN_TRY(check_range(call, HN_NONZERO_RANK, 1, 0, HN_NONZERO_RANK_MAX));
    HN_TRY(check_sizes(call, HN_NONZERO_SIZES, HN_NONZERO_RANK_MAX));
    for (uint32_t d = 0; d < p[HN_NONZERO_RANK]; d++)
        if (!hn_mul_i64(numel, p[HN_NONZERO_SIZES + d], &numel))
            return HN_ERROR(HN_INVALID_ARGUMENT,
                            "operand 1 is too large: its bytes exceed 63 bits");
    if (call->dtypes[0] != HN_I64 || call->dtypes[1] != HN_BOOL)
        return HN_ERROR(HN_INVALID_ARGUMENT,
                        "positions are %s and the mask %s, must be i64 and bool",
                        hn_scalar_type_name((hn_scalar_type)call->dtypes[0]),
                        hn_scalar_type_name((hn_scalar_type)call->dtypes[1]));
    HN_TRY(check_extent(call, 0,
                        (extent){.rank = 2,
                                 .sizes = {p[HN_NONZERO_COUNT], p[HN_NONZERO_RANK]},
                                 .strides = {p[HN_NONZERO_RANK], 1}}));
    return check_extent(call, 1, (extent){.rank = 1, .sizes = {numel}, .strides = {1}});
}

/* ---- grouped matmul, nms ---- */

static hn_status check_grouped(const hn_ext_call *call) {
    const int64_t *p = call->params, groups = p[HN_GROUPED_GROUPS], m = p[HN_GROUPED_M],
                  n = p[HN_GROUPED_N], k = p[HN_GROUPED_K];
    HN_TRY(check_sizes(call, HN_GROUPED_GROUPS, 4));
    HN_TRY(check_range(call, HN_GROUPED_B_CONSTANT, 1, 0, 1));
    for (uint32_t i = 1; i < 3; i++) HN_TRY(check_same_dtype(call, i));
    if (call->dtypes[3] != HN_I64)
        return HN_ERROR(HN_INVALID_ARGUMENT, "the ends are %s, must be i64",
                        hn_scalar_type_name((hn_scalar_type)call->dtypes[3]));
    HN_TRY(check_extent(call, 0, (extent){.rank = 2, .sizes = {m, n}, .strides = {n, 1}}));
    HN_TRY(check_extent(
        call, 1,
        (extent){.rank = 2, .sizes = {m, k}, .strides = {p[HN_GROUPED_A], p[HN_GROUPED_A + 1]}}));
    HN_TRY(check_extent(
        call, 2,
        (extent){.rank = 3,
                 .sizes = {groups, k, n},
                 .strides = {p[HN_GROUPED_B], p[HN_GROUPED_B + 1], p[HN_GROUPED_B + 2]}}));
    return check_extent(call, 3, (extent){.rank = 1, .sizes = {groups}, .strides = {1}});
}

static hn_status check_nms(const hn_ext_call *call) {
    const int64_t n = call->params[HN_NMS_N];
    HN_TRY(check_sizes(call, HN_NMS_N, 1));
    if (call->dtypes[0] != HN_BOOL || (call->dtypes[1] != HN_F32 && call->dtypes[1] != HN_F64))
        return HN_ERROR(HN_INVALID_ARGUMENT,
                        "what is kept is %s and the boxes %s, must be bool and f32 or f64",
                        hn_scalar_type_name((hn_scalar_type)call->dtypes[0]),
                        hn_scalar_type_name((hn_scalar_type)call->dtypes[1]));
    HN_TRY(check_extent(call, 0, (extent){.rank = 1, .sizes = {n}, .strides = {1}}));
    return check_extent(call, 1, (extent){.rank = 2, .sizes = {n, 4}, .strides = {4, 1}});
}

/* ---- combining ---- */

static hn_status check_combine(const hn_ext_call *call) {
    const int64_t *p = call->params;
    const uint8_t places = call->dtypes[1], order = call->dtypes[2];
    HN_TRY(check_sizes(call, HN_COMBINE_PLACES, 3));
    HN_TRY(check_range(call, HN_COMBINE_MODE, 1, HN_COMBINE_SET, HN_COMBINE_MAX));
    HN_TRY(check_same_dtype(call, 3));
    HN_TRY(check_same_dtype(call, 4));
    if (p[HN_COMBINE_MODE] != HN_COMBINE_SET && !is_float(call->dtypes[0]))
        return HN_ERROR(HN_INVALID_ARGUMENT, "mode %" PRId64 " needs floats, operand 0 is %s",
                        p[HN_COMBINE_MODE], hn_scalar_type_name((hn_scalar_type)call->dtypes[0]));
    if ((places != HN_I32 && places != HN_I64) || order != HN_I64)
        return HN_ERROR(HN_INVALID_ARGUMENT,
                        "places are %s and their order %s, must be i32 or i64, and i64",
                        hn_scalar_type_name((hn_scalar_type)places),
                        hn_scalar_type_name((hn_scalar_type)order));
    const int64_t rows[] = {p[HN_COMBINE_PLACES], p[HN_COMBINE_N], p[HN_COMBINE_N], p[HN_COMBINE_N],
                            p[HN_COMBINE_PLACES]};
    for (uint32_t k = 0; k < 5; k++) {
        const int64_t columns = k == 1 || k == 2 ? 1 : p[HN_COMBINE_COLUMNS];
        HN_TRY(check_extent(
            call, k, (extent){.rank = 2, .sizes = {rows[k], columns}, .strides = {columns, 1}}));
    }
    return NULL;
}

/* ---- calls ---- */

static hn_status check_call(const hn_ext_call *call, const kind_facts *facts) {
    if (call->param_count != facts->param_count || !call->params)
        return HN_ERROR(HN_INVALID_ARGUMENT, "%u parameters given, must be %u",
                        call->params ? call->param_count : 0, facts->param_count);
    if (call->threads < 1)
        return HN_ERROR(HN_INVALID_ARGUMENT, "%d threads, must be 1 or more", call->threads);
    HN_TRY(check_operands(call, facts));
    return checks[call->kind](call);
}

hn_status hn_ext_annotate(const hn_ext_call *call, hn_status status) {
    return hn_status_annotate(status, "extern operation '%s'", kinds[call->kind].name);
}

hn_status hn_ext_check(const hn_ext_call *call) {
    const kind_facts *facts = facts_of(call->kind);
    if (!facts)
        return HN_ERROR(HN_INVALID_ARGUMENT, "unknown extern operation %d", (int)call->kind);
    return hn_ext_annotate(call, check_call(call, facts));
}
