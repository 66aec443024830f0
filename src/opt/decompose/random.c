/* random.c: random numbers -> RANDOM, and what is made of them.
 *
 * Numbers are Philox's, not those of PyTorch's generator: equal in distribution, not bit by bit.
 * Every op draws from a stream of its own under one seed, which is a constant of the graph. Streams
 * are numbered in the order of the program, through both branches of a conditional: which branch is
 * taken changes no numbers behind it, other than with a generator whose position moves with every
 * draw. */
#include "opt/decompose/math.h"

#include <math.h>

/* The seed that the graph's RANDOM nodes share, and a stream that none of them has. */
typedef struct source {
    hn_value seed;
    hn_expr stream;
} source;

static source next_source(hn_dec *d) {
    source s = {0};
    int64_t used = 0;
    int param = hn_op_param_index(HN_OP_RANDOM, "seed");
    for (hn_node n = 1; n < d->g->nodes.count; n++) {
        const hn_node_info *node = hn_graph_node(d->g, n);
        if (node->op != HN_OP_RANDOM) continue;
        used++;
        if (param >= 0 && node->args[param].kind == HN_ARG_VALUE)
            s.seed = node->args[param].as.value;
    }
    if (!s.seed) {
        const int64_t seed = 0;
        s.seed = hn_graph_add_constant(d->g, HN_DTYPE_I64, 0, NULL, &seed, sizeof seed);
    }
    if (used < *d->streams) used = *d->streams; /* those of other graphs count too */
    *d->streams = (uint32_t)used + 1;
    s.stream = e_int(d, used);
    return s;
}

/* `kind` is uniform (in [0, 1)), normal or bits. */
static hn_value draw(hn_dec *d, const char *kind, const m_shape_t *shape, hn_dtype dtype) {
    source s = next_source(d);
    return hn_b_random(d->g, kind, shape->sizes, shape->rank, dtype, s.seed, s.stream);
}

/* Uniform or normal numbers in the shape of result 0, in opmath. */
static hn_value draw_result(hn_dec *d, const char *kind) {
    m_shape_t s = m_meta_shape(d, 0);
    hn_dtype dtype = m_meta_dtype(d, 0);
    return draw(d, kind, &s, hn_dtype_is_float(dtype) ? hn_dec_opmath(dtype) : HN_DTYPE_F32);
}

/* aten.rand, aten.rand_like: the recorded result has shape and dtype */
void hn_dec_rand(hn_dec *d) { m_result(d, 0, draw_result(d, "uniform")); }
/* aten.randn, aten.randn_like */
void hn_dec_randn(hn_dec *d) { m_result(d, 0, draw_result(d, "normal")); }

/* aten.uniform(self, from, to) */
void hn_dec_uniform(hn_dec *d) {
    double from = hn_dec_float(d, 1), to = hn_dec_float(d, 2);
    m_result(d, 0, m_add_c(d, m_mul_c(d, draw_result(d, "uniform"), to - from), from));
}

/* aten.normal_functional(self, mean, std) */
void hn_dec_normal(hn_dec *d) {
    double mean = hn_dec_float(d, 1), std = hn_dec_float(d, 2);
    m_result(d, 0, m_add_c(d, m_mul_c(d, draw_result(d, "normal"), std), mean));
}

static hn_value tensor_or_number(hn_dec *d, uint32_t arg, hn_dtype dtype) {
    return hn_dec_arg_meta(d, arg) ? m_cast(d, hn_dec_tensor(d, arg), dtype)
                                   : hn_dec_number(d, arg, dtype);
}

/* aten.normal.Tensor_Tensor, Tensor_float, float_Tensor (mean, std), float_float (mean, std, size):
 * numbers or tensors that broadcast */
void hn_dec_normal_of(hn_dec *d) {
    hn_value r = draw_result(d, "normal");
    hn_dtype math = m_dtype(d, r);
    m_result(d, 0,
             m_add(d, m_mul(d, r, tensor_or_number(d, 1, math)), tensor_or_number(d, 0, math)));
}

