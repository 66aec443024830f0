/* solve.c: factorisations of small matrices and what is solved with them, one step of the
 * elimination after the other.
 *
 * Shapes: a [B.., n, n], n a known number. Every step is a few operations on whole matrices, in
 * which masks over rows and columns say what changes; n steps are n times as many kernels, hence
 * the limit. The formulas are those of LAPACK's getrf, potrf, trtrs and geqrf, which PyTorch calls:
 * the same pivots, the same signs. */
#include "opt/decompose/math.h"

#include <math.h>

enum { MAX_STEPS = 64 };

/* A matrix with the positions that masks are made of. */
typedef struct matrix {
    uint32_t rank; /* of the tensor, at least 2 */
    int64_t rows, columns;
    hn_value i, j; /* [1.., rows, 1] and [1.., 1, columns] */
} matrix;

static hn_value positions_along(hn_dec *d, int64_t count, uint32_t dim, uint32_t rank) {
    return m_along(d, m_iota(d, e_int(d, count), HN_DTYPE_I64), dim, rank);
}

static bool describe(hn_dec *d, hn_value a, matrix *out) {
    *out = (matrix){.rank = m_rank(d, a)};
    bool ok =
        m_require(d, out->rank >= 2, "a matrix has two dimensions or more") &&
        m_require(
            d,
            e_const(d, m_size(d, a, out->rank - 2), &out->rows) &&
                e_const(d, m_size(d, a, out->rank - 1), &out->columns),
            "the size of the matrices is symbolic; export the model with matrices of a fixed size");
    int64_t steps = out->rows < out->columns ? out->rows : out->columns;
    if (!ok || !m_require(d, steps <= MAX_STEPS, "matrices above 64 x 64 are not factorised"))
        return false;
    out->i = positions_along(d, out->rows, out->rank - 2, out->rank);
    out->j = positions_along(d, out->columns, out->rank - 1, out->rank);
    return true;
}

static bool describe_square(hn_dec *d, hn_value a, matrix *out) {
    return describe(d, a, out) &&
           m_require(d, out->rows == out->columns, "it wants square matrices");
}

static hn_value row(hn_dec *d, hn_value a, int64_t k) {
    return m_slice(d, a, m_rank(d, a) - 2, e_int(d, k), e_int(d, 1));
}
static hn_value column(hn_dec *d, hn_value a, int64_t k) {
    return m_slice(d, a, m_rank(d, a) - 1, e_int(d, k), e_int(d, 1));
}
static hn_value entry(hn_dec *d, hn_value a, int64_t i, int64_t j) {
    return column(d, row(d, a, i), j);
}
static hn_value transposed(hn_dec *d, hn_value a) {
    return a ? m_move_dim(d, a, m_rank(d, a) - 1, m_rank(d, a) - 2) : 0;
}
static hn_value drop_last(hn_dec *d, hn_value a, uint32_t count) {
    for (uint32_t k = 0; k < count && a; k++) a = hn_b_squeeze(d->g, a, m_rank(d, a) - 1);
    return a;
}
static hn_value zero_like(hn_dec *d, hn_value a) { return m_c(d, a, 0); }

/* [B.., n, n] with ones on the diagonal, of a's batch. */
static hn_value identity(hn_dec *d, hn_value a, const matrix *m) {
    m_shape_t shape = m_shape(d, a);
    hn_value j = positions_along(d, m->rows, m->rank - 1, m->rank);
    shape.sizes[m->rank - 1] = e_int(d, m->rows);
    return m_expand(d, m_cast(d, m_bin(d, HN_OP_EQ, m->i, j), m_dtype(d, a)), &shape);
}

/* --- LU with row pivots --- */

typedef struct lu {
    hn_value both;   /* U, and L below its diagonal */
    hn_value pivots; /* [B.., steps] i32: the row that was exchanged with row k, counted from 1 */
    hn_value order;  /* [B.., n, 1] i64: row k comes from row order[k] */
    hn_value sign;   /* [B.., 1, 1]: of the permutation */
} lu;

