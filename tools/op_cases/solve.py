"""Factorisations of small matrices and what is solved with them."""
import torch

FLOATS = (torch.float32, torch.float64)


def well(c, shape, dtype, seed=0):
    """Matrices whose pivots are not in order and whose inverses are moderate."""
    a = c.ramp(shape, dtype, lo=-1, step=0.0625, seed=seed)
    n = min(shape[-2:])
    a[..., torch.arange(n), torch.arange(n - 1, -1, -1)] += 3
    return a


def positive(c, shape, dtype):
    a = well(c, shape, dtype)
    return (a @ a.mT + torch.eye(shape[-1], dtype=dtype)).contiguous()


def loose(dtype):
    """Elimination in another order of operations than LAPACK's: an error for each step."""
    return dict(rtol=1e-4, atol=1e-5) if dtype == torch.float32 else dict(rtol=1e-7, atol=1e-8)


def cases(c):
    for dtype in FLOATS:
        t = loose(dtype)
        a, b = well(c, [2, 4, 4], dtype), c.ramp([2, 4, 3], dtype)
        for name in ("linalg_det", "det", "_linalg_det", "linalg_slogdet", "slogdet", "_linalg_slogdet", "logdet"):
            c.add(f"aten.{name}.default", a, **t)
        for name in ("linalg_inv", "inverse", "linalg_inv_ex"):
            c.add(f"aten.{name}.default", a, **t)
        c.add("aten.linalg_solve.default", a, b, **t)
        c.add("aten.linalg_solve_ex.default", a, b, **t)
        c.add("aten._linalg_solve_ex.default", a, b, **t)
        c.add("aten.linalg_solve.default", a, c.ramp([2, 3, 4], dtype), left=False, **t)
        c.add("aten.linalg_solve.default", a[0], c.ramp([4], dtype), **t)
        c.add("aten.linalg_solve.default", a, c.ramp([2, 4], dtype), **t)
        c.add("aten.linalg_solve.default", a[0], b, **t)
        for upper in (False, True):
            c.add("aten.linalg_solve_triangular.default", a.flip(-1), b, upper=upper, **t)
            c.add("aten.linalg_solve_triangular.default", a.flip(-1), b.mT.contiguous(), upper=upper, left=False, unitriangular=True, **t)
            c.add("aten.triangular_solve.default", b, a.flip(-1), upper, not upper, False, **t)
            p = positive(c, [2, 4, 4], dtype)
            c.add("aten.linalg_cholesky.default", p, upper=upper, **t)
            c.add("aten.linalg_cholesky_ex.default", p, upper=upper, **t)
            l = torch.linalg.cholesky(p, upper=upper)
            c.add("aten.cholesky_solve.default", b, l, upper, **t)
            c.add("aten.cholesky_inverse.default", l, upper, **t)
        c.add("aten.linalg_lu_factor.default", a, **t)
        c.add("aten.linalg_lu_factor_ex.default", a, **t)
        for shape in ([4, 4], [2, 5, 3], [3, 5]):
            m = well(c, shape, dtype, seed=5)
            c.add("aten.linalg_lu.default", m, **t)
            for mode in ("reduced", "complete", "r"):
                c.add("aten.linalg_qr.default", m, mode, **t)
        for n in (0, 1, 5, -2):
            c.add("aten.linalg_matrix_power.default", a / 4 if n > 0 else a, n, **t)
    f = torch.float32
    flat = c.tensor([[1, 2, 3], [2, 4, 6], [1, 0, 1]])
    c.add("aten.linalg_det.default", flat, atol=1e-5)
    c.add("aten.linalg_slogdet.default", torch.zeros(2, 2))
    c.add("aten.logdet.default", c.tensor([[0, 1], [1, 0]]))
    c.add("aten.linalg_inv_ex.default", torch.zeros(2, 2), skip=(0,))
    c.add("aten.linalg_cholesky_ex.default", c.tensor([[1, 2], [2, 1]]), skip=(0,))
    c.add("aten.linalg_det.default", c.ramp([1, 1]))
    c.add("aten.linalg_det.default", torch.zeros(2, 0, 0))
    c.add("aten.linalg_qr.default", torch.eye(3) * -2)
    c.add("aten.linalg_inv.default", well(c, [9, 9], f), **loose(f))
