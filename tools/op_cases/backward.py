"""Gradients of activations and of views."""
import torch

nan, inf = float("nan"), float("inf")
T = {"rtol": 1e-5, "atol": 1e-5}


def activations(c, x, g, **tol):
    one = lambda op, *a, **k: c.add(f"aten.{op}_backward.default", g, *a, **k, **tol)
    one("gelu", x), one("gelu", x, approximate="tanh"), one("silu", x), one("hardswish", x), one("hardsigmoid", x)
    one("threshold", x, 0), one("threshold", x, 0.5), one("hardtanh", x, -1, 1), one("hardtanh", x, 0.0, 6.0)
    one("leaky_relu", x, 0.01, False), one("softplus", x, 1, 20), one("softplus", x, 2, 1.5)
    for scale in (1, 2.5):
        one("elu", 1.5, scale, 0.5, False, x), one("elu", 1.5, scale, 0.5, True, x)
    plain = x.masked_fill(x == 0, 0.0)  # at -0 PyTorch's dtypes do not agree on the sign of infinity
    one("logit", plain), one("logit", plain, 0.25)
    for limit in (0.5, 0, 2.5):
        one("softshrink", x, limit), one("hardshrink", x, limit)
    one("mish", x)
    if x.dtype == torch.float32:
        c.add("aten.log_sigmoid_backward.default", g, x, torch.ops.aten.log_sigmoid_forward.default(x)[1], **tol)
    one("tanh", x.tanh()), one("sigmoid", x.sigmoid())


def cases(c):
    for dtype, tol in ((torch.float32, T), (torch.bfloat16, {"rtol": 1.6e-2, "atol": 4e-3}), (torch.float64, {})):
        x = c.tensor([-20, -3, -2.5, -1, -0.5, -0.0, 0, 0.25, 0.5, 0.75, 1, 2.9, 3, 6, 21], dtype)
        activations(c, x, c.ramp((15,), dtype, seed=3), **tol)
    activations(c, c.tensor([nan, inf, -inf, 1]), c.tensor([1, 1, 1, nan]), **T)
    activations(c, torch.zeros(0, 2), torch.zeros(0, 2))
    for start, end, step in ((1, 3, 1), (0, 2**63 - 1, 1), (0, 5, 2), (1, 5, 3), (-2, 100, 1), (-4, -1, 2), (3, 3, 1), (5, 5, 1), (4, 2, 1)):
        for shape, dim in (((5, 2), 0), ((2, 5), -1)):
            n = len(range(*slice(start, end, step).indices(5)))
            g = c.ramp(tuple(n if s == 5 else s for s in shape))
            c.add("aten.slice_backward.default", g, list(shape), dim, start, end, step)
    c.add("aten.slice_backward.default", c.ramp((2,), torch.int64), [5], 0, 1, 5, 2)
    for dim, index in ((0, 0), (0, -1), (1, 2), (-1, -3)):
        c.add("aten.select_backward.default", c.ramp((4,)), [4, 4], dim, index)
    c.add("aten.select_backward.default", c.tensor(2.5), [3], 0, 1)
    index = c.tensor([[1, 0, 1], [4, 1, 0]], torch.int64)
    for padding, scale in ((-1, False), (1, False), (-1, True), (0, True)):
        c.add("aten.embedding_dense_backward.default", c.ramp((2, 3, 2)), index, 5, padding, scale)
    c.add("aten.embedding_dense_backward.default", c.ramp((3,)), c.tensor(2, torch.int64), 4, -1, False), c.add("aten.embedding_dense_backward.default", torch.zeros(0, 2), torch.zeros(0, dtype=torch.int32), 3, -1, False)
    c.add("aten.embedding_dense_backward.default", c.ramp((3, 2), torch.bfloat16), c.tensor([1, 1, 1], torch.int64), 2, -1, False, atol=5e-2)
