"""Windows, sequences between numbers, the trapezoid rule, quantiles."""
import torch

T = {"rtol": 1e-5, "atol": 1e-5}
nan, inf = float("nan"), float("inf")


def gradients(c):
    """Of samples: one distance, one for each dimension, positions; both orders at the edges."""
    y, at = c.ramp((3, 5)), [c.tensor([0, 0.5, 2]), c.tensor([-1, 0, 0.25, 3, 4])]
    for order in (1, 2):
        e = dict(edge_order=order, **T)
        c.add("aten.gradient.scalarint", y, **e), c.add("aten.gradient.scalarint", y, spacing=0.5, dim=-1, **e), c.add("aten.gradient.scalarint", c.ramp((7,)), spacing=2, **e)
        c.add("aten.gradient.scalararray", y, spacing=0.25, dim=[1, 0], **e), c.add("aten.gradient.array", y, dim=[-1], **e)
        c.add("aten.gradient.scalarrayint", y, spacing=[0.5, 2], **e), c.add("aten.gradient.scalarrayint", y, spacing=[3], dim=1, **e)
        c.add("aten.gradient.scalarrayarray", y, spacing=[0.5, 2.0], dim=[1, 0], **e)
        c.add("aten.gradient.tensorarrayint", y, spacing=at, **e), c.add("aten.gradient.tensorarrayint", y, spacing=[at[1]], dim=1, **e)
        c.add("aten.gradient.tensorarray", y, spacing=at[::-1], dim=[1, 0], **e)
    holes = c.tensor([1, nan, 2, inf, 5, -inf, 0, 0.0, 3])
    c.add("aten.gradient.scalarint", holes, **T), c.add("aten.gradient.scalarint", holes, edge_order=2, **T)
    c.add("aten.gradient.scalarint", c.ramp((2, 3)), dim=0, **T), c.add("aten.gradient.tensorarrayint", c.ramp((2, 3)), spacing=[c.tensor([1, 4])], dim=0, **T)
    c.add("aten.gradient.scalarint", c.ramp((4,), torch.float64)), c.add("aten.gradient.scalarint", c.ramp((0, 4)), dim=1, **T)


def cases(c):
    for n in (0, 1, 2, 5, 8):
        for name in ("hann", "hamming", "blackman", "bartlett"):
            c.add(f"aten.{name}_window.default", n, **T)
            for periodic in (True, False):
                c.add(f"aten.{name}_window.periodic", n, periodic, **T)
        c.add("aten.hamming_window.periodic_alpha", n, False, 0.6, **T), c.add("aten.hamming_window.periodic_alpha_beta", n, True, 0.6, 0.3, **T)
    c.add("aten.hann_window.periodic", 6, False, dtype=torch.float64)
    one, two = c.tensor(-1.5), c.tensor(3)
    for steps in (0, 1, 2, 5):
        c.add("aten.linspace.Tensor_Tensor", one, two, steps, **T), c.add("aten.linspace.Tensor_Scalar", one, 2, steps, **T), c.add("aten.linspace.Scalar_Tensor", -2.5, two, steps, **T)
        c.add("aten.logspace.default", -1, 2, steps, **T), c.add("aten.logspace.default", 0.5, 3, steps, 2.0, dtype=torch.float64)
    y, x = c.ramp((2, 4, 3)), c.ramp((4,), seed=3)
    for op in ("trapezoid", "trapz", "cumulative_trapezoid"):
        c.add(f"aten.{op}.dx", y, **T), c.add(f"aten.{op}.dx", y, dx=0.5, dim=1, **T)
        c.add(f"aten.{op}.x", y, x, dim=1, **T), c.add(f"aten.{op}.x", y, c.ramp((4, 3), seed=5), dim=1, **T), c.add(f"aten.{op}.x", y, c.ramp((2, 4, 3), seed=5), dim=2, **T)
        c.add(f"aten.{op}.dx", c.ramp((1,)), **T)
    c.add("aten.trapezoid.dx", torch.zeros(2, 0), **T)
    gradients(c)
    q = c.tensor([0, 0.3, 0.5, 1])
    z = c.ramp((3, 5))
    holes = z.clone()
    holes[0, 1] = holes[1, :] = nan
    for name in ("quantile", "nanquantile"):
        for how in ("linear", "lower", "higher", "nearest", "midpoint"):
            for keep in (False, True):
                c.add(f"aten.{name}.default", holes, q, 1, keep, interpolation=how, **T)
                c.add(f"aten.{name}.scalar", z, 0.35, 0, keep, interpolation=how, **T)
        c.add(f"aten.{name}.default", z, q, **T), c.add(f"aten.{name}.scalar", holes, 0.5, **T), c.add(f"aten.{name}.scalar", z, 0.5, None, True, **T)
        c.add(f"aten.{name}.default", c.ramp((2, 3, 4)), q, 1, True, **T), c.add(f"aten.{name}.default", c.ramp((2, 3, 4)), c.tensor(0.5), -1, **T)