/* aten.exponential(self, lambd): -log(1 - u) / lambd */
void hn_dec_exponential(hn_dec *d) {
    hn_value u = draw_result(d, "uniform");
    m_result(d, 0, m_div_c(d, m_neg(d, m_un(d, HN_OP_LOG1P, m_neg(d, u))), hn_dec_float(d, 1)));
}

/* low + bits mod (high - low), bits >= 0 */
static void random_ints(hn_dec *d, hn_expr low, hn_expr high) {
    m_shape_t s = m_meta_shape(d, 0);
    hn_value range = m_size_as(d, e_sub(d, high, low), HN_DTYPE_I64);
    hn_value bits = m_bin_c(d, HN_OP_SHR, draw(d, "bits", &s, HN_DTYPE_I64), 1);
    m_result(d, 0,
             m_add(d, m_bin(d, HN_OP_REMAINDER, bits, range), m_size_as(d, low, HN_DTYPE_I64)));
}

/* aten.randint(high, size) */
void hn_dec_randint(hn_dec *d) { random_ints(d, e_int(d, 0), hn_dec_expr(d, 0)); }
/* aten.randint.low(low, high, size) */
void hn_dec_randint_low(hn_dec *d) { random_ints(d, hn_dec_expr(d, 0), hn_dec_expr(d, 1)); }

/* aten.randperm(n): the order that sorts random numbers */
void hn_dec_randperm(hn_dec *d) {
    m_shape_t s = m_meta_shape(d, 0);
    hn_value indices = 0;
    if (!m_require(d, s.rank == 1, "randperm gives one dimension")) return;
    hn_b_sort(d->g, draw(d, "bits", &s, HN_DTYPE_I64), 0, false, true, &indices);
    m_result(d, 0, indices);
}

/* aten.bernoulli(self): each element is a probability */
void hn_dec_bernoulli(hn_dec *d) {
    hn_value p = m_opmath(d, hn_dec_tensor(d, 0));
    m_result(d, 0, m_bin(d, HN_OP_LT, m_cast(d, draw_result(d, "uniform"), m_dtype(d, p)), p));
}

/* aten.bernoulli.p(self, p) */
void hn_dec_bernoulli_p(hn_dec *d) {
    m_result(d, 0, m_bin_c(d, HN_OP_LT, draw_result(d, "uniform"), hn_dec_float(d, 1)));
}

hn_value hn_dec_drop(hn_dec *d, hn_value x, double p, hn_value *out_kept) {
    m_shape_t s = m_shape(d, x);
    hn_dtype math = hn_dec_opmath(m_dtype(d, x));
    *out_kept = m_bin_c(d, HN_OP_GE, draw(d, "uniform", &s, math), p);
    hn_value scaled = p < 1 ? m_mul_c(d, m_cast(d, x, math), 1 / (1 - p)) : m_cast(d, x, math);
    /* a product, as in PyTorch: an infinite element that is dropped gives NaN */
    return m_mul(d, scaled, m_cast(d, *out_kept, math));
}

/* aten.native_dropout(input, p, train) -> input / (1 - p) where kept, mask of what is kept */
void hn_dec_native_dropout(hn_dec *d) {
    hn_value x = hn_dec_tensor(d, 0);
    double p = hn_dec_float(d, 1);
    m_shape_t s = m_shape(d, x);
    bool train = !hn_dec_has(d, 2) || hn_dec_bool(d, 2);
    if (!train || p <= 0) {
        m_result(d, 0, x);
        if (m_wants(d, 1)) m_result(d, 1, m_full(d, &s, 1, HN_DTYPE_BOOL));
        return;
    }
    hn_value kept = 0;
    m_result(d, 0, hn_dec_drop(d, x, p, &kept));
    if (m_wants(d, 1)) m_result(d, 1, kept);
}

