"""Losses and their gradients."""
import torch

nan, inf = float("nan"), float("inf")
T = {"rtol": 1e-5, "atol": 1e-5}
HALF = {"rtol": 1.6e-2, "atol": 1.6e-2}


def likelihood(c):
    weight = c.tensor([0.5, 2, 0, 1.5, 1])
    for shape, target in (((3, 5), c.tensor([1, 4, 0])), ((5,), c.tensor(2)), ((2, 5, 3), c.tensor([[0, 1, 4], [2, 4, 3]])), ((1, 5, 2, 2), c.tensor([[[4, 3], [1, 0]]]))):
        x, target = c.ramp(shape), target.to(torch.int64)
        for w in (None, weight):
            for reduction in (0, 1, 2):
                for ignore in (-100, 4):
                    if reduction != 1 and ignore == 4 and w is None:
                        continue
                    if len(shape) <= 2:
                        c.add("aten.nll_loss_forward.default", x, target, w, reduction, ignore)
                        loss, total = torch.ops.aten.nll_loss_forward.default(x, target, w, reduction, ignore)
                        g = c.ramp(tuple(loss.shape), seed=4)
                        c.add("aten.nll_loss_backward.default", g, x, target, w, reduction, ignore, total)
                    elif len(shape) == 4:
                        c.add("aten.nll_loss2d_forward.default", x, target, w, reduction, ignore)
                    c.add("aten.nll_loss_nd.default", x, target, w, reduction, ignore)
                    for smoothing in (0.0, 0.25):
                        c.add("aten.cross_entropy_loss.default", x, target, w, reduction, ignore, smoothing, **T)
    x, target = c.ramp((3, 5)), c.tensor([-100, 1, -100]).to(torch.int64)
    c.add("aten.nll_loss.default", x, target), c.add("aten.cross_entropy_loss.default", x, target, weight, 1, -100, 0.1, **T)
    c.add("aten.cross_entropy_loss.default", x, torch.full((3,), -100)), c.add("aten.cross_entropy_loss.default", torch.zeros(0, 5), torch.zeros(0, dtype=torch.int64))
    c.add("aten.nll_loss.default", c.tensor([[-inf, -1], [0, -inf]]), torch.tensor([0, -100]))
    c.add("aten.cross_entropy_loss.default", x.bfloat16(), torch.tensor([1, 0, 3]), **HALF)
    for shape in ((3, 5), (5,), (2, 5, 3)):
        p = c.ramp(shape, seed=6).abs() / 4
        for w in (None, weight):
            for reduction in (0, 1, 2):
                c.add("aten.cross_entropy_loss.default", c.ramp(shape), p, w, reduction, -100, 0.25 if w is None else 0.0, **T)


def pointwise(c):
    x, y = c.ramp((2, 3)), c.ramp((2, 3), seed=7)
    p, q = (c.ramp((2, 3)) + 4) / 9, (c.ramp((2, 3), seed=7) + 4) / 9
    w = c.ramp((3,), seed=2).abs()
    for reduction in (0, 1, 2):
        for a, b in ((x, y), (c.ramp((3,), torch.bfloat16), c.ramp((3,), torch.bfloat16, seed=7)), (torch.zeros(0), torch.zeros(0))):
            tol = HALF if a.dtype == torch.bfloat16 else T
            c.add("aten.mse_loss.default", a, b, reduction, **tol), c.attempt("aten.l1_loss.default", a, b, reduction, **tol)
            for beta in (1.0, 0.25, 2.0):
                c.attempt("aten.smooth_l1_loss.default", a, b, reduction, beta, **tol), c.attempt("aten.huber_loss.default", a, b, reduction, beta, **tol)
        c.attempt("aten.smooth_l1_loss.default", x, y, reduction, 0.0)
        g = c.tensor(1.5) if reduction else c.ramp((2, 3), seed=3)
        c.add("aten.mse_loss_backward.default", g, x, y, reduction, **T)
        for limit in (1.0, 0.75, 3.0):
            c.add("aten.smooth_l1_loss_backward.default", g, x, y, reduction, limit, **T), c.add("aten.huber_loss_backward.default", g, x, y, reduction, limit, **T)
        c.add("aten.smooth_l1_loss_backward.default", g, x, y, reduction, 0.0, **T)
        for weight in (None, w.expand(2, 3).contiguous()):
            c.add("aten.binary_cross_entropy_backward.default", g, p, q, weight, reduction, **T)
        for weight in (None, w):
            c.add("aten.binary_cross_entropy.default", p, q, weight, reduction, **T), c.add("aten.binary_cross_entropy_with_logits.default", x, q, weight, None, reduction, **T)
            c.add("aten.binary_cross_entropy_with_logits.default", x, q, weight, c.tensor([0.5, 2, 1]), reduction, **T)
        c.add("aten.kl_div.default", x, q, reduction, **T), c.add("aten.kl_div.default", x, y, reduction, log_target=True, **T)
    c.add("aten.binary_cross_entropy.default", c.tensor([0, 1, 0, 1]), c.tensor([0, 1, 1, 0]), None, 0)
    one = c.tensor([1, 1, 1, 1])
    c.add("aten.binary_cross_entropy_backward.default", one, c.tensor([0, 1, 0, 1]), c.tensor([0, 1, 1, 0]), None, 0)
    for op in ("smooth_l1", "huber"):
        c.add(f"aten.{op}_loss_backward.default", one, c.tensor([inf, -inf, nan, 2]), c.tensor([0, 1, 1, 2]), 0, 0.5)
    c.add("aten.smooth_l1_loss_backward.default", one, c.tensor([inf, 1, nan, 2]), c.tensor([0, 1, 1, 3]), 0, 0.0)
    c.add("aten.kl_div.default", c.tensor([1, -inf, nan, 2]), c.tensor([0, 1, 1, nan]), 0)
    c.add("aten.binary_cross_entropy_with_logits.default", c.tensor([200, -200, 0, inf]), c.tensor([1, 0, 0.5, 1]), None, None, 0)
    c.add("aten.mse_loss.default", c.edges(), c.ramp((12,)), 0), c.add("aten.huber_loss.default", c.edges(), c.ramp((12,)), 0), c.add("aten.smooth_l1_loss.default", c.edges(), c.ramp((12,)), 0)


def cases(c):
    likelihood(c)
    pointwise(c)
