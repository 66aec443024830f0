"""Reductions."""
import torch

B = torch.bool


def cases(c):
    for truths in ([1, 1, 1], [0, 1, 0], [0, 0], []):
        c.add("aten._is_all_true.default", c.tensor(truths, torch.bool)), c.add("aten._is_any_true.default", c.tensor(truths, torch.bool))
    inf, nan = float("inf"), float("nan")
    x = c.ramp((2, 3, 2))
    h, i = c.ramp((2, 3), torch.bfloat16), c.ramp((2, 3), torch.int32)
    odd = c.tensor([[1, nan, 3], [inf, 2, -1], [-inf, -inf, -inf], [4, 4, 1]])
    flags = c.tensor([[0, 1, 0], [0, 0, 0], [1, 1, 1]], B)
    for name in ("sum", "mean", "nansum"):
        for dim, keep in (((1,), False), ((0, -1), True), ((), False), (None, False), ((-2,), True)):
            op = f"aten.{name}." + {"sum": "dim_IntList", "mean": "dim", "nansum": "default"}[name]
            c.add(op, x, dim, keep)
        c.add(op, odd, (1,), False), c.add(op, h, (0,), False), c.add(op, c.tensor(2.5), (), False)
        c.attempt(op, i, (0,), False), c.attempt(op, flags, (1,), False)
        c.add(op, torch.zeros(0, 2), (0,), False), c.add(op, torch.zeros(0, 2), (1,), False)
        c.add(op, h, (1,), False, dtype=torch.float32), c.add(op, x, (1,), False, dtype=torch.float64)
    for name in ("sum", "mean", "prod"):
        c.add(f"aten.{name}.default", x[:, :2]), c.add(f"aten.{name}.default", h), c.attempt(f"aten.{name}.default", i)
        c.attempt(f"aten.{name}.default", flags), c.add(f"aten.{name}.default", torch.zeros(0)), c.add(f"aten.{name}.default", c.tensor(3.5))
        c.add(f"aten.{name}.default", c.tensor([1, 2], torch.uint8), dtype=torch.float32)
    for keep in (False, True):
        c.add("aten.prod.dim_int", odd, 1, keep), c.add("aten.prod.dim_int", i, -1, keep)
    c.add("aten.prod.dim_int", torch.zeros(2, 0), 1), c.add("aten.sum.dim_IntList", c.ramp((4,), torch.float16, lo=30000, step=0), (0,))
    c.add("aten.count_nonzero.dim_IntList", odd, (1,)), c.add("aten.count_nonzero.dim_IntList", flags, ())
    c.add("aten.trace.default", x[:, :, 0]), c.add("aten.trace.default", i), c.add("aten.trace.default", torch.zeros(0, 3))
    truth(c, odd, flags, i)
    extrema(c, odd, flags, x, i, h)
    variances(c, x, h, odd)
    norms(c, x, h, odd)


def truth(c, odd, flags, i):
    for name in ("any", "all"):
        for v in (odd, flags, i, c.tensor([0, 2], torch.uint8), torch.zeros(0), c.tensor(0.0)):
            c.add(f"aten.{name}.default", v)
        for v in (flags, c.tensor([[0, 2]], torch.uint8), torch.zeros(2, 0)):
            c.add(f"aten.{name}.dim", v, 1), c.add(f"aten.{name}.dim", v, -1, True), c.add(f"aten.{name}.dims", v, (0, 1))
            c.add(f"aten.{name}.dims", v, None, True), c.add(f"aten.{name}.dims", v, ())
        c.add(f"aten.{name}.dim", c.tensor(True, B), 0)