/* Rows k and p (a tensor) exchanged. */
static hn_value exchange(hn_dec *d, const matrix *m, hn_value x, int64_t k, hn_value p) {
    m_shape_t one = m_shape(d, x);
    one.sizes[m->rank - 2] = e_int(d, 1);
    hn_value other = hn_b_gather(d->g, x, m_expand(d, p, &one), m->rank - 2);
    hn_value moved = m_where(d, m_bin(d, HN_OP_EQ, m->i, p), row(d, x, k), x);
    return m_where(d, m_bin_c(d, HN_OP_EQ, m->i, (double)k), other, moved);
}

static void eliminate(hn_dec *d, const matrix *m, int64_t k, lu *f, hn_value *pivots) {
    hn_value below = m_bin_c(d, HN_OP_GT, m->i, (double)k),
             from = m_bin_c(d, HN_OP_GE, m->i, (double)k);
    hn_value size = m_abs(d, column(d, f->both, k));
    hn_value p =
        m_reduce1(d, HN_OP_ARGMAX, m_where(d, from, size, m_c(d, size, -1)), m->rank - 2, true);
    hn_value a = exchange(d, m, f->both, k, p);
    f->order = exchange(d, m, f->order, k, p);
    f->sign = m_where(d, m_bin_c(d, HN_OP_EQ, p, (double)k), f->sign, m_neg(d, f->sign));
    pivots[k] = m_cast(d, drop_last(d, m_add_c(d, p, 1), 1), HN_DTYPE_I32);
    hn_value pivot = entry(d, a, k, k), c = column(d, a, k);
    /* nothing but zeros: nothing to do */
    hn_value factor = m_where(d, m_bin_c(d, HN_OP_EQ, pivot, 0), c, m_div(d, c, pivot));
    hn_value update = m_sub(d, a, m_mul(d, factor, row(d, a, k)));
    hn_value right = m_bin_c(d, HN_OP_GT, m->j, (double)k),
             at = m_bin_c(d, HN_OP_EQ, m->j, (double)k);
    hn_value changed = m_where(d, right, update, m_where(d, at, factor, a));
    f->both = m_where(d, below, changed, a);
}

static lu lu_factor(hn_dec *d, hn_value a, const matrix *m) {
    hn_value pivots[MAX_STEPS];
    m_shape_t one = m_shape(d, a);
    int64_t steps = m->rows < m->columns ? m->rows : m->columns;
    one.sizes[m->rank - 1] = e_int(d, 1);
    lu f = {.both = a, .order = m_expand(d, m->i, &one)};
    one.sizes[m->rank - 2] = e_int(d, 1);
    f.sign = m_full(d, &one, 1, m_dtype(d, a));
    for (int64_t k = 0; k < steps; k++) eliminate(d, m, k, &f, pivots);
    one.sizes[--one.rank - 1] = e_int(d, 0);
    f.pivots = steps ? hn_b_cat(d->g, pivots, (uint32_t)steps, m->rank - 2)
                     : m_zeros(d, &one, HN_DTYPE_I32);
    return f;
}

/* The diagonal as [B.., n]. */
static hn_value diagonal(hn_dec *d, const matrix *m, hn_value a) {
    hn_value on = m_bin(d, HN_OP_EQ, m->i, m->j);
    return m_reduce1(d, HN_OP_SUM, m_where(d, on, a, zero_like(d, a)), m->rank - 1, false);
}

/* The first k with bad[.., k], counted from 1, and 0 where all is well: [B..] i32 */
static hn_value first_bad(hn_dec *d, hn_value bad) {
    uint32_t last = m_rank(d, bad) - 1;
    if (e_is(d, m_size(d, bad, last), 0))
        return m_cast(d, m_reduce1(d, HN_OP_ANY, bad, last, false), HN_DTYPE_I32);
    hn_value number = m_cast(d, bad, HN_DTYPE_I32),
             at = m_cast(d, m_reduce1(d, HN_OP_ARGMAX, number, last, false), HN_DTYPE_I32);
    return m_where(d, m_reduce1(d, HN_OP_ANY, bad, last, false), m_add_c(d, at, 1),
                   zero_like(d, at));
}

