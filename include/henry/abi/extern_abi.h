/* extern_abi.h: the runtime's own operations (contractions, convolutions, attention, sort), in the
 * form in which the compiler writes them into a program. Standalone. Numbers are part of stored
 * programs: append only; a changed meaning needs a new HN_EXTERN_ABI_VERSION.
 *
 * A call has operands (buffers with a dtype and a byte offset) and int64 parameters at the
 * positions below. All strides are in elements. A missing optional operand has no buffer. */
#ifndef HENRY_ABI_EXTERN_ABI_H
#define HENRY_ABI_EXTERN_ABI_H

#define HN_EXTERN_ABI_VERSION 3

typedef enum hn_extern_kind {
    HN_EXTERN_NONE = 0,
    HN_EXTERN_MATMUL = 1,         /* operands: out, a, b, bias?, residual? */
    HN_EXTERN_CONV = 2,           /* out, x, w, bias?, residual?, scale? */
    HN_EXTERN_ATTENTION = 3,      /* out, q, k, v, mask? */
    HN_EXTERN_SORT = 4,           /* values, indices (i64), x */
    HN_EXTERN_TOPK = 5,           /* values, indices (i64), x */
    HN_EXTERN_NONZERO = 6,        /* positions (i64), x (bool) */
    HN_EXTERN_GROUPED_MATMUL = 7, /* out, a, b, ends (i64) */
    HN_EXTERN_NMS = 8,            /* keep (bool), boxes */
    /* d_q, d_k, d_v, grad, q, k, v, out, mask? */
    HN_EXTERN_ATTENTION_BACKWARD = 9,
    HN_EXTERN_COMBINE_SORTED = 10, /* out, places, order, values, x? */
    HN_EXTERN_KIND_COUNT
} hn_extern_kind;

/* Applied to the result, after the bias and the residual. */
typedef enum hn_epilogue {
    HN_EPILOGUE_NONE = 0,
    HN_EPILOGUE_RELU = 1,
    HN_EPILOGUE_GELU_ERF = 2,
    HN_EPILOGUE_GELU_TANH = 3,
    HN_EPILOGUE_SILU = 4,
    HN_EPILOGUE_HARDSWISH = 5,
    HN_EPILOGUE_SIGMOID = 6,
    HN_EPILOGUE_TANH = 7,
    HN_EPILOGUE_HARDSIGMOID = 8
} hn_epilogue;

#define HN_EXTERN_BATCH 4 /* batch dimensions; unused ones have size 1 and stride 0 */

/* out[b.., m, n] = epilogue(sum_k a[b.., m, k] * b[b.., k, n] + bias[b.., m, n] + residual[b.., m,
 * n]); bias and residual by strides (0 repeats). */
enum {
    HN_MATMUL_BATCH = 0, /* [4] sizes */
    HN_MATMUL_M = 4,
    HN_MATMUL_N = 5,
    HN_MATMUL_K = 6,
    HN_MATMUL_A = 7,     /* strides [batch 4, m, k] */
    HN_MATMUL_B = 13,    /* strides [batch 4, k, n] */
    HN_MATMUL_OUT = 19,  /* strides [batch 4, m, n] */
    HN_MATMUL_BIAS = 25, /* strides [batch 4, m, n] */
    HN_MATMUL_EPILOGUE = 31,
    HN_MATMUL_B_CONSTANT = 32, /* 1: b is a weight, may be packed once */
    HN_MATMUL_RESIDUAL = 33,   /* strides [batch 4, m, n] */
    HN_MATMUL_PARAM_COUNT = 39
};

/* out = epilogue(conv(x * scale, w) + bias + residual): bias [o] is contiguous, scale [n, c] is for
 * each image and input channel. With HN_CONV_SCALE_OUT, scale [o] is for output channels:
 * epilogue(conv(x, w) * scale + bias + residual). Three spatial dimensions always; unused leading
 * ones have size 1, kernel 1, stride 1, padding 0, dilation 1. */