def extrema(c, odd, flags, x, i, h):
    for name in ("amax", "amin"):
        for v in (odd, flags, i, h):
            c.add(f"aten.{name}.default", v, (1,)), c.add(f"aten.{name}.default", v, (), True), c.add(f"aten.{name}.default", v, (0, 1))
        c.add(f"aten.{name}.default", c.tensor(2.0)), c.add(f"aten.{name}.default", torch.zeros(0, 2), (1,))
        c.add(f"aten.{name}.default", x, (0, 2))
    for name in ("max", "min"):
        for v in (odd, flags, i, h, c.edges(torch.uint8)):
            c.add(f"aten.{name}.default", v), c.add(f"aten.{name}.dim", v, 0), c.add(f"aten.{name}.dim", v, -1, True)
        c.add(f"aten.{name}.dim", c.tensor(5.0), 0), c.add(f"aten.{name}.default", c.tensor(5.0))
        c.add(f"aten.{name}.dim", c.tensor([[2, 2], [2, 1], [0, 1]]), 0)
    for name in ("argmax", "argmin"):
        for v in (odd, i, h, x):
            c.add(f"aten.{name}.default", v), c.add(f"aten.{name}.default", v, 1), c.add(f"aten.{name}.default", v, -1, True)
        c.add(f"aten.{name}.default", c.tensor(5.0)), c.add(f"aten.{name}.default", x, None, True), c.add(f"aten.{name}.default", c.tensor(5.0), 0)
    for v in (odd, i, flags):
        c.add("aten.aminmax.default", v), c.add("aten.aminmax.default", v, dim=1), c.add("aten.aminmax.default", v, dim=0, keepdim=True)


def variances(c, x, h, odd):
    for name in ("var", "std"):
        c.add(f"aten.{name}.default", x), c.add(f"aten.{name}.default", x, False), c.add(f"aten.{name}.default", c.tensor(3.0))
        c.add(f"aten.{name}.dim", x, (1,)), c.add(f"aten.{name}.dim", x, (0, 2), False, True), c.add(f"aten.{name}.dim", h, None)
        for correction in (None, 0, 1, 2, 3, 0.5):
            c.add(f"aten.{name}.correction", x, (0,), correction=correction), c.add(f"aten.{name}.correction", h, (1,), correction=correction, keepdim=True)
        c.add(f"aten.{name}.correction", odd, (1,), correction=1), c.add(f"aten.{name}.correction", torch.zeros(2, 0), (1,), correction=1)
        # a mean far from 0: sums of squares would lose every digit
        c.add(f"aten.{name}.correction", c.tensor([10000.0, 10001, 10002, 10003]), (0,), correction=1)
        c.add(f"aten.{name}_mean.correction", x, (1, 2), correction=0), c.add(f"aten.{name}_mean.correction", h, None, correction=1)
        c.add(f"aten.{name}_mean.correction", x, (1,), correction=1, keepdim=True)
    c.add("aten.var_mean.dim", x, (1,)), c.add("aten.var_mean.dim", x, (0,), False, True)


def norms(c, x, h, odd):
    inf = float("inf")
    for p in (0, 1, 2, 3, 0.5, inf, -inf, -1.5):
        c.add("aten.linalg_vector_norm.default", x, p, (1,)), c.add("aten.linalg_vector_norm.default", h, p)
        c.add("aten.norm.Scalar", x[0], p), c.add("aten.norm.ScalarOpt_dim", x, p, (0, 1), True), c.add("aten.dist.default", x, x[:, :1], p)
    c.add("aten.linalg_vector_norm.default", h, 2, None, True, dtype=torch.float32)
    c.add("aten.linalg_vector_norm.default", odd, 2, (1,)), c.add("aten.norm.ScalarOpt_dim", x, None, (1,)), c.add("aten.norm.ScalarOpt_dim", x, 2, ())
    c.add("aten.linalg_vector_norm.default", c.tensor(-2.5)), c.add("aten.linalg_vector_norm.default", torch.zeros(2, 0), 2, (1,))
    for v in (x[0], odd, h, c.ramp((2, 3), torch.int64), c.tensor([[1000.0, 1000.5]]), torch.zeros(2, 0)):
        c.add("aten.logsumexp.default", v, (1,)), c.add("aten.logsumexp.default", v, (0, -1), True)
    c.add("aten.logsumexp.default", c.tensor(2.0), (0,))
