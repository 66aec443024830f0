"""Copies with some elements replaced or combined."""
import torch

nan, inf = float("nan"), float("inf")
I, B = torch.int64, torch.bool


def by_index(c):
    x = c.ramp((3, 4))
    index = c.tensor([[1, 0, 2], [2, 2, 0]], I)
    for dim in (0, 1, -1):
        for dtype in (torch.float32, I):
            s, y = c.ramp((3, 3), dtype, seed=4), x.to(dtype)
            unique = c.tensor([[1, 0, 2], [2, 1, 0]], I) if dim else c.tensor([[1, 0, 2], [2, 1, 0]], I)
            c.add("aten.scatter.src", y, dim, unique, s), c.add("aten.scatter.value", y, dim, index, 2), c.add("aten.scatter_add.default", y, dim, index, s)
            for op in ("add", "multiply"):
                c.add("aten.scatter.reduce", y, dim, index, s, reduce=op), c.add("aten.scatter.value_reduce", y, dim, index, 3, reduce=op)
            for op in ("sum", "prod", "mean", "amax", "amin"):
                for include in (True, False):
                    c.add("aten.scatter_reduce.two", y, dim, index, s, op, include_self=include)
    c.add("aten.scatter.value", x, 1, torch.zeros(0, 4, dtype=I), 1.5), c.add("aten.scatter_add.default", c.tensor(1.5), 0, c.tensor(0, I), c.tensor(2.5))
    c.add("aten.scatter.value", c.ramp((2, 3), B), 1, c.tensor([[1], [0]], I), 1), c.add("aten.scatter_add.default", x.bfloat16(), 0, index, c.ramp((2, 3), torch.bfloat16, seed=2), atol=4e-2)
    bad = c.tensor([nan, 1, inf])
    for op in ("sum", "amax", "amin", "mean"):
        c.add("aten.scatter_reduce.two", c.tensor([1, nan, 2]), 0, c.tensor([0, 0, 1], I), bad, op), c.add("aten.scatter_reduce.two", c.tensor([1, nan, 2]), 0, c.tensor([0, 0, 1], I), bad, op, include_self=False)
    c.add("aten.scatter_reduce.two", c.tensor([9, 9], torch.uint8), 0, c.tensor([0, 0], I), c.tensor([7, 5], torch.uint8), "amin", include_self=False)


def by_position(c):
    for start, end, step in ((None, None, 1), (1, 3, 1), (0, 5, 2), (1, 5, 3), (-2, 100, 1), (-4, -1, 2), (3, 3, 1), (0, 2**63 - 1, 1)):
        for shape, dim in (((5, 2), 0), ((2, 5), -1)):
            n = len(range(*slice(start, end, step).indices(5)))
            c.add("aten.slice_scatter.default", c.ramp(shape), c.ramp(tuple(n if s == 5 else s for s in shape), seed=3), dim, start, end, step)
    c.add("aten.slice_scatter.default", c.ramp((4,), I), c.ramp((2,), I, seed=3), 0, 1, 3), c.add("aten.slice_scatter.default", c.ramp((4,), B), c.ramp((2,), B, seed=3), 0, 1, 3)
    for dim, index in ((0, 0), (0, -1), (1, 2), (-1, -3)):
        c.add("aten.select_scatter.default", c.ramp((4, 4)), c.ramp((4,), seed=3), dim, index)
    c.add("aten.select_scatter.default", c.ramp((3,)), c.tensor(2.5), 0, 1)
    for offset in (0, 1, -1, 2, -2):
        for shape, d1, d2 in (((3, 4), 0, 1), ((4, 3), 0, 1), ((3, 2, 4), 0, 2), ((3, 2, 4), 2, 0), ((2, 3, 4), -2, -1)):
            x = c.ramp(shape)
            src = c.ramp(tuple(torch.diagonal(x, offset, d1, d2).shape), seed=3)
            c.add("aten.diagonal_scatter.default", x, src, offset, d1, d2)
    c.add("aten.as_strided_scatter.default", c.ramp((3, 4)), c.ramp((2, 2), seed=3), [2, 2], [4, 2], 1), c.add("aten.as_strided_scatter.default", c.ramp((6,)), c.ramp((3,), seed=3), [3], [2])
    x = c.ramp((2, 3))
    c.add("aten.masked_scatter.default", x, x > 0, c.ramp((9,), seed=3)), c.add("aten.masked_scatter.default", x, c.tensor([1, 0, 1], B), c.ramp((4,), seed=3))
    c.add("aten.masked_scatter.default", x, torch.zeros(2, 3, dtype=B), c.ramp((4,), seed=3)), c.add("aten.masked_scatter.default", x, torch.ones(2, 3, dtype=B), c.ramp((2, 3), seed=3))


def cases(c):
    by_index(c)
    by_position(c)
