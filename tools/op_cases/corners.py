"""Corners where PyTorch's CPU kernels follow a rule of their own: NaN, ties, the smallest integer, mixed signs."""
import torch

nan, inf = float("nan"), float("inf")
FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
INTS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def distances(c):
    """The difference is taken in integers (uint8 wraps), everything after it in floats."""
    every = (0.0, 0.5, 1.0, 2.0, 2.5, 3.0, -1.0, inf, -inf)
    for dtype in FLOATS + INTS:
        a, b = c.tensor([[1, 2, 3], [5, 0, 0]], dtype), c.tensor([[4, 0, 1], [5, 0, 7]], dtype)
        for p in every if dtype in (torch.int64, torch.uint8) else (1.0, 2.0, 3.0):
            c.add("aten.pairwise_distance.default", a, b, p, 0.25)
        y = c.tensor([1, -1], torch.int8)
        c.attempt("aten.triplet_margin_loss.default", a, b, b[:1], 1.5, 3.0, 1e-6, dtype.is_signed, 0)
        c.attempt("aten.cosine_embedding_loss.default", a, b, y, 0.25, 0)
        c.attempt("aten.margin_ranking_loss.default", a, b, a, 1.5, 0)
        c.attempt("aten.hinge_embedding_loss.default", a, c.tensor([[1, -1, 1], [-1, 1, -1]], torch.int64), 2.5, 0)
        if dtype not in (torch.bfloat16, torch.float16):  # eager rounds 1e-8 to 0 there
            for log_input in (True, False):
                c.attempt("aten.poisson_nll_loss.default", a, b, log_input, True, 1e-8, 0)
    a, b = c.tensor([[1, 2, 3]], torch.int64), c.tensor([[4, 0, 1]], torch.int64)
    for swap in (False, True):
        c.add("aten.triplet_margin_loss.default", a, b, b * 2, 1.5, 1.0, 1e-6, swap, 0)
    c.add("aten.pairwise_distance.default", a, b, 3.0, 1e-6, True), c.add("aten.pairwise_distance.default", a[0], b, 3.0)
    c.add("aten.pairwise_distance.default", a[:0], b[:0], 3.0), c.add("aten.pairwise_distance.default", a[:, :1], b[:, :1], 1.5)
    c.add("aten.pairwise_distance.default", c.tensor([[1, 2, 3]], torch.uint8), c.tensor([[1.5, 0, 1]], torch.bfloat16), 3.0)
    c.add("aten.pairwise_distance.default", c.tensor([[1, 2, 3]], torch.int64), c.tensor([[1, 0, 200]], torch.int8), 1.5)


def borders(c):
    """Circular borders repeat what is left after negative amounts have cut; the other modes look at the whole."""
    x = c.ramp((1, 2, 5))
    for pad in ([-2, 3], [3, -2], [-1, -1], [5, 0], [-4, 1], [0, -3], [1, -4]):
        for mode in ("circular", "reflect", "replicate"):
            c.attempt("aten.pad.default", x, pad, mode)
    c.add("aten._pad_circular.default", x, [-2, 2]), c.add("aten._pad_enum.default", x, [2, -3], 2)
    for dtype in FLOATS[1:] + INTS + (torch.bool,):
        c.add("aten._pad_circular.default", c.ramp((1, 2, 5), dtype), [-2, 3])
    x = c.ramp((1, 2, 4, 5))
    for pad in ([-1, 2, 1, 1], [2, -1, -2, 1], [1, -3, 3, -1]):
        c.add("aten.pad.default", x, pad, "circular")
    x = c.ramp((1, 1, 3, 4, 3))
    c.add("aten.pad.default", x, [-1, 1, 2, -1, 1, -1], "circular")
    c.add("aten.pad.default", c.ramp((1, 2, 1)), [1, 1], "circular"), c.add("aten.pad.default", c.ramp((0, 2, 3)), [-1, 1], "circular")


def factors(c):
    """`info` is the first zero on the diagonal; rows below the square have none."""
    for dtype in (torch.float32, torch.float64):
        for shape in ((3, 2), (2, 3), (4, 1), (1, 4), (5, 3), (2, 4, 3), (0, 3, 2), (3, 0), (0, 3), (1, 1)):
            x = c.ramp(shape, dtype) ** 2 + c.ramp(shape, dtype, seed=4)
            for a in (x, torch.ones(shape, dtype=dtype), torch.zeros(shape, dtype=dtype)):
                c.add("aten.linalg_lu_factor_ex.default", a), c.attempt("aten.linalg_lu_factor.default", a)


