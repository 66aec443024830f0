"""Tensors made from numbers and sizes."""
import torch

KINDS = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8, torch.bool)


def cases(c):
    x = c.ramp((2, 3))
    for dtype in KINDS:
        c.add("aten.full.default", [2, 2], 1, dtype=dtype), c.add("aten.zeros.default", [3], dtype=dtype), c.add("aten.ones.default", [], dtype=dtype)
        c.add("aten.ones_like.default", x, dtype=dtype), c.add("aten.zeros_like.default", x.to(dtype)), c.add("aten.scalar_tensor.default", 1, dtype=dtype)
        if dtype != torch.bool:
            c.attempt("aten.arange.start_step", 1, 6, 2, dtype=dtype), c.attempt("aten.linspace.default", 0, 3, 4, dtype=dtype)
        c.add("aten.eye.default", 2, dtype=dtype), c.add("aten.tril.default", c.ramp((3, 3), dtype)), c.add("aten.triu.default", c.ramp((2, 3), dtype), 1)
    c.add("aten.full.default", [2], 2.5), c.add("aten.full.default", [2], True), c.add("aten.full.default", [0, 2], 7), c.add("aten.full.default", [], float("-inf"))
    c.add("aten.full_like.default", x, 0.1), c.add("aten.full_like.default", x.long(), 3), c.add("aten.full_like.default", x.t(), 1.5, dtype=torch.float16)
    c.add("aten.new_full.default", x, [2], 4), c.add("aten.new_ones.default", x.long(), [1, 2]), c.add("aten.new_zeros.default", x, [0])
    for name, args in (("empty.memory_format", ([2],)), ("empty_like.default", (x,)), ("new_empty.default", (x, [2])), ("empty_strided.default", ([2, 3], [1, 2])),
                       ("empty_permuted.default", ([2, 3], [1, 0])), ("new_empty_strided.default", (x, [2], [1]))):
        c.add("aten." + name, *args, skip=(0,))
    c.add("aten.scalar_tensor.default", 2.5), c.add("aten.scalar_tensor.default", float("nan"))
    sequences(c)
    triangles(c)
    for v in (c.tensor([0, 2, 1], torch.int64), c.tensor([[1], [0]], torch.int64), c.tensor(1, torch.int64)):
        c.add("aten.one_hot.default", v, 3)
    v = [c.tensor([1, 2]), c.tensor([3, 4, 5]), c.tensor(6.0)]
    for indexing in ("ij", "xy"):
        c.add("aten.meshgrid.indexing", v, indexing=indexing), c.add("aten.meshgrid.indexing", v[:1], indexing=indexing)


def sequences(c):
    c.add("aten.arange.default", 5), c.add("aten.arange.default", 2.5), c.add("aten.arange.default", 0), c.add("aten.arange.default", 3, dtype=torch.float32)
    c.add("aten.arange.start", 2, 6), c.add("aten.arange.start", -1.5, 2), c.add("aten.arange.start_step", 5, 0, -2), c.add("aten.arange.start_step", 0, 1, 0.3)
    c.add("aten.arange.start_step", 0.5, 5.7, 2, dtype=torch.int64), c.add("aten.arange.start", 0, 4, dtype=torch.bfloat16), c.add("aten.arange.start_step", 0, 1, 0.1, dtype=torch.float64)
    for steps in (0, 1, 2, 5, 6):
        c.add("aten.linspace.default", -1, 2.5, steps), c.add("aten.linspace.default", 3, 1, steps, dtype=torch.float64)
    c.add("aten.linspace.default", 0, 7, 5, dtype=torch.int64), c.add("aten.linspace.default", -4, 3, 6, dtype=torch.int32), c.add("aten.linspace.default", 0.1, 1, 7, dtype=torch.bfloat16)


def triangles(c):
    for offset in (-2, -1, 0, 1, 5):
        c.add("aten.tril.default", c.ramp((2, 3, 4)), offset), c.add("aten.triu.default", c.ramp((4, 3)), offset)
        c.add("aten.tril_indices.default", 3, 4, offset), c.add("aten.triu_indices.default", 4, 3, offset)
    c.add("aten.tril_indices.default", 0, 2), c.add("aten.triu_indices.default", 2, 2, dtype=torch.int32), c.add("aten.tril.default", torch.zeros(0, 3))
    c.add("aten.triu.default", c.edges()[:9].reshape(3, 3)), c.add("aten.eye.m", 2, 4), c.add("aten.eye.m", 3, 1), c.add("aten.eye.default", 0)
