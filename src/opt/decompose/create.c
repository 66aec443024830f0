/* create.c: tensors made from numbers and sizes. Sizes and dtype are those of the recorded
 * result: PyTorch has applied its defaults there. Memory that PyTorch leaves unset is 0 here. */
#include "opt/decompose/math.h"
#include "opt/decompose/operands.h"

#include <math.h>

/* --- one value --- */

static void filled(hn_dec *d, double value) {
    m_shape_t shape = m_meta_shape(d, 0);
    hn_dec_result(d, 0, m_full(d, &shape, value, m_meta_dtype(d, 0)));
}
void hn_dec_zeros(hn_dec *d) { filled(d, 0); }
void hn_dec_ones(hn_dec *d) { filled(d, 1); }

static void filled_with(hn_dec *d, uint32_t arg) {
    m_shape_t shape = m_meta_shape(d, 0);
    hn_dtype dtype = m_meta_dtype(d, 0);
    bool constant = hn_dec_has(d, arg) && d->node->args[arg].kind != HN_ARG_VALUE;
    hn_value v = constant ? hn_b_full(d->g, hn_dec_scalar(d, arg), shape.sizes, shape.rank, dtype)
                          : m_expand(d, hn_dec_number(d, arg, dtype), &shape);
    hn_dec_result(d, 0, v);
}
void hn_dec_full(hn_dec *d) { filled_with(d, 1); }
void hn_dec_new_full(hn_dec *d) { filled_with(d, 2); }
void hn_dec_scalar_tensor(hn_dec *d) { filled_with(d, 0); }

/* --- sequences --- */

/* For an integer result PyTorch truncates each number first. */
static hn_scalar sequence_number(hn_dec *d, uint32_t arg, bool to_int) {
    hn_scalar s = hn_dec_scalar(d, arg);
    if (!to_int || !s.is_float) return s;
    bool fits = m_require(d, fabs(s.f) < 0x1p63, "a number does not fit an integer");
    return hn_scalar_i(hn_dec_i(d, fits ? (int64_t)s.f : 0));
}

void hn_dec_arange(hn_dec *d) {
    hn_dtype dtype = m_meta_dtype(d, 0);
    bool to_int = !hn_dtype_is_float(dtype), from_zero = d->node->op == HN_ATEN_arange_default;
    hn_scalar start = hn_scalar_i(hn_dec_i(d, 0)), step = hn_scalar_i(hn_dec_i(d, 1));
    if (!from_zero) start = sequence_number(d, 0, to_int);
    if (d->node->op == HN_ATEN_arange_start_step) step = sequence_number(d, 2, to_int);
    /* one kind for both; a symbolic one stays an expression */
    if (start.is_float != step.is_float) {
        int64_t value = 0;
        if (!start.is_float && e_const(d, start.i, &value)) start = hn_scalar_f((double)value);
        else if (!step.is_float && e_const(d, step.i, &value)) step = hn_scalar_f((double)value);
    }
    hn_dec_result(d, 0, hn_b_iota(d->g, start, step, m_meta_shape(d, 0).sizes[0], dtype));
}

/* PyTorch steps in the dtype itself when it is a float, else in double. */
static double linspace_step(hn_dtype dtype, double start, double end, int64_t steps) {
    if (steps < 2) return 0;
    if (hn_dec_opmath(dtype) == HN_DTYPE_F32)
        return (double)(((float)end - (float)start) / (float)(steps - 1));
    return (end - start) / (double)(steps - 1);
}

/* The first half counts up from start, the second down from end, so that both ends are exact. */
void hn_dec_linspace(hn_dec *d) {
    hn_dtype dtype = m_meta_dtype(d, 0),
             compute = hn_dtype_is_float(dtype) ? hn_dec_opmath(dtype) : HN_DTYPE_F64;
    double start = hn_dec_float(d, 0), end = hn_dec_float(d, 1);
    int64_t steps = hn_dec_int(d, 2);
    if (!m_require(d, steps >= 0 && steps <= INT32_MAX, "steps is out of range")) return;
    hn_value i = m_iota(d, hn_dec_i(d, steps), compute),
             step = hn_dec_const(d, linspace_step(dtype, start, end, steps), compute);
    hn_value up = m_add(d, hn_dec_const(d, start, compute), m_mul(d, step, i));
    hn_value back = m_c_sub(d, (double)(steps - 1), i);
    hn_value down = m_sub(d, hn_dec_const(d, end, compute), m_mul(d, step, back));
    hn_value first_half = m_bin_c(d, HN_OP_LT, i, (double)(steps / 2));
    if (steps == 1) down = up;
    hn_dec_result(d, 0, m_cast(d, m_where(d, first_half, up, down), dtype));
}

/* --- matrices by position --- */

/* Column minus row of every element of the last two dims, [n, m] i64. */
static hn_value diagonal_number(hn_dec *d, hn_expr n, hn_expr m) {
    hn_value rows = m_along(d, m_iota(d, n, HN_DTYPE_I64), 0, 2),
             cols = m_along(d, m_iota(d, m, HN_DTYPE_I64), 1, 2);
    return m_sub(d, cols, rows);
}

