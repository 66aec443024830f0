"""Results whose size depends on data."""
import torch


def cases(c):
    b = lambda *v: c.tensor(v, torch.bool)
    one = {0: [0]}
    for x in (c.tensor([0, 1.5, -2, 0, float("nan")]), c.tensor([[0, 1, 0], [2, 0, -3]]), c.tensor([[0, 3], [4, 0]], torch.int64), c.tensor([[[1, 0]], [[0, 1]]], torch.bool),
              c.tensor([0.0, -0.0]), c.tensor([[0, 0, 0]], torch.int32), torch.zeros(0, 3), c.tensor([1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 1], torch.uint8)):
        c.add("aten.nonzero.default", x, data=one)
    for x in (c.tensor([0, 1.5, -2, 0, float("nan")]), c.tensor([[0, 1, 0], [2, 0, -3]]), c.tensor([[[1, 0]], [[0, 1]]], torch.bool), torch.zeros(0, 3), c.tensor(2)):
        each = {k: [0] for k in range(max(x.dim(), 1))}
        c.add("aten.where.default", x, data=each)
    c.add("aten.nonzero_numpy.default", c.tensor([[0, 1, 0], [2, 0, -3]]), data={0: [0], 1: [0]})
    x = c.ramp((3, 4))
    c.add("aten.masked_select.default", x, c.tensor([[1, 0, 0, 1], [0, 0, 0, 0], [1, 1, 1, 0]], torch.bool), data=one)
    c.add("aten.masked_select.default", x, b(1, 0, 0, 1), data=one)
    c.add("aten.masked_select.default", x, b(0, 0, 0, 0), data=one)
    c.add("aten.masked_select.default", c.ramp((4,)), c.tensor([[1, 0, 1, 1], [0, 1, 1, 0]], torch.bool), data=one)
    c.add("aten.index.Tensor", x, [b(1, 0, 1)], data=one)
    c.add("aten.index.Tensor", x, [b(0, 0, 0)], data=one)
    c.add("aten.index.Tensor", x, [None, b(1, 0, 1, 1)], data={0: [1]})
    c.add("aten.index.Tensor", x, [c.tensor([[1, 0, 0, 1], [0, 1, 0, 0], [1, 1, 1, 0]], torch.bool)], data=one)
    c.add("aten.index.Tensor", x, [b(1, 0, 1), b(0, 1, 1, 0)], data=one)
    c.add("aten.index.Tensor", x, [b(1, 0, 1), c.tensor([3, 0], torch.int64)], data=one)
    c.add("aten.index.Tensor", c.ramp((2, 3, 4), torch.bfloat16), [None, b(1, 0, 1)], data={0: [1]})
    for r in ([2, 0, 1], [0, 0, 0], [1, 1, 4]):
        r = c.tensor(r, torch.int64)
        c.add("aten.repeat_interleave.self_Tensor", c.ramp((3, 2)), r, 0, data=one)
        c.add("aten.repeat_interleave.self_Tensor", c.ramp((2, 3)), r, 1, data={0: [1]})
        c.add("aten.repeat_interleave.Tensor", r, data=one)
    c.add("aten.repeat_interleave.self_Tensor", c.ramp((3,)), c.tensor([2, 0, 1], torch.int32), data=one)
    for v in ([1, 1, 2, 3, 3, 1], [5], [2, 2, 2]):
        c.add("aten.unique_consecutive.default", c.tensor(v, torch.int64), data=one)
        c.add("aten.unique_consecutive.default", c.tensor(v, torch.int64), True, True, data={0: [0], 2: [0]})
    c.add("aten.unique_consecutive.default", c.tensor([[1, 1], [1, 0]]), True, data=one)
    for v in ([3, 1, 2, 3], [7], [2, 2], [-1, 5, 0, 5, -1, 5]):
        for inverse in (False, True):
            for counts in (False, True):
                c.add("aten._unique2.default", c.tensor(v, torch.int64), True, inverse, counts, data={0: [0], **({2: [0]} if counts else {})})
    c.add("aten._unique2.default", c.tensor([[1.5, -2], [0, 1.5], [-2, -2]]), True, True, True, data={0: [0], 2: [0]})