/* The first zero on the diagonal of U, which ends with the shorter side. */
static hn_value singular(hn_dec *d, const matrix *m, const lu *f) {
    hn_value on = diagonal(d, m, f->both);
    if (m->rows > m->columns) on = m_slice(d, on, m->rank - 2, e_int(d, 0), e_int(d, m->columns));
    return first_bad(d, m_bin_c(d, HN_OP_EQ, on, 0));
}

static void require_zero(hn_dec *d, hn_value info, hn_str message) {
    if (info)
        hn_b_assert(d->g,
                    m_un(d, HN_OP_NOT, m_reduce_all(d, HN_OP_ANY, m_bin_c(d, HN_OP_NE, info, 0))),
                    message);
}

/* --- triangular systems --- */

/* x with t x = b; `t` [B.., n, n], `b` [B.., n, c]. Only the triangle is read. */
static hn_value solve_triangle(hn_dec *d, hn_value t, hn_value b, int64_t n, bool upper,
                               bool unit) {
    uint32_t rank = m_rank(d, b);
    hn_value i = positions_along(d, n, rank - 2, rank);
    for (int64_t step = 0; step < n; step++) {
        int64_t k = upper ? n - 1 - step : step;
        hn_value found = row(d, b, k), rest = m_bin_c(d, upper ? HN_OP_LT : HN_OP_GT, i, (double)k);
        if (!unit) found = m_div(d, found, entry(d, t, k, k));
        hn_value less = m_where(d, rest, m_sub(d, b, m_mul(d, column(d, t, k), found)), b);
        b = m_where(d, m_bin_c(d, HN_OP_EQ, i, (double)k), found, less);
    }
    return b;
}

static hn_value solve_lu(hn_dec *d, const matrix *m, const lu *f, hn_value b) {
    m_shape_t like = m_shape(d, b), order = m_shape(d, f->order);
    for (uint32_t k = 0; k + 2 < order.rank; k++)
        if (e_is(d, like.sizes[k], 1)) like.sizes[k] = order.sizes[k];
    b = m_expand(d, b, &like);
    hn_value sorted = hn_b_gather(d->g, b, m_expand(d, f->order, &like), m->rank - 2);
    return solve_triangle(d, f->both, solve_triangle(d, f->both, sorted, m->rows, false, true),
                          m->rows, true, false);
}

static void lu_results(hn_dec *d, uint32_t first, const lu *f) {
    if (m_wants(d, first)) m_result(d, first, f->both);
    if (m_wants(d, first + 1)) m_result(d, first + 1, f->pivots);
}

/* --- determinants --- */

/* PyTorch factorises the transpose of a row-major matrix, which LAPACK sees without a copy. The
 * factors tell. */
static hn_value determinant_operand(hn_dec *d) {
    hn_value a = hn_dec_tensor(d, 0);
    const hn_value_info *meta = hn_dec_arg_meta(d, 0);
    uint32_t rank = meta ? meta->rank : 0;
    if (rank < 2) return a;
    bool row_major = !meta->strides || (e_is(d, meta->strides[rank - 1], 1) &&
                                        e_eq(d, meta->strides[rank - 2], meta->sizes[rank - 1]));
    return row_major ? transposed(d, a) : a;
}

/* What determinants are made from. diagonal: of U, [..., n] */
typedef struct determinant {
    matrix m;
    lu f;
    hn_value diagonal;
} determinant;

static bool begin_determinant(hn_dec *d, determinant *out) {
    hn_value a = determinant_operand(d);
    if (!describe_square(d, a, &out->m)) return false;
    out->f = lu_factor(d, a, &out->m);
    out->diagonal = diagonal(d, &out->m, out->f.both);
    return true;
}

/* The product of factors along the diagonal, with the sign of the exchanges. */
static hn_value signed_product(hn_dec *d, const determinant *x, hn_value factors) {
    return m_mul(d, m_reduce1(d, HN_OP_PROD, factors, x->m.rank - 2, false),
                 drop_last(d, x->f.sign, 2));
}

static hn_value sign_of(hn_dec *d, const determinant *x) {
    return signed_product(d, x, m_un(d, HN_OP_SIGN, x->diagonal));
}

