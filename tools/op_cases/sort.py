"""Order statistics, search and running values."""
import torch

nan, inf = float("nan"), float("inf")
I, B = torch.int64, torch.bool


def order(c):
    odd = c.tensor([[3, nan, -inf, 3, inf], [nan, nan, 1, -0.0, 0]])
    for x in (c.ramp((3, 4)), odd, c.ramp((2, 5), I), c.ramp((2, 3), torch.bfloat16), c.ramp((4,), torch.uint8)):
        for dim in {0, -1} if x.dim() > 1 else {0}:
            for descending in (False, True):
                c.add("aten.sort.stable", x, stable=True, dim=dim, descending=descending), c.add("aten.argsort.stable", x, stable=True, dim=dim, descending=descending)
                c.add("aten.sort.default", x, dim, descending, skip=(1,))
                for k in (0, 1, 2):
                    c.add("aten.topk.default", x, k, dim, descending, True, skip=(1,))
            c.add("aten.kthvalue.default", x, 2, dim, skip=(1,)), c.add("aten.kthvalue.default", x, 1, dim, True, skip=(1,))
            c.add("aten.median.dim", x, dim, skip=(1,)), c.add("aten.median.dim", x, dim, True, skip=(1,)), c.add("aten.mode.default", x.nan_to_num(), dim, skip=(1,)), c.add("aten.mode.default", x.nan_to_num(), dim, True, skip=(1,))
        c.add("aten.msort.default", x), c.add("aten.median.default", x)
    x = c.tensor([5, 2, 9, 1, 7, 3])
    c.add("aten.sort.default", x), c.add("aten.argsort.default", x, 0, True), c.add("aten.topk.default", x, 3), c.add("aten.topk.default", x, 3, 0, False), c.add("aten.kthvalue.default", x, 4), c.add("aten.median.dim", x, 0)
    c.add("aten.median.dim", c.tensor([2, nan, 1]), 0), c.add("aten.mode.default", c.tensor([2, 1, 2, 1, 3]), 0, skip=(1,)), c.add("aten.sort.default", c.tensor([1, 0, 1], B), skip=(1,))
    # rows that are longer than what a block of a GPU sorts
    for dtype in (torch.float32, torch.bfloat16, torch.float64):
        for shape, dim in (((2, 5000), -1), ((4500, 2), 0)):
            x = c.ramp(shape, dtype)
            c.add("aten.topk.default", x, 3, dim, True, skip=(1,)), c.add("aten.topk.default", x, 2, dim, False, skip=(1,))
            c.add("aten.kthvalue.default", x, 3000, dim, skip=(1,)), c.add("aten.median.dim", x, dim, skip=(1,))
    c.add("aten.sort.default", c.tensor(2.5)), c.add("aten.topk.default", c.tensor(2.5), 1), c.add("aten.median.dim", c.tensor(2.5), 0), c.add("aten.kthvalue.default", c.tensor(2.5), 1), c.add("aten.sort.default", torch.zeros(0, 2), 0)


def search(c):
    edges = c.tensor([-1, 0, 0, 2.5, 7])
    for right in (False, True):
        for int32 in (False, True):
            c.add("aten.bucketize.Tensor", c.tensor([[-2, -1, 0], [2.5, 8, nan]]), edges, right=right, out_int32=int32), c.add("aten.searchsorted.Tensor", edges, c.tensor([-2, 0, 7, inf]), right=right, out_int32=int32)
        c.add("aten.searchsorted.Tensor", c.tensor([[0, 1, 2], [3, 5, 5]]), c.tensor([[1, 2.5], [5, -1]]), right=right)
        c.add("aten.bucketize.Tensor", c.ramp((4,), I), c.tensor([-2, 0, 2], I), right=right), c.add("aten.bucketize.Tensor", c.tensor(0), edges, right=right), c.add("aten.bucketize.Tensor", torch.zeros(0), edges, right=right)
    c.add("aten.searchsorted.Tensor", edges, c.tensor([0.0]), side="right"), c.add("aten.searchsorted.Tensor", edges.flip(0), c.tensor([0.0, 3]), sorter=c.tensor([4, 3, 2, 1, 0], I))


def running(c):
    odd = c.tensor([1, -inf, 2, nan, inf, 3])
    for x in (c.ramp((2, 3)), c.ramp((2, 3), I), c.ramp((5,), torch.int32), c.ramp((4,), B), odd, torch.zeros(0, 3), c.tensor(2.5), c.ramp((4,), torch.bfloat16)):
        for dim in {0, -1}:
            c.add("aten.cumsum.default", x, dim), c.add("aten.cumprod.default", x, dim), c.add("aten.cumsum.default", x, dim, dtype=torch.float64)
            c.add("aten.cummax.default", x, dim, skip=(1,)), c.add("aten.cummin.default", x, dim, skip=(1,))
            if x.dtype.is_floating_point and not x.isnan().any():
                c.add("aten.logcumsumexp.default", x, dim)
    c.add("aten.cummax.default", c.tensor([1, 3, 2, 5, 4]), 0), c.add("aten.cummin.default", c.tensor([5, 3, 4, 1, 2]), 0)
    x = c.ramp((3, 4))
    for n in (0, 1, 2, 5):
        for dim in (0, -1):
            c.add("aten.diff.default", x, n, dim)
    c.add("aten.diff.default", c.tensor([1, 4, 2], I), 1, -1, c.tensor([0], I), c.tensor([9, 9], I)), c.add("aten.diff.default", c.tensor([1, 0, 0, 1], B)), c.add("aten.diff.default", x.bfloat16())
    x = c.tensor([-2, 0, 0.5, 1, 1, 2.75, 3, 4])
    for bins, low, high in ((4, 0, 4), (3, 0, 0), (5, -1, 3), (1, 1, 1), (100, 0, 1)):
        c.add("aten.histc.default", x, bins, low, high)
    c.add("aten.histc.default", torch.ones(3), 4, 0, 0), c.add("aten.histc.default", c.ramp((2, 3)), 4), c.add("aten.histc.default", x.double(), 4, 0, 4), c.add("aten.histc.default", torch.zeros(0), 3, 0, 1)


def cases(c):
    order(c)
    search(c)
    running(c)
