"""Casts, copies and ops that change nothing."""
import torch

KINDS = (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8, torch.bool)


def cases(c):
    inf, nan = float("inf"), float("nan")
    for to in KINDS:
        source = [0, 1.5, -2.75, 100.25] if to != torch.uint8 else [0, 1.5, 2.75, 100.25]
        c.add("aten.to.dtype", c.tensor(source), to)
        c.add("aten._to_copy.default", c.tensor([0, 1, 127], torch.int64), dtype=to)
        if to.is_floating_point or to == torch.bool:
            c.add("aten.to.dtype", c.tensor([nan, inf, -inf, -0.0, 1e-9, 70000, 0.1], torch.float64), to)
            c.add("aten.to.dtype", c.tensor([0, 1], torch.bool), to)
    c.add("aten.to.dtype", c.tensor([300, -1, 257], torch.int64), torch.uint8)
    c.add("aten.to.dtype", c.tensor([2 ** 31 + 5, -1], torch.int64), torch.int32)
    c.add("aten.to.dtype_layout", c.ramp((2,)), dtype=torch.float16)
    c.add("aten.to.dtype_layout", c.ramp((2,)))
    c.add("aten.to.device", c.ramp((2,)), torch.device("cpu"), torch.int32)
    c.add("aten.to.prim_Device", c.ramp((2,)), torch.device("cpu"), 7)
    c.add("aten.to.other", c.ramp((2,)), c.tensor([1], torch.bfloat16))
    c.add("aten.type_as.default", c.ramp((2,)), c.tensor([1], torch.int64))
    x = c.ramp((2, 3))
    for name in "clone contiguous detach detach_copy alias alias_copy lift lift_fresh_copy positive".split():
        c.add(f"aten.{name}.default", x)
        c.add(f"aten.{name}.default", x.t())
    c.add("aten.lift_fresh.default", x), c.add("aten.real.default", x)
    c.add("aten.clone.default", x.t(), memory_format=torch.contiguous_format)
    c.add("aten.clone.default", c.ramp((1, 2, 2, 2)), memory_format=torch.channels_last)
    c.add("aten.copy.default", x, c.tensor([7, 8, 9], torch.int64))
    c.add("aten.copy.default", x.to(torch.bfloat16), c.tensor(0.1))
    c.add("aten.fill.Scalar", x, 2), c.add("aten.fill.Scalar", x.long(), 2.5), c.add("aten.fill.Tensor", x, c.tensor(4, torch.int64))
    for name in ("dropout", "feature_dropout", "alpha_dropout"):
        c.add(f"aten.{name}.default", x, 0.5, False)
    c.add("aten.dropout.default", x, 0.0, True), c.add("aten.dropout.default", x, 1.0, True)
