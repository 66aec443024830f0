"""Resizing, sampling by a grid, borders and patches."""
import torch

I, B = torch.int64, torch.bool
T = {"rtol": 1e-5, "atol": 2e-5}
CUBIC = {"rtol": 1e-4, "atol": 1e-4}


def resize(c):
    # Not here: a scale factor such as 2.3 that doubles the size all the same. PyTorch's CPU kernel for nearest then
    # ignores the factor; its CUDA kernel does not, and neither do we.
    for n in (1, 2, 3, 5, 7, 10, 15):
        c.add("aten.upsample_nearest1d.default", c.ramp((1, 2, 5)), [n]), c.add("aten.upsample_nearest2d.default", c.ramp((1, 1, 3, 5)), [n, 4])
        for align in (False, True):
            c.add("aten.upsample_linear1d.vec", c.ramp((1, 2, 5)), [n], align, None, **T), c.add("aten.upsample_bilinear2d.default", c.ramp((1, 1, 3, 5)), [n, 4], align, **T)
            c.add("aten.upsample_bicubic2d.default", c.ramp((1, 1, 3, 5)), [n, 4], align, **CUBIC)
        g = c.ramp((1, 1, n, 4))
        c.add("aten.upsample_nearest2d_backward.default", g, [n, 4], [1, 1, 3, 5])
    x = c.ramp((1, 2, 3, 4))
    for factors in ([2.0, 2.0], [1.5, 0.7], [3.0, 1.0], [2.4, 2.4], [0.5, 0.5]):
        c.add("aten.upsample_nearest2d.vec", x, None, factors)
        for align in (False, True):
            c.add("aten.upsample_bilinear2d.vec", x, None, align, factors, **T), c.add("aten.upsample_bicubic2d.vec", x, None, align, factors, **CUBIC)
    for factor in (2.0, 1.3, 0.6):
        c.add("aten.upsample_nearest1d.vec", c.ramp((1, 2, 5)), None, [factor]), c.add("aten.upsample_linear1d.vec", c.ramp((1, 2, 5)), None, False, [factor], **T)
        c.add("aten.upsample_nearest3d.vec", c.ramp((1, 1, 2, 3, 2)), None, [factor, 1.0, 2.0])
    c.add("aten.upsample_nearest2d.default", x, [6, 8], 2.0, 2.0), c.add("aten.upsample_nearest2d.vec", x, [7, 5], None), c.add("aten.upsample_nearest3d.vec", c.ramp((1, 1, 2, 3, 2)), [3, 3, 3], None)
    c.add("aten.upsample_bilinear2d.default", x.double(), [5, 7], False), c.add("aten.upsample_bilinear2d.default", x.bfloat16(), [5, 7], False, atol=1.6e-2), c.add("aten.upsample_nearest2d.default", x.to(torch.uint8), [5, 7])
    c.add("aten.upsample_nearest2d_backward.default", c.ramp((1, 2, 6, 8)), [6, 8], [1, 2, 3, 4]), c.add("aten.upsample_nearest2d_backward.default", c.ramp((1, 2, 5, 8)), [5, 8], [1, 2, 3, 4], 1.7, 2.0)
    c.add("aten.upsample_nearest2d.default", torch.zeros(0, 2, 3, 4), [6, 8])
    # Positions that are whole numbers but for a rounding: its floor and its fraction must be of one rounding.
    for (size, n), dtype in (((3, 19), torch.float32), ((2, 50), torch.float32), ((3, 25), torch.float32), ((9, 19), torch.float64)):
        row = c.ramp((1, 2, 1, size)).to(dtype)
        c.add("aten.upsample_bilinear2d.default", row, [1, n], False, **T), c.add("aten.upsample_linear1d.vec", row[0], [n], False, None, **T), c.add("aten.upsample_bicubic2d.default", row, [1, n], False, **CUBIC)