def gammas(c):
    near_poles = [-1e-15, -1e-7, -1e-30, -1e-300, 1e-15, 1e-300, -1 - 1e-6, -1 + 1e-6, -0.5, -2.5, -1e6 - 0.5, -1e-3, -3.9999]
    for dtype in FLOATS:
        for op in ("digamma", "special_psi"):
            c.add(f"aten.{op}.default", c.tensor(near_poles + [-inf, inf, nan, 0.0, -0.0, -1, -7, 1, 1.5, 12.25, 1e10], dtype))
        c.add("aten.digamma.default", torch.zeros(0, dtype=dtype)), c.add("aten.digamma.default", c.tensor([-1e-3], dtype))
        c.add("aten.polygamma.default", 0, c.tensor(near_poles, dtype))
    for dtype in INTS + (torch.bool,):
        c.add("aten.digamma.default", c.tensor([0, 1, 7], dtype))
    for dtype in FLOATS[:2]:
        c.add("aten.lgamma.default", c.tensor(near_poles, dtype)), c.add("aten.sinc.default", c.tensor(near_poles, dtype))


def sampling(c):
    """2-d takes a NaN coordinate as 0, 3-d as the last pixel, after reflection too, which makes NaN of infinities."""
    at = [nan, inf, -inf, 0.25]
    flat = torch.tensor([[x, y] for x in at for y in at]).reshape(1, 4, 4, 2)
    deep = torch.tensor([[x, y, 0.25] for x in at for y in at] + [[0, 0, z] for z in at]).reshape(1, 1, 4, 5, 3)
    for mode in (0, 1, 2):
        for border in (0, 1, 2):
            for aligned in (False, True):
                c.add("aten.grid_sampler_2d.default", c.ramp((1, 1, 3, 4)), flat, mode, border, aligned)
                if mode < 2:
                    c.add("aten.grid_sampler_3d.default", c.ramp((1, 1, 2, 3, 4)), deep, mode, border, aligned)
    for dtype in FLOATS:
        for border in (1, 2):
            c.attempt("aten.grid_sampler_2d.default", c.ramp((1, 1, 1, 2), dtype), flat.to(dtype), 0, border, True)
            c.attempt("aten.grid_sampler_3d.default", c.ramp((1, 1, 2, 1, 2), dtype), deep.to(dtype), 0, border, True)


def pooling(c):
    """Of several NaN in a window the last is reported, of other equals the first."""
    values = [1, nan, 2, nan, 3, nan, 4, 5, 6, 7, 8, 9, nan, nan, nan, nan, -inf, nan, nan, 0, -inf, -inf, 5, 5]
    x = c.tensor(values)
    for k, s, p, dil in ((3, 2, 0, 1), (3, 1, 1, 1), (2, 3, 1, 2), (1, 1, 0, 1)):
        c.attempt("aten.max_pool1d_with_indices.default", x.reshape(1, 2, 12), [k], [s], [p], [dil])
        c.attempt("aten.max_pool2d_with_indices.default", x.reshape(1, 1, 4, 6), [k, k], [s, s], [p, p], [dil, dil], True)
        c.attempt("aten.max_pool3d_with_indices.default", x.reshape(1, 1, 2, 3, 4), [k] * 3, [s] * 3, [p] * 3, [dil] * 3)
    for n in (1, 2, 5):
        c.add("aten.adaptive_max_pool1d.default", x.reshape(1, 2, 12), [n])
        c.add("aten.adaptive_max_pool2d.default", x.reshape(1, 1, 4, 6), [n, 2])
        c.add("aten.adaptive_max_pool3d.default", x.reshape(1, 1, 2, 3, 4), [1, n, 3])
    for dtype in FLOATS:
        x = c.tensor(values, dtype)
        c.add("aten.max_pool2d_with_indices.default", x.reshape(1, 1, 4, 6), [2, 2], [2, 2], [1, 1])
        c.add("aten.adaptive_max_pool2d.default", x.reshape(1, 4, 6), [3, 4])
        rows = x.reshape(6, 4)
        c.add("aten.argmax.default", rows, 1), c.add("aten.argmin.default", rows), c.add("aten.max.dim", rows, 1), c.add("aten.cummin.default", rows, 0)
    c.attempt("aten.max_pool2d_with_indices.default", c.ramp((1, 4, 6), torch.int64), [3, 3], [1, 1], [1, 1])


def clamped(c):
    for dtype in FLOATS:
        x = c.tensor([0, 0.1, 0.25, 0.3, 0.5, 0.7, 0.75, 0.9, 1, nan, -1, 2, inf, -inf], dtype)
        for eps in (0.0, 0.25, 0.5, 0.6, 0.75, 1.0, 1.5, -0.25, None) if dtype == torch.float32 else (0.25, 0.75):
            c.add("aten.logit.default", x, eps), c.attempt("aten.logit_backward.default", torch.ones_like(x), x, eps)
        c.add("aten.special_logit.default", x[:1], 0.6), c.add("aten.logit.default", x[:0], 0.6)
        for lo, hi in ((0.6, 0.4), (nan, 0.5)):
            c.add("aten.clamp.default", x, lo, hi), c.add("aten.hardtanh.default", x, lo, hi)
    for dtype in INTS + (torch.bool,):
        c.attempt("aten.logit.default", c.tensor([0, 1], dtype), 0.75)


