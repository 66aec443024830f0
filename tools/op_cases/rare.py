"""Operators that few models have: volumes sampled by a grid, coordinates in a fixed number, medians without NaN, distributions."""
import torch

I = torch.int64
T = {"rtol": 1e-5, "atol": 1e-5}
nan, inf = float("nan"), float("inf")


def cases(c):
    x, grid = c.ramp((2, 2, 3, 4, 2)), c.ramp((2, 2, 1, 3, 3), lo=-1.375, step=0.125)
    for mode in (0, 1):
        for border in (0, 1, 2):
            for align in (False, True):
                c.add("aten.grid_sampler_3d.default", x, grid, mode, border, align, **T)
    c.add("aten.grid_sampler.default", x.double(), grid.double(), 0, 0, True), c.add("aten.grid_sampler_3d.default", x, torch.full((2, 1, 1, 1, 3), nan), 0, 0, False)
    for v in (c.tensor([0, 1.5, -2, 0, nan]), c.tensor([[0, 1, 0], [2, 0, -3]]), c.tensor([[[1, 0]], [[0, 1]]], torch.bool), torch.zeros(0, 3), torch.zeros(2, 2), c.tensor(3)):
        for size in (0, 1, 2, 5):
            c.add("aten.nonzero_static.default", v, size=size), c.add("aten.nonzero_static.default", v, size=size, fill_value=7)
    holes = c.ramp((3, 4))
    holes[0, 1] = holes[0, 2] = holes[2, 3] = nan
    holes[1, :] = nan
    for v in (holes, c.ramp((2, 5)), holes.bfloat16()):
        c.add("aten.nanmedian.default", v)
        for dim in (0, 1):
            c.add("aten.nanmedian.dim", v, dim, skip=(1,)), c.add("aten.nanmedian.dim", v, dim, True, skip=(1,))
    c.add("aten.nanmedian.dim", c.ramp((3, 4), I), 1, skip=(1,)), c.add("aten.nanmedian.default", c.tensor(nan))
    edges = c.tensor([nan, inf, -inf, 0.0, -0.0, 0.25, 0.5, 1, 2.5, -1, -2.5, 5])
    for v in (edges, edges.double(), edges.bfloat16(), c.tensor([0, 1, 2, -1], I)):
        tol = {"rtol": 1e-2, "atol": 1e-3} if v.dtype == torch.bfloat16 else T
        c.add("aten.special_ndtr.default", v, **tol), c.add("aten.special_entr.default", v, **tol)
    n = lambda op, *a, **k: c.add(f"aten.{op}", *a, skip=(0,), **k)
    mean, std = c.ramp((2, 3)), c.tensor([1, 2, 3])
    n("normal.Tensor_Tensor", mean, std), n("normal.Tensor_float", mean, 2.0), n("normal.float_Tensor", 1.5, std), n("normal.float_float", 1.5, 2.0, [2, 3]), n("exponential.default", mean, 2.0)
    c.add("aten.normal.Tensor_Tensor", mean, torch.zeros(3)), c.add("aten.normal.Tensor_float", mean, 0.0), c.add("aten.normal.float_float", 1.5, 0.0, [2])