static hn_value log_size(hn_dec *d, const determinant *x) {
    return m_reduce1(d, HN_OP_SUM, m_log(d, m_abs(d, x->diagonal)), x->m.rank - 2, false);
}

/* [linalg_]det(A), _linalg_det(A) -> det, LU, pivots */
void hn_dec_det(hn_dec *d) {
    determinant x;
    if (!begin_determinant(d, &x)) return;
    m_result(d, 0, signed_product(d, &x, x.diagonal));
    lu_results(d, 1, &x.f);
}

/* [linalg_]slogdet(A), _linalg_slogdet(A) -> sign, log |det|, LU, pivots */
void hn_dec_slogdet(hn_dec *d) {
    determinant x;
    if (!begin_determinant(d, &x)) return;
    m_result(d, 0, sign_of(d, &x));
    if (m_wants(d, 1)) m_result(d, 1, log_size(d, &x));
    lu_results(d, 2, &x.f);
}

/* logdet(A): of a negative determinant NaN */
void hn_dec_logdet(hn_dec *d) {
    determinant x;
    if (!begin_determinant(d, &x)) return;
    hn_value size = log_size(d, &x);
    m_result(d, 0, m_where(d, m_bin_c(d, HN_OP_LT, sign_of(d, &x), 0), m_c(d, size, NAN), size));
}

/* --- inverses and systems --- */

/* linalg_inv(A), inverse(A); linalg_inv_ex(A, *, check_errors) -> inverse, info */
void hn_dec_inv(hn_dec *d) {
    hn_value a = hn_dec_tensor(d, 0);
    matrix m;
    if (!describe_square(d, a, &m)) return;
    lu f = lu_factor(d, a, &m);
    m_result(d, 0, solve_lu(d, &m, &f, identity(d, a, &m)));
    bool gives_info = d->node->result_count > 1, checks = !gives_info || hn_dec_bool(d, 1);
    if (checks)
        require_zero(d, singular(d, &m, &f), HN_STR("the matrix is singular, it has no inverse"));
    if (m_wants(d, 1)) m_result(d, 1, singular(d, &m, &f));
}

/* Two tensors with batch dimensions of one number: ones in front of the shorter. */
static void same_rank(hn_dec *d, hn_value *a, hn_value *b) {
    while (*a && *b && m_rank(d, *a) < m_rank(d, *b)) *a = hn_b_unsqueeze(d->g, *a, 0);
    while (*a && *b && m_rank(d, *b) < m_rank(d, *a)) *b = hn_b_unsqueeze(d->g, *b, 0);
}

/* linalg_solve(A, B, *, left); linalg_solve_ex(.., check_errors) -> x, info; _linalg_solve_ex -> x,
 * LU, pivots, info */
void hn_dec_solve(hn_dec *d) {
    hn_value a = hn_dec_tensor(d, 0), b = hn_dec_tensor(d, 1);
    uint32_t rank = m_rank(d, a);
    m_shape_t out = m_meta_shape(d, 0);
    matrix m;
    bool left = hn_dec_bool(d, 2), is_vector = out.rank + 1 == rank || m_rank(d, b) == 1;
    if (is_vector) b = hn_b_unsqueeze(d->g, b, m_rank(d, b));
    if (!left && !is_vector) {
        a = transposed(d, a);
        b = transposed(d, b);
    }
    hn_value factored = a;
    same_rank(d, &factored, &b);
    if (!describe_square(d, factored, &m)) return;
    lu f = lu_factor(d, factored, &m);
    hn_value x = solve_lu(d, &m, &f, b);
    if (!left && !is_vector) x = transposed(d, x);
    m_result(d, 0, x ? m_reshape(d, x, out.sizes, out.rank) : 0);
    uint32_t results = d->node->result_count, info = results > 2 ? 3 : 1;
    bool checks = results == 1 || hn_dec_bool(d, 3);
    if (checks)
        require_zero(d, singular(d, &m, &f),
                     HN_STR("the matrix is singular, the system has no solution"));
    if (results > 2 && m_rank(d, factored) == rank && left) lu_results(d, 1, &f);
    else if (results > 2 && (m_wants(d, 1) || m_wants(d, 2)))
        hn_dec_unsupported(d, "the factors of a transposed or broadcast system");
    if (results > 1 && m_wants(d, info)) m_result(d, info, singular(d, &m, &f));
}

