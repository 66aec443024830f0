"""Rounding to what a quantised tensor can hold, and products of 8-bit integers."""
import torch

nan, inf = float("nan"), float("inf")


def cases(c):
    x = c.ramp((3, 8))
    for values in (x, x / 3, c.tensor([0.05, 0.15, 0.25, -0.05, -0.15, 100, -100, 0]), torch.zeros(0)):
        for scale, zero, low, high in ((0.1, 3, 0, 255), (0.75, 0, -128, 127), (1.5, -2, -8, 7)):
            c.add("aten.fake_quantize_per_tensor_affine.default", values, scale, zero, low, high)
            c.add("aten.fake_quantize_per_tensor_affine_cachemask.default", values, scale, zero, low, high)
    for axis, n in ((0, 3), (1, 8)):
        scale, zero = c.ramp((n,), lo=0.125, step=0.125), c.ramp((n,), torch.int32)
        c.add("aten.fake_quantize_per_channel_affine.default", x, scale, zero, axis, -128, 127)
        c.add("aten.fake_quantize_per_channel_affine_cachemask.default", x, scale, zero, axis, -4, 3)
    extremes = c.tensor([[127, -128, -128], [-128, 127, 5]], torch.int8)
    c.add("aten._int_mm.default", extremes, c.tensor([[127, -128], [-128, 127], [3, -7]], torch.int8))
    c.add("aten._int_mm.default", c.ramp((17, 9), torch.int8), c.ramp((9, 5), torch.int8, seed=4))
