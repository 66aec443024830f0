"""Norms of matrices, distances, scaling by norms, products of several matrices."""
import torch

T = {"rtol": 1e-5, "atol": 1e-5}
HALF = {"rtol": 1.6e-2, "atol": 1.6e-2}
inf = float("inf")


def cases(c):
    x, v = c.ramp((2, 3, 4)), c.ramp((5,), seed=3)
    for keep in (False, True):
        for order in (1, -1, inf, -inf):
            c.add("aten.linalg_matrix_norm.default", x, order, [-2, -1], keep, **T)
            c.add("aten.linalg_matrix_norm.default", x, order, [2, 0], keep, **T)
            c.add("aten.linalg_norm.default", x, order, [0, 1], keep, **T), c.add("aten.linalg_norm.default", x[0], order, None, keep, **T)
            c.add("aten.linalg_norm.default", v, order, None, keep, **T), c.add("aten.linalg_norm.default", x, order, [1], keep, **T)
        for dim in (None, [1], [0, 2]):
            c.add("aten.linalg_norm.default", x, None, dim, keep, **T)
        c.add("aten.linalg_norm.default", x, 3, [2], keep, dtype=torch.float64)
        c.add("aten.linalg_norm.ord_str", x[0], "fro", None, keep, **T), c.add("aten.linalg_norm.ord_str", x, "fro", [0, 2], keep, **T)
        c.add("aten.linalg_matrix_norm.str_ord", x, "fro", [-2, -1], keep, **T), c.add("aten.frobenius_norm.dim", x, [0, 1], keep, **T)
        c.add("aten.norm.ScalarOpt_dim_dtype", x, 2, [1], keep, dtype=torch.float64), c.add("aten.norm.ScalarOpt_dim_dtype", x, None, [], keep, dtype=torch.float32, **T)
    c.add("aten.norm.ScalarOpt_dtype", x, 1, dtype=torch.float64), c.add("aten.norm.ScalarOpt_dtype", x, None, dtype=torch.float32, **T)
    c.add("aten.norm.Scalar", x, 3, **T), c.add("aten.frobenius_norm.dim", x, [], **T)
    for p in (1, 2, inf):
        for dim in (0, 1, -1):
            c.add("aten.renorm.default", x, p, dim, 3, **T)
    for dtype, tol in ((torch.float32, T), (torch.bfloat16, HALF)):
        w, g = c.ramp((3, 2, 4), dtype), c.ramp((3, 1, 1), dtype, seed=2)
        c.add("aten._weight_norm.default", w, g, **tol), c.add("aten._weight_norm_interface.default", w, c.ramp((1, 1, 4), dtype, seed=2), 2, **tol)
        c.attempt("aten.norm_except_dim.default", w, 2, 1, **tol)
    c.add("aten._weight_norm.default", w.float(), g.float(), 0, **T), c.add("aten.norm_except_dim.default", x, 2, -1, **T), c.add("aten.norm_except_dim.default", x, 1, 0, **T)
    a, b = c.ramp((2, 3, 4)), c.ramp((2, 5, 4), seed=9)
    for p in (0.0, 1.0, 2.0, 3.0, inf):
        c.add("aten.cdist.default", a, b, p, **T)
    c.add("aten.cdist.default", a[0], b, **T), c.add("aten.cdist.default", torch.zeros(2, 0), torch.zeros(3, 0)), c.add("aten._cdist_forward.default", a, b, 2.0, None, **T)
    c.add("aten.linalg_vecdot.default", x, x[:1], **T), c.add("aten.linalg_vecdot.default", x, c.ramp((2, 3, 4), seed=4), dim=1, **T)
    m, n, k = c.ramp((2, 3)), c.ramp((3, 4), seed=2), c.ramp((4, 2), seed=5)
    c.add("aten.linalg_multi_dot.default", [m, n, k], **T), c.add("aten.linalg_multi_dot.default", [m[0], n, k[:, 0]], **T)
    c.add("aten.linalg_multi_dot.default", [m, n], **T), c.add("aten.chain_matmul.default", [m, n, k], **T), c.add("aten.linalg_matmul.default", x, k, **T)
    c.add("aten.ger.default", v, v[:3])
    for beta, alpha in ((1, 1), (0.5, 2), (0, 1)):
        c.add("aten.addr.default", c.ramp((5, 3)), v, v[:3], beta=beta, alpha=alpha, **T)
    c.add("aten.addr.default", c.ramp((3,)), v, v[:3], **T)
    c.add("aten.addr.default", torch.full((5, 3), float("nan")), v, v[:3], beta=0)
    c.add("aten.addr.default", c.ramp((5, 3), torch.int64), c.ramp((5,), torch.int64), c.ramp((3,), torch.int64, seed=2), beta=2)