static hn_value solve_either(hn_dec *d, hn_value t, hn_value b, bool upper, bool left, bool unit) {
    matrix m;
    same_rank(d, &t, &b);
    if (!describe_square(d, t, &m)) return 0;
    /* x t = b is t^T x^T = b^T */
    hn_value x = left ? b : transposed(d, b), batch = left ? t : transposed(d, t);
    m_shape_t sx = m_shape(d, x), st = m_shape(d, batch);
    for (uint32_t k = 0; k + 2 < sx.rank; k++)
        if (e_is(d, sx.sizes[k], 1)) sx.sizes[k] = st.sizes[k];
    x = solve_triangle(d, batch, m_expand(d, x, &sx), m.rows, left ? upper : !upper, unit);
    return left ? x : transposed(d, x);
}

/* linalg_solve_triangular(A, B, *, upper, left, unitriangular) */
void hn_dec_solve_triangular(hn_dec *d) {
    m_result(d, 0,
             solve_either(d, hn_dec_tensor(d, 0), hn_dec_tensor(d, 1), hn_dec_bool(d, 2),
                          hn_dec_bool(d, 3), hn_dec_bool(d, 4)));
}

/* triangular_solve(B, A, upper, transpose, unitriangular) -> x, A */
void hn_dec_triangular_solve(hn_dec *d) {
    hn_value a = hn_dec_tensor(d, 1), t = hn_dec_bool(d, 3) ? transposed(d, a) : a;
    bool upper = hn_dec_bool(d, 2) != hn_dec_bool(d, 3);
    m_result(d, 0, solve_either(d, t, hn_dec_tensor(d, 0), upper, true, hn_dec_bool(d, 4)));
    if (m_wants(d, 1)) m_result(d, 1, a);
}

/* --- Cholesky --- */

/* L of the lower triangle; *out_info: the first leading minor that is not positive. */
static hn_value cholesky(hn_dec *d, hn_value a, const matrix *m, hn_value *out_info) {
    hn_value bad[MAX_STEPS + 1];
    for (int64_t k = 0; k < m->rows; k++) {
        hn_value pivot = entry(d, a, k, k), below = m_bin_c(d, HN_OP_GT, m->i, (double)k),
                 right = m_bin_c(d, HN_OP_GT, m->j, (double)k);
        hn_value root = m_un(d, HN_OP_SQRT, pivot), c = m_div(d, column(d, a, k), root);
        bad[k] = drop_last(d, m_un(d, HN_OP_NOT, m_bin_c(d, HN_OP_GT, pivot, 0)), 1);
        hn_value inner =
            m_where(d, m_and(d, below, right), m_sub(d, a, m_mul(d, c, transposed(d, c))), a);
        hn_value at = m_bin_c(d, HN_OP_EQ, m->j, (double)k),
                 first = m_bin_c(d, HN_OP_EQ, m->i, (double)k);
        inner = m_where(d, m_and(d, at, below), c, inner);
        a = m_where(d, m_and(d, at, first), root, inner);
    }
    *out_info = m->rows ? first_bad(d, hn_b_cat(d->g, bad, (uint32_t)m->rows, m->rank - 2)) : 0;
    return m_where(d, m_bin(d, HN_OP_GE, m->i, m->j), a, zero_like(d, a));
}

/* linalg_cholesky(A, *, upper), cholesky(A, upper); linalg_cholesky_ex(A, *, upper, check_errors)
 * -> L, info */
