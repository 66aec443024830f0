"""Comparisons, logic, where, clamp and masks."""
import torch

B = torch.bool


def cases(c):
    e = [c.edges(), c.edges().roll(1)]
    i = [c.tensor([1, 2, 3], torch.int64), c.tensor([3, 2, 1], torch.int64)]
    for name in "eq ne lt le gt ge".split():
        for x, y in (e, i, (c.edges(B), c.tensor([1, 1], B)), (c.ramp((2, 1)), c.ramp((3,))), (i[0], c.tensor([1, 2.5, 3]))):
            c.add(f"aten.{name}.Tensor", x, y)
        c.add(f"aten.{name}.Scalar", c.edges(), 0.5)
        c.add(f"aten.{name}.Scalar", i[0], 2)
        c.add(f"aten.{name}.Scalar", i[0], 2.5)
        c.add(f"aten.{name}.Scalar", c.tensor([1.1, 1], torch.bfloat16), 1.1)
        c.add(f"aten.{name}.Tensor", c.tensor(2.0), c.edges(torch.float16))
    c.add("aten.greater.Tensor", *e), c.add("aten.less.Tensor", *e), c.add("aten.not_equal.Tensor", *e)
    near = [c.tensor([1, 1, 1, float("inf"), float("inf"), float("nan"), 0]), c.tensor([1, 1.00001, 1.1, float("inf"), -float("inf"), float("nan"), 1e-9])]
    c.add("aten.isclose.default", *near)
    c.add("aten.isclose.default", *near, 1e-2, 1e-3, True)
    c.add("aten.isclose.default", *near, 0.0, 0.0)
    c.add("aten.isclose.default", *i, 0.5, 0.5)
    for name in "logical_and logical_or logical_xor".split():
        c.add(f"aten.{name}.default", *e)
        c.add(f"aten.{name}.default", c.edges(torch.int32)[:4], c.tensor([0, 1, 0, 1], B))
        c.add(f"aten.{name}.default", c.tensor([[0], [1]], B), c.tensor([0, 1], B))
    choices(c)
    clamps(c)


def choices(c):
    mask = c.tensor([[1], [0]], B)
    c.add("aten.where.self", mask, c.ramp((3,)), c.ramp((2, 3), seed=8))
    c.add("aten.where.self", mask, c.tensor([1, 2], torch.int64), c.tensor(0.5))
    c.add("aten.where.self", mask, c.tensor([1, 2], torch.float16), c.tensor([1, 2]))
    c.add("aten.where.ScalarOther", mask, c.ramp((3,), torch.bfloat16), 1.1)
    c.add("aten.where.ScalarSelf", mask, 2, c.ramp((3,), torch.int32))
    c.add("aten.where.ScalarSelf", mask, 2.5, c.ramp((3,), torch.int32))
    c.add("aten.where.Scalar", mask, 2.5, 1), c.add("aten.where.Scalar", mask, 2, 1), c.add("aten.where.Scalar", mask, True, False)
    for dtype in (torch.float32, torch.bfloat16, torch.int64, B):
        x = c.ramp((2, 3), dtype)
        c.add("aten.masked_fill.Scalar", x, mask, 1)
        c.add("aten.masked_fill.Tensor", x, c.tensor([1, 0, 1], B), c.tensor(1, dtype))
    c.add("aten.masked_fill.Scalar", c.ramp((2, 2)), mask, float("-inf"))
    c.add("aten.masked_fill.Tensor", c.ramp((2, 2)), mask, c.tensor(-2.5))
    c.add("aten.masked_fill.Scalar", c.tensor([1, 2, 3]), c.tensor([[1, 0, 0], [0, 1, 0]], B), 9.5)
    c.add("aten.where.self", c.tensor([1], B), torch.zeros(0), torch.ones(1))


def clamps(c):
    x, inf, nan = c.edges(), float("inf"), float("nan")
    for lo, hi in ((-1.5, 2), (None, 0.5), (0.5, None), (3.0, -3.0), (-inf, inf)):
        c.add("aten.clamp.default", x, lo, hi)
        c.add("aten.clip.default", x, lo, hi)
        c.add("aten.clamp.default", c.ramp((4,), torch.bfloat16), lo, hi)
    c.add("aten.clamp.default", c.edges(torch.int64), -2, 5)
    c.add("aten.clamp.default", c.tensor([1, 5, -3], torch.int64), 0.5, 2.5)
    c.add("aten.clamp.default", c.edges(torch.uint8), 1, 100)
    c.add("aten.clamp.Tensor", x, c.tensor(-1.0), c.tensor(2.0))
    c.add("aten.clamp.Tensor", c.ramp((2, 2)), c.tensor([-1.0, nan]), None)
    c.add("aten.clamp.Tensor", c.ramp((2, 1)), None, c.tensor([0.0, 1.0, 2.0]))
    for name in ("clamp_min", "clamp_max"):
        c.add(f"aten.{name}.default", x, 0.5), c.add(f"aten.{name}.default", c.edges(torch.int32), 2)
        c.add(f"aten.{name}.Tensor", x, c.tensor(0.5)), c.add(f"aten.{name}.Tensor", c.ramp((2, 2)), c.ramp((2,), seed=6))