enum {
    HN_CONV_N = 0,
    HN_CONV_C = 1,
    HN_CONV_O = 2,
    HN_CONV_GROUPS = 3,
    HN_CONV_IN = 4,       /* [3] input spatial sizes */
    HN_CONV_KERNEL = 7,   /* [3] */
    HN_CONV_OUTSIZE = 10, /* [3] */
    HN_CONV_STRIDE = 13,
    HN_CONV_PADDING = 16,
    HN_CONV_DILATION = 19, /* [3] each */
    HN_CONV_TRANSPOSED = 22,
    HN_CONV_X = 23,   /* strides [n, c, s0, s1, s2] */
    HN_CONV_W = 28,   /* strides [o, c/groups, k0, k1, k2]; transposed: [c, o/groups, ...] */
    HN_CONV_OUT = 33, /* strides [n, o, s0, s1, s2] */
    HN_CONV_EPILOGUE = 38,
    HN_CONV_W_CONSTANT = 39,
    HN_CONV_RESIDUAL = 40, /* strides [n, o, s0, s1, s2] */
    HN_CONV_SCALE = 45,    /* strides [n, c]; the second one is that of o with HN_CONV_SCALE_OUT */
    HN_CONV_SCALE_OUT = 47,
    HN_CONV_PARAM_COUNT = 48
};

/* softmax(scale * q k^T + mask) v per batch and head; a fully masked row gives 0. Mask: bool (false
 * = -inf) or float. */
enum {
    HN_ATTENTION_BATCH = 0, /* [2] sizes; the second one is the head count H */
    HN_ATTENTION_KV_HEADS = 2,
    HN_ATTENTION_M = 3,
    HN_ATTENTION_N = 4,
    HN_ATTENTION_D = 5,
    HN_ATTENTION_DV = 6,
    HN_ATTENTION_Q = 7,       /* strides [batch, head, m, d] */
    HN_ATTENTION_K = 11,      /* strides [batch, kv head, n, d] */
    HN_ATTENTION_V = 15,      /* strides [batch, kv head, n, dv] */
    HN_ATTENTION_OUT = 19,    /* strides [batch, head, m, dv] */
    HN_ATTENTION_MASK = 23,   /* strides [batch, head, m, n] */
    HN_ATTENTION_CAUSAL = 27, /* 1: key j is seen by query i when j <= i */
    HN_ATTENTION_SCALE = 28,  /* the bits of a double */
    HN_ATTENTION_PARAM_COUNT = 29
};

/* The gradients of ATTENTION's q, k and v, with its result `out` and the gradient `grad` of that. What
 * they begin with is as in ATTENTION. */
enum {
    HN_ATTENTION_BACKWARD_GRAD = 7, /* strides [batch, head, m, dv] */
    HN_ATTENTION_BACKWARD_Q = 11,
    HN_ATTENTION_BACKWARD_K = 15,
    HN_ATTENTION_BACKWARD_V = 19,
    HN_ATTENTION_BACKWARD_OUT = 23,
    HN_ATTENTION_BACKWARD_MASK = 27,
    HN_ATTENTION_BACKWARD_CAUSAL = 31,
    HN_ATTENTION_BACKWARD_SCALE = 32, /* the bits of a double */
    HN_ATTENTION_BACKWARD_D_Q = 33,
    HN_ATTENTION_BACKWARD_D_K = 37,
    HN_ATTENTION_BACKWARD_D_V = 41,
    HN_ATTENTION_BACKWARD_PARAM_COUNT = 45
};

/* x is contiguous [outer, n, inner]; sorted along n. TOPK writes k rows: [outer, k, inner]. NaN is
 * largest. */
enum {
    HN_SORT_OUTER = 0,
    HN_SORT_N = 1,
    HN_SORT_INNER = 2,
    HN_SORT_K = 3,
    HN_SORT_DESCENDING = 4,
    HN_SORT_STABLE = 5,
    HN_SORT_PARAM_COUNT = 6
};

/* The coordinates of the true elements of x, in row-major order: [count, rank]. x is contiguous. A
 * count that is not the number of true elements fails the call. */