void hn_dec_cholesky(hn_dec *d) {
    hn_value a = hn_dec_tensor(d, 0), info = 0;
    bool upper = hn_dec_bool(d, 1), gives_info = d->node->result_count > 1;
    matrix m;
    if (upper) a = transposed(d, a);
    if (!describe_square(d, a, &m)) return;
    hn_value l = cholesky(d, a, &m, &info);
    m_result(d, 0, upper ? transposed(d, l) : l);
    if (!gives_info || hn_dec_bool(d, 2))
        require_zero(d, info, HN_STR("the matrix is not positive definite"));
    m_shape_t none = m_meta_shape(d, 1);
    if (m_wants(d, 1)) m_result(d, 1, info ? info : m_zeros(d, &none, HN_DTYPE_I32));
}

/* cholesky_solve(B, L, upper): (L L^T) x = B */
void hn_dec_cholesky_solve(hn_dec *d) {
    hn_value l = hn_dec_tensor(d, 1);
    if (hn_dec_bool(d, 2)) l = transposed(d, l);
    hn_value y = solve_either(d, l, hn_dec_tensor(d, 0), false, true, false);
    m_result(d, 0, y ? solve_either(d, transposed(d, l), y, true, true, false) : 0);
}

/* cholesky_inverse(L, upper): the inverse of L L^T */
void hn_dec_cholesky_inverse(hn_dec *d) {
    hn_value l = hn_dec_tensor(d, 0);
    matrix m;
    if (hn_dec_bool(d, 1)) l = transposed(d, l);
    if (!describe_square(d, l, &m)) return;
    hn_value y = solve_triangle(d, l, identity(d, l, &m), m.rows, false, false);
    m_result(d, 0, solve_triangle(d, transposed(d, l), y, m.rows, true, false));
}

/* --- LU as results --- */

/* linalg_lu_factor(A, *, pivot), linalg_lu_factor_ex(A, *, pivot, check_errors) -> LU, pivots(,
 * info) */
void hn_dec_lu_factor(hn_dec *d) {
    hn_value a = hn_dec_tensor(d, 0);
    matrix m;
    if (!m_require(d, hn_dec_bool(d, 1), "an LU factorisation without pivots") ||
        !describe(d, a, &m))
        return;
    lu f = lu_factor(d, a, &m);
    lu_results(d, 0, &f);
    bool gives_info = d->node->result_count > 2, checks = !gives_info || hn_dec_bool(d, 2);
    if (checks)
        require_zero(d, singular(d, &m, &f),
                     HN_STR("the matrix is singular: its U has a zero on the diagonal"));
    if (m_wants(d, 2)) m_result(d, 2, singular(d, &m, &f));
}

/* linalg_lu(A, *, pivot) -> P, L, U with A = P L U */
void hn_dec_lu(hn_dec *d) {
    hn_value a = hn_dec_tensor(d, 0);
    matrix m;
    if (!m_require(d, hn_dec_bool(d, 1), "an LU factorisation without pivots") ||
        !describe(d, a, &m))
        return;
    lu f = lu_factor(d, a, &m);
    int64_t steps = m.rows < m.columns ? m.rows : m.columns;
    hn_value square = transposed(
        d, m_cast(d, m_bin(d, HN_OP_EQ, f.order, positions_along(d, m.rows, m.rank - 1, m.rank)),
                  m_dtype(d, a)));
    m_result(d, 0, square);
    hn_value narrow = m_slice(d, f.both, m.rank - 1, e_int(d, 0), e_int(d, steps)),
             j = positions_along(d, steps, m.rank - 1, m.rank);
    hn_value l = m_where(d, m_bin(d, HN_OP_GT, m.i, j), narrow,
                         m_cast(d, m_bin(d, HN_OP_EQ, m.i, j), m_dtype(d, a)));
    if (m_wants(d, 1)) m_result(d, 1, l);
    hn_value flat = m_slice(d, f.both, m.rank - 2, e_int(d, 0), e_int(d, steps)),
             i = positions_along(d, steps, m.rank - 2, m.rank);
    if (m_wants(d, 2))
        m_result(d, 2, m_where(d, m_bin(d, HN_OP_LE, i, m.j), flat, zero_like(d, flat)));
}

/* --- QR --- */

static hn_value times_row(hn_dec *d, hn_value a, hn_value v, uint32_t dim) {
    return m_reduce1(d, HN_OP_SUM, m_mul(d, a, v), dim, true);
}