def dropped(c):
    mask = torch.tensor([True, True, False, True])
    for dtype in FLOATS + INTS + (torch.bool,):
        x = c.tensor([3, 5, 1, 0], dtype)
        c.add("aten.native_dropout_backward.default", x, mask, 2.5), c.add("aten.native_dropout_backward.default", x, mask.float(), 0.5)
        c.add("aten.native_dropout.default", x, 0.5, False), c.add("aten.dropout.default", x, 1.0, True)
    x = c.tensor([3], torch.int64)
    c.add("aten.native_dropout_backward.default", x, mask[:1], 2.5), c.add("aten.native_dropout_backward.default", x[:0], mask[:0], 2.5)


def close(c):
    """Every step of isclose rounds to the dtype, the tolerance too, and the outcome is yes or no."""
    for dtype in FLOATS:
        x = torch.arange(1, 4000, dtype=torch.float64) / 256
        for rtol, atol in ((0.01, 0.01), (1e-3, 0.03), (0.02, 0.001)):
            a, b = x.to(dtype), (x + (atol + rtol * x) * (1 + 0.004 * torch.sin(x * 1000))).to(dtype)
            exact = (a.double() - b.double()).abs() <= atol + (rtol * b.double()).abs()
            by_steps = torch.isclose(a, b, rtol, atol)
            kept = torch.cat([torch.nonzero(exact != by_steps)[:6, 0], torch.arange(6)])  # where the rounding of a step decides, and some others
            c.add("aten.isclose.default", a[kept], b[kept], rtol, atol)
        odd = c.tensor([nan, inf, -inf, 300, 1e-8], dtype)
        for equal_nan in (False, True):
            c.add("aten.isclose.default", odd[:, None], odd, 0.01, 0.1, equal_nan)
        c.add("aten.isclose.default", odd[:0], odd[:0])
    for dtype in INTS + (torch.bool,):
        x = c.edges(dtype)
        c.attempt("aten.isclose.default", x[:, None], x, 0.1, 0.5)


def divisors(c):
    """Euclid's remainders of the smallest integer, which has no absolute value."""
    for dtype in INTS:
        x = c.edges(dtype)
        x = torch.cat([x, c.tensor([6, 4, 100], dtype)])
        c.add("aten.gcd.default", x[:, None], x)
        if dtype in (torch.int16, torch.int8, torch.uint8):  # the wider divide the smallest by -1, which traps
            c.add("aten.lcm.default", x[:, None], x)
    c.add("aten.gcd.default", c.tensor([-128, 127], torch.int8), c.tensor([[-32768], [-128]], torch.int16))


def medians(c):
    """The index in a row of nothing but NaN is where the standard library's nth_element leaves it."""
    for dtype in FLOATS:
        for n in (1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 31, 100) if dtype == torch.float32 else (1, 8):
            c.add("aten.nanmedian.dim", torch.full((n,), nan, dtype=dtype), 0)
        rows = c.tensor([[1, nan, 2, nan, 7], [nan] * 5, [3, nan, nan, nan, nan], [nan, 1, 5, 3, 2]], dtype)
        for dim in (0, 1):
            c.add("aten.nanmedian.dim", rows, dim, True), c.add("aten.median.dim", rows, dim)
        c.add("aten.nanmedian.default", rows), c.add("aten.nanmedian.default", rows[1]), c.add("aten.median.default", rows)
    c.add("aten.nanmedian.dim", c.tensor([[4, 1, 3], [9, 8, 7]], torch.int64), 1)


def positions(c):
    """Along a dimension positions wrap both ways; among all elements they must fit."""
    for dtype in FLOATS + INTS + (torch.bool,):
        x = c.ramp((3, 4), dtype)
        c.add("aten.take_along_dim.default", x, torch.tensor([[-1, 0, -4]]), 1)
    x = c.ramp((3, 4))
    c.add("aten.take_along_dim.default", x, torch.tensor([[-5, 4, 7, -9]]), 1), c.add("aten.take_along_dim.default", x, torch.tensor([[0], [1], [-1]]), -1)
    c.add("aten.take_along_dim.default", x[:1], torch.zeros(1, 0, dtype=torch.int64), 1), c.add("aten.take_along_dim.default", x, torch.tensor([[11, 0], [3, 5]]))
    c.add("aten.take.default", x, torch.tensor([-1, -12, 3])), c.add("aten.take_along_dim.default", x, torch.tensor([[-3], [2]]), 0)
    c.add("aten.index_fill.int_Scalar", x, 1, torch.tensor([-1, 1]), 9)


def cases(c):
    for part in (distances, borders, factors, gammas, sampling, pooling, clamped, dropped, close, divisors, medians, positions):
        part(c)