#define HN_NONZERO_RANK_MAX 16
enum {
    HN_NONZERO_COUNT = 0,
    HN_NONZERO_RANK = 1,
    HN_NONZERO_SIZES = 2, /* [HN_NONZERO_RANK_MAX]; unused ones are 1 */
    HN_NONZERO_PARAM_COUNT = HN_NONZERO_SIZES + HN_NONZERO_RANK_MAX
};

/* out[i, n] = sum_k a[i, k] * b[g, k, n], where g is the group of row i: the first one with i <
 * ends[g]. Rows from the last end on are 0. out and ends are contiguous. Ends that descend, or are
 * not in [0, m], fail the call. */
enum {
    HN_GROUPED_GROUPS = 0,
    HN_GROUPED_M = 1,
    HN_GROUPED_N = 2,
    HN_GROUPED_K = 3,
    HN_GROUPED_A = 4,          /* strides [m, k] */
    HN_GROUPED_B = 6,          /* strides [group, k, n] */
    HN_GROUPED_B_CONSTANT = 9, /* 1: b is a weight, may be packed once */
    HN_GROUPED_PARAM_COUNT = 10
};

/* keep[i]: no box before i that is kept overlaps box i (x1, y1, x2, y2) by more than the threshold:
 * their common area over that of both together. boxes [n, 4] and keep [n] are contiguous. */
enum {
    HN_NMS_N = 0,
    HN_NMS_THRESHOLD = 1, /* the bits of a double */
    HN_NMS_PARAM_COUNT = 2
};

/* out[p, c] is x[p, c], combined with values[order[j], c] for each j with places[j] = p, one after
 * the other: a scatter whose places were sorted. out and x are [PLACES, COLUMNS], values [N,
 * COLUMNS], places (i32 or i64) and order (i64) [N], all contiguous; without x it is 0. Places ascend
 * and lie in [0, PLACES); order has each number in [0, N) once. Each step rounds to the dtype. */
typedef enum hn_combine_mode {
    HN_COMBINE_SET = 0, /* the last value stays */
    HN_COMBINE_ADD = 1,
    HN_COMBINE_MUL = 2,
    /* NaN stays; which NaN, and of 0 and -0 which one, is not fixed, likewise below */
    HN_COMBINE_MIN = 3,
    HN_COMBINE_MAX = 4
} hn_combine_mode;
enum {
    HN_COMBINE_PLACES = 0,
    HN_COMBINE_COLUMNS = 1,
    HN_COMBINE_N = 2,
    HN_COMBINE_MODE = 3, /* modes other than SET are for floats */
    HN_COMBINE_PARAM_COUNT = 4
};

/* A row for each kind: X(kind, name, operands, needed, written, parameters). Of a call's operands
 * the first `needed` must be there, and the first `written` are the ones that it writes. */
#define HN_EXTERN_KINDS(X)                                                                         \
    X(HN_EXTERN_MATMUL, "matmul", 5, 3, 1, HN_MATMUL_PARAM_COUNT)                                  \
    X(HN_EXTERN_CONV, "conv", 6, 3, 1, HN_CONV_PARAM_COUNT)                                        \
    X(HN_EXTERN_ATTENTION, "attention", 5, 4, 1, HN_ATTENTION_PARAM_COUNT)                         \
    X(HN_EXTERN_SORT, "sort", 3, 3, 2, HN_SORT_PARAM_COUNT)                                        \
    X(HN_EXTERN_TOPK, "topk", 3, 3, 2, HN_SORT_PARAM_COUNT)                                        \
    X(HN_EXTERN_NONZERO, "nonzero", 2, 2, 1, HN_NONZERO_PARAM_COUNT)                               \
    X(HN_EXTERN_GROUPED_MATMUL, "grouped_matmul", 4, 4, 1, HN_GROUPED_PARAM_COUNT)                 \
    X(HN_EXTERN_NMS, "nms", 2, 2, 1, HN_NMS_PARAM_COUNT)                                           \
    X(HN_EXTERN_ATTENTION_BACKWARD, "attention_backward", 9, 8, 3,                                 \
      HN_ATTENTION_BACKWARD_PARAM_COUNT)                                                           \
    X(HN_EXTERN_COMBINE_SORTED, "combine_sorted", 5, 4, 1, HN_COMBINE_PARAM_COUNT)

#endif