/* linalg_qr(A, mode): reflections that clear one column after the other, A = Q R */
void hn_dec_qr(hn_dec *d) {
    hn_value r = hn_dec_tensor(d, 0);
    hn_str mode = hn_dec_string(d, 1);
    matrix m;
    if (!describe(d, r, &m) ||
        !m_require(d, m.rows <= 4 * MAX_STEPS, "matrices of more than 256 rows are not factorised"))
        return;
    bool complete = hn_str_eq(mode, HN_STR("complete")), only_r = hn_str_eq(mode, HN_STR("r"));
    int64_t steps = m.rows < m.columns ? m.rows : m.columns, kept = complete ? m.rows : steps;
    hn_value q = identity(d, r, &m);
    for (int64_t k = 0; k < steps; k++) {
        hn_value from = m_bin_c(d, HN_OP_GE, m.i, (double)k),
                 first = m_bin_c(d, HN_OP_EQ, m.i, (double)k);
        hn_value x = m_where(d, from, column(d, r, k), zero_like(d, r)), head = entry(d, r, k, k);
        hn_value tail = m_where(d, first, zero_like(d, x), x),
                 rest = m_reduce1(d, HN_OP_SUM, m_square(d, tail), m.rank - 2, true);
        hn_value length = m_un(d, HN_OP_SQRT, m_add(d, rest, m_square(d, head)));
        /* cleared already: no reflection, the head keeps its sign */
        hn_value nothing = m_bin_c(d, HN_OP_EQ, rest, 0);
        hn_value beta = m_where(d, nothing, head, m_neg(d, m_bin(d, HN_OP_COPYSIGN, length, head)));
        hn_value v = m_where(d, first, m_sub(d, head, beta), x);
        hn_value norm = m_reduce1(d, HN_OP_SUM, m_square(d, v), m.rank - 2, true);
        hn_value scale =
            m_where(d, nothing, zero_like(d, norm), m_bin(d, HN_OP_DIV, m_c(d, norm, 2), norm));
        r = m_sub(d, r, m_mul(d, m_mul(d, v, scale), times_row(d, r, v, m.rank - 2)));
        hn_value across = transposed(d, v);
        q = m_sub(d, q, m_mul(d, times_row(d, q, across, m.rank - 1), m_mul(d, across, scale)));
    }
    hn_value i = positions_along(d, kept, m.rank - 2, m.rank);
    hn_value cut = m_slice(d, r, m.rank - 2, e_int(d, 0), e_int(d, kept));
    if (m_wants(d, 1))
        m_result(d, 1, m_where(d, m_bin(d, HN_OP_LE, i, m.j), cut, zero_like(d, cut)));
    m_shape_t none = m_meta_shape(d, 0);
    if (m_wants(d, 0))
        m_result(d, 0,
                 only_r ? m_zeros(d, &none, m_meta_dtype(d, 0))
                        : m_slice(d, q, m.rank - 1, e_int(d, 0), e_int(d, kept)));
}

/* --- powers --- */

/* [linalg_]matrix_power(A, n) by squaring; of a negative n the inverse's */
void hn_dec_matrix_power(hn_dec *d) {
    hn_value a = hn_dec_tensor(d, 0), r = 0;
    int64_t n = hn_dec_int(d, 1);
    matrix m;
    if (!m_require(d, n > -4096 && n < 4096, "powers of matrices from 4096 on") ||
        !m_require(d, m_rank(d, a) >= 2, "it wants a matrix"))
        return;
    if (n <= 0 && !describe_square(d, a, &m)) return;
    if (n < 0) {
        lu f = lu_factor(d, a, &m);
        require_zero(d, singular(d, &m, &f), HN_STR("the matrix is singular, it has no inverse"));
        a = solve_lu(d, &m, &f, identity(d, a, &m));
        n = -n;
    }
    if (n == 0) r = identity(d, a, &m);
    for (; n > 0; n >>= 1) {
        if (n & 1) r = r ? hn_b_matmul(d->g, r, a, 0) : a;
        if (n > 1) a = hn_b_matmul(d->g, a, a, 0);
    }
    m_result(d, 0, r);
}