def grids(c):
    x = c.ramp((2, 2, 3, 4))
    grid = c.ramp((2, 3, 2, 2), lo=-1.375, step=0.125)
    for mode in (0, 1, 2):
        for border in (0, 1, 2):
            for align in (False, True):
                c.add("aten.grid_sampler_2d.default", x, grid, mode, border, align, **CUBIC)
    c.add("aten.grid_sampler.default", x, grid, 0, 0, False, **T), c.add("aten.grid_sampler.default", c.ramp((1, 1, 1, 1)), grid[:1], 0, 2, True, **T), c.add("aten.grid_sampler_2d.default", x, grid * 4, 0, 2, False, **CUBIC)
    c.add("aten.grid_sampler_2d.default", x, torch.full((2, 1, 1, 2), float("nan")), 0, 0, False), c.add("aten.grid_sampler_2d.default", x.double(), grid.double(), 0, 0, True)
    theta = c.ramp((2, 2, 3))
    for align in (False, True):
        for size in ([2, 1, 3, 4], [2, 1, 1, 5]):
            c.add("aten.affine_grid_generator.default", theta, size, align, **T)
        c.add("aten.affine_grid_generator.default", c.ramp((1, 3, 4)), [1, 1, 2, 3, 2], align, **T)


def borders(c):
    x = c.ramp((2, 3, 4))
    for pad in ([1, 2], [0, 0], [-1, 1], [1, 0, 2, 1], [-1, -1, 1, 1, 0, 1], []):
        for value in (0, 2.5, float("-inf")):
            c.add("aten.constant_pad_nd.default", x, pad, value)
        c.add("aten.pad.default", x, pad), c.add("aten.pad.default", x, pad, "constant", 1.5)
    c.add("aten.constant_pad_nd.default", c.ramp((3,), I), [1, 1], 2), c.add("aten.constant_pad_nd.default", c.ramp((3,), B), [1, 1], True), c.add("aten.constant_pad_nd.default", torch.zeros(0, 2), [1, 1, 2, 0], 1.5)
    c.add("aten.constant_pad_nd.default", c.ramp((3,), torch.bfloat16), [1, 1], 0.3)
    for pad in ([1, 2], [3, 0], [0, 0]):
        c.add("aten.reflection_pad1d.default", x, pad)
        for mode in ("reflect", "replicate", "circular"):
            c.add("aten.pad.default", x, pad, mode)
    y = c.ramp((1, 2, 3, 4))
    for pad in ([1, 2, 2, 1], [3, 0, 0, 2], [0, 1, 0, 0]):
        c.add("aten.reflection_pad2d.default", y, pad), c.add("aten.replication_pad2d.default", y, pad)
        for mode in ("reflect", "replicate", "circular"):
            c.add("aten.pad.default", y, pad, mode)
    z = c.ramp((1, 1, 2, 3, 3))
    for pad in ([1, 2, 2, 1, 1, 0], [0, 1, 0, 0, 1, 1]):
        c.add("aten.reflection_pad3d.default", z, pad), c.add("aten.replication_pad3d.default", z, pad)
    c.add("aten.replication_pad2d.default", y, [5, 5, 5, 5])


def patches(c):
    for k, d, p, s in (([2, 3], [1, 1], [0, 0], [1, 1]), ([2, 2], [1, 2], [1, 1], [2, 1]), ([3, 3], [1, 1], [1, 1], [2, 2]), ([1, 1], [1, 1], [0, 0], [3, 3])):
        x = c.ramp((1, 2, 4, 5))
        y = c.add("aten.im2col.default", x, k, d, p, s)
        c.add("aten.im2col.default", x[0], k, d, p, s), c.add("aten.col2im.default", c.ramp(tuple(y.shape), seed=3), [4, 5], k, d, p, s), c.add("aten.col2im.default", c.ramp(tuple(y.shape[1:]), seed=3), [4, 5], k, d, p, s)


def cases(c):
    resize(c)
    grids(c)
    borders(c)
    patches(c)