void hn_dec_eye(hn_dec *d) {
    m_shape_t shape = m_meta_shape(d, 0);
    if (!m_require(d, shape.rank == 2, "the result is not a matrix")) return;
    hn_value on_diagonal =
        m_bin_c(d, HN_OP_EQ, diagonal_number(d, shape.sizes[0], shape.sizes[1]), 0);
    hn_dec_result(d, 0, m_cast(d, on_diagonal, m_meta_dtype(d, 0)));
}

static void triangle(hn_dec *d, hn_op keep) {
    hn_value x = hn_dec_tensor(d, 0);
    uint32_t rank = m_rank(d, x);
    if (!m_require(d, rank >= 2, "the operand has fewer than two dimensions")) return;
    hn_value number = diagonal_number(d, m_size(d, x, rank - 2), m_size(d, x, rank - 1));
    hn_value kept = m_bin(d, keep, number, m_size_as(d, hn_dec_expr(d, 1), HN_DTYPE_I64));
    hn_dec_result(d, 0, m_where(d, kept, x, m_c(d, x, 0)));
}
void hn_dec_tril(hn_dec *d) { triangle(d, HN_OP_LE); }
void hn_dec_triu(hn_dec *d) { triangle(d, HN_OP_GE); }

/* Coordinates of a triangle in row-major order: [2, count]. Returns how many were written, at most
 * `count`. */
static int64_t fill_triangle(int64_t *indices, int64_t count, int64_t rows, int64_t cols,
                             int64_t offset, bool lower) {
    int64_t at = 0;
    for (int64_t i = lower && offset < 0 ? -offset : 0; i < rows && at < count; i++) {
        int64_t first = lower ? 0 : i + offset, end = lower ? i + offset + 1 : cols;
        for (int64_t j = first < 0 ? 0 : first; j < (end < cols ? end : cols) && at < count;
             j++, at++) {
            indices[at] = i;
            indices[count + at] = j;
        }
    }
    return at;
}

/* Worked out here: a constant. The limits keep the arithmetic and the constant small. */
static void triangle_indices(hn_dec *d, bool lower) {
    enum { LIMIT = 1 << 24 };
    int64_t rows = hn_dec_int(d, 0), cols = hn_dec_int(d, 1), offset = hn_dec_int(d, 2), count = 0;
    m_shape_t shape = m_meta_shape(d, 0);
    bool known =
        shape.rank == 2 && e_const(d, shape.sizes[1], &count) && count >= 0 && count <= LIMIT;
    known = known && rows >= 0 && rows <= INT32_MAX && cols >= 0 && cols <= INT32_MAX;
    if (!m_require(d, known && offset > -INT32_MAX && offset < INT32_MAX,
                   "the triangle has more than 2^24 elements"))
        return;
    size_t bytes = (size_t)count * 2 * sizeof(int64_t);
    int64_t *indices = hn_arena_alloc(d->scratch, bytes);
    if (!m_require(d, indices != NULL, "out of memory")) return;
    int64_t written = fill_triangle(indices, count, rows, cols, offset, lower);
    if (!m_require(d, written == count,
                   "the recorded number of elements is not that of the triangle"))
        return;
    m_result(d, 0, hn_graph_add_constant(d->g, HN_DTYPE_I64, 2, shape.sizes, indices, bytes));
}
void hn_dec_tril_indices(hn_dec *d) { triangle_indices(d, true); }
void hn_dec_triu_indices(hn_dec *d) { triangle_indices(d, false); }

/* A row of 0 with a 1 at x; like Inductor, an x outside the classes gives a row of 0. */
void hn_dec_one_hot(hn_dec *d) {
    hn_value x = hn_dec_tensor(d, 0);
    uint32_t rank = m_rank(d, x);
    int64_t classes = hn_dec_int(d, 1);
    if (!m_require(d, classes >= 0, "num_classes is not given: it depends on the data")) return;
    if (!m_require(d, rank < HN_MAX_RANK, "the result has more than 16 dimensions")) return;
    hn_value hot = m_bin(d, HN_OP_EQ, hn_b_unsqueeze(d->g, x, rank),
                         m_iota(d, hn_dec_i(d, classes), m_dtype(d, x)));
    hn_dec_result(d, 0, m_cast(d, hot, HN_DTYPE_I64));
}

/* Grid k repeats vector k along every other dimension; "xy" swaps the first two. */
void hn_dec_meshgrid(hn_dec *d) {
    const hn_value *xs = NULL;
    uint32_t count = hn_dec_tensors(d, 0, &xs);
    bool swap = hn_str_eq(hn_dec_string(d, 1), HN_STR("xy")) && count >= 2;
    for (uint32_t k = 0; k < count && k < d->node->result_count; k++) {
        uint32_t dim = swap && k < 2 ? 1 - k : k;
        m_shape_t shape = m_meta_shape(d, k);
        hn_dec_result(d, k, m_expand(d, m_along(d, m_at_least_1d(d, xs[k]), dim, count), &shape));
    }
}