/* aten.native_dropout_backward(grad_output, mask, scale): the scale makes integers floats */
void hn_dec_native_dropout_backward(hn_dec *d) {
    hn_dtype math = hn_dec_opmath(m_meta_dtype(d, 0));
    hn_value g = m_cast(d, hn_dec_tensor(d, 0), math), mask = m_cast(d, hn_dec_tensor(d, 1), math);
    m_result(d, 0, m_mul_c(d, m_mul(d, g, mask), hn_dec_float(d, 2)));
}

/* aten.multinomial(self, num_samples, replacement): without replacement, the largest p / e with e
 * exponential; with it, where uniform numbers fall among the running sums */
void hn_dec_multinomial(hn_dec *d) {
    hn_value p = m_opmath(d, hn_dec_tensor(d, 0)), indices = 0;
    uint32_t rank = m_rank(d, p);
    if (!m_require(d, rank == 1 || rank == 2, "multinomial wants one or two dimensions")) return;
    if (!hn_dec_bool(d, 2)) {
        m_shape_t s = m_shape(d, p);
        hn_value exponential =
            m_neg(d, m_un(d, HN_OP_LOG1P, m_neg(d, draw(d, "uniform", &s, m_dtype(d, p)))));
        hn_b_topk(d->g, m_div(d, p, exponential), hn_dec_expr(d, 1), rank - 1, true, true,
                  &indices);
        m_result(d, 0, indices);
        return;
    }
    m_shape_t out = m_meta_shape(d, 0);
    hn_value sums = hn_b_scan(d->g, HN_OP_CUMSUM, p, rank - 1, NULL);
    hn_value total = m_reduce1(d, HN_OP_SUM, p, rank - 1, true);
    hn_value at = m_mul(d, draw(d, "uniform", &out, m_dtype(d, p)), total);
    hn_value index = m_count_before(d, sums, at, true),
             last = m_size_as(d, e_addc(d, m_size(d, p, rank - 1), -1), HN_DTYPE_I64);
    m_result(d, 0, m_bin(d, HN_OP_MIN, index, last));
}

/* aten.bernoulli.Tensor(self, p): p broadcasts to the result */
void hn_dec_bernoulli_tensor(hn_dec *d) {
    hn_value u = draw_result(d, "uniform");
    m_result(d, 0, m_bin(d, HN_OP_LT, u, m_cast(d, hn_dec_tensor(d, 1), m_dtype(d, u))));
}

/* aten.cauchy(self, median, sigma) */
void hn_dec_cauchy(hn_dec *d) {
    hn_value angle = m_mul_c(d, m_sub_c(d, draw_result(d, "uniform"), 0.5), M_PI);
    m_result(
        d, 0,
        m_add_c(d, m_mul_c(d, m_un(d, HN_OP_TAN, angle), hn_dec_float(d, 2)), hn_dec_float(d, 1)));
}

/* aten.log_normal(self, mean, std) */
void hn_dec_log_normal(hn_dec *d) {
    double mean = hn_dec_float(d, 1), std = hn_dec_float(d, 2);
    m_result(d, 0, m_exp(d, m_add_c(d, m_mul_c(d, draw_result(d, "normal"), std), mean)));
}

/* aten.geometric(self, p): 1, 2... */
void hn_dec_geometric(hn_dec *d) {
    hn_value u = draw_result(d, "uniform");
    hn_value tries = m_div_c(d, m_un(d, HN_OP_LOG1P, m_neg(d, u)), log1p(-hn_dec_float(d, 1)));
    m_result(d, 0, m_max_c(d, m_un(d, HN_OP_CEIL, tries), 1));
}

/* aten.randint_like(self, high), .low_dtype(self, low, high) */
void hn_dec_randint_like(hn_dec *d) { random_ints(d, e_int(d, 0), hn_dec_expr(d, 1)); }
void hn_dec_randint_like_low(hn_dec *d) { random_ints(d, hn_dec_expr(d, 1), hn_dec_expr(d, 2)); }
