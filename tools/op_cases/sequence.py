"""Windows, sequences between numbers, the trapezoid rule, quantiles."""
import torch

T = {"rtol": 1e-5, "atol": 1e-5}
nan, inf = float("nan"), float("inf")


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
